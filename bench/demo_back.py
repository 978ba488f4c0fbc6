"""The way back of `make demo`: the flights go out as Parquet by day, and as a backup that is restored."""

import io
import time
from collections import Counter
from typing import Any

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from bench.flights import ROWS
from bench.stage import Service, Stage, StageError
from localstack.steps import step

_RESTORED = "flights-restored"
_SECONDS = 180


def play_back(on_stage: Stage, *, bucket: str, topic: str) -> bool:
    """Archive the topic twice, count one archive and restore the other; True when both are exact."""
    began = time.monotonic()
    _run(on_stage, "by-day", "headrace run: the topic as Parquet, by day", **_parquet(bucket, topic))
    by_day, objects = _rows_by_day(on_stage, bucket)
    archived = time.monotonic() - began
    _run(on_stage, "backup", "headrace run: the topic as a backup", **_backup(bucket, topic))
    _run(on_stage, "restore", "headrace run: the backup into another topic", **_restore(bucket))
    original, restored = _records(on_stage, topic), _records(on_stage, _RESTORED)
    is_exact = sum(by_day.values()) == ROWS and original == restored
    table = Table(title="And back", show_header=False)
    table.add_row("rows in Parquet", f"{sum(by_day.values()):,} of {len(by_day)} days in {objects:,} objects")
    table.add_row("topic to Parquet, start and stop included", f"{archived:.1f} s")
    same = "equal, keys, values, times and order" if original == restored else "DIFFERENT"
    table.add_row("backup restored", f"{sum(map(len, restored.values())):,} records, {same}")
    Console().print(table)
    return is_exact


def _parquet(bucket: str, topic: str) -> dict[str, object]:
    folder = "year={{value:year}}/month={{value:month}}/day={{value:day}}"
    return {
        "topics": topic,
        "aws__s3__bucket__name": bucket,
        "aws__s3__prefix": "by-day/",
        "file__name__template": folder + "/{{topic}}-{{partition}}-{{start_offset}}{{extension}}",
        "output__format": "parquet",
        "output__fields": "value",
        "output__envelope": "false",
        "value__converter": "org.apache.kafka.connect.json.JsonConverter",
        "value__converter__schemas__enable": "false",
    }


def _backup(bucket: str, topic: str) -> dict[str, object]:
    return {"topics": topic, "aws__s3__bucket__name": bucket, "aws__s3__prefix": "backup/"}


def _restore(bucket: str) -> dict[str, object]:
    return {
        "aws__s3__bucket__name": bucket,
        "aws__s3__prefix": "backup/",
        "input__layout": "headrace",
        "ordering": "partition",
        "topic": _RESTORED,
        "topic__creation__default__partitions": 4,
        "topic__creation__default__replication__factor": 1,
    }


def _run(on_stage: Stage, name: str, what: str, **options: object) -> None:
    """Run until nothing is left to do; StageError with the log when it ends otherwise."""
    service: Service = on_stage.service(name, on_stage.configuration(**options))
    with step("demo", what):
        service.start("--until-idle")
        code = service.wait(_SECONDS)
        service.stop()
    if code != 0:
        raise StageError(f"headrace ended with {code}:\n{service.tail()}")


def _rows_by_day(on_stage: Stage, bucket: str) -> tuple[Counter[str], int]:
    """Rows of each day's folder, by reading its objects, and how many objects there are."""
    found: Counter[str] = Counter()
    objects = 0
    for page in on_stage.s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="by-day/"):
        for known in page.get("Contents", ()):
            body = on_stage.s3.get_object(Bucket=bucket, Key=known["Key"])["Body"].read()
            found[known["Key"].rpartition("/")[0]] += pq.ParquetFile(io.BytesIO(body)).metadata.num_rows
            objects += 1
    return found, objects


def _records(on_stage: Stage, topic: str) -> dict[int, list[tuple[Any, ...]]]:
    """Everything that a record is, in order, by partition."""
    found: dict[int, list[tuple[Any, ...]]] = {}
    for message in on_stage.read(topic, until=lambda: True):
        record = message.key(), message.value(), message.headers(), message.timestamp()[1]
        found.setdefault(message.partition(), []).append(record)
    return found
