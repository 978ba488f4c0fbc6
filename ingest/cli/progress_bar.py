"""How far a command has come: a bar on a terminal, nothing anywhere else."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

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
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[count]}"),
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


def _count(done: int, of: int | None, unit: str) -> str:
    return f"{done:,} {unit}" if of is None else f"{done:,} of {of:,} {unit}"
