"""What an operator does to connectors: other options, replays, marks, offsets, topics that are made again.

Each runs as a process of its own, as a command of a person does, and may be refused: a sentence is an answer.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from headrace.kafka.control_records import TargetState
from headrace.kafka.ledger_reader import LedgerReader, open_ledger_reader
from headrace.model.errors import HeadraceError
from headrace.model.ledger_entry import ControlKey, State, decode_key
from headrace.model.objects import ObjectId
from headrace.model.sink_entries import (
    PartitionCheckpoint,
    TopicPartition,
    decode_sink_entry,
    is_sink_key,
)
from headrace.options import Settings
from ingest.cli.object_command import (
    CommandRequest,
    SelectedObject,
    commands_for,
    objects_to_mark,
    objects_to_replay,
)
from ingest.cli.submit import submit
from ingest.http.rest.port import Change
from ingest.source.catalogue import Selection
from ingest.source.catalogue.object_commands import Offset
from ingest.source.command_queue import Action
from tests.simulation.apart import HELD, LACKING, LEDGER, PAGES, RESUMED
from tests.simulation.archive_rows import FOREIGN
from tests.simulation.course import DAY_SECONDS, Course
from tests.simulation.s3 import SimulatedS3, StoredObject

_COMMAND_SECONDS: Final = 40.0
_LATE_SECONDS: Final = 400.0
_BETWEEN_SECONDS: Final = 0.1
_UPLOAD_SECONDS: Final = 2.0
_RESUME_SECONDS: Final = 150.0
_TOMBSTONE_DAYS: Final = 7
"""`delete.retention.ms` of the ledger."""


class Operations:
    """The operations of one run. `repeats` counts what may bring records once more."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._made = course.made
        self.repeats = 0
        self.marks = 0
        self.ended_uploads = False
        self.foreign: dict[tuple[str, str], bytes] = {}
        """What another program has put, by bucket and key."""
        self.deleted: dict[tuple[str, int, int], bool] = {}
        """Places of records that retention took, and whether their partition had a checkpoint then."""
        self.said: list[str] = []
        """How operations were refused."""
        self.held: tuple[TargetState, float] | None = None
        """What an operator has a connector be, and since when that was answered."""
        self.asked_again: set[ObjectId] = set()
        """Objects that were done and there when a stopped connector was to read them again."""
        self._holds = self._steered_by = 0
        """How many commands steer a connector now."""

    def acts(self) -> dict[str, Callable[..., None]]:
        """What each step does."""
        return {
            "change": self._change,
            "topic again": self._topic_again,
            "grow": self._grow,
            "forbidden": lambda operation, seconds: self._refuse(
                self._made.bucket.weather.forbidden, operation, seconds
            ),
            "bucket denied": lambda bucket, seconds: self._refuse(
                self._made.bucket.weather.denied, bucket, seconds
            ),
            PAGES: self._have_pages,
            LACKING: self._lack,
            "starts late": self._starts_late,
            "replay": self._replay,
            "mark": self._mark,
            "rewind": self._rewind,
            "reset": self._reset,
            "pause connector": self._pause,
            HELD: self._hold,
            RESUMED: self._await_resumed,
            "uploads ended": self._uploads_ended,
            "store without conditions": self._without_conditions,
            "foreign name": self.take_a_name,
            "ledger compacted": self._compact_ledger,
            "offsets expired": self._made.broker.forget_offsets,
            "transactional ids expired": self._made.broker.forget_ids,
            "retention": self._retention,
            "weeks": self._weeks,
            "topic denied": self._deny_topic,
            "topic without a leader": lambda topic, seconds: self._refuse(
                self._made.broker.leaderless, topic, seconds
            ),
            "topic hidden": lambda topic, seconds: self._refuse(self._made.broker.hidden, topic, seconds),
        }

    # -- other configurations --------------------------------------------------------------------------------

    def _change(self, options: Mapping[str, str | None]) -> None:
        """What is started from now on has these options; None: not that one."""
        course = self._course
        for name, value in options.items():
            course.options.pop(name, None)
            if value is not None:
                course.options[name] = value

    def _topic_again(self, topic: str) -> None:
        broker = self._made.broker
        if topic in broker.topics:
            # Transactions of load that is under way end with it.
            partitions = len(broker.topics[topic].logs)
            broker.delete(topic)
            self._made.kernel.sleep(0.5 * self._made.kernel.rng.random())
            broker.create(topic, partitions)

    def _grow(self, topic: str) -> None:
        self._made.broker.grow(topic, 1)

    # -- what Kafka does by time -----------------------------------------------------------------------------

    @property
    def _ledger_topic(self) -> str | None:
        name = str(self._made.settings(self._course.options).kafka.ledger_topic)
        return name if name in self._made.broker.topics else None

    def checkpoints(self) -> dict[tuple[str, int], int]:
        """Where a sink is in each partition, by its ledger."""
        name = self._ledger_topic
        found: dict[tuple[str, int], int] = {}
        for record in () if name is None else self._made.broker.visible(name, 0):
            key = decode_key(record.key or b"")
            if isinstance(key, ControlKey) and is_sink_key(key) and record.value is not None:
                entry = decode_sink_entry(key, record.value)
                if isinstance(entry, PartitionCheckpoint):
                    found[entry.partition_of] = entry.offset
        return found

    def _compact_ledger(self) -> None:
        if self._ledger_topic is not None:
            self._made.broker.compact(self._ledger_topic)

    def _weeks(self, days: int) -> None:
        """Nothing runs for so long; Kafka forgets what it need not keep, and a start comes after it."""
        self._course.pass_days(days)
        if self._ledger_topic is not None:
            before = self._made.bucket.now_ms() - int(_TOMBSTONE_DAYS * DAY_SECONDS * 1000)
            self._made.broker.compact(self._ledger_topic, tombstones_before_ms=before)
        self._made.broker.forget_offsets()

    def _retention(self, topic: str, share: float) -> None:
        """The oldest of a topic's records are deleted, whether they were read or not."""
        broker, known = self._made.broker, self.checkpoints()
        for partition, log in enumerate(broker.topics[topic].logs if topic in broker.topics else ()):
            begin = log.begin + round(share * (log.stable_end() - log.begin))
            for offset in range(log.begin, begin):
                self.deleted[topic, partition, offset] = (topic, partition) in known
            broker.truncate(topic, partition, begin)

    # -- what is refused for a while -------------------------------------------------------------------------

    def _refuse(self, refused: set[str], what: str, seconds: float) -> None:
        kernel = self._made.kernel
        refused.add(what)

        def allow() -> None:
            kernel.sleep(seconds)
            refused.discard(what)
            self._made.broker.changed.give()

        kernel.spawn(kernel.process("operator"), allow, "allow")

    def _deny_topic(self, topic: str, seconds: float) -> None:
        """Clients may neither write to a topic nor read it; `LEDGER` is that of the connector."""
        name = self._ledger_topic if topic == LEDGER else topic
        if name is not None:
            self._refuse(self._made.broker.denied, name, seconds)

    def _have_pages(self, keys: int) -> None:
        """Listings have pages of so many keys from now on."""
        self._made.bucket.page_keys = keys

    def _lack(self, names: Sequence[str], seconds: float) -> None:
        """Listings of this store do not say so much of an object for a while."""
        kernel, bucket = self._made.kernel, self._made.bucket
        bucket.listings_lack = frozenset(names)

        def mend() -> None:
            kernel.sleep(seconds)
            bucket.listings_lack = frozenset()

        kernel.spawn(kernel.process("operator"), mend, "mend")

    def _starts_late(self, count: int, seconds: float = _LATE_SECONDS) -> None:
        self._made.late_starts += [seconds] * count

    def _without_conditions(self, buckets: Sequence[str]) -> None:
        """They are in a store that refuses conditions of writes."""
        self._made.bucket.without_conditions.update(buckets)

    def _uploads_ended(self) -> None:
        """A rule of the bucket ends multipart uploads that are under way."""
        uploads = self._made.bucket.uploads
        for upload_id in list(uploads)[:1]:
            self.ended_uploads = True
            del uploads[upload_id]

    def take_a_name(self) -> None:
        """Another program puts an object where one is about to become visible."""
        kernel = self._made.kernel
        deadline = kernel.now + _UPLOAD_SECONDS
        while not (free := self.free_names()) and kernel.now < deadline:
            kernel.sleep(0.02)
        if free:
            self.put_foreign(*kernel.rng.choice(free))

    def put_foreign(self, bucket: str, key: str) -> None:
        """Another program puts an object there."""
        stored = StoredObject(FOREIGN, '"foreign"', {}, self._made.bucket.now_ms())
        self._made.bucket.put(bucket, key, stored, "foreign")
        self.foreign[bucket, key] = stored.body

    def foreign_changed(self) -> list[str]:
        """Which of the objects of other programs are not what they were.

        Without conditions a store is asked just before: what comes between the two is overwritten, and is
        forgotten here.
        """
        bucket = self._made.bucket
        put = {key: at for at, what, key, _ in bucket.history if what == "foreign"}
        between = {
            key
            for at, what, key, _ in bucket.history
            if what == "replaced" and key in put and 0 <= at - put[key] < _BETWEEN_SECONDS
        }
        changed = {
            (where, key)
            for (where, key), body in self.foreign.items()
            if (there := bucket.objects[where].get(key)) is None or there.body != body
        }
        for where, key in sorted(changed):
            if where in bucket.without_conditions and f"{where}/{key}" in between:
                changed.remove((where, key))
                del self.foreign[where, key]
        return [f"s3://{where}/{key}" for where, key in sorted(changed)]

    def free_names(self) -> list[tuple[str, str]]:
        """Bucket and key of uploads under way, where nothing has that name."""
        bucket = self._made.bucket
        names = sorted({(one.bucket, one.key) for one in bucket.uploads.values()})
        return [(where, key) for where, key in names if key not in bucket.objects[where]]

    # -- commands --------------------------------------------------------------------------------------------

    def _command(self, body: Callable[[], None]) -> None:
        """Run it in a process of its own, which may outlast the step."""
        kernel = self._made.kernel

        def run() -> None:
            try:
                body()
            except HeadraceError as error:
                self.said.append(f"{type(error).__name__}: {error}")

        kernel.spawn(kernel.process("command"), run, "command")

    def _replay(self, from_start: bool, states: Sequence[str] = ()) -> None:  # a scenario's own words
        self.repeats += from_start
        wanted = Selection(states=frozenset(map(State, states)))
        settings = self._made.settings(self._course.options)

        def body() -> None:
            reading = open_ledger_reader(settings, timeout=_COMMAND_SECONDS)
            if reading is None:
                return
            with reading:
                buckets = settings.buckets
                found = objects_to_replay(reading.cache, buckets, wanted, from_start=from_start)
                _submit(settings, reading, "replay", list(found), from_start=from_start)

        self._command(body)

    def _mark(self, prefix: str) -> None:
        self.marks += 1
        settings = self._made.settings(self._course.options)

        def body() -> None:
            reading = open_ledger_reader(settings, timeout=_COMMAND_SECONDS)
            if reading is None:
                return
            with reading:
                s3, wanted = SimulatedS3(self._made.bucket), Selection(prefix=prefix)
                chosen = [
                    one
                    for place in settings.by_place()
                    for one in objects_to_mark(s3, reading.cache, place, wanted)
                ]
                _submit(settings, reading, "mark", chosen)

        self._command(body)

    # -- as the REST interface asks --------------------------------------------------------------------------

    @property
    def steers_alone(self) -> bool:
        """Whether a connector is steered by one command."""
        return self._holds + self._steered_by == 1

    def steered(self, body: Callable[[Any], object]) -> None:
        """Stop a connector, do something with it, and let it run again."""
        port = self._port()
        if port is None or self._holds:
            return
        self._steered_by += 1

        def run() -> None:
            try:
                port.steer(TargetState.STOPPED)
                try:
                    body(port)
                finally:
                    port.steer(TargetState.RUNNING)
            finally:
                self._steered_by -= 1

        self._command(run)

    def _pause(self) -> None:
        self.steered(lambda _: self._made.kernel.sleep(3.0))

    def _hold(self, target: str, seconds: float, change: str | None = None) -> None:
        """A connector is paused or stopped for a time, in which offsets may be changed, and is resumed.

        `change`: every other object is to be read again (`again`), or not at all (`done`).
        """
        if self._holds or self._steered_by:
            return
        self.repeats += change == "again"
        self.marks += change == "done"
        self._holds += 1

        def run() -> None:
            try:
                if (port := self._leading_port()) is None:
                    return
                port.steer(TargetState(target))
                self.held = TargetState(target), self._made.kernel.now
                if change is not None:
                    self._alter(port, again=change == "again")
                self._made.kernel.sleep(seconds)
            finally:
                self._resume()
                self._holds -= 1

        self._command(run)

    def _port(self) -> Any:
        connectors = (one.connector for one in self._course.alive)
        return next((each.port for each in connectors if each is not None), None)

    def _leading_port(self) -> Any:
        connectors = [one.connector for one in self._course.alive if one.connector is not None]
        return next((one.port for one in connectors if one.snapshot_holder.snapshot.role == "leader"), None)

    def _alter(self, port: Any, *, again: bool) -> None:
        """Change the offset of every other object."""
        known = list(port.offsets())[::2]
        if not known:
            return
        offset = None if again else Offset(state=State.DONE)
        port.alter([Change(object=one.object, offset=offset) for one in known])
        objects = self._made.bucket.objects
        for one in known if again else ():
            found: ObjectId = one.object.id
            stored = objects[found.bucket].get(found.key)
            is_there = stored is not None and stored.etag.strip('"') == found.etag
            if is_there and one.entry.state is State.DONE and one.entry.records:
                self.asked_again.add(found)

    def _resume(self) -> None:
        """Whatever has become of the process that was asked."""
        # Before it is asked: what is taken then may be.
        self.held = None
        deadline = self._made.kernel.now + _RESUME_SECONDS
        while self._made.kernel.now < deadline:
            try:
                if (port := self._leading_port()) is not None:
                    port.steer(TargetState.RUNNING)
                    return
            except HeadraceError as error:
                self.said.append(f"{type(error).__name__}: {error}")
            self._made.kernel.sleep(1.0)

    def _await_resumed(self) -> None:
        """Until no operator holds it any more; one that stopped or died meanwhile is started again."""
        deadline = self._made.kernel.now + _RESUME_SECONDS
        while self._holds and self._made.kernel.now < deadline:
            self._course.acts()["start"]()
            self._made.kernel.sleep(0.5)

    def _rewind(self, topic: str, partition: int, offset: int) -> None:
        self.repeats += 1
        self.steered(lambda port: port.alter({TopicPartition(topic, partition): offset}))

    def _reset(self) -> None:
        self.repeats += 1
        self.steered(lambda port: port.reset())


def _submit(
    settings: Settings,
    reading: LedgerReader,
    action: Action,
    chosen: Sequence[SelectedObject],
    *,
    from_start: bool = False,
) -> None:
    if not chosen:
        return
    request = CommandRequest(
        settings=settings,
        action=action,
        chosen=chosen,
        from_start=from_start,
        dry_run=False,
        yes=True,
        as_json=True,
        timeout=_COMMAND_SECONDS,
    )
    messages = commands_for(request)
    submit(settings, reading, messages, report_progress=lambda *_: None, timeout=_COMMAND_SECONDS)
