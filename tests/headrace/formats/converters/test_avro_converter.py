"""Avro in the registry's framing: read by its schema, or a fault that says why not."""

import io
import json
import time
from decimal import Decimal
from typing import Any, Final

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.conversion.sink_records import RecordConverter
from headrace.formats.converted_records import MISSING, Conversion
from headrace.formats.records.registry import varint
from headrace.model.columns import KafkaRecords
from headrace.model.errors import AccessDenied, SourceUnavailable
from headrace.options.sink_settings import Converters, OutputFormat, OutputSettings
from tests.headrace.formats.encoding.outputs import bare, converters, encoded, fetched, output
from tests.headrace.formats.encoding.registry import avro, datum, framed, framed_as, http_registry, registry

_CITY: Final = {"name": "city", "type": "string"}
ROW: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Row",
    "namespace": "org.example",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {
            "name": "at",
            "type": {"type": "record", "name": "At", "fields": [{"name": "city", "type": "string"}]},
        },
        {"name": "more", "type": {"type": "map", "values": "int"}},
    ],
}
TREE: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Tree",
    "fields": [{"name": "v", "type": ["int", "string"]}, {"name": "next", "type": ["null", "Tree"]}],
}


def _row(number: int) -> dict[str, Any]:
    name = None if number % 2 else f"n{number}"
    return {"id": number, "name": name, "at": {"city": "Ulm"}, "more": {"k": number}}


def _convert(records: KafkaRecords, kinds: Converters, how: OutputSettings | None = None) -> Conversion:
    return RecordConverter(kinds, how or output()).convert(records)


def _texts(found: Conversion) -> list[Any]:
    columns = [run.value.texts() for run in found.runs]
    values = [column.get(row) for column in columns for row in range(len(column))]
    return [None if value is None else json.loads(value) for value in values]


def _faults(found: Conversion) -> list[tuple[int, str]]:
    return [(fault.offset, fault.reason) for fault in found.faults]


@pytest.mark.parametrize("wanted", [OutputFormat.JSONL, OutputFormat.PARQUET, OutputFormat.AVRO])
def test_values_of_one_schema_are_one_run(wanted: OutputFormat) -> None:
    """With tombstones between them."""
    one = registry()
    values = [framed(one, ROW, _row(number)) for number in range(4)]

    found = _convert(fetched([None, *values, None]), converters(avro(one)), output(wanted))

    assert found.faults == ()
    assert len(found.runs) == 1
    assert _texts(found) == [None, *(_row(number) for number in range(4)), None]


def test_runs_follow_the_offsets_where_schemas_alternate() -> None:
    """Each run has one key and one value schema."""
    one = registry()
    later = {**ROW, "fields": [*ROW["fields"], {"name": "new", "type": "int", "default": 0}]}
    old, new = framed(one, ROW, _row(0)), framed(one, later, {**_row(1), "new": 5})

    found = _convert(fetched([old, old, new, None, old]), converters(avro(one)))

    assert [run.records.offsets.tolist() for run in found.runs] == [[0, 1], [2, 3], [4]]
    assert len({run.value.schema for run in found.runs}) == 2


@pytest.mark.parametrize("wanted", [OutputFormat.JSONL, OutputFormat.PARQUET, OutputFormat.AVRO])
def test_bytes_that_are_no_datum_are_faults(wanted: OutputFormat) -> None:
    """One wrong among many, at any place; no sentence holds content."""
    one = registry()
    good = [framed(one, ROW, _row(number)) for number in range(300)]
    wrong = {
        7: good[7] + b"secret",
        150: good[150][:-1],
        151: b"secret",
        290: b"",
        299: good[0][:5] + b"\xff" * 20,
    }
    values = [wrong.get(number, value) for number, value in enumerate(good)]

    found = _convert(fetched(values), converters(avro(one)), output(wanted))

    reasons = {151: "not_framed", 290: "not_framed"}
    assert _faults(found) == [(number, reasons.get(number, "not_avro")) for number in sorted(wrong)]
    assert all("secret" not in fault.message for fault in found.faults)
    assert _texts(found) == [_row(number) for number in range(300) if number not in wrong]


def test_neighbours_that_fit_only_together_are_faults() -> None:
    """Side by side their bytes would be two data; each alone is none."""
    one = registry()
    text = {"type": "record", "name": "T", "fields": [{"name": "s", "type": "string"}]}
    head = framed(one, text, {"s": ""})[:5]
    values = [head + b"\x02", head + b"a\x02b", framed(one, text, {"s": "good"})]

    found = _convert(fetched(values), converters(avro(one)))

    assert _faults(found) == [(0, "not_avro"), (1, "not_avro")]
    assert _texts(found) == [{"s": "good"}]


