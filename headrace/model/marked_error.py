"""An error in a text that a person wrote: one sentence, and which part of the text is wrong."""

from functools import partial


class MarkedError(ValueError):
    """`start` and `end` are the span of the wrong part, as indices into `source`; at least one character."""

    def __init__(self, problem: str, *, source: str, start: int, end: int) -> None:
        """Keep the span next to the sentence."""
        self.problem = problem
        self.source = source
        self.start = start
        self.end = max(end, start + 1)
        super().__init__(problem, source, start, end)

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the error picklable: the span's arguments are keyword-only."""
        return partial(type(self), source=self.source, start=self.start, end=self.end), (self.problem,)
