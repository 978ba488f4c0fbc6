"""What the commands share: arguments and options with the text of their `--help`, completion, reports.

The Tab key offers commands, options and choices by typer, names by us. CONFIG and other files are left to the
shell: it offers files where nothing else is offered.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.model.clock import LONGEST_START_SECONDS
from headrace.model.errors import InvalidConfiguration
from headrace.model.ledger_entry import State
from headrace.model.text_formatting import json_text
from headrace.options.declarations import OPTIONS


def option_assignments(incomplete: str) -> list[str]:
    """The options of a configuration that begin so, with the sign that `--set` expects after them."""
    return [f"{option.name}=" for option in OPTIONS if option.name.startswith(incomplete)]


def option_names(incomplete: str) -> list[str]:
    """The options of a configuration that begin so."""
    return [option.name for option in OPTIONS if option.name.startswith(incomplete)]


def ledger_states(incomplete: str) -> list[str]:
    """The states of the ledger that begin so."""
    return [state.value for state in State if state.value.startswith(incomplete)]


class LogLevel(StrEnum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How it is logged: for machines or for people."""

    JSON = "json"
    CONSOLE = "console"


Config = Annotated[
    Path,
    typer.Argument(
        metavar="CONFIG",
        help="The configuration: a JSON file in one of Kafka Connect's shapes, .properties, or .yaml.",
    ),
]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="OPTION=VALUE",
        autocompletion=option_assignments,
        help="Overrides an option of the file; may be repeated.",
    ),
]
WorkerConfig = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A Connect worker's file (.properties, or JSON), for bootstrap.servers and security.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text for people.")]
Level = Annotated[LogLevel, typer.Option("--log-level", help="What is logged to stderr, from this level up.")]
Format = Annotated[LogFormat, typer.Option("--log-format", help="One JSON line an event, or columns.")]
# Of commands that log hardly anything, and import what logs when they are asked to.
AskedLevel = Annotated[
    LogLevel | None, typer.Option("--log-level", help="What is logged to stderr, from this level up.")
]
AskedFormat = Annotated[
    LogFormat | None, typer.Option("--log-format", help="One JSON line an event, or columns.")
]
StartupTimeout = Annotated[
    float,
    typer.Option(
        "--startup-timeout",
        metavar="SECONDS",
        min=1,
        max=LONGEST_START_SECONDS,
        help="How long broker, bucket and ledger may take to answer.",
    ),
]


def log_as(level: LogLevel | None, style: LogFormat | None, *, by_default: bool = False) -> None:
    """Log as it was asked for, warnings by default; nothing is done, or loaded, where neither is given.

    `by_default`: the command contacts something, and what warns of that must not be between its lines.
    """
    if level is None and style is None and not by_default:
        return
    from headrace.process import logs

    logs.configure(level=(level or LogLevel.WARNING).value, style=(style or LogFormat.CONSOLE).value)


def states_of(names: Iterable[str]) -> frozenset[State]:
    """The states that these names mean; InvalidConfiguration lists those that there are."""
    found = set()
    for name in names:
        try:
            found.add(State(name.strip().lower()))
        except ValueError:
            raise InvalidConfiguration(
                f"--state {name!r}: expected one of {', '.join(state.value for state in State)}."
            ) from None
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Report:
    """What a command found: one JSON value for scripts, and lines for people (made only for them)."""

    shape: Any
    lines: Iterable[str]

    def show(self, *, as_json: bool) -> None:
        """Print one of the two; nothing where people have nothing to read."""
        text = json_text(self.shape) if as_json else "\n".join(self.lines)
        if text:
            typer.echo(text)
