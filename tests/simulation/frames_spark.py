"""Spark's micro-batches over the real data source: what it keeps, when it calls, how its tasks run and die.

As measured with PySpark 4.3: an offset is written before its batch is planned; after that the batch before it
is committed to the source; a batch's own number is written when its rows are in the sink. After a restart a
batch without its number is planned again, from the offsets alone.
"""

import json
import pickle
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StringType, StructField, StructType

import spark.frames.running_stream  # noqa: F401  # before its caches are exchanged
from headrace.model.errors import FrameRefused, HeadraceError
from spark.frames import reading
from spark.frames.source import HeadraceSource, HeadraceStreamReader
from tests.simulation import memory
from tests.simulation.environment import Environment, Instance
from tests.simulation.frames_generator import OWN, SCHEMA, TRIGGER
from tests.simulation.kernel import Process

_ATTEMPTS: Final = 3
_PAUSE_SECONDS: Final = 0.2
_WRITE_SECONDS: Final = 0.01
_NOT_SPARKS: Final = ("bootstrap.servers", "state.dir", "name")
GIVEN: Final = StructType(
    [
        StructField("n", StringType()),
        StructField("x", StringType()),
        StructField("_rescued_data", StringType()),
    ]
)
"""The schema that queries with one give."""

memory.keep_one(reading, "s3_calls")

Plan = tuple[tuple[str, str, int | None, int | None], ...]
"""The splits of a batch: key, ETag, begin and end."""


@dataclass
class Checkpoint:
    """What a query keeps: the end of each batch that it began, how many are done; and its sink, by batch.

    A file of it that is there is not written again, and a batch of the sink neither.
    """

    offsets: list[str] = field(default_factory=list)
    commits: int = 0
    sink: dict[int, tuple[str, ...]] = field(default_factory=dict)
    plans: dict[int, Plan] = field(default_factory=dict)
    strange: list[str] = field(default_factory=list)
    """Batches that were not what they had been."""

    def copy(self) -> "Checkpoint":
        """A backup."""
        return Checkpoint(list(self.offsets), self.commits, dict(self.sink), dict(self.plans))

    def planned(self, number: int, plan: Plan) -> None:
        """A batch is what it was when it was planned first."""
        if self.plans.setdefault(number, plan) != plan:
            self.strange.append(f"batch {number} was {self.plans[number]} and is {plan}")


class QueryEnded(Exception):
    """What Spark itself ends a query with."""


class Stopped(Exception):
    """The query was stopped."""


