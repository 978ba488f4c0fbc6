r"""Which topics a sink means; whether an expression matches a topic's name, and the name it makes of one.

Python's `re` tries every way to match, and holds the interpreter, and with it all connectors of a worker:
`(\w+-?)+\.events` takes hours for a name of forty letters that does not match. RE2 walks a name once. It
answers whether a name matches wherever it means the same by an expression as Python; Python answers where an
expression cannot become slow, or RE2 does not know it (look-behinds, back references, possessive repeats).
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

# What means the same to both of a printable text: no numbers behind a backslash (an octal number to one), no
# {,3} (a text to RE2), no [ within [..] (a class to RE2).
_ESCAPE: Final = r"\\(?:x[0-9A-Fa-f]{2}|[dDwWsStnrfv]|[^\w\n])"
# The end of a text as `java_regex` says it, and Python's: names have no line ends.
_JAVA_END: Final = r"(?=(?:\r\n|[\n\r\x85\u2028\u2029])?\Z)"
_TOKEN: Final = re.compile(
    rf"""(?P<end>{re.escape(_JAVA_END)}|\\Z)
    |(?P<escape>{_ESCAPE}|\\[bBA])
    |(?P<class>\[\^?\]?(?:{_ESCAPE}|[^\\\[\]])*\])
    |(?P<flags>\(\?[ims]+\))
    |(?P<open>\((?:\?(?:P<[A-Za-z_]\w*>|[ims]*(?:-[ims]+)?:)|(?!\?)))
    |(?P<close>\))
    |(?P<repeat>(?:[*+?]|\{{[0-9]{{1,4}}(?:,[0-9]{{0,4}})?\}})(?:\?|(?!\+))(?!\+))
    |(?P<bar>\|)
    |(?P<sign>[^\\\[\](){{}}*+?|\n])""",
    re.VERBOSE | re.ASCII,
)
_FLAGS: Final = re.compile(r"(?:\(\?[ims]+\))?")
_IGNORES_CASE: Final = re.compile(r"\(\?[ms-]*i")
_AHEAD: Final = re.compile(r"\^*\(\?([=!])")
_REPEATED_GROUP: Final = re.compile(r"\)[*+?{]")
_FEW: Final = 2


@lru_cache(maxsize=20_000)
def matches(pattern: str, name: str, *, is_ascii: bool = False) -> bool:
    """Whether this expression (Python's, with `re.ASCII` where `is_ascii`) matches the whole name."""
    judge = _judge(pattern) if _is_walked(pattern, name) else None
    if judge is not None:
        return judge(name)
    return re.fullmatch(pattern, name, re.ASCII if is_ascii else 0) is not None


@lru_cache(maxsize=20_000)
def replaced(pattern: str, replacement: str, text: str) -> str | None:
    """The text with the first match replaced, as Java's `replaceFirst` does; None where not all matches.

    What is found first can be less than the whole that matches.
    """
    if not matches(pattern, text, is_ascii=True):
        return None
    # Groups are Python's: RE2 leaves out the last empty turn of one that repeats.
    found = re.search(pattern, text, re.ASCII)
    if found is None:
        return None
    return text[: found.start()] + found.expand(replacement) + text[found.end() :]


# What brokers call internal, which consumers with a pattern do not subscribe (exclude.internal.topics).
OF_KAFKA: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicSelection:
    """The topics of the sink: by name, or all that a regular expression (Python's) matches as a whole.

    One of both is set. The expression means no internal topic (`__..`; `with_internal`: none of Kafka's),
    nor `own`: ledger, dead letters.
    """

    names: tuple[str, ...]
    pattern: str | None
    own: frozenset[str] = frozenset()
    with_internal: bool = False

    def has(self, topic: str) -> bool:
        """Whether it is one of them, where Kafka has such a topic."""
        return self.matches(topic) and (self.pattern is None or not self.is_apart(topic))

    def matches(self, topic: str) -> bool:
        """Whether its name is meant; of rows that name it no more is asked."""
        if self.pattern is None:
            return topic in self.names
        return matches(self.pattern, topic)

    def is_apart(self, topic: str) -> bool:
        """Whether no expression means it."""
        is_internal = topic in OF_KAFKA if self.with_internal else topic.startswith("__")
        return is_internal or topic in self.own


def _is_walked(pattern: str, text: str) -> bool:
    """Whether RE2 is asked: of texts where both mean the same by letters and ends."""
    # Without regard to case RE2 has letters of other alphabets, too.
    is_alike = text.isprintable() and (text.isascii() or _IGNORES_CASE.search(pattern) is None)
    return bool(text) and is_alike and not _is_plain(pattern)


def _is_plain(pattern: str) -> bool:
    """Whether no text takes Python long: nothing repeats a group, few repetitions, few choices."""
    few = sum(pattern.count(sign) for sign in "*+{?") <= _FEW and pattern.count("(") <= _FEW
    return few and _REPEATED_GROUP.search(pattern) is None


@lru_cache(maxsize=512)
def _judge(pattern: str) -> Callable[[str], bool] | None:
    """What says by RE2 whether the expression matches a whole name; None where RE2 may mean another thing."""
    parts = _parts(pattern)
    if parts is None:
        return None
    ahead, rest = parts
    asked = [(is_there, _re2(one)) for is_there, one in ahead]
    whole = _re2(rest)
    if whole is None or any(one is None for _, one in asked):
        return None
    return lambda name: (
        _is_found(rf"\A(?:{whole})\z", name)
        and all(_is_found(rf"\A(?:{one})", name) is is_there for is_there, one in asked)
    )


def _parts(pattern: str) -> tuple[list[tuple[bool, str]], str] | None:
    """Look-aheads with which an expression begins, each with whether it has to match, and the rest."""
    flags = _FLAGS.match(pattern)
    prefix = flags[0] if flags is not None else ""
    at, found = len(prefix), list[tuple[bool, str]]()
    while (ahead := _AHEAD.match(pattern, at)) is not None and not pattern.startswith(_JAVA_END, at):
        end = next((place for place, kind, depth in _tokens(pattern, ahead.end()) if depth < 0), None)
        if end is None or pattern[end + 1 : end + 2] in {"*", "+", "?", "{"}:
            return None
        found.append((ahead[1] == "=", prefix + pattern[ahead.end() : end]))
        at = end + 1
    if found and any(kind == "bar" and depth == 0 for _, kind, depth in _tokens(pattern, at)):
        return None
    return found, prefix + pattern[at:]


def _tokens(pattern: str, at: int) -> Iterator[tuple[int, str, int]]:
    """Where each token is, its kind, and how deep in groups it is, after it; ends where one is unknown."""
    depth = 0
    while (token := _TOKEN.match(pattern, at)) is not None:
        kind = token.lastgroup or ""
        depth += {"open": 1, "close": -1}.get(kind, 0)
        yield at, kind, depth
        at = token.end()


@lru_cache(maxsize=512)
def _re2(pattern: str) -> str | None:
    """The same expression for RE2; None where RE2 does not know it, or may mean another thing by it."""
    if not pattern.isascii():
        return None
    written, at = list[str](), 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            return None
        written.append(r"\z" if token.lastgroup == "end" else token[0])
        at = token.end()
    found = "".join(written)
    try:
        _is_found(rf"\A(?:{found})\z", "")
    except ValueError:
        # Arrow's, of an expression that RE2 finds too large.
        return None
    return found


def _is_found(walked: str, text: str) -> bool:
    arrow, compute = _arrow()
    return bool(compute.match_substring_regex(arrow.array([text], arrow.string()), pattern=walked)[0].as_py())


def _arrow() -> tuple[Any, Any]:
    # Loaded for who has such an expression alone: reading a configuration needs no Arrow.
    return import_module("pyarrow"), import_module("pyarrow.compute")
