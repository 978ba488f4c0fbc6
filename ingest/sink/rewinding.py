"""A partition that is to be archived again from another offset: whether it can be, and what it becomes."""

from headrace.model.sink_entries import PartitionCheckpoint, TopicPartition
from headrace.options.choices import OffsetReset
from ingest.sink.effects import SinkEffectsBuilder
from ingest.sink.entries import LedgerEntries
from ingest.sink.starting import Refused


def refused_rewind(entries: LedgerEntries, partition: TopicPartition) -> Refused | None:
    """Why the partition cannot continue elsewhere now; None when it can."""
    if partition not in entries.states:
        return Refused(reason="unknown_partition", sentence=f"{partition} is no partition of this sink.")
    state = entries.states[partition]
    in_use = not state.is_free or state.pending or entries.is_unwritten(state.key)
    if not in_use and state.found is not None:
        return None
    return Refused(
        reason="partition_in_use",
        sentence=f"{partition} is {state.condition}: pause the connector, and rewind it once nothing "
        "of the partition is open or pending.",
    )


def rewound(
    entries: LedgerEntries,
    effects: SinkEffectsBuilder,
    partition: TopicPartition,
    offset: int | None,
    reset: OffsetReset,
) -> PartitionCheckpoint:
    """Where the partition continues, written; what the ledger has of its objects is removed.

    None: where a partition begins that was never read. Only for what `refused_rewind` lets pass.
    """
    state = entries.states[partition]
    assert state.found is not None, "only what Kafka has is rewound"
    if offset is None:
        offset = state.found.end if reset is OffsetReset.LATEST else state.found.begin
    for sealed in list(state.objects.values()):
        entries.remove(effects, sealed)
    state.stopped = None
    topic, number = partition
    before = state.checkpoint
    start = PartitionCheckpoint(
        topic=topic,
        partition=number,
        topic_id=state.found.topic_id,
        offset=offset,
        # Names of an earlier topic of this name stay taken, wherever reading goes on.
        is_made_again=before is not None and (before.is_made_again or state.is_made_again),
    )
    entries.write(effects, start)
    return start
