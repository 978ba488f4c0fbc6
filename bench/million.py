"""A restart with a million finished objects: time to ready, requests, memory, and one full listing pass.

The ledger is written directly, as records of finished objects. The listing is served by a process beside,
which replays one page recorded from LocalStack with other keys (see `bench.replayed_pages`): LocalStack
itself would take hours to be filled.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

import boto3
from botocore.config import Config
from confluent_kafka import Producer

from bench import processes
from bench.replayed_pages import KEYS
from bench.stage import Service, Stage, StageError, stage
from headrace.model.ledger_entry import LedgerEntry, State, encode_entry, encode_key
from headrace.model.objects import ObjectId
from localstack.ports import free_port
from localstack.steps import say

BUCKET: Final = "headrace-million"
TOPIC: Final = "million"
NAME: Final = "million"
PAGES: Final = 1_000


def recorded_page(on_stage: Stage) -> bytes:
    """LocalStack's own answer to a listing of 1,000 objects under `0000/`."""
    on_stage.make_bucket(BUCKET)
    with ThreadPoolExecutor(8) as pool:
        list(
            pool.map(
                lambda number: on_stage.s3.put_object(
                    Bucket=BUCKET, Key=f"0000/{number:04}.jsonl", Body=b'{"number":%d}\n' % number
                ),
                range(KEYS),
            )
        )
    asked = {"Bucket": BUCKET, "EncodingType": "url"}
    page = got(on_stage.s3.generate_presigned_url("list_objects_v2", Params=asked))
    if page.count(b"<Key>0000/") != KEYS:
        raise StageError("LocalStack's page does not have 1,000 keys under 0000/.")
    return page


@contextmanager
def replayed(on_stage: Stage, pages: int) -> Iterator[str]:
    """The address of the server that replays so many pages."""
    page = on_stage.folder / "page.xml"
    page.write_bytes(recorded_page(on_stage))
    port = free_port()
    argv = [sys.executable, "-m", "bench.replayed_pages", str(port), str(page), str(pages)]
    server = subprocess.Popen(argv)
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                asked_for(address)
                break
            except OSError as error:
                if time.monotonic() > deadline:
                    raise StageError("The server of the listing does not answer.") from error
                time.sleep(0.05)
        yield address
    finally:
        server.kill()
        server.wait()


def asked_for(address: str) -> Any:
    """What the replaying server was asked for since this was last asked."""
    return json.loads(got(f"{address}/requests"))


def got(url: str) -> bytes:
    """The body of an answer of LocalStack or of the replaying server."""
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - an address of our own
        body: bytes = answer.read()
    return body


def write_ledger(on_stage: Stage, pages: int) -> float:
    """Seconds it took to write one record for each listed object, all of them done."""
    page = (on_stage.folder / "page.xml").read_text()
    listed = re.findall(r'<Key>0000/([^<]+)</Key>.*?<ETag>"(\w+)"</ETag>', page, re.DOTALL)
    if len(listed) != KEYS:
        raise StageError(f"The recorded page has {len(listed)} keys.")
    now_ms = time.time_ns() // 1_000_000
    entry = LedgerEntry(
        state=State.DONE,
        records=1,
        topic=TOPIC,
        size=14,
        last_modified_ms=now_ms - 60_000,
        updated_ms=now_ms,
    )
    value = encode_entry(entry)
    producer = Producer(
        {
            "bootstrap.servers": on_stage.bootstrap,
            "linger.ms": 50,
            "queue.buffering.max.messages": 1_000_000,
            "compression.type": "lz4",
        }
    )
    began = time.monotonic()
    for number in range(pages):
        for stem, etag in listed:
            key = encode_key(ObjectId(BUCKET, f"{number:04}/{stem}", etag))
            producer.produce(f"{NAME}-offsets", key=key, value=value)
        producer.poll(0)
        while len(producer) > 500_000:
            producer.poll(0.1)
    if producer.flush(120):
        raise StageError("The ledger could not be written.")
    return time.monotonic() - began


