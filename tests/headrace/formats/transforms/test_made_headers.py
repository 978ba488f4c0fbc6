"""Headers that transforms make: they keep value and type, whatever `header.converter` says."""

import io
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import fastavro
import pytest

from headrace.conversion.encoders import new_encoder
from headrace.conversion.sink_records import sink_records
from headrace.formats.connect.values import ConnectValue
from headrace.formats.converted_records import MadeHeader, header_reader
from headrace.formats.encoding import schema_of
from headrace.model.columns import Headers
from headrace.options.sink_settings import ConverterKind
from headrace.vendors.load import load
from tests.headrace.formats.transforms.transformed import JSON, KAFKA, LENSES, NOW_MS, chain, kafka_records

_STORAGE: Final = "org.apache.kafka.connect.storage."
_CONVERTERS: Final = "org.apache.kafka.connect.converters."
_ANY: Final = {
    "name": "archive",
    "bootstrap.servers": "127.0.0.1:9092",
    "topics": "orders",
    "key.converter": f"{_STORAGE}StringConverter",
    "value.converter": JSON,
    "value.converter.schemas.enable": "false",
}
_AIVEN: Final = {
    **_ANY,
    "connector.class": "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
    "aws.s3.bucket.name": "bucket",
    "aws.s3.region": "eu-west-1",
    "format.output.type": "jsonl",
    "format.output.fields": "key,value,headers",
    "format.output.fields.value.encoding": "none",
    "file.compression.type": "none",
}
_LENSES: Final = {
    **_ANY,
    "connector.class": "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector",
    "connect.s3.aws.region": "eu-west-1",
    "connect.s3.aws.auth.mode": "Default",
}
_CLASSES: Final = (
    None,
    JSON,
    f"{_CONVERTERS}LongConverter",
    f"{_CONVERTERS}ByteArrayConverter",
    f"{_STORAGE}StringConverter",
)


def _encoded(options: Mapping[str, str], *values: Any, headers: Headers = ()) -> list[bytes]:
    """The bytes of the object of each schema that records come into; no fault was found."""
    settings = load(json.dumps(options), kind="json", environment={"HOME": "/x"}, read_file=str).sink
    assert settings is not None
    records = kafka_records([(json.dumps(value).encode(), b"k", headers, NOW_MS) for value in values])
    conversion = sink_records(settings, lambda: NOW_MS).convert(records)
    assert conversion.faults == ()
    found = []
    for run in conversion.runs:
        encoder = new_encoder(settings.output, schema_of(settings.output, run))
        encoder.add(run)
        found.append(encoder.drain() + encoder.finish())
    return found


def _lenses(output: str) -> dict[str, str]:
    statement = "INSERT INTO bucket:p SELECT * FROM orders STOREAS `{}` PROPERTIES('store.envelope'=true)"
    return {**_LENSES, "connect.s3.kcql": statement.format(output)}


def _aiven(step: Mapping[str, str], value: Any, converter: str | None, headers: Headers = ()) -> list[Any]:
    options = _AIVEN if converter is None else {**_AIVEN, "header.converter": converter}
    (row,) = _encoded({**options, **chain(step)}, value, headers=headers)
    return [each["value"] for each in json.loads(row)["headers"]]


def _from(field: str) -> dict[str, str]:
    return {"type": f"{KAFKA}HeaderFrom$Value", "fields": field, "headers": field, "operation": "copy"}


def _literal(text: str) -> dict[str, str]:
    return {"type": f"{KAFKA}InsertHeader", "header": "h", "value.literal": text}


_VALUES: Final[tuple[Any, ...]] = (
    "007",
    "null",
    "true",
    "1.50",
    "2020-01-01",
    "",
    17,
    2.5,
    True,
    None,
    {"a": ["12", 1.5, None]},
    ["2020-01-01", "x"],
)


@pytest.mark.parametrize("converter", _CLASSES)
def test_fields_stay_what_they_are(converter: str | None) -> None:
    """Texts stay texts, and no converter of headers reads them."""
    for value in _VALUES:
        assert _aiven(_from("f"), {"f": value}, converter) == [value]


@pytest.mark.parametrize(
    ("literal", "value"),
    [("abc", "abc"), ("007", 7), ('"007"', "007"), ("true", True), ('"null"', "null"), ("null", None)],
)
@pytest.mark.parametrize("converter", _CLASSES)
def test_a_literal_is_what_connect_reads(literal: str, value: Any, converter: str | None) -> None:
    """Quotes make a text of it."""
    assert _aiven(_literal(literal), {}, converter) == [value]


def test_headers_of_kafka_are_read_by_the_converter() -> None:
    """Next to one that was made of the same bytes."""
    assert _aiven(_from("f"), {"f": "7"}, None, (("k", b"7"),)) == [7, "7"]


