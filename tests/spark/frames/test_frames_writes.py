"""Batches of a writing query: each of their rows in one object, whatever is killed, repeated or put back."""

import json
import pickle
import threading
import traceback
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
import pytest
import structlog
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType

from headrace.model.clock import wall_ms
from headrace.model.errors import FrameRefused, HeadraceError, ObjectForbidden, SourceUnavailable
from headrace.model.sink_entries import SealedObject, Upload
from headrace.s3.completion import Completion, CompletionState
from spark.frames import frame_completion, writing
from spark.frames.log_store import DirectoryStore
from spark.frames.writing import (
    HeadraceStreamWriter,
    HeadraceWriter,
    Sent,
    WriteSettings,
    objects_of,
    writing_settings,
)
from spark.frames.written_batches import (
    KEPT,
    BatchRefused,
    EndOf,
    RowsOf,
    WrittenBatch,
    WrittenBatches,
    last_of_each_name,
)
from spark.sink import frame_writer
from tests.headrace.formats.encoding.registry import http_registry
from tests.headrace.s3.scripted_s3 import Say, ScriptedS3, error
from tests.support.examples import examples
from tests.support.memory_s3 import MemoryS3

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_RECORDS: Final = (
    StructType()
    .add("topic", StringType())
    .add("partition", IntegerType())
    .add("offset", LongType())
    .add("key", BinaryType())
    .add("value", BinaryType())
)
_DAY_MS: Final = 86_400_000


@cache
def written() -> WriteSettings:
    """The settings of a stream's writer."""
    given = {"path": "s3://archive/kafka/", "state.path": "unused"}
    return writing_settings(given, _RECORDS, overwrites=False)


def sealed(
    name: str, first: int = 0, last: int = 0, *, key: str = "", overwrites: bool = False, age_ms: int = 0
) -> SealedObject:
    """An object of topic t, partition 0, all parts of which are sent."""
    upload = Upload(key=key or f"t-0-{first}", upload_id=name, parts=(), started_ms=wall_ms() - age_ms)
    return SealedObject(
        id=name,
        topic="t",
        partition=0,
        topic_id="",
        group="",
        first_offset=first,
        last_offset=last,
        records=last - first + 1,
        bytes=10,
        uploads=(upload,),
        options="",
        sealed_ms=1,
        bucket="archive",
        overwrites=overwrites,
    )


def batch(*objects: SealedObject) -> WrittenBatch:
    """A batch of these objects, and of their rows."""
    rows = tuple(RowsOf("t", 0, each.first_offset, each.last_offset, each.records) for each in objects)
    return WrittenBatch(objects, rows)


class Unanswered(DirectoryStore):
    """Its files are there, and the writer finds its own when it tries again."""

    def create(self, name: str, content: bytes) -> bool:
        """See `DirectoryStore`."""
        super().create(name, content)
        return False


