"""Variants, Parquet's type for what has no schema, as JSON text.

https://github.com/apache/parquet-format/blob/master/VariantEncoding.md
"""

import base64
import datetime as dt
import functools
import itertools
import json
import math
import struct
from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow_scalars import scalar_pieces
from headrace.formats.parquet_maps import RowFaultError
from headrace.options.choices import JsonFormat

# A level takes three of Python's thousand frames.
_DEPTH_MAX: Final = 200

_VERSION: Final = 1
_PRIMITIVE, _SHORT_TEXT, _OBJECT, _ARRAY = range(4)
_DAY: Final = 86_400
_EPOCH: Final = dt.date(1970, 1, 1).toordinal()
_ORDINALS: Final = range(1, dt.date.max.toordinal() + 1)


def _damaged(message: str) -> RowFaultError:
    return RowFaultError(f"a variant of the row {message}", reason="not_parquet")


def variant_text(metadata: bytes, value: bytes, style: JsonFormat) -> str:
    """The JSON of a value. RowFaultError."""
    return _Reader(_names(metadata), value, style).text()


def variant_fields(metadata: bytes, value: bytes, style: JsonFormat) -> dict[str, str]:
    """The fields of an object, each with its JSON. RowFaultError, also for what is no object."""
    return _Reader(_names(metadata), value, style).fields()


def object_text(fields: dict[str, str]) -> str:
    """The JSON of an object, its fields in the order in which variants store them."""
    ordered = sorted(fields.items(), key=lambda field: field[0].encode())
    return f"{{{','.join([f'{_name(name)}:{text}' for name, text in ordered])}}}"


@functools.lru_cache(maxsize=16)
def _names(metadata: bytes) -> tuple[str, ...]:
    """The field names that a value's ids stand for."""
    if not metadata or metadata[0] & 0x0F != _VERSION:
        raise _damaged("is of an unknown version")
    width = (metadata[0] >> 6) + 1
    count = _unsigned(metadata, 1, width)
    texts = 1 + width * (count + 2)
    if texts > len(metadata):
        raise _damaged("has more field names than bytes")
    ends = [_unsigned(metadata, 1 + width * (1 + index), width) for index in range(count + 1)]
    return tuple(_decoded(metadata[texts + begin : texts + end]) for begin, end in itertools.pairwise(ends))


class _Reader:
    """Reads one value, whose parts may be in any order but not be shared."""

    def __init__(self, names: tuple[str, ...], value: bytes, style: JsonFormat) -> None:
        self._names = names
        self._value = value
        self._style = style
        # Offsets could point at the same part again and again, which would grow with every level.
        self._left = len(value)

    def text(self, at: int = 0, depth: int = 0) -> str:
        if depth > _DEPTH_MAX:
            raise RowFaultError("a variant of the row is nested too deep", reason="too_deep")
        basic, header = self._head(at)
        if basic == _PRIMITIVE:
            return self._primitive(header, at + 1)
        if basic == _SHORT_TEXT:
            return _quoted(self._bytes(at + 1, header))
        if basic == _ARRAY:
            _, begins = self._parts(at, header, has_ids=False)
            return f"[{','.join([self.text(begin, depth + 1) for begin in begins])}]"
        fields = self._object(at, header, depth)
        return f"{{{','.join([f'{_name(name)}:{text}' for name, text in fields])}}}"

    def fields(self) -> dict[str, str]:
        basic, header = self._head(0)
        if basic != _OBJECT:
            raise _damaged("is shredded as an object, and is not one")
        return dict(self._object(0, header, 0))

    def _head(self, at: int) -> tuple[int, int]:
        head = self._bytes(at, 1)[0]
        return head & 3, head >> 2

    def _object(self, at: int, header: int, depth: int) -> list[tuple[str, str]]:
        ids, begins = self._parts(at, header, has_ids=True)
        if ids and max(ids) >= len(self._names):
            raise _damaged("has a field without a name")
        names = [self._names[each] for each in ids]
        return [(name, self.text(begin, depth + 1)) for name, begin in zip(names, begins, strict=True)]

    def _parts(self, at: int, header: int, *, has_ids: bool) -> tuple[list[int], list[int]]:
        """Ids, where there are any, and the beginnings of the parts of an object or array."""
        width = (header & 3) + 1
        id_width = (header >> 2 & 3) + 1 if has_ids else 0
        count_width = 4 if header >> (4 if has_ids else 2) & 1 else 1
        count = int.from_bytes(self._bytes(at + 1, count_width), "little")
        at += 1 + count_width
        ids = _numbers(self._bytes(at, count * id_width), id_width)
        at += count * id_width
        offsets = _numbers(self._bytes(at, (count + 1) * width), width)
        at += (count + 1) * width
        return ids, [at + offset for offset in offsets[:-1]]

    def _primitive(self, kind: int, at: int) -> str:
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        if kind in _WITH_LENGTH:
            content = self._bytes(at + 4, int.from_bytes(self._bytes(at, 4), "little"))
            return _quoted(content) if kind == _TEXT else f'"{base64.b64encode(content).decode()}"'
        if kind not in _PRIMITIVES:
            raise _damaged(f"has a type that is not known here ({kind})")
        width, write = _PRIMITIVES[kind]
        return write(self._bytes(at, width), self._style)

    def _bytes(self, at: int, count: int) -> bytes:
        content = self._value[at : at + count]
        self._left -= count
        if len(content) < count or self._left < 0:
            raise _damaged("ends too early")
        return content


