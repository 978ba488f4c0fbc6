"""`file.name.template` of a sink, read: what an object's name is made of, and how values are written in it.

Fields are paths: dots for nesting, a field in backticks whatever it holds. A field that has the whole path as
its name, dots and all, comes first. Different values stay different in
a name, and are read back. A value is bytes, or null. Letters, digits and `_ - .` are written as they are,
letters of any script too; every other byte is `%` and two upper-case hexadecimal digits. What would not be a
name has its own:

    null                __HIVE_DEFAULT_PARTITION__   as Hive, Spark and Athena write it
    empty               __HEADRACE_EMPTY__
    `.` and `..`        %2E and %2E%2E               a path would lose them
    a text that is one of these words: its first `_` as %5F
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final
from urllib.parse import unquote_to_bytes

from headrace.model.text_formatting import did_you_mean, similar
from headrace.names.date_letters import DateDialect
from headrace.names.date_pattern import DatePattern, read_date_pattern
from headrace.names.template_source import TemplateError

_PLAIN: Final = re.compile(r"[^`.]+")
_STEP: Final = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")


def read_path(text: str) -> tuple[str, ...]:
    """The parts of a path; ValueError for one that is empty or not closed."""
    steps: list[str] = []
    position = 0
    while True:
        found = _STEP.match(text, position)
        if found is None:
            raise ValueError("a part of the path is empty, or a ` is not closed")
        steps.append(found[1].replace("``", "`") if found[1] is not None else found[2])
        position = found.end()
        if position == len(text):
            return tuple(steps)
        if text[position] != ".":
            raise ValueError("after a ` of the path comes a dot")
        position += 1


def path_text(path: Sequence[str]) -> str:
    """The text that `read_path` reads as this path."""
    return ".".join(step if _PLAIN.fullmatch(step) else f"`{step.replace('`', '``')}`" for step in path)


# -- Numbers in names: filled up to a width, on one side -----------------------------------------------------

_MOST: Final = 64
_PATTERN: Final = re.compile(
    r"padding\s*=\s*(true|false|\d+)(?:\s*,\s*char\s*=(.))?(?:\s*,\s*side\s*=\s*(left|right))?"
)
TAKES: Final = "padding=true, padding=false or padding=N, and after it ,char=C and ,side=left or right"


@dataclass(frozen=True, slots=True)
class Padding:
    """Up to `width` characters are filled with `char`; a longer number is as it is."""

    width: int = 1
    char: str = "0"
    is_right: bool = False

    @property
    def is_readable(self) -> bool:
        """Whether every number has a text of its own: not with digits that could be its own."""
        if not self.char.isdigit() or self.width == 1:
            return True
        return self.char == "0" and not self.is_right

    def text(self, number: int) -> str:
        """The number, filled up."""
        plain = str(number)
        return plain.ljust(self.width, self.char) if self.is_right else plain.rjust(self.width, self.char)


NO_PADDING: Final = Padding()


def read_padding(text: str, usual: int) -> Padding | None:
    """The padding of a variable's parameters, None where they are none; `usual` is the width of `true`."""
    found = _PATTERN.fullmatch(text)
    if found is None:
        return None
    width, char, side = found.groups()
    digits = {"true": usual, "false": 1}.get(width) or int(width)
    if digits > _MOST:
        raise ValueError(f"padding takes at most {_MOST} digits")
    if char is not None and not char.isprintable():
        raise ValueError("the padding's character is a control character")
    return Padding(max(1, digits), "0" if char is None else char, side == "right")


# -- `file.name.template` of a sink, read: what an object's name is made of ----------------------------------

PARTITION_DIGITS: Final = 10
OFFSET_DIGITS: Final = 20


class NameField(StrEnum):
    """What may be between `{{` and `}}`."""

    TOPIC = "topic"
    PARTITION = "partition"
    START_OFFSET = "start_offset"
    END_OFFSET = "end_offset"
    BATCH_OFFSET = "batch_offset"
    FIRST_TIMESTAMP = "first_timestamp"
    LAST_TIMESTAMP = "last_timestamp"
    TIMESTAMP = "timestamp"
    DATE = "date"
    JODA = "joda"
    UTC_DATE = "utc_date"
    LOCAL_DATE = "local_date"
    SCHEMA_NAME = "schema_name"
    KEY = "key"
    VALUE = "value"
    HEADER = "header"
    EXTENSION = "extension"


