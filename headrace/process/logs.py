"""Structured logs: one JSON line an event on stderr, or columns for people; few lines for an outage."""

import json
import logging
import re
import select
import sys
import threading
from collections.abc import Hashable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TextIO

import msgspec
import structlog

from headrace.model.text_formatting import printable
from headrace.process import log_levels

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

# What nothing can be hidden in: most values of most lines.
_PLAIN: Final = frozenset({type(None), bool, int, float})
_LIMIT: Final = 4000
_PY4J: Final = "py4j"
# Of one write of so many bytes a pipe makes no two, whoever else writes into it (Spark's JVM does).
_WHOLE_BYTES: Final = select.PIPE_BUF


class _Gathering(threading.local):
    """What this thread has said to which stream and not written yet; None while it writes at once."""

    lines: "list[tuple[_TolerantStream, str]] | None" = None


_gathering: Final = _Gathering()


class _TolerantStream:
    """A stream for which a full disk or a closed pipe is no error: a lost log must not end the work."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write it if that can be done, or leave it to the end of `gathered`."""
        if _gathering.lines is not None:
            _gathering.lines.append((self, text))
            return len(text)
        with suppress(OSError):
            return self._stream.write(text)
        return 0

    def flush(self) -> None:
        """Flush what can be flushed."""
        if _gathering.lines is None:
            with suppress(OSError):
                self._stream.flush()


@contextmanager
def buffered_lines() -> Iterator[None]:
    """Write the lines of this thread together at the end, in their order and whatever ends it.

    A line each is a system call each, and another thread gets the GIL at every one. Meanwhile the others'
    lines go out at once. For moments only: a process that is killed in between takes the lines with it.
    """
    if _gathering.lines is not None:
        yield
        return
    lines = _gathering.lines = []
    try:
        yield
    finally:
        _gathering.lines = None
        _write_together(lines)


def _write_together(lines: "list[tuple[_TolerantStream, str]]") -> None:
    """As few writes as there can be without one that another process could write into."""
    whole: list[str] = []
    size = 0
    out: _TolerantStream | None = None
    for stream, text in lines:
        length = len(text) if text.isascii() else len(text.encode(errors="replace"))
        if out is not None and (stream is not out or size + length > _WHOLE_BYTES):
            _write_whole(out, whole)
            whole, size = [], 0
        out = stream
        whole.append(text)
        size += length
    if out is not None:
        _write_whole(out, whole)


def _write_whole(out: _TolerantStream, texts: list[str]) -> None:
    out.write("".join(texts))
    out.flush()


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False)
_TIME: Final = structlog.processors.TimeStamper(fmt="iso", utc=True)


class _JsonRenderer(structlog.processors.JSONRenderer):
    """structlog's, by which it is known that lines are written as `configure` has them."""


def log_together(logger: Any, event: str, lines: Iterable[tuple[str, dict[str, Any]]]) -> None:
    """Log many lines of one event, a level (`info`, ..) and plain values each, and write them together.

    What is the same for all of them, the time among it, is asked once: the lines are what the logger itself
    would write of them, for half of its CPU.
    """
    # Bound once for all of them; not for the life of the process, as logging may be set up anew.
    log = logger.bind()
    processors = structlog.get_config()["processors"]
    with buffered_lines():
        if not processors or not isinstance(processors[-1], _JsonRenderer):
            for level, values in lines:
                getattr(log, level)(event, **values)
            return
        out = log._logger  # noqa: SLF001  # the one that writes
        number = log_levels.LEVELS.number_of(out.name)
        bound = escape_values(None, "", dict(structlog.get_context(log)))
        context = escape_values(None, "", structlog.contextvars.get_contextvars())
        time = _TIME(None, "", {})["timestamp"]
        for level, values in lines:
            if LEVELS[level] >= number:
                line = {**bound, **escape_values(None, "", values), "event": event}
                for name, value in context.items():
                    line.setdefault(name, value)
                out.msg(_ENCODER.encode({**line, "level": level, "timestamp": time}))


def configure(*, level: str = "info", style: str = "json", stream: TextIO | None = None) -> None:
    """Set up logging for the process: `style` is `json` or `console`; libraries' own logs join at WARNING."""
    out = sys.stderr if stream is None else stream
    log_levels.LEVELS.start(LEVELS[level])
    wrapper_class: Any = log_levels.bound_logger
    forgiving: Any = _TolerantStream(out)
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        _TIME,
        escape_values,
    ]
    renderer: Any = (
        _JsonRenderer(ensure_ascii=False)
        if style == "json"
        # Plain: what is pretty shows the values of variables, and some of those are secrets.
        else structlog.dev.ConsoleRenderer(
            colors=out.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    )
    tracebacks: list[Any] = [structlog.processors.format_exc_info, escape_traceback]
    structlog.configure(
        processors=[*shared, *tracebacks, renderer],
        wrapper_class=wrapper_class,
        logger_factory=lambda name="": log_levels.NamedLogger(forgiving, name),
        cache_logger_on_first_use=False,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *tracebacks, renderer],
    )
    handler = logging.StreamHandler(forgiving)
    handler.setFormatter(formatter)
    handler.addFilter(_is_wanted)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(LEVELS[level], logging.WARNING))
    # py4j reports every dropped connection of a JVM that is just being stopped; who asked gets an error.
    logging.getLogger(_PY4J).setLevel(logging.CRITICAL)


def _is_wanted(record: logging.LogRecord) -> bool:
    """Whether it may pass: what py4j gives to the root logger is held to the level of its own."""
    is_stray = record.name == logging.root.name and Path(record.pathname).parent.name == _PY4J
    return not is_stray or logging.getLogger(_PY4J).isEnabledFor(record.levelno)


