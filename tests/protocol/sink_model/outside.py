"""What comes from outside: kills, a standby, a new leader, the clock, the registry, users, consumers."""

from collections.abc import Iterator

from tests.protocol.sink_model.leader import decisions
from tests.protocol.sink_model.world import Bucket, Scenario, Step, World


def outside_steps(scenario: Scenario, world: World) -> Iterator[Step]:
    """What may happen next without any actor of ours wanting it."""
    following = world.leading + 1
    if following < len(world.leaders):
        leader = world.leaders[following]._replace(state="recovering")
        led = world._replace(leading=following, generation=world.generation + 1)
        if scenario.no_zombies:
            gone = world.leaders[world.leading]._replace(state="gone")
            led = led._replace(tasks=()).with_leader(world.leading, gone)
        yield f"leader {following} takes the lead", led.with_leader(following, leader)
    if world.budget.kills:
        for task in world.tasks:
            words = f"task {task.leader}.{task.number} is killed"
            yield words, world.spent("kills").without_task(task)
    if world.budget.joins:
        yield "a standby joins", world.spent("joins")._replace(generation=world.generation + 1)
    if world.budget.clocks:
        yield "the clock goes on", world.spent("clocks")._replace(clock=world.clock + 1)
    if world.budget.produced:
        yield "a record is produced", world.spent("produced")._replace(produced=world.produced + 1)
    if world.budget.expiries and world.group_offset is not None:
        yield "the group's offset expires", world.spent("expiries")._replace(group_offset=None)
    yield from _topic(scenario, world)
    yield from _bucket(world)
    yield from decisions(world)


def _topic(scenario: Scenario, world: World) -> Iterator[Step]:
    if world.budget.remakes:
        again = world._replace(life=world.life + 1, group_offset=None)
        yield "the topic is made again", again.spent("remakes")
    if world.budget.changes:
        for offset in range(len(scenario.records)):
            flipped = world.flipped ^ {offset}
            yield f"{offset} converts otherwise", world.spent("changes")._replace(flipped=flipped)


def _bucket(world: World) -> Iterator[Step]:
    bucket = world.bucket
    if world.budget.weeks:
        named = {upload.upload_id for one in world.ledger.objects for upload in one.uploads}
        kept = tuple(one for one in bucket.uploads if one.id not in named)
        old = Bucket(kept, *bucket[1:-1], is_old=True)
        yield "a week goes by, the bucket ends old uploads", world.spent("weeks")._replace(bucket=old)
    if world.budget.takings:
        for one in bucket.objects:
            if one.name.endswith(".keys"):
                # With the object that it stands beside.
                continue
            left = tuple(other for other in bucket.objects if other.id != one.id)
            taken = bucket._replace(objects=left, taken=bucket.taken | {one.id})
            yield f"a consumer takes {one.id} away", world.spent("takings")._replace(bucket=taken)
