"""Runs a scenario of writing queries of Spark, and gives back what came of it."""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from spark.frames import written_batches
from spark.frames.written_batches import decode_batch
from tests.simulation.course import DAY_SECONDS, Course, run_course
from tests.simulation.environment import Environment, Instance, environment, slow_folders
from tests.simulation.operations import Operations
from tests.simulation.s3 import StoredObject
from tests.simulation.scenario import Given, Scenario
from tests.simulation.sink_run import Outcome
from tests.simulation.writing_generator import (
    BUCKET,
    COLUMNS,
    FILTER,
    FOLDER,
    LIMIT,
    OUT,
    SECOND,
    STATE,
    TRIGGER,
)
from tests.simulation.writing_spark import (
    COMMITTER,
    Checkpoint,
    FrameWrite,
    Place,
    Row,
    Topics,
    WritingQuery,
    content_of,
    lead_contexts,
    unique_ids,
)

KEPT: Final = 4
_LATE: Final = ("put", "network")
"""Of so many batches files are kept, so that some are forgotten within few batches."""
OBJECT_ID: Final = "headrace-object"
_END_SECONDS: Final = 1_200.0
_QUIET_SECONDS: Final = 3.0
_FIXES: Final = 40
_SAID_SECONDS: Final = 300.0
"""So long all attempts of a task may take to be refused."""
_READS_SHARE: Final = 0.7
_LISTS: Final = 2
"""So often a commit lists the files of its query, at most."""
_OTHER: Final = "other/"
_FRAMES: Final = "frames-"


@dataclass(frozen=True, slots=True)
class Visible:
    """An object that a writer made visible."""

    bucket: str
    key: str
    stored: StoredObject
    was_there: bool
    """Whether it took the place of another one."""

    @property
    def id(self) -> str:
        """Its own, unlike its name."""
        return self.stored.metadata.get(OBJECT_ID, "")


@dataclass(frozen=True, slots=True)
class WrittenFrame:
    """One frame that was written at once."""

    prefix: str
    ending: str | None
    rows: Sequence[Row]
    is_again: bool
    """Whether something else had been written under its prefix."""
    overwrites: bool
    ids: frozenset[str] = frozenset()
    """Of the objects that its tasks have sent."""


@dataclass
class WritingOutcome(Outcome):
    """What a run has come to."""

    visible: list[Visible] = field(default_factory=list)
    """All that ever was, in the order in which it became so."""
    left: dict[tuple[str, str], str] = field(default_factory=dict)
    """By bucket and key, the ids of what is there at the end."""
    sentences: list[str] = field(default_factory=list)
    fixes: list[str] = field(default_factory=list)
    """What the operator did something about at the end, as it was said."""
    is_filtered_later: bool = False
    """Whether rows were left out that batches had by then."""
    left_out: set[tuple[Place, int]] = field(default_factory=set)
    """Rows that a query's own filter leaves out."""
    frames: list["WrittenFrame"] = field(default_factory=list)
    """What was written at once."""
    other: Checkpoint | None = None
    """That of the other query."""
    files: dict[str, int] = field(default_factory=dict)
    """How many files of batches each query has."""
    calls: list[str] = field(default_factory=list)
    """What a commit asked for too often."""
    is_put_back: bool = False


def run_writing(scenario: Scenario) -> WritingOutcome:
    """Run it."""
    outcome = WritingOutcome()
    with environment(scenario.seed) as made, _few_files(made):
        lead_contexts()
        run_course(made, _WritingCourse(made, scenario, outcome))
    return outcome


@contextmanager
def _few_files(made: Environment) -> Iterator[None]:
    """Batches that are forgotten early, in folders whose writes take their time: a process may die at any."""
    before = written_batches.KEPT

    written_batches.KEPT = KEPT  # type: ignore[misc]  # smaller than it is, for this run
    try:
        with slow_folders(made):
            yield
    finally:
        written_batches.KEPT = before  # type: ignore[misc]  # as it was


