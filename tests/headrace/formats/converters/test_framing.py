"""Values in a registry's framing, and what is too short for one."""

from typing import Final

import pytest

from headrace.conversion.sink_records import RecordConverter
from headrace.formats.arrow import arrow_binary
from headrace.formats.converters.framing import ConfluentFraming, Framing, GlueFraming
from headrace.formats.converters.typed_columns import RowFaults
from headrace.model.columns import column_of
from headrace.options.sink_settings import ConverterKind, ConverterSettings, OutputFormat
from tests.headrace.formats.encoding.outputs import converters, fetched, output
from tests.headrace.formats.encoding.registry import registry

_SHORT: Final = (b"x", b"nope", b"\x00", b"\x00\x00\x00\x00", b"\x01", b"\x03\x00", b"")


@pytest.mark.parametrize("last", _SHORT)
@pytest.mark.parametrize("has_messages", [False, True])
@pytest.mark.parametrize("framing", [ConfluentFraming, GlueFraming])
def test_nothing_begins_outside_the_buffer(
    framing: type[ConfluentFraming | GlueFraming], last: bytes, *, has_messages: bool
) -> None:
    """Where the last value is shorter than what would be before it, Arrow has no place for it."""
    faults = RowFaults()
    made: Framing = framing(has_messages=has_messages)
    data = made.frames(column_of([None, last]), "value", faults).data
    assert [reason for reason, *_ in faults.found.values()] == ["not_framed"]
    assert arrow_binary(data).to_pylist() == [None, b""]


@pytest.mark.parametrize("kind", [ConverterKind.AVRO, ConverterKind.JSON_SCHEMA, ConverterKind.PROTOBUF])
@pytest.mark.parametrize("form", [OutputFormat.JSONL, OutputFormat.CSV, OutputFormat.AVRO])
@pytest.mark.parametrize("last", _SHORT)
def test_a_value_that_is_too_short_is_a_bad_record(
    kind: ConverterKind, form: OutputFormat, last: bytes
) -> None:
    """It is one, whatever it comes after."""
    settings = ConverterSettings(kind=kind, registry=registry())
    converter = RecordConverter(converters(settings), output(form))
    for values in ([last], [None, last], [b"nopes", last]):
        found = converter.convert(fetched(values))
        filled = sum(each is not None for each in values)
        assert [fault.reason for fault in found.faults] == ["not_framed"] * filled