def test_a_datum_that_goes_on_behind_its_record_is_a_fault() -> None:
    """What stands between the records is no part of either, wherever reading meets the next one again."""
    one = registry()
    octets = {"type": "record", "name": "O", "fields": [{"name": "o", "type": "bytes"}]}
    head = framed(one, octets, {"o": b""})[:5]

    found = _convert(fetched([head + b"\x04a", head + b"X\x02b"]), converters(avro(one)))

    assert _faults(found) == [(0, "not_avro"), (1, "not_avro")]


def test_a_decimal_beyond_its_precision_is_named() -> None:
    """In columns; as text it has its digits."""
    one = registry()
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    row = {"type": "record", "name": "D", "fields": [{"name": "d", "type": decimal}]}
    head = framed(one, row, {"d": Decimal(1)})[:5]
    values = fetched([head + b"\x04\x7f\xff", head + b"\x04\x7f"])

    beyond, torn = _convert(values, converters(avro(one)), output(OutputFormat.PARQUET)).faults

    assert "a decimal of more digits than its precision" in beyond.message
    assert "are no datum" in torn.message
    assert _texts(_convert(values, converters(avro(one)))) == [{"d": 327.67}]


@pytest.mark.parametrize("form", [OutputFormat.PARQUET, OutputFormat.JSONL])
def test_a_decimal_of_endless_digits_is_a_fault(form: OutputFormat) -> None:
    """At once, for its digits would take the square of their number; the rows next to it are good."""
    one = registry()
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    row = {"type": "record", "name": "D", "fields": [{"name": "d", "type": ["null", decimal]}]}
    head = framed(one, row, {"d": Decimal(1)})[:5]
    long = b"\x02" + varint(900_000) + b"\x7f" * 900_000
    values = fetched([head + b"\x00", head + long, head + b"\x02\x02\x7f"])
    found = _convert(values, converters(avro(one)), output(form))

    assert _faults(found) == [(1, "not_avro")]
    assert "a decimal of more digits" in found.faults[0].message
    assert sum(len(run.value.texts()) for run in found.runs) == 2


def test_an_id_that_the_registry_does_not_know_is_a_fault() -> None:
    """Asked for once in a while, not for each record."""
    with http_registry({}) as (one, asked):
        value = b"\x00\x00\x00\x00\x07" + datum(ROW, _row(1))
        converter = RecordConverter(converters(avro(one)), output())
        found = converter.convert(fetched([value, value]))
        again = converter.convert(fetched([value]))

    assert _faults(found) == [(0, "schema_unknown"), (1, "schema_unknown")]
    assert "id 7" in found.faults[0].message
    assert _faults(again) == [(0, "schema_unknown")]
    assert asked == ["/schemas/ids/7"]


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (401, 401, AccessDenied),
        (403, 403, AccessDenied),
        (404, 404, SourceUnavailable),
        (429, 429, SourceUnavailable),
    ],
)
def test_a_registry_that_does_not_serve_is_no_records_fault(
    status: int, code: int, error: type[Exception]
) -> None:
    """It is true of all records until somebody mends it; an address that is wrong included."""
    answers = {"/schemas/ids/1": (status, {"error_code": code, "message": "no"})}
    with http_registry(answers) as (one, _), pytest.raises(error, match="registry"):
        _convert(fetched([b"\x00\x00\x00\x00\x01x"]), converters(avro(one)))


def test_a_registry_that_is_away_is_tried_again() -> None:
    """Without a limit, by who catches this."""
    with pytest.raises(SourceUnavailable, match="schema registry"):
        _convert(fetched([b"\x00\x00\x00\x00\x01x"]), converters(avro(registry("http://127.0.0.1:9"))))


@pytest.mark.parametrize("body", [b"<html>Sign in</html>", b"", b"[]", {}, {"schema": None}, {"schema": 1}])
def test_what_is_no_registry_is_no_records_fault(body: Any) -> None:
    """A proxy or a login page answers 200: asked again until a registry does."""
    schema = {"schema": json.dumps(ROW)}
    value = b"\x00\x00\x00\x00\x01" + datum(ROW, _row(1))
    answers: dict[str, tuple[int, Any]] = {"/schemas/ids/1": (200, body)}
    with http_registry(answers) as (one, _):
        converter = RecordConverter(converters(avro(one)), output())
        for _again in range(2):
            with pytest.raises(SourceUnavailable, match=r"schema\.registry\.url .* proxy"):
                converter.convert(fetched([value]))
        answers["/schemas/ids/1"] = (200, schema)
        found = converter.convert(fetched([value]))

    assert _faults(found) == []
    assert len(found.runs) == 1


