"""A conversation with a schema registry through its client, as the product calls it: the answers.

`python -m tests.simulation.registry_conversation URL` holds it with a registry that runs, and prints what
`registry_conversation.json` keeps. Ids are numbered as they come up.
"""

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final
from uuid import uuid4

from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

_NO_ID: Final = 2_000_000_000
_JSON: Final = '{"type":"object","title":"row","properties":{"n":{"type":"integer"}}}'
_PROTOBUF: Final = 'syntax = "proto3";\nmessage row {\n  int64 n = 1;\n}\n'
_INNER: Final = '{"type":"record","name":"inner","fields":[{"name":"n","type":"long"}]}'
_OUTER: Final = '{"type":"record","name":"outer","fields":[{"name":"inner","type":"inner"}]}'


def _avro(*fields: tuple[str, Any]) -> str:
    """A record with these fields; one of None has no default, as what it says of others."""
    found = [
        {"name": name, "type": "long"} | ({} if default is None else {"default": default})
        for name, default in fields
    ]
    return json.dumps({"type": "record", "name": "row", "fields": found}, separators=(",", ":"))


def talk_registry(client: Any, subject: str) -> Iterator[Any]:
    """Registering, looking up, types, references, and what is refused; `subject` begins all names."""
    ids: dict[int, str] = {}

    def numbered(id_: int) -> str:
        return ids.setdefault(id_, f"id {len(ids) + 1}")

    def ask(call: Callable[[], Any]) -> Any:
        # What it remembers is no answer of the registry.
        client.clear_caches()
        try:
            return call()
        except SchemaRegistryError as error:
            return ["refused", error.http_status_code, error.error_code]

    def register(name: str, schema: Schema) -> Any:
        found = ask(lambda: client.register_schema(f"{subject}-{name}", schema))
        return numbered(found) if isinstance(found, int) else found

    def version(name: str, number: int | None) -> Any:
        full = f"{subject}-{name}"
        found = ask(
            lambda: client.get_latest_version(full) if number is None else client.get_version(full, number)
        )
        if isinstance(found, list):
            return found
        return [found.version, numbered(found.schema_id), found.schema.schema_str]

    def schema_of(id_: int) -> Any:
        found = ask(lambda: client.get_schema(id_))
        if isinstance(found, list):
            return found
        names = [[one.name, one.version] for one in found.references or ()]
        return [found.schema_type, found.schema_str, names]

    first, second = Schema(_avro(("n", None)), "AVRO"), Schema(_avro(("n", None), ("m", 0)), "AVRO")
    yield "no subject", version("value", None)
    yield "register", register("value", first)
    yield "again", register("value", first)
    found = ask(lambda: client.lookup_schema(f"{subject}-value", first))
    yield "look up", [numbered(found.schema_id), found.version]
    yield "look up another", ask(lambda: client.lookup_schema(f"{subject}-value", second))
    yield "look up elsewhere", ask(lambda: client.lookup_schema(f"{subject}-none", first))
    yield "a compatible one", register("value", second)
    yield "latest", version("value", None)
    yield "the first", version("value", 1)
    yield "none such", version("value", 9)
    yield "an incompatible one", register("value", Schema(_avro(("other", None)), "AVRO"))
    yield "latest after it", version("value", None)
    yield "no schema", register("value", Schema('{"type":"nothing"}', "AVRO"))
    yield "another subject", register("other", first)
    yield "types", [register("json", Schema(_JSON, "JSON")), register("proto", Schema(_PROTOBUF, "PROTOBUF"))]
    register("inner", Schema(_INNER, "AVRO"))
    reference = SchemaReference("inner", f"{subject}-inner", 1)
    yield "a reference", register("outer", Schema(_OUTER, "AVRO", [reference]))
    yield "a reference to nothing", register("lost", Schema(_OUTER, "AVRO"))
    yield "all", [schema_of(id_) for id_ in list(ids)]
    yield "no id", schema_of(_NO_ID)


def plain(said: Iterator[Any]) -> Any:
    """As it comes out of JSON."""
    return json.loads(json.dumps(list(said)))


def talk_with(url: str) -> Any:
    """The conversation with a registry at an address, which refuses what is not backward compatible."""
    with SchemaRegistryClient({"url": url}) as client:
        client.set_compatibility(level="BACKWARD")
        return plain(talk_registry(client, f"talk-{uuid4().hex[:8]}"))


if __name__ == "__main__":
    sys.stdout.write(f"{json.dumps(talk_with(sys.argv[1]), indent=1)}\n")
