"""Runs a scenario of a restore: an archive is made by our sink, and comes back through our source."""

import hashlib
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.simulation.apart import PAGES
from tests.simulation.broker import Record
from tests.simulation.course import Course, Ended, run_course
from tests.simulation.environment import Environment, Instance, environment
from tests.simulation.first_rows import put_first
from tests.simulation.listing_order import FAILS, LOOKED_FULL, PADDED_FROM, SLOWLY
from tests.simulation.operations import Operations
from tests.simulation.owed_actions import OwedActions
from tests.simulation.restore_generator import (
    ARCHIVE,
    ARCHIVED,
    RESTORED,
    UNPADDED,
    sink_options,
    source_options,
)
from tests.simulation.s3 import StoredObject
from tests.simulation.scenario import Given, Scenario
from tests.simulation.sink_generator import LETTERS
from tests.simulation.unsound_values import ARCHIVED_AS, made_objects

INCOMING = "incoming"
_MOMENT = 0.001
# A minute, the longest delay of an attempt, and a moment to show it.
_STILL_SECONDS: Final = 130.0


@dataclass
class RestoreOutcome(Ended):
    """What a run has come to."""

    archive: dict[str, list[int]] = field(default_factory=dict)
    """By key, the numbers of the records that an object holds something of."""
    restored: list[list[Record]] = field(default_factory=list)
    letters: int = 0
    """How many dead letters there are."""
    too_early: list[str] = field(default_factory=list)
    arrived: bool = False
    repeats: int = 0
    """How often it was asked for once more."""
    again: set[str] = field(default_factory=set)
    """Keys of objects that were done and there when a stopped connector was to read them again."""


def run_restore(scenario: Scenario) -> RestoreOutcome:
    """Make the archive, and restore it while things go wrong."""
    outcome = RestoreOutcome()
    with environment(scenario.seed) as made:
        run_course(made, RestoreCourse(made, scenario, outcome))
    return outcome


