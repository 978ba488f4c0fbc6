"""A text of KCQL cut into tokens, each with its place."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headrace.vendors.lenses.kcql.kcql_error import KcqlError


class TokenKind(StrEnum):
    """What a token is. `END` stands behind the last one."""

    WORD = "word"
    QUOTED = "quoted"
    """Between backticks."""
    TEXT = "text"
    """Between single quotes."""
    SIGN = "sign"
    END = "end"


_TOKEN: Final = re.compile(
    r"(?P<blank>\s+)"
    r"|`(?P<quoted>[^`]*)`"
    r"|'(?P<text>[^'\r\n]*)'"
    r"|(?P<word>[A-Za-z0-9_@.+/{}:$\[\]|#^?-]+)"
    r"|(?P<sign>[(),=;*])"
)


@dataclass(frozen=True, slots=True)
class Token:
    """A token's text without its quotes, and its place with them."""

    kind: TokenKind
    text: str
    start: int
    end: int

    @property
    def shown(self) -> str:
        """As it is told to a person."""
        if self.kind is TokenKind.END:
            return "the end"
        marks = {TokenKind.QUOTED: "`", TokenKind.TEXT: "'"}.get(self.kind, "")
        return f"{marks}{self.text}{marks}"


def tokens_of(source: str) -> tuple[Token, ...]:
    """The tokens in order, and one END; KcqlError where something is no token."""
    return (*_tokens(source), Token(TokenKind.END, "", len(source), len(source)))


def _tokens(source: str) -> Iterator[Token]:
    position = 0
    while position < len(source):
        found = _TOKEN.match(source, position)
        if found is None:
            raise _no_token(source, position)
        kind = str(found.lastgroup)
        if kind != "blank":
            yield Token(TokenKind(kind), found[kind], found.start(), found.end())
        position = found.end()


def _no_token(source: str, position: int) -> KcqlError:
    char = source[position]
    if char in "`'":
        problem = f"This {char} is not closed"
        return KcqlError(problem, source=source, start=position, end=len(source))
    problem = f"{char!r} cannot stand here; put names with such characters between backticks"
    return KcqlError(problem, source=source, start=position, end=position + 1)
