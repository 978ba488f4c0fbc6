"""Texts exactly as Java's libraries write them: JSON as Jackson does, and Avro schemas with Connect's names.

Numbers are the text of `Double.toString` and `Float.toString` since JDK 19; older JDKs sometimes write more
digits than are needed, of the same number. JsonConverter and Jackson write members in the order of a hash
table; ours keeps the record's order. Whole numbers beyond 64 bits stay as they are, where JsonConverter cuts
them to 64 bits.

A tree is Avro's JSON in which every named type is in full wherever it is used, with its `namespace` (absent
for none); the text has a definition where a name is first, and names after it. Avro allows letters, digits
and underscores in names: what Connect puts there otherwise is what Confluent's AvroData makes of it.
"""

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote_plus

from headrace.formats.connect.schema import ConnectSchema, InvalidSchema, Type, plain, struct
from headrace.model.columns import Column, column_of
from headrace.options.schema_settings import Astral

# Java writes numbers from 0.001 to below 10,000,000 without an exponent.
_PLAIN_FROM: Final = -3
_PLAIN_TO: Final = 7


def java_double(value: float) -> str:
    """The text of a double: `1000.0`, `1.0E10`, `4.9E-324`, `NaN`, `-Infinity`."""
    if not math.isfinite(value):
        return _special(value)
    return _spelled(_of_two_digits(repr(value), value, float))


def java_float(value: float) -> str:
    """The text of a single precision number: `0.1`, `3.4028235E38`, `1.4E-45`."""
    if not math.isfinite(value):
        return _special(value)
    # Settings have the style of JSON, and are read by commands that write none: 0.1 s for each of them.
    import numpy as np

    shortest = np.format_float_scientific(np.float32(value), unique=True, trim="0")
    return _spelled(_of_two_digits(shortest, value, lambda text: float(np.float32(text))))


def _of_two_digits(shortest: str, value: float, read: Callable[[str], float]) -> str:
    """The digits, or the nearest number of two where one would do: Java always writes two (4.9E-324)."""
    if len(shortest.partition("e")[0].strip("-.0")) == 1:
        nearest = f"{value:.1e}"
        if read(nearest) == value:
            return nearest
    return shortest


def _special(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _spelled(text: str) -> str:
    """A number as Python spells it with as many digits as are wanted, as Java would spell it."""
    sign = "-" if text.startswith("-") else ""
    mantissa, _, power = text.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits.strip("0"):
        return f"{sign}0.0"
    # The place of the point, counted from the first digit that is not a zero.
    exponent = len(whole) + int(power or "0") - 1 - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if _PLAIN_FROM <= exponent < _PLAIN_TO:
        if exponent < 0:
            return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
        padded = digits.ljust(exponent + 1, "0")
        return f"{sign}{padded[: exponent + 1]}.{padded[exponent + 1 :] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_NEEDS: Final = re.compile(r'["\\\x00-\x1f]')
_NEEDS_ASTRAL: Final = re.compile(r'["\\\x00-\x1f\U00010000-\U0010ffff]')
_BEYOND_PLANE: Final = 0x10000


def jackson_string(text: str, astral: Astral = Astral.RAW) -> str:
    """A JSON string with its quotes."""
    pattern = _NEEDS if astral is Astral.RAW else _NEEDS_ASTRAL
    return f'"{pattern.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    known = _ESCAPES.get(character)
    if known is not None:
        return known
    code = ord(character)
    if code < _BEYOND_PLANE:
        return f"\\u{code:04X}"
    high, low = divmod(code - _BEYOND_PLANE, 0x400)
    return f"\\u{0xD800 + high:04X}\\u{0xDC00 + low:04X}"


def jackson_double(value: float) -> str:
    """A double; what JSON has no number for is text, as Jackson does by default."""
    return quoted(java_double(value))


def quoted(number: str) -> str:
    """A number in Java's spelling, in quotes where it is not finite."""
    return number if number[-1].isdigit() else f'"{number}"'


def jackson_text(value: Any, astral: Astral = Astral.RAW) -> str:
    """The JSON of Python values: dictionaries with string keys, lists, numbers, strings, None.

    RecursionError where it is nested too deep.
    """
    parts: list[str] = []
    _write(value, parts.append, astral)
    return "".join(parts)


def _write(value: Any, put: Callable[[str], None], astral: Astral) -> None:
    match value:
        case str():
            put(jackson_string(value, astral))
        case float():
            put(jackson_double(value))
        case dict():
            put("{")
            for index, (name, inner) in enumerate(value.items()):
                put(f"{',' if index else ''}{jackson_string(name, astral)}:")
                _write(inner, put, astral)
            put("}")
        case list() | tuple():
            put("[")
            for index, inner in enumerate(value):
                if index:
                    put(",")
                _write(inner, put, astral)
            put("]")
        case _:
            is_literal = value is None or type(value) is bool
            put(_LITERALS[value] if is_literal else str(value))


_LITERALS: Final = {None: "null", True: "true", False: "false"}


