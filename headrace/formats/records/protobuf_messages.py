"""Messages of Protobuf made of the JSON of rows, by what the message's fields are and by the rows' schema."""

import base64
import binascii
import datetime as dt
import struct
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

import msgspec

from headrace.formats.avro_schema import Node
from headrace.formats.records.protobuf_schemas import is_map, registered_scale, wrapped
from headrace.model.errors import InvalidObject

_EPOCH: Final = dt.date(1970, 1, 1).toordinal()
# Kinds of Avro whose JSON is a text.
_TEXTS: Final = frozenset({"bytes", "fixed", "string", "enum"})
# Between two scales; decimals of Avro that readers know have 76.
_MOST_DIGITS: Final = 76

# -- The types of rows ---------------------------------------------------------------------------------------

Types = tuple[Node, ...]
"""The Avro types that a value of rows may be of, unions taken apart; none where rows bring no schema."""


def types_of(nodes: Iterable[Node]) -> Types:
    """What values of these types may be, without null, each once."""
    found: dict[int, Node] = {}
    for node in nodes:
        below = types_of(node.branches) if node.kind == "union" else (node,)
        found.update((id(each), each) for each in below if each.kind != "null")
    return tuple(found.values())


def types_of_member(rows: Types, name: str) -> Types:
    """What the member of records may be; none where they have none of the name."""
    fields = (field for node in rows if node.kind == "record" for field in node.fields)
    return types_of(node for own, node in fields if own == name)


def _types_of_items(rows: Types) -> Types:
    return types_of(node.content for node in rows if node.kind == "array")


def _types_of_map_values(rows: Types) -> Types:
    """Of maps whose keys are no texts rows have lists of keys and values."""
    maps = types_of(node.content for node in rows if node.kind == "map")
    return maps or types_of_member(_types_of_items(rows), "value")


# -- Messages ------------------------------------------------------------------------------------------------


def encoder(message: Any, rows: Types, *, is_own: bool) -> Callable[[bytes], bytes]:
    """What makes a message of a row's JSON, raising one of WRONG for a row that is none.

    `rows` are the types of rows; with `is_own` the message's schema was made of them.
    """
    from google.protobuf import message_factory
    from google.protobuf.message import DecodeError, EncodeError

    made: Any = message_factory.GetMessageClass(message)
    change = _changes(message, rows, {}, is_own=is_own)
    is_deep = _may_be_deep(message)
    decode = msgspec.json.Decoder().decode

    def encode(text: bytes) -> bytes:
        row = decode(text)
        try:
            found = bytes(made(**(row if change is None else change(row))).SerializeToString())
            if is_deep:
                made.FromString(found)  # readers follow about 100 levels, which writers do not count
        except (EncodeError, DecodeError) as error:
            raise ValueError(str(error)) from error
        return found

    return encode


def _may_be_deep(message: Any) -> bool:
    """True where the message, or one that it holds, may hold itself."""

    def returns(one: Any, above: tuple[str, ...]) -> bool:
        if one.full_name in known:
            return False
        if one.full_name in above:
            return True
        held = [field.message_type for field in one.fields if field.message_type is not None]
        found = any(returns(each, (*above, one.full_name)) for each in held)
        known.add(one.full_name)
        return found

    known: set[str] = set()
    return returns(message, ())


WRONG: Final = (
    ValueError,
    TypeError,
    AttributeError,
    KeyError,
    OverflowError,
    RecursionError,
    binascii.Error,
    msgspec.DecodeError,
)
"""What `encoder` raises for a row that is no message."""
Change = Callable[[Any], Any]


def _changes(
    message: Any, rows: Types, known: dict[tuple[Any, ...], Change], *, is_own: bool
) -> Change | None:
    """What makes values for the library of a row's JSON: bytes of base64, and moments; None if nothing.

    Of a `oneof` a row has one member at most. `known` has what is made already, by the message and `rows`.

    In a schema of the rows' own a number that is always there is null in JSON where it is not finite, and for
    the library a null would be 0.
    """
    place = (message.full_name, *map(id, rows))
    members = _members if wrapped(message) is None else _wrapper
    if place in known:
        # Of a message that holds itself what is to be done is not known yet.
        def changed_later(row: Any) -> Any:
            return known[place](row)

        return changed_later
    known[place] = members
    changes: dict[str, Change] = {}
    for field in message.fields:
        change = _field_change(field, _types_of_field(message, field, rows), known, is_own=is_own)
        if change is not None:
            changes[field.name] = change
    filled = [each.name for each in message.fields if is_own and _is_always_there(each)]
    choices = _choices(message)
    if not changes and not filled and not choices and members is _members:
        return None

    def changed(row: Any) -> Any:
        found = dict(members(row))
        _check_choices(found, choices)
        if any(found.get(name) is None for name in filled):
            raise ValueError("a number is not finite")
        for name, change in changes.items():
            value = found.get(name)
            if value is not None:
                found[name] = change(value)
        return found

    known[place] = changed
    return changed


