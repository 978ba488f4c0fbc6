"""Objects in CSV, read by the csv module and pandas: RFC 4180, in Excel's dialect."""

import csv
import io
import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.conversion.sink_records import RecordConverter
from headrace.options.choices import InputFormat
from headrace.options.row_settings import CsvSettings
from headrace.options.sink_settings import ConverterKind, OutputField, OutputFormat
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.encoding.outputs import bare, converters, encoded, fetched, output
from tests.headrace.formats.encoding.registry import avro, framed, registry
from tests.headrace.formats.memory_source import MemorySource, decode_all

_CSV: Final = OutputFormat.CSV
_TEXT: Final = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=6) | st.sampled_from(
    ['"', '""', ",", "\r\n", "\n", "\r", " a ", "", "a,b", "=1+1", "null", ";"]
)
_FIELDS: Final = (OutputField.OFFSET, OutputField.KEY, OutputField.VALUE)


def _rows(content: bytes, **how: Any) -> list[list[str]]:
    return list(csv.reader(io.StringIO(content.decode(), newline=""), strict=True, **how))


@given(rows=st.lists(st.tuples(st.none() | _TEXT, st.none() | _TEXT), min_size=1, max_size=5))
def test_texts_are_quoted_where_they_have_to_be(rows: list[tuple[str | None, str | None]]) -> None:
    """The csv module reads what was produced; a null is nothing, an empty text is quoted."""
    records = fetched(
        [None if value is None else value.encode() for _, value in rows],
        keys=[None if key is None else key.encode() for key, _ in rows],
    )

    content = encoded(records, output(_CSV, fields=_FIELDS))

    expected = [[str(offset), key or "", value or ""] for offset, (key, value) in enumerate(rows)]
    assert _rows(content) == [["offset", "key", "value"], *expected]
    assert _rows(content, dialect="excel")[1:] == expected


@given(rows=st.lists(_TEXT, min_size=1, max_size=5))
def test_one_column_keeps_its_rows(rows: list[str]) -> None:
    """An empty text is no empty line, which readers pass over."""
    assert _rows(encoded(fetched([row.encode() for row in rows]), bare(_CSV)))[1:] == [[row] for row in rows]


def test_null_and_empty_differ() -> None:
    """As far as CSV can tell them apart."""
    content = encoded(fetched([b"", None], keys=[None, b""]), output(_CSV, fields=_FIELDS))

    assert content == b'offset,key,value\r\n0,,""\r\n1,"",\r\n'


def test_the_envelope() -> None:
    """In the layout's order; headers and values with members as JSON."""
    one = registry()
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    records = fetched([framed(one, schema, {"a": 1}), None], headers=[(("h", b"v"),), ()])

    rows = _rows(encoded(records, output(_CSV), converters(avro(one))))

    assert rows == [
        ["topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers"],
        ["orders", "3", "0", "1704067200000", "", "k", '{"a":1}', '[{"key":"h","value":"v"}]'],
        ["orders", "3", "1", "1704067200000", "", "k", "", ""],
    ]


def test_members_are_columns() -> None:
    """Of Avro and of JSON, nested ones as JSON; pandas reads the types again."""
    values = [
        {"id": 1, "price": 1.5, "name": "a,b", "in": {"x": [1]}, "ok": True, "none": None},
        {"id": 2, "price": -0.25, "name": "", "in": {"x": []}, "ok": False, "none": "x"},
    ]

    content = encoded(
        fetched([json.dumps(value).encode() for value in values]), bare(_CSV), converters(ConverterKind.JSON)
    )

    import pandas as pd  # here, as every xdist worker imports this module

    found = pd.read_csv(io.BytesIO(content), keep_default_na=False)
    assert list(found["id"]) == [1, 2]
    assert list(found["price"]) == [1.5, -0.25]
    assert list(found["name"]) == ["a,b", ""]
    assert [json.loads(each) for each in found["in"]] == [{"x": [1]}, {"x": []}]
    assert list(found["ok"]) == [True, False]
    assert list(found["none"]) == ["", "x"]


