"""Upload to visible row: ours by events, Spark's file source by listing, however many objects are known."""

import json
import os
import re
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from bench.spark_stage import Bench, client_of
from ingest.source.catalogue import Baseline
from localstack.steps import say
from spark.frames.discovery_log import DiscoveryLog
from spark.frames.log_entries import LoggedObject
from spark.frames.log_store import DirectoryStore

UPLOADS = 20
PREFIXES = 100
PATIENCE_SECONDS = 300
# Of the comparison at a million: folders, and how often each is asked (Spark lists them all each time).
MANY_PREFIXES = 10_000
MANY_UPLOADS = 3
# Spark's source leaves out files older than that: so it has listed them, and needs not read them first.
_OLD_SECONDS = 2 * 24 * 3600


@contextmanager
def visible(frame: DataFrame, checkpoint: Path) -> Iterator[Callable[[int], float]]:
    """A query over the frame: called with a number, when the row with it was visible."""
    seen: dict[int, float] = {}

    def keep(batch: DataFrame, _number: int) -> None:
        now = [row.n for row in batch.select("n").collect()]
        seen.update(dict.fromkeys(now, time.monotonic()))

    query = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint)).start()

    def wait(number: int) -> float:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while number not in seen:
            if query.exception() is not None or time.monotonic() > deadline:
                raise SystemExit(f"row {number} is not visible: {query.exception()}")
            time.sleep(0.005)
        return seen[number]

    try:
        yield wait
    finally:
        query.stop()


def latency(bench: Bench, existing: int) -> dict[str, Any]:
    """Upload to visible with so many objects there, p50 in ms: ours by events, and Spark's file source."""
    prefix = f"many{existing}"

    def put(number: int) -> None:
        bench.put(f"{prefix}/{number % PREFIXES:04}/{number:07}.jsonl", b'{"n":%d}\n' % -number)

    # Spark's source refuses a folder that is not there.
    Path(bench.files(prefix)).mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(put, range(1, existing + 1)))
    queue = _queue(bench, prefix)
    given = bench.options(
        f"{prefix}/", state__path=str(bench.folder / f"log-{prefix}"), sqs__queue__url=queue
    )
    frames = {
        "headrace": bench.spark.readStream.format("headrace")
        .schema("n long")
        .options(**given, **{"input.format": "jsonl"})
        .load(),
        "spark": bench.spark.readStream.schema("n long")
        .option("recursiveFileLookup", "true")
        .json(bench.files(prefix)),
    }
    found: dict[str, Any] = {"objects": existing}
    number = 0
    for name, frame in frames.items():
        with visible(frame, bench.folder / f"checkpoint-{name}-{prefix}") as wait:
            times = []
            for _ in range(UPLOADS + 1):
                number += 1
                began = time.monotonic()
                bench.put(f"{prefix}/new/{number:07}.jsonl", b'{"n":%d}\n' % number)
                times.append((wait(number) - began) * 1000)
            found[f"{name}_ms"] = round(statistics.median(times[1:]))
    found["ratio"] = round(found["spark_ms"] / found["headrace_ms"], 2)
    say("spark_source", f"upload to visible: {found}")
    return found


def _queue(bench: Bench, prefix: str) -> str:
    """A queue that is notified of objects under the prefix."""
    sqs = client_of("sqs", bench.endpoint)
    url: str = sqs.create_queue(QueueName=f"{bench.bucket}-{prefix}")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    bench.s3.put_bucket_notification_configuration(
        Bucket=bench.bucket,
        NotificationConfiguration={
            "QueueConfigurations": [{"QueueArn": arn, "Events": ["s3:ObjectCreated:*"]}]
        },
    )
    return url


