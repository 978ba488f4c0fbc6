"""The text of a configuration to names and values: JSON or YAML in Connect's two shapes, or `.properties`."""

import json
import re
from collections.abc import Sequence
from typing import Final, Literal, NoReturn

from headrace.options.given import Problem, Problems, SettingsError
from headrace.options.properties import PropertiesError, parse_properties

FileKind = Literal["json", "properties", "yaml"]

_SHAPES: Final = 'expected {"option": value, ..} or {"name": .., "config": {"option": value, ..}}'


_READ: Final = (
    f"what is read is one JSON object, {_SHAPES.removeprefix('expected ')}, or Java properties or YAML in a "
    "file whose name ends in .properties, .yaml or .yml"
)
_YAML: Final = re.compile(r"---\s*$|[\w.]+:(\s|$)")
_PROPERTY: Final = re.compile(r"[\w.]+\s*=")


class _Members(list[tuple[str, object]]):
    """The members of a JSON object in order, so that a name given twice is still seen."""


class _Numeral(str):
    """A JSON number as it was written: 1000 stays 1000, whatever its size."""

    __slots__ = ()


class _NotANumber(ValueError):
    """NaN or Infinity, which JSON does not have."""


def _refuse_constant(_: str) -> NoReturn:
    raise _NotANumber


def read_text(text: str, kind: FileKind, problems: Problems) -> dict[str, str]:
    """Return the options as written, in order; a value that is no text becomes a problem and is left out.

    Raises SettingsError when the text as a whole cannot be read: nothing else can be said of it then.
    """
    content = text.removeprefix("\ufeff")
    if kind != "properties" and not content.strip():
        raise _broken(f"the text is empty; {_READ}")
    match kind:
        case "json":
            pairs = _json_pairs(content, problems)
        case "yaml":
            pairs = _yaml_pairs(content, problems)
        case "properties":
            pairs = _properties_pairs(content)
    given: dict[str, str] = {}
    for name, value in pairs:
        if name in given:
            problems.add(name, "given twice; keep one of them")
        else:
            given[name] = value
    return given


def _guessed(text: str) -> str:
    """What a text that is no JSON looks like, for a sentence, by its first line that says something."""
    lines = (line.strip() for line in text.splitlines())
    first = next((line for line in lines if line and not line.startswith("#")), "")
    if _PROPERTY.match(first):
        return " but looks like Java properties"
    return " but looks like YAML" if _YAML.match(first) else ""


def _properties_pairs(text: str) -> list[tuple[str, str]]:
    try:
        return parse_properties(text)
    except PropertiesError as error:
        raise _broken(f"the .properties text is broken: {error}") from None


def _broken(sentence: str) -> SettingsError:
    return SettingsError((Problem(option="", message=sentence),))


def _json_pairs(text: str, problems: Problems) -> list[tuple[str, str]]:
    try:
        document = json.loads(
            text,
            object_pairs_hook=_Members,
            parse_int=_Numeral,
            parse_float=_Numeral,
            parse_constant=_refuse_constant,
        )
    except json.JSONDecodeError as error:
        if error.lineno == 1 and not text.lstrip().startswith("{"):
            raise _broken(f"the text is not JSON{_guessed(text)}; {_READ}") from None
        raise _broken(
            f"the JSON is broken at line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None
    except RecursionError:
        raise _broken(f"the JSON is nested too deeply; {_SHAPES}") from None
    except _NotANumber:
        raise _broken("the JSON holds NaN or Infinity, which are no JSON numbers") from None
    if not isinstance(document, _Members):
        raise _broken(f"the JSON is not an object; {_SHAPES}")
    return _texts(_flat(document, problems), problems)


def _yaml_pairs(text: str, problems: Problems) -> list[tuple[str, str]]:
    # Reading YAML takes longer to import than the rest of the settings, and most files are JSON.
    from headrace.options.yaml_text import YamlError, yaml_members

    try:
        members = yaml_members(text, _Members)
    except YamlError as error:
        raise _broken(f"{error}; {_SHAPES}" if error.is_shape else str(error)) from None
    return _texts(_flat(members, problems), problems)


def _flat(members: _Members, problems: Problems) -> Sequence[tuple[str, object]]:
    """Return the options of either shape; in the second one `name` is next to `config`."""
    configs = [value for name, value in members if name == "config" and isinstance(value, _Members)]
    if not configs:
        return members
    for name, _ in members:
        if name not in {"name", "config"}:
            problems.add(name, 'is next to "config"; move it inside')
    if len(configs) > 1:
        problems.add("config", "given twice; keep one of them")
    outer = [(name, value) for name, value in members if name == "name"]
    inner = [pair for pair in configs[0] if pair not in outer[:1]]
    return [*outer, *inner]


def _texts(members: Sequence[tuple[str, object]], problems: Problems) -> list[tuple[str, str]]:
    pairs = []
    for name, value in members:
        match value:
            case bool():
                pairs.append((name, "true" if value else "false"))
            case str():
                pairs.append((name, str(value)))
            case _:
                kind = "null" if value is None else "an object" if isinstance(value, _Members) else "a list"
                problems.add(name, f"is {kind}; expected a text, a number or a boolean")
    return pairs