def test_a_row_without_anything_is_a_row() -> None:
    """One column that is null: many readers pass over an empty line."""
    content = encoded(fetched([b'{"a":null}', b'{"a":1}']), bare(_CSV), converters(ConverterKind.JSON))

    assert _rows(content) == [["a"], [""], ["1"]]
    assert content == b'a\r\n""\r\n1\r\n'


def test_members_may_have_names_that_json_escapes() -> None:
    """A quotation mark or a backslash: columns like others."""
    values = [b'{"a\\"b": 1.50, "c": {"\\\\d": 1}}', b'{"a\\"b": 2}', b'{"a\\"b": null}']

    assert _rows(encoded(fetched(values), bare(_CSV), converters(ConverterKind.JSON))) == [
        ['a"b', "c"],
        ["1.50", '{"\\\\d": 1}'],
        ["2", ""],
        ["", ""],
    ]


def test_options_of_the_dialect() -> None:
    """Another delimiter and quote, and no line of names."""
    how = output(_CSV, fields=_FIELDS, csv=CsvSettings(delimiter=b";", quote=b"'", header=False))

    assert encoded(fetched([b"a;b", b"it's", b"a,b"]), how) == b"0;k;'a;b'\r\n1;k;'it''s'\r\n2;k;a,b\r\n"


def test_our_own_decoder_reads_it() -> None:
    """The source's CSV."""
    content = encoded(fetched([b'a"\r\n,', b"", b"c"]), output(_CSV, fields=_FIELDS))

    rows = decode_all(MemorySource(content), decode_options(InputFormat.CSV)).rows

    assert [json.loads(value or b"null")["value"] for _, value in rows] == ['a"\r\n,', "", "c"]


@pytest.mark.parametrize("how", [bare(_CSV), output(_CSV)])
def test_bytes_that_are_no_text_are_faults(how: Any) -> None:
    """CSV is text."""
    found = RecordConverter(converters(), how).convert(fetched([b"a", b"\xff"]))

    assert [(fault.offset, fault.reason) for fault in found.faults] == [(1, "not_utf8")]


def test_a_null_alone_is_a_fault() -> None:
    """It would be an empty line."""
    found = RecordConverter(converters(), bare(_CSV)).convert(fetched([b"a", None]))

    assert [(fault.offset, fault.reason) for fault in found.faults] == [(1, "null_value")]


@pytest.mark.parametrize(
    ("values", "rows"),
    [
        ([b'{"":1}', b'{"":2}'], b'""\r\n1\r\n2\r\n'),
        ([b'{"":1,"column_0":2}'], b'"",column_0\r\n1,2\r\n'),
        ([b'{"f,g":1,"h\\"i":2}'], b'"f,g","h""i"\r\n1,2\r\n'),
    ],
)
def test_columns_have_the_names_of_members(values: list[bytes], rows: bytes) -> None:
    """Whatever they are: an empty one is quoted."""
    assert encoded(fetched(values), bare(_CSV), converters(ConverterKind.JSON)) == rows


@pytest.mark.parametrize("kind", ["double", "float"])
def test_what_is_no_number_is_a_null(kind: str) -> None:
    """And no word that a reader takes for text."""
    one = registry()
    fields = [{"name": name, "type": ["null", kind]} for name in ("x", "y")]
    schema = {"type": "record", "name": "M", "fields": fields}
    values = [{"x": float("nan"), "y": 1.5}, {"x": float("-inf"), "y": float("inf")}, {"x": None, "y": 0.0}]
    records = fetched([framed(one, schema, each) for each in values])

    assert _rows(encoded(records, bare(_CSV), converters(avro(one))))[1:] == [
        ["", "1.5"],
        ["", ""],
        ["", "0.0"],
    ]


@pytest.mark.parametrize("empty", [b"{}", b'{"schema":{"type":"struct","fields":[]},"payload":{}}'])
def test_a_record_without_members_is_a_fault(empty: bytes) -> None:
    """It would be an empty line, which is no row; its neighbours are rows."""
    found = RecordConverter(converters(ConverterKind.JSON), bare(_CSV)).convert(fetched([b'{"a":1}', empty]))

    assert [(fault.offset, fault.reason) for fault in found.faults] == [(1, "schema_unfit")]
    assert sum(map(len, found.runs)) == 1
