"""JSON text as the Java library Jackson writes it: compact, numbers in Java's spelling."""

import re
from collections.abc import Callable
from typing import Any, Final

from headrace.formats.connect.java_numbers import java_double
from headrace.options.connect_writing import Astral

_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_NEEDS: Final = re.compile(r'["\\\x00-\x1f]')
_NEEDS_ASTRAL: Final = re.compile(r'["\\\x00-\x1f\U00010000-\U0010ffff]')
_BEYOND_PLANE: Final = 0x10000


def jackson_string(text: str, astral: Astral = Astral.RAW) -> str:
    """A JSON string with its quotes."""
    pattern = _NEEDS if astral is Astral.RAW else _NEEDS_ASTRAL
    return f'"{pattern.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    known = _ESCAPES.get(character)
    if known is not None:
        return known
    code = ord(character)
    if code < _BEYOND_PLANE:
        return f"\\u{code:04X}"
    high, low = divmod(code - _BEYOND_PLANE, 0x400)
    return f"\\u{0xD800 + high:04X}\\u{0xDC00 + low:04X}"


def jackson_double(value: float) -> str:
    """A double; what JSON has no number for is text, as Jackson does by default."""
    return quoted(java_double(value))


def quoted(number: str) -> str:
    """A number in Java's spelling, in quotes where it is not finite."""
    return number if number[-1].isdigit() else f'"{number}"'


def jackson_text(value: Any, astral: Astral = Astral.RAW) -> str:
    """The JSON of Python values: dictionaries with string keys, lists, numbers, strings, None.

    RecursionError where it is nested too deep.
    """
    parts: list[str] = []
    _write(value, parts.append, astral)
    return "".join(parts)


def _write(value: Any, put: Callable[[str], None], astral: Astral) -> None:
    match value:
        case str():
            put(jackson_string(value, astral))
        case float():
            put(jackson_double(value))
        case dict():
            put("{")
            for index, (name, inner) in enumerate(value.items()):
                put(f"{',' if index else ''}{jackson_string(name, astral)}:")
                _write(inner, put, astral)
            put("}")
        case list() | tuple():
            put("[")
            for index, inner in enumerate(value):
                if index:
                    put(",")
                _write(inner, put, astral)
            put("]")
        case _:
            is_literal = value is None or type(value) is bool
            put(_LITERALS[value] if is_literal else str(value))


_LITERALS: Final = {None: "null", True: "true", False: "false"}
