"""Memory and file descriptors of the service's processes over time, and whether they grow."""

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

_EVERY_SECONDS: Final = 5.0
# What comes up at first (the JVM's code, caches, workers) is no growth.
_WARM_UP: Final = 0.25
_MIB: Final = 1024 * 1024
_PAGE: Final = 4096


@dataclass(frozen=True, slots=True)
class Slope:
    """Of one role over a phase: where it stood at last, and by how much it grew an hour."""

    role: str
    processes: int
    mib: float
    mib_per_hour: float
    descriptors: float
    descriptors_per_hour: float

    def __str__(self) -> str:
        return (
            f"{self.role:<8} {self.processes} process(es), "
            f"{self.mib:6.0f} MiB ({self.mib_per_hour:+7.1f} an hour), "
            f"{self.descriptors:5.0f} descriptors ({self.descriptors_per_hour:+6.1f} an hour)"
        )


@dataclass(slots=True)
class Growth:
    """Looks at a driver and all below it every five seconds."""

    driver: int
    _samples: dict[str, list[tuple[float, int, float, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Samples are taken while the block runs."""
        thread = threading.Thread(target=self._run, name="growth", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def slopes(self) -> list[Slope]:
        """One for each role, by least squares over what came after warming up."""
        found = []
        for role, samples in sorted(self._samples.items()):
            kept = np.array(samples[int(len(samples) * _WARM_UP) :], dtype=float)
            if len(kept) < 3:  # no line through fewer says anything
                continue
            hours = (kept[:, 0] - kept[0, 0]) / 3600
            memory, descriptors = (float(np.polyfit(hours, kept[:, column], 1)[0]) for column in (2, 3))
            last = kept[-1]
            found.append(Slope(role, int(last[1]), float(last[2]), memory, float(last[3]), descriptors))
        return found

    def _run(self) -> None:
        while not self._over.wait(_EVERY_SECONDS):
            roles: dict[str, list[int]] = defaultdict(list)
            for pid, role in processes(self.driver):
                roles[role].append(pid)
            for role, pids in roles.items():
                memory = sum(_resident(pid) for pid in pids) / _MIB
                self._samples[role].append((time.monotonic(), len(pids), memory, sum(map(_open, pids))))


def processes(driver: int) -> Iterator[tuple[int, str]]:
    """Process ids of a service with their roles: driver, jvm, daemon, workers."""
    yield driver, "driver"
    for child in _children(driver):
        yield child, "jvm"
        for daemon in _children(child):
            if "spark.daemon" in _command(daemon):
                yield daemon, "daemon"
                for worker in _children(daemon):
                    yield worker, "workers"


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += map(int, _text(task).split())
    return found


def _command(pid: int) -> str:
    return _text(Path(f"/proc/{pid}/cmdline"))


def _resident(pid: int) -> int:
    fields = _text(Path(f"/proc/{pid}/statm")).split()
    return int(fields[1]) * _PAGE if fields else 0


def _open(pid: int) -> int:
    try:
        return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return 0


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""  # it has ended meanwhile
