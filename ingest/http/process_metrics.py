"""What every process shows of itself, whatever it runs: its build, itself, and the processes below it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution, version
from pathlib import Path
from platform import python_version
from resource import getpagesize
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, Metric, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

# Written into wheel and sdist when they are built (docker/build_hook.py).
_COMMIT_FILE: Final = Path(__file__).parents[1] / "COMMIT"

KINDS: Final = ("spark_jvm", "spark_python")


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """What runs: `role` is `source`, `sink` or `worker`; a part that is not known is empty."""

    version: str
    commit: str
    python: str
    spark: str
    role: str


def build_of(role: str) -> Build:
    """This installation, in that role."""
    package = distribution("headrace")
    return Build(
        version=package.version,
        commit=commit_of(package),
        python=python_version(),
        spark=_version_of("pyspark"),
        role=role,
    )


class ProcessMetrics:
    """A registry of its own: in a worker these are the process's, and no connector's."""

    def __init__(self, role: str, *, proc: Path = Path("/proc")) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_BuildInfo(build_of(role)))
        ProcessCollector(proc=str(proc), registry=self.registry)
        self.registry.register(_Children(proc))

    def exposition(self) -> bytes:
        """All of them in Prometheus's text format."""
        return generate_latest(self.registry)


class _BuildInfo(Collector):
    """`headrace_build_info`, always 1: its labels are what it says."""

    def __init__(self, build: Build) -> None:
        self._labels: Mapping[str, str] = msgspec.to_builtins(build)

    def collect(self) -> Iterable[Metric]:
        """The one sample."""
        family = GaugeMetricFamily(
            "headrace_build_info", "1, with what runs as its labels.", labels=list(self._labels)
        )
        family.add_metric(list(self._labels.values()), 1)
        return [family]


class _Children(Collector):
    """Spark's JVM and Python workers on this machine: the larger part of what a container's limit counts."""

    def __init__(self, proc: Path) -> None:
        self._proc = proc

    def collect(self) -> Iterable[Metric]:
        """How many there are, and their memory; nothing where there is no /proc."""
        count: Counter[str] = Counter()
        resident: Counter[str] = Counter()
        for kind, pages in self._descendants():
            count[kind] += 1
            resident[kind] += pages * getpagesize()
        processes = GaugeMetricFamily(
            "headrace_child_processes", "Processes that this one started, by kind.", labels=["kind"]
        )
        memory = GaugeMetricFamily(
            "headrace_child_resident_memory_bytes",
            "Their resident memory; what forked workers share is counted for each.",
            labels=["kind"],
        )
        for kind in KINDS:
            processes.add_metric([kind], count[kind])
            memory.add_metric([kind], resident[kind])
        return [processes, memory]

    def _descendants(self) -> Iterator[tuple[str, int]]:
        """Kind and resident pages of each process below this one."""
        found = {pid: stat for pid in self._pids() if (stat := self._stat(pid)) is not None}
        own = self._own()
        below = {own}
        # A process may have a lower number than its parent, so it takes as many rounds as they are deep.
        while more := {pid for pid, stat in found.items() if stat.parent in below and pid not in below}:
            below |= more
        for pid in below - {own}:
            stat = found[pid]
            yield ("spark_jvm" if stat.command == "java" else "spark_python"), stat.resident_pages

    def _own(self) -> int:
        try:
            return int((self._proc / "self").readlink().name)
        except (OSError, ValueError):
            return -1

    def _pids(self) -> Iterator[int]:
        try:
            yield from (int(path.name) for path in self._proc.iterdir() if path.name.isdecimal())
        except OSError:
            return

    def _stat(self, pid: int) -> "_Stat | None":
        """None for one that has ended meanwhile."""
        try:
            text = (self._proc / str(pid) / "stat").read_text(errors="replace")
        except OSError:
            return None
        # A command may hold blanks and parentheses of its own.
        command, _, rest = text.partition("(")[2].rpartition(")")
        fields = rest.split()
        return _Stat(command, parent=int(fields[1]), resident_pages=int(fields[21]))


@dataclass(frozen=True, slots=True)
class _Stat:
    """What of /proc/PID/stat is used."""

    command: str
    parent: int
    resident_pages: int


def commit_of(package: Distribution, file: Path = _COMMIT_FILE) -> str:
    """The commit that was built or installed; empty where nothing says so, as in a checkout."""
    if file.is_file():
        return file.read_text(encoding="ascii").strip()
    # PEP 610: pip writes it for `pip install git+https://..`.
    origin = package.read_text("direct_url.json")
    if origin is None:
        return ""
    return msgspec.json.decode(origin, type=_Origin).vcs_info.commit_id


class _VersionControl(msgspec.Struct):
    commit_id: str = ""


class _Origin(msgspec.Struct):
    vcs_info: _VersionControl = msgspec.field(default_factory=_VersionControl)


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
