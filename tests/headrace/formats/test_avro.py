"""Avro: rows of every codec, positions, slices, limits, damage."""

import gzip
import io
import json
import random
from itertools import pairwise
from typing import Any

import fastavro
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.formats import DECODERS, SPLITTERS
from headrace.formats.records.registry import varint
from headrace.model.errors import InvalidObject, ObjectCorrupt
from headrace.model.positions import BlockPosition, BytePosition
from headrace.options.choices import InputFormat, ValueFormat
from tests.headrace.formats.avro_files import CODECS, SYNC, container, datum, file_of
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.memory_source import MemorySource, decode_all
from tests.support.examples import examples

AVRO = decode_options(InputFormat.AVRO)
RAW = decode_options(InputFormat.AVRO, value_format=ValueFormat.RAW)

ROW = {
    "type": "record",
    "name": "org.example.Row",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": "string"},
        {"name": "note", "type": ["null", "string"]},
    ],
}
# The same with a union that columns cannot hold, so that it is read datum by datum.
MIXED = {**ROW, "fields": [*ROW["fields"], {"name": "any", "type": ["null", "long", "string"]}]}


def _rows(count: int, *, mixed: bool = False) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {"id": n * 7919 - 50_000, "name": f"é {n}", "note": None if n % 3 else "x" * n} for n in range(count)
    ]
    if mixed:
        for n, row in enumerate(rows):
            row["any"] = (None, n, str(n))[n % 3]
    return rows


def _json(rows: list[Any]) -> list[bytes]:
    return [json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() for row in rows]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("schema", "mixed"), [(ROW, False), (MIXED, True)], ids=["columns", "data"])
def test_rows_of_every_codec(codec: str, schema: Any, mixed: bool) -> None:
    """Rows come as JSON with their block and record, and end at the end of the file."""
    stored = file_of(schema, _rows(20, mixed=mixed), codec=codec)
    decoded = decode_all(MemorySource(stored), AVRO)

    assert decoded.error is None
    assert decoded.values == _json(_rows(20, mixed=mixed))
    assert [row.record for row, _ in decoded.rows if isinstance(row, BlockPosition)] == [
        *range(7),
        *range(7),
        *range(6),
    ]
    assert decoded.after == BlockPosition(len(stored), 0)


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "bzip2", "xz"])
def test_files_by_fastavro(codec: str) -> None:
    """Another writer's header and blocks."""
    out = io.BytesIO()
    fastavro.writer(
        out, fastavro.parse_schema(MIXED), _rows(300, mixed=True), codec=codec, sync_interval=1000
    )

    assert decode_all(MemorySource(out.getvalue()), AVRO).values == _json(_rows(300, mixed=True))


@pytest.mark.parametrize("codec", ["uncompressed", "deflate", "snappy"])
def test_files_by_polars(codec: Any) -> None:
    """A third writer."""
    out = io.BytesIO()
    pl.DataFrame({"i": [1, None], "s": ["a", None], "f": [0.5, 1e300]}).write_avro(out, compression=codec)

    assert decode_all(MemorySource(out.getvalue()), AVRO).values == [
        b'{"i":1,"s":"a","f":0.5}',
        b'{"i":null,"s":null,"f":1e+300}',
    ]


@pytest.mark.parametrize("schema", [ROW, MIXED], ids=["columns", "data"])
def test_raw_values_are_the_bytes_of_each_datum(schema: Any) -> None:
    """`value.format=raw` cuts data out without touching them."""
    rows = _rows(20, mixed=schema is MIXED)

    assert decode_all(MemorySource(file_of(schema, rows)), RAW).values == [datum(schema, row) for row in rows]


@given(st.integers(0, 40), st.integers(1, 15), st.sampled_from([ROW, MIXED]), st.booleans(), st.data())
@settings(max_examples=examples(75), deadline=None)
def test_resuming_gives_exactly_the_rest(
    rows: int,
    per_block: int,
    schema: Any,
    packed: bool,
    data: st.DataObject,
) -> None:
    """From any record on, also of a file that is compressed as a whole."""
    stored = file_of(schema, _rows(rows, mixed=schema is MIXED), per_block=per_block)
    source = MemorySource(gzip.compress(stored) if packed else stored, chunk=100)
    whole = decode_all(source, AVRO)
    assert whole.values == _json(_rows(rows, mixed=schema is MIXED))
    if rows:
        row = data.draw(st.integers(0, rows - 1))
        rest = decode_all(source, AVRO, start=whole.rows[row][0])
        assert rest.rows == whole.rows[row:]
        assert decode_all(source, AVRO, start=whole.after).rows == []


