"""Schemas of a few lines, each of whose types is used twice in the next one: a million columns."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from headrace.conversion.sink_records import RecordConverter
from headrace.formats.avro_schema import FIELDS_MAX, field_count, parse_schema
from headrace.formats.connect import InvalidSchema
from headrace.formats.connect.from_avro import schema_of_avro
from headrace.formats.connect.schema_documents import schema_of_json_schema
from headrace.formats.content_kind import RowFormat
from headrace.formats.records.decode_options import ObjectRestore
from headrace.formats.records.protobuf_schemas import ProtobufSchema, connect_schema
from headrace.model.errors import InvalidObject
from headrace.names.archive_names import ArchiveName, LayoutName
from headrace.options.choices import InputFormat, RestoreOptions
from headrace.options.sink_settings import OutputFormat
from tests.headrace.formats.avro_files import container
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.encoding.outputs import converters, fetched, output
from tests.headrace.formats.encoding.registry import avro, framed, registry
from tests.headrace.formats.memory_source import MemorySource, decode_all

_LEVELS: Final = 20
_OPTIONS: Final = decode_options(InputFormat.AVRO)
_SENTENCE: Final = "it has more than 20,000 fields"


def _as_it_is(kind: Any) -> Any:
    return kind


def _optional(kind: Any) -> Any:
    return ["null", kind]


def _listed(kind: Any) -> Any:
    return {"type": "array", "items": kind}


def _doubled(levels: int, leaf: str, wrap: Callable[[Any], Any]) -> dict[str, Any]:
    """Records L0 to Ln, each with two of the one before."""
    shape: dict[str, Any] = {"type": "record", "name": "L0", "fields": [{"name": "v", "type": leaf}]}
    for level in range(1, levels + 1):
        fields = [{"name": "a", "type": wrap(shape)}, {"name": "b", "type": wrap(f"L{level - 1}")}]
        shape = {"type": "record", "name": f"L{level}", "fields": fields}
    return shape


@pytest.mark.parametrize(("wrap", "empty"), [(_optional, None), (_listed, [])])
def test_data_of_such_a_schema_are_read_one_by_one(wrap: Callable[[Any], Any], empty: Any) -> None:
    """What they hold is small, whatever their schema would be side by side."""
    data = container(_doubled(_LEVELS, "int", wrap), [(3, b"\0\0" * 3)])

    found = decode_all(MemorySource(data), _OPTIONS)

    assert [json.loads(row or b"") for _, row in found.rows] == [{"a": empty, "b": empty}] * 3


def test_a_datum_without_bytes_that_is_a_million_values_is_refused() -> None:
    """Nothing but nulls takes no byte, and the more memory."""
    data = container(_doubled(_LEVELS, "null", _as_it_is), [(1, b"")])

    with pytest.raises(InvalidObject) as caught:
        decode_all(MemorySource(data), _OPTIONS)

    assert caught.value.reason == "unit_too_large"


def test_a_sink_reads_such_data_as_text_and_has_no_columns_for_them() -> None:
    """A sentence for each record, at once."""
    one = registry()
    schema = _doubled(_LEVELS, "int", _optional)
    values = [framed(one, schema, {"a": None, "b": None})] * 2

    as_text = RecordConverter(converters(avro(one)), output(OutputFormat.JSONL)).convert(fetched(values))
    as_columns = RecordConverter(converters(avro(one)), output(OutputFormat.PARQUET)).convert(fetched(values))

    assert [run.value.texts().get(1) for run in as_text.runs] == [b'{"a":null,"b":null}']
    assert [fault.reason for fault in as_columns.faults] == ["schema_unsupported"] * 2
    assert _SENTENCE in as_columns.faults[0].message


def test_a_type_within_itself_is_named_however_wide_the_ones_before_it_are() -> None:
    """A sound type is looked at once."""
    one = registry()
    wide = _doubled(_LEVELS, "int", _optional)
    itself = {"type": "record", "name": "T", "fields": [{"name": "next", "type": ["null", "T"]}]}
    fields = [{"name": "wide", "type": ["null", wide]}, {"name": "tree", "type": ["null", itself]}]
    schema = {"type": "record", "name": "Both", "fields": fields}
    values = [framed(one, schema, {"wide": None, "tree": None})]

    found = RecordConverter(converters(avro(one)), output(OutputFormat.PARQUET)).convert(fetched(values))

    assert "the field tree.next refers to itself" in found.faults[0].message


def _of_avro(levels: int) -> Any:
    return schema_of_avro(json.dumps(_doubled(levels, "int", _optional)))


def _of_json_schema(levels: int) -> Any:
    kinds: dict[str, Any] = {"L0": {"type": "object", "properties": {"v": {"type": "integer"}}}}
    for level in range(1, levels + 1):
        below = {"$ref": f"#/definitions/L{level - 1}"}
        kinds[f"L{level}"] = {"type": "object", "properties": {"a": below, "b": below}}
    return schema_of_json_schema(json.dumps({"definitions": kinds, "$ref": f"#/definitions/L{levels}"}), {})


def _of_merged_json_schema(levels: int) -> Any:
    kinds: dict[str, Any] = {}
    for side in "ab":
        kinds[f"{side}0"] = {"type": "object", "properties": {side: {"type": "integer"}}}
        for level in range(1, levels + 1):
            both = [{"$ref": f"#/definitions/{each}{level - 1}"} for each in "ab"]
            kinds[f"{side}{level}"] = {"allOf": both}
    return schema_of_json_schema(json.dumps({"definitions": kinds, **kinds[f"a{levels}"]}), {})


def _of_protobuf(levels: int) -> Any:
    messages = [
        f"message L{each} {{ L{each - 1} a = 1; L{each - 1} b = 2; }}" for each in range(1, levels + 1)
    ]
    text = f'syntax = "proto3"; message Top {{ L{levels} t = 1; }} message L0 {{ int32 v = 1; }} '
    return connect_schema(ProtobufSchema(text + " ".join(messages), {}).message((0,)))


@pytest.mark.parametrize("read", [_of_avro, _of_json_schema, _of_merged_json_schema, _of_protobuf])
def test_connect_has_no_schema_of_so_many_fields(read: Callable[[int], Any]) -> None:
    """Connect's schemas hold each type in full wherever it is used; fewer fields are read as ever."""
    assert read(8) is not None

    with pytest.raises(InvalidSchema, match=_SENTENCE):
        read(_LEVELS)


