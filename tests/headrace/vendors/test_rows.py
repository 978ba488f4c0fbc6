"""Rows of each layout: by the options, whatever stands beside them, and never a wrong record."""

import base64

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats.arrow import arrow_binary, column_of_arrow
from headrace.formats.content_kind import RowShape
from headrace.formats.cut_rows import BareRows
from headrace.formats.record_columns import RecordColumns, iso_ms
from headrace.model.columns import Column, column_of
from headrace.options.choices import CsvEncoding, Enveloped, Form, RestoreOptions
from headrace.vendors.aiven import rows as aiven_json
from headrace.vendors.aiven.rows import CsvRows
from headrace.vendors.aiven.written_rows import iso_instants
from headrace.vendors.lenses import rows as lenses_json
from headrace.vendors.quix.rows import JsonRows, ParquetRows


def _all(column: Column | None) -> list[bytes | None]:
    assert column is not None
    return [column.get(row) for row in range(len(column))]


def _reasons(columns: RecordColumns) -> list[tuple[int, str]]:
    return [(fault.row, fault.reason) for fault in columns.faults]


@pytest.mark.parametrize(
    ("form", "text", "wanted"),
    [
        (Form.AUTO, b'{"b": 1e3,"a":-0.0}', b'{"b": 1e3,"a":-0.0}'),
        (Form.JSON, b'"a\\u00e9"', b'"a\\u00e9"'),
        (Form.STRING, b'"a\\u00e9\\n"', "aé\n".encode()),
        (Form.STRING, b'""', b""),
        (Form.STRING, b"12", b"12"),
        (Form.BASE64, b'"AAH/"', b"\x00\x01\xff"),
        (Form.BASE64, b'"YQ\\u003d="', b"a"),
        (Form.AUTO, b"null", None),
        (Form.JSON, b"null", None),
        (Form.BASE64, b"null", None),
    ],
)
def test_what_a_stored_value_becomes(form: Form, text: bytes, wanted: bytes | None) -> None:
    """JSON keeps its own text; only quotes, escapes and base64 are taken off, where asked for."""
    found = BareRows(RestoreOptions(value=form))(column_of([b'"YQ=="', text]))

    assert found.faults == ()
    assert _all(found.values)[1] == wanted


@pytest.mark.parametrize(
    ("text", "reason"), [(b"12", "not_base64"), (b'"?"', "not_base64"), (b'"\\ud800"', "not_utf8")]
)
def test_a_value_of_another_form_is_bad(text: bytes, reason: str) -> None:
    """The rows beside it are read."""
    found = BareRows(RestoreOptions(value=Form.BASE64))(column_of([b'"YQ=="', text, b'"Yg=="']))

    assert _reasons(found) == [(1, reason)]
    assert _all(found.values) == [b"a", b"b"]


def test_aivens_envelope_in_any_order_of_members() -> None:
    """Members come in the order of a hash; what a row lacks is null."""
    rows = column_of(
        [
            b'{"headers":[{"key":"h","value":42}],"offset":7,"value":{"a":1},"key":"k","timestamp":"2024-01-01T00:00:01.5Z"}',
            b'{"key":null,"value":null}',
        ]
    )

    found = aiven_json.reader(RestoreOptions(), rows.get(0))(rows)

    assert _all(found.keys) == [b"k", None]
    assert _all(found.values) == [b'{"a":1}', None]
    assert found.headers == ((("h", b"42"),), ())
    assert found.timestamps_ms is not None
    assert found.timestamps_ms.tolist() == [1704067201500, -1]
    assert found.offsets is not None
    assert found.offsets.tolist() == [7, -1]


def test_a_row_that_is_no_envelope_is_bad() -> None:
    """A member that the sink does not write says that this is none, in whatever place it stands."""
    good = b'{"key":"k","value":1,"timestamp":"2024-01-01T00:00:00Z"}'
    bad = [b'{"key":"k","value":1,"more":2}', b"[1]", b'{"value":1,"timestamp":"yesterday"}', b"null"]

    found = aiven_json.EnvelopeRows(RestoreOptions())(column_of([good, *bad, good]))

    assert _reasons(found) == [
        (1, "not_an_envelope"),
        (2, "not_an_envelope"),
        (3, "not_a_timestamp"),
        (4, "not_an_envelope"),
    ]
    assert _all(found.values) == [b"1", b"1"]