@given(st.integers(1, 60), st.integers(1, 9), st.integers(2, 6), st.sampled_from([ROW, MIXED]))
@settings(max_examples=examples(75), deadline=None)
def test_any_split_gives_exactly_the_whole(rows: int, per_block: int, pieces: int, schema: Any) -> None:
    """Slices between the marks give each row once; a resume within a slice gives its rest."""
    source = MemorySource(file_of(schema, _rows(rows, mixed=schema is MIXED), per_block=per_block))
    whole = decode_all(source, AVRO)
    marks = SPLITTERS[InputFormat.AVRO](source, pieces, options=AVRO)
    if marks is None:
        return
    assert marks[0] == 0
    assert marks[-1] == source.size
    found = []
    for begin, end in pairwise(marks):
        part = decode_all(source, AVRO, begin=begin, end=end)
        found += part.rows
        middle = part.rows[len(part.rows) // 2 :]
        assert decode_all(source, AVRO, start=middle[0][0], begin=begin, end=end).rows == middle
        assert decode_all(source, AVRO, start=part.after, begin=begin, end=end).rows == []
    assert found == whole.rows


def test_a_sync_marker_within_data_is_no_cut() -> None:
    """Data may hold the marker's bytes, even with what looks like a count and a size behind."""
    rows = [{"id": n, "name": "x", "note": None} for n in range(40)]
    schema = {"type": "record", "name": "R", "fields": [{"name": "b", "type": "bytes"}]}
    values = [{"b": SYNC + varint(1) + varint(4) + b"abcd" + bytes([n])} for n in range(40)]
    source = MemorySource(file_of(schema, values, per_block=5))
    marks = SPLITTERS[InputFormat.AVRO](source, 8, options=AVRO)
    assert marks is not None
    found = [
        row for begin, end in pairwise(marks) for row in decode_all(source, AVRO, begin=begin, end=end).rows
    ]

    assert found == decode_all(source, AVRO).rows
    assert len(found) == len(rows)


def test_a_resume_fetches_the_header_and_the_rest() -> None:
    """Blocks before the position are not read."""
    rows = [{"id": n, "name": "x" * 500, "note": None} for n in range(4000)]
    source = MemorySource(file_of(ROW, rows, per_block=100), chunk=1 << 16)
    marks = SPLITTERS[InputFormat.AVRO](source, 2, options=AVRO)
    assert marks is not None
    source.fetched_bytes = 0

    decoded = decode_all(source, AVRO, start=BlockPosition(marks[1], 0))

    assert 1800 < len(decoded.rows) < 2200
    assert source.fetched_bytes < source.size * 0.6


@pytest.mark.parametrize(
    ("schema", "encoded", "reason"),
    [
        pytest.param("string", varint(2) + b"\xff\xfe", "not_utf8", id="text that is not UTF-8"),
        pytest.param(
            {"type": "enum", "name": "E", "symbols": ["A"]},
            varint(5),
            "not_avro",
            id="an enum's index beyond its symbols",
        ),
        pytest.param(
            {"type": "int", "logicalType": "date"}, varint(2**40), "not_avro", id="a date beyond 32 bits"
        ),
    ],
)
@pytest.mark.parametrize("union", [False, True], ids=["columns", "data"])
def test_a_datum_that_does_not_decode_is_a_bad_row(
    schema: Any,
    encoded: bytes,
    reason: str,
    union: bool,
) -> None:
    """It is cut out with its bytes, and the data around it stay."""
    more = [{"name": "u", "type": ["long", "string"]}] if union else []
    record = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "n", "type": "long"}, {"name": "x", "type": schema}, *more],
    }
    good = {"string": varint(1) + b"s"}.get(str(schema), varint(0))
    behind = varint(0) + varint(7) if union else b""
    content = varint(1) + good + behind + varint(2) + encoded + behind + varint(3) + good + behind
    source = MemorySource(container(record, [(3, content), (1, varint(4) + good + behind)]))

    decoded = decode_all(source, AVRO)

    assert [json.loads(value or b"")["n"] for value in decoded.values] == [1, 3, 4]
    first = decoded.rows[0][0]
    assert isinstance(first, BlockPosition)
    assert [(row.index, row.position, row.after, row.reason, row.raw) for row in decoded.bad] == [
        (
            1,
            BlockPosition(first.block, 1),
            BlockPosition(first.block, 2),
            reason,
            varint(2) + encoded + behind,
        )
    ]