class RestoreCourse(Course):
    """An archive comes, and is restored. A subclass says of another archive what its objects hold."""

    data = ("arrive",)
    topics = (RESTORED,)
    archived = ARCHIVED
    """The topic of the archive."""

    def __init__(self, made: Environment, scenario: Scenario, outcome: RestoreOutcome) -> None:
        super().__init__(made, scenario, outcome, calm=False)
        self._outcome = outcome
        clients = {name: self.options[name] for name in ("bootstrap.servers", "aws.s3.endpoint", "state.dir")}
        self._sink = self.sink_options() | clients | {"buffer.dir": str(made.folder / "buffer")}
        self.options = source_options(self.options)
        self._objects: list[str] = []
        self._copied: dict[str, StoredObject] = {}
        self.came: dict[str, float] = {}
        self.told: dict[str, float] = {}
        """When the queue names what came: a listing may show it before."""
        self._spoiled = ""
        self._operations = Operations(self)
        self._owed = OwedActions(self, self._operations)
        made.bucket.on_taken = self._taken
        made.bucket.on_call = self._owed.called

    def sink_options(self) -> dict[str, str]:
        """The configuration of the sink that makes the archive."""
        return sink_options(self.scenario.options)

    def numbers(self, objects: Mapping[str, bytes]) -> dict[str, list[int]]:
        """By key, the numbers of the records whose values or keys an object holds."""
        return {key: numbers_in(body) for key, body in objects.items()}

    def prepare(self) -> None:
        """See Course."""
        made, partitions = self.made, self.scenario.topics[self.archived]
        made.bucket.make(ARCHIVE)
        made.bucket.make(INCOMING)
        made.bucket.page_keys = int(self.scenario.options.get("archive.page", made.bucket.page_keys))
        for name, count in ((self.archived, partitions), (RESTORED, partitions), (LETTERS, 1)):
            made.broker.create(name, count)
        if ARCHIVED_AS in self.scenario.options:
            for made_object in made_objects(self.scenario):
                etag = f'"{hashlib.md5(made_object.body, usedforsecurity=False).hexdigest()}"'
                stored = StoredObject(made_object.body, etag, {}, made.bucket.now_ms())
                made.bucket.put(ARCHIVE, made_object.key, stored, "put")
            return
        begin = int(self.scenario.options.get(PADDED_FROM, "0"))
        if begin:
            before = sink_options({**self.scenario.options, "archive.names": UNPADDED})
            name = "file.name.template"
            self._archive(self.scenario.records[:begin], self._sink | {name: before[name]})
        self._archive(self.scenario.records[begin:], self._sink)
        self._outcome.archive = self.numbers(
            {key: one.body for key, one in made.bucket.objects[ARCHIVE].items()}
        )

    def _archive(self, records: Sequence[Given], options: Mapping[str, str]) -> None:
        """Have these records archived by a sink of these options."""
        for one in records:
            record = Record(0, one.key, one.value, one.headers, one.timestamp_ms)
            self.made.broker.produce(self.archived, one.partition, record)
        sink = Instance(self.made, options, until_idle=True)
        while not sink.is_over:
            self.made.kernel.sleep(1.0)
        assert sink.ending == "exit 0", sink.ending

    def acts(self) -> dict[str, Callable[..., None]]:
        """See Course."""
        own: dict[str, Callable[..., None]] = {
            "arrive": self._arrive,
            "mended": self._mend,
            FAILS: self._fail,
            LOOKED_FULL: self._look_while_full,
            SLOWLY: self._list_slowly,
        }
        return {**super().acts(), **self._operations.acts(), **own}

    def _fail(self, number: int, seconds: float) -> None:
        """S3 answers 503 to each read of one object of values for so long."""
        values = [key for key in sorted(self._copied) if not is_beside(key)]
        if values:
            key = values[number % len(values)]
            self.made.bucket.weather.failing_until[INCOMING, key] = self.made.kernel.now + seconds

    def _list_slowly(self, seconds: float) -> None:
        """Each page of a listing takes so long."""
        self.made.bucket.on_asked = lambda method, _: seconds if method == "list_objects_v2" else 0.0

    def _look_while_full(self) -> None:
        """What is full, and does not move while an object fails, is one of the problems."""
        before = self._shown_pending()
        self.made.kernel.sleep(_STILL_SECONDS)
        after, most = self._shown_pending(), int(self.options["max.pending.objects"])
        is_still = before is not None and before == after and before[0] >= most
        fails = any(until > self.made.kernel.now for until in self.made.bucket.weather.failing_until.values())
        if is_still and fails and not any("max.pending.objects" in one for one in self.problems()):
            said = "; ".join(self.problems()) or "nothing is said"
            sentence = f"{before} objects and records for {_STILL_SECONDS:.0f} s, and of the bound: {said}"
            self._outcome.shown.append(("shown = true", sentence))

    def _shown_pending(self) -> tuple[int, int] | None:
        """How many objects wait, and how many records were committed, as the instance shows that runs."""
        found = [one.connector for one in self.alive if one.connector is not None]
        if len(found) != 1 or not self.are_running():
            return None
        shown = found[0].snapshot_holder.snapshot
        return shown.pending_objects, shown.records_total

    def _arrive(self, portion: int, of: int, order: str, late: float, head: str = "") -> None:
        made = self.made
        archive = made.bucket.objects[ARCHIVE]
        if not self._objects:
            self._objects = sorted(archive)
            if order == "random":
                random.Random(self.scenario.seed).shuffle(self._objects)
            elif order == "values first":
                self._objects.sort(key=lambda key: ".keys." in key)
            elif order == "keys of some first":
                first = next((key for key in self._objects if ".keys." in key), "")
                self._objects.sort(key=lambda key: (key != first, ".keys." in key))
            elif order == "tombstones first":
                self._objects.sort(key=lambda key: ("tombstone" not in key, ".keys." in key))
            elif order == "spoiled":
                self._spoiled = next((key for key in self._objects if not is_beside(key)), "")
            elif order == "tombstones last":
                self._objects.sort(key=lambda key: "tombstone" in key)
        size = -(-len(self._objects) // of)
        for key in self._objects[portion * size : (portion + 1) * size]:
            one = archive[key]
            body = _spoiled(one.body) if key == self._spoiled else one.body
            body = put_first(head, body) if head else body
            stored = StoredObject(
                body, one.etag, dict(one.metadata), made.bucket.now_ms(), tags=dict(one.tags)
            )
            made.bucket.put(INCOMING, key, stored, "put")
            self._copied[key] = stored
            self.came.setdefault(key, made.kernel.now)
            self.told.setdefault(key, made.kernel.now + late)
            made.queue.announce(INCOMING, key, etag=one.etag.strip('"'), size=len(body), after=late)
        self._outcome.arrived = len(self._copied) == len(archive)

    def _mend(self) -> None:
        """What the store gave spoiled is whole again."""
        bucket = self.made.bucket
        if (spoiled := bucket.objects[INCOMING].get(self._spoiled)) is not None:
            spoiled.body = bucket.objects[ARCHIVE][self._spoiled].body

    def _taken(self, bucket: str, key: str, stored: StoredObject) -> None:
        """What an object holds something of must be in Kafka, key and all, when it goes."""
        self._owed.taken(bucket, key, stored, has_sides=any(map(is_beside, self._outcome.archive)))
        if self._operations.marks:
            return
        if bucket != INCOMING or key not in self._outcome.archive or self.shows_no_keys(key):
            return
        there = self.there(key)
        missing = [number for number in self._outcome.archive[key] if number not in there]
        if missing:
            self._outcome.too_early.append(f"{key} was taken, and of records {missing} not all is in Kafka")

    def shows_no_keys(self, key: str, *, is_told: bool = False) -> bool:
        """Whether it could not be known when an object came that its topic has keys.

        `auto` takes a topic for one without keys where none has come in `restore.sidecars.wait.ms`: nothing
        in values tells the two apart, and `required` is for who knows better. `is_told`: another kind has
        come, so that `required` takes it for all that there are.
        """
        came = self.came.get(key, 0.0)
        # Of one that came long after the first no keys were waited for, nor those that come with it.
        until = came - _MOMENT if came > min(self.came.values()) + self._wait_seconds else came
        # What sorts after it may be on a page that a listing has not come to.
        has_pages = any(step.act == PAGES for step in self.scenario.steps)
        listed = key if has_pages or "archive.page" in self.scenario.options else None
        is_shown = any(
            (".keys." in other or "tombstone" in other) and at <= until and (listed is None or other < listed)
            for other, at in self.told.items()
        )
        is_required = self.scenario.options.get("restore.sidecars") == "required"
        return (is_told or not is_required) and not is_shown

    @property
    def _wait_seconds(self) -> float:
        return int(self.scenario.options.get("restore.sidecars.wait.ms", "60000")) / 1000

    def there(self, _key: str) -> set[int]:
        """The numbers of the records that are in Kafka as they were, as far as this object showed it."""
        has_keys = "archive.keys" in self.scenario.options
        meant = {
            (one.key if has_keys else None, _plain(one.value)): number
            for number, one in numbered(self.scenario).items()
        }
        found = ((record.key, _plain(record.value)) for record in self.committed())
        return {meant[each] for each in found if each in meant}

    def committed(self) -> Iterator[Record]:
        """What is restored, visible or not yet."""
        for partition in range(self.scenario.topics[self.archived]):
            yield from self.made.broker.durable(RESTORED, partition)

    def partitions(self) -> list[list[Record]]:
        """What is restored, by partition."""
        return [
            self.made.broker.visible(RESTORED, partition)
            for partition in range(self.scenario.topics[self.archived])
        ]

    def collect(self) -> None:
        """See Course."""
        super().collect()
        self._outcome.restored = self.partitions()
        self._outcome.letters = len(self.made.broker.visible(LETTERS, 0))
        self._outcome.repeats, self._outcome.said = self._operations.repeats, self._operations.said
        self._outcome.too_early += self._owed.too_early
        self._outcome.again = {one.key for one in self._operations.asked_again}


def _spoiled(body: bytes) -> bytes:
    """As long as before, and of its rows the first is none."""
    first, *others = body.splitlines()
    return b"\n".join([b"x" * len(first), *others, b""])


def is_beside(key: str) -> bool:
    """Whether an object holds keys or headers, of values or of tombstones."""
    return ".keys." in key or ".headers." in key or "tombstone" in key


def numbers_in(body: bytes) -> list[int]:
    """The numbers of the records whose values or keys an object holds."""
    found = []
    for line in body.decode().splitlines():
        row: Any = json.loads(line)
        found.append(int(row["n"]) if isinstance(row, Mapping) else int(str(row).removeprefix("k")))
    return found


def _plain(value: bytes | None) -> int | None:
    """The number in a value, whatever its text."""
    return None if value is None else int(json.loads(value)["n"])


def number_of(record: Record, scenario: Scenario) -> int | None:
    """Which record of the archive a restored one is; None: of none, or it cannot be told."""
    if record.value is not None:
        return _plain(record.value)
    keys = {one.key: number for number, one in numbered(scenario).items()}
    return keys.get(record.key)


def numbered(scenario: Scenario) -> dict[int, Given]:
    """The records of a scenario by the numbers in their keys, which stay when others are left out."""
    return {int((one.key or b"k0")[1:]): one for one in scenario.records}