# A number that Java writes just so, and what may not follow it.
_NUMBER: Final = (
    rb"(?:-?[1-9]\d{0,6}\.(?:0|\d{0,8}[1-9])|0\.0|-?0\.0{0,2}[1-9](?:\d{0,8}[1-9])?|0|-?[1-9]\d*)(?![\d.eE])"
)
_STRING: Final = rb'"[^"\\%b]*+(?>(?:\\["\\bfnrt][^"\\%b]*+)*)"'
_MARK: Final = rb"[{}\[\],:]"
_WORD: Final = rb"true|false|null"


def _unchanged(besides: bytes) -> re.Pattern[bytes]:
    """What fits whole texts of which nothing changes; strings may not hold the bytes `besides`."""
    return re.compile(rb"(?>(?:%b|%b|%b|%b)*)" % (_STRING % (besides, besides), _MARK, _NUMBER, _WORD))


_UNCHANGED: Final = {Astral.RAW: _unchanged(b""), Astral.ESCAPED: _unchanged(rb"\xf0-\xf4")}


def jackson_json(text: bytes, astral: Astral = Astral.ESCAPED) -> bytes:
    """A JSON text as JsonConverter and Jackson write it again. ValueError where it is not JSON."""
    if _UNCHANGED[astral].fullmatch(text) is not None:
        return text
    return jackson_text(_read(text), astral).encode()


def jackson_column(texts: Column, astral: Astral = Astral.ESCAPED) -> Column:
    """The same for each JSON text of a column; nulls are nulls."""
    values = texts.each(0, len(texts))
    return column_of([None if text is None else jackson_json(text, astral) for text in values])


def _read(text: bytes) -> Any:
    try:
        return json.loads(text, parse_float=_double)
    except json.JSONDecodeError:
        raise
    except ValueError:
        # Python reads no whole number of more than 4,300 digits: for larger ones it would take too long.
        return json.loads(text, parse_float=_double, parse_int=_Digits)


