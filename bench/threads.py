"""Where each microsecond of a record goes: CPU by thread of every process, while JSON Lines come in.

From /proc, so that it costs what is measured nothing. Threads of Python carry no names of their own there:
the first of a process is `main` (in a worker: decode, check, hand over to librdkafka), the others are
`python` (GETs, the driver's helpers); those of librdkafka are `rdk:...` (batches, compression, the network).
Threads that ended meanwhile, such as those that fetch the objects of a batch, are one line.

    python -m bench.threads [--only WORKLOAD]
"""

import argparse
import os
import sys
import time
import uuid
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from bench import processes
from bench.contestants import PARTITIONS, produce_only, serving
from bench.stage import Service, Stage, StageError, stage
from bench.workloads import MORE_WORKLOADS, WORKLOADS, Workload

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_ENDED: Final = "(ended)"
_LEAST_US: Final = 0.01
_PATIENCE_SECONDS: Final = 300.0

CpuByThread = dict[tuple[str, str], float]
"""CPU seconds by kind of process and name of thread."""


def used(kinds: dict[int, str]) -> CpuByThread:
    """CPU seconds of the living threads of these processes (pid to kind) so far."""
    found: defaultdict[tuple[str, str], float] = defaultdict(float)
    for pid, kind in kinds.items():
        for task in Path(f"/proc/{pid}/task").glob("[0-9]*"):
            # A thread may end while it is looked at.
            with suppress(OSError):
                comm, cpu = _stat(task)
                name = "main" if task.name == str(pid) else comm.rstrip("0123456789/")
                found[kind, name] += cpu
                found[kind, _ENDED] -= cpu
        with suppress(OSError):
            found[kind, _ENDED] += _stat(Path(f"/proc/{pid}"))[1]
    return found


def _stat(folder: Path) -> tuple[str, float]:
    """Name and CPU seconds of a process (with its threads that have ended) or of one thread (proc(5))."""
    head, _, rest = (folder / "stat").read_text().rpartition(")")
    fields = rest.split()
    return head.partition("(")[2], (int(fields[11]) + int(fields[12])) / _TICKS


def idle_seconds() -> float:
    """Seconds for which cores had nothing to do, all together."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()
    return (int(fields[4]) + int(fields[5])) / _TICKS


def measured(on_stage: Stage, workload: Workload) -> tuple[CpuByThread, float, float]:
    """CPU by thread from the first record on the broker to the last commit; seconds, and those left idle."""
    topic = f"threads-{uuid.uuid4().hex[:8]}"
    on_stage.make_topic(topic, PARTITIONS)
    with serving(on_stage, topic, workload) as service:
        return _watched(on_stage, service, topic, workload)


def _watched(
    on_stage: Stage, service: Service, topic: str, workload: Workload
) -> tuple[CpuByThread, float, float]:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not sum(on_stage.ends(topic, "read_uncommitted").values()):
        _look(service, deadline)
    kinds = {one.pid: one.kind for one in processes.tree(service.pid)}
    kinds |= {pid: name for name, pid in on_stage.daemon_pids().items()}
    before, began, idle = used(kinds), time.monotonic(), idle_seconds()
    while service.status()["objects"]["done"] < workload.objects:
        _look(service, deadline)
    found = {thread: cpu - before.get(thread, 0.0) for thread, cpu in used(kinds).items()}
    return found, time.monotonic() - began, idle_seconds() - idle


def _look(service: Service, deadline: float) -> None:
    if time.monotonic() > deadline or not service.is_running:
        raise StageError(f"not done in {_PATIENCE_SECONDS:.0f} s:\n{service.tail()}")
    # Each answer is a thread of the driver, and would count as ours: fifty a second were 0.4 us a record.
    time.sleep(0.2)


def shown(found: CpuByThread, workload: Workload, seconds: float, idle: float) -> Table:
    """The table: microseconds a record (or an object), the largest first."""
    title = f"{workload.title}: {workload.amount / seconds:,.0f} {workload.unit}"
    table = Table(title=title, caption=f"{idle / seconds:.2f} cores of {os.cpu_count()} had nothing to do")
    for heading in ("process", "thread"):
        table.add_column(heading)
    table.add_column("us of CPU each", justify="right")
    least = _LEAST_US * (1 if not workload.counts_objects else 1000)
    for (kind, name), cpu in sorted(found.items(), key=lambda one: -one[1]):
        us = cpu / workload.amount * 1e6
        if us >= least:
            table.add_row(kind, name, f"{us:,.2f}")
    return table


def main() -> int:
    """Measure one workload once."""
    everything = {one.name: one for one in (*WORKLOADS, *MORE_WORKLOADS)}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=everything, default="jsonl")
    workload = everything[parser.parse_args().only]
    with stage("threads") as on_stage:
        workload.upload(on_stage)
        # A broker that has compiled nothing yet is another broker.
        produce_only(on_stage, workload, 2)
        found, seconds, idle = measured(on_stage, workload)
    Console(width=100).print(shown(found, workload, seconds, idle))
    return 0


if __name__ == "__main__":
    sys.exit(main())
