"""Schemas of Kafka Connect as the JSON in which JsonConverter sends them with each value."""

import json
from typing import Any

from headrace.formats.connect.schema import ConnectSchema, Type


def json_of_schema(schema: ConnectSchema) -> dict[str, Any]:
    """The JSON of a schema as JsonConverter writes it, member by member in its order."""
    shape: dict[str, Any] = {"type": str(schema.type)}
    match schema.type:
        case Type.ARRAY:
            shape["items"] = json_of_schema(schema.item)
        case Type.MAP:
            key, value = schema.map_parts
            shape |= {"keys": json_of_schema(key), "values": json_of_schema(value)}
        case Type.STRUCT:
            shape["fields"] = [json_of_schema(each.schema) | {"field": each.name} for each in schema.fields]
        case _:
            pass
    shape["optional"] = schema.optional
    for name, found in (("name", schema.name), ("version", schema.version), ("doc", schema.doc)):
        if found is not None:
            shape[name] = found
    if schema.parameters:
        shape["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        shape["default"] = json.loads(schema.default.text)
    return shape
