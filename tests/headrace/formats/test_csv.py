"""CSV: what is a row, what a field becomes, and both ways of reading them against Python's own csv."""

import csv
import gzip
import io
import json
import random
import time
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headrace.formats import SPLITTERS
from headrace.formats.csv_fields import CsvRows
from headrace.formats.lines import LongLine
from headrace.model.errors import InvalidObject
from headrace.model.positions import BytePosition, RowPosition
from headrace.options.choices import CsvType, FieldSource, InputFormat, ValueFormat
from headrace.options.row_settings import CsvSettings
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.endless import Endless
from tests.headrace.formats.measured import measure
from tests.headrace.formats.memory_source import MemorySource, decode_all
from tests.support.examples import examples

CSV = decode_options(InputFormat.CSV)
ARRAYS = decode_options(InputFormat.CSV, csv=CsvSettings(header=False))
TYPED = decode_options(
    InputFormat.CSV,
    csv=CsvSettings(
        header=False,
        columns=("l", "d", "b", "s", "f"),
        types=(
            ("l", CsvType.LONG),
            ("d", CsvType.DECIMAL),
            ("b", CsvType.BOOLEAN),
            ("s", CsvType.STRING),
            ("f", CsvType.DOUBLE),
        ),
    ),
)
every_chunk = pytest.mark.parametrize("chunk", [1, 3, 1 << 20])


def test_blank_rows_show_how_far_an_object_is_read() -> None:
    """Without that each kill read them again, and a batch did not end in time."""
    row = 2_000_000
    content = b"a,b\n" + b"\n" * (row - 4) + b"1,2\n" + b"\r\n" * 1_000_000
    batches = decode_all(MemorySource(content, chunk=1 << 20), CSV).batches

    assert sum(map(len, batches)) == 1
    afters = [batch.after.byte for batch in batches if isinstance(batch.after, BytePosition)]
    assert 0 < afters[0] <= row
    assert afters == sorted(afters)
    assert afters[-1] == len(content)
    for after in afters:
        left = decode_all(MemorySource(content, chunk=1 << 20), CSV, start=BytePosition(after))
        assert left.values == [b'{"a":"1","b":"2"}'] * (after <= row)


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        pytest.param(b"", [], id="empty"),
        pytest.param(b"a,b\n", [], id="only a header"),
        pytest.param(b"a,b", [], id="a header without its end"),
        pytest.param(b"a,b\n1,2\n3,4\n", [(4, '{"a":"1","b":"2"}'), (8, '{"a":"3","b":"4"}')], id="LF"),
        pytest.param(b"a,b\r\n1,2\r\n3,4", [(5, '{"a":"1","b":"2"}'), (10, '{"a":"3","b":"4"}')], id="CRLF"),
        pytest.param(b"\xef\xbb\xbfa\n1\n", [(5, '{"a":"1"}')], id="BOM"),
        pytest.param(b'a,b\n"1\n2","x""y"\n', [(4, '{"a":"1\\n2","b":"x\\"y"}')], id="quoted"),
        pytest.param(b'a,b\n"1\r\n2",","\n', [(4, '{"a":"1\\r\\n2","b":","}')], id="CRLF and comma quoted"),
        pytest.param(b'"a b","c,d"\n1,2\n', [(12, '{"a b":"1","c,d":"2"}')], id="quoted names"),
        pytest.param(b"\n\na,b\n\n1,2\n\r\n", [(7, '{"a":"1","b":"2"}')], id="blank rows"),
        pytest.param(b"a\n1\n\n2\n", [(2, '{"a":"1"}'), (4, '{"a":""}'), (5, '{"a":"2"}')], id="one column"),
        pytest.param(b'a,b\n5" pipe,6"\n', [(4, '{"a":"5\\" pipe","b":"6\\""}')], id="quotes within"),
        pytest.param("ä,b\né,\U0001f600\n".encode(), [(5, '{"ä":"é","b":"\U0001f600"}')], id="not ASCII"),
        pytest.param(b"a,b\n,\n", [(4, '{"a":"","b":""}')], id="empty fields"),
        pytest.param(b'a,b\n"",""\n', [(4, '{"a":"","b":""}')], id="empty quoted fields"),
    ],
)
@every_chunk
def test_rows_are_objects_of_texts(content: bytes, rows: list[tuple[int, str]], chunk: int) -> None:
    """Each with the byte at which it begins, however the stream is cut."""
    decoded = decode_all(MemorySource(content, chunk=chunk), CSV)

    assert decoded.rows == [(BytePosition(byte), value.encode()) for byte, value in rows]
    assert (decoded.bad, decoded.error) == ([], None)


