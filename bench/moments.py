"""Where each millisecond from PutObject to readable goes: the steps of one small object a second.

Driver and workers note when an object passes each step (`bench/stamps`), which costs some 0.02 ms each.

    python -m bench.moments [--count 60]
"""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from bench.delays import Delays, uploading
from bench.stage import stage

_NEXT_UPLOAD_NS: Final = 900_000_000
# In the order of an object's steps; what lies between one and the one before it.
STEPS: Final = {
    "told": "S3 stores the object and tells SQS; the long poll answers; the listeners parse it",
    "granted": "catalogue, plan, and the batch written to the task's socket",
    "taken": "the task has the batch",
    "opened": "GET; meanwhile the transaction is begun, with the group's consent",
    "sent": "decode; the record is handed to librdkafka, its checkpoint is made",
    "committed": "record and checkpoint acknowledged, the transaction committed",
    "read": "the commit's markers are written; a read-committed consumer gets the record",
}
_TOGETHER: Final = {"opened": ("fetched", "opened")}
"""A step that is over when all of these are."""


def steps_of(began_ns: int, read_ns: int, noted: list[tuple[str, int]]) -> list[float] | None:
    """Milliseconds of each step of one upload; None when one was not noted before the next upload."""
    at, found = began_ns, []
    for step in STEPS:
        moment = read_ns if step == "read" else _next(step, at, noted)
        if moment is None or moment - began_ns > _NEXT_UPLOAD_NS:
            return None
        found.append((moment - at) / 1e6)
        at = moment
    return found


def _next(step: str, at: int, noted: list[tuple[str, int]]) -> int | None:
    """When the step was first noted after `at`."""
    firsts = [
        min((ns for name, ns in noted if name == one and ns >= at), default=None)
        for one in _TOGETHER.get(step, (step,))
    ]
    known = [first for first in firsts if first is not None]
    return max(known) if len(known) == len(firsts) else None


def shown(rows: list[list[float]]) -> Table:
    """The medians of the steps, and of the whole."""
    whole = [sum(row) for row in rows]
    table = Table(title=f"{len(rows)} uploads, one a second: from before the PUT to the record read")
    for heading in ("until", "what is on the way"):
        table.add_column(heading)
    for heading in ("ms, median", "ms, 99 of 100"):
        table.add_column(heading, justify="right")
    for number, (step, what) in enumerate(STEPS.items()):
        table.add_row(step, what, *_figures([row[number] for row in rows]))
    table.add_section()
    table.add_row("", "the whole", *_figures(whole))
    return table


def _figures(values: list[float]) -> tuple[str, str]:
    found = Delays(ms=sorted(values))
    return f"{found.p50:.1f}", f"{found.p99:.1f}"


def main() -> int:
    """Print the steps."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=60)
    count = parser.parse_args().count
    with stage("moments") as on_stage:
        file = on_stage.folder / "stamps"
        # Driver and workers inherit it.
        stamps = {"HEADRACE_BENCH_STAMPS": str(file), "PYTHONPATH": str(Path(__file__).parent / "stamps")}
        os.environ.update(stamps)  # noqa: TID251 - this is a program of its own
        spans = []
        with uploading(on_stage) as service:
            for _ in range(count):
                began = time.monotonic_ns()
                ms = service.first()
                spans.append((began, began + int(ms * 1e6)))
                time.sleep(max(0.0, 1 - ms / 1000))
        noted = [(name, int(ns)) for name, ns in map(str.split, file.read_text().splitlines())]
    rows = [found for span in spans if (found := steps_of(*span, noted)) is not None]
    if len(rows) < count * 0.9:
        print(f"Only {len(rows)} of {count} uploads left a mark at each step.", file=sys.stderr)
        return 1
    Console(width=120).print(shown(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
