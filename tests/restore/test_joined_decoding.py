"""Objects of an archive read with those of their keys and headers, and with tombstones merged into them."""

import gzip
import io
import json
from collections.abc import Sequence
from typing import Any, Final

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.conversion.archives import ArchiveDecoder
from headrace.conversion.joined import JoinedDecoder, MergedTombstones, ReadObject
from headrace.formats import DecodeOptions
from headrace.model.columns import RowBatch
from headrace.model.errors import InvalidObject, ObjectCorrupt, ObjectMissing
from headrace.model.objects import RowPlace
from headrace.model.positions import BytePosition, JoinedPosition, Position
from tests.headrace.formats.memory_source import MemorySource
from tests.headrace.options.loading import load_with
from tests.support.examples import examples

_STEM: Final = "topics/t/partition=0/t+0+0000000000"
_TOMBSTONES: Final = "topics/t/tombstone/t+0+0000000001"
_FORMATS: Final = ("json", "avro", "snappy.parquet")

# Key, value, headers, and whether the row was bad.
_Row = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], str | None]


def _decoder(**changes: str) -> JoinedDecoder:
    given_options = {name.replace("__", "."): value for name, value in changes.items()}
    config: dict[str, str | None] = {"topic": None, "file.name.template": None, "input.layout": "confluent"}
    loaded = load_with(
        {**config, "restore.key": "string", "restore.header": "string", **given_options}
    ).format
    assert loaded.restore is not None
    return JoinedDecoder(ArchiveDecoder(loaded.restore), DecodeOptions(format=loaded, topic="t"))


def _part(key: str, content: bytes) -> ReadObject:
    return ReadObject(key, MemorySource(content, chunk=7, name=f"s3://archive/{key}"))


def _values(rows: Sequence[int], extension: str = "json") -> ReadObject:
    content = _packed([{"n": row} for row in rows], [{"name": "n", "type": "long"}], extension)
    return _part(f"{_STEM}.{extension}", content)


def _keys(rows: Sequence[int], extension: str = "json", stem: str = _STEM) -> ReadObject:
    texts = [f"k{row}" for row in rows]
    if extension == "json":
        content = b"".join(json.dumps(text).encode() + b"\n" for text in texts)
    elif extension == "avro":
        content = _avro(["null", "string"], texts)
    else:
        content = _parquet([{"key": text} for text in texts])
    return _part(f"{stem}.keys.{extension}", content)


def _headers(rows: Sequence[int], extension: str = "json", stem: str = _STEM) -> ReadObject:
    lists = [[{"key": "h", "value": f"v{row}"}] for row in rows]
    if extension == "avro":
        pair = {
            "type": "record",
            "name": "Header",
            "fields": [{"name": "key", "type": "string"}, {"name": "value", "type": "string"}],
        }
        return _part(f"{stem}.headers.avro", _avro({"type": "array", "items": pair}, lists))
    return _part(f"{stem}.headers.{extension}", _packed([{"headers": each} for each in lists], [], extension))


def _packed(rows: list[dict[str, Any]], fields: list[dict[str, str]], extension: str) -> bytes:
    if extension == "json":
        return b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in rows)
    if extension == "avro":
        return _avro({"type": "record", "name": "Row", "fields": fields}, rows)
    return _parquet(rows)


def _avro(schema: Any, rows: list[Any]) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema), rows, sync_interval=40)
    return out.getvalue()


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), out, row_group_size=4)
    return out.getvalue()


def _read(batches: Sequence[RowBatch]) -> list[tuple[JoinedPosition, _Row]]:
    """Every row in its order, the bad ones included, with where it begins."""
    found: list[tuple[JoinedPosition, _Row]] = []
    for batch in batches:
        bad = list(reversed(batch.bad))
        for index in range(len(batch) + 1):
            while bad and bad[-1].index == index:
                each = bad.pop()
                found.append((_joined(each.position), (None, None, (), each.reason)))
            if index < len(batch):
                keys = None if batch.keys is None else batch.keys.get(index)
                headers = () if batch.headers is None else batch.headers[index]
                found.append(
                    (_joined(batch.positions(index)), (keys, batch.values.get(index), headers, None))
                )
    return found


def _joined(position: Position) -> JoinedPosition:
    assert isinstance(position, JoinedPosition)
    return position


