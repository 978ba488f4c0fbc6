"""`format("headrace")` beside Spark's own file sources, in one run: rows, discovery, restart, latency.

`python -m bench.spark_source --scale 1` with an S3 of its own; `--endpoint URL` uses one that runs, and
`--only restart` runs one comparison. Spark's sources read the same bytes from the local disk, for its own S3
file system is not part of PySpark: the ratios are against a rival without a network. CPU is that of Spark's
processes, without S3's: it says more than the time where the machine has other work. The ceiling is a
source in Python that has its rows in memory.
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
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from bench.flights import days
from bench.processes import cpu_seconds, tree
from bench.spark_latency import discovery, fill, latency
from bench.spark_stage import Bench
from bench.stage import stage
from ingest.source.catalogue import Baseline
from localstack.steps import say
from spark.frames.discovery_log import DiscoveryLog
from spark.frames.log_store import DirectoryStore

ROUNDS = 3
KNOWN = 1_000_000


def took(frame: DataFrame) -> tuple[float, float]:
    """Seconds, and seconds of CPU, that it takes to read all of its rows and columns."""
    cpu, began = sum(cpu_seconds(os.getpid()).values()), time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began, sum(cpu_seconds(os.getpid()).values()) - cpu


def compared(
    mine: Callable[[], DataFrame], theirs: Callable[[], DataFrame], bare: Callable[[], DataFrame], rows: int
) -> dict[str, Any]:
    """All in turn: rows a second, CPU a row, and how many rows are read where Spark reads one; medians."""
    runs = [(took(mine()), took(theirs()), took(bare())) for _ in range(ROUNDS + 1)][1:]
    seconds, cpu = (
        tuple(statistics.median(run[side][kind] for run in runs) for side in (0, 1, 2)) for kind in (0, 1)
    )
    return {
        "headrace_rows_per_second": round(rows / seconds[0]),
        "spark_rows_per_second": round(rows / seconds[1]),
        "ratio": round(statistics.median(run[1][0] / run[0][0] for run in runs), 2),
        "headrace_cpu_us_per_row": round(cpu[0] / rows * 1e6, 2),
        "spark_cpu_us_per_row": round(cpu[1] / rows * 1e6, 2),
        "cpu_ratio": round(statistics.median(run[1][1] / run[0][1] for run in runs), 2),
        # Of a source that has its rows in memory.
        "ceiling_cpu_us_per_row": round(cpu[2] / rows * 1e6, 2),
        "ceiling_ratio": round(statistics.median(run[1][0] / run[2][0] for run in runs), 2),
        "ceiling_cpu_ratio": round(statistics.median(run[1][1] / run[2][1] for run in runs), 2),
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
    one = str(bench.folder / "one.parquet")
    pq.write_table(table, one)
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
        bare = bench.spark.read.format("bare").schema(columns).options(copies=copies, tasks=4)
        found[name] = compared(
            mine.load, partial(theirs.load, bench.files(kind)), partial(bare.load, one), rows
        )
        say("spark_source", f"{name}: {found[name]}")
    return found


def restart(folder: Path, known: int) -> dict[str, Any]:
    """Seconds and memory of a start with so many objects in the log, in a process of its own."""
    log = DiscoveryLog.open(DirectoryStore(folder), bucket="b", prefix="", baseline=Baseline)
    fill(log, known)
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
        if only in {None, "discovery"}:
            found["discovery"] = discovery(bench, round(KNOWN * min(scale, 1)))
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
    parser.add_argument(
        "--only", choices=["restart", "rows", "latency", "discovery"], help="this comparison alone"
    )
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