@pytest.mark.parametrize(
    ("first", "options", "enveloped"),
    [
        (b'{"value":1}', RestoreOptions(), True),
        (b'{"value":1,"id":2}', RestoreOptions(), False),
        (b"{}", RestoreOptions(), False),
        (b"12", RestoreOptions(), False),
        (b'{"value":1}', RestoreOptions(envelope=Enveloped.NO), False),
        (b'{"id":1}', RestoreOptions(envelope=Enveloped.YES), True),
        (None, RestoreOptions(), True),
    ],
)
def test_what_looks_like_aivens_envelope(
    *, first: bytes | None, options: RestoreOptions, enveloped: bool
) -> None:
    """Decided by the object's first row, or told."""
    assert aiven_json.is_enveloped(options, first) is enveloped


def test_a_line_between_rows_is_no_row() -> None:
    """A decoder that left a line out says so with the rows' places; what it left out stays so."""
    lines = column_of([b'{"value":1}\n', b'{"value":2}\n', b'{"value":3}\n'])
    rows = Column(buffer=lines.buffer, starts=lines.starts[::2], lengths=lines.lengths[::2] - 1)

    assert _all(aiven_json.EnvelopeRows(RestoreOptions())(rows).values) == [b"1", b"3"]


def test_blanks_around_a_row_are_no_part_of_it() -> None:
    """A carriage return before the line feed would hide a string's last quote."""
    found = BareRows(RestoreOptions())(column_of([b' "text"\r', b"null \r", b"\t12", b""]))

    assert _all(found.values) == [b"text", None, b"12", b""]


def test_times_that_arrow_does_not_read() -> None:
    """More digits than Kafka keeps are cut, another zone is reckoned, before 1970 there is no time."""
    texts = ["2024-01-01T00:00:00.123456789Z", "2024-01-01T01:00:00+01:00", "1969-12-31T23:59:59Z"]
    rows = column_of([f'{{"value":1,"timestamp":"{text}"}}'.encode() for text in texts])

    found = aiven_json.EnvelopeRows(RestoreOptions())(rows)

    assert found.timestamps_ms is not None
    assert found.timestamps_ms.tolist() == [1704067200123, 1704067200000, -1]


_FIELDS = ("key", "value", "offset", "timestamp", "headers")


def _cell(value: bytes | None) -> bytes:
    return b"" if value is None else base64.b64encode(value)


@given(
    rows=st.lists(
        st.tuples(
            st.none() | st.binary(min_size=1, max_size=9),
            st.none() | st.binary(min_size=1, max_size=9),
            st.integers(0, 2**62),
            st.lists(st.tuples(st.text(max_size=3), st.binary(max_size=3)), max_size=2),
        ),
        min_size=1,
        max_size=6,
    ),
    order=st.permutations(_FIELDS),
)
def test_aivens_csv_in_any_order_of_fields(
    rows: list[tuple[bytes | None, bytes | None, int, list[tuple[str, bytes]]]], order: list[str]
) -> None:
    """Fields stand in the order of format.output.fields; nothing is quoted."""
    lines = []
    for key, value, number, headers in rows:
        text = b"".join(_cell(name.encode()) + b":" + _cell(each) + b";" for name, each in headers)
        cells = {"key": _cell(key), "value": _cell(value), "headers": text}
        cells |= {"offset": b"%d" % number, "timestamp": b"%d" % number}
        lines.append(b",".join(cells[name] for name in order))

    found = CsvRows(RestoreOptions(csv_fields=tuple(order)))(column_of(lines))

    assert found.faults == ()
    assert _all(found.keys) == [row[0] for row in rows]
    assert _all(found.values) == [row[1] for row in rows]
    assert found.headers == tuple(tuple(row[3]) for row in rows)
    assert found.offsets is not None
    assert found.offsets.tolist() == [row[2] for row in rows]


