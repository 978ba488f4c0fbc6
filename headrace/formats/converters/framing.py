"""Where in a value a registry's schema is named, and where what it describes begins.

Confluent's framing is a zero byte and an id of four bytes, or a one and a UUID, after which Protobuf has the
place of its message in the schema; its serializers put all of that into a header where they are set to. AWS
Glue's is a three, a byte for the compression, and a UUID, after which Protobuf has the number of its message,
compressed with it.
https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol
from uuid import UUID

import numpy as np

from headrace.formats.converters.typed_columns import RowFaults
from headrace.model.columns import NULL_LENGTH, Column, Numbers, column_of

NO_SCHEMA: Final = -1
_HEAD_BYTES: Final = 5
_GUID_BYTES: Final = 17
_GUID_VERSION: Final = 1
_GLUE_BYTES: Final = 18
_GLUE_VERSION: Final = 3
_GLUE_PLAIN, _GLUE_ZLIB = 0, 5
# What a record may have once it is inflated: it is there several times while it is decoded and encoded.
_MOST_INFLATED: Final = 16 * 1024 * 1024
# Inflated at once where it is only counted.
_COUNTED_BYTES: Final = 256 * 1024
_CONTINUED: Final = 0x80
_MOST_INDEXES: Final = 100
# So many are looked for one by one.
_FEW_IDS: Final = 16


@dataclass(frozen=True, slots=True)
class SchemaKey:
    """Which schema a value has: the id in its registry, and of Protobuf the message's place in it.

    That is empty where the value does not tell it; in Glue's registry it is one number, by their names.
    """

    id: int | UUID
    message: tuple[int, ...] = ()

    def __str__(self) -> str:
        return str(self.id)

    @property
    def version(self) -> int | None:
        """What rises with the versions of one schema; None where the id tells nothing of it."""
        return self.id if isinstance(self.id, int) else None


class SchemaKeys:
    """Numbers for the keys that a column has.

    They are of one column, so that those of values that only look framed are kept no longer than it.
    """

    def __init__(self) -> None:
        self._numbers: dict[SchemaKey, int] = {}
        self._keys: list[SchemaKey] = []

    def number(self, key: SchemaKey) -> int:
        """The number of a key, a new one at first."""
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._keys)
            self._keys.append(key)
        return found

    def key(self, number: int) -> SchemaKey:
        """The key of a number."""
        return self._keys[number]


@dataclass(frozen=True, slots=True)
class Frames:
    """The values without what is before them, and the number of each one's schema, NO_SCHEMA without.

    `keys` tell which schema a number stands for.
    """

    owners: Numbers
    data: Column
    keys: SchemaKeys


class Framing(Protocol):
    """Takes values apart."""

    def frames(self, column: Column, what: str, faults: RowFaults) -> Frames:
        """The frames of a column; what is framed otherwise is a fault. Nulls have no schema."""


class ConfluentFraming:
    """See Framing; `has_messages`: of Protobuf."""

    def __init__(self, *, has_messages: bool = False) -> None:
        self._has_messages = has_messages

    def frames(self, column: Column, what: str, faults: RowFaults) -> Frames:
        """See `Framing.frames`."""
        found = _Owners(column, has_messages=self._has_messages)
        found.own_numbered()
        found.own_guids()
        message = f"the {what} does not begin with a zero byte and the id of a schema"
        _note_others(found.owners, column, message, faults)
        return Frames(found.owners, _behind(column, found.heads), found.keys)


class _Owners:
    """Which values of a column have which schema, and where their messages begin."""

    def __init__(self, column: Column, *, has_messages: bool) -> None:
        self.owners = np.full(len(column), NO_SCHEMA, np.int64)
        self.heads = np.full(len(column), _HEAD_BYTES, np.int64)
        self.keys = SchemaKeys()
        self._column = column
        self._octets = np.frombuffer(column.buffer, np.uint8)
        self._has_messages = has_messages

    def own_numbered(self) -> None:
        """Put in the owners of values that name their schema by a number."""
        column, octets = self._column, self._octets
        long = np.flatnonzero(column.lengths >= _HEAD_BYTES)
        starts = column.starts[long]
        framed, starts = long[octets[starts] == 0], starts[octets[starts] == 0]
        ids = octets[starts[:, None] + np.arange(1, _HEAD_BYTES)].astype(np.int64) @ _PLACES
        for id_, found in _by_id(ids, framed):
            self._own(id_, found)

    def own_guids(self) -> None:
        """Put in the owners of values that name their schema by its UUID."""
        column, octets = self._column, self._octets
        rows = np.flatnonzero(column.lengths >= _GUID_BYTES)
        rows = rows[octets[column.starts[rows]] == _GUID_VERSION]
        self.heads[rows] = _GUID_BYTES
        places = column.starts[rows][:, None] + np.arange(1, _GUID_BYTES)
        ids = np.ascontiguousarray(octets[places]).view("V16").ravel()
        for raw, found in _by_id(ids, rows):
            self._own(UUID(bytes=bytes(raw)), found)

    def _own(self, id_: int | UUID, rows: Numbers) -> None:
        """Put in the owners of values of one id, and where their messages begin."""
        # Those that are too short are of a schema of another kind, which says more.
        self.owners[rows] = self.keys.number(SchemaKey(id_))
        if not self._has_messages:
            return
        size = int(self.heads[rows[0]])
        longer = rows[self._column.lengths[rows] > size]
        # Most schemas have one message, and a zero says that it is the first.
        is_first = self._octets[self._column.starts[longer] + size] == 0
        first = longer[is_first]
        self.owners[first] = self.keys.number(SchemaKey(id_, (0,)))
        self.heads[first] = size + 1
        for row in longer[~is_first].tolist():
            found, behind = _indexes((self._column.get(row) or b"")[size:])
            self.owners[row] = self.keys.number(SchemaKey(id_, found))
            self.heads[row] = size + behind


class GlueFraming:
    """See Framing; `has_messages`: of Protobuf."""

    def __init__(self, *, has_messages: bool = False) -> None:
        self._has_messages = has_messages

    def frames(self, column: Column, what: str, faults: RowFaults) -> Frames:
        """See `Framing.frames`."""
        keys = SchemaKeys()
        owners = np.full(len(column), NO_SCHEMA, np.int64)
        octets = np.frombuffer(column.buffer, np.uint8)
        rows, ways = _glue_framed(column)
        starts = column.starts[rows]
        ids = np.ascontiguousarray(octets[starts[:, None] + np.arange(2, _GLUE_BYTES)]).view("V16").ravel()
        for raw, found in _by_id(ids, rows):
            owners[found] = keys.number(SchemaKey(UUID(bytes=bytes(raw))))
        data = _behind(column, np.full(len(column), _GLUE_BYTES, np.int64))
        packed = rows[ways == _GLUE_ZLIB]
        if len(packed):
            data = _inflated(data, set(packed.tolist()), owners, what, faults)
        _note_others(
            owners, column, f"the {what} does not begin as AWS Glue's schema registry has it", faults
        )
        if self._has_messages:
            data = self._messages(owners, data, keys)
        return Frames(owners, data, keys)

    def _messages(self, owners: Numbers, data: Column, keys: SchemaKeys) -> Column:
        """The messages after their numbers, which are put in the owners."""
        octets = np.frombuffer(data.buffer, np.uint8)
        heads = np.zeros(len(data), np.int64)
        rows = np.flatnonzero((owners != NO_SCHEMA) & (data.lengths > 0))
        firsts = octets[data.starts[rows]]
        is_short = firsts < _CONTINUED
        short, schemas, numbers = rows[is_short], owners[rows[is_short]], firsts[is_short]
        heads[short] = 1
        for schema, number in {*zip(schemas.tolist(), numbers.tolist(), strict=True)}:
            chosen = short[(schemas == schema) & (numbers == number)]
            owners[chosen] = keys.number(SchemaKey(keys.key(schema).id, (number,)))
        for row in rows[~is_short].tolist():
            number, heads[row] = _unsigned(data.get(row) or b"", 0)
            if number >= 0:
                owners[row] = keys.number(SchemaKey(keys.key(int(owners[row])).id, (number,)))
        return _behind(data, heads)


def glue_inflated_bytes(column: Column) -> Numbers:
    """How many bytes each value of Glue's framing has once it is inflated; 0 where it is not compressed.

    Of one that is damaged, or has more than a value may have, those up to there.
    """
    rows, ways = _glue_framed(column)
    found = np.zeros(len(column), np.int64)
    for row in rows[ways == _GLUE_ZLIB].tolist():
        found[row] = _inflated_bytes((column.get(row) or b"")[_GLUE_BYTES:])
    return found


def _inflated_bytes(value: bytes) -> int:
    inflater, size = zlib.decompressobj(), 0
    try:
        while size <= _MOST_INFLATED and (found := len(inflater.decompress(value, _COUNTED_BYTES))):
            size += found
            value = inflater.unconsumed_tail
    except zlib.error:
        pass
    return size


def _glue_framed(column: Column) -> tuple[Numbers, np.ndarray]:
    """The rows that are in Glue's framing, and the byte of each that tells the compression."""
    octets = np.frombuffer(column.buffer, np.uint8)
    long = np.flatnonzero(column.lengths >= _GLUE_BYTES)
    starts = column.starts[long]
    ways = octets[starts + 1]
    framed = (octets[starts] == _GLUE_VERSION) & ((ways == _GLUE_PLAIN) | (ways == _GLUE_ZLIB))
    return long[framed], ways[framed]


