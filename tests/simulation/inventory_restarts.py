"""A process that is killed while it reads an inventory, and inventories that cannot be read.

    python -m tests.simulation.inventory_restarts

in a process of its own, as the simulation exchanges clocks, threads and locks.
"""

import hashlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from tests.simulation.environment import Environment, Instance, environment
from tests.simulation.s3 import StoredObject
from tests.simulation.source_generator import FIXED, INCOMING, INVENTORIES, TOPIC
from tests.support.inventory import Inventory, InventoryRow, inventory

OBJECTS: Final = 40
Body = Callable[["_Course"], None]

_NUMBERS: Final = itertools.count()


class _Course:
    """A bucket with objects, an inventory of all but the last of them, and processes one after the other."""

    def __init__(self, made: Environment) -> None:
        self.made = made
        self.rows: list[InventoryRow] = []
        self.options = {
            **FIXED,
            # Clients are kept by their properties: those of another course are none of this one's.
            "bootstrap.servers": f"broker-{next(_NUMBERS)}:9092",
            "initial.inventory": f"s3://{INVENTORIES}/inventories/in/daily/2026-01-31T12-00Z/manifest.json",
            "state.dir": str(made.folder / "state"),
            "max.pending.objects": "3",
            "input.format": "jsonl",
        }
        for bucket in (INCOMING, INVENTORIES):
            made.bucket.make(bucket)
        made.broker.create(TOPIC, 1)
        for number in range(OBJECTS):
            key, body = f"in/{number * 7919 % 1000:04}.jsonl", b'{"n": %d}\n' % number
            etag = self.put(INCOMING, key, body)
            self.rows.append(InventoryRow(key=key, etag=etag, size=len(body)))

    def put(self, bucket: str, key: str, body: bytes) -> str:
        """An object, and its ETag."""
        etag = hashlib.md5(body, usedforsecurity=False).hexdigest()
        stored = StoredObject(body, f'"{etag}"', {}, self.made.bucket.now_ms())
        self.made.bucket.put(bucket, key, stored, "put")
        return etag

    def write(self, made: Inventory) -> None:
        """An inventory, in its bucket."""
        for key, body in made.objects.items():
            self.put(INVENTORIES, key, body)

    def run(self, *, until: Callable[[], bool] | None = None) -> Instance:
        """A process until nothing is left to do, or until it is killed when this is so."""
        one = Instance(self.made, self.options, until_idle=until is None)
        deadline = self.made.kernel.now + 300
        while not one.is_over and not (until is not None and until()) and self.made.kernel.now < deadline:
            self.made.kernel.sleep(0.05)
        one.kill()
        self.made.kernel.sleep(12.0)
        return one

    def run_to_end(self) -> None:
        """A process that has to end by itself, and well."""
        ended = self.run().ending
        assert ended == "exit 0", ended

    def values(self) -> Counter[bytes | None]:
        """What is in Kafka."""
        return Counter(record.value for record in self.made.broker.visible(TOPIC, 0))

    def events(self, name: str) -> list[object]:
        """What the log says of one event."""
        return [entry[3] for entry in self.made.log if entry[2] == name]


@contextmanager
def _course() -> Iterator[tuple[_Course, Callable[[Body], None]]]:
    with environment(7) as made:
        course = _Course(made)

        def play(body: Body) -> None:
            made.operate(lambda: body(course))

        yield course, play


def killed_in_the_middle() -> None:
    """The next process reads it again, the one after that does not, and each row is there once."""
    with _course() as (course, play):

        def body(course: _Course) -> None:
            course.write(inventory(INCOMING, [[row] for row in course.rows[:-1]], bucket=INVENTORIES))
            course.run(until=lambda: len(course.values()) >= OBJECTS // 4)
            assert OBJECTS // 4 <= len(course.values()) < OBJECTS
            course.run_to_end()
            # It is of no more use, and whatever has become of its bucket holds up nothing.
            course.made.bucket.weather.failing["503 GetObject"] = 1000
            course.run_to_end()

        play(body)
        assert course.values() == {b'{"n": %d}' % number: 1 for number in range(OBJECTS)}
        assert len(course.events("inventory_begun")) == 2
        assert len(course.events("inventory_read")) == 1


def of_another_bucket() -> None:
    """A first start ends and has begun nothing: once it is corrected, the next start is the first one."""
    with _course() as (course, play):

        def body(course: _Course) -> None:
            course.write(inventory("another", [course.rows], bucket=INVENTORIES))
            ended = course.run().ending or ""
            assert ended.startswith("InventoryRefused: initial.inventory = 's3://inventories/")
            assert "it is the inventory of s3://another, which is not aws.s3.bucket.name" in ended
            assert not course.values()
            course.write(inventory(INCOMING, [course.rows], bucket=INVENTORIES))
            course.run_to_end()

        play(body)
        assert len(course.values()) == OBJECTS
        assert len(course.events("inventory_read")) == 1


def _gone(*, keeps_manifest: bool) -> None:
    """A lifecycle rule has taken it while the process was away."""
    with _course() as (course, play):

        def body(course: _Course) -> None:
            made = inventory(INCOMING, [[row] for row in course.rows], bucket=INVENTORIES)
            course.write(made)
            course.run(until=lambda: len(course.values()) >= OBJECTS // 4)
            assert len(course.values()) < OBJECTS
            for key in made.files if keeps_manifest else list(made.objects):
                del course.made.bucket.objects[INVENTORIES][key]
            course.run_to_end()

        play(body)
        assert course.values() == {b'{"n": %d}' % number: 1 for number in range(OBJECTS)}
        told = "inventory_file_unread" if keeps_manifest else "inventory_not_read"
        assert len(course.events(told)) == (OBJECTS if keeps_manifest else 1)


def manifest_gone() -> None:
    """The manifest and all files."""
    _gone(keeps_manifest=False)


def files_gone() -> None:
    """The files alone."""
    _gone(keeps_manifest=True)


COURSES: Final[tuple[Callable[[], None], ...]] = (
    killed_in_the_middle,
    of_another_bucket,
    manifest_gone,
    files_gone,
)


if __name__ == "__main__":
    for course in COURSES:
        course()
