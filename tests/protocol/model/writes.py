"""The driver's own ledger writes: the slot count, cuts, the end of a split object, replay."""

from collections.abc import Iterator

from tests.protocol.model.broker import DRIVER_ID, Entry, Known, entry_of, merged
from tests.protocol.model.planning import cut_points, held_keys, slice_key, slices_of
from tests.protocol.model.recovery import doubted
from tests.protocol.model.world import DONE, SETTLED, SLOT_COUNT, Driver, Scenario, Step, World, Write

Records = tuple[tuple[str, Entry | None], ...]

REPLAYABLE = ("failed", "quarantined")


def replay_key(name: str) -> str:
    """The ledger key of the control record with which `headrace replay` asks for an object."""
    return f"replay {name}"


def write_steps(scenario: Scenario, world: World, number: int, driver: Driver) -> Iterator[Step]:
    """Begin one of the writes that the driver has to make, or go on with the one in hand."""
    if driver.recovery and (driver.recovery.takeover or DRIVER_ID in driver.recovery.ids):
        return
    go_on = _in_transaction if scenario.on.driver_writes_in_transactions else _plainly
    if driver.write:
        yield from go_on(scenario, world, number, driver, driver.write)
    else:
        for name, records, then in _wanted(scenario, driver):
            yield from go_on(scenario, world, number, driver, Write(name, records, then))


def _wanted(scenario: Scenario, driver: Driver) -> Iterator[tuple[str, Records, Records]]:
    """What the driver has to write by its view: a name, the records, those of a transaction after it."""
    count = entry_of(driver.view, SLOT_COUNT)
    if scenario.on.slot_count_before_first_task and (count.position if count else 0) < driver.tasks_max:
        yield "the slot count", ((SLOT_COUNT, Entry("control", driver.tasks_max)),), ()
    for name in scenario.sizes:
        if entry_of(driver.view, replay_key(name)):
            yield from _replay(scenario, driver, name)
        yield from _split(scenario, driver, name)


def _replay(scenario: Scenario, driver: Driver, name: str) -> Iterator[tuple[str, Records, Records]]:
    """The command's effect and its end, in one transaction."""
    if name in held_keys(driver) and scenario.on.driver_spares_live_plans:
        return
    entry = entry_of(driver.view, name)
    end: Records = ((replay_key(name), None),)
    if entry and entry.state in REPLAYABLE:
        new = Entry("new", entry.position) if scenario.on.replay_writes_new else None
        yield f"the replay of {name}", ((name, new), *end), ()
    else:
        yield f"the end of the replay of {name}", end, ()


def _split(scenario: Scenario, driver: Driver, name: str) -> Iterator[tuple[str, Records, Records]]:
    """The cuts of an object before its slices, and `done` after them."""
    entry = entry_of(driver.view, name)
    cuts = entry.cuts if entry else cut_points(scenario, driver, name)
    if not cuts or (entry and entry.state in SETTLED) or name in held_keys(driver):
        return
    keys = [slice_key(name, begin, end) for begin, end in slices_of(scenario, name, cuts)]
    parts = [entry_of(driver.view, key) for key in keys]
    if entry is None and scenario.on.cuts_first:
        yield f"the cuts of {name}", ((name, Entry("partial", 0, cuts)),), ()
    elif all(part and part.state == DONE for part in parts):
        done: Records = ((name, Entry(DONE, scenario.sizes[name])),)
        tombstones: Records = tuple((key, None) for key in keys)
        if scenario.on.done_with_tombstones:
            yield f"the end of {name}", (*done, *tombstones), ()
        else:
            yield f"the tombstones of {name}'s slices", tombstones, done


def _in_transaction(
    scenario: Scenario, world: World, number: int, driver: Driver, write: Write
) -> Iterator[Step]:
    """Offset commit, records, commit, as tasks do it."""
    if not world.broker.is_current(DRIVER_ID, driver.epoch):
        yield f"finds itself fenced at {write.name}", _refused(scenario, world, number, driver)
    elif write.stage == "begun":
        known = _known(write, world.broker.end())
        after = world._replace(broker=world.broker.produced(DRIVER_ID, (), write.records))
        written = driver._replace(write=write._replace(stage="written", known=known))
        yield f"writes {write.name}", after.with_driver(number, written)
    elif write.stage == "written":
        yield from _commit(scenario, world, number, driver, write)
    elif driver.metadata is None or world.broker.producers[DRIVER_ID].phase == "decided":
        return
    elif scenario.on.offset_commit and not world.group.accepts(driver.metadata):
        yield f"is refused at {write.name}", _refused(scenario, world, number, driver)
    else:
        after = world._replace(broker=world.broker.begun(DRIVER_ID))
        begun = driver._replace(write=write._replace(stage="begun"))
        yield f"begins to write {write.name}", after.with_driver(number, begun)


def _commit(scenario: Scenario, world: World, number: int, driver: Driver, write: Write) -> Iterator[Step]:
    broker = world.broker.decided(DRIVER_ID)
    done = world._replace(broker=broker if scenario.late_markers else broker.closed(DRIVER_ID))
    yield f"commits {write.name}", done.with_driver(number, _acknowledged(scenario, driver, write))
    if world.budget.lost_answers:
        # Unknown: its own id is fenced and the ledger read, as after a task that did not report cleanly.
        unknown = driver._replace(write=write._replace(stage="unknown"))
        after = done.spent("lost_answers").with_driver(number, doubted(scenario, unknown, (DRIVER_ID,)))
        yield f"commits {write.name}, the answer is lost", after


def _plainly(scenario: Scenario, world: World, number: int, driver: Driver, write: Write) -> Iterator[Step]:
    """Without transactions nothing is asked of the broker between the decision and the record's arrival."""
    if driver.write is None:
        yield f"decides to write {write.name}", world.with_driver(number, driver._replace(write=write))
        return
    sent = _acknowledged(scenario, driver, write._replace(known=_known(write, world.broker.end())))
    after = world._replace(broker=world.broker.produced_plainly(write.records))
    yield f"writes {write.name} plainly", after.with_driver(number, sent)


def _acknowledged(scenario: Scenario, driver: Driver, write: Write) -> Driver:
    view = merged(driver.view, write.known, newest_wins=scenario.on.newest_wins)
    following = Write(write.name, write.then, ()) if write.then else None
    return driver._replace(view=view, write=following)


def _refused(scenario: Scenario, world: World, number: int, driver: Driver) -> World:
    """A refused driver has lost the lead, or its producer to the late fence of a deposed one."""
    if not world.leads(number):
        return world.with_driver(number, Driver(driver.tasks_max, "gone"))
    return world.with_driver(number, doubted(scenario, driver._replace(write=None), (DRIVER_ID,)))


def _known(write: Write, start: int) -> tuple[Known, ...]:
    return tuple(Known(key, start + place, entry) for place, (key, entry) in enumerate(write.records))
