"""Runs a scenario of Spark's source, and gives back what came of it."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote_plus, unquote_plus

from headrace.model.errors import FrameRefused
from spark.frames import discovery_log, log_entries
from tests.simulation.course import Course, Ended, run_course
from tests.simulation.environment import Environment, Instance, environment, slow_folders
from tests.simulation.frames_generator import (
    AFTER_MS,
    BEFORE_MS,
    EVENTS,
    EXCLUDED,
    FOLDER,
    INCOMING,
    SCHEMA,
    SECOND,
    STATE,
    STRETCHED,
    TRIGGER,
    VERSIONS,
)
from tests.simulation.frames_log import LogFiles, Logged
from tests.simulation.frames_spark import Checkpoint, Query
from tests.simulation.frames_turns import ENDS, FAILS, PATIENCE_SECONDS, SLOW, TURNS, Turns
from tests.simulation.objects import encoded
from tests.simulation.operations import Operations
from tests.simulation.s3 import StoredObject
from tests.simulation.scenario import Given, Scenario

_REPLACED: Final = 1000
_FAN_IN: Final = 3
"""So that snapshots, and snapshots of snapshots, are written within few batches."""
_END_SECONDS: Final = 1_800.0
_QUIET_SECONDS: Final = 16.0
_READ_SECONDS: Final = 0.02
"""About so long the tasks of a batch take."""
_OLD_ENOUGH_SECONDS: Final = 3.0
_FIXES: Final = 10
_ENDS_SECONDS: Final = 1_300.0
_YOUNG_MS: Final = 5_000
_MOST_BATCHES: Final = 200
"""No scenario has as many objects."""
_ANNOUNCED: Final = "in/"
CHECKPOINT_AHEAD: Final = "the log is older than the checkpoint"
WRITTEN_SINCE: Final = "is not the one that the checkpoint of the query has"
OTHER_LOG: Final = "is not of the discovery log at"

_OLD_LOG: Final = (CHECKPOINT_AHEAD, WRITTEN_SINCE, OTHER_LOG)


@dataclass(frozen=True, slots=True)
class Put:
    """An object that came."""

    number: int
    key: str
    etag: str
    size: int
    at_ms: int
    version: str | None


@dataclass
class FramesOutcome(Ended):
    """What a run has come to."""

    checkpoints: list[Checkpoint] = field(default_factory=list)
    """Those of all queries, the one that counts at the end last."""
    given: list[Given] = field(default_factory=list)
    """The objects that came, by number: those of the scenario, and what replaced some of them."""
    puts: list[Put] = field(default_factory=list)
    there: dict[str, str] = field(default_factory=dict)
    """By key, the ETags of what is there at the end."""
    sentences: list[str] = field(default_factory=list)
    """How queries ended that were refused."""
    fixes: list[str] = field(default_factory=list)
    """What the operator did about it at the end."""
    too_early: list[str] = field(default_factory=list)
    """Messages that were deleted before what they name was safe."""
    logged: list[Logged] = field(default_factory=list)
    """All that the log has."""
    bad_rows: list[tuple[str, str]] = field(default_factory=list)
    existing_before_ms: int | None = None


def run_frames(scenario: Scenario) -> FramesOutcome:
    """Run it."""
    outcome = FramesOutcome()
    with environment(scenario.seed) as made, _small_log(made):
        run_course(made, _FramesCourse(made, scenario, outcome))
    return outcome


@contextmanager
def _small_log(made: Environment) -> Iterator[None]:
    """Logs that are compacted early, in folders whose writes take their time: a process may die at any."""
    before = log_entries.FAN_IN

    for module in (log_entries, discovery_log):
        module.FAN_IN = _FAN_IN  # type: ignore[attr-defined]  # smaller than it is, for this run
    try:
        with slow_folders(made):
            yield
    finally:
        for module in (log_entries, discovery_log):
            module.FAN_IN = before  # type: ignore[attr-defined]  # as it was


class _FramesCourse(Course):
    """Objects come, and are read by queries that end and begin."""

    data = ("put", "delete")

    has_commands = False

    def __init__(self, made: Environment, scenario: Scenario, outcome: FramesOutcome) -> None:
        super().__init__(made, scenario, outcome, calm=False)
        self._outcome = outcome
        self._folder = str(made.folder / "log")
        self._kept = Checkpoint()
        self._last_put: dict[str, int] = {}
        self._in_company: set[Instance] = set()
        """Processes that ran next to others."""
        self._late = 0.0
        self._going: Callable[[str, str], None] | None = None
        self._logs: dict[str, LogFiles] = {}
        self._backup: tuple[Checkpoint, dict[str, bytes]] | None = None
        self._log_is_old = False
        self._operations = Operations(self)
        self._turns = Turns(made)
        self._checkpoints = [self._kept]
        outcome.given = list(scenario.records)
        made.bucket.on_put = self._announce
        made.bucket.on_replaced = self._replaced
        made.bucket.on_dies = self._dies
        made.queue.on_deleted = self._deleted

    # -- what there is ---------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """See Course."""
        for name in (INCOMING, SECOND, STATE):
            self.made.bucket.make(name)
        if VERSIONS in self.options:
            self.made.bucket.versioned.add(INCOMING)
        foreign = Given("in/foreign.jsonl", 0, None, b'{"n": "foreign-0", "x": ""}', 0)
        body = encoded(foreign, self.options.get("input.format", "jsonl"))
        stored = StoredObject(body, '"foreign"', {}, self.made.bucket.now_ms())
        self.made.bucket.put(SECOND, "in/foreign.jsonl", stored, "put")

    def acts(self) -> dict[str, Callable[..., None]]:
        """See Course."""
        own: dict[str, Callable[..., None]] = {
            "put": self._upload,
            "delete": self._delete,
            "queue away": self._queue_away,
            "dies at a checkpoint": self._dies_at_a_checkpoint,
            "log denied": self._operations.acts()["bucket denied"],
            "odd messages": self._odd_messages,
            "replaced in its batch": lambda: self._have_go(self._replaced),
            "deleted in its batch": lambda: self._have_go(self._removed),
            "change": self._change,
            "backup": self._back_up,
            "checkpoint restored": self._restore_checkpoint,
            "log restored": self._restore_log,
            "new query": self._new_query,
            "second query": self._second_query,
            SLOW: self._turns.slow,
            FAILS: self._turns.fail,
            TURNS: self._turns.look,
            ENDS: self._run_to_its_end,
        }
        return {**super().acts(), **self._operations.acts(), **own}

    def start(self, **changes: str) -> Query:
        """See Course."""
        return self._start(self._kept, **changes)

    def _start(self, kept: Checkpoint, **changes: str) -> Query:
        options = {**self.options, **changes}
        if options.get("state.path") == FOLDER:
            options["state.path"] = self._folder
        others = self.alive
        query = Query(self.made, options, kept, batches=self._files(options["state.path"]).last())
        if others:
            self._in_company |= {query, *others}
        query.on_tasks = self._tasks_begin
        self.instances.append(query)
        return query

    def _files(self, path: str | None = None) -> LogFiles:
        """The log at a place, or the one that is in the options."""
        path = self.options["state.path"] if path is None else path
        path = self._folder if path == FOLDER else path
        return self._logs.setdefault(path, LogFiles(self.made.bucket, path))

    # -- objects and messages --------------------------------------------------------------------------------

    def _upload(self, begin: int, end: int, late: float) -> None:
        self._late = late
        for number in range(begin, min(end, len(self.scenario.records))):
            self._put_one(number)

    def _put_one(self, number: int) -> None:
        given = stretched(self._outcome.given[number])
        body = encoded(given, self.options.get("input.format", "jsonl"))
        etag = hashlib.md5(body, usedforsecurity=False).hexdigest()
        stored = StoredObject(body, f'"{etag}"', {}, self.made.bucket.now_ms())
        self.made.bucket.put(INCOMING, given.topic, stored, "put")
        self._last_put[given.topic] = number
        version = None if stored.version == "null" else stored.version
        put = Put(number, given.topic, etag, len(body), stored.modified_ms, version)
        self._outcome.puts.append(put)

    def _announce(self, bucket: str, key: str, stored: StoredObject) -> None:
        """The bucket's notification, in the forms that stores have."""
        if bucket != INCOMING or not key.startswith(_ANNOUNCED):
            return
        found: dict[str, Any] = {"key": quote_plus(key, safe="/")}
        form = self.scenario.options.get(EVENTS)
        if form != "bare":
            found |= {"eTag": stored.etag.strip('"'), "size": len(stored.body)}
        if stored.version != "null":
            found["versionId"] = stored.version
        for _ in range(2 if form == "twice" else 1):
            message = _message(bucket, found, stored.modified_ms, meant=stored.etag.strip('"'))
            self.made.queue.send(message, after=self._late)

    def _odd_messages(self) -> None:
        """Of another bucket, of a deletion, of a test, and no JSON at all."""
        queue = self.made.queue
        queue.send(_message("foreign", {"key": "in/a.jsonl", "eTag": "0", "size": 1}, 0))
        queue.send(_message(INCOMING, {"key": "in/gone.jsonl"}, 0))
        queue.send(json.dumps({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": INCOMING}))
        queue.send("no JSON")

    def _replaced(self, bucket: str, key: str) -> None:
        """Somebody replaces an object by one with another row, while a client is on its way to it."""
        old = self._last_put.get(key)
        if bucket != INCOMING or old is None:
            # A file of a log: the next call then.
            self.made.bucket.weather.failing["replaced GetObject"] = 1
            return
        number = len(self._outcome.given)
        row = {"n": f"{_REPLACED + number}-0", "x": ""}
        given = replace(self._outcome.given[old], value=json.dumps(row).encode(), timestamp_ms=0)
        self._outcome.given.append(given)
        self._put_one(number)

    def _delete(self, number: int) -> None:
        self._removed(INCOMING, self._outcome.given[number].topic)

    def _removed(self, bucket: str, key: str) -> None:
        self._last_put.pop(key, None)
        self.made.bucket.objects[bucket].pop(key, None)

    def _have_go(self, go: Callable[[str, str], None]) -> None:
        """An object of the next batch goes while tasks read it."""
        self._going = go

    def _tasks_begin(self, keys: Sequence[str]) -> None:
        """A batch is read: what is to go in it goes in a moment."""
        kernel, go = self.made.kernel, self._going
        self._turns.took(keys)
        if go is None or not keys:
            return
        self._going = None
        key, seconds = kernel.rng.choice(keys), _READ_SECONDS * kernel.rng.random()

        def gone() -> None:
            kernel.sleep(seconds)
            if key in self._last_put:
                go(INCOMING, key)

        kernel.spawn(kernel.process("operator", is_prompt=True), gone, "gone")

    def _queue_away(self, seconds: float) -> None:
        self.made.queue.down_until = self.made.kernel.now + seconds

    def _deleted(self, body: str) -> None:
        """A message is gone: what it named has to be safe by then."""
        process = self.made.kernel.here()
        query = next((one for one in self.instances if one.process is process), None)
        if not isinstance(query, Query) or not body.startswith("{"):
            return
        for record in json.loads(body).get("Records", ()):
            named = record["s3"]["object"]
            key = unquote_plus(named["key"])
            put = self._announced(key, record["meant"], named.get("versionId"))
            if put is None or not self._is_wanted(put, query):
                continue
            found = self._files(query.options["state.path"]).find(key, put.etag)
            done = max(one.commits for one in self._checkpoints)
            if not found:
                self._outcome.too_early.append(f"a message of {key} was deleted, and no batch has it")
                continue
            first = min(one.batch for one in found)
            # What another query has put into the log is safe there, and this one may have opened it since.
            is_alone = len(self._checkpoints) == 1 and query not in self._in_company
            if query.batches < first and done < first and is_alone:
                self._outcome.too_early.append(
                    f"a message of {key} was deleted before batch {found[0].batch} was done"
                )

    def _announced(self, key: str, etag: str, version: str | None) -> Put | None:
        """What a message means, unless something else is there by now."""
        there = self.made.bucket.objects[INCOMING].get(key)
        is_there = there is not None and there.etag.strip('"') == etag
        if there is None or not is_there or (version is not None and there.version != version):
            return None
        # Of several puts of one content the last is there.
        puts = reversed(self._outcome.puts)
        return next((one for one in puts if (one.key, one.etag) == (key, etag)), None)

    def _is_wanted(self, put: Put, query: Query) -> bool:
        """Whether a query takes an object that it receives a message of."""
        return (
            "file.name.template" not in query.options
            and query.options["path"] == self.scenario.options["path"]
            and not is_left_out(self.scenario, put)
        )

    # -- processes -------------------------------------------------------------------------------------------

    def _dies(self) -> None:
        """The process that makes a call dies, a driver with its tasks."""
        process = self.made.kernel.here()
        for one in self.instances:
            if one.process is process:
                one.kill()
                return
        assert process is not None, "it makes a call"
        self.made.kernel.kill(process)

    def _dies_at_a_checkpoint(self, count: int) -> None:
        for one in self.alive[:count]:
            if isinstance(one, Query):
                one.dies_at_a_write = count

    def _change(self, options: Mapping[str, str | None]) -> None:
        """Other options; a log that is not made yet would be made for the other bucket."""
        if "path" not in options or self._files().about() is not None:
            self._operations.acts()["change"](options)

    # -- backups and other lives -----------------------------------------------------------------------------

    def _back_up(self) -> None:
        if not self._log_is_old:
            self._backup = self._kept.copy(), self._files().files()

    def _restore_checkpoint(self) -> None:
        """The checkpoint is that of the backup; the sink, which is another system, stays."""
        if self._backup is None or self._log_is_old:
            return
        self.stop_all()
        self._kept.offsets = list(self._backup[0].offsets)
        self._kept.commits = self._backup[0].commits

    def _restore_log(self) -> None:
        """The log is that of the backup, and older than what the query has done."""
        if self._backup is None or len(self._logs) > 1:
            return
        self.stop_all()
        self._files().replace(self._backup[1])
        self._log_is_old = True

    def _new_query(self) -> None:
        """A new checkpoint, and a new sink, on the log that is there."""
        self.stop_all()
        self._kept = Checkpoint()
        self._checkpoints.append(self._kept)
        self._backup = None
        self._log_is_old = False

    def _second_query(self) -> None:
        """Another query with the same log, which may be one that was restored."""
        other = Checkpoint()
        self._checkpoints.insert(0, other)
        self._start(other)

    def _run_to_its_end(self, trigger: str) -> None:
        """A query that ends by itself, while listings may fail: with all that is there, or a sentence."""
        self.stop_all()
        kernel, turns, kept = self.made.kernel, self._turns, self._kept
        before_ms = self.made.bucket.now_ms() - _YOUNG_MS
        repeats = trigger == "once" and (kept.commits < len(kept.offsets) or self._is_ahead())
        fails, is_lasting = turns.seconds_left, turns.has_lasting
        query, deadline = self._start(kept, **{TRIGGER: trigger}), kernel.now + _ENDS_SECONDS
        while not query.is_over and kernel.now < deadline:
            kernel.sleep(1.0)
        what = f"a query with {trigger}, where listings failed for {fails:.0f} s,"
        if not query.is_over:
            query.kill()
            turns.broken.append(f"{what} has not ended")
        elif query.ending == "exit 0":
            missing = [] if repeats else sorted(set(self._unread(query, before_ms)))
            turns.broken += [f"{what} has ended well without {key}" for key in missing]
        elif turns.code in str(query.ending) and fails < PATIENCE_SECONDS and not is_lasting:
            turns.broken.append(f"{what} has given up: {query.ending}")

    def _unread(self, query: Query, before_ms: int) -> Iterator[str]:
        """What was there then, is there, and is in no batch of its log."""
        files = self._files(query.options["state.path"])
        for put in self._outcome.puts:
            stored = self.made.bucket.objects[INCOMING].get(put.key)
            is_there = stored is not None and stored.etag.strip('"') == put.etag and put.at_ms < before_ms
            is_there = is_there and self._is_wanted(put, query)
            if is_there and not files.find(put.key, put.etag):
                yield put.key

    # -- the end ---------------------------------------------------------------------------------------------

    def _do_the_rest(self) -> None:
        """Run the query until nothing is left, and do what it says where it is refused."""
        self._going = None
        self._turns.end()
        for name in ("path", "state.path", "file.name.template", SCHEMA):
            self.options.pop(name, None)
            if name in self.scenario.options:
                self.options[name] = self.scenario.options[name]
        self.options.pop(TRIGGER, None)
        if self.scenario.seed % 2:
            # It leaves what is younger than `object.min.age.ms` to the next run, and here there is none.
            self.made.kernel.sleep(_OLD_ENOUGH_SECONDS)
            self.options[TRIGGER] = "availableNow"
        for _ in range(_FIXES):
            self.ended.ending = self._last_run()
            if self.ended.ending == "exit 0" and self._is_ahead():
                # It was stopped as a late message came: the next run has that batch.
                continue
            if self.ended.ending is None or not self._fixed(self.ended.ending):
                return

    def _is_ahead(self) -> bool:
        """Whether the log has a batch that the query has not done."""
        kept = self._kept
        done = json.loads(kept.offsets[kept.commits - 1])["batch"] if kept.commits else 0
        return self._files().last() > done

    def _last_run(self) -> str | None:
        kernel = self.made.kernel
        query = self.start()
        deadline, moved, seen = kernel.now + _END_SECONDS, kernel.now, (-1, -1)
        while not query.is_over and kernel.now < deadline and len(self._kept.offsets) < _MOST_BATCHES:
            kernel.sleep(1.0)
            report = None if query.reader is None else query.reader.reportLatestOffset()
            self.ended.problems = (report["problem"],) if report and "problem" in report else ()
            now = len(self._kept.offsets), self._kept.commits
            if now != seen or self.ended.problems:
                moved, seen = kernel.now, now
            is_quiet = kernel.now - moved > _QUIET_SECONDS and now[0] == now[1]
            if is_quiet and query.trigger is None and report and not report["waiting"]:
                query.stop.ask("nothing is left")
            self.ended.silent = max(self.ended.silent, kernel.now - moved)
        if not query.is_over:
            query.kill()
        return query.ending

    def _fixed(self, ending: str) -> bool:
        """Whether there was something to do about it."""
        done: dict[str, str] | None = None
        if "has a bad row" in ending:
            done = {"errors.tolerance": "all"}
        elif "Batch " in ending and "on.superseded=skip" in ending:
            done = {"on.superseded": "skip"}
        elif "schema.evolution=add to take new columns" in ending:
            done = {"schema.evolution": "rescue"}
        elif "start the query again" in ending:
            done = {}
        elif "No schema can be inferred" in ending:
            done = {SCHEMA: "given"}
        elif OTHER_LOG in ending and len(self._logs) > 1 and ending not in self._outcome.fixes:
            done = {"state.path": next(path for path in self._logs if path != self._files_path())}
        elif any(one in ending for one in _OLD_LOG) and self._log_is_old and self._backup:
            kept, files = self._backup
            self._kept.offsets, self._kept.commits = list(kept.offsets), kept.commits
            self._kept.sink, self._kept.plans = dict(kept.sink), dict(kept.plans)
            self._files().replace(files)
            self._log_is_old, done = False, {}
        if done is None or (done and all(self.options.get(name) == value for name, value in done.items())):
            return False
        self.options |= done
        self._outcome.fixes.append(ending)
        return True

    def _files_path(self) -> str:
        path = self.options["state.path"]
        return self._folder if path == FOLDER else path

    def collect(self) -> None:
        """See Course."""
        super().collect()
        outcome = self._outcome
        outcome.checkpoints = [one for one in self._checkpoints if one is not self._kept] + [self._kept]
        outcome.failures += self._turns.broken
        outcome.sentences = [one.ending for one in self.instances if one.ending and one.ending != "exit 0"]
        there = self.made.bucket.objects[INCOMING]
        outcome.there = {key: one.etag.strip('"') for key, one in there.items()}
        files = self._files()
        about = files.about()
        outcome.existing_before_ms = None if about is None else about.existing_before_ms
        try:
            outcome.logged, outcome.bad_rows = list(files.in_force()), files.bad_rows()
        except FrameRefused as error:
            outcome.failures.append(str(error))


def _message(bucket: str, named: Mapping[str, Any], at_ms: int, *, meant: str = "") -> str:
    """A message as S3 sends it; `meant` is for the judge alone: the content that it is about."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    record = {"eventSource": "aws:s3", "eventName": "ObjectCreated:Put", "eventTime": at, "meant": meant}
    return json.dumps({"Records": [{**record, "s3": {"bucket": {"name": bucket}, "object": named}}]})


def stretched(given: Given) -> Given:
    """An object with its texts as long as they are to be."""
    if not given.timestamp_ms:
        return given
    lines = []
    for line in (given.value or b"").split(b"\n"):
        try:
            row = json.loads(line)
            lines.append(json.dumps({**row, "x": row["x"] * STRETCHED}).encode())
        except ValueError:
            lines.append(line)
    return replace(given, value=b"\n".join(lines))


def is_left_out(scenario: Scenario, put: Put) -> bool:
    """Whether filters may leave an object out, whoever finds it."""
    options, second = scenario.options, 1000
    return (
        not put.key.startswith("in/")
        or ("object.exclude" in options and put.key.startswith(EXCLUDED.rstrip("*")))
        or ("modifiedAfter" in options and put.at_ms < AFTER_MS + second)
        or ("modifiedBefore" in options and put.at_ms > BEFORE_MS - second)
    )
