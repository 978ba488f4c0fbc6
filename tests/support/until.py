"""Waiting for a condition with a deadline; nothing in the tests sleeps and hopes."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

PATIENCE: Final = 60.0
"""As long as only what never comes is late, also on a machine that does much else: seconds."""

# A look is repeated at once where it costs nothing. One at a service, at LocalStack or at a topic takes CPU
# on both sides: looking again and again took a sixth of what tests with services did.
_SHORTEST: Final = 0.01
_LONGEST: Final = 0.25
_TIMES_A_LOOK: Final = 5


async def until(condition: Callable[[], object], *, seconds: float = PATIENCE, what: str = "") -> None:
    """Return when the condition is true; AssertionError with `what` when it is not in time."""
    deadline = time.monotonic() + seconds
    while pause := _pause_after(condition):
        assert time.monotonic() < deadline, f"not in {seconds} s: {what or condition}"
        await asyncio.sleep(pause)


def until_sync(condition: Callable[[], object], *, seconds: float = PATIENCE, what: str = "") -> None:
    """The same for a test without a loop."""
    deadline = time.monotonic() + seconds
    while pause := _pause_after(condition):
        assert time.monotonic() < deadline, f"not in {seconds} s: {what or condition}"
        time.sleep(pause)


def _pause_after(condition: Callable[[], object]) -> float:
    """Seconds until the next look, longer where this one took long; 0 where the condition is true."""
    began = time.monotonic()
    if condition():
        return 0.0
    return min(max(_SHORTEST, _TIMES_A_LOOK * (time.monotonic() - began)), _LONGEST)
