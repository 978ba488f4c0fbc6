"""Thrift's compact protocol, as Parquet's footers and page headers use it.

https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from typing import Any, Final

# Types of the protocol. TRUE and FALSE are values as well; a list's booleans are one of the two each.
STOP, TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(13)

_INTEGERS: Final = (I16, I32, I64)
_DEPTH_MAX: Final = 16
_SHORT_MAX: Final = 15  # counts and steps of field ids up to here stand in one byte with the type

_VARINT_BITS: Final = 70  # ten bytes hold any integer

# A field is its type and its value: bool, int, bytes, a Struct, or (type of items, items) for LIST, SET.
Field = tuple[int, Any]
Struct = dict[int, Field]


class ThriftIncompleteError(Exception):
    """More bytes are needed."""


class ThriftDamagedError(ValueError):
    """These bytes are not the protocol's."""


class ThriftReader:
    """Reads values one after another; `at` is the byte after the last one."""

    def __init__(self, data: bytes, at: int = 0, *, bytes_max: int) -> None:
        self._data = data
        self._bytes_max = bytes_max  # of one text or list; beyond it the bytes cannot be honest
        self.at = at

    def struct(self, depth: int = 0) -> Struct:
        """A struct's fields by id. ThriftIncompleteError, ThriftDamagedError."""
        fields: Struct = {}
        for number, kind in self.fields(depth):
            fields[number] = (kind, self.value(kind, depth))
        return fields

    def fields(self, depth: int = 0) -> Any:
        """Ids and types of a struct's fields; the caller reads each value before the next one."""
        _check_depth(depth)
        number = 0
        while (head := self._byte()) != STOP:
            step = head >> 4
            number = number + step if step else _unzigzagged(self.varint())
            yield number, head & 0x0F

    def value(self, kind: int, depth: int = 0) -> Any:  # noqa: PLR0911  # one for each type
        """The value of a field of this type."""
        if kind in _INTEGERS:
            return _unzigzagged(self.varint())
        if kind == BINARY:
            return self._bytes(self.varint())
        if kind in (TRUE, FALSE):
            return kind == TRUE
        if kind == STRUCT:
            return self.struct(depth + 1)
        if kind in (LIST, SET):
            _check_depth(depth)
            item, count = self.list_head()
            return item, [self.item(item, depth) for _ in range(count)]
        if kind == DOUBLE:
            return self._bytes(8)
        if kind == BYTE:
            return self._byte()
        raise ThriftDamagedError(f"there is no type {kind}")

    def list_head(self) -> tuple[int, int]:
        """Type and number of the items of a list, which follow."""
        head = self._byte()
        count = head >> 4 if head >> 4 != _SHORT_MAX else self.varint()
        if count > self._bytes_max:
            raise ThriftDamagedError(f"a list claims {count} items")
        return head & 0x0F, count

    def item(self, kind: int, depth: int) -> Any:
        """An item of a list."""
        return self._byte() == TRUE if kind in (TRUE, FALSE) else self.value(kind, depth + 1)

    def varint(self) -> int:
        """An unsigned integer."""
        value = shift = 0
        data, at = self._data, self.at
        try:
            while (octet := data[at]) & 0x80:
                value |= (octet & 0x7F) << shift
                shift += 7
                at += 1
                if shift > _VARINT_BITS:
                    raise ThriftDamagedError("an integer does not end")
        except IndexError:
            raise ThriftIncompleteError from None
        self.at = at + 1
        return value | octet << shift

    def _byte(self) -> int:
        if self.at >= len(self._data):
            raise ThriftIncompleteError
        self.at += 1
        return self._data[self.at - 1]

    def _bytes(self, count: int) -> bytes:
        self._advance(count)
        return self._data[self.at - count : self.at]

    def _advance(self, count: int) -> None:
        if count > self._bytes_max:
            raise ThriftDamagedError(f"a text claims {count} bytes")
        if self.at + count > len(self._data):
            raise ThriftIncompleteError
        self.at += count


def _check_depth(depth: int) -> None:
    """Return unless values nest deeper than any of Parquet's: Arrow's reader would end the process there."""
    if depth > _DEPTH_MAX:
        raise ThriftDamagedError("structs or lists nest too deep")


# A struct without its texts and lists: integers, booleans, and structs of the same kind.
Numbers = dict[int, Any]


