"""`headrace lint`, `translate` and `options`: a configuration checked, or in our options; what these are."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from headrace.model.errors import InvalidConfiguration
from headrace.model.text_formatting import counted, did_you_mean, json_text, printable
from headrace.options import Settings, describe
from headrace.options.client_translation import GROUP
from headrace.options.declarations import BY_NAME, CANONICAL, FAMILIES, OPTIONS
from headrace.options.declarations.connection_options import NAME
from headrace.options.declarations.option import Option
from headrace.options.document import json_schema
from headrace.options.given import as_written
from headrace.options.sink_settings import SinkSettings
from headrace.options.suggestions import suggested
from headrace.options.vendor import AIVEN_SOURCES, Direction
from headrace.options.vendor_translation import TranslatedLine
from headrace.options.worker_file import BROKERS
from ingest.cli.cli_options import (
    AsJson,
    AskedFormat,
    AskedLevel,
    Config,
    Report,
    Sets,
    WorkerConfig,
    log_as,
    option_names,
)
from ingest.cli.configuration import read_settings

Strict = Annotated[bool, typer.Option("--strict", help="A warning is a problem: exit code 1.")]


def lint(
    config: Config,
    as_json: AsJson = False,
    sets: Sets = None,
    worker_config: WorkerConfig = None,
    *,
    strict: Strict = False,
    log_level: AskedLevel = None,
    log_format: AskedFormat = None,
) -> None:
    """Read a configuration and name all problems and warnings at once. Contacts nothing.

    References to the environment and to files are replaced as `run` would. What only bucket and broker can
    tell is `headrace check`'s.
    """
    log_as(log_level, log_format)
    found = lint_shape(read_settings(config, sets=sets or (), worker_config=worker_config))
    Report(found, lines_of(found)).show(as_json=as_json)
    if strict and found["warnings"]:
        raise typer.Exit(1)


def lint_shape(settings: Settings) -> dict[str, Any]:
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


def translate(
    config: Config,
    as_json: AsJson = False,
    sets: Sets = None,
    worker_config: WorkerConfig = None,
    *,
    log_level: AskedLevel = None,
    log_format: AskedFormat = None,
) -> None:
    """Print a configuration of another vendor's connector in Headrace's own options, and what became of each.

    A sink's printed name is that of the Connect connector's group, in which its offsets are: a sink of this
    name continues where the connector stopped in Connect. Where Headrace has run the configuration that is
    translated, go by docs/sink.md ("Another configuration") first. Contacts nothing.
    """
    log_as(log_level, log_format)
    settings = read_settings(config, sets=sets or (), worker_config=worker_config, is_for_clients=False)
    found = translated_shape(settings)
    Report(found, _lines(found)).show(as_json=as_json)


def translated_shape(settings: Settings) -> dict[str, Any]:
    """What the command prints as JSON; InvalidConfiguration where there is nothing to translate."""
    translated = settings.translated
    if translated is None:
        given = {name: text.reveal().strip() for name, _, text in settings.texts}
        why = "connector.class names no other vendor's connector"
        if given.get("connector.class") in AIVEN_SOURCES:
            why = "the options of Aiven's S3 source are Headrace's"
        raise InvalidConfiguration(f"{settings.name!r} is in Headrace's own options already: {why}.")
    shown = describe(settings)
    config = {name: shown[name] for name in settings.given}
    written = {name: raw.reveal() for name, raw, _ in settings.texts}
    left_out = _left_out(settings)
    kept_back = _kept_back(settings) - left_out
    hidden = sorted(kept_back | {name for name, text in config.items() if text != written[name]})
    config |= {name: raw.reveal() for name, raw in settings.of_worker if name not in kept_back}
    config = {name: config[name] for name in sorted(config.keys() - left_out)}
    if settings.sink is not None:
        # A sink of our own class has its offsets in the group of its name.
        if NAME.form.takes(settings.sink.group_id):
            config["name"] = settings.sink.group_id
        if settings.sink.takeover_indexes is not None:
            # Lenses' locks stay where the connector's own name leads.
            config.setdefault("takeover.connector", settings.name)
        config.pop(f"consumer.override.{GROUP}", None)
    return {
        "config": config,
        "hidden": hidden,
        "options": [
            {"option": line.option, "fate": str(line.fate), "note": line.note} for line in translated
        ],
        "warnings": [
            *settings.warnings,
            *_of_worker(settings, kept_back, left_out),
            *_read_here(translated),
            *_begins_again(settings.sink),
        ],
    }


def _kept_back(settings: Settings) -> frozenset[str]:
    """Return what clients have of a worker's file that is not printed, as it is not shown as it is written.

    Next to that file a mask would win over the secret, and so would what is printed of all clients over a
    secret of one kind of them.
    """
    given = {name: raw.reveal() for name, raw in settings.of_worker}
    masked = {name for name, raw in given.items() if as_written(name, raw).shown_whole != raw}
    return frozenset(masked | {name.partition(".override.")[2] for name in masked} & given.keys())


def _left_out(settings: Settings) -> frozenset[str]:
    """Return what is not printed as a worker's file has it and keeps it from connectors.

    That is only where the brokers are among it: what is printed needs that file then, and cannot be run
    without the rest by mistake.
    """
    kept = settings.kept_by_worker
    return kept if BROKERS in kept else frozenset()


def _of_worker(settings: Settings, kept_back: frozenset[str], left_out: frozenset[str]) -> Iterator[str]:
    """Yield what is printed of a worker's file, next to which it is as good without, and what is not."""
    if left_out:
        yield (
            "not printed, as the worker's file has it and lets no connector set it "
            f"(connector.client.config.override.policy): {', '.join(sorted(left_out))}; give that file to "
            "what is printed, too"
        )
    printed = {name for name, _ in settings.of_worker} - kept_back - left_out
    if printed:
        yield (
            f"printed from the worker's file: {', '.join(sorted(printed))}; leave them out where that file "
            "is given to what is printed, too: its connector.client.config.override.policy may forbid them"
        )
    if kept_back:
        yield (
            f"not printed from the worker's file: {', '.join(sorted(kept_back))}; give that file to what is "
            "printed, too, or write ${env:NAME} or ${file:PATH:KEY} there"
        )


