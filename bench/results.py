"""What the benchmark found, round by round, and the shape of `bench/results.json`."""

import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.aims import Medians, outcomes
from bench.contestants import Run
from bench.delays import Delays
from bench.workloads import Workload


@dataclass(slots=True)
class Results:
    """Grows while the benchmark runs."""

    rounds: int
    scale: float
    runs: dict[str, dict[str, list[Run]]] = field(default_factory=dict)
    """By workload and contestant."""
    workloads: dict[str, Workload] = field(default_factory=dict)
    delays: dict[str, list[Delays]] = field(default_factory=dict)
    """By what goes on besides: `idle`, `load`, `large`."""
    million: Mapping[str, Any] = field(default_factory=dict)
    """What `bench.million` measures."""
    sink: Mapping[str, float] = field(default_factory=dict)
    """What `bench.sink` measures, by name."""
    after_quiet_ms: float | None = None
    quiet_seconds: float = 0.0
    """How long it had been quiet then."""
    failures: list[str] = field(default_factory=list)
    """A sentence for each measurement that came to nothing."""

    def add(self, workload: Workload, contestant: str, run: Run) -> None:
        """One more measurement."""
        self.workloads[workload.name] = workload
        self.runs.setdefault(workload.name, {}).setdefault(contestant, []).append(run)

    def rates(self, workload: str, contestant: str) -> list[float]:
        """The rates of all rounds."""
        return [run.rate for run in self.runs[workload][contestant]]

    def ratios(self, workload: str, contestant: str) -> list[float]:
        """Headrace's rate by this contestant's, round by round."""
        return ratios(self.rates(workload, "headrace"), self.rates(workload, contestant))

    def by_round(self) -> list[Medians]:
        """The figures of each round by themselves: rates, CPU, and latency, those that have all rounds."""
        return [self._of_round(number) for number in range(self.rounds)]

    def _of_round(self, number: int) -> Medians:
        found: Medians = {
            workload: {name: runs[number].rate for name, runs in by_name.items()}
            for workload, by_name in self.runs.items()
            if all(len(runs) == self.rounds for runs in by_name.values())
        }
        latency: dict[str, float] = {}
        for beside, rounds in self.delays.items():
            if len(rounds) == self.rounds:
                latency |= _latency(beside, rounds[number : number + 1])
        cpu = {
            name: sum(self.runs[name]["headrace"][number].cpu_us.values())
            for name, rates in found.items()
            if "headrace" in rates
        }
        return found | {"latency": latency, "cpu": cpu}

    def medians(self) -> Medians:
        """The figures that aims are about."""
        found: Medians = {
            workload: {name: statistics.median(run.rate for run in runs) for name, runs in by_name.items()}
            for workload, by_name in self.runs.items()
        }
        latency: dict[str, float] = {}
        for beside, rounds in self.delays.items():
            latency |= _latency(beside, rounds)
        if self.after_quiet_ms is not None:
            latency["after_quiet_ms"] = self.after_quiet_ms
        ours = {workload: runs["headrace"] for workload, runs in self.runs.items() if "headrace" in runs}
        return found | {
            "latency": latency,
            "sink": dict(self.sink),
            "cpu": {workload: sum(middle(runs, "cpu_us").values()) for workload, runs in ours.items()},
            "memory": most([run.peak_mib for runs in ours.values() for run in runs]),
        }

    def as_dict(self) -> dict[str, Any]:
        """The JSON shape."""
        medians = self.medians()
        return {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": machine(),
            "rounds": self.rounds,
            "scale": self.scale,
            "workloads": {name: self._workload(name) for name in self.runs},
            "latency": {name: round(value, 1) for name, value in medians["latency"].items()}
            | {"quiet_seconds": self.quiet_seconds}
            | {
                "rounds": {
                    beside: [{"p50_ms": round(one.p50, 1), "p99_ms": round(one.p99, 1)} for one in rounds]
                    for beside, rounds in self.delays.items()
                }
            },
            "million": self.million,
            "sink": {name: round(value, 3) for name, value in self.sink.items()},
            "peak_mib": {kind: round(value) for kind, value in medians["memory"].items()},
            "aims": [
                {
                    "workload": one.aim.workload,
                    "what": one.aim.what,
                    "unit": one.aim.unit or "ratio",
                    "aim": one.aim.aim,
                    "reached": round(one.reached, 2),
                    "rounds": [round(one.low, 2), round(one.high, 2)],
                    "is_met": one.is_met,
                }
                for one in outcomes(medians, self.by_round())
            ],
            "failures": self.failures,
        }

    def _workload(self, name: str) -> dict[str, Any]:
        workload = self.workloads[name]
        return {
            "title": workload.title,
            "unit": workload.unit,
            "objects": workload.objects,
            "records": workload.records,
            "contestants": {
                contestant: {
                    "median": round(statistics.median(self.rates(name, contestant))),
                    "rounds": [round(rate) for rate in self.rates(name, contestant)],
                    "cpu_us": {kind: round(us, 3) for kind, us in middle(runs, "cpu_us").items()},
                    "beside_us": {kind: round(us, 3) for kind, us in middle(runs, "beside_us").items()},
                    "peak_mib": {
                        kind: round(mib) for kind, mib in most([run.peak_mib for run in runs]).items()
                    },
                }
                for contestant, runs in self.runs[name].items()
            },
        }


def ratios(ours: Sequence[float], others: Sequence[float]) -> list[float]:
    """Rates by those of the same rounds, in which both had the same machine."""
    if len(ours) != len(others):
        # A measurement that failed: which rounds belong together is not known.
        return [statistics.median(ours) / statistics.median(others)]
    return [one / other for one, other in zip(ours, others, strict=True)]


def _latency(beside: str, rounds: Sequence[Delays]) -> dict[str, float]:
    return {
        f"{beside}_p50_ms": statistics.median(one.p50 for one in rounds),
        f"{beside}_p99_ms": statistics.median(one.p99 for one in rounds),
    }


def middle(runs: Sequence[Run], what: str) -> dict[str, float]:
    """The medians of a figure by kind of process."""
    by_kind: dict[str, list[float]] = {}
    for run in runs:
        for kind, value in getattr(run, what).items():
            by_kind.setdefault(kind, []).append(value)
    return {kind: statistics.median(values) for kind, values in sorted(by_kind.items())}


def most(figures: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The largest figure of each kind of process."""
    found: dict[str, float] = {}
    for figure in figures:
        for kind, value in figure.items():
            found[kind] = max(found.get(kind, 0.0), value)
    return found


def machine() -> dict[str, Any]:
    """What it was measured on."""
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "cores": os.cpu_count(),
        "processor": names[0] if names else platform.machine(),
        "python": platform.python_version(),
    }
