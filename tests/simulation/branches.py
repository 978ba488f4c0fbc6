"""Which branches of the code seeds come by: `python -m tests.simulation --branches` prints a table by room.

It takes two to three times as long as without. Code that is loaded is not counted before it is called.
"""

import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

_PACKAGES: Final = ("headrace", "ingest", "listeners", "spark")
_ROOMS: Final = (
    "ingest/source",
    "ingest/sink",
    "ingest/service",
    "listeners",
    "spark/source",
    "spark/sink",
    "spark/slots",
    "spark/task",
    "headrace/kafka",
    "headrace/s3",
    "headrace/formats",
    "headrace/vendors",
    "headrace/model",
)
"""What decides, and what tasks do; of the others only what happens to be called is in a run."""
_BIG_LINES: Final = 4


@contextmanager
def measured(report: Path | None) -> Iterator[None]:
    """Measure what happens within, and print the table; with `report` keep which lines were not reached."""
    # Only where it is asked for: it is no dependency of a run.
    import coverage

    # Not `sysmon`, which Python 3.11 has not got.
    measuring = coverage.Coverage(
        data_file=None, branch=True, source=list(_PACKAGES), concurrency="greenlet", messages=False
    )
    measuring.start()
    try:
        yield
    finally:
        measuring.stop()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "branches.json"
            measuring.json_report(outfile=str(file), ignore_errors=True)
            found = json.loads(file.read_text())["files"]
        sys.stdout.write("\n".join([*table(found), ""]))
        if report is not None:
            report.write_text("\n".join([*unreached(found), ""]))


def table(files: Mapping[str, Any]) -> Iterator[str]:
    """Lines of a table: branches by room."""
    yield "| room | modules | branches | reached | |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    rooms: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for name, one in files.items():
        room = _room_of(name)
        if room is not None:
            rooms[room].append(one["summary"])
    for room in _ROOMS:
        if found := rooms[room]:
            yield _line(room, found)
    yield _line("all of them", [one for found in rooms.values() for one in found])


def _room_of(name: str) -> str | None:
    return next((room for room in _ROOMS if name.startswith(f"{room}/")), None)


def _line(room: str, found: Sequence[Mapping[str, Any]]) -> str:
    branches, reached = (sum(one[what] for one in found) for what in ("num_branches", "covered_branches"))
    return f"| `{room}` | {len(found)} | {branches:,} | {reached:,} | {100 * reached // max(branches, 1)}% |"


def unreached(files: Mapping[str, Any]) -> Iterator[str]:
    """Functions that were not reached at all, and stretches of lines within others, the largest first."""
    found: list[tuple[int, str]] = []
    for name, one in files.items():
        if _room_of(name) is None:
            continue
        for function, part in one.get("functions", {}).items():
            missing = part["missing_lines"]
            if function and missing and not part["executed_lines"]:
                found.append((len(missing), f"{name} {function}: never called"))
            elif function:
                found += (
                    (len(run), f"{name}:{run[0]} {function}")
                    for run in _runs(missing, part["executed_lines"])
                    if len(run) >= _BIG_LINES
                )
    yield from (f"{size:4} {what}" for size, what in sorted(found, reverse=True))


def _runs(missing: Iterable[int], executed: Iterable[int]) -> Iterator[list[int]]:
    """Missing lines that follow one another, with no line between them that was reached."""
    run: list[int] = []
    reached = sorted(executed)
    for line in missing:
        if run and any(run[-1] < one < line for one in reached):
            yield run
            run = []
        run.append(line)
    if run:
        yield run