def _by_id(ids: np.ndarray, rows: Numbers) -> Iterator[tuple[Any, Numbers]]:
    """Each of the `rows`' ids with the rows that have it, in the order of the first ones."""
    each = ids.tolist()
    numbers = {id_: number for number, id_ in enumerate(dict.fromkeys(each))}
    if len(numbers) <= _FEW_IDS:
        for id_ in numbers:
            yield id_, rows[ids == np.array(id_, ids.dtype)]
        return
    # Values that only look framed have each an id of their own.
    owners = np.fromiter(map(numbers.__getitem__, each), np.int64, len(each))
    ends = np.cumsum(np.bincount(owners))[:-1]
    yield from zip(numbers, np.split(rows[np.argsort(owners, kind="stable")], ends), strict=True)


_PLACES: Final = np.array([1 << 24, 1 << 16, 1 << 8, 1], np.int64)


def _behind(column: Column, heads: Numbers) -> Column:
    lengths = np.where(column.lengths == NULL_LENGTH, NULL_LENGTH, np.maximum(column.lengths - heads, 0))
    # What is shorter ends where it ends: nothing begins outside the buffer.
    starts = column.starts + np.minimum(heads, np.maximum(column.lengths, 0))
    return Column(buffer=column.buffer, starts=starts, lengths=lengths)


