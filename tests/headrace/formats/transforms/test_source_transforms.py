"""Transforms of a source: batches of rows in, complete records by topic out, positions and bad rows kept."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.conversion.source_records import SourceRecords
from headrace.model.columns import BadRow, Column, Header, RecordTarget, RowBatch, Stage, column_of
from headrace.model.positions import BytePosition, Position
from headrace.vendors.load import load
from spark.source.dead_letters import stage_of
from tests.headrace.formats.transforms.transformed import JSON, KAFKA, LENSES, NOW_MS, chain

_COMPLETE = {
    "name": "ingest",
    "bootstrap.servers": "127.0.0.1:9092",
    "aws.s3.bucket.name": "bucket",
    "topic": "orders",
    "file.name.template": ".*",
    "input.format": "jsonl",
}
ROW_BYTES = 10


def applied(options: Mapping[str, str], rows: RowBatch, **target: Any) -> list[RowBatch]:
    """What a source with these options makes of a batch."""
    text = json.dumps({**_COMPLETE, **options})
    settings = load(text, kind="json", environment={"HOME": "/nowhere"}, read_file=lambda path: path)
    records = SourceRecords(settings.transforms, settings.format, lambda: NOW_MS)
    return list(records.apply(rows, RecordTarget(**{"topic": "orders", **target})))


def batch(
    values: Sequence[bytes | None],
    *,
    keys: Sequence[bytes | None] | None = None,
    headers: Sequence[tuple[Header, ...]] | None = None,
    times: Sequence[int] | None = None,
    bad: Sequence[int] = (),
) -> RowBatch:
    """Rows of ten bytes each; a bad one stands half way before each of these."""
    return RowBatch(
        values=column_of(values),
        keys=None if keys is None else column_of(keys),
        headers=None if headers is None else tuple(headers),
        timestamps_ms=None if times is None else np.array(times, np.int64),
        after=BytePosition(len(values) * ROW_BYTES),
        positions=lambda index: BytePosition(index * ROW_BYTES),
        bad=tuple(
            BadRow(
                index=index,
                position=BytePosition(index * ROW_BYTES - 5),
                after=BytePosition(index * ROW_BYTES),
                reason="not_json",
                message="",
            )
            for index in bad
        ),
    )


@pytest.mark.parametrize("json_values", [{"value.format": "json"}, {"value.converter": JSON}])
@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (
            {"type": KAFKA + "HoistField$Value", "field": "line"},
            [b'{"line":"hello \\"x\\""}', b'{"line":"17"}'],
        ),
        ({"type": KAFKA + "Cast$Value", "spec": "string"}, [b'"hello \\"x\\""', b'"17"']),
        (
            {"type": KAFKA + "HoistField$Value", "field": "line", "predicate": "has"},
            [b'"hello \\"x\\""', b'"17"'],
        ),
    ],
)
def test_lines_that_are_json_strings_already_are_not_quoted_twice(
    step: dict[str, str], expected: list[bytes], json_values: dict[str, str]
) -> None:
    """`input.format=text` with JsonConverter, also where the step applies to no record."""
    options = {
        "input.format": "text",
        **json_values,
        **({} if "value.format" in json_values else {"value.converter.schemas.enable": "false"}),
        **chain(step, predicates=_HAS_HEADER if "predicate" in step else None),
    }
    found = applied(options, batch([b'"hello \\"x\\""', b'"17"']))
    assert [value for _, _, value, _ in records(found)] == expected


_HAS_HEADER = {"has": {"type": KAFKA + "predicates.HasHeaderKey", "name": "never"}}


def records(found: Sequence[RowBatch]) -> list[tuple[str | None, bytes | None, bytes | None, Any]]:
    """Topic, key, value and headers of each record."""
    return [
        (
            each.topic,
            None if each.keys is None else each.keys.get(row),
            each.values.get(row),
            () if each.headers is None else each.headers[row],
        )
        for each in found
        for row in range(len(each))
    ]


@pytest.mark.parametrize("null", [b"null", b" null "])
@pytest.mark.parametrize(
    ("step", "expected"),
    [
        *(({"type": KAFKA + "Cast$Value", "spec": spec}, None) for spec in ("string", "int64", "float32")),
        ({"type": KAFKA + "Cast$Value", "spec": "a:string"}, None),
        ({"type": KAFKA + "ReplaceField$Value", "exclude": "z"}, None),
        ({"type": KAFKA + "Flatten$Value"}, None),
        ({"type": KAFKA + "ExtractField$Value", "field": "z"}, None),
        ({"type": KAFKA + "TimestampConverter$Value", "target.type": "unix"}, None),
        (
            {"type": KAFKA + "TimestampConverter$Value", "target.type": "string", "format": "yyyy"},
            None,
        ),
        ({"type": KAFKA + "HoistField$Value", "field": "a"}, b'{"a":null}'),
        # Not looked into, it is what it was.
        ({"type": KAFKA + "Cast$Value", "spec": "string", "predicate": "has"}, b"null"),
    ],
)
def test_the_json_null_is_a_null_to_what_looks_into_it(
    step: dict[str, str], expected: bytes | None, null: bytes
) -> None:
    """As in a sink; a line of a .log, or a restored text, may be it."""
    options = chain(step, predicates=_HAS_HEADER if "predicate" in step else None)
    (found,) = applied({"input.format": "auto", **options}, batch([null]))
    assert not found.bad
    ((_, _, value, _),) = records([found])
    assert (value and value.replace(b" ", b"")) == expected


@pytest.mark.parametrize("spec", ["string", "int32", "boolean"])
def test_a_number_that_json_does_not_have_is_a_null_to_the_next_step(spec: str) -> None:
    """It is written as null."""
    casts = ({"type": KAFKA + "Cast$Value", "spec": each} for each in ("float64", spec))
    (found,) = applied(chain(*casts), batch([b'"NaN"']))
    assert [value for _, _, value, _ in records([found])] == [None]


def test_a_chain_of_two_with_a_predicate() -> None:
    """What is the same for all records of an object goes through it too."""
    options = chain(
        {"type": KAFKA + "ValueToKey", "fields": "id"},
        {"type": KAFKA + "ExtractField$Key", "field": "id"},
        {"type": KAFKA + "DropHeaders", "headers": "source", "predicate": "big"},
        predicates={"big": {"type": KAFKA + "predicates.HasHeaderKey", "name": "big"}},
    )
    rows = batch([b'{"id":1}', b'{"id":"x"}'], headers=[(), (("big", b""),)])
    (found,) = applied(options, rows, key=b"all", headers=(("source", b"s"),))
    assert records([found]) == [
        ("orders", b"1", b'{"id":1}', (("source", b"s"),)),
        ("orders", b"x", b'{"id":"x"}', (("big", b""),)),
    ]


def test_lines_by_a_pattern_have_fields() -> None:
    """They are objects; as raw values they are texts, whatever they look like."""
    lines = {"input.format": "text", "text.pattern": "(?P<a>.)"}
    insert = chain({"type": KAFKA + "InsertField$Value", "static.field": "b", "static.value": "x"})
    hoist = chain({"type": KAFKA + "HoistField$Value", "field": "line"})

    assert records(applied({**insert, **lines}, batch([b'{"a":"1"}'])))[0][2] == b'{"a":"1","b":"x"}'
    (raw,) = records(applied({**hoist, **lines, "value.format": "raw"}, batch([b'{"a":1}'])))
    assert raw[2] == b'{"line":"{\\"a\\":1}"}'


def test_records_go_to_the_topics_of_their_times() -> None:
    """In their order, each part with the position behind it, and the bad rows where they were."""
    day = 86_400_000
    rows = batch([b"1", b"2", b"3", b"4"], times=[0, 1, day, 2], bad=[0, 2, 4])
    found = applied(chain({"type": KAFKA + "TimestampRouter"}), rows)
    assert [(each.topic, len(each), each.after, [bad.index for bad in each.bad]) for each in found] == [
        ("orders-19700101", 2, BytePosition(15), [0]),
        ("orders-19700102", 1, BytePosition(30), [0]),
        ("orders-19700101", 1, BytePosition(40), [1]),
    ]
    assert [each.positions(0) for each in found] == [BytePosition(0), BytePosition(20), BytePosition(30)]


def test_a_refused_row_is_a_bad_one() -> None:
    """With its raw bytes, between the others."""
    options = chain({"type": KAFKA + "MaskField$Value", "fields": "a"})
    (found,) = applied(options, batch([b'{"a":1}', b"[1]", b'{"a":"x"}']))
    assert [value for _, _, value, _ in records([found])] == [b'{"a":0}', b'{"a":""}']
    (bad,) = found.bad
    assert (bad.index, bad.position, bad.after) == (1, BytePosition(10), BytePosition(20))
    assert (bad.reason, bad.raw) == ("transform_refused", b"[1]")
    assert stage_of(bad) is Stage.TRANSFORMATION
    assert stage_of(replace(bad, reason="not_json")) is Stage.VALUE_CONVERTER


def test_dropped_rows_leave_the_position_behind_them() -> None:
    """And are no bad rows."""
    options = chain(
        {"type": KAFKA + "Filter", "predicate": "p"},
        predicates={"p": {"type": KAFKA + "predicates.RecordIsTombstone"}},
    )
    (found,) = applied(options, batch([None, b"1", None], bad=[2]))
    assert [value for _, _, value, _ in records([found])] == [b"1"]
    assert (found.after, found.positions(0), [bad.index for bad in found.bad]) == (
        BytePosition(30),
        BytePosition(10),
        [1],
    )
    (none,) = applied(options, batch([None, None]))
    assert (len(none), none.after, none.topic) == (0, BytePosition(20), "orders")


@pytest.mark.parametrize(
    ("options", "step", "value", "produced"),
    [
        ({}, {"type": KAFKA + "ExtractField$Value", "field": "a"}, b'{"a":"text"}', b"text"),
        (
            {
                "value.converter": "org.apache.kafka.connect.json.JsonConverter",
                "value.converter.schemas.enable": "false",
            },
            {"type": KAFKA + "ExtractField$Value", "field": "a"},
            b'{"a":"text"}',
            b'"text"',
        ),
        ({}, {"type": KAFKA + "ExtractField$Value", "field": "a"}, b'{"a":null}', None),
        ({}, {"type": KAFKA + "HoistField$Value", "field": "line"}, b"17", b'{"line":17}'),
        (
            {"input.format": "text"},
            {"type": KAFKA + "HoistField$Value", "field": "line"},
            b"17",
            b'{"line":"17"}',
        ),
        ({}, {"type": KAFKA + "Cast$Value", "spec": "string"}, b"17", b"17"),
        ({}, {"type": KAFKA + "InsertField$Value", "topic.field": "t"}, b"{}", b'{"t":"orders"}'),
        ({}, {"type": LENSES + "InsertWallclock", "header.name": "h"}, b'{ "a" : 1 }', b'{ "a" : 1 }'),
    ],
)
def test_values_are_produced_as_their_converter_says(
    options: dict[str, str], step: dict[str, str], value: bytes, produced: bytes | None
) -> None:
    """And as they stood where no step changes them."""
    (found,) = applied({**options, **chain(step)}, batch([value]))
    assert [each for _, _, each, _ in records([found])] == [produced]


@given(
    topics=st.lists(st.integers(0, 2), max_size=8),
    dropped=st.sets(st.integers(0, 7)),
    bad=st.sets(st.integers(0, 8), max_size=3),
)
def test_no_row_is_lost_and_none_moves(topics: list[int], dropped: set[int], bad: set[int]) -> None:
    """Whatever is dropped, routed and bad: each part ends where the next one begins."""
    values = [None if row in dropped else b"%d" % row for row in range(len(topics))]
    bad = {index for index in bad if index <= len(topics) and index}
    rows = batch(values, times=[topic * 86_400_000 for topic in topics], bad=sorted(bad))
    options = chain(
        {"type": KAFKA + "Filter", "predicate": "p"},
        {"type": KAFKA + "TimestampRouter"},
        predicates={"p": {"type": KAFKA + "predicates.RecordIsTombstone"}},
    )
    found = applied(options, replace(rows, offsets=np.arange(len(topics)) + 100))
    kept = [row for row in range(len(topics)) if row not in dropped]
    assert [offset for each in found for offset in _offsets(each)] == [row + 100 for row in kept]
    for each in found:
        columns = [getattr(each, name.name) for name in fields(each) if name.name != "bad"]
        lengths = {len(column) for column in columns if isinstance(column, Column | np.ndarray | tuple)}
        assert lengths == {len(each)}
    assert [value for _, _, value, _ in records(found)] == [b"%d" % row for row in kept]
    assert [each.positions(row) for each in found for row in range(len(each))] == [
        BytePosition(row * ROW_BYTES) for row in kept
    ]
    marks = [bad.position for each in found for bad in each.bad]
    assert marks == [BytePosition(index * ROW_BYTES - 5) for index in sorted(bad)]
    assert found[-1].after == rows.after
    for each in found:
        ends = [*(each.positions(row) for row in range(len(each))), *(bad.position for bad in each.bad)]
        assert all(byte_of(end) < byte_of(each.after) for end in ends)


def _offsets(rows: RowBatch) -> list[int]:
    assert rows.offsets is not None
    return [int(offset) for offset in rows.offsets]


def byte_of(position: Position) -> int:
    """Where a position of these batches is."""
    assert isinstance(position, BytePosition)
    return position.byte