OFFSETS: Final = frozenset({NameField.START_OFFSET, NameField.END_OFFSET, NameField.BATCH_OFFSET})
DATA: Final = frozenset({NameField.KEY, NameField.VALUE, NameField.HEADER, NameField.SCHEMA_NAME})
KNOWN_AT_THE_END: Final = frozenset(
    {NameField.END_OFFSET, NameField.FIRST_TIMESTAMP, NameField.LAST_TIMESTAMP}
)
OF_THE_CLOCK: Final = frozenset({NameField.UTC_DATE, NameField.LOCAL_DATE})
"""Dates of the wall clock, whatever the source of other times is."""
_PADDED: Final = {
    NameField.PARTITION: PARTITION_DIGITS,
    **dict.fromkeys(OFFSETS, OFFSET_DIGITS),
}
_UNITS: Final = ("yyyy", "MM", "dd", "HH")
_ISO_DATE: Final = read_date_pattern("yyyy-MM-dd")
_HINTS: Final = {
    NameField.DATE: "a pattern, such as {{date:yyyy-MM-dd/HH}}",
    NameField.JODA: "a pattern, such as {{joda:'year'=YYYY/'month'=MM}}",
    NameField.VALUE: "a field, such as {{value:customer.id}}",
    NameField.HEADER: "a name, such as {{header:region}}",
    NameField.TIMESTAMP: "a unit, such as {{timestamp:unit=yyyy}} (or use {{date:..}})",
}


_NAMES: Final = tuple(NameField)


@dataclass(frozen=True, slots=True, kw_only=True)
class NameVariable:
    """One `{{..}}`.

    `path` is the field of a key or value (empty: all of it), or the name of a header. `hyphens` is what
    stands for each `-` of a topic.
    """

    field: NameField
    path: tuple[str, ...] = ()
    padding: Padding = NO_PADDING
    date: DatePattern | None = None
    hyphens: str = "-"


NameToken = str | NameVariable


@dataclass(frozen=True, slots=True, kw_only=True)
class NameTemplate:
    """A template's text and variables in order; `source` is what it was read from."""

    source: str
    tokens: tuple[NameToken, ...]

    @property
    def variables(self) -> tuple[NameVariable, ...]:
        """The variables in their order."""
        return tuple(token for token in self.tokens if isinstance(token, NameVariable))

    @property
    def fields(self) -> frozenset[NameField]:
        """Which fields there are."""
        return frozenset(variable.field for variable in self.variables)

    @property
    def is_of_keys(self) -> bool:
        """Whether names are of record keys alone, so that a later object of a key replaces the earlier."""
        return NameField.KEY in self.fields and not self.fields & OFFSETS

    @property
    def lost_text(self) -> str | None:
        """What S3 or tools that read names would alter or pass over; None where that is nothing."""
        texts = [token if isinstance(token, str) else _text_of_date(token) for token in self.tokens]
        if not "".join(texts).isprintable():
            return "a control character in a date"
        if not _DOTS.isdisjoint("".join(texts).split("/")):
            return "a directory '.' or '..', which tools that read paths lose"
        if texts[-1].endswith("/"):
            return "a slash at its end, so that its objects pass for directories, which no restore reads"
        return None


def _text_of_date(variable: NameVariable) -> str:
    """The text between the parts of a date, and a letter for all that varies."""
    elements = () if variable.date is None else variable.date.elements
    return "".join(each if isinstance(each, str) else "x" for each in elements) or "x"


@lru_cache(maxsize=256)
def read_name_template(source: str) -> NameTemplate:
    """The template read; TemplateError for its first mistake."""
    if not source:
        raise TemplateError("The template is empty", source=source, start=0, end=1)
    tokens: list[NameToken] = []
    position = 0
    while (opening := source.find("{{", position)) >= 0:
        closing = source.find("}}", opening + 2)
        if closing < 0:
            raise TemplateError(
                "This variable is not closed with '}}'", source=source, start=opening, end=len(source)
            )
        tokens += [source[position:opening]] if opening > position else []
        tokens.append(_variable(source, opening, closing + 2))
        position = closing + 2
    tokens += [source[position:]] if position < len(source) else []
    _check_text(source, tokens)
    return NameTemplate(source=source, tokens=tuple(tokens))


def _variable(source: str, start: int, end: int) -> NameVariable:
    name, colon, text = (each.strip() for each in source[start + 2 : end - 2].partition(":"))

    def wrong(problem: str) -> TemplateError:
        return TemplateError(problem, source=source, start=start, end=end)

    if name not in _NAMES:
        close = similar(name.lower(), _NAMES)
        meant = None if close is None else f"{{{{{close}}}}}"
        hint = did_you_mean(meant, otherwise=f"known are {', '.join(NameField)}")
        raise wrong(f"{name!r} is not a variable of a sink's names; {hint}")
    field = NameField(name)
    if not text and (colon or field in _HINTS):
        raise wrong(f"{{{{{field}}}}} needs {_HINTS.get(field, 'something after the colon')}")
    try:
        return _with_parameter(field, text)
    except ValueError as error:
        raise wrong(f"{{{{{field}}}}}: {error}") from None


