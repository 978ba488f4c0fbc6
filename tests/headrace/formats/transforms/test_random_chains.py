"""Random records through random chains: together they become what each becomes alone.

Whole columns are converted, transformed and written at once, and equal values once; a record alone shares
nothing.
"""

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final

import fastavro
import pytest

from headrace.conversion.encoders import new_encoder
from headrace.conversion.sink_records import sink_records
from headrace.formats.encoding import schema_of
from headrace.formats.records.registry import frame
from headrace.model.columns import Headers, KafkaRecords
from headrace.options.given import SettingsError
from headrace.options.schema_settings import RegistrySettings
from headrace.options.sink_settings import OutputFormat, SinkSettings
from headrace.options.transforms.chain import HoistField
from headrace.vendors.load import load
from tests.headrace.formats.encoding.registry import datum, registry
from tests.headrace.formats.transforms.transformed import JSON, KAFKA, LENSES, NOW_MS, chain, kafka_records

_STORAGE: Final = "org.apache.kafka.connect.storage."
_CONNECT: Final = "org.apache.kafka.connect.data."
_BASIC: Final = {"name": "archive", "bootstrap.servers": "127.0.0.1:9092", "topics": "orders"}
_OWN: Final = _BASIC | {"aws.s3.bucket.name": "bucket", "file.compression.type": "none"}
_AIVEN: Final = _OWN | {
    "connector.class": "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
    "aws.s3.region": "eu-west-1",
    "format.output.fields": "key,value,headers,offset,timestamp",
    "format.output.fields.value.encoding": "none",
}
_LENSES: Final = _BASIC | {
    "connector.class": "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector",
    "connect.s3.aws.region": "eu-west-1",
    "connect.s3.aws.auth.mode": "Default",
}
_KCQL: Final = "INSERT INTO bucket:p SELECT * FROM orders STOREAS `{}` PROPERTIES('store.envelope'=true)"
_LAYOUTS: Final = (
    _OWN | {"output.format": "jsonl", "output.fields": "key,value,headers,offset,timestamp"},
    _OWN | {"output.format": "jsonl", "json.format": "connect"},
    _OWN | {"output.format": "csv"},
    *[_AIVEN | {"format.output.type": "jsonl"}] * 2,
    *[_LENSES | {"connect.s3.kcql": _KCQL.format("JSON")}] * 2,
    # Columns of what has no schema are as wide as its neighbours are.
    _OWN | {"output.format": "avro", "output.fields": "key,value,headers"},
    _LENSES | {"connect.s3.kcql": _KCQL.format("AVRO")},
)
_OF_ROWS: Final = 7
_PREDICATES: Final = {
    "null": {"type": f"{KAFKA}predicates.RecordIsTombstone"},
    "headed": {"type": f"{KAFKA}predicates.HasHeaderKey", "name": "h"},
    "routed": {"type": f"{KAFKA}predicates.TopicNameMatches", "pattern": "x.*"},
}
_CASES: Final = 12


# -- what is drawn -------------------------------------------------------------------------------------------

_LOOSE: Final[tuple[Any, ...]] = (
    *(None, 0, 1, -5, 300, 2**40, 2**63 - 1, 1.5, 1.0, -0.0, 0.0, 1e20, True, False, 1_577_836_800_000),
    *(
        "",
        "x",
        "12",
        "true",
        "é",
        "2020-01-02",
        "NaN",
        [],
        [1, 2],
        [1.0, True],
        {},
        {"q": 1},
        {"r": {"s": "t"}},
    ),
)
_TEXTS: Final = (
    *(
        None,
        b"null",
        b" null ",
        b"{",
        b'"\\u0041"',
        b"1e400",
        b"\xff",
        b'{"a":1,"a":2}',
        b'{"a":1.10,"b":-0.0}',
    ),
    *(b'{"\\u0061":1, "b" : 2}', b'{"a":12345678901234567890123}', b'{"a":{"":1},"":2}'),
)
_KINDS: Final[dict[str, tuple[dict[str, Any], tuple[Any, ...]]]] = {
    "int8": ({"type": "int8"}, (0, 1, -5)),
    "int32": ({"type": "int32"}, (0, 1, -5)),
    "int64": ({"type": "int64"}, (0, 1, 1_577_836_800_000)),
    "float": ({"type": "float"}, (0.0, -0.0, 1.5)),
    "double": ({"type": "double"}, (0.0, -0.0, 1e10)),
    "boolean": ({"type": "boolean"}, (True, False)),
    "string": ({"type": "string"}, ("", "x", "12", "true", "2020-01-02", "NaN", "Infinity")),
    "bytes": ({"type": "bytes"}, ("", "AQI=")),
    "date": ({"type": "int32", "name": f"{_CONNECT}Date", "version": 1}, (0, -3, -3650, 18_000)),
    "time": ({"type": "int32", "name": f"{_CONNECT}Time", "version": 1}, (0, 1, 86_399_999)),
    "moment": (
        {"type": "int64", "name": f"{_CONNECT}Timestamp", "version": 1},
        (0, -86_400_000, -172_800_000),
    ),
    "decimal": (
        {"type": "bytes", "name": f"{_CONNECT}Decimal", "version": 1, "parameters": {"scale": "2"}},
        ("AQ==", "e2g=", "/w=="),
    ),
    "array": ({"type": "array", "items": {"type": "int32", "optional": True}}, ([], [1, None])),
    "map": (
        {"type": "map", "keys": {"type": "string"}, "values": {"type": "int64", "optional": True}},
        ({}, {"k": 1, "l": None}),
    ),
    "struct": ({"type": "struct", "fields": [{"field": "q", "type": "int32"}]}, ({"q": 1}, {"q": 2})),
}
_DEFAULTS: Final = {"int32": 7, "string": "df", "boolean": True, "double": 2.5}


