"""Spark's micro-batches over the real writer: what it keeps, when it calls, how attempts of tasks end.

As measured with PySpark 4.3: a batch's offsets are in the checkpoint before its tasks run; what a task sends
counts when Spark's coordinator lets one attempt of it commit; `commit` runs in a process of its own, and
`abort` in another one where tasks or the commit failed; the batch's number is written after the commit. After
a restart a batch without its number is planned again, from its offsets. A batch without rows has a task, too.
"""

import itertools
import pickle
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from headrace.model.errors import FrameRefused, HeadraceError
from spark.frames.source import HeadraceSource
from spark.frames.writing import objects_of
from tests.simulation import patches
from tests.simulation.environment import Environment, Instance
from tests.simulation.kernel import Process
from tests.simulation.scenario import Given
from tests.simulation.writing_generator import COLUMNS, HUGE, LIMIT, OWN, TASKS, TRIGGER

_ATTEMPTS: Final = 3
_PAUSE_SECONDS: Final = 0.2
_WRITE_SECONDS: Final = 0.01
_NOT_SPARKS: Final = ("bootstrap.servers", "state.dir", "name")
_QUERY: Final = "sql.streaming.queryId"
_ROWS_OF_A_BATCH: Final = 3
"""So few rows come to a task at once."""
COMMITTER: Final = "committer"

Place = tuple[str, int]


class Row(NamedTuple):
    """A row of the frame."""

    place: Place
    offset: int
    given: Given


Topics = dict[Place, list[Row]]


@dataclass
class Checkpoint:
    """What a query keeps: its id, the end of each batch that it began, and how many are done."""

    id: str
    start: dict[Place, int] = field(default_factory=dict)
    offsets: list[dict[Place, int]] = field(default_factory=list)
    commits: int = 0

    def copy(self) -> "Checkpoint":
        """A backup."""
        return Checkpoint(self.id, dict(self.start), list(self.offsets), self.commits)

    def end(self, number: int) -> dict[Place, int]:
        """Where a batch ends; -1: where the first begins."""
        return self.start if number < 0 else self.offsets[number]


class QueryEnded(Exception):
    """What Spark itself ends a query with."""


class Stopped(Exception):
    """The query was stopped."""


class _Context(TaskContext):
    """Of the task that runs: one for all processes, of which each has its own properties."""

    def getLocalProperty(self, key: str) -> str | None:  # noqa: N802  # PySpark's name
        """See `TaskContext`."""
        process = patches.process()
        found: dict[str, str] = {} if process is None else process.held.get("properties", {})
        return found.get(key)


def lead_contexts() -> None:
    """Have tasks of a run find their own properties; the environment takes it away."""
    # It is made once for each process.
    TaskContext._setTaskContext(None)
    TaskContext._setTaskContext(_Context())


def schema_of(columns: str | None) -> StructType:
    """The columns of the frame."""
    content: DataType = StringType() if columns == "texts" else BinaryType()
    schema = StructType().add("topic", StringType()).add("partition", IntegerType()).add("offset", LongType())
    schema = schema.add("value", content)
    if columns == "bare":
        return schema
    header = StructType().add("key", StringType()).add("value", BinaryType())
    return (
        schema.add("key", content)
        .add("timestamp", TimestampType())
        .add("timestampType", IntegerType())
        .add("headers", ArrayType(header))
    )


def content_of(value: bytes | None) -> bytes | None:
    """The bytes of a row, those of a huge one made."""
    if value is not None and value.startswith(HUGE):
        return value + b"x" * int(value.removeprefix(HUGE))
    return value


def _arrow(rows: Sequence[Row], columns: str | None) -> Iterator[pa.RecordBatch]:
    """The rows as Spark hands them to a task."""
    content = pa.string() if columns == "texts" else pa.binary()
    shape = [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("value", content)]
    if columns != "bare":
        header = pa.struct([("key", pa.string()), ("value", pa.binary())])
        shape += [
            ("key", content),
            ("timestamp", pa.timestamp("us", tz="UTC")),
            ("timestampType", pa.int32()),
            ("headers", pa.list_(header)),
        ]
    schema = pa.schema(shape)
    for begin in range(0, len(rows), _ROWS_OF_A_BATCH):
        yield pa.RecordBatch.from_pylist(
            [_members(row, columns) for row in rows[begin : begin + _ROWS_OF_A_BATCH]], schema=schema
        )


def _members(row: Row, columns: str | None) -> dict[str, Any]:
    given, value = row.given, content_of(row.given.value)
    found: dict[str, Any] = {"topic": row.place[0], "partition": row.place[1], "offset": row.offset}
    if columns == "texts":
        found |= {
            "value": None if value is None else value.decode(),
            "key": None if given.key is None else given.key.decode(),
        }
    else:
        found |= {"value": value, "key": given.key}
    found |= {
        "timestamp": given.timestamp_ms * 1000,
        "timestampType": 0,
        "headers": [{"key": name, "value": own} for name, own in given.headers] or None,
    }
    return found


