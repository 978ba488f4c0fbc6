"""Variants, Parquet's type for what has no schema, as JSON: whole, or with parts in columns of their own.

https://github.com/apache/parquet-format/blob/master/VariantEncoding.md
https://github.com/apache/parquet-format/blob/master/VariantShredding.md
"""

import base64
import datetime as dt
import functools
import itertools
import json
import math
import struct
from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import scalar_pieces
from headrace.formats.parquet_schema import RowFaultError
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


NAME: Final = "headrace.variant"

# Names stand once in a file and in each object of its JSON, which may be larger by far than what was decoded:
# rows above this are written fewer at a time, a single one not at all.
_TEXTS_MAX_BYTES: Final = 32 * 1024 * 1024

# The JSON of each value of an array without variants.
Write = Callable[[Any, JsonFormat], Any]
Texts = list[str | None]
Made = TypeVar("Made")


class VariantType(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """A variant as Parquet stores it: metadata, value, typed_value."""

    def __init__(self, storage: Any) -> None:
        super().__init__(storage, NAME)

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: Any, _serialized: bytes) -> "VariantType":
        return cls(storage)


pa.register_extension_type(VariantType(pa.struct([])))


class TextsTooLargeError(ValueError):
    """The JSON of these rows is too large to be held at once."""


def variant_texts(storage: Any, style: JsonFormat, write: Write) -> Any:
    """A string array of the JSON of each variant. RowFaultError, TextsTooLargeError."""
    metadata = _field(storage, "metadata")
    # Without metadata, the names are those of columns.
    dictionaries = [None] * len(storage) if metadata is None else metadata.to_pylist()
    texts = _Shredded(len(storage), style, write).texts(storage, dictionaries)
    return pa.array(["null" if text is None else text for text in texts], pa.string())


class _Shredded:
    """Puts the values of one batch together."""

    def __init__(self, rows: int, style: JsonFormat, write: Write) -> None:
        self._rows = rows
        self._style = style
        self._write = write
        self._left = _TEXTS_MAX_BYTES

    def texts(self, group: Any, metadata: list[bytes | None]) -> Texts:
        """The JSON of each value of a group with `value`, `typed_value` or both; None where there is none."""
        if group.null_count:
            # Where the group is null, a column in it that is required holds anything.
            return self._of_valid(group, metadata, self.texts)
        column = _field(group, "value")
        values: list[bytes | None] = [None] * len(group) if column is None else column.to_pylist()
        typed = _field(group, "typed_value")
        if typed is not None and pa.types.is_struct(typed.type):
            return self._objects(typed, values, metadata)
        texts: Texts = [None] * len(group)
        if typed is not None:
            texts = self._lists(typed, metadata) if pa.types.is_list(typed.type) else self._scalars(typed)
        return [
            text if value is None else self._only(text, names, value)
            for text, value, names in zip(texts, values, metadata, strict=True)
        ]

    def _only(self, text: str | None, metadata: bytes | None, value: bytes) -> str:
        """The JSON of a value next to which no other one may be, but where both are parts of an object."""
        if text is not None:
            raise RowFaultError(
                "a variant of the row has two values: one whole, one in a column", reason="not_parquet"
            )
        return self._whole(metadata, value)

    def _whole(self, metadata: bytes | None, value: bytes) -> str:
        return self._counted(variant_text(metadata or b"", value, self._style))

    def _counted(self, text: str) -> str:
        self._left -= len(text)
        if self._left < 0 and self._rows > 1:
            raise TextsTooLargeError
        if self._left < 0:
            raise RowFaultError("a variant of the row is too large as JSON", reason="too_large")
        return text

    def _scalars(self, typed: Any) -> Texts:
        texts: Texts = self._write(typed, self._style).to_pylist()
        if not typed.null_count:
            return texts
        return [
            text if valid else None for text, valid in zip(texts, typed.is_valid().to_pylist(), strict=True)
        ]

    def _lists(self, typed: Any, metadata: list[bytes | None]) -> Texts:
        counts = pc.list_value_length(typed).to_pylist()
        rows = np.repeat(np.arange(len(typed)), [count or 0 for count in counts])
        elements = iter(self.texts(typed.flatten(), [metadata[row] for row in rows.tolist()]))
        return [
            None if count is None else self._list([next(elements) for _ in range(count)]) for count in counts
        ]

    def _list(self, elements: Texts) -> str:
        return self._counted(f"[{','.join(text or 'null' for text in elements)}]")

    def _objects(self, typed: Any, values: list[bytes | None], metadata: list[bytes | None]) -> Texts:
        """Fields that are columns, and the others, which are in the value of the object."""
        shredded = self._of_valid(typed, metadata, self._columns)
        shredded_names = {field.name for field in typed.type}
        texts: Texts = []
        for value, names, columns in zip(values, metadata, shredded, strict=True):
            if columns is None:
                texts.append(None if value is None else self._whole(names, value))
                continue
            fields = {} if value is None else variant_fields(names or b"", value, self._style)
            if not shredded_names.isdisjoint(fields):
                raise RowFaultError(
                    "a variant of the row has a field twice: in its value and in a column",
                    reason="not_parquet",
                )
            texts.append(self._counted(object_text(fields | columns)))
        return texts

    def _columns(self, typed: Any, metadata: list[bytes | None]) -> list[dict[str, str]]:
        """The fields of each row that have columns of their own, without those that it does not have."""
        rows: list[dict[str, str]] = [{} for _ in range(len(typed))]
        for index in range(typed.type.num_fields):
            name = typed.type.field(index).name
            for fields, text in zip(rows, self.texts(typed.field(index), metadata), strict=True):
                if text is not None:
                    fields[name] = text
        return rows

    def _of_valid(
        self,
        group: Any,
        metadata: list[bytes | None],
        make: Callable[[Any, list[bytes | None]], list[Made]],
    ) -> list[Made | None]:
        """What `make` gives for the rows that are not null, and None for the others."""
        valid = group.is_valid()
        rows = valid.to_pylist()
        made = iter(
            make(
                group.filter(valid), [each for each, is_valid in zip(metadata, rows, strict=True) if is_valid]
            )
        )
        return [next(made) if is_valid else None for is_valid in rows]


def _field(group: Any, name: str) -> Any:
    index = group.type.get_field_index(name)
    return group.field(index) if index >= 0 else None