@pytest.mark.parametrize(
    ("target", "value"),
    [
        ({"target.type": "string", "format.to.pattern": "yyyy"}, "2023"),
        ({"target.type": "unix"}, NOW_MS),
        ({"target.type": "Date"}, NOW_MS // 86_400_000),
        ({"target.type": "Time"}, NOW_MS % 86_400_000),
        ({"target.type": "Timestamp"}, NOW_MS),
    ],
)
def test_times_of_lenses_have_the_type_that_is_asked_for(target: dict[str, str], value: Any) -> None:
    """A year is a text there, and is none of Connect's numbers."""
    step = {"type": f"{LENSES}TimestampConverter", "header.name": "h", "field": "_timestamp", **target}
    (row,) = _encoded({**_lenses("JSON"), **chain(step)}, {})
    assert json.loads(row)["headers"] == {"h": value}


@pytest.mark.parametrize(
    ("kind", "options", "found"),
    [
        (
            "InsertRecordTimestampHeaders",
            {},
            ["2023", "11", "14", "22", "13", "20", "2023-11-14"],
        ),
        (
            "InsertRecordTimestampHeaders",
            {"timezone": "Asia/Tokyo", "year.format": "yy", "date.format": "EEE", "locale": "en"},
            ["23", "11", "15", "07", "13", "20", "Wed"],
        ),
        (
            "InsertRecordTimestampHeaders",
            {"year.format": "", "timezone": ""},
            ["", "11", "14", "22", "13", "20", "2023-11-14"],
        ),
        (
            "InsertRollingRecordTimestampHeaders",
            {},
            ["2023", "11", "14", "22", "00", "00", "2023-11-14"],
        ),
        (
            "InsertRollingRecordTimestampHeaders",
            {"rolling.window.type": "HOURS", "rolling.window.size": "12", "timezone": "+05:30"},
            ["2023", "11", "14", "17", "30", "00", "2023-11-14"],
        ),
        (
            "InsertRollingRecordTimestampHeaders",
            {"rolling.window.type": "minutes", "rolling.window.size": "7"},
            ["2023", "11", "14", "22", "13", "00", "2023-11-14"],
        ),
    ],
)
def test_a_records_time_as_headers(kind: str, options: dict[str, str], found: list[str]) -> None:
    """By which Lenses' page partitions: windows are of the time since 1970, and not of the hour."""
    step = {"type": LENSES + kind, "header.prefix.name": "at_", **options}
    (row,) = _encoded({**_lenses("JSON"), **chain(step)}, {})

    names = ["year", "month", "day", "hour", "minute", "second", "date"]
    headers = json.loads(row)["headers"]
    assert headers == {f"at_{name}": text for name, text in zip(names, found, strict=True)}
    assert list(headers) == [f"at_{name}" for name in names]


def test_a_record_without_a_time_is_refused() -> None:
    """The clock would give it another one each time it is read."""
    options = {**_lenses("JSON"), **chain({"type": f"{LENSES}InsertRecordTimestampHeaders"})}
    settings = load(json.dumps(options), kind="json", environment={"HOME": "/x"}, read_file=str).sink
    assert settings is not None
    rows = kafka_records([(b"{}", b"k", (), time) for time in (-1, NOW_MS)])

    found = sink_records(settings, lambda: NOW_MS).convert(rows)

    assert [len(run) for run in found.runs] == [1]
    (fault,) = found.faults
    assert "the record has no time" in str(fault)


def test_the_wall_clock_is_a_text() -> None:
    """Also as milliseconds, as Lenses has it."""
    step = {"type": f"{LENSES}InsertWallclock", "header.name": "h", "value.type": "epoch"}
    assert _aiven(step, {}, None) == [str(NOW_MS)]


def test_texts_are_of_one_schema() -> None:
    """In a columnar envelope each of another type would begin an object of its own."""
    options = {**_lenses("AVRO"), **chain(_from("f"))}
    settings = load(json.dumps(options), kind="json", environment={"HOME": "/x"}, read_file=str).sink
    assert settings is not None
    texts = ("12", "A7", "300", "true", "")
    rows = kafka_records([(json.dumps({"f": text}).encode(), b"k", (), NOW_MS) for text in texts])
    (run,) = sink_records(settings, lambda: NOW_MS).convert(rows).runs
    assert len(run) == len(texts)


def test_a_made_header_equals_no_bytes() -> None:
    """What is read once of equal values is never that of the other."""
    made = MadeHeader.of(b"7", header_reader(ConverterKind.STRING)(b"7"))
    read = header_reader(ConverterKind.SIMPLE)
    assert [read(b"7").value, read(made).value, read(b"7").value] == [7, "7", 7]
    assert made != b"7"
    assert {b"7": 1}.get(made) is None
    assert made == MadeHeader.of(b"7", made.found)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, True),
        (0.0, -0.0),
        (Decimal("1.0"), Decimal("1.00")),
        ([0], [False]),
        (((1, 0),), ((1, -0.0),)),
    ],
)
def test_equal_numbers_that_are_written_differently_are_no_equal_headers(one: Any, other: Any) -> None:
    """Those that are written alike are, though no NaN equals another."""
    assert one == other
    first, second = (MadeHeader.of(b"null", ConnectValue(None, each)) for each in (one, other))
    assert first != second
    assert len({first, second, MadeHeader.of(b"null", ConnectValue(None, one))}) == 2
    nans = [MadeHeader.of(b"null", ConnectValue(None, float("nan"))) for _ in range(2)]
    assert len(set(nans)) == 1


