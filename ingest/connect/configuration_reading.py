"""How far the configuration topic is read: to its end, and to what was just written there."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol

from headrace.model.errors import HeadraceError, Unavailable
from headrace.model.ledger_entry import ControlKey

_CALL_SECONDS: Final = 30.0
# After so long without what was written the topic is asked for its end: something else may be there.
_OVERWRITTEN_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.01

Changes = Sequence[tuple[ControlKey, bytes | None]]


class Reading(Protocol):
    """One that follows the topic."""

    def reads_to(self, end: int, timeout: float) -> bool:
        """Whether all below the offset `end` is read in `timeout` seconds. Raises what has ended it."""


class Readable(Protocol):
    """What a reading has read."""

    def controls(self) -> Mapping[ControlKey, bytes]:
        """The control records."""


class LedReading(Reading, Protocol):
    """That of the worker that leads."""

    @property
    def cache(self) -> Readable:
        """What it has read."""


def is_read_to(end: int, led: Reading | None, reader: Reading | None, *, seconds: float) -> bool:
    """Whether all below this offset is read, whichever of the two is asked from now on. Blocks.

    Both are for who leads: when it hung, it may lose the lead while it reads here, and its reader, by which
    it then goes, hung as well. A reader that has failed is of no account next to one that leads: who asks it
    hears it, and begins another one. Raises what has ended the one that is asked now.
    """
    if led is not None:
        if not led.reads_to(end, seconds):
            return False
        with suppress(HeadraceError):
            return reader is None or reader.reads_to(end, seconds)
        return True
    return reader is not None and reader.reads_to(end, seconds)


def await_read_back(
    led: LedReading,
    changes: Changes,
    *,
    least: int,
    ask_end: Callable[[], int],
    failures: Sequence[HeadraceError],
    clock: Callable[[], float] | None = None,
) -> None:
    """Return when these are read, or what another program has written over them. Blocks; Unavailable.

    They are committed, and with them the topic's end is at `least` there. A broker that gives a lower one, as
    it may for a moment after it has become the partition's leader, does not know of them yet.
    """
    now = clock or time.monotonic
    began = asked = now()
    end: int | None = None
    while any(led.cache.controls().get(key) != raw for key, raw in changes):
        if failures:
            why = f"the configuration topic cannot be read: {failures[0]}"
            raise Unavailable(f"The change is written, but cannot be read back: {why}")
        if now() - began > _CALL_SECONDS:
            raise Unavailable("The change is written, but cannot be read back yet: is Kafka up?")
        with suppress(HeadraceError):
            if end is None and now() - asked > _OVERWRITTEN_SECONDS:
                asked = now()
                found = ask_end()
                end = found if found >= least else None
            if end is not None and led.reads_to(end, 0.0):
                return
        time.sleep(_LOOK_SECONDS)
