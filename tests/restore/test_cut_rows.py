"""Rows that are taken as they are: where they are cut, and that reading goes on at any of their positions."""

import gzip
import zlib
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.conversion.archives import ArchiveDecoder
from headrace.formats import DecodeOptions
from headrace.formats.compression.plain import CHUNK_BYTES
from headrace.model.columns import RowBatch
from headrace.model.errors import InvalidObject, ObjectCorrupt
from headrace.model.positions import Position
from tests.headrace.formats.memory_source import MemorySource
from tests.headrace.options.loading import load_with
from tests.restore.one_object import batches_of, decoded, values_of

_CONFLUENT = "topics/t/partition=0/t+0+0000000000.bin"
_LENSES = "backups/t/0/000000000001_1_2.bytes"
_TEXT = "backups/t/0/000000000001_1_2.text"
_CSV = "backups/t/0/000000000001_1_2.csv"
_JSON = "backups/t/0/000000000001_1_2.json"


def _batches(key: str, content: bytes, start: Position | None = None, **more: str) -> list[RowBatch]:
    layout = {"t-0-0": "aiven", _CONFLUENT: "confluent"}.get(key, "lenses")
    changes = {name.replace("__", "."): value for name, value in more.items()}
    return decoded({"input.layout": layout, **changes}, key, content, start)


@pytest.mark.parametrize(
    ("key", "content", "expected"),
    [
        # Lines are joined: a tombstone alone has no bytes, and what is behind the last line feed is a row.
        ("t-0-0", b"", [None]),
        ("t-0-0", b"YQ==\n", [b"a", None]),
        ("t-0-0", b"YQ==\n\nYg==", [b"a", None, b"b"]),
        ("t-0-0", gzip.compress(b"YQ==\nYg==", mtime=0), [b"a", b"b"]),
        ("t-0-0", b'[\n{"value":1},\n{"value":"x"}\n]', [b"1", b"x"]),
        # Values are ended.
        (_CONFLUENT, b"a\n\nb\n", [b"a", b"", b"b"]),
        (_LENSES, b"a\nb\n", [b"a\nb\n"]),
        (_TEXT, b"a\n\nb\n", [b"a", b"", b"b"]),
        # An array is one wherever its lines end.
        ("t-0-0", b'[\n{"value":1},{"value":"x"}]', [b"1", b"x"]),
    ],
)
def test_rows_are_cut_as_the_sink_put_them(key: str, content: bytes, expected: list[bytes | None]) -> None:
    """None lost, none more, and the same from every position on."""
    batches = _batches(key, content)

    assert values_of(batches) == expected
    done = 0
    for batch in batches:
        for row in range(len(batch)):
            assert values_of(_batches(key, content, batch.positions(row))) == expected[done:]
            done += 1
    assert values_of(_batches(key, content, batches[-1].after)) == []


def test_a_separator_of_several_bytes() -> None:
    """Also where it lies across two chunks."""
    content = b"one\x00\x01two\x00\x01\x00\x01"

    assert values_of(_batches(_CONFLUENT, content, format__bytearray__separator="\x00\x01")) == [
        b"one",
        b"two",
        b"",
    ]


