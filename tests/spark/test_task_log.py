"""How tasks log: as the process that starts them, whose option says it once."""

import io
import json
from collections.abc import Iterator
from typing import Final

import pytest
import structlog
import structlog.testing

from headrace.options import Settings
from headrace.process.log_levels import LEVELS, ROOT
from headrace.vendors.load import load
from ingest.service.spark_startup import slot_work
from spark.jvm import _forward
from spark.sink.sink_work import SinkWork
from spark.source.source_work import SourceWork
from spark.task.entry import TaskLog, log_of_this_process

_COMMON: Final = {
    "name": "n",
    "bootstrap.servers": "127.0.0.1:9092",
    "aws.s3.bucket.name": "bucket",
    "aws.access.key.id": "test",
    "aws.secret.access.key": "test",
}
_SOURCE: Final = {**_COMMON, "topic": "t", "file.name.template": ".*"}
_SINK: Final = {**_COMMON, "connector.class": "HeadraceSink", "topics": "t"}


def _settings(options: dict[str, str]) -> Settings:
    return load(json.dumps(options), kind="json", environment={}, read_file=str)


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Give this process its level back."""
    before = LEVELS.number_of(ROOT)
    yield
    LEVELS.start(before)


@pytest.mark.parametrize(
    ("set_to", "level"),
    [
        ("TRACE", "debug"),
        ("DEBUG", "debug"),
        ("INFO", "info"),
        ("WARN", "warning"),
        ("ERROR", "error"),
        ("FATAL", "error"),
    ],
)
def test_tasks_log_from_the_level_of_this_process(set_to: str, level: str) -> None:
    """In the words of `--log-level`, whichever way it was set."""
    LEVELS.change(ROOT, set_to)
    assert log_of_this_process() == TaskLog(level=level)


def test_tasks_say_what_is_bound_to_the_lines_of_their_connector() -> None:
    """A worker binds the connector's name."""
    with structlog.contextvars.bound_contextvars(connector="orders"):
        assert log_of_this_process().bound == (("connector", "orders"),)
    assert log_of_this_process().bound == ()


def test_the_work_of_a_slot_carries_it() -> None:
    """A source's and a sink's."""
    LEVELS.change(ROOT, "DEBUG")
    with structlog.contextvars.bound_contextvars(connector="orders"):
        source = slot_work(_settings(_SOURCE), slots=1)
        sink = slot_work(_settings(_SINK), slots=1)
    wanted = TaskLog(level="debug", bound=(("connector", "orders"),))
    assert isinstance(source, SourceWork)
    assert source.settings.log == wanted
    assert isinstance(sink, SinkWork)
    assert sink.settings.log == wanted


def test_what_is_no_line_of_a_task_is_the_text_of_one() -> None:
    """A native library may write what begins as one, and a worker that dies tears its own."""
    lines = b'{ [native] broke \x1b]0;owned\x07\n{"event": "a", "lev{"event": "b"}\n'
    with structlog.testing.capture_logs() as logged:
        _forward(io.BytesIO(lines))
    assert [(line["event"], line["text"]) for line in logged] == [
        ("spark_logged", "{ [native] broke \x1b]0;owned\x07"),
        ("spark_logged", '{"event": "a", "lev{"event": "b"}'),
    ]
