"""A slot's task: reads, groups, seals, commits, completes. Its arithmetic is the real one."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from headrace.model.sink_entries import ObjectState, SealedObject, Upload, Verdict
from spark.sink.partition_offsets import PartitionCommit, PartitionOffsets
from tests.protocol.sink_model.bucket import completed, filled, started
from tests.protocol.sink_model.world import (
    BAD,
    Leader,
    Open,
    Record,
    Scenario,
    Step,
    Task,
    World,
    group_of,
)


def task_steps(scenario: Scenario, world: World) -> Iterator[Step]:
    """What the tasks may do next, zombies among them."""
    for task in world.tasks:
        words = f"task {task.leader}.{task.number} of slot {task.slot}"
        for name, after in STAGES[task.stage](scenario, world, task):
            yield f"{words} {name}", after
        for name, after in _complete(scenario, world, task):
            yield f"{words} {name}", after


def _launched(_scenario: Scenario, world: World, task: Task) -> Iterator[Step]:
    """Initialise the producer, which fences the one before."""
    epoch = world.epochs[task.slot] + 1
    epochs = (*world.epochs[: task.slot], epoch, *world.epochs[task.slot + 1 :])
    yield (
        "initialises",
        world._replace(epochs=epochs).with_task(task._replace(stage="initialised", epoch=epoch)),
    )


def _initialised(_scenario: Scenario, world: World, task: Task) -> Iterator[Step]:
    leader = world.leaders[task.leader]
    if task.number in leader.voided or leader.state in {"gone", "recovering"}:
        yield "is granted nothing", world.without_task(task)
    else:
        yield "is granted its batch", world.with_task(task._replace(stage="filling"))


def _filling(scenario: Scenario, world: World, task: Task) -> Iterator[Step]:
    leader = world.leaders[task.leader]
    ending = leader.ending and leader.number == task.number
    if task.position < world.produced and not task.stopped and not ending:
        yield f"reads {task.position}", _read(scenario, world, task)
    for one in task.open:
        if not one.closed and scenario.slow_uploads:
            yield f"closes {one.id}", _with_open(world, task, one._replace(closed=True))
        if not one.sealed and (one.closed or not scenario.slow_uploads):
            yield from _seal(scenario, world, task, one)
    commit = _commit_of(scenario, task)
    if commit.objects or commit.dead_letters:
        yield from _begin(scenario, world, task, commit)
    if ending and not task.open and not task.letters and not task.completing:
        released = leader._replace(number=0, ending=False)
        yield "finishes", world.with_leader(task.leader, released).without_task(task)


def _begun(scenario: Scenario, world: World, task: Task) -> Iterator[Step]:
    if world.epochs[task.slot] != task.epoch:
        yield "is fenced at its commit", _over(world, task)
        return
    assert task.commit is not None, "a transaction that was begun has something"
    entries = _entries(scenario, task, task.commit)
    checkpoint = task.commit.checkpoint
    letters = tuple((task.life, offset) for offset in task.commit.dead_letters)
    ledger = world.ledger._replace(checkpoint=checkpoint)
    if scenario.on.pending_in_transaction:
        ledger = ledger.put(*entries)
    done = world._replace(
        ledger=ledger,
        group_offset=checkpoint.offset,
        lettered=tuple(sorted((*world.lettered, *letters))),
    )
    if world.budget.lost_answers:
        yield "commits, the answer is lost", _over(done.spent("lost_answers"), task)
    leader = world.leaders[task.leader]
    if leader.state == "leading" and leader.number == task.number:
        view = leader.view._replace(checkpoint=checkpoint)
        view = view.put(*entries) if scenario.on.pending_in_transaction else view
        done = done.with_leader(task.leader, leader._replace(view=view))
    yield f"commits up to {checkpoint.offset}", done.with_task(_after_commit(task, entries))


def _over(world: World, task: Task) -> World:
    """The task ends; what it has in hand is never committed, and what it had to complete is the leader's."""
    return world.without_task(task)


STAGES = {
    "launched": _launched,
    "initialised": _initialised,
    "filling": _filling,
    "begun": _begun,
}


# -- reading -------------------------------------------------------------------------------------------------


def _offsets(scenario: Scenario, task: Task) -> PartitionOffsets:
    """The real arithmetic in the state of this task."""
    together = task.options == "c" and scenario.on.clock_groups_together
    # Where a protection is off, what is open may lie below what was committed.
    begin = min([task.grant.offset, *(one.records[0][1] for one in task.open)])
    grant = replace(task.grant, offset=begin)
    offsets = PartitionOffsets(grant, options=task.options, closes_together=together)
    for one in task.open:
        offsets.open(one.id, one.group, one.records[0][1])
    for letter in task.letters:
        offsets.add_dead_letter(letter)
    offsets.advance(task.position)
    for one in task.open:
        if one.sealed:
            offsets.seal(one.id, one.records[-1][1])
    return offsets


