"""When `run --until-idle` is over, and how it receives until then."""

import pytest

from ingest.service.idle import Patience, UntilIdle, listening, waits_sentence
from tests.headrace.options.loading import load_with

_QUEUE = "https://sqs.eu-west-1.amazonaws.com/123456789012/uploads"


@pytest.mark.parametrize(
    ("has_queue", "listed", "answers", "is_idle", "over"),
    [
        (True, True, (1, 0, 0), True, True),
        (True, True, (0, 1, 0), True, False),
        (True, True, (0, 0), False, False),
        (True, False, (0, 0), True, False),
        (False, True, (), True, True),
        (False, False, (), True, False),
    ],
)
def test_it_is_over_when_nothing_can_come(
    has_queue: bool, listed: bool, answers: tuple[int, ...], is_idle: bool, over: bool
) -> None:
    """All was listed, the queue was found empty twice in a row, and nothing is left to do."""
    until_idle = UntilIdle(has_queue=has_queue, patience=Patience(60.0))
    until_idle.begun("bucket", 1)
    if listed:
        until_idle.listed("bucket", 1)
    for messages in answers:
        until_idle.received(messages)

    assert until_idle.is_over(is_idle=is_idle) is over


def test_a_listing_that_began_before_it_was_asked_for_does_not_count() -> None:
    """Its pages may have passed what it was asked for."""
    until_idle = UntilIdle(has_queue=False, patience=Patience(60.0))
    for number in (1, 2):
        until_idle.begun("bucket", number)
    until_idle.listed("bucket", 2)
    assert not until_idle.has_listed
    until_idle.listed("bucket", 1)
    assert until_idle.has_listed

    until_idle.list_again()

    until_idle.listed("bucket", 2)
    assert not until_idle.has_listed
    until_idle.begun("bucket", 3)
    until_idle.listed("bucket", 3)
    assert until_idle.has_listed


@pytest.mark.parametrize(("given", "waits"), [("20", 2), ("1", 1)])
def test_its_end_is_not_held_up_by_receives(given: str, waits: int) -> None:
    """Twice twenty seconds without a message are no part of a run whose work is done."""
    settings = load_with({"sqs.queue.url": _QUEUE, "sqs.wait.time.seconds": given})

    sqs = listening(settings).sqs

    assert sqs is not None
    assert sqs.wait_time_seconds == waits


def test_without_a_queue_nothing_is_received() -> None:
    """The settings are as they were."""
    settings = load_with({"sqs.queue.url": None})

    assert listening(settings) is settings


@pytest.mark.parametrize(
    ("waits_for", "last_error", "end"),
    [
        (["topic_missing (2 objects)"], "s3://b/k: no.", "(2 objects). The last error: s3://b/k: no."),
        (["sqs.queue.url: it is not there. Correct it."], None, ": it is not there. Correct it."),
        (["sqs.queue.url: it is away."], "it is away.", ": it is away."),
        (["one.", "two."], None, "outside: one; two."),
    ],
)
def test_what_it_waited_for_is_said_once(waits_for: list[str], last_error: str | None, end: str) -> None:
    """Of a missing queue it ended in two full stops, and in a last error that was none."""
    assert waits_sentence(waits_for, last_error).endswith(end)
