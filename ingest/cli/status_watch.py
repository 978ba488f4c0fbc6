"""`headrace status --watch`: the same question again and again, in place on a terminal, else line by line."""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from headrace.model.clock import wall_ms
from headrace.model.errors import HeadraceError
from headrace.model.text_formatting import bytes_text, counted, printable
from ingest.cli.cli_options import Report
from ingest.cli.progress_bar import is_terminal

Shape = dict[str, Any]
Lines = Callable[[Shape], Iterator[str]]

_RATES: Final = 60
_RECENT: Final = 8
_BARS: Final = " ▁▂▃▄▅▆▇█"
_STYLES: Final = {"problem": "red", "error": "yellow"}
_ENDS: Final = {"done": "green", "quarantined": "red", "failed": "yellow"}


def watch(ask: Callable[[], Shape], lines: Lines, interval: float, *, as_json: bool) -> None:
    """Ask every `interval` seconds until KeyboardInterrupt; what a person reads of an answer is `lines`.

    The first answer may fail as a single `status` does. Later an outage is shown, and asked through: a watch
    that ends when something happens would be of little use.
    """
    if as_json or not is_terminal(sys.stdout):
        for shape in _answers(ask, interval):
            # A line, or a block, each time: what a pipe or a log can hold.
            Report(shape, chain(lines(shape), [""])).show(as_json=as_json)
        return
    rates: deque[float] = deque(maxlen=_RATES)
    with Live(console=Console(), auto_refresh=False, vertical_overflow="crop") as live:
        for shape in _answers(ask, interval):
            if shape["source"] == "service":
                rates.append(shape["records_per_second"])
            live.update(shown(shape, lines, rates), refresh=True)


def shown(shape: Shape, lines: Lines, rates: deque[float]) -> Text:
    """What is on the terminal: the lines of `status`, the rates of the last minute, the last objects."""
    text = Text()
    for number, line in enumerate(lines(shape)):
        label = line.partition(" ")[0]
        text.append(line + "\n", style="bold" if number == 0 else _STYLES.get(label, ""))
        if label == "rates" and any(rates):
            text.append(f"          {sparkline(rates)}\n", style="cyan")
    recent = shape.get("recent", ())[-_RECENT:]
    if recent:
        text.append("\nlast objects\n", style="bold")
    for one in reversed(recent):
        text.append(f"{_clock(one['at_ms'])}  ")
        text.append(f"{one['state']:<12}", style=_ENDS.get(one["state"], ""))
        reason = f" ({printable(one['reason'])})" if one["reason"] else ""
        text.append(
            f"{printable(one['key'])}{reason}  {counted(one['records'], 'record')}, "
            f"{bytes_text(one['bytes'])}\n"
        )
    text.append(f"\nasked {_clock(wall_ms())}, Ctrl-C ends", style="dim")
    return text


def sparkline(rates: deque[float]) -> str:
    """One sign a rate, as high as the rate is next to the highest of them.

    >>> sparkline(deque([0.0, 1.0, 4.0, 8.0]))
    ' ▁▄█'
    """
    highest = max(rates, default=0.0) or 1.0
    return "".join(_BARS[round(rate / highest * (len(_BARS) - 1))] for rate in rates)


def _answers(ask: Callable[[], Shape], interval: float) -> Iterator[Shape]:
    shape = ask()
    while True:
        yield shape
        time.sleep(interval)
        try:
            shape = ask()
        except HeadraceError as error:
            problems = {**shape["problems"], "status": str(error)}
            shape = {**shape, "problems": problems}


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%S")
