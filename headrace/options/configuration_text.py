"""The text of a configuration to names and values: JSON or YAML in Connect's two shapes, or `.properties`.

`.properties` follow java.util.Properties.load: natural lines end with LF, CR or CRLF; a line whose last
backslash is not itself escaped continues in the next one, whose leading white space is dropped. `#` and `!`
begin a comment where a line begins. The name ends at the first unescaped `=`, `:` or white space.
https://docs.oracle.com/en/java/javase/17/docs/api/java.base/java/util/Properties.html

`worker_file` reads that of a worker.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NoReturn

from headrace.options.connector_shapes import Members, broken, flat, refuse_tool
from headrace.options.given import Problems
from headrace.options.suggestions import other_tool_of_text

_BLANK: Final = " \t\f"
_LINE_END: Final = re.compile(r"\r\n|\n|\r")
_NAME: Final = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR: Final = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|.|$)", re.DOTALL)
_LETTERS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class PropertiesError(ValueError):
    """A text that is no `.properties` text; names the line."""


def parse_properties(text: str) -> list[tuple[str, str]]:
    """Return the pairs of a `.properties` text in order, a name that occurs twice twice.

    Raises PropertiesError for an escape that Java would refuse.
    """
    pairs = []
    for number, line in _logical_lines(text):
        found = _NAME.match(line)
        name = found[0] if found is not None else ""
        separator = _SEPARATOR.match(line, len(name))
        value = line[separator.end() :] if separator is not None else ""
        pairs.append((_unescaped(name, number), _unescaped(value, number)))
    return pairs


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each logical line with the number of its first natural line, without comments and blank ones."""
    start, lines = 0, list[str]()
    for number, natural in enumerate(_LINE_END.split(text), start=1):
        line = natural.lstrip(_BLANK)
        if not lines:
            if not line or line[0] in "#!":
                continue
            start = number
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        lines.append(line[:-1] if goes_on else line)
        if not goes_on:
            yield start, "".join(lines)
            lines = []
    if any(lines):
        yield start, "".join(lines)


def _unescaped(text: str, number: int) -> str:
    def one(found: re.Match[str]) -> str:
        escape = found[1]
        if escape.startswith("u"):
            if len(escape) == 1:
                raise PropertiesError(rf"line {number}: expected four hexadecimal digits after \u")
            return chr(int(escape[1:], 16))
        return _LETTERS.get(escape, escape)

    plain = _ESCAPE.sub(one, text)
    try:
        # Java's text is UTF-16: a character beyond the basic plane is written as two escapes.
        return plain.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise PropertiesError(f"line {number}: half of a surrogate pair is no character") from None


FileKind = Literal["json", "properties", "yaml"]

_SHAPES: Final = 'expected {"option": value, ..} or {"name": .., "config": {"option": value, ..}}'


_READ: Final = (
    f"what is read is one JSON object, {_SHAPES.removeprefix('expected ')}, or Java properties or YAML in a "
    "file whose name ends in .properties, .yaml or .yml"
)
_YAML: Final = re.compile(r"---\s*$|[\w.]+:(\s|$)")
_PROPERTY: Final = re.compile(r"[\w.]+\s*=")


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
        raise broken(f"the text is empty; {_READ}")
    if kind != "properties" and not content.lstrip().startswith("{"):
        refuse_tool(other_tool_of_text(content))
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
        raise broken(f"the .properties text is broken: {error}") from None


def _json_pairs(text: str, problems: Problems) -> list[tuple[str, str]]:
    try:
        document = json.loads(
            text,
            object_pairs_hook=Members,
            parse_int=_Numeral,
            parse_float=_Numeral,
            parse_constant=_refuse_constant,
        )
    except json.JSONDecodeError as error:
        if error.lineno == 1 and not text.lstrip().startswith("{"):
            raise broken(f"the text is not JSON{_guessed(text)}; {_READ}") from None
        raise broken(
            f"the JSON is broken at line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None
    except RecursionError:
        raise broken(f"the JSON is nested too deeply; {_SHAPES}") from None
    except _NotANumber:
        raise broken("the JSON holds NaN or Infinity, which are no JSON numbers") from None
    if not isinstance(document, Members):
        raise broken(f"the JSON is not an object; {_SHAPES}")
    return _texts(flat(document, problems), problems)


def _yaml_pairs(text: str, problems: Problems) -> list[tuple[str, str]]:
    # Reading YAML takes longer to import than the rest of the settings, and most files are JSON.
    from headrace.options.yaml_text import YamlError, yaml_members

    try:
        members = yaml_members(text, Members)
    except YamlError as error:
        raise broken(f"{error}; {_SHAPES}" if error.is_shape else str(error)) from None
    return _texts(flat(members, problems), problems)


def _texts(members: Sequence[tuple[str, object]], problems: Problems) -> list[tuple[str, str]]:
    pairs = []
    for name, value in members:
        match value:
            case bool():
                pairs.append((name, "true" if value else "false"))
            case str():
                pairs.append((name, str(value)))
            case _:
                kind = "null" if value is None else "an object" if isinstance(value, Members) else "a list"
                problems.add(name, f"is {kind}; expected a text, a number or a boolean")
    return pairs
