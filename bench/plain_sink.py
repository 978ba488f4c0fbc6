"""The script that people write first to archive a topic: consume, join, PUT; nothing remembered.

Written fairly: one process, `consume` of 10,000 at a time from a queue that is filled in time, boto3's own
client, an object for so many records of a partition. With 0 records an object nothing is put: the bare
consumer. Prints the records read and the seconds from the first to the last.
"""

import sys
import time
from typing import Any

import boto3
from botocore.config import Config
from confluent_kafka import Consumer, TopicPartition

_AT_ONCE = 10_000


def archive(bootstrap: str, endpoint: str, bucket: str, topic: str, *, per_object: int, total: int) -> float:
    """Seconds from the first record to the last object, for `total` records."""
    s3 = boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106 - LocalStack's invented secret
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}),
    )
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "plain-sink",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            # Or librdkafka rests for a second whenever 100,000 records of a partition wait for us.
            "fetch.queue.backoff.ms": 20,
        }
    )
    partitions = consumer.list_topics(topic, 30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    held: dict[int, list[bytes]] = {number: [] for number in partitions}
    written = 0

    def put(number: int) -> None:
        nonlocal written
        body = b"\n".join(held[number]) + b"\n"
        s3.put_object(Bucket=bucket, Key=f"{topic}/{number}-{written:06}.jsonl", Body=body)
        written += 1
        held[number] = []

    began, count = 0.0, 0
    while count < total:
        messages: list[Any] = consumer.consume(_AT_ONCE, 1.0)
        began = began or time.monotonic()
        for message in messages:
            value = message.value()
            if message.error() is not None or value is None:
                raise SystemExit(f"{topic} holds what this script does not expect: {message.error()}")
            count += 1
            if per_object:
                number = message.partition()
                held[number].append(value)
                if len(held[number]) == per_object:
                    put(number)
    for number, values in held.items():
        if values:
            put(number)
    seconds = time.monotonic() - began
    consumer.close()
    return seconds


if __name__ == "__main__":
    print(sys.argv[6], archive(*sys.argv[1:5], per_object=int(sys.argv[5]), total=int(sys.argv[6])))