def _begins_again(sink: SinkSettings | None) -> Iterator[str]:
    """Yield that what is printed does not continue, as no sink of our own class has this group."""
    if sink is not None and not NAME.form.takes(sink.group_id):
        yield (
            f"name: what is printed does not continue at the offsets of group {sink.group_id!r}, as no sink "
            "may have that name, and would archive topics from the beginning: run the one that was given"
        )


def _read_here(lines: tuple[TranslatedLine, ...]) -> Iterator[str]:
    """Yield which references are not in what is printed: their values are, which are this machine's."""
    for line in lines:
        if line.reference is not None:
            yield (
                f"{line.option}: {line.reference} was read on this machine, and what is printed has its "
                "value; write the reference again where it belongs"
            )


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


Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME...]",
        help="Options, or the beginning of their names; all when left out.",
        autocompletion=option_names,
    ),
]
Schema = Annotated[bool, typer.Option("--schema", help="Print a JSON schema of configurations, for editors.")]


def options(names: Names = None, as_json: AsJson = False, *, schema: Schema = False) -> None:
    """Print the reference of options: values, default, meaning. Contacts nothing and reads no file."""
    if schema:
        if names:
            raise InvalidConfiguration("--schema is of all options: leave out their names.")
        typer.echo(json_text(json_schema(), indent=2))
        return
    found = [each for name in names or [""] for each in _matching(name)]
    width = max(len(each.name) for each in found)
    lines = (
        ["\n\n".join("\n".join(_lines_of(each)) for each in found)]
        if names
        else [f"{each.name:<{width}}  {_default(each)}" for each in found]
    )
    Report([shape_of(each) for each in found], lines).show(as_json=as_json)


def shape_of(option: Option[Any]) -> dict[str, Any]:
    """What the command prints as JSON for one option."""
    return {
        "name": option.name,
        "group": str(option.group),
        "value": option.form.expected,
        "default": option.default,
        "default_says": option.default_says,
        "required": option.required,
        "secret": option.is_secret,
        "importance": option.importance,
        "also": list(option.aliases),
        "doc": option.doc,
    }


def _matching(name: str) -> list[Option[Any]]:
    """The option of this name, else all whose names begin with it; InvalidConfiguration for none."""
    if (known := BY_NAME.get(CANONICAL.get(name, ""))) is not None:
        return [known]
    found = [option for option in OPTIONS if option.name.startswith(name)]
    if found:
        return found
    family = next((each for each in FAMILIES if name.startswith(each.prefix)), None)
    if family is not None:
        raise InvalidConfiguration(f"{name}: one of the options {family.prefix}*: {family.doc}")
    hint = did_you_mean(suggested(name, CANONICAL), otherwise="`headrace options` lists all")
    raise InvalidConfiguration(f"{name!r} is not an option of Headrace; {hint}")


def _lines_of(option: Option[Any]) -> Iterator[str]:
    yield option.name
    yield f"  {option.doc}"
    yield f"  Value: {option.form.expected}{', never shown' if option.is_secret else ''}"
    yield f"  Default: {_default(option)}"
    if option.aliases:
        yield f"  Also written: {', '.join(option.aliases)}"


def _default(option: Option[Any]) -> str:
    if option.required:
        return "required"
    if option.default is not None:
        return option.default or '""'
    return option.default_says or "not set"