@every_chunk
def test_bad_rows_stand_where_they_were_found(chunk: int) -> None:
    """Each with its reason and its bytes; the rows between are good."""
    content = b'a,b\n1\n2,3\n4,5,6\n"x"y,7\n\xff,8\n9,10\n1\r2,3\n11,"12'
    decoded = decode_all(MemorySource(content, chunk=chunk), CSV)

    assert decoded.values == [b'{"a":"2","b":"3"}', b'{"a":"9","b":"10"}']
    assert [(row.reason, row.raw) for row in decoded.bad] == [
        ("wrong_fields", b"1"),
        ("wrong_fields", b"4,5,6"),
        ("not_csv", b'"x"y,7'),
        ("not_utf8", b"\xff,8"),
        ("not_csv", b"1\r2,3"),
        ("not_csv", b'11,"12'),
    ]
    assert decoded.after == BytePosition(len(content))


_ROW = st.sampled_from(
    [
        *(b"1,2", b'"1","2"', b'"12"34,5', b'"1" ,2', b'""1,2', b'1,"2""', b'5" pipe,6"', b"1,2\r"),
        *(b'"1","2"\r', b"1\r2,3", b"1,2\r\r", b"\r", b'"a\r","\r\n"', b'"a""b",c', b'"""",""'),
        *(b'a"b,"c"', b"", b"x", b"1,\xff"),
    ]
)


@given(rows=st.lists(_ROW, min_size=1, max_size=6), last=st.sampled_from([b"", b"\n", b"\r\n"]))
def test_a_row_is_what_it_is_alone(rows: list[bytes], last: bytes) -> None:
    """Whoever stands beside it: text behind a closing quote, or a CR that no LF follows, is a bad row."""
    assume(all(row.count(b'"') % 2 == 0 for row in rows))
    together = decode_all(MemorySource(b"a,b\n" + b"\n".join(rows) + last), CSV)
    alone = [decode_all(MemorySource(b"a,b\n" + row + b"\n"), CSV) for row in rows[:-1]]
    alone.append(decode_all(MemorySource(b"a,b\n" + rows[-1] + last), CSV))

    assert together.values == [value for each in alone for value in each.values]
    assert [(bad.reason, bad.raw) for bad in together.bad] == [
        (bad.reason, bad.raw) for each in alone for bad in each.bad
    ]


@pytest.mark.parametrize("row", [b'"12"34,5', b"1,2\r\r", b"1,2\r", b"\r\r"])
def test_such_a_row_is_bad_among_good_ones(row: bytes) -> None:
    """Its neighbours are read, and nothing of it is lost in silence."""
    content = b"a,b\n1,2\n" + row + (b"\n" if row.endswith((b"5", b"\r\r")) else b"")
    decoded = decode_all(MemorySource(content), CSV)

    assert decoded.values == [b'{"a":"1","b":"2"}']
    assert [bad.reason for bad in decoded.bad] == ["not_csv"]


def test_what_types_make_of_fields() -> None:
    """Digit for digit, made valid where it is not JSON's way to write it, null where empty, else bad rows."""
    lines = [
        b"1,1.50,true,5,1e3",
        b"+007,.5,FALSE,,nan",
        b",,,,",
        b"-9223372036854775808,-0.10,True, x ,-Infinity",
        b"9223372036854775807,1.,false,true,+1.5",
        b" 12 , 1.5 ,true,null,00.5",
        b"x,1,true,s,1",
        b"1,1 000,true,s,1",
        b"1,1,yes,s,1",
        b"9223372036854775808,1,true,s,1",
        b"1,1,true,s,0x10",
        b"1.0,1,true,s,1",
    ]
    decoded = decode_all(MemorySource(b"\n".join(lines)), TYPED)

    assert decoded.values == [
        b'{"l":1,"d":1.50,"b":true,"s":"5","f":1e3}',
        b'{"l":7,"d":0.5,"b":false,"s":"","f":null}',
        b'{"l":null,"d":null,"b":null,"s":"","f":null}',
        b'{"l":-9223372036854775808,"d":-0.10,"b":true,"s":" x ","f":null}',
        b'{"l":9223372036854775807,"d":1,"b":false,"s":"true","f":1.5}',
        b'{"l":12,"d":1.5,"b":true,"s":"null","f":0.5}',
    ]
    assert [(row.reason, row.raw) for row in decoded.bad] == [("wrong_type", line) for line in lines[6:]]
    assert "'l'" in decoded.bad[0].message
    assert all(json.loads(value or b"") for value in decoded.values)