def _loose(draw: Random) -> bytes | None:
    if draw.randrange(10) == 0:
        return draw.choice(_TEXTS)
    names = ["a", "b", "c", "d.e", "d"]
    chosen = names[:4] if draw.randrange(2) else draw.sample(names, draw.randrange(5))
    spaces = draw.choice([(",", ":"), (", ", ": ")])
    return json.dumps({name: draw.choice(_LOOSE) for name in chosen}, separators=spaces).encode()


_Values = dict[str, tuple[Any, ...]]
"""What each field of a schema may have."""


def _schema(draw: Random) -> tuple[dict[str, Any], _Values]:
    fields: list[dict[str, Any]] = []
    values: _Values = {}
    for name in ["a", *draw.sample("bcd", draw.randrange(4))]:
        # Those before 1970 are headers of the same bytes.
        kind = draw.choice(["date", "moment"] if name == "a" and draw.randrange(2) else [*_KINDS])
        shape, values[name] = _KINDS[kind]
        fields.append({"field": name, **shape, "optional": draw.choice([True, False])})
        if fields[-1]["optional"]:
            values[name] += (None,)
        if kind in _DEFAULTS and draw.randrange(4) == 0:
            fields[-1]["default"] = _DEFAULTS[kind]
    whole = {"type": "struct", "optional": draw.choice([True, False]), "name": draw.choice("ST")}
    return {**whole, "fields": fields}, values


def _described(draw: Random, schemas: Sequence[tuple[dict[str, Any], _Values]]) -> bytes | None:
    if draw.randrange(12) == 0:
        return None
    schema, values = draw.choice(schemas)
    payload = {name: draw.choice(each) for name, each in values.items()}
    is_null = schema["optional"] and draw.randrange(6) == 0
    return json.dumps({"schema": schema, "payload": None if is_null else payload}).encode()


def _field(draw: Random) -> str:
    return draw.choice(["a", "a", "a", "b", "c", "d.e", "none"])


_STEPS: Final[dict[str, Callable[[Random], dict[str, str]]]] = {
    "InsertField": lambda draw: {
        **{
            f"{name}.field": draw.choice(["a", "n!", "m?", "none"])
            for name in draw.sample(["topic", "partition", "offset", "timestamp"], 2)
        },
        **draw.choice([{}, {"static.field": _field(draw), "static.value": "12"}]),
    },
    "ReplaceField": lambda draw: draw.choice(
        [{"exclude": _field(draw)}, {"include": "a,b,c"}, {"renames": f"a:{_field(draw)}"}]
    ),
    "ExtractField": lambda draw: {"field": _field(draw)},
    "HoistField": lambda draw: {"field": draw.choice("ab")},
    "ValueToKey": lambda draw: {"fields": draw.choice(["a", "a", "a,b"])},
    "InsertHeader": lambda draw: {
        "header": "h",
        "value.literal": draw.choice(["12", "null", '"12"', "1.50"]),
    },
    "DropHeaders": lambda draw: {"headers": draw.choice("hg")},
    "HeaderFrom": lambda draw: {
        **draw.choice([{"fields": "a", "headers": "h"}] * 2 + [{"fields": "a,b", "headers": "h,g"}]),
        "operation": draw.choice(["move", "copy"]),
    },
    "MaskField": lambda draw: {
        "fields": draw.choice(["a", "a,b"]),
        **draw.choice([{}, {"replacement": "5"}]),
    },
    "Cast": lambda draw: {
        "spec": draw.choice(["a:", "a:", "b:", ""])
        + draw.choice(["int8", "int64", "float64", "boolean", "string"])
    },
    "Flatten": lambda draw: draw.choice([{}, {"delimiter": "_"}]),
    "TimestampConverter": lambda draw: {
        "target.type": draw.choice(["string", "unix", "Date", "Timestamp"]),
        "format": "yyyy-MM-dd",
        "field": _field(draw),
    },
    "RegexRouter": lambda draw: {"regex": "(.*)", "replacement": draw.choice(["x$1", "fixed"])},
    "TimestampRouter": lambda _: {"timestamp.format": "yyyyMM"},
    "SetSchemaMetadata": lambda _: {"schema.name": "N", "schema.version": "4"},
    "Filter": lambda _: {},
}
_WITHOUT_SIDE: Final = frozenset(
    {"ValueToKey", "InsertHeader", "DropHeaders", "RegexRouter", "TimestampRouter", "Filter"}
)


