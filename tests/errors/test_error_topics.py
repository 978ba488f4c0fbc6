"""Topics that are missing, too small or too few, and records that they do not take."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from headrace.model.ledger_entry import State
from headrace.model.positions import BytePosition
from tests.errors.harness import Stand, counted, json_lines, stand
from tests.support import aws, kafka
from tests.support.discovery import log_lines
from tests.support.service import new_route
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

LINES: Final = json_lines(*counted(100))


def make(topic: str) -> None:
    """A topic of this very name."""
    admin = AdminClient({"bootstrap.servers": kafka.address()})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)


def incompressible(size: int, row_id: str = "large") -> bytes:
    """A row that no compression makes smaller than about so many bytes."""
    return json_lines({"id": row_id, "fill": os.urandom(size).hex()[: size * 2]})


class TestMissing:
    """No such topic."""

    def test_the_option_topic_at_start_is_exit_2(self, tmp_path: Path) -> None:
        """Before anything is received; the sentence names it and the remedy."""
        route = new_route(tmp_path)
        name = aws.unique("missing")
        file = tmp_path / "missing.json"
        # A server of Spark that is never asked: a process without a JVM of its own.
        changes = {"topic": "nobody-made-it", "http__listen": "", "spark__remote": "sc://127.0.0.1:1"}
        file.write_text(json.dumps({"name": name, **route.options(**changes)}))
        argv = [str(Path(sys.executable).with_name("headrace")), "run", str(file)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=280, check=False)
        assert done.returncode == 2
        assert "Topic 'nobody-made-it' does not exist" in done.stderr
        assert "topic.creation.default.partitions" in done.stderr

    def test_from_the_template_it_is_tried_again_until_somebody_makes_it(self, one: Stand) -> None:
        """`failed`, named in `/status`, without an upper number; other topics go on, and ready stays."""
        topic = aws.unique("errors")
        key = f"{topic}/early"
        one.put(key, LINES)
        until_sync(lambda: len(one.failures(key)) > 3, seconds=60, what="more than all attempts")
        one.goes_on(one.topic())
        entry = one.entry(key)
        assert entry is not None
        assert (entry.state, entry.reason, entry.attempts) == (State.FAILED, "topic_missing", 0)
        until_sync(lambda: topic in json.dumps(one.service.status()["problems"]), what="the topic in /status")
        assert one.readiness()[0]

        make(topic)
        assert one.await_end(key, seconds=60)["outcome"] == "done"
        assert one.values(topic) == LINES.splitlines()
        until_sync(
            lambda: topic not in json.dumps(one.service.status()["problems"]), what="an end of the problem"
        )

    @pytest.mark.long
    @pytest.mark.timeout(600)
    def test_deleted_while_running(self, one: Stand) -> None:
        """The same, also for a producer that knew it; made again, what comes then is in it."""
        topic = one.topic()
        one.put(f"{topic}/before", LINES)
        one.await_end(f"{topic}/before")
        kafka.delete_topic(topic)
        key = f"{topic}/after"
        one.put(key, LINES)
        until_sync(lambda: len(one.failures(key)) > 1, seconds=180, what="failed attempts")
        until_sync(lambda: topic in json.dumps(one.service.status()["problems"]), seconds=60)
        one.goes_on(one.topic())

        make(topic)
        assert one.await_end(key, seconds=180)["outcome"] == "done"
        assert one.values(topic) == LINES.splitlines()


class TestCreation:
    """With `topic.creation.default.*`, topics that keys name are made."""

    def test_a_topic_of_the_template_is_made(self, tmp_path: Path) -> None:
        """With its partitions, when a task finds that it is missing; objects of several wait side by side."""
        options: dict[str, Any] = {
            "topic__creation__default__partitions": 3,
            "topic__creation__default__replication__factor": 1,
        }
        with stand(tmp_path, "creating", **options) as on:
            topics = [aws.unique("made") for _ in range(4)]
            for topic in topics:
                on.put(f"{topic}/p2/one", LINES)
                on.put(f"{topic}/two", LINES)
            for topic in topics:
                assert on.await_end(f"{topic}/p2/one", seconds=60)["outcome"] == "done"
                assert on.await_end(f"{topic}/two", seconds=60)["outcome"] == "done"
                assert sorted(on.values(topic)) == sorted(LINES.splitlines() * 2)
            made = log_lines(on.service, "topic_created")
            assert sorted(line["topic"] for line in made) == sorted(topics)
            assert {line["partitions"] for line in made} == {3}
            until_sync(lambda: not on.service.status()["problems"], what="no problem")

    def test_one_that_cannot_be_made_says_why(self, tmp_path: Path) -> None:
        """More replicas than there are brokers: named in `/status` with the option; others go on."""
        options: dict[str, Any] = {
            "topic__creation__default__partitions": 1,
            "topic__creation__default__replication__factor": 7,
            # Which would be made with as many.
            "offsets__storage__topic": kafka.new_topic("ledger", config={"cleanup.policy": "compact"}),
        }
        with stand(tmp_path, "replicas", **options) as on:
            topic = aws.unique("errors")
            on.put(f"{topic}/early", LINES)
            until_sync(
                lambda: (
                    "topic.creation.default.replication.factor"
                    in on.service.status()["problems"].get(f"topic {topic}", "")
                ),
                seconds=60,
                what="the option in /status",
            )
            on.goes_on(on.topic())
            assert on.readiness()[0]
            make(topic)
            assert on.await_end(f"{topic}/early", seconds=60)["outcome"] == "done"
            until_sync(lambda: not on.service.status()["problems"], what="no problem")


class TestPartitions:
    """A partition that the topic does not have."""

    def test_it_is_quarantined_at_once(self, one: Stand) -> None:
        """Never a hang; the sentence says how many there are."""
        topic = one.topic(partitions=2)
        one.put(f"{topic}/p1/there", LINES)
        one.put(f"{topic}/p2/nowhere", LINES)
        end = one.await_end(f"{topic}/p2/nowhere")
        assert (end["outcome"], end["reason"], end["records"]) == ("quarantined", "unknown_partition", 0)
        assert "partition 2 does not exist" in end["error"]
        assert one.await_end(f"{topic}/p1/there")["outcome"] == "done"
        assert {record.partition for record in kafka.committed(topic)} == {1}


class TestTooLarge:
    """A row above the topic's own limit, which is below `record.max.bytes`."""

    def test_the_topic_s_limit_is_a_limit(self, one: Stand) -> None:
        """A bad record like any other; nothing is sent in vain."""
        topic = one.topic(config={"max.message.bytes": "4000"})
        key = f"{topic}/large"
        body = json_lines(*counted(3)) + incompressible(3000) + json_lines(*counted(2, "behind"))
        one.put(key, body)
        end = one.await_end(key)
        if one.is_tolerant:
            assert (end["outcome"], end["records"], end["bad"]) == ("done", 5, 1)
            assert len(one.dead(key)) == 1
        else:
            assert (end["outcome"], end["reason"], end["records"]) == ("quarantined", "too_large", 3)