def _with_parameter(field: NameField, text: str) -> NameVariable:
    """The variable with what is after its colon; ValueError says what is wrong there."""
    if field in _READERS:
        return _READERS[field](field, text)
    if not text:
        return NameVariable(field=field, date=_ISO_DATE if field in OF_THE_CLOCK else None)
    raise ValueError("it takes nothing after a colon")


def _dated(field: NameField, text: str) -> NameVariable:
    dialect = DateDialect.JODA if field is NameField.JODA else DateDialect.JAVA
    return NameVariable(field=field, date=read_date_pattern(text, dialect))


def _of_data(field: NameField, text: str) -> NameVariable:
    return NameVariable(field=field, path=read_path(text) if text else ())


def _padded(field: NameField, text: str) -> NameVariable:
    if not text:
        return NameVariable(field=field)
    padding = read_padding(text, _PADDED[field])
    if padding is None:
        raise ValueError(f"it takes {TAKES}")
    return NameVariable(field=field, padding=padding)


def _unit(field: NameField, text: str) -> NameVariable:
    parameter, _, unit = (each.strip() for each in text.partition("="))
    if parameter != "unit" or unit not in _UNITS:
        raise ValueError(f"it takes unit={'|'.join(_UNITS)}")
    return NameVariable(field=field, date=read_date_pattern(unit))


def _topic(field: NameField, text: str) -> NameVariable:
    if not text:
        return NameVariable(field=field)
    parameter, _, hyphens = text.partition("=")
    if parameter.strip() != "hyphens" or hyphens not in {"_", "."}:
        raise ValueError("it takes hyphens=_ or hyphens=.")
    return NameVariable(field=field, hyphens=hyphens)


_READERS: Final[Mapping[NameField, Callable[[NameField, str], NameVariable]]] = {
    NameField.DATE: _dated,
    NameField.JODA: _dated,
    NameField.TIMESTAMP: _unit,
    NameField.KEY: _of_data,
    NameField.VALUE: _of_data,
    NameField.HEADER: lambda field, text: NameVariable(field=field, path=(text,)),
    NameField.TOPIC: _topic,
    **dict.fromkeys(_PADDED, _padded),
}


def _check_text(source: str, tokens: list[NameToken]) -> None:
    """Refuse text that S3 or the tools that read names would alter."""
    for token in tokens:
        if isinstance(token, str) and not token.isprintable():
            raise TemplateError("A control character is in it", source=source, start=0, end=len(source))
    for segment in source.split("/"):
        if re.fullmatch(r"\.{1,2}", segment):
            start = 0 if source.startswith(segment + "/") else source.find(f"/{segment}") + 1
            raise TemplateError(
                "A directory '.' or '..' is lost by tools that read paths",
                source=source,
                start=start,
                end=start + len(segment),
            )


NULL: Final = "__HIVE_DEFAULT_PARTITION__"
EMPTY: Final = "__HEADRACE_EMPTY__"

_KEPT: Final = re.compile(r"[A-Za-z0-9_.-]+")
_DOTS: Final = frozenset({".", ".."})
_WORDS: Final = frozenset({NULL, EMPTY})


def escape(value: str | bytes | None) -> str:
    """The text of a value in a name; `unescape` gives the value back."""
    if value is None:
        return NULL
    # Half of a surrogate pair, which JSON can bring, keeps bytes of its own.
    octets = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    text = octets.decode("utf-8", "surrogateescape")
    if not text:
        return EMPTY
    if text in _WORDS:
        return f"%5F{text[1:]}"
    if text in _DOTS:
        return text.replace(".", "%2E")
    if _KEPT.fullmatch(text):
        return text
    return "".join(char if is_plain(char) else _percent(char) for char in text)


def unescape(text: str) -> bytes | None:
    """The value that `escape` wrote as this text."""
    if text == NULL:
        return None
    return b"" if text == EMPTY else unquote_to_bytes(text)


def is_plain(char: str) -> bool:
    """Whether a character of a value stands for itself in a name."""
    return char in "_.-" or char.isalnum()


def _percent(char: str) -> str:
    return "".join(f"%{octet:02X}" for octet in char.encode("utf-8", "surrogateescape"))