def test_commas_of_a_plain_value_are_the_values() -> None:
    """Base64 and numbers have none, so the fields around the value are found from both ends."""
    options = RestoreOptions(csv_fields=("key", "value", "offset"), csv_encoding=CsvEncoding.NONE)

    found = CsvRows(options)(column_of([b"aw==,a,b,c,1", b"aw==,,2", b"a,b"]))

    assert _all(found.values) == [b"a,b,c", None]
    assert _reasons(found) == [(2, "not_the_fields")]


@pytest.mark.parametrize(
    "line", [b"aw==,YQ==", b"aw==,YQ==,1,2,,", b"aw==,YQ==,x,2,", b"aw==,?,1,2,", b"aw==,YQ==,1,2,aA==:YQ=="]
)
def test_a_line_that_does_not_fit_is_bad(line: bytes) -> None:
    """Too few or too many fields, no number, no base64, headers that break off."""
    good = b"aw==,YQ==,1,2,"

    found = CsvRows(RestoreOptions(csv_fields=_FIELDS))(column_of([good, line, good]))

    assert [fault.row for fault in found.faults] == [1]
    assert _all(found.values) == [b"a", b"a"]


@pytest.mark.parametrize("fields", [(), ("value", "value"), ("value", "schema")])
def test_fields_that_the_sink_does_not_know_are_refused(fields: tuple[str, ...]) -> None:
    """Before anything is read."""
    with pytest.raises(ValueError, match=r"format\.output\.fields"):
        CsvRows(RestoreOptions(csv_fields=fields))


def test_lenses_marks_say_what_is_base64() -> None:
    """Whatever stands in the mark; a text without it is text, even if it looks like base64."""
    rows = column_of(
        [
            b'{"value":"AAE=","key":"YQ==","keyIsArray":true,"valueIsArray":true,"metadata":{"offset":3}}',
            b'{"value":"AAE=","key":"YQ==","metadata":{"offset":4,"timestamp":5}}',
            b'{"value":null,"key":"YQ==","keyIsArray":false}',
        ]
    )

    found = lenses_json.reader(RestoreOptions(), rows.get(0))(rows)

    assert _all(found.values) == [b"\x00\x01", b"AAE=", None]
    assert _all(found.keys) == [b"a", b"YQ==", b"a"]
    assert found.offsets is not None
    assert found.offsets.tolist() == [3, 4, -1]
    assert found.timestamps_ms is not None
    assert found.timestamps_ms.tolist() == [-1, 5, -1]


def test_a_value_with_a_key_is_no_envelope_of_lenses() -> None:
    """Metadata or a mark tells; `restore.envelope` where both were switched off."""
    row = b'{"key":1,"value":2}'

    assert not lenses_json.is_enveloped(RestoreOptions(), row)
    assert lenses_json.is_enveloped(RestoreOptions(envelope=Enveloped.YES), row)


def test_quix_dumps_are_no_keys() -> None:
    """They are null, and counted; a key that says so of itself in another way is kept."""
    dump = "<quixstreams.sinks.base.item.SinkItem object at 0x7f9ac8fd22f0>"
    rows = column_of(
        [f'{{"_timestamp":1,"_key":"{key}","_value":{{}}}}'.encode() for key in (dump, f"x{dump}", "k")]
    )

    found = JsonRows(RestoreOptions())(rows)

    assert _all(found.keys) == [None, f"x{dump}".encode(), b"k"]
    assert dict(found.inexact) == {"dumped_key": 1}


def test_a_value_that_took_the_place_of_key_or_timestamp_has_them_back() -> None:
    """The sink writes neither as null: where one is, the column is of the values, and no key comes of it."""
    batch = pa.record_batch({"_timestamp": [1, 2], "_key": [None, "own"], "id": [6, 7]})
    shape = RowShape(frozenset(batch.schema.names), frozenset({"_key"}))

    found = ParquetRows(RestoreOptions(), _json, shape)(batch)

    assert found.keys is None
    assert _all(found.values) == [b"{'_key': None, 'id': 6}", b"{'_key': 'own', 'id': 7}"]
    assert dict(found.inexact) == {"part_taken_by_value": 2}