class TestRefused:
    """A record that the broker refuses although it was measured."""

    def test_halving_finds_it(self, one: Stand) -> None:
        """The limit is lowered after it was asked for: only the one record is bad, whatever is around it."""
        topic = one.topic()
        one.put(f"{topic}/before", LINES)
        assert one.await_end(f"{topic}/before")["outcome"] == "done"
        kafka.limit_record_bytes(topic, 4000)
        key = f"{topic}/refused"
        large = incompressible(3000)
        one.put(key, json_lines(*counted(37, "x")) + large + json_lines(*counted(22, "y")))
        end = one.await_end(key, seconds=60)
        if one.is_tolerant:
            assert (end["outcome"], end["records"], end["bad"]) == ("done", 59, 1)
            (letter,) = one.dead(key)
            assert letter.value == large.rstrip()
            assert dict(letter.headers)["__connect.errors.exception.class.name"] == b"refused"
        else:
            assert (end["outcome"], end["reason"], end["records"]) == ("quarantined", "refused", 37)
            entry = one.entry(key)
            assert entry is not None
            assert entry.position == BytePosition(len(json_lines(*counted(37, "x"))))
        values = one.values(topic)
        assert len(values) == len(set(values)) == 100 + end["records"]
        one.goes_on(topic)


class TestLetters:
    """Dead letters that are too large for their topic."""

    def test_one_is_cut_to_fit(self, tolerant: Stand) -> None:
        """Empty, with its size; everything else about it is there."""
        topic = tolerant.topic()
        assert tolerant.letters is not None
        bad = b'{"id":"%s", broken' % os.urandom(3000).hex().encode()
        kafka.limit_record_bytes(tolerant.letters, 4000)
        try:
            # What was asked about the topic is asked again every half a minute: this is before, or after.
            tolerant.put(f"{topic}/bad", json_lines(*counted(3)) + bad + b"\n" + json_lines(*counted(2, "y")))
            end = tolerant.await_end(f"{topic}/bad", seconds=60)
        finally:
            kafka.limit_record_bytes(tolerant.letters, 1_048_588)
        assert (end["outcome"], end["records"], end["bad"]) == ("done", 5, 1)
        (letter,) = tolerant.dead(f"{topic}/bad")
        assert not letter.value
        assert dict(letter.headers)["headrace.size"] == str(len(bad)).encode()
        assert dict(letter.headers)["__connect.errors.exception.class.name"] == b"not_json"

    def test_one_that_is_still_refused_quarantines_its_object_alone(self, tolerant: Stand) -> None:
        """Its headers alone are too large: nothing can be told of it, so a person has to look."""
        topic = tolerant.topic()
        assert tolerant.letters is not None
        kafka.limit_record_bytes(tolerant.letters, 300)
        try:
            tolerant.put(f"{topic}/bad", json_lines(*counted(3)) + b"{broken\n")
            tolerant.put(f"{topic}/blank", b"\n\n")
            tolerant.put(f"{topic}/good", json_lines(*counted(3, "good")))
            ends = {
                name: tolerant.await_end(f"{topic}/{name}", seconds=60) for name in ("bad", "blank", "good")
            }
        finally:
            kafka.limit_record_bytes(tolerant.letters, 1_048_588)
        assert (ends["bad"]["outcome"], ends["bad"]["reason"], ends["bad"]["records"]) == (
            "quarantined",
            "record_refused",
            3,
        )
        assert ends["blank"]["outcome"] == ends["good"]["outcome"] == "done"
        assert len(tolerant.values(topic)) == 6
        assert tolerant.dead(f"{topic}/bad") == []

    @pytest.mark.long
    def test_without_the_dead_letter_topic_its_objects_wait(self, tmp_path: Path) -> None:
        """Deleted while running: nothing is left out in silence, and made again it goes on."""
        with stand(tmp_path, "letters", tolerant=True) as on:
            assert on.letters is not None
            topic = on.topic()
            kafka.delete_topic(on.letters)
            key = f"{topic}/bad"
            on.put(key, json_lines(*counted(3)) + b"{broken\n")
            until_sync(lambda: on.failures(key), seconds=120, what="a failed attempt")
            on.goes_on(topic)
            assert {line["kind"] for line in on.failures(key)} == {"TopicMissing"}
            make(on.letters)
            end = on.await_end(key, seconds=120)
            assert (end["outcome"], end["bad"]) == ("done", 1)
            assert [letter.value for letter in on.dead(key)] == [b"{broken"]
