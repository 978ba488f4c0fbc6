"""Values of AvroConverter behind transforms: defaults of every type, named types, tombstones next to rows."""

import io
from collections.abc import Sequence
from typing import Any, Final

import fastavro
import pyarrow.parquet as pq
import pytest

from headrace.conversion.encoders import new_encoder
from headrace.conversion.sink_records import sink_records
from headrace.formats.avro_schema import avro_text, record_shape
from headrace.formats.converted_records import Conversion
from headrace.formats.encoding import schema_of
from headrace.model.columns import Column
from headrace.options.sink_settings import SinkSettings
from tests.headrace.formats.encoding.registry import framed, registry
from tests.headrace.formats.transforms.transformed import (
    KAFKA,
    NOW_MS,
    chain,
    kafka_records,
    plain,
    sink_of,
)
from tests.headrace.vendors.archive import Record
from tests.support.sink_archives import NOON_MS, written

_LENSES: Final = "io.lenses.connect.smt.header.TimestampConverter"
_UNWRAP: Final = "io.debezium.transforms.ExtractNewRecordState"


def _converted(
    schema: Any, values: list[Any], step: dict[str, str], form: str = "jsonl", headers: Sequence[int] = ()
) -> tuple[SinkSettings, Conversion]:
    """What a step makes of the values; those with `headers` are what the predicate `has` is true of."""
    served = registry()
    options = {
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": served.urls[0],
        "output.format": form,
        "file.compression.type": "none",
        **chain(step, predicates=_HEADER if "predicate" in step else None),
    }
    rows = [None if value is None else framed(served, schema, value) for value in values]
    sink = sink_of(options)
    records = kafka_records(
        [(row, b"k", (("h", b""),) if number in headers else (), NOW_MS) for number, row in enumerate(rows)]
    )
    return sink, sink_records(sink, lambda: NOW_MS).convert(records)


# -- defaults ------------------------------------------------------------------------------------------------


def _record(kind: Any, default: Any) -> dict[str, Any]:
    fields = [{"name": "id", "type": "int"}, {"name": "f", "type": [kind, "null"], "default": default}]
    return {"type": "record", "name": "R", "fields": fields}


_DECIMAL: Final = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
_FIXED_DECIMAL: Final = {
    "type": "fixed",
    "name": "D",
    "size": 2,
    "logicalType": "decimal",
    "precision": 4,
    "scale": 1,
}
_FIXED: Final = {"type": "fixed", "name": "F", "size": 2}
_UUID: Final = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
_DEFAULTS: Final[list[tuple[dict[str, Any], Any, Any]]] = [
    (_DECIMAL, "\x00", 0.0),
    (_DECIMAL, "\xff\x00", -2.56),
    (_FIXED_DECIMAL, "\x00\x07", 0.7),
    (_FIXED, "\xff\x01", "/wE="),
    ({"type": "bytes"}, "\xff", "/w=="),
    ({"type": "string"}, "\xff", "\xff"),
    ({"type": "int", "logicalType": "date"}, 5, "1970-01-06"),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
    (_UUID, "a" * 16, "61616161-6161-6161-6161-616161616161"),
    (_UUID, "\xff" * 16, "ffffffff-ffff-ffff-ffff-ffffffffffff"),
    ({"type": "array", "items": "int"}, [7], [7]),
]
_FILLING: Final = [
    {"type": KAFKA + "InsertField$Value", "static.field": "s", "static.value": "x"},
    {"type": KAFKA + "Flatten$Value"},
]


def _filled(kind: Any, default: Any, step: dict[str, str]) -> Any:
    """The field of a record that has a null there, as it comes from the step."""
    _, found = _converted(_record(kind, default), [{"id": 1, "f": None}], step)
    assert found.faults == ()
    (run,) = found.runs
    return plain(run.value)[0]["f"]


@pytest.mark.parametrize(("kind", "default", "shown"), _DEFAULTS)
@pytest.mark.parametrize("step", _FILLING)
def test_a_null_counts_as_the_default_of_connects_schema(
    kind: dict[str, Any], default: Any, shown: Any, step: dict[str, str]
) -> None:
    """Octets of a default are its characters."""
    assert _filled({**kind, "connect.default": default}, default, step) == shown


_PAIR: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Pair",
    "fields": [
        {"name": "x", "type": ["null", {"type": "int", "connect.default": 9}], "default": None},
        {"name": "y", "type": "string"},
        {"name": "z", "type": ["null", "int"], "default": None},
    ],
}
_DEFAULT_PAIR: Final = {"x": 5, "y": "d", "z": None}