RECURSIVE = {
    "type": "record",
    "name": "L",
    "fields": [{"name": "v", "type": "long"}, {"name": "next", "type": ["null", "L"]}],
}


def test_recursive_types() -> None:
    """Lists and trees nest as deep as they are, up to a limit."""
    value: Any = None
    for n in range(50):
        value = {"v": n, "next": value}

    assert decode_all(MemorySource(file_of(RECURSIVE, [value])), AVRO).values == _json([value])


@pytest.mark.parametrize(
    ("schema", "count", "content", "reason"),
    [
        pytest.param(RECURSIVE, 1, b"\x02\x02" * 100_000 + b"\x02\x00", "too_deep", id="100,000 levels"),
        pytest.param(
            {"type": "array", "items": "null"}, 1, varint(2**60) + b"\x00", "too_large", id="2^60 nulls"
        ),
    ],
)
def test_what_would_be_unbounded_is_refused(schema: Any, count: int, content: bytes, reason: str) -> None:
    """A few bytes cannot claim the worker's stack or memory."""
    with pytest.raises(InvalidObject, match=r"s3://bucket/key: record 0 of the Avro block") as caught:
        decode_all(MemorySource(container(schema, [(count, content)])), AVRO)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("schema", "count", "content"),
    [
        pytest.param("long", 2**60, b"\x00", id="more data than bytes"),
        pytest.param("null", 2**60, b"", id="endless empty data"),
        pytest.param("long", 1, b"\x00\x00", id="bytes left over"),
        pytest.param("string", 1, varint(2**60) + b"ab", id="a text of exabytes"),
        pytest.param("string", 1, varint(-5) + b"ab", id="a negative length"),
        pytest.param({"type": "array", "items": "long"}, 1, varint(2**60) + b"ab", id="an array of exabytes"),
        pytest.param(
            {"type": "map", "values": "long"}, 1, varint(-3) + varint(-3) + b"ab", id="a negative block"
        ),
        pytest.param(["null", "long", "int"], 1, varint(9) + varint(1), id="no such branch"),
        pytest.param(["null", "long", "int"], 1, varint(-1) + varint(1), id="a branch before the first"),
        pytest.param(["null", "long"], 1, varint(2) + varint(1), id="no third branch"),
        pytest.param(["null", "long"], 1, varint(-1) + varint(1), id="a branch before null"),
        pytest.param("long", 1, b"\xff" * 11, id="an endless number"),
    ],
)
def test_blocks_that_lie_are_damage(schema: Any, count: int, content: bytes) -> None:
    """Rows before stay, the object is corrupt behind them."""
    record = {"type": "record", "name": "R", "fields": [{"name": "x", "type": schema}]}
    honest = b"" if schema == "null" else b"\x00"
    stored = container(record, [(1, honest), (count, content)])

    decoded = decode_all(MemorySource(stored), AVRO)

    assert len(decoded.rows) >= 1
    assert decoded.error is not None
    assert str(decoded.error).startswith("s3://bucket/key: the Avro object is damaged")


@pytest.mark.parametrize("codec", CODECS)
def test_a_block_above_the_limit_is_refused(codec: str) -> None:
    """The limit counts content, not what it is compressed to; earlier blocks are given out first."""
    limited = decode_options(InputFormat.AVRO, decode_unit_max_bytes=10_000)
    blocks = [(1, datum("string", "small")), (1, datum("string", "x" * 20_000))]
    rows: list[Any] = []
    with pytest.raises(InvalidObject, match=r"exceeds decode.unit.max.bytes \(10000\)") as caught:
        rows.extend(
            DECODERS[InputFormat.AVRO](
                MemorySource(container("string", blocks, codec=codec)), None, options=limited
            )
        )
    assert caught.value.reason == "unit_too_large"
    assert [batch.values.get(0) for batch in rows] == [b'"small"']


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"Obj",
        b"Obj\x01",
        b"Obj\x01" + bytes(100),
        b"Obj\x01" + varint(2**40),
        container({}, []).replace(b"{}", b"{,"),
        file_of(ROW, _rows(20))[:-3],
        file_of(ROW, _rows(20))[:-20],
        file_of(ROW, _rows(20)).replace(SYNC, bytes(16))[:-16] + SYNC,
    ],
    ids=[
        "empty",
        "short",
        "magic",
        "zeros",
        "endless",
        "schema",
        "torn sync",
        "torn block",
        "sync",
    ],
)
def test_what_is_no_avro_is_corrupt(content: bytes) -> None:
    """One sentence that names the object."""
    decoded = decode_all(MemorySource(content), AVRO)

    assert decoded.error is not None
    assert str(decoded.error).startswith("s3://bucket/key: the Avro object is damaged: ")


