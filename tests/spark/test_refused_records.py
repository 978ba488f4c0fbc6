"""What was refused when it was sent alone: a row once, its dead letter twice, checkpoints at once."""

import pytest

from headrace.model.objects import ObjectId, Route, S3Object
from headrace.model.positions import BytePosition
from headrace.model.slot_protocol import Split
from spark.source.transaction import RefusedRecords, SplitProgress

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
