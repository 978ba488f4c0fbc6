"""What processes show, held against what is so, all along: counters, states, offsets, bounds.

It looks whenever a process shows a snapshot of itself, and takes neither a turn nor time of the run.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.model.ledger_entry import ControlKey, LedgerEntry, State, decode_entry, decode_key
from headrace.model.objects import ObjectId
from headrace.model.sink_entries import (
    ObjectState,
    PartitionCheckpoint,
    SealedObject,
    decode_sink_entry,
    is_sink_key,
)
from headrace.model.sink_protocol import SinkBatch
from headrace.model.slot_protocol import Batch, Split
from ingest.http.snapshot import Snapshot
from ingest.service.endpoints import endpoints
from tests.simulation.broker import Broker, Transaction
from tests.simulation.scenario import Scenario
from tests.simulation.slow_reading import BatchTimes

if TYPE_CHECKING:
    from tests.simulation.environment import Environment, Instance

# A follower of the ledger may be as late as its patience, and a report of a slot a second.
_QUIET_SECONDS: Final = 1.5
_SHOWN_OBJECTS: Final = 50
"""As docs/status.md has it of `recent` and `quarantined`."""
_RECORD_BYTES: Final = 20_000
"""Of a run's few objects: an entry has its object, and a command at most a thousand of them."""
_UNSETTLED: Final = ("busy", "ending", "recovering", "starting")
_MOST_SAID: Final = 5
TRUE: Final = "shown = true"
BOUNDED: Final = "bounded"
Said = tuple[str, str]
"""A law, and how it was broken."""


@dataclass(slots=True)
class _Life:
    """What was so when an instance began, and what it has shown since."""

    ledger: "Ledger"
    records: int
    letters: int
    objects: int
    is_alone: bool
    shown: Snapshot | None = None
    state: str = ""
    still_since: float = 0.0
    """Since when it has shown the same objects and offsets."""
    looked_at: int = -1
    """The state of the cluster that it was held against last."""


class Left(NamedTuple):
    """The last entry of an object, and when it left the ledger."""

    object: ObjectId
    entry: LedgerEntry
    at_ms: int


@dataclass
class Ledger:
    """What the ledger holds, read anew when it has grown."""

    end: int = 0
    largest: int = 0
    """Bytes of its largest record."""
    entries: dict[Any, bytes | None] = field(default_factory=dict)
    sealed: dict[str, int] = field(default_factory=dict)
    """Of a sink, by the ids of all objects that were ever sealed: how many records each has."""
    left: list[Left] = field(default_factory=list)
    """Entries of objects that a tombstone has removed."""

    def read(self, broker: Broker, name: str) -> None:
        """Take in what is new and visible."""
        if name not in broker.topics:
            return
        for record in broker.visible(name, 0):
            if record.offset < self.end:
                continue
            key = decode_key(record.key or b"")
            before = self.entries.get(key)
            if record.value is None and before is not None and isinstance(key, ObjectId):
                self.left.append(Left(key, decode_entry(before), record.timestamp_ms))
            self.entries[key] = record.value
            self.largest = max(self.largest, record.size)
            self.end = record.offset + 1
            if record.value is not None and isinstance(key, ControlKey) and is_sink_key(key):
                entry = decode_sink_entry(key, record.value)
                if isinstance(entry, SealedObject):
                    self.sealed[entry.id] = entry.records

    def states(self, buckets: Sequence[str]) -> Counter[str]:
        """How many objects of these buckets are in each state."""
        found: Counter[str] = Counter()
        for key, value in self.entries.items():
            if isinstance(key, ObjectId) and value is not None and key.bucket in buckets:
                found[str(decode_entry(value).state)] += 1
        return found

    def state_of(self, object_id: ObjectId) -> State | None:
        """What it says of an object."""
        value = self.entries.get(object_id)
        return None if value is None else decode_entry(value).state

    def of_sink(self) -> Iterator[Any]:
        """A sink's entries."""
        for key, value in self.entries.items():
            if value is not None and isinstance(key, ControlKey) and is_sink_key(key):
                yield decode_sink_entry(key, value)


