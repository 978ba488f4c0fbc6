"""What has to hold: each record in one visible object, or lettered, once; or somebody is shown it."""

from collections import Counter
from collections.abc import Iterator

from headrace.model.sink_entries import ObjectState, SealedObject
from tests.protocol.sink_model.world import Record, Scenario, World


def _alone(scenario: Scenario, world: World) -> str | None:
    """Whoever sees an object sees what stands beside it."""
    if not scenario.beside:
        return None
    names = {one.name for one in world.bucket.objects}
    for name in names:
        if not name.endswith(".keys") and f"{name}.keys" not in names:
            return f"{name} is visible without what stands beside it"
    return None


def broken_promise(scenario: Scenario, world: World) -> str | None:
    """What is wrong with the world in a sentence, or None. Holds at every moment."""
    ends = Counter((*world.bucket.received, *world.lettered))
    for record, times in ends.items():
        if times > 1:
            return f"record {record} is archived {times} times"
    there = Counter(
        record for one in world.bucket.objects if not one.name.endswith(".keys") for record in one.records
    )
    if wrong := _alone(scenario, world):
        return wrong
    recurring = any(leader.options == "k" for leader in world.leaders)
    if not recurring and not world.bucket.taken:
        for record in world.bucket.received:
            if not there[record]:
                return f"record {record} was visible and is overwritten"
    for sealed in world.ledger.objects:
        if sealed.state is ObjectState.QUARANTINED and _is_known_complete(world, sealed):
            return f"{sealed.id} is quarantined, and S3 shows that it was completed"
    return None


def _is_known_complete(world: World, sealed: SealedObject) -> bool:
    """Whether S3 shows it: by the object, or by an upload that is gone too early to have been ended."""
    if any((one.id, one.name) == (sealed.id, sealed.main.key) for one in world.bucket.objects):
        return True
    return sealed.id in world.bucket.taken and not world.bucket.is_old


def broken_end(scenario: Scenario, world: World) -> str | None:
    """What is wrong with a world in which nothing is left to do, or None."""
    ends = {*world.bucket.received, *world.lettered}
    shown = set(_shown(world))
    for offset in range(world.first_start or 0 if scenario.latest else 0, world.produced):
        record = (world.life, offset)
        if record not in ends and record not in shown:
            return f"all is quiet and record {record} is archived nowhere"
    if any(task.stopped for task in world.tasks) and not scenario.budget.changes:
        return "the partition has stopped, and nothing has changed"
    for sealed in world.ledger.objects:
        if sealed.state is ObjectState.PENDING:
            return f"all is quiet and {sealed.id} is pending"
    return _wrong_name(scenario, world)


def _shown(world: World) -> Iterator[Record]:
    """Records that an operator is shown: in quarantine, or not passed by a partition that stopped."""
    for sealed in world.ledger.objects:
        if sealed.state is ObjectState.QUARANTINED:
            for upload in world.bucket.uploads:
                if upload.id == sealed.main.upload_id:
                    yield from upload.records
    for task in world.tasks:
        if task.stopped:
            yield from ((world.life, offset) for offset in range(task.position, world.produced))


def _wrong_name(scenario: Scenario, world: World) -> str | None:
    """Of a name that recurs the last record has to be there."""
    if "k" not in scenario.options:
        return None
    for one in world.bucket.objects:
        received = (offset for _, offset in world.bucket.received if scenario.records[offset] == one.name)
        newest = max(received)
        if one.records[-1][1] != newest:
            return f"{one.name} has record {one.records[-1][1]}, and {newest} is newer"
    return None
