"""The driver while it believes to lead: it grants plans, takes reports, doubts, settles messages."""

from collections.abc import Iterator

from tests.protocol.model.broker import entry_of, merged
from tests.protocol.model.group import NO_MEMBER, Metadata
from tests.protocol.model.planning import plan_steps
from tests.protocol.model.recovery import doubted, recovery_steps
from tests.protocol.model.world import SETTLED, Cache, Driver, Scenario, Step, Task, World
from tests.protocol.model.writes import write_steps


def driver_steps(scenario: Scenario, world: World) -> Iterator[Step]:
    """What the drivers may do next. A deposed one goes on until it notices; a paused one takes its time."""
    for number, driver in enumerate(world.drivers):
        if driver.state != "leading":
            continue
        for steps in (_stand, _doubt, _read_on, _settle, recovery_steps, plan_steps, write_steps):
            for name, after in steps(scenario, world, number, driver):
                yield f"driver {number}: {name}", after


def granted(scenario: Scenario, driver: Driver, slot: int, number: int) -> Driver | None:
    """The driver after it said yes to a task that asks to start this plan; None when it says no."""
    if driver.metadata is None or number in driver.voided:
        return None
    plan = driver.plan_of(slot)
    if plan is None or plan.number != number:
        # Long finished. Only a driver that keeps no account of its answers says yes.
        return None if scenario.on.grant_once else driver
    if plan.granted and scenario.on.grant_once:
        return None
    plans = (*driver.plans[: slot - 1], plan._replace(granted=True), *driver.plans[slot:])
    return driver._replace(plans=plans)


def reported(scenario: Scenario, world: World, task: Task) -> World:
    """The world after the driver took a task's report; one for a plan no longer live says nothing."""
    driver = world.drivers[task.driver]
    plan = driver.plan_of(task.slot)
    if plan is None or plan.number != task.number or plan.doubted:
        return world
    given_back = bool(task.work) and scenario.socketless and scenario.on.given_back_is_not_clean
    if task.clean or not scenario.on.ledger_is_the_truth:
        view = merged(driver.view, task.acked, newest_wins=scenario.on.newest_wins)
        driver = driver._replace(view=view)
    if not task.clean or given_back:
        return world.with_driver(task.driver, doubted(scenario, driver, (task.slot,)))
    place = task.slot - 1
    plans = (*driver.plans[:place], None, *driver.plans[place + 1 :])
    holder = task.worker if scenario.keeps_producers else 0
    holders = (*driver.holders[:place], holder, *driver.holders[place + 1 :])
    if scenario.cache and not scenario.on.cache_holds_only_reads and task.acked:
        position = max(driver.read_to, *(known.offset + 1 for known in task.acked))
        driver = driver._replace(read_to=position)
        world = world._replace(cache=Cache(driver.view, position))
    return world.with_driver(task.driver, driver._replace(plans=plans, holders=holders))


def _stand(scenario: Scenario, world: World, number: int, driver: Driver) -> Iterator[Step]:
    """Where the driver stands in the group: it captures what the client gives, or sees that it is out."""
    current = world.group.metadata_of(driver.member)
    if world.leads(number):
        if driver.metadata != current:
            yield "captures its metadata anew", world.with_driver(number, driver._replace(metadata=current))
        return
    yield "notices that it has lost the lead", world.with_driver(number, Driver(driver.tasks_max, "gone"))
    if driver.metadata != current and _would_use(scenario, current):
        words = (
            "takes the metadata of no member" if current == NO_MEMBER else "takes a waiting member's metadata"
        )
        yield words, world.with_driver(number, driver._replace(metadata=current))


def _would_use(scenario: Scenario, current: Metadata) -> bool:
    """Whether a driver without the lead would use this metadata; the design has two reasons against it."""
    if current == NO_MEMBER:
        return not scenario.on.metadata_names_a_member
    return not scenario.on.metadata_under_assignment


def _doubt(scenario: Scenario, world: World, number: int, driver: Driver) -> Iterator[Step]:
    """Take a task for lost: because it is, or because its socket broke or Spark said so while it lives."""
    running = {(task.slot, task.number) for task in world.tasks if task.driver == number}
    for slot, plan in enumerate(driver.plans, start=1):
        if plan is None or plan.doubted:
            continue
        after = world.with_driver(number, doubted(scenario, driver, (slot,)))
        if (slot, plan.number) not in running:
            yield f"finds the task of slot {slot} lost", after
        elif world.budget.suspicions:
            yield f"takes the task of slot {slot} for lost", after.spent("suspicions")


def _read_on(scenario: Scenario, world: World, number: int, driver: Driver) -> Iterator[Step]:
    """Follow the ledger, read-committed, up to the last stable offset."""
    if not scenario.tails or (driver.recovery and driver.recovery.takeover):
        return
    view = merged(driver.view, world.broker.read(driver.read_to), newest_wins=scenario.on.newest_wins)
    position = world.broker.last_stable_offset()
    if view != driver.view:
        after = world.with_driver(number, driver._replace(view=view, read_to=position))
        yield "reads on in the ledger", after


def _settle(_: Scenario, world: World, number: int, driver: Driver) -> Iterator[Step]:
    """Delete the message of an object that is settled, as an acknowledged commit or the ledger says."""
    del number
    for name in sorted(world.queue):
        entry = entry_of(driver.view, name)
        if entry and entry.state in SETTLED:
            yield f"deletes the message of {name}", world._replace(queue=world.queue - {name})
