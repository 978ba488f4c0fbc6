"""`format("headrace")` beside Spark's own file sources, in one run: rows, discovery, restart, latency.

`python -m bench.spark_source --scale 1` with an S3 of its own; `--endpoint URL` uses one that runs, and
`--only restart` runs one comparison. Spark's sources read the same bytes from the local disk, for its own S3
file system is not part of PySpark: the ratios are against a rival without a network. CPU is that of Spark's
processes, without S3's: it says more than the time where the machine has other work.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from localstack_client.session import Session
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import headrace.spark
from bench.flights import days
from bench.processes import cpu_seconds, tree
from bench.stage import stage
from ingest.source.catalogue import Baseline
from localstack.steps import say
from spark.frames.discovery_log import DiscoveryLog
from spark.frames.log_entries import LoggedObject
from spark.frames.log_store import DirectoryStore

ROUNDS = 3
UPLOADS = 20
KNOWN = 1_000_000
PREFIXES = 100
PATIENCE_SECONDS = 300


def client_of(service: Any, endpoint: str) -> Any:
    """A client of S3 or SQS."""
    host = urlsplit(endpoint).netloc
    return Session("test", "test", region_name="us-east-1", localstack_host=host).client(service)


class Bench:
    """A bucket, the same objects as files, and a session that reads both."""

    def __init__(self, endpoint: str, folder: Path) -> None:
        self.s3 = client_of("s3", endpoint)
        self.bucket = f"headrace-spark-{uuid.uuid4().hex[:8]}"
        self.s3.create_bucket(Bucket=self.bucket)
        self.folder = folder
        self.endpoint = endpoint
        builder: Any = SparkSession.builder
        settings = {
            "spark.ui.enabled": "false",
            "spark.driver.memory": "2g",
            "spark.log.level": "ERROR",
            # As docs/spark.md advises: over TCP each task of a Python source begins 40 ms later.
            "spark.python.unix.domain.socket.enabled": "true",
        }
        for name, value in settings.items():
            builder = builder.config(name, value)
        self.spark = builder.master("local[2]").getOrCreate()
        headrace.spark.register(self.spark)

    def put(self, key: str, content: bytes) -> None:
        """An object, and a file of the same content."""
        path = self.folder / "files" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        # Spark's source may not see half a file.
        hidden = path.with_name(f".{path.name}")
        hidden.write_bytes(content)
        hidden.rename(path)
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=content)

    def options(self, prefix: str, **more: str) -> dict[str, str]:
        """The options of our source."""
        return {
            "path": f"s3://{self.bucket}/{prefix}",
            "aws.s3.endpoint": self.endpoint,
            "aws.access.key.id": "test",
            "aws.secret.access.key": "test",
            "rows": "columns",
            **{name.replace("__", "."): value for name, value in more.items()},
        }

    def files(self, prefix: str) -> str:
        """The folder of the same objects."""
        return str(self.folder / "files" / prefix)


def took(frame: DataFrame) -> tuple[float, float]:
    """Seconds, and seconds of CPU, that it takes to read all of its rows and columns."""
    cpu, began = sum(cpu_seconds(os.getpid()).values()), time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began, sum(cpu_seconds(os.getpid()).values()) - cpu


def compared(mine: Callable[[], DataFrame], theirs: Callable[[], DataFrame], rows: int) -> dict[str, Any]:
    """Both, in turn: rows a second, CPU a row, and how many rows are read where Spark reads one; medians."""
    runs = [(took(mine()), took(theirs())) for _ in range(ROUNDS + 1)][1:]
    seconds, cpu = (
        tuple(statistics.median(run[side][kind] for run in runs) for side in (0, 1)) for kind in (0, 1)
    )
    return {
        "headrace_rows_per_second": round(rows / seconds[0]),
        "spark_rows_per_second": round(rows / seconds[1]),
        "ratio": round(statistics.median(run[1][0] / run[0][0] for run in runs), 2),
        "headrace_cpu_us_per_row": round(cpu[0] / rows * 1e6, 2),
        "spark_cpu_us_per_row": round(cpu[1] / rows * 1e6, 2),
        "cpu_ratio": round(statistics.median(run[1][1] / run[0][1] for run in runs), 2),
    }


def rates(bench: Bench, scale: float) -> dict[str, Any]:
    """Rows a second of both, for JSON Lines and Parquet; medians, the two in turn."""
    lines = [lines for _, (_, lines) in zip(range(12), days(), strict=False)]
    content = b"".join(lines)
    count = content.count(b"\n")
    copies = max(1, round(20 * scale))
    table = pa.Table.from_pylist([json.loads(line) for line in content.splitlines()])
    parquet = BytesIO()
    pq.write_table(pa.concat_tables([table] * copies), parquet, row_group_size=100_000)
    for number in range(4):
        bench.put(f"json/{number}.jsonl", content * copies)
        bench.put(f"parquet/{number}.parquet", parquet.getvalue())
    rows = 4 * copies * count
    schema = bench.spark.read.parquet(bench.files("parquet")).schema
    found: dict[str, Any] = {"rows": rows}
    few = StructType([schema[name] for name in ("year", "carrier", "dep_delay")])
    for name, kind, input_format, columns in (
        ("json", "json", "jsonl", schema),
        ("parquet", "parquet", "parquet", schema),
        ("parquet_3_columns", "parquet", "parquet", few),
    ):
        options = bench.options(f"{kind}/", input__format=input_format)
        mine = bench.spark.read.format("headrace").schema(columns).options(**options)
        theirs = bench.spark.read.schema(columns).format(kind)
        found[name] = compared(mine.load, partial(theirs.load, bench.files(kind)), rows)
        say("spark_source", f"{name}: {found[name]}")
    return found


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


def restart(folder: Path, known: int) -> dict[str, Any]:
    """Seconds and memory of a start with so many objects in the log, in a process of its own."""
    log = DiscoveryLog.open(DirectoryStore(folder), bucket="b", prefix="", baseline=Baseline)
    each = max(1, known // 100)
    for batch in range(100):
        log.append(
            LoggedObject(f"prefix-{n % 10_000:05}/object-{n:09}.jsonl", f"{n:032x}", n, 1_700_000_000_000 + n)
            for n in range(batch * each, (batch + 1) * each)
        )
    log.commit(100)
    done = subprocess.run(
        [sys.executable, "-m", "bench.spark_source", "--open", str(folder)],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    say("spark_source", f"restart: {found}")
    return found


def opened(folder: Path) -> dict[str, Any]:
    """What it takes to open a log here and now."""
    before = tree(os.getpid())[0].resident_mib
    began = time.perf_counter()
    log = DiscoveryLog.open(DirectoryStore(folder), bucket="b", prefix="", baseline=Baseline)
    seconds = time.perf_counter() - began
    now = tree(os.getpid())[0]
    return {
        "known": len(log.known),
        "seconds": round(seconds, 2),
        "mib": round(now.resident_mib - before),
        "peak_mib": round(now.peak_mib - before),
    }


def run(endpoint: str, scale: float, existing: int, only: str | None) -> dict[str, Any]:
    """All comparisons, or this one."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-spark-"))
    found: dict[str, Any] = {}
    try:
        if only in {None, "restart"}:
            found["restart"] = restart(folder / "known", round(KNOWN * min(scale, 1)))
        if only == "restart":
            return found
        bench = Bench(endpoint, folder)
        if only in {None, "rows"}:
            found["rows"] = rates(bench, scale)
        if only in {None, "latency"}:
            found["latency"] = [latency(bench, count) for count in (0, existing)]
        bench.spark.stop()
        return found
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Print the comparisons as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--endpoint", help="an S3 that runs")
    parser.add_argument("--scale", type=float, default=1.0, help="of rows and known objects")
    parser.add_argument(
        "--objects", type=int, default=10_000, help="objects that are there before the uploads"
    )
    parser.add_argument("--open", type=Path, help="open this log and print what it took")
    parser.add_argument("--only", choices=["restart", "rows", "latency"], help="this comparison alone")
    given = parser.parse_args()
    if given.open is not None:
        print(json.dumps(opened(given.open)))
        return
    if given.endpoint is not None:
        found = run(given.endpoint, given.scale, given.objects, given.only)
    else:
        with stage("spark-source") as on_stage:
            found = run(on_stage.endpoint, given.scale, given.objects, given.only)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
