"""What a sink's transforms make of records, for tables: options and records in, plain rows out."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from headrace.conversion.sink_records import sink_records
from headrace.formats.converted_records import Conversion, ConvertedColumn, Form
from headrace.model.columns import TIMESTAMP_CREATED, Headers, KafkaRecords, column_of
from headrace.options.sink_settings import SinkSettings
from headrace.vendors.load import load

KAFKA: Final = "org.apache.kafka.connect.transforms."
LENSES: Final = "io.lenses.connect.smt.header."
JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
NOW_MS: Final = 1_700_000_000_000

_COMPLETE: Final = {
    "name": "archive",
    "bootstrap.servers": "127.0.0.1:9092",
    "aws.s3.bucket.name": "bucket",
    "topics": "orders",
}
SCHEMALESS: Final = {
    "key.converter": JSON,
    "key.converter.schemas.enable": "false",
    "value.converter": JSON,
    "value.converter.schemas.enable": "false",
}
WITH_SCHEMA: Final = {
    "value.converter": JSON,
    "value.converter.schemas.enable": "true",
    "json.format": "connect",
}


class Row(NamedTuple):
    """A record before or behind its transforms; `value` and `key` as Python values of their JSON."""

    value: Any
    key: Any = None
    headers: Headers = ()
    time: int = 1_577_836_800_000
    topic: str = "orders"


def chain(
    *steps: Mapping[str, str], predicates: Mapping[str, Mapping[str, str]] | None = None
) -> dict[str, str]:
    """The options of a chain of steps with the aliases t0, t1 and so on."""
    found = {"transforms": ",".join(f"t{number}" for number in range(len(steps)))}
    for number, step in enumerate(steps):
        found |= {f"transforms.t{number}.{name}": text for name, text in step.items()}
    if predicates:
        found["predicates"] = ",".join(predicates)
        for alias, options in predicates.items():
            found |= {f"predicates.{alias}.{name}": text for name, text in options.items()}
    return found


def sink_of(options: Mapping[str, str]) -> SinkSettings:
    """The settings of a sink of the topic orders with these options."""
    settings = load(
        json.dumps({**_COMPLETE, **options}),
        kind="json",
        environment={"HOME": "/home/me"},
        read_file=_no_file,
    )
    assert settings.sink is not None
    return settings.sink


def kafka_records(
    rows: Sequence[tuple[bytes | None, bytes | None, Headers, int]], topic: str = "orders"
) -> KafkaRecords:
    """Records of the topic's partition 3 from offset 10 on: value, key, headers, time of each."""
    return KafkaRecords(
        topic=topic,
        partition=3,
        offsets=np.arange(10, 10 + len(rows), dtype=np.int64),
        timestamps_ms=np.array([row[3] for row in rows], np.int64),
        timestamp_types=np.full(len(rows), TIMESTAMP_CREATED, np.int64),
        keys=column_of([row[1] for row in rows]),
        values=column_of([row[0] for row in rows]),
        headers=[row[2] for row in rows] if any(row[2] for row in rows) else None,
    )


def converted(options: Mapping[str, str], rows: Sequence[Row | Any]) -> Conversion:
    """What becomes of records; a row that is no Row is a value."""
    given = [row if isinstance(row, Row) else Row(row) for row in rows]
    records = kafka_records(
        [(_json(row.value), _json(row.key), row.headers, row.time) for row in given], given[0].topic
    )
    return sink_records(sink_of(options), lambda: NOW_MS).convert(records)


def transformed(options: Mapping[str, str], rows: Sequence[Row | Any]) -> list[Row]:
    """The records behind their transforms, in the order of offsets; no fault was found."""
    conversion = converted(options, rows)
    assert conversion.faults == ()
    found: dict[int, Row] = {}
    for run in conversion.runs:
        headers = run.records.headers or [()] * len(run)
        values, keys = plain(run.value), plain(run.key)
        for row, offset in enumerate(run.records.offsets.tolist()):
            time = int(run.records.timestamps_ms[row])
            found[offset] = Row(values[row], keys[row], written(headers[row]), time, run.records.topic)
    return [found[offset] for offset in sorted(found)]


def written(headers: Headers) -> Headers:
    """Their bytes alone: a header that a transform made equals no bytes."""
    return tuple((name, None if value is None else bytes(value)) for name, value in headers)


def values(options: Mapping[str, str], rows: Sequence[Row | Any]) -> list[Any]:
    """The values alone."""
    return [row.value for row in transformed(options, rows)]


def refusals(options: Mapping[str, str], rows: Sequence[Row | Any]) -> list[str]:
    """The sentences about the records that are refused."""
    faults = converted(options, rows).faults
    assert {fault.reason for fault in faults} <= {"transform_refused"}
    return [fault.message for fault in faults]


def plain(column: ConvertedColumn) -> list[Any]:
    """Each value of a column as Python has it."""
    texts = column.texts()
    found = list(texts.each(0, len(texts)))
    if column.form is Form.BYTES:
        return found
    if column.form is Form.TEXT:
        return [None if text is None else text.decode() for text in found]
    return [None if text is None else json.loads(text) for text in found]


def _json(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return json.dumps(value, separators=(",", ":")).encode()


def _no_file(path: str) -> str:
    raise FileNotFoundError(2, "No such file or directory", path)
