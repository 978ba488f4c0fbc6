"""Messages of Protobuf to Arrow arrays without an object for each: field by field, of all messages at once.

Writers put fields in the order of their numbers, each once unless it is repeated. So a pass over a message's
fields takes of every message what is there next; where bytes are left after the last field, or do not fit, a
batch is not read here, and each message is parsed on its own, which understands all that Protobuf allows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.formats.arrow import arrow_binary
from headrace.formats.connect import ConnectSchema
from headrace.formats.connect.arrow_types import arrow_type
from headrace.formats.connect.schema import Type
from headrace.formats.records.protobuf_schemas import is_map, logical_schema, real_oneofs
from headrace.model.columns import Column, Numbers

Octets = npt.NDArray[np.uint8]

_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
# Behind the last message, so that reading beyond its end is seen before it is a fault.
_PADDING: Final = 32
# Passes over one repeated field; longer lists are few, and better parsed one by one.
_MOST_ITEMS: Final = 64
_VARINT_BYTES: Final = 10
# What fits into 64 bits as milliseconds.
_MOST_SECONDS: Final = 9_000_000_000_000_000


class Unread(Exception):
    """These messages are for the parser."""


@dataclass(frozen=True, slots=True)
class _Spans:
    """Where something is: the octets from `starts` to `ends`."""

    octets: Octets
    starts: Numbers
    ends: Numbers


Read = Callable[[_Spans], Any]
"""Makes an array of single values of a field, whose encodings are all there."""


def _varints(octets: Octets, at: Numbers) -> tuple[npt.NDArray[np.uint64], Numbers]:
    """The numbers of variable length that begin there, and where each ends."""
    values = octets[at].astype(np.uint64)
    ends = at + 1
    longer = np.flatnonzero(values >= 128)  # noqa: PLR2004  # the bit that says that more follows
    values[longer] &= np.uint64(127)
    shift = 7
    while len(longer):
        if shift == 7 * _VARINT_BYTES:
            raise Unread
        more = octets[ends[longer]].astype(np.uint64)
        values[longer] |= (more & np.uint64(127)) << np.uint64(shift)
        ends[longer] += 1
        longer, shift = longer[more >= 128], shift + 7  # noqa: PLR2004  # as above
    return values, ends


def message_reader(message: Any, schema: ConnectSchema) -> Callable[[Column], Any] | None:
    """What reads columns of such messages (no nulls), raising Unread; None where only a parser reads them.

    `schema` is that of `connect_schema`.
    """
    try:
        read = _message(message, schema)
    except Unread:
        return None

    def array(data: Column) -> Any:
        octets = np.concatenate([np.frombuffer(data.buffer, np.uint8), np.zeros(_PADDING, np.uint8)])
        try:
            return read(_Spans(octets, data.starts, data.starts + data.lengths))
        except pa.ArrowException:
            raise Unread from None

    return array


class _Message:
    """Reads messages; `is_entry`: those that maps are made of, whose fields are never null."""

    def __init__(self, message: Any, fields: Sequence[ConnectSchema], *, is_entry: bool = False) -> None:
        if real_oneofs(message) or not message.fields:
            raise Unread
        made = [
            _Field(each, inner, is_entry=is_entry) for each, inner in zip(message.fields, fields, strict=True)
        ]
        self._names = [each.name for each in message.fields]
        self._fields = sorted(enumerate(made), key=lambda each: each[1].number)

    def columns(self, found: _Spans) -> list[Any]:
        """An array for each field, in the order of the schema."""
        arrays: list[Any] = [None] * len(self._fields)
        rest = _Spans(found.octets, found.starts.copy(), found.ends)
        for place, field in self._fields:
            arrays[place] = field.array(rest)
        if not np.array_equal(rest.starts, rest.ends):
            raise Unread
        return arrays


class _Field:
    """Reads one field of all messages."""

    def __init__(self, field: Any, schema: ConnectSchema, *, is_entry: bool) -> None:
        if field.is_required:
            raise Unread
        self.number = field.number
        self._is_map, self._is_list = is_map(field), field.is_repeated
        item = schema.item if self._is_list and not self._is_map else schema
        self._value = _value(field, item)
        self._type = arrow_type(schema)
        self._is_packed = self._is_list and field.is_packed
        self._wire = _BYTES if self._is_packed else self._value.wire
        self._tag = _tag(self.number, self._wire)
        self._is_null = field.has_presence and not is_entry
        self._zero = None if field.message_type is not None else self._value.zero

    def array(self, rest: _Spans) -> Any:
        """The values of all messages, of which `rest` is left; its starts move past this field."""
        count = len(rest.starts)
        if self._is_packed:
            owners, found = self._taken(rest)
            sizes, values = self._value.packed(found)
            owners = np.repeat(owners, sizes)
        elif self._is_list:
            owners, found = self._repeated(rest)
            values = self._value.read(found)
        else:
            owners, found = self._taken(rest)
            values = self._value.read(found)
            return values if len(owners) == count else self._spread(values, owners, count)
        offsets = np.searchsorted(owners, np.arange(count + 1)).astype(np.int32)
        if not self._is_map:
            return pa.ListArray.from_arrays(pa.array(offsets), values, type=self._type)
        keys, items = values
        _refuse_twice(keys, offsets)
        return pa.MapArray.from_arrays(pa.array(offsets), keys, items, type=self._type)

    def _taken(self, rest: _Spans) -> tuple[Numbers, _Spans]:
        """The messages whose next field this is, and where its value is."""
        octets, starts, ends = rest.octets, rest.starts, rest.ends
        is_next = starts < ends
        for index, octet in enumerate(self._tag):
            # What lies after the end is padding, or seen to be beyond it below.
            is_next &= octets[starts + index] == octet
        owners = np.flatnonzero(is_next)
        begin = starts[owners] + len(self._tag)
        if self._wire == _VARINT:
            _, end = _varints(octets, begin)
        elif self._wire == _BYTES:
            sizes, begin = _varints(octets, begin)
            if (sizes > len(octets)).any():
                raise Unread
            end = begin + sizes.astype(np.int64)
        else:
            end = begin + self._wire_bytes
        if (end > ends[owners]).any():
            raise Unread  # Before anything is read there, which may be after the buffer's end.
        starts[owners] = end
        return owners, _Spans(octets, begin, end)

    @property
    def _wire_bytes(self) -> int:
        return 8 if self._wire == _EIGHT else 4

    def _repeated(self, rest: _Spans) -> tuple[Numbers, _Spans]:
        """The same of a field that is there more than once, in the order of the messages."""
        passes = [self._taken(rest)]
        while len(passes[-1][0]):
            if len(passes) > _MOST_ITEMS:
                raise Unread
            passes.append(self._taken(rest))
        owners = np.concatenate([each for each, _ in passes])
        order = np.argsort(owners, kind="stable")
        starts = np.concatenate([each.starts for _, each in passes])[order]
        ends = np.concatenate([each.ends for _, each in passes])[order]
        return owners[order], _Spans(rest.octets, starts, ends)

    def _spread(self, values: Any, owners: Numbers, count: int) -> Any:
        """Values at the places of their messages, elsewhere a null or the type's own zero."""
        places = np.zeros(count, np.int64)
        places[owners] = np.arange(len(owners))
        absent = np.ones(count, np.bool_)
        absent[owners] = False
        if self._is_null:
            return values.take(pa.array(places, mask=absent))
        if self._zero is None:
            raise Unread
        places[absent] = len(owners)
        return pa.concat_arrays([values, pa.array([self._zero], values.type)]).take(pa.array(places))


