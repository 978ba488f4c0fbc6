"""`bench.plain_script` for the other formats: the loop that each library's own page shows, then produce.

Written fairly, as that one is. Prints the records sent and the seconds from the first GET to the last
acknowledgement.
"""

import io
import json
import sys
import time
from collections.abc import Callable, Iterable
from typing import Final

import boto3
import fastavro
import pyarrow.parquet as pq
import zstandard
from botocore.config import Config
from confluent_kafka import Producer


def _zstd(body: bytes) -> Iterable[bytes]:
    return zstandard.ZstdDecompressor().stream_reader(body).readall().splitlines()


def _avro(body: bytes) -> Iterable[bytes]:
    return (json.dumps(row, separators=(",", ":")).encode() for row in fastavro.reader(io.BytesIO(body)))


def _parquet(body: bytes) -> Iterable[bytes]:
    rows = pq.read_table(io.BytesIO(body)).to_pylist()
    return (json.dumps(row, separators=(",", ":")).encode() for row in rows)


def _chunks(body: bytes) -> Iterable[bytes]:
    return (body[at : at + 4096] for at in range(0, len(body), 4096))


LOOPS: Final[dict[str, Callable[[bytes], Iterable[bytes]]]] = {
    "zstd": _zstd,
    "avro": _avro,
    "parquet": _parquet,
    "nested": _parquet,
    "bytes": _chunks,
}


def send(bootstrap: str, endpoint: str, bucket: str, prefix: str, topic: str, loop: str) -> tuple[int, float]:
    """Records sent and seconds needed for every object under `prefix`."""
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
    rows = LOOPS[loop]
    began = time.monotonic()
    count = 0
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for entry in page.get("Contents", []):
            body = s3.get_object(Bucket=bucket, Key=entry["Key"])["Body"].read()
            key = entry["Key"].encode()
            for row in rows(body):
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
