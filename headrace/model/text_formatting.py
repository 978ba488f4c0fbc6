"""Texts for people: numbers, the name that was meant, what came from outside made safe, and mistakes in it.

Keys may hold control characters, newlines, escape sequences and bidirectional marks; error texts may quote
them. Shown raw they could forge a log line or rewrite a terminal. A mistake is one sentence with the part of
the text that is wrong.
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any, Final

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_STEP = 1000
_TWO_DAYS: Final = 48


def bytes_text(count: float) -> str:
    """A number of bytes with a decimal unit, three digits or so.

    >>> bytes_text(999), bytes_text(1500), bytes_text(268435456)
    ('999 B', '1.5 kB', '268 MB')
    """
    for unit in _UNITS:
        if count < _STEP or unit == _UNITS[-1]:
            break
        count /= _STEP
    return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"  # noqa: PLR2004 - as said


def counted(number: int, noun: str) -> str:
    """A number of things: the noun with an s unless there is one.

    >>> counted(1, "object"), counted(2000, "record")
    ('1 object', '2,000 records')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def and_more(shown: Sequence[str], count: int) -> str:
    """What is shown of so many, and how many more there are.

    >>> and_more(["a", "b"], 1_002), and_more(["a", "b"], 2)
    ('a, b and 1,000 more', 'a, b')
    """
    more = count - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")


def span_text(span_ms: int) -> str:
    """A span of time in days, or in hours where it is below two days.

    >>> span_text(604_800_000), span_text(86_400_000), span_text(5_400_000)
    ('7 days', '24 hours', '1.5 hours')
    """
    hours = span_ms / 3_600_000
    return f"{hours / 24:.0f} days" if hours >= _TWO_DAYS else f"{hours:.3g} hours"


HINTED: Final = 20
"""So many problems say which name may have been meant: each compares it with hundreds of names."""


def similar(name: str, known: Iterable[str], *, least: float = 0.6) -> str | None:
    """The known name that this one resembles most; None where none does at least so much.

    >>> similar("topc", ["topic", "timestamp"]), similar("offset", ["topic"])
    ('topic', None)
    """
    found = get_close_matches(name, list(known), n=1, cutoff=least)
    return found[0] if found else None


def did_you_mean(found: str | None, *, otherwise: str) -> str:
    """The second half of a sentence about an unknown name: the one that was meant, else what else to do.

    >>> did_you_mean("topic", otherwise="remove it"), did_you_mean(None, otherwise="remove it")
    ('did you mean topic?', 'remove it')
    """
    return otherwise if found is None else f"did you mean {found}?"


# Cc control, Cf format (bidirectional marks, zero-width), Cs lone surrogate, Co private, Cn unassigned,
# Zl and Zp line and paragraph separators.
_UNSAFE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def printable(text: str, *, limit: int = 1100) -> str:
    r"""The text with unsafe characters written as escapes, cut to `limit` characters with an ellipsis.

    A key of 1,024 bytes passes uncut.

    >>> printable("a\nb\x1b[31m")
    'a\\nb\\x1b[31m'
    >>> printable("é x")
    'é x'
    """
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode("ascii")
        if unicodedata.category(character) in _UNSAFE
        else character
        for character in text
    )


# Everything beyond printable ASCII is looked at; what stands for itself is most of it.
_TO_LOOK_AT: Final = re.compile(r"[^ -~]")


def json_text(shape: Any, *, indent: int | None = None) -> str:
    r"""The shape as JSON that is safe to show: unsafe characters in strings are JSON's own escapes.

    A reader of JSON gets every string as it is, a lone surrogate too; a terminal gets no control characters.

    >>> json_text({"key": "é\x1b\x9b\u202e"})
    '{"key": "é\\u001b\\u009b\\u202e"}'
    """
    # Outside strings there is only ASCII, and the line ends of an indented text.
    text = json.dumps(shape, ensure_ascii=False, indent=indent)
    return text if text.isascii() and text.isprintable() else _TO_LOOK_AT.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    if character == "\n" or unicodedata.category(character) not in _UNSAFE:
        return character
    return json.dumps(character)[1:-1]


class MarkedError(ValueError):
    """`start` and `end` are the span of the wrong part, as indices into `source`; at least one character."""

    def __init__(self, problem: str, *, source: str, start: int, end: int) -> None:
        """Keep the span next to the sentence."""
        self.problem = problem
        self.source = source
        self.start = start
        self.end = max(end, start + 1)
        super().__init__(problem, source, start, end)

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the error picklable: the span's arguments are keyword-only."""
        return partial(type(self), source=self.source, start=self.start, end=self.end), (self.problem,)
