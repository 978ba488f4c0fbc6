"""The load of a sink's campaign: records into a topic, each different and known by its number."""

import random
import threading
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import Producer

_PAUSE_SECONDS: Final = 0.05
_FLUSH_SECONDS: Final = 120.0


@dataclass(slots=True)
class RecordLoad:
    """Produces in a thread of its own from `start` to `stop`, whatever happens to the broker meanwhile.

    Records are of so many `groups` of very different sizes; the largest has some hundredths of them all.
    """

    bootstrap: str
    topic: str
    groups: int
    per_second: int
    seed: int
    produced: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _unsent: int = 0

    def start(self) -> None:
        """Begin to produce."""
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Produce no more; AssertionError when not everything is acknowledged in the end."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        assert not self._unsent, f"{self._unsent} records were never acknowledged"

    def _run(self) -> None:
        chance = random.Random(self.seed)
        # A record that is sent twice would be two records in Kafka, and be counted as what it is not.
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )
        at_once = max(1, round(self.per_second * _PAUSE_SECONDS))
        while not self._stop.wait(_PAUSE_SECONDS):
            if len(producer) < 50 * at_once:
                for _ in range(at_once):
                    self._produce(producer, chance)
            producer.poll(0)
        self._unsent = producer.flush(_FLUSH_SECONDS)

    def _produce(self, producer: Producer, chance: random.Random) -> None:
        number = self.produced
        group = int(self.groups * chance.random() ** 2)
        value = b'{"group":"g%d","n":%d}' % (group, number)
        producer.produce(self.topic, value, key=b"k%d" % number, headers=[("h", b"h%d" % number)])
        self.produced += 1