@pytest.mark.parametrize("content", [b"x" * 100, b'{"a": 1}\n', b"{}\n", b"Obj\x02" + bytes(100)])
def test_what_begins_as_something_else_may_be_read_by_another_option(content: bytes) -> None:
    """JSON was called a damaged object, which another upload does not help."""
    said = "s3://bucket/key: this is no Avro object, or its beginning is missing: "

    decoded = decode_all(MemorySource(content), AVRO)
    with pytest.raises(ObjectCorrupt) as caught:
        SPLITTERS[InputFormat.AVRO](MemorySource(content), 2, options=AVRO)

    assert str(decoded.error).startswith(said)
    assert str(decoded.error).endswith("Upload it again, or correct input.format.")
    assert str(caught.value) == str(decoded.error)


def test_files_put_one_after_another_are_named() -> None:
    """The rows of the first are whole."""
    one = container("long", [(1, varint(7))])

    decoded = decode_all(MemorySource(one * 2), AVRO)

    assert decoded.values == [b"7"]
    assert f"another Avro file begins at byte {len(one)}" in str(decoded.error)


def test_an_unknown_codec_cannot_be_decoded() -> None:
    """Trying again would not help."""
    with pytest.raises(InvalidObject, match="codec 'lzo' is not known"):
        decode_all(MemorySource(container("long", [(1, b"\x00")], codec="lzo", stored=True)), AVRO)


def test_a_count_is_held_against_the_bytes_before_anything_is_read() -> None:
    """A block cannot make the decoder reserve room for data that it has no bytes for."""
    stored = container("double", [(5, bytes(8) * 4)])

    assert "claims 5 data, more than it holds" in str(decode_all(MemorySource(stored), AVRO).error)


def test_an_empty_file_has_no_rows() -> None:
    """A header alone is a whole file; so are blocks without data."""
    assert decode_all(MemorySource(container(ROW, [])), AVRO).rows == []
    assert decode_all(MemorySource(container(ROW, [(0, b""), (0, b"")])), AVRO).error is None


def test_a_foreign_position_is_refused() -> None:
    """A position of another format has no meaning here."""
    with pytest.raises(ObjectCorrupt, match="not one of an Avro object"):
        list(DECODERS[InputFormat.AVRO](MemorySource(container(ROW, [])), BytePosition(0), options=AVRO))


def test_large_blocks_come_in_small_batches() -> None:
    """One block of ten thousands of data does not make one batch."""
    rows = [{"id": n, "name": "x" * 200, "note": None} for n in range(25_000)]
    for schema, values in ((ROW, rows), (MIXED, [{**row, "any": 1} for row in rows])):
        stored = file_of(schema, values, per_block=30_000, codec="deflate")
        batches = list(DECODERS[InputFormat.AVRO](MemorySource(stored), None, options=AVRO))
        assert sum(len(batch) for batch in batches) == 25_000
        assert max(len(batch) for batch in batches) <= 10_000
        assert max(len(batch.values.buffer) for batch in batches) <= 4 << 20


def _survives(seed: int) -> None:
    rng = random.Random(seed)
    mixed = rng.random() < 0.5
    stored = file_of(MIXED if mixed else ROW, _rows(30, mixed=mixed), codec=rng.choice(list(CODECS)))
    content = bytearray(stored)
    if rng.random() < 0.2:
        del content[rng.randrange(len(content)) :]
    else:
        for _ in range(rng.randint(1, 6)):
            content[rng.randrange(len(content))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    try:
        decode_all(MemorySource(bytes(content)), AVRO)
    except InvalidObject as error:
        reasons = {error.reason}
    else:
        reasons = set()
    assert reasons <= {"unsupported", "unit_too_large", "too_deep", "invalid_schema", "too_large"}


@pytest.mark.parametrize("first", range(0, 160, 40))
def test_mutated_files_end_in_a_state(first: int) -> None:
    """Rows, bad rows, ObjectCorrupt or InvalidObject; never another error."""
    for seed in range(first, first + 40):
        _survives(seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 4500, 500))
def test_many_mutated_files_end_in_a_state(first: int) -> None:
    """The same, thousands of times."""
    for seed in range(first, first + 500):
        _survives(seed)
