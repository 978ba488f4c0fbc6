"""Structured logs: one JSON line an event on stderr, or coloured columns for people.

WARN is unexpected but nothing is lost; ERROR is loss, or a person must act.
"""

import logging
import sys
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any, TextIO

import structlog

from ingest.printable import printable

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class _Forgiving:
    """A stream for which a full disk or a closed pipe is no error: a lost log must not end the work."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write it if that can be done."""
        with suppress(OSError):
            return self._stream.write(text)
        return 0

    def flush(self) -> None:
        """Flush what can be flushed."""
        with suppress(OSError):
            self._stream.flush()


def configure(*, level: str = "info", style: str = "json", stream: TextIO | None = None) -> None:
    """Set up logging for the process: `style` is `json` or `console`; libraries' own logs join at WARNING."""
    out = sys.stderr if stream is None else stream
    forgiving: Any = _Forgiving(out)
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        escape_values,
    ]
    renderer: Any = (
        structlog.processors.JSONRenderer(ensure_ascii=False)
        if style == "json"
        # Plain: what is pretty shows the values of variables, and some of those are secrets.
        else structlog.dev.ConsoleRenderer(
            colors=out.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    )
    tracebacks: list[Any] = [structlog.processors.format_exc_info, escape_traceback]
    structlog.configure(
        processors=[*shared, *tracebacks, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=forgiving),
        cache_logger_on_first_use=False,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *tracebacks, renderer],
    )
    handler = logging.StreamHandler(forgiving)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(LEVELS[level], logging.WARNING))
    # py4j reports every dropped callback connection of a JVM that is just being stopped.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)


def escape_values(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The event with every text in it made printable, so that no key can forge a line."""
    for name, value in event.items():
        if name != "exc_info":
            event[name] = _escaped(value)
    return event


def escape_traceback(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The event with each line of its traceback made printable: errors quote keys."""
    if "exception" in event:
        lines = str(event["exception"]).splitlines()
        event["exception"] = "\n".join(printable(line, limit=4000) for line in lines)
    return event


def _escaped(value: Any) -> Any:
    match value:
        case str():
            return printable(value, limit=4000)
        case dict():
            return {_escaped(name): _escaped(one) for name, one in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_escaped(one) for one in value]
        case _:
            return value
