"""The script that people write before they look for a product: GET, split, produce. No checks, no memory.

Written fairly: one process, an idempotent producer with lz4 and large batches, boto3's own client.
Prints the records sent and the seconds from the first GET to the last acknowledgement.
"""

import gzip
import sys
import time
from collections.abc import Callable, Iterable
from itertools import islice

import boto3
from botocore.config import Config
from confluent_kafka import Producer


def lines(body: bytes) -> list[bytes]:
    """The lines of an object, unpacked if need be; empty ones are left out by `send`."""
    if body[:2] == b"\x1f\x8b":
        body = gzip.decompress(body)
    return body.split(b"\n")


def send(
    bootstrap: str,
    endpoint: str,
    bucket: str,
    prefix: str,
    topic: str,
    most: str,
    *,
    rows: Callable[[bytes], Iterable[bytes]] = lines,
) -> tuple[int, float]:
    """Records sent and seconds needed for `most` objects under `prefix`, whose records `rows` gives."""
    s3 = boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106 - LocalStack's invented secret
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}),
    )
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 5,
            "batch.num.messages": 50_000,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 262_144,
        }
    )
    began = time.monotonic()
    count = 0
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    entries = (entry for page in pages for entry in page.get("Contents", []))
    for entry in islice(entries, int(most)):
        body = s3.get_object(Bucket=bucket, Key=entry["Key"])["Body"].read()
        key = entry["Key"].encode()
        for row in rows(body):
            if not row:
                continue
            while True:
                try:
                    producer.produce(topic, row, key)
                    break
                except BufferError:
                    producer.poll(0.01)
            count += 1
        producer.poll(0)
    producer.flush(120)
    return count, time.monotonic() - began


if __name__ == "__main__":
    sent, seconds = send(*sys.argv[1:7])
    print(sent, seconds)
