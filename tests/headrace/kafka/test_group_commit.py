"""A call of librdkafka that does not keep its time limit is helped along, and given up in the end."""

import threading

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.kafka import fencing as commit_module
from headrace.kafka.fencing import group_offsets, send_group_commit


class Stubborn:
    """Returns from `send_offsets_to_transaction` after so many questions about topics, or never by itself."""

    def __init__(self, *, helped_by: int) -> None:
        self.asked = 0
        self.returns = threading.Event()
        self._helped_by = helped_by

    def send_offsets_to_transaction(self, *_: object) -> None:
        """As librdkafka does in confluentinc/librdkafka#5456."""
        assert self.returns.wait(60), "nobody helped"

    def list_topics(self, **_: float) -> None:
        """Brokers may be away meanwhile, which is no reason to stop asking."""
        self.asked += 1
        if self.asked == self._helped_by:
            self.returns.set()
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same in hundredths of the time."""
    for name, seconds in (("_PATIENCE_SECONDS", 0.05), ("_NUDGE_SECONDS", 0.01), ("_GRACE_SECONDS", 0.2)):
        monkeypatch.setattr(commit_module, name, seconds)


def asked(producer: Stubborn, seconds: float) -> list[str]:
    """Ask; what was called for."""
    stuck: list[str] = []

    def on_stuck() -> None:
        stuck.append(threading.current_thread().name)
        producer.returns.set()

    send_group_commit(producer, group_offsets("ledger"), b"group", seconds, on_stuck=on_stuck)  # type: ignore[arg-type]  # a producer of the test's
    return stuck


def test_a_question_about_topics_helps_it_along() -> None:
    """It opens a connection, whose change the call waits for."""
    producer = Stubborn(helped_by=3)
    assert asked(producer, 20) == []
    # Once more where we are slow to go on.
    assert producer.asked >= 3


def test_one_that_nothing_helps_is_given_up() -> None:
    """By another thread: the caller's does not come back."""
    assert asked(Stubborn(helped_by=-1), 0.1) == ["group-commit-watch"]


def test_one_that_returns_in_time_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """And its watch ends with it."""
    monkeypatch.setattr(commit_module, "_PATIENCE_SECONDS", 60.0)  # as long as a busy machine may need
    producer = Stubborn(helped_by=-1)
    producer.returns.set()
    assert asked(producer, 0.1) == []
    watches = [thread for thread in threading.enumerate() if thread.name == "group-commit-watch"]
    for watch in watches:
        watch.join(60)
        assert not watch.is_alive()
    assert producer.asked == 0
