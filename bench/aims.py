"""The aims that were set for the benchmark's figures, beside what was reached."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

Medians = dict[str, dict[str, float]]
"""By workload and contestant: the median rate, or that of one round. Figures by name: `latency`, `cpu`,
`memory`, `sink`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """One promise: what is compared, and the number to reach (or, for `at_most`, not to pass)."""

    workload: str
    what: str
    aim: float
    reached: Callable[[Medians], float]
    at_most: bool = False
    unit: str = ""

    def is_met(self, reached: float) -> bool:
        """Whether this is enough."""
        return reached <= self.aim if self.at_most else reached >= self.aim


def _ratio(workload: str, *others: str) -> Callable[[Medians], float]:
    """Headrace's rate by the best of the others'."""
    return lambda medians: medians[workload]["headrace"] / max(medians[workload][other] for other in others)


def _figure(group: str, name: str) -> Callable[[Medians], float]:
    return lambda medians: medians[group][name]


AIMS: Final = (
    Aim(
        workload="jsonl",
        what="of plain produce() from memory, the better of one or two processes",
        aim=0.7,
        reached=_ratio("jsonl", "produce_only_1", "produce_only_2"),
    ),
    Aim(workload="jsonl", what="of the plain script", aim=1.5, reached=_ratio("jsonl", "plain_script")),
    Aim(workload="gzip", what="of the plain script", aim=1.5, reached=_ratio("gzip", "plain_script")),
    Aim(workload="small", what="of the plain script", aim=1.3, reached=_ratio("small", "plain_script")),
    Aim(workload="small", what="of bare GETs", aim=0.9, reached=_ratio("small", "bare_gets")),
    Aim(
        workload="latency",
        what="p50, one object a second",
        aim=50,
        reached=_figure("latency", "idle_p50_ms"),
        at_most=True,
        unit="ms",
    ),
    Aim(
        workload="latency",
        what="p99, one object a second",
        aim=250,
        reached=_figure("latency", "idle_p99_ms"),
        at_most=True,
        unit="ms",
    ),
    Aim(
        workload="latency",
        what="p99, while an object of 1 GiB is read by one of two tasks",
        aim=500,
        reached=_figure("latency", "large_p99_ms"),
        at_most=True,
        unit="ms",
    ),
    Aim(
        workload="latency",
        what="first upload after the quiet time (ten minutes with --all)",
        aim=500,
        reached=_figure("latency", "after_quiet_ms"),
        at_most=True,
        unit="ms",
    ),
    Aim(
        workload="jsonl",
        what="CPU a record, all our processes",
        aim=0.8,
        reached=_figure("cpu", "jsonl"),
        at_most=True,
        unit="us",
    ),
    *(
        Aim(
            workload=name,
            what="rows, end to end",
            aim=400_000,
            reached=_figure(name, "headrace"),
            unit="records/s",
        )
        for name in ("avro", "parquet")
    ),
    *(
        Aim(
            workload=name,
            what="records with key and timestamp, end to end",
            aim=aim,
            reached=_figure(name, "headrace"),
            unit="records/s",
        )
        for name, aim in (("restore-jsonl", 400_000), ("restore-csv", 300_000))
    ),
    *(
        Aim(
            workload=name,
            what="of a plain script with the library's loop",
            aim=3,
            reached=_ratio(name, "plain_script"),
        )
        for name in ("avro", "parquet")
    ),
    Aim(
        workload="sink",
        what="JSON Lines of 200 bytes, of the plain script",
        aim=1.5,
        reached=_figure("sink", "of_script"),
    ),
    *(
        Aim(workload="sink", what=what, aim=aim, reached=_figure("sink", name), at_most=True, unit=unit)
        for name, what, aim, unit in (
            ("headrace_cpu_us", "CPU a record, all our processes", 1.5, "us"),
            ("p50_ms", "p50, produced to visible, rotate.records=1", 150, "ms"),
            ("groups_worker_mib", "a worker with 1,000 open groups", 400, "MiB"),
        )
    ),
    *(
        Aim(
            workload="memory",
            what=what,
            aim=aim,
            reached=_figure("memory", kind),
            at_most=True,
            unit="MiB",
        )
        for kind, what, aim in (
            ("workers", "a worker", 400),
            ("driver", "the driver's Python", 300),
            ("jvm", "the JVM", 600),
        )
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """An aim with what was reached: the median of the rounds, and the least and the most of them."""

    aim: Aim
    reached: float
    low: float
    high: float

    @property
    def is_met(self) -> bool:
        """Whether it was."""
        return self.aim.is_met(self.reached)

    @property
    def is_sure(self) -> bool:
        """Whether every round says so."""
        return self.aim.is_met(self.low) == self.aim.is_met(self.high)


def outcomes(medians: Medians, rounds: Sequence[Medians]) -> list[Outcome]:
    """The aims whose figures were measured, each with what was reached.

    A ratio is taken within each round, in which both sides had the same machine; the median of those counts.
    What `rounds` do not have, such as a peak, comes from `medians`.
    """
    found = []
    for aim in AIMS:
        values = [value for value in (_reached(aim, each) for each in rounds) if value is not None]
        once = _reached(aim, medians)
        if values:
            found.append(
                Outcome(aim=aim, reached=statistics.median(values), low=min(values), high=max(values))
            )
        elif once is not None:
            found.append(Outcome(aim=aim, reached=once, low=once, high=once))
    return found


def _reached(aim: Aim, figures: Medians) -> float | None:
    try:
        return aim.reached(figures)
    except KeyError:
        # Not measured this time: --only, or a workload of --all.
        return None