def _rows(
    own: ReadObject, sides: Sequence[ReadObject], *, start: Position | None = None, **changes: str
) -> list[tuple[JoinedPosition, _Row]]:
    return _read(list(_decoder(**changes).decode(own, sides, (), start)))


def _expected(row: int) -> _Row:
    return b"k%d" % row, b'{"n":%d}' % row, (("h", b"v%d" % row),), None


@pytest.mark.parametrize("values", _FORMATS)
@pytest.mark.parametrize("keys", _FORMATS)
@pytest.mark.parametrize("headers", _FORMATS)
def test_three_formats_are_joined_and_resumed_at_any_row(values: str, keys: str, headers: str) -> None:
    """Whatever the formats: row i of each, from the beginning and from every position on."""
    rows = range(11)
    parts = [_keys(rows, keys), _headers(rows, headers)]
    found = _rows(_values(rows, values), parts)

    assert [row for _, row in found] == [_expected(row) for row in rows]
    assert [position.row for position, _ in found] == list(rows)
    for number, (position, _) in enumerate(found):
        again = _rows(_values(rows, values), parts, start=position)
        assert [row for _, row in again] == [_expected(row) for row in range(number, 11)]


def test_a_bad_row_keeps_its_place_and_that_of_its_side() -> None:
    """Bad in the values, bad in the keys: what is behind has its own key still, from any position on."""
    own = _part(f"{_STEM}.json", b'{"n":0}\nno\n{"n":2}\n{"n":3}\n')
    keys = _part(f"{_STEM}.keys.json", b'"k0"\n"k1"\nno\n"k3"\n')
    found = _rows(own, [keys])

    assert [row[0] or row[3] for _, row in found] == [b"k0", "not_json", "not_json", b"k3"]
    for number, (position, _) in enumerate(found):
        assert _rows(own, [keys], start=position) == found[number:]


@pytest.mark.parametrize(("extension", "first"), [("snappy.parquet", 0), ("json", 4)])
@pytest.mark.parametrize("rows", [4, 6])
def test_other_numbers_of_rows_are_refused(extension: str, first: int, rows: int) -> None:
    """Before the first row where the footers tell; else the sentence says which rows are in Kafka."""
    decoded: list[RowBatch] = []
    batches = _decoder().decode(_values(range(5), extension), [_keys(range(rows), extension)], (), None)
    with pytest.raises(InvalidObject) as raised:
        decoded.extend(batches)

    assert raised.value.reason == "sidecar_rows_differ"
    written = sum(map(len, decoded))
    assert written == (0 if first == 0 or rows < 5 else 5)
    said = f"The {written} rows before are in Kafka" if extension == "json" else "no row of it is in Kafka"
    assert said in str(raised.value)


def test_values_that_may_hold_their_separator_are_counted_first() -> None:
    """A value with a newline makes two rows of one: no record may get the key of another."""
    own = _part(f"{_STEM}.bin", b"one\ntwo\nlines\n")

    with pytest.raises(InvalidObject, match=r"has 3 rows and .* has 2, so it is not certain which keys"):
        _rows(own, [_keys(range(2))])


_PLAIN_KEYS: Final = [b'"a"', b"", b"null", b" 7 ", b"{"]


@pytest.mark.parametrize("separator", ["\n", "|", "\r\n"])
@pytest.mark.parametrize("ending", ["bin", "bin.gz", "csv", "bytes", "text"])
@pytest.mark.parametrize("values", ["json", "avro", "bin"])
def test_keys_of_bytes_are_what_they_are(separator: str, ending: str, values: str) -> None:
    """Byte for byte, empty ones too: no line of JSON, whatever ending ByteArray was given."""
    end = separator.encode()
    content = b"".join(key + end for key in _PLAIN_KEYS)
    keys = _part(f"{_STEM}.keys.{ending}", gzip.compress(content) if ending.endswith("gz") else content)
    rows = range(len(_PLAIN_KEYS))
    own = _part(f"{_STEM}.{ending}", b"".join(b"%d" % row + end for row in rows))
    own = own if values == "bin" else _values(rows, values)

    found = _rows(own, [keys], format__bytearray__separator=separator)

    assert [row[0] for _, row in found] == _PLAIN_KEYS
    assert all(row[3] is None for _, row in found)
    for number, (position, _) in enumerate(found):
        assert _rows(own, [keys], start=position, format__bytearray__separator=separator) == found[number:]


