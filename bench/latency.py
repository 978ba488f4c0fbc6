"""Upload to readable in Kafka: one small object a second, and one after a quiet time.

The clock starts before the PUT and stops when a read-committed consumer has the record in its hands.
"""

import argparse
import json
import statistics
import sys
import threading
import time
from typing import Any

from bench.stage import Service, Stage, StageError, stage
from localstack.steps import say

BUCKET = "headrace-latency"
TOPIC = "latency"


class Seen:
    """When each value was first read from a topic, noted by a thread of its own."""

    def __init__(self, on_stage: Stage, topic: str = TOPIC) -> None:
        self.at: dict[bytes, float] = {}
        self._stop = threading.Event()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, args=[on_stage, topic], daemon=True)
        self._thread.start()

    def _run(self, on_stage: Stage, topic: str) -> None:
        for message in on_stage.read(topic, until=self._stop.is_set):
            with self._changed:
                self.at.setdefault(message.value(), time.monotonic())
                self._changed.notify_all()

    def wait(self, value: bytes, seconds: float) -> float:
        """When `value` was read; StageError when it was not in time."""
        with self._changed:
            if not self._changed.wait_for(lambda: value in self.at, seconds):
                raise StageError(f"{value!r} was not readable within {seconds:.0f} s.")
            return self.at[value]

    def stop(self) -> None:
        """End the reading."""
        self._stop.set()
        self._thread.join()


def upload(on_stage: Stage, seen: Seen, number: int) -> float:
    """Seconds from before the PUT of one small object until its record is read."""
    value = b'{"number":%d}' % number
    began = time.monotonic()
    on_stage.s3.put_object(Bucket=BUCKET, Key=f"small/{number:06}.jsonl", Body=value + b"\n")
    return seen.wait(value, 60) - began


def measure(on_stage: Stage, *, count: int, quiet_seconds: float) -> dict[str, Any]:
    """Latencies in ms: p50, p99 and worst of `count`, and the first after the quiet time."""
    service = prepared(on_stage)
    service.start()
    seen = Seen(on_stage)
    try:
        upload(on_stage, seen, 0)  # the very first pays for connections; a service runs longer than that
        latencies = []
        for number in range(1, count + 1):
            began = time.monotonic()
            latencies.append(upload(on_stage, seen, number) * 1000)
            time.sleep(max(0.0, began + 1 - time.monotonic()))
        say("latency", f"{quiet_seconds:.0f} quiet seconds ...")
        time.sleep(quiet_seconds)
        after_quiet = upload(on_stage, seen, count + 1) * 1000
    finally:
        seen.stop()
        service.stop()
    latencies.sort()
    return {
        "count": count,
        "p50_ms": round(statistics.median(latencies), 1),
        "p99_ms": round(latencies[min(count - 1, int(count * 0.99))], 1),
        "worst_ms": round(latencies[-1], 1),
        "quiet_seconds": quiet_seconds,
        "after_quiet_ms": round(after_quiet, 1),
    }


def prepared(on_stage: Stage) -> Service:
    """Bucket, queue and topic for the measurement, and the service on them."""
    on_stage.make_bucket(BUCKET)
    options = on_stage.configuration(
        aws__s3__bucket__name=BUCKET,
        sqs__queue__url=f"{on_stage.endpoint}/queue/us-east-1/000000000000/{BUCKET}",
        topic=TOPIC,
        topic__creation__default__partitions=1,
        topic__creation__default__replication__factor=1,
        file__name__template=".*",
        input__format="jsonl",
    )
    service = on_stage.service("latency", options)
    service.command("setup")
    return service


def main() -> int:
    """Print the latencies as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--quiet-seconds", type=float, default=300)
    asked = parser.parse_args()
    with stage("latency") as on_stage:
        print(json.dumps(measure(on_stage, count=asked.count, quiet_seconds=asked.quiet_seconds), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
