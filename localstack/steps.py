"""What these scripts say while they work: one line a step, with how long it took."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class PartError(Exception):
    """A part that could not be fetched, started or stopped, in one sentence with the remedy."""


def say(part: str, text: str) -> None:
    """Print one line about a part at once, even into a pipe."""
    print(f"{part + ':':<11} {text}", flush=True)


@contextmanager
def step(part: str, text: str) -> Iterator[None]:
    """Say what is being done before it is done, and how many seconds it took afterwards."""
    say(part, f"{text} ...")
    began = time.monotonic()
    yield
    say(part, f"{text}: {time.monotonic() - began:.1f} s")