def _note_others(owners: Numbers, column: Column, message: str, faults: RowFaults) -> None:
    for row in np.flatnonzero((owners == NO_SCHEMA) & (column.lengths != NULL_LENGTH)).tolist():
        faults.add(row, "not_framed", message)


def _inflated(data: Column, packed: set[int], owners: Numbers, what: str, faults: RowFaults) -> Column:
    found: list[bytes | None] = []
    for row in range(len(data)):
        value = data.get(row)
        if row in packed:
            value = _unpacked(value or b"")
            if value is None:
                message = (
                    f"the {what} is not compressed as its framing says, or has more than 16 MiB without it"
                )
                faults.add(row, "not_framed", message)
                owners[row] = NO_SCHEMA
        found.append(value)
    return column_of(found)


def _unpacked(value: bytes) -> bytes | None:
    """What was compressed; None where it was not, or is larger than any record may be."""
    inflater = zlib.decompressobj()
    try:
        found = inflater.decompress(value, _MOST_INFLATED)
    except zlib.error:
        return None
    return found if inflater.eof else None


def _indexes(raw: bytes) -> tuple[tuple[int, ...], int]:
    """The place of a message in its schema, and how many bytes tell it; an empty one where they do not."""
    count, at = _number(raw, 0)
    if not 0 < count <= _MOST_INDEXES:
        return (), 0
    found = []
    for _ in range(count):
        number, at = _number(raw, at)
        if number < 0:
            return (), 0
        found.append(number)
    return tuple(found), at


def _number(raw: bytes, at: int) -> tuple[int, int]:
    """A number of variable length with its sign in the last bit, and where it ends; -1 where it does not."""
    value, at = _unsigned(raw, at)
    return (value, at) if value < 0 else ((value >> 1) ^ -(value & 1), at)


def _unsigned(raw: bytes, at: int) -> tuple[int, int]:
    """The same without a sign."""
    value = shift = 0
    while at < len(raw) and shift < 35:  # noqa: PLR2004  # bits of five bytes
        octet = raw[at]
        value |= (octet & ~_CONTINUED) << shift
        at, shift = at + 1, shift + 7
        if not octet & _CONTINUED:
            return value, at
    return -1, at
