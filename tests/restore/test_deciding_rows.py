"""Which row of an object shows what all of them are: the first that is read, and none that is not."""

import gzip
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import fastavro
import pytest
import zstandard

from headrace.conversion.archives import ArchiveDecoder
from headrace.formats import DecodeOptions
from headrace.formats.content_kind import RowFormat
from headrace.model.columns import RowBatch
from headrace.model.errors import InvalidObject
from headrace.model.positions import Position
from tests.headrace.formats.memory_source import MemorySource
from tests.headrace.options.loading import load_with

_LENSES: Final = "orders/0/000000000009_1_2.json"
_OWN: Final = "orders/0/00000000000000000001.headrace.jsonl"
_OWN_ARRAY: Final = "orders/0/00000000000000000001.headrace.json"
_AIVEN: Final = "orders-0-1"
_CONFLUENT: Final = "topics/orders/partition=0/orders+0+0000000001.json"
_KEYS: Final = {"lenses": _LENSES, "headrace": _OWN, "aiven": _AIVEN, "confluent": _CONFLUENT}

_PACKED: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}
_PACKINGS: Final = pytest.mark.parametrize("packing", _PACKED)
_LAYOUTS: Final = pytest.mark.parametrize("layout", _KEYS)


def _options(config: Mapping[str, str], key: str) -> tuple[ArchiveDecoder, DecodeOptions]:
    layout = "headrace" if key == _OWN_ARRAY else {of: each for each, of in _KEYS.items()}.get(key, "auto")
    unset: dict[str, str | None] = {"topic": None, "file.name.template": None}
    # So a row of 1.2 MB is larger than one may be.
    least = {"record.max.bytes": "100000"}
    settings = load_with({**unset, **least, "input.layout": layout, **config}).format
    assert settings.restore is not None
    return ArchiveDecoder(settings.restore), DecodeOptions(format=settings, topic="orders")


def _decoded(
    key: str,
    content: bytes,
    config: Mapping[str, str] | None = None,
    *,
    start: Position | None = None,
    begin: int | None = None,
    limit: int | None = None,
) -> list[RowBatch]:
    decoder, options = _options(config or {}, key)
    options = replace(options, topic_max_bytes=limit)
    source = MemorySource(content, chunk=1 << 16, name=f"s3://archive/{key}")
    end = None if begin is None else len(content)
    return list(decoder.decode(source, start, key=key, options=options, begin=begin, end=end))


_PLAIN: Final = {"format.output.fields.value.encoding": "none"}


def _pairs(batches: list[RowBatch]) -> list[tuple[bytes | None, bytes | None]]:
    """Key and value of each record."""
    return [
        (None if batch.keys is None else batch.keys.get(row), batch.values.get(row))
        for batch in batches
        for row in range(len(batch))
    ]


def _reasons(batches: list[RowBatch]) -> list[str]:
    return [bad.reason for batch in batches for bad in batch.bad]


def _row(layout: str, value: Any, offset: int) -> bytes:
    """A row of the layout's envelope; under Confluent's names it is our own."""
    place = {"topic": "orders", "partition": 0, "offset": offset}
    row: dict[str, Any] = {"key": "k", "value": value}
    match layout:
        case "lenses":
            row |= {"metadata": {**place, "timestamp": 1}}
        case "aiven":
            row |= {"offset": offset}
        case _:
            row |= place
    return json.dumps(row, separators=(",", ":")).encode()


_FIRST: Final = {
    "large": b'{"key":"k","value":"%s"}\n' % (b"x" * 1_200_000),
    "several large ones": b'{"key":"k","value":"%s"}\n' % (b"x" * 1_200_000) * 3,
    "cut short": b'{"key":"k","val\n',
    "a lone surrogate": b'{"key":"k","value":"\\ud83d"}\n',
    "not UTF-8": b'{"key":"k","value":"\xff"}\n',
    "too deep": b"[" * 2000 + b"]" * 2000 + b"\n",
    "blank": b"\n \n",
    "a mark": b"\xef\xbb\xbf",
    "a mark and a blank line": b"\xef\xbb\xbf\r\n",
    "a mark and a row cut short": b'\xef\xbb\xbf{"key":\n',
}


