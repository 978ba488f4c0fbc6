"""How an ingester is: as its service says, or else as its ledger does, which is read without leading.

What is committed and visible goes into a private cache.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from headrace.kafka.admin import CALL_SECONDS, KafkaAdmin
from headrace.kafka.cache_files import CachedEntry
from headrace.kafka.control_records import target_of
from headrace.kafka.kafka_clients import client_properties
from headrace.kafka.leadership import group_id
from headrace.kafka.ledger_cache import LedgerCache
from headrace.kafka.ledger_reader import LedgerReader, lost_ledger, open_ledger_reader
from headrace.model.clock import wall_ms
from headrace.model.ledger_entry import ControlKey, State
from headrace.model.positions import position_as_dict, position_text
from headrace.model.sink_entries import (
    ObjectState,
    PartitionCheckpoint,
    SealedObject,
    decode_sink_entry,
    is_sink_key,
)
from headrace.options import Settings
from headrace.process.own_process import own_version
from ingest.checks.probes.machine import NoAnswer, read_running_status
from ingest.http.snapshot import SinkPartition, SinkStatus, Snapshot, newest_quarantined


def has_leader(admin: KafkaAdmin, name: str) -> bool:
    """Whether a member of the ingester's group holds the ledger. Blocks on one call.

    A process that was killed still counts for a session timeout (`lead.session.timeout.ms`).
    """
    return bool(admin.group_topics(group_id(name)))


Shape = dict[str, Any]

_UNFINISHED = (State.PARTIAL, State.FAILED, State.NEW)


class StatusReader:
    """Asks again and again, opening the ledger at most once; `close` when done. All calls block.

    One that is not there is looked for once by each `status`, and by `entries` where none came before.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        timeout: float,
        open_ledger: Callable[..., LedgerReader | None] = open_ledger_reader,
    ) -> None:
        self._settings = settings
        self._timeout = timeout
        self._open_ledger = open_ledger
        self._ledger_reader: LedgerReader | None = None
        self._is_missing = False

    def status(self) -> Shape:
        """The shape of `/status` with `source` (`service` or `ledger`) and, for a ledger, `why` next to it.

        Unavailable, AccessDenied, InvalidLedger when the service is silent and the ledger cannot be read.
        """
        self._is_missing = False
        answer = read_running_status(self._settings.http.listen, name=self._settings.name)
        if isinstance(answer, NoAnswer):
            found = self._from_ledger()
            # Of one that was lost, `problems` has more to say.
            is_missing = self._cache() is None and "ledger" not in found["problems"]
            why = why_ledger(self._settings, answer.why, is_missing=is_missing)
            return {"source": "ledger", "why": why, **found}
        return {"source": "service", **answer}

    def entries(self, states: frozenset[State], key: str | None) -> list[Shape]:
        """The ledger's entries of this key and in these states (none: any), by bucket and key."""
        cache = self._cache()
        if cache is None:
            return []
        return [
            entry_shape(known)
            for known in _chosen(cache, self._settings.buckets, key, states)
            if not states or known.state in states
        ]

    def close(self) -> None:
        """Close the ledger, if it was opened."""
        if self._ledger_reader is not None:
            self._ledger_reader.close()

    def _cache(self) -> LedgerCache | None:
        """The ledger's cache; None when there is no ledger yet."""
        if self._ledger_reader is None and not self._is_missing:
            self._ledger_reader = self._open_ledger(self._settings, timeout=self._timeout)
            self._is_missing = self._ledger_reader is None
        return None if self._ledger_reader is None else self._ledger_reader.cache

    def _from_ledger(self) -> Shape:
        admin = KafkaAdmin(client_properties(self._settings).admin, timeout=min(CALL_SECONDS, self._timeout))
        role = "leader" if has_leader(admin, self._settings.name) else "stopped"
        cache = self._cache()
        shape = ledger_shape(self._settings, role, cache)
        lost = lost_ledger(self._settings, timeout=self._timeout)
        if lost is not None:
            shape["problems"] = {**shape["problems"], "ledger": str(lost)}
        return shape


