"""The connectors that a worker runs: started, stopped and started again as they come, change and go."""

import time
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from headrace.kafka.control_records import ConnectorRecord
from ingest.connect.hosted_connector import HostedConnector, HostedPort
from ingest.http.rest.port import NotLeading

_log = structlog.get_logger(__name__)

# A clean stop of a connector takes 20 s at most, and some for its clients.
_STOP_SECONDS: Final = 25.0
_LOOK_SECONDS: Final = 0.1
# What an end at once takes: transactions are left to be fenced.
_AT_ONCE_SECONDS: Final = 1.0


class HostedConnectors:
    """`reconcile` and `close` are called by one thread; the rest by any."""

    def __init__(self, new: Callable[[ConnectorRecord], HostedConnector]) -> None:
        self._new = new
        self._running: dict[str, HostedConnector] = {}
        self._stopping: dict[str, HostedConnector] = {}

    def find(self, name: str) -> HostedConnector | None:
        """The connector, while it runs here."""
        return self._running.get(name)

    def reading(self, name: str) -> list[str]:
        """The keys of what the connector reads now; none of one that has failed.

        NotLeading until it leads: an earlier life of it, here or on another worker, may still read.
        """
        hosted = self._running.get(name)
        if hosted is None:
            raise NotLeading(
                "Cannot complete request momentarily: an earlier life of the connector may still run",
                passes=True,
            )
        if hosted.failure is not None:
            return []
        HostedPort(hosted, None).require_leading()
        connector = hosted.connector
        return [] if connector is None else [one.key for one in connector.snapshot_holder.snapshot.reading]

    def all(self) -> dict[str, HostedConnector]:
        """All that run here, by name."""
        return dict(sorted(self._running.copy().items()))

    def reconcile(self, wanted: Mapping[str, ConnectorRecord]) -> None:
        """Stop what is not wanted any more, has changed or is outdated, and start what is; does not block.

        One that has changed starts when the last of its earlier life has ended.
        """
        for name, hosted in list(self._running.items()):
            record = wanted.get(name)
            if record is None or hosted.is_outdated or runs_as(record) != runs_as(hosted.record):
                _log.info("connector_released", connector=name, changed=record is not None)
                hosted.stop()
                self._stopping[name] = self._running.pop(name)
        for name, hosted in list(self._stopping.items()):
            if hosted.join(0.0):
                del self._stopping[name]
        for name, record in wanted.items():
            if name not in self._running and name not in self._stopping:
                self._running[name] = self._new(record)
        for hosted in self._running.values():
            hosted.start()

    def close(self, is_urgent: Callable[[], bool]) -> None:
        """Stop all together and wait for it; what is not over in time, or urgent, is given up."""
        self.reconcile({})
        deadline = time.monotonic() + _STOP_SECONDS
        for hosted in self._stopping.values():
            while not hosted.join(_LOOK_SECONDS):
                if is_urgent() or time.monotonic() > deadline:
                    hosted.stop(at_once=True)
                    hosted.join(_AT_ONCE_SECONDS)
                    break


def runs_as(record: ConnectorRecord) -> tuple[object, ...]:
    """What makes it another connector when it changes: deleted and created again it is one."""
    return record.config, record.problem, record.created_ms
