"""The group commit: a transaction's first request, accepted only from the current generation."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from confluent_kafka import KafkaException, Producer, TopicPartition

from headrace.process.threads import start_thread

# After this long a call that has not returned is woken, this often, and then given up.
_PATIENCE_SECONDS: Final = 2.0
_NUDGE_SECONDS: Final = 0.5
_GRACE_SECONDS: Final = 10.0


def group_offsets(ledger_topic: str) -> list[TopicPartition]:
    """What every transaction of this ingester commits for the group before anything else.

    Only that the broker checks the member and generation matters: the offset itself means nothing.
    """
    return [TopicPartition(ledger_topic, 0, 0)]


def send_group_commit(
    producer: Producer,
    offsets: Sequence[TopicPartition],
    group: bytes,
    seconds: float,
    *,
    on_stuck: Callable[[], None],
) -> None:
    """`send_offsets_to_transaction`, whose time limit librdkafka does not keep; blocks, KafkaException.

    When the group coordinator's connection goes away at the wrong moment the call waits for a change of some
    connection, which may never come (confluentinc/librdkafka#5456, seen within a minute of cut connections).
    A request about topics opens one. Where that does not help `on_stuck` is called, from another thread,
    about ten seconds after the time limit: nothing but the end of the process gets the caller out then.
    """
    with _watched(producer, seconds + _GRACE_SECONDS, on_stuck):
        producer.send_offsets_to_transaction(list(offsets), group, seconds)


@contextmanager
def _watched(producer: Producer, seconds: float, on_stuck: Callable[[], None]) -> Iterator[None]:
    ended = threading.Event()
    deadline = time.monotonic() + seconds

    def watch() -> None:
        pause = _PATIENCE_SECONDS
        while not ended.wait(pause):
            if time.monotonic() > deadline:
                on_stuck()
                return
            with suppress(KafkaException):
                producer.list_topics(timeout=1.0)
            pause = _NUDGE_SECONDS

    start_thread(watch, name="group-commit-watch")
    try:
        yield
    finally:
        ended.set()
