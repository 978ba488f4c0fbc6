"""Planning: what is pending by the driver's view, dealt to free slots."""

from collections.abc import Iterator
from itertools import pairwise

from tests.protocol.model.broker import Entry, entry_of
from tests.protocol.model.world import SETTLED, SLOT_COUNT, Driver, Plan, Scenario, Step, Task, Work, World


def plan_steps(scenario: Scenario, world: World, number: int, driver: Driver) -> Iterator[Step]:
    """A plan for each free slot, with the task that Spark starts for it on some worker."""
    if driver.metadata is None or (driver.recovery and driver.recovery.takeover):
        return
    if not world.leads(number):
        if not world.budget.old_plans:
            return
        world = world.spent("old_plans")
    held = held_keys(driver)
    work = tuple(one for one in pending(scenario, world, driver) if one.key not in held)[
        : scenario.objects_per_plan
    ]
    if not work:
        return
    for slot in range(1, _usable_slots(scenario, driver) + 1):
        if driver.plan_of(slot) is None and not (driver.recovery and slot in driver.recovery.ids):
            for worker in _free_workers(scenario, world, number):
                words = f"plans {', '.join(f'{one.key} from {one.row}' for one in work)} for slot {slot}"
                if scenario.workers > 1:
                    words += f" on worker {worker}"
                yield (
                    f"{words} (plan {driver.next_number})",
                    _planned(scenario, world, number, slot, worker, work),
                )


def held_keys(driver: Driver) -> set[str]:
    """The keys that a plan holds, be it live or in doubt, or that the driver is writing."""
    held = {work.key for plan in driver.plans if plan for work in plan.work}
    if driver.write:
        held |= {key for key, _ in (*driver.write.records, *driver.write.then)}
    return held


def cut_points(scenario: Scenario, driver: Driver, name: str) -> tuple[int, ...]:
    """Where this driver would cut the object: only with more than one slot is it worth it."""
    return (scenario.cuts[name],) if name in scenario.cuts and driver.tasks_max > 1 else ()


def slice_key(name: str, begin: int, end: int) -> str:
    """The ledger key of a slice."""
    return f"{name}[{begin}:{end}]"


def slices_of(scenario: Scenario, name: str, cuts: tuple[int, ...]) -> list[tuple[int, int]]:
    """Begin and end of each slice."""
    edges = (0, *cuts, scenario.sizes[name])
    return list(pairwise(edges))


def pending(scenario: Scenario, world: World, driver: Driver) -> Iterator[Work]:
    """What is to be done: announced and unknown, or unfinished by the ledger."""
    for name, size in scenario.sizes.items():
        entry = entry_of(driver.view, name)
        if (entry is None and name not in world.queue) or (entry and entry.state in SETTLED):
            continue
        cuts = entry.cuts if entry else cut_points(scenario, driver, name)
        if cuts and entry is None and scenario.on.cuts_first:
            continue
        if not cuts:
            yield _work(driver, name, name, entry.position if entry else 0, size)
            continue
        for begin, end in slices_of(scenario, name, cuts):
            key = slice_key(name, begin, end)
            part = entry_of(driver.view, key)
            if part is None or part.state not in SETTLED:
                yield _work(driver, key, name, part.position if part else begin, end)


def _work(driver: Driver, key: str, name: str, row: int, end: int) -> Work:
    entry: Entry | None = entry_of(driver.view, key)
    offset = next((known.offset for known in driver.view if known.key == key), 0)
    return Work(
        key, name, row, end, passes=entry is not None and entry.state in ("failed", "new"), offset=offset
    )


def _usable_slots(scenario: Scenario, driver: Driver) -> int:
    if not scenario.on.slot_count_before_first_task:
        return driver.tasks_max
    count = entry_of(driver.view, SLOT_COUNT)
    return min(driver.tasks_max, count.position if count else 0)


def _free_workers(scenario: Scenario, world: World, number: int) -> Iterator[int]:
    """Workers without a task; where only one is named, there is always another like it."""
    busy = {task.worker for task in world.tasks if task.driver == number}
    if scenario.workers == 1:
        yield 1
    else:
        yield from (worker for worker in range(1, scenario.workers + 1) if worker not in busy)


def _planned(
    scenario: Scenario, world: World, number: int, slot: int, worker: int, work: tuple[Work, ...]
) -> World:
    driver = world.drivers[number]
    plan = Plan(driver.next_number, work)
    task = Task(number, slot, plan.number, 0, worker, "launched", work)
    if scenario.socketless:
        task = task._replace(metadata=driver.metadata)
    plans = (*driver.plans[: slot - 1], plan, *driver.plans[slot:])
    after = driver._replace(plans=plans, next_number=plan.number + 1)
    return world.with_driver(number, after).with_task(task)
