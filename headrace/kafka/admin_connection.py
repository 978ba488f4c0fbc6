"""Admin clients: one for everything in this process that connects to the same brokers in the same way.

A client is three or four threads that wake once a second, whatever it is asked: a worker has hundreds of
connectors, and each asks from several places.

How old brokers are, by the requests that they offer: Kafka has no question for its version.
"""

import logging
import re
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from headrace.kafka.kafka_clients import Properties, new_admin
from headrace.model.errors import InvalidConfiguration

# Files that a client reads once, when it is made (certificates, keys, a keytab).
_FILES: Final = (".location", ".keytab")

_Key = tuple[tuple[str, str, int], ...]


class _ConnectionState:
    """What the connections of a client last failed with, and whether none is left. Thread-safe.

    Apart from the client, which refers to it: together they would be a circle, and outlive their last user.
    """

    def __init__(self) -> None:
        self.trouble: tuple[float, KafkaError] | None = None
        self.is_alone = False

    def on_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 - how the library names local codes
            self.is_alone = True
        else:
            self.trouble = (time.monotonic(), error)


class AdminConnection:
    """An admin client that several share; it ends with the last of them. Thread-safe."""

    def __init__(self, properties: Properties) -> None:
        self._state = _ConnectionState()
        self.client: AdminClient = new_admin(properties, on_error=self._state.on_error)

    @property
    def is_alone(self) -> bool:
        """Whether no broker has answered since all were lost: librdkafka says so once, not each time."""
        return self._state.is_alone

    def poll(self) -> None:
        """Pick up what connections have failed with."""
        self.client.poll(0)

    def answered(self) -> None:
        """A broker has answered."""
        self._state.is_alone = False

    def trouble_since(self, moment: float) -> KafkaError | None:
        """What a connection last failed with, where that was after this moment (monotonic)."""
        trouble = self._state.trouble
        return None if trouble is None or trouble[0] < moment else trouble[1]


_lock = threading.Lock()
_connections: WeakValueDictionary[_Key, AdminConnection] = WeakValueDictionary()


def shared_admin(properties: Properties) -> AdminConnection:
    """The connection of all who have these properties, for as long as one of them keeps it.

    Another one where a file that they name has changed: who starts after certificates were renewed uses them.
    """
    key = tuple(sorted((name, value, _changed_ns(name, value)) for name, value in properties.items()))
    with _lock:
        found = _connections.get(key)
        if found is None:
            found = _connections[key] = AdminConnection(properties)
        return found


def _changed_ns(name: str, value: str) -> int:
    """When the file that a property names was written; 0 for another property, or without the file."""
    if not name.endswith(_FILES):
        return 0
    try:
        return Path(value).stat().st_mtime_ns
    except OSError:
        return 0


# What Apache Kafka 3.0 brought, by API key: the least version of the request that no 2.x broker offers
# (https://kafka.apache.org/protocol). Who offers one of them is not refused: brokers of other makers speak
# Kafka's protocol with gaps of their own.
_SINCE_3_0: Final[Mapping[int, int]] = {
    2: 7,  # ListOffsets, KIP-734
    9: 8,  # OffsetFetch, KIP-709
    10: 4,  # FindCoordinator, KIP-699
    65: 0,  # DescribeTransactions, KIP-664
    66: 0,  # ListTransactions, KIP-664
}
# What librdkafka writes of each request when it was asked for its debug context `feature`; there is no call.
_OFFERED: Final = re.compile(r"ApiKey \S+ \((\d+)\) Versions \d+\.\.(\d+)")
# What it writes behind them.
_BEHIND: Final = "abling feature"
_POLL_SECONDS: Final = 0.02
_GRACE_SECONDS: Final = 2.0

# Clients that must not be ended yet.
_unanswered: Final[list[AdminClient]] = []


def is_too_old(offered: Mapping[int, int]) -> bool:
    """Whether these are the highest versions of a 2.x broker, by API key; of no answer nothing is said."""
    return bool(offered) and not any(offered.get(key, -1) >= least for key, least in _SINCE_3_0.items())


def require_brokers(properties: Properties, *, timeout: float) -> None:
    """InvalidConfiguration when the brokers are too old; of brokers that do not answer nothing is said."""
    if is_too_old(offered_versions(properties, timeout=timeout)):
        raise InvalidConfiguration(
            f"The brokers at {properties.get('bootstrap.servers', '')} are older than Apache Kafka 3.0, "
            "which is the oldest that Headrace supports: update them (docs/support.md)."
        )


def offered_versions(properties: Properties, *, timeout: float) -> dict[int, int]:
    """The highest version of each request that a broker offers, by API key; empty without answer. Blocks."""
    lines = _Lines()
    # One of its own for each call: the connectors of a worker start together, and ask at once.
    logger = logging.Logger(f"{__name__}.lines", logging.DEBUG)  # noqa: LOG001  # getLogger gives all the same
    logger.addHandler(lines)
    admin = new_admin({**properties, "debug": "feature"}, logger=logger)
    # The client gives up by itself before this.
    deadline = time.monotonic() + timeout + _GRACE_SECONDS
    # Any request: it makes the client connect, and a broker's versions come before its answer.
    answer = admin.describe_cluster(request_timeout=timeout)
    # Until the answer, though the versions come before it: librdkafka 2.16 dereferences NULL when it meets a
    # client that is being ended (seen: SIGSEGV, in one of fifty starts).
    while not answer.done() and time.monotonic() < deadline:
        admin.poll(_POLL_SECONDS)
    if not answer.done():
        _unanswered.append(admin)
    while not lines.is_complete and admin.poll(0):
        pass
    # Of a list that is cut short nobody knows what it would have said.
    return lines.offered if lines.is_complete else {}


class _Lines(logging.Handler):
    """Picks the versions out of librdkafka's lines; of several brokers the oldest counts."""

    def __init__(self) -> None:
        super().__init__()
        self.offered: dict[int, int] = {}
        self.is_complete = False

    def emit(self, record: logging.LogRecord) -> None:
        """One line, in the thread that polls."""
        line = record.getMessage()
        self.is_complete |= bool(self.offered) and _BEHIND in line
        found = _OFFERED.search(line)
        if found is not None:
            key, highest = int(found[1]), int(found[2])
            self.offered[key] = min(highest, self.offered.get(key, highest))
