"""What is logged while the log cannot be written, lines gathered into few writes, and text made harmless."""

import errno
import io
import json
import logging
import re
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import Any

import pytest
import structlog
from hypothesis import example, given
from hypothesis import strategies as st
from py4j.java_gateway import (  # type: ignore[import-untyped]  # publishes no types
    GatewayClient,
    GatewayParameters,
)
from structlog.testing import capture_logs

from headrace.model.text_formatting import printable
from headrace.process.log_levels import LEVELS
from headrace.process.logs import buffered_lines, configure, escape_values, log_together, relay

_SCRIPT = """
import io, logging, structlog
from headrace.process.logs import configure

class Full(io.StringIO):
    full = True
    def write(self, text):
        if self.full:
            raise OSError({code}, "disk full")
        return super().write(text)

out = Full()
configure(stream=out)
structlog.get_logger().warning("lost")
logging.getLogger("library").error("lost too")
out.full = False
structlog.get_logger().warning("there")
print(out.getvalue())
"""


def test_a_log_that_cannot_be_written_ends_nothing() -> None:
    """Red without the forgiving stream: the first line raised, and `run` ended with 1 on a full disk."""
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT.format(code=errno.ENOSPC)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = io.StringIO(done.stdout).read().split("\n")
    assert '"event": "there"' in lines[0]
    assert "lost" not in done.stdout


class _Stream(io.StringIO):
    """What came in each write; a write that nobody flushed is not there yet."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []
        self.flushed = self.flushes = 0
        self.broken = False

    def write(self, text: str) -> int:
        if self.broken:
            raise OSError(errno.EPIPE, "closed")
        self.writes.append(text)
        return len(text)

    def flush(self) -> None:
        self.flushed = len(self.writes)
        self.flushes += 1

    @property
    def lines(self) -> list[str]:
        return "".join(self.writes[: self.flushed]).splitlines()

    @property
    def events(self) -> list[str]:
        return [json.loads(line)["event"] for line in self.lines]


@pytest.fixture
def stream() -> Iterator[_Stream]:
    """Logging goes here, until the test is over."""
    stream, handlers = _Stream(), logging.getLogger().handlers[:]
    level = logging.getLogger().level
    configure(stream=stream)
    yield stream
    structlog.reset_defaults()
    logging.getLogger().handlers[:] = handlers
    logging.getLogger().setLevel(level)


@pytest.mark.parametrize("style", ["json", "console"])
def test_gathered_lines_are_one_write_in_order(stream: _Stream, style: str) -> None:
    """An error and what a library says are in order with the rest."""
    configure(stream=stream, style=style)
    log = structlog.get_logger()
    with buffered_lines():
        log.info("first")
        log.error("second")
        logging.getLogger("library").error("third")
        with buffered_lines():
            log.info("fourth")
        log.info("fifth")
        assert stream.writes == []
    assert len(stream.writes) == stream.flushes == stream.flushed == 1
    assert [name for line in stream.lines for name in _ORDER if name in line] == _ORDER
    log.info("after")
    assert (len(stream.writes), stream.flushed) == (2, 2)


@contextmanager
def _hanging_up() -> Iterator[int]:
    """The port of a JVM that ends with every question."""

    def serve() -> None:
        with suppress(OSError):
            while True:
                listening.accept()[0].close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_what_py4j_says_of_a_jvm_that_is_gone_is_no_news(stream: _Stream) -> None:
    """Some of it comes by the root logger; whoever asks for py4j's lines gets those, too."""

    def ask() -> None:
        with _hanging_up() as port:
            client = GatewayClient(gateway_parameters=GatewayParameters(address="127.0.0.1", port=port))
            assert client.send_command("x\n").startswith("x"), "py4j's word for an error"

    ask()
    assert stream.events == []
    logging.error("of nobody in particular")  # noqa: LOG015  # what is tested
    assert stream.events == ["of nobody in particular"]
    LEVELS.change("py4j", "ERROR")
    ask()
    assert stream.events[1:] == ["Exception while sending command."]
    configure(stream=stream)
    ask()
    assert len(stream.events) == 2


_ORDER = ["first", "second", "third", "fourth", "fifth"]


def test_what_was_gathered_is_written_whatever_happens(stream: _Stream) -> None:
    """The lines before an exception are the ones that are wanted."""

    class _Broken(Exception):
        pass

    def work() -> None:
        with buffered_lines():
            structlog.get_logger().info("before")
            raise _Broken

    with pytest.raises(_Broken):
        work()
    structlog.get_logger().info("after")
    assert stream.events == ["before", "after"]
    assert len(stream.writes) == 2


def test_other_threads_lines_go_out_at_once(stream: _Stream) -> None:
    """Only who gathers waits."""
    log = structlog.get_logger()
    with buffered_lines():
        log.info("gathered")
        other = threading.Thread(target=log.info, args=["other"])
        other.start()
        other.join()
        assert stream.events == ["other"]
    assert stream.events == ["other", "gathered"]


HOSTILE = {
    "key": 'in/\n"é\u2028',
    "reason": None,
    "bytes": 5,
    "seconds": 0.25,
    "is_kept": True,
    "event_": "x",
}


