"""Java's `.properties` text to names and values, by the rules of java.util.Properties.load.

Natural lines end with LF, CR or CRLF; a line whose last backslash is not itself escaped continues in the next
one, whose leading white space is dropped. `#` and `!` begin a comment where a line begins. The name ends at
the first unescaped `=`, `:` or white space.
https://docs.oracle.com/en/java/javase/17/docs/api/java.base/java/util/Properties.html
"""

import re
from collections.abc import Iterator
from typing import Final

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
    start, parts = 0, list[str]()
    for number, natural in enumerate(_LINE_END.split(text), start=1):
        line = natural.lstrip(_BLANK)
        if not parts:
            if not line or line[0] in "#!":
                continue
            start = number
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        parts.append(line[:-1] if goes_on else line)
        if not goes_on:
            yield start, "".join(parts)
            parts = []
    if any(parts):
        yield start, "".join(parts)


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
