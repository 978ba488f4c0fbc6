"""A topic that is not there is a line in the log when it is missed, and one when it has come."""

from collections.abc import Collection
from typing import Any

import pytest
from structlog.testing import capture_logs

from ingest.http.snapshot import SinkStatus, Snapshot
from ingest.service.sink.topic_watch import MissingTopics

MISSING, FOUND = "topics_missing", "topics_found"


def _lines(topics: MissingTopics, missing: Collection[str], there: Collection[str] = ()) -> list[Any]:
    with capture_logs() as lines:
        topics.surveyed(missing, there)
    return [(line["event"], line["topics"]) for line in lines]


def test_each_name_is_told_when_it_is_missed_and_when_it_has_come() -> None:
    """Once a change, however often one looks; those that are missing are shown all the while."""
    topics = MissingTopics(None)

    assert _lines(topics, ("a", "b")) == [(MISSING, ["a", "b"])]
    assert _lines(topics, ("a", "b")) == []
    assert list(topics.names) == ["a", "b"]
    assert _lines(topics, ("b",), {"a"}) == [(FOUND, ["a"])]
    assert list(topics.names) == ["b"]
    assert _lines(topics, ("c",), {"a", "b"}) == [(MISSING, ["c"]), (FOUND, ["b"])]
    assert _lines(topics, (), {"a", "b", "c"}) == [(FOUND, ["c"])]
    assert not topics.names


def test_nothing_is_said_where_all_are_there() -> None:
    """Of names, and of a pattern."""
    assert _lines(MissingTopics(None), (), {"a"}) == []
    assert _lines(MissingTopics("a.*"), (), {"a"}) == []


def test_a_pattern_is_told_while_it_matches_nothing_at_all() -> None:
    """It has no names that could be missing."""
    topics = MissingTopics("a.*")

    assert _lines(topics, ()) == [(MISSING, [])]
    assert _lines(topics, ()) == []
    assert not topics.names
    assert _lines(topics, (), {"a2", "a1"}) == [(FOUND, ["a1", "a2"])]
    assert _lines(topics, (), {"a1"}) == []
    assert _lines(topics, ()) == [(MISSING, [])]


@pytest.mark.parametrize(("pattern", "option"), [(None, "topics"), ("a.*", "topics.regex")])
def test_the_line_says_what_follows_and_what_to_do(pattern: str | None, option: str) -> None:
    """By the option that it was given with."""
    with capture_logs() as lines:
        MissingTopics(pattern).surveyed(("a",), ())

    (line,) = lines
    assert line["log_level"] == "warning"
    assert "as soon as it is there" in line["detail"]
    assert option in line["remedy"].replace(",", "").split()
    assert line.get("regex") == pattern


def test_who_does_not_lead_shows_none() -> None:
    """What the surveys of another leadership did not find may be there by now."""
    led = Snapshot(name="n", version="1", sink=SinkStatus(missing_topics=("a",), objects_total=1))

    assert led.without_leadership().sink == SinkStatus()