@pytest.mark.parametrize(
    ("kind", "default", "step", "given", "expected"),
    [
        ({"type": "map", "values": "int"}, {"k": 1}, _FILLING[0], None, {"f": {"k": 1}, "s": "x"}),
        # Which Kafka would refuse: the default of a struct has another schema.
        (_PAIR, _DEFAULT_PAIR, _FILLING[0], None, {"f": None, "s": "x"}),
        # A field's own default comes before the one that is in the struct's.
        (_PAIR, _DEFAULT_PAIR, _FILLING[1], None, {"f.x": 9, "f.y": "d", "f.z": None}),
        (
            _PAIR,
            {"x": None, "y": "d", "z": 3},
            _FILLING[1],
            {"x": 1, "y": "q", "z": None},
            {"f.x": 1, "f.y": "q", "f.z": 3},
        ),
    ],
)
def test_defaults_with_members(
    kind: dict[str, Any], default: Any, step: dict[str, str], given: Any, expected: Any
) -> None:
    """Lists and maps count too; a field that Flatten makes has the one in its struct's default."""
    schema = _record({**kind, "connect.default": default}, default)
    _, found = _converted(schema, [{"id": 1, "f": given}], step)
    assert found.faults == ()
    (value,) = plain(found.runs[0].value)
    assert {name: each for name, each in value.items() if name != "id"} == expected


@pytest.mark.parametrize(("path", "fills", "expected"), [("f.y", "false", "d"), ("f.x", "true", 5)])
def test_a_struct_on_a_path_counts_as_its_default(path: str, fills: str, expected: Any) -> None:
    """Whatever counts for the field at its end."""
    step = {"type": KAFKA + "ExtractField$Value", "field": path, "field.syntax.version": "V2"}
    schema = _record({**_PAIR, "connect.default": _DEFAULT_PAIR}, _DEFAULT_PAIR)
    _, found = _converted(schema, [{"id": 1, "f": None}], {**step, "replace.null.with.default": fills})
    assert found.faults == ()
    assert [plain(run.value) for run in found.runs] == [[expected]]


@pytest.mark.parametrize(("kind", "default"), [(kind, default) for kind, default, _ in _DEFAULTS])
@pytest.mark.parametrize("step", _FILLING)
def test_a_null_does_not_count_as_the_default_of_an_avro_field(
    kind: dict[str, Any], default: Any, step: dict[str, str]
) -> None:
    """AvroData drops that of a union with null: Connect's field has none."""
    assert _filled(kind, default, step) is None


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ({"type": "int"}, 2**40),
        (_FIXED, "\x01\x01\x01"),
        (_UUID, "\x01"),
    ],
)
@pytest.mark.parametrize(
    "step",
    [*_FILLING, {"type": KAFKA + "Cast$Value", "spec": "f:string", "replace.null.with.default": "false"}],
)
def test_a_default_that_is_no_value_of_the_type_is_none(
    kind: dict[str, Any], default: Any, step: dict[str, str]
) -> None:
    """Not even a registry checks it; the conversion must not end of it."""
    assert _filled({**kind, "connect.default": default}, None, step) is None


# -- nulls next to rows --------------------------------------------------------------------------------------

_ROW: Final[dict[str, Any]] = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "id", "type": "int"}, {"name": "x", "type": ["null", "string"], "default": None}],
}
_EVENT: Final = {
    "type": "record",
    "name": "Envelope",
    "namespace": "db.shop.orders",
    "connect.name": "db.shop.orders.Envelope",
    "fields": [
        {"name": "before", "type": ["null", {**_ROW, "name": "Value"}], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "op", "type": "string"},
    ],
}


def _written(sink: SinkSettings, found: Conversion, form: str) -> list[Any]:
    """The values of the one object that all records come into."""
    assert found.faults == ()
    (run,) = found.runs
    encoder = new_encoder(sink.output, schema_of(sink.output, run))
    encoder.add(run)
    content = io.BytesIO(encoder.drain() + encoder.finish())
    rows: list[Any] = list(fastavro.reader(content)) if form == "avro" else pq.read_table(content).to_pylist()
    return [row["value"] for row in rows]


@pytest.mark.parametrize("form", ["avro", "parquet"])
@pytest.mark.parametrize(
    ("step", "row"),
    [
        ({"type": KAFKA + "InsertField$Value", "topic.field": "t"}, {"id": 1, "x": "q", "t": "orders"}),
        ({"type": KAFKA + "ReplaceField$Value", "exclude": "x"}, {"id": 1}),
        ({"type": KAFKA + "Flatten$Value"}, {"id": 1, "x": "q"}),
    ],
)
def test_tombstones_stay_in_the_object_of_their_rows(step: dict[str, str], row: Any, form: str) -> None:
    """A null of another schema would close it, and the next row again."""
    given = {"id": 1, "x": "q"}
    sink, found = _converted(_ROW, [given, None, given, None], step, form)
    assert _written(sink, found, form) == [row, None, row, None]


