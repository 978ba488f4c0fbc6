"""`headrace status`: how an ingester is, as its service says or, when that is silent, as its ledger does.

With `--watch` the question is repeated, in place on a terminal, else line by line.
"""

import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from headrace.kafka.control_records import TargetState
from headrace.model.clock import wall_ms
from headrace.model.errors import HeadraceError, InvalidConfiguration
from headrace.model.text_formatting import bytes_text, counted, printable
from headrace.process import logs
from ingest.checks.probes.status_reader import Shape, StatusReader
from ingest.cli import cli_options as cli
from ingest.cli.configuration import read_settings, refuse_sink
from ingest.cli.interrupts import ended_by
from ingest.cli.progress_bar import is_terminal
from ingest.cli.query_commands import frames_options, frames_status
from ingest.cli.run import ask_worker, is_bare, worker_lines

Lines = Callable[[Shape], Iterator[str]]

_RATES: Final = 60
_RECENT: Final = 8
_BARS: Final = " ▁▂▃▄▅▆▇█"
_PLAIN_BARS: Final = " .:-=+*#@"
_STYLES: Final = {"problem": "red", "error": "yellow"}
_ENDS: Final = {"done": "green", "quarantined": "red", "failed": "yellow"}


def watch_status(ask: Callable[[], Shape], lines: Lines, interval: float, *, as_json: bool) -> None:
    """Ask every `interval` seconds until KeyboardInterrupt; what a person reads of an answer is `lines`.

    The first answer may fail as a single `status` does. Later an outage is shown, and asked through: a watch
    that ends when something happens would be of little use.
    """
    if as_json or not is_terminal(sys.stdout):
        for shape in _answers(ask, interval):
            # A line, or a block, each time: what a pipe or a log can hold.
            cli.Report(shape, chain(lines(shape), [""])).show(as_json=as_json)
        return
    rates: deque[float] = deque(maxlen=_RATES)
    console = Console()
    bars = bars_of(console.encoding)
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        for shape in _answers(ask, interval):
            if shape["source"] == "service":
                rates.append(shape["records_per_second"])
            live.update(shown(shape, lines, rates, bars), refresh=True)


def shown(shape: Shape, lines: Lines, rates: deque[float], bars: str = _BARS) -> Text:
    """What is on the terminal: the lines of `status`, the rates of the last minute, the last objects."""
    text = Text()
    for number, line in enumerate(lines(shape)):
        label = line.partition(" ")[0]
        text.append(line + "\n", style="bold" if number == 0 else _STYLES.get(label, ""))
        if label == "rates" and any(rates):
            text.append(f"          {sparkline(rates, bars)}\n", style="cyan")
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


def bars_of(encoding: str) -> str:
    """The signs of rising rates that a terminal of this encoding shows."""
    try:
        _BARS.encode(encoding)
    except (LookupError, UnicodeEncodeError):
        return _PLAIN_BARS
    return _BARS


def sparkline(rates: deque[float], bars: str = _BARS) -> str:
    """One sign a rate, as high as the rate is next to the highest of them.

    >>> sparkline(deque([0.0, 1.0, 4.0, 8.0]))
    ' ▁▄█'
    >>> sparkline(deque([0.0, 1.0, 4.0, 8.0]), bars_of("latin-1"))
    ' .=@'
    """
    highest = max(rates, default=0.0) or 1.0
    return "".join(bars[round(rate / highest * (len(bars) - 1))] for rate in rates)


def _answers(ask: Callable[[], Shape], interval: float) -> Iterator[Shape]:
    last = ask()
    shape = last
    while True:
        yield shape
        time.sleep(interval)
        try:
            shape = last = ask()
        except HeadraceError as error:
            shape = {**last, "problems": _with_outage(last["problems"], str(error))}


def _with_outage(problems: Any, why: str) -> Any:
    """What was a problem last, and why there is no newer answer; a worker's problems are a list."""
    return [*problems, why] if isinstance(problems, list) else {**problems, "status": why}


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%S")


# -- What `headrace status` shows of a sink ------------------------------------------------------------------


def sink_lines(shape: Shape) -> Iterator[str]:
    """Lines for people: sums first, then a line for each partition."""
    sink = shape["sink"]
    if shape["source"] == "service":
        yield from _live_lines(shape)
    yield f"sealed    {counted(sink['pending_objects'], 'object')} not visible yet"
    if sink["quarantined_objects"]:
        lost = counted(sink["quarantined_objects"], "object")
        yield f"never     {lost} quarantined: see the log, and docs/sink.md"
    if unproven := sink.get("unproven_objects_total"):
        yield f"unproven  {counted(unproven, 'object')} neither uploading nor there: see the log"
    # A service of a release before this one does not say it.
    if missing := sink.get("missing_topics"):
        names = ", ".join(map(printable, missing))
        yield f"missing   {counted(len(missing), 'topic')} not there: {names}"
    for one in sink["partitions"]:
        end = "" if one["end"] is None else f" of {one['end']:,}, {one['lag']:,} behind"
        slot = "" if one["slot"] is None else f", slot {one['slot']}"
        at = "not begun" if one["offset"] is None else f"at {one['offset']:,}"
        yield f"  {printable(one['topic'])}-{one['partition']}  {one['state']}, {at}{end}{slot}"


