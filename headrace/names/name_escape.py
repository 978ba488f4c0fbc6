"""Values in object names: written so that different values stay different, and read back.

A value is bytes, or null. Letters, digits and `_ - .` stand for themselves, letters of any script too; every
other byte is `%` and two upper-case hexadecimal digits. What would be no name at all has one of its own:

    null                __HIVE_DEFAULT_PARTITION__   as Hive, Spark and Athena write it
    empty               __HEADRACE_EMPTY__
    `.` and `..`        %2E and %2E%2E               a path would lose them
    a text that is one of these words: its first `_` as %5F
"""

import re
from typing import Final
from urllib.parse import unquote_to_bytes

NULL: Final = "__HIVE_DEFAULT_PARTITION__"
EMPTY: Final = "__HEADRACE_EMPTY__"

_PLAIN: Final = re.compile(r"[A-Za-z0-9_.-]+")
_DOTS: Final = frozenset({".", ".."})
_WORDS: Final = frozenset({NULL, EMPTY})


def escape(value: str | bytes | None) -> str:
    """The text of a value in a name; `unescape` gives the value back."""
    if value is None:
        return NULL
    # Half of a surrogate pair, which JSON can bring, keeps bytes of its own.
    octets = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    text = octets.decode("utf-8", "surrogateescape")
    if not text:
        return EMPTY
    if text in _WORDS:
        return f"%5F{text[1:]}"
    if text in _DOTS:
        return text.replace(".", "%2E")
    if _PLAIN.fullmatch(text):
        return text
    return "".join(char if is_plain(char) else _percent(char) for char in text)


def unescape(text: str) -> bytes | None:
    """The value that `escape` wrote as this text."""
    if text == NULL:
        return None
    return b"" if text == EMPTY else unquote_to_bytes(text)


def is_plain(char: str) -> bool:
    """Whether a character of a value stands for itself in a name."""
    return char in "_.-" or char.isalnum()


def _percent(char: str) -> str:
    return "".join(f"%{octet:02X}" for octet in char.encode("utf-8", "surrogateescape"))
