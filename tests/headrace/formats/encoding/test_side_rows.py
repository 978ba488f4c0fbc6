"""Keys and headers in objects of their own: the rows that Confluent's sink would write, aligned."""

import base64
import io
import json
from dataclasses import replace
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.conversion.side_rows import new_side_encoder, side_output
from headrace.conversion.sink_records import RecordConverter
from headrace.formats.encoding import schema_of
from headrace.model.columns import Headers
from headrace.names.archive_names import LayoutName
from headrace.options.choices import Compression
from headrace.options.sink_settings import (
    ConverterKind,
    ConverterSettings,
    OutputFormat,
    OutputSettings,
    Sidecars,
    SideFormat,
    SideRole,
)
from tests.headrace.formats.encoding.outputs import bare, converters, fetched
from tests.headrace.formats.encoding.registry import framed_as, registry

_FORMATS = (OutputFormat.AVRO, OutputFormat.PARQUET, OutputFormat.JSONL)


def _beside(wanted: OutputFormat, **changes: Any) -> OutputSettings:
    side = SideFormat(format=wanted, compression=Compression.NONE)
    return bare(OutputFormat.JSONL, sidecars=Sidecars(keys=side, headers=side, **changes))


def _read(wanted: OutputFormat, raw: bytes, member: str) -> list[Any]:
    if wanted is OutputFormat.AVRO:
        return list(fastavro.reader(io.BytesIO(raw)))
    if wanted is OutputFormat.PARQUET:
        found: list[Any] = pq.read_table(io.BytesIO(raw)).column(member).to_pylist()
        return found
    rows = [json.loads(line) for line in raw.decode().split("\n")[:-1]]
    return [row["headers"] for row in rows] if member == "headers" else rows


def _written(
    how: OutputSettings, keys: list[bytes], headers: list[Headers], kind: ConverterKind
) -> tuple[bytes, bytes]:
    records = fetched([b"1"] * len(keys), keys=keys, headers=headers)
    conversion = RecordConverter(converters(key=kind, header=kind), how).convert(records)
    assert not conversion.faults
    (run,) = conversion.runs
    written = []
    for role in SideRole:
        encoder = new_side_encoder(side_output(how, role), role, schema_of(how, run), header=kind)
        encoder.add(run)
        written.append(encoder.drain() + encoder.finish())
    return written[0], written[1]


@pytest.mark.parametrize("wanted", _FORMATS)
@given(
    rows=st.lists(
        st.tuples(
            st.binary(max_size=9), st.lists(st.tuples(st.text(max_size=3), st.binary(max_size=5)), min_size=1)
        ),
        min_size=1,
        max_size=30,
    )
)
def test_bytes_come_back_from_each_format(wanted: OutputFormat, rows: list[Any]) -> None:
    """Keys as bytes, in JSON as base64; values of headers in base64."""
    keys, headers = [key for key, _ in rows], [tuple(each) for _, each in rows]
    raw_keys, raw_headers = _written(_beside(wanted), keys, headers, ConverterKind.BYTES)
    found = _read(wanted, raw_keys, "key")
    assert [base64.b64decode(key) if isinstance(key, str) else key for key in found] == keys
    assert _read(wanted, raw_headers, "headers") == [
        [{"key": name, "value": base64.b64encode(value).decode()} for name, value in each] for each in headers
    ]


@pytest.mark.parametrize("wanted", _FORMATS)
def test_texts_stay_texts(wanted: OutputFormat) -> None:
    """With StringConverter; Avro has a container of strings, not of unions."""
    raw_keys, raw_headers = _written(
        _beside(wanted),
        [b"a", "ü".encode(), b""],
        [(("h", b"1"), ("h", "ü".encode()))] * 3,
        ConverterKind.STRING,
    )
    assert _read(wanted, raw_keys, "key") == ["a", "ü", ""]
    assert (
        _read(wanted, raw_headers, "headers")
        == [[{"key": "h", "value": "1"}, {"key": "h", "value": "ü"}]] * 3
    )
    if wanted is OutputFormat.AVRO:
        reader = fastavro.reader(io.BytesIO(raw_keys))
        assert reader.writer_schema == "string"


