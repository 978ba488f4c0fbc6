"""Structured logs: one JSON line an event on stderr, or coloured columns for people.

WARN is unexpected but nothing is lost; ERROR is loss, or a person must act.
"""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog

from ingest.printable import printable

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure(*, level: str = "info", style: str = "json", stream: TextIO | None = None) -> None:
    """Set up logging for the process: `style` is `json` or `console`; libraries' own logs join at WARNING."""
    out = sys.stderr if stream is None else stream
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        escape_values,
    ]
    renderer: Any = (
        structlog.processors.JSONRenderer(ensure_ascii=False)
        if style == "json"
        else structlog.dev.ConsoleRenderer(colors=out.isatty())
    )
    structlog.configure(
        processors=[*shared, structlog.processors.format_exc_info, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=out),
        cache_logger_on_first_use=False,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(LEVELS[level], logging.WARNING))
    # py4j reports every dropped callback connection of a JVM that is just being stopped.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)


def escape_values(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The event with every text value made printable, so that no key can forge a line."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = printable(value, limit=4000)
    return event
