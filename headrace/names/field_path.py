"""Paths of fields in names: dots for nesting, a field in backticks whatever it holds."""

import re
from collections.abc import Sequence
from typing import Final

_PLAIN: Final = re.compile(r"[^`.]+")
_PART: Final = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")


def read_path(text: str) -> tuple[str, ...]:
    """The parts of a path; ValueError for one that is empty or not closed."""
    parts: list[str] = []
    position = 0
    while True:
        found = _PART.match(text, position)
        if found is None:
            raise ValueError("a part of the path is empty, or a ` is not closed")
        parts.append(found[1].replace("``", "`") if found[1] is not None else found[2])
        position = found.end()
        if position == len(text):
            return tuple(parts)
        if text[position] != ".":
            raise ValueError("after a ` of the path comes a dot")
        position += 1


def path_text(path: Sequence[str]) -> str:
    """The text that `read_path` reads as this path."""
    return ".".join(part if _PLAIN.fullmatch(part) else f"`{part.replace('`', '``')}`" for part in path)