def test_what_has_no_row_beside_is_a_bad_record() -> None:
    """A null key, no headers, a null in headers: the other rows stay aligned."""
    h = (("h", b"1"),)
    records = fetched(
        [b"1", b"2", b"3", b"4"], keys=[None, b"k", b"k", b"k"], headers=[h, (), (("h", None),), h]
    )
    found = RecordConverter(converters(), _beside(OutputFormat.AVRO)).convert(records)
    assert [(fault.offset, fault.reason) for fault in found.faults] == [
        (0, "null_key"),
        (1, "no_headers"),
        (2, "null_header"),
    ]
    assert [run.records.offsets.tolist() for run in found.runs] == [[3]]


def test_a_tombstone_is_no_bad_record_where_it_stands_apart() -> None:
    """In a format whose rows cannot be null."""
    side = SideFormat(format=OutputFormat.BYTES, compression=Compression.NONE)
    records = fetched([b"1", None], keys=[b"a", b"b"])
    for template, faults in ((None, 1), ("{{topic}}/gone/{{partition}}-{{start_offset}}", 0)):
        how = bare(OutputFormat.BYTES, sidecars=Sidecars(keys=side, tombstone_template=template))
        assert len(RecordConverter(converters(), how).convert(records).faults) == faults


@pytest.mark.parametrize("wanted", [OutputFormat.AVRO, OutputFormat.PARQUET])
def test_keys_whose_schema_has_no_objects_are_bad(wanted: OutputFormat) -> None:
    """By a sentence: keys of JSON Schema, whose names Avro need not allow. Our own objects take them."""
    settings = registry()
    schema = json.dumps({"type": "object", "properties": {"a-b": {"type": "integer"}}})
    keys = [framed_as(settings, "JSON", schema, b'{"a-b":1}', subject="orders-key")]
    kinds = converters(key=ConverterSettings(kind=ConverterKind.JSON_SCHEMA, registry=settings))

    of_confluent = replace(_beside(wanted), layout=LayoutName.CONFLUENT)
    found = RecordConverter(kinds, of_confluent).convert(fetched([b"1"], keys=keys, headers=[(("h", b"1"),)]))
    own = RecordConverter(kinds, _beside(wanted)).convert(
        fetched([b"1"], keys=keys, headers=[(("h", b"1"),)])
    )

    assert (found.runs, [fault.reason for fault in found.faults]) == ((), ["schema_unfit"])
    assert f"sidecars.keys.format={wanted}" in found.faults[0].message
    assert (len(own.runs), own.faults) == (1, ())


@pytest.mark.parametrize(
    ("layout", "values", "side", "codec", "level"),
    [
        # Confluent's writers of Avro and Parquet take no level, and deflate is gzip here.
        (LayoutName.CONFLUENT, OutputFormat.JSONL, OutputFormat.AVRO, Compression.GZIP, None),
        (LayoutName.CONFLUENT, OutputFormat.BYTES, OutputFormat.PARQUET, Compression.GZIP, None),
        (LayoutName.CONFLUENT, OutputFormat.JSONL, OutputFormat.BYTES, Compression.GZIP, 9),
        (LayoutName.CONFLUENT, OutputFormat.BYTES, OutputFormat.JSONL, Compression.GZIP, 9),
        # A level of Avro is of our own options alone.
        (LayoutName.CONFLUENT, OutputFormat.AVRO, OutputFormat.PARQUET, Compression.GZIP, 9),
        (LayoutName.CONFLUENT, OutputFormat.AVRO, OutputFormat.JSONL, Compression.GZIP, 9),
        (LayoutName.CONFLUENT, OutputFormat.JSONL, OutputFormat.JSONL, Compression.NONE, None),
        (LayoutName.HEADRACE, OutputFormat.JSONL, OutputFormat.AVRO, Compression.GZIP, 9),
        (LayoutName.HEADRACE, OutputFormat.JSONL, OutputFormat.AVRO, Compression.SNAPPY, None),
    ],
)
def test_the_level_of_values_is_that_of_the_same_codec(
    layout: LayoutName, values: OutputFormat, side: OutputFormat, codec: Compression, level: int | None
) -> None:
    """In our own layout whatever holds it, in Confluent's where the other sink has it."""
    form = SideFormat(format=side, compression=codec)
    how = bare(
        values,
        layout=layout,
        compression=Compression.GZIP,
        compression_level=9,
        sidecars=Sidecars(keys=form, headers=form),
    )
    assert [side_output(how, role).compression_level for role in SideRole] == [level, level]