# Arguments of structlog's own methods, which no value of an event can be called.
_STRUCTLOGS: Final = frozenset({"self", "method_name"})


def relay(line: str) -> bool:
    """Write a JSON line that another process of ours has logged, as this process shows its own.

    False, and nothing is written, where it is no such line: torn, or of another library. It has not been
    made printable then.
    """
    try:
        event = msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return False
    level, name = event.pop("level", None), event.pop("event", None)
    if not (isinstance(level, str) and isinstance(name, str) and line.isprintable()):
        return False
    if isinstance(structlog.get_config()["processors"][-1], structlog.processors.JSONRenderer):
        _write_whole(_TolerantStream(sys.stderr), [line + "\n"])
        return True
    event.pop("timestamp", None)
    values = {f"{one}_" if one in _STRUCTLOGS else one: value for one, value in event.items()}
    structlog.get_logger("spark.task").log(LEVELS.get(level, logging.INFO), name, **values)
    return True


def escape_values(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The event with every text in it made printable, so that no key can forge a line."""
    for name, value in event.items():
        kind = type(value)
        if kind in _PLAIN or name == "exc_info":
            continue
        # Said here once more, as nearly all text is of this kind: `printable` would give it back.
        if kind is str and len(value) <= _LIMIT and value.isprintable():
            continue
        event[name] = _escaped(value)
    return event


def escape_traceback(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The event with each line of its traceback made printable: errors quote keys."""
    if "exception" in event:
        lines = str(event["exception"]).splitlines()
        event["exception"] = "\n".join(printable(line, limit=_LIMIT) for line in lines)
    return event


def _escaped(value: Any) -> Any:
    match value:
        case str():
            return printable(value, limit=_LIMIT)
        case dict():
            return {_escaped(name): _escaped(one) for name, one in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_escaped(one) for one in value]
        case _:
            return value


# The UUID of a schema is a number, too, of which each record may have another.
_NUMBERS: Final = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\d+")
# A key may hold anything, so it ends where a sentence about an object has its verb, or with the sentence.
_KEYS: Final = re.compile(
    r"(s3://[^/\s]+)/.*?(?= (?:is|was|may not|cannot|can be|could|does|did|has|wait)\b|\Z)", re.DOTALL
)
_LISTED: Final = re.compile(r"(?<!\S)(\S+)(?:, \1)+(?![^\s.:])")
# A sentence may name what is another one each time, as a request of S3, and a template any number of topics.
_MOST: Final = 1000


@lru_cache(maxsize=256)
def problem_kind(sentence: str) -> str:
    """What stays of the sentence of a problem while it lasts.

    Seconds and records are counted on, and of many objects with the same problem each is named in turn.

    >>> problem_kind("s3://b/a b.gz is refused (503).") == problem_kind("s3://b/c.gz is refused (503).")
    True
    >>> problem_kind("For 65 s nothing of t-0, t-11 was read.")
    'For 0 s nothing of t-0 was read.'
    >>> problem_kind("It has no schema of the id 6ba7b810-9dad-11d1-80b4-00c04fd430c8.")
    'It has no schema of the id 0.'
    """
    return _LISTED.sub(r"\1", _NUMBERS.sub("0", _KEYS.sub(r"\1", sentence)))


class RetryLog:
    """A WARN for each sentence that is new since the last success, and DEBUG for the same again.

    With `is_error` an ERROR: it does not pass by itself. The oldest of a thousand is forgotten. The end has a
    line of its own: `problem_over`, of the problem that `/status` shows. For one thread.
    """

    def __init__(self, log: Any, event: str, *, is_error: bool = False) -> None:
        self._log: Final = log
        self._first: Final = log.error if is_error else log.warning
        self._event: Final = event
        self._told: dict[tuple[Hashable, str], None] = {}

    def failed(self, of: Hashable, error: Exception, **fields: object) -> None:
        """What is tried again has failed; `of` says which of several it is."""
        told = (of, problem_kind(str(error)))
        tell = self._log.debug if told in self._told else self._first
        self._told.pop(told, None)
        self._told[told] = None
        if len(self._told) > _MOST:
            del self._told[next(iter(self._told))]
        tell(self._event, error=str(error), **fields)

    def over(self, of: Hashable) -> None:
        """It has succeeded: the next failure is another one."""
        for told in [told for told in self._told if told[0] == of]:
            del self._told[told]


_FIRST_PAUSE_MS: Final = 60_000
_LONGEST_PAUSE_MS: Final = 3_600_000


class LastingTrouble:
    """Failures in a row, by a steady clock; they are logged at once, and then after pauses that double.

    Failures that are more than `most_apart_ms` apart are not in a row.
    """

    def __init__(self, *, most_apart_ms: int = 2**62) -> None:
        self._most_apart_ms = most_apart_ms
        self._is_over = True
        self._since_ms = self._last_ms = self._logged_again_ms = 0

    @property
    def lasted_ms(self) -> int:
        """From the first failure of the row to the last one."""
        return self._last_ms - self._since_ms

    def fail(self, now_ms: int) -> bool:
        """One more failure; whether the log is to say so."""
        if self._is_over or now_ms - self._last_ms > self._most_apart_ms:
            self._since_ms = self._logged_again_ms = now_ms
        self._is_over, self._last_ms = False, now_ms
        is_logged = now_ms >= self._logged_again_ms
        if is_logged:
            pause_ms = max(self.lasted_ms, _FIRST_PAUSE_MS)
            self._logged_again_ms = now_ms + min(pause_ms, _LONGEST_PAUSE_MS)
        return is_logged

    def end(self) -> None:
        """It is over: the next failure is the first of another row."""
        self._is_over = True