@pytest.mark.parametrize("form", ["avro", "parquet"])
@pytest.mark.parametrize(
    ("mode", "values"),
    [
        ("drop", [("q", "false"), ("z", "false")]),
        ("rewrite", [("q", "false"), ("q", "true"), ("z", "false")]),
        ("rewrite-with-tombstone", [("q", "false"), ("q", "true"), None, ("z", "false")]),
        ("tombstone", [("q", None), None, ("z", None)]),
    ],
)
def test_deleted_rows_have_the_schema_of_the_others(mode: str, values: list[Any], form: str) -> None:
    """Both are of one named type, which the event's schema defines in one place."""
    one, two = {"id": 1, "x": "q"}, {"id": 1, "x": "z"}
    events = [
        {"before": None, "after": one, "op": "c"},
        {"before": one, "after": None, "op": "d"},
        None,
        {"before": None, "after": two, "op": "c"},
    ]
    step = {"type": _UNWRAP, "delete.tombstone.handling.mode": mode}
    sink, found = _converted(_EVENT, events, step, form)
    marks = [None if row is None else (row["x"], row.get("__deleted")) for row in _written(sink, found, form)]
    # A rewritten row has the mark, others do not.
    wanted = [None if each is None else (each[0], each[1] if "rewrite" in mode else None) for each in values]
    assert marks == wanted


_INSERT: Final = {"type": KAFKA + "InsertField$Value", "topic.field": "t"}
_ONE: Final = {"id": 1, "x": "q"}
_TWO: Final = {"id": 2, "x": None}
_ROWS: Final = [_ONE, None, _TWO, None, None, _ONE]
_EVENTS: Final = [
    {"before": None, "after": _ONE, "op": "c"},
    {"before": _ONE, "after": None, "op": "d"},
    None,
    {"before": None, "after": _TWO, "op": "c"},
]
_ALONE: Final = {
    "insert": (_INSERT, _ROW, _ROWS),
    "replace": ({"type": KAFKA + "ReplaceField$Value", "exclude": "x"}, _ROW, _ROWS),
    "flatten": ({"type": KAFKA + "Flatten$Value"}, _ROW, _ROWS),
    "hoist": ({"type": KAFKA + "HoistField$Value", "field": "h"}, _ROW, _ROWS),
    "cast": ({"type": KAFKA + "Cast$Value", "spec": "id:string"}, _ROW, _ROWS),
    "extract": ({"type": KAFKA + "ExtractField$Value", "field": "x"}, _ROW, [_TWO, *_ROWS]),
    **{
        mode: ({"type": _UNWRAP, "delete.tombstone.handling.mode": mode}, _EVENT, _EVENTS * 2)
        for mode in ("drop", "rewrite", "rewrite-with-tombstone", "tombstone")
    },
}


@pytest.mark.parametrize("form", ["avro", "parquet"])
@pytest.mark.parametrize(("step", "schema", "values"), _ALONE.values(), ids=_ALONE.keys())
def test_nulls_that_are_fetched_alone_stay_in_the_object_too(
    step: dict[str, str], schema: Any, values: list[Any], form: str
) -> None:
    """Where an object ends is no matter of how many records were fetched together."""
    keys = {batch: _keys(step, schema, values, form, batch, rotate=1000) for batch in (1, 2, 3, 1000)}

    assert {len(each) for each in keys.values()} == {1}
    assert len({*map(tuple, keys.values())}) == 1


def test_an_object_may_begin_with_a_null() -> None:
    """Of three records each, the second one does."""
    rows = [_ONE, _TWO, _ONE, None, _ONE, _TWO]

    keys = [_keys(_INSERT, _ROW, rows, "avro", batch, rotate=3) for batch in (1, 2, 1000)]

    assert [len(each) for each in keys] == [2, 2, 2]
    assert keys[0] == keys[1] == keys[2]


def _keys(
    step: dict[str, str], schema: Any, values: list[Any], form: str, batch: int, *, rotate: int
) -> list[str]:
    """The objects of these values, of which so many are fetched at once."""
    served = registry()
    config = {
        "aws.s3.bucket.name": "bucket",
        "topics": "orders",
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": served.urls[0],
        "output.format": form,
        "rotate.records": str(rotate),
        **chain(step),
    }
    rows = [None if value is None else framed(served, schema, value) for value in values]
    records = [Record("orders", 0, offset, NOON_MS, b"k", row, ()) for offset, row in enumerate(rows)]
    found = written(config, records, batch=batch)
    assert (found.stops, found.dead_letters) == ({}, ())
    return sorted(found.objects)