@pytest.mark.parametrize("member", ["headers", "metadata"])
def test_an_archive_whose_headers_would_be_a_million_columns_is_refused(member: str) -> None:
    """What layouts look into is laid out in full."""
    wide = {"name": member, "type": ["null", _doubled(_LEVELS, "int", _optional)]}
    row = {"type": "record", "name": "Row", "fields": [{"name": "value", "type": "string"}, wide]}
    restore = ObjectRestore(
        name=ArchiveName(key="k", layout=LayoutName.CONFLUENT, rule="default", topic="orders", partition=0),
        row_format=RowFormat.AVRO,
        options=RestoreOptions(),
        text=None,
        arrow=lambda _to_json, _shape: lambda _array: pytest.fail("nothing is read"),
    )

    with pytest.raises(InvalidObject) as caught:
        decode_all(MemorySource(container(row, [(1, b"\0\0")])), replace(_OPTIONS, archive=restore))

    assert caught.value.reason == "invalid_schema"


def test_types_that_are_used_again_and_again_have_columns() -> None:
    """Honest schemas are large too."""
    one = registry()
    schema = _doubled(10, "int", _optional)
    assert 3_000 < field_count(parse_schema(json.dumps(schema))) <= FIELDS_MAX
    values = [framed(one, schema, {"a": None, "b": None})]

    found = RecordConverter(converters(avro(one)), output(OutputFormat.PARQUET)).convert(fetched(values))

    assert found.faults == ()
