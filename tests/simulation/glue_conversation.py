"""A conversation with AWS Glue's schema registry through its client, as the product calls it: the answers.

`python -m tests.simulation.glue_conversation` holds it with moto, where that is installed, and prints what
`glue_conversation.json` keeps. Ids are numbered as they come up.
"""

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

from botocore.exceptions import ClientError

_NO_ID: Final = "00000000-0000-4000-8000-000000000000"
REGISTRY: Final = "default-registry"


def _avro(*names: str) -> str:
    """A row that older and newer ones can be read as."""
    fields = [{"name": name, "type": "long", "default": 0} for name in names]
    return json.dumps({"type": "record", "name": "row", "fields": fields}, separators=(",", ":"))


def talk_glue(client: Any, schema: str) -> Iterator[Any]:
    """Creating, registering, looking up, the newest version, and what is refused."""
    ids: dict[str, str] = {}

    def ask(operation: str, *shown: str, **given: Any) -> Any:
        try:
            answer = getattr(client, operation)(**given)
        except ClientError as error:
            return ["refused", error.response["Error"]["Code"]]
        number = answer.get("SchemaVersionId")
        numbered = {} if number is None else {"SchemaVersionId": ids.setdefault(number, f"id {len(ids) + 1}")}
        return [{**answer, **numbered}.get(name) for name in shown]

    named = {"SchemaName": schema, "RegistryName": REGISTRY}
    first, second = _avro("n"), _avro("n", "m")
    newest: Any = {"SchemaId": named, "SchemaVersionNumber": {"LatestVersion": True}}
    told = ("SchemaVersionId", "DataFormat", "SchemaDefinition", "Status")

    def create(text: str, registry: str = REGISTRY) -> Any:
        return ask(
            "create_schema",
            "SchemaVersionId",
            "SchemaVersionStatus",
            RegistryId={"RegistryName": registry},
            SchemaName=schema,
            DataFormat="AVRO",
            Compatibility="FULL_ALL",
            SchemaDefinition=text,
        )

    def register(text: str) -> Any:
        return ask(
            "register_schema_version", "SchemaVersionId", "Status", SchemaId=named, SchemaDefinition=text
        )

    def found(text: str) -> Any:
        return ask(
            "get_schema_by_definition", "SchemaVersionId", "Status", SchemaId=named, SchemaDefinition=text
        )

    yield "no version", ask("get_schema_version", *told, SchemaVersionId=_NO_ID)
    yield "no schema", ask("get_schema_version", *told, **newest)
    yield "found where there is no schema", found(first)
    yield "registered where there is no schema", register(first)
    yield "created in no registry", create(first, "nowhere")
    yield "created", create(first)
    yield "created twice", create(first)
    yield "found", found(first)
    yield "another is not found", found(second)
    yield "another", register(second)
    yield "the same again", register(second)
    yield "newest", ask("get_schema_version", *told, **newest)
    for number in list(ids):
        yield ids[number], ask("get_schema_version", *told, SchemaVersionId=number)


def plain(said: Iterator[Any]) -> Any:
    """As it comes out of JSON."""
    return json.loads(json.dumps(list(said)))


def new_client(create: Callable[..., Any], **given: Any) -> Any:
    """A client of Glue's."""
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
    return create("glue", region_name="us-east-1", **keys, **given)


def _with_moto() -> Any:
    import boto3
    from moto import mock_aws  # type: ignore[import-not-found]  # only to record

    with mock_aws():
        client = new_client(boto3.client)
        # Amazon has this one without being asked for it.
        client.create_registry(RegistryName=REGISTRY)
        return plain(talk_glue(client, "orders"))


if __name__ == "__main__":
    sys.stdout.write(f"{json.dumps(_with_moto(), indent=1)}\n")