def _read(scenario: Scenario, world: World, task: Task) -> World:
    """The record at the position, put where it belongs."""
    offset = task.position
    record = (world.life, offset)
    passed = task._replace(position=offset + 1)
    offsets, alone = _offsets(scenario, task), np.array([offset])
    if offsets.unread(alone) is not None and scenario.on.listed_is_passed_over:
        return world.with_task(passed)
    if (scenario.records[offset] == BAD) != (offset in world.flipped):
        if offsets.refuse_changed([offset]) is not None and scenario.on.replay_changed_stops:
            return world.with_task(task._replace(stopped=True))
        return world.with_task(passed._replace(letters=(*task.letters, offset)))
    group = _group(scenario, world, task.options, record)
    earlier = ((one, _group(scenario, world, one, record)) for one in offsets.earlier)
    archived = [(task.options, group), *earlier]
    if any(offsets.unarchived(of, alone, options=by) is not None for by, of in archived):
        return world.with_task(passed)
    return _added(scenario, world, passed, group, record)


def _group(scenario: Scenario, world: World, options: str, record: Record) -> str:
    group = group_of(scenario, options, record, world.clock)
    return "a" if group == BAD else group


def _added(scenario: Scenario, world: World, task: Task, group: str, record: Record) -> World:
    """The record in the open object of its group; the upload of a name that recurs is started later."""
    for one in task.open:
        full = scenario.rotate and len(one.records) >= scenario.rotate
        if one.group == group and not one.closed and not full:
            return _with_open(world, task, one._replace(records=(*one.records, record)))
    object_id = f"{task.leader}.{task.number}.{group}@{record[1]}"
    opened = task._replace(open=(*task.open, Open(object_id, group, (record,))))
    if task.options == "k":
        return world.with_task(opened)
    bucket = world.bucket
    for upload in _uploads(scenario, object_id, _name(task, group, record[1])):
        bucket = started(bucket, upload.upload_id, upload.key)
    return world._replace(bucket=bucket).with_task(opened)


def _uploads(scenario: Scenario, object_id: str, name: str) -> tuple[Upload, ...]:
    """Of the object, and of the side object before it."""
    main = Upload(key=name, upload_id=object_id, parts=())
    if not scenario.beside:
        return (main,)
    return Upload(key=f"{name}.keys", upload_id=f"{object_id}.keys", parts=(), role="keys"), main


def _name(task: Task, group: str, first: int) -> str:
    """Recurring by the key alone, else unique in one life of the topic."""
    return group if task.options == "k" else f"{group}@{first}"


def _with_open(world: World, task: Task, changed: Open) -> World:
    return world.with_task(
        task._replace(open=tuple(changed if one.id == changed.id else one for one in task.open))
    )


# -- sealing and committing ----------------------------------------------------------------------------------


def _seal(scenario: Scenario, world: World, task: Task, one: Open) -> Iterator[Step]:
    """Send the last part; of a name that recurs, all of them, and only after the completion before."""
    bucket = world.bucket
    if task.options == "k":
        first = min(other.records for other in task.open if other.group == one.group)
        waits = first != one.records or any(other.group == one.group for other in task.completing)
        if waits and scenario.on.upload_after_predecessor:
            return
        bucket = started(bucket, one.id, _name(task, one.group, one.records[0][1]))
    sealed = one._replace(closed=True, sealed=True)
    for upload in _uploads(scenario, one.id, ""):
        bucket = filled(bucket, upload.upload_id, one.records)
    after = _with_open(world._replace(bucket=bucket), task, sealed)
    if not scenario.on.complete_after_commit:
        bucket, _ = completed(scenario, after.bucket, _entry(scenario, task, sealed), world.ledger)
        after = after._replace(bucket=bucket)
    yield f"seals {one.id}", after


def _commit_of(scenario: Scenario, task: Task) -> PartitionCommit:
    """What the next transaction says, by the real arithmetic, but for what is switched off."""
    commit = _offsets(scenario, task).commit()
    if not scenario.on.group_in_offset_order:
        ids = tuple(one.id for one in task.open if one.sealed)
        rest = [one.records[0][1] for one in task.open if not one.sealed]
        offset = min(rest, default=task.position)
        commit = replace(commit, objects=ids, checkpoint=replace(commit.checkpoint, offset=offset))
    checkpoint = commit.checkpoint
    if not scenario.on.dead_letters_listed:
        checkpoint = replace(checkpoint, dead_letters=())
    if not scenario.on.offset_holds_for_open_objects:
        checkpoint = replace(checkpoint, offset=task.position)
    return replace(commit, checkpoint=checkpoint)


