"""Notes when an object passes its steps; Python runs it at start where its folder is in the path.

For `bench.moments`, which puts it there for the driver and its workers. Nothing of Headrace knows of it.
"""

import importlib.abc
import importlib.machinery
import os
import sys
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final

# By module: class, method, the moment when it is entered, and the one when it has returned.
STEPS: Final[dict[str, list[tuple[str, str, str | None, str | None]]]] = {
    "ingest.service.event_loop": [("EventLoop", "_on_messages", "told", None)],
    "spark.slots.slot_pool": [("SlotPool", "grant", None, "granted")],
    "spark.task.slot_session": [("DriverConnection", "batch", None, "taken")],
    "headrace.s3.reader.s3_source": [("S3Source", "whole", None, "fetched")],
    "headrace.kafka.producer.slot_producers": [
        ("TransactionalProducer", "begin", None, "opened"),
        ("TransactionalProducer", "commit", "sent", "committed"),
    ],
}


def note(file: str, moment: str) -> None:
    """Append a line; of all processes to one file, each line whole."""
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, f"{moment} {time.monotonic_ns()}\n".encode())
    os.close(descriptor)


def noted(method: Callable[..., Any], file: str, before: str | None, after: str | None) -> Callable[..., Any]:
    """The method, which notes its moments."""

    def call(*arguments: Any, **named: Any) -> Any:
        if before is not None:
            note(file, before)
        found = method(*arguments, **named)
        if after is not None:
            note(file, after)
        return found

    return call


class Loader(importlib.abc.Loader):
    """Loads a module as its own loader does, then changes its methods."""

    def __init__(self, inner: Any, file: str) -> None:
        self._inner = inner
        self._file = file

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """As the loader inside does."""
        found: ModuleType | None = self._inner.create_module(spec)
        return found

    def exec_module(self, module: ModuleType) -> None:
        """Run it, and wrap what is looked at."""
        self._inner.exec_module(module)
        for of, method, before, after in STEPS[module.__name__]:
            found = getattr(module, of)
            setattr(found, method, noted(getattr(found, method), self._file, before, after))


class Finder(importlib.abc.MetaPathFinder):
    """Finds the modules whose methods are looked at, as they would be found without it."""

    def __init__(self, file: str) -> None:
        self._file = file

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module's own spec with our loader; None for all others."""
        if name not in STEPS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None:
            spec.loader = Loader(spec.loader, self._file)
        return spec


_FILE: Final = os.environ.get("HEADRACE_BENCH_STAMPS")  # noqa: TID251 - there is nobody else to read it
if _FILE is not None:
    sys.meta_path.insert(0, Finder(_FILE))
