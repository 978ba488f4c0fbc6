"""The Connect schema of values that were written with an Avro schema, as AvroConverter makes it."""

import json
from dataclasses import replace
from typing import Any, Final

from headrace.formats.avro_schema import FIELDS_MAX, TOO_MANY_FIELDS
from headrace.formats.connect.java_text import (
    DEFAULT_NAME,
    DEFAULT_PRECISION,
    ENUM,
    ENUM_DEFAULT,
    ENUM_DOC,
    FIELD_DEFAULT,
    FIELD_DOC,
    FIXED_SIZE,
    INTERNAL_TYPE,
    MAP_ENTRY,
    NAMESPACE,
    RECORD_DOC,
    UNION,
)
from headrace.formats.connect.schema import (
    DATE,
    DECIMAL,
    PRECISION,
    SCALE,
    TIME,
    TIMESTAMP,
    ConnectField,
    ConnectSchema,
    InvalidSchema,
    Type,
)
from headrace.formats.connect.to_avro import connect_default
from headrace.options.schema_settings import CONVERTER, AvroOptions

_ANYTHING: Final = f"{NAMESPACE}.Anything"
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
_PLAIN: Final = {
    "boolean": Type.BOOLEAN,
    "int": Type.INT32,
    "long": Type.INT64,
    "float": Type.FLOAT32,
    "double": Type.FLOAT64,
    "string": Type.STRING,
    "bytes": Type.BYTES,
    "fixed": Type.BYTES,
}
# Whole numbers of Avro that mean something else, by type and logical type.
_LOGICAL: Final = {
    ("int", "date"): (Type.INT32, DATE),
    ("int", "time-millis"): (Type.INT32, TIME),
    ("long", "timestamp-millis"): (Type.INT64, TIMESTAMP),
}
NUMBERS: Final = frozenset(
    {"time-micros", "timestamp-micros", "timestamp-nanos", "local-timestamp-micros", "local-timestamp-nanos"}
)
"""Times that Connect has no type for: values are the numbers that Avro has, in their own fractions."""
_SMALL: Final = {"int8": Type.INT8, "int16": Type.INT16}
_OWN_PROPERTIES: Final = "avro"
_OPTIONAL_MEMBERS: Final = 2
_UUID_BYTES: Final = 16
_MOST_DIGITS: Final = 76


def schema_of_avro(
    text: str, version: int | None = None, options: AvroOptions = CONVERTER
) -> ConnectSchema | None:
    """The schema of values of an Avro schema; None for Connect's own record of values without a schema.

    `version` is that of the registry's subject, which the schema has unless it says another. Raises
    InvalidSchema for what Connect has no schema for: a bare null, or a type that refers to itself.
    """
    try:
        return _Reader(options).top(json.loads(text), version)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, InvalidSchema):
            raise
        raise InvalidSchema("the Avro schema cannot be read") from error


