"""Runs a scenario of the source, and gives back what came of it."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.kafka.control_records import FirstStart
from headrace.model.ledger_entry import LedgerEntry, decode_entry, decode_key
from headrace.model.objects import ObjectId
from tests.simulation.broker import Record
from tests.simulation.course import Course, Ended, run_course
from tests.simulation.environment import Environment, Instance, environment
from tests.simulation.first_starts import Past, first_starts
from tests.simulation.objects import encoded, form_of, row_of, rows_of_object
from tests.simulation.open_heads import LOOKED, STUCK
from tests.simulation.operations import Operations
from tests.simulation.owed_actions import ACTION, OwedActions, still_owed
from tests.simulation.s3 import PendingUpload, StoredObject
from tests.simulation.scenario import Given, Scenario
from tests.simulation.shown import Left
from tests.simulation.sink_generator import LETTERS
from tests.simulation.source_generator import INCOMING, INVENTORIES, MOVED, PLACED, SECOND, TIME_MS, TOPIC
from tests.simulation.version_order import VERSIONS, VersionOrder
from tests.support.inventory import Inventory, InventoryRow, inventory

# Behind the numbers of all rows of scenarios.
_REPLACED = 1000
# More often than a queue that is empty is noticed as such.
_FOREIGN_SECONDS = 2.4


@dataclass
class SourceOutcome(Ended):
    """What a run has come to."""

    records: list[list[Record]] = field(default_factory=list)
    """By partition."""
    letters: list[Record] = field(default_factory=list)
    whole: list[int] = field(default_factory=list)
    """Numbers of the objects that nobody has replaced or deleted before they could be read."""
    too_early: list[str] = field(default_factory=list)
    """What was taken from the bucket while rows of it were missing in Kafka."""
    repeats: int = 0
    """How often an operator has asked for everything again."""
    given: list[Given] = field(default_factory=list)
    """The objects that came, by number: those of the scenario, and what replaced some of them."""
    misread: set[int] = field(default_factory=set)
    """Numbers of the objects that a process with another `input.format` than theirs may have read."""
    forms: dict[int, str] = field(default_factory=dict)
    """By number, the formats of the objects that came."""
    ids: dict[int, ObjectId] = field(default_factory=dict)
    """By number, the objects as the ledger names them."""
    ledger: dict[ObjectId, LedgerEntry] = field(default_factory=dict)
    """The last word of the ledger on each object, also of those that are gone and have left it since."""
    past: set[int] = field(default_factory=set)
    """Numbers of the objects that first starts leave to the past: none of their rows is to be in Kafka."""
    unsure: set[int] = field(default_factory=set)
    """Numbers of the objects of which it may be either."""
    misremembered: list[str] = field(default_factory=list)
    """First starts that are remembered as no process made them."""
    left: list[Left] = field(default_factory=list)
    """What has left the ledger, where no operator has reset it."""
    retention_ms: int = 0
    """The least age of that."""
    prefix: str = ""
    """The last `aws.s3.prefix`."""
    in_order: list[tuple[int, int]] = field(default_factory=list)
    """Numbers of earlier and later versions of a key which have to go in this order."""
    unread: list[str] = field(default_factory=list)
    """What listings have shown, and was not read in time."""
    passed: list[tuple[int, int]] = field(default_factory=list)
    """Numbers of objects of a partition of which the second, of a later place, was read before the first."""
    again: set[int] = field(default_factory=set)
    """Numbers of the objects that were done and there when a stopped connector was to read them again."""
    still_owed: list[str] = field(default_factory=list)
    """What a post-action has left, for which it is still owed."""


def run_source(scenario: Scenario, *, calm: bool = False, seed: int | None = None) -> SourceOutcome:
    """Run it; `calm`: the same objects with nothing that goes wrong."""
    outcome = SourceOutcome()
    with environment(scenario.seed if seed is None else seed) as made:
        run_course(made, _SourceCourse(made, scenario, outcome, calm=calm))
    return outcome


class _SourceCourse(Course):
    """Objects come, and are ingested."""

    data = ("uploads begin", "put", "delete", "limit")

    def __init__(self, made: Environment, scenario: Scenario, outcome: SourceOutcome, *, calm: bool) -> None:
        super().__init__(made, scenario, outcome, calm=calm)
        self._outcome = outcome
        self._put: dict[tuple[str, str], int] = {}
        self._away: dict[tuple[str, str], int] = {}
        """The same of buckets that the connector does not have at present."""
        self._touched: set[int] = set()
        self._stored: dict[int, bytes] = {}
        self._buckets: tuple[str, ...] = (INCOMING,)
        self._past = Past(made.bucket)
        self._next = 0
        self._under_way: dict[int, str] = {}
        """By number, the ids of multipart uploads that are not complete."""
        self._operations = Operations(self)
        self._versions = VersionOrder(
            made,
            scenario.seed,
            is_ordered=scenario.options.get("ordering") == "partition",
            has_places=scenario.options["file.name.template"] == PLACED,
        )
        self._owed = OwedActions(self, self._operations)
        made.bucket.on_call = self._owed.called
        outcome.given = list(scenario.records)
        made.bucket.on_taken = self._taken
        made.bucket.on_replaced = self._replaced
        made.bucket.on_gone = self._gone

    def prepare(self) -> None:
        """See Course."""
        self.made.bucket.make(INCOMING)
        self.made.bucket.make(SECOND)
        self.made.bucket.make(MOVED)
        self.made.bucket.make(INVENTORIES)
        for name, partitions in self.scenario.topics.items():
            self.made.broker.create(name, partitions)
        self.made.broker.create(LETTERS, 1)

    def acts(self) -> dict[str, Callable[..., None]]:
        """See Course."""
        own: dict[str, Callable[..., None]] = {
            "put": self._upload,
            "uploads begin": self._begin_uploads,
            "delete": self._delete,
            "queue away": self._queue_away,
            "foreign messages": self._foreign_messages,
            "limit": self._limit,
            "bare events": self._have_bare_events,
            VERSIONS: self._versions.begin,
            STUCK: self._versions.stick,
            LOOKED: self._versions.look,
        }
        operations = self._operations.acts()
        return {**super().acts(), **operations, **own, "topic again": self._topic_again}

    def _write_inventory(self) -> None:
        """Before the first start: an inventory of what was there a little earlier."""
        stored = self.made.bucket.objects[INVENTORIES]
        if not stored and "initial.inventory" in self.options:
            for key, body in self._inventory().objects.items():
                etag = f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
                stored[key] = StoredObject(body, etag, {}, self.made.bucket.now_ms())

    def _inventory(self) -> Inventory:
        """It lacks the newest object, and has one that is gone and an older content, in two files."""
        rows = [
            InventoryRow(key=key, etag=one.etag.strip('"'), size=len(one.body), modified_ms=one.modified_ms)
            for key, one in self.made.bucket.objects[INCOMING].items()
        ]
        newest = rows.pop() if rows else None
        rows.append(InventoryRow(key="in/gone.jsonl", modified_ms=self.made.bucket.now_ms()))
        if newest is not None:
            rows.append(replace(newest, etag="overwritten"))
        self.made.kernel.rng.shuffle(rows)
        return inventory(INCOMING, [rows[:2], rows[2:]], bucket=INVENTORIES)

    def _topic_again(self, topic: str) -> None:
        # What was in it is gone, and what was on its way may be.
        self._touched.update(self._put.values(), self._away.values())
        self._operations.acts()["topic again"](topic)

    def _limit(self, topic: str, size: int) -> None:
        self.made.broker.topics[topic].configuration["max.message.bytes"] = str(size)

    def _move_house(self) -> None:
        """Other buckets have been given to the connector: what is in those of before is not for it.

        Unless they come back: then it is read, or was before.
        """
        self._buckets = tuple(self.options["aws.s3.bucket.name"].split(","))
        known = {**self._away, **self._put}
        self._put = {place: number for place, number in known.items() if place[0] in self._buckets}
        self._away = {place: number for place, number in known.items() if place not in self._put}

    def _upload(self, begin: int, end: int, late: float) -> None:
        self._move_house()
        for number in range(begin, min(end, len(self.scenario.records))):
            given = self.scenario.records[number]
            bucket = self._buckets[given.partition % len(self._buckets)]
            self._put_one(number, bucket, form_of(self.options), late)

        self._next = end

    def _begin_uploads(self, count: int = 1) -> None:
        """The next objects to come are under way as multipart uploads from now on."""
        self._move_house()
        for number in range(self._next, min(self._next + count, len(self.scenario.records))):
            given = self.scenario.records[number]
            bucket = self._buckets[given.partition % len(self._buckets)]
            if number not in self._under_way:
                upload = self._under_way[number] = self.made.bucket.new_id()
                at_ms = self.made.bucket.now_ms()
                self.made.bucket.uploads[upload] = PendingUpload(bucket, given.topic, at_ms, {})

    def _put_one(self, number: int, bucket: str, form: str, late: float) -> None:
        """Put the object of a number, whose message comes so late."""
        made, given = self.made, self._outcome.given[number]
        place = bucket, given.topic
        before, gone = self._put.get(place), frozenset(self._touched)
        if before is not None:
            self._touched.add(before)
        self._put[place] = number
        body = self._stored[number] = encoded(given, form)
        etag = hashlib.md5(body, usedforsecurity=False).hexdigest()
        upload = self._under_way.pop(number, None)
        begun = None if upload is None else made.bucket.uploads.pop(upload, None)
        if begun is not None and (begun.bucket, begun.key) == place:
            etag += "-1"
        else:
            begun = None
        self._outcome.forms[number] = form
        self._outcome.ids[number] = ObjectId(bucket, given.topic, etag)
        if before in gone and self._outcome.ids[before] == self._outcome.ids[number]:
            # The same content once more, which is not read again whatever has become of its rows.
            self._touched.add(number)
        if any(form_of(one.options) != form for one in self.alive):
            self._outcome.misread.add(number)
        stored = StoredObject(
            body, f'"{etag}"', {}, self._past.put(number, None if begun is None else begun.begun_ms)
        )
        made.bucket.put(bucket, given.topic, stored, "put")
        late = 0.0 if self.calm else late
        event = self._versions.put(number, self._outcome.ids[number])
        made.queue.announce(bucket, given.topic, etag=etag, size=len(body), after=late, **event)

    def _replaced(self, bucket: str, key: str) -> None:
        """Somebody replaces an object by one with another row, while a client is on its way to it."""
        old = self._put.get((bucket, key))
        if old is None:
            return
        number = len(self._outcome.given)
        # As long as the old one, where it can be: a length says nothing then.
        given = self._outcome.given[old]
        row = {"n": f"{_REPLACED + number}-0", "x": "", "t": TIME_MS}
        row["x"] = "y" * (len(given.value or b"") - len(json.dumps(row)))
        value = json.dumps(row).encode()
        self._outcome.given.append(replace(given, value=value))
        self._put_one(number, bucket, self._outcome.forms[old], 0.0)

    def _gone(self, bucket: str, key: str) -> None:
        """Somebody deletes an object while a client is on its way to it."""
        number = self._put.get((bucket, key))
        if number is not None:
            self._delete(number)

    def start(self, **changes: str) -> Instance:
        """See Course."""
        self._begin()
        return super().start(**changes)

    def rest(self) -> None:
        """See Course."""
        self._versions.end()
        super().rest()

    def _do_the_rest(self) -> None:
        self._begin()
        super()._do_the_rest()

    def _begin(self) -> None:
        """A process is about to begin with the options of now."""
        self._write_inventory()
        self._note_format()
        self._past.started(self.options)

    def _note_format(self) -> None:
        """A process begins: what is there in another format is misread, unless it was read before."""
        form = form_of(self.options)
        self._outcome.misread.update(number for number, other in self._outcome.forms.items() if other != form)

    def _delete(self, number: int) -> None:
        self._move_house()
        place = self._outcome.ids[number].place
        for known in (self._put, self._away):
            if place in known:
                self._touched.add(known.pop(place))
        self.made.bucket.objects[place[0]].pop(place[1], None)

    def _foreign_messages(self, count: int) -> None:
        """The queue has some of a bucket that is none of this connector's, which come one after the other."""
        for number in range(count):
            after = 0.0 if self.calm else number * _FOREIGN_SECONDS
            self.made.queue.announce("elsewhere", "in/x.jsonl", etag="0" * 32, size=1, after=after)

    def _have_bare_events(self) -> None:
        """Events name keys alone from now on, as those of some stores do."""
        self.made.queue.is_bare = True

    def _queue_away(self, seconds: float) -> None:
        self.made.queue.down_until = self.made.kernel.now + seconds

    def _taken(self, bucket: str, key: str, stored: StoredObject) -> None:
        """Somebody takes an object away: what it held must be in Kafka by then."""
        self._owed.taken(bucket, key, stored)
        number = self._put.get((bucket, key))
        is_marked = self._operations.marks or number in self._touched
        # Of another format, a header may be all that it is read as.
        is_marked = is_marked or number in self._outcome.misread
        if number is None or is_marked or self._stored[number] != stored.body:
            return
        durable = self.made.broker.durable
        partitions = range(len(self.made.broker.topics[TOPIC].logs))
        seen = {row_of(record.value) for one in partitions for record in durable(TOPIC, one)}
        seen |= {row_of(record.value) for record in durable(LETTERS, 0)}
        good, _ = rows_of_object(self._outcome.given[number])
        missing = [row for row in good if row not in seen]
        if missing:
            self._outcome.too_early.append(f"{key} was taken with {len(missing)} of {len(good)} rows missing")

    def _partitions(self) -> list[list[Record]]:
        return [
            self.made.broker.visible(TOPIC, partition)
            for partition in range(len(self.made.broker.topics[TOPIC].logs))
        ]

    def collect(self) -> None:
        """See Course."""
        super().collect()
        self._move_house()
        outcome = self._outcome
        outcome.prefix = self.options.get("aws.s3.prefix", "")
        settings = self.made.settings(self.options)
        is_reset = any(step.act == "reset" for step in self.scenario.steps)
        outcome.left = [] if is_reset else self._shown.left(settings.kafka.ledger_topic)
        outcome.retention_ms = settings.ledger.retention_ms
        gone = {one.object: one.entry for one in outcome.left if not self._is_there(one.object)}
        outcome.ledger = gone | self._ledger()
        firsts = first_starts(self._kept())
        outcome.in_order = list(self._versions.pairs())
        outcome.unread = self._versions.unread
        outcome.passed = list(self._versions.passed())
        written = [] if is_reset else self._written()
        outcome.misremembered = list(self._past.misremembered(firsts, written))
        held = self.made.queue.held(self.last_ended)
        outcome.past, outcome.unsure = self._past.left_out(firsts, outcome.ids, self.scenario.steps, held)
        outcome.repeats, outcome.said = self._operations.repeats, self._operations.said
        outcome.too_early += self._owed.too_early
        again = self._operations.asked_again
        outcome.again = {number for number, object_id in outcome.ids.items() if object_id in again}
        buckets = self.options["aws.s3.bucket.name"].split(",")
        action = self.options.get(ACTION)
        outcome.still_owed = list(still_owed(self.made.bucket.objects, outcome.ledger, action, buckets))
        self._outcome.records = self._partitions()
        self._outcome.letters = self.made.broker.visible(LETTERS, 0)
        self._outcome.whole = [number for number in sorted(self._put.values()) if number not in self._touched]

    def _is_there(self, object_id: ObjectId) -> bool:
        """Whether the bucket has this content."""
        stored = self.made.bucket.objects.get(object_id.bucket, {}).get(object_id.key)
        return stored is not None and stored.etag.strip('"') == object_id.etag

    def _kept(self) -> dict[Any, bytes]:
        """What the ledger keeps, by key."""
        found: dict[Any, bytes | None] = {}
        for record in self._ledger_records():
            found[decode_key(record.key or b"")] = record.value
        return {key: value for key, value in found.items() if value is not None}

    def _ledger_records(self) -> list[Record]:
        name = self.made.settings(self.options).kafka.ledger_topic
        return self.made.broker.visible(name, 0) if name in self.made.broker.topics else []

    def _written(self) -> list[tuple[str, FirstStart]]:
        """First starts that the ledger has had, by bucket, one after the other."""
        found = ((decode_key(one.key or b""), one.value) for one in self._ledger_records())
        return [each for key, value in found if value for each in first_starts({key: value}).items()]

    def _ledger(self) -> dict[ObjectId, LedgerEntry]:
        """What the ledger says of each object."""
        return {key: decode_entry(value) for key, value in self._kept().items() if isinstance(key, ObjectId)}