class TestWhatABatchHas:
    """Files of batches in a directory."""

    def test_it_is_what_its_first_commit_has_named(self, tmp_path: Path) -> None:
        """Whatever the second attempt has sent, if its rows are the same, or fewer before the last."""
        batches = WrittenBatches(DirectoryStore(tmp_path), "q")
        first, next_one = batch(sealed("one", 5, 9)), batch(sealed("four", 10, 12))

        assert batches.name(3, first).objects == first.objects
        assert batches.name(3, batch(sealed("two", 5, 9))).objects == first.objects
        assert batches.name(3, batch(sealed("part", 6, 9))).objects == first.objects
        assert batches.name(4, next_one).objects == next_one.objects

    def test_rows_that_a_batch_does_not_have_any_more_come_in_the_next(self, tmp_path: Path) -> None:
        """A checkpoint that was put back, and a smaller limit: those of its end were there twice then."""
        batches = WrittenBatches(DirectoryStore(tmp_path), "q")
        rows = (RowsOf("t", 0, 5, 9, 5), RowsOf("t", 1, 0, 1, 2))
        batches.name(3, WrittenBatch((), rows))

        with pytest.raises(FrameRefused, match=r"t-1: none, and before 0 to 1\)"):
            batches.name(3, WrittenBatch((), rows[:1]))
        with pytest.raises(FrameRefused, match=r"t-0: offsets 5 to 8, and before 5 to 9\)"):
            batches.name(3, WrittenBatch((), (RowsOf("t", 0, 5, 8, 4), rows[1])))

    def test_a_state_path_that_has_nothing_of_the_batches_before(self, tmp_path: Path) -> None:
        """A batch that was written with another one would be written again: the log says so, once."""
        warned = []
        for query, number in (("q", 3), ("q", 3), ("q", 4), ("other", 0), ("other", 1)):
            batches = WrittenBatches(DirectoryStore(tmp_path), query)
            with structlog.testing.capture_logs() as lines:
                batches.name(number, batch(sealed("one", number, number)))
            warned += [(query, line["batch"]) for line in lines if line["event"] == "batches_before_unknown"]

        assert warned == [("q", 3)]

    @pytest.mark.parametrize(("first", "last"), [(5, 10), (4, 9), (20, 30), (5, 8)])
    def test_other_rows_are_not_dropped_for_it(self, tmp_path: Path, first: int, last: int) -> None:
        """A checkpoint that was put back plans batches of other rows under the same numbers."""
        batches = WrittenBatches(DirectoryStore(tmp_path), "q")
        batches.name(3, batch(sealed("one", 5, 9)))

        with pytest.raises(FrameRefused) as refused:
            batches.name(3, batch(sealed("two", first, last)))
        assert f"t-0: offsets {first} to {last}, and before 5 to 9" in str(refused.value)
        assert f"{tmp_path}/writes/q/000000000003.json" in str(refused.value)

    def test_a_partition_that_it_did_not_have(self, tmp_path: Path) -> None:
        """Four of them are three and one more."""
        batches = WrittenBatches(DirectoryStore(tmp_path), "q")
        batches.name(3, batch(sealed("one")))
        rows = tuple(RowsOf("t", partition, 0, 1, 2) for partition in range(1, 5))

        with pytest.raises(FrameRefused, match=r"t-1: offsets 0 to 1, and before none;.* and 2 more\)"):
            batches.name(3, WrittenBatch((), rows))

    def test_what_an_older_headrace_wrote_is_not_compared(self, tmp_path: Path) -> None:
        """Its files have objects alone."""
        store = DirectoryStore(tmp_path)
        store.create("writes/q/000000000003.json", msgspec.json.encode([sealed("one")]))

        found = WrittenBatches(store, "q").name(3, batch(sealed("two", 0, 100)))
        assert [each.id for each in found.objects] == ["one"]

    def test_a_driver_that_slept_while_batches_were_forgotten(self, tmp_path: Path) -> None:
        """It finds its number free again, names nothing for good, and says what to do."""
        batches = WrittenBatches(DirectoryStore(tmp_path), "q")
        for number in range(3, KEPT + 4):
            batches.name(number, batch(sealed(f"{number}", number, number)))
            batches.forget_before(number)
        assert batches.named(3) is None

        with pytest.raises(FrameRefused, match=f"Batch 3 comes after batch {KEPT + 3} of the query"):
            batches.name(3, batch(sealed("slept", 3, 3)))
        assert batches.named(3) is None

    def test_a_file_that_comes_late_after_it_was_forgotten(self, tmp_path: Path) -> None:
        """A request that was not answered is one's own: it was taken for an earlier commit's."""
        batches = WrittenBatches(DirectoryStore(tmp_path), "q")
        for number in range(3, KEPT + 4):
            batches.name(number, batch(sealed(f"{number}", number, number)))
            batches.forget_before(number)

        with pytest.raises(FrameRefused, match=f"Batch 3 comes after batch {KEPT + 3} of the query"):
            WrittenBatches(Unanswered(tmp_path), "q").name(3, batch(sealed("slept", 3, 3)))
        assert batches.named(3) is None

    def test_rows_of_a_batch_of_another_number(self, tmp_path: Path) -> None:
        """The topic was made again: after the ends its new rows would be passed over."""
        batches = WrittenBatches(DirectoryStore(tmp_path), "q")
        batches.name(0, batch(sealed("one", 5, 9)))
        batches.name(1, batch(sealed("two", 10, 12)))
        with pytest.raises(BatchRefused, match=r"begins with offset 5 of t-0, as batch 0 does") as refused:
            batches.name(2, batch(sealed("again", 5, 7)))
        assert (refused.value.number, batches.named(2)) == (1, None)
        assert "; for a topic that was made again at its first one, with another path." in str(refused.value)
        # Rows of files come in any order.
        assert batches.name(2, batch(sealed("three", 2, 4))).objects[0].id == "three"

    def test_its_file_has_the_ends_of_all_partitions(self, tmp_path: Path) -> None:
        """Those of its rows alone were where a query was told to begin, and others' rows came twice."""
        batches = WrittenBatches(DirectoryStore(tmp_path), "q")
        for number, partition in ((0, 0), (1, 1), (3, 0), (4, 1)):
            batches.name(number, WrittenBatch((), (RowsOf("t", partition, number, 10 + number, 2),)))

        found = batches.named(3)
        assert found is not None
        assert found.ends == (EndOf("t", 0, 13), EndOf("t", 1, 11))
        found = batches.named(4)
        assert found is not None
        assert found.ends == (EndOf("t", 0, 13), EndOf("t", 1, 14))

    def test_files_are_forgotten_where_a_batch_has_removed_none(self, tmp_path: Path) -> None:
        """Of what a driver that died would have removed, nothing stays for good."""
        batches = WrittenBatches(DirectoryStore(tmp_path), "q")
        for number in (0, 1, KEPT + 2):
            batches.name(number, batch(sealed(f"{number}", number, number)))
            batches.forget_before(number)

        assert [batches.named(number) is None for number in (0, 1, KEPT + 2)] == [True, True, False]

    def test_of_a_name_of_keys_the_last_object_stays(self) -> None:
        """Names that show offsets are each their own."""
        early, late = (sealed(f"{at}", at, at, key="t/k", overwrites=True) for at in (1, 2))
        other = sealed("other", 3, 3)

        assert last_of_each_name([late, other, early]) == ((late, other), (early,))


def test_rows_of_a_frame_that_come_to_several_tasks_in_turn() -> None:
    """Each task has them in order, and no order of their objects is that of the rows."""
    writer = HeadraceWriter(writing_settings({"path": "s3://b12/"}, _RECORDS, overwrites=False))

    def sent(*rows: RowsOf) -> Sent:
        return Sent("q", (), rows)

    after = sent(RowsOf("t", 0, 5, 9, 2), RowsOf("u", 0, 0, 9, 9))
    writer.commit([after, None, sent(RowsOf("t", 0, 0, 4, 5), RowsOf("t", 1, 3, 6, 2))])
    for first, last in ((4, 4), (9, 9), (6, 12), (0, 20)):
        with pytest.raises(FrameRefused, match=r"Rows of t-0 do not come in the order of offsets"):
            writer.commit([after, sent(RowsOf("t", 0, first, last, 1)), sent(RowsOf("t", 0, 1, 4, 2))])


