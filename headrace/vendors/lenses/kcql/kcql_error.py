"""A mistake in KCQL, with the part of the text that it is in."""

from typing import Final

from headrace.model.marked_error import MarkedError

# Of a long text only what stands around the mistake is shown.
_BEFORE: Final = 60
_BEHIND: Final = 40


class KcqlError(MarkedError):
    """One sentence, then the text with the wrong part underlined."""

    def __str__(self) -> str:
        first, behind = max(0, self.start - _BEFORE), self.end + _BEHIND
        shown = "".join(_shown(char) for char in self.source[first:behind])
        cut = ".. " if first else ""
        more = " .." if behind < len(self.source) else ""
        underline = " " * (len(cut) + self.start - first) + "^" * (self.end - self.start)
        return f"{self.problem} (character {self.start + 1})\n    {cut}{shown}{more}\n    {underline}"


def _shown(char: str) -> str:
    if char.isspace():
        return " "
    return char if char.isprintable() else "\N{REPLACEMENT CHARACTER}"
