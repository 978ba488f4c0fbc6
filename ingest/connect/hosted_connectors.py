"""Which worker runs which connector, those that none runs, and a worker's own, started and stopped.

The worker that leads spreads connectors evenly, and moves as few as possible.
"""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Final

import structlog

from headrace.kafka.control_records import ConnectorRecord, WorkersRecord
from headrace.model.text_formatting import and_more
from ingest.connect.hosted_connector import HostedConnector, HostedPort
from ingest.http.rest.port import NotLeading

_log = structlog.get_logger(__name__)


def assign(
    connectors: Collection[str], workers: Collection[str], before: Mapping[str, Collection[str]]
) -> dict[str, tuple[str, ...]]:
    """The connectors of each worker, sorted: each connector once, no worker with two more than another.

    A connector stays where it was `before` unless its worker is gone, or has more than its share.
    """
    if not workers:
        return {}
    least, more = divmod(len(connectors), len(workers))
    kept: dict[str, list[str]] = {}
    taken: set[str] = set()
    # Who has most may keep one more than the others, so that nothing moves for the rest's sake.
    for worker in sorted(workers, key=lambda one: (-len(before.get(one, ())), one)):
        room = least + (1 if more > 0 else 0)
        mine = [one for one in sorted(before.get(worker, ())) if one in connectors and one not in taken][
            :room
        ]
        if len(mine) > least:
            more -= 1
        kept[worker] = mine
        taken.update(mine)
    for connector in sorted(set(connectors) - taken):
        worker = min(kept, key=lambda one: (len(kept[one]), one))
        kept[worker].append(connector)
    return {worker: tuple(sorted(kept[worker])) for worker in sorted(kept)}


# Files do not change on all machines at once: a volume of a ConfigMap takes a minute.
_LATE_SECONDS: Final = 60.0
_SHOWN: Final = 5


class Unplaced:
    """The connectors that no worker runs, as far as a worker knows that does not lead.

    The worker that leads spreads those that it has itself. One that only another worker has is run by none,
    and neither is one that is given to a worker that does not have it. One thread looks, any may read.
    """

    def __init__(self, own_id: str, place: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._own_id = own_id
        self._place = place
        self._clock = clock
        self._since: Mapping[str, float] = {}
        self._problem: str | None = None

    @property
    def names(self) -> Collection[str]:
        """Those that no worker runs at present, for however short a time."""
        return self._since.keys()

    @property
    def problem(self) -> str | None:
        """Which none has run for a minute, and why, in a sentence; None without any."""
        return self._problem

    def look(self, workers: WorkersRecord | None, known: Collection[str]) -> None:
        """Compare what the workers run with what this one knows; None: that cannot be judged at present."""
        lacking: set[str] = set()
        unknown: set[str] = set()
        if workers is not None and self._own_id in workers.workers:
            lacking = set(workers.workers[self._own_id].connectors) - set(known)
            unknown = set(known).difference(*(one.connectors for one in workers.workers.values()))
        now = self._clock()
        since = {name: self._since.get(name, now) for name in lacking | unknown}
        late = {name for name, at in since.items() if now - at >= _LATE_SECONDS}
        problem = None if workers is None else self._sentence(workers.leader, lacking & late, unknown & late)
        if problem not in {None, self._problem}:
            _log.warning("connectors_not_run", error=problem)
        self._since, self._problem = since, problem

    def _sentence(self, leader: str, lacking: Collection[str], unknown: Collection[str]) -> str | None:
        found = []
        if lacking:
            found.append(f"this worker is to run {_first(lacking)}, which {self._place} does not have")
        if unknown:
            found.append(
                f"no worker is given {_first(unknown)}: {self._place} has them, and the worker that leads, "
                f"{leader}, does not"
            )
        if not found:
            return None
        return (
            f"{'; '.join(found)}. They run nowhere: workers of one group.id need the same connectors, from "
            "the same files (--connectors) or all by requests. Workers of other files need another group.id"
        )


def _first(names: Collection[str]) -> str:
    return and_more(sorted(names)[:_SHOWN], len(names))


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
