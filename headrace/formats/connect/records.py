"""The records that the vendors' sinks put around keys, values and headers, as schemas."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from headrace.formats.connect.avro_text import Tree, record
from headrace.formats.connect.schema import ConnectSchema, Type, plain, struct

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
    fields = [(name, _unnamed(part)) for name, part in (("key", key), ("value", value)) if part is not None]
    if headers:
        fields.append(("headers", struct(*((name, part.as_optional()) for name, part in headers))))
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
