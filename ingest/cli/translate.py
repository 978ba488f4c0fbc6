"""`headrace translate`: another vendor's configuration in Headrace's own options."""

from collections.abc import Iterator
from typing import Any

from headrace.model.errors import InvalidConfiguration
from headrace.model.text_formatting import json_text, printable
from headrace.options import Settings, describe
from headrace.options.secret import MASK
from ingest.cli.cli_options import AsJson, Config, Report, Sets, WorkerConfig
from ingest.cli.configuration import read_settings


def translate(
    config: Config,
    as_json: AsJson = False,
    sets: Sets = None,
    worker_config: WorkerConfig = None,
) -> None:
    """Print a configuration of another vendor's connector in Headrace's own options, and what became of each.

    A sink's printed name is that of the Connect connector's group, in which its offsets are: a sink of this
    name continues there. Contacts nothing.
    """
    found = shape_of(read_settings(config, sets=sets or (), worker_config=worker_config))
    Report(found, _lines(found)).show(as_json=as_json)


def shape_of(settings: Settings) -> dict[str, Any]:
    """What the command prints as JSON; InvalidConfiguration where there is nothing to translate."""
    translated = settings.translated
    if translated is None:
        raise InvalidConfiguration(
            f"{settings.name!r} is in Headrace's own options already: connector.class names no other "
            "vendor's connector."
        )
    shown = describe(settings)
    config = {name: shown[name] for name in sorted(settings.given)}
    if settings.sink is not None:
        config["name"] = settings.sink.group_id
    return {
        "config": config,
        "hidden": [name for name, text in config.items() if text == MASK],
        "options": [
            {"option": line.option, "fate": str(line.fate), "note": line.note} for line in translated.lines
        ],
        "warnings": list(settings.warnings),
    }


def _lines(found: dict[str, Any]) -> Iterator[str]:
    yield json_text(found["config"], indent=2)
    yield from (printable(line, limit=10_000) for line in _notes(found))


def _notes(found: dict[str, Any]) -> Iterator[str]:
    if found["hidden"]:
        yield f"{', '.join(found['hidden'])}: not shown; write ${{env:NAME}} or ${{file:PATH:KEY}} there."
    width = max((len(each["option"]) for each in found["options"]), default=0)
    for each in found["options"]:
        yield f"{each['option']:<{width}}  {each['fate']:<8}  {each['note']}"
    for warning in found["warnings"]:
        yield f"warning: {warning}"
