"""An object as a sink would write it, from a record of its topic, or from what the registry knows."""

import csv
import io
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaException, TopicPartition

from headrace.conversion.sink_records import sink_records
from headrace.formats.converted_records import ConvertedRecords, RecordFault
from headrace.formats.records.registry_connection import registry_client, registry_errors
from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.kafka_clients import new_consumer
from headrace.kafka.kafka_errors import translate
from headrace.model.clock import wall_ms
from headrace.model.columns import NO_TIMESTAMP, TIMESTAMP_CREATED, KafkaRecords, column_of
from headrace.model.errors import InvalidConfiguration, Unavailable
from headrace.model.text_formatting import counted
from headrace.options import Settings
from headrace.options.choices import Compression
from headrace.options.schema_settings import GlueSettings, RegistrySettings
from headrace.options.sink_settings import ConverterKind, OutputFormat, SinkSettings
from ingest.checks.athena import NotQueryable, SampleObject
from spark.sink.object_keys import ObjectFacts
from spark.sink.object_shape import MAIN, ObjectShapes

_SECONDS: Final = 20.0
_RECORDS: Final = 20
_NO_SUBJECT: Final = frozenset({40401, 40403, 404})
_TEXTS: Final = frozenset({OutputFormat.JSONL, OutputFormat.CSV, OutputFormat.TEXT, OutputFormat.JSON})
_NO_RECORDS: Final = (
    "The topic {topic!r} has no records, and nothing else tells the columns: give one with --record, such as "
    '\'{{"key":"k","value":{{"n":1}}}}\'.'
)


def sample_object(settings: Settings, records: Sequence[KafkaRecords]) -> SampleObject:
    """The object that these records would make, whole; NotQueryable where they make none.

    Text formats are not compressed here, though the name is as if they were.
    """
    assert settings.sink is not None, "a source writes no objects"
    sink = settings.sink
    shapes, converter = ObjectShapes(sink), sink_records(sink)
    plain, named = ObjectShapes(_plain(sink)), ObjectShapes(_named(sink))
    bodies: list[bytes] = []
    head, names, key = b"", b"", ""
    faults: list[RecordFault] = []
    for each in records:
        conversion = converter.convert(each)
        faults += conversion.faults
        for run in conversion.runs:
            groups = shapes.split(run)
            faults += groups.faults
            for part in groups.parts:
                rows = run if part.rows is None else run.take(part.rows)
                if shapes.of(part.group) is not shapes.values:
                    continue
                head, body = _written(plain, rows)
                names, _ = _written(named, rows)
                bodies.append(body)
                key = key or _key(shapes, part.group, rows)
    if not bodies:
        why = faults[0].message if faults else "every one is left out"
        raise NotQueryable(f"No record of the sample comes into an object: {why}.")
    # Of binary formats one object tells all; lines of several are the lines of one.
    body = b"\n".join(bodies) if sink.output.format in _TEXTS else bodies[-1]
    return SampleObject(key=key, body=body, head=head, csv_names=_csv_names(sink, names))


def _written(shapes: ObjectShapes, rows: ConvertedRecords) -> tuple[bytes, bytes]:
    """What such an object begins with, and the whole of one."""
    shape = shapes.values
    schema = shape.schema_of(rows)
    head = shape.encoder(MAIN, schema).finish()
    encoder = shape.encoder(MAIN, schema)
    encoder.add(rows)
    drained: bytes = encoder.drain()
    return head, drained + encoder.finish()


def _key(shapes: ObjectShapes, group: str, rows: ConvertedRecords) -> str:
    names, called = shapes.names(group)
    first = rows.records.first_offset
    moment = int(rows.records.timestamps_ms[0])
    return names.key(
        ObjectFacts(
            topic=rows.records.topic,
            partition=rows.records.partition,
            group=called,
            first_offset=first,
            last_offset=first,
            opened_ms=wall_ms(),
            batch_offset=first,
            first_time_ms=moment,
            least_timestamp_ms=moment,
            greatest_timestamp_ms=moment,
        )
    )


def _plain(sink: SinkSettings) -> SinkSettings:
    if sink.output.format not in _TEXTS:
        return sink
    return replace(sink, output=replace(sink.output, compression=Compression.NONE))


def _named(sink: SinkSettings) -> SinkSettings:
    """The same with a line of names at the top of csv, whether it is to be written or not."""
    plain = _plain(sink)
    return replace(plain, output=replace(plain.output, csv=replace(plain.output.csv, header=True)))


def _csv_names(sink: SinkSettings, line: bytes) -> tuple[str, ...]:
    """The columns of csv."""
    if sink.output.format is not OutputFormat.CSV:
        return ()
    if not line:
        return tuple(str(each) for each in sink.output.fields)
    separator = sink.output.csv.delimiter.decode()
    return tuple(next(csv.reader([line.decode().strip("\r\n")], delimiter=separator)))


# -- where records come from ---------------------------------------------------------------------------------


def read_newest(settings: Settings, topic: str, partitions: int) -> list[KafkaRecords]:
    """The last records of a topic's partitions, some of each. Blocks; Unavailable, AccessDenied."""
    what = f"{topic} could not be read"
    ours = {
        # Nothing is committed and no member joins; librdkafka wants a name.
        "group.id": f"{settings.name}-athena",
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "enable.partition.eof": "true",
    }
    consumer = new_consumer(settings.kafka.client("consumer"), ours)
    try:
        return [
            found
            for partition in range(partitions)
            if (found := _last_of(consumer, topic, partition)) is not None
        ]
    except KafkaException as error:
        raise translate(error, what=what) from error
    finally:
        consumer.close()


