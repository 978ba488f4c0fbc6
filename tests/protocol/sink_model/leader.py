"""The leader: recovers, completes what nobody holds, finds where to begin, grants, moves, writes its entries.

What it decides is decided by the real functions of `archive`.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from headrace.model.sink_entries import (
    UPLOAD_GONE,
    ObjectState,
    PartitionCheckpoint,
    SealedObject,
    Verdict,
    offset_mark,
)
from headrace.model.sink_protocol import PartitionGrant
from headrace.options.choices import OffsetReset
from ingest.sink.sink_effects import FoundPartition
from ingest.sink.starting import Start, grant_of, pending_of, removable, start_of
from ingest.sink.starts import LeaderCompletions
from tests.protocol.sink_model.bucket import completed, filled, started
from tests.protocol.sink_model.task import ended
from tests.protocol.sink_model.world import Leader, Ledger, Scenario, Step, Task, World, topic_id

# More batches than any budget asks for.
MOST_BATCHES = 20

_MADE_AGAIN: Final = "made_again"
"""Why an object is pending that was quarantined: it has another upload, which the leader completes."""


def leader_steps(scenario: Scenario, world: World) -> Iterator[Step]:
    """What the leaders may do next. A deposed one goes on until it notices."""
    for number, leader in enumerate(world.leaders):
        for name, after in STAGES[leader.state](scenario, world, number, leader):
            yield f"leader {number} {name}", after


def _nothing(_scenario: Scenario, _world: World, _number: int, _leader: Leader) -> Iterator[Step]:
    return iter(())


def _recovering(scenario: Scenario, world: World, number: int, leader: Leader) -> Iterator[Step]:
    """Nothing is granted under the old number any more: fence."""
    after = world.with_leader(number, leader._replace(state="fenced", number=0, ending=False))
    if scenario.on.fence:
        after = after._replace(epochs=(0, *(epoch + 1 for epoch in world.epochs[1:])))
    yield "fences the slots", after


def _fenced(_scenario: Scenario, world: World, number: int, leader: Leader) -> Iterator[Step]:
    yield (
        "reads the ledger",
        world.with_leader(number, leader._replace(state="leading", view=world.ledger)),
    )


def _leading(scenario: Scenario, world: World, number: int, leader: Leader) -> Iterator[Step]:
    yield from _write(scenario, world, number, leader)
    pending = pending_of(leader.view.objects) if scenario.on.leader_completes else ()
    if leader.number:
        ours = tuple(one for one in pending if one.reason == _MADE_AGAIN)
        if not scenario.on.completed_before_grant:
            ours = tuple(one for one in pending if not one.id.startswith(f"{number}.{leader.number}."))
        yield from _complete(scenario, world, number, leader, ours)
        yield from _give_up(scenario, world, number, leader)
        return
    if pending:
        yield from _complete(scenario, world, number, leader, pending)
    if not pending or not scenario.on.completed_before_grant:
        yield from _start(scenario, world, number, leader)


STAGES = {
    "waiting": _nothing,
    "recovering": _recovering,
    "fenced": _fenced,
    "leading": _leading,
    "gone": _nothing,
}


def _complete(
    scenario: Scenario, world: World, number: int, leader: Leader, pending: tuple[SealedObject, ...]
) -> Iterator[Step]:
    """Complete what may be completed now: of one name only the first."""
    queue = LeaderCompletions()
    queue.add(pending)
    for sealed in queue.release() if scenario.on.name_in_offset_order else pending:
        bucket, verdict = completed(scenario, world.bucket, sealed, leader.view)
        if verdict is Verdict.RETRY:
            if bucket is not world.bucket:
                yield f"completes what stands beside {sealed.id}", world._replace(bucket=bucket)
            continue
        words = f"completes {sealed.id}: {verdict}"
        if verdict is Verdict.UPLOAD_GONE and not scenario.on.made_again_by_decision:
            yield f"{words}, it is made again", made_again(world, number, sealed)
            continue
        yield words, ended(world._replace(bucket=bucket), number, sealed.id, verdict)


def made_again(world: World, number: int, sealed: SealedObject) -> World:
    """With the object uploaded again, and its entry pending with the new upload; only by who leads."""
    leader = world.leaders[number]
    if number != world.leading:
        return world.with_leader(number, leader._replace(state="gone"))
    life = int(sealed.topic_id.rpartition(" ")[2])
    bucket = world.bucket
    # Of these worlds one object has all records from its first to its last.
    records = tuple((life, offset) for offset in range(sealed.first_offset, sealed.last_offset + 1))
    there = {(one.name, one.id) for one in bucket.objects}
    # What stands beside and was completed is as it was.
    missing = [one for one in sealed.uploads if (one.key, sealed.id) not in there]
    uploads = tuple(replace(one, upload_id=f"{one.upload_id}'") for one in missing)
    for upload in uploads:
        bucket = filled(started(bucket, upload.upload_id, upload.key), upload.upload_id, records)
    pending = replace(sealed, state=ObjectState.PENDING, reason=_MADE_AGAIN, uploads=uploads)
    after = world._replace(bucket=bucket, ledger=world.ledger.put(pending))
    return after.with_leader(number, leader._replace(view=leader.view.put(pending)))


def decisions(world: World) -> Iterator[Step]:
    """Somebody who knows what became of it decides about an object whose upload is gone."""
    leader = world.leaders[world.leading]
    if leader.state != "leading":
        return
    for sealed in leader.view.objects:
        if sealed.state is not ObjectState.QUARANTINED or sealed.reason != UPLOAD_GONE:
            continue
        life = int(sealed.topic_id.rpartition(" ")[2])
        if (life, sealed.first_offset) in world.bucket.received:
            complete = replace(sealed, state=ObjectState.COMPLETE, reason=None)
            view = leader.view.put(complete)
            yield (
                f"{sealed.id} is found to be complete",
                world.with_leader(world.leading, leader._replace(view=view)),
            )
        else:
            yield f"{sealed.id} is made again", made_again(world, world.leading, sealed)


def _write(scenario: Scenario, world: World, number: int, leader: Leader) -> Iterator[Step]:
    """The ends of objects, and the removal of entries that say nothing any more."""
    news = [
        one
        for one in leader.view.objects
        if one.state is not ObjectState.PENDING and world.ledger.object(one.id) != one
    ]
    gone: tuple[SealedObject, ...] = ()
    if leader.view.checkpoint is not None:
        gone = removable(leader.view.checkpoint, leader.view.objects)
    if not scenario.on.entries_until_passed:
        gone = tuple(one for one in leader.view.objects if one.state is ObjectState.COMPLETE)
    if not news and not gone:
        return
    if number != world.leading:
        yield "is refused at its own write", world.with_leader(number, leader._replace(state="gone"))
        return
    ids = [one.id for one in gone]
    ledger = world.ledger.put(*news).without(*ids)
    view = leader.view.without(*ids)
    yield "writes its entries", world._replace(ledger=ledger).with_leader(number, leader._replace(view=view))


def _give_up(scenario: Scenario, world: World, number: int, leader: Leader) -> Iterator[Step]:
    """Take the slot for lost, because it is or because it seems so; or ask it to end."""
    alive = [task for task in world.tasks if (task.leader, task.number) == (number, leader.number)]
    voided = leader._replace(
        state="recovering", number=0, ending=False, voided=leader.voided | {leader.number}
    )
    if not alive:
        yield "finds the slot lost", world.with_leader(number, voided)
    elif any(task.life != world.life for task in alive):
        yield "finds the topic made again", world.with_leader(number, voided)
    elif world.budget.suspicions:
        yield "takes the slot for lost", world.spent("suspicions").with_leader(number, voided)
    if alive and world.budget.moves and not leader.ending:
        asked = leader._replace(ending=True)
        if not scenario.on.moved_after_release:
            asked = leader._replace(number=0)
        yield "asks the slot to end", world.spent("moves").with_leader(number, asked)


def _start(scenario: Scenario, world: World, number: int, leader: Leader) -> Iterator[Step]:
    """Commit where the partition begins, then grant it."""
    checkpoint = leader.view.checkpoint
    found = _found(scenario, world)
    if not scenario.on.ledger_wins:
        checkpoint = None
    reset = OffsetReset.LATEST if scenario.latest and leader.view.checkpoint is None else OffsetReset.EARLIEST
    start = start_of(found, checkpoint, ledger="ledger", group="group", reset=reset)
    if not isinstance(start, Start):
        return
    if start.is_new and scenario.on.start_in_ledger and scenario.on.ledger_wins:
        if number != world.leading:
            yield "is refused at the start", world.with_leader(number, leader._replace(state="gone"))
            return
        ledger = world.ledger._replace(checkpoint=start.checkpoint)
        view = leader.view._replace(checkpoint=start.checkpoint)
        yield (
            f"commits the start at {start.checkpoint.offset}",
            _begun(world, start.checkpoint)
            ._replace(ledger=ledger)
            .with_leader(number, leader._replace(view=view)),
        )
    elif leader.used < MOST_BATCHES and number == world.leading:
        # What a deposed leader grants once more is in the source's model; what it has launched is here.
        for slot in range(1, len(world.epochs)):
            yield from _grant(scenario, world, number, slot, start.checkpoint)


def _grant(
    scenario: Scenario, world: World, number: int, slot: int, checkpoint: PartitionCheckpoint
) -> Iterator[Step]:
    leader = world.leaders[number]
    if any((task.leader, task.slot) == (number, slot) for task in world.tasks if _is_busy(leader, task)):
        return
    used = leader.used + 1
    task = Task(
        leader=number,
        number=used,
        slot=slot,
        options=leader.options,
        grant=_granted(scenario, leader.view, checkpoint, leader.options),
        generation=world.generation,
        life=world.life,
        position=checkpoint.offset,
    )
    after = (
        _begun(world, checkpoint)
        .with_task(task)
        .with_leader(number, leader._replace(number=used, slot=slot, used=used))
    )
    yield f"grants the partition from {checkpoint.offset} to slot {slot}", after


def _begun(world: World, checkpoint: PartitionCheckpoint) -> World:
    """The world in which somebody has decided where the first reading begins."""
    if world.first_start is not None:
        return world
    return world._replace(first_start=checkpoint.offset)


def _is_busy(leader: Leader, task: Task) -> bool:
    """The slot has a task that was not given up: it gets nothing else meanwhile."""
    return task.number not in leader.voided


def _granted(
    scenario: Scenario, view: Ledger, checkpoint: PartitionCheckpoint, options: str
) -> PartitionGrant:
    objects = view.objects
    if not scenario.on.entries_carry_topic_id:
        objects = tuple(replace(one, topic_id=checkpoint.topic_id) for one in objects)
    grant = grant_of(checkpoint, objects, options=options)
    if not scenario.on.skip_by_group:
        grant = replace(grant, done=(), earlier=())
    return grant if scenario.on.earlier_options else replace(grant, earlier=())


def _found(scenario: Scenario, world: World) -> FoundPartition:
    """The partition as Kafka describes it now."""
    life = topic_id(world.life)
    if not scenario.on.entries_carry_topic_id and world.ledger.checkpoint is not None:
        life = world.ledger.checkpoint.topic_id
    return FoundPartition(
        topic="t",
        partition=0,
        topic_id=life,
        begin=0,
        end=world.produced,
        group_offset=world.group_offset,
        group_mark="" if world.group_offset is None else offset_mark("ledger", life),
    )
