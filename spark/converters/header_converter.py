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
            ConverterKind.SIMPLE: _is_text,
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


def check_headers_beside(records: KafkaRecords, faults: RowFaults) -> None:
    """Notes the records that can have no row in an object of headers."""
    headers = records.headers if records.headers is not None else [()] * len(records)
    for row, each in enumerate(headers):
        if not each:
            faults.add(row, "no_headers", "it has no headers, and sidecars=headers has a row for each")
        elif any(value is None for _, value in each):
            faults.add(
                row, "null_header", "a header's value is null, and those in sidecars=headers are texts"
            )


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_json(value: bytes) -> bool:
    return fault(value) is None
