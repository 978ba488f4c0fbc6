"""The values of headers: bytes as they are, or checked to be text or JSON."""

from collections.abc import Callable

from ingest.settings.sink_settings import ConverterKind, ConverterSettings
from spark.converters.segments import RowFaults
from spark.formats.json_check import fault
from spark.kafka_records import Headers, KafkaRecords


class HeaderConverter:
    """Checks the headers of records. They are written as they are."""

    def __init__(self, settings: ConverterSettings) -> None:
        checks: dict[ConverterKind, Callable[[bytes], bool]] = {
            ConverterKind.STRING: _is_text,
            ConverterKind.JSON: _is_json,
        }
        self._kind = settings.kind
        self._check = checks.get(settings.kind)

    def check(self, records: KafkaRecords, faults: RowFaults) -> None:
        """Notes the records with a header that is not what the converter says."""
        if records.headers is None or self._check is None:
            return
        known: dict[Headers, bool] = {}
        for row, headers in enumerate(records.headers):
            if headers not in known:
                known[headers] = all(value is None or self._check(value) for _, value in headers)
            if not known[headers]:
                what = "no JSON text" if self._kind is ConverterKind.JSON else "no text in UTF-8"
                faults.add(row, "header_unfit", f"a header's value is {what}")


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_json(value: bytes) -> bool:
    return fault(value) is None
