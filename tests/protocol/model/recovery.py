"""Void, then fence, then read: on taking the lead for all slots ever used, after a bad end for that slot."""

from collections.abc import Iterator

from tests.protocol.model.broker import DRIVER_ID, Known, entry_of, merged
from tests.protocol.model.world import (
    SLOT_COUNT,
    Cache,
    Driver,
    Recovery,
    RecoveryStage,
    Scenario,
    Step,
    World,
)


def doubted(scenario: Scenario, driver: Driver, ids: tuple[int, ...]) -> Driver:
    """The driver with these slots' plans void and about to be fenced, beside what it recovers already."""
    plans = tuple(
        plan._replace(doubted=True) if plan and slot in ids else plan
        for slot, plan in enumerate(driver.plans, start=1)
    )
    numbers = {plan.number for plan in plans if plan and plan.doubted}
    voided = driver.voided | numbers if scenario.on.void_before_fence else driver.voided
    earlier = driver.recovery.ids if driver.recovery else ()
    takeover = driver.recovery is not None and driver.recovery.takeover
    holders = tuple(0 if slot in ids else holder for slot, holder in enumerate(driver.holders, start=1))
    recovery = Recovery(_course(scenario)[0], tuple(sorted({*earlier, *ids})), takeover=takeover)
    return driver._replace(plans=plans, voided=voided, recovery=recovery, holders=holders)


def recovery_steps(scenario: Scenario, world: World, number: int, driver: Driver) -> Iterator[Step]:
    """The next step of a recovery under way."""
    if driver.recovery is not None:
        yield from STAGES[driver.recovery.stage](scenario, world, number, driver, driver.recovery)


def _course(scenario: Scenario) -> tuple[RecoveryStage, ...]:
    """The stages in their order; the switches leave out or exchange some."""
    rotate: tuple[RecoveryStage, ...] = (
        ("rotate",) if scenario.socketless and scenario.on.rotate_before_fence else ()
    )
    fence: tuple[RecoveryStage, ...] = ("fence",) if scenario.on.fence else ()
    if scenario.on.end_after_fence:
        return (*rotate, *fence, "end", "read")
    return (*rotate, "end", *fence, "read")


def _after(scenario: Scenario, stage: RecoveryStage) -> RecoveryStage:
    course = _course(scenario)
    return course[course.index(stage) + 1]


def _count(
    scenario: Scenario, world: World, number: int, driver: Driver, recovery: Recovery
) -> Iterator[Step]:
    """How many slots there may be open transactions of: the first thing a new leader asks the ledger."""
    view = world.broker.read_uncommitted() if scenario.on.slot_count_read_uncommitted else world.broker.read()
    last = driver.tasks_max
    if scenario.on.fence_all_slots_ever_used:
        last = max(last, _slot_count(view))
    ids = (DRIVER_ID, *range(1, last + 1))
    stage = next(stage for stage in _course(scenario) if stage != "rotate")
    after = driver._replace(recovery=recovery._replace(stage=stage, ids=ids))
    yield f"has {last} slots to fence", world.with_driver(number, after)


def _rotate(
    scenario: Scenario, world: World, number: int, driver: Driver, recovery: Recovery
) -> Iterator[Step]:
    """Renew the membership: tasks with the old member id are refused from now on."""
    if not world.leads(number):
        return  # the group gives a deposed driver no new membership; it will notice
    group = world.group.rotated(f"{driver.member}'")
    after = driver._replace(
        member=group.leader,
        metadata=group.metadata_of(group.leader),
        recovery=recovery._replace(stage=_after(scenario, "rotate")),
    )
    yield "renews its membership", world._replace(group=group).with_driver(number, after)


def _fence(
    scenario: Scenario, world: World, number: int, driver: Driver, recovery: Recovery
) -> Iterator[Step]:
    """Initialise the next transactional id; what it has open is aborted, or completed when decided."""
    slot = recovery.ids[recovery.fenced]
    broker = world.broker.initialised(slot)
    if slot == DRIVER_ID:
        driver = driver._replace(epoch=broker.producers[slot].epoch)
    recovery = recovery._replace(fenced=recovery.fenced + 1)
    if recovery.fenced == len(recovery.ids):
        recovery = recovery._replace(stage=_after(scenario, "fence"))
    after = world._replace(broker=broker).with_driver(number, driver._replace(recovery=recovery))
    yield f"fences {'its own id' if slot == DRIVER_ID else f'slot {slot}'}", after


