from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, TopicPartition

from headrace.kafka.leadership import GroupMember, MemberCallbacks, heartbeat_ms

LEDGER = TopicPartition("ledger", 0)
CHECKED = b"CGMDv2:\x02\x00\x00\x00g\x00m\x00\x01"
NO_GENERATION = b"CGMDv2:\xff\xff\xff\xffg\x00m\x00\x01"
NO_MEMBER = b"CGMDv2:\x02\x00\x00\x00g\x00\x00\x01"


class FakeConsumer(Consumer):
    """What the assignment callback is given, with the metadata of our choice."""

    metadata = CHECKED

    def consumer_group_metadata(self) -> bytes:
        """As chosen."""
        return self.metadata

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:  # noqa: ARG002 - its shape
        """From here on librdkafka may go on to another generation."""
        self.metadata = b"too late"

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Nothing to do."""

    def pause(self, partitions: list[TopicPartition]) -> None:
        """Nothing to do."""


@contextmanager
def member(told: list[tuple[str, object]]) -> Iterator[GroupMember]:
    """A member that never reaches a broker; what it tells its owner."""
    made = GroupMember(
        {"bootstrap.servers": "127.0.0.1:1"},
        group="g",
        topic="ledger",
        session_timeout_ms=6000,
        instance_id=None,
        events=MemberCallbacks(
            on_held=lambda _, raw: told.append(("held", raw)),
            on_waiting=lambda _: told.append(("waiting", None)),
            on_gone=lambda _, reason: told.append(("gone", reason)),
            on_problem=lambda *_: None,
        ),
    )
    try:
        yield made
    finally:
        assert made.close(60)


@pytest.fixture
def consumer() -> FakeConsumer:
    """A fake that holds no connection."""
    return FakeConsumer({"group.id": "g"})


def test_metadata_is_captured_before_the_assignment_is_answered(consumer: FakeConsumer) -> None:
    """Also when nothing new is assigned, and not at all while another member holds the partition.

    Mutation tried: capturing after `incremental_assign` raises here.
    """
    told: list[tuple[str, object]] = []
    with member(told) as one:
        one._assigned(consumer, [])
        consumer.metadata = CHECKED
        one._assigned(consumer, [LEDGER])
        consumer.metadata = CHECKED.replace(b"\x02", b"\x03")
        one._assigned(consumer, [])
    assert told == [("waiting", None), ("held", CHECKED), ("held", CHECKED.replace(b"\x02", b"\x03"))]


@pytest.mark.parametrize("raw", [NO_GENERATION, NO_MEMBER])
@pytest.mark.parametrize("partitions", [[LEDGER], []], ids=["assigned", "empty"])
def test_metadata_that_no_broker_checks_is_refused(
    consumer: FakeConsumer, raw: bytes, partitions: list[TopicPartition]
) -> None:
    """Any zombie could commit under it, so the lead is gone instead.

    Mutation tried: without the check the second thing told is `held` with these bytes.
    """
    told: list[tuple[str, object]] = []
    with member(told) as one:
        one._assigned(consumer, [LEDGER])
        consumer.metadata = raw
        one._assigned(consumer, partitions)
    assert [kind for kind, _ in told] == ["held", "gone"]


@pytest.mark.parametrize("loss", ["_revoked", "_lost"])
def test_a_lost_partition_is_the_end(consumer: FakeConsumer, loss: str) -> None:
    """Said once, and whatever is assigned afterwards is not taken for a lead."""
    told: list[tuple[str, object]] = []
    with member(told) as one:
        one._assigned(consumer, [LEDGER])
        getattr(one, loss)(consumer, [LEDGER])
        consumer.metadata = CHECKED
        one._assigned(consumer, [LEDGER])
        getattr(one, loss)(consumer, [LEDGER])
    assert [kind for kind, _ in told] == ["held", "gone"]


def test_a_standby_loses_nothing(consumer: FakeConsumer) -> None:
    """It never led, so it may wait on."""
    told: list[tuple[str, object]] = []
    with member(told) as one:
        one._assigned(consumer, [])
        one._lost(consumer, [])
        one._revoked(consumer, [])
    assert told == [("waiting", None)]


def test_a_member_that_waits_for_long_leaves_when_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clean stop does not wait for the look at its stop signal, of which an idle member has few.

    Mutation tried: without waking it `close` gives up when its time is over.
    """
    monkeypatch.setattr("headrace.kafka.leadership._LONG_POLL_SECONDS", 240.0)
    with member([]) as made:
        assert made.close(40)


@pytest.mark.parametrize(
    ("given", "session_ms", "expected"),
    [
        pytest.param({}, 10_000, 1_000, id="each second"),
        pytest.param({}, 2_000, 400, id="five times a session"),
        pytest.param({"heartbeat.interval.ms": "300"}, 10_000, 300, id="more often as it is given"),
        pytest.param({"heartbeat.interval.ms": "15000"}, 60_000, 1_000, id="no less often"),
    ],
)
def test_how_often_a_member_is_heard_of(given: dict[str, str], session_ms: int, expected: int) -> None:
    """A standby learns by its own heartbeat that the leader has left."""
    assert heartbeat_ms(given, session_ms) == expected
