"""Parts of rows as Aiven's sink writes them: what `csv_rows` and `json_rows` read."""

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.encodings import CYCLE_MS, CYCLE_YEARS
from headrace.formats.record_columns import RowUnfit
from headrace.model.columns import NO_TIMESTAMP, Headers, Numbers

MEMBERS: Final = ("headers", "offset", "value", "key", "timestamp")
"""The members of its JSON in their order, which is that of a Java hash table of these names."""

HeaderText = Callable[[bytes], str]
"""The JSON of a header's value."""

_SECOND_MS: Final = 1000
_YEAR_10000_MS: Final = 253_402_300_800_000


def csv_headers(headers: Headers) -> bytes:
    """`base64(name):base64(value);` for each; RowUnfit for a value that is null, which has no form."""
    parts = []
    for name, value in headers:
        if value is None:
            raise RowUnfit("a header's value is null, which Aiven's csv cannot hold", reason="null_header")
        parts.append(base64.b64encode(name.encode()) + b":" + base64.b64encode(value) + b";")
    return b"".join(parts)


def json_headers(headers: Headers, text: HeaderText) -> bytes:
    """The list of names and values, `text` giving the values' JSON."""
    entries = (
        f'{{"key":{json.dumps(name, ensure_ascii=False)},"value":{"null" if value is None else text(value)}}}'
        for name, value in headers
    )
    return f"[{','.join(entries)}]".encode()


def base64_json(value: bytes) -> str:
    """Bytes as JSON shows them."""
    return f'"{base64.b64encode(value).decode()}"'


def text_json(value: bytes) -> str:
    """UTF-8 text as JSON."""
    return json.dumps(value.decode(), ensure_ascii=False)


def iso_instants(timestamps_ms: Numbers) -> Any:
    """Each time as Java's Instant has it: `2024-01-01T00:00:00Z`, with milliseconds where there are any.

    A year above 9999 has a sign (`+10000-01-01T00:00:00Z`).

    A string array, with null for a record without a time.
    """
    missing = timestamps_ms == NO_TIMESTAMP
    # Arrow's calendar has 16 bits of years: what is beyond 9999 is written by an earlier day that is alike.
    cycles = np.where(timestamps_ms >= _YEAR_10000_MS, timestamps_ms // CYCLE_MS, 0)
    times = pa.array(timestamps_ms - cycles * CYCLE_MS, pa.timestamp("ms", "UTC"), mask=missing)
    whole = pc.strftime(times.cast(pa.timestamp("s", "UTC"), safe=False), format="%Y-%m-%dT%H:%M:%S")
    if cycles.any():
        years = pc.add(pc.year(times), pa.array(cycles * CYCLE_YEARS))
        far = pc.binary_join_element_wise(
            "+", pc.cast(years, pa.string()), pc.utf8_slice_codeunits(whole, 4), ""
        )
        whole = pc.if_else(pa.array(cycles > 0), far, whole)
    milliseconds = timestamps_ms % _SECOND_MS
    fractions = pc.utf8_lpad(pc.cast(pa.array(milliseconds), pa.string()), 3, "0")
    ends = pc.if_else(
        pa.array(milliseconds > 0),
        pc.binary_join_element_wise(".", fractions, "Z", ""),
        pa.scalar("Z"),
    )
    return pc.binary_join_element_wise(whole, ends, "")


def known_texts(rows: Sequence[Headers], text: Callable[[Headers], bytes]) -> list[bytes]:
    """The text of each row's headers; equal ones, which are frequent, are written once."""
    known: dict[Headers, bytes] = {}
    found = []
    for headers in rows:
        done = known.get(headers)
        if done is None:
            done = known[headers] = text(headers)
        found.append(done)
    return found


def unfit_headers(rows: Sequence[Headers]) -> list[int]:
    """The rows with a header that csv cannot hold."""
    bad = [any(value is None for _, value in headers) for headers in rows]
    return np.flatnonzero(np.array(bad, np.bool_)).tolist() if bad else []