def test_parts_of_a_schema_stand_by_themselves() -> None:
    """With what they refer to; put together, each type is defined once."""
    event = {
        **_EVENT,
        "fields": [*_EVENT["fields"], {"name": "more", "type": {"type": "array", "items": "Value"}}],
    }
    shape = record_shape(avro_text(event) or "")
    assert shape is not None
    value = {**_ROW, "name": "Value", "namespace": "db.shop.orders"}
    assert [each["type"] for each in shape["fields"]] == [
        ["null", value],
        ["null", value],
        "string",
        {"type": "array", "items": value},
    ]
    assert avro_text(shape) == avro_text(event)
    other = {**value, "fields": value["fields"][:1]}
    clashing = [{"name": "a", "type": value}, {"name": "b", "type": other}]
    assert avro_text({"type": "record", "name": "C", "fields": clashing}) is None


# -- a predicate that is true of some ------------------------------------------------------------------------

_HEADER: Final = {"has": {"type": KAFKA + "predicates.HasHeaderKey", "name": "h"}}


@pytest.mark.parametrize("form", ["avro", "parquet"])
@pytest.mark.parametrize(
    ("step", "changed"),
    [
        ({"type": KAFKA + "MaskField$Value", "fields": "x"}, {"id": 1, "x": ""}),
        ({"type": KAFKA + "MaskField$Value", "fields": "x", "replacement": "*"}, {"id": 1, "x": "*"}),
        ({"type": KAFKA + "HeaderFrom$Value", "fields": "x", "headers": "x", "operation": "copy"}, None),
        ({"type": KAFKA + "SetSchemaMetadata$Value", "schema.name": "R"}, None),
    ],
)
def test_a_change_that_leaves_the_schema_closes_no_object(
    step: dict[str, str], changed: dict[str, Any] | None, form: str
) -> None:
    """The schema keeps its version too: records that are changed and others are one run."""
    given = {"id": 1, "x": "q"}
    rows: list[Any] = [given, given, None, given, given]
    sink, found = _converted(_ROW, rows, {**step, "predicate": "has"}, form, headers=[1, 3])
    assert {run.value.schema.version for run in found.runs if run.value.schema is not None} == {1}
    other = changed or given
    assert _written(sink, found, form) == [given, other, None, other, given]


_BRANCHES: Final = {"name": "x", "type": ["int", "string"]}


@pytest.mark.parametrize(
    ("form", "schema"), [("jsonl", _ROW), ("avro", {**_ROW, "fields": [_ROW["fields"][0], _BRANCHES]})]
)
@pytest.mark.parametrize(
    "step",
    [
        {"type": KAFKA + "InsertHeader", "header": "z", "value.literal": "1"},
        {"type": KAFKA + "DropHeaders", "headers": "h"},
    ],
)
def test_a_change_of_headers_leaves_one_run(step: dict[str, str], form: str, schema: Any) -> None:
    """Of values that have no columns too: their JSON, and data that are only copied."""
    rows: list[Any] = [*({"id": number, "x": "q"} for number in range(4)), None]
    (every,) = _converted(schema, rows, step, form)[1].runs

    _, found = _converted(schema, rows, {**step, "predicate": "has"}, form, headers=[1, 3])

    (run,) = found.runs
    assert (run.value.has_array, run.value.is_only_data) == (False, form == "avro")
    assert plain(run.value) == plain(every.value)
    assert _octets(run.value.data()) == _octets(every.value.data())
    names = [[name for name, _ in each] for each in run.records.headers or [()] * len(rows)]
    changed = ["h", "z"] if "header" in step else []
    assert names == [[], changed, [], changed, []]


@pytest.mark.parametrize("kind", ["long", "boolean"])
@pytest.mark.parametrize(("field", "headers"), [("_value.x", []), ("_value.x.y", []), ("_value", ["t"])])
def test_a_tombstone_is_refused_for_no_field(kind: str, field: str, headers: list[str]) -> None:
    """Whether it is fetched alone, without a schema, or with others whose field is no time, or is none."""
    step = {"type": _LENSES, "header.name": "t", "field": field, "target.type": "unix"}
    schema = {**_ROW, "fields": [_ROW["fields"][0], {"name": "x", "type": kind}]}
    value = {"id": 1, "x": True}
    together = _converted(schema, [value, None, value], step)[1]
    alone = _converted(schema, [None], step)[1]

    assert {fault.offset for fault in together.faults} <= {10, 12}
    assert alone.faults == ()
    for found, offset in ((together, 11), (alone, 10)):
        rows = [
            each
            for run in found.runs
            for each in zip(run.records.offsets, run.records.headers or [()] * len(run), strict=True)
        ]
        assert [[name for name, _ in each] for at, each in rows if at == offset] == [headers]


def _octets(data: Column | None) -> list[bytes | None]:
    assert data is not None
    return list(data.each(0, len(data)))