def test_rows_of_a_task_that_come_twice() -> None:
    """They are sorted already: the advice to sort them helped nobody."""
    rows = [{"topic": "t", "partition": 0, "offset": at, "key": b"k", "value": b"v"} for at in (7, 7, 6)]
    frames = (
        (HeadraceWriter(written()), rows[:2]),
        (HeadraceStreamWriter(written()), [rows[2], *rows[:2]]),
    )
    for writer, given in frames:
        with pytest.raises(FrameRefused, match=r"Rows of t-0 come twice, with offset 7: .* dropDuplicates\("):
            writer.write(iter(pa.Table.from_pylist(given).to_batches()))
    with pytest.raises(FrameRefused, match="do not come in the order of offsets"):
        HeadraceWriter(written()).write(iter(pa.Table.from_pylist(rows[1:]).to_batches()))


def test_a_bad_record_has_a_fix_that_a_query_takes() -> None:
    """What it named, errors.tolerance, is not an option of the writer."""
    options = {
        "path": "s3://archive/kafka/",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    rows = [{"topic": "t", "partition": 0, "offset": 7, "key": b"k", "value": b"no JSON"}]
    writer = HeadraceWriter(writing_settings(options, _RECORDS, overwrites=False))

    with pytest.raises(FrameRefused, match="t-0 offset 7 is a bad record") as refused:
        writer.write(iter(pa.Table.from_pylist(rows).to_batches()))
    assert "errors.tolerance" not in str(refused.value)
    assert "leave such rows out of the query" in str(refused.value)


def test_values_whose_schema_a_registry_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their options were refused, and the converter without them."""
    memory = MemoryS3()
    monkeypatch.setattr(frame_writer, "new_upload_calls", lambda _s3, options: memory.calls(options))
    monkeypatch.setattr(frame_completion, "new_upload_calls", lambda _s3, options: memory.calls(options))
    schema = {"type": "record", "name": "Order", "fields": [{"name": "n", "type": "long"}]}
    rows = [{"topic": "t", "partition": 0, "offset": 7, "value": b"\0\0\0\0\x01" + b"\x0e"}]
    with http_registry({"/schemas/ids/1": (200, {"schema": json.dumps(schema)})}) as (registry, _):
        options = {
            "path": "s3://archive/",
            "output.format": "jsonl",
            "output.fields": "offset,value",
            "file.compression.type": "none",
            "value.converter": "io.confluent.connect.avro.AvroConverter",
            "value.converter.schema.registry.url": registry.urls[0],
        }
        settings = writing_settings(options, _RECORDS, overwrites=False)
        writer = pickle.loads(pickle.dumps(HeadraceWriter(settings)))  # noqa: S301  # as Spark hands it to tasks
        writer.commit([writer.write(iter(pa.Table.from_pylist(rows).to_batches()))])

    (found,) = memory.objects.values()
    assert json.loads(found.body) == {"offset": 7, "value": {"n": 7}}


@pytest.mark.timeout(600)
def test_a_task_ends_where_s3_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waited for ever, with a line in the log of its executor."""
    monkeypatch.setattr(frame_writer, "PATIENCE_SECONDS", 0.2)
    options = {
        "path": "s3://archive/kafka/",
        "aws.s3.endpoint": "http://127.0.0.1:9",
        "aws.access.key.id": "test",
        "aws.secret.access.key": "test",
        "aws.s3.backoff.max.retries": "0",
        "aws.s3.backoff.delay.ms": "1",
    }
    rows = [{"topic": "t", "partition": 0, "offset": 7, "key": b"k", "value": b"v"}]
    writer = HeadraceWriter(writing_settings(options, _RECORDS, overwrites=False))

    with pytest.raises(FrameRefused, match=r"t-0 could not be written for .*s3://archive/kafka/") as raised:
        writer.write(iter(pa.Table.from_pylist(rows).to_batches()))
    assert_no_causes(raised.value)


@pytest.mark.timeout(50)
@pytest.mark.parametrize("rows", [1, 40])
def test_a_task_ends_at_once_where_there_is_no_bucket(rows: int) -> None:
    """It tried for a minute, though S3's answer is final: of a frame whose rows were all sent, or of some."""
    with ScriptedS3(lambda _: Say(error("NoSuchBucket", 404))) as server:
        options = {
            "path": "s3://archive/kafka/",
            "rotate.records": "1",
            "aws.s3.endpoint": server.url,
            "aws.access.key.id": "test",
            "aws.secret.access.key": "test",
        }
        given = [
            {"topic": "t", "partition": 0, "offset": offset, "key": b"k", "value": b"v"}
            for offset in range(rows)
        ]
        writer = HeadraceWriter(writing_settings(options, _RECORDS, overwrites=False))

        with pytest.raises(FrameRefused) as raised:
            writer.write(iter(pa.Table.from_pylist(given).to_batches()))

    assert str(raised.value).startswith("t-0 could not be written: s3://archive/kafka/")
    assert "names a bucket that does not exist (NoSuchBucket). Create the bucket" in str(raised.value)


def assert_no_causes(error: BaseException) -> None:
    """PySpark would show each of them with its stack, before the sentence. Who debugs has them."""
    shown = "".join(traceback.TracebackException.from_exception(error, compact=True).format())
    assert shown.count("Traceback (most recent call last)") == 1
    assert isinstance(error.__context__, HeadraceError)


class Killed(BaseException):
    """The process is gone at this moment."""


class Archive:
    """S3 as a commit sees it, and the files of `state.path`; kills what makes the next call but so many."""

    def __init__(self) -> None:
        self.open: set[str] = set()
        self.there: dict[str, str] = {}
        self.seen: list[str] = []
        """The ids of objects that were ever visible, as often as they became so."""
        self.files: dict[str, bytes] = {}
        self.calls_left: int | None = None
        self.is_unreadable = False
        self.unreachable: set[str] = set()
        """Uploads of which S3 takes no completion."""
        self.late: dict[str, str] = {}
        """What another program has put there by the time that an upload is completed."""
        self.where = "memory"
        self._lock = threading.Lock()

    def called(self) -> None:
        """A request leaves; the process may end before or after it."""
        if self.calls_left is not None:
            self.calls_left -= 1
            if self.calls_left < 0:
                raise Killed

    def complete(self, _bucket: str, upload: Upload, *, object_id: str, overwrites: bool) -> Completion:
        """See `UploadCalls.complete`."""
        with self._lock:
            self.called()
            self.there |= self.late
            if upload.upload_id in self.unreachable:
                raise SourceUnavailable("S3 does not answer.")
            there = self.there.get(upload.key)
            if upload.upload_id in self.open:
                if there is not None and not overwrites:
                    return Completion(CompletionState.NAME_TAKEN, there)
                self.open.discard(upload.upload_id)
                self.there[upload.key] = object_id
                self.seen.append(object_id)
            elif there is None:
                return Completion(CompletionState.UPLOAD_MISSING)
            elif there != object_id:
                return Completion(CompletionState.SUPERSEDED, there)
            return Completion(CompletionState.COMPLETED)

    def head_metadata(self, _bucket: str, key: str) -> dict[str, str] | None:
        """See `UploadCalls.head_metadata`."""
        self.called()
        if self.is_unreadable:
            raise ObjectForbidden("S3 forbids to read it.")
        return {"headrace-object": self.there[key]} if key in self.there else None

    def abort(self, _bucket: str, _key: str, upload_id: str) -> bool:
        """See `UploadCalls.abort`."""
        self.called()
        self.open.discard(upload_id)
        return True

    def create(self, name: str, content: bytes) -> bool:
        """See `LogStore`, as is all below."""
        self.called()
        return self.files.setdefault(name, content) is content

    def replace(self, name: str, content: bytes) -> None:
        """Write the file."""
        self.called()
        self.files[name] = content

    def read(self, name: str) -> bytes | None:
        """The file."""
        self.called()
        return self.files.get(name)

    def names(self, folder: str) -> list[str]:
        """Those in the folder."""
        self.called()
        return sorted(name for name in self.files if name.startswith(f"{folder}/"))

    def remove(self, names: Iterable[str]) -> None:
        """Have them gone."""
        self.called()
        for name in names:
            self.files.pop(name, None)


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch) -> Archive:
    """What writers of this test write to."""
    made = Archive()
    monkeypatch.setattr(frame_completion, "_uploads", lambda _sink: made)
    monkeypatch.setattr(writing, "log_store", lambda _path, _s3: made)
    monkeypatch.setattr(frame_completion, "upload_expiry", lambda _s3: lambda *_: 3 * _DAY_MS)
    return made


