"""The text of a configuration to names and values: JSON or YAML in Connect's two shapes, or `.properties`.

`.properties` follow java.util.Properties.load: natural lines end with LF, CR or CRLF; a line whose last
backslash is not itself escaped continues in the next one, whose leading white space is dropped. `#` and `!`
begin a comment where a line begins. The name ends at the first unescaped `=`, `:` or white space.
https://docs.oracle.com/en/java/javase/17/docs/api/java.base/java/util/Properties.html

`${env:NAME}`, `${file:PATH:KEY}` and `${dir:PATH:FILE}` are Connect's references to values kept elsewhere,
and a worker's file gives what its connectors leave out.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal, NoReturn

from headrace.model.text_formatting import printable
from headrace.options.given import (
    Problem,
    Problems,
    Reference,
    SettingsError,
    references_in,
    with_references,
    with_replaced,
)
from headrace.options.suggestions import other_tool, other_tool_of_text
from headrace.options.worker_limits import NO_REFERENCE_LIMITS, NotAllowed, ReferenceLimits

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


_FORMS: Final = {"env": "${env:NAME}", "file": "${file:PATH:KEY}", "dir": "${dir:PATH:FILE}"}
# As shells and Compose write them, and most often a variable that was not replaced.
_VARIABLE: Final = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")


class ReferenceMissing(LookupError):
    """What a reference points at is not there; the text says where it was looked for."""


class NoReference(ReferenceMissing):
    """A reference of another form than those that are known, wherever it is resolved."""


class ReferenceForbidden(NoReference):
    """A reference to what the worker's file keeps from its connectors."""


def has_reference(text: str) -> bool:
    """Whether a value holds references, all of a known form."""
    found = list(references_in(text))
    return bool(found) and all(_is_of_its_form(one) for one in found)


def _is_of_its_form(found: Reference) -> bool:
    form = _FORMS.get(found.provider)
    return form is not None and bool(found.key) and bool(found.path) == ("PATH" in form)


