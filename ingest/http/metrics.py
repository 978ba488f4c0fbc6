"""The service's numbers, as docs/metrics.md lists them, and those that every process shows of itself.

A process shows its build, itself, and the processes below it. An object key is never a label: a label's
values live as long as the process.
"""

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution, version
from pathlib import Path
from platform import python_version
from resource import getpagesize
from typing import Final

import msgspec
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

MODES = ("events", "fallback", "listing")
TARGETS = ("running", "paused", "stopped")
OUTCOMES = ("committed", "aborted", "fenced", "unknown")
MESSAGES = ("received", "redelivered", "settled", "unsettled", "left", "released", "renewed")
INVENTORY_ROWS = ("listed", "left_out")
SINK_ENDS = ("complete", "quarantined", "unproven")
ACTIONS = ("done", "replaced", "failed")
INEXACT = (
    "dumped_key",
    "part_taken_by_value",
    "no_column_of_values",
    "time_zero",
    "side_object_missing",
    "side_object_late",
)
SPANS = ("exported", "dropped", "failed")
STATES = ("pending", "active", "partial", "done", "skipped", "failed", "quarantined", "new")

# From the promise of 50 ms up to the hour of a reconcile.
_LATENCY_BUCKETS = (0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)


class _Objects(Collector):
    """`headrace_objects{state}`, asked of the catalogue at each scrape, next to `headrace_objects_total`.

    The registry would refuse the two names side by side (a counter claims its base name as well), although
    the text format keeps them apart; a collector of its own, which describes nothing beforehand, may.
    """

    def __init__(self, counts: Callable[[], Mapping[str, int]], reached: Counter) -> None:
        self._counts = counts
        self._reached = reached

    def collect(self) -> Iterable[Metric]:
        """The gauge, then the counter."""
        family = GaugeMetricFamily("headrace_objects", "Objects by state, now.", labels=["state"])
        counts = self._counts()
        for state in STATES:
            family.add_metric([state], counts.get(state, 0))
        return [family, *self._reached.collect()]