def test_other_delimiters_and_quotes() -> None:
    """Tabs, semicolons, single quotes, no quotes at all."""
    tabs = decode_options(InputFormat.CSV, csv=CsvSettings(delimiter=b"\t", quote=b"'"))
    plain = decode_options(InputFormat.CSV, csv=CsvSettings(delimiter=b";", quote=b"", header=False))

    assert decode_all(MemorySource(b"a\tb\n'x\ty'\t\"\n"), tabs).values == [b'{"a":"x\\ty","b":"\\""}']
    assert decode_all(MemorySource(b'"a;b"\n1;"'), plain).values == [b'["\\"a","b\\""]', b'["1","\\""]']


def test_raw_values_and_fields() -> None:
    """The row as it stands, with a key from a column; or a column as the value."""
    raw = decode_options(InputFormat.CSV, value_format=ValueFormat.RAW, key_source=FieldSource(("b",)))
    decoded = decode_all(MemorySource(b'a,b\r\n1,"x"\r\n2\r\n3,y\r\n'), raw)
    assert decoded.values == [b'1,"x"', b"3,y"]
    (batch,) = decoded.batches
    assert batch.keys is not None
    assert [batch.keys.get(index) for index in range(2)] == [b"x", b"y"]
    assert [row.reason for row in decoded.bad] == ["wrong_fields"]

    field = decode_options(InputFormat.CSV, value_source=FieldSource(("a",)))
    assert decode_all(MemorySource(b"a,b\n1,2\n"), field).values == [b"1"]


@pytest.mark.parametrize(
    ("content", "changes", "words"),
    [
        (b"a,a\n1,2\n", {}, "twice"),
        (b"a,b\n1,2\n", {"types": (("c", CsvType.LONG),)}, "no column 'c'"),
        (b'"a"x,b\n1,2\n', {}, "no CSV"),
        (b"x" * 2_000_000, {}, "record.max.bytes"),
    ],
)
def test_a_header_that_names_no_columns(content: bytes, changes: dict[str, Any], words: str) -> None:
    """Quarantined at once, with what to set."""
    options = decode_options(InputFormat.CSV, csv=CsvSettings(**changes))
    with pytest.raises(InvalidObject, match=words) as caught:
        decode_all(MemorySource(content), options)

    assert caught.value.reason == "invalid_header"
    assert "csv.header" in str(caught.value)


