"""Just enough of PromQL to find a slip in an expression: its brackets, its metrics, the labels it names."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<variable>\$\w+)
      | (?P<duration>\d+(?:ms|[smhdwy])(?::\d+[smhd])?)
      | (?P<number>\d+(?:\.\d+)?)
      | (?P<word>[A-Za-z_][A-Za-z0-9_:]*)
      | (?P<sign>=~|!~|!=|==|<=|>=|[-+*/%^<>=(){}\[\],])
    )""",
    re.VERBOSE,
)
_PAIRS: Final = {")": "(", "}": "{", "]": "["}
_GROUPING: Final = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_WORDS: Final = frozenset({"and", "or", "unless", "offset", "bool", *_GROUPING})
FUNCTIONS: Final = frozenset(
    {
        *("sum", "min", "max", "avg", "count", "rate", "increase", "max_over_time", "last_over_time"),
        *("histogram_quantile", "absent", "time"),
    }
)


class Malformed(ValueError):
    """The expression is none; the text says where."""


@dataclass(frozen=True, slots=True)
class Use:
    """One metric in an expression, with the labels that its selector compares and with what."""

    metric: str
    matchers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Expression:
    """What an expression uses; `labels` are those it groups or joins by."""

    uses: tuple[Use, ...]
    labels: frozenset[str]


def tokens(text: str) -> Iterator[tuple[str, str]]:
    """Kind and text of each token."""
    at, text = 0, text.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            raise Malformed(f"{text[at : at + 20]!r} is no token")
        yield found.lastgroup, found[found.lastgroup]
        at = found.end()


def parse(text: str) -> Expression:
    """What the expression uses; Malformed when brackets, words or selectors are wrong."""
    found = list(tokens(text))
    _require_pairs(found)
    uses: list[Use] = []
    labels: set[str] = set()
    at = 0
    while at < len(found):
        kind, word = found[at]
        after = found[at + 1][1] if at + 1 < len(found) else ""
        if kind == "word" and word in _GROUPING and after == "(":
            end = found.index(("sign", ")"), at)
            labels |= {name for kind, name in found[at + 2 : end] if kind == "word"}
            at = end
        elif kind == "word" and after == "(":
            if word not in FUNCTIONS | _WORDS:
                raise Malformed(f"{word} is no function known here")
        elif kind == "word" and word not in _WORDS | FUNCTIONS:
            matchers: tuple[tuple[str, str], ...] = ()
            if after == "{":
                end = found.index(("sign", "}"), at)
                matchers = _matchers(found[at + 2 : end])
                at = end
            uses.append(Use(word, matchers))
        at += 1
    return Expression(tuple(uses), frozenset(labels))


def _require_pairs(found: list[tuple[str, str]]) -> None:
    still_open: list[str] = []
    for kind, word in found:
        if kind == "sign" and word in _PAIRS.values():
            still_open.append(word)
        elif kind == "sign" and word in _PAIRS and (not still_open or still_open.pop() != _PAIRS[word]):
            raise Malformed(f"{word} closes nothing")
    if still_open:
        raise Malformed(f"{still_open[-1]} is never closed")


def _matchers(inside: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Label and value, three tokens each, with commas between."""
    found = []
    for at in range(0, len(inside), 4):
        part = inside[at : at + 4]
        kinds = [kind for kind, _ in part[:3]]
        if kinds != ["word", "sign", "text"] or (len(part) == 4 and part[3][1] != ","):
            raise Malformed(f"{' '.join(word for _, word in part)} is no matcher")
        found.append((part[0][1], part[2][1][1:-1]))
    return tuple(found)
