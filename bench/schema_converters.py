"""CPU of reading values by a registry's schema: Avro, JSON Schema and Protobuf of the same records.

Usage: .venv/bin/python -m bench.schema_converters
"""

import json
import time
from typing import Any

from headrace.aws.glue import glue_versions
from headrace.formats.converters.choice import (
    SchemaUse,
    avro_converter,
    json_schema_converter,
    protobuf_converter,
)
from headrace.formats.converters.typed_columns import RowFaults
from headrace.formats.records.protobuf_schemas import ProtobufSchema
from headrace.model.columns import column_of
from headrace.options.choices import JsonFormat
from tests.headrace.formats.encoding.registry import framed, framed_as, registry

_RECORDS = 4096
_ROUNDS = 9
_AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "paid", "type": "boolean"},
        {"name": "total", "type": "double"},
        {"name": "currency", "type": "string"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {
            "name": "address",
            "type": {
                "type": "record",
                "name": "Address",
                "fields": [{"name": "street", "type": "string"}, {"name": "zip", "type": "int"}],
            },
        },
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "attributes", "type": {"type": "map", "values": "string"}},
        {"name": "quantity", "type": "int"},
    ],
}
_TEXT = {"type": "string"}
_JSON = {
    "type": "object",
    "title": "Order",
    "required": ["id", "customer", "paid", "total", "currency", "address", "tags", "attributes", "quantity"],
    "properties": {
        "id": {"type": "integer"},
        "customer": _TEXT,
        "paid": {"type": "boolean"},
        "total": {"type": "number"},
        "currency": _TEXT,
        "note": {"oneOf": [{"type": "null"}, _TEXT]},
        "address": {
            "type": "object",
            "required": ["street", "zip"],
            "properties": {"street": _TEXT, "zip": {"type": "integer", "connect.type": "int32"}},
        },
        "tags": {"type": "array", "items": _TEXT},
        "attributes": {"type": "object", "connect.type": "map", "additionalProperties": _TEXT},
        "quantity": {"type": "integer", "connect.type": "int32"},
    },
}
_PROTOBUF = """syntax = "proto3";
message Order {
  int64 id = 1; string customer = 2; bool paid = 3; double total = 4; string currency = 5;
  optional string note = 6; Address address = 7; repeated string tags = 8;
  map<string, string> attributes = 9; int32 quantity = 10;
  message Address { string street = 1; int32 zip = 2; }
}"""


def _row(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "customer": f"customer {number}",
        "paid": number % 2 == 0,
        "total": number * 1.25,
        "currency": "EUR",
        "note": None if number % 3 else "a note",
        "address": {"street": f"Street {number}", "zip": number % 99999},
        "tags": ["a", "b"],
        "attributes": {"k": f"v{number}"},
        "quantity": number % 7,
    }


def main() -> None:
    """Print microseconds of CPU a record."""
    from google.protobuf import message_factory

    one = registry()
    rows = [_row(number) for number in range(_RECORDS)]
    made: Any = message_factory.GetMessageClass(ProtobufSchema(_PROTOBUF, {}).message((0,)))
    messages = [made(**row).SerializeToString() for row in rows]
    kinds = {
        "avro": (avro_converter, [framed(one, _AVRO, row) for row in rows]),
        "json schema": (
            json_schema_converter,
            [framed_as(one, "JSON", json.dumps(_JSON), json.dumps(row).encode(), "j-value") for row in rows],
        ),
        "protobuf": (
            protobuf_converter,
            [framed_as(one, "PROTOBUF", _PROTOBUF, b"\x00" + each, "p-value") for each in messages],
        ),
    }
    for use in (SchemaUse.COLUMNS, SchemaUse.TEXTS):
        for kind, (make, values) in kinds.items():
            converter: Any = make(one, "value", JsonFormat.ISO, use, glue_versions)
            column, best = column_of(values), float("inf")
            for _ in range(_ROUNDS):
                faults, begun = RowFaults(), time.process_time()
                for segment in converter.convert(column, "orders", faults):
                    if use is SchemaUse.TEXTS:
                        segment.column.texts()
                best = min(best, time.process_time() - begun)
                assert not faults.found, next(iter(faults.found.values()))
            print(f"{use.name:8} {kind:12} {best / _RECORDS * 1e6:.2f} us")


if __name__ == "__main__":
    main()
