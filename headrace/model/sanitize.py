"""Text from outside, made safe for logs, terminals and record headers.

Keys may hold control characters, newlines, escape sequences and bidirectional marks; error texts may quote
them. Shown raw they could forge a log line or rewrite a terminal.
"""

import json
import re
import unicodedata
from typing import Any, Final

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
