"""Ledger records as rows of the cache: only as much is decoded as the cache sorts and counts by."""

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from headrace.kafka.control_records import decode_control
from headrace.model.connector_records import decode_worker_record, is_worker_key
from headrace.model.errors import InvalidLedger
from headrace.model.ledger_entry import VERSION, ControlKey, State, decode_entry, decode_key
from headrace.model.sink_entries import decode_sink_entry, is_sink_key

# What means "no split" in columns that are part of a primary key: the object's own row.
WHOLE: Final = -1

# How `encode_key` begins the key of a control record.
CONTROL_BEGINS: Final = b'{"control":'

_STATES: Final = {state.value for state in State}


class _Key(msgspec.Struct, gc=False):
    bucket: str | None = None
    key: str | None = None
    etag: str | None = None
    slice: tuple[int, int] | None = None
    control: str | None = None


class _Head(msgspec.Struct, gc=False):
    v: int
    state: str


_KEYS: Final = msgspec.json.Decoder(_Key)
_HEADS: Final = msgspec.json.Decoder(_Head)

RowKey = tuple[str, str, str, int, int]
"""Bucket, key, ETag, begin and end of a cached entry; WHOLE twice for an object's own."""


class LedgerRows(NamedTuple):
    """A stretch of the ledger, raw, the last record of each key only; None is a tombstone.

    Equal keys are equal bytes (`encode_key`), so nothing has to be decoded to know which record is the last.
    """

    entries: dict[bytes, bytes | None]
    controls: dict[str, bytes | None]


def collect_rows(records: Iterable[tuple[bytes, bytes | None]]) -> LedgerRows:
    """The rows of these records, in which the later of one key wins; InvalidLedger for an unknown control."""
    entries = dict(records)
    controls: dict[str, bytes | None] = {}
    for raw_key in [raw_key for raw_key in entries if raw_key.startswith(CONTROL_BEGINS)]:
        key = decode_key(raw_key)
        assert isinstance(key, ControlKey)
        value = controls[key.name] = entries.pop(raw_key)
        if value is not None:
            _require_known(key, value)
    return LedgerRows(entries, controls)


def row_key(raw: bytes) -> RowKey:
    """The primary key of an object's or split's record; InvalidLedger for what is not ours."""
    try:
        found = _KEYS.decode(raw)
    except msgspec.DecodeError:
        found = _Key()
    if found.bucket is None or found.key is None or found.etag is None:
        decode_key(raw)  # says what is wrong with it
        raise InvalidLedger(f"The ledger holds a key that is not Headrace's: {raw[:200]!r}.")
    begin, end = found.slice or (WHOLE, WHOLE)
    return found.bucket, found.key, found.etag, begin, end


def row_state(raw: bytes) -> str:
    """The state in an entry's value; InvalidLedger when a newer version wrote it, or another program."""
    try:
        head = _HEADS.decode(raw)
    except msgspec.DecodeError:
        head = _Head(v=-1, state="")
    if head.v != VERSION or head.state not in _STATES:
        decode_entry(raw)  # says what is wrong with it, and which version to run
        raise InvalidLedger(f"The ledger holds a value that is not Headrace's: {raw[:200]!r}.")
    return head.state


def _require_known(key: ControlKey, raw: bytes) -> None:
    """InvalidLedger for a control record of a newer version."""
    if is_sink_key(key):
        decode_sink_entry(key, raw)
    elif is_worker_key(key):
        decode_worker_record(key, raw)
    else:
        decode_control(key, raw)