class Job(Instance):
    """One process of a driver that writes, with the tasks of its batches."""

    when_stopped = "exit 0"

    def __init__(self, made: Environment, name: str, options: Mapping[str, str]) -> None:
        self.speculates = 0
        """So many of the next batches have two attempts of each task at once."""
        self.columns = options.get(COLUMNS)
        self._tasks = options.get(TASKS)
        # Spark gives names in small letters.
        self._given = {
            one.lower(): value for one, value in options.items() if one not in (*OWN, *_NOT_SPARKS)
        }
        super().__init__(made, {**options, "name": name})

    def _run(self) -> None:
        try:
            self._work()
            self.ending = "exit 0"
        except Stopped:
            self.ending = self.when_stopped
        except (HeadraceError, QueryEnded) as error:
            self.ending = f"{type(error).__name__}: {error}"
        except Exception as error:
            self.ending = f"{type(error).__name__}: {error}"
            raise
        self.kill()

    def _work(self) -> None:
        raise NotImplementedError

    def _check(self) -> None:
        if self.stop.asked.is_set():
            raise Stopped

    # -- tasks -----------------------------------------------------------------------------------------------

    def _run_tasks(
        self, writer: Any, parts: Sequence[Sequence[Row]], query: str | None, messages: list[Any]
    ) -> None:
        """Have `messages` hold what each task has sent; a task that dies or fails is repeated."""
        content = pickle.dumps(writer)
        tasks = [_Task(self, content, rows, query) for rows in parts]
        attempts = 1
        if self.speculates:
            self.speculates -= 1
            attempts = 2
        try:
            for _ in range(_ATTEMPTS):
                for task in tasks:
                    for _ in range(attempts if not task.is_done else 0):
                        task.start()
                while any(task.is_running for task in tasks):
                    self._check()
                    self.environment.kernel.sleep(0.05)
            for task in tasks:
                if not task.is_done:
                    raise task.error or QueryEnded("A task has died too often.")
        finally:
            messages += [task.message for task in tasks]

    def _beside(self, body: Callable[[Any], object]) -> None:
        """Run it in a process of the driver's own, as Spark does with `commit` and `abort`; its error."""
        made = self.environment
        worker = made.kernel.process(f"{self.process.name}-{COMMITTER}")
        worker.wall_skew_ms = self.process.wall_skew_ms
        made.workers.setdefault(self.process, []).append(worker)
        found: list[Exception | None] = []
        done = threading.Event()
        worker.ended.append(done.set)
        content = pickle.dumps(self._source())

        def run() -> None:
            try:
                body(self._writer(pickle.loads(content)))  # noqa: S301  # made one line above
                found.append(None)
            except HeadraceError as error:
                found.append(error)
            except Exception as error:  # noqa: BLE001  # the query fails with it
                made.crashes.append((worker.name, error))
                found.append(QueryEnded(str(error)))
            done.set()

        made.kernel.spawn(worker, run, COMMITTER)
        done.wait()
        made.kernel.require_alive()
        if not found:
            raise QueryEnded("The process that commits has died.")
        if found[0] is not None:
            raise found[0]
        made.kernel.kill(worker)

    def _source(self) -> HeadraceSource:
        return HeadraceSource(self._given)

    def _writer(self, source: HeadraceSource) -> Any:
        raise NotImplementedError

    def _parts(self, rows: Sequence[Row], *, is_ordered: bool) -> list[list[Row]]:
        """The rows of each task."""
        rng = self.environment.kernel.rng
        by_place: dict[Place, list[Row]] = {}
        for row in rows:
            by_place.setdefault(row.place, []).append(row)
        parts = list(by_place.values())
        match self._tasks:
            case "ranges":
                parts = [half for part in parts for half in _halves(part, rng.randint(0, len(part))) if half]
            case "mixed":
                parts = [[row for part in parts for row in part], []]
            case "spread":
                cut: list[list[Row]] = [[], []]
                for row in rows:
                    cut[rng.random() < 0.5].append(row)
                parts = cut
            case _:
                pass
        # Spark writes what has no partitions by one task without rows.
        parts = parts or [[]]
        if not is_ordered:
            for part in parts:
                rng.shuffle(part)
            return parts
        return [sorted(part, key=lambda row: (row.place, row.offset)) for part in parts]


def _halves(part: list[Row], at: int) -> tuple[list[Row], list[Row]]:
    return part[:at], part[at:]