class References:
    """Replaces references in values, within limits; files are read once."""

    __slots__ = ("_environment", "_files", "_led", "_limits", "_meant", "_read_file", "options")

    def __init__(
        self,
        *,
        environment: Mapping[str, str],
        read_file: Callable[[str], str],
        limits: ReferenceLimits = NO_REFERENCE_LIMITS,
        meant: Callable[[str, str], str] = lambda _option, text: text,
    ) -> None:
        """`meant` is asked with an option and what its references gave for the value that this is."""
        self._meant = meant
        self._environment = environment
        self._read_file = read_file
        self._limits = limits
        self._files: dict[str, Mapping[str, str]] = {}
        self._led: dict[tuple[str, str], None] = {}
        self.options: set[str] = set()
        """Those whose values were asked for."""

    def hidden(self, sentence: str) -> str:
        """Return a sentence with what has been replaced until now as it was written."""
        return with_references(sentence, self._led)

    def replaced(self, option: str, raw: str) -> str:
        """Return the value with its references replaced, once: what comes in is not looked at again.

        Raises ReferenceMissing. Blocks for reading files. Other references are an error too, but for
        `spark.*`, where `${system:..}` and the like are Spark's own.
        """
        self.options.add(option)
        if "$" not in raw:
            return raw
        for found in references_in(raw):
            # Before one that leads nowhere: that may be so on this machine alone.
            if _is_of_its_form(found):
                self._place(found)

        def one(found: Reference) -> str:
            text = self._one(option, found)
            self._led[found.text, text] = None
            return text

        text = with_replaced(raw, one)
        return text if text == raw else self._meant(option, text)

    def _one(self, option: str, found: Reference) -> str:
        provider, key = found.provider, found.key
        form = _FORMS.get(provider)
        if form is not None and not _is_of_its_form(found):
            raise NoReference(f"{found.text} is no reference; expected {form}")
        if provider == "env":
            return self._variable(self._place(found))
        if provider == "file":
            return self._entry(self._place(found), key)
        if provider == "dir":
            return self._whole(self._place(found))
        if option.startswith("spark."):
            return found.text
        raise NoReference(
            f"knows the references {_FORMS['env']}, {_FORMS['file']} and {_FORMS['dir']}, not those of "
            f"{provider!r}"
        )

    def _place(self, found: Reference) -> str:
        """The variable or path to read. ReferenceForbidden."""
        provider, path, key = found.provider, found.path or "", found.key
        try:
            if provider == "env":
                return self._limits.variable(key)
            return self._limits.path(provider, path if provider == "file" else f"{path.rstrip('/')}/{key}")
        except NotAllowed as error:
            raise ReferenceForbidden(str(error)) from error

    def _variable(self, name: str) -> str:
        if name not in self._environment:
            raise ReferenceMissing(f"the environment variable {name} is not set")
        return self._environment[name]

    def _whole(self, path: str) -> str:
        """The content of a file, as Kubernetes mounts secrets."""
        try:
            return self._read_file(path)
        except OSError as error:
            raise ReferenceMissing(f"the file {path} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise ReferenceMissing(f"the file {path} cannot be read as text") from error

    def _entry(self, path: str, key: str) -> str:
        if path not in self._files:
            try:
                self._files[path] = dict(parse_properties(self._read_file(path)))
            except OSError as error:
                raise ReferenceMissing(f"the file {path} cannot be read: {error.strerror}") from error
            except PropertiesError as error:
                raise ReferenceMissing(f"the file {path} is no .properties file: {error}") from error
            except ValueError as error:
                # Bytes that are no text, or a path that the system refuses outright.
                raise ReferenceMissing(f"the file {path} cannot be read as text") from error
        if key not in self._files[path]:
            raise ReferenceMissing(f"the file {path} has no entry {key!r}")
        return self._files[path][key]


def is_unreplaced(text: str) -> bool:
    """Whether a value is `${NAME}` and nothing else, which is no reference of Connect's."""
    return _VARIABLE.fullmatch(text.strip()) is not None


_DEFAULTS: Final = re.compile(r"(key|value|header)\.converter(\..+)?|offset\.flush\.interval\.ms")


def connector_defaults(text: str, problems: Problems) -> dict[str, str]:
    """The converters and the flush interval of a worker's `.properties` text; broken text is a problem."""
    try:
        pairs = parse_properties(text.removeprefix("\ufeff"))
    except PropertiesError as error:
        problems.add("", f"the worker's .properties text is broken: {error}")
        return {}
    return {name: value for name, value in pairs if _DEFAULTS.fullmatch(name)}


FileKind = Literal["json", "properties", "yaml"]

_SHAPES: Final = 'expected {"option": value, ..} or {"name": .., "config": {"option": value, ..}}'


_READ: Final = (
    f"what is read is one JSON object, {_SHAPES.removeprefix('expected ')}, or Java properties or YAML in a "
    "file whose name ends in .properties, .yaml or .yml"
)
_YAML: Final = re.compile(r"---\s*$|[\w.]+:(\s|$)")
_PROPERTY: Final = re.compile(r"[\w.]+\s*=")


def note_missing(problems: Problems, option: str, error: ReferenceMissing) -> None:
    """Note that a reference of an option leads nowhere."""
    problems.add(
        option,
        str(error),
        is_missing=not isinstance(error, NoReference),
        is_forbidden=isinstance(error, ReferenceForbidden),
    )


class Members(list[tuple[str, object]]):
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
    if kind != "properties" and not content.lstrip().startswith("{"):
        _refuse_tool(other_tool_of_text(content))
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
            object_pairs_hook=Members,
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
    if not isinstance(document, Members):
        raise _broken(f"the JSON is not an object; {_SHAPES}")
    return _texts(_flat(document, problems), problems)


def _yaml_pairs(text: str, problems: Problems) -> list[tuple[str, str]]:
    # Reading YAML takes longer to import than the rest of the settings, and most files are JSON.
    from headrace.options.yaml_text import YamlError, yaml_members

    try:
        members = yaml_members(text, Members)
    except YamlError as error:
        raise _broken(f"{error}; {_SHAPES}" if error.is_shape else str(error)) from None
    return _texts(_flat(members, problems), problems)


# What Connect shows next to a connector's configuration.
_OF_ANSWERS: Final[dict[str, type]] = {"tasks": list, "type": str}


def _refuse_resource(members: Members) -> None:
    """SettingsError for a connector as operators of Kubernetes have it, whose options are further in."""
    given = {name: value for name, value in members if isinstance(value, str)}
    if "apiVersion" in given and "kind" in given:
        raise _broken(
            f"this is a resource of Kubernetes ({given['kind']}); what is read is its spec.config alone "
            "(spec.configs of Confluent's), with name, connector.class and tasks.max in it"
        )


# What `GET /connectors?expand=info&expand=status` says of each connector.
_EXPORTED: Final = frozenset({"info", "status"})
_FEW: Final = 10


def _exported(members: Members) -> Members:
    """The connector that an export of a worker's has; the same members where this is none.

    SettingsError where it has several, or no configuration.
    """
    answers = {name: dict(value) for name, value in members if isinstance(value, Members) and value}
    if not answers or len(answers) < len(members):
        return members
    if not all(each.keys() <= _EXPORTED for each in answers.values()):
        return members
    names, one = [printable(name) for name in answers], next(iter(answers.values()))
    if len(answers) > 1:
        more = len(names) - _FEW
        shown = ", ".join(names[:_FEW]) + (f" and {more} more" if more > 0 else "")
        raise _broken(
            f"this is an export of {len(answers)} connectors ({shown}), and one is read: keep one of them in "
            f"the file, or save what GET /connectors/{names[0]} answers, each connector in a file of its own"
        )
    found = one.get("info")
    if not isinstance(found, Members):
        raise _broken(
            f"this is an export of the connector {names[0]} without its configuration: save what "
            "GET /connectors?expand=info answers"
        )
    # Lists of tasks are texts in YAML, and options of their own nowhere.
    return Members(pair for pair in found if pair[0] in {"name", "config"})


def _refuse_tool(sentence: str | None) -> None:
    if sentence is not None:
        raise _broken(sentence)


def _flat(members: Members, problems: Problems) -> Sequence[tuple[str, object]]:
    """Return the options of either shape; in the second one `name` is next to `config`."""
    members = _exported(members)
    _refuse_resource(members)
    _refuse_tool(other_tool(name for name, value in members if isinstance(value, Members)))
    configs = [value for name, value in members if name == "config" and isinstance(value, Members)]
    if not configs:
        return members
    for name, value in members:
        if name == "initial_state":
            problems.add(name, "is for the request that creates a connector in a worker; remove it")
        elif name not in {"name", "config"} and not isinstance(value, _OF_ANSWERS.get(name, ())):
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
                kind = "null" if value is None else "an object" if isinstance(value, Members) else "a list"
                problems.add(name, f"is {kind}; expected a text, a number or a boolean")
    return pairs