class Query(Instance):
    """One process of a driver that runs one query, with the tasks of its batches."""

    def __init__(
        self, made: Environment, options: Mapping[str, str], kept: Checkpoint, *, batches: int
    ) -> None:
        self.kept = kept
        self.batches = batches
        """How many batches the log had when this one began."""
        self.on_tasks: Callable[[list[str]], None] = lambda _keys: None
        """Called with the keys of a batch before its tasks begin."""
        self.reader: HeadraceStreamReader | None = None
        self.trigger = options.get(TRIGGER)
        self._schema = GIVEN if options.get(SCHEMA) and options.get("rows") else None
        # Spark gives names in small letters.
        self._given = {
            name.lower(): value for name, value in options.items() if name not in (*OWN, *_NOT_SPARKS)
        }
        self.dies_at_a_write = 0
        super().__init__(made, {**options, "name": "query"})

    def _run(self) -> None:
        try:
            self._stream()
            self.ending = "exit 0"
        except Stopped:
            self.ending = "exit 0"
        except (HeadraceError, QueryEnded) as error:
            self.ending = f"{type(error).__name__}: {error}"
        except Exception as error:
            self.ending = f"{type(error).__name__}: {error}"
            raise
        self.kill()

    def _stream(self) -> None:
        source = HeadraceSource(self._given)
        schema = source.schema() if self._schema is None else self._schema
        # As a process of its own gets it.
        reader: Any = pickle.loads(pickle.dumps(source)).streamReader(schema)  # noqa: S301  # made one line above
        self.reader = reader
        try:
            self._run_batches(reader)
        finally:
            reader.stop()

    def _run_batches(self, reader: HeadraceStreamReader) -> None:
        kept, is_available_now = self.kept, self.trigger is not None
        number, done = len(kept.offsets), kept.commits
        is_once = self.trigger == "once"
        if is_available_now and not is_once:
            reader.prepareForTriggerAvailableNow()
        limit = ReadAllAvailable() if is_once else reader.getDefaultReadLimit()
        if done < number:
            self._run_batch(reader, number - 1)
            if is_once:
                return
        while True:
            self._check()
            start = kept.offsets[number - 1] if number else json.dumps(reader.initialOffset())
            end = json.dumps(reader.latestOffset(json.loads(start), limit))
            if end == start and is_available_now:
                return
            if end == start:
                self.environment.kernel.sleep(_PAUSE_SECONDS)
                continue
            self._write()
            if len(kept.offsets) != number:
                raise QueryEnded("Multiple streaming queries are using one checkpoint.")
            kept.offsets.append(end)
            number += 1
            self._write()
            if number > 1:
                reader.commit(json.loads(kept.offsets[number - 2]))
            self._run_batch(reader, number - 1)
            if is_once:
                return

    def _run_batch(self, reader: HeadraceStreamReader, number: int) -> None:
        kept = self.kept
        start = kept.offsets[number - 1] if number else json.dumps(reader.initialOffset())
        parts: Any = reader.partitions(json.loads(start), json.loads(kept.offsets[number]))
        splits = [split for part in parts for split in part.splits]
        kept.planned(
            number, tuple((one.object.id.key, one.object.id.etag, one.begin, one.end) for one in splits)
        )
        rows = [row for found in self._run_tasks(reader, parts) for row in found]
        self._write()
        kept.sink.setdefault(number, tuple(rows))
        self._write()
        if kept.commits > number:
            raise QueryEnded("Multiple streaming queries are using one checkpoint.")
        kept.commits = number + 1

    def _write(self) -> None:
        """A file of the checkpoint is about to be written, or was."""
        kernel = self.environment.kernel
        kernel.sleep(_WRITE_SECONDS * kernel.rng.random())
        if self.dies_at_a_write:
            self.dies_at_a_write = 0
            self.kill()
            kernel.require_alive()

    def _check(self) -> None:
        if self.stop.asked.is_set():
            raise Stopped

    # -- tasks -----------------------------------------------------------------------------------------------

    def _run_tasks(self, reader: HeadraceStreamReader, parts: list[Any]) -> list[list[str]]:
        """The rows of each partition; a task that dies or fails is repeated."""
        tasks = [_Task(self, pickle.dumps((reader, part))) for part in parts]
        self.on_tasks(sorted({split.object.id.key for part in parts for split in part.splits}))
        for _ in range(_ATTEMPTS):
            open_tasks = [task for task in tasks if task.rows is None]
            for task in open_tasks:
                task.start()
            while any(task.is_running for task in open_tasks):
                self._check()
                self.environment.kernel.sleep(0.05)
        for task in tasks:
            if task.rows is None:
                raise task.error or QueryEnded("A task has died too often.")
        return [task.rows or [] for task in tasks]


class _Task:
    """One partition, read in a process of its own."""

    def __init__(self, query: Query, content: bytes) -> None:
        self._query = query
        self._content = content
        self._worker: Process | None = None
        self._done = threading.Event()
        self.rows: list[str] | None = None
        self.error: HeadraceError | None = None

    @property
    def is_running(self) -> bool:
        """Whether it has neither ended nor died."""
        return self._worker is not None and not self._done.is_set() and not self._worker.is_dead

    def start(self) -> None:
        """Begin, or begin again."""
        made = self._query.environment
        self._done = threading.Event()
        self._worker = made.kernel.process("query-worker")
        made.workers.setdefault(self._query.process, []).append(self._worker)
        made.kernel.spawn(self._worker, self._run, "task")

    def _run(self) -> None:
        made, worker, done = self._query.environment, self._worker, self._done
        assert worker is not None, "it is started"
        try:
            reader, part = pickle.loads(self._content)  # noqa: S301  # made by this module
            self.rows = [row for batch in reader.read(part) for row in _numbers(batch)]
        except HeadraceError as error:
            self.error = error
        except Exception as error:  # noqa: BLE001  # the query fails with it
            made.crashes.append((worker.name, error))
            self.error = FrameRefused(str(error))
        done.set()
        made.kernel.kill(worker)


def _numbers(batch: Any) -> Iterator[str]:
    """What tells a row from all others, as it is in the output; what else it is, where it is no row."""
    if "n" in batch.schema.names:
        texts = zip(batch.column("n").to_pylist(), batch.column("x").to_pylist(), strict=True)
        yield from (f"{number} {len(text or '')}" for number, text in texts)
        return
    for value in batch.column("value").to_pylist():
        try:
            row = json.loads(value)
            yield f"{row['n']} {len(row['x'] or '')}"
        except (ValueError, TypeError, KeyError):
            yield f"strange {value!r}"
