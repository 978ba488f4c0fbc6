"""The way back of `make demo`: the flights go out as Parquet by month, and as a backup that is restored."""

import io
import time
from collections import Counter
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.demo_reading import Reading
from bench.flights import ROWS
from bench.progress import bars
from bench.stage import Stage
from bench.worker import Worker
from localstack.steps import step

TOPIC = "flights"
_RESTORED = "flights-restored"
_SECONDS = 180


def play_back(on_stage: Stage, worker: Worker, original: Reading, *, bucket: str) -> bool:
    """Archive the topic twice, count one archive and restore the other; True when both are exact."""
    began = time.monotonic()
    sinks: dict[str, dict[str, Any]] = {"by-month": _parquet(), "backup": {"aws__s3__prefix": "backup/"}}
    with step("demo", "two connectors back to S3: the topic as Parquet by month, and as a backup"):
        for name, own in sinks.items():
            shared: dict[str, Any] = {
                "topics": TOPIC,
                "aws__s3__bucket__name": bucket,
                "tasks__max": 2,
                "rotate__age__ms": 3000,
            }
            worker.put(name, on_stage.configuration(**shared, **own) | {"connector.class": "HeadraceSink"})
        _await_archives(on_stage, worker, list(sinks))
    archived = time.monotonic() - began
    with step("demo", "a connector that restores the backup into another topic; meanwhile, counting Parquet"):
        worker.put(
            "restore", on_stage.configuration(**_restore(bucket)) | {"connector.class": "HeadraceSource"}
        )
        by_month, objects = _rows_by_month(on_stage, bucket)
    with step("demo", "reading what was restored, and comparing it"):
        restored = _read_restored(on_stage, worker)
        is_same = original.records == restored.records
    is_exact = sum(by_month.values()) == ROWS and is_same
    table = Table(title="And back", show_header=False)
    rows = f"{sum(by_month.values()):,} of {len(by_month)} months in {objects:,} objects"
    table.add_row("rows in Parquet", rows)
    table.add_row("topic to Parquet and to a backup", f"{archived:.1f} s")
    same = "equal, keys, values, times and order" if is_same else "DIFFERENT"
    table.add_row("backup restored", f"{restored.count:,} records, {same}")
    Console().print(table)
    return is_exact


def _await_archives(on_stage: Stage, worker: Worker, names: list[str]) -> None:
    """Return when every sink has committed all of the topic: it is in objects that can be seen."""
    ends = on_stage.ends(TOPIC)
    with bars(dict.fromkeys(names, sum(ends.values()))) as shown:

        def are_archived() -> bool:
            counts = [_archived(worker.status(name)) for name in names]
            shown(*counts)
            return all(count >= sum(ends.values()) for count in counts)

        worker.until(are_archived, "archive of the whole topic", _SECONDS, every=0.25)


def _archived(status: Any) -> int:
    """What a sink has committed; a connector that is starting has none of it yet."""
    partitions = ((status or {}).get("sink") or {}).get("partitions", ())
    return sum(one["offset"] or 0 for one in partitions)


def _read_restored(on_stage: Stage, worker: Worker) -> Reading:
    """What a read-committed consumer gets while the backup comes back."""
    worker.until(lambda: worker.is_ready("restore"), "a ready connector", _SECONDS)
    read, deadline = Reading(), time.monotonic() + _SECONDS
    with bars({"records restored": ROWS}) as shown:
        for message in on_stage.read(
            _RESTORED, until=lambda: read.count >= ROWS or time.monotonic() > deadline
        ):
            read.add(message)
            if read.count % 1000 == 0:
                shown(read.count)
        shown(read.count)
    return read


def _parquet() -> dict[str, object]:
    folder = "year={{value:year}}/month={{value:month}}"
    return {
        "aws__s3__prefix": "by-month/",
        "file__name__template": folder + "/{{topic}}-{{partition}}-{{start_offset}}{{extension}}",
        "output__format": "parquet",
        "output__fields": "value",
        "output__envelope": "false",
        "value__converter": "org.apache.kafka.connect.json.JsonConverter",
        "value__converter__schemas__enable": "false",
    }


def _restore(bucket: str) -> dict[str, object]:
    return {
        "aws__s3__bucket__name": bucket,
        "aws__s3__prefix": "backup/",
        "input__layout": "headrace",
        "restore__sidecars": "ignore",
        "ordering": "partition",
        "tasks__max": 4,
        "topic": _RESTORED,
        "topic__creation__default__partitions": 4,
        "topic__creation__default__replication__factor": 1,
    }


def _rows_by_month(on_stage: Stage, bucket: str) -> tuple[Counter[str], int]:
    """Rows of each month's folder, by reading its objects, and how many objects there are."""
    import pyarrow.parquet as pq

    found: Counter[str] = Counter()
    objects = 0
    for page in on_stage.s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="by-month/"):
        for known in page.get("Contents", ()):
            body = on_stage.s3.get_object(Bucket=bucket, Key=known["Key"])["Body"].read()
            found[known["Key"].rpartition("/")[0]] += pq.ParquetFile(io.BytesIO(body)).metadata.num_rows
            objects += 1
    return found, objects
