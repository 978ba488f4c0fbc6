"""What a law says was broken, and the laws that are about every run."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.simulation.course import Ended

# A task that hangs is noticed in 105 s, and that it happens again at the next one.
_SILENT_SECONDS: Final = 240.0


class Finding(NamedTuple):
    """A law, and how it was broken."""

    law: str
    sentence: str


def sanity(outcome: Ended) -> Iterator[Finding]:
    """Nothing fails in a way that has no sentence, and everything comes to an end."""
    for sentence in dict.fromkeys(outcome.crashes + outcome.failures):
        yield Finding("forward", sentence)
    for law, sentence in outcome.shown:
        yield Finding(law, sentence)
    if outcome.is_stuck:
        yield Finding("forward", f"it goes on and on: {outcome.turns} turns in {outcome.seconds:.0f} s")
    if outcome.silent > _SILENT_SECONDS:
        yield Finding("forward", f"nothing moved for {outcome.silent:.0f} s, and no problem was shown")
    if outcome.ending is None:
        what = "; ".join(outcome.problems) or "and no problem is shown"
        yield Finding("forward", f"--until-idle has not ended: {what}")
