"""What a process and all below it have used, told from /proc: CPU seconds and resident memory."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """One process: CPU seconds (with those of children that have ended), resident MiB now and at most."""

    pid: int
    kind: str
    cpu_seconds: float
    resident_mib: float
    peak_mib: float


def tree(root: int) -> list[Used]:
    """The process `root` and every living one below it."""
    children: dict[int, list[int]] = {}
    for pid in _pids():
        parent = _parent(pid)
        if parent is not None:
            children.setdefault(parent, []).append(pid)
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, [])
        used = _used(pid)
        if used is not None:
            found.append(used)
    return found


def cpu_seconds(*roots: int) -> dict[str, float]:
    """CPU seconds used by the trees below `roots` so far, by kind of process."""
    total: dict[str, float] = {}
    for root in roots:
        for used in tree(root):
            total[used.kind] = total.get(used.kind, 0.0) + used.cpu_seconds
    return total


def memory_mib(root: int) -> tuple[dict[str, int], dict[str, int]]:
    """MiB resident in the tree below `root`, now and at most, by kind; shared pages count twice."""
    now: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    for used in tree(root):
        now[used.kind] += round(used.resident_mib)
        peak[used.kind] += round(used.peak_mib)
    return dict(now), dict(peak)


def proportional_mib(root: int) -> dict[str, int]:
    """MiB of the tree below `root` by kind, in which a page that several have counts once (PSS)."""
    total: Counter[str] = Counter()
    for used in tree(root):
        try:
            rollup = (_PROC / str(used.pid) / "smaps_rollup").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        pages = next(line for line in rollup.splitlines() if line.startswith("Pss:"))
        total[used.kind] += round(int(pages.split()[1]) / 1024)
    return dict(total)


def _pids() -> Iterator[int]:
    return (int(path.name) for path in _PROC.iterdir() if path.name.isdigit())


def _parent(pid: int) -> int | None:
    stat = _stat(pid)
    return None if stat is None else int(stat[1])


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/pid/stat from the state on (proc(5)); None when the process is gone."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def _used(pid: int) -> Used | None:
    stat = _stat(pid)
    try:
        command = (_PROC / str(pid) / "cmdline").read_bytes()
        status = (_PROC / str(pid) / "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if stat is None:
        return None
    sizes = {
        name: int(rest.split()[0]) / 1024
        for name, _, rest in (line.partition(":") for line in status.splitlines())
        if name in {"VmRSS", "VmHWM"}
    }
    ticks = sum(int(field) for field in stat[11:15])  # utime, stime, cutime, cstime
    return Used(
        pid=pid,
        kind=_kind(command),
        cpu_seconds=ticks / _TICKS,
        resident_mib=sizes.get("VmRSS", 0.0),
        peak_mib=sizes.get("VmHWM", 0.0),
    )


def _kind(command: bytes) -> str:
    if b"org.apache.spark." in command:
        return "jvm"
    if b"spark.daemon" in command or b"pyspark.daemon" in command:
        return "workers"
    return "driver"
