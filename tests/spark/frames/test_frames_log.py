"""The discovery log: its files, what they say after any crash, and who may write."""

import errno
import json
import os
import threading
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.errors import FrameRefused
from headrace.model.objects import ObjectId
from ingest.source.catalogue import Baseline
from spark.frames import discovery_log, log_entries
from spark.frames.discovery_log import DiscoveryLog, read_committed
from spark.frames.frame_options import reading_settings
from spark.frames.log_entries import (
    Entry,
    KnownObjects,
    LoggedObject,
    Span,
    decode_entry,
    due_snapshots,
    encode_entry,
    encode_snapshot,
    entry_name,
    identity,
    log_files,
    snapshot_batch,
    snapshot_identities,
    snapshot_table,
    snapshot_tables,
)
from spark.frames.log_store import DirectoryStore, LogStore, log_store
from tests.support.http_bucket import http_bucket
from tests.support.proxy import Answer, Fault, Proxy, Without

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_OBJECTS = st.lists(
    st.builds(
        LoggedObject,
        key=st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
        etag=st.text("0123456789abcdef-", min_size=1),
        size=st.integers(0, 2**40),
        last_modified_ms=st.integers(0, 2**42),
        version_id=st.none() | st.text("abc", min_size=1),
        cuts=st.lists(st.integers(0, 2**40), max_size=3).map(tuple),
    ),
    max_size=8,
)


def entry_of(batch: int, objects: Iterable[LoggedObject], writer: str = "w") -> Entry:
    """An entry with these objects."""
    return Entry(version=1, batch=batch, writer=writer, made_ms=1, objects=tuple(objects))


def some(batch: int, count: int = 2) -> list[LoggedObject]:
    """Objects that are of one batch only."""
    return [LoggedObject(f"in/{batch}-{n}", f"e{n}", 10 * n, 1000 + n) for n in range(count)]


def open_log(store: LogStore, bucket: str = "b") -> DiscoveryLog:
    """The log of a bucket."""
    return DiscoveryLog.open(store, bucket=bucket, prefix="in/", baseline=Baseline)


@given(_OBJECTS)
def test_an_entry_says_what_it_was_given(objects: list[LoggedObject]) -> None:
    """Written and read again it is the same."""
    entry = entry_of(7, objects)

    assert decode_entry(encode_entry(entry), "x") == entry


@given(st.lists(_OBJECTS, min_size=1, max_size=4))
def test_a_snapshot_holds_all_batches(batches: list[list[LoggedObject]]) -> None:
    """Each batch can be read back from it, in its order, and it knows each object."""
    entries = [entry_of(number, objects, f"w{number // 2}") for number, objects in enumerate(batches, 1)]
    content = encode_snapshot(snapshot_table([entry]) for entry in entries)
    known = KnownObjects()
    known.add_sorted([snapshot_identities(content)])

    for entry in entries:
        assert snapshot_batch(content, entry.batch) == (entry.mark, entry.objects)
        assert all(identity(ObjectId("", one.key, one.etag)) in known for one in entry.objects)
    assert len(known) == len({(one.key, one.etag) for entry in entries for one in entry.objects})


@given(st.lists(st.binary(min_size=16, max_size=16), max_size=50), st.integers(1, 20))
def test_what_is_known_is_a_set(identities: list[bytes], recent: int) -> None:
    """However many are sorted and recent; what was not added is not known."""
    known = KnownObjects()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_entries, "_RECENT", recent)
        for one in identities:
            known.add([one])

    assert len(known) == len(set(identities))
    assert all(one in known for one in identities)
    assert bytes(16) in known if bytes(16) in identities else bytes(16) not in known


