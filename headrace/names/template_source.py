"""A template's text read into tokens, or one error that points at what is wrong; tokens as one expression.

A key may be hostile: up to 1,024 bytes chosen to make the expression backtrack. What a user writes between
placeholders is theirs to answer for; the placeholders are ours. A leading one begins only at the start of
its run, and a number right after a greedy neighbour is the one digit that greed leaves it, so that what
remains to be tried is not multiplied by the length of a run. Literal templates where two placeholders could
share a text go through `walk` instead.
"""

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
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


Mode = Literal["search", "exact"]

_TOPIC: Final = "a-zA-Z0-9._-"
_DIGITS: Final = "0-9"
_MEANING_SOMETHING: Final = frozenset(r"\.^$*+?{}[]|()# ")
_OPTIONAL: Final = ("*", "?", "{")
_REFERENCE: Final = re.compile(r"\(|\\[0-9]")


def accepts(placeholder: Placeholder, char: str) -> bool:
    """Whether a placeholder takes this character; digits are ASCII digits only."""
    match placeholder.name:
        case "any":
            return char != "/"
        case "topic":
            return char.isascii() and (char.isalnum() or char in "._-")
        case _:
            return char.isascii() and char.isdigit()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A compiled template: the expression and the placeholders that it captures, in the template's order."""

    expression: re.Pattern[str]
    captured: tuple[tuple[str, Placeholder], ...]

    def captures(self, match: re.Match[str]) -> list[tuple[Placeholder, str | None]]:
        """What each placeholder took; None for one in a part of the expression that was not taken."""
        return [(placeholder, match[group]) for group, placeholder in self.captured]


def is_ambiguous(tokens: Sequence[Token], index: int, mode: Mode) -> bool:
    """Whether the placeholder at `index` may have to give characters back so that the rest can match."""
    token = tokens[index]
    if isinstance(token, Text) or token.width is not None:
        return False
    if index + 1 == len(tokens):
        return False
    following = tokens[index + 1]
    if isinstance(following, Placeholder):
        return True
    char = following.text[0] if mode == "exact" else _certain_first_char(following.text)
    return char is None or accepts(token, char)


def _certain_first_char(expression: str) -> str | None:
    """The character with which every match of an expression begins, None when that is not plain to see."""
    char, rest = expression[:1], expression[1:]
    if char == "\\" and rest and not rest[0].isalnum():  # an escaped sign, such as \. or \-
        char, rest = rest[0], rest[1:]
    elif char in _MEANING_SOMETHING or not char.isprintable():
        return None
    return None if rest.startswith(_OPTIONAL) else char


def compile_pattern(source: str, tokens: Sequence[Token], mode: Mode) -> Pattern:
    """Regular expression of a template; TemplateError that points at the place when it is not valid."""
    pieces: list[str] = []
    starts: list[int] = []
    captured: list[tuple[str, Placeholder]] = []
    for index, token in enumerate(tokens):
        starts.append(sum(map(len, pieces)))
        if isinstance(token, Text):
            pieces.append(token.text if mode == "search" else re.escape(token.text))
            continue
        greedy = is_ambiguous(tokens, index, mode)
        after_greedy = index > 0 and _takes_digits(tokens[index - 1])
        single = not greedy and after_greedy and not (mode == "search" and _may_refer_back(tokens))
        body = _body(token, single=single)
        if token.name == "any":
            pieces.append(body)
            continue
        # The plain names, so that a search expression may refer back to them: (?P=topic).
        repeats = sum(placeholder.name == token.name for _, placeholder in captured)
        group = token.name if not repeats else f"{token.name}_{repeats + 1}"
        captured.append((group, token))
        pieces.append(f"{_run_start(tokens) if index == 0 and mode == 'search' else ''}(?P<{group}>{body})")
    expression = _compile(source, tokens, pieces, starts)
    for group, placeholder in captured:
        if group not in expression.groupindex:
            raise TemplateError(
                f"{{{{{placeholder.name}}}}} cannot be inside a character class or a comment",
                source=source,
                start=placeholder.start,
                end=placeholder.end,
            )
    return Pattern(expression=expression, captured=tuple(captured))


def search(expression: re.Pattern[str], key: str) -> re.Match[str] | None:
    """The first match anywhere in the key, None where there is none.

    What begins with `.*` matches from the key's first character or nowhere, where no line ends between: other
    beginnings are not tried, each of which takes as long as the first.
    """
    text = expression.pattern
    is_from_start = text.startswith(".*") and not text.startswith(".*+") and "|" not in text
    return expression.match(key) if is_from_start and "\n" not in key else expression.search(key)


def _takes_digits(token: Token) -> bool:
    return isinstance(token, Placeholder) and token.width is None


def _may_refer_back(tokens: Sequence[Token]) -> bool:
    """Whether a search expression could refer to what a placeholder took: then a match hangs on it."""
    return any(isinstance(token, Text) and _REFERENCE.search(token.text) for token in tokens)


def _body(placeholder: Placeholder, *, single: bool) -> str:
    if placeholder.width is not None:
        return f"[{_DIGITS}]{{{placeholder.width}}}"
    match placeholder.name:
        case "any":
            return "[^/]*"
        case "topic":
            return f"[{_TOPIC}]+"
        case _:
            return f"[{_DIGITS}](?![{_DIGITS}])" if single else f"[{_DIGITS}]+"