def _step(draw: Random) -> dict[str, str]:
    if draw.randrange(10) == 0:
        target = draw.choice(["string", "unix", "Date", "Timestamp"])
        times = {"header.name": "h", "field": draw.choice(["_timestamp", "_value.a"]), "target.type": target}
        return {"type": f"{LENSES}TimestampConverter", "format.to.pattern": "yyyy", **times}
    name = draw.choice([*_STEPS, *["HeaderFrom"] * 4])
    side = "" if name in _WITHOUT_SIDE else draw.choice(["$Value"] * 4 + ["$Key"])
    step = {"type": f"{KAFKA}{name}{side}", **_STEPS[name](draw)}
    if name == "Filter" or draw.randrange(5) < 2:
        step |= {"predicate": draw.choice([*_PREDICATES]), "negate": draw.choice(["true", "false"])}
    return step


def _settings(
    draw: Random, layouts: Sequence[dict[str, str]], converters: Mapping[str, str]
) -> SinkSettings | None:
    """A sink's; None where what was drawn does not fit together."""
    options = {
        **draw.choice(layouts),
        "behavior.on.null.values": draw.choice(["write", "ignore", "fail"]),
        **converters,
        **chain(*(_step(draw) for _ in range(draw.choice([1, 1, 2, 3]))), predicates=_PREDICATES),
    }
    if "connector.class" in options:
        del options["behavior.on.null.values"]
    try:
        return load(json.dumps(options), kind="json", environment={"HOME": "/x"}, read_file=str).sink
    except SettingsError:
        return None


def _records(
    draw: Random, value: Callable[[], bytes | None], key: Callable[[], bytes | None]
) -> KafkaRecords:
    some_headers: tuple[Headers, ...] = ((), (("h", b"1"),), (("h", None), ("g", b"{}")))
    times = (-1, 0, 1_577_836_800_000, 1_580_836_800_000)
    return kafka_records(
        [
            (value(), key() if draw.randrange(5) else None, draw.choice(some_headers), draw.choice(times))
            for _ in range(6)
        ]
    )


_AVRO: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "int": ("int", (0, 1, -5)),
    "long": ("long", (0, 1_577_836_800_000)),
    "float": ("float", (0.0, 1.5)),
    "double": ("double", (0.0, -0.0, float("nan"), float("inf"), float("-inf"))),
    "boolean": ("boolean", (True, False)),
    "string": ("string", ("", "x", "12", "2020-01-02")),
    "bytes": ("bytes", (b"", b"\x01\xff")),
    "date": ({"type": "int", "logicalType": "date"}, (0, -3, -3650, 18_000)),
    "moment": ({"type": "long", "logicalType": "timestamp-millis"}, (0, -86_400_000, -172_800_000)),
    "micros": ({"type": "long", "logicalType": "timestamp-micros"}, (0, 1, -86_400_000_001)),
    "time": ({"type": "int", "logicalType": "time-millis"}, (0, 1)),
    "array": ({"type": "array", "items": ["null", "int"]}, ([], [1, None])),
    "map": ({"type": "map", "values": "long"}, ({}, {"k": 1})),
    # Such have no columns.
    "union": (["int", "string"], (1, "x")),
}


def _avro_schema(draw: Random) -> tuple[dict[str, Any], _Values]:
    fields: list[dict[str, Any]] = []
    values: _Values = {}
    for name in ["a", *draw.sample("bcd", draw.randrange(4))]:
        shape, values[name] = _AVRO[draw.choice([*_AVRO])]
        if draw.randrange(2):
            shape = ["null", *(shape if isinstance(shape, list) else [shape])]
            values[name] += (None,)
        fields.append({"name": name, "type": shape})
    return {"type": "record", "name": "R", "fields": fields}, values


