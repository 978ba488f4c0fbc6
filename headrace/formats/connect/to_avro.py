"""The Avro schema of a Connect schema, as Confluent's AvroData makes it."""

import base64
import json
from typing import Any, Final

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
    Tree,
    avro_text,
    record,
    scrubbed,
    split_name,
)
from headrace.formats.connect.schema import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    ConnectSchema,
    Default,
    InvalidSchema,
    Type,
    decimal_precision,
    decimal_scale,
)
from headrace.options.schema_settings import CONVERTER, AvroOptions

# -- Default values of schemas: in the JSON of Connect, and in the JSON that Avro has for them ---------------


def avro_default(schema: ConnectSchema, default: Default, *, optional_map_keys: bool = False) -> Any:
    """A default as JSON of Avro, in which bytes are text of their Latin-1 characters."""
    try:
        return _to_avro(schema, json.loads(default.text), optional_map_keys=optional_map_keys)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InvalidSchema(f"a default is no value of its {schema.type}") from error


def _to_avro(schema: ConnectSchema, value: Any, *, optional_map_keys: bool) -> Any:
    def below(inner: ConnectSchema, each: Any) -> Any:
        return _to_avro(inner, each, optional_map_keys=optional_map_keys)

    if value is None:
        return None
    match schema.type:
        case Type.ARRAY:
            return [below(schema.item, each) for each in value]
        case Type.MAP:
            key, inner = schema.map_parts
            pairs = list(value.items()) if isinstance(value, dict) else value
            if key.type is Type.STRING and (not key.optional or optional_map_keys):
                return {name: below(inner, each) for name, each in pairs}
            return [[below(key, name), below(inner, each)] for name, each in pairs]
        case Type.STRUCT:
            found = {each.name: below(each.schema, value.get(each.name)) for each in schema.fields}
            return next(iter(found.values()), None) if schema.name == UNION else found
        case _:
            return _scalar_to_avro(schema.type, value)


def _scalar_to_avro(kind: Type, value: Any) -> Any:
    if kind is Type.BYTES:
        return base64.b64decode(value, validate=True).decode("latin-1")
    return float(value) if kind in _FLOATS else value


def connect_default(schema: ConnectSchema, value: Any) -> Default | None:
    """A default of Avro's JSON as one of Connect; None for null and for what is no value of the schema."""
    try:
        found = _to_connect(schema, value)
        text = json.dumps(found, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, KeyError, AttributeError):
        return None  # AvroData logs such a default and goes on without it
    return None if found is None else Default(text)


def _to_connect(schema: ConnectSchema, value: Any) -> Any:
    if value is None:
        return None
    match schema.type:
        case Type.ARRAY:
            return [_to_connect(schema.item, each) for each in _checked(value, list)]
        case Type.MAP:
            key, inner = schema.map_parts
            if isinstance(value, dict):
                return {name: _to_connect(inner, each) for name, each in value.items()}
            return [[_to_connect(key, name), _to_connect(inner, each)] for name, each in value]
        case Type.STRUCT:
            # That of a union is a value of its first member.
            first = schema.fields[:1] if schema.name == UNION else ()
            members = [(each, value) for each in first] or [
                (each, value[each.name]) for each in schema.fields
            ]
            return {each.name: _to_connect(each.schema, inner) for each, inner in members}
        case _:
            return _scalar_to_connect(schema.type, value)


def _scalar_to_connect(kind: Type, value: Any) -> Any:
    if kind is Type.BYTES:
        return base64.b64encode(value.encode("latin-1")).decode()
    if kind in _FLOATS:
        return float(value)
    return _checked(value, _PYTHON.get(kind, int))


