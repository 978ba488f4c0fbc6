"""A bucket, a queue, a ledger and slots, simulated around the real catalogue and planner.

Every content of a key has as many rows as its size says; a task produces rows and commits them together with
its checkpoint, so that the world can count how often each row became visible.
"""

from collections import Counter
from dataclasses import dataclass, field

from headrace.model.clock import Instant
from headrace.model.ledger_entry import LedgerEntry, LedgerKey, SplitKey, State
from headrace.model.objects import ListingPage, ObjectId, Route, S3Object
from headrace.model.positions import BytePosition
from headrace.model.slot_protocol import BatchOutcome, Checkpoint, Failure, Finished, Split
from headrace.options.choices import Ordering
from ingest.source.catalogue import (
    Catalogue,
    Effects,
    HeadRequest,
    LedgerWrite,
    ObjectFilter,
    Replay,
    Selection,
)
from ingest.source.notification import EventKind, ObjectEvent
from ingest.source.planner import Backoff, BatchLimits, Planner
from tests.ingest.source.catalogue.fake_ledger import FakeLedger, known_objects
from tests.support.instants import at

BUCKET = "bucket"
HOUR = 3_600_000
RETENTION = 24 * HOUR


def route(key: str) -> Route:
    """Two topic-partitions; the last letter of a key is its start offset."""
    number = ord(key[-1])
    return Route(topic="topic", partition=number % 2, start_offset=None if key == "a" else number)


@dataclass
class Running:
    """What a slot is working on, as its task sees it."""

    plan: int
    works: list[Split]
    entries: dict[LedgerKey, LedgerEntry] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    returned: list[Split] = field(default_factory=list)
    cuts: list[tuple[Split, tuple[int, ...]]] = field(default_factory=list)
    is_lost: bool = False
    held: set[LedgerKey] = field(default_factory=set)


def place_of(route: Route) -> tuple[str, int | None]:
    """The topic-partition that a route leads to."""
    return route.topic, route.partition


def rank_of(object_id: ObjectId, route: Route) -> tuple[int, str]:
    """Where an object stands in its topic-partition: by start offset (absent ones first), then key."""
    return (-1 if route.start_offset is None else route.start_offset), object_id.key


def key_of(work: Split) -> LedgerKey:
    """The ledger key of a work."""
    if work.begin is None or work.end is None:
        return work.object.id
    return SplitKey(work.object.id, work.begin, work.end)


