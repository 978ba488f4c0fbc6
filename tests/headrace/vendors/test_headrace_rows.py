"""Headrace's own rows: whatever a record holds comes back."""

import base64
import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.formats.content_kind import RowShape
from headrace.model.columns import Headers, column_of
from headrace.options.choices import RestoreOptions
from headrace.vendors.headrace import rows as own_rows

_BYTES = st.none() | st.binary(max_size=12) | st.text(max_size=12).map(lambda text: text.encode())
_JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists)
_VALUES = _BYTES | _JSON.map(lambda value: json.dumps(value).encode())
_HEADERS = st.lists(st.tuples(st.text(max_size=4), _BYTES), max_size=3).map(tuple)
_RECORDS = st.lists(st.tuples(_BYTES, _VALUES, _HEADERS, st.integers(-1, 2**62)), min_size=1, max_size=8)
_FIELDS = frozenset({"key", "value", "headers", "timestamp", "offset", "topic", "partition"})

Record = tuple[bytes | None, bytes | None, Headers, int]


def _row(offset: int, record: Record) -> bytes:
    """The row as docs/layouts.md says."""
    key, value, headers, timestamp = record
    row = [f'"topic":"t","partition":0,"offset":{offset}']
    if timestamp >= 0:
        row.append(f'"timestamp":{timestamp}')
    row.append(_text("key", key))
    if value is None:
        row.append('"value":null')
    elif _is_plain_json(value):
        row.append(f'"value":{value.decode()}')
    else:
        row.append(f'"value_base64":"{base64.b64encode(value).decode()}"')
    entries = ",".join(f'{{"key":{json.dumps(name)},{_text("value", each)}}}' for name, each in headers)
    row.append(f'"headers":[{entries}]')
    return f"{{{','.join(row)}}}".encode()


def _text(name: str, value: bytes | None) -> str:
    if value is None:
        return f'"{name}":null'
    try:
        return f'"{name}":{json.dumps(value.decode(), ensure_ascii=False)}'
    except UnicodeDecodeError:
        return f'"{name}_base64":"{base64.b64encode(value).decode()}"'


def _is_plain_json(value: bytes) -> bool:
    try:
        json.loads(value.decode(), parse_constant=_refuse_constant)
    except (ValueError, UnicodeDecodeError):
        return False
    return value != b"null" and value == value.strip() and b"\n" not in value


def _refuse_constant(constant: str) -> None:
    raise ValueError(constant)


@given(records=_RECORDS)
@example(records=[(None, b"Infinity", (), 0), (None, b"NaN", (), 1), (None, b"-Infinity", (), 2)])
def test_every_byte_comes_back(records: list[Record]) -> None:
    """Null and empty, text and bytes, JSON as it was written, headers twice, order and times."""
    rows = column_of([_row(offset, record) for offset, record in enumerate(records)])

    found = own_rows.reader(RestoreOptions(), rows.get(0))(rows)

    assert found.faults == ()
    assert found.keys is not None
    assert found.headers is not None
    assert found.timestamps_ms is not None
    assert found.offsets is not None
    assert [
        (found.keys.get(row), found.values.get(row), found.headers[row], int(found.timestamps_ms[row]))
        for row in range(len(found))
    ] == records
    assert found.offsets.tolist() == list(range(len(records)))


@given(records=_RECORDS)
@example(records=[(None, b"Infinity", (), 0), (None, b"NaN", (), 1), (None, b"-Infinity", (), 2)])
def test_every_byte_comes_back_from_columns(records: list[Record]) -> None:
    """Avro and Parquet hold bytes, so there is nothing to mark."""
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    batch = pa.record_batch(
        {
            "topic": pa.array(["t"] * len(records)),
            "partition": pa.array([0] * len(records), pa.int32()),
            "offset": pa.array(range(len(records)), pa.int64()),
            "timestamp": pa.array([None if each[3] < 0 else each[3] for each in records], pa.int64()),
            "key": pa.array([each[0] for each in records], pa.binary()),
            "value": pa.array([each[1] for each in records], pa.binary()),
            "headers": pa.array([list(map(_entry, each[2])) for each in records], pa.list_(header)),
        }
    )

    found = own_rows.arrow_reader(RestoreOptions(), _no_json, RowShape(frozenset(batch.schema.names)))(batch)

    assert found.keys is not None
    assert found.headers is not None
    assert found.timestamps_ms is not None
    assert [
        (found.keys.get(row), found.values.get(row), found.headers[row], int(found.timestamps_ms[row]))
        for row in range(len(found))
    ] == records


def _entry(header: tuple[str, bytes | None]) -> dict[str, object]:
    return {"key": header[0], "value": header[1]}


def _no_json(array: object) -> object:
    raise AssertionError(f"{array} is bytes and needs no JSON")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b'{"offset":1,"value":1,"value_base64":"YQ=="}', "not_an_envelope"),
        (b'{"offset":1,"key":5}', "not_an_envelope"),
        (b'{"offset":1,"key_base64":"?","value":1}', "not_base64"),
        (b'{"offset":1,"other":1}', "not_an_envelope"),
        (
            b'{"offset":1,"value":1,"headers":[{"key":"h","value":"a","value_base64":"YQ=="}]}',
            "not_an_envelope",
        ),
        (b'{"offset":1,"value":1,"headers":{"h":"a"}}', "not_an_envelope"),
        (b'{"offset":1,"key":"k"}', "no_value"),
        (b"[]", "not_an_envelope"),
    ],
)
def test_a_row_that_does_not_fit_is_bad_and_the_others_are_not(row: bytes, reason: str) -> None:
    """Never a wrong record."""
    good = b'{"offset":0,"key":"k","value":{"a":1}}'
    rows = column_of([good, row, good])

    found = own_rows.EnvelopeRows()(rows)

    assert [(fault.row, fault.reason) for fault in found.faults] == [(1, reason)]
    assert found.rows.tolist() == [0, 2]
    assert np.all(found.values.lengths == len(b'{"a":1}'))


def test_rows_of_one_field_are_values() -> None:
    """`output.envelope=false` writes them as they are."""
    rows = column_of([b'{"id":1}', b"null", b'"text"'])

    found = own_rows.reader(RestoreOptions(), rows.get(0))(rows)

    assert [found.values.get(row) for row in range(3)] == [b'{"id":1}', None, b"text"]
    assert found.keys is None