def _last_of(consumer: Consumer, topic: str, partition: int) -> KafkaRecords | None:
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_SECONDS)
    begin = max(low, high - _RECORDS)
    messages: list[Any] = []
    if begin < high:
        consumer.assign([TopicPartition(topic, partition, begin)])
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is not None and message.error() is not None:
                # The end of the partition, behind markers of transactions too.
                break
            if message is not None:
                messages.append(message)
    return _records(topic, partition, messages) if messages else None


def _records(topic: str, partition: int, messages: Sequence[Any]) -> KafkaRecords:
    headers = [tuple(message.headers() or ()) for message in messages]
    return KafkaRecords(
        topic=topic,
        partition=partition,
        offsets=np.array([message.offset() for message in messages], np.int64),
        timestamps_ms=np.array([message.timestamp()[1] for message in messages], np.int64),
        timestamp_types=np.array([message.timestamp()[0] for message in messages], np.int64),
        keys=column_of([message.key() for message in messages]),
        values=column_of([message.value() for message in messages]),
        headers=headers if any(headers) else None,
    )


def registered_records(settings: Settings, topic: str) -> list[KafkaRecords]:
    """Records that the newest schemas of a topic's values and keys allow; none where no registry has any."""
    assert settings.sink is not None, "a source reads no topics"
    converters = settings.sink.converters
    values = _registered(converters.value.registry, converters.value.kind, f"{topic}-value")
    if not values:
        return []
    keys = _registered(converters.key.registry, converters.key.kind, f"{topic}-key") or [b'"k"'] * len(values)
    count = len(values)
    return [
        KafkaRecords(
            topic=topic,
            partition=0,
            offsets=np.arange(count, dtype=np.int64),
            timestamps_ms=np.full(count, wall_ms(), np.int64),
            timestamp_types=np.full(count, TIMESTAMP_CREATED, np.int64),
            keys=column_of(keys),
            values=column_of(values),
        )
    ]


def _registered(
    registry: RegistrySettings | GlueSettings | None, kind: ConverterKind, subject: str
) -> list[bytes]:
    if kind is not ConverterKind.AVRO or not isinstance(registry, RegistrySettings):
        return []
    from confluent_kafka.schema_registry.error import SchemaRegistryError

    with registry_errors("let it read the schemas"):
        try:
            found = registry_client(registry).get_latest_version(subject)
        except SchemaRegistryError as error:
            if error.error_code in _NO_SUBJECT:
                return []
            raise
    frame = b"\x00" + int(found.schema_id).to_bytes(4, "big")
    return [frame + datum for datum in _data(json.loads(found.schema.schema_str))]


def _data(schema: Any) -> Iterator[bytes]:
    """Encoded data of a schema, each branch of its unions in some."""
    import fastavro
    from fastavro.utils import generate_many

    parsed = fastavro.parse_schema(schema)
    for datum in generate_many(parsed, _RECORDS):
        with io.BytesIO() as out:
            fastavro.schemaless_writer(out, parsed, datum)
            yield out.getvalue()


def no_records(topic: str) -> NotQueryable:
    """What to say where nothing tells the columns."""
    return NotQueryable(_NO_RECORDS.format(topic=topic))


def read_record(settings: Settings, topic: str, partition: int, offset: int) -> KafkaRecords:
    """The record at the offset, or the first after it. Blocks.

    TopicMissing; InvalidConfiguration where the topic lacks that partition or offset; Unavailable when there
    is none.
    """
    sink = settings.sink
    count = KafkaAdmin(settings.kafka.client("admin")).partition_count(topic)
    if partition >= count:
        raise InvalidConfiguration(
            f"--partition {partition}: topic {topic!r} has {counted(count, 'partition')}, from 0 on."
        )
    what = f"{topic}-{partition} could not be read at offset {offset}"
    ours = {
        # Nothing is committed and no member joins; librdkafka wants a name.
        "group.id": f"{settings.name}-explain",
        "isolation.level": "read_committed" if sink is None else sink.reading.isolation,
        "auto.offset.reset": "error",
    }
    consumer = new_consumer(settings.kafka.client("consumer"), ours)
    try:
        first, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_SECONDS)
        if not first <= offset < end:
            has = f"has offsets {first} to {end - 1}" if first < end else "is empty"
            raise InvalidConfiguration(f"--offset {offset}: {topic}-{partition} {has}.")
        consumer.assign([TopicPartition(topic, partition, offset)])
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if (error := message.error()) is not None:
                raise translate(KafkaException(error), what=what)
            kind, timestamp = message.timestamp()
            headers: Any = message.headers() or ()
            return KafkaRecords(
                topic=topic,
                partition=partition,
                offsets=np.array([message.offset()], np.int64),
                timestamps_ms=np.array(
                    [NO_TIMESTAMP if kind == TIMESTAMP_NOT_AVAILABLE else timestamp], np.int64
                ),
                timestamp_types=np.array([kind], np.int64),
                keys=column_of([message.key()]),
                values=column_of([message.value()]),
                headers=[tuple(headers)] if headers else None,
            )
    except KafkaException as error:
        raise translate(error, what=what) from error
    finally:
        consumer.close()
    raise Unavailable(f"{what}: no record came in {_SECONDS:.0f} s. Choose an offset that the topic has.")
