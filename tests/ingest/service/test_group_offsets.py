"""The leader's own transactions: what is repeated, what is left out, what ends the leadership."""

import queue
from collections.abc import Sequence
from typing import Any

from confluent_kafka import TopicPartition

from headrace.kafka.ledger_writer import GroupOffsets
from headrace.model.errors import TopicMissing
from headrace.model.ledger_entry import ControlKey
from ingest.service.ledger_writes import LedgerWrites
from ingest.service.service_events import Fatal


class _Ledger:
    """A broker that has no topic `gone`, and perhaps no ledger."""

    def __init__(self, *, has_ledger: bool = True) -> None:
        self.has_ledger = has_ledger
        self.committed: list[tuple[Sequence[Any], GroupOffsets | None]] = []

    def commit(self, writes: Sequence[Any], *, other: GroupOffsets | None) -> None:
        if not self.has_ledger or (other is not None and any(one.topic == "gone" for one in other.offsets)):
            raise TopicMissing("Unknown topic or partition.")
        self.committed.append((writes, other))


def _written(ledger: Any, *topics: str) -> object:
    posted: queue.SimpleQueue[object] = queue.SimpleQueue()
    writes = LedgerWrites(ledger, posted.put)
    try:
        other = GroupOffsets(b"group", tuple(TopicPartition(each, 0, 5) for each in topics))
        writes.submit_records([(ControlKey("k"), b"v")], "written", other=other)
        return posted.get(timeout=60)
    finally:
        writes.close(10)


def test_offsets_of_a_topic_that_is_gone_do_not_end_the_leader() -> None:
    """They are for tools that show the lag; the records of the ledger are what counts."""
    ledger = _Ledger()
    assert _written(ledger, "there", "gone") == "written"
    ((writes, other),) = ledger.committed
    assert (writes, other) == ([(ControlKey("k"), b"v")], None)
    assert _written(ledger, "there") == "written"
    assert ledger.committed[-1][1] is not None


def test_a_ledger_that_is_gone_does() -> None:
    """Nothing can be remembered any more."""
    assert isinstance(_written(_Ledger(has_ledger=False), "there"), Fatal)
