"""The progress bar of `headrace run --until-idle`, and what it was in the end."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from headrace.model.text_formatting import bytes_text, counted

ReadStatus = Callable[[], dict[str, Any] | None]
"""The shape of `/status` as it is now; None while the service does not answer."""

_REFRESH_SECONDS: Final = 0.5
# States in which an object is as finished as this run can make it.
_FINAL: Final = ("done", "skipped", "quarantined")


@contextmanager
def until_idle_bar(read_status: ReadStatus, console: Console) -> Iterator[None]:
    """A bar on this console, as long as the block lasts; what is logged meanwhile goes above it."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[said]}"),
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
    """Objects that came to their end, and all that are known; a listing still running adds to the latter."""
    objects = shape["objects"]
    return sum(objects.get(state, 0) for state in _FINAL), sum(objects.values())


def description(shape: dict[str, Any]) -> str:
    """What is next to the bar."""
    finished, known = amounts(shape)
    parts = [
        f"{finished:,} of {counted(known, 'object')}",
        counted(shape["records_total"], "record"),
        f"{bytes_text(shape['bytes_per_second'])}/s",
    ]
    if quarantined := shape["objects"].get("quarantined"):
        parts.append(f"{quarantined:,} quarantined")
    # One sentence at most: the bar is one line.
    parts += list(shape["problems"].values())[:1]
    return ", ".join(parts)