def _checked(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value


_FLOATS: Final = frozenset({Type.FLOAT32, Type.FLOAT64})
_PYTHON: Final = {Type.STRING: str, Type.BOOLEAN: bool}


# -- The Avro schema of a Connect schema, as Confluent's AvroData makes it -----------------------------------

_PLAIN: Final = {
    Type.INT8: "int",
    Type.INT16: "int",
    Type.INT32: "int",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "bytes",
}
_SMALL: Final = frozenset({Type.INT8, Type.INT16})
_MOST_BYTES: Final = 2**31 - 1
_LOGICAL: Final = {DATE: "date", TIME: "time-millis", TIMESTAMP: "timestamp-millis"}
_OWN_PROPERTIES: Final = "avro"


def avro_of_schema(schema: ConnectSchema, options: AvroOptions = CONVERTER) -> str:
    """The Avro schema as text, as AvroData and Avro's Java library write it.

    Raises InvalidSchema where Avro cannot hold the schema.
    """
    return avro_text(avro_tree(schema, options))


def avro_tree(schema: ConnectSchema, options: AvroOptions = CONVERTER) -> Tree:
    """The same as a tree (see `avro_text`), to be put into a record of one's own."""
    try:
        return _Writer(options).of(schema)
    except RecursionError:
        raise InvalidSchema("the schema is nested too deep") from None


class _Writer:
    def __init__(self, options: AvroOptions) -> None:
        self._options = options
        self._known: dict[ConnectSchema, Tree] = {}
        self._unnamed = 0
        # Where the field is that is being written.
        self._path: list[str] = []

    def of(self, schema: ConnectSchema, *, bare: bool = False) -> Tree:
        """The tree of a schema; `bare`: without the null that an optional one may be."""
        required = schema.as_optional(optional=False)
        if required.name == UNION and required.type is Type.STRUCT:
            members = [
                self.of(each.schema.as_optional(optional=False), bare=True) for each in required.fields
            ]
            self._check_members(members)
            return ["null", *members] if schema.optional else members
        tree = self._known.get(required)
        if tree is None:
            tree = self._known[required] = self._tree(required)
        if bare or not schema.optional:
            return tree
        # A default is a value of the first member. AvroData puts null first for structs in any case.
        is_first = schema.default is not None and schema.type is not Type.STRUCT
        return [tree, "null"] if is_first else ["null", tree]

    def _check_members(self, members: list[Tree]) -> None:
        """InvalidSchema where Avro takes two types of a union for one, such as text and an enum as text."""
        kinds = [
            f"{each.get('namespace')}.{each['name']}" if "name" in each else str(each["type"])
            for each in members
        ]
        twice = next((kind for kind in kinds if kinds.count(kind) > 1), None)
        if twice is not None:
            where = f"the field {'.'.join(self._path)}" if self._path else "it"
            raise InvalidSchema(
                f"{where} is a union with two types that both are {twice} in the Avro schema of an object; "
                "change one of them, or write output.format=jsonl"
            )

    def _tree(self, schema: ConnectSchema) -> Tree:
        tree = self._body(schema)
        if self._options.meta_data:
            tree |= self._meta_data(schema)
        if schema.name == DECIMAL:
            tree["logicalType"] = "decimal"
        elif schema.name in _LOGICAL:
            tree["logicalType"] = _LOGICAL[schema.name]
        return tree | {name: value for name, value in schema.parameters if name.startswith(_OWN_PROPERTIES)}

    def _body(self, schema: ConnectSchema) -> Tree:
        match schema.type:
            case Type.STRUCT:
                return self._struct(schema)
            case Type.ARRAY:
                return {"type": "array", "items": self.of(schema.item)}
            case Type.MAP:
                return self._map(schema)
            case Type.STRING if self._options.enhanced and schema.parameter(ENUM) is not None:
                return self._enum(schema)
            case Type.BYTES:
                return self._octets(schema)
            case _:
                return {"type": _PLAIN[schema.type]}

    def _struct(self, schema: ConnectSchema) -> Tree:
        space, name = self._names(schema.name)
        fields = [
            self._field(each.name, each.schema, schema.parameter(FIELD_DOC + each.name))
            for each in schema.fields
        ]
        doc = schema.parameter(RECORD_DOC)
        return record(name, space, fields, **({} if doc is None else {"doc": doc}))

    def _field(self, name: str, schema: ConnectSchema, doc: str | None) -> Tree:
        self._path.append(name)
        shown = scrubbed(name) if self._options.scrub_names else name
        field: dict[str, Any] = {"name": shown, "type": self.of(schema)}
        self._path.pop()
        if doc is not None:
            field["doc"] = doc
        if schema.default is None:
            if schema.optional:
                field["default"] = None
        elif not (schema.optional and schema.type is Type.STRUCT):
            # That of an optional struct would be no value of the union's first member, so it is left out.
            field["default"] = self._default(schema)
        return field

    def _default(self, schema: ConnectSchema) -> Any:
        if schema.default is None:
            return None
        return avro_default(schema, schema.default, optional_map_keys=self._options.optional_map_keys)

    def _map(self, schema: ConnectSchema) -> Tree:
        """A map of Avro where keys are strings, else a list of records of key and value."""
        key, value = schema.map_parts
        if schema.has_text_keys and (not key.optional or self._options.optional_map_keys):
            return {"type": "map", "values": self.of(value)}
        space, name = (NAMESPACE, MAP_ENTRY) if schema.name is None else self._names(schema.name)
        mark = {} if schema.name is None else {INTERNAL_TYPE: MAP_ENTRY}
        fields = [self._field("key", key, None), self._field("value", value, None)]
        return {"type": "array", "items": record(name, space, fields, **mark)}

    def _enum(self, schema: ConnectSchema) -> Tree:
        full = schema.parameter(ENUM) or ""
        # AvroData looks for documentation and default under the name of the Connect schema.
        short = DEFAULT_NAME if schema.name is None else schema.name.rpartition(".")[2]
        space, name = split_name(full, scrub=self._options.scrub_names)
        tree: dict[str, Any] = {"type": "enum", "name": name}
        if space is not None:
            tree["namespace"] = space
        prefix = f"{ENUM}."
        tree["symbols"] = [value for each, value in schema.parameters if each.startswith(prefix)]
        for member, start in (("doc", ENUM_DOC), ("default", ENUM_DEFAULT)):
            found = schema.parameter(start + short)
            if found is not None:
                tree[member] = found
        return tree

    def _octets(self, schema: ConnectSchema) -> Tree:
        tree: dict[str, Any] = {"type": "bytes"}
        size = schema.parameter(FIXED_SIZE)
        if size is not None and schema.name is not None and schema.name != DECIMAL:
            space, name = self._names(schema.name)
            tree = {"type": "fixed", "name": name, "size": _size(size)}
            if space is not None:
                tree["namespace"] = space
        if schema.name == DECIMAL:
            precision = decimal_precision(schema)
            tree["scale"] = decimal_scale(schema)
            tree["precision"] = DEFAULT_PRECISION if precision is None else precision
        return tree

    def _names(self, name: str | None) -> tuple[str | None, str]:
        """Namespace and name; what has no name gets one that counts."""
        if name is not None:
            return split_name(name, scrub=self._options.scrub_names)
        self._unnamed += 1
        return NAMESPACE, f"{DEFAULT_NAME}{self._unnamed if self._unnamed > 1 else ''}"

    def _meta_data(self, schema: ConnectSchema) -> dict[str, Any]:
        parameters = {name: value for name, value in schema.parameters if name != FIELD_DEFAULT}
        default = None
        if schema.default is not None and schema.parameter(FIELD_DEFAULT) is None:
            default = self._default(schema)
        found = {
            "connect.doc": schema.doc,
            "connect.version": schema.version,
            "connect.parameters": parameters or None,
            "connect.default": default,
            "connect.name": schema.name,
            "connect.type": str(schema.type) if schema.type in _SMALL else None,
        }
        return {name: value for name, value in found.items() if value is not None}


def _size(text: str) -> int:
    """The bytes of a fixed; InvalidSchema for what is no such number."""
    try:
        size = int(text)
    except ValueError:
        size = -1
    if not 0 <= size <= _MOST_BYTES:
        raise InvalidSchema(f"{FIXED_SIZE} of a schema is no number of bytes")
    return size