def _live_lines(shape: Shape) -> Iterator[str]:
    """What only a running sink knows."""
    sink = shape["sink"]
    yield f"lag       {counted(sink['lag'], 'offset')} not archived yet"
    memory, disk = bytes_text(sink["buffered_bytes"]), bytes_text(sink["spilled_bytes"])
    yield (
        f"open      {counted(sink['open_objects'], 'object')}, {memory} in memory, {disk} on disk, "
        f"the oldest for {sink['oldest_open_seconds']:,.0f} s"
    )
    yield (
        f"archived  {counted(shape['records_total'], 'record')} in "
        f"{counted(sink['objects_total'], 'object')}, {bytes_text(sink['bytes_total'])} since the start"
    )
    rates = f"{shape['records_per_second']:,.0f} records/s, {bytes_text(shape['bytes_per_second'])}/s"
    yield f"rates     {rates}"


# -- `headrace status`: how an ingester is, as its service says or, when that is silent, as its ledger does --

_STATES = ("pending", "active", "partial", "failed", "new", "quarantined", "skipped", "done")
_MAX_ENTRIES = 50

OfStates = Annotated[
    list[str] | None,
    typer.Option(
        "--state",
        metavar="STATE",
        autocompletion=cli.ledger_states,
        help="List the objects in this state: partial, failed, new, quarantined, skipped, done. "
        "May be repeated.",
    ),
]
OfKey = Annotated[
    str | None, typer.Option("--key", metavar="KEY", help="Show what the ledger says of this object.")
]
Watch = Annotated[bool, typer.Option("--watch", help="Ask again and again, until Ctrl-C.")]
OfWorker = Annotated[
    bool,
    typer.Option("--worker", help="CONFIG is a worker's file: show all connectors of that worker."),
]
OfConnector = Annotated[
    str | None,
    typer.Option("--connector", metavar="NAME", help="With --worker: show this connector as its own."),
]
Interval = Annotated[
    float,
    typer.Option("--interval", metavar="SECONDS", min=0.2, max=86_400, help="How often `--watch` asks."),
]


def status(
    config: cli.Config,
    *,
    state: OfStates = None,
    key: OfKey = None,
    watch: Watch = False,
    interval: Interval = 1.0,
    worker: OfWorker = False,
    connector: OfConnector = None,
    as_json: cli.AsJson = False,
    startup_timeout: cli.StartupTimeout = 60.0,
    sets: cli.Sets = None,
    worker_config: cli.WorkerConfig = None,
    log_level: cli.Level = cli.LogLevel.WARNING,
    log_format: cli.Format = cli.LogFormat.CONSOLE,
) -> None:
    """Say how a source or a sink is: role, objects by state, rates, backlog, mode, the last error.

    The running service is asked at http.listen. When it does not answer, the ledger is read instead (which
    knows no rates), and the first line says so. With --state or --key, objects are listed from the ledger.
    For a query of Spark (its options, with state.path) the discovery log is read.
    """
    logs.configure(level=log_level.value, style=log_format.value)
    if worker or connector is not None:
        if state or key is not None or sets or worker_config is not None or not worker:
            raise InvalidConfiguration(
                "--connector needs --worker; --state, --key, --set and --worker-config are for a connector's "
                "own configuration."
            )
        _show(
            partial(_of_worker, config, connector),
            worker_lines if connector is None else connector_lines,
            interval=interval if watch else None,
            as_json=as_json,
        )
        return
    options = frames_options(config, sets or ())
    if options is not None:
        if watch or state or key is not None:
            raise InvalidConfiguration(
                "Leave out --watch, --state and --key: a query of Spark (state.path) has a discovery log, "
                "which is shown once, and no states of objects."
            )
        frames_status(options, as_json=as_json)
        return
    settings = read_settings(config, sets=sets or (), worker_config=worker_config)
    reader = StatusReader(settings, timeout=startup_timeout)
    states = cli.states_of(state or ())
    lists = bool(states) or key is not None
    if lists:
        refuse_sink(settings, "--state and --key are about the objects that a source reads")

    def ask() -> Shape:
        shape = reader.status()
        return shape | {"entries": reader.entries(states, key)} if lists else shape

    try:
        _show(ask, lines_of, interval=interval if watch else None, as_json=as_json)
    finally:
        reader.close()


def _show(ask: Callable[[], Shape], lines: Lines, *, interval: float | None, as_json: bool) -> None:
    """Ask once, or every `interval` seconds until Ctrl-C."""
    if interval is None:
        shape = ask()
        cli.Report(shape, lines(shape)).show(as_json=as_json)
        return
    try:
        watch_status(ask, lines, interval, as_json=as_json)
    except KeyboardInterrupt as interrupt:
        # Ctrl-C is how a watch is ended, so nothing went wrong; other signals are for every command.
        if ended_by(interrupt) != signal.SIGINT:
            raise


