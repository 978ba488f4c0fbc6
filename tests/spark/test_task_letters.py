"""A dead letter that its topic refuses, whatever was done: its object is quarantined, and no other."""

from collections.abc import Callable

import pytest

from ingest.ledger import State
from ingest.work import Outcome
from tests.spark.scripted_driver import ScriptedDriver
from tests.support.kafka import TopicFactory

pytestmark = pytest.mark.parts


def test_an_object_beside_a_refused_dead_letter_is_not_failed(
    driver: Callable[..., ScriptedDriver], topic: TopicFactory
) -> None:
    """One without rows ends in the transaction of the first letter: it has nothing to do with it."""
    letters = topic("letters", config={"max.message.bytes": "300"})
    one = driver(errors_tolerance="all", errors_deadletterqueue_topic_name=letters)
    blank, bad = one.put("blank", b"\n\n"), one.put("bad", b"{]\n")
    one.ready()

    finished = one.run(one.work(blank), one.work(bad))

    assert finished.outcome is Outcome.ABORTED
    assert [(failure.work.object.id.key, failure.kind) for failure in finished.failures] == [
        ("bad", "RecordRefused")
    ]
    entry = one.entries()[blank.id]
    assert (entry.state, entry.records) == (State.DONE, 0)
