"""Any records that Kafka may hold, as strategies, and records as plain tuples."""

import json
from typing import Final

import numpy as np
from hypothesis import strategies as st

from headrace.formats.record_columns import RecordColumns
from headrace.model.columns import (
    NO_TIMESTAMP,
    TIMESTAMP_APPENDED,
    TIMESTAMP_CREATED,
    TIMESTAMP_NONE,
    Headers,
    KafkaRecords,
    column_of,
)

Plain = tuple[bytes | None, bytes | None, Headers, int, int]

_JSON_LIKE: Final = st.sampled_from(
    [
        b"null",
        b" null",
        b'{"a": 1.50, "b":[ ]}',
        b'{"a":\n1}',
        b" 1",
        b"1 ",
        b"1\n",
        b"1,2",
        b'{"a":1},{"b":2}',
        b"{}}",
        b'"\\ud800"',
        b'"\xff"',
        b"\xef\xbb\xbf{}",
        b"NaN",
        b"01",
        b'"a\tb"',
        b"12345678901234567890123",
        b"[" * 1200,
        b"\x00",
        "\u2028é".encode(),
    ]
)
_VALUE: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
_OCTETS: Final = st.none() | st.binary(max_size=12) | st.text(max_size=12).map(str.encode) | _JSON_LIKE
VALUES: Final = _OCTETS | _VALUE.map(lambda value: json.dumps(value).encode())
_NAMES: Final = st.text(max_size=4)
_HEADERS: Final = st.lists(st.tuples(_NAMES, _OCTETS), max_size=3).map(tuple)
_TIMES: Final = st.one_of(
    st.just((NO_TIMESTAMP, TIMESTAMP_NONE)),
    st.tuples(st.integers(0, 2**62), st.sampled_from([TIMESTAMP_CREATED, TIMESTAMP_APPENDED])),
)


@st.composite
def _records(draw: st.DrawFn) -> KafkaRecords:
    count = draw(st.integers(1, 8))
    rows = [draw(st.tuples(_OCTETS, VALUES, _HEADERS, _TIMES)) for _ in range(count)]
    gaps = draw(st.lists(st.integers(1, 2**40), min_size=count, max_size=count))
    return KafkaRecords(
        topic=draw(st.sampled_from(["orders", "a.b-c_D"])),
        partition=draw(st.integers(0, 2**31 - 1)),
        offsets=np.cumsum(np.array(gaps, np.int64)),
        timestamps_ms=np.array([row[3][0] for row in rows], np.int64),
        timestamp_types=np.array([row[3][1] for row in rows], np.int64),
        keys=column_of([row[0] for row in rows]),
        values=column_of([row[1] for row in rows]),
        headers=[row[2] for row in rows] if any(row[2] for row in rows) or draw(st.booleans()) else None,
    )


RECORDS: Final = _records()


def kafka_records(records: KafkaRecords) -> list[Plain]:
    """Each record as key, value, headers, timestamp and offset."""
    return [
        (
            records.keys.get(row),
            records.values.get(row),
            () if records.headers is None else records.headers[row],
            int(records.timestamps_ms[row]),
            int(records.offsets[row]),
        )
        for row in range(len(records))
    ]


def parts(found: RecordColumns) -> list[Plain]:
    """The same of records that were restored."""
    assert found.keys is not None
    assert found.timestamps_ms is not None
    assert found.offsets is not None
    return [
        (
            found.keys.get(row),
            found.values.get(row),
            () if found.headers is None else found.headers[row],
            int(found.timestamps_ms[row]),
            int(found.offsets[row]),
        )
        for row in range(len(found))
    ]