def test_keys_of_bytes_may_be_base64() -> None:
    """As values of a sink that had them so."""
    found = _rows(_values(range(2)), [_part(f"{_STEM}.keys.bin", b"azA=\n!\n")], restore__key="base64")

    assert [row[0] or row[3] for _, row in found] == [b"k0", "not_base64"]


@pytest.mark.parametrize("values", ["json", "avro", "snappy.parquet"])
def test_keys_that_may_hold_their_separator_are_counted_first(values: str) -> None:
    """As values are, whatever these are written in: no record may get the key of another."""
    keys = _part(f"{_STEM}.keys.bin", b"k0\nk\n1\n")

    with pytest.raises(InvalidObject, match=r"has 2 rows and .* has 3, so it is not certain which keys"):
        _rows(_values(range(2), values), [keys])


def test_keys_of_tombstones_that_may_hold_their_separator_are_counted_first() -> None:
    """Where they have headers, which would be those of others."""
    keys = _part(f"{_TOMBSTONES}.keys.bin", b"k\n0\n")
    merged = MergedTombstones(keys, _headers([0], stem=_TOMBSTONES), (RowPlace(0, 0, 1),))

    with pytest.raises(InvalidObject, match=r"has 2 rows and .* has 1, so it is not certain which headers"):
        list(_decoder().decode(_values([0]), [], [merged], None))


def test_a_cut_key_is_damage() -> None:
    """Each ends with the separator, and a line of JSON with a line feed."""
    for ending, content in (("bin", b"k0\nk1"), ("json", b"1\n12")):
        with pytest.raises(ObjectCorrupt, match="cut short"):
            _rows(_values(range(2)), [_part(f"{_STEM}.keys.{ending}", content)])


@pytest.mark.parametrize("told", ["bytes", "jsonl", "avro", "parquet"])
@pytest.mark.parametrize("side", _FORMATS)
def test_a_given_format_is_that_of_values(told: str, side: str) -> None:
    """Keys, headers and tombstones have formats of their own, by the sink's own options."""
    rows = range(3)
    values = {"bytes": "bin", "jsonl": "json", "parquet": "snappy.parquet"}
    extension = values.get(told, told)
    own = _part(f"{_STEM}.bin", b"a\nb\nc\n") if extension == "bin" else _values(rows, extension)
    tombstones = _keys(rows, side, stem=_TOMBSTONES)

    found = _rows(own, [_keys(rows, side), _headers(rows, side)], input__format=told)
    alone = _rows(tombstones, [_headers(rows, side, stem=_TOMBSTONES)], input__format=told)

    assert [(row[0], row[2], row[3]) for _, row in found] == [
        (b"k%d" % row, (("h", b"v%d" % row),), None) for row in rows
    ]
    assert [row for _, row in alone] == [(b"k%d" % row, None, (("h", b"v%d" % row),), None) for row in rows]


def test_confluents_own_source_configuration_reads_its_sinks_keys() -> None:
    """ByteArrayFormat is of the values: keys are Avro unless the sink was told another format."""
    source = "io.confluent.connect.s3."
    loaded = load_with(
        {
            "topic": None,
            "file.name.template": None,
            "aws.s3.bucket.name": None,
            "connector.class": f"{source}source.S3SourceConnector",
            "s3.bucket.name": "bucket",
            "s3.region": "us-east-1",
            "format.class": f"{source}format.bytearray.ByteArrayFormat",
        }
    ).format
    assert loaded.restore is not None
    decoder = JoinedDecoder(ArchiveDecoder(loaded.restore), DecodeOptions(format=loaded, topic="t"))
    own = _part(f"{_STEM}.bin", b"a\nb\n")

    found = _read(list(decoder.decode(own, [_keys(range(2), "avro"), _headers(range(2), "avro")], (), None)))

    assert [row for _, row in found] == [
        (b"k0", b"a", (("h", b"v0"),), None),
        (b"k1", b"b", (("h", b"v1"),), None),
    ]


class _Gone(MemorySource):
    def read_at(self, offset: int, length: int) -> bytes:
        del offset, length
        raise ObjectMissing(f"{self.name} is gone.")