# As many bytes as a block has at least, of rows that each end with the separator.
_BEFORE: Final = (b"x" * 1022 + b"||") * (CHUNK_BYTES // 1024)


@given(st.lists(st.sampled_from([b"a", b"|"]), max_size=12).map(b"".join), st.integers(0, 12))
def test_rows_are_cut_from_the_left_wherever_a_block_ends(rest: bytes, at: int) -> None:
    """No byte is lost where signs of the separator follow each other; what is left at the end is damage."""
    settings = load_with(
        {
            "topic": None,
            "file.name.template": None,
            "input.layout": "confluent",
            "format.bytearray.separator": "||",
        }
    ).format
    assert settings.restore is not None
    source = MemorySource(_BEFORE + rest, chunk=len(_BEFORE) + at, name=f"s3://archive/{_CONFLUENT}")
    found: list[RowBatch] = []
    is_damaged = False
    try:
        found.extend(
            ArchiveDecoder(settings.restore).decode(
                source,
                None,
                key=_CONFLUENT,
                options=DecodeOptions(format=settings, topic="t"),
                begin=None,
                end=None,
            )
        )
    except ObjectCorrupt:
        is_damaged = True

    *rows, last = rest.split(b"||")
    assert values_of(found)[CHUNK_BYTES // 1024 :] == rows
    assert is_damaged == bool(last)


_GZIP: Final = gzip.compress(b"hello", mtime=0)
_ZIP: Final = b"PK\x03\x04 of a value"
_AVRO: Final = b"Obj\x01 and the rest of a file"
_BYTES: Final = {"input.format": "bytes"}
_STORED: Final = {"file.compression.type": "none"}


@pytest.mark.parametrize(
    "value", [_GZIP, zlib.compress(b"hello"), _ZIP, _AVRO, b"PAR1 too", b"[\n1\n]", b'{"a":1}\n{"a":2}\n']
)
@pytest.mark.parametrize("more", [{}, _BYTES, _STORED, _BYTES | _STORED])
def test_an_object_of_one_value_is_that_value(value: bytes, more: dict[str, str]) -> None:
    """Whatever file it is itself: Lenses' sink does not compress bytes, and has one record an object."""
    for layout in ("lenses", "auto"):
        found = decoded({"input.layout": layout, **more}, _LENSES, value)

        assert values_of(found) == [value]
        assert values_of(decoded({"input.layout": layout, **more}, _LENSES, value, found[-1].after)) == []


@pytest.mark.parametrize("value", [_GZIP, _ZIP, _AVRO, b"PAR1 too"])
@pytest.mark.parametrize("key", [_CONFLUENT, _CONFLUENT.replace(".bin", ".dat")])
def test_values_that_are_files_are_kept_where_objects_are_not_compressed(key: str, value: bytes) -> None:
    """`file.compression.type=none` with `input.format=bytes` takes the stored bytes."""
    given = {"input.layout": "confluent", "format.bytearray.separator": "<END>", **_BYTES, **_STORED}
    content = (value + b"<END>") * 2

    found = decoded(given, key, content)

    assert values_of(found) == [value] * 2
    assert values_of(decoded(given, key, content, found[0].positions(1))) == [value]


@pytest.mark.parametrize("value", [_GZIP, _ZIP, _AVRO, b"PAR1 too"])
def test_values_that_are_files_are_kept_in_an_object_that_is_compressed(value: bytes) -> None:
    """A compression or an archive within it is the value's."""
    given = {"input.layout": "confluent", "format.bytearray.separator": "<END>"}
    content = gzip.compress((value + b"<END>") * 2, mtime=0)

    assert values_of(decoded(given, f"{_CONFLUENT}.gz", content)) == [value] * 2


def test_bytes_that_are_compressed_are_what_they_hold() -> None:
    """Unless `file.compression.type=none` says otherwise."""
    found = decoded({"input.layout": "confluent"}, _CONFLUENT, gzip.compress(b"a\nb\n", mtime=0))
    assert values_of(found) == [b"a", b"b"]
    # Not for what is no bytes: there the content decides.
    given = {"input.layout": "lenses", **_STORED}
    assert values_of(decoded(given, _JSON, gzip.compress(b"1\n2\n", mtime=0))) == [b"1", b"2"]


@pytest.mark.parametrize(
    "values",
    [
        [b'{"id":1}', b"", b'{"id":2}'],
        [b'"abc"', b'"x"'],
        [b' {"a": 1} ', b'{"a":2}'],
        [b'{"id":1}', b"plain"],
        [b"plain", b"", b'{"id":1}', b'"abc"'],
        [b"1234", b"null"],
        [b"null", b"true"],
        [b"[1]", b""],
    ],
)
def test_values_of_csv_without_encoding_may_be_json(values: list[bytes]) -> None:
    """The encoding is an option of csv alone: lines are values byte for byte, and an empty one is null."""
    given = {"input.layout": "aiven", "format.output.fields.value.encoding": "none"}

    assert values_of(decoded(given, "t-0-0", b"\n".join(values))) == [value or None for value in values]


@pytest.mark.parametrize(
    ("content", "more"),
    [
        (b'{"value":{"id":1}}\n{"value":null}', {}),
        (b'{"key":1,"value":2}', {}),
        (b'[\n{"value":1}\n]', {}),
        (b'{"id":1}', {"format.output.envelope": "false"}),
    ],
)
def test_an_encoding_is_no_word_on_rows_that_may_be_of_jsonl(content: bytes, more: dict[str, str]) -> None:
    """The sink's own example has it next to jsonl, where it means nothing: `input.format` tells."""
    given = {"input.layout": "aiven", "format.output.fields.value.encoding": "none", **more}
    with pytest.raises(InvalidObject, match=r"Set input\.format to jsonl or to csv") as raised:
        decoded(given, "t-0-0", content)

    assert raised.value.reason == "format_undecided"
    lines = [line or None for line in content.split(b"\n")]
    assert values_of(decoded({**given, "input.format": "csv"}, "t-0-0", content)) == lines


def test_a_line_that_does_not_fit_is_a_bad_row() -> None:
    """With the rule that it broke, and its own bytes."""
    batches = _batches("t-0-0", b"YQ==\n!!!\nYg==")
    (bad,) = batches[0].bad

    assert (bad.reason, bad.raw, bad.index) == ("not_base64", b"!!!", 1)
    assert values_of(batches) == [b"a", b"b"]


@pytest.mark.parametrize(
    ("content", "options", "expected"),
    [
        (
            b'"1","a ""b""\nc",\n"2","",\n',
            {"columns": "id,t,n"},
            ['{"id":"1","t":"a \\"b\\"\\nc","n":null}', '{"id":"2","t":"","n":null}'],
        ),
        (b'"id","t"\n"1","x"\n,"y"\n', {"header": "true"}, ['{"id":"1","t":"x"}', '{"id":null,"t":"y"}']),
        (b'"1",\n', {}, ['["1",null]']),
        (
            b'"1","0.5"\n"2",\n',
            {"columns": "id,n", "types": "id:long,n:double"},
            ['{"id":1,"n":0.5}', '{"id":2,"n":null}'],
        ),
    ],
)
def test_quoted_csv_tells_null_from_empty(
    content: bytes, options: dict[str, str], expected: list[str]
) -> None:
    """What is not even quoted is null; and the same from every row on."""
    named = {f"csv.{name}": value for name, value in ({"header": "false"} | options).items()}
    given = {"input.layout": "lenses", **named}
    batches = decoded(given, _CSV, content)

    assert values_of(batches) == [row.encode() for row in expected]
    for index in range(len(expected)):
        later = decoded(given, _CSV, content, batches[0].positions(index))
        assert values_of(later) == [row.encode() for row in expected[index:]]


def test_rows_of_csv_one_by_one_tell_null_from_empty_too() -> None:
    """A row that no column reader takes is read by itself, and so are those around it."""
    batches = _batches(_CSV, b'"1",,"x"\n"2","x"\n"3","",\n', csv__header="false", csv__columns="a,b,c")

    assert values_of(batches) == [b'{"a":"1","b":null,"c":"x"}', b'{"a":"3","b":"","c":null}']
    assert [bad.reason for bad in batches[0].bad] == ["wrong_fields"]


def test_csv_of_which_nobody_knows_the_header_is_not_guessed_at() -> None:
    """A first row that is taken for names would be a lost record, and names taken for a row a wrong one."""
    with pytest.raises(InvalidObject, match=r"Set csv\.header to true") as raised:
        _batches(_CSV, b'"1"\n')

    assert raised.value.reason == "format_undecided"


def test_rows_that_may_be_json_or_csv_name_the_option_and_it_helps() -> None:
    """Whichever is said, rows come of it."""
    with pytest.raises(InvalidObject, match=r"Set input\.format to jsonl or to csv") as raised:
        _batches("t-0-0", b"1234\nabcd")

    assert raised.value.reason == "format_undecided"
    assert values_of(_batches("t-0-0", b"1234\nMTIz", input__format="csv")) == [b"\xd7m\xf8", b"123"]
    assert values_of(_batches("t-0-0", b"1234\n5", input__format="jsonl")) == [b"1234", b"5"]


@pytest.mark.parametrize(
    ("key", "content", "before"),
    [
        (_CONFLUENT, b"a\nbc", [b"a"]),
        (_TEXT, b"a\nbc", [b"a"]),
        (_TEXT, gzip.compress(b"a\nbc", mtime=0), [b"a"]),
        (_CSV, b'"a"\n"b""c"', []),
        (_JSON, b"12\n34", []),
        ("t-0-0", b"[\n12,\n34", [b"12"]),
    ],
)
def test_a_row_without_its_end_is_damage(key: str, content: bytes, before: list[bytes]) -> None:
    """Cut short it may look whole, and would be another record."""
    more = {"csv.header": "false"} if key == _CSV else {}
    layout = {_CONFLUENT: "confluent", "t-0-0": "aiven"}.get(key, "lenses")
    found: list[RowBatch] = []
    with pytest.raises(ObjectCorrupt, match="cut short"):
        found.extend(batches_of({"input.layout": layout, **more}, key, content))  # keeps what came before

    assert values_of(found) == before


@pytest.mark.parametrize(
    ("extension", "told"), [("csv.gz", "input.format=csv"), ("txt", "input.format=text"), ("bin", "text")]
)
def test_what_our_own_sink_wrote_without_whole_records_is_not_restored(extension: str, told: str) -> None:
    """It would come back as something else: the sentence says how its rows are read."""
    key = f"orders/0/{0:020}.headrace.{extension}"
    content = b"topic,partition,offset,key,value\r\norders,0,0,k,v\r\n"
    with pytest.raises(InvalidObject, match="holds no whole records") as raised:
        decoded({"input.layout": "headrace"}, key, content)
    assert raised.value.reason == "unsupported"
    assert told in str(raised.value)


def test_lines_of_text_of_our_own_sink_are_values_where_they_are_said_to_be() -> None:
    """Each is one, without a key."""
    key = f"orders/0/{0:020}.headrace.txt"
    found = decoded({"input.layout": "headrace", "input.format": "text"}, key, b"a\nb\n")
    assert values_of(found) == [b"a", b"b"]
