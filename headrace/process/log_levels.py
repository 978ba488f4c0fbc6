"""Which lines each logger writes: levels by name, changed while the process runs, as Connect's are.

The loggers of this code are named after their modules; a level holds for all loggers below its name. Those of
libraries are the `logging` module's. Spark's tasks log at the level that held when their connector last took
the lead.
"""

import logging
import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog

from headrace.model.clock import wall_ms
from headrace.model.errors import HeadraceError

ROOT: Final = "root"
_OURS: Final = frozenset({"headrace", "ingest", "listeners", "spark"})
# Log4j's words, which Connect and its clients use. There is nothing below DEBUG, nor above CRITICAL.
_NUMBERS: Final[Mapping[str, int]] = {
    "ALL": logging.NOTSET,
    "TRACE": logging.NOTSET,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": logging.CRITICAL,
}
_WORDS: Final[Mapping[int, str]] = {number: word for word, number in _NUMBERS.items() if word != "OFF"}


class InvalidLevel(HeadraceError):
    """There is no such level."""


class UnsafeLevel(HeadraceError):
    """A library's logger would write credentials at this level."""


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """A logger's level in Log4j's words, and when it was changed (ms since 1970); None: never."""

    level: str
    last_modified_ms: int | None = None


class LoggerLevels:
    """The levels of one process; any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._set: Mapping[str, LoggerLevel] = {ROOT: LoggerLevel("INFO")}

    def start(self, number: int) -> None:
        """Give every logger this level, and forget what was changed."""
        self._set = {ROOT: LoggerLevel(_WORDS[number])}

    def number_of(self, name: str) -> int:
        """The level of one logger of ours, as `logging` counts."""
        return _NUMBERS[_effective(self._set, name).level]

    def find(self, name: str) -> LoggerLevel | None:
        """The level of one logger; None when no logger has this name."""
        return self.all().get(ROOT if name.lower() == ROOT else name)

    def all(self) -> dict[str, LoggerLevel]:
        """Every logger's level, by name."""
        found = {name: _effective(self._set, name) for name in {*self._set, *_loggers_of_ours()}}
        found |= {name: self._of_library(name) for name in _libraries() if name not in self._set}
        return dict(sorted(found.items()))

    def change(self, name: str, level: str) -> list[str]:
        """Set the level of a logger and of all below it; the names of those that changed, sorted.

        InvalidLevel; UnsafeLevel for a library's logger below INFO.
        """
        word = level.upper()
        if word not in _NUMBERS:
            raise InvalidLevel(f"invalid log level '{level}'.")
        name = ROOT if name.lower() == ROOT else name
        is_library = name != ROOT and name.partition(".")[0] not in _OURS
        if is_library and _NUMBERS[word] < logging.INFO:
            raise UnsafeLevel(
                f"The logger {name} is a library's, which writes credentials below INFO; "
                f"set it to INFO or above. Headrace's own are: {', '.join(sorted(_OURS))}"
            )
        with self._lock:
            before = self.all()
            changed = LoggerLevel(word, wall_ms())
            kept = {one: held for one, held in self._set.items() if not _is_below(one, name)}
            self._set = {**kept, name: changed}
            self._set_libraries(name, _NUMBERS[word])
            return [one for one, held in self.all().items() if before.get(one) != held]

    def _set_libraries(self, name: str, number: int) -> None:
        # What is set for all is for Headrace's own lines: a library's say too much below WARN.
        least = logging.WARNING if name == ROOT else number
        if name == ROOT:
            logging.getLogger().setLevel(max(number, least))
        elif name.partition(".")[0] not in _OURS:
            for one in {name, *(found for found in _libraries() if _is_below(found, name))}:
                logging.getLogger(one).setLevel(number)

    def _of_library(self, name: str) -> LoggerLevel:
        number = logging.getLogger(name).getEffectiveLevel()
        return LoggerLevel(_WORDS.get(number, str(number)), _effective(self._set, name).last_modified_ms)


def _effective(levels: Mapping[str, LoggerLevel], name: str) -> LoggerLevel:
    while name not in levels:
        name = name.rpartition(".")[0] or ROOT
    return levels[name]


def _is_below(name: str, ancestor: str) -> bool:
    return ancestor in {ROOT, name} or name.startswith(f"{ancestor}.")


def _loggers_of_ours() -> Iterable[str]:
    """The modules of this code that have a logger, and their rooms."""
    for name, module in sys.modules.copy().items():
        if name.partition(".")[0] in _OURS and (hasattr(module, "_log") or hasattr(module, "log")):
            yield name
            yield name.partition(".")[0]


def _libraries() -> list[str]:
    found = logging.getLogger().manager.loggerDict.items()
    return [
        name
        for name, logger in list(found)
        if isinstance(logger, logging.Logger) and name.partition(".")[0] not in _OURS
    ]


LEVELS: Final = LoggerLevels()
"""The levels of this process."""


def is_debug(name: str) -> bool:
    """Whether the logger of this name writes DEBUG lines: asked before what they show is gathered."""
    return LEVELS.number_of(name) <= logging.DEBUG


class NamedLogger(structlog.WriteLogger):
    """A logger that knows its name."""

    def __init__(self, file: Any, name: str) -> None:
        super().__init__(file)
        self.name = name


def bound_logger(logger: NamedLogger, processors: Any, context: Any) -> Any:
    """A logger that is silent below the level of its name, as it is at this moment."""
    made: Any = structlog.make_filtering_bound_logger(LEVELS.number_of(logger.name))
    return made(logger, processors, context)