class _WritingCourse(Course):
    """Rows come, and are written by queries that end and begin."""

    data = ("produce",)

    has_commands = False

    def __init__(self, made: Environment, scenario: Scenario, outcome: WritingOutcome) -> None:
        super().__init__(made, scenario, outcome, calm=False)
        self._outcome = outcome
        self._folder = str(made.folder / "writes")
        self.options["buffer.dir"] = str(made.folder / "buffer")
        self._rows: Topics = {}
        self._ids = unique_ids()
        self._rng = random.Random(f"operator-{scenario.seed}")
        self._kept = Checkpoint(next(self._ids))
        self._queries = [self._kept.id]
        self._backups: list[Checkpoint] = []
        self._other: Checkpoint | None = None
        self._frames: list[tuple[WrittenFrame, FrameWrite]] = []
        self._left_out: set[tuple[Place, int]] = set()
        self._filtered_rows = 0
        self._lists: Counter[int] = Counter()
        self._operations = Operations(self)
        made.bucket.on_put = self._became_visible
        made.bucket.on_dies = self._dies
        made.bucket.on_call = self._called

    # -- what there is ---------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """See Course."""
        for name in (BUCKET, SECOND, STATE):
            self.made.bucket.make(name)
        self._operations.put_foreign(BUCKET, f"{OUT}foreign.txt")
        self._operations.put_foreign(BUCKET, "elsewhere/foreign.txt")

    def acts(self) -> dict[str, Callable[..., None]]:
        """See Course."""
        own: dict[str, Callable[..., None]] = {
            "produce": self._produce,
            FILTER: self._filter,
            "rule": self._rule,
            "days": self._pass_days,
            "speculate": self._speculate,
            "dies at a checkpoint": self._dies_at_a_checkpoint,
            "state denied": self._operations.acts()["bucket denied"],
            "checkpoint restored": self._restore,
            "new query": self._new_query,
            "other query": self._other_query,
            "batch write": self._write_frame,
            "batch again": self._write_frame_again,
            "taken away": self._take_away,
            "uploads ended": self._end_uploads,
            "foreign name": self._take_a_name,
            "denied for long": self._deny,
        }
        return {**super().acts(), **self._operations.acts(), **own}

    def start(self, **changes: str) -> WritingQuery:
        """See Course."""
        return self._start("query", self._kept, self.options | changes)

    def _start(self, name: str, kept: Checkpoint, options: Mapping[str, str]) -> WritingQuery:
        given = dict(options)
        if given["state.path"] == FOLDER:
            given["state.path"] = self._folder
        query = WritingQuery(self.made, name, given, kept, self._rows)
        query.left_out = self._left_out
        self.instances.append(query)
        return query

    @property
    def _main(self) -> list[WritingQuery]:
        return [one for one in self.alive if isinstance(one, WritingQuery) and one.process.name == "query"]

    def _start_if_none(self) -> None:
        if self._main:
            return
        ended = [
            one for one in self.instances if isinstance(one, WritingQuery) and one.process.name == "query"
        ]
        if ended and ended[-1].ending and self._rng.random() < _READS_SHARE:
            # Who starts it again has read why it ended.
            self._fixed("query", ended[-1].ending)
        self.start()

    def _produce(self, begin: int, end: int) -> None:
        """Rows come; markers of transactions, and what was compacted, leave offsets out."""
        self._backups.append(self._kept.copy())
        for one in self.scenario.records[begin:end]:
            rows = self._rows.setdefault((one.topic, one.partition), [])
            offset = (
                rows[-1].offset + self._rng.choice((1, 1, 1, 2, 5)) if rows else self._rng.choice((0, 0, 7))
            )
            rows.append(Row((one.topic, one.partition), offset, one))
            if self._filtered_rows and len(rows) // self._filtered_rows % 2:
                self._left_out.add((rows[-1].place, offset))

    def _filter(self, rows: int) -> None:
        """Of each partition so many rows are left out, and so many not, in turn; from the first on."""
        self._filtered_rows = rows

    # -- S3 --------------------------------------------------------------------------------------------------

    def _became_visible(self, bucket: str, key: str, stored: StoredObject) -> None:
        if OBJECT_ID not in stored.metadata:
            return
        was_there = self.made.bucket.history[-1][1] == "replaced"
        self._outcome.visible.append(Visible(bucket, key, stored, was_there))

    def _called(self, operation: str, given: Mapping[str, Any]) -> None:
        """A commit lists the files of batches once, and no objects."""
        process = self.made.kernel.here()
        if operation != "ListObjectsV2" or process is None:
            return
        self._lists[process.pid] += 1
        if given["Bucket"] != STATE or not given.get("Prefix"):
            self._outcome.calls.append(f"s3://{given['Bucket']}/{given.get('Prefix', '')} was listed")

    def _take_away(self) -> None:
        """A consumer moves what it has read elsewhere."""
        for bucket in (BUCKET, SECOND):
            there = self.made.bucket.objects[bucket]
            own = sorted(key for key, stored in there.items() if OBJECT_ID in stored.metadata)
            for key in own:
                if self._rng.random() < 0.6:
                    del there[key]

    def _end_uploads(self) -> None:
        """Another program tidies up what is unfinished."""
        for upload_id in list(self.made.bucket.uploads):
            if self._rng.random() < 0.6:
                del self.made.bucket.uploads[upload_id]

    def _take_a_name(self) -> None:
        """Another program has put an object where one is about to become visible."""
        uploads = sorted({(one.bucket, one.key) for one in self.made.bucket.uploads.values()})
        # Names of keys are there to be written over, and so are those of a frame that is told to.
        rewritten = tuple(one.prefix for one, job in self._frames if one.overwrites and job.ending is None)
        uploads = [one for one in uploads if "/keys/" not in one[1] and not one[1].startswith(rewritten)]
        free = [one for one in uploads if one[1] not in self.made.bucket.objects[one[0]]]
        if free:
            self._operations.put_foreign(*self._rng.choice(free))

    def _deny(self, bucket: str) -> None:
        """S3 refuses everything of a bucket until the query that has rows for it has ended, and said why."""
        kernel, weather = self.made.kernel, self.made.bucket.weather
        weather.denied.add(bucket)
        deadline = kernel.now + _SAID_SECONDS
        while kernel.now < deadline and any(self._has_rows(one) for one in self._main):
            kernel.sleep(1.0)
        if any(self._has_rows(one) for one in self._main):
            self.ended.failures.append(f"a query has waited for {_SAID_SECONDS:.0f} s, and said nothing")
        weather.denied.discard(bucket)

    def _has_rows(self, query: WritingQuery) -> bool:
        """Whether it has something to write."""
        kept = query.kept
        last = kept.end(len(kept.offsets) - 1)
        return kept.commits < len(kept.offsets) or query.latest(last) != last

    def _rule(self, bucket: str, days: int) -> None:
        """A rule of a bucket ends uploads of this age."""
        self.made.bucket.rules[bucket] = days

    def _pass_days(self, days: int) -> None:
        self.pass_days(days)
        self._expire()

    def _expire(self) -> None:
        bucket = self.made.bucket
        for upload_id, one in list(bucket.uploads.items()):
            days = bucket.rules.get(one.bucket)
            if days is not None and bucket.now_ms() - one.begun_ms >= days * DAY_SECONDS * 1000:
                del bucket.uploads[upload_id]

    # -- processes -------------------------------------------------------------------------------------------

    def _dies(self) -> None:
        """The process that makes a call dies: a task alone, and with the one that commits its driver."""
        process = self.made.kernel.here()
        assert process is not None, "it makes a call"
        for one in self.instances:
            if COMMITTER in process.name and process in self.made.workers.get(one.process, ()):
                one.kill()
        self.made.kernel.kill(process)

    def _dies_at_a_checkpoint(self, count: int) -> None:
        for one in self._main[:1]:
            one.dies_at_a_write = count

    def _speculate(self, batches: int) -> None:
        for one in self._main:
            one.speculates = batches

    # -- backups and other lives -----------------------------------------------------------------------------

    def _restore(self) -> None:
        """The checkpoint is that of some time ago; objects, and what batches have, stay."""
        backups = [one for one in self._backups if one.id == self._kept.id]
        if not backups:
            return
        self.stop_all()
        found = self._rng.choice(backups).copy()
        if found.commits < len(self._kept.offsets):
            self._outcome.is_put_back = True
        self._kept.offsets, self._kept.commits = found.offsets, found.commits

    def _new_query(self) -> None:
        """A new checkpoint, where the last batch of the one before has ended; that one has to be whole."""
        self.stop_all()
        if self._kept.commits == len(self._kept.offsets) and not self._outcome.is_put_back:
            self._begin_again("query", self._kept.end(self._kept.commits - 1))

    def _begin_again(self, query: str, start: Mapping[Place, int]) -> None:
        begun = Checkpoint(next(self._ids), dict(start))
        if query == "query":
            self._kept = begun
        else:
            self._other = begun
        self._queries.append(begun.id)

    def _other_query(self) -> None:
        """Another query over the same rows, with the same state.path, that writes elsewhere."""
        if self._other is not None:
            return
        self._other = Checkpoint("other")
        self._queries.append(self._other.id)
        self._start("other", self._other, self._elsewhere(_OTHER))

    def _elsewhere(self, prefix: str) -> dict[str, str]:
        options = {**self.options, "path": f"s3://{BUCKET}/{prefix}"}
        return {name: value for name, value in options.items() if name not in (LIMIT, TRIGGER)}

    def _write_frame(self, *, ordered: bool) -> None:
        """What is there is written at once, elsewhere."""
        self._begin_frame(f"{_FRAMES}{len(self._frames)}/", is_ordered=ordered)

    def _write_frame_again(self, *, overwrites: bool) -> None:
        """What is there now is written where a frame was, which has come to its end."""
        ended = [one.prefix for one, job in self._frames if job.ending is not None]
        under_way = {one.prefix for one, job in self._frames if job.ending is None}
        if ended and ended[-1] not in under_way:
            self._begin_frame(ended[-1], is_ordered=True, is_again=True, overwrites=overwrites)

    def _begin_frame(
        self, prefix: str, *, is_ordered: bool, is_again: bool = False, overwrites: bool = False
    ) -> None:
        rows = [row for place in sorted(self._rows) for row in self._rows[place]]
        rows = [row for row in rows if (row.place, row.offset) not in self._left_out]
        options = self._elsewhere(prefix)
        options.pop("state.path")
        job = FrameWrite(self.made, options, rows, is_ordered=is_ordered, overwrites=overwrites)
        self.instances.append(job)
        self._frames.append((WrittenFrame(prefix, None, rows, is_again, overwrites), job))

    # -- the end ---------------------------------------------------------------------------------------------

    def _do_the_rest(self) -> None:
        """Run the queries until nothing is left, and do what they say where they are refused."""
        self.made.kernel.sleep(1.0)
        for query in ("query", "other"):
            if query == "other" and self._other is None:
                continue
            for _ in range(_FIXES):
                self.ended.ending = self._last_run(query)
                if self.ended.ending is None or not self._fixed(query, self.ended.ending):
                    break
            if self.ended.ending != "exit 0":
                return

    def _kept_of(self, query: str) -> Checkpoint:
        found = self._kept if query == "query" else self._other
        assert found is not None, "it is asked for where it is"
        return found

    def _last_run(self, name: str) -> str | None:
        kernel, kept = self.made.kernel, self._kept_of(name)
        options = dict(self.options) if name == "query" else self._elsewhere(_OTHER)
        options.pop(TRIGGER, None)
        query = self._start(name, kept, options)
        deadline, moved, seen = kernel.now + _END_SECONDS, kernel.now, (-1, -1)
        while not query.is_over and kernel.now < deadline:
            kernel.sleep(1.0)
            now = len(kept.offsets), kept.commits
            if now != seen:
                moved, seen = kernel.now, now
            if not self._has_rows(query) and kernel.now - moved > _QUIET_SECONDS:
                query.stop.ask("nothing is left")
            self.ended.silent = max(self.ended.silent, kernel.now - moved)
        if not query.is_over:
            query.kill()
        return query.ending

    def _fixed(self, query: str, ending: str) -> bool:
        """Whether there was something to do about it, and it was done as it is said."""
        done = True
        if "Begin a query with a checkpointLocation of its own" in ending:
            self._begin_again(query, self._after_the_last_file(query))
            if query == "query":
                self._outcome.is_put_back = False
        elif "is a bad record" in ending:
            words = ending.removeprefix("FrameRefused: ").split()
            topic, _, partition = words[0].rpartition("-")
            bad = ((topic, int(partition)), int(words[2]))
            done = bad not in self._left_out
            self._left_out.add(bad)
            self._outcome.is_filtered_later = True
        elif "another object has the name" in ending:
            done = self._moved_away(ending)
        elif "another program has ended its upload, or" in ending:
            done = self._looked_whether_it_was_there(query, ending)
        elif "its upload is gone, and is old enough" in ending:
            done = self._written_again(query)
        else:
            done = False
        if done:
            self._outcome.fixes.append(ending)
        return done

    def _after_the_last_file(self, query: str) -> dict[Place, int]:
        """The offsets after the ends in the last file of the query."""
        kept = self._kept_of(query)
        start = dict(kept.start)
        files = self._batch_files(kept.id)
        for one in decode_batch(files[max(files)]).ends if files else ():
            start[one.topic, one.partition] = one.last + 1
        return start

    def _batch_files(self, query: str) -> dict[str, bytes]:
        """What the query's batches have, by file."""
        if self.scenario.options["state.path"] == FOLDER:
            folder = self.made.folder / "writes" / "writes" / query
            return {str(path): path.read_bytes() for path in folder.glob("*.json")} if folder.is_dir() else {}
        prefix = f"writes/writes/{query}/"
        there = self.made.bucket.objects[STATE]
        return {key: one.body for key, one in there.items() if key.startswith(prefix)}

    def _remove_file(self, name: str) -> None:
        if self.scenario.options["state.path"] == FOLDER:
            Path(name).unlink()
        else:
            del self.made.bucket.objects[STATE][name]

    def _looked_whether_it_was_there(self, query: str, ending: str) -> bool:
        """An object that was there once is passed over; else its batch is written again."""
        place = _place_in(ending)
        query_id = self._kept_of(query).id
        files = self._batch_files(query_id)
        ids = {one.id for one in decode_batch(files[max(files)]).objects}
        if any(one.id in ids and (one.bucket, one.key) == place for one in self._outcome.visible):
            # A commit that was late, and whose objects were all complete, has removed it already.
            with suppress(FileNotFoundError, KeyError):
                self._remove_file(max(files).replace(f"/writes/{query_id}/", f"/open/{query_id}/"))
            return True
        return self._written_again(query)

    def _moved_away(self, ending: str) -> bool:
        """What another program has put there is taken away."""
        bucket, key = _place_in(ending)
        if (bucket, key) not in self._operations.foreign:
            return False
        del self._operations.foreign[bucket, key], self.made.bucket.objects[bucket][key]
        return True

    def _written_again(self, query: str) -> bool:
        """The file of the batch, of whose objects none was ever there, is removed."""
        files = self._batch_files(self._kept_of(query).id)
        last = max(files)
        ids = {one.id for one in decode_batch(files[last]).objects}
        seen = {one.id for one in self._outcome.visible}
        if ids & seen:
            for bucket in (BUCKET, SECOND):
                there = self.made.bucket.objects[bucket]
                for key in [key for key, one in there.items() if one.metadata.get(OBJECT_ID) in ids]:
                    del there[key]
            self._outcome.visible = [one for one in self._outcome.visible if one.id not in ids]
        self._remove_file(last)
        return True

    def collect(self) -> None:
        """See Course."""
        super().collect()
        outcome, bucket = self._outcome, self.made.bucket
        outcome.sentences = [one.ending for one in self.instances if one.ending and one.ending != "exit 0"]
        outcome.left_out, outcome.other = self._left_out, self._other
        outcome.frames = [replace(one, ending=job.ending, ids=job.ids) for one, job in self._frames]
        outcome.left = {
            (name, key): stored.metadata[OBJECT_ID]
            for name in (BUCKET, SECOND)
            for key, stored in bucket.objects[name].items()
            if OBJECT_ID in stored.metadata
        }
        # Who writes a frame over what is there has asked for it, also where a name is another's by then.
        rewritten = tuple(one.prefix for one, _ in self._frames if one.overwrites)
        outcome.foreign_changed = [
            one
            for one in self._operations.foreign_changed()
            if not one.removeprefix("s3://").partition("/")[2].startswith(rewritten)
        ]
        # What comes when nobody waits for it any more is removed by a next commit, if there is one.
        late = {key.removeprefix(f"{STATE}/") for _, what, key, by in bucket.history if (what, by) == _LATE}
        outcome.files = {query: len(self._batch_files(query).keys() - late) for query in self._queries}
        bare = self.scenario.options.get(COLUMNS) == "bare"
        outcome.expected = {
            (*row.place, row.offset): _as_given(row.given, bare=bare)
            for rows in self._rows.values()
            for row in rows
        }
        most = max(self._lists.values(), default=0)
        # A batch that is committed again lacks the file before it, which may be removed by now.
        is_again = any(step.act == "checkpoint restored" for step in self.scenario.steps)
        if most > _LISTS + is_again and not _is_faulty(self.scenario):
            outcome.calls.append(f"a process listed {most} times")


def _place_in(ending: str) -> tuple[str, str]:
    """Bucket and key of the object that a sentence names."""
    bucket, _, key = ending.partition("s3://")[2].partition(" cannot be completed")[0].partition("/")
    return bucket, key


def _as_given(given: Given, *, bare: bool) -> Given:
    """What the frame has of a record."""
    found = replace(given, value=content_of(given.value))
    return replace(found, key=None, headers=(), timestamp_ms=-1) if bare else found


def _is_faulty(scenario: Scenario) -> bool:
    """Whether requests may be tried again."""
    return any(step.act.startswith(("s3", "state", "bucket")) for step in scenario.steps)


def is_of_frames(key: str) -> bool:
    """Whether an object was written at once."""
    return key.startswith(_FRAMES)


def is_of_other(key: str) -> bool:
    """Whether an object is of the other query."""
    return key.startswith(_OTHER)


__all__ = ["Instance", "Visible", "WritingOutcome", "is_of_frames", "is_of_other", "run_writing"]