def test_a_null_key_in_an_object_of_ours_is_a_null_key() -> None:
    """Our sink lets no value take the place of the key, so that a null says nothing of values."""
    batch = pa.record_batch({"_timestamp": [1, 2, 3], "_key": [None, "", "k"], "id": [6, 7, 8]})
    shape = RowShape(frozenset(batch.schema.names), frozenset({"_key"}), is_ours=True)

    found = ParquetRows(RestoreOptions(), _json, shape)(batch)

    assert _all(found.keys) == [None, b"", b"k"]
    assert _all(found.values) == [b"{'id': 6}", b"{'id': 7}", b"{'id': 8}"]
    assert dict(found.inexact) == {}


def _json(array: pa.Array) -> pa.Array:
    return pa.array([str(value) for value in array.to_pylist()])


@given(
    values=st.lists(st.none() | st.binary(max_size=5), max_size=8),
    order=st.randoms(use_true_random=False),
)
def test_columns_become_arrays_and_come_back(values: list[bytes | None], order: object) -> None:
    """In whatever order the rows stand in the buffer, and with what lies between them."""
    column = column_of([b"before", *values, b"behind"])
    rows = list(range(1, len(values) + 1))
    order.shuffle(rows)  # type: ignore[attr-defined]  # random.Random from hypothesis
    picked = Column(buffer=column.buffer, starts=column.starts[rows], lengths=column.lengths[rows])

    assert arrow_binary(picked).to_pylist() == [([None, *values])[row] for row in rows]
    assert _all(column_of_arrow(arrow_binary(picked))) == _all(picked)


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "+10000-01-01T00:00:00Z"),
        (971_890_963_199_999, "+32767-12-31T23:59:59.999Z"),
        (971_890_963_200_000, "+32768-01-01T00:00:00Z"),
        (2**63 - 1, "+292278994-08-17T07:12:55.807Z"),
    ],
)
def test_aiven_writes_and_reads_times_of_any_year(moment: int, text: str) -> None:
    """As Java's Instant does, whatever stands beside."""
    times = np.array([moment, -1, 1_704_067_200_000], np.int64)

    assert iso_instants(times).to_pylist() == [text, None, "2024-01-01T00:00:00Z"]
    rows = [f'{{"value":1,"timestamp":"{each}"}}'.encode() for each in (text, "2024-01-01T00:00:00.5Z")]
    found = aiven_json.EnvelopeRows(RestoreOptions())(column_of(rows))
    assert found.faults == ()
    assert found.timestamps_ms is not None
    assert found.timestamps_ms.tolist() == [moment, 1_704_067_200_500]


@given(st.lists(st.integers(-1, 2**63 - 1), min_size=1, max_size=5))
def test_times_of_aiven_come_back(moments: list[int]) -> None:
    """Every time that Kafka can have."""
    texts = iso_instants(np.array(moments, np.int64)).to_pylist()

    assert [-1 if text is None else iso_ms(text) for text in texts] == moments


@pytest.mark.parametrize(
    "text", ["+292278995-01-01T00:00:00Z", "+2024-01-01", "+10000-02-30T00:00:00Z", "99999-01-01T00:00:00Z"]
)
def test_what_is_no_time_in_a_far_year_is_bad(text: str) -> None:
    """The rows beside it are read."""
    found = aiven_json.EnvelopeRows(RestoreOptions())(
        column_of([f'{{"value":1,"timestamp":"{text}"}}'.encode(), b'{"value":1}'])
    )

    assert _reasons(found) == [(0, "not_a_timestamp")]


def test_a_time_before_1970_is_none() -> None:
    """Kafka keeps none, in whichever year."""
    texts = ["1969-12-31T23:59:59Z", "0000-01-01T00:00:00Z", "-10000-01-01T00:00:00Z"]
    found = aiven_json.EnvelopeRows(RestoreOptions())(
        column_of([f'{{"value":1,"timestamp":"{text}"}}'.encode() for text in texts])
    )

    assert found.timestamps_ms is not None
    assert found.timestamps_ms.tolist() == [-1, -1, -1]