def why_ledger(settings: Settings, why: str, *, is_missing: bool) -> str:
    """Why the ledger is read, with its name where there is none: a name that was mistyped has none."""
    return f"{why}; the ledger {settings.kafka.ledger_topic!r} is not there yet" if is_missing else why


def ledger_shape(settings: Settings, role: str, cache: LedgerCache | None) -> Shape:
    """The shape of `/status`, as far as the ledger has it; without a ledger nothing has begun."""
    target = target_of({} if cache is None else cache.controls())
    snapshot = Snapshot(name=settings.name, version=own_version(), role=role, target=target, at_ms=wall_ms())
    if settings.sink is not None:
        controls = () if cache is None else cache.controls().items()
        return replace(snapshot, sink=sink_status(controls)).as_dict()
    buckets = settings.buckets
    counts = {} if cache is None else cache.counts_in(buckets)
    return replace(
        snapshot,
        buckets=buckets,
        objects={str(state): count for state, count in counts.items()},
        pending_objects=sum(counts.get(state, 0) for state in _UNFINISHED),
        pending_bytes=0
        if cache is None
        else sum(known.entry.size for known in cache.unfinished() if known.id.bucket in buckets),
        last_error=_last_error(cache, buckets),
        quarantined=() if cache is None else newest_quarantined(cache, buckets),
    ).as_dict()


def sink_status(controls: Iterable[tuple[ControlKey, bytes]]) -> SinkStatus:
    """What the ledger says of a sink: offsets, and objects that are not visible yet.

    Of topics it says nothing: their ends, and so the lag, and which are missing are not known.
    """
    entries = [decode_sink_entry(key, raw) for key, raw in controls if is_sink_key(key)]
    states = Counter((one.partition_of, one.state) for one in entries if isinstance(one, SealedObject))
    partitions = tuple(
        SinkPartition(
            topic=one.topic,
            partition=one.partition,
            state="known",
            slot=None,
            offset=one.shown_offset,
            position=None,
            end=None,
            lag=None,
            pending_objects=states[one.partition_of, ObjectState.PENDING],
            quarantined_objects=states[one.partition_of, ObjectState.QUARANTINED],
            detail=None,
        )
        for one in entries
        if isinstance(one, PartitionCheckpoint)
    )
    return SinkStatus(
        lag=None,
        missing_topics=None,
        pending_objects=sum(one.pending_objects for one in partitions),
        quarantined_objects=sum(one.quarantined_objects for one in partitions),
        partitions=tuple(sorted(partitions, key=lambda one: (one.topic, one.partition))),
    )


def entry_shape(known: CachedEntry) -> Shape:
    """An entry of the ledger as `status --json` shows it."""
    entry = known.entry
    return {
        "bucket": known.id.bucket,
        "key": known.id.key,
        "etag": known.id.etag,
        "state": str(entry.state),
        "reason": entry.reason,
        "records": entry.records,
        "bad": entry.bad,
        "position": None if entry.position is None else position_as_dict(entry.position),
        "stopped_at": position_text(entry.position),
        "topic": entry.topic,
        "partition": entry.partition,
        "attempts": entry.attempts,
        "error": entry.error,
        "size": entry.size,
        "version_id": entry.version_id,
        "last_modified_ms": entry.last_modified_ms,
        "updated_ms": entry.updated_ms,
    }


def _chosen(
    cache: LedgerCache, buckets: Sequence[str], key: str | None, states: Iterable[State]
) -> Iterator[CachedEntry]:
    if key is not None:
        for bucket in buckets:
            yield from cache.of_key(bucket, key)
        return
    found = [known for state in states for known in cache.by_state(state, -1) if known.id.bucket in buckets]
    yield from sorted(found, key=lambda known: known.id)


def _last_error(cache: LedgerCache | None, buckets: Sequence[str]) -> str | None:
    """What the object of these buckets that failed last failed with."""
    if cache is None:
        return None
    failed = [
        known.entry
        for state in (State.FAILED, State.QUARANTINED)
        for bucket in buckets
        for known in cache.by_state(state, -1, bucket=bucket)
    ]
    newest = max(failed, key=lambda entry: entry.updated_ms, default=None)
    return None if newest is None else newest.error or newest.reason