@given(st.integers(0, 30_000))
def test_snapshots_cover_every_batch_once(last: int) -> None:
    """From the entries of any log: side by side, full ones only, and never many of one size."""
    files = log_files([entry_name(batch) for batch in range(1, last + 1)], "x")
    spans: list[Span] = []
    for span, smaller in due_snapshots(files):
        assert all(one in spans for one in smaller)
        spans = [one for one in spans if one not in smaller] + [span]

    batches = [batch for span in spans for batch in range(span.first, span.last + 1)]
    assert batches == list(range(1, last // 100 * 100 + 1))
    sizes = [span.last - span.first for span in spans]
    assert all(sizes.count(size) < 100 for size in sizes)


@pytest.mark.parametrize(
    ("names", "last", "stale"),
    [
        ([], 0, 0),
        ([entry_name(1), entry_name(2)], 2, 0),
        ([Span(1, 100).name, entry_name(101)], 101, 0),
        # A process died before it removed the entries, or the smaller snapshots.
        ([Span(1, 100).name, entry_name(99), entry_name(100), entry_name(101)], 101, 2),
        ([Span(1, 200).name, Span(1, 100).name, Span(101, 200).name], 200, 2),
        ([Span(1, 100).name, "known/other.txt", "entries/.half"], 100, 0),
    ],
)
def test_files_of_a_log(names: list[str], last: int, stale: int) -> None:
    """What is in force, and what is left over."""
    files = log_files(names, "x")

    assert (files.last, len(files.stale)) == (last, stale)


@pytest.mark.parametrize(
    "names", [[entry_name(2)], [entry_name(1), entry_name(3)], [Span(1, 100).name, entry_name(102)]]
)
def test_a_batch_that_is_missing_is_refused(names: list[str]) -> None:
    """Objects of it would be read twice."""
    with pytest.raises(FrameRefused, match=r"has no batch \d+, but has batch \d+: files of it were deleted"):
        log_files(names, "/state")


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"version":1,"batch":"x"}'])
def test_a_foreign_entry_is_refused(content: bytes) -> None:
    """In a sentence with its name."""
    with pytest.raises(FrameRefused, match="/state/entries/1 is not an entry"):
        decode_entry(content, "/state/entries/1")


def test_an_entry_of_a_later_version_is_refused() -> None:
    """It may hold what this one does not understand."""
    later = {"version": 9, "batch": 1, "writer": "w", "made_ms": 1, "objects": []}

    with pytest.raises(FrameRefused, match="written by another version"):
        decode_entry(json.dumps(later).encode(), "x")


def test_a_log_is_the_same_when_it_is_opened_again(tmp_path: Path) -> None:
    """Every batch, what is known, and the id that offsets carry."""
    log = open_log(DirectoryStore(tmp_path))
    numbers = [log.append(some(batch)) for batch in (1, 2, 3)]
    again = open_log(DirectoryStore(tmp_path))

    assert numbers == [1, 2, 3]
    assert (again.last, again.about) == (3, log.about)
    assert [again.objects(batch) for batch in numbers] == [tuple(some(batch)) for batch in numbers]
    assert len(again.known) == 6


def test_a_disk_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence asks for room, and what could not be written takes none of it."""

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    store = DirectoryStore(tmp_path)
    for write in (store.create, store.replace):
        with pytest.raises(FrameRefused, match=r"No space left on device.*: free some room there"):
            write("entries/1", b"{}")

    assert list((tmp_path / "entries").iterdir()) == []


def test_compaction_loses_nothing(tmp_path: Path) -> None:
    """250 batches: two snapshots, fifty entries, and each batch as it was; what a crash left is removed."""
    log = open_log(DirectoryStore(tmp_path))
    for batch in range(1, 251):
        log.append(some(batch))
        if batch % 100 == 7:
            log.commit(batch)
    left = DirectoryStore(tmp_path)
    left.create(entry_name(50), encode_entry(entry_of(50, some(50))))
    log.compact()
    again = open_log(DirectoryStore(tmp_path))

    assert sorted(left.names("known")) == [Span(1, 100).name, Span(101, 200).name]
    assert left.names("entries") == [entry_name(batch) for batch in range(201, 251)]
    assert again.last == 250
    assert len(again.known) == 500
    assert again.objects(1) == tuple(some(1))
    assert again.objects(200) == tuple(some(200))
    assert again.objects(250) == tuple(some(250))


def test_marks_outlive_compaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each start of a query has its own, in entries and in snapshots of snapshots."""
    for module in (log_entries, discovery_log):
        monkeypatch.setattr(module, "FAN_IN", 3)
    marks: list[str | None] = []
    for batch in range(1, 12):
        log = open_log(DirectoryStore(tmp_path))
        log.append(some(batch))
        marks.append(log.mark(batch))
        log.commit(batch)
    again = open_log(DirectoryStore(tmp_path))

    assert DirectoryStore(tmp_path).names("known") == [Span(1, 9).name]
    assert len({*marks, None}) == 12
    assert [again.mark(batch) for batch in range(1, 12)] == marks


def test_snapshots_of_an_earlier_version_have_no_marks() -> None:
    """They are read, and merged with others."""
    tables = [snapshot_table([entry_of(batch, some(batch))]) for batch in (1, 2)]
    out = BytesIO()
    pq.write_table(pa.concat_tables(tables).replace_schema_metadata(None), out)
    old, new = out.getvalue(), encode_snapshot([snapshot_table([entry_of(3, some(3), "w3")])])
    both = encode_snapshot([*snapshot_tables(old), *snapshot_tables(new)])

    for batch, mark in ((1, None), (2, None), (3, "w3")):
        assert snapshot_batch(both, batch) == (mark, tuple(some(batch)))
    assert snapshot_batch(old, 2) == (None, tuple(some(2)))


def test_two_writers_of_one_log(tmp_path: Path) -> None:
    """The second finds its entry taken, and says so; what it found is in no batch."""
    one, other = open_log(DirectoryStore(tmp_path)), open_log(DirectoryStore(tmp_path))
    one.append(some(1))

    with pytest.raises(FrameRefused, match=r"Batch 1 .* was written by another query: two queries"):
        other.append(some(9))
    assert open_log(DirectoryStore(tmp_path)).objects(1) == tuple(some(1))


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_writer_that_slept_while_its_batch_was_compacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_answered: bool
) -> None:
    """The name of its batch is free again, and the batch is taken; also if its write came twice."""
    for module in (log_entries, discovery_log):
        monkeypatch.setattr(module, "FAN_IN", 3)
    store = DirectoryStore(tmp_path)
    slow, quick = open_log(store), open_log(store)
    for batch in range(1, 4):
        quick.append(some(batch))
        quick.commit(batch)
    assert store.names("entries") == []
    create = DirectoryStore.create
    # S3 says of a request that was sent again that the name is taken: by the first of the two.
    monkeypatch.setattr(DirectoryStore, "create", lambda *given: create(*given) and is_answered)

    with pytest.raises(FrameRefused, match=r"Batch 1 .* was written by another query: two queries"):
        slow.append(some(9))

    assert store.names("entries") == []
    assert open_log(store).objects(1) == tuple(some(1))