def _run_start(tokens: Sequence[Token]) -> str:
    """A look-behind that skips starts inside the run of a leading placeholder; '' where that could be seen.

    A match that begins inside the run could as well begin one character earlier, so the leftmost never does;
    without this, a key of one long run costs the square of its length. Only a reference back to the group or
    a quantifier on it would match something else.
    """
    first = tokens[0]
    if isinstance(first, Text) or first.width is not None:
        return ""
    if _may_refer_back(tokens):
        return ""
    if len(tokens) > 1 and isinstance(tokens[1], Text) and tokens[1].text.startswith((*_OPTIONAL, "+")):
        return ""
    return f"(?<![{_TOPIC if first.name == 'topic' else _DIGITS}])"


def _compile(
    source: str, tokens: Sequence[Token], pieces: Sequence[str], starts: Sequence[int]
) -> re.Pattern[str]:
    problem, position = "", None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            # ASCII, so that \d, \w and \s mean what they mean in Java.
            return re.compile("".join(pieces), re.ASCII)
    except re.error as error:
        problem, position = error.msg, error.pos
    except (FutureWarning, DeprecationWarning) as warning:
        problem = f"this means something else in other versions: {warning}"
    except (OverflowError, RecursionError) as error:
        problem = str(error)
    problem = f"Not a regular expression: {problem}"
    if position is None:
        raise TemplateError(problem, source=source, start=0, end=len(source))
    # Where in the template the character of the expression at this position comes from.
    index = max(i for i, start in enumerate(starts) if start <= position)
    token = tokens[index]
    if isinstance(token, Placeholder):
        problem += "; a placeholder cannot be inside [ ] or after a backslash, nor a group have its name"
        raise TemplateError(problem, source=source, start=token.start, end=token.end)
    at = min(token.start + position - starts[index], token.end - 1)
    raise TemplateError(problem, source=source, start=at, end=at + 1)


# -- Literal templates matched without backtracking, in time of key length times number of tokens ------------
# A regular expression with several placeholders that may give characters back, such as
# `{{any}}-{{any}}-{{topic}}`, can cost a power of the key's length. These go through a table instead: for
# each token, the places of the key from which the rest of the template can still match. It picks what a
# greedy expression picks.

Captures = list[tuple[Placeholder, str | None]]


def match_exactly(tokens: Sequence[Token], key: str, start: int) -> Captures | None:
    """What each placeholder takes when all tokens take `key[start:]`, each the most it can; else None."""
    tables = _possible_starts(tokens, key)
    if not tables[0][start]:
        return None
    captures: Captures = []
    position = start
    for token, (_, after) in zip(tokens, pairwise(tables), strict=True):
        end = max(place for place in _ends(token, key, position) if after[place])
        if isinstance(token, Placeholder):
            captures.append((token, key[position:end]))
        position = end
    return captures


def reach(tokens: Sequence[Token], key: str, start: int) -> tuple[int, int]:
    """How far an exact match gets, for a person: tokens taken, and the farthest place after them."""
    places = {start}
    for taken, token in enumerate(tokens):
        following = {end for place in places for end in _ends(token, key, place)}
        if not following:
            return taken, max(places)
        places = following
    return len(tokens), max(places)


def _possible_starts(tokens: Sequence[Token], key: str) -> list[bytearray]:
    """For each token, and for the end, the places from which it and all after it can take the key's rest."""
    after = bytearray(len(key) + 1)
    after[len(key)] = 1
    tables = [after]
    for token in reversed(tokens):
        here = bytearray(len(key) + 1)
        if isinstance(token, Text):
            width = len(token.text)
            for place in range(len(key) - width, -1, -1):
                here[place] = after[place + width] and key.startswith(token.text, place)
        elif token.width is not None:
            for place in range(len(key) - token.width, -1, -1):
                here[place] = (
                    after[place + token.width] and _run(token, key, place, token.width) == token.width
                )
        else:
            _fill_run(token, key, here, after)
        tables.append(here)
        after = here
    tables.reverse()
    return tables


def _fill_run(token: Placeholder, key: str, here: bytearray, after: bytearray) -> None:
    may_be_empty = token.name == "any"
    here[len(key)] = may_be_empty and after[len(key)]
    for place in range(len(key) - 1, -1, -1):
        longer = accepts(token, key[place]) and (here[place + 1] or after[place + 1])
        here[place] = longer or (may_be_empty and after[place])


def _ends(token: Token, key: str, place: int) -> range:
    """Places at which a token that begins at `place` can end."""
    if isinstance(token, Text):
        end = place + len(token.text)
        return range(end, end + key.startswith(token.text, place))
    if token.width is not None:
        end = place + token.width
        return range(end, end + (_run(token, key, place, token.width) == token.width))
    longest = _run(token, key, place, len(key))
    return range(place + (token.name != "any"), place + longest + 1)


def _run(token: Placeholder, key: str, place: int, limit: int) -> int:
    """How many characters from `place` on a placeholder accepts, at most `limit`."""
    end = min(len(key), place + limit)
    length = 0
    while place + length < end and accepts(token, key[place + length]):
        length += 1
    return length
