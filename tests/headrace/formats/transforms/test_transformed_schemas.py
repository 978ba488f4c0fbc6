"""Which schema of Kafka Connect's a value has behind a transform: the names that objects' schemas get."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from headrace.formats.connect import ConnectSchema, Default, Type, plain, struct
from headrace.formats.connect.schema import TIMESTAMP
from tests.headrace.formats.transforms.transformed import KAFKA, WITH_SCHEMA, Row, chain, converted
from tests.support.connect_schemas import json_of_schema

_PLACE = struct(("city", plain(Type.STRING)), name="com.acme.Place", version=3)
_TIME = ConnectSchema(type=Type.INT64, name=TIMESTAMP, version=1)
_ORDER = struct(
    ("id", plain(Type.INT64)),
    ("note", plain(Type.STRING, optional=True)),
    ("place", _PLACE),
    name="com.acme.Order",
    version=2,
    doc="what was ordered",
    parameters=(("owner", "sales"),),
)
_PAYLOAD = {"id": 7, "note": None, "place": {"city": "Ulm"}}


def _schema(*steps: Mapping[str, str], part: str = "value") -> ConnectSchema | None:
    """The schema of the one record's value, or key, behind these steps."""
    found = converted(
        WITH_SCHEMA | chain(*steps), [Row({"schema": json_of_schema(_ORDER), "payload": _PAYLOAD})]
    )
    assert found.faults == ()
    (run,) = found.runs
    return (run.value if part == "value" else run.key).connect


def _order(*fields: tuple[str, ConnectSchema]) -> ConnectSchema:
    """The order's schema with other fields."""
    return replace(_ORDER, fields=struct(*fields).fields)


_ID, _NOTE = ("id", plain(Type.INT64)), ("note", plain(Type.STRING, optional=True))
_AT = ("place", _PLACE)
_CASES = {
    "inserted": (
        {"type": f"{KAFKA}InsertField$Value", "topic.field": "from!", "timestamp.field": "at"},
        _order(_ID, _NOTE, _AT, ("from", plain(Type.STRING)), ("at", _TIME.as_optional())),
    ),
    "renamed and left out": (
        {"type": f"{KAFKA}ReplaceField$Value", "renames": "id:number", "exclude": "note"},
        _order(("number", plain(Type.INT64)), _AT),
    ),
    "flattened": (
        {"type": f"{KAFKA}Flatten$Value"},
        _order(_ID, _NOTE, ("place.city", plain(Type.STRING))),
    ),
    "named": (
        {"type": f"{KAFKA}SetSchemaMetadata$Value", "schema.name": "other", "schema.version": "7"},
        replace(_ORDER, name="other", version=7),
    ),
    "masked": ({"type": f"{KAFKA}MaskField$Value", "fields": "id"}, _ORDER),
    "cast": (
        {"type": f"{KAFKA}Cast$Value", "spec": "id:string,note:int32"},
        _order(("id", plain(Type.STRING)), ("note", plain(Type.INT32, optional=True)), _AT),
    ),
    "extracted": ({"type": f"{KAFKA}ExtractField$Value", "field": "place"}, _PLACE),
    "hoisted": ({"type": f"{KAFKA}HoistField$Value", "field": "order"}, struct(("order", _ORDER))),
}


@pytest.mark.parametrize(("step", "schema"), _CASES.values(), ids=_CASES.keys())
def test_what_is_only_moved_keeps_its_schema(step: Mapping[str, str], schema: ConnectSchema) -> None:
    """Name, version, doc and parameters of a struct stay where Kafka's own transforms keep them."""
    assert _schema(step) == schema


def test_a_key_of_some_fields_has_no_name() -> None:
    """It is a schema of its own."""
    step = {"type": f"{KAFKA}ValueToKey", "fields": "place,id"}
    assert _schema(step, part="key") == struct(_AT, _ID)


def _extracted(kind: ConnectSchema, *values: Any, output: Mapping[str, str], step: Mapping[str, str]) -> Any:
    """What becomes of the field `n` of this schema, taken out, after one more step."""
    described = json_of_schema(struct(("n", kind)))
    rows = [{"schema": described, "payload": {"n": value}} for value in values]
    options = {**WITH_SCHEMA, "behavior.on.null.values": "write", **output}
    extract = {"type": f"{KAFKA}ExtractField$Value", "field": "n"}
    return converted(options | chain(extract, step), rows)


@pytest.mark.parametrize("optional", [False, True])
def test_a_cast_of_the_whole_keeps_what_may_be_null_and_the_default(optional: bool) -> None:
    """As Kafka's class does, of the type of the cast."""
    kind = ConnectSchema(type=Type.INT64, optional=optional, default=Default("7"))
    step = {"type": f"{KAFKA}Cast$Value", "spec": "string"}

    (run,) = _extracted(kind, 1, 2, output={}, step=step).runs

    assert run.value.connect == ConnectSchema(type=Type.STRING, optional=optional, default=Default('"7"'))
    assert run.value.schema.avro == ('["null","string"]' if optional else '"string"')


def test_a_cast_of_the_whole_keeps_the_name_of_its_type() -> None:
    """Not that of a time or a decimal, which the cast value is none of."""
    named = ConnectSchema(
        type=Type.INT64, name="com.acme.Id", version=2, doc="an id", parameters=(("p", "q"),), optional=True
    )
    step = {"type": f"{KAFKA}Cast$Value", "spec": "string"}

    (run,) = _extracted(named, 1, output={}, step=step).runs
    (other,) = _extracted(
        ConnectSchema(type=Type.INT64, name=TIMESTAMP, version=1), 1, output={}, step=step
    ).runs

    assert run.value.connect == replace(named, type=Type.STRING)
    assert other.value.connect == plain(Type.STRING)


def test_a_null_that_is_cast_has_the_place_that_it_had() -> None:
    """In Confluent's layout, whose Avro takes nulls of a schema that is optional."""
    output = {"output.layout": "confluent", "output.format": "avro", "json.format": "iso"}
    step = {"type": f"{KAFKA}Cast$Value", "spec": "string"}

    found = _extracted(plain(Type.INT64, optional=True), 1, None, output=output, step=step)

    assert (found.faults, sum(len(run) for run in found.runs)) == ((), 2)


def test_records_of_different_schemas_are_not_put_together() -> None:
    """Though Arrow and the Avro made of it show no difference: each keeps its own."""
    given = struct(("n", plain(Type.INT64)), optional=True)
    value = {"schema": json_of_schema(given), "payload": {"n": 1}}
    rows = [Row(value, headers=(("h", b"x"),) if number % 2 else ()) for number in range(4)]
    # A struct that is made again takes no null any more, in Kafka too.
    some = {"type": f"{KAFKA}ReplaceField$Value", "exclude": "none", "predicate": "p"}
    predicate = {"type": f"{KAFKA}predicates.HasHeaderKey", "name": "h"}
    steps = chain(some, {"type": f"{KAFKA}HoistField$Value", "field": "all"}, predicates={"p": predicate})

    found = converted(WITH_SCHEMA | steps, rows)

    schemas = [run.value.connect for run in found.runs for _ in range(len(run))]
    assert schemas == [struct(("all", replace(given, optional=number % 2 == 0))) for number in range(4)]
