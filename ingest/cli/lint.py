"""`headrace lint`: whether a configuration can be used, as far as it tells by itself."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from headrace.model.text_formatting import counted, printable
from headrace.options import Settings
from headrace.options.direction_forms import Direction
from ingest.cli.cli_options import AsJson, Config, Report, Sets, WorkerConfig
from ingest.cli.configuration import read_settings

Strict = Annotated[bool, typer.Option("--strict", help="A warning is a problem: exit code 1.")]


def lint(
    config: Config,
    as_json: AsJson = False,
    sets: Sets = None,
    worker_config: WorkerConfig = None,
    *,
    strict: Strict = False,
) -> None:
    """Read a configuration and name all problems and warnings at once. Contacts nothing.

    References to the environment and to files are replaced as `run` would. What only bucket and broker can
    tell is `headrace check`'s.
    """
    found = shape_of(read_settings(config, sets=sets or (), worker_config=worker_config))
    Report(found, lines_of(found)).show(as_json=as_json)
    if strict and found["warnings"]:
        raise typer.Exit(1)


def shape_of(settings: Settings) -> dict[str, Any]:
    """What the command prints as JSON for a configuration without problems."""
    return {
        "name": settings.name,
        "direction": str(Direction.SOURCE if settings.sink is None else Direction.SINK),
        "options": len(settings.given),
        "warnings": list(settings.warnings),
    }


def lines_of(found: dict[str, Any]) -> Iterator[str]:
    """What people are shown."""
    for warning in found["warnings"]:
        yield printable(f"warning: {warning}", limit=10_000)
    yield f"{found['name']}: a {found['direction']}, {counted(found['options'], 'option')}, no problem" + (
        f", {counted(len(found['warnings']), 'warning')}" if found["warnings"] else ""
    )
