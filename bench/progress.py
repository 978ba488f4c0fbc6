"""Bars that show how far something is."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


@contextmanager
def bars(totals: Mapping[str, int]) -> Iterator[Callable[..., None]]:
    """A bar for each total; what is given takes the counts, in the same order."""
    width = max(map(len, totals))
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(), refresh_per_second=5) as progress:
        tasks = [progress.add_task(f"{what:{width}}", total=total) for what, total in totals.items()]

        def show(*counts: int) -> None:
            for task, count in zip(tasks, counts, strict=True):
                progress.update(task, completed=count)

        yield show
