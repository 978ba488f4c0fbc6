"""What was refused when it was sent alone: a row once, its dead letter twice, checkpoints at once."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import pytest

from headrace.model.errors import (
    HeadraceError,
    InvalidObject,
    SubjectForbidden,
    TopicForbidden,
    TopicMissing,
    TopicWithoutLeader,
)
from headrace.model.ledger_entry import ERROR_MAX, State, decode_entry, encode_entry
from headrace.model.objects import ObjectId, Route, S3Object
from headrace.model.positions import BytePosition
from headrace.model.slot_protocol import Batch, Checkpoint, Split
from headrace.vendors.load import load
from spark.source.source_work import task_settings
from spark.source.transaction import RefusedRecords, SlotTransaction, SplitProgress

if TYPE_CHECKING:
    from headrace.kafka.producer import SlotProducer
    from spark.task.slot_session import DriverConnection

AT = BytePosition(40)
"""Where the row begins that is refused."""
WHY = " (INVALID_RECORD)"


def under_way(key: str) -> SplitProgress:
    """An object of which rows are being sent."""
    found = S3Object(id=ObjectId("bucket", key, "etag"), size=100, last_modified_ms=0)
    return SplitProgress(Split(object=found, route=Route(topic="orders")))


@pytest.fixture
def progress() -> SplitProgress:
    """The one that meets a refusal."""
    return under_way("orders.jsonl")


def test_an_entry_is_read_back_as_it_was_committed(progress: SplitProgress) -> None:
    """Cut when it was written it was another one: the driver kept the committed one in memory for ever."""
    progress.finish(State.QUARANTINED, reason="not_json", error="x" * (ERROR_MAX + 1))
    entry = progress.checkpoint("options").entry
    assert entry is not None
    assert decode_entry(encode_entry(entry)) == entry


def test_a_row_refused_alone_is_a_bad_one_from_then_on(progress: SplitProgress) -> None:
    """Its split goes on: the next pass sets the row aside."""
    refused = RefusedRecords()
    refused.sends_row(0, lambda: AT)

    assert refused.why_row(0, lambda: AT) is None
    assert refused.narrow(sent=1, touched={progress}, why=WHY) == ()
    assert refused.why_row(0, lambda: AT) == WHY
    assert refused.why_row(1, lambda: AT) is None


def test_a_dead_letter_goes_once_more_without_its_value_then_its_object_fails(
    progress: SplitProgress,
) -> None:
    """Two refusals of the same dead letter are the end of the object's attempt."""
    refused = RefusedRecords()
    refused.sends_row(0, lambda: AT)
    refused.narrow(sent=1, touched={progress}, why=WHY)

    refused.sends_dead_letter(progress, AT)
    assert refused.narrow(sent=1, touched={progress}, why=WHY) == ()
    assert refused.holds_dead_letter(progress, AT)

    refused.sends_dead_letter(progress, AT)
    assert list(refused.narrow(sent=1, touched={progress}, why=WHY)) == [progress]


def test_checkpoints_that_are_refused_have_no_smaller_step(progress: SplitProgress) -> None:
    """All that the transaction touched fails."""
    assert list(RefusedRecords().narrow(sent=0, touched={progress}, why=WHY)) == [progress]


def test_a_dead_letter_of_an_earlier_transaction_is_not_blamed(progress: SplitProgress) -> None:
    """What this transaction did not touch cannot be what was refused in it."""
    other = under_way("other.jsonl")
    refused = RefusedRecords()
    refused.sends_dead_letter(other, AT)

    assert list(refused.narrow(sent=1, touched={progress}, why=WHY)) == [progress]
    assert not refused.holds_dead_letter(other, AT)


class _Producer:
    """Takes every transaction."""

    is_open = False

    def begin(self, group: bytes) -> None:
        """Open one."""
        self.is_open = bool(group)

    def commit(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Close it."""
        self.is_open = bool(checkpoints)


class _Link:
    """A slot that is not void, and a driver who is told nothing."""

    def is_void(self) -> bool:
        """Never."""
        return False

    def send(self, message: object) -> None:
        """Pass it over."""


def transaction() -> SlotTransaction:
    """Of a hundred records at most."""
    given = {
        "name": "orders",
        "bootstrap.servers": "127.0.0.1:1",
        "aws.s3.bucket.name": "orders",
        "topic": "orders",
        "file.name.template": ".*",
        "input.format": "jsonl",
        "transaction.boundary.records": "100",
        "transaction.boundary.interval.ms": "10000",
    }
    settings = load(json.dumps(given), kind="json", environment={"HOME": "/home/me"}, read_file=str)
    return SlotTransaction(
        Batch(number=1, slot=0, group=b"group", splits=(), max_seconds=60.0),
        producer=cast("SlotProducer", _Producer()),
        link=cast("DriverConnection", _Link()),
        settings=task_settings(settings, slots=1),
        take_fetched=Counter,
    )


def test_records_go_alone_after_a_refused_one_and_more_at_once_as_they_are_taken() -> None:
    """Until the transaction is as large as it may be; rows that are bad of themselves change nothing."""
    one, rooms = transaction(), []
    one.narrow(80)
    assert one.room == 40

    one.narrow(1)
    for reason in ("refused", "not_json", *[""] * 8):
        one.make_room()
        if reason:
            one.count_bad(reason)
        assert one.is_due is (reason == "refused")
        one.make_room()
        rooms.append(one.room)
        one.count("orders", one.room, under_way("one"))

    assert rooms == [1, 2, 4, 8, 16, 32, 64, 100, 100, 100]


def test_a_failure_is_reported_in_a_sentence_of_a_bounded_length(progress: SplitProgress) -> None:
    """It goes into the log, `problems` and the ledger; what it quotes may be a proxy's page."""
    progress.fail(InvalidObject("\x1b" + "x" * 2_000_000, reason="schema_refused"))

    message = progress.failure().message
    assert len(message) < 3 * ERROR_MAX
    assert "\x1b" not in message


@pytest.mark.parametrize(
    ("error", "topic"),
    [
        (TopicMissing("gone", topic="dead"), "dead"),
        (TopicMissing("gone"), None),
        (TopicForbidden("no", topic="dead"), "dead"),
        (TopicWithoutLeader("none leads", topic="dead"), "dead"),
        (SubjectForbidden("no", subject="com.example.Order"), None),
    ],
)
def test_a_failure_names_the_topic_that_it_is_about(error: HeadraceError, topic: str | None) -> None:
    """A subject of the registry may be that of a record's name."""
    progress = under_way("orders.jsonl")
    progress.fail(error)
    assert progress.failure().topic == topic
