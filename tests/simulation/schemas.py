"""A schema registry as its client shows it, and values that name a schema of its."""

import io
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import fastavro
from confluent_kafka.schema_registry import RegisteredSchema, Schema, SchemaReference
from confluent_kafka.schema_registry.error import SchemaRegistryError
from fastavro.schema import SchemaParseException

from tests.simulation.kernel import Kernel

AVRO: Final = "io.confluent.connect.avro.AvroConverter"
JSON_SCHEMA: Final = "io.confluent.connect.json.JsonSchemaConverter"
PROTOBUF: Final = "io.confluent.connect.protobuf.ProtobufConverter"
_T = TypeVar("_T")
_ANSWER_SECONDS: Final = 0.005


def _avro(kind: str) -> dict[str, Any]:
    fields = [{"name": "n", "type": "long"}, {"name": "a", "type": ["null", kind]}]
    return {"type": "record", "name": "row", "fields": fields}


def _json_schema(kind: str) -> str:
    members = {"n": {"type": "integer"}, "a": {"type": kind}}
    return json.dumps({"type": "object", "title": "row", "properties": members})


def _protobuf(kind: str) -> str:
    return f'syntax = "proto3"; message row {{ int64 n = 1; {kind} a = 2; }}'


_SCHEMAS: Final[Mapping[int, tuple[str, str]]] = {
    1: (json.dumps(_avro("long")), "AVRO"),
    2: (json.dumps(_avro("string")), "AVRO"),
    3: (_json_schema("integer"), "JSON"),
    4: (_json_schema("string"), "JSON"),
    5: (_protobuf("int64"), "PROTOBUF"),
    6: (_protobuf("string"), "PROTOBUF"),
}
_UNKNOWN: Final = 99
_FIRST: Final = {AVRO: 1, JSON_SCHEMA: 3, PROTOBUF: 5}
_OF_NULLS: Final = {
    "oneOf": [
        {"type": "null"},
        {"type": "object", "properties": {"n": {"type": "integer"}, "a": {"type": "string"}}},
    ]
}
_APART: Final = 1001
_OF_ROWS: Final = json.loads(_json_schema("string"))
_MORE: Final[Mapping[int, tuple[str, str]]] = {
    _APART: (json.dumps({**_avro("string"), "name": "names.Other"}), "AVRO"),
    1002: (json.dumps(["null", {**_avro("string"), "name": "Maybe"}]), "AVRO"),
    1003: (json.dumps({**json.loads(_json_schema("string")), "title": "Other"}), "JSON"),
    1004: (json.dumps({**_OF_NULLS, "title": "Maybe"}), "JSON"),
    1005: (_protobuf("string").replace("row", "Other"), "PROTOBUF"),
    1006: (json.dumps("long"), "AVRO"),
    1007: (json.dumps({name: one for name, one in _OF_ROWS.items() if name != "title"}), "JSON"),
    1008: (json.dumps("string"), "AVRO"),
    1009: (json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}}), "JSON"),
}
"""Of other names and of none, and of values that may be null; ids of what is registered later do not depend
on them."""
_NAMELESS: Final = {AVRO: (1006, 1008), JSON_SCHEMA: (1007, 1009)}
_NAMED: Final = {AVRO: (1, 2, 1001, 1002), JSON_SCHEMA: (3, 4, 1003, 1004), PROTOBUF: (5, 6, 1005)}
_MAY_BE_NULL: Final = frozenset({1002, 1004})
_ALL: Final = {**_SCHEMAS, **_MORE}