def _begin(scenario: Scenario, world: World, task: Task, commit: PartitionCommit) -> Iterator[Step]:
    """Ask the leader for the group's metadata, begin, and commit the group's offset first."""
    leader = world.leaders[task.leader]
    on = scenario.on
    if task.number in leader.voided or leader.state == "gone":
        yield "is not answered", _over(world, task)
        return
    if on.topics_described_before_begin and world.life != task.life:
        revoked = _revoked(leader, task.number)
        yield "is revoked, its topic was made again", _over(world.with_leader(task.leader, revoked), task)
        return
    is_led = task.leader == world.leading
    generation = world.generation if on.metadata_before_begin and is_led else task.generation
    if on.group_commit and (not is_led or generation != world.generation):
        after = _over(world, task)
        if not is_led:
            after = after.with_leader(task.leader, leader._replace(state="gone"))
        yield "is refused at its group commit", after
    elif world.epochs[task.slot] != task.epoch:
        yield "is fenced at its begin", _over(world, task)
    else:
        yield "begins", world.with_task(task._replace(stage="begun", commit=commit))


def _revoked(leader: Leader, number: int) -> Leader:
    """The leader with the batch voided; what follows is the fence."""
    return leader._replace(state="recovering", number=0, ending=False, voided=leader.voided | {number})


def _entries(scenario: Scenario, task: Task, commit: PartitionCommit) -> tuple[SealedObject, ...]:
    state = ObjectState.PENDING if scenario.on.complete_after_commit else ObjectState.COMPLETE
    chosen = [one for one in task.open if one.id in commit.objects]
    return tuple(replace(_entry(scenario, task, one), state=state) for one in chosen)


def _entry(scenario: Scenario, task: Task, one: Open) -> SealedObject:
    first, last = one.records[0][1], one.records[-1][1]
    uploads = _uploads(scenario, one.id, _name(task, one.group, first))
    if not scenario.on.entry_has_all_uploads:
        uploads = uploads[-1:]
    return SealedObject(
        id=one.id,
        topic="t",
        partition=0,
        topic_id=task.grant.topic_id,
        group=one.group,
        first_offset=first,
        last_offset=last,
        records=len(one.records),
        bytes=0,
        uploads=uploads,
        options=task.options,
        sealed_ms=0,
        bucket="b",
        overwrites=task.options == "k",
    )


def _after_commit(task: Task, entries: tuple[SealedObject, ...]) -> Task:
    """The task with what it has committed as what it was granted."""
    assert task.commit is not None, "only what was begun is committed"
    checkpoint = task.commit.checkpoint
    done = dict(task.grant.done)
    for one in entries:
        done[one.group] = max(done.get(one.group, -1), one.last_offset)
    grant = replace(
        task.grant,
        offset=checkpoint.offset,
        done=tuple(sorted(done.items())),
        highest=checkpoint.highest,
        dead_letters=checkpoint.dead_letters,
    )
    return task._replace(
        stage="filling",
        grant=grant,
        commit=None,
        letters=tuple(one for one in task.letters if one not in task.commit.dead_letters),
        open=tuple(one for one in task.open if one.id not in task.commit.objects),
        completing=(*task.completing, *(one for one in entries if one.state is ObjectState.PENDING)),
    )


# -- completing ----------------------------------------------------------------------------------------------


def _complete(scenario: Scenario, world: World, task: Task) -> Iterator[Step]:
    for sealed in task.completing if not scenario.on.name_in_offset_order else task.completing[:1]:
        bucket, verdict = completed(scenario, world.bucket, sealed, world.ledger)
        if verdict is Verdict.RETRY:
            if bucket is not world.bucket:
                yield f"completes what stands beside {sealed.id}", world._replace(bucket=bucket)
            continue
        if world.budget.lost_answers and bucket is not world.bucket:
            yield (
                f"completes {sealed.id}, the answer is lost",
                world.spent("lost_answers")._replace(bucket=bucket),
            )
        rest = tuple(one for one in task.completing if one is not sealed)
        after = world._replace(bucket=bucket).with_task(task._replace(completing=rest))
        yield f"completes {sealed.id}: {verdict}", ended(after, task.leader, sealed.id, verdict)


def ended(world: World, number: int, object_id: str, verdict: Verdict) -> World:
    """The world after a leader was told of an object's end."""
    leader = world.leaders[number]
    known = leader.view.object(object_id)
    if leader.state != "leading" or known is None or known.state is not ObjectState.PENDING:
        return world
    # Unproven is an end too: nothing can be done about it, and an operator is told.
    is_complete = verdict in (Verdict.COMPLETE, Verdict.UNPROVEN)
    state = ObjectState.COMPLETE if is_complete else ObjectState.QUARANTINED
    reason = None if verdict is Verdict.COMPLETE else verdict.value
    view = leader.view.put(replace(known, state=state, reason=reason))
    return world.with_leader(number, leader._replace(view=view))