def _end(scenario: Scenario, world: World, number: int, driver: Driver, recovery: Recovery) -> Iterator[Step]:
    """Ask for the end up to which the ledger has to be read."""
    end = world.broker.end() if scenario.on.end_is_uncommitted else world.broker.last_stable_offset()
    after = recovery._replace(stage=_after(scenario, "end"), end=end)
    yield f"has to read to {end}", world.with_driver(number, driver._replace(recovery=after))


def _read(
    scenario: Scenario, world: World, number: int, driver: Driver, recovery: Recovery
) -> Iterator[Step]:
    """Read up to that end; when another transaction stays open below it, start again with all slots."""
    if world.leads(number) and driver.metadata != world.group.metadata_of(driver.member):
        return  # a join has raised the generation: to plan before the callback is to be refused again
    stable = world.broker.last_stable_offset()
    if stable < recovery.end:
        yield from _start_again(scenario, world, number, driver)
        return
    cache = world.cache if scenario.cache and recovery.takeover else Cache(driver.view, driver.read_to)
    view = merged(cache.view, world.broker.read(cache.read_to), newest_wins=scenario.on.newest_wins)
    if not scenario.on.ledger_is_the_truth and not recovery.takeover:
        view = driver.view
    last = _slot_count(view)
    again_on_more = scenario.on.fence_again_on_larger_count and scenario.on.fence_all_slots_ever_used
    if recovery.takeover and again_on_more and last >= len(recovery.ids):
        ids = (DRIVER_ID, *range(1, last + 1))
        again = driver._replace(recovery=Recovery(_course(scenario)[0], ids, takeover=True))
        yield f"reads of {last} slots, fences again", world.with_driver(number, again)
        return
    known = _concluded(scenario, driver)._replace(view=view, read_to=stable)
    after = world.with_driver(number, known)
    if scenario.cache:
        after = after._replace(cache=Cache(view, stable))
        if not scenario.on.cache_rows_with_position and world.budget.cache_saves:
            torn = world.with_driver(number, known)._replace(cache=Cache(cache.view, stable))
            yield "reads the ledger, the cache gets the position without the rows", torn.spent("cache_saves")
    yield "reads the ledger", after


def _start_again(scenario: Scenario, world: World, number: int, driver: Driver) -> Iterator[Step]:
    """The end is not reached in three boundary intervals: void and fence all slots, ask for a new end.

    Time is not in the model: this happens when a transaction is open that no living task will end.
    """
    ending = {task.slot for task in world.tasks if world.broker.is_current(task.slot, task.epoch)}
    stuck = [
        slot
        for slot, state in enumerate(world.broker.producers)
        if state.phase == "open" and slot not in ending
    ]
    if driver.write and driver.write.stage != "unknown":
        stuck = [one for one in stuck if one != DRIVER_ID]
    if stuck and not world.leads(number):
        if not world.budget.suspicions:
            return  # two drivers that fence each other for ever are no news; the deposed one will notice
        world = world.spent("suspicions")
    if stuck:
        again = doubted(scenario, driver, tuple(range(len(world.broker.producers))))
        yield "does not get to the end, fences all", world.with_driver(number, again)


def _concluded(scenario: Scenario, driver: Driver) -> Driver:
    """The driver with the doubted plans gone: what they held may be planned anew."""
    gone = frozenset(plan.number for plan in driver.plans if plan and plan.doubted)
    plans = tuple(None if plan and plan.doubted else plan for plan in driver.plans)
    # A number that is no live plan's is never granted anyway, unless no account is kept of the answers.
    voided = driver.voided - gone if scenario.on.grant_once else driver.voided | gone
    write = None if driver.recovery and DRIVER_ID in driver.recovery.ids else driver.write
    return driver._replace(plans=plans, voided=voided, write=write, recovery=None)


def _slot_count(view: tuple[Known, ...]) -> int:
    count = entry_of(view, SLOT_COUNT)
    return count.position if count else 0


STAGES = {"count": _count, "rotate": _rotate, "fence": _fence, "end": _end, "read": _read}
