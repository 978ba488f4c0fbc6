"""What moves a start of a slot on: what its task says, what it is asked, how its job ends."""

import pytest

from headrace.model.slot_protocol import BatchOutcome, Finished
from spark.slots.slot_attempt import AttemptState, SlotAttempt


def attempt(stage: AttemptState) -> SlotAttempt:
    """A start that has come so far, without a connection."""
    return SlotAttempt(slot=0, number=1, last_worker=None, stage=stage)


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (BatchOutcome.CLEAN, (AttemptState.BUSY, True)),
        (BatchOutcome.ABORTED, (AttemptState.ENDING, True)),
        (BatchOutcome.UNKNOWN, (AttemptState.ENDING, False)),
    ],
    ids=["clean", "aborted", "in doubt"],
)
def test_a_task_ends_by_itself_unless_its_batch_was_clean(
    outcome: BatchOutcome, expected: tuple[AttemptState, bool]
) -> None:
    """An aborted batch leaves nothing in doubt."""
    start = attempt(AttemptState.BUSY)
    start.finish(Finished(batch=1, outcome=outcome))

    assert (start.stage, start.clean) == expected
    assert (start.batches, start.plan) == (1, None)


@pytest.mark.parametrize(
    ("stage", "then"),
    [
        (AttemptState.STARTING, AttemptState.STARTING),
        (AttemptState.READY, AttemptState.ENDING),
        (AttemptState.BUSY, AttemptState.BUSY),
        (AttemptState.LOST, AttemptState.LOST),
    ],
    ids=["starting", "ready", "busy", "lost"],
)
def test_an_end_is_wanted(stage: AttemptState, then: AttemptState) -> None:
    """Who starts ends once it is ready, who works ends once it has committed."""
    start = attempt(stage)
    start.ask_to_end()

    assert (start.end_wanted, start.stage) == (True, then)


def test_a_lost_connection_is_news_once_and_none_of_one_that_ends() -> None:
    """A task that ends closes its side."""
    start = attempt(AttemptState.BUSY)
    assert start.lose("gone")
    assert not start.lose("again")
    assert (start.stage, start.clean, start.error) == (AttemptState.LOST, False, "gone")
    assert not attempt(AttemptState.ENDING).lose("closed")


@pytest.mark.parametrize(
    ("stage", "said", "error", "expected"),
    [
        (AttemptState.ENDING, None, None, (True, None)),
        (AttemptState.BUSY, None, None, (False, "its task ended without being asked to")),
        (AttemptState.LOST, "out of memory", "out of memory", (False, "out of memory")),
        (AttemptState.LOST, None, "the job failed", (False, "the connection is gone")),
    ],
    ids=["as asked", "unasked", "said", "not said"],
)
def test_how_its_job_ended(
    stage: AttemptState, said: str | None, error: str | None, expected: tuple[bool, str | None]
) -> None:
    """What the task says of it is better than that its connection is gone, and that than Spark's words."""
    start = attempt(stage)
    if stage is AttemptState.LOST:
        start.error = "the connection is gone"
    start.conclude(said, error)

    assert (start.clean, start.error) == expected
