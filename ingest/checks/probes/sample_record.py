"""One record of a topic, read without a group."""

import time
from typing import Any, Final

import numpy as np
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaException, TopicPartition

from headrace.kafka.kafka_clients import new_consumer
from headrace.kafka.kafka_errors import translate
from headrace.model.columns import column_of
from headrace.model.errors import Unavailable
from headrace.model.kafka_records import NO_TIMESTAMP, KafkaRecords
from headrace.options import Settings

_SECONDS: Final = 20.0


def read_record(settings: Settings, topic: str, partition: int, offset: int) -> KafkaRecords:
    """The record at the offset, or the first after it. Blocks; Unavailable when there is none."""
    sink = settings.sink
    what = f"{topic}-{partition} could not be read at offset {offset}"
    ours = {
        # Nothing is committed and no member joins; librdkafka wants a name.
        "group.id": f"{settings.name}-explain",
        "isolation.level": "read_committed" if sink is None else sink.reading.isolation,
        "auto.offset.reset": "error",
    }
    consumer = new_consumer(settings.kafka.client("consumer"), ours)
    try:
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
