"""Schemas that we make against those inside the objects that the real sinks wrote, byte for byte."""

import json

import pytest

from headrace.formats.connect import ConnectSchema, InvalidSchema, Type, plain, struct
from headrace.formats.connect.from_avro import schema_of_avro
from headrace.formats.connect.java_text import (
    AIVEN_AVRO,
    AIVEN_PARQUET,
    CONFLUENT_HEADERS,
    aiven_record,
    avro_text,
    confluent_key,
    lenses_envelope,
)
from headrace.formats.connect.schema import schema_of_json
from headrace.formats.connect.to_avro import avro_of_schema, avro_tree
from headrace.options.schema_settings import CONVERTER, S3_SINK, AvroOptions
from tests.headrace.formats.connect.archived_schemas import avro_schemas, source_schemas
from tests.support.connect_schemas import json_of_schema

_TEXT = plain(Type.STRING, optional=True)
_BYTES = plain(Type.BYTES, optional=True)
_OPTIONS = pytest.mark.parametrize("options", [CONVERTER, S3_SINK], ids=["converter", "s3_sink"])


@_OPTIONS
def test_confluent_writes_the_schema_of_the_value(options: AvroOptions) -> None:
    """Confluent's Avro and Parquet objects: schemas of values, and of keys and headers beside them."""
    made = {avro_of_schema(schema, options) for schema in source_schemas()}
    made |= {avro_of_schema(confluent_key(_TEXT), options), avro_of_schema(CONFLUENT_HEADERS, options)}

    assert set(avro_schemas("confluent")) <= made


@_OPTIONS
def test_lenses_writes_values_and_envelopes(options: AvroOptions) -> None:
    """Lenses' Avro and Parquet objects, with and without envelope, of structs, bytes and tombstones."""
    made = {avro_of_schema(schema, options) for schema in source_schemas()}
    headers = [("h1",), ("h1", "h2"), ("dup",), ("dup", "other"), ("h",), ("h", "why"), ()]
    for names in headers:
        for part, key, value in [
            *((_TEXT, _TEXT, schema) for schema in source_schemas()),
            (_TEXT, _TEXT, None),
            (_BYTES, _BYTES, _BYTES),
        ]:
            envelope = lenses_envelope(key, value, [(name, part) for name in names])
            made.add(avro_of_schema(envelope, options))

    assert set(avro_schemas("lenses")) <= made


@_OPTIONS
def test_aiven_puts_its_own_record_around_them(options: AvroOptions) -> None:
    """Aiven's Avro and Parquet objects: fields in the order of the configuration, headers as a map."""
    trees = {
        "key": avro_tree(_TEXT, options),
        "offset": "long",
        "timestamp": "long",
        "text_headers": {"type": "map", "values": avro_tree(_TEXT, options)},
        "int8_headers": {"type": "map", "values": avro_tree(plain(Type.INT8), options)},
    }
    made = set()
    for schema in source_schemas():
        tree = avro_tree(schema, options)
        made.add(avro_text(tree))
        for order in _AIVEN_FIELDS:
            fields = [(name.rpartition("_")[2], {**trees, "value": tree}[name]) for name in order.split()]
            made |= {avro_text(aiven_record(fields, space)) for space in (AIVEN_AVRO, AIVEN_PARQUET)}

    assert set(avro_schemas("aiven")) <= made


_AIVEN_FIELDS = (
    "key value timestamp",
    "key value offset timestamp",
    "timestamp key value offset",
    "key value offset timestamp text_headers",
    "key value offset timestamp int8_headers",
)


@_OPTIONS
def test_archived_schemas_survive_connect(options: AvroOptions) -> None:
    """Avro to Connect and back: the very text, where AvroData has written it."""
    texts = [*avro_schemas("confluent"), *avro_schemas("lenses")]
    assert len(texts) > 10
    for text in texts:
        schema = schema_of_avro(text, options=options)
        assert schema is not None
        assert avro_of_schema(schema, options) == text


def test_source_schemas_are_read_and_written_as_json() -> None:
    """JSON to a schema and back, and the schema of no schema."""
    assert len(source_schemas()) > 2
    for schema in source_schemas():
        assert schema_of_json(json.dumps(json_of_schema(schema))) == schema
    assert schema_of_json("null") is None


def test_a_header_that_is_no_name_is_refused() -> None:
    """As Lenses' sink fails at it, with the name in the sentence; Confluent's option replaces it."""
    schema = struct(("content-type", plain(Type.STRING)))

    with pytest.raises(InvalidSchema, match="'content-type' is no name for Avro"):
        avro_of_schema(schema)
    scrubbed = json.loads(avro_of_schema(schema, AvroOptions(scrub_names=True)))
    assert [field["name"] for field in scrubbed["fields"]] == ["content_type"]


def test_two_types_of_one_name_are_refused() -> None:
    """Avro cannot tell them apart."""
    one = struct(("a", plain(Type.STRING)), name="x.Y")
    other = struct(("b", plain(Type.STRING)), name="x.Y")

    with pytest.raises(InvalidSchema, match=r"two different types are named x\.Y"):
        avro_of_schema(struct(("one", one), ("other", other)))


def test_one_type_at_two_places_is_defined_once() -> None:
    """With its full name where the record around it has another namespace."""
    inner = struct(("a", plain(Type.STRING)), name="x.Y")
    outer = struct(("one", inner), ("two", ConnectSchema(type=Type.ARRAY, items=inner)), name="z.Z")
    fields = json.loads(avro_of_schema(outer, AvroOptions(meta_data=False)))["fields"]

    assert fields[0]["type"]["namespace"] == "x"
    assert fields[1]["type"] == {"type": "array", "items": "x.Y"}
