"""What these scripts say while they work: one line a step, with how long it took."""

import errno
import time
from collections.abc import Iterator
from contextlib import contextmanager


class PartError(Exception):
    """A part that could not be fetched, started or stopped, in one sentence with the remedy."""


def full_disk(error: OSError) -> str:
    """One sentence for a disk that is full; any other error is raised."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        raise error
    return f"The disk is full{f' ({error.filename})' if error.filename else ''}; free 3 GB, then repeat."


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