class World:
    """All state outside the catalogue and the planner, and the assertions that hold at every step."""

    def __init__(self, *, ordering: Ordering, slots: int, is_versioned: bool) -> None:
        self.now_ms = 1_000 * HOUR
        self.ordering = ordering
        self.slots = slots
        self.is_versioned = is_versioned
        self.ledger = FakeLedger()
        self.current: dict[str, S3Object] = {}
        self.versions: dict[tuple[str, str], S3Object] = {}
        self.uploaded_ms: dict[ObjectId, int] = {}
        self.sizes: dict[ObjectId, int] = {}
        self.queue: dict[str, tuple[ObjectEvent, ...]] = {}
        self.announced_ms: dict[ObjectId, int] = {}
        self.produced: dict[ObjectId, Counter[int]] = {}
        self.forgotten: dict[ObjectId, tuple[LedgerEntry | None, Counter[int]]] = {}
        self.was_whole: set[ObjectId] = set()
        self.given_up: set[ObjectId] = set()
        self.heads: list[HeadRequest] = []
        self.owed: list[tuple[LedgerWrite, ...]] = []
        self.running: dict[int, Running] = {}
        self.plans = 0
        self.sequence = 0
        self.listing_id = 0
        self.listing_begun_ms = 0
        self.listing: tuple[str | None, int] | None = None
        self.start()

    def start(self) -> None:
        """A new leader: everything in memory is gone, the ledger was read after a fence."""
        self.running.clear()
        self.heads.clear()
        self.owed.clear()
        self.listing = None
        self.ledger.follow()
        self.catalogue = Catalogue(
            view=self.ledger.view,
            filters={BUCKET: ObjectFilter(route=route)},
            max_pending_objects=6,
            retention_ms=RETENTION,
            is_ordered=self.ordering is Ordering.PARTITION,
        )
        self.planner = Planner(
            self.catalogue,
            limits=BatchLimits(
                slots=self.slots,
                max_objects=3,
                max_bytes=8,
                ordering=self.ordering,
                can_cut=True,
                max_attempts=3,
            ),
            backoff=Backoff(first_ms=1000, longest_ms=60_000, jitter=lambda: 0.5),
        )
        self.carry_out(self.catalogue.resume(self.now))

    @property
    def now(self) -> Instant:
        """The time of driver and S3."""
        return at(self.now_ms)

    def carry_out(self, effects: Effects) -> None:
        """What the service does; driver writes stay owed until `write_next`."""
        for delivery_id in effects.settled:
            for event in self.queue.pop(delivery_id):
                self._check_settled(event)
        assert not effects.abandoned
        self.heads.extend(effects.heads)
        if effects.writes:
            for write in effects.writes:
                self._check_free(write)
                if write.entry is None and isinstance(write.key, ObjectId):
                    self._check_absent(write.key)
            self.owed.append(effects.writes)

    def _check_settled(self, event: ObjectEvent) -> None:
        """A message is deleted only when the ledger says the end of what it named."""
        if event.kind is not EventKind.CREATED or event.etag is None:
            return
        object_id = ObjectId(BUCKET, event.key, event.etag)
        entry = self.ledger.truth.get(object_id)
        # An event that the ledger may have forgotten is believed only as far as a HEAD shows its content.
        is_old = event.event_time_ms is not None and event.event_time_ms < self.now_ms - RETENTION
        # An end that was not for good counts for the events before it, whatever has come after.
        ends = [each for key, each in self.ledger.log if key == object_id and each and each.is_settled]
        assert is_old or ends, f"{event} settled at {entry}"

    def _check_absent(self, object_id: ObjectId) -> None:
        """An entry goes only when its content was not there as the listing began."""
        found = self.current.get(object_id.key)
        is_there = found is not None and found.id == object_id
        assert not is_there or self.uploaded_ms[object_id] >= self.listing_begun_ms

    def _check_free(self, write: LedgerWrite) -> None:
        for running in self.running.values():
            assert write.key not in running.held, f"{write} while a plan holds it"

    # The bucket

    def upload(self, key: str, etag: str, size: int) -> ObjectEvent:
        """The content is there; its event is returned."""
        self.sequence += 1
        object_id = ObjectId(BUCKET, key, etag)
        size = self.sizes.setdefault(object_id, size)
        version_id = f"v{self.sequence}" if self.is_versioned else None
        seen = S3Object(
            id=object_id,
            size=size,
            last_modified_ms=self.now_ms // 1000 * 1000,
            version_id=version_id,
        )
        self.current[key] = seen
        self.uploaded_ms[object_id] = self.now_ms
        if version_id is not None:
            self.versions[key, version_id] = seen
        return ObjectEvent(
            kind=EventKind.CREATED,
            name="ObjectCreated:Put",
            bucket=BUCKET,
            key=key,
            etag=etag,
            size=size,
            version_id=version_id,
            sequencer=f"{self.sequence:04X}",
            event_time_ms=self.now_ms,
        )

    def delete(self, key: str) -> None:
        """The key shows nothing any more; versions stay."""
        self.current.pop(key, None)

    def read(self, work: Split) -> str | None:
        """The error that a GET of this work meets, if any."""
        wanted = work.object
        if wanted.version_id is not None:
            return None if (wanted.id.key, wanted.version_id) in self.versions else "ObjectMissing"
        found = self.current.get(wanted.id.key)
        if found is None:
            return "ObjectMissing"
        return None if found.id.etag == wanted.id.etag else "ObjectSuperseded"

    # The listeners

    def announce(self, delivery_id: str) -> None:
        """A message reaches the catalogue."""
        events = self.queue[delivery_id]
        for event in events:
            if event.etag is not None and event.kind is EventKind.CREATED:
                object_id = ObjectId(BUCKET, event.key, event.etag)
                assert event.event_time_ms is not None
                # The event of a later upload of the same content may have been lost.
                self.announced_ms[object_id] = max(event.event_time_ms, self.announced_ms.get(object_id, 0))
        self.carry_out(self.catalogue.on_message(delivery_id, events, self.now))

    def answer_head(self, pick: int = 0) -> None:
        """S3 answers a HEAD, whichever was asked first."""
        request = self.heads.pop(pick % len(self.heads))
        found = self.current.get(request.key)
        if request.version_id is not None:
            found = self.versions.get((request.key, request.version_id))
        self.carry_out(self.catalogue.on_head_answer(request.token, found, self.now))

    def list_page(self, page_keys: int, *, is_full: bool = True) -> bool:
        """One page; True when it was the last."""
        if self.listing is None:
            self.listing_id += 1
            self.listing_begun_ms = self.now_ms
            self.listing = (None if is_full else min(self.current, default=None), self.listing_id)
        after, listing_id = self.listing
        keys = sorted(key for key in self.current if after is None or key > after)
        through = keys[page_keys - 1] if len(keys) > page_keys else None
        page = ListingPage(
            bucket=BUCKET,
            listing_id=listing_id,
            is_full=is_full,
            after_key=after,
            through_key=through,
            # A listing shows no version.
            objects=tuple(
                S3Object(
                    id=self.current[key].id,
                    size=self.current[key].size,
                    last_modified_ms=self.current[key].last_modified_ms,
                )
                for key in keys[:page_keys]
            ),
        )
        self.listing = None if through is None else (through, listing_id)
        self.carry_out(self.catalogue.on_listing_page(page, self.now))
        return through is None

    # The driver's producer and the follower

    def write_next(self) -> None:
        """The driver's oldest transaction is committed, and the catalogue told."""
        writes = self.owed.pop(0)
        self.commit_writes(writes)
        self.carry_out(self.catalogue.on_written(writes, self.now))

    def commit_writes(self, writes: tuple[LedgerWrite, ...]) -> None:
        """Records of one transaction reach the ledger."""
        for write in writes:
            self._check_free(write)
            if isinstance(write.key, ObjectId):
                self._account(write.key, write.entry)
            self.ledger.commit(write.key, write.entry)

    def _account(self, object_id: ObjectId, entry: LedgerEntry | None) -> None:
        """What this record says of rows: a tombstone that the content is new when it comes again."""
        before, rows = self.forgotten.pop(object_id, (None, Counter[int]()))
        if entry is None:
            rows = self.produced.pop(object_id, Counter())
            self.forgotten[object_id] = self.ledger.truth.get(object_id), rows
            if len(rows) == self.sizes[object_id]:
                self.was_whole.add(object_id)
        elif entry == before and not self.produced.get(object_id):
            # It was met on its way out of the ledger: its end is written back, and it is not read again.
            self.produced[object_id] = rows
        elif entry.state is State.QUARANTINED or entry.reason == "archived":
            self.given_up.add(object_id)

    def follow(self, most: int | None = None) -> None:
        """The follower reads on."""
        for key, entry in self.ledger.follow(most):
            self.catalogue.on_ledger_record(key, entry)

    # The slots

    def plan(self, slot: int, idle_slots: int) -> bool:
        """A free slot asks for work; True when it got some."""
        self.plans += 1
        works = self.planner.next_batch(slot, self.plans, self.now, idle_slots=idle_slots)
        if not works:
            return False
        running = Running(plan=self.plans, works=list(works), held={key_of(work) for work in works})
        self._check_plan(works)
        self.running[slot] = running
        return True

    def _check_plan(self, works: tuple[Split, ...]) -> None:
        assert len(works) <= 3
        keys = [work.object.id.key for work in works]
        assert len(set(keys)) == len(keys), "two works of one key in a batch"
        mine = {(work.route.topic, work.route.partition) for work in works}
        for other in self.running.values():
            for held in other.works:
                if held.object.id.key in keys:
                    same = [work for work in works if work.object.id.key == held.object.id.key]
                    assert all(work.object.id == held.object.id and work.is_part for work in same)
                if self.ordering is Ordering.PARTITION:
                    assert (held.route.topic, held.route.partition) not in mine
        if self.ordering is Ordering.PARTITION:
            self._check_order(works)

    def _check_order(self, works: tuple[Split, ...]) -> None:
        """`ordering=partition`: whatever is not gone holds its place: failed, delayed or being written."""
        earlier: set[ObjectId] = set()
        for work in works:
            passed = [
                unit
                for unit in self.catalogue.states.table
                if place_of(unit.route) == place_of(work.route)
                and rank_of(unit.object.id, unit.route) < rank_of(work.object.id, work.route)
                and unit.object.id not in earlier
            ]
            assert not passed, f"{work.object.id} passes {[(unit.object.id, unit.phase) for unit in passed]}"
            earlier.add(work.object.id)

    def step(self, slot: int, rows: int, *, is_reported: bool = True) -> None:
        """The task commits the next rows of its first work, or learns why it cannot."""
        running = self.running[slot]
        work = running.works[0]
        error = self.read(work)
        if error is not None:
            self.fail(slot, error)
            return
        if work.splits_wanted:
            self.cut(slot)
            return
        key = key_of(work)
        known = running.entries.get(key)
        position = work.start if known is None else known.position
        begin = position.byte if isinstance(position, BytePosition) else (work.begin or 0)
        end = work.object.size if work.end is None else work.end
        reached = min(end, begin + rows)
        entry = LedgerEntry(
            state=State.DONE if reached == end else State.PARTIAL,
            records=(work.records if known is None else known.records) + reached - begin,
            position=BytePosition(reached),
            attempts=work.attempts,
            size=work.object.size,
            version_id=work.object.version_id,
            last_modified_ms=work.object.last_modified_ms,
            updated_ms=self.now_ms,
        )
        self._produce(work.object.id, range(begin, reached))
        self.ledger.commit(key, entry)
        running.entries[key] = entry
        if entry.state is State.DONE:
            running.works.pop(0)
        if is_reported:
            checkpoints = [Checkpoint(key=key, entry=entry)]
            self.carry_out(self.planner.on_committed(running.plan, checkpoints))

    def _produce(self, object_id: ObjectId, rows: range) -> None:
        seen = self.produced.setdefault(object_id, Counter())
        for row in rows:
            seen[row] += 1
            assert seen[row] == 1, f"row {row} of {object_id} twice"

    def fail(self, slot: int, kind: str) -> None:
        """The task gives its first work up."""
        running = self.running[slot]
        work = running.works.pop(0)
        running.failures.append(Failure(work=work, kind=kind, message=kind, reason="unfit"))

    def cut(self, slot: int) -> None:
        """The task says where its first work can be cut."""
        running = self.running[slot]
        work = running.works.pop(0)
        step = max(1, -(-work.object.size // work.splits_wanted))
        cuts = (*range(0, work.object.size, step), work.object.size)
        running.cuts.append((work, cuts))

    def finish(self, slot: int, outcome: BatchOutcome = BatchOutcome.CLEAN) -> None:
        """The batch is over."""
        running = self.running.pop(slot)
        finished = Finished(
            batch=running.plan,
            outcome=outcome,
            failures=tuple(running.failures),
            cuts=tuple(running.cuts),
        )
        if outcome in {BatchOutcome.FENCED, BatchOutcome.UNKNOWN}:
            running.is_lost = True
            self.running[slot] = running
        self.carry_out(self.planner.on_finished(running.plan, finished, self.now))

    def lose(self, slot: int) -> None:
        """The task is gone."""
        self.running[slot].is_lost = True
        self.planner.on_lost(self.running[slot].plan)

    def recover(self, slot: int, *, worker_died: bool) -> None:
        """Void, fence, read: then the ledger is the truth."""
        del self.running[slot]
        self.follow()
        self.carry_out(self.planner.on_recovered(slot, self.now, worker_died=worker_died))

    # The end

    def settle_down(self) -> None:
        """Nothing bad happens any more: everything known is worked off, after one full listing."""
        for slot in list(self.running):
            if self.running[slot].is_lost:
                self.recover(slot, worker_died=False)
            else:
                self.finish(slot)
        for _ in range(400):
            self.now_ms += 60_000
            self.carry_out(self.planner.tick(self.now))
            self._flush()
            for slot in range(self.slots):
                if not self.plan(slot, 1):
                    continue
                while self.running[slot].works:
                    self.step(slot, 4)
                self.finish(slot)
            self._flush()
            if self.catalogue.is_idle:
                return
        raise AssertionError(f"never idle: {self.catalogue.counts} {self.catalogue.waiting_reasons()}")

    def _flush(self) -> None:
        while self.heads or self.owed:
            while self.heads:
                self.answer_head()
            while self.owed:
                self.write_next()

    def list_all(self) -> None:
        """A full listing from start to end."""
        self.listing = None
        while not self.list_page(2):
            pass

    def finale(self) -> None:
        """Messages still on the queue come, a full listing runs, what was given up is replayed."""
        for delivery_id in list(self.queue):
            if delivery_id in self.queue:
                self.announce(delivery_id)
        self.settle_down()
        self.list_all()
        self.settle_down()
        replay = Replay(selection=Selection(states=frozenset({State.QUARANTINED, State.SKIPPED})))
        found = known_objects(self.catalogue, BUCKET)
        self.carry_out(self.catalogue.apply_command(replay, found, self.now))
        self.settle_down()
        self.list_all()
        self.settle_down()
        assert not self.queue
        for seen in self.current.values():
            self.check_whole(seen.id)
        if self.is_versioned:
            # What was quarantined may have been known without its version, and be overwritten since.
            for object_id in self.announced_ms.keys() - self.was_whole - self.given_up:
                if self.announced_ms[object_id] > self.now_ms - RETENTION:
                    self.check_whole(object_id)
        self.follow()
        assert len(self.catalogue.states.ledger) == 0, "the overlay keeps what the view shows"

    def check_whole(self, object_id: ObjectId) -> None:
        """Every row of this content was produced, and the ledger says so."""
        rows = self.produced.get(object_id, Counter())
        assert sorted(rows) == list(range(self.sizes[object_id])), f"{object_id} is not whole: {rows}"
        entry = self.ledger.truth[object_id]
        assert entry.state is State.DONE or self.sizes[object_id] == 0, entry
        assert entry.records == self.sizes[object_id]
