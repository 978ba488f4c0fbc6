"""A template's text read into tokens, or one error that points at the character that is wrong."""

import re
from dataclasses import dataclass
from typing import Final, Literal, cast

from headrace.model.text_formatting import MarkedError, did_you_mean, similar

Name = Literal["topic", "partition", "start_offset", "timestamp", "any"]
Unit = Literal["yyyy", "MM", "dd", "HH"]

# The parameters are the ones with which the sinks' `file.name.template` writes names; `any` is our own.
_PARAMETERS: Final[dict[Name, dict[str, tuple[str, ...]]]] = {
    "topic": {},
    "partition": {"padding": ("true", "false")},
    "start_offset": {"padding": ("true", "false")},
    "timestamp": {"unit": ("yyyy", "MM", "dd", "HH")},
    "any": {},
}
_INSIDE: Final = re.compile(
    r"[ \t]*(?P<name>[^:{} \t]*)[ \t]*"
    r"(?::[ \t]*(?P<parameter>[^={} \t]*)[ \t]*=[ \t]*(?P<value>[^{} \t]*)[ \t]*)?",
)


class TemplateError(MarkedError):
    """A template that cannot be compiled: one sentence, then the template with the wrong part underlined."""

    def __str__(self) -> str:
        shown = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in self.source)
        underline = " " * self.start + "^" * (self.end - self.start)
        return f"{self.problem} (character {self.start + 1} of the template)\n    {shown}\n    {underline}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """What is between placeholders: a regular expression in `search`, itself in `exact`."""

    text: str
    start: int

    @property
    def end(self) -> int:
        """Index in the template after this text."""
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholder:
    """One `{{name}}` or `{{name:parameter=value}}` and where it is in the template."""

    name: Name
    start: int
    end: int
    padded: bool = False
    unit: Unit | None = None

    @property
    def width(self) -> int | None:
        """Exact number of digits that it takes, None when it takes as many as there are."""
        if self.unit is None:
            return None
        return 4 if self.unit == "yyyy" else 2

    @property
    def meaning(self) -> str:
        """What it takes, in words for a person."""
        if self.name == "topic":
            return "letters, digits, '.', '_' and '-'"
        if self.name == "any":
            return "anything but '/'"
        return "digits" if self.width is None else f"{self.width} digits"


Token = Text | Placeholder


def read_template(source: str, *, any_is_known: bool) -> tuple[Token, ...]:
    """Tokens of a template in order, together covering it; TemplateError for the first mistake."""
    if not source:
        every = "'{{any}}' takes every key without a folder" if any_is_known else "'.*' takes every key"
        raise TemplateError(f"The template is empty; {every}", source=source, start=0, end=1)
    tokens: list[Token] = []
    named: set[Name] = set()
    position = 0
    while (opening := source.find("{{", position)) >= 0:
        if opening > position:
            tokens.append(Text(text=source[position:opening], start=position))
        closing = source.find("}}", opening + 2)
        if closing < 0:
            raise TemplateError(
                "This placeholder is not closed with '}}'", source=source, start=opening, end=len(source)
            )
        placeholder = _read_placeholder(source, opening, closing + 2, any_is_known=any_is_known)
        if placeholder.name in named and placeholder.name not in ("timestamp", "any"):
            raise TemplateError(
                f"{{{{{placeholder.name}}}}} appears twice; only {{{{timestamp}}}} may repeat",
                source=source,
                start=opening,
                end=closing + 2,
            )
        named.add(placeholder.name)
        tokens.append(placeholder)
        position = closing + 2
    if position < len(source):
        tokens.append(Text(text=source[position:], start=position))
    return tuple(tokens)


def _read_placeholder(source: str, start: int, end: int, *, any_is_known: bool) -> Placeholder:
    inside = _INSIDE.fullmatch(source, start + 2, end - 2)
    if inside is None:
        raise TemplateError(
            f"{source[start:end]!r} is not a placeholder; write {{{{name}}}} or {{{{name:parameter=value}}}}",
            source=source,
            start=start,
            end=end,
        )
    name = _read_name(source, inside, any_is_known=any_is_known)
    if inside["parameter"] is None:
        return Placeholder(name=name, start=start, end=end)
    parameter, value = _read_parameter(source, inside, name)
    if parameter == "unit":
        return Placeholder(name=name, start=start, end=end, unit=cast("Unit", value))
    return Placeholder(name=name, start=start, end=end, padded=value == "true")


def _read_name(source: str, inside: re.Match[str], *, any_is_known: bool) -> Name:
    name = inside["name"]
    known = [each for each in _PARAMETERS if any_is_known or each != "any"]
    if name in known:
        return cast("Name", name)
    start, end = inside.span("name")
    if name == "any":
        problem = (
            "{{any}} belongs to file.name.match=exact; in search write a regular expression such as [^/]*"
        )
    else:
        close = similar(name.lower(), known)
        meant = None if close is None else f"{{{{{close}}}}}"
        hint = did_you_mean(meant, otherwise="known are " + ", ".join(known))
        problem = (
            f"{name!r} is not a known placeholder; {hint}" if name else f"A name is missing here; {hint}"
        )
    raise TemplateError(problem, source=source, start=start, end=end)


def _read_parameter(source: str, inside: re.Match[str], name: Name) -> tuple[str, str]:
    parameter, value = inside["parameter"], inside["value"]
    values = _PARAMETERS[name].get(parameter)
    if values is None:
        takes = " or ".join(_PARAMETERS[name]) or "none"
        start, end = inside.span("parameter")
        raise TemplateError(
            f"{{{{{name}}}}} has no parameter {parameter!r}; it takes {takes}",
            source=source,
            start=start,
            end=end,
        )
    if value not in values:
        start, end = inside.span("value")
        raise TemplateError(
            f"{parameter} of {{{{{name}}}}} cannot be {value!r}; it is one of {', '.join(values)}",
            source=source,
            start=start,
            end=end,
        )
    return parameter, value
