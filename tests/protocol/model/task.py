"""A task: initialise, ask for the plan, transactions of offset commit, rows, ledger records; report."""

from collections.abc import Iterator

from tests.protocol.model import driver as driving
from tests.protocol.model.broker import Entry, Known, Row
from tests.protocol.model.world import DONE, Scenario, Step, Task, TaskStage, Work, World


def task_steps(scenario: Scenario, world: World) -> Iterator[Step]:
    """What the tasks may do next, each on its own."""
    for task in world.tasks:
        for name, after in STAGES[task.stage](scenario, world, task):
            yield f"slot {task.slot}, plan {task.driver}/{task.number} copy {task.copy}: {name}", after


def _initialise(scenario: Scenario, world: World, task: Task) -> Iterator[Step]:
    """Take the slot's transactional id: the first thing a task does, before it is told that it may."""
    if not scenario.on.initialise_before_grant and not scenario.socketless and task.stage == "launched":
        yield from _ask(scenario, world, task)
        return
    kept = world.producer_of(task) if scenario.keeps_producers else 0
    holder = world.drivers[task.driver].holder_of(task.slot)
    if kept and (holder == task.worker or not scenario.on.only_last_holder):
        yield "takes its kept producer", world.with_task(_initialised(scenario, world, task, kept))
        return
    broker = world.broker.initialised(task.slot)
    after = world._replace(broker=broker)
    epoch = broker.producers[task.slot].epoch
    if scenario.keeps_producers:
        after = after.keeping(task, epoch)
    yield "initialises its producer", after.with_task(_initialised(scenario, after, task, epoch))


def _initialised(scenario: Scenario, world: World, task: Task, epoch: int) -> Task:
    if scenario.socketless:
        return task._replace(stage="checking", epoch=epoch, end=world.broker.end())
    return task._replace(stage="ready" if task.stage == "promised" else "initialised", epoch=epoch)


def _ask(scenario: Scenario, world: World, task: Task) -> Iterator[Step]:
    """Ask the driver to start the plan; after the answer the task may take any time."""
    number = _answering(scenario, world, task)
    driver = world.drivers[number]
    if driver.state == "gone":
        yield "finds no driver and ends", world.without_task(task)
        return
    granted = driving.granted(scenario, driver, task.slot, task.number)
    if granted is None:
        yield "asks, is told no", world.with_task(task._replace(stage="over", clean=False))
        return
    stage: TaskStage = "promised" if task.stage == "launched" else "ready"
    after = world.with_driver(number, granted)
    yield "asks, is told yes", after.with_task(task._replace(stage=stage, metadata=driver.metadata))


def _answering(scenario: Scenario, world: World, task: Task) -> int:
    """The driver that hears this task: the one that started it, unless its process has kept its sockets."""
    if scenario.same_process and not scenario.on.leads_again_with_new_sockets:
        return max(number for number, driver in enumerate(world.drivers) if driver.state != "waiting")
    return task.driver


def _check(scenario: Scenario, world: World, task: Task) -> Iterator[Step]:
    """Without a socket: read the ledger to the end and drop what has moved since it was planned."""
    if not scenario.on.task_reads_the_ledger:
        yield "does not look at the ledger", world.with_task(task._replace(stage="ready"))
    elif world.broker.last_stable_offset() >= task.end:
        now = {known.key: known.offset for known in world.broker.read()}
        kept = tuple(work for work in task.work if now.get(work.key, 0) <= work.offset)
        clean = len(kept) == len(task.work)
        stage: TaskStage = "ready" if kept else "over"
        yield "reads the ledger", world.with_task(task._replace(stage=stage, work=kept, clean=clean, end=0))


def _begin(scenario: Scenario, world: World, task: Task) -> Iterator[Step]:
    """Open a transaction with the offset commit, or give the work back."""
    if world.budget.give_backs:
        yield "gives the rest back", world.spent("give_backs").with_task(task._replace(stage="over"))
    if not world.broker.is_current(task.slot, task.epoch):
        yield from _fenced(scenario, world, task)
    elif world.broker.producers[task.slot].phase == "decided":
        return  # the broker asks to try again until the markers of the last one are written
    elif scenario.on.offset_commit_first and not _offsets_accepted(scenario, world, task):
        yield "begins, its offset commit is refused", _ended(world, task)
    else:
        broker = world.broker.begun(task.slot)
        yield (
            "begins, commits its offset",
            world._replace(broker=broker).with_task(task._replace(stage="begun")),
        )


def _write(scenario: Scenario, world: World, task: Task) -> Iterator[Step]:
    """Hand rows and ledger records to the producer, up to the next checkpoint."""
    if not world.broker.is_current(task.slot, task.epoch):
        yield from _fenced(scenario, world, task)
        return
    rows, entries, left = stretch(scenario, task.work)
    start = world.broker.end()
    records = tuple(Known(key, start + place, entry) for place, (key, entry) in enumerate(entries))
    after = world._replace(broker=world.broker.produced(task.slot, rows, entries))
    words = f"writes {', '.join(f'{name}[{row}]' for name, row in rows) or 'no row'}"
    yield words, after.with_task(task._replace(stage="written", sent=(left, records)))


