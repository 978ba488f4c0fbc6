"""Waiting for a condition with a deadline; nothing in the tests sleeps and hopes."""

import asyncio
import time
from collections.abc import Callable


async def until(condition: Callable[[], object], *, seconds: float = 10.0, what: str = "") -> None:
    """Return when the condition is true; AssertionError with `what` when it is not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not in {seconds} s: {what or condition}"
        await asyncio.sleep(0.01)


def until_sync(condition: Callable[[], object], *, seconds: float = 10.0, what: str = "") -> None:
    """The same for a test without a loop."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not in {seconds} s: {what or condition}"
        time.sleep(0.01)
