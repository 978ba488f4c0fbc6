"""What a process keeps for its life, kept apart for each simulated one: caches, of which Python has one.

Otherwise a killed process holds the lock of a living one, and one process knows what another has learned.
"""

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import spark.sink.sink_run  # which takes them by name
import spark.source.batch
import spark.source.source_work  # noqa: F401  # as above
from headrace.formats.records import registry
from headrace.kafka.producer import topic_limits
from spark.source import dead_letters, worker_cache
from tests.simulation import patches

_CACHED: Final[tuple[tuple[ModuleType, str], ...]] = (
    (topic_limits, "topic_limits"),
    (worker_cache, "s3_calls"),
    (worker_cache, "rate_limiter"),
    (dead_letters, "bad_row_log"),
    (registry, "registry_client"),
)
MADE: Final[dict[str, Callable[..., Any]]] = {}
"""What a run makes in the place of some of them, by their names."""


def keep_by_process() -> None:
    """Exchange the caches, once and for all: outside of runs they do as before."""
    for module, name in _CACHED:
        keep_one(module, name)


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