def _commit(scenario: Scenario, world: World, task: Task) -> Iterator[Step]:
    """Commit: answered, or refused, or decided without an answer, or never arrived."""
    if not scenario.on.settle_after_commit:
        for known in task.sent[1]:
            if known.entry and known.entry.state == DONE and known.key in world.queue:
                yield (
                    f"has written {known.key}, its message is deleted",
                    world._replace(queue=world.queue - {known.key}),
                )
    if not world.broker.is_current(task.slot, task.epoch):
        yield from _fenced(scenario, world, task)
        return
    if not scenario.on.offset_commit_first and not _offsets_accepted(scenario, world, task):
        broker = world.broker.closed(task.slot)
        words = f"its offset commit is refused after {len(world.broker.producers[task.slot].rows)} rows"
        yield words, _ended(world._replace(broker=broker), task)
        return
    done = decided(scenario, world, task.slot)
    yield "commits", done.with_task(_acknowledged(task))
    unknown = task._replace(stage="unknown")
    if world.budget.lost_answers:
        yield "commits, the answer is lost", done.spent("lost_answers").with_task(unknown)
    if world.budget.lost_requests:
        yield "commits, the request is lost", world.spent("lost_requests").with_task(unknown)


def _resolve(scenario: Scenario, world: World, task: Task) -> Iterator[Step]:
    """After a commit without an answer: repeat it until it answers, or give up and call it unknown."""
    if not world.broker.is_current(task.slot, task.epoch):
        yield from _fenced(scenario, world, task)
        return
    if not scenario.on.unanswered_commit_is_unknown:
        # The broker has nothing to abort when it has committed, and the producer is none the wiser.
        phase = world.broker.producers[task.slot].phase
        broker = world.broker.closed(task.slot) if phase == "open" else world.broker
        again = task._replace(stage="ready", sent=((), ()))
        yield "aborts and sends the rows again", world._replace(broker=broker).with_task(again)
        return
    if not scenario.on.unanswered_abort_is_unknown:
        clean = task._replace(stage="over", sent=((), ()))
        yield "aborts, nobody answers, and it calls that clean", world.with_task(clean)
    is_open = world.broker.producers[task.slot].phase == "open"
    after = decided(scenario, world, task.slot) if is_open else world
    yield "repeats its commit", after.with_task(_acknowledged(task))
    yield "gives up: unknown", _ended(world, task)


def _report(scenario: Scenario, world: World, task: Task) -> Iterator[Step]:
    """Tell the driver how it went, through Spark or the socket; the report may be lost, or find nobody."""
    gone = world.without_task(task)
    if world.drivers[task.driver].state != "gone":
        yield f"reports {'done' if task.clean else 'a failure'}", driving.reported(scenario, gone, task)
    else:
        yield "ends unheard", gone
    if world.budget.lost_reports:
        yield "its report is lost", gone.spent("lost_reports")
    if not task.clean and not scenario.on.no_spark_retries and world.budget.retries:
        again = task._replace(stage="launched", clean=True, copy=task.copy + 1)
        yield "is run again by Spark", gone.spent("retries").with_task(again)


def _offsets_accepted(scenario: Scenario, world: World, task: Task) -> bool:
    if not scenario.on.offset_commit:
        return True
    return task.metadata is not None and world.group.accepts(task.metadata)


def _fenced(scenario: Scenario, world: World, task: Task) -> Iterator[Step]:
    yield "finds itself fenced", _ended(world, task)
    if not scenario.on.never_initialise_again and world.budget.retries:
        broker = world.broker.initialised(task.slot)
        again = task._replace(stage="ready", epoch=broker.producers[task.slot].epoch, sent=((), ()))
        yield "was fenced, initialises again", world.spent("retries")._replace(broker=broker).with_task(again)


def _ended(world: World, task: Task) -> World:
    """The task is over without a clean end; its producer is closed, never used again."""
    closed = world.keeping(task, 0) if world.producer_of(task) == task.epoch else world
    return closed.with_task(task._replace(stage="over", clean=False, sent=((), ())))


def _acknowledged(task: Task) -> Task:
    left, records = task.sent
    return task._replace(
        stage="ready" if left else "over", work=left, acked=(*task.acked, *records), sent=((), ())
    )


def decided(scenario: Scenario, world: World, slot: int) -> World:
    """The world with the id's transaction committed; markers come at once, or late if so asked."""
    broker = world.broker.decided(slot)
    return world._replace(broker=broker if scenario.late_markers else broker.closed(slot))


def stretch(
    scenario: Scenario, work: tuple[Work, ...]
) -> tuple[tuple[Row, ...], tuple[tuple[str, Entry | None], ...], tuple[Work, ...]]:
    """Rows of the next transaction, the ledger record of each object touched, the work left after it."""
    rows: list[Row] = []
    entries: dict[str, Entry | None] = {}
    left = list(work)
    while left and len(rows) < scenario.rows_per_commit:
        one = left.pop(0)
        stumble = scenario.stumbles.get(one.object)
        if stumble and stumble[0] == one.row and not one.passes:
            entries[one.key] = Entry(stumble[1], one.row)
            continue
        rows.append((one.object, one.row))
        one = one._replace(row=one.row + 1)
        entries[one.key] = Entry(DONE if one.row == one.end else "partial", one.row)
        if one.row < one.end:
            left.insert(0, one)
    return tuple(rows), tuple(entries.items()), tuple(left)


STAGES = {
    "launched": _initialise,
    "promised": _initialise,
    "initialised": _ask,
    "checking": _check,
    "ready": _begin,
    "begun": _write,
    "written": _commit,
    "unknown": _resolve,
    "over": _report,
}