def _types_of_field(message: Any, field: Any, rows: Types) -> Types:
    """What a field is made of: a member of rows, or of a wrapper their values themselves."""
    plain = () if wrapped(message) is None else tuple(node for node in rows if node.kind != "record")
    return types_of_member(rows, field.name) + plain


def _choices(message: Any) -> list[list[str]]:
    """The names of each `oneof` that has several."""
    return [[each.name for each in one.fields] for one in message.oneofs if len(one.fields) > 1]


def _check_choices(row: dict[str, Any], choices: list[list[str]]) -> None:
    """ValueError for two members of one `oneof`, of which the library would keep one."""
    for names in choices:
        if sum(row.get(name) is not None for name in names) > 1:
            raise ValueError(f"several of {', '.join(names)}")


def _is_always_there(field: Any) -> bool:
    """True for a float or double that is neither optional nor repeated."""
    return field.type in {field.TYPE_DOUBLE, field.TYPE_FLOAT} and not (
        field.has_presence or field.is_repeated
    )


def _field_change(
    field: Any, rows: Types, known: dict[tuple[Any, ...], Change], *, is_own: bool
) -> Change | None:
    if is_map(field):
        value, values = field.message_type.fields_by_name["value"], _types_of_map_values(rows)
        one = _one_change(value, values, known, is_own=is_own, holder=field)
        if one is None and is_own and any(node.kind == "map" for node in rows):
            return None
        return lambda found: {
            key: value if one is None else one(value) for key, value in _entries(found).items()
        }
    below = _types_of_items(rows) if field.is_repeated else rows
    change = _one_change(field, below, known, is_own=is_own)
    if field.is_repeated and (change is not None or not is_own):
        return lambda found: [value if change is None else change(value) for value in _items(found)]
    return change


def _one_change(
    field: Any, rows: Types, known: dict[tuple[Any, ...], Change], *, is_own: bool, holder: Any = None
) -> Change | None:
    """What is done with one value of a field; `holder` is the map whose values it is."""
    if field.message_type is None:
        return _plain_change(field, rows, is_own=is_own)
    name = field.message_type.full_name
    if name in _MOMENTS:
        _refuse_other_times(field, rows)
        return _MOMENTS[name]
    if name == "confluent.type.Decimal":
        return _decimal_change(field, holder, rows)
    return _changes(field.message_type, rows, known, is_own=is_own)


def _refuse_other_times(field: Any, rows: Types) -> None:
    """InvalidObject where rows have days for a message of moments, and the like: the numbers would do."""
    wanted = field.message_type.full_name
    for node in rows:
        if node.logical in _TIMES and _TIMES[node.logical] != wanted:
            raise _refused(field, f"{node.logical} of the rows is no {wanted}")


def _decimal_change(field: Any, holder: Any, rows: Types) -> Change:
    """Decimals are in the scale that is registered, if one is, and else in that of the rows.

    Those of rows without a schema are of the scale that is registered. InvalidObject where it cannot be known
    which scale a row's is.
    """
    registered = registered_scale(field, holder)
    scale = int(registered or 0)
    decimals = {node.scale for node in rows if node.logical == "decimal"}
    if not decimals:
        return lambda text: {"value": _octets(text), "scale": scale}
    if len(decimals) > 1 or any(node.kind in _TEXTS and node.logical != "decimal" for node in rows):
        raise _refused(field, "values of the rows may be of several types, a decimal among them")
    (own,) = decimals
    if registered is None or own == scale:
        return lambda text: {"value": _octets(text), "scale": own}
    if abs(scale - own) > _MOST_DIGITS:
        raise _refused(field, f"decimals of the rows have the scale {own}, and the field has {scale}")
    return lambda text: {"value": _rescaled(_octets(text), scale - own), "scale": scale}