class Registry:
    """What all processes see."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.down_until = 0.0
        self.status = 0
        """What it answers instead of schemas; 0: it does not answer at all while it is down."""
        self.forbidden: set[str] = set()
        """Subjects that clients may not use."""
        self.schemas = {id_: Schema(text, kind) for id_, (text, kind) in _ALL.items()}
        self.subjects: dict[str, list[int]] = {}
        """By subject, the ids of its versions, the first of which is 1."""


class SimulatedRegistry:
    """`confluent_kafka.schema_registry.SchemaRegistryClient`, as far as the product calls it."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._known: dict[int, Schema] = {}

    def get_schema(self, id_: int) -> Schema:
        """See the client: what it knows it asks for no more."""
        if id_ not in self._known:
            self._ask()
            self._known[id_] = _of(self._registry.schemas.get(id_), 40403)
        return self._known[id_]

    def register_schema(self, subject: str, schema: Schema) -> int:
        """See the client. What the newest schema of the subject cannot be read as is refused."""
        self._ask(subject)
        registry, versions = self._registry, self._registry.subjects.get(subject, [])
        if schema in (registry.schemas[id_] for id_ in versions):
            return next(id_ for id_ in versions if registry.schemas[id_] == schema)
        if schema.schema_type == "AVRO":
            fields = self._fields(schema)
            known = self._fields(registry.schemas[versions[-1]]) if versions else fields
            if any(name not in known and not has_default for name, has_default in fields.items()):
                raise SchemaRegistryError(409, 409, "Incompatible schema")
        found = next((id_ for id_, one in registry.schemas.items() if one == schema), None)
        newest = max((one for one in registry.schemas if one < _APART), default=0)
        id_ = newest + 1 if found is None else found
        registry.schemas[id_] = schema
        registry.subjects[subject] = [*versions, id_]
        return id_

    def lookup_schema(self, subject: str, schema: Schema) -> RegisteredSchema:
        """See the client."""
        self._ask(subject)
        versions = _of(self._registry.subjects.get(subject), 40401)
        for number, id_ in enumerate(versions, 1):
            if self._registry.schemas[id_] == schema:
                return _registered(subject, number, id_, schema)
        raise _refusal(40403)

    def get_latest_version(self, subject: str) -> RegisteredSchema:
        """See the client."""
        self._ask(subject)
        versions = _of(self._registry.subjects.get(subject), 40401)
        return _registered(subject, len(versions), versions[-1], self._registry.schemas[versions[-1]])

    def get_version(self, subject: str, version: int, *, deleted: bool = False) -> RegisteredSchema:  # noqa: ARG002
        """See the client: no subject is deleted here."""
        self._ask()
        versions = _of(self._registry.subjects.get(subject), 40401)
        id_ = _of(dict(enumerate(versions, 1)).get(version), 40402)
        return _registered(subject, version, id_, self._registry.schemas[id_])

    def clear_caches(self) -> None:
        """See the client."""
        self._known.clear()

    def _ask(self, subject: str | None = None) -> None:
        """One request."""
        registry, kernel = self._registry, self._registry.kernel
        kernel.sleep(_ANSWER_SECONDS)
        if registry.down_until > kernel.now:
            if not registry.status:
                kernel.sleep(2.0)
                raise ConnectionRefusedError
            raise SchemaRegistryError(registry.status, registry.status * 100 + 1, "simulated")
        if subject in registry.forbidden:
            raise SchemaRegistryError(403, 40301, "simulated")

    def _referred(self, reference: SchemaReference) -> Schema:
        assert reference.subject is not None, "a reference has both"
        assert reference.version is not None, "as above"
        versions = self._registry.subjects[reference.subject]
        return self._registry.schemas[versions[reference.version - 1]]

    def _fields(self, schema: Schema) -> dict[str, bool]:
        """The fields of a record (else none), and which has a default; a refusal of what is no schema."""
        named: dict[str, Any] = {}
        try:
            for one in schema.references or ():
                inner = self._referred(one)
                fastavro.parse_schema(json.loads(inner.schema_str or ""), named_schemas=named)
            shape: Any = json.loads(schema.schema_str or "")
            fastavro.parse_schema(shape, named_schemas=named)
        except (ValueError, LookupError, SchemaParseException):
            raise SchemaRegistryError(422, 42201, "Invalid schema") from None
        fields = shape["fields"] if isinstance(shape, dict) else ()
        return {field["name"]: "default" in field for field in fields}


def _registered(subject: str, version: int, id_: int, schema: Schema) -> RegisteredSchema:
    return RegisteredSchema(guid=None, subject=subject, version=version, schema_id=id_, schema=schema)