@pytest.mark.parametrize(
    "changes", [{}, {"header": False}, {"header": False, "columns": tuple(map(str, range(20_001)))}]
)
def test_so_many_columns_that_a_row_takes_seconds_are_refused(changes: dict[str, Any]) -> None:
    """Each column costs as in a schema, whose fields are bounded by the same number."""
    options = decode_options(InputFormat.CSV, csv=CsvSettings(**changes))
    row = ",".join(map(str, range(20_001))).encode()
    with pytest.raises(InvalidObject, match=r"more than 20,000 columns.*input\.format=text") as caught:
        decode_all(MemorySource(row + b"\n" + row + b"\n"), options)
    assert caught.value.reason == "invalid_header"

    found = decode_all(MemorySource(b"\n".join([row.rpartition(b",")[0]] * 2)), CSV)
    assert json.loads(found.values[0] or b"")["19999"] == "19999"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xe4,b\n1,2\n", "not UTF-8: .* Write the object as UTF-8"),
        ("a,b\n1,2\n".encode("utf-16"), "NUL characters, .* Write the object as UTF-8"),
        ("a,b\n1,2\n".encode("utf-16-le"), "NUL characters, .* Write the object as UTF-8"),
        (b"a,b\r1,2\r", "a CR outside quotes. End its lines with LF or CRLF"),
        (b'{"a":1,"b":2}\n{"a":3,"b":4}\n', "looks like JSON Lines. Set input.format=jsonl"),
        (b'{\n "a": 1\n}\n', "looks like a JSON document over several lines. Set input.format=json"),
        (b' {"a":1}\n {"a":3}\n', "looks like JSON Lines. Set input.format=jsonl"),
        (b'[{"a":1},{"a":2}]', "looks like JSON Lines. Set input.format=jsonl"),
        (b"[10,20,30]\n", "looks like JSON Lines. Set input.format=jsonl"),
        (
            b'[\n {"a":1},\n {"a":2}\n]\n',
            "looks like one JSON array over several lines. Set input.format=json",
        ),
        (b'<?xml version="1.0"?>\n<a>\n', "looks like XML or HTML. Convert it"),
        (b'<orders><order id="1"/><order id="2"/></orders>', "looks like XML or HTML. Convert it"),
        (b'<orders>\n<order id="1"/>\n</orders>\n', "looks like XML or HTML. Convert it"),
        (b"<Error><Message>Access, denied</Message></Error>", "looks like XML or HTML. Convert it"),
        (b"sep=;\na;b\n", "columns are between ';'. Set csv.delimiter=;"),
        (b"sep=\t\na\tb\n", r"columns are between '\\\\t'. Set csv.delimiter=\\t"),
    ],
)
def test_what_a_first_row_shows_is_named(content: bytes, words: str) -> None:
    """With the fix for it; rows under such names would be read, and be nonsense."""
    with pytest.raises(InvalidObject, match=words) as caught:
        decode_all(MemorySource(content), CSV)

    assert caught.value.reason == "invalid_header"


@pytest.mark.parametrize("names", ["<TICKER>,<PER>", "{ID},{NAME}", "<a>,{}", "{},b", "[id],[name]", "<,>"])
def test_names_in_brackets_are_names(names: str) -> None:
    """As exchanges write them."""
    first, second = names.split(",")

    decoded = decode_all(MemorySource(f"{names}\n1,2\n3,4\n5,6\n".encode()), CSV)

    assert json.loads(decoded.values[0] or b"") == {first: "1", second: "2"}
    assert len(decoded.values) == 3


@pytest.mark.parametrize("name", ["[order id]", "{ID}"])
def test_a_name_in_brackets_alone_is_a_name(name: str) -> None:
    """As databases write it."""
    decoded = decode_all(MemorySource(f"{name}\nx\ny\n".encode()), CSV)

    assert [json.loads(value or b"") for value in decoded.values] == [{name: "x"}, {name: "y"}]


def test_a_name_that_is_there_twice_among_very_many_is_found_at_once() -> None:
    """A header of a few hundred kilobytes."""
    names = [f"{index:x}" for index in range(40_000)]
    content = ",".join([*names, names[-1]]).encode() + b"\n"

    begin = time.process_time()
    with pytest.raises(InvalidObject, match="twice"):
        decode_all(MemorySource(content), CSV)

    assert time.process_time() - begin < 5


@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
def test_what_excel_says_of_columns_is_no_row(ends: bytes) -> None:
    """`sep=;` before the header, when a resume reads it again, too."""
    options = decode_options(InputFormat.CSV, csv=CsvSettings(delimiter=b";"))
    content = ends.join([b"\xef\xbb\xbfsep=;", b"a;b", b"1,5;2", b"sep=;", b"3;4", b""])

    whole = decode_all(MemorySource(content), options)

    assert whole.values == [b'{"a":"1,5","b":"2"}', b'{"a":"sep=","b":""}', b'{"a":"3","b":"4"}']
    for index, position in enumerate(whole.order):
        assert decode_all(MemorySource(content), options, start=position).values == whole.values[index:]
    bare = decode_options(InputFormat.CSV, csv=CsvSettings(delimiter=b"="))
    assert decode_all(MemorySource(b"sep=x\n1=2\n"), bare).values == [b'{"sep":"1","x":"2"}']


def test_a_foreign_position_is_refused() -> None:
    """A position of another format has no meaning here."""
    assert decode_all(MemorySource(b"a\n1\n"), CSV, start=RowPosition(0, 0)).error is not None


# Without CR, which Python's writer leaves unquoted.
fields = st.text(alphabet="ab\",;\n\té '", max_size=5)