@_PACKINGS
@pytest.mark.parametrize("first", _FIRST)
@_LAYOUTS
def test_rows_that_are_not_read_decide_nothing(layout: str, first: str, packing: str) -> None:
    """The rows after them are the records they were, wherever reading begins."""
    rows = b"".join(_row(layout, "v", offset) + b"\n" for offset in (2, 3, 4))
    content = _PACKED[packing](_FIRST[first] + rows)
    found = _decoded(_KEYS[layout], content)

    expected = [(b"k", value) for value in [b"v" if layout in {"lenses", "aiven"} else b'"v"'] * 3]
    assert _pairs(found) == expected
    assert bool(_reasons(found)) is (first not in {"blank", "a mark", "a mark and a blank line"})

    last = next(batch for batch in found if len(batch) == 3)
    assert _pairs(_decoded(_KEYS[layout], content, start=last.positions(1))) == expected[1:]
    if packing == "plain":
        within = len(_FIRST[first]) + 1
        assert _pairs(_decoded(_KEYS[layout], content, begin=within)) == expected[1:]
    # A limit that was lowered meanwhile changes what is too large, and not what rows are.
    assert _pairs(_decoded(_KEYS[layout], content, start=last.positions(1), limit=120)) == expected[1:]


@_PACKINGS
@pytest.mark.parametrize(("layout", "key"), [("lenses", _LENSES), ("headrace", _OWN_ARRAY)])
@pytest.mark.parametrize("first", ["large", "a lone surrogate", "not UTF-8"])
@pytest.mark.parametrize("begin", [b"[\n", b"\xef\xbb\xbf\n[\n"], ids=["plain", "a mark"])
def test_nor_do_elements_of_an_array(layout: str, key: str, first: str, begin: bytes, packing: str) -> None:
    """Rows are the elements of it."""
    rows = [_FIRST[first].strip(), *(_row(layout, "v", offset) for offset in (2, 3))]
    content = begin + b",\n".join(rows) + b"\n]\n"
    found = _decoded(key, _PACKED[packing](content))
    assert [key for key, _ in _pairs(found)] == [b"k", b"k"]
    assert len(_reasons(found)) == 1


@pytest.mark.parametrize("row", [b"1", b'"x"', b"[1]", b"null", b'{"id":1}', b"true"])
@pytest.mark.parametrize("first", ["cut short", "blank", "a mark", "large"])
@_LAYOUTS
def test_a_value_of_json_decides_that_rows_are_values(layout: str, first: str, row: bytes) -> None:
    """Also where one after it looks like an envelope."""
    content = _FIRST[first] + row + b"\n" + _row(layout, "v", 2) + b"\n"
    found = _pairs(_decoded(_KEYS[layout], content, {"input.format": "jsonl"}))
    assert [key for key, _ in found] == [None, None]
    assert found[1][1] == _row(layout, "v", 2)


_TOLD: Final = {
    "lenses": ("store.envelope", "true"),
    "aiven": ("format.output.envelope", "true"),
    "headrace": ("restore.envelope", "yes"),
}


_LARGEST: Final = b'{"key":"k","value":"%s"}\n' % (b"x" * (66 << 20))
_TEXTS: Final = b"hello\n" * 20_000


@pytest.mark.parametrize(
    ("first", "packing"),
    [(_TEXTS, "plain"), (_TEXTS, "gzip"), (_LARGEST, "plain"), (_LARGEST, "zstd")],
    ids=["many", "many in gzip", "large", "large in zstd"],
)
@pytest.mark.parametrize("layout", _TOLD)
def test_where_no_row_decides_the_object_waits_for_an_option(layout: str, first: bytes, packing: str) -> None:
    """It is not looked at to its end, so that rows may come that are read."""
    content = _PACKED[packing](first + _row(layout, "v", 2) + b"\n")
    with pytest.raises(InvalidObject) as raised:
        _decoded(_KEYS[layout], content, {"input.format": "jsonl"})
    assert raised.value.reason == "envelope_undecided"
    name, value = _TOLD[layout]
    assert f"Set {name} to" in str(raised.value)
    looks = "It looks like lines of text that are not JSON: set input.format=text."
    assert str(raised.value).endswith(looks) is first.startswith(b"hello")

    told = _pairs(_decoded(_KEYS[layout], content, {"input.format": "jsonl", name: value}))
    assert [key for key, _ in told] == [b"k"]