class _Digits:
    """A whole number as its text, which is what is written of it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return "0" if self._text == "-0" else self._text


def _double(text: str) -> float:
    # Jackson reads a BigDecimal, which has no negative zero.
    return float(text) + 0.0


_VALID: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_INVALID: Final = re.compile(r"[^A-Za-z0-9_]")
# What java.net.URLEncoder leaves as it is and Python's quoting does not.
_UNQUOTED: Final = "*"


def is_avro_name(name: str) -> bool:
    """True for a name without points that Avro allows."""
    return _VALID.match(name) is not None


def scrubbed(name: str) -> str:
    """The name with what Avro does not allow replaced, as `scrub.invalid.names` does it."""
    if not name or is_avro_name(name):
        return name
    encoded = quote_plus(name, safe=_UNQUOTED).replace("~", "%7E")
    if encoded[0].isdigit():
        encoded = f"x{encoded}"
    return _INVALID.sub("_", encoded)


def split_name(name: str, *, scrub: bool = False) -> tuple[str | None, str]:
    """Namespace, None where there is none, and name without it."""
    labels = [scrubbed(label) if scrub else label for label in name.split(".")]
    return ".".join(labels[:-1]) or None, labels[-1]


_NAMED: Final = frozenset({"record", "enum", "fixed", "error"})
# What stands before the other properties, in this order, by the type.
_HEADS: Final = {
    "record": ("type", "name", "namespace", "doc", "fields"),
    "error": ("type", "name", "namespace", "doc", "fields"),
    "enum": ("type", "name", "namespace", "doc", "symbols", "default"),
    "fixed": ("type", "name", "namespace", "doc", "size"),
    "array": ("type", "items"),
    "map": ("type", "values"),
}
_FIELD_HEAD: Final = ("name", "type", "doc", "default", "order")
_TAIL: Final = "aliases"

# A type of Avro as JSON.
Tree = Any


def avro_text(tree: Tree) -> str:
    """The text of a schema."""
    return jackson_text(printed(tree))


def printed(tree: Tree) -> Tree:
    """The same schema with names in the place of repeated definitions and no needless namespaces.

    Raises InvalidSchema for a name that Avro does not allow, or that two types have.
    """
    return _Printer().of(tree, None)


class _Printer:
    def __init__(self) -> None:
        self._names: dict[tuple[str | None, str], Tree] = {}

    def of(self, tree: Tree, space: str | None) -> Tree:
        if isinstance(tree, list):
            return [self.of(each, space) for each in tree]
        if isinstance(tree, str):
            return tree
        kind = tree["type"]
        if kind in _NAMED:
            return self._named(tree, space)
        if kind == "array":
            return {"type": kind, "items": self.of(tree["items"], space), **_properties(tree)}
        if kind == "map":
            return {"type": kind, "values": self.of(tree["values"], space), **_properties(tree)}
        properties = _properties(tree)
        return {"type": kind, **properties} if properties else kind

    def _named(self, tree: Tree, space: str | None) -> Tree:
        own = tree.get("namespace")
        full = (own, tree["name"])
        if self._names.get(full) == tree:
            return tree["name"] if own == space else _dotted(own, tree)
        if full in self._names:
            raise InvalidSchema(f"two different types are named {_dotted(own, tree)}, which Avro cannot hold")
        _checked(tree["name"])
        for label in (own or "").split("."):
            _checked(label or "_")
        self._names[full] = tree
        result = {"type": tree["type"], "name": tree["name"]}
        if own != space:
            result["namespace"] = own or ""
        for name in _HEADS[tree["type"]][3:]:
            if name == "fields":
                result["fields"] = [self._field(each, own) for each in tree["fields"]]
            elif tree.get(name) is not None:
                result[name] = tree[name]
        result |= _properties(tree)
        return result

    def _field(self, field: Tree, space: str | None) -> Tree:
        _checked(field["name"])
        result = {"name": field["name"], "type": self.of(field["type"], space)}
        if field.get("doc") is not None:
            result["doc"] = field["doc"]
        if "default" in field:
            result["default"] = field["default"]
        rest = {name: value for name, value in field.items() if name not in {*_FIELD_HEAD, _TAIL}}
        return result | rest


def _dotted(space: str | None, tree: Tree) -> str:
    return str(tree["name"]) if space is None else f"{space}.{tree['name']}"


def _checked(name: str) -> None:
    if not is_avro_name(name):
        raise InvalidSchema(
            f"{name!r} is no name for Avro, which allows letters, digits and underscores only; "
            "rename it, or set scrub.invalid.names=true where the sink has that option"
        )


def _properties(tree: Tree) -> dict[str, Any]:
    head = (*_HEADS.get(tree["type"], ("type",)), _TAIL)
    found = {name: value for name, value in tree.items() if name not in head}
    return found | ({_TAIL: tree[_TAIL]} if tree.get(_TAIL) else {})


def record(name: str, namespace: str | None, fields: list[Tree], **properties: Any) -> Tree:
    """A record of fields."""
    space = {} if namespace is None else {"namespace": namespace}
    return {"type": "record", "name": name, **space, "fields": fields, **properties}


NAMESPACE: Final = "io.confluent.connect.avro"
DEFAULT_NAME: Final = "ConnectDefault"
MAP_ENTRY: Final = "MapEntry"
UNION: Final = f"{NAMESPACE}.Union"
ENUM: Final = f"{NAMESPACE}.Enum"
RECORD_DOC: Final = f"{NAMESPACE}.record.doc"
FIELD_DOC: Final = f"{NAMESPACE}.field.doc."
ENUM_DOC: Final = f"{NAMESPACE}.enum.doc."
ENUM_DEFAULT: Final = f"{NAMESPACE}.enum.default."
# Marks a default that came from the field of an Avro record.
FIELD_DEFAULT: Final = f"{NAMESPACE}.field.default"
FIXED_SIZE: Final = "connect.fixed.size"
INTERNAL_TYPE: Final = "connect.internal.type"
DEFAULT_PRECISION: Final = 64


AIVEN_AVRO: Final = "io.aiven.avro.output.schema"
AIVEN_PARQUET: Final = "io.aiven.parquet.output.schema"

_TEXT: Final = plain(Type.STRING)
_LONG: Final = plain(Type.INT64)

CONFLUENT_HEADERS: Final = struct(
    ("headers", ConnectSchema(type=Type.ARRAY, items=struct(("key", _TEXT), ("value", _TEXT)))),
    name="RecordHeaders",
)
"""Headers next to the values, in Confluent's Parquet and JSON. Avro has the array alone."""

LENSES_METADATA: Final = struct(
    ("timestamp", _LONG), ("topic", _TEXT), ("partition", plain(Type.INT32)), ("offset", _LONG), optional=True
)


def confluent_key(key: ConnectSchema) -> ConnectSchema:
    """Keys next to the values, in Confluent's Parquet."""
    return struct(("key", key), name="RecordKey")


def lenses_envelope(
    key: ConnectSchema | None,
    value: ConnectSchema | None,
    headers: Sequence[tuple[str, ConnectSchema]] = (),
    *,
    has_metadata: bool = True,
) -> ConnectSchema:
    """Lenses' envelope; a part without a schema has no field. `headers` are sorted by name by the caller.

    The structs of key and value lose their names, versions and documentation; those inside of them do not.
    """
    fields = [(name, _unnamed(each)) for name, each in (("key", key), ("value", value)) if each is not None]
    if headers:
        fields.append(("headers", struct(*((name, each.as_optional()) for name, each in headers))))
    if has_metadata:
        fields.append(("metadata", LENSES_METADATA))
    return struct(*fields)


def _unnamed(schema: ConnectSchema) -> ConnectSchema:
    if schema.type is not Type.STRUCT:
        return schema.as_optional()
    return replace(schema, optional=True, name=None, version=None, doc=None, parameters=(), default=None)


def aiven_record(fields: Sequence[tuple[str, Tree]], namespace: str = AIVEN_AVRO) -> Tree:
    """Aiven's envelope of Avro and Parquet around the trees of its fields, none of which has a default."""
    return record("connector_records", namespace, [{"name": name, "type": tree} for name, tree in fields])