def _avro_value(
    draw: Random, served: RegistrySettings, schemas: Sequence[tuple[dict[str, Any], _Values]]
) -> bytes | None:
    if draw.randrange(8) == 0:
        return draw.choice([None, None, b"", b"\x00", b"\x00\x00\x00\xff\xff\x02"])
    schema, values = draw.choice(schemas)
    # Numbers of days and of ms are data as they are.
    plain = json.loads(json.dumps(schema), object_hook=lambda each: {**each, "logicalType": None})
    found = {name: draw.choice(each) for name, each in values.items()}
    return frame(served, "orders-value", json.dumps(schema)) + datum(plain, found)


# -- what becomes of it --------------------------------------------------------------------------------------


def _outcome(sink: SinkSettings, records: KafkaRecords) -> tuple[dict[int, Any], int]:
    """The row of each record with its topic, or its fault; and how many were ignored."""
    conversion = sink_records(sink, lambda: NOW_MS).convert(records)
    found: dict[int, Any] = {}
    for fault in conversion.faults:
        assert fault.offset not in found
        found[fault.offset] = (fault.reason, fault.message, fault.stage)
    for run in conversion.runs:
        encoder = new_encoder(sink.output, schema_of(sink.output, run))
        encoder.add(run)
        rows = list(_rows(sink.output.format, encoder.drain() + encoder.finish()))
        assert len(rows) == len(run)
        for offset, row in zip(run.records.offsets.tolist(), rows, strict=True):
            assert offset not in found
            found[offset] = (run.records.topic, row)
    return found, conversion.ignored


def _rows(form: OutputFormat, content: bytes) -> Iterator[Any]:
    if form is not OutputFormat.AVRO:
        # The first line of csv is its header.
        yield from content.splitlines()[form is OutputFormat.CSV :]
        return
    for row in fastavro.reader(io.BytesIO(content)):
        # What is null without a schema has no column.
        shown: Mapping[str, Any] = row if isinstance(row, dict) else {"row": row}
        yield repr({name: value for name, value in shown.items() if value is not None})


def _compare(sink_of: Callable[[], SinkSettings | None], records_of: Callable[[], KafkaRecords]) -> None:
    """Together each record becomes what it becomes alone, with the same faults, of the same words."""
    tried, rows = 0, 0
    while tried < _CASES:
        sink = sink_of()
        if sink is None:
            continue
        tried += 1
        records = records_of()
        together, ignored = _outcome(sink, records)
        alone: dict[int, Any] = {}
        ignored_alone = 0
        for row in range(len(records)):
            found, count = _outcome(sink, records.take(slice(row, row + 1)))
            alone |= found
            ignored_alone += count
        assert (together, ignored) == (alone, ignored_alone), sink.transforms
        rows += sum(len(each) == 2 for each in together.values())
    assert rows > tried


_SEEDS: Final = [*range(4), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(4, 100))]


@pytest.mark.parametrize("described", [True, False])
@pytest.mark.parametrize("seed", _SEEDS)
def test_json_becomes_together_what_it_becomes_alone(seed: int, described: bool) -> None:
    """With schemas next to it, and without."""
    draw = Random(f"chains:{seed}:{described}")
    converters = {
        f"{which}.converter{option}": each
        for which in ("key", "value")
        for option, each in (("", JSON), (".schemas.enable", str(described).lower()))
    }

    def records() -> KafkaRecords:
        schemas = [_schema(draw) for _ in range(draw.choice([1, 1, 2]))]
        text = (lambda: _described(draw, schemas)) if described else (lambda: _loose(draw))
        return _records(draw, text, text)

    _compare(lambda: _settings(draw, _LAYOUTS if described else _LAYOUTS[:_OF_ROWS], converters), records)


@pytest.mark.parametrize("seed", _SEEDS)
def test_avro_becomes_together_what_it_becomes_alone(seed: int) -> None:
    """Of a registry: a tombstone that is fetched alone has no schema."""
    draw, served = Random(f"chains:{seed}:avro"), registry()
    converters = {
        "key.converter": f"{_STORAGE}StringConverter",
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": served.urls[0],
    }

    def records() -> KafkaRecords:
        schemas = [_avro_schema(draw) for _ in range(draw.choice([1, 1, 2]))]
        return _records(draw, lambda: _avro_value(draw, served, schemas), lambda: draw.choice([b"", b"k"]))

    def settings() -> SinkSettings | None:
        sink = _settings(draw, _LAYOUTS, converters)
        steps = () if sink is None else sink.transforms.steps
        # Among values whose schema takes no null, a tombstone is a bad record in the field that it becomes.
        return None if any(isinstance(step.transform, HoistField) for step in steps) else sink

    _compare(settings, records)
