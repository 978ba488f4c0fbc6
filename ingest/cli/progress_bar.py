"""How far a command has come: a bar on a terminal, nothing anywhere else."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from headrace.model.text_formatting import bytes_text, counted, printable

ProgressCallback = Callable[[int, int | None], None]
"""Called with how many are done, and of how many; None while that is not known."""


def is_terminal(stream: TextIO) -> bool:
    """Whether a person looks at this stream, on a terminal that can move its cursor.

    Asked of the stream itself: rich would also believe FORCE_COLOR, which says nothing about cursors.
    """
    return stream.isatty() and not Console(file=stream).is_dumb_terminal


@contextmanager
def progress(what: str, *, unit: str, total: int | None = None) -> Iterator[ProgressCallback]:
    """The function that moves the bar, `report(done, of)`; the bar goes when the command is done.

    It is drawn on standard error, so that standard output can go into a pipe. Without a terminal nothing
    is printed. NO_COLOR is respected.
    """
    columns = (
        _plain("{task.description}"),
        BarColumn(),
        _plain("{task.fields[count]}"),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, disable=not is_terminal(sys.stderr), redirect_stdout=False
    ) as bar:
        task = bar.add_task(what, total=total, count=_count(0, total, unit))

        def report(done: int, of: int | None) -> None:
            # More than was guessed: the guess was wrong, and a full bar would say that the end is near.
            known = of if of is not None and done <= of else None
            bar.update(task, completed=done, total=known, count=_count(done, known, unit))

        yield report


def _plain(text: str) -> TextColumn:
    """A column without rich's markup: keys and what brokers say have brackets of their own."""
    return TextColumn(text, markup=False)


def _count(done: int, of: int | None, unit: str) -> str:
    return f"{done:,} {unit}" if of is None else f"{done:,} of {of:,} {unit}"


ReadStatus = Callable[[], dict[str, Any] | None]
"""The shape of `/status` as it is now; None while the service does not answer."""

_REFRESH_SECONDS: Final = 0.5
# States in which an object is as finished as this run can make it.
_FINAL: Final = ("done", "skipped", "quarantined")
# Those that the ledger counts and that are not.
_BEGUN: Final = ("partial", "failed", "new")


@contextmanager
def until_idle_bar(read_status: ReadStatus, console: Console) -> Iterator[None]:
    """A bar on this console, as long as the block lasts; what is logged meanwhile goes above it."""
    columns = (
        SpinnerColumn(),
        _plain("{task.description}"),
        BarColumn(),
        _plain("{task.fields[said]}"),
        TimeElapsedColumn(),
    )
    ended = threading.Event()
    with Progress(*columns, console=console, redirect_stdout=False, refresh_per_second=4) as bar:
        task = bar.add_task("starting", total=None, said="")

        def follow() -> None:
            while not ended.wait(_REFRESH_SECONDS):
                shape = read_status()
                if shape is not None:
                    finished, known = amounts(shape)
                    bar.update(
                        task,
                        description=shape["role"],
                        completed=finished,
                        total=known or None,
                        said=description(shape),
                    )

        following = threading.Thread(target=follow, name="until-idle-bar", daemon=True)
        following.start()
        began = time.monotonic()
        try:
            yield
        finally:
            ended.set()
            following.join()
            bar.update(task, description=f"ended after {time.monotonic() - began:.0f} s")


def amounts(shape: dict[str, Any]) -> tuple[int, int]:
    """Objects that came to their end, and all that are known; a listing still running adds to the latter.

    Of a sink the records that it has archived, and those that were in Kafka.
    """
    if (sink := shape.get("sink")) is not None:
        return shape["records_total"], shape["records_total"] + sink["lag"]
    objects = shape["objects"]
    finished = sum(objects.get(state, 0) for state in _FINAL)
    # The ledger counts one that is begun or replayed, and memory has it, too; where it has room.
    begun = sum(objects.get(state, 0) for state in _BEGUN)
    return finished, finished + max(begun, shape["pending_objects"])


def description(shape: dict[str, Any]) -> str:
    """What is next to the bar."""
    finished, known = amounts(shape)
    sink = shape.get("sink")
    if sink is None:
        said = [f"{finished:,} of {counted(known, 'object')}", counted(shape["records_total"], "record")]
        quarantined = shape["objects"].get("quarantined")
    else:
        said = [counted(sink["objects_total"], "object"), f"{finished:,} of {counted(known, 'record')}"]
        quarantined = sink["quarantined_objects"]
    said.append(f"{bytes_text(shape['bytes_per_second'])}/s")
    if quarantined:
        said.append(f"{quarantined:,} quarantined")
    # One sentence at most: the bar is one line.
    said += [printable(sentence) for sentence in list(shape["problems"].values())[:1]]
    return ", ".join(said)
