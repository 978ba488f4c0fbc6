"""`make demo`: a year of real flights, uploaded while Headrace runs, counted in Kafka, and archived again.

Exit code 0 only if every row that was uploaded is read back from the topic exactly once, and from the bucket
after the way back.
"""

import sys
import threading
import time
from collections import Counter

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench.demo_back import play_back
from bench.demo_spark import play_spark
from bench.flights import DAYS, ROWS, days
from bench.stage import Service, Stage, StageError, stage
from localstack.steps import step

TOPIC = "flights"
BUCKET = "headrace-demo"
PATIENCE_SECONDS = 120


class Uploads:
    """What was uploaded, and when each object was there."""

    def __init__(self) -> None:
        self.rows: Counter[bytes] = Counter()
        self.finished_at: dict[str, float] = {}
        self.bytes = 0
        self.done = threading.Event()
        self.error: Exception | None = None

    def run(self, on_stage: Stage) -> None:
        """Upload a year, day by day."""
        try:
            for day, lines in days():
                key = f"flights/{day}.jsonl"
                self.rows.update(lines.splitlines())
                self.bytes += len(lines)
                on_stage.s3.put_object(Bucket=BUCKET, Key=key, Body=lines)
                self.finished_at[key] = time.time()
        except Exception as error:  # noqa: BLE001 - told to the main thread, which ends the demo
            self.error = error
        finally:
            self.done.set()


def follow(on_stage: Stage, uploads: Uploads, read: Counter[bytes], seen_at: dict[str, float]) -> float:
    """Read the topic as a read-committed consumer, with a progress bar; the time of the last record."""
    last = time.time()
    deadline = time.time() + PATIENCE_SECONDS

    def is_over() -> bool:
        if uploads.error is not None:
            raise StageError(f"The upload failed: {uploads.error}")
        total = sum(read.values())
        return uploads.done.is_set() and (total >= ROWS or time.time() > deadline)

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(), refresh_per_second=5) as progress:
        uploading = progress.add_task("objects uploaded", total=DAYS)
        arriving = progress.add_task("records arrived ", total=ROWS)
        count = 0
        for message in on_stage.read(TOPIC, until=is_over):
            last = time.time()
            read[message.value()] += 1
            seen_at[message.key().decode()] = last
            count += 1
            if count % 1000 == 0:
                progress.update(arriving, completed=count)
                progress.update(uploading, completed=len(uploads.finished_at))
        progress.update(arriving, completed=count)
        progress.update(uploading, completed=len(uploads.finished_at))
    return last


def report(uploads: Uploads, read: Counter[bytes], seen_at: dict[str, float], seconds: float) -> bool:
    """Print the account; True when nothing is missing and nothing came twice."""
    missing = sum((uploads.rows - read).values())
    duplicated = sum((read - uploads.rows).values())
    latency = sorted(seen_at[key] - at for key, at in uploads.finished_at.items() if key in seen_at)
    table = Table(title="A year of flights", show_header=False)
    rows = {
        "uploaded": f"{sum(uploads.rows.values()):,} rows in {len(uploads.finished_at)} objects",
        "read back (read_committed)": f"{sum(read.values()):,}",
        "missing": f"{missing:,}",
        "duplicated": f"{duplicated:,}",
        "first upload to last record": f"{seconds:.1f} s",
        "rate": f"{sum(read.values()) / seconds:,.0f} records/s, {uploads.bytes / seconds / 1e6:.1f} MB/s",
    }
    if latency:
        rows["upload to readable, whole object"] = (
            f"median {latency[len(latency) // 2] * 1000:.0f} ms, worst {latency[-1] * 1000:.0f} ms"
        )
    for name, value in rows.items():
        table.add_row(name, value)
    Console().print(table)
    return missing == 0 and duplicated == 0 and sum(read.values()) == ROWS


def play(on_stage: Stage) -> bool:
    """The whole demo on a stage; True when every row arrived exactly once."""
    with step("demo", "making the bucket"):
        on_stage.make_bucket(BUCKET)
    service = prepared(on_stage)
    uploads, read, seen_at = Uploads(), Counter[bytes](), dict[str, float]()
    try:
        with step("demo", "starting headrace run"):
            service.start()
        began = time.time()
        uploader = threading.Thread(target=uploads.run, args=[on_stage], name="upload", daemon=True)
        uploader.start()
        last = follow(on_stage, uploads, read, seen_at)
        uploader.join()
    finally:
        with step("demo", "stopping headrace"):
            code = service.stop()
    if code != 0:
        raise StageError(f"headrace ended with {code}:\n{service.tail()}")
    return report(uploads, read, seen_at, last - began)


def prepared(on_stage: Stage) -> Service:
    """The service's configuration, with bucket notification, queue and topic made by `headrace setup`."""
    options = on_stage.configuration(
        aws__s3__bucket__name=BUCKET,
        aws__s3__prefix="flights/",
        sqs__queue__url=f"{on_stage.endpoint}/queue/us-east-1/000000000000/{BUCKET}",
        topic=TOPIC,
        topic__creation__default__partitions=4,
        topic__creation__default__replication__factor=1,
        file__name__template=".*",
        input__format="jsonl",
    )
    service = on_stage.service("demo", options)
    with step("demo", "headrace setup: queue, bucket notification, topic"):
        service.command("setup")
    return service


def main() -> int:
    """0 when every row arrived exactly once."""
    began = time.monotonic()
    try:
        with stage("demo") as on_stage:
            is_exact = play(on_stage)
            # A row that is lost on the way in would be lost on the way out, too.
            is_exact = is_exact and play_back(on_stage, bucket=BUCKET, topic=TOPIC)
            is_exact = is_exact and play_spark(on_stage, bucket=BUCKET)
    except StageError as error:
        print(error, file=sys.stderr)
        return 1
    print("Every row arrived exactly once, both ways." if is_exact else "Rows are missing or duplicated.")
    print(f"demo: {time.monotonic() - began:.0f} s in all")
    return 0 if is_exact else 1


if __name__ == "__main__":
    sys.exit(main())