class WritingQuery(Job):
    """One process of a driver that runs one query."""

    def __init__(
        self, made: Environment, name: str, options: Mapping[str, str], kept: Checkpoint, topics: Topics
    ) -> None:
        self.kept = kept
        self.trigger = options.get(TRIGGER)
        self.left_out: set[tuple[Place, int]] = set()
        """Rows that the query's own filter leaves out."""
        self.dies_at_a_write = 0
        self._topics = topics
        self._limit = int(options.get(LIMIT, "1000000"))
        super().__init__(made, name, options)

    def _writer(self, source: HeadraceSource) -> Any:
        return source.streamWriter(schema_of(self.columns), False)  # as Spark calls it

    def _work(self) -> None:
        kept = self.kept
        writer = self._writer(self._source())
        number = len(kept.offsets)
        if kept.commits < number:
            self._run_batch(writer, number - 1)
        while True:
            self._check()
            start = kept.end(number - 1)
            end = self.latest(start)
            if end == start and self.trigger is not None:
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
            self._run_batch(writer, number - 1)

    def latest(self, start: Mapping[Place, int]) -> dict[Place, int]:
        """Where the next batch ends: what is there, as far as its limit goes, of the partitions in turn."""
        end, left = dict(start), self._limit
        for place in sorted(self._topics):
            rows = [row for row in self._topics[place] if row.offset >= start.get(place, 0)][:left]
            if rows:
                left -= len(rows)
                end[place] = rows[-1].offset + 1
        return end

    def _run_batch(self, writer: Any, number: int) -> None:
        kept = self.kept
        start, end = kept.end(number - 1), kept.end(number)
        rows = [
            row
            for place in sorted(self._topics)
            for row in self._topics[place]
            if start.get(place, 0) <= row.offset < end.get(place, 0)
            and (place, row.offset) not in self.left_out
        ]
        messages: list[Any] = []
        try:
            self._run_tasks(writer, self._parts(rows, is_ordered=False), kept.id, messages)
            self._beside(lambda own: own.commit(_received(messages), number))
        except (HeadraceError, QueryEnded, Stopped):
            # Spark shows the first.
            with suppress(HeadraceError, QueryEnded):
                self._beside(lambda own: own.abort(_received(messages), number))
            raise
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


def _received(messages: Sequence[Any]) -> list[Any]:
    """As another process gets them."""
    found: list[Any] = pickle.loads(pickle.dumps(list(messages)))  # noqa: S301  # made in this line
    return found


class FrameWrite(Job):
    """`df.write`: some rows at once."""

    when_stopped = "QueryEnded: It was stopped."

    def __init__(
        self,
        made: Environment,
        options: Mapping[str, str],
        rows: Sequence[Row],
        *,
        is_ordered: bool,
        overwrites: bool = False,
    ) -> None:
        self._rows = rows
        self.overwrites = overwrites
        self._is_ordered = is_ordered
        super().__init__(made, "frame", options)
        self._made_writer: Any = None
        self.ids: frozenset[str] = frozenset()
        """Of the objects that its tasks have sent."""

    def _writer(self, source: HeadraceSource) -> Any:
        del source
        return pickle.loads(self._made_writer)  # noqa: S301  # made by this class

    def _work(self) -> None:
        writer = self._source().writer(schema_of(self.columns), self.overwrites)
        self._made_writer = pickle.dumps(writer)
        messages: list[Any] = []
        try:
            parts = self._parts(self._rows, is_ordered=self._is_ordered)
            self._run_tasks(writer, parts, None, messages)
            self.ids = frozenset(one.id for one in objects_of(messages))
            self._beside(lambda own: own.commit(_received(messages)))
        except (HeadraceError, QueryEnded, Stopped):
            with suppress(HeadraceError, QueryEnded):
                self._beside(lambda own: own.abort(_received(messages)))
            raise


class _Task:
    """The rows of one task, written by attempts in processes of their own, of which one counts."""

    def __init__(self, job: Job, writer: bytes, rows: Sequence[Row], query: str | None) -> None:
        self._job = job
        self._writer = writer
        self._rows = rows
        self._query = query
        self._attempts: list[tuple[Process, threading.Event]] = []
        self.message: Any = None
        self.is_done = False
        self.error: Exception | None = None

    @property
    def is_running(self) -> bool:
        """Whether no attempt has come to its end, and one is under way."""
        under_way = (not done.is_set() and not (one.is_dead or one.is_lost) for one, done in self._attempts)
        return not self.is_done and any(under_way)

    def start(self) -> None:
        """Begin an attempt."""
        made, job = self._job.environment, self._job
        worker, done = made.kernel.process(f"{job.process.name}-task"), threading.Event()
        worker.wall_skew_ms = job.process.wall_skew_ms
        if self._query is not None:
            worker.held["properties"] = {_QUERY: self._query}
        made.workers.setdefault(job.process, []).append(worker)
        self._attempts.append((worker, done))
        made.begun_tasks += 1
        made.kernel.spawn(worker, lambda: self._run(worker, done), "task")

    def _run(self, worker: Process, done: threading.Event) -> None:
        made = self._job.environment
        try:
            writer = pickle.loads(self._writer)  # noqa: S301  # made by this module
            message = writer.write(_arrow(self._rows, self._job.columns))
            if not self.is_done and not worker.is_lost:
                # Spark's coordinator lets one attempt commit.
                self.message, self.is_done = pickle.loads(pickle.dumps(message)), True  # noqa: S301  # as above
        except HeadraceError as error:
            self.error = error
        except Exception as error:  # noqa: BLE001  # the query fails with it
            made.crashes.append((worker.name, error))
            self.error = FrameRefused(str(error))
        done.set()
        made.kernel.kill(worker)


def unique_ids() -> Iterator[str]:
    """Ids of queries of one run."""
    return (f"query-{number}" for number in itertools.count(1))
