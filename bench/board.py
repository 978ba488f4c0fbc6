"""`make bench`: Headrace beside what one could use instead, in one run, in turn, on the same broker and S3.

Each round measures every contestant of every workload once, so that ratios hold on a machine whose speed
changes. Prints a table with the aims, and writes `bench/results.json` and `bench/results.svg`. Ends with 0
when everything could be measured, whether aims were reached or not, and with 1 when something could not.

    python -m bench.board                               # about 15 minutes
    python -m bench.board --all                         # 20 s each, more formats, ten quiet minutes: 90
    python -m bench.board --rounds 1 --only jsonl --scale 0.1 --out .   # a quick look
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import million, sink
from bench.aims import outcomes
from bench.chart import bar_chart
from bench.contestants import (
    Run,
    bare_gets,
    headrace,
    headrace_cluster,
    plain_script,
    produce_only,
    without_layout,
)
from bench.delays import Delays, Uploading, uploading
from bench.results import Results
from bench.stage import Stage, StageError, stage
from bench.tables import BESIDE, LABELS, aims_table, groups, rates_table, trust
from bench.workloads import MORE_WORKLOADS, WORKLOADS, Workload
from localstack.steps import PartError, say

UPLOADS: Final = 20
"""Small objects of one round of latency, one a second; under load twice as many in the same time."""
_QUIET_SECONDS: Final = 600.0
_LATENCY: Final = "latency"
_SINK: Final = "sink"
_SINK_RECORDS: Final = 4_000_000

Contestant = Callable[[Stage, Workload], Run]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line says."""

    rounds: int
    workloads: Sequence[Workload]
    has_latency: bool
    has_beside: bool
    """Latency under load, and while a large object is read, too."""
    has_sink: bool
    has_million: bool
    quiet_seconds: float
    scale: float
    out: Path


def contestants(workload: Workload) -> dict[str, Contestant]:
    """Who measures this workload, in the order of a round."""
    if workload.plain_format:
        return {"headrace": headrace, "without_layout": without_layout}
    found: dict[str, Contestant] = {"headrace": headrace, "plain_script": plain_script}
    if workload.counts_objects:
        found["bare_gets"] = bare_gets
    if workload.has_cluster and workload.is_steady:
        found["headrace_cluster"] = headrace_cluster
    if workload.name == "jsonl" or (workload.name == "gzip" and not workload.is_steady):
        # These lines are the ones that it sends; of other rows it would say nothing.
        found["produce_only_1"] = lambda on_stage, lines: produce_only(on_stage, lines, 1)
        found["produce_only_2"] = lambda on_stage, lines: produce_only(on_stage, lines, 2)
    return found


