"""Waiting for a condition with a deadline; nothing in the tests sleeps and hopes."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

PATIENCE: Final = 60.0
"""As long as only what never comes is late, also on a machine that does much else: seconds."""


async def until(condition: Callable[[], object], *, seconds: float = PATIENCE, what: str = "") -> None:
    """Return when the condition is true; AssertionError with `what` when it is not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not in {seconds} s: {what or condition}"
        await asyncio.sleep(0.01)


def until_sync(condition: Callable[[], object], *, seconds: float = PATIENCE, what: str = "") -> None:
    """The same for a test without a loop."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not in {seconds} s: {what or condition}"
        time.sleep(0.01)
