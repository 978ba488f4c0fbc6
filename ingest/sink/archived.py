"""What the ledger's entries of one topic-partition come to: what a slot is granted, what is to be removed.

Functions of a checkpoint and its objects; nothing here changes them.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from headrace.model.sink_entries import ObjectState, PartitionCheckpoint, SealedObject
from headrace.model.sink_protocol import EarlierGroups, PartitionGrant

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
    letters = tuple(one for one in checkpoint.dead_letters if one >= offset)
    return replace(checkpoint, offset=offset, dead_letters=letters)