def test_lines_that_are_logged_together_are_the_loggers_own(stream: _Stream) -> None:
    """Names in their order, values escaped, what is bound to the context and to the logger before them."""
    log = structlog.get_logger("headrace.tests").bind(slot="3\n")
    with structlog.contextvars.bound_contextvars(connector="one"):
        log.info("object", **HOSTILE)
        log.error("object", **HOSTILE)
        log_together(log, "object", [("info", dict(HOSTILE)), ("error", dict(HOSTILE))])
    stamp = re.compile(r'"timestamp": "[^"]+"')
    alone, together = stream.lines[:2], stream.lines[2:]
    assert all(stamp.search(line) for line in stream.lines)
    assert [stamp.sub("", line) for line in together] == [stamp.sub("", line) for line in alone]
    assert len(stream.writes) == 3


def test_lines_that_are_logged_together_are_held_to_the_loggers_level(stream: _Stream) -> None:
    """As it is at the moment."""
    log = structlog.get_logger("headrace.tests")
    LEVELS.change("headrace.tests", "ERROR")
    log_together(log, "object", [("info", {"number": 1}), ("error", {"number": 2})])
    assert [json.loads(line)["number"] for line in stream.lines] == [2]


def test_lines_that_are_logged_together_reach_who_captures_them(stream: _Stream) -> None:
    """Where lines are written in another way, they are logged one by one."""
    with capture_logs() as captured:
        log_together(structlog.get_logger(), "object", [("info", {"number": 1}), ("error", {"number": 2})])
    assert [(line["log_level"], line["number"]) for line in captured] == [("info", 1), ("error", 2)]
    assert stream.lines == []


@pytest.mark.parametrize("letter", ["x", "é"])
def test_no_write_is_larger_than_a_pipe_keeps_whole(stream: _Stream, letter: str) -> None:
    """Spark's JVM writes to the same stderr: into a larger write it could put its own line."""
    count = 300
    with buffered_lines():
        for number in range(count):
            structlog.get_logger().info("object", number=number, key=letter * 100)
    assert [json.loads(line)["number"] for line in stream.lines] == list(range(count))
    assert all(text.endswith("\n") for text in stream.writes)
    assert max(len(text.encode()) for text in stream.writes) <= select.PIPE_BUF
    assert len(stream.writes) < count / 8


def test_a_long_line_is_still_a_line(stream: _Stream) -> None:
    """Longer than what a pipe keeps whole: nothing is cut, and nothing goes missing beside it."""
    with buffered_lines():
        for key in ("short", "\n" * 4000, "short"):
            structlog.get_logger().info("object", key=key)
    assert [len(json.loads(line)["key"]) for line in stream.lines] == [5, 8000, 5]
    assert len(stream.writes) == 3


def test_gathered_lines_that_cannot_be_written_end_nothing(stream: _Stream) -> None:
    """As without gathering."""
    stream.broken = True
    with buffered_lines():
        structlog.get_logger().info("lost")
    stream.broken = False
    structlog.get_logger().info("there")
    assert stream.events == ["there"]


class _Word(StrEnum):
    SAFE = "safe"
    FORGED = "a\nb"


_VALUES: Any = st.recursive(
    st.text(st.characters(codec=None))
    | st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from([*_Word, "x" * 4000, "x" * 4001, "é", "\x7f", "\u202e", "\ud800", b"\n"]),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=3), values, max_size=3),
    max_leaves=6,
)


@given(_VALUES)
@example("x" * 4001)
@example("é\u3042 \u202e")
@example("\u00a0\u2003")
def test_every_text_in_an_event_is_made_printable(value: Any) -> None:
    """However deep; all else is as it was, and what `exc_info` holds is left to the formatter."""
    event = {"value": value, "exc_info": value}
    assert escape_values(None, "info", event) == {"value": _printable(value), "exc_info": value}


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value, limit=4000)
    if isinstance(value, dict):
        return {_printable(name): _printable(one) for name, one in value.items()}
    return [_printable(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("style", ["json", "console"])
def test_a_line_of_a_worker_is_shown_as_all_others(
    stream: _Stream, style: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it came into a pipe; in columns on a terminal."""
    configure(stream=stream, style=style)
    monkeypatch.setattr(sys, "stderr", stream)
    line = '{"position": {"byte": 7}, "event": "bad_record", "level": "warning", "timestamp": "2026-01-01"}'

    assert relay(line)

    (first,) = stream.lines
    assert (first == line) is (style == "json")
    assert "bad_record" in first
    assert ("[warning" in first) is (style == "console")


@pytest.mark.parametrize("name", ["self", "method_name", "logger", "args", "exc_info", "_name"])
def test_a_member_of_another_library_s_line_may_have_any_name(
    stream: _Stream, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that passes them on ends by none of them."""
    configure(stream=stream, style="console")
    monkeypatch.setattr(sys, "stderr", stream)

    assert relay(f'{{"event": "theirs", "level": "info", "{name}": "x"}}')
    assert "theirs" in stream.lines[0]


@pytest.mark.parametrize("style", ["json", "console"])
@pytest.mark.parametrize(
    "line",
    [
        '{"event": "a", "level": "info", "key": "b{"event": "c", "level": "info"}',
        "{ [native] broke \x1b]0;owned\x07",
        '{"event": "a", "level": "info", "key": "\x9b31m"}',
        '{"event": "a", "level": "info", "rate": NaN}',
        '{"event": "a", "level": 7}',
        '{"no": "event"}',
        '{"a": ' + "[" * 100_000,
    ],
    ids=["torn", "no JSON", "not printable", "no number", "another's level", "another's", "deep"],
)
def test_what_is_no_line_of_ours_is_not_passed_on(
    stream: _Stream, style: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asked has it as a text, which is made printable."""
    configure(stream=stream, style=style)
    monkeypatch.setattr(sys, "stderr", stream)

    assert not relay(line)
    assert stream.lines == []