def read_numbers(data: bytes, at: int) -> tuple[Numbers, int]:
    """The numbers of the struct at `at`, and where it ends. ThriftIncompleteError, ThriftDamagedError.

    Objects have a hundred thousand of these: what is not a number is passed over without being made.
    """
    try:
        found, at = _numbers(data, at, 0)
    except IndexError:
        raise ThriftIncompleteError from None
    return found, at


def _numbers(data: bytes, at: int, depth: int) -> tuple[Numbers, int]:
    _check_depth(depth)
    found: Numbers = {}
    number = 0
    while head := data[at]:
        at += 1
        kind = head & 0x0F
        if head > _SHORT_MAX:
            number += head >> 4
        else:
            step, at = _number_at(data, at)
            number = _unzigzagged(step)
        if kind in (TRUE, FALSE):
            found[number] = kind == TRUE
        elif kind == STRUCT:
            found[number], at = _numbers(data, at, depth + 1)
        elif kind in _INTEGERS:
            value = data[at]
            if value & 0x80:
                value, at = _number_at(data, at)
            else:
                at += 1
            found[number] = (value >> 1) ^ -(value & 1)
        else:
            at = _passed(data, at, kind, depth)
    return found, at + 1


def _number_at(data: bytes, at: int) -> tuple[int, int]:
    octet = data[at]
    value = octet & 0x7F
    shift = 7
    while octet & 0x80:
        at += 1
        octet = data[at]
        value |= (octet & 0x7F) << shift
        shift += 7
        if shift > _VARINT_BITS:
            raise ThriftDamagedError("an integer does not end")
    return value, at + 1


def _passed(data: bytes, at: int, kind: int, depth: int) -> int:
    """Where the value at `at` ends."""
    if kind == BINARY:
        length, at = _number_at(data, at)
        return at + length
    if kind in (LIST, SET):
        _check_depth(depth)
        head = data[at]
        count, at = (head >> 4, at + 1) if head >> 4 != _SHORT_MAX else _number_at(data, at + 1)
        item = head & 0x0F
        for _ in range(count):
            if item == STRUCT:
                at = _numbers(data, at, depth + 1)[1]
            elif item in _INTEGERS:
                at = _number_at(data, at)[1]
            else:
                data[at]  # raises behind the end, so that no count goes on for ever
                at = at + 1 if item in (TRUE, FALSE) else _passed(data, at, item, depth + 1)
        return at
    if kind in (BYTE, DOUBLE):
        return at + (1 if kind == BYTE else 8)
    raise ThriftDamagedError(f"there is no type {kind}")


def struct_bytes(fields: Struct) -> bytes:
    """A struct in the protocol; what ThriftReader.struct reads comes back."""
    out = bytearray()
    last = 0
    for number, (kind, value) in sorted(fields.items()):
        shown = kind if kind not in (TRUE, FALSE) else TRUE if value else FALSE
        step = number - last
        out += bytes([step << 4 | shown]) if 0 < step <= _SHORT_MAX else bytes([shown]) + _zigzagged(number)
        last = number
        if kind not in (TRUE, FALSE):
            out += _value_bytes(kind, value)
    return bytes([*out, STOP])


def list_bytes(kind: int, items: list[Any]) -> bytes:
    """A list in the protocol."""
    count = len(items)
    head = (
        bytes([count << 4 | kind]) if count < _SHORT_MAX else bytes([_SHORT_MAX << 4 | kind]) + _varint(count)
    )
    if kind in (TRUE, FALSE):
        return head + bytes(TRUE if item else FALSE for item in items)
    return head + b"".join(_value_bytes(kind, item) for item in items)


def _value_bytes(kind: int, value: Any) -> bytes:
    if kind in _INTEGERS:
        return _zigzagged(value)
    if kind == BINARY:
        return _varint(len(value)) + bytes(value)
    if kind == STRUCT:
        return struct_bytes(value)
    if kind in (LIST, SET):
        return list_bytes(*value)
    return bytes([value]) if kind == BYTE else bytes(value)


def _unzigzagged(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


def _zigzagged(value: int) -> bytes:
    return _varint(value << 1 if value >= 0 else (-value << 1) - 1)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:  # noqa: PLR2004  # seven bits a byte
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