def start(address: str, service: Service, pages: int) -> dict[str, Any]:
    """One start: seconds to ready, the first full listing, requests, memory; then a clean stop."""
    asked_for(address)
    began = time.monotonic()
    service.start(ready_seconds=300)
    ready = time.monotonic() - began
    status = wait_for_listing(service, seconds=900)
    listing = asked_for(address)
    resident, peak = processes.memory_mib(service.pid)
    if service.stop() != 0:
        raise StageError(f"headrace did not end well:\n{service.tail()}")
    if status["objects"]["done"] != pages * KEYS or status["pending_objects"]:
        raise StageError(f"The ledger says {status['objects']}.")
    return {
        "seconds_to_ready": round(ready, 1),
        "pass_seconds": round(status["last_full_listing_ms"] / 1000 - listing["first_page_at"], 1),
        "requests": listing["requests"],
        "resident_mib": resident,
        "peak_mib": peak,
        "records": status["records_total"],
    }


def wait_for_listing(service: Service, *, seconds: float) -> Any:
    """The status once a full listing has ended."""
    deadline = time.monotonic() + seconds
    while True:
        status = service.status()
        if status["last_full_listing_ms"]:
            return status
        if time.monotonic() > deadline:
            raise StageError(f"No full listing within {seconds:.0f} s:\n{service.tail()}")
        time.sleep(0.2)


def bare_listing(address: str, pages: int) -> tuple[float, float]:
    """Wall and CPU seconds of boto3's own paginator over the same pages, doing nothing with them."""
    make: Any = boto3.Session("test", "test", region_name="us-east-1").client
    client = make("s3", endpoint_url=address, config=Config(s3={"addressing_style": "path"}))
    began, cpu_began = time.monotonic(), time.process_time()
    keys = sum(
        len(page["Contents"]) for page in client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
    )
    if keys != pages * KEYS:
        raise StageError(f"The bare listing has {keys} keys.")
    return time.monotonic() - began, time.process_time() - cpu_began


def measure(on_stage: Stage, *, pages: int) -> dict[str, Any]:
    """The figures of a first read of the ledger, of a restart with its cache, and of a bare listing."""
    on_stage.make_topic(TOPIC, 1)
    with replayed(on_stage, pages) as address:
        options = on_stage.configuration(
            aws__s3__bucket__name=BUCKET,
            topic=TOPIC,
            file__name__template=".*",
            input__format="jsonl",
            poll__interval__ms=3_600_000,
        ) | {"aws.s3.endpoint": address}
        make_ledger(on_stage)
        say("million", f"{pages * KEYS:,} records for the ledger ...")
        written = write_ledger(on_stage, pages)
        service = on_stage.service(NAME, options)
        without_cache = start(address, service, pages)
        say("million", f"without a cache: {without_cache}")
        with_cache = start(address, service, pages)
        say("million", f"with its cache: {with_cache}")
        wall, cpu = bare_listing(address, pages)
    return {
        "objects": pages * KEYS,
        "listing": "one page recorded from LocalStack, replayed with other keys by a process beside",
        "ledger_write_seconds": round(written, 1),
        "without_cache": without_cache,
        "with_cache": with_cache,
        "bare_listing": {"seconds": round(wall, 1), "cpu_seconds": round(cpu, 1)},
        "pass_to_bare_listing": round(with_cache["pass_seconds"] / wall, 2),
    }


def make_ledger(on_stage: Stage) -> None:
    """Let Headrace make the ledger's topic, by one run on an empty bucket; its cache is thrown away."""
    empty = f"{BUCKET}-empty"
    on_stage.make_bucket(empty)
    options = on_stage.configuration(
        aws__s3__bucket__name=empty, topic=TOPIC, file__name__template=".*", input__format="jsonl"
    )
    service = on_stage.service(NAME, options)
    service.start()
    service.stop()
    shutil.rmtree(on_stage.folder / "state")


def main() -> int:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=1_000_000, help="in thousands, rounded up")
    asked = parser.parse_args()
    with stage("million") as on_stage:
        result = measure(on_stage, pages=-(-asked.objects // KEYS))
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
