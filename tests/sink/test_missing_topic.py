"""A topic that a sink is to read and that is not there, on real parts: said, and read when it has come."""

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.model.errors import Exit
from tests.sink.archive_account import new_archive
from tests.support import aws, kafka
from tests.support.discovery import log_lines
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]


def test_a_topic_that_is_not_there_is_said_until_it_is_read(tmp_path: Path) -> None:
    """Once in the log, and shown meanwhile; the sink is ready and archives its other topic."""
    archive = new_archive(tmp_path)
    late = replace(archive, topic=aws.unique("late"))
    topics = f"{archive.topic},{late.topic}"
    sink = archive.service(aws.unique("sink"), topics=topics, rotate__age__ms=500)
    archive.produce({"value": b'{"n":%d}' % number} for number in range(20))
    sink.start()
    try:
        until_sync(lambda: len(archive.keys()) > 0, seconds=180, what="what is there")
        until_sync(lambda: sink.status()["sink"]["missing_topics"], seconds=60, what="what is not there")
        shown = sink.status()
        assert (shown["ready"], shown["problems"]) == (True, {})
        assert shown["sink"]["missing_topics"] == [late.topic]
        (line,) = log_lines(sink, "topics_missing")
        assert (line["level"], line["topics"]) == ("warning", [late.topic])

        kafka.new_topic(name=late.topic)
        until_sync(lambda: not sink.status()["sink"]["missing_topics"], seconds=60, what="the topic found")
        late.produce({"value": b'{"n":%d}' % number} for number in range(20))
        until_sync(lambda: late.topic in "".join(archive.keys()), seconds=60, what="the topic archived")
        assert [one["topics"] for one in log_lines(sink, "topics_found")] == [[late.topic]]
        assert len(log_lines(sink, "topics_missing")) == 1
    finally:
        assert sink.stop() == Exit.DONE