class _Reader:
    def __init__(self, options: AvroOptions) -> None:
        self._options = options
        # Named types by their full names, with the namespace that their members are in.
        self._named: dict[str, tuple[Any, str]] = {}
        self._open: list[str] = []
        self._fields = 0

    def top(self, shape: Any, version: int | None) -> ConnectSchema | None:
        if isinstance(shape, dict) and shape.get("type") == "record" and _full_name(shape, "") == _ANYTHING:
            return None
        found = self._of(shape, "", None)
        return found if version is None or found.version is not None else replace(found, version=version)

    def _of(self, shape: Any, space: str, default: Any) -> ConnectSchema:
        """The schema of a type; `default` is that of the field it is of, in a list, or None."""
        self._fields += not isinstance(shape, list)
        if self._fields > FIELDS_MAX:
            raise InvalidSchema(TOO_MANY_FIELDS)
        if isinstance(shape, list):
            return self._union(shape, space, default)
        if isinstance(shape, str):
            if shape in _PLAIN:
                return self._finished({"type": shape}, ConnectSchema(type=_PLAIN[shape]), "", default)
            return self._reference(shape, space, default)
        kind = shape["type"]
        if not isinstance(kind, str) or not (kind in _PLAIN or kind in {*_NAMED, "array", "map", "null"}):
            return self._of(kind, space, default)
        full = ""
        if kind in _NAMED:
            full = _full_name(shape, space)
            self._named[full] = (shape, full.rpartition(".")[0])
        return self._defined(shape, kind, full, space, default)

    def _reference(self, name: str, space: str, default: Any) -> ConnectSchema:
        known = self._known(name, space)
        if known is None:
            if name == "null":
                raise InvalidSchema("Kafka Connect has no schema of nothing but nulls")
            raise InvalidSchema(f"the Avro schema names a type that it does not define: {name}")
        shape, inner = known
        full = _full_name(shape, inner)
        return self._defined(shape, shape["type"], full, inner, default)

    def _known(self, name: str, space: str) -> tuple[Any, str] | None:
        """The type of that name that was defined before, and the namespace that its members are in."""
        full = name if "." in name or not space else f"{space}.{name}"
        return self._named.get(full) or self._named.get(name)

    def _defined(self, shape: Any, kind: str, full: str, space: str, default: Any) -> ConnectSchema:
        if full and full in self._open:
            raise InvalidSchema(
                f"the Avro type {full} refers to itself, which Kafka Connect has no schema for"
            )
        self._open.append(full)
        try:
            schema = self._body(shape, kind, full, space)
        finally:
            self._open.pop()
        return self._finished(shape, schema, full, default)

    def _body(self, shape: Any, kind: str, full: str, space: str) -> ConnectSchema:
        match kind:
            case "record" | "error":
                return self._record(shape, full.rpartition(".")[0])
            case "enum":
                return self._enum(shape, full)
            case "array":
                return self._array(shape, space)
            case "map":
                key = ConnectSchema(type=Type.STRING)
                return ConnectSchema(type=Type.MAP, key=key, value=self._of(shape["values"], space, None))
            case "null":
                raise InvalidSchema("Kafka Connect has no schema of nothing but nulls")
            case "fixed" if self._options.text_uuids and _is_uuid(shape):
                return ConnectSchema(type=Type.STRING)
            case _:
                return _scalar(shape, kind)

    def _record(self, shape: Any, space: str) -> ConnectSchema:
        keeps = self._options.meta_data
        parameters: list[tuple[str, str]] = []
        if keeps and shape.get("doc") is not None:
            parameters.append((RECORD_DOC, shape["doc"]))
        fields = []
        for field in shape["fields"]:
            if keeps and field.get("doc") is not None:
                parameters.append((FIELD_DOC + field["name"], field["doc"]))
            default = [field["default"]] if "default" in field else None
            fields.append(ConnectField(field["name"], self._of(field["type"], space, default)))
        return ConnectSchema(type=Type.STRUCT, fields=tuple(fields), parameters=tuple(parameters))

    def _enum(self, shape: Any, full: str) -> ConnectSchema:
        parameters: list[tuple[str, str]] = []
        if self._options.meta_data:
            for prefix, member in ((ENUM_DOC, "doc"), (ENUM_DEFAULT, "default")):
                if shape.get(member) is not None:
                    parameters.append((prefix + full.rpartition(".")[2], shape[member]))
        parameters.append((ENUM, full))
        parameters += [(f"{ENUM}.{symbol}", symbol) for symbol in shape["symbols"]]
        return ConnectSchema(type=Type.STRING, parameters=tuple(parameters))

    def _array(self, shape: Any, space: str) -> ConnectSchema:
        """An array, or a map whose keys are no strings, which is there as a list of entries."""
        item = shape["items"]
        known = self._known(item, space) if isinstance(item, str) else None
        if known is not None:
            item, space = known
        if isinstance(item, dict) and item.get("type") == "record":
            full = _full_name(item, space)
            if full == f"{NAMESPACE}.{MAP_ENTRY}" or item.get(INTERNAL_TYPE) == MAP_ENTRY:
                self._named[full] = (item, full.rpartition(".")[0])
                parts = self._record(item, full.rpartition(".")[0])
                key, value = parts.field("key"), parts.field("value")
                if key is None or value is None:
                    raise InvalidSchema("an entry of a map has no key, or no value")
                return ConnectSchema(type=Type.MAP, key=key, value=value)
        return ConnectSchema(type=Type.ARRAY, items=self._of(item, space, None))

    def _union(self, members: list[Any], space: str, default: Any) -> ConnectSchema:
        filled = [each for each in members if not _is_null(each)]
        if len(members) == _OPTIONAL_MEMBERS and len(filled) == 1:
            # The default of such a field is dropped, as AvroData does.
            return self._of(filled[0], space, None).as_optional()
        fields = []
        for each in filled:
            schema = self._of(each, space, None).as_optional()
            fields.append(ConnectField(self._member_name(each, space), schema))
        if len({each.name for each in fields}) < len(fields):
            raise InvalidSchema("two members of a union have one name in Kafka Connect")
        optional = len(filled) < len(members)
        union = ConnectSchema(type=Type.STRUCT, name=UNION, optional=optional, fields=tuple(fields))
        return self._finished({}, union, "", default)

    def _member_name(self, shape: Any, space: str) -> str:
        if isinstance(shape, dict):
            kind = shape["type"]
            if kind not in _NAMED:
                return kind if isinstance(kind, str) else self._member_name(kind, space)
            full = _full_name(shape, space)
        elif shape in _PLAIN:
            return str(shape)
        else:
            known = f"{space}.{shape}"
            full = known if known in self._named else str(shape)
        return full if self._options.enhanced else full.rpartition(".")[2]

    def _finished(self, shape: Any, schema: ConnectSchema, full: str, default: Any) -> ConnectSchema:
        """The schema with what properties of the Avro type say of it."""
        keeps = self._options.meta_data
        parameters = dict(schema.parameters)
        if keeps:
            parameters |= shape.get("connect.parameters") or {}
        for name, value in shape.items():
            if name.startswith(_OWN_PROPERTIES):
                parameters[name] = value if isinstance(value, str) else json.dumps(value)
        own = shape.get("connect.default")
        if default is not None and default[0] is not None and own is None and keeps:
            parameters[FIELD_DEFAULT] = "true"
        found = default[0] if default is not None else own
        name = shape.get("connect.name", full or None)
        if name is None or name.startswith(f"{NAMESPACE}.{DEFAULT_NAME}") or schema.name is not None:
            name = schema.name
        if name == DECIMAL != schema.name:
            # A name alone, of bytes that no reader of Avro takes for decimals.
            name, parameters = None, dict(schema.parameters)
        version = shape.get("connect.version")
        return replace(
            schema,
            name=name,
            version=schema.version if version is None else int(version),
            doc=shape.get("connect.doc") if keeps else None,
            parameters=tuple(parameters.items()),
            default=connect_default(schema, found),
        )