def _refusal(code: int) -> SchemaRegistryError:
    """What a registry says of what it does not have."""
    return SchemaRegistryError(code // 100, code, "simulated")


def _of(found: _T | None, code: int) -> _T:
    """What was found, or that refusal."""
    if found is None:
        raise _refusal(code)
    return found


# -- values --------------------------------------------------------------------------------------------------


def framed(converter: str, number: int, member: int | str, *, is_unknown: bool = False) -> bytes:
    """A value of a row in the framing of a converter."""
    id_ = _FIRST[converter] + isinstance(member, str)
    head = b"\0" + (_UNKNOWN if is_unknown else id_).to_bytes(4, "big")
    return head + _BODIES[converter](id_, number, member)


def schemas_of(converter: str, *, with_nulls: bool) -> tuple[int, ...]:
    """The ids of the schemas that a converter reads; those whose values may be null only `with_nulls`."""
    return tuple(id_ for id_ in _NAMED[converter] if with_nulls or id_ not in _MAY_BE_NULL)


def nameless_of(converter: str) -> tuple[int, ...]:
    """The ids of schemas without a name, which Protobuf has not."""
    return _NAMELESS[converter]


def framed_by(converter: str, id_: int, number: int, *, is_null: bool = False) -> bytes:
    """A value of a row of this schema; a null where that `is_null` and the schema has nulls."""
    head = b"\0" + id_.to_bytes(4, "big")
    if is_null and id_ in _MAY_BE_NULL:
        return head + (b"\0" if converter == AVRO else b"null")
    return head + _BODIES[converter](id_, number, number if id_ == _FIRST[converter] else "text")


def schema_of(value: bytes) -> int:
    """The id of the schema that a value names."""
    return int.from_bytes(value[1:5], "big")


def meaning_of_framed(converter: str, value: bytes) -> dict[str, Any] | int | str | None:
    """The row, number or text of such a value, None of a null; ValueError for what is none."""
    id_, body = int.from_bytes(value[1:5], "big"), value[5:]
    if id_ not in _ALL or value[0]:
        raise ValueError("no schema")
    if converter == PROTOBUF:
        return _protobuf_meaning(id_, body)
    if converter == AVRO:
        schema = json.loads(_ALL[id_][0])
        found: Any = fastavro.schemaless_reader(io.BytesIO(body), schema, None)
    else:
        found = json.loads(body)
    return found if found is None or isinstance(found, int | str) else dict(found)


def _protobuf_meaning(id_: int, body: bytes) -> dict[str, Any]:
    # An index, the number, and a text or a number.
    assert body[:2] == b"\0\x08", "only rows of this module"
    number, place = _read_varint(body, 2)
    member, place = _read_varint(body, place + 1)
    return {"n": number, "a": member if id_ == _FIRST[PROTOBUF] else body[place : place + member].decode()}


def _avro_body(id_: int, number: int, member: int | str) -> bytes:
    out = io.BytesIO()
    bare = dict(zip(_NAMELESS[AVRO], (number, str(number)), strict=True))
    row: Any = bare.get(id_, {"n": number, "a": member})
    fastavro.schemaless_writer(out, json.loads(_ALL[id_][0]), row)
    return out.getvalue()


def _json_body(_id: int, number: int, member: int | str) -> bytes:
    return json.dumps(
        {"n": number} if _id == _NAMELESS[JSON_SCHEMA][1] else {"n": number, "a": member}
    ).encode()


def _protobuf_body(_id: int, number: int, member: int | str) -> bytes:
    begin = b"\0\x08" + _varint(number)
    if isinstance(member, int):
        return begin + b"\x10" + _varint(member)
    return begin + b"\x12" + _varint(len(member.encode())) + member.encode()


_BODIES: Final[Mapping[str, Callable[[int, int, int | str], bytes]]] = {
    AVRO: _avro_body,
    JSON_SCHEMA: _json_body,
    PROTOBUF: _protobuf_body,
}


def _varint(number: int) -> bytes:
    found = b""
    while number > 0x7F:  # seven bits a byte
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def _read_varint(body: bytes, place: int) -> tuple[int, int]:
    found = shift = 0
    while True:
        byte = body[place]
        found |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:  # the last byte has no mark
            return found, place
