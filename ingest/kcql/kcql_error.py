"""A mistake in KCQL, with the part of the text that it is in."""

from typing import Final

# Of a long text only what stands around the mistake is shown.
_BEFORE: Final = 60
_BEHIND: Final = 40


class KcqlError(ValueError):
    """One sentence, then the text with the wrong part underlined."""

    def __init__(self, problem: str, *, source: str, start: int, end: int) -> None:
        """Keep the span of the wrong part, as indices into the text, beside the sentence."""
        self.problem = problem
        self.source = source
        self.start = start
        self.end = max(end, start + 1)
        super().__init__(problem, source, start, end)

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the error picklable: the span's arguments are keyword-only."""
        return _restored, (self.problem, self.source, self.start, self.end)

    def __str__(self) -> str:
        first, behind = max(0, self.start - _BEFORE), self.end + _BEHIND
        shown = "".join(_shown(char) for char in self.source[first:behind])
        cut = ".. " if first else ""
        more = " .." if behind < len(self.source) else ""
        underline = " " * (len(cut) + self.start - first) + "^" * (self.end - self.start)
        return f"{self.problem} (character {self.start + 1})\n    {cut}{shown}{more}\n    {underline}"


def _restored(problem: str, source: str, start: int, end: int) -> KcqlError:
    return KcqlError(problem, source=source, start=start, end=end)


def _shown(char: str) -> str:
    if char.isspace():
        return " "
    return char if char.isprintable() else "\N{REPLACEMENT CHARACTER}"