def _of_worker(config: Path, connector: str | None) -> Shape:
    shape = ask_worker(config, connector)
    return {"source": "worker" if connector is None or is_bare(shape) else "service", **shape}


def connector_lines(shape: Shape) -> Iterator[str]:
    """One connector of a worker, as if it were alone."""
    if not is_bare(shape):
        yield from lines_of(shape)
        return
    yield f"{printable(shape['name'])}: {shape['role']}"
    yield from _problems(shape)


def _problems(shape: Shape) -> Iterator[str]:
    """A line for each sentence; of a configuration, one for each of its problems."""
    for part, sentence in shape["problems"].items():
        first, *others = sentence.split("\n")
        yield f"problem   {printable(part)}: {printable(first)}"
        yield from (f"{'':10}{printable(line)}" for line in others)


# Zeros would look like an idle bucket.
_WITHOUT_FIGURES: Final = {
    "starting": "none yet: it starts",
    "standby": "another instance leads and has them; this one takes over when it ends",
}


def lines_of(shape: Shape) -> Iterator[str]:
    """What people are shown."""
    yield f"{printable(shape['name'])}: {shape['role']}{_asked(shape)}{_source(shape)}"
    if shape.get("mode"):
        reason = shape.get("mode_reason")
        yield f"mode      {shape['mode']}{f' ({printable(reason)})' if reason else ''}"
    without = _WITHOUT_FIGURES.get(shape["role"]) if shape["source"] == "service" else None
    if without is not None:
        yield f"figures   {without}"
    elif shape.get("sink") is not None:
        yield from sink_lines(shape)
    else:
        yield from _source_lines(shape)
    yield from _problems(shape)
    if shape.get("last_error"):
        yield f"error     {printable(shape['last_error'])}"
    if "entries" in shape:
        yield from _entries(shape["entries"])


def _source_lines(shape: Shape) -> Iterator[str]:
    yield f"objects   {_counts(shape['objects'])}"
    yield f"backlog   {_backlog(shape)}"
    if shape["source"] == "service":
        yield (
            f"rates     {shape['records_per_second']:,.0f} records/s, "
            f"{bytes_text(shape['bytes_per_second'])}/s"
        )
        yield (
            f"produced  {counted(shape['records_total'], 'record')} of "
            f"{bytes_text(shape['read_bytes_total'])} in "
            f"{counted(shape['transactions_total'], 'transaction')} since the start"
        )
        yield f"listed    {_moment(shape['last_full_listing_ms'])}"


def _asked(shape: Shape) -> str:
    """What was asked of it, unless that is to run; `stopped` as a role says that no process leads."""
    target = shape.get("target", TargetState.RUNNING)
    if target == TargetState.RUNNING:
        return ""
    return f", asked to be {target}" if shape["role"] == "stopped" else f", {target}"


def _source(shape: Shape) -> str:
    if shape["source"] == "service":
        return "" if shape["ready"] else ", not ready"
    return f" (read from the ledger: {printable(shape['why'])})"


def _counts(objects: dict[str, int]) -> str:
    known = [f"{objects[state]:,} {state}" for state in _STATES if objects.get(state)]
    return ", ".join(known) or "none yet"


def _backlog(shape: Shape) -> str:
    text = f"{counted(shape['pending_objects'], 'object')}, {bytes_text(shape['pending_bytes'])}"
    if shape["oldest_pending_seconds"]:
        text += f", the oldest waits for {shape['oldest_pending_seconds']:,.0f} s"
    if shape["source"] == "service":
        return text
    return f"{text} begun or failed; objects that were not listed yet are not counted"


def _entries(entries: list[Shape]) -> Iterator[str]:
    several = len({entry["bucket"] for entry in entries}) > 1
    yield ""
    for entry in entries[:_MAX_ENTRIES]:
        reason = f" ({printable(entry['reason'])})" if entry["reason"] else ""
        topic = "" if entry["topic"] is None else f" to {entry['topic']}"
        partition = "" if entry["partition"] is None else f"[{entry['partition']}]"
        bucket = f"{entry['bucket']}/" if several else ""
        yield f"{entry['state']}{reason}  {bucket}{printable(entry['key'])}"
        yield (
            f"    {counted(entry['records'], 'record')}{topic}{partition}, {entry['bad']:,} bad, "
            f"{bytes_text(entry['size'])}, attempts {entry['attempts']}, {_moment(entry['updated_ms'])}"
        )
        if entry["state"] == "quarantined":
            yield f"    stopped at {entry['stopped_at']}"
        if entry["error"]:
            yield f"    {printable(entry['error'])}"
    if len(entries) > _MAX_ENTRIES:
        yield f".. and {len(entries) - _MAX_ENTRIES:,} more; --json shows all"
    if not entries:
        yield "no such object in the ledger"


def _moment(at_ms: int | None) -> str:
    if not at_ms:
        return "not yet"
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