def fill(log: DiscoveryLog, known: int) -> None:
    """So many objects, a hundred batches of them, of which nothing is open any more."""
    each = max(1, known // 100)
    for batch in range(100):
        last = log.append(
            LoggedObject(
                f"prefix-{n % MANY_PREFIXES:05}/object-{n:09}.jsonl", f"{n:032x}", n, 1_700_000_000_000 + n
            )
            for n in range(batch * each, (batch + 1) * each)
        )
    log.commit(last)


def discovery(bench: Bench, known: int) -> dict[str, Any]:
    """Upload to visible with so many known objects in 10,000 prefixes, p50 in ms.

    Ours has them in its discovery log, and learns of a new one by its event. Spark's has them on the local
    disk, all older than its `maxFileAge`, and lists them for each batch.
    """
    prefix = "million"
    files = Path(bench.files(prefix))
    files.mkdir(parents=True, exist_ok=True)
    state = bench.folder / f"log-{prefix}"
    given = bench.options(f"{prefix}/", state__path=str(state), sqs__queue__url=_queue(bench, prefix))
    ours = (
        bench.spark.readStream.format("headrace")
        .schema("n long")
        .options(**given, **{"input.format": "jsonl"})
        .load()
    )
    theirs = (
        bench.spark.readStream.schema("n long")
        .option("recursiveFileLookup", "true")
        .option("maxFileAge", "1h")
        .json(str(files))
    )
    frames = {"headrace": ours, "spark": theirs}
    places = {name: bench.folder / f"checkpoint-{name}-{prefix}" for name in frames}
    for number, (name, frame) in enumerate(frames.items(), start=1):
        with visible(frame, places[name]) as wait:
            bench.put(f"{prefix}/first/{number}.jsonl", b'{"n":%d}\n' % number)
            wait(number)
            # What Spark has not noted as done it would run again, a million objects with it.
            _until_committed(places[name])

    log = DiscoveryLog.open(
        DirectoryStore(state), bucket=bench.bucket, prefix=f"{prefix}/", baseline=Baseline
    )
    before = log.last
    fill(log, known)
    _moved(places["headrace"], before, log)
    _files(files, known)

    found: dict[str, Any] = {"known": known}
    number = 100
    for name, frame in frames.items():
        with visible(frame, places[name]) as wait:
            times = []
            for _ in range(MANY_UPLOADS + 1):
                number += 1
                began = time.monotonic()
                bench.put(f"{prefix}/new/{number:07}.jsonl", b'{"n":%d}\n' % number)
                times.append((wait(number) - began) * 1000)
            found[f"{name}_start_ms"] = round(times[0])
            found[f"{name}_ms"] = round(statistics.median(times[1:]))
    found["ratio"] = round(found["spark_ms"] / found["headrace_ms"], 2)
    say("spark_source", f"discovery: {found}")
    return found


def _until_committed(checkpoint: Path) -> None:
    """Return when the checkpoint says that all batches are done that were begun."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while _numbers(checkpoint / "offsets") != _numbers(checkpoint / "commits"):
        if time.monotonic() > deadline:
            raise SystemExit(f"{checkpoint} has a batch that is not done")
        time.sleep(0.01)


def _numbers(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.name.isdecimal()} if folder.exists() else set()


def _moved(checkpoint: Path, before: int, log: DiscoveryLog) -> None:
    """The checkpoint has done all batches of the log, whose last one it knows by number and mark."""
    for path in (checkpoint / "offsets").iterdir():
        if path.name.isdecimal():
            moved = re.sub(rf'"batch": *{before}\b', f'"batch":{log.last}', path.read_text())
            path.write_text(re.sub(r'"mark": *"\w+"', f'"mark":"{log.mark(log.last)}"', moved))
            # Hadoop's file system refuses what its checksum does not fit.
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def _files(folder: Path, count: int) -> None:
    """So many files of one row in 10,000 folders, all of them old."""
    content = json.dumps({"n": 0}).encode()
    when = time.time() - _OLD_SECONDS
    for place in range(MANY_PREFIXES):
        inner = folder / f"prefix-{place:05}"
        inner.mkdir()
        for number in range(max(1, count // MANY_PREFIXES)):
            path = inner / f"object-{number:05}.jsonl"
            path.write_bytes(content)
            os.utime(path, (when, when))