def test_a_schema_of_another_kind_is_a_fault() -> None:
    """Protobuf and JSON Schema use the same framing."""
    body = {"schema": "syntax = 'proto3';", "schemaType": "PROTOBUF"}
    with http_registry({"/schemas/ids/1": (200, body)}) as (one, _):
        found = _convert(fetched([b"\x00\x00\x00\x00\x01x"]), converters(avro(one)))

    assert _faults(found) == [(0, "schema_not_avro")]


def test_types_of_other_subjects_are_looked_up() -> None:
    """A schema may refer to types that stand in schemas of their own."""
    city = {
        "type": "record",
        "name": "City",
        "namespace": "geo",
        "fields": [{"name": "name", "type": "string"}],
    }
    work = {"name": "work", "type": ["null", "geo.City"]}
    person = {"type": "record", "name": "Person", "fields": [{"name": "home", "type": "geo.City"}, work]}
    whole = {"type": "record", "name": "Person", "fields": [{"name": "home", "type": city}, work]}
    references = [{"name": "geo.City", "subject": "city", "version": 2}]
    stored = {"subject": "city", "id": 9, "version": 2, "schema": json.dumps(city)}
    answers = {
        "/schemas/ids/1": (200, {"schema": json.dumps(person), "references": references}),
        "/subjects/city/versions/2": (200, stored),
    }
    value = {"home": {"name": "Ulm"}, "work": {"name": "Bonn"}}
    record = b"\x00\x00\x00\x00\x01" + datum(whole, value)
    with http_registry(answers) as (one, _):
        found = _convert(fetched([record]), converters(avro(one)), output(OutputFormat.PARQUET))

    assert _texts(found) == [value]


_WRAPPED: Final = {"type": {"type": "string"}}


@pytest.mark.parametrize("wanted", [OutputFormat.AVRO, OutputFormat.PARQUET, OutputFormat.JSONL])
@pytest.mark.parametrize(
    ("kind", "data", "value"),
    [
        (_WRAPPED, b"\x02x", "x"),
        ({"type": _WRAPPED}, b"\x02x", "x"),
        ({"type": ["null", _WRAPPED]}, b"\x02\x02x", "x"),
        ({"type": "array", "items": _WRAPPED}, b"\x02\x02x\x00", ["x"]),
        ({"type": {"type": "array", "items": "n.Inner"}}, b"\x02\x04\x00", [{"q": 2}]),
    ],
)
def test_a_type_may_be_within_another(wanted: OutputFormat, kind: Any, data: bytes, value: Any) -> None:
    """Also where it is one of another subject; the objects are those that other readers take."""
    one = registry()
    inner = {"type": "record", "name": "n.Inner", "fields": [{"name": "q", "type": "int"}]}
    framed(one, inner, {"q": 1}, subject="inner")
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}
    records = fetched([framed_as(one, "AVRO", json.dumps(schema), data, references=[("n.Inner", "inner")])])
    kinds = converters(avro(one))

    body = encoded(records, output(wanted), kinds)

    if wanted is OutputFormat.JSONL:
        rows = [json.loads(line) for line in body.splitlines()]
    elif wanted is OutputFormat.AVRO:
        rows = list(fastavro.reader(io.BytesIO(body)))
    else:
        rows = pq.read_table(pa.BufferReader(body)).to_pylist()
    assert [row["value"] for row in rows] == [{"a": value}]


@pytest.mark.parametrize("kind", [{"kind": "string"}, 5, {"type": 5}, {"type": "array"}])
def test_a_schema_that_is_none_is_no_matter_of_the_registry(kind: Any) -> None:
    """Though it refers to another: its record is bad, and the registry is not tried again for it."""
    one = registry()
    framed(one, "int", 1, subject="inner")
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}
    value = framed_as(one, "AVRO", json.dumps(schema), b"\x02", references=[("n.Inner", "inner")])

    found = RecordConverter(converters(avro(one)), output(OutputFormat.PARQUET)).convert(fetched([value]))

    assert [fault.reason for fault in found.faults] == ["schema_unsupported"]


def test_schemas_without_columns() -> None:
    """Unions of several types and types that hold themselves: JSON and Avro have them, columns do not."""
    one = registry()
    value = {"v": "x", "next": {"v": 1, "next": None}}
    records = fetched([framed(one, TREE, value), None])

    assert _texts(_convert(records, converters(avro(one)))) == [value, None]
    assert _faults(_convert(records, converters(avro(one)), output(OutputFormat.AVRO))) == []
    for wanted in (OutputFormat.PARQUET, OutputFormat.CSV):
        found = _convert(records, converters(avro(one)), bare(wanted))
        assert (0, "schema_unsupported") in _faults(found)


