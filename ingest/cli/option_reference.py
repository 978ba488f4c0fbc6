"""`headrace options`: what there is to say of an option, without a browser."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from headrace.model.errors import InvalidConfiguration
from headrace.model.text_formatting import did_you_mean, json_text
from headrace.options.declarations import BY_NAME, CANONICAL, FAMILIES, OPTIONS
from headrace.options.declarations.option import Option
from headrace.options.document import json_schema
from headrace.options.suggestions import suggested
from ingest.cli.cli_options import AsJson, Report, option_names

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
        typer.echo(json_text(json_schema(), indent=2))
        return
    found = [each for name in names or [""] for each in _matching(name)]
    width = max(len(each.name) for each in found)
    lines = (
        ["\n\n".join("\n".join(_lines(each)) for each in found)]
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


def _lines(option: Option[Any]) -> Iterator[str]:
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