@pytest.mark.parametrize("call", range(9))
def test_a_log_that_is_compacted_in_the_middle_of_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    """Whichever call the other query, or the query that a command looks at, comes before: all is known."""
    for module in (log_entries, discovery_log):
        monkeypatch.setattr(module, "FAN_IN", 3)
    writer = open_log(DirectoryStore(tmp_path))
    for batch in range(1, 10):
        writer.append(some(batch))
        if batch == 6:
            writer.commit(batch)
    assert len(DirectoryStore(tmp_path).names("known")) == 2

    class Busy(DirectoryStore):
        calls = -1
        turns = threading.RLock()

        def read(self, name: str) -> bytes | None:
            with self.turns:
                self.turn()
                return super().read(name)

        def names(self, folder: str) -> list[str]:
            with self.turns:
                self.turn()
                return super().names(folder)

        def turn(self) -> None:
            self.calls += 1
            if self.calls == call:
                writer.commit(9)
                writer.append(some(10))

    log = open_log(Busy(tmp_path))

    assert DirectoryStore(tmp_path).names("known") == [Span(1, 9).name]
    assert log.last in {9, 10}
    assert len(log.known) == 2 * log.last
    assert all(log.objects(batch) == tuple(some(batch)) for batch in range(1, 10))


def test_a_start_reads_several_files_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 takes its time for each answer, and there are hundreds; memory holds a few, of large ones one."""
    for module in (log_entries, discovery_log):
        monkeypatch.setattr(module, "FAN_IN", 2)
    monkeypatch.setattr(discovery_log, "_READ_AT_ONCE", 2)
    log = open_log(DirectoryStore(tmp_path))
    for batch in range(1, 9):
        log.append(some(batch))
        if batch == 6:
            log.commit(batch)
    assert DirectoryStore(tmp_path).names("known") == [Span(1, 4).name, Span(5, 6).name]
    log.append(some(9))
    log.append(some(10))

    class InTwos(DirectoryStore):
        both = threading.Barrier(2)
        under_way: set[str] = set()  # noqa: RUF012  # one instance
        most: tuple[str, ...] = ()

        def read(self, name: str) -> bytes | None:
            if not name.startswith("entries/"):
                return super().read(name)
            self.under_way.add(name)
            self.both.wait(60)
            self.most = max(self.most, tuple(self.under_way), key=len)
            self.both.wait(60)
            self.under_way.discard(name)
            return super().read(name)

    store = InTwos(tmp_path)
    again = open_log(store)
    assert (again.last, len(again.known), len(store.most)) == (10, 20, 2)
    assert list(again.objects_of_each(range(7, 11))) == [tuple(some(batch)) for batch in range(7, 11)]


def test_an_answer_that_was_lost(tmp_path: Path) -> None:
    """The entry is there, and the call says that it is taken: it is the writer's own."""

    class Silent(DirectoryStore):
        def create(self, name: str, content: bytes) -> bool:
            return super().create(name, content) and not name.startswith("entries/")

    log = open_log(Silent(tmp_path))

    assert log.append(some(1)) == 1


