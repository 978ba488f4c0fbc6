"""The sink beside the plain script and the bare consumer: `python -m bench.sink`.

The same topic of JSON values of 200 bytes in four partitions, archived in turn, not compressed, 50,000
records an object. Printed for each: records/s, CPU a record of its own processes, of the broker and of
S3, and the requests that an object cost; medians of the rounds and their range, and ratios to the script
as they are within each round, since the machine's speed changes between them. Headrace is measured from
its first commit on, the others from their first record on. Then, with `rotate.records` 1, from before
`produce` until an object is listed. With `--groups` a worker's most memory: exit code 1 when it exceeds the
promise.
"""

import argparse
import statistics
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Producer

from bench import processes
from bench.contestants import PARTITIONS, idle_cpu, script
from bench.lines import lines
from bench.memory import PROMISE_MIB
from bench.stage import Stage, StageError, stage

_BUCKET: Final = "headrace-bench-sink"
_PER_OBJECT: Final = 50_000
_PATIENCE_SECONDS: Final = 300.0
# Each answer to /status is work of the service's own.
_LOOK_SECONDS: Final = 0.2
_VALUES: Final = {"output__fields": "value", "output__envelope": "false", "file__compression__type": "none"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRun:
    """One measurement; CPU in microseconds a record."""

    rate: float
    cpu_us: float
    broker_us: float
    s3_us: float
    requests: float
    """S3 requests an object; 0 without objects."""


class Beside:
    """What broker and S3 have used, and S3 answered, since it was made."""

    def __init__(self, on_stage: Stage) -> None:
        self._stage = on_stage
        self._before = self._used()
        self._asked = self._requests()

    def _used(self) -> dict[str, float]:
        pids = self._stage.daemon_pids()
        return {name: sum(processes.cpu_seconds(pid).values()) for name, pid in pids.items()}

    def _requests(self) -> int:
        # LocalStack logs a line for each call of S3.
        return self._stage.parts.emulator.daemon.log.read_bytes().count(b"AWS s3.")

    def run(self, records: int, seconds: float, cpu: float, objects: int) -> SinkRun:
        """The measurement of a contestant that ends now."""
        used = {name: (now - self._before[name]) / records * 1e6 for name, now in self._used().items()}
        return SinkRun(
            rate=records / seconds,
            cpu_us=cpu / records * 1e6,
            broker_us=used["broker"],
            s3_us=used["S3"],
            requests=(self._requests() - self._asked) / objects if objects else 0.0,
        )


def filled(on_stage: Stage, records: int) -> str:
    """A topic with so many records, spread over its partitions."""
    topic = f"sink-{uuid.uuid4().hex[:8]}"
    on_stage.make_topic(topic, PARTITIONS)
    producer = Producer(
        {
            "bootstrap.servers": on_stage.bootstrap,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 50,
            "queue.buffering.max.messages": 500_000,
        }
    )
    for first in range(0, records, 10_000):
        for number, value in enumerate(lines(first, min(10_000, records - first)).splitlines()):
            producer.produce(topic, value, b"key-%d" % number, number % PARTITIONS)
        while len(producer) > 100_000:
            producer.poll(0.05)
    if producer.flush(120):
        raise StageError(f"{topic} could not be filled.")
    return topic


def headrace(on_stage: Stage, topic: str, records: int) -> SinkRun:
    """The sink, exactly once, from its first commit to its last object."""
    name = f"bench-{uuid.uuid4().hex[:8]}"
    options = on_stage.configuration(
        topics=topic,
        aws__s3__bucket__name=_BUCKET,
        aws__s3__prefix=f"{name}/",
        output__format="jsonl",
        rotate__records=str(_PER_OBJECT),
        rotate__age__ms="5000",
        **_VALUES,
    )
    service = on_stage.service(name, options)
    service.start()
    try:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not (before := _archived(service.status())):
            _still_waits(service, deadline)
        began, used = time.monotonic(), sum(processes.cpu_seconds(service.pid).values())
        beside = Beside(on_stage)
        objects = _objects(on_stage, f"{name}/")
        while _archived(service.status()) < records:
            _still_waits(service, deadline)
        seconds = time.monotonic() - began
        cpu = sum(processes.cpu_seconds(service.pid).values()) - used
        measured = records - before
        if measured <= 0:
            raise StageError("All records were archived by the first commit; ask for more --records.")
        run = beside.run(measured, seconds, cpu, max(1, measured // _PER_OBJECT))
    finally:
        service.stop()
    if _objects(on_stage, f"{name}/") <= objects:
        raise StageError("No object became visible meanwhile; ask for more --records.")
    return run


def _archived(status: Any) -> int:
    return int(status["records_total"])


def _objects(on_stage: Stage, prefix: str) -> int:
    pages = on_stage.s3.get_paginator("list_objects_v2").paginate(Bucket=_BUCKET, Prefix=prefix)
    return sum(len(page.get("Contents", ())) for page in pages)


def _still_waits(service: Any, deadline: float) -> None:
    if time.monotonic() > deadline or not service.is_running:
        raise StageError(f"not archived in {_PATIENCE_SECONDS:.0f} s:\n{service.tail()}")
    time.sleep(_LOOK_SECONDS)


GROUPS: Final = 1_000


def peak_of_groups(on_stage: Stage, groups: int = GROUPS, a_group: int = 1_000) -> float:
    """MiB of the largest worker at most, while so many objects are open and get so many records each."""
    topic, name = f"groups-{uuid.uuid4().hex[:8]}", f"groups-{uuid.uuid4().hex[:8]}"
    on_stage.make_topic(topic, 1)
    producer = Producer({"bootstrap.servers": on_stage.bootstrap, "linger.ms": 50, "compression.type": "lz4"})
    for first in range(0, groups * a_group, groups):
        for number, value in enumerate(lines(first, groups).splitlines()):
            producer.produce(topic, value, b"group-%d" % number)
        while len(producer) > 50_000:
            producer.poll(0.05)
    if producer.flush(120):
        raise StageError(f"{topic} could not be filled.")
    options = on_stage.configuration(
        topics=topic,
        aws__s3__bucket__name=_BUCKET,
        aws__s3__prefix=f"{name}/",
        output__format="jsonl",
        file__name__template="{{topic}}/{{key}}/{{partition}}-{{start_offset}}",
        rotate__records=str(a_group),
        rotate__age__ms=str(int(_PATIENCE_SECONDS * 1000)),
        **_VALUES,
    )
    service = on_stage.service(name, options)
    service.start()
    try:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while _archived(service.status()) < groups * a_group:
            _still_waits(service, deadline)
        return max(one.peak_mib for one in processes.tree(service.pid) if one.kind == "workers")
    finally:
        service.stop()


def plain(on_stage: Stage, topic: str, records: int, per_object: int) -> SinkRun:
    """The script, or with 0 records an object the bare consumer."""
    argv = ("plain_sink", on_stage.bootstrap, on_stage.endpoint, _BUCKET, topic, str(per_object))
    idle = idle_cpu(*argv, "0")
    beside = Beside(on_stage)
    _, seconds, cpu = script(*argv, str(records))
    return beside.run(records, seconds, cpu - idle, records // per_object if per_object else 0)


def delays(on_stage: Stage, count: int) -> list[float]:
    """Milliseconds from before `produce` until an object of one record is listed, one a second."""
    topic, name = f"delay-{uuid.uuid4().hex[:8]}", f"delay-{uuid.uuid4().hex[:8]}"
    on_stage.make_topic(topic, 1)
    options = on_stage.configuration(
        topics=topic,
        aws__s3__bucket__name=_BUCKET,
        aws__s3__prefix=f"{name}/",
        output__format="jsonl",
        rotate__records="1",
        **_VALUES,
    )
    service = on_stage.service(name, options)
    producer = Producer({"bootstrap.servers": on_stage.bootstrap, "linger.ms": 0})
    service.start()
    found = []
    try:
        for number in range(count + 1):
            began = time.monotonic()
            producer.produce(topic, b'{"number":%d}' % number)
            producer.flush(30)
            while _objects(on_stage, f"{name}/") <= number:
                if time.monotonic() - began > _PATIENCE_SECONDS:
                    raise StageError(f"object {number} is not visible:\n{service.tail()}")
                time.sleep(0.005)
            found.append((time.monotonic() - began) * 1000)
            time.sleep(max(0.0, began + 1 - time.monotonic()))
    finally:
        service.stop()
    return sorted(found[1:])  # the first pays for connections; a service runs longer than that


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkFigures:
    """What was found: runs by contestant, one a round, and what is measured once."""

    runs: Mapping[str, Sequence[SinkRun]]
    delays_ms: Sequence[float] = ()
    groups_mib: float | None = None

    def ratios(self, other: str) -> list[float]:
        """Headrace's rate by another's, round by round: the machine's speed changes between them."""
        pairs = zip(self.runs["Headrace"], self.runs[other], strict=True)
        return [mine.rate / theirs.rate for mine, theirs in pairs]

    def figures(self) -> dict[str, float]:
        """What aims are about, and what belongs to it."""
        found = {"of_script": statistics.median(self.ratios("plain script"))}
        for name, runs in self.runs.items():
            said = name.lower().replace(" ", "_")
            found[f"{said}_rate"] = statistics.median(run.rate for run in runs)
            found[f"{said}_cpu_us"] = statistics.median(run.cpu_us for run in runs)
            found[f"{said}_broker_us"] = statistics.median(run.broker_us for run in runs)
            found[f"{said}_s3_us"] = statistics.median(run.s3_us for run in runs)
        if self.delays_ms:
            found["p50_ms"] = statistics.median(self.delays_ms)
        if self.groups_mib is not None:
            found["groups_worker_mib"] = self.groups_mib
        return found


def measured(on_stage: Stage, *, rounds: int, records: int, delays_of: int, groups: int) -> SinkFigures:
    """Everything, the contestants in turn."""
    on_stage.make_bucket(_BUCKET)
    topic = filled(on_stage, records)
    contestants: dict[str, Callable[[], SinkRun]] = {
        "Headrace": lambda: headrace(on_stage, topic, records),
        "plain script": lambda: plain(on_stage, topic, records, _PER_OBJECT),
        "bare consumer": lambda: plain(on_stage, topic, records, 0),
    }
    contestants["bare consumer"]()  # the broker's page cache and compiled code, not measured
    runs: dict[str, list[SinkRun]] = {name: [] for name in contestants}
    for number in range(rounds):
        for name, contestant in contestants.items():
            runs[name].append(contestant())
            print(f"round {number + 1}, {name}: {runs[name][-1].rate:,.0f} records/s", flush=True)
    return SinkFigures(
        runs=runs,
        delays_ms=delays(on_stage, delays_of) if delays_of else (),
        groups_mib=peak_of_groups(on_stage, groups) if groups else None,
    )


def _spread(values: Sequence[float], digits: int) -> str:
    shown = f"{statistics.median(values):,.{digits}f}"
    return f"{shown} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def show(found: SinkFigures, groups: int) -> None:
    """Print the contestants, Headrace's ratios within each round, and what is measured once."""
    for name, each in found.runs.items():
        print(f"{name}: {_spread([run.rate for run in each], 0)} records/s")
        print(
            f"    CPU {_spread([run.cpu_us for run in each], 2)} us a record, broker "
            f"{_spread([run.broker_us for run in each], 2)}, S3 {_spread([run.s3_us for run in each], 2)}, "
            f"{statistics.median(run.requests for run in each):.1f} requests an object"
        )
    for other in ("plain script", "bare consumer"):
        pairs = zip(found.runs["Headrace"], found.runs[other], strict=True)
        rate = _spread(found.ratios(other), 2)
        cpu = _spread([mine.cpu_us / theirs.cpu_us for mine, theirs in pairs], 2)
        print(f"Headrace by the {other}: {rate} of the rate, {cpu} of the CPU")
    if found.delays_ms:
        p99 = found.delays_ms[min(len(found.delays_ms) - 1, int(len(found.delays_ms) * 0.99))]
        print(f"produced to visible: p50 {statistics.median(found.delays_ms):.0f} ms, p99 {p99:.0f} ms")
    if found.groups_mib is not None:
        most = f"{found.groups_mib:.0f} MiB at most, promised {PROMISE_MIB} MiB"
        print(f"a worker with {groups:,} open groups: {most}")


def main() -> int:
    """Run what is asked for; 1 when a promise of memory does not hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--delays", type=int, default=30, help="records of the delay, one a second; 0: none")
    parser.add_argument(
        "--groups",
        type=int,
        nargs="?",
        const=GROUPS,
        default=0,
        help="a worker's memory at that many open groups",
    )
    asked = parser.parse_args()
    with stage("sink") as on_stage:
        found = measured(
            on_stage,
            rounds=asked.rounds,
            records=asked.records,
            delays_of=asked.delays,
            groups=asked.groups,
        )
    show(found, asked.groups)
    return 1 if found.groups_mib is not None and found.groups_mib > PROMISE_MIB else 0


if __name__ == "__main__":
    sys.exit(main())