def test_rows_of_confluent_are_values_where_none_shows_more() -> None:
    """Its sink writes no envelope, so nothing waits for an option of another one's."""
    bad = b"hello\n" * 20_000
    value = b'{"topic":"orders","partition":0,"offset":2,"value":1}'
    assert _pairs(_decoded(_CONFLUENT, bad + value + b"\n")) == [(None, value)]


@pytest.mark.parametrize("own", [{"key": 7}, {"key": {}}, {"timestamp": "2024-01-01"}, {"headers": {"a": 1}}])
def test_a_value_that_tells_its_place_is_a_value(own: dict[str, object]) -> None:
    """As of InsertField: members of an envelope's names and of other types are the value's own."""
    place = {"topic": "orders", "partition": 0}
    values: list[dict[str, object]] = [{**own, "value": 10}, {"value": 20}]
    rows = [
        json.dumps({**place, "offset": offset, **value}).encode()
        for offset, value in enumerate(values, start=1)
    ]
    found = _decoded(_CONFLUENT, b"".join(row + b"\n" for row in rows))
    assert [value for _, value in _pairs(found)] == rows
    assert not _reasons(found)


@_LAYOUTS
def test_an_object_without_a_row_that_is_read_needs_no_option(layout: str) -> None:
    """Its rows are bad, each for itself, or there are none."""
    how = {"input.format": "jsonl"}
    assert _reasons(_decoded(_KEYS[layout], b"{\n" * 3, how)) == ["not_json"] * 3
    assert _reasons(_decoded(_KEYS[layout], _FIRST["large"] * 9, how)) == ["too_large"] * 9
    for content in (b"", b"\n \n\n", b"\xef\xbb\xbf\n"):
        found = _decoded(_KEYS[layout], content, how)
        assert not _pairs(found)
        assert not _reasons(found)


@pytest.mark.parametrize("layout", ["lenses", "headrace"])
def test_an_object_of_no_members_may_be_an_envelope_of_nulls(layout: str) -> None:
    """Another row tells. It has no value, so that it is a bad record then, and no tombstone."""
    with pytest.raises(InvalidObject, match="envelope") as raised:
        _decoded(_KEYS[layout], b"{}\n{ }\n")
    assert raised.value.reason == "envelope_undecided"
    found = _decoded(_KEYS[layout], b"{}\n" + _row(layout, 1, 2) + b"\n")
    assert _pairs(found) == [(b"k", b"1")]
    assert [bad.reason for batch in found for bad in batch.bad] == ["no_value"]
    assert _pairs(_decoded(_KEYS[layout], b'{}\n{"id":1}\n')) == [(None, b"{}"), (None, b'{"id":1}')]


# -- Aiven's names do not say how rows are cut -------------------------------------------------------------

_CSV: Final = {
    "a value": (b"dmFsdWU=\ndg==", {}, [b"value", b"v"]),
    "a null first": (b"\ndg==", {}, [None, b"v"]),
    "a null, and what is JSON too": (b"\n1234", {}, [None, b"\xd7m\xf8"]),
    "bad fields": (b"dg==,1\ndg==", {}, [b"v"]),
    "bad text": (b"?\ndg==", {}, [b"v"]),
    "nothing": (b"", {}, [None]),
    "nulls": (b"\n", {}, [None, None]),
    "a plain text": (b"{a=1}\n{}", _PLAIN, [b"{a=1}", b"{}"]),
    "a plain text over lines": (b'{"a":\n"b"}', _PLAIN, [b'{"a":', b'"b"}']),
    "texts of which one is JSON": (
        b'hello world!\n{"a":1}\nbye now',
        {"restore.value": "string"},
        [b"hello world!", b'{"a":1}', b"bye now"],
    ),
    "lines of a log": (
        b"[2026-01-01] started\n" * 20_000 + b'"quoted" by nobody',
        {"restore.value": "string"},
        [b"[2026-01-01] started"] * 20_000 + [b'"quoted" by nobody'],
    ),
    "plain JSON before keys": (
        b'{"id":1},aw==\n' * 20_000 + b'{"id":1},',
        {**_PLAIN, "format.output.fields": "value,key"},
        [b'{"id":1}'] * 20_001,
    ),
}


