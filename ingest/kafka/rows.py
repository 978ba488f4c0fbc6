"""Ledger records as rows of the cache: only as much is decoded as the cache sorts and counts by."""

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from ingest.errors import LedgerUnfit
from ingest.kafka.controls import decode_control
from ingest.ledger import VERSION, ControlKey, State, decode_entry, decode_key

# What stands for "no slice" in columns that are part of a primary key: the object's own row.
WHOLE: Final = -1

_STATES: Final = {state.value for state in State}


class _Key(msgspec.Struct):
    bucket: str | None = None
    key: str | None = None
    etag: str | None = None
    slice: tuple[int, int] | None = None
    control: str | None = None


class _Head(msgspec.Struct):
    v: int
    state: str


_KEYS: Final = msgspec.json.Decoder(_Key)
_HEADS: Final = msgspec.json.Decoder(_Head)


class RowKey(NamedTuple):
    """The primary key of a cached entry; `begin` and `end` are WHOLE for an object's own."""

    bucket: str
    key: str
    etag: str
    begin: int
    end: int


class Rows(NamedTuple):
    """A stretch of the ledger, last record of each key only; None is a tombstone."""

    entries: dict[RowKey, tuple[str, bytes] | None]
    controls: dict[str, bytes | None]


def decode_rows(records: Iterable[tuple[bytes, bytes | None]]) -> Rows:
    """The rows of these records, in which the later of one key wins.

    LedgerUnfit for what is not ours or of a newer version: refusing here is refusing to start.
    """
    rows = Rows({}, {})
    for raw_key, raw_value in records:
        key = _row_key(raw_key)
        if isinstance(key, ControlKey):
            if raw_value is not None:
                decode_control(key, raw_value)
            rows.controls[key.name] = raw_value
        else:
            rows.entries[key] = None if raw_value is None else (_state(raw_value), raw_value)
    return rows


def _row_key(raw: bytes) -> RowKey | ControlKey:
    try:
        found = _KEYS.decode(raw)
    except msgspec.DecodeError:
        found = _Key()
    if found.control is not None:
        return ControlKey(found.control)
    if found.bucket is None or found.key is None or found.etag is None:
        decode_key(raw)  # says what is wrong with it
        raise LedgerUnfit(f"The ledger holds a key that is not Headrace's: {raw[:200]!r}.")
    begin, end = found.slice or (WHOLE, WHOLE)
    return RowKey(found.bucket, found.key, found.etag, begin, end)


def _state(raw: bytes) -> str:
    try:
        head = _HEADS.decode(raw)
    except msgspec.DecodeError:
        head = _Head(v=-1, state="")
    if head.v != VERSION or head.state not in _STATES:
        decode_entry(raw)  # says what is wrong with it, and which version to run
        raise LedgerUnfit(f"The ledger holds a value that is not Headrace's: {raw[:200]!r}.")
    return head.state
