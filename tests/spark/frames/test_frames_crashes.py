"""Queries that die at any step, over the real log: each object is in one batch, which stays as it was.

Spark is a model of it here: it writes an offset before it runs a batch and a commit after it, and repeats
what was not committed. A sink keeps each batch under its number.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from headrace.model.clock import wall_ms
from headrace.model.objects import ObjectId, S3Object
from ingest.source.catalogue import Baseline
from spark.frames import discovery_log, log_entries
from spark.frames.admission import NO_LIMITS, ReadLimits, WaitingObjects
from spark.frames.discovery_log import DiscoveryLog
from spark.frames.log_entries import KnownObjects, identity
from spark.frames.log_store import DirectoryStore
from spark.frames.options import reading_settings
from spark.frames.running_stream import RunningStream

_Found = TypeVar("_Found")

_RUNS = 12
_BATCHES = 6


class Died(Exception):
    """The process is gone."""


@dataclass
class Faults:
    """Dies at some steps, and counts what it was asked for."""

    draw: random.Random
    rate: float
    steps: Counter[str] = field(default_factory=Counter)

    def step(self, name: str) -> None:
        """One step that a process may not come beyond."""
        self.steps[name] += 1
        if self.draw.random() < self.rate:
            raise Died(name)


class FaultyStore(DirectoryStore):
    """A directory whose process dies before a call has done anything, in its middle, or before the answer."""

    def __init__(self, root: Path, faults: Faults) -> None:
        super().__init__(root)
        self._faults = faults

    def create(self, name: str, content: bytes) -> bool:
        """As of the protocol."""
        return self._around("create", lambda: DirectoryStore.create(self, name, content))

    def replace(self, name: str, content: bytes) -> None:
        """As of the protocol."""
        self._around("replace", lambda: DirectoryStore.replace(self, name, content))

    def remove(self, names: Iterable[str]) -> None:
        """As of the protocol."""
        for name in names:
            self._faults.step("remove")
            super().remove([name])

    def _around(self, name: str, call: Callable[[], _Found]) -> _Found:
        self._faults.step(f"before {name}")
        found = call()
        self._faults.step(f"after {name}")
        return found


class Bucket:
    """Finds what is in a bucket, as `Discovery` does, without threads."""

    def __init__(self, objects: list[S3Object], known: KnownObjects) -> None:
        self._known = known
        self._waiting = WaitingObjects()
        for found in objects:
            if identity(found.id) not in known:
                self._waiting.add(identity(found.id), found)

    def take(self, limits: ReadLimits) -> dict[bytes, S3Object]:
        """What goes into a batch now."""
        return self._waiting.take(limits, wall_ms())

    def wait(self, _seconds: float) -> None:
        """Nothing comes while a query runs."""

    def admit(self, _batch: int, admitted: dict[bytes, S3Object]) -> None:
        """These objects are in a batch of the log."""
        self._waiting.remove(admitted)
        self._known.add(admitted)

    def commit(self, _batch: int) -> None:
        """No messages are held."""


@dataclass
class Checkpoint:
    """What a query of Spark keeps: the end of each batch that it began, and how many are done."""

    offsets: list[dict[str, Any]] = field(default_factory=list)
    commits: int = 0

    def copy(self) -> "Checkpoint":
        """A backup."""
        return Checkpoint(list(self.offsets), self.commits)


@dataclass
class Simulation:
    """A bucket, a log, a checkpoint and a sink, and the queries over them, one after the other."""

    folder: Path
    faults: Faults
    limits: ReadLimits
    objects: list[S3Object] = field(default_factory=list)
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    sink: dict[int, list[ObjectId]] = field(default_factory=dict)

    def upload(self, count: int) -> None:
        """New objects, some of them new content under a key that is there."""
        draw = self.faults.draw
        for _ in range(count):
            key = f"in/{draw.randrange(40)}"
            id_ = ObjectId("b12", key, f"e{len(self.objects)}")
            self.objects.append(S3Object(id=id_, size=draw.randrange(1, 100), last_modified_ms=1))

    def run(self) -> None:
        """One query until it has nothing to do; Died where it dies."""
        store = FaultyStore(self.folder, self.faults)
        log = DiscoveryLog.open(store, bucket="b12", prefix="in/", baseline=Baseline)
        discovery: Any = Bucket(self.objects, log.known)
        calls: Any = None
        settings = reading_settings({"path": "s3://b12/in/", "state.path": str(self.folder)})
        stream = RunningStream(settings, log, discovery, calls)
        kept = self.checkpoint
        if kept.commits < len(kept.offsets):
            self._batch(stream)
        while True:
            start = kept.offsets[-1] if kept.offsets else stream.offset(0)
            end = stream.next_offset(start, self.limits)
            if end == start:
                return
            self.faults.step("before the offset")
            kept.offsets.append(end)
            self.faults.step("after the offset")
            stream.commit(start)
            self._batch(stream)

    def _batch(self, stream: RunningStream) -> None:
        """Run the last batch of the checkpoint into the sink."""
        kept, number = self.checkpoint, len(self.checkpoint.offsets) - 1
        start = kept.offsets[number - 1] if number else stream.offset(0)
        parts = stream.partitions(start, kept.offsets[number])
        found = [split.object.id for part in parts for split in part.splits]
        self.faults.step("before the sink")
        assert self.sink.setdefault(number, found) == found, "a batch that is repeated has the same objects"
        self.faults.step("after the sink")
        kept.commits = number + 1


@pytest.mark.parametrize("limits", [NO_LIMITS, ReadLimits(max_files=3), ReadLimits(max_bytes=150)])
@pytest.mark.parametrize("seed", range(4, 10))
def test_queries_that_die_at_any_step(
    tmp_path: Path, seed: int, limits: ReadLimits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And checkpoints that are restored from a backup: none is lost, none is there twice."""
    for module in (log_entries, discovery_log):
        # So that snapshots, and snapshots of snapshots, are written within few batches.
        monkeypatch.setattr(module, "FAN_IN", 3)
    draw = random.Random(seed)
    simulation = Simulation(tmp_path, Faults(draw, rate=0.06), limits)
    backup = simulation.checkpoint.copy()
    for _ in range(_RUNS):
        simulation.upload(draw.randrange(_BATCHES))
        if draw.random() < 0.2:
            simulation.checkpoint = backup.copy()
        if draw.random() < 0.3:
            backup = simulation.checkpoint.copy()
        try:
            simulation.run()
        except Died:
            continue
    simulation.faults.rate = 0
    simulation.run()

    found = Counter(one for batch in simulation.sink.values() for one in batch)
    assert found == Counter(one.id for one in simulation.objects)
    assert simulation.faults.steps["remove"], "the log was compacted"