def _refuse_twice(keys: Any, offsets: npt.NDArray[np.int32]) -> None:
    """Unread where a map has a key twice, which has its last value."""
    sizes = np.diff(offsets)
    if not len(keys) or sizes.max() <= 1:
        return
    codes = keys.dictionary_encode().indices.to_numpy().astype(np.int64)
    places = np.repeat(np.arange(len(sizes)), sizes) * len(keys) + codes
    if len(np.unique(places)) < len(places):
        raise Unread


def _tag(number: int, wire: int) -> bytes:
    left, found = number << 3 | wire, bytearray()
    while left > 127:  # noqa: PLR2004  # seven bits in each octet
        found.append(left & 127 | 128)
        left >>= 7
    return bytes([*found, left])


# -- Values of a field ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Value:
    """How the values of a field are written; `packed` reads lists in one piece, and gives their sizes."""

    wire: int
    zero: Any
    read: Read
    packed: Callable[[_Spans], tuple[Numbers, Any]]


def _value(field: Any, schema: ConnectSchema) -> _Value:
    message = field.message_type
    if message is None:
        return _scalar(field, arrow_type(schema))
    if is_map(field):
        entry = _Message(message, schema.map_parts, is_entry=True)
        return _Value(_BYTES, None, entry.columns, _unpacked)
    if logical_schema(message, field) is None:
        return _Value(_BYTES, None, _message(message, schema), _unpacked)
    if message.full_name != "google.protobuf.Timestamp":
        raise Unread
    moment = _Message(message, [ConnectSchema(type=Type.INT64), ConnectSchema(type=Type.INT32)])
    kind = arrow_type(schema)
    return _Value(_BYTES, None, lambda found: _moments(moment.columns(found), kind), _unpacked)


def _message(message: Any, schema: ConnectSchema) -> Read:
    """What reads messages; of wrappers their values."""
    if schema.type is not Type.STRUCT:
        inner = _Message(message, [schema])
        return lambda found: inner.columns(found)[0]
    inner, kind = _Message(message, [each.schema for each in schema.fields]), arrow_type(schema)
    return lambda found: pa.StructArray.from_arrays(inner.columns(found), fields=list(kind))


def _unpacked(_found: _Spans) -> tuple[Numbers, Any]:
    raise Unread