@pytest.mark.parametrize(("content", "config", "expected"), _CSV.values(), ids=_CSV)
def test_csv_is_what_has_its_signs(
    content: bytes, config: dict[str, str], expected: list[bytes | None]
) -> None:
    """Base64 and numbers between commas; or whatever there is where nothing is JSON."""
    assert [value for _, value in _pairs(_decoded(_AIVEN, content, config))] == expected


@pytest.mark.parametrize("first", [b"!!!", b"a, b and c", b"\xff\xfe", b"!!!\n??"])
def test_a_first_row_that_is_good_in_no_format_does_not_choose_csv(first: bytes) -> None:
    """By it all rows of JSON would be bad ones; with the format that is said it alone is."""
    content = first + b"\n" + _row("aiven", "v", 2)
    with pytest.raises(
        InvalidObject, match=r"or is neither with JSON after it\. Set input\.format"
    ) as raised:
        _decoded(_AIVEN, content)
    assert raised.value.reason == "format_undecided"

    found = _decoded(_AIVEN, content, {"input.format": "jsonl"})
    assert _pairs(found) == [(b"k", b"v")]
    assert set(_reasons(found)) <= {"not_json", "not_utf8"}


@pytest.mark.parametrize("form", ["string", "json"])
def test_a_first_row_that_is_good_in_no_format_before_an_envelope(form: str) -> None:
    """Where values are texts all rows would be good ones of csv, and hold the others' JSON."""
    content, config = b"!!!\n" + _row("aiven", "v", 2), {"restore.value": form}
    with pytest.raises(InvalidObject) as raised:
        _decoded(_AIVEN, content, config)
    assert raised.value.reason == "format_undecided"

    found = _decoded(_AIVEN, content, {**config, "input.format": "jsonl"})
    assert _pairs(found) == [(b"k", b"v" if form == "string" else b'"v"')]
    # A row of csv, and a text of a log before it.
    for first in (b"dg==\n", b"!!!\n??\n"):
        read = _pairs(_decoded(_AIVEN, first + _row("aiven", "v", 2), config))
        assert [value for _, value in read] == first.split()


@pytest.mark.parametrize("form", ["string", "json"])
@pytest.mark.parametrize("row", [b"!!!", b"hello", b"!" * 40_000], ids=["mark", "text", "long"])
def test_of_what_decides_nothing_is_read_twice(row: bytes, form: str) -> None:
    """Where values are texts, lines after the first are looked at as well: of most they are at hand."""
    decoder, options = _options({"restore.value": form}, _AIVEN)
    source = MemorySource((row + b"\n") * 50_000 if len(row) < 100 else (row + b"\n") * 20)
    found = decoder.read_as(source, _AIVEN, options)
    assert found.row_format is RowFormat.LINES
    # But for what it is compressed with.
    (_, *heads) = source.reads
    assert heads[0][0] == 0
    assert all(end == begin for (_, end), (begin, _) in pairwise(heads)), heads
    assert len(heads) == 1 or len(row) > 100


@pytest.mark.parametrize("rest", [[b"YQ=="], [b"??", b"YQ==", b'{"a":1}'], [b""], [b"[1]", b"YQ=="]])
def test_a_first_row_that_is_good_in_no_format_before_csv(rest: list[bytes]) -> None:
    """It is a bad row, as others are."""
    found = _decoded(_AIVEN, b"\n".join([b"!!!", *rest]))
    good = {b"YQ==": b"a", b"": None}
    assert [value for _, value in _pairs(found)] == [good[one] for one in rest if one in good]
    assert "not_base64" in _reasons(found)


@pytest.mark.parametrize("row", [b'"a', b"[1,", b'{"key":"k","val'])
def test_a_broken_row_of_json_makes_no_csv(row: bytes) -> None:
    """Its lines would become made-up records."""
    found = _decoded(_AIVEN, row + b"\n" + _row("aiven", "v", 2))
    assert _pairs(found) == [(b"k", b"v")]
    assert len(_reasons(found)) == 1


@pytest.mark.parametrize("first", ["large", "a lone surrogate", "not UTF-8", "cut short"])
def test_bad_rows_of_json_alone_make_no_null(first: str) -> None:
    """As csv the line feed at the end is a row, that of a null without a key."""
    assert len(_FIRST[first]) - 1 == _FIRST[first].index(b"\n")
    found = _decoded(_AIVEN, _FIRST[first] * 3)
    assert not _pairs(found)
    assert len(_reasons(found)) == 3


