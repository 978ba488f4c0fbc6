"""Whatever happens to events, listings, slots and the service: each content that stays is ingested once."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from headrace.model.slot_protocol import BatchOutcome
from headrace.options.choices import Ordering
from ingest.source.notification import EventKind
from tests.ingest.source.catalogue.simulation import HOUR, Running, World

KEYS = ["a", "b", "c", "d/x", "é"]
ETAGS = ["1", "2"]
SIZES = [0, 1, 3, 12, 30]
FATES = ["enqueued", "enqueued", "enqueued", "without an ETag", "lost"]
WAITS_MS = [10, 1500, 90_000, HOUR, 30 * HOUR]
FAILURES = [
    "AccessDenied",
    "ObjectArchived",
    "ObjectCorrupt",
    "ObjectForbidden",
    "InvalidObject",
    "SourceUnavailable",
    "TopicMissing",
    "TransactionAborted",
]
PICK = st.integers(0, 20)


class Discovery(RuleBasedStateMachine):
    """Events doubled, delayed, reordered and lost; listings, overwrites, deletions, deaths and restarts."""

    world: World

    @initialize(ordering=st.sampled_from(Ordering), slots=st.integers(1, 3), is_versioned=st.booleans())
    def begin(self, ordering: Ordering, slots: int, is_versioned: bool) -> None:
        """An empty bucket, and a first leader."""
        self.world = World(ordering=ordering, slots=slots, is_versioned=is_versioned)
        self.messages = 0

    @rule(
        key=st.sampled_from(KEYS),
        etag=st.sampled_from(ETAGS),
        size=st.sampled_from(SIZES),
        fate=st.sampled_from(FATES),
    )
    def upload(self, key: str, etag: str, size: int, fate: str) -> None:
        """New or old content under a key; the event may not name its ETag, or never come."""
        event = self.world.upload(key, etag, size)
        if fate != "lost":
            self.messages += 1
            named = event if fate == "enqueued" else replace(event, etag=None)
            self.world.queue[f"m{self.messages}"] = (named,)

    @precondition(lambda self: self.world.queue)
    @rule(first=PICK, second=PICK)
    def join_messages(self, first: int, second: int) -> None:
        """Two records in one message; only for messages that nobody holds."""
        held = self.world.catalogue.states.messages._owed
        waiting = sorted(name for name in self.world.queue if name not in held)
        if len(waiting) > 1 and (first - second) % len(waiting):
            joined = self.world.queue.pop(waiting[first % len(waiting)])
            self.world.queue[waiting[second % len(waiting)]] += joined

    @precondition(lambda self: self.world.queue)
    @rule(pick=PICK, is_copied=st.booleans())
    def deliver(self, pick: int, is_copied: bool) -> None:
        """A message is announced, perhaps as two."""
        names = sorted(self.world.queue)
        name = names[pick % len(names)]
        if is_copied:
            self.messages += 1
            self.world.queue[f"m{self.messages}"] = self.world.queue[name]
            self.world.announce(f"m{self.messages}")
        self.world.announce(name)

    @rule(key=st.sampled_from(KEYS))
    def delete(self, key: str) -> None:
        """The object goes, and a removal is announced."""
        self.world.delete(key)
        self.messages += 1
        event = replace(self.world.upload("gone", "0", 1), kind=EventKind.REMOVED, key=key)
        self.world.delete("gone")
        self.world.queue[f"m{self.messages}"] = (event,)

    @rule(keys=st.integers(1, 3), is_full=st.booleans(), pages=st.integers(0, 4))
    def list_pages(self, keys: int, is_full: bool, pages: int) -> None:
        """Goes on with the listing under way, or begins one; no pages: what was under way is given up."""
        if not pages:
            self.world.listing = None
        for _ in range(pages):
            if self.world.list_page(keys, is_full=is_full):
                break

    @precondition(lambda self: self.world.heads)
    @rule(pick=PICK)
    def answer_head(self, pick: int) -> None:
        """S3 answers a HEAD."""
        if self.world.heads:
            self.world.answer_head(pick)

    @precondition(lambda self: self.world.owed)
    @rule(most=st.integers(0, 5))
    def write(self, most: int) -> None:
        """The next transaction of the driver is committed, and the follower reads on."""
        if self.world.owed:
            self.world.write_next()
        self.world.follow(most)

    def working(self, pick: int) -> tuple[int, Running] | None:
        """A slot whose task lives."""
        slots = sorted(slot for slot, running in self.world.running.items() if not running.is_lost)
        return (slots[pick % len(slots)], self.world.running[slots[pick % len(slots)]]) if slots else None

    @rule(
        pick=PICK, idle=st.integers(1, 3), rows=st.lists(st.integers(1, 20), max_size=4), ends=st.booleans()
    )
    def work(self, pick: int, idle: int, rows: list[int], ends: bool) -> None:
        """A slot gets work if it has none, and does some of it."""
        slot = pick % self.world.slots
        if slot not in self.world.running and not self.world.plan(slot, idle):
            return
        running = self.world.running[slot]
        if running.is_lost:
            return
        for count in rows:
            if running.works:
                self.world.step(slot, count)
        if ends:
            self.world.finish(slot)

    @precondition(lambda self: self.world.running)
    @rule(pick=PICK, kind=st.sampled_from(FAILURES))
    def fail(self, pick: int, kind: str) -> None:
        """The task gives its next object up."""
        found = self.working(pick)
        if found is not None and found[1].works:
            self.world.fail(found[0], kind)

    @precondition(lambda self: self.world.running)
    @rule(pick=PICK, outcome=st.sampled_from(BatchOutcome))
    def finish(self, pick: int, outcome: BatchOutcome) -> None:
        """The task ends, whatever is left."""
        found = self.working(pick)
        if found is not None:
            self.world.finish(found[0], outcome)

    @precondition(lambda self: self.world.running)
    @rule(pick=PICK, rows=st.integers(0, 20))
    def lose(self, pick: int, rows: int) -> None:
        """A task dies, perhaps after a commit that nobody heard of."""
        found = self.working(pick)
        if found is not None:
            if rows and found[1].works:
                self.world.step(found[0], rows, is_reported=False)
            self.world.lose(found[0])

    @precondition(lambda self: any(running.is_lost for running in self.world.running.values()))
    @rule(worker_died=st.booleans())
    def recover(self, worker_died: bool) -> None:
        """Lost slots are fenced and the ledger is read."""
        for slot, running in list(self.world.running.items()):
            if running.is_lost:
                self.world.recover(slot, worker_died=worker_died)

    @precondition(lambda self: self.world.running or self.world.owed)
    @rule(was_written=st.booleans(), ordering=st.sampled_from(Ordering))
    def restart(self, was_written: bool, ordering: Ordering) -> None:
        """The driver dies in the middle of things; a transaction under way was committed, or not.

        The next one may be configured with another ordering.
        """
        if was_written and self.world.owed:
            self.world.commit_writes(self.world.owed[0])
        self.world.ordering = ordering
        self.world.start()

    @rule(delta_ms=st.sampled_from(WAITS_MS))
    def wait(self, delta_ms: int) -> None:
        """Time passes."""
        self.world.now_ms += delta_ms
        self.world.carry_out(self.world.planner.tick(self.world.now))

    def teardown(self) -> None:
        """In the end everything is there, once."""
        if hasattr(self, "world"):
            self.world.finale()


def explore(max_examples: int, steps: int) -> None:
    """Hypothesis looks for the shortest way to break the promise."""
    run_state_machine_as_test(
        Discovery,
        settings=settings(
            max_examples=max_examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_every_content_that_stays_is_ingested_exactly_once() -> None:
    """For any interleaving, each (key, ETag) that stayed is ingested exactly once."""
    explore(50, 50)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_every_content_that_stays_is_ingested_exactly_once_at_length() -> None:
    """The same, with more patience."""
    explore(800, 100)


def walk(seed: int, steps: int) -> World:
    """A long walk, for hypothesis prefers short ones; what is frequent in life is frequent here."""
    luck = random.Random(seed)
    machine = cast("Any", Discovery())  # hypothesis leaves its rules untyped

    def pick() -> int:
        return luck.randrange(21)

    def flip() -> bool:
        return luck.random() < 0.5

    machine.begin(luck.choice(list(Ordering)), luck.randint(1, 3), flip())
    actions: list[tuple[float, Callable[[], None]]] = [
        (
            4,
            lambda: machine.upload(
                luck.choice(KEYS), luck.choice(ETAGS), luck.choice(SIZES), luck.choice(FATES)
            ),
        ),
        (4, lambda: machine.deliver(pick(), flip()) if machine.world.queue else None),
        (0.5, lambda: machine.join_messages(pick(), pick())),
        (1, lambda: machine.delete(luck.choice(KEYS))),
        (2, lambda: machine.list_pages(luck.randint(1, 3), flip(), luck.randint(0, 4))),
        (2, lambda: machine.answer_head(pick())),
        (5, lambda: machine.write(luck.randint(0, 5))),
        (
            12,
            lambda: machine.work(
                pick(), luck.randint(1, 3), [luck.randint(1, 20) for _ in range(pick() % 5)], flip()
            ),
        ),
        (2, lambda: machine.fail(pick(), luck.choice(FAILURES))),
        (1, lambda: machine.finish(pick(), luck.choice(list(BatchOutcome)))),
        (2, lambda: machine.lose(pick(), pick())),
        (3, lambda: machine.recover(flip())),
        (0.2, lambda: machine.restart(flip(), luck.choice(list(Ordering)))),
        (2, lambda: machine.wait(luck.choices(WAITS_MS, [8, 4, 2, 1, 0.3])[0])),
    ]
    weights, moves = zip(*actions, strict=True)
    for _ in range(steps):
        luck.choices(moves, weights)[0]()
    machine.teardown()
    world: World = machine.world
    return world


@pytest.mark.parametrize("seed", range(60))
def test_long_walks(seed: int) -> None:
    """The promise holds at the end of a long walk."""
    world = walk(seed, 300)
    assert world.ledger.log


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("hundred", range(30))
def test_many_long_walks(hundred: int) -> None:
    """The same for three thousand longer ones."""
    for seed in range(hundred * 100 + 1000, hundred * 100 + 1100):
        walk(seed, 400)