@pytest.mark.parametrize("values", ["json", "snappy.parquet"])
@pytest.mark.parametrize("keys", ["json", "bin", "snappy.parquet"])
def test_a_side_object_that_is_gone_is_not_the_value_object(values: str, keys: str) -> None:
    """`missing` would be the end of values that are there; also where rows are counted first."""
    gone = ReadObject(f"{_STEM}.keys.{keys}", _Gone(b'"k"\n', name="s3://archive/gone"))

    with pytest.raises(InvalidObject, match=r"s3://archive/gone is gone\. It holds the keys") as raised:
        _rows(_values(range(1), values), [gone])
    assert raised.value.reason == "side_object_changed"


def test_a_position_of_another_kind_is_refused() -> None:
    """Such as the ledger may hold of a reading without side objects."""
    with pytest.raises(ObjectCorrupt, match="not one of an object that is read with others"):
        _rows(_values(range(1)), [_keys(range(1))], start=BytePosition(0))


def test_the_limit_counts_keys_and_headers() -> None:
    """A record is too large with its key, though value and key alone are not."""
    keys = _part(f"{_STEM}.keys.json", b'"%s"\n"k"\n' % (b"k" * 4090))
    found = _rows(_values(range(2)), [keys], record__max__bytes="4096")

    assert [row[3] for _, row in found] == ["too_large", None]


def test_where_a_row_was_is_said_behind_its_own_headers() -> None:
    """Once, and with the position that a resume would use."""
    ((_, row),) = _rows(_values([0]), [_headers([0])], record__headers="source")

    names = [name for name, _ in row[2]]
    assert names == ["h", "headrace.position", "headrace.source.topic", "headrace.source.partition"]
    assert dict(row[2])["headrace.position"] == b'{"values":{"byte":0},"row":0,"tombstones":0}'


def test_tombstones_are_keys_and_headers_from_their_first_row_on() -> None:
    """The rows before are merged into other objects."""
    own, headers = _keys(range(3), stem=_TOMBSTONES), _headers(range(3), stem=_TOMBSTONES)

    found = _read(list(_decoder().decode(own, [headers], (), None, first_row=1)))

    assert [row for _, row in found] == [(b"k%d" % row, None, (("h", b"v%d" % row),), None) for row in (1, 2)]


# Before which value rows the tombstones stand that one object has, and then those of another one.
_PLACES = st.lists(st.integers(0, 8), max_size=8).map(sorted)


@settings(max_examples=examples(60), deadline=None)
@given(one=_PLACES, two=_PLACES, bad=st.sets(st.integers(0, 8)))
def test_tombstones_stand_where_they_were_placed(one: list[int], two: list[int], bad: set[int]) -> None:
    """Between whatever rows, good or bad; and from any position on nothing is lost or repeated."""
    lines = [b"no" if row in bad else b'{"n":%d}' % row for row in range(9)]
    own = _part(f"{_STEM}.json", b"".join(line + b"\n" for line in lines))
    keys = _keys(range(9))
    stems = (_TOMBSTONES, "topics/t/tombstone/t+0+0000000002")
    merged = [_merged(places, stem) for places, stem in zip((one, two), stems, strict=True) if places]
    decoder = _decoder()

    found = _read(list(decoder.decode(own, [keys], merged, None)))

    expected: list[tuple[bytes | None, bytes | None]] = []
    for row in range(9):
        for places in (one, two):
            expected += [(b"k%d" % number, None) for number, place in enumerate(places) if place == row]
        expected.append((None, None) if row in bad else (b"k%d" % row, lines[row]))
    assert [row[:2] for _, row in found] == expected
    for number, (position, _) in enumerate(found):
        assert _read(list(decoder.decode(own, [keys], merged, position))) == found[number:]


def _merged(places: list[int], stem: str) -> MergedTombstones:
    runs = tuple(RowPlace(row, number, 1) for number, row in enumerate(places))
    return MergedTombstones(_keys(range(len(places)), stem=stem), None, runs)


def test_places_beyond_the_last_row_are_refused() -> None:
    """The numbers of rows that proved them were others."""
    with pytest.raises(InvalidObject, match="fewer rows than the places"):
        list(_decoder().decode(_values(range(2)), [], [_merged([5], _TOMBSTONES)], None))
