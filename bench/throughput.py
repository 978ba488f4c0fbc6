"""JSON Lines throughput, side by side in one run: Headrace, a plain script, and the produce-only ceiling.

Each round measures all of them on the same broker, in turn, so that ratios hold on a noisy machine.
Headrace's clock runs from its first record on the broker, committed or not, to its last commit; the others'
from their first GET or record to their last acknowledgement.
"""

import argparse
import json
import statistics
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from bench.lines import lines
from bench.processes import cpu_seconds
from bench.stage import Stage, StageError, stage
from localstack.steps import say

BUCKET = "headrace-throughput"
PREFIX = "jsonl/"
PARTITIONS = 4


def upload(on_stage: Stage, objects: int, rows: int) -> None:
    """The objects that everybody reads."""
    on_stage.make_bucket(BUCKET)
    for number in range(objects):
        body = lines(number * rows, rows)
        on_stage.s3.put_object(Bucket=BUCKET, Key=f"{PREFIX}{number:05}.jsonl", Body=body)


def script(module: str, *arguments: str) -> float:
    """Records a second that a script of this folder reports."""
    argv = [sys.executable, "-m", f"bench.{module}", *arguments]
    records, seconds = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split()
    return int(records) / float(seconds)


def plain_script(on_stage: Stage, _records: int) -> float:
    """Records a second of the plain script."""
    topic = fresh_topic(on_stage)
    return script("plain_script", on_stage.bootstrap, on_stage.endpoint, BUCKET, PREFIX, topic)


def produce_only(on_stage: Stage, records: int, processes: int) -> float:
    """Records a second of plain `produce()` from memory."""
    return script("produce_only", on_stage.bootstrap, fresh_topic(on_stage), str(records), str(processes))


def fresh_topic(on_stage: Stage) -> str:
    """A topic nobody wrote to yet."""
    topic = f"throughput-{uuid.uuid4().hex[:8]}"
    on_stage.make_topic(topic, PARTITIONS)
    return topic


def headrace(on_stage: Stage, records: int) -> float:
    """Records a second of Headrace, exactly once, from its first committed record to its last."""
    topic = fresh_topic(on_stage)
    options = on_stage.configuration(
        aws__s3__bucket__name=BUCKET,
        aws__s3__prefix=PREFIX,
        topic=topic,
        file__name__template=".*",
        input__format="jsonl",
        job__linger__ms=1000,
    )
    service = on_stage.service(f"headrace-{topic}", options)
    before: dict[str, float] = {}
    watch = Watch(on_stage, topic, records, on_begin=lambda: before.update(cpu_seconds(service.pid)))
    service.start()
    try:
        began, ended = watch.result(120)
        used = cpu_seconds(service.pid)
        micros = {kind: (used[kind] - before.get(kind, 0.0)) / records * 1e6 for kind in sorted(used)}
        say("cpu", ", ".join(f"{kind} {cost:.2f}" for kind, cost in micros.items()) + " us a record")
    except TimeoutError as error:
        raise StageError(f"{error}\n{service.tail()}") from error
    finally:
        service.stop()
    return records / (ended - began)


class Watch:
    """Times at which a topic got its first record and its last commit, seen from its ends.

    Looking at ends costs the broker nothing beside the measurement, where a consumer would compete with it.
    A transaction writes one control record a partition, so that an end runs ahead of the rows: the count is
    exact only afterwards, and is then checked by reading the topic.
    """

    def __init__(
        self, on_stage: Stage, topic: str, records: int, *, on_begin: Callable[[], None] = lambda: None
    ) -> None:
        self._on_stage, self._topic, self._records = on_stage, topic, records
        self._began = self._ended = 0.0
        self._error: BaseException | None = None
        self._over = threading.Event()
        self._on_begin = on_begin
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            self._look()
        except BaseException as error:  # noqa: BLE001 - raised again for who waits
            self._error = error
            self._over.set()

    def _look(self) -> None:
        while not sum(self._on_stage.ends(self._topic, "read_uncommitted").values()):
            time.sleep(0.01)
        self._began = time.monotonic()
        self._on_begin()
        ends, changed = 0, 0.0
        while True:
            now, current = time.monotonic(), sum(self._on_stage.ends(self._topic).values())
            if current != ends:
                ends, changed = current, now
            if ends >= self._records and now - changed > 2:
                self._ended = changed
                self._over.set()
                return
            time.sleep(0.05)

    def result(self, seconds: float) -> tuple[float, float]:
        """When the first record and the last commit were seen; StageError unless every row is there once."""
        if not self._over.wait(seconds):
            raise TimeoutError(f"{self._topic} did not fill within {seconds:.0f} s.")
        if self._error is not None:
            raise StageError(f"Watching {self._topic} failed: {self._error}") from self._error
        values = {message.value() for message in self._on_stage.read(self._topic, until=lambda: True)}
        count = sum(1 for _ in self._on_stage.read(self._topic, until=lambda: True))
        if len(values) != self._records or count != self._records:
            raise StageError(f"{self._topic} holds {count} records, {len(values)} of them different.")
        return self._began, self._ended


def measure(on_stage: Stage, *, objects: int, rows: int, rounds: int) -> dict[str, Any]:
    """Medians over the rounds in records a second, their spread, and the ratios that were promised."""
    records = objects * rows
    upload(on_stage, objects, rows)
    contestants: dict[str, Callable[[], float]] = {
        "headrace": lambda: headrace(on_stage, records),
        "plain_script": lambda: plain_script(on_stage, records),
        "produce_only_1": lambda: produce_only(on_stage, records, 1),
        "produce_only_2": lambda: produce_only(on_stage, records, 2),
    }
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds):
        for name, contestant in contestants.items():
            rates[name].append(contestant())
            say("round", f"{number + 1} of {rounds}, {name}: {rates[name][-1]:,.0f} records/s")
    medians = {name: statistics.median(values) for name, values in rates.items()}
    ceiling = max(medians["produce_only_1"], medians["produce_only_2"])
    return {
        "records": records,
        "rounds": rounds,
        "records_per_second": {name: round(value) for name, value in medians.items()},
        "spread": {name: [round(min(values)), round(max(values))] for name, values in rates.items()},
        "headrace_to_produce_only": round(medians["headrace"] / ceiling, 2),
        "headrace_to_plain_script": round(medians["headrace"] / medians["plain_script"], 2),
    }


def main() -> int:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=40)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with stage("throughput") as on_stage:
        result = measure(on_stage, objects=asked.objects, rows=asked.rows, rounds=asked.rounds)
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