def _refused(field: Any, why: str) -> InvalidObject:
    return InvalidObject(
        f"The rows cannot be written by the schema in the registry, in the field {field.full_name}: {why}. "
        "Register a schema that they fit, or set schema.registry.use.latest.version=false.",
        reason="schema_refused",
    )


def _plain_change(field: Any, rows: Types, *, is_own: bool) -> Change | None:
    """For the library 2 is true, true is 1.0, and a float above all of them infinite.

    A decimal's JSON is a text that does not say its scale, and so it is no string.
    """
    checked: dict[int, Change] = {
        field.TYPE_BOOL: _flag,
        field.TYPE_FLOAT: partial(_near, form="<f"),
        field.TYPE_DOUBLE: partial(_near, form="<d"),
    }
    if field.type == field.TYPE_BYTES:
        return _octets
    texts = [node for node in rows if node.kind in _TEXTS]
    if field.type == field.TYPE_STRING and texts and all(node.logical == "decimal" for node in texts):
        return _no_text
    return None if is_own else checked.get(field.type)


def _members(value: Any) -> dict[str, Any]:
    """The members of an object; TypeError for a list, of which a dict might be made as well."""
    if not isinstance(value, dict):
        raise TypeError("the value is no object")
    return value


def _wrapper(value: Any) -> dict[str, Any]:
    """A wrapper of Google's, of the value in it, as a sink archives it, or of its members."""
    if value is None:
        raise TypeError("the value is null")
    return value if isinstance(value, dict) else {"value": value}


def _items(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("the value is no list")
    return value


def _entries(value: Any) -> dict[Any, Any]:
    """The entries of a map, of which rows have an object, or a list of pairs: keys that are no texts.

    TypeError for other lists, of whose members a dict might be made as well: of "ab", or of two names.
    """
    return value if isinstance(value, dict) else dict(map(_pair, _items(value)))


def _pair(entry: Any) -> tuple[Any, Any]:
    if isinstance(entry, dict) and entry.keys() == {"key", "value"}:
        return entry["key"], entry["value"]
    key, value = _items(entry)
    return key, value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("the value is no boolean")
    return value


def _near(value: Any, form: str) -> float:
    """The float or double next to a number; ValueError for an integer that none of them is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("the value is no number")
    # OverflowError where a float would be infinite.
    (found,) = struct.unpack(form, struct.pack(form, float(value)))
    if isinstance(value, int) and found != value:
        raise ValueError("the number would be another one")
    return float(found)


def _no_text(_value: Any) -> Any:
    raise TypeError("the value is a decimal")


def _rescaled(octets: bytes, by: int) -> bytes:
    """An unscaled value in a scale of `by` digits more; ValueError where digits would be lost."""
    unscaled, times = int.from_bytes(octets, "big", signed=True), int(10 ** abs(by))
    if by >= 0:
        unscaled *= times
    else:
        unscaled, lost = divmod(unscaled, times)
        if lost:
            raise ValueError("the decimal has more digits than the field")
    length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    return unscaled.to_bytes(length, "big", signed=True)


def _octets(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _whole(value: Any) -> int:
    """A whole number; TypeError for true, of which a time would be made as well."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError("the value is no whole number")
    return value


def _timestamp(value: Any) -> dict[str, int]:
    ms = _whole(value)
    return {"seconds": ms // 1000, "nanos": ms % 1000 * 1_000_000}


def _time_of_day(value: Any) -> dict[str, int]:
    ms = _whole(value)
    return {
        "hours": ms // 3_600_000,
        "minutes": ms // 60_000 % 60,
        "seconds": ms // 1000 % 60,
        "nanos": ms % 1000 * 1_000_000,
    }


def _date(value: Any) -> dict[str, int]:
    day = dt.date.fromordinal(_EPOCH + _whole(value))
    return {"year": day.year, "month": day.month, "day": day.day}


_MOMENTS: Final[dict[str, Change]] = {
    "google.protobuf.Timestamp": _timestamp,
    "google.type.Date": _date,
    "google.type.TimeOfDay": _time_of_day,
}
# The messages of Avro's logical types, whose JSON is a number.
_TIMES: Final = {
    "date": "google.type.Date",
    **dict.fromkeys(("time-millis", "time-micros"), "google.type.TimeOfDay"),
    **{
        f"{local}timestamp-{fraction}": "google.protobuf.Timestamp"
        for local in ("", "local-")
        for fraction in ("millis", "micros", "nanos")
    },
}