@pytest.mark.parametrize("first", [b"\n", b"  \n", b'{"broken\n', b"a text\n"])
def test_a_first_row_that_is_no_json_is_of_csv_with_plain_values(first: bytes) -> None:
    """Nulls and texts, whatever the values after them look like."""
    found = _decoded(_AIVEN, first + b'{"value":1}\n{"value":2}', _PLAIN)
    null_or_text = first.removesuffix(b"\n") or None
    assert [value for _, value in _pairs(found)] == [null_or_text, b'{"value":1}', b'{"value":2}']


def test_where_no_row_shows_csv_or_json_the_format_is_undecided() -> None:
    """Where options say that values of csv are as they are, rows that are no JSON are csv."""
    for content in (b'{"key\n' * 20_000, _LARGEST):
        with pytest.raises(InvalidObject, match=r"Set input\.format") as raised:
            _decoded(_AIVEN, content + _row("aiven", "v", 2))
        assert raised.value.reason == "format_undecided"
    plain = _decoded(_AIVEN, b'{"n":NaN}\n' * 20_000, _PLAIN)
    assert [value for _, value in _pairs(plain)] == [b'{"n":NaN}'] * 20_000 + [None]


# -- What else goes by the beginning -----------------------------------------------------------------------


@pytest.mark.parametrize("first", ["large", "blank", "a mark", "cut short"])
@_LAYOUTS
def test_plan_and_check_go_by_the_same_row(layout: str, first: str) -> None:
    """What they say comes back is what comes back."""
    key = _KEYS[layout]
    decoder, options = _options({}, key)
    rows = b"".join(_row(layout, "v", offset) + b"\n" for offset in (2, 3))
    source = MemorySource(_FIRST[first] + rows, name=f"s3://archive/{key}")
    _, facts = decoder.facts(source, key=key, options=options)
    assert facts.row_format is RowFormat.JSONL
    assert facts.members is not None
    assert facts.members >= {"key", "value"}


def test_a_row_of_the_place_tells_though_it_is_bad_itself() -> None:
    """Our own rows under names of Confluent's form: the rows after it are no values."""
    bad = _row("confluent", 1, 1).replace(b'"key":"k"', b'"key_base64":"?"')
    found = _decoded(_CONFLUENT, bad + b"\n" + _row("confluent", 1, 2) + b"\n")
    assert _pairs(found) == [(b"k", b"1")]
    assert _reasons(found) == ["not_base64"]


def test_a_schema_of_avro_is_looked_at_whole() -> None:
    """However long: the members that decide may be at its end."""
    fields = [{"name": each, "type": "string"} for each in ("key", "value")]
    out = io.BytesIO()
    schema = {"type": "record", "name": "Row", "doc": "x" * 200_000, "fields": fields}
    fastavro.writer(out, schema, [{"key": "k", "value": "v"}])
    key = _LENSES.replace(".json", ".avro")
    decoder, options = _options({}, _LENSES)
    assert len(out.getvalue()) > 200_000
    source = MemorySource(out.getvalue(), name=f"s3://archive/{key}")
    with pytest.raises(InvalidObject) as raised:
        list(decoder.decode(source, None, key=key, options=options, begin=None, end=None))
    assert raised.value.reason == "envelope_undecided"


@pytest.mark.parametrize("first", ["large", "cut short", "a lone surrogate", "blank", "a mark"])
@_PACKINGS
def test_a_name_of_another_layout_than_the_row_that_decides_is_noticed(first: str, packing: str) -> None:
    """With `input.layout=auto`: Aiven's rows under a name of Lenses' form would be values."""
    content = _PACKED[packing](_FIRST[first] + _row("aiven", "v", 2) + b"\n")
    with pytest.raises(InvalidObject, match="but its content is aiven's") as raised:
        _decoded(_LENSES, content, {"input.layout": "auto"})
    assert raised.value.reason == "layout_undecided"


def test_a_text_shows_no_layout_by_what_comes_after_it() -> None:
    """Lines of text hold whatever they hold."""
    content = b"hello\n" + _row("aiven", "v", 2) + b"\n"
    key = _LENSES.replace(".json", ".text")
    found = _decoded(key, content, {"input.layout": "auto"})
    assert [value for _, value in _pairs(found)] == content.splitlines()
