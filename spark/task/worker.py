"""What outlives a task in its Python process: the process's name, and the slots' producers."""

import functools
import os
import secrets
import socket
from collections.abc import Callable
from typing import Final

from headrace.kafka.producer import SlotProducer

# Each has threads and connections of its own; slots of many connectors come by here.
_KEPT_PRODUCERS: Final = 16
# By the process as well: what a process is forked with is not its own.
_PRODUCERS: Final[dict[tuple[int, str, int], SlotProducer]] = {}


def worker_name() -> str:
    """A name that no other Python process has, of this host or another, now or later."""
    return _name_of(os.getpid())


@functools.cache
def _name_of(pid: int) -> str:
    # By pid, since Spark forks its workers from one process.
    return f"{socket.gethostname()}-{pid}-{secrets.token_hex(4)}"


def checkout_producer(
    name: str,
    slot: int,
    *,
    last_worker: str | None,
    is_void: Callable[[], bool],
    new_producer: Callable[[], SlotProducer],
) -> SlotProducer:
    """The slot's producer, initialised: the cached one only when this process held the slot last.

    Any other cached one is an old producer by now, so it is closed. Blocks; what `new_producer` raises.
    """
    cached = _PRODUCERS.pop((os.getpid(), name, slot), None)
    if cached is not None:
        if last_worker == worker_name():
            cached.is_void = is_void
            return cached
        cached.close()
    return new_producer()


def return_producer(name: str, slot: int, producer: SlotProducer) -> None:
    """Leave the producer to the slot's next task in this process."""
    _PRODUCERS[os.getpid(), name, slot] = producer
    if len(_PRODUCERS) > _KEPT_PRODUCERS:
        oldest = next(iter(_PRODUCERS))
        _PRODUCERS.pop(oldest).close()