_DAYS: Final = {"type": "int32", "name": "org.apache.kafka.connect.data.Date", "version": 1}
_MOMENTS: Final = {"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp", "version": 1}
_CAST: Final = {"type": f"{KAFKA}Cast$Value", "spec": "f:float64"}
_SAME_BYTES: Final[tuple[tuple[dict[str, Any], list[Any], list[dict[str, str]]], ...]] = (
    (_DAYS, [-3650, -7300, 0], []),
    (_MOMENTS, [-86_400_000, -172_800_000], []),
    ({"type": "string"}, ["NaN", "Infinity", "-Infinity"], [_CAST]),
)


def _shown(objects: list[bytes], output: str) -> list[Any]:
    """The value of the header of each record; one of Avro as the text of what its reader gives."""
    if output == "AVRO":
        rows: list[Any] = [row for each in objects for row in fastavro.reader(io.BytesIO(each))]
        return [str(row["headers"]["f"]) for row in rows]
    rows = [json.loads(line) for each in objects for line in each.splitlines()]
    return [row["headers"]["f"] if output == "JSON" else row["headers"][0]["value"] for row in rows]


@pytest.mark.parametrize("output", ["AIVEN", "JSON", "AVRO"])
@pytest.mark.parametrize(("schema", "payloads", "steps"), _SAME_BYTES)
def test_headers_of_the_same_bytes_keep_their_own_values(
    output: str, schema: dict[str, Any], payloads: list[Any], steps: list[dict[str, str]]
) -> None:
    """In one fetch, and in fetches that follow each other: Connect shows no day before 1970-01-02."""
    options = _AIVEN if output == "AIVEN" else _lenses(output)
    options = {**options, "value.converter.schemas.enable": "true", **chain(*steps, _from("f"))}
    values = [
        {"schema": {"type": "struct", "fields": [{**schema, "field": "f"}]}, "payload": {"f": payload}}
        for payload in payloads
    ]
    together = _shown(_encoded(options, *values), output)
    assert together == [each for value in values for each in _shown(_encoded(options, value), output)]
    assert len(set(together)) == len(payloads)
    if output != "AVRO":
        assert together == payloads


@pytest.mark.parametrize(
    ("schema", "payload", "shown"),
    [
        ({"type": "int32"}, 7, 7),
        ({"type": "int32", "optional": True}, None, None),
        ({"type": "string"}, "007", "007"),
        ({"type": "float"}, 1.5, 1.5),
        ({"type": "bytes"}, "AAE=", "AAE="),
        ({"type": "int32", "name": "org.apache.kafka.connect.data.Date", "version": 1}, 18262, 18262),
        ({"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp", "version": 1}, 5, 5),
        ({"type": "array", "items": {"type": "string"}}, ["1", "x"], ["1", "x"]),
        (
            {"type": "struct", "fields": [{"field": "a", "type": "string"}], "optional": True},
            {"a": "1"},
            {"a": "1"},
        ),
        (
            {
                "type": "bytes",
                "name": "org.apache.kafka.connect.data.Decimal",
                "version": 1,
                "parameters": {"scale": "2"},
            },
            "AAEC",
            "AQI=",
        ),
    ],
)
def test_fields_of_a_schema_keep_it(schema: dict[str, Any], payload: Any, shown: Any) -> None:
    """Also with a converter of headers that reads none of these."""
    value = {
        "schema": {"type": "struct", "fields": [{**schema, "field": "f"}]},
        "payload": {"f": payload},
    }
    options = {**_AIVEN, "value.converter.schemas.enable": "true", **chain(_from("f"))}
    (row,) = _encoded({**options, "header.converter": f"{_CONVERTERS}LongConverter"}, value)
    assert [each["value"] for each in json.loads(row)["headers"]] == [shown]