@pytest.mark.parametrize("wanted", [OutputFormat.JSONL, OutputFormat.PARQUET])
def test_fields_by_their_path(wanted: OutputFormat) -> None:
    """For names that hold a field: whatever the output makes of the value."""
    one = registry()
    values = [framed(one, ROW, _row(number)) for number in range(2)]
    (run,) = _convert(fetched(values), converters(avro(one)), output(wanted)).runs

    assert run.field("value", ["id"]) == [0, 1]
    assert run.field("value", ["name"]) == ["n0", None]
    assert run.field("value", ["at", "city"]) == ["Ulm", "Ulm"]
    assert run.field("value", ["more", "k"]) == [0, 1]
    assert run.field("value", ["at", "street"]) == [MISSING, MISSING]
    assert run.field("value", ["id", "x"]) == [MISSING, MISSING]


def test_keys_have_schemas_of_their_own() -> None:
    """A key that is wrong is its record's fault too."""
    one = registry()
    key = framed(one, "string", "k", "orders-key")
    records = fetched([framed(one, ROW, _row(0))] * 2, keys=[key, b"plain"])

    found = _convert(records, converters(avro(one), avro(one)))

    assert _faults(found) == [(1, "not_framed")]
    assert "key" in found.faults[0].message
    assert [run.field("key", ()) for run in found.runs] == [["k"]]


def _of_nulls(count: int) -> bytes:
    return varint(count) + (varint(0) if count else b"")


@pytest.mark.parametrize("wanted", [OutputFormat.JSONL, OutputFormat.PARQUET])
def test_data_that_claim_far_more_than_their_bytes_are_faults(wanted: OutputFormat) -> None:
    """A fetch has thousands of records, and each may take what its bytes may be."""
    one = registry()
    lists = {
        "type": "record",
        "name": "L",
        "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}],
    }
    head = framed(one, lists, {"a": []})[:5]
    values = [head + _of_nulls(90_000)] * 50 + [head + _of_nulls(3)]
    begin = time.process_time()

    found = _convert(fetched(values), converters(avro(one)), output(wanted))

    assert time.process_time() - begin < 10
    if wanted is OutputFormat.JSONL:
        assert _texts(found) == [{"a": [None] * 3}]
        assert _faults(found) == [(number, "not_avro") for number in range(50)]
        assert "far more values than its bytes" in found.faults[0].message


@pytest.mark.parametrize("wanted", [OutputFormat.JSONL, OutputFormat.PARQUET])
def test_what_a_datum_claims_is_judged_alike_alone_and_next_to_a_bad_one(wanted: OutputFormat) -> None:
    """Small records in a list become many times their bytes where each is an object of its own."""
    one = registry()
    product = {"type": "record", "name": "Product", "fields": [{"name": "number", "type": "int"}]}
    line = {"type": "record", "name": "Line", "fields": [{"name": "product", "type": product}]}
    lists = {
        "type": "record",
        "name": "Batch",
        "fields": [{"name": "lines", "type": {"type": "array", "items": line}}],
    }
    row = {"lines": [{"product": {"number": number % 60}} for number in range(400)]}
    good = framed(one, lists, row)
    bad = good[:-3]

    for values, faults in [([good], []), ([good, bad], [1]), ([bad, good, good], [0])]:
        found = _convert(fetched(values), converters(avro(one)), output(wanted))

        assert _faults(found) == [(number, "not_avro") for number in faults]
        assert _texts(found) == [row] * (len(values) - len(faults))


def test_wide_data_of_nulls_take_what_they_may() -> None:
    """A thousand optional fields with long names, none of them there, and twice as many symbols."""
    one = registry()
    optional = ["null", {"type": "enum", "name": "E", "symbols": [f"symbol_{each}" for each in range(2000)]}]
    fields: list[dict[str, Any]] = [{"name": "itself", "type": ["null", "Wide"]}]
    fields += [{"name": "some", "type": optional}]
    fields += [{"name": f"{'long' * 20}_{each}", "type": ["null", "E"]} for each in range(1000)]
    wide = {"type": "record", "name": "Wide", "fields": fields}
    nothing: dict[str, Any] = {field["name"]: None for field in fields}

    found = _convert(fetched([framed(one, wide, nothing | {"itself": nothing})]), converters(avro(one)))

    assert found.faults == ()
    assert _texts(found) == [nothing | {"itself": nothing}]
