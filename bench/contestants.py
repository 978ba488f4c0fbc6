"""Who takes part in the benchmark: Headrace (on a cluster too), a plain script, `produce()`, bare GETs.

Each measures one workload once, on the same stage as the others, and says how fast it was and what it used.
"""

import resource
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final

from bench import processes
from bench.counted import Counted, counted
from bench.stage import Service, Stage, StageError
from bench.workloads import Workload
from localstack.cluster import cluster

PARTITIONS: Final = 4
# A transaction writes one control record a partition, so ends run ahead of the rows: the last of them has
# come when nothing changes any more.
_QUIET_SECONDS: Final = 2.0
# Where nothing is sent: the same in each round, so that what it costs is measured once.
_NO_TOPIC: Final = "bench-nothing"
_PATIENCE_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One measurement: a rate in the workload's unit, CPU and peak memory by kind of process."""

    rate: float
    cpu_us: Mapping[str, float] = field(default_factory=dict)
    """CPU microseconds a record (or an object, where those are counted)."""
    beside_us: Mapping[str, float] = field(default_factory=dict)
    """The same of the broker and of S3 meanwhile."""
    peak_mib: Mapping[str, float] = field(default_factory=dict)
    """The largest process of each kind."""


def headrace(on_stage: Stage, workload: Workload) -> Run:
    """Headrace, exactly once and checked: from its first record on the broker to its last commit."""
    return _headrace(on_stage, workload)


def headrace_cluster(on_stage: Stage, workload: Workload) -> Run:
    """The same on a standalone cluster of two Spark workers beside it, whose CPU and memory count too."""
    with cluster(on_stage.folder) as found:
        of_cluster = replace(workload, options=dict(workload.options) | found.options)
        return _headrace(on_stage, of_cluster, *found.workers)


def without_layout(on_stage: Stage, workload: Workload) -> Run:
    """Headrace on the rows of an archive as values: neither key nor timestamp is made of them."""
    return _headrace(on_stage, workload.without_layout())


def _headrace(on_stage: Stage, workload: Workload, *pids: int) -> Run:
    with _fresh_topic(on_stage) as topic:
        with serving(on_stage, topic, workload) as service:
            run = _watched(on_stage, service, topic, workload, pids)
        _verify(on_stage, topic, workload)
    return run


@contextmanager
def serving(on_stage: Stage, topic: str, workload: Workload) -> Iterator[Service]:
    """Headrace on this workload, ready; stopped afterwards."""
    of_all: dict[str, object] = {
        "aws__s3__bucket__name": workload.bucket,
        "topic": topic,
        "file__name__template": ".*",
        "input__format": workload.input_format,
    }
    options = on_stage.configuration(**of_all | dict(workload.options))
    service = on_stage.service(topic, options)
    service.start()
    try:
        yield service
    finally:
        service.stop()


def plain_script(on_stage: Stage, workload: Workload) -> Run:
    """The script that people write first: GET, split or decode, produce; nothing checked, nothing kept."""
    where = (on_stage.bootstrap, on_stage.endpoint, workload.bucket)
    is_lines = workload.name in {"jsonl", "gzip", "small", "large"}
    argv = ("plain_script", *where) if is_lines else ("plain_formats", *where)
    loop = () if is_lines else (workload.name,)
    part = workload.of_script()
    with _fresh_topic(on_stage) as topic, _beside(on_stage, part) as beside:
        sent, seconds, cpu = script(*argv, "in/", topic, str(part.objects), *loop)
    if sent != part.records:
        raise StageError(f"The plain script sent {sent} records of {part.name}, not {part.records}.")
    # Its imports are not the workload's: a run that finds nothing to read costs them alone.
    cpu -= idle_cpu(*argv, "nothing/", _NO_TOPIC, "1", *loop)
    us = {"script": cpu / part.amount * 1e6}
    return Run(rate=part.amount / seconds, cpu_us=us, beside_us=beside)


def produce_only(on_stage: Stage, workload: Workload, number: int) -> Run:
    """As many records from memory through plain `produce()`, in so many processes; the ceiling."""
    argv = ("produce_only", on_stage.bootstrap)
    with _fresh_topic(on_stage) as topic, _beside(on_stage, workload) as beside:
        sent, seconds, cpu = script(*argv, topic, str(workload.records), str(number))
    cpu -= idle_cpu(*argv, _NO_TOPIC, "0", str(number))
    return Run(rate=sent / seconds, cpu_us={"script": cpu / sent * 1e6}, beside_us=beside)


