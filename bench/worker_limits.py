"""What many connectors cost in one worker: memory, threads and CPU when idle, start times, some with load.

`python -m bench.worker_limits --idle 200 --loaded 20`. Half of the connectors are sources, half are sinks.
CPU and memory are those of the whole process tree (driver, JVM, Python workers), from /proc.
"""

import argparse
import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench import processes
from bench.stage import Stage, StageError, stage
from bench.worker import Worker
from localstack.steps import say

_BUCKET: Final = "headrace-limits"
_ARCHIVE: Final = "headrace-limits-archive"
_ROWS: Final = 200
_START_SECONDS: Final = 900.0


def create(on_stage: Stage, worker: Worker, name: str, *, is_sink: bool, topic: str) -> None:
    """A connector, there when this returns."""
    config = on_stage.configuration(tasks__max=1)
    if is_sink:
        config |= {"connector.class": "HeadraceSink", "topics": topic, "aws.s3.bucket.name": _ARCHIVE}
        config |= {"rotate.age.ms": "5000"}
    else:
        config |= {"connector.class": "HeadraceSource", "topic": topic, "aws.s3.bucket.name": _BUCKET}
        config |= {"aws.s3.prefix": f"{name}/", "file.name.template": ".*", "input.format": "jsonl"}
        config |= {"poll.interval.ms": "10000", "poll.listing": "full"}
    worker.put(name, config)


def roles(worker: Worker) -> list[str]:
    """What each connector of a worker is at."""
    return [one["role"] for one in worker.connectors().values()]


@contextmanager
def running(on_stage: Stage, cores: int) -> Iterator[Worker]:
    """A worker, ended at the end."""
    worker = Worker(on_stage, "limits", spark__master=f"local[{cores}]")
    worker.launch()
    try:
        worker.await_ready(_START_SECONDS)
        yield worker
    finally:
        worker.stop()


def until(condition: Any, what: str) -> float:
    """Seconds until it is so."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > _START_SECONDS:
            raise StageError(f"not in {_START_SECONDS:.0f} s: {what}")
        time.sleep(0.5)
    return round(time.monotonic() - began, 1)


def are_led(worker: Worker, count: int) -> bool:
    """Whether so many connectors are led."""
    return roles(worker).count("leader") == count


def created(on_stage: Stage, worker: Worker, stem: str, count: int) -> dict[str, float]:
    """So many connectors, half of them sinks: how long until they exist, and until all are led."""
    before, began = len(roles(worker)), time.monotonic()
    for number in range(count):
        name, topic = f"{stem}-{number}", f"{stem}-{number // 2}"
        create(on_stage, worker, name, is_sink=number % 2 == 1, topic=topic)
    exist = round(time.monotonic() - began, 1)
    until(lambda: are_led(worker, before + count), "connectors that are led")
    return {"created_seconds": exist, "led_seconds": round(time.monotonic() - began, 1)}


def measured(worker: Worker, seconds: float) -> dict[str, Any]:
    """Memory, threads and CPU over so many seconds."""
    pid = worker.pid
    cpu, began = processes.cpu_seconds(pid), time.monotonic()
    time.sleep(seconds)
    took, used = time.monotonic() - began, processes.cpu_seconds(pid)
    shares = {kind: 100 * (after - cpu.get(kind, 0.0)) / took for kind, after in used.items()}
    return {
        "resident_mib": processes.memory_mib(pid)[0],
        "proportional_mib": processes.proportional_mib(pid),
        "threads": len(list(Path(f"/proc/{pid}/task").iterdir())),
        "open_files": len(list(Path(f"/proc/{pid}/fd").iterdir())),
        "cpu_percent_of_a_core": {kind: round(share, 1) for kind, share in shares.items()}
        | {"all": round(sum(shares.values()), 1)},
    }


class Load:
    """An object a second for each source of `loaded`, until it is stopped."""

    def __init__(self, on_stage: Stage, sources: int) -> None:
        self._on_stage = on_stage
        self._sources = sources
        self._stop = threading.Event()
        self.rows = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        """End it."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        body = b"".join(b'{"number":%d,"text":"%s"}\n' % (number, b"x" * 80) for number in range(_ROWS))
        turn = 0
        while not self._stop.wait(1.0):
            for number in range(self._sources):
                key = f"loaded-{2 * number}/{turn:06d}.jsonl"
                self._on_stage.s3.put_object(Bucket=_BUCKET, Key=key, Body=body)
                self.rows += _ROWS
            turn += 1


def arrived(on_stage: Stage, topics: int) -> int:
    """Rows in the topics of the loaded sources."""
    return sum(1 for number in range(topics) for _ in on_stage.read(f"loaded-{number}", until=lambda: True))


def main() -> int:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--idle", type=int, default=200)
    parser.add_argument("--loaded", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--cores", type=int, default=4)
    asked = parser.parse_args()
    found: dict[str, Any] = {}
    with stage("limits") as on_stage:
        for bucket in (_BUCKET, _ARCHIVE):
            on_stage.make_bucket(bucket)
        for stem, count in (("idle", asked.idle), ("loaded", asked.loaded)):
            for number in range((count + 1) // 2):
                on_stage.make_topic(f"{stem}-{number}", 1)
        with running(on_stage, asked.cores) as worker:
            found["empty"] = measured(worker, min(asked.seconds, 20))
            say("limits", f"{asked.idle} idle connectors ...")
            found["start"] = created(on_stage, worker, "idle", asked.idle)
            time.sleep(asked.seconds)
            found["idle"] = measured(worker, asked.seconds)
            say("limits", f"{asked.loaded} loaded ones ...")
            found["start_loaded"] = created(on_stage, worker, "loaded", asked.loaded)
            load = Load(on_stage, asked.loaded // 2)
            found["loaded"] = measured(worker, asked.seconds)
            load.stop()
            found["loaded"]["rows"] = load.rows
            found["loaded"]["seconds_behind"] = until(
                lambda: arrived(on_stage, asked.loaded // 2) >= load.rows, "all rows"
            )
        began = time.monotonic()
        with running(on_stage, asked.cores) as worker:
            until(lambda: are_led(worker, asked.idle + asked.loaded), "all led again")
            found["started_again_seconds"] = round(time.monotonic() - began, 1)
    print(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