class Metrics:
    """One registry and its metrics; `counts` gives the objects by state when a scraper asks."""

    def __init__(self, counts: Callable[[], Mapping[str, int]]) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # published without a return type
        self.registry = registry = CollectorRegistry()
        self.objects = Counter(
            "headrace_objects",
            "Objects that reached a state since the start, or were left out (ignored), by reason.",
            ["state", "reason"],
            registry=None,
        )
        registry.register(_Objects(counts, self.objects))
        self.records = Counter(
            "headrace_records", "Records committed, by topic.", ["topic"], registry=registry
        )
        self.read_bytes = Counter("headrace_read_bytes", "Bytes fetched from S3.", registry=registry)
        self.bad_records = Counter(
            "headrace_bad_records", "Bad records, by reason.", ["reason"], registry=registry
        )
        self.restore_inexact = Counter(
            "headrace_restore_inexact",
            "Rows of an archive of which a part could not be restored as it was, by what.",
            ["what"],
            registry=registry,
        )
        self.post_actions = Counter(
            "headrace_post_actions",
            "Objects acted on after their commit (post.action), by outcome.",
            ["outcome"],
            registry=registry,
        )
        self.pending_objects = Gauge(
            "headrace_pending_objects", "Objects known and not yet done.", registry=registry
        )
        self.pending_bytes = Gauge("headrace_pending_bytes", "Their sizes together.", registry=registry)
        self.oldest_pending = Gauge(
            "headrace_oldest_pending_seconds",
            "For how long the oldest pending object has been known.",
            registry=registry,
        )
        self.oldest_due = Gauge(
            "headrace_oldest_due_seconds",
            "For how long the oldest pending object has been old enough to be read (object.min.age.ms).",
            registry=registry,
        )
        self.event_to_commit = Histogram(
            "headrace_event_to_commit_seconds",
            "From the time of the event to the commit of the object's last record.",
            buckets=_LATENCY_BUCKETS,
            registry=registry,
        )
        self.batch = Histogram(
            "headrace_batch_seconds",
            "Time of one batch of work.",
            buckets=_LATENCY_BUCKETS,
            registry=registry,
        )
        self.transactions = Counter(
            "headrace_transactions", "Transactions by outcome.", ["outcome"], registry=registry
        )
        self.sqs_messages = Counter(
            "headrace_sqs_messages", "SQS messages by outcome.", ["outcome"], registry=registry
        )
        self.sqs_heartbeats = Counter(
            "headrace_sqs_heartbeats", "Visibility extensions of held messages.", registry=registry
        )
        self.list_requests = Counter("headrace_list_requests", "LIST requests made.", registry=registry)
        self.inventory_rows = Counter(
            "headrace_inventory_rows",
            "Rows of initial.inventory that were read: objects below the prefix, or left out.",
            ["outcome"],
            registry=registry,
        )
        self.mode = Gauge("headrace_mode", "1 for the mode that is on.", ["mode"], registry=registry)
        self.target = Gauge(
            "headrace_target",
            "1 for what is wanted of the ingester (pause and stop are asked through the REST interface).",
            ["target"],
            registry=registry,
        )
        self.leader = Gauge("headrace_leader", "1 while this process leads.", registry=registry)
        self.ready = Gauge("headrace_ready", "1 while /health/ready says so.", registry=registry)
        self.slots = Gauge("headrace_slots", "Slots by what they do.", ["state"], registry=registry)
        self.last_full_listing = Gauge(
            "headrace_last_full_listing_timestamp_seconds",
            "When the last full listing was complete (seconds since 1970; 0: none yet).",
            registry=registry,
        )
        self.sink_records = Counter(
            "headrace_sink_records", "Records committed to objects, by topic.", ["topic"], registry=registry
        )
        self.sink_bytes = Counter(
            "headrace_sink_bytes", "Bytes of the objects they are in.", registry=registry
        )
        self.sink_objects = Counter(
            "headrace_sink_objects",
            "Objects that became visible (complete), never will (quarantined), or are nowhere (unproven).",
            ["state"],
            registry=registry,
        )
        self.lost_offsets = Counter(
            "headrace_lost_offsets",
            "Records that Kafka deleted before they were read, by topic.",
            ["topic"],
            registry=registry,
        )
        self.sink_lag = Gauge(
            "headrace_sink_lag",
            "Records in Kafka that are not read yet, by topic.",
            ["topic"],
            registry=registry,
        )
        self.sink_open_objects = Gauge(
            "headrace_sink_open_objects", "Objects that take records now.", registry=registry
        )
        self.sink_pending_objects = Gauge(
            "headrace_sink_pending_objects", "Objects that are sealed and not completed.", registry=registry
        )
        self.sink_buffered_bytes = Gauge(
            "headrace_sink_buffered_bytes",
            "Bytes of open objects, in memory or on disk.",
            ["where"],
            registry=registry,
        )
        self.sink_oldest_open = Gauge(
            "headrace_sink_oldest_open_seconds",
            "For how long the oldest open object is open.",
            registry=registry,
        )
        self.sink_stopped_partitions = Gauge(
            "headrace_sink_stopped_partitions",
            "Partitions that need an operator: stopped at a record, or with offsets that cannot be right.",
            registry=registry,
        )
        self.trace_spans = Counter(
            "headrace_trace_spans",
            "Spans of traces (traces.exporter), by outcome.",
            ["outcome"],
            registry=registry,
        )
        self.set_mode(None)
        # There from the start, at 0: the rate of a series that begins with its first event misses that one.
        for outcome in OUTCOMES:
            self.transactions.labels(outcome)
        for outcome in MESSAGES:
            self.sqs_messages.labels(outcome)
        for outcome in INVENTORY_ROWS:
            self.inventory_rows.labels(outcome)
        for state in SINK_ENDS:
            self.sink_objects.labels(state)
        for outcome in ACTIONS:
            self.post_actions.labels(outcome)
        for what in INEXACT:
            self.restore_inexact.labels(what)
        for outcome in SPANS:
            self.trace_spans.labels(outcome)

    def set_mode(self, mode: str | None) -> None:
        """Show one mode as on (None: none yet)."""
        for name in MODES:
            self.mode.labels(name).set(1 if name == mode else 0)

    def set_target(self, target: str) -> None:
        """Show one target as wanted."""
        for name in TARGETS:
            self.target.labels(name).set(1 if name == target else 0)

    def set_sink_lag(self, topic: str, records: int) -> None:
        """Show how much of the topic waits; what of it gets lost is counted from 0 then, see above."""
        self.sink_lag.labels(topic).set(records)
        self.lost_offsets.labels(topic)

    def stand_by(self) -> None:
        """Show that this process does not lead, and nothing of what a leader knows."""
        for gauge in (
            self.leader,
            self.pending_objects,
            self.pending_bytes,
            self.oldest_pending,
            self.oldest_due,
            self.sink_open_objects,
            self.sink_pending_objects,
            self.sink_oldest_open,
            self.sink_stopped_partitions,
        ):
            gauge.set(0)
        for labelled in (self.slots, self.target, self.sink_lag, self.sink_buffered_bytes):
            labelled.clear()
        self.set_mode(None)

    def exposition(self) -> bytes:
        """All metrics in Prometheus's text format."""
        return generate_latest(self.registry)


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

    def __init__(self, role: str, *, until_idle: bool = False, proc: Path = Path("/proc")) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_BuildInfo(build_of(role)))
        Gauge(
            "headrace_until_idle", "1 where the process ends once all is done.", registry=self.registry
        ).set(until_idle)
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
        count: collections.Counter[str] = collections.Counter()
        resident: collections.Counter[str] = collections.Counter()
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
