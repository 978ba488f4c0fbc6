"""Text from outside, made safe for logs, terminals and record headers.

Keys may hold control characters, newlines, escape sequences and bidirectional marks; error texts may quote
them. Shown raw they could forge a log line or rewrite a terminal.
"""

import unicodedata

# Cc control, Cf format (bidirectional marks, zero-width), Cs lone surrogate, Co private, Cn unassigned,
# Zl and Zp line and paragraph separators.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


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
