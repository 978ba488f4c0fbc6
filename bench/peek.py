"""Committed records of a topic as text: `python -m bench.peek orders`. For a first look, no more."""

import argparse
import sys
import time

from confluent_kafka import Consumer, KafkaException, TopicPartition


def records(bootstrap: str, topic: str, *, count: int, seconds: float) -> int:
    """How many records were printed: the first `count`, or as many as there are within `seconds`. Blocks."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "peek",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=seconds).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        printed, deadline = 0, time.monotonic() + seconds
        while printed < count and time.monotonic() < deadline:
            for message in consumer.consume(count - printed, 0.5):
                if message.error() is None:
                    print(_line(message.partition(), message.offset(), message.key(), message.value()))
                    printed += 1
        return printed
    finally:
        consumer.close()


def _line(partition: int | None, offset: int | None, key: bytes | None, value: bytes | None) -> str:
    said = "null" if value is None else ascii(value.decode(errors="replace"))[1:-1]
    return f"{partition}/{offset}  {ascii((key or b'').decode(errors='replace'))[1:-1]}  {said}"


def main() -> int:
    """0 when there was something to print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("topic")
    parser.add_argument("--bootstrap", default="localhost:9092", help="host:port (%(default)s)")
    parser.add_argument("--count", type=int, default=10, help="print so many at most (%(default)s)")
    parser.add_argument("--seconds", type=float, default=10.0, help="wait so long for them (%(default)s)")
    asked = parser.parse_args()
    try:
        printed = records(asked.bootstrap, asked.topic, count=asked.count, seconds=asked.seconds)
    except KafkaException as error:
        print(f"{asked.bootstrap} cannot be read: {error.args[0].str()}", file=sys.stderr)
        return 1
    print(f"{printed} of {asked.topic}", file=sys.stderr)
    return 0 if printed else 1


if __name__ == "__main__":
    sys.exit(main())