def test_a_log_of_another_bucket_is_refused(tmp_path: Path) -> None:
    """Its objects are others."""
    open_log(DirectoryStore(tmp_path))

    with pytest.raises(FrameRefused, match=r"is of s3://b/in/, and the query reads s3://other/in/"):
        open_log(DirectoryStore(tmp_path), bucket="other")


def test_a_batch_beyond_the_end_is_refused(tmp_path: Path) -> None:
    """The log is a copy that is older than the checkpoint."""
    log = open_log(DirectoryStore(tmp_path))

    with pytest.raises(FrameRefused, match=r"has no batch 4: it ends at 0\. It is older than the checkpoint"):
        log.objects(4)


def test_a_commit_is_noted(tmp_path: Path) -> None:
    """`headrace status` shows it."""
    store = DirectoryStore(tmp_path)
    log = open_log(store)
    log.append(some(1))
    before = read_committed(store)
    log.commit(1)
    after = read_committed(store)

    assert before is None
    assert after is not None
    assert after.batch == 1


def test_a_place_that_may_not_be_written(tmp_path: Path) -> None:
    """One sentence with the place and the fix."""
    (tmp_path / "state").write_text("a file")

    with pytest.raises(FrameRefused, match=r"state' may not be read and written .*: name a directory"):
        open_log(DirectoryStore(tmp_path / "state"))


def test_a_name_is_taken_once(tmp_path: Path) -> None:
    """By whoever is first; nothing half-written is left."""
    store = DirectoryStore(tmp_path)

    assert store.create("entries/a", b"1")
    assert not store.create("entries/a", b"2")
    assert store.read("entries/a") == b"1"
    store.replace("entries/a", b"3")
    assert store.read("entries/a") == b"3"
    assert [path.name for path in (tmp_path / "entries").iterdir()] == ["a"]


