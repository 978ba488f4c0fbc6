"""Where reading a partition begins: by its ledger entries, the group's offset, `auto.offset.reset`.

Functions of a checkpoint and its objects, which also give what a slot is granted and what is to be removed;
nothing here changes them.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

from headrace.model.sink_entries import NO_EPOCH, ObjectState, PartitionCheckpoint, SealedObject
from headrace.model.sink_protocol import EarlierGroups, PartitionGrant
from headrace.options.choices import OffsetReset
from ingest.sink.sink_effects import EarlierArchive, FoundPartition, LostOffsets

Done = tuple[tuple[str, int], ...]


def pending_of(objects: Iterable[SealedObject]) -> tuple[SealedObject, ...]:
    """The objects that are sealed and not completed, in the order in which their names are completed."""
    pending = (one for one in objects if one.state is ObjectState.PENDING)
    return tuple(sorted(pending, key=lambda one: (one.first_offset, one.last_offset, one.id)))


def done_of(objects: Iterable[SealedObject], *, topic_id: str, options: str) -> Done:
    """The last offset of each group that an object covers, in this life of the topic, by these options."""
    done: dict[str, int] = {}
    for one in objects:
        if one.topic_id == topic_id and one.options == options:
            done[one.group] = max(done.get(one.group, one.last_offset), one.last_offset)
    return tuple(sorted(done.items()))


def grant_of(
    checkpoint: PartitionCheckpoint, objects: Collection[SealedObject], *, options: str
) -> PartitionGrant:
    """The partition as a slot takes it up: where to read, and what of that is archived already.

    Groups of earlier options stand for themselves: an offset is archived if any of the options says so.
    """
    # Old entries of a topic that was made again are of other records with the same offsets.
    alive = [one for one in objects if one.topic_id == checkpoint.topic_id]
    above = [one for one in alive if one.last_offset >= checkpoint.offset]
    earlier = sorted({one.options for one in above} - {options})
    return PartitionGrant(
        topic=checkpoint.topic,
        partition=checkpoint.partition,
        topic_id=checkpoint.topic_id,
        offset=checkpoint.offset,
        done=done_of(above, topic_id=checkpoint.topic_id, options=options),
        highest=max([checkpoint.highest, *(one.last_offset for one in alive)]),
        dead_letters=tuple(one for one in checkpoint.dead_letters if one >= checkpoint.offset),
        earlier=tuple(
            EarlierGroups(options=old, done=done_of(above, topic_id=checkpoint.topic_id, options=old))
            for old in earlier
        ),
        is_made_again=checkpoint.is_made_again,
        leader_epoch=checkpoint.leader_epoch,
        epoch_end=checkpoint.epoch_end,
    )


def removable(checkpoint: PartitionCheckpoint, objects: Iterable[SealedObject]) -> tuple[SealedObject, ...]:
    """The complete objects whose entries say nothing any more.

    Those of another life of the topic, those that the checkpoint has passed, and those whose group has a
    newer entry. What is pending or quarantined stays.
    """
    gone: list[SealedObject] = []
    newest: dict[tuple[str, str], SealedObject] = {}
    for one in objects:
        if one.state is not ObjectState.COMPLETE:
            continue
        if one.topic_id != checkpoint.topic_id or one.last_offset < checkpoint.offset:
            gone.append(one)
            continue
        # The newest entry of a group says as much as all of them do together.
        group = one.options, one.group
        other = newest.get(group)
        if other is None or other.last_offset < one.last_offset:
            newest[group] = one
        if other is not None:
            gone.append(one if newest[group] is other else other)
    return tuple(gone)


def moved_to(checkpoint: PartitionCheckpoint, offset: int) -> PartitionCheckpoint:
    """The checkpoint of the same life at another offset, for what Kafka no longer has below it."""
    dead_letters = tuple(one for one in checkpoint.dead_letters if one >= offset)
    moved = replace(checkpoint, offset=offset, dead_letters=dead_letters)
    if checkpoint.leader_epoch == NO_EPOCH or checkpoint.highest < offset:
        return replace(moved, leader_epoch=NO_EPOCH)
    # In which epoch the records before it were written is not known. But what entries cover has no later one
    # than this: by it new records are told from those once the log was cut off.
    return replace(moved, epoch_end=checkpoint.highest + 1)


_MARK: Final = "headrace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where a partition begins. With `is_new` the checkpoint is committed before anything is granted.

    `done` are the last offsets of groups that another sink has archived above it.
    """

    checkpoint: PartitionCheckpoint
    is_new: bool
    lost: LostOffsets | None = None
    warning: str | None = None
    done: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The partition is not granted: a reason in one word, and a sentence that ends with the fix."""

    reason: str
    sentence: str


def start_of(
    found: FoundPartition,
    checkpoint: PartitionCheckpoint | None,
    *,
    ledger: str,
    group: str,
    reset: OffsetReset,
) -> Start | Refused:
    """Where reading begins; the ledger wins over the group, and the group over `reset`.

    `reset` is for a topic that was never read, or was reset; a caller that knows that the partition appeared
    later asks for EARLIEST, as all of its records are new.
    """
    foreign = _foreign(found, checkpoint, ledger=ledger, group=group)
    if foreign is not None:
        return foreign
    if checkpoint is None:
        return _first_start(found, ledger=ledger, group=group, reset=reset)
    if checkpoint.topic_id != found.topic_id:
        return _made_again(found, checkpoint)
    if checkpoint.is_reset:
        begin = _checkpoint(found, begin_of(found, reset))
        return Start(checkpoint=replace(begin, is_made_again=checkpoint.is_made_again), is_new=True)
    return _within(found, checkpoint, is_new=False, whose=f"the ledger {ledger!r}")


def begin_of(found: FoundPartition, reset: OffsetReset) -> int:
    """The offset at which a partition begins that was never read."""
    return found.end if reset is OffsetReset.LATEST else found.begin


def set_elsewhere(
    found: FoundPartition | None, checkpoint: PartitionCheckpoint | None, *, ledger: str, group: str
) -> str | None:
    """What to say where another program has committed another offset than the ledger has; None: none has."""
    if found is None or checkpoint is None or found.topic_id != checkpoint.topic_id:
        return None
    offset = found.group_offset
    if offset in (None, checkpoint.offset) or _own_mark(found) is not None:
        return None
    return (
        f"Another program has committed offset {offset} of {found.partition_of} in the group {group!r}. The "
        f"ledger {ledger!r} has {checkpoint.offset}, which holds: reading continues there. To begin "
        "elsewhere, stop the sink (PUT /connectors/NAME/stop) and set its offsets (PATCH "
        "/connectors/NAME/offsets)."
    )


def committed_further(
    found: FoundPartition | None, checkpoint: PartitionCheckpoint | None, *, ledger: str, group: str
) -> str | None:
    """What to say where this sink itself has committed a later offset than its ledger has; None: it has not.

    It commits both in one transaction, so the ledger has lost records since. `checkpoint` is as the ledger
    was read, before the group was asked and anything of this leader's: no rewind and no slot are between.
    """
    if found is None or checkpoint is None or checkpoint.is_reset:
        return None
    offset, begin = found.group_offset, max(checkpoint.offset, found.begin)
    own = [ledger, checkpoint.topic_id]
    if offset is None or offset <= begin or found.topic_id != checkpoint.topic_id or _own_mark(found) != own:
        return None
    if checkpoint.offset > found.end:
        return None  # It is refused: see `_within`.
    fix = (
        f" To leave them out, where all objects up to {offset} are in the bucket, stop the sink (PUT "
        f"/connectors/NAME/stop) and set its offset to {offset} (PATCH /connectors/NAME/offsets); "
        "complete objects that have records above it are then archived again."
    )
    return (
        f"The ledger {ledger!r} has offset {checkpoint.offset} of {found.partition_of}, and this sink had "
        f"committed {offset} (group {group!r}): the ledger has lost its end, or is an older copy, "
        f"unless it was set to that while the topic was not read. Records "
        f"from {begin} on are archived again.{fix if offset <= found.end else ''}"
    )


def _own_mark(found: FoundPartition) -> list[str] | None:
    """Ledger and topic id of the Headrace that has committed the offset; None: another program has."""
    first, *rest = found.group_mark.split(" ")
    return rest if first == _MARK else None


def _foreign(
    found: FoundPartition, checkpoint: PartitionCheckpoint | None, *, ledger: str, group: str
) -> Refused | None:
    """Another Headrace archives under this group.

    Offsets that another tool commits have no mark, and a ledger that knows nothing of the partition begins at
    them; one that does continues where it has it, so its offset has to be set.
    """
    mark = _own_mark(found)
    if found.group_offset is None or mark is None or mark[:1] == [ledger]:
        return None
    other = mark[0] if mark else "unknown"
    continues = (
        "commit the same offsets again (kafka-consumer-groups.sh --reset-offsets --to-current --all-topics)"
        if checkpoint is None or checkpoint.offset == found.group_offset
        else f"set this one's offset, which is {checkpoint.offset}, to {found.group_offset} (PUT "
        "/connectors/NAME/stop, PATCH /connectors/NAME/offsets)"
    )
    return Refused(
        reason="foreign_offsets",
        sentence=f"The offset of {found.partition_of} in the group {group!r} was committed by a Headrace "
        f"with the ledger {other!r}, this one has {ledger!r}. Run the configuration that has that ledger. "
        f"Or, to continue with this one, let the other complete all its objects, stop it, and "
        f'{continues}: see docs/sink.md, "Another configuration". '
        "Deleting the group's offsets archives all again.",
    )


def _first_start(found: FoundPartition, *, ledger: str, group: str, reset: OffsetReset) -> Start | Refused:
    earlier = found.earlier or EarlierArchive()
    if earlier.problem is not None:
        return Refused(reason="earlier_archive", sentence=earlier.problem)
    start = _by_offsets(found, earlier.offset, ledger=ledger, group=group, reset=reset)
    if isinstance(start, Refused):
        return start
    begin = start.checkpoint.offset
    return replace(start, done=tuple((name, last) for name, last in earlier.done if last >= begin))


def _by_offsets(
    found: FoundPartition, earlier: int | None, *, ledger: str, group: str, reset: OffsetReset
) -> Start | Refused:
    """By the group's offset or that of another sink's files, whichever is higher."""
    if earlier is not None and earlier > (found.group_offset or 0):
        start = _checkpoint(found, earlier)
        return _within(found, start, is_new=True, whose="the other sink's own file")
    if found.group_offset is not None:
        mark = _own_mark(found)
        if mark is not None and mark[1:2] != [found.topic_id]:
            return Refused(
                reason="other_topic_id",
                sentence=f"The group {group!r} has an offset of {found.partition_of} from before the topic "
                "was deleted and made again, or of another cluster, and the ledger "
                f"{ledger!r} knows nothing of it: delete the group's offsets of this topic to begin at "
                "`auto.offset.reset`. Or, to begin at this offset, commit it again without a mark "
                "(kafka-consumer-groups.sh --reset-offsets --to-current --all-topics).",
            )
        start = _checkpoint(found, found.group_offset)
        return _within(found, start, is_new=True, whose=f"the group {group!r}")
    return Start(checkpoint=_checkpoint(found, begin_of(found, reset)), is_new=True)


def _made_again(found: FoundPartition, checkpoint: PartitionCheckpoint) -> Start:
    """Every record of the new life is new, whatever old entries, old offsets and `reset` say."""
    return Start(
        checkpoint=replace(_checkpoint(found, found.begin), is_made_again=True),
        is_new=True,
        warning=f"The topic {found.topic!r} was deleted and made again, or this is another cluster: "
        f"{found.partition_of} begins at {found.begin}; what was archived of the old one up to offset "
        f"{checkpoint.offset} stays.",
    )


def _within(
    found: FoundPartition, checkpoint: PartitionCheckpoint, *, is_new: bool, whose: str
) -> Start | Refused:
    offset = checkpoint.offset
    if offset > found.end:
        return Refused(
            reason="offset_above_end",
            sentence=f"{found.partition_of} ends at offset {found.end}, below the offset {offset} that "
            f"{whose} has: records were lost by the brokers, or this is another cluster. Once that "
            "is clear, stop the sink (PUT /connectors/NAME/stop) and set its offset (PATCH "
            "/connectors/NAME/offsets).",
        )
    if offset >= found.begin:
        return Start(checkpoint=checkpoint, is_new=is_new)
    return Start(
        checkpoint=moved_to(checkpoint, found.begin),
        is_new=True,
        lost=LostOffsets(topic=found.topic, partition=found.partition, first=offset, end=found.begin),
        warning=f"Kafka has deleted the records of {found.partition_of} from offset {offset} to "
        f"{found.begin} before they were archived: raise `retention.ms` of the topic, or find out what "
        "held the sink back.",
    )


def _checkpoint(found: FoundPartition, offset: int) -> PartitionCheckpoint:
    return PartitionCheckpoint(
        topic=found.topic, partition=found.partition, topic_id=found.topic_id, offset=offset
    )
