"""Numbers in names: filled up to a width, on one side."""

import re
from dataclasses import dataclass
from typing import Final

_MOST: Final = 64
_PATTERN: Final = re.compile(
    r"padding\s*=\s*(true|false|\d+)(?:\s*,\s*char\s*=(.))?(?:\s*,\s*side\s*=\s*(left|right))?"
)
TAKES: Final = "padding=true, padding=false or padding=N, and behind it ,char=C and ,side=left or right"


@dataclass(frozen=True, slots=True)
class Padding:
    """Up to `width` characters are filled with `char`; a longer number stands as it is."""

    width: int = 1
    char: str = "0"
    is_right: bool = False

    @property
    def is_readable(self) -> bool:
        """Whether every number has a text of its own: not with digits that could be its own."""
        if not self.char.isdigit() or self.width == 1:
            return True
        return self.char == "0" and not self.is_right

    def text(self, number: int) -> str:
        """The number, filled up."""
        plain = str(number)
        return plain.ljust(self.width, self.char) if self.is_right else plain.rjust(self.width, self.char)


NO_PADDING: Final = Padding()


def read_padding(text: str, usual: int) -> Padding | None:
    """The padding of a variable's parameters, None where they are none; `usual` is the width of `true`."""
    found = _PATTERN.fullmatch(text)
    if found is None:
        return None
    width, char, side = found.groups()
    digits = {"true": usual, "false": 1}.get(width) or int(width)
    if digits > _MOST:
        raise ValueError(f"padding takes at most {_MOST} digits")
    if char is not None and not char.isprintable():
        raise ValueError("the padding's character is a control character")
    return Padding(max(1, digits), "0" if char is None else char, side == "right")