@pytest.mark.parts
def test_a_log_on_s3(s3: "S3Client", bucket: str, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name is taken once there as well, all names of a folder are listed, and compaction loses nothing."""
    for module in (log_entries, discovery_log):
        monkeypatch.setattr(module, "FAN_IN", 3)
    given = {
        "path": f"s3://{bucket}/in/",
        "aws.s3.endpoint": s3_endpoint,
        "aws.access.key.id": "test",
        "aws.secret.access.key": "test",
    }
    store = log_store(f"s3a://{bucket}/state/log/", reading_settings(given).shared.s3)
    one, other = open_log(store), open_log(store)
    for batch in range(1, 5):
        one.append(some(batch))
    with pytest.raises(
        FrameRefused, match=rf"Batch 1 of .* at s3://{bucket}/state/log was written by another"
    ):
        other.append(some(9))
    one.commit(4)
    again = open_log(store)

    assert store.names("known") == [Span(1, 3).name]
    assert store.names("entries") == [entry_name(4)]
    assert (again.last, again.committed, len(again.known)) == (4, 4, 8)
    assert again.objects(2) == tuple(some(2))
    assert store.read("entries/none") is None
    keys = {found["Key"] for found in s3.list_objects_v2(Bucket=bucket)["Contents"]}
    assert keys == {
        f"state/log/{name}" for name in ("log.json", "committed.json", Span(1, 3).name, entry_name(4))
    }


def test_names_are_sorted_in_a_bucket_whose_listings_are_not() -> None:
    """Directory buckets have no order of keys, and of the files of a writing query the last one counts."""
    with http_bucket() as bucket:
        bucket.is_backwards = True
        given = {"path": "s3://bucket/in/", **bucket.options}
        store = log_store("s3://bucket/state", reading_settings(given).shared.s3)
        names = [f"writes/q/{number:012d}.json" for number in range(3)]
        bucket.objects = dict.fromkeys([f"state/{name}" for name in names], b"1")

        assert store.names("writes/q") == names


@pytest.mark.parts
def test_a_log_in_a_bucket_that_is_not_there(s3_endpoint: str) -> None:
    """One sentence with the place."""
    given = {"path": "s3://b12/in/", "aws.s3.endpoint": s3_endpoint}
    given |= {"aws.access.key.id": "test", "aws.secret.access.key": "test"}
    store = log_store("s3://no-such-bucket-of-logs/x", reading_settings(given).shared.s3)

    with pytest.raises(FrameRefused, match=r"state\.path = 's3://no-such-bucket-of-logs/x' .*does not exist"):
        open_log(store)


@pytest.mark.parts
def test_a_name_that_another_request_has_is_asked_for_again(bucket: str, s3_endpoint: str) -> None:
    """409 says that two met, and not that the other one has written."""
    with Proxy(s3_endpoint) as proxy:
        refused = Answer(
            status=409, body=b"<Error><Code>ConditionalRequestConflict</Code><Message>x</Message></Error>"
        )
        proxy.on(refused, when=lambda request: request.method == "PUT", times=1)
        given = {"path": f"s3://{bucket}/in/", "aws.s3.endpoint": proxy.url}
        given |= {"aws.access.key.id": "test", "aws.secret.access.key": "test"}
        store = log_store(f"s3://{bucket}/state", reading_settings(given).shared.s3)

        assert store.create("entries/a", b"1")
        assert store.read("entries/a") == b"1"


@pytest.mark.parts
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        pytest.param(
            Answer(status=501, body=b"<Error><Code>NotImplemented</Code></Error>"), "refuses", id="501"
        ),
        pytest.param(Without("if-none-match"), "ignores", id="ignored"),
    ],
)
def test_a_log_in_a_store_without_conditions(bucket: str, s3_endpoint: str, fault: Fault, words: str) -> None:
    """Two queries would take one batch, and neither would notice: refused at the start, with the way out."""
    with Proxy(s3_endpoint) as proxy:
        proxy.on(fault, when=lambda request: "if-none-match" in request.headers)
        given = {"path": f"s3://{bucket}/in/", "aws.s3.endpoint": proxy.url}
        given |= {"aws.access.key.id": "test", "aws.secret.access.key": "test"}
        store = log_store(f"s3://{bucket}/state", reading_settings(given).shared.s3)

        with pytest.raises(
            FrameRefused, match=rf"s3://{bucket}/state' .*{words} If-None-Match.*: name a directory"
        ):
            open_log(store)