def sent(*objects: SealedObject) -> list[Any]:
    """The messages of tasks; one has failed."""
    return [None, *(Sent("q", (each,), batch(each).rows or ()) for each in objects)]


class TestCommits:
    """What becomes of uploads."""

    def test_an_object_that_was_taken_away_is_complete(self, archive: Archive) -> None:
        """A consumer was quicker than Spark's own note of the batch: the repeated one ends, without it."""
        writer, one = HeadraceStreamWriter(written()), sealed("one", 0, 4)
        archive.open |= {"one", "again"}
        writer.commit(sent(one), 0)
        archive.there.clear()

        writer.commit(sent(sealed("again", 0, 4)), 0)
        assert (archive.seen, archive.there, archive.open) == (["one"], {}, set())

    def test_a_batch_without_rows_is_named(self, archive: Archive) -> None:
        """Spark has a task for it, too: by its number a checkpoint that was put back is noticed."""
        writer, nothing = HeadraceStreamWriter(written()), [Sent("q", (), ())]
        archive.open |= {"one", "two"}
        writer.commit(sent(sealed("one", 0, 4)), 0)
        writer.commit(nothing, 1)
        with pytest.raises(FrameRefused, match=r"Batch 0 was .* \(t-0: none, and before 0 to 4\)"):
            writer.commit(nothing, 0)
        with pytest.raises(FrameRefused, match=r"Batch 1 was .* \(t-0: offsets 0 to 4, and before none\)"):
            writer.commit(sent(sealed("two", 0, 4)), 1)
        assert (archive.seen, archive.open) == (["one"], {"two"})

    @pytest.mark.parametrize("overwrites", [True, False])
    def test_an_upload_that_another_program_has_ended(self, archive: Archive, *, overwrites: bool) -> None:
        """Before any commit: its rows are in no object, and were taken for an object that had been there."""
        writer = HeadraceStreamWriter(written())
        archive.open |= {"one", "two", "again", "once more"}
        archive.open.remove("one")
        objects = [sealed("one", 0, 4, key="k", overwrites=overwrites), sealed("two", 5, 9)]
        if overwrites:
            archive.there["k"] = "an earlier one"
        with pytest.raises(FrameRefused, match="another program has ended its upload"):
            writer.commit(sent(*objects), 0)

        with pytest.raises(FrameRefused) as refused:
            writer.commit(sent(sealed("again", 0, 4), sealed("again", 5, 9)), 0)
        note, file = "open/q/000000000000.json", "writes/q/000000000000.json"
        assert f"remove memory/{note} " in str(refused.value)
        assert f"and then memory/{file}, " in str(refused.value)
        assert "one" not in archive.seen

        del archive.files[file]
        archive.there = {}
        writer.commit(sent(sealed("once more", 0, 9)), 0)
        assert archive.there == {"t-0-0": "once more"}

    def test_one_that_was_ended_next_to_one_that_s3_does_not_take(self, archive: Archive) -> None:
        """The commit fails for the other one, and comes again."""
        archive.open |= {"two", "again"}
        archive.unreachable.add("two")
        with pytest.raises(FrameRefused, match="The batch cannot be committed"):
            HeadraceStreamWriter(written()).commit(sent(sealed("one", 0, 4), sealed("two", 5, 9)), 0)

        archive.unreachable.clear()
        with pytest.raises(FrameRefused, match="another program has ended its upload"):
            HeadraceStreamWriter(written()).commit(sent(sealed("again", 0, 4), sealed("again", 5, 9)), 0)

    def test_one_that_was_ended_and_that_a_failed_commit_did_not_come_to(self, archive: Archive) -> None:
        """What is left after the first error is given up, and is not complete."""
        objects = [sealed(f"{number}", number, number) for number in range(40)]
        archive.open |= {one.id for one in objects}
        archive.unreachable |= {one.id for one in objects}
        with pytest.raises(FrameRefused, match="The batch cannot be committed"):
            HeadraceStreamWriter(written()).commit(sent(*objects), 0)

        archive.unreachable.clear()
        archive.open.remove("39")
        again = [sealed(f"again {number}", number, number) for number in range(40)]
        with pytest.raises(FrameRefused, match="another program has ended its upload"):
            HeadraceStreamWriter(written()).commit(sent(*again), 0)

    @pytest.mark.parametrize("calls", range(8))
    def test_one_that_was_ended_after_its_driver_died(self, archive: Archive, calls: int) -> None:
        """Wherever the first commit was: what it may have left open is not taken for complete."""
        archive.open |= {"one", "two", "again", "once more"}
        archive.calls_left = calls
        with suppress(Killed):
            HeadraceStreamWriter(written()).commit(sent(sealed("one", 0, 4), sealed("two", 5, 9)), 0)
        archive.calls_left = None
        archive.open -= {"one", "two"}

        ending = ""
        try:
            HeadraceStreamWriter(written()).commit(sent(sealed("again", 0, 4), sealed("once more", 5, 9)), 0)
        except FrameRefused as refused:
            ending = str(refused)
        whole = set(archive.seen) in ({"one", "two"}, {"again", "once more"})
        assert whole != ("another program has ended its upload" in ending)

    def test_an_object_that_was_taken_away_while_its_batch_was_committed(self, archive: Archive) -> None:
        """An operator who knows that it was there removes the note of it."""
        writer, one = HeadraceStreamWriter(written()), sealed("one", 0, 4)
        with pytest.raises(FrameRefused, match="if it was there once"):
            writer.commit(sent(one), 0)

        del archive.files["open/q/000000000000.json"]
        archive.open.add("again")
        writer.commit(sent(sealed("again", 0, 4)), 0)
        assert (archive.seen, archive.open) == ([], set())

    def test_a_frame_whose_upload_another_program_has_ended(self, archive: Archive) -> None:
        """Nothing of it was there before."""
        with pytest.raises(FrameRefused, match="another program has ended its upload: write the frame again"):
            HeadraceWriter(written()).commit(sent(sealed("one", 0, 4)))
        assert archive.files == {}

    def test_what_is_noted_of_a_batch_is_forgotten_with_it(self, tmp_path: Path) -> None:
        """With its file, in the same request."""
        batches = WrittenBatches(DirectoryStore(tmp_path), "q")
        batches.note_open(0, ["one"])
        assert batches.noted_open(0) == {"one"}
        batches.forget_before(KEPT)
        assert batches.noted_open(0) == set()

    @pytest.mark.parametrize("number", [2, 3])
    def test_what_is_named_is_there_before_a_batch_is_refused(self, archive: Archive, number: int) -> None:
        """Who begins a query after the last file finds its rows, whose driver has died, in no object."""
        archive.open |= {"one", "two"}
        archive.files["writes/q/000000000003.json"] = msgspec.json.encode(batch(sealed("one", 5, 9)))

        with pytest.raises(FrameRefused, match=r"000000000003\.json"):
            HeadraceStreamWriter(written()).commit(sent(sealed("two", 5, 20)), number)
        assert (archive.there, archive.open) == ({"t-0-5": "one"}, {"two"})

    def test_an_upload_that_the_bucket_has_ended(self, archive: Archive) -> None:
        """After three days nobody knows."""
        archive.files["writes/q/000000000000.json"] = msgspec.json.encode(
            batch(sealed("one", 0, 4, age_ms=4 * _DAY_MS))
        )
        with pytest.raises(FrameRefused, match=r"remove .*memory/writes/q/000000000000\.json"):
            HeadraceStreamWriter(written()).commit(sent(sealed("again", 0, 4)), 0)

    def test_the_rule_that_counts_is_that_of_the_bucket_of_the_object(
        self, archive: Archive, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A query that writes to another bucket now took what the first one's rule had ended for complete."""
        asked = []

        def expiry_ms(bucket: str, key: str) -> int | None:
            asked.append((bucket, key))
            return 3 * _DAY_MS if bucket == "before" else None

        monkeypatch.setattr(frame_completion, "upload_expiry", lambda _s3: expiry_ms)
        one = replace(sealed("one", 0, 4, key="in/t/k", age_ms=4 * _DAY_MS), bucket="before")
        archive.files["writes/q/000000000000.json"] = msgspec.json.encode(batch(one))

        with pytest.raises(FrameRefused, match="its upload is gone"):
            HeadraceStreamWriter(written()).commit(sent(sealed("again", 0, 4)), 0)
        assert asked == [("before", "in/t/k")]

    def test_a_rule_that_cannot_be_read_for_now(
        self, archive: Archive, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It ends the commit, which comes again; what a consumer has taken away is complete then."""
        refusals = ["S3 does not answer."]

        def expiry_ms(_bucket: str, _key: str) -> int:
            if refusals:
                raise SourceUnavailable(refusals.pop())
            return 7 * _DAY_MS

        monkeypatch.setattr(frame_completion, "upload_expiry", lambda _s3: expiry_ms)
        archive.files["writes/q/000000000000.json"] = msgspec.json.encode(
            batch(sealed("one", 0, 4, age_ms=4 * _DAY_MS))
        )
        with pytest.raises(FrameRefused, match=r"The batch cannot be committed: S3 does not answer\."):
            HeadraceStreamWriter(written()).commit(sent(sealed("again", 0, 4)), 0)
        HeadraceStreamWriter(written()).commit(sent(sealed("again", 0, 4)), 0)
        assert (archive.seen, archive.there) == ([], {})

    @pytest.mark.parametrize("overwrites", [True, False])
    def test_a_name_that_another_object_has_after_the_bucket_has_ended_the_upload(
        self, archive: Archive, *, overwrites: bool
    ) -> None:
        """Another prefix, as was said, would change nothing: the file has the name."""
        one = sealed("one", 0, 4, key="t/k", overwrites=overwrites, age_ms=4 * _DAY_MS)
        archive.files["writes/q/000000000000.json"] = msgspec.json.encode(batch(one))
        archive.there["t/k"] = "another's"

        with pytest.raises(FrameRefused, match=r"remove .*memory/writes/q/000000000000\.json"):
            HeadraceStreamWriter(written()).commit(sent(sealed("again", 0, 4)), 0)

    def test_a_name_that_another_program_has(self, archive: Archive) -> None:
        """Of a query's batch it has to go; a frame can be written elsewhere."""
        archive.open |= {"one", "two"}
        archive.there["t-0-0"] = "another's"

        with pytest.raises(FrameRefused, match="move that object away, and start the query again"):
            HeadraceStreamWriter(written()).commit(sent(sealed("one", 0, 4)), 0)
        with pytest.raises(FrameRefused, match="write under another prefix"):
            HeadraceWriter(written()).commit(sent(sealed("two", 0, 4)))

    def test_a_frame_with_a_name_that_is_taken_is_not_there_in_part(self, archive: Archive) -> None:
        """Written under another prefix, as the sentence says, its other rows were there twice."""
        objects = [sealed(f"{at}", at, at) for at in range(40)]
        archive.open |= {one.id for one in objects}
        archive.there["t-0-39"] = "another's"

        with pytest.raises(FrameRefused, match="write under another prefix") as refused:
            HeadraceWriter(written()).commit(sent(*objects))
        assert "remove" not in str(refused.value)
        assert archive.seen == []

    @pytest.mark.parametrize("is_unreadable", [True, False])
    def test_a_frame_that_is_there_in_part_all_the_same(
        self, archive: Archive, *, is_unreadable: bool
    ) -> None:
        """A name that is taken meanwhile, or of which S3 says nothing: what is complete is named."""
        objects = [sealed(f"{at}", at, at) for at in range(5)]
        archive.open |= {one.id for one in objects}
        archive.is_unreadable = is_unreadable
        (archive.there if is_unreadable else archive.late)["t-0-4"] = "another's"

        with structlog.testing.capture_logs() as lines, pytest.raises(FrameRefused) as refused:
            HeadraceWriter(written()).commit(sent(*objects))
        assert "s3://archive/t-0-4 cannot be completed: another object has the name" in str(refused.value)
        assert str(refused.value).endswith(
            " By then s3://archive/t-0-0, s3://archive/t-0-1, s3://archive/t-0-2 and 1 more are there: "
            "remove them before these rows are written again."
        )
        assert [line["objects"] for line in lines if line["event"] == "frame_written_in_part"] == [
            [f"s3://archive/t-0-{at}" for at in range(4)]
        ]

    def test_a_frame_of_which_s3_takes_one_object_no_more(self, archive: Archive) -> None:
        """The other one is there, and is named."""
        archive.open |= {"one", "two"}
        archive.unreachable.add("two")
        with pytest.raises(FrameRefused, match=r"By then s3://archive/t-0-0 is there: remove it before"):
            HeadraceWriter(written()).commit(sent(sealed("one", 0, 4), sealed("two", 5, 9)))

    def test_a_name_of_keys_that_a_later_writer_has(self, archive: Archive) -> None:
        """It recurs by design: ours was there before."""
        one = sealed("one", 0, 0, key="t/k", overwrites=True)
        archive.open.add("one")
        writer = HeadraceStreamWriter(written())
        writer.commit(sent(one), 0)
        archive.there["t/k"] = "another's"

        writer.commit(sent(sealed("again", 0, 0, key="t/k", overwrites=True)), 0)
        assert archive.there == {"t/k": "another's"}

    def test_of_a_name_of_keys_the_last_is_completed_and_the_others_given_up(self, archive: Archive) -> None:
        """In one batch, of one query or of one frame."""
        objects = [sealed(f"{at}", at, at, key="t/k", overwrites=True) for at in range(3)]
        archive.open |= {"0", "1", "2"}
        HeadraceStreamWriter(written()).commit(sent(*objects), 0)
        assert (archive.there, archive.seen, archive.open) == ({"t/k": "2"}, ["2"], set())

        archive.open |= {"0", "1", "2"}
        HeadraceWriter(written()).commit(sent(*objects))
        assert (archive.there, archive.seen, archive.open) == ({"t/k": "2"}, ["2", "2"], set())

    def test_rows_that_come_to_two_tasks(self, archive: Archive) -> None:
        """A union of one topic: an object had the name of another of its batch, which never ended."""
        same = [sealed("one", 1, 4), sealed("two", 1, 4)]
        shifted = [sealed("one", 1, 4), sealed("two", 2, 4)]
        # As names are that a template does not tell apart.
        unlike = [sealed("one", 1, 2, key="k"), sealed("two", 8, 9, key="k")]
        twice, unnamed = "Rows of t-0 come twice, in several tasks", "Two objects are to have the name"
        for objects, said in ((same, twice), (shifted, twice), (unlike, unnamed)):
            archive.open = {"one", "two"}
            with pytest.raises(FrameRefused, match=said) as refused:
                HeadraceStreamWriter(written()).commit(sent(*objects), 0)
            assert "dropDuplicates" in str(refused.value)
            assert (archive.there, archive.files, archive.open) == ({}, {}, set())
        with pytest.raises(FrameRefused, match="Two objects are to have the name s3://archive/k"):
            HeadraceWriter(written()).commit(sent(*unlike))
        assert archive.there == {}

    @pytest.mark.parametrize("is_stream", [True, False])
    def test_a_commit_that_s3_refuses_ends_with_a_sentence(
        self, archive: Archive, *, is_stream: bool
    ) -> None:
        """And a stream's batch that came before, which its commit finds in an error of its own."""
        archive.open |= {"one"}
        archive.unreachable = {"one"}
        stream, frame = HeadraceStreamWriter(written()), HeadraceWriter(written())
        with pytest.raises(FrameRefused, match="The batch cannot be committed: S3 does not") as raised:
            stream.commit(sent(sealed("one")), 3) if is_stream else frame.commit(sent(sealed("one")))
        assert_no_causes(raised.value)
        if is_stream:
            archive.unreachable.clear()
            with pytest.raises(FrameRefused, match="Batch 2 comes after batch 3") as raised:
                stream.commit(sent(sealed("two")), 2)
            assert_no_causes(raised.value)

    def test_what_a_commit_may_have_named_is_not_given_up(self, archive: Archive) -> None:
        """Its request may still be on the way when Spark has the batch aborted."""
        writer, one, two = HeadraceStreamWriter(written()), sealed("one"), sealed("two")
        archive.open |= {"one", "two"}
        writer.abort(sent(one), 0)
        assert archive.open == {"one", "two"}
        writer.commit(sent(one), 0)
        writer.abort(sent(two), 0)
        assert (archive.there, archive.open) == ({"t-0-0": "one"}, set())

    def test_uploads_are_given_up_several_at_a_time(
        self, archive: Archive, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A batch has hundreds, and Spark waits; one that S3 does not answer keeps no other."""
        objects, both = [sealed(f"{number}", number, number) for number in range(6)], threading.Barrier(2)
        archive.open |= {one.id for one in objects}
        abort = archive.abort

        def slow(bucket: str, key: str, upload_id: str) -> bool:
            both.wait(60)
            if upload_id == "0":
                raise SourceUnavailable("S3 does not answer.")
            return abort(bucket, key, upload_id)

        monkeypatch.setattr(archive, "abort", slow)
        HeadraceWriter(written()).abort(sent(*objects))
        assert archive.open == {"0"}


class Query(RuleBasedStateMachine):
    """Spark's side: a checkpoint that plans batches and notes what was committed, and drivers that die.

    The law: when a batch is noted, each of its rows has been in one object, once; a driver that slept adds
    nothing, and a batch of other rows is refused.
    """

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.archive = Archive()
        self.patch.setattr(frame_completion, "_uploads", lambda _sink: self.archive)
        self.patch.setattr(writing, "log_store", lambda _path, _s3: self.archive)
        self.patch.setattr(frame_completion, "upload_expiry", lambda _s3: lambda *_: None)
        self.writer = HeadraceStreamWriter(written())
        self.planned: list[tuple[int, int]] = []
        self.noted = 0
        self.produced = 0
        self.attempts = 0
        self.asleep: list[tuple[int, list[Any]]] = []
        self.was_put_back = self.is_refused = self.is_ended = False

    def teardown(self) -> None:
        """Undo the patches."""
        self.patch.undo()

    def _sent(self, number: int, cut: int) -> list[Any]:
        begin, end = self.planned[number]
        self.attempts += 1
        cuts = sorted({begin, min(begin + cut, end), end})
        objects = [sealed(f"{self.attempts}/{first}", first, last - 1) for first, last in pairwise(cuts)]
        self.archive.open |= {each.id for each in objects}
        return sent(*objects)

    @initialize(rows=st.integers(1, 5))
    def begins(self, rows: int) -> None:
        """Some rows are there."""
        self.produced = rows

    @rule(rows=st.integers(1, 5))
    def produce(self, rows: int) -> None:
        """More rows come."""
        self.produced += rows

    @precondition(lambda self: not self.is_refused)
    @rule(
        cut=st.integers(1, 3),
        calls=st.one_of(st.none(), st.integers(0, 6)),
        sleeps=st.booleans(),
        ends=st.sampled_from((0, 0, 0, 1, 3)),
    )
    def attempt(self, cut: int, calls: int | None, ends: int, *, sleeps: bool) -> None:
        """The next batch is planned, or the last one repeated, and committed as far as its process lives.

        Another program may have ended some of its uploads, of an attempt whose process does not die as well.
        """
        end = self.planned[-1][1] if self.planned else 0
        if len(self.planned) == self.noted:
            if end == self.produced:
                return
            self.planned.append((end, self.produced))
        number = self.noted
        messages = self._sent(number, cut)
        if sleeps:
            self.asleep.append((number, messages))
            return
        ended = {one.id for one in objects_of(messages)[:ends]}
        self.archive.open -= ended
        self.archive.calls_left = None if ended else calls
        try:
            self.writer.commit(messages, number)
        except Killed:
            return
        except FrameRefused as refused:
            if "another program has ended its upload" in str(refused):
                assert ended or self.is_ended
                self.is_ended = True
                return
            assert self.was_put_back
            self.is_refused = True
            return
        finally:
            self.archive.calls_left = None
        assert not self.is_ended
        self.noted += 1
        self._judge()

    @precondition(lambda self: self.is_ended)
    @rule()
    def mend(self) -> None:
        """The operator does what is said: the objects of the batch are removed, and its file."""
        name = max(name for name in self.archive.files if name.startswith("writes/"))
        ids = {one.id for one in msgspec.json.decode(self.archive.files.pop(name), type=WrittenBatch).objects}
        self.archive.seen = [one for one in self.archive.seen if one not in ids]
        self.archive.there = {key: one for key, one in self.archive.there.items() if one not in ids}
        self.is_ended = False

    @precondition(lambda self: self.asleep)
    @rule(data=st.data())
    def wake(self, data: st.DataObject) -> None:
        """A driver that slept goes on, and says at the most that it is not the only one."""
        number, messages = self.asleep.pop(data.draw(st.integers(0, len(self.asleep) - 1)))
        before = sorted(self.rows_seen())
        try:
            self.writer.commit(messages, number)
        except FrameRefused:
            assert number < self.noted or self.was_put_back or self.is_ended
        if number < self.noted:
            assert sorted(self.rows_seen()) == before

    @precondition(lambda self: self.archive.there)
    @rule(data=st.data())
    def take_away(self, data: st.DataObject) -> None:
        """A consumer moves an object elsewhere."""
        del self.archive.there[data.draw(st.sampled_from(sorted(self.archive.there)))]

    @precondition(lambda self: self.noted > 1 and not self.is_refused)
    @rule(back=st.integers(1, 2))
    def put_back(self, back: int) -> None:
        """The checkpoint is that of some batches ago, and plans what comes after with what is there now."""
        self.was_put_back = True
        self.noted -= back
        self.planned = self.planned[: self.noted]

    def rows_seen(self) -> list[int]:
        """The offsets of all objects that were ever visible."""
        first_of = self.archive.seen
        sizes = self._sizes
        return [at for one in first_of for at in range(*sizes[one])]

    @property
    def _sizes(self) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        named = [content for name, content in self.archive.files.items() if name.startswith("writes/")]
        for content in named:
            for each in msgspec.json.decode(content, type=WrittenBatch).objects:
                found[each.id] = each.first_offset, each.last_offset + 1
        return found

    def _judge(self) -> None:
        seen = self.rows_seen()
        assert len(seen) == len(set(seen)), f"{seen} are there twice"
        missing = set(range(self.planned[-1][1])) - set(seen)
        assert not missing, f"{missing} are in no object"


TestQuery = Query.TestCase
TestQuery.settings = hypothesis_settings(max_examples=examples(180), stateful_step_count=20, deadline=None)


@pytest.mark.parts
def test_rows_of_a_key_that_come_in_parts(s3: "S3Client", bucket: str, s3_endpoint: str) -> None:
    """A name that recurs within a task waited for a completion that comes after the task."""
    options = {
        "path": f"s3://{bucket}/keys/",
        "aws.s3.endpoint": s3_endpoint,
        "aws.access.key.id": "test",
        "aws.secret.access.key": "test",
        "file.name.template": "{{topic}}/{{key}}{{extension}}",
        "file.compression.type": "none",
        "output.format": "jsonl",
    }
    writer = HeadraceWriter(writing_settings(options, _RECORDS, overwrites=False))
    rows = [{"topic": "t", "partition": 0, "offset": at, "key": b"k", "value": b"%d" % at} for at in range(3)]
    batches = pa.Table.from_pylist(rows).to_batches(max_chunksize=1)

    done = writer.write(iter(batches))
    writer.commit([done])
    body = s3.get_object(Bucket=bucket, Key="keys/t/k.jsonl")["Body"].read()
    assert [json.loads(line)["value"] for line in body.splitlines()] == [2]
    assert not s3.list_multipart_uploads(Bucket=bucket).get("Uploads")
