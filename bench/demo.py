"""`make demo`: a year of real flights, uploaded while Headrace runs, counted in Kafka, and archived again.

Exit code 0 only if every row that was uploaded is read back from the topic exactly once, and from the bucket
after the way back.
"""

import sys
import threading
import time
from collections import Counter

from rich.console import Console
from rich.table import Table

from bench.demo_back import TOPIC, play_back
from bench.demo_reading import Reading
from bench.demo_spark import SparkQuery, spark_query
from bench.flights import DAYS, ROWS, days, load
from bench.progress import bars
from bench.stage import Stage, StageError, stage
from bench.worker import Worker
from localstack.steps import PartError, full_disk, say, step

BUCKET = "headrace-demo"
PATIENCE_SECONDS = 120
# A slot that has work holds its core: more than the machine has, so that no connector waits for another.
CORES = 6


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


def follow(on_stage: Stage, uploads: Uploads, read: Reading) -> None:
    """Read the topic as a read-committed consumer, with a progress bar."""

    def is_over() -> bool:
        if uploads.error is not None:
            raise StageError(f"The upload failed: {uploads.error}")
        if not uploads.done.is_set():
            return False
        # However slow the machine is, nothing is missing as long as records come.
        last = max(read.last_at, *uploads.finished_at.values())
        return read.count >= ROWS or time.time() - last > PATIENCE_SECONDS

    with bars({"objects uploaded": DAYS, "records arrived": ROWS}) as shown:
        for message in on_stage.read(TOPIC, until=is_over):
            read.add(message)
            if read.count % 1000 == 0:
                shown(len(uploads.finished_at), read.count)
        shown(len(uploads.finished_at), read.count)


def report(uploads: Uploads, read: Reading, began: float) -> bool:
    """Print the account; True when nothing is missing and nothing came twice."""
    values, seconds = read.values(), read.last_at - began
    missing = sum((uploads.rows - values).values())
    duplicated = sum((values - uploads.rows).values())
    latency = sorted(
        read.seen_at[key.encode()] - at
        for key, at in uploads.finished_at.items()
        if key.encode() in read.seen_at
    )
    table = Table(title="A year of flights", show_header=False)
    rows = {
        "uploaded": f"{sum(uploads.rows.values()):,} rows in {len(uploads.finished_at)} objects",
        "read back (read_committed)": f"{read.count:,}",
        "missing": f"{missing:,}",
        "duplicated": f"{duplicated:,}",
        "first upload to last record": f"{seconds:.1f} s",
        "rate": f"{read.count / seconds:,.0f} records/s, {uploads.bytes / seconds / 1e6:.1f} MB/s",
    }
    if latency:
        rows["upload to readable, whole object"] = (
            f"median {latency[len(latency) // 2] * 1000:.0f} ms, worst {latency[-1] * 1000:.0f} ms"
        )
    for name, value in rows.items():
        table.add_row(name, value)
    Console().print(table)
    return missing == 0 and duplicated == 0 and read.count == ROWS


def play(on_stage: Stage, worker: Worker, read: Reading, query: SparkQuery) -> bool:
    """The flights by way of S3 into Kafka; True when every row arrived exactly once.

    Spark's query comes up meanwhile, and begins when all is uploaded.
    """
    options = source_options(on_stage)
    with step("demo", "headrace setup: queue, bucket notification, topic"):
        on_stage.service("flights", options).command("setup")
    with step("demo", "waiting for the worker and its Spark"):
        worker.await_ready(PATIENCE_SECONDS)
    # Not before: it would take the cores that the worker comes up on.
    query.launch()
    with step("demo", "a connector from S3 to Kafka"):
        worker.put("flights", options | {"connector.class": "HeadraceSource"})
        worker.until(lambda: worker.is_ready("flights"), "a ready connector", PATIENCE_SECONDS)
    uploads = Uploads()
    began = time.time()
    uploader = threading.Thread(target=uploads.run, args=[on_stage], name="upload", daemon=True)
    uploader.start()
    follow(on_stage, uploads, read)
    uploader.join()
    query.begin()
    return report(uploads, read, began)


def source_options(on_stage: Stage) -> dict[str, object]:
    """What brings the flights from the bucket to the topic; `headrace setup` makes what it needs."""
    return on_stage.configuration(
        aws__s3__bucket__name=BUCKET,
        aws__s3__prefix="flights/",
        sqs__queue__url=f"{on_stage.endpoint}/queue/us-east-1/000000000000/{BUCKET}",
        topic=TOPIC,
        topic__creation__default__partitions=4,
        topic__creation__default__replication__factor=1,
        file__name__template=".*",
        input__format="jsonl",
        tasks__max=2,
    )


def stop(worker: Worker) -> None:
    """End it; StageError when that is no clean end."""
    with step("demo", "stopping the worker"):
        code = worker.stop()
    if code != 0:
        raise StageError(f"headrace worker ended with {code}:\n{worker.tail()}")


def play_all(on_stage: Stage, worker: Worker) -> None:
    """The whole demo on a stage, in one worker; StageError unless every row arrived once, both ways."""
    worker.launch_again()
    try:
        with step("demo", "making the bucket"):
            on_stage.make_bucket(BUCKET)
        read = Reading()
        with spark_query(on_stage, bucket=BUCKET) as query:
            is_exact = play(on_stage, worker, read, query)
            # A row that is lost on the way in would be lost on the way out, too.
            is_exact = is_exact and play_back(on_stage, worker, read, bucket=BUCKET)
            stop(worker)
            is_exact = is_exact and query.show()
    finally:
        worker.stop()
    if not is_exact:
        raise StageError("Rows are missing or duplicated.")


def main() -> int:
    """0 when every row arrived exactly once."""
    began = time.monotonic()
    # It has what is to be uploaded by the time that it is.
    threading.Thread(target=load, daemon=True).start()
    launched: list[Worker] = []

    def launch(on_stage: Stage) -> None:
        say("demo", "starting headrace worker, which comes up beside its broker and what follows")
        launched.append(Worker(on_stage, "demo", spark__master=f"local[{CORES}]"))
        launched[0].launch()

    try:
        with stage("demo", lasting=False, meanwhile=launch) as on_stage:
            play_all(on_stage, *launched)
    except (StageError, PartError) as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(full_disk(error), file=sys.stderr)
        return 1
    finally:
        # The stage may have failed before there was anything to play.
        for worker in launched:
            worker.stop()
    print("Every row arrived exactly once, both ways.")
    print(f"demo: {time.monotonic() - began:.0f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
