"""What the sink shows of itself: partitions with what they are at, sums, and why it is not ready."""

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.model.sink_entries import ObjectState, SealedObject
from ingest.sink.partitions import PartitionCondition, PartitionState, PartitionStates


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """A partition as status shows it. `slot` holds it; `detail` is the sentence of what stops it.

    `is_gone`: Kafka does not have it, and not only for the moment.
    """

    topic: str
    partition: int
    condition: PartitionCondition
    slot: int | None
    offset: int | None
    position: int | None
    end: int | None
    lag: int
    pending_objects: int
    quarantined_objects: int
    detail: str | None
    is_gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveCounts:
    """Sums over all partitions; ages in ms. `entries` are all objects that the ledger still has."""

    partitions: int
    conditions: dict[str, int]
    lag: int
    entries: int
    pending_objects: int
    quarantined_objects: int
    oldest_pending_ms: int | None
    oldest_pending: SealedObject | None = None


def status_of(state: PartitionState) -> PartitionStatus:
    """The partition as status shows it."""
    of_state = [one.state for one in state.objects.values()]
    return PartitionStatus(
        topic=state.partition.topic,
        partition=state.partition.partition,
        condition=state.condition,
        slot=state.last_slot if state.batch is not None else None,
        offset=None if state.checkpoint is None else state.checkpoint.offset,
        position=state.position,
        end=state.end,
        lag=state.lag,
        pending_objects=of_state.count(ObjectState.PENDING),
        quarantined_objects=of_state.count(ObjectState.QUARANTINED),
        detail=_detail(state),
        is_gone=state.is_gone,
    )


def counts_of(states: PartitionStates, now_ms: int) -> ArchiveCounts:
    """Sums over all partitions; `now_ms` is since 1970."""
    conditions: dict[str, int] = {}
    for state in states:
        conditions[state.condition.value] = conditions.get(state.condition.value, 0) + 1
    pending = list(states.objects(ObjectState.PENDING))
    oldest = min(pending, key=lambda one: one.sealed_ms, default=None)
    return ArchiveCounts(
        partitions=sum(conditions.values()),
        conditions=conditions,
        lag=sum(state.lag for state in states),
        entries=sum(len(state.objects) for state in states),
        pending_objects=len(pending),
        quarantined_objects=sum(1 for _ in states.objects(ObjectState.QUARANTINED)),
        oldest_pending_ms=None if oldest is None else max(0, now_ms - oldest.sealed_ms),
        oldest_pending=oldest,
    )


def problems_of(
    states: Iterable[PartitionState],
    counts: ArchiveCounts,
    *,
    members: tuple[str, ...],
    group: str,
    max_pending: int,
    max_pending_age_ms: int,
) -> tuple[str, ...]:
    """Why the sink is not ready, a sentence each."""
    problems: list[str] = []
    if members:
        problems.append(active_members(group, members))
    if counts.pending_objects > max_pending:
        problems.append(
            f"{counts.pending_objects} sealed objects wait to be completed, more than {max_pending}: S3 "
            "completes uploads more slowly than they are sealed, or not at all."
        )
    oldest = counts.oldest_pending
    if counts.oldest_pending_ms is not None and counts.oldest_pending_ms > max_pending_age_ms and oldest:
        problems.append(
            f"s3://{oldest.bucket}/{oldest.main.key} (offsets {oldest.first_offset} to "
            f"{oldest.last_offset} of {oldest.partition_of}) is sealed and has waited "
            f"{counts.oldest_pending_ms // 1000} s to be "
            "completed: the log shows what S3 answers, and `headrace check` what is missing."
        )
    problems += [detail for state in states if (detail := _detail(state)) is not None]
    return tuple(problems)


def active_members(group: str, members: Iterable[str]) -> str:
    """The sentence for a group in which another client consumes."""
    return (
        f"The group {group!r} has active members ({', '.join(sorted(members))}): stop the connector that "
        "consumes in it, or give this sink another `name`; until then nothing is archived."
    )


def _detail(state: PartitionState) -> str | None:
    if state.stopped is not None:
        stopped = state.stopped
        return f"{state.partition} is at offset {stopped.offset} ({stopped.reason}): {stopped.message}"
    return None if state.refused is None else state.refused.sentence