def bare_gets(on_stage: Stage, workload: Workload) -> Run:
    """Every object fetched and thrown away: what this S3 gives at all."""
    with _beside(on_stage, workload) as beside:
        fetched, seconds, cpu = script("bare_gets", on_stage.endpoint, workload.bucket, str(workload.objects))
    cpu -= idle_cpu("bare_gets", on_stage.endpoint, workload.bucket, "0")
    return Run(rate=fetched / seconds, cpu_us={"script": cpu / fetched * 1e6}, beside_us=beside)


@contextmanager
def _beside(on_stage: Stage, workload: Workload) -> Iterator[dict[str, float]]:
    """CPU microseconds, for each record or object, that broker and S3 use meanwhile; filled at the end."""
    pids = on_stage.daemon_pids()

    def used() -> dict[str, float]:
        return {name: sum(processes.cpu_seconds(pid).values()) for name, pid in pids.items()}

    found: dict[str, float] = {}
    before = used()
    yield found
    found |= {name: (now - before[name]) / workload.amount * 1e6 for name, now in used().items()}


def _watched(on_stage: Stage, service: Service, topic: str, workload: Workload, others: Sequence[int]) -> Run:
    """What became of a topic that a service fills. Looking at its ends costs the broker nothing."""
    pids = (service.pid, *others)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not sum(on_stage.ends(topic, "read_uncommitted").values()):
        _still_waits(service, deadline, topic)
        time.sleep(0.01)
    began, used = time.monotonic(), processes.cpu_seconds(*pids)
    ends, changed = 0, began
    with _beside(on_stage, workload) as beside:
        while ends < workload.records or time.monotonic() - changed < _QUIET_SECONDS:
            _still_waits(service, deadline, topic)
            now, current = time.monotonic(), sum(on_stage.ends(topic).values())
            if current != ends:
                ends, changed = current, now
            time.sleep(0.05)
    cpu = {
        kind: (seconds - used.get(kind, 0.0)) / workload.amount * 1e6
        for kind, seconds in processes.cpu_seconds(*pids).items()
    }
    peak: dict[str, float] = {}
    for process in (one for pid in pids for one in processes.tree(pid)):
        peak[process.kind] = max(peak.get(process.kind, 0.0), process.peak_mib)
    return Run(rate=workload.amount / (changed - began), cpu_us=cpu, beside_us=beside, peak_mib=peak)


def _still_waits(service: Service, deadline: float, topic: str) -> None:
    if time.monotonic() > deadline or not service.is_running:
        raise StageError(f"{topic} did not fill in {_PATIENCE_SECONDS:.0f} s:\n{service.tail()}")


def _verify(on_stage: Stage, topic: str, workload: Workload) -> None:
    """StageError unless each row is there once."""
    found = counted(on_stage.bootstrap, topic, on_stage.ends(topic))
    if found != Counted(records=workload.records, different=workload.records):
        raise StageError(
            f"{topic} holds {found.records} records, {found.different} of them different; "
            f"{workload.records} were uploaded."
        )


def script(module: str, *arguments: str) -> tuple[int, float, float]:
    """What a script of this folder says that it did, in how many seconds, and its CPU seconds."""
    argv = [sys.executable, "-m", f"bench.{module}", *arguments]
    # Of ended children there is one sum for all; nothing else of ours ends meanwhile.
    before = _children_cpu()
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    cpu = _children_cpu() - before
    if done.returncode != 0:
        raise StageError(f"bench.{module} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    amount, seconds = done.stdout.split()
    return int(amount), float(seconds), cpu


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@cache
def idle_cpu(module: str, *arguments: str) -> float:
    """CPU seconds of a script that has nothing to do."""
    return script(module, *arguments)[2]


@contextmanager
def _fresh_topic(on_stage: Stage) -> Iterator[str]:
    topic = f"bench-{uuid.uuid4().hex[:8]}"
    on_stage.make_topic(topic, PARTITIONS)
    yield topic
    on_stage.drop_topic(topic)