def _scalar(shape: Any, kind: str) -> ConnectSchema:
    logical = str(shape.get("logicalType", "")).lower()
    if _PLAIN[kind] is Type.BYTES:
        return _octets(shape, kind, logical)
    known = _LOGICAL.get((kind, logical))
    if known is not None:
        return ConnectSchema(type=known[0], name=known[1], version=1)
    small = shape.get("connect.type")
    if kind == "int" and small is not None and not logical:
        if small not in _SMALL:
            raise InvalidSchema("the connect.type of an Avro int is neither int8 nor int16")
        return ConnectSchema(type=_SMALL[small])
    return ConnectSchema(type=_PLAIN[kind])


def _octets(shape: Any, kind: str, logical: str) -> ConnectSchema:
    size = ((FIXED_SIZE, str(shape["size"])),) if kind == "fixed" else ()
    if logical != "decimal" or not _is_decimal(shape):
        return ConnectSchema(type=Type.BYTES, parameters=size)
    parameters = [(SCALE, str(shape.get("scale", 0)))]
    precision = shape.get("precision")
    if precision != DEFAULT_PRECISION:
        parameters.append((PRECISION, str(precision)))
    return ConnectSchema(type=Type.BYTES, name=DECIMAL, version=1, parameters=(*parameters, *size))


def _is_decimal(shape: Any) -> bool:
    """True where values are read as decimals: Avro has no other ones, and Arrow has none of more digits."""
    digits, scale = shape.get("precision"), shape.get("scale", 0)
    are_numbers = type(digits) is int and type(scale) is int and shape["logicalType"] == "decimal"
    return are_numbers and 0 <= scale <= digits and 0 < digits <= _MOST_DIGITS


def _is_uuid(shape: Any) -> bool:
    """True for a fixed that holds a UUID."""
    return bool(shape.get("logicalType") == "uuid" and shape.get("size") == _UUID_BYTES)


def _is_null(shape: Any) -> bool:
    return shape == "null" or (isinstance(shape, dict) and shape.get("type") == "null")


def _full_name(shape: Any, space: str) -> str:
    name = str(shape["name"])
    if "." in name:
        return name
    own = shape.get("namespace", space)
    return f"{own}.{name}" if own else name
