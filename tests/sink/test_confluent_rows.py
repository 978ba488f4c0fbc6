"""Rows of `output.layout=confluent` against those in the objects that Confluent's sink wrote."""

import gzip
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import fastavro
import pyarrow.parquet as pq
import pytest

from tests.headrace.vendors.archive import Archive, Record, archive
from tests.support.sink_archives import written

_SINK: Final[dict[str, str]] = {
    "connector.class": "HeadraceSink",
    "aws.s3.bucket.name": "bucket",
    "topics.regex": ".*",
    "output.layout": "confluent",
    "rotate.records": "3",
}
_CONVERTERS: Final[tuple[str, ...]] = (
    "key.converter",
    "value.converter",
    "header.converter",
    "value.converter.schemas.enable",
)


def _bodies(source: Archive, **options: str) -> list[bytes]:
    """What we write of the archive's records."""
    given = {name: str(source.config[name]) for name in _CONVERTERS if name in source.config}
    own = {name.replace("_", "."): text for name, text in options.items()}
    found = written({**_SINK, **given, **own}, source.records)

    assert not found.stops
    return [each.body for each in found.objects.values()]


def _lines(bodies: Iterable[bytes]) -> list[str]:
    texts = [gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body for body in bodies]
    return sorted(line.decode() for text in texts for line in text.split(b"\n") if line)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("confluent-json_struct_numeric", {"json_decimal_format": "numeric"}),
        ("confluent-field_flat", {}),
        ("confluent-json_string", {}),
    ],
)
def test_lines_are_the_very_bytes(name: str, options: Mapping[str, str]) -> None:
    """Structs by their schema, text as JSON strings."""
    source = archive(name)

    assert _lines(_bodies(source, output_format="jsonl", **options)) == _lines(source.objects.values())


@pytest.mark.parametrize("name", ["confluent-json_default", "confluent-json_any_ignore"])
def test_lines_without_a_schema_are_the_same_json(name: str) -> None:
    """Theirs are in the order of a hash table; a JSON null is no value there."""
    source = archive(name)
    found = _lines(_bodies(source, output_format="jsonl", behavior_on_null_values="ignore"))

    def parsed(lines: list[str]) -> list[str]:
        return sorted(json.dumps(json.loads(line), sort_keys=True) for line in lines)

    assert parsed(found) == parsed(_lines(source.objects.values()))


def _avro(bodies: Iterable[bytes]) -> list[tuple[str, str]]:
    """Each row with the schema of its object, without the library's marks."""
    found = []
    for body in bodies:
        reader = fastavro.reader(io.BytesIO(body))
        schema = reader.metadata["avro.schema"]
        found += [(schema, repr(row)) for row in reader]
    return sorted(found)


@pytest.mark.parametrize("codec", ["none", "snappy"])
def test_avro_has_schema_and_rows_of_the_other(codec: str) -> None:
    """The text of the schema is theirs, properties of Kafka Connect included."""
    source = archive("confluent-avro_null" if codec == "none" else "confluent-avro_snappy")
    found = _bodies(source, output_format="avro", file_compression_type=codec)

    assert [(json.loads(schema), row) for schema, row in _avro(found)] == [
        (json.loads(schema), row) for schema, row in _avro(source.objects.values())
    ]


def _parquet(bodies: Iterable[bytes]) -> list[tuple[dict[bytes, bytes], str]]:
    found: list[tuple[dict[bytes, bytes], str]] = []
    for body in bodies:
        table: Any = pq.read_table(io.BytesIO(body))
        found += [(dict(table.schema.metadata), repr(row)) for row in table.to_pylist()]
    return sorted(found, key=repr)


@pytest.mark.parametrize("codec", ["none", "snappy"])
def test_parquet_has_metadata_and_rows_of_the_other(codec: str) -> None:
    """Whoever reads theirs reads ours."""
    source = archive(f"confluent-parquet_{codec}")
    found = _bodies(source, output_format="parquet", file_compression_type=codec)

    assert _parquet(found) == _parquet(source.objects.values())


def test_bytes_stand_as_they_are() -> None:
    """With the separator behind each."""
    source = archive("confluent-tags")
    found = _bodies(
        source,
        output_format="bytes",
        output_separator="\\x00\\x01sep\\x01",
        behavior_on_null_values="ignore",
        file_compression_type="none",
    )

    assert sorted(found) == sorted(source.objects.values())


def test_what_is_no_record_stops_parquet() -> None:
    """In a sentence, and nothing of it is written."""
    source = archive("confluent-json_string")
    given = {name: str(source.config[name]) for name in _CONVERTERS if name in source.config}
    found = written({**_SINK, **given, "output.format": "parquet"}, source.records)

    assert not found.objects
    messages = {stop.message.partition(": ")[2] for stop in found.stops.values()}
    assert messages == {"a row is a record, and the value is a single string"}


def test_a_null_where_no_value_is_a_record_stops_parquet_too() -> None:
    """Alone in its object it was no bad record, but an error without a sentence."""
    source = archive("confluent-json_string")
    records = [replace(each, value=None) for each in source.records]
    found = written({**_SINK, "output.format": "parquet"}, records)

    assert not found.objects
    messages = {stop.message.partition(": ")[2] for stop in found.stops.values()}
    assert messages == {"a row is a record, and the value is a single bytes"}


_DATE: Final = {"type": "int32", "name": "org.apache.kafka.connect.data.Date", "version": 1}
_EXTRACT: Final[dict[str, str]] = {
    "transforms": "x",
    "transforms.x.type": "org.apache.kafka.connect.transforms.ExtractField$Value",
    "transforms.x.field": "d",
}


@pytest.mark.parametrize(
    ("schema", "payload", "more", "line"),
    [
        (_DATE, 19844, {}, b"1714521600000\n"),
        ({"type": "struct", "fields": [{"field": "d", **_DATE}]}, {"d": 19844}, {}, b'{"d":19844}\n'),
        ({"type": "struct", "fields": [{"field": "d", **_DATE}]}, {"d": 19844}, _EXTRACT, b"1714521600000\n"),
        ({"type": "array", "items": _DATE}, [1], {}, b"[86400000]\n"),
        ({"type": "map", "keys": _DATE | {"name": None}, "values": _DATE}, [[1, 1]], {}, b'{"1":86400000}\n'),
    ],
)
def test_what_is_no_struct_is_in_json_as_jackson_writes_it(
    schema: Any, payload: Any, more: Mapping[str, str], line: bytes
) -> None:
    """Confluent's sink gives JsonConverter structs alone, of values, keys, and what transforms make."""
    text = json.dumps({"schema": schema, "payload": payload}).encode()
    converter = "org.apache.kafka.connect.json.JsonConverter"
    options = {"value.converter": converter, "key.converter": converter, "output.format": "jsonl"}
    sides = {"sidecars": "keys", "sidecars.keys.format": "jsonl", "file.compression.type": "none"}

    found = written(
        {**_SINK, **options, **sides, **more}, [Record("t", 0, 0, 1000, text, text, ())], stops=True
    )

    (key,) = (each.body for name, each in found.objects.items() if ".keys." in name)
    (value,) = (each.body for name, each in found.objects.items() if ".keys." not in name)
    assert value == line
    assert more or key == line