class Shown:
    """What the processes of one run show. `broken` is what was not so, each in its first words."""

    def __init__(self, made: "Environment", topics: Sequence[str], scenario: Scenario, letters: str) -> None:
        options = scenario.options
        self._made = made
        self._times = BatchTimes(options, scenario.steps)
        self._topics = tuple(topics)
        self._letters = letters
        self._is_exact = options.get("exactly.once.support") != "disabled"
        self._lives: dict[Instance, _Life] = {}
        self._since = 0.0
        self._count = -1
        self._ledgers: dict[str, Ledger] = {}
        """By topic: an archive and its restore have one each."""
        self.broken: dict[str, Said] = {}
        made.watch = self._watch
        made.broker.on_ended = self._ended
        made.broker.on_compaction = self._read
        made.queue.on_asked = self._asked
        made.on_granted = self._granted

    # -- what is so ------------------------------------------------------------------------------------------

    def left(self, name: str) -> list[Left]:
        """What has left a ledger, of this topic."""
        return self._read(name).left

    def _committed(self) -> int:
        return sum(self._made.broker.committed[topic] for topic in self._topics)

    def _is_others_alive(self) -> bool:
        workers = (worker for found in self._made.workers.values() for worker in found)
        return any(not one.is_over for one in self._lives) or any(not one.is_dead for one in workers)

    def _say(self, law: str, kind: str, sentence: str) -> None:
        if len(self.broken) < _MOST_SAID:
            self.broken.setdefault(kind, (law, sentence))

    def _watch(self, instance: "Instance") -> None:
        """An instance is about to run."""
        assert instance.connector is not None
        is_alone = not self._is_others_alive()
        for other, life in self._lives.items():
            life.is_alone = life.is_alone and other.is_over
        broker, ledger = self._made.broker, self._ledger_of(instance)
        self._lives[instance] = _Life(
            ledger, self._committed(), broker.committed[self._letters], len(ledger.sealed), is_alone
        )
        holder = instance.connector.snapshot_holder
        show = holder.show

        def look(snapshot: Snapshot) -> None:
            show(snapshot)
            self._look(instance, snapshot)

        holder.show = look  # type: ignore[method-assign]  # to be told of each

    def _ledger_of(self, instance: "Instance") -> Ledger:
        """The ledger of its connector, as it is now."""
        return self._read(self._ledger_topic(instance))

    def _ledger_topic(self, instance: "Instance") -> str:
        return str(self._made.settings(instance.options).kafka.ledger_topic)

    def _read(self, name: str) -> Ledger:
        found = self._ledgers.setdefault(name, Ledger())
        found.read(self._made.broker, name)
        return found

    # -- at each look ----------------------------------------------------------------------------------------

    def _look(self, instance: "Instance", shown: Snapshot) -> None:
        kernel, broker = self._made.kernel, self._made.broker
        life = self._lives[instance]
        before, life.shown = life.shown, shown
        self._look_at_bounds(instance, shown)
        if before is not None and shown.records_total < before.records_total:
            self._say(
                TRUE, "back", f"records_total went from {before.records_total} to {shown.records_total}"
            )
        if broker.changed.count != self._count:
            self._count, self._since = broker.changed.count, kernel.now
        is_quiet = kernel.now - self._since >= _QUIET_SECONDS
        # A slot may have committed what it cannot tell.
        away_until = max(self._made.network.down_until, kernel.cut_off_until())
        is_quiet = is_quiet and away_until + _QUIET_SECONDS <= kernel.now
        # What has just come to its end is not written down yet.
        sink = shown.sink
        state = repr((shown.objects, shown.pending_objects, sink and (sink.pending_objects, sink.partitions)))
        if state != life.state:
            life.state, life.still_since = state, kernel.now
        is_quiet = is_quiet and kernel.now - life.still_since >= _QUIET_SECONDS
        # What a leader cannot read it does not know.
        is_quiet = is_quiet and not self._is_hidden(instance)
        # One that was stopped hears late that another one leads, and shows until then what it knew.
        is_only = all(other is instance or other.is_over for other in self._lives)
        is_quiet = is_quiet and kernel.all_run_since() + _QUIET_SECONDS <= kernel.now
        if is_quiet and is_only and shown.role == "leader" and life.looked_at != self._count:
            life.looked_at = self._count
            self._look_closely(instance, life, shown)

    def _is_hidden(self, instance: "Instance") -> bool:
        """Whether clients get nothing of its ledger now, or not what is committed after an open transaction.

        Of the latter a leader has heard from the slot.
        """
        broker, name = self._made.broker, self._ledger_topic(instance)
        if name in broker.denied | broker.hidden | broker.leaderless:
            return True
        return name in broker.topics and len(broker.visible(name, 0)) < len(broker.durable(name, 0))

    def _look_at_bounds(self, instance: "Instance", shown: Snapshot) -> None:
        recent = shown.recent if shown.sink is None else shown.sink.recent
        for name, found in (("recent", recent), ("quarantined", shown.quarantined)):
            if len(found) > _SHOWN_OBJECTS:
                self._say(BOUNDED, name, f"{len(found)} objects are shown as {name}, and 50 is the most")
        most = instance.options.get("max.open.files")
        if most is not None and shown.sink is not None:
            slots = sum(shown.slots.values())
            if shown.sink.open_objects > int(most) * slots:
                what = f"{shown.sink.open_objects} objects are open in {slots} slots"
                self._say(BOUNDED, "open", f"{what}, with max.open.files={most}")

    def _limits(self, option: str) -> list[int]:
        """The values that instances had of an option; none where one had its default."""
        found = [int(one.options[option]) for one in self._lives if option in one.options]
        return found if len(found) == len(self._lives) else []

    def _granted(self, batch: Batch | SinkBatch) -> None:
        """A slot is given a batch."""
        if isinstance(batch, SinkBatch):
            return
        self._times.granted(batch, self._made.kernel.now)
        found = len(batch.splits)
        limits = self._limits("job.max.objects")
        if limits and found > max(limits):
            self._say(BOUNDED, "batch", f"a batch has {found} objects, with job.max.objects={max(limits)}")
        limits = self._limits("job.max.bytes")
        sizes = sorted(map(_bytes_of, batch.splits))
        # The share of the backlog always has one object, however large.
        if limits and sum(sizes[:-1]) > max(limits):
            self._say(BOUNDED, "batch", f"a batch has {sizes} bytes, with job.max.bytes={max(limits)}")

    def _asked(self, most: int) -> None:
        """A client has asked the queue for so many messages."""
        limits = self._limits("sqs.max.held")
        if limits and most > max(limits):
            self._say(BOUNDED, "held", f"{most} messages are asked for, with sqs.max.held={max(limits)}")

    def _ended(self, running: Transaction) -> None:
        """A transaction has ended: no later, and with no more records, than options let it."""
        age = self._times.late(running.id, self._made.kernel.now)
        if age is not None:
            self._say(BOUNDED, "seconds", age)
        limits = self._limits("transaction.boundary.records")
        count = sum(count for name, count in running.counts.items() if name in (*self._topics, self._letters))
        if limits and count > max(limits):
            what = f"a transaction has {count} records"
            self._say(BOUNDED, "transaction", f"{what}, with transaction.boundary.records={max(limits)}")

    # -- at quiet moments ------------------------------------------------------------------------------------

    def _look_closely(self, instance: "Instance", life: _Life, shown: Snapshot) -> None:
        """Nothing has moved for seconds: what is shown is what there is."""
        ledger = self._ledger_of(instance)
        is_settled = not any(shown.slots.get(state) for state in _UNSETTLED)
        # Who lost the lead may have committed what it never heard of.
        is_sure = is_settled and life.is_alone and self._is_exact and not self._has_lost_lead(instance)
        if ledger.largest > _RECORD_BYTES:
            what = f"the ledger has a record of {ledger.largest} bytes"
            self._say(BOUNDED, "entry", f"{what}, and {_RECORD_BYTES} is the most")
        if shown.sink is None:
            self._look_at_source(instance, shown)
        else:
            self._look_at_sink(instance, shown)
        self._look_at_counts(instance, life, shown, is_sure=is_sure)

    def _has_lost_lead(self, instance: "Instance") -> bool:
        name = f"{instance.process.name}:{instance.process.pid}"
        return any(who == name and event == "leadership_lost" for _, who, event, _ in self._made.log)

    def _look_at_counts(self, instance: "Instance", life: _Life, shown: Snapshot, *, is_sure: bool) -> None:
        """`is_sure`: all that was committed since it began is its own, and was reported or looked for."""
        assert instance.connector is not None
        metrics, broker = instance.connector.metrics, self._made.broker
        if shown.sink is not None:
            if self._is_exact:
                sealed = sum(list(life.ledger.sealed.values())[life.objects :])
                self._compare("headrace_sink_records_total", _sum(metrics.sink_records), sealed, is_sure)
                self._compare("records_total", shown.records_total, sealed, is_sure)
            return
        rows, letters = (
            sum(
                int(metrics.records.labels(topic)._value.get()) for topic in topics
            )  # the library has no other way
            for topics in (self._topics, (self._letters,))
        )
        self._compare("headrace_records_total", rows, self._committed() - life.records, is_sure)
        # Those of a lost slot are not among them: the ledger does not name their topic.
        found = broker.committed[self._letters] - life.letters
        self._compare("headrace_records_total of dead letters", letters, found, is_sure=False)
        bad = sum(shown.bad_records.values())
        if bad != _sum(metrics.bad_records) or not rows <= shown.records_total <= rows + letters:
            self._say(
                TRUE,
                "metrics",
                f"/status has {shown.records_total} records, {bad} bad, and /metrics another number",
            )
        if life.is_alone and self._is_exact:
            # Of another instance they are in its own numbers; at least once a batch that one of them is too
            # large for is sent once more, with all others.
            self._compare("dead letters", found, bad, is_sure=False)

    def _compare(self, what: str, said: int, found: int, is_sure: bool) -> None:
        if said > found or (is_sure and said != found):
            self._say(TRUE, what, f"{what} says {said}, and there are {found}")

    def _look_at_source(self, instance: "Instance", shown: Snapshot) -> None:
        buckets = instance.options["aws.s3.bucket.name"].split(",")
        states = self._lives[instance].ledger.states(buckets)
        for state in State:
            said, found = shown.objects.get(str(state), 0), states[str(state)]
            if said != found:
                self._say(TRUE, "objects", f"objects says {said} {state}, and the ledger has {found}")
        if shown.pending_objects < shown.objects["pending"] + shown.objects["active"]:
            self._say(TRUE, "pending", f"pending_objects is {shown.pending_objects}, of {shown.objects}")

    def _look_at_sink(self, instance: "Instance", shown: Snapshot) -> None:
        assert shown.sink is not None
        entries = list(self._lives[instance].ledger.of_sink())
        states = Counter(one.state for one in entries if isinstance(one, SealedObject))
        for state, said in (
            (ObjectState.PENDING, shown.sink.pending_objects),
            (ObjectState.QUARANTINED, shown.sink.quarantined_objects),
        ):
            if said != states[state]:
                self._say(TRUE, str(state), f"{state}_objects is {said}, and the ledger has {states[state]}")
        assert instance.connector is not None
        registry = instance.connector.metrics.registry
        counted = registry.get_sample_value("headrace_objects", {"state": "quarantined"}) or 0
        self._compare("headrace_objects", round(counted), states[ObjectState.QUARANTINED], is_sure=True)
        offsets = {one.partition_of: one.offset for one in entries if isinstance(one, PartitionCheckpoint)}
        for one in shown.sink.partitions:
            found = offsets.get((one.topic, one.partition))  # type: ignore[call-overload]  # a tuple as well
            if one.offset is not None and found is not None and one.offset != found:
                what = f"{one.topic}-{one.partition} is at {one.offset}"
                self._say(TRUE, "offset", f"{what}, and the ledger has {found}")

    # -- at the end ------------------------------------------------------------------------------------------

    def end(self, last: "Instance") -> None:
        """The last process has ended: what it counted is what it did, and it shows the same everywhere."""
        life = self._lives.get(last)
        if life is None or life.shown is None or last.connector is None or last.ending is None:
            return
        self._ledger_of(last)
        is_sure = last.ending in ("exit 0", "exit 5") and self._is_exact and not self._has_lost_lead(last)
        routes = endpoints(last.connector.snapshot_holder, last.connector.metrics, _NoProcess())  # type: ignore[arg-type]  # as one
        status = json.loads(routes["/status"]().body)
        numbers = _numbers(routes["/metrics"]().body)
        name = "headrace_sink_records" if life.shown.sink is not None else "headrace_records"
        self._look_at_counts(last, life, life.shown, is_sure=False)
        counted = sum(numbers.get(f"{name}_total", {}).values())
        if status["records_total"] > counted:
            self._say(
                TRUE, "status", f"/status says {status['records_total']} records, and /metrics {counted:.0f}"
            )
        if is_sure:
            self._look_at_the_end(life, numbers)

    def _look_at_the_end(self, life: _Life, numbers: Mapping[str, Mapping[str, float]]) -> None:
        """All that was committed since the last process began is in its numbers."""
        assert life.shown is not None
        if life.shown.sink is not None:
            found = sum(list(life.ledger.sealed.values())[life.objects :])
            said = sum(numbers.get("headrace_sink_records_total", {}).values())
        else:
            found = self._committed() - life.records
            by_topic = numbers.get("headrace_records_total", {})
            said = sum(by_topic.get(f'topic="{topic}"}}', 0) for topic in self._topics)
        self._compare("headrace_records_total at the end", int(said), found, is_sure=True)


def _bytes_of(split: Split) -> int:
    """What is read of an object; of one whose splits are row groups it is known to be more than none."""
    if split.begin is None or split.end is None:
        return split.object.size
    return split.end - split.begin


class _NoProcess:
    """What a process says of itself, of which a simulated one has nothing."""

    def exposition(self) -> bytes:
        """See ProcessMetrics."""
        return b""


def _sum(counter: Any) -> int:
    """What a counter has, of all labels."""
    return int(
        sum(
            one.value for family in counter.collect() for one in family.samples if one.name.endswith("_total")
        )
    )


def _numbers(exposition: bytes) -> dict[str, dict[str, float]]:
    """The numbers of a text of metrics, by name and labels."""
    found: dict[str, dict[str, float]] = {}
    for line in exposition.decode().splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            name, _, labels = name.partition("{")
            found.setdefault(name, {})[labels] = float(value)
    return found