@given(
    rows=st.lists(st.lists(fields, min_size=3, max_size=3), min_size=1, max_size=30),
    chunk=st.sampled_from([1, 7, 64, 1 << 20]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    ends=st.sampled_from(["\n", "\r\n"]),
)
@settings(max_examples=examples(200), deadline=None)
def test_what_python_writes_is_read(rows: list[list[str]], chunk: int, quoting: Any, ends: str) -> None:
    """Every field comes back as it was, whatever is in it."""
    out = io.StringIO()
    csv.writer(out, quoting=quoting, lineterminator=ends).writerows(rows)
    decoded = decode_all(MemorySource(out.getvalue().encode(), chunk=chunk), ARRAYS)

    assert [json.loads(value or b"") for value in decoded.values] == rows
    assert (decoded.bad, decoded.error) == ([], None)


pieces = st.sampled_from(['"', '""', ",", "\n", "\r\n", "a", "b c", '"x"', '"x,\n"', " ", "5"])


@given(st.lists(pieces, max_size=30).map("".join), st.sampled_from([1, 5, 1 << 20]))
@settings(max_examples=examples(300), deadline=None)
def test_the_cut_of_a_stream_changes_nothing(text: str, chunk: int) -> None:
    """Whatever stands in it: the same rows, the same bad rows, each byte in one of them or blank."""

    def outcome(size: int) -> Any:
        try:
            decoded = decode_all(MemorySource(text.encode(), chunk=size), ARRAYS)
        except InvalidObject as error:
            return error.reason
        return decoded.rows, decoded.order, decoded.after, [(row.reason, row.raw) for row in decoded.bad]

    cut, whole = outcome(chunk), outcome(1 << 20)
    assert cut == whole


def _cut(content: bytes, settings: CsvSettings, *, chunk: int) -> list[tuple[int, int, bool]]:
    """Begin, end and whether it is above the limit of each row; decoders are given larger chunks."""
    limit = 12
    chunks = (content[at : at + chunk] for at in range(0, len(content), chunk))
    cut: list[tuple[int, int, bool]] = []
    for found in CsvRows(settings, offset=0, limit=limit).cut(chunks):
        if isinstance(found, LongLine):
            cut.append((found.begin, found.after, True))
        else:
            spans = zip(found.starts.tolist(), found.ends.tolist(), found.nexts.tolist(), strict=True)
            cut += [
                (found.offset + start, found.offset + after, end - start > limit)
                for start, end, after in spans
            ]
    return cut


_PIECES = st.sampled_from(["a", '"', '"', ",", ",", "\n", "\r\n", "x" * 9, '"' + "x" * 9 + '"'])


@pytest.mark.parametrize("quote", [b'"', b""])
@given(st.lists(_PIECES, max_size=24), st.sampled_from([1, 2, 3, 7, 20]))
@settings(max_examples=examples(600), deadline=None)
def test_rows_above_the_limit_end_where_they_end(quote: bytes, pieces: list[str], chunk: int) -> None:
    """Whichever of their bytes are held: quotes that are text take no other row with them."""
    content, by = "".join(pieces).encode(), CsvSettings(quote=quote)

    assert _cut(content, by, chunk=chunk) == _cut(content, by, chunk=1 << 20)


@pytest.mark.parametrize(
    "large", [b'0,5" pipe %s\n', b'0,%s 5" pipe\n', b'"a""b"c"%s,x"\n', b'0,"%s\n""",\n'], ids=str
)
def test_a_row_above_the_limit_is_bad_alone(large: bytes) -> None:
    """With quotes that are text, or junk, or two for one."""
    content = b"id,text\n" + large % (b"x" * 3_000_000) + b"1,y\n2,z\n"
    decoded = decode_all(MemorySource(content), CSV)

    assert decoded.values == [b'{"id":"1","text":"y"}', b'{"id":"2","text":"z"}']
    assert [row.reason for row in decoded.bad] == ["too_large"]


def test_a_byte_order_mark_of_a_row_is_its_own() -> None:
    """Only that of the object is left out."""
    decoded = decode_all(MemorySource("a,b\n\ufeffx,1\n\ufeffx,2\n".encode()), CSV)

    assert decoded.values == [f'{{"a":"\ufeffx","b":"{row}"}}'.encode() for row in (1, 2)]


def test_named_columns_need_no_first_row() -> None:
    """A first row that cannot be read is a bad row where it is not asked what columns there are."""
    named = decode_options(InputFormat.CSV, csv=CsvSettings(header=False, columns=("a", "b")))
    decoded = decode_all(MemorySource(b"1\n2,3\n"), named)

    assert decoded.values == [b'{"a":"2","b":"3"}']
    assert [row.reason for row in decoded.bad] == ["wrong_fields"]


@given(
    st.lists(st.sampled_from(["1,2", "3", "", '"x,y', "a,b,c"]), max_size=20),
    st.lists(st.integers(0, 60), max_size=4),
)
@settings(max_examples=examples(150), deadline=None)
def test_any_split_gives_exactly_the_whole(lines: list[str], marks: list[int]) -> None:
    """Without quotes an object of lines can be cut at any byte; each split knows the header."""
    options = decode_options(InputFormat.CSV, csv=CsvSettings(quote=b""))
    content = "\n".join(["a,b", *lines]).encode()
    whole = decode_all(MemorySource(content), options)
    ends = sorted({0, len(content), *(mark for mark in marks if 3 < mark < len(content))})
    parts = [
        decode_all(MemorySource(content), options, begin=begin, end=end) for begin, end in pairwise(ends)
    ]

    assert [row for part in parts for row in part.rows] == whole.rows
    assert [position for part in parts for position in part.order] == whole.order


def test_only_objects_without_quotes_can_be_cut() -> None:
    """A quote far before may make the end of a line part of a field."""
    splitter = SPLITTERS[InputFormat.CSV]
    plain = decode_options(InputFormat.CSV, csv=CsvSettings(quote=b""))

    assert splitter(MemorySource(b"1,2\n" * 50), 4, options=CSV) is None
    assert splitter(MemorySource(b"1,2\n" * 50), 4, options=plain) == (0, 50, 100, 150, 200)
    assert splitter(MemorySource(gzip.compress(b"1,2\n" * 50)), 4, options=plain) is None


def test_a_resume_reads_the_header_and_the_rest() -> None:
    """Two reads of a plain object: its beginning, and what is behind the position."""
    source = MemorySource(b"a,b\n" + b"1,2\n" * 500_000)
    decoded = decode_all(source, CSV, start=BytePosition(4 + 4 * 450_000))

    assert len(decoded.rows) == 50_000
    assert source.fetched_bytes < 400_000


def _unended() -> Endless:
    return Endless(b'"' + b"x\n" * (1 << 19), 128)


def _long_names() -> MemorySource:
    names = b",".join(b"%d%s" % (index, b"n" * 5000) for index in range(100))
    return MemorySource(gzip.compress(names + b"\n" + (b"," * 99 + b"\n") * 20_000))


@pytest.mark.parametrize("make", [_unended, _long_names], ids=["a quote without end", "long names"])
def test_memory_is_bounded(make: Any) -> None:
    """Neither a field that never ends nor names that are far longer than their fields take memory."""
    found = measure(partial(make), ARRAYS if make is _unended else CSV, enough_mib=200)

    assert found.grown_mib < 200
    assert found.bad == ({"too_large": 1} if make is _unended else {}) or found.error == "invalid_header"


@pytest.mark.parametrize("first", range(0, 200, 100))
def test_mutated_objects_end_in_a_state(first: int) -> None:
    """Rows and bad rows in order, or a header that is none; never another error."""
    for seed in range(first, first + 100):
        rng = random.Random(seed)
        out = io.StringIO()
        csv.writer(out).writerows(
            [[f"c{n}" for n in range(4)], *([str(n), 'q"', "l\n", ""] for n in range(30))]
        )
        content = bytearray(out.getvalue().encode())
        for _ in range(rng.randint(1, 6)):
            content[rng.randrange(len(content))] = rng.choice(b'",\n\r\xff\x00a')
        try:
            decoded = decode_all(MemorySource(bytes(content), chunk=rng.choice((5, 1000))), CSV)
        except InvalidObject as error:
            assert error.reason in ("invalid_header", "unsupported")  # noqa: PT017  # an error is one of two right answers
            continue
        assert decoded.order == sorted(set(decoded.order), key=lambda position: position.byte)  # type: ignore[union-attr]  # decoded where no error was raised