class Board:
    """The benchmark on a stage: what is asked for, what was found, and a bar."""

    def __init__(self, on_stage: Stage, asked: Asked, bar: Progress) -> None:
        self.results = Results(rounds=asked.rounds, scale=asked.scale)
        self._stage = on_stage
        self._asked = asked
        self._bar = bar
        steps = sum(self._rounds(one) * len(contestants(one)) for one in asked.workloads)
        steps += len(asked.workloads) + bool(asked.workloads)  # uploading, and warming up
        steps += asked.rounds * len(self._uploads()) if asked.has_latency else 0
        steps += (asked.quiet_seconds > 0) + asked.has_sink + asked.has_million
        self._task = bar.add_task("", total=steps)

    def run(self) -> None:
        """Everything, and the files after each round, so that an interrupted run is not lost."""
        for workload in self._asked.workloads:
            with self._step(f"uploading: {workload.title}"):
                workload.upload(self._stage)
        for workload in self._asked.workloads[:1]:
            # A broker whose JVM has compiled nothing yet costs the first contestant half its speed, and one
            # that has seen no transactions costs us.
            with self._step("warming the broker up, not measured"):
                for contestant in list(contestants(workload).values())[:2]:
                    contestant(self._stage, workload)
        for number in range(self._asked.rounds):
            for workload in self._asked.workloads:
                if number >= self._rounds(workload):
                    continue
                for name, contestant in contestants(workload).items():
                    said = f"round {number + 1} of {self._asked.rounds}: {workload.title}, {LABELS[name]}"
                    with self._step(said):
                        self.results.add(workload, name, contestant(self._stage, workload))
            self.write()
        if self._asked.has_latency:
            self._delays()
            self.write()
        self._once()

    def _once(self) -> None:
        """What is measured without rounds of the board's."""
        if self._asked.has_sink:
            with self._step("the sink: beside a plain script, its delay, and its memory with open groups"):
                self.results.sink = self._sink().figures()
            self.write()
        if self._asked.has_million:
            with self._step("a million objects: a restart, and a full listing"):
                self.results.million = million.measure(self._stage, pages=million.PAGES)
            self.write()

    def _sink(self) -> sink.SinkFigures:
        return sink.measured(
            self._stage,
            rounds=self._asked.rounds,
            records=int(_SINK_RECORDS * self._asked.scale),
            delays_of=UPLOADS,
            groups=sink.GROUPS,
        )

    def write(self) -> None:
        """`results.json` and `results.svg`."""
        out = self._asked.out
        (out / "results.json").write_text(json.dumps(self.results.as_dict(), indent=2) + "\n")
        title = "Headrace beside a plain script and plain produce(), medians with spread"
        (out / "results.svg").write_text(bar_chart(title, groups(self.results)))

    def _delays(self) -> None:
        with self._tolerant(_LATENCY), uploading(self._stage) as service:
            for number in range(self._asked.rounds):
                for beside, upload in self._uploads().items():
                    said = f"round {number + 1} of {self._asked.rounds}: uploads, {BESIDE[beside]}"
                    with self._step(said):
                        self.results.delays.setdefault(beside, []).append(upload(service))
            if self._asked.quiet_seconds:
                with self._step(f"one upload after {self._asked.quiet_seconds:.0f} quiet seconds"):
                    time.sleep(self._asked.quiet_seconds)
                    self.results.after_quiet_ms = service.first()
                    self.results.quiet_seconds = self._asked.quiet_seconds

    def _rounds(self, workload: Workload) -> int:
        return min(self._asked.rounds, workload.most_rounds)

    def _uploads(self) -> dict[str, Callable[[Uploading], Delays]]:
        """The kinds of rounds of latency."""
        found: dict[str, Callable[[Uploading], Delays]] = {"idle": lambda service: service.idle(UPLOADS)}
        if self._asked.has_beside:
            found["load"] = lambda service: service.under_load(2 * UPLOADS)
            found["large"] = Uploading.beside_large
        return found

    @contextmanager
    def _step(self, said: str) -> Iterator[None]:
        self._bar.update(self._task, description=said)
        began = time.monotonic()
        with self._tolerant(said):
            yield
        self._bar.advance(self._task)
        if not self._bar.console.is_terminal:
            say("bench", f"{said}: {time.monotonic() - began:.0f} s")

    @contextmanager
    def _tolerant(self, said: str) -> Iterator[None]:
        """One measurement that fails costs itself, not the other quarter of an hour."""
        try:
            yield
        except (StageError, PartError) as error:
            self.results.failures.append(f"{said}: {error}")
            self._bar.console.print(f"{said} failed: {error}", markup=False, highlight=False)


def main() -> int:
    """Run the benchmark as asked."""
    asked = _asked()
    # Before the first measurement: after the last one it would cost them all.
    asked.out.mkdir(parents=True, exist_ok=True)
    console = Console()
    if not console.is_terminal:
        # A log has room for whole rows.
        console.width = 120
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with stage("bench") as on_stage, Progress(*columns, console=console) as bar:
        board = Board(on_stage, asked, bar)
        board.run()
    console.print(rates_table(board.results))
    console.print(aims_table(outcomes(board.results.medians(), board.results.by_round())))
    console.print(trust(board.results), highlight=False)
    if not board.results.failures:
        console.print(f"Written: {asked.out / 'results.json'}, {asked.out / 'results.svg'}", highlight=False)
        return 0
    for failure in board.results.failures:
        console.print(f"Not measured: {failure.splitlines()[0]}", markup=False, highlight=False)
    return 1


def _asked() -> Asked:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    everything = [*WORKLOADS, *MORE_WORKLOADS]
    parser.add_argument("--rounds", type=int, default=3, help="three and more are believable")
    parser.add_argument(
        "--all", action="store_true", help="further formats, so many objects that a run is steady, quiet time"
    )
    names = [one.name for one in everything] + [_LATENCY, _SINK]
    parser.add_argument("--only", nargs="+", choices=names, metavar="WORKLOAD", help=", ".join(names))
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of objects")
    parser.add_argument("--quiet-seconds", type=float, help=f"{_QUIET_SECONDS:.0f} with --all, else none")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder of the results")
    given = parser.parse_args()
    if given.rounds < 1 or given.scale <= 0:
        parser.error("--rounds is 1 at least, and --scale above 0")
    chosen = everything if given.all or given.only else list(WORKLOADS)
    quiet = given.quiet_seconds
    if quiet is None:
        quiet = _QUIET_SECONDS if given.all and not given.only else 0.0
    if given.all:
        chosen = [one.steady() for one in chosen]
    return Asked(
        rounds=given.rounds,
        workloads=[one.scaled(given.scale) for one in chosen if not given.only or one.name in given.only],
        has_latency=not given.only or _LATENCY in given.only,
        has_beside=given.all,
        has_sink=(given.all and not given.only) or _SINK in (given.only or ()),
        has_million=given.all and not given.only,
        quiet_seconds=quiet,
        scale=given.scale,
        out=given.out,
    )


if __name__ == "__main__":
    sys.exit(main())
