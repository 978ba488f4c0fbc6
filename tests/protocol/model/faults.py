"""What comes from outside: a driver is deposed, Spark runs a plan twice, tasks die, markers come late."""

from collections.abc import Iterator

from tests.protocol.model.broker import DRIVER_ID, Entry
from tests.protocol.model.world import Recovery, Scenario, Step, World
from tests.protocol.model.writes import replay_key


def outside_steps(scenario: Scenario, world: World) -> Iterator[Step]:
    """What may happen next without any actor of ours wanting it."""
    yield from _group(scenario, world)
    yield from _spark(world)
    yield from _broker(world)
    yield from _users(scenario, world)


def _group(scenario: Scenario, world: World) -> Iterator[Step]:
    leader = next(number for number in range(len(world.drivers)) if world.leads(number))
    following = leader + 1
    if following < len(world.drivers):
        driver = world.drivers[following]
        takes = world.group.rotated if scenario.returns else world.group.handed_over
        group = takes(driver.member)
        leading = driver._replace(
            state="leading",
            metadata=group.metadata_of(driver.member),
            recovery=Recovery("count", (DRIVER_ID,), takeover=True),
        )
        after = world._replace(group=group).with_driver(following, leading)
        what = "comes back as" if scenario.returns else "is not heard of,"
        yield f"driver {leader} {what} driver {following}, which takes the lead", after
    if not world.budget.joins:
        return
    yield "a standby joins the group", world.spent("joins")._replace(group=world.group.joined("standby"))
    for number, driver in enumerate(world.drivers[:leader]):
        # By the design a process that lost the lead never rejoins; the switch is about one that does.
        if driver.state == "leading" and not scenario.on.metadata_under_assignment:
            again = world.spent("joins")._replace(group=world.group.joined(driver.member))
            yield f"driver {number}'s client is back in the group, waiting", again


def _spark(world: World) -> Iterator[Step]:
    for task in world.tasks:
        words = f"slot {task.slot}, plan {task.driver}/{task.number} copy {task.copy}"
        if world.budget.kills:
            yield f"{words}: is killed", world.keeping(task, 0).without_task(task).spent("kills")
    if not world.budget.twins:
        return
    for number, driver in enumerate(world.drivers):
        for task in (task for task in world.tasks if task.driver == number and task.copy == 0):
            if driver.state == "gone":
                continue
            worker = 1 + max(other.worker for other in world.tasks if other.driver == number)
            twin = task._replace(
                copy=1, worker=worker, stage="launched", epoch=0, end=0, sent=((), ()), acked=()
            )
            plan = driver.plan_of(task.slot)
            if plan and plan.number == task.number:
                twin = twin._replace(work=plan.work, clean=True, metadata=task.metadata)
                after = world.spent("twins").with_task(twin)
                yield f"Spark runs plan {number}/{task.number} of slot {task.slot} twice", after


def _broker(world: World) -> Iterator[Step]:
    for slot, state in enumerate(world.broker.producers):
        whose = "driver's" if slot == DRIVER_ID else f"slot {slot}'s"
        if state.phase == "decided":
            yield (
                f"the markers of the {whose} commit are written",
                world._replace(broker=world.broker.closed(slot)),
            )
        if state.phase == "open" and world.budget.expiries:
            yield (
                f"the {whose} transaction expires",
                world.spent("expiries")._replace(broker=world.broker.expired(slot)),
            )
    if world.budget.compactions:
        yield "the ledger is compacted", world.spent("compactions")._replace(broker=world.broker.compacted())


def _users(scenario: Scenario, world: World) -> Iterator[Step]:
    if world.budget.announcements:
        for name in sorted(set(scenario.sizes) - world.queue):
            yield (
                f"{name} is announced again",
                world.spent("announcements")._replace(queue=world.queue | {name}),
            )
    if world.budget.replays:
        for name in scenario.stumbles:
            command = ((replay_key(name), Entry("control", 0)),)
            yield (
                f"replay of {name} is asked for",
                world.spent("replays")._replace(broker=world.broker.produced_plainly(command)),
            )
