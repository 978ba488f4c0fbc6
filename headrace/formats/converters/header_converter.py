"""The values of headers: bytes as they are, or checked to be text, JSON or numbers."""

from collections.abc import Callable
from functools import partial
from typing import Final

from headrace.formats.converters.segments import RowFaults
from headrace.formats.header_values import HeaderReader, header_reader
from headrace.formats.json_check import fault
from headrace.model.kafka_records import Headers, KafkaRecords
from headrace.options.sink_settings import NUMBER_KINDS, ConverterKind, ConverterSettings


class HeaderConverter:
    """Checks the headers of records. They are written as they are."""

    def __init__(self, settings: ConverterSettings) -> None:
        checks: dict[ConverterKind, Callable[[bytes], bool]] = {
            ConverterKind.STRING: _is_text,
            ConverterKind.JSON: _is_json,
        }
        if settings.kind in NUMBER_KINDS:
            checks[settings.kind] = partial(_is_read, header_reader(settings.kind))
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
                what = _WHAT.get(self._kind, f"not the bytes of a {self._kind}")
                faults.add(row, "header_unfit", f"a header's value is {what}")


_WHAT: Final = {ConverterKind.JSON: "no JSON text", ConverterKind.STRING: "no text in UTF-8"}


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


def _is_read(read: HeaderReader, value: bytes) -> bool:
    try:
        read(value)
    except ValueError:
        return False
    return True


def _is_json(value: bytes) -> bool:
    return fault(value) is None