def _unsigned(content: bytes, at: int, width: int) -> int:
    return int.from_bytes(content[at : at + width], "little")


def _numbers(content: bytes, width: int) -> list[int]:
    return [_unsigned(content, at, width) for at in range(0, len(content), width)] if width else []


def _decoded(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise RowFaultError("a text in a variant of the row is not UTF-8", reason="not_utf8") from None


def _quoted(content: bytes) -> str:
    return json.dumps(_decoded(content), ensure_ascii=False)


@functools.lru_cache(maxsize=1024)
def _name(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _integer(content: bytes, _style: JsonFormat) -> str:
    return str(int.from_bytes(content, "little", signed=True))


def _double(content: bytes, _style: JsonFormat) -> str:
    (number,) = struct.unpack("<d", content)
    return repr(number) if math.isfinite(number) else "null"


def _float(content: bytes, _style: JsonFormat) -> str:
    (number,) = struct.unpack("<f", content)
    return str(np.float32(number)) if math.isfinite(number) else "null"


def _decimal(content: bytes, style: JsonFormat) -> str:
    scale, unscaled = content[0], int.from_bytes(content[1:], "little", signed=True)
    if style is JsonFormat.CONNECT:
        length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
        return f'"{base64.b64encode(unscaled.to_bytes(length, "big", signed=True)).decode()}"'
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    sign = "-" if unscaled < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else sign + digits


def _date(content: bytes, style: JsonFormat) -> str:
    days = int.from_bytes(content, "little", signed=True)
    if style is JsonFormat.CONNECT or days + _EPOCH not in _ORDINALS:
        return _by_arrow(days, pa.date32(), style)
    return f'"{dt.date.fromordinal(days + _EPOCH).isoformat()}"'


def _timestamp(unit: str, zone: str | None) -> Callable[[bytes, JsonFormat], str]:
    digits = 6 if unit == "us" else 9
    second = 10**digits

    def write(content: bytes, style: JsonFormat) -> str:
        count = int.from_bytes(content, "little", signed=True)
        days, rest = divmod(count, _DAY * second)
        if style is JsonFormat.CONNECT or days + _EPOCH not in _ORDINALS:
            return _by_arrow(count, pa.timestamp(unit, zone), style)
        day, (seconds, fraction) = dt.date.fromordinal(days + _EPOCH), divmod(rest, second)
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:0{digits}}"
        return f'"{day.isoformat()}T{clock}{"" if zone is None else "Z"}"'

    return write


def _time(content: bytes, style: JsonFormat) -> str:
    return _by_arrow(int.from_bytes(content, "little", signed=True), pa.time64("us"), style)


def _uuid(content: bytes, _style: JsonFormat) -> str:
    digits = content.hex()
    return f'"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"'


def _by_arrow(number: int, kind: pa.DataType, style: JsonFormat) -> str:
    """As a column of the type is written, which knows what lies beyond calendars and clocks."""
    width = pa.int32() if kind.bit_width == 32 else pa.int64()  # noqa: PLR2004  # bits
    pieces = scalar_pieces(pa.array([number], width).cast(kind), style) or []
    return str(pc.binary_join_element_wise(*pieces, pa.array([""]), "")[0].as_py())


_TEXT, _BINARY = 16, 15
_WITH_LENGTH: Final = (_TEXT, _BINARY)
_CONSTANTS: Final = {0: "null", 1: "true", 2: "false"}
_PRIMITIVES: Final[dict[int, tuple[int, Callable[[bytes, JsonFormat], str]]]] = {
    3: (1, _integer),
    4: (2, _integer),
    5: (4, _integer),
    6: (8, _integer),
    7: (8, _double),
    8: (5, _decimal),
    9: (9, _decimal),
    10: (17, _decimal),
    11: (4, _date),
    12: (8, _timestamp("us", "UTC")),
    13: (8, _timestamp("us", None)),
    14: (4, _float),
    17: (8, _time),
    18: (8, _timestamp("ns", "UTC")),
    19: (8, _timestamp("ns", None)),
    20: (16, _uuid),
}