def _moments(columns: list[Any], kind: Any) -> Any:
    seconds, nanos = (each.to_numpy() for each in columns)
    if (np.abs(seconds) > _MOST_SECONDS).any():
        raise Unread
    return pa.array(seconds * 1000 + nanos // 1_000_000).cast(kind)


def _scalar(field: Any, kind: Any) -> _Value:
    if field.type in {field.TYPE_STRING, field.TYPE_BYTES}:
        zero: Any = "" if field.type == field.TYPE_STRING else b""
        return _Value(_BYTES, zero, lambda found: _texts(found, kind), _unpacked)
    if field.enum_type is not None:
        return _enum(field.enum_type, kind)
    if field.type in _FIXED:
        form = _FIXED[field.type]

        def fixed(found: _Spans) -> Any:
            return pa.array(_signed(_fixed(found, form)), kind)

        def fixed_packed(found: _Spans) -> tuple[Numbers, Any]:
            sizes, rest = np.divmod(found.ends - found.starts, form.itemsize)
            if rest.any():
                raise Unread
            return sizes, pa.array(_signed(_stream(found).view(form)), kind)

        return _Value(_EIGHT if form.itemsize == 8 else _FOUR, 0, fixed, fixed_packed)  # noqa: PLR2004
    if field.type not in _NUMBERS:
        raise Unread
    return _varint_value(_NUMBERS[field.type], kind, zero=False if field.type == field.TYPE_BOOL else 0)


def _varint_value(number: Callable[[Any], Any], kind: Any, *, zero: Any) -> _Value:
    def read(found: _Spans) -> Any:
        return pa.array(number(_varints(found.octets, found.starts)[0]), kind)

    def packed(found: _Spans) -> tuple[Numbers, Any]:
        sizes, values = _packed_varints(found)
        return sizes, pa.array(number(values), kind)

    return _Value(_VARINT, zero, read, packed)


def symbols(enum: Any) -> Callable[[int], str]:
    """The name of each number; one that a later schema has added is called as Java calls it."""
    names = {each.number: each.name for each in enum.values}
    return lambda number: names.get(number) or f"UNKNOWN_ENUM_VALUE_{enum.name}_{number}"


def _enum(enum: Any, kind: Any) -> _Value:
    if enum.is_closed:
        raise Unread
    name = symbols(enum)

    def names(values: Any) -> Any:
        numbers, places = np.unique(values.astype(np.uint32).view(np.int32), return_inverse=True)
        return pa.array([name(each) for each in numbers.tolist()], kind).take(pa.array(places))

    return _varint_value(names, kind, zero=name(0))


def _texts(found: _Spans, kind: Any) -> Any:
    column = Column(buffer=found.octets.data, starts=found.starts, lengths=found.ends - found.starts)
    return arrow_binary(column).cast(kind)


def _fixed(found: _Spans, form: np.dtype[Any]) -> Any:
    places = found.starts[:, None] + np.arange(form.itemsize)
    return np.ascontiguousarray(found.octets[places]).view(form).ravel()


def _signed(values: Any) -> Any:
    """Numbers without a sign in 64 bits with one, as Java has them."""
    if values.dtype.kind != "u":
        return values
    if values.dtype.itemsize == 8 and (values >> np.uint64(63)).any():  # noqa: PLR2004  # bytes
        raise Unread
    return values.astype(np.int64)


def _stream(found: _Spans) -> Octets:
    """The octets of all spans, one after the other."""
    sizes = found.ends - found.starts
    firsts = np.cumsum(sizes) - sizes
    return found.octets[np.repeat(found.starts - firsts, sizes) + np.arange(int(sizes.sum()))]


def _packed_varints(found: _Spans) -> tuple[Numbers, Any]:
    sizes, stream = found.ends - found.starts, _stream(found)
    is_last = stream < 128  # noqa: PLR2004  # the bit that says that more follows
    done = np.concatenate([np.zeros(1, np.int64), np.cumsum(is_last)])
    ends = np.cumsum(sizes)
    if not is_last[ends[sizes > 0] - 1].all():
        raise Unread
    counts = done[ends] - done[ends - sizes]
    starts = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(is_last) + 1])[:-1]
    if not len(starts):
        return counts, np.zeros(0, np.uint64)
    depth = np.arange(len(stream)) - starts[done[:-1]]
    if depth.max() >= _VARINT_BYTES:
        raise Unread
    bits = (stream & 127).astype(np.uint64) << (7 * depth).astype(np.uint64)
    return counts, np.bitwise_or.reduceat(bits, starts)


def _zigzag(values: Any) -> Any:
    return (values >> np.uint64(1)).view(np.int64) ^ -(values & np.uint64(1)).view(np.int64)


# By the numbers of FieldDescriptor.Type.
_FIXED: Final[dict[int, np.dtype[Any]]] = {
    1: np.dtype("<f8"),
    2: np.dtype("<f4"),
    6: np.dtype("<u8"),
    7: np.dtype("<u4"),
    15: np.dtype("<i4"),
    16: np.dtype("<i8"),
}
_NUMBERS: Final[dict[int, Callable[[Any], Any]]] = {
    3: lambda values: values.view(np.int64),
    4: _signed,
    5: lambda values: values.astype(np.uint32).view(np.int32),
    8: lambda values: values != 0,
    13: lambda values: values.astype(np.uint32).astype(np.int64),
    17: lambda values: _zigzag(values.astype(np.uint32).astype(np.uint64)).astype(np.int32),
    18: _zigzag,
}
