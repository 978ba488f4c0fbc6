"""`file.name.template` of a sink, read: what an object's name is made of."""

import difflib
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ingest.template.date_pattern import DatePattern, DatePatternError, read_date_pattern
from ingest.template.template_source import TemplateError

PARTITION_DIGITS: Final = 10
OFFSET_DIGITS: Final = 20


class NameField(StrEnum):
    """What may stand between `{{` and `}}`."""

    TOPIC = "topic"
    PARTITION = "partition"
    START_OFFSET = "start_offset"
    END_OFFSET = "end_offset"
    TIMESTAMP = "timestamp"
    DATE = "date"
    KEY = "key"
    VALUE = "value"
    HEADER = "header"
    EXTENSION = "extension"


OFFSETS: Final = frozenset({NameField.START_OFFSET, NameField.END_OFFSET})
DATA: Final = frozenset({NameField.KEY, NameField.VALUE, NameField.HEADER})
_PADDED: Final = frozenset({NameField.PARTITION, *OFFSETS})
_UNITS: Final = ("yyyy", "MM", "dd", "HH")
_HINTS: Final = {
    NameField.DATE: "a pattern, such as {{date:yyyy-MM-dd/HH}}",
    NameField.VALUE: "a field, such as {{value:customer.id}}",
    NameField.HEADER: "a name, such as {{header:region}}",
    NameField.TIMESTAMP: "a unit, such as {{timestamp:unit=yyyy}} (or use {{date:..}})",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NameVariable:
    """One `{{..}}`. `path` is the field of a key or value (empty: all of it), or the name of a header."""

    field: NameField
    path: tuple[str, ...] = ()
    padded: bool = False
    date: DatePattern | None = None


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
    name, colon, text = (part.strip() for part in source[start + 2 : end - 2].partition(":"))

    def wrong(problem: str) -> TemplateError:
        return TemplateError(problem, source=source, start=start, end=end)

    if name not in tuple(NameField):
        close = difflib.get_close_matches(name.lower(), tuple(NameField), n=1)
        hint = f"did you mean {{{{{close[0]}}}}}?" if close else f"known are {', '.join(NameField)}"
        raise wrong(f"{name!r} is no variable of a sink's names; {hint}")
    field = NameField(name)
    if not text and (colon or field in _HINTS):
        raise wrong(f"{{{{{field}}}}} needs {_HINTS.get(field, 'something behind the colon')}")
    try:
        return _with_parameter(field, text)
    except ValueError as error:
        raise wrong(f"{{{{{field}}}}}: {error}") from None


def _with_parameter(field: NameField, text: str) -> NameVariable:
    """The variable with what stands behind its colon; ValueError says what is wrong there."""
    if field is NameField.DATE:
        return NameVariable(field=field, date=read_date_pattern(text))
    if field is NameField.HEADER:
        return NameVariable(field=field, path=(text,))
    if field in DATA:
        path = tuple(text.split(".")) if text else ()
        if not all(path):
            raise ValueError("a part of the path is empty")
        return NameVariable(field=field, path=path)
    if not text:
        return NameVariable(field=field)
    parameter, value = (part.strip() for part in text.partition("=")[::2])
    if field in _PADDED and parameter == "padding" and value in {"true", "false"}:
        return NameVariable(field=field, padded=value == "true")
    if field is NameField.TIMESTAMP and parameter == "unit" and value in _UNITS:
        return NameVariable(field=field, date=DatePattern(((value, True),)))
    takes = {NameField.TIMESTAMP: f"unit={'|'.join(_UNITS)}"}.get(
        field, "padding=true or padding=false" if field in _PADDED else "nothing behind a colon"
    )
    raise DatePatternError(f"it takes {takes}")


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
