"""What a process keeps for its life, kept apart for each simulated one: caches, of which Python has one.

Otherwise a killed process holds the lock of a living one, and one process knows what another has learned.
"""

import functools
import itertools
import sys
from collections.abc import Callable, Iterator, MutableMapping
from types import ModuleType
from typing import Any, Final
from weakref import WeakValueDictionary

import spark.sink.sink_run  # which takes them by name
import spark.source.batch
import spark.source.source_work  # noqa: F401  # as above
from headrace.formats.records import registry, registry_connection
from headrace.kafka import kafka_clients
from headrace.kafka.producer import topic_limits
from spark.slots import slot_pool
from spark.source import dead_letters, source_work
from spark.task import slot_session
from tests.simulation import patches, protobuf_compiler

_CACHED: Final[tuple[tuple[ModuleType, str], ...]] = (
    (topic_limits, "topic_limits"),
    (source_work, "s3_calls"),
    (source_work, "rate_limiter"),
    (dead_letters, "bad_row_log"),
    (registry_connection, "registry_client"),
    (registry, "frame"),
    (registry, "latest"),
    (slot_session, "_name_of"),
)
MADE: Final[dict[str, Callable[..., Any]]] = {}
"""What a run makes in the place of some of them, by their names."""


class _Kept(MutableMapping[Any, Any]):
    """A mapping of which each process has its own."""

    def __init__(self, name: str, new: Callable[[], MutableMapping[Any, Any]]) -> None:
        self._name = name
        self._new = new
        self._outside = new()

    def _mapping(self) -> MutableMapping[Any, Any]:
        process = patches.process()
        if process is None:
            return self._outside
        if self._name not in process.held:
            process.held[self._name] = self._new()
        found: MutableMapping[Any, Any] = process.held[self._name]
        return found

    def __getitem__(self, key: Any) -> Any:
        return self._mapping()[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._mapping()[key] = value

    def __delitem__(self, key: Any) -> None:
        del self._mapping()[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._mapping())

    def __len__(self) -> int:
        return len(self._mapping())


class _Numbers:
    """Numbers that each process begins with 1: they are in the names of its threads, and those in its log."""

    def __init__(self) -> None:
        self._outside = itertools.count(1)

    def __next__(self) -> int:
        process = patches.process()
        own = self._outside if process is None else process.held.setdefault("numbers", itertools.count(1))
        return next(own)


def keep_by_process() -> None:
    """Exchange the caches, once and for all: outside of runs they do as before."""
    for module, name in _CACHED:
        keep_one(module, name)
    slot_pool._NUMBERS = _Numbers()  # type: ignore[misc,assignment]  # one of a process that begins
    slot_session._PRODUCERS = _Kept("producers", dict)  # type: ignore[misc,assignment]  # as above
    kafka_clients._connections = _Kept("connections", WeakValueDictionary)  # type: ignore[assignment]  # as above


def keep_one(module: ModuleType, name: str) -> None:
    """Exchange one cache, in all modules that have it."""
    cached = getattr(module, name)
    ours = _by_process(name, cached)
    for each in list(sys.modules.values()):
        if getattr(each, name, None) is cached:
            setattr(each, name, ours)


def _by_process(name: str, cached: Any) -> Callable[..., Any]:
    @functools.wraps(cached)
    def call(*arguments: Any) -> Any:
        process = patches.process()
        if process is None:
            return cached(*arguments)
        place = f"{name} {arguments!r}"
        if place not in process.held:
            process.held[place] = MADE.get(name, cached.__wrapped__)(*arguments)
        return process.held[place]

    return call


keep_by_process()
protobuf_compiler.ask_once()
