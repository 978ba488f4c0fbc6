"""How fast records get into Kafka, by way: `python bench/produce.py BOOTSTRAP [RECORDS]`.

Rows of 200 bytes from memory, one process, no S3 and no Spark. The first line is the ceiling that the others
are held against: `produce()` of the same records with the same properties, without transactions or checks.
"""

import sys
import time
import uuid
from collections.abc import Callable, Iterator

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from headrace.formats import DECODERS, DecodeOptions
from headrace.kafka.kafka_clients import new_transactional_producer
from headrace.kafka.producer.batch_produce import best_produce_path
from headrace.kafka.producer.partition_counts import PartitionCounts
from headrace.kafka.producer.producer_properties import producer_properties
from headrace.kafka.producer.record_calls import RecordProduce
from headrace.model.record_target import ProducePath, RecordTarget
from headrace.model.rows import RowBatch
from headrace.vendors.load import load

LINES = b"".join(
    b'{"id":"%012d","name":"abcdefghij","n":1%05d,"f":1.25,"payload":"%s"}\n' % (n, n, b"x" * 122)
    for n in range(50_000)
)
SETTINGS = """{"name": "bench", "bootstrap.servers": "%s", "aws.s3.bucket.name": "none", "topic": "none",
 "file.name.template": ".*", "input.format": "jsonl"}"""


class MemorySource:
    """An object that is there already."""

    name = "s3://bench/memory"
    size = len(LINES)
    fetched_bytes = 0

    def stream(self, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The lines in chunks of 1 MiB."""
        for at in range(begin, self.size if end is None else end, 1 << 20):
            yield LINES[at : at + (1 << 20)]

    def read_at(self, offset: int, length: int) -> bytes:
        """A part."""
        return LINES[offset : offset + length]


def measure(what: str, count: int, send: Callable[[int], None]) -> None:
    """Print the rate of `send(rounds)`, which returns when all records are acknowledged."""
    rounds = max(1, count // 50_000)
    began, cpu = time.perf_counter(), time.process_time()
    send(rounds)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    records = rounds * 50_000
    print(f"{what:44} {records / seconds:12,.0f} records/s {cpu / records * 1e6:6.2f} us CPU a record")


def plain(properties: dict[str, str], topic: str) -> Callable[[int], None]:
    """What a script does: `produce()` for each record of a list."""

    def send(rounds: int) -> None:
        producer = Producer({**properties, "enable.idempotence": True})
        records = LINES.splitlines()
        for _ in range(rounds):
            for record in records:
                while True:
                    try:
                        producer.produce(topic, record, b"object-key")
                        break
                    except BufferError:
                        producer.poll(0.01)
        producer.flush()

    return send


def in_transactions(
    properties: dict[str, str],
    target: RecordTarget,
    path_of: Callable[[Producer], ProducePath],
    batches: Callable[[], Iterator[RowBatch]],
) -> Callable[[int], None]:
    """A transaction for each 50,000 rows, sent by one of our paths."""
    producer = new_transactional_producer(properties, f"bench-{uuid.uuid4().hex[:8]}")
    producer.init_transactions(30)
    path = path_of(producer)

    def send(rounds: int) -> None:
        for _ in range(rounds):
            producer.begin_transaction()
            for rows in batches():
                path.send(target, rows, 0, len(rows))
            producer.commit_transaction(60)

    return send


def ordinary(producer: Producer) -> ProducePath:
    """A call for each row."""
    return RecordProduce(producer, lambda: False)


def buffer(producer: Producer) -> ProducePath:
    """A call for each batch of rows, where librdkafka allows it."""
    return best_produce_path(
        producer,
        RecordProduce(producer, lambda: False),
        lambda: False,
        partitioner="murmur2_random",
        partitions=PartitionCounts(producer).partitions,
    )


def main(bootstrap: str, count: int) -> None:
    """Measure each way once."""
    topic, admin = f"bench-{uuid.uuid4().hex[:8]}", AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result()
    settings = load(SETTINGS % bootstrap, kind="json", environment={"HOME": "/"}, read_file=lambda path: path)
    properties = producer_properties(settings.kafka.client("producer"))
    target = RecordTarget(topic=topic, key=b"object-key")
    options = DecodeOptions(format=settings.format, topic=topic)

    def decoded() -> Iterator[RowBatch]:
        return DECODERS[settings.format.input_format](MemorySource(), None, options=options)

    def decode_only(rounds: int) -> None:
        for _ in range(rounds):
            for rows in decoded():
                if rows.bad:
                    raise ValueError("the lines of this benchmark are no JSON")

    ready = list(decoded())
    by_calls = in_transactions(properties, target, ordinary, lambda: iter(ready))
    by_buffer = in_transactions(properties, target, buffer, lambda: iter(ready))
    measure("plain produce(), no transactions", count, plain(properties, topic))
    measure("ordinary path, transactions of 50,000", count, by_calls)
    measure("buffer path, transactions of 50,000", count, by_buffer)
    measure("the same, decoded and checked", count, in_transactions(properties, target, buffer, decoded))
    measure("decoding and checking alone", count, decode_only)
    admin.delete_topics([topic])[topic].result()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000)
