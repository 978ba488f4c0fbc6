"""Admin clients: one for everything in this process that connects to the same brokers in the same way.

A client is three or four threads that wake once a second, whatever it is asked: a worker has hundreds of
connectors, and each asks from several places.
"""

import threading
import time
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from headrace.kafka.kafka_clients import Properties, new_admin

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
