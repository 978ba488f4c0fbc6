import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer

from headrace.kafka.librdkafka import Waker

_LONG_SECONDS = 120.0
_SOON_SECONDS = 30.0


@pytest.fixture
def consumer() -> Iterator[Consumer]:
    """A consumer that no record ever reaches."""
    made = Consumer({"group.id": "g", "bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    yield made
    made.close()


def test_a_wait_ends_when_it_is_woken_before_or_meanwhile(consumer: Consumer) -> None:
    """A wake that comes between a look at a stop signal and the wait is not lost.

    Mutation tried: without the call of librdkafka both waits take their two minutes.
    """
    waker = Waker(consumer)
    assert waker.seconds(woken=_LONG_SECONDS, otherwise=0.5) == _LONG_SECONDS
    began = time.monotonic()
    waker.wake()
    assert consumer.consume(1, _LONG_SECONDS) == []
    waits = threading.Thread(target=consumer.consume, args=(1, _LONG_SECONDS), daemon=True)
    waits.start()
    waker.wake()
    waits.join(_SOON_SECONDS)
    assert not waits.is_alive()
    assert time.monotonic() - began < _SOON_SECONDS
    waker.close()
    waker.close()
    waker.wake()


def test_without_librdkafkas_calls_a_wait_is_short(
    consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who cannot wake looks often."""
    monkeypatch.setattr("headrace.kafka.librdkafka.library", lambda: None)
    waker = Waker(consumer)
    assert waker.seconds(woken=_LONG_SECONDS, otherwise=0.5) == 0.5
    waker.wake()
    waker.close()
