import errno
import fcntl
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from headrace.kafka.cache_files import (
    CACHE_VERSION,
    NEWEST_QUARANTINED,
    PRIVATE_PREFIX,
    UNFINISHED,
    CacheDirectory,
    LedgerRows,
    collect_rows,
    find_cache_directory,
    found_identity,
)
from headrace.kafka.ledger_cache import CacheDamaged, LedgerCache, open_cache
from headrace.kafka.ledger_topic import LedgerIdentity
from headrace.model.errors import InvalidLedger, Unavailable
from headrace.model.ledger_entry import (
    ControlKey,
    LedgerEntry,
    LedgerKey,
    SplitKey,
    State,
    encode_entry,
    encode_key,
)
from headrace.model.objects import ObjectId
from tests.support.until import until_sync

OURS = LedgerIdentity(cluster_id="cluster", topic="ledger", topic_id="one")
WEEK_MS = 7 * 24 * 3600 * 1000


def rows(*records: tuple[LedgerKey, LedgerEntry | None]) -> LedgerRows:
    """These records as the follower hands them on."""
    return collect_rows(
        (encode_key(key), None if entry is None else encode_entry(entry)) for key, entry in records
    )


def entry(state: State = State.DONE, size: int = 0) -> LedgerEntry:
    """An entry, done unless it matters."""
    return LedgerEntry(state=state, size=size)


def thing(key: str, etag: str = "e", bucket: str = "b") -> ObjectId:
    """An object of these tests."""
    return ObjectId(bucket, key, etag)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[CacheDirectory]:
    """A folder of the test's own, locked."""
    found = find_cache_directory(tmp_path, "name")
    yield found
    found.close()


def test_a_cache_gives_back_what_was_applied(home: CacheDirectory) -> None:
    """Entries, slices, controls and the position, of a file that was closed and opened again."""
    whole, cut = thing("k"), SplitKey(thing("k"), 0, 10)
    with LedgerCache(home, OURS) as cache:
        cache.apply(rows((whole, entry(State.PARTIAL, size=20)), (cut, entry(size=10))), 7, at_end_ms=5)
        cache.apply(LedgerRows({}, {"slots": b'{"v":1,"slots":2}'}), 8)
    with LedgerCache(home, OURS) as cache:
        assert cache.get(whole) == entry(State.PARTIAL, size=20)
        assert cache.splits(whole) == {cut: entry(size=10)}
        assert cache.controls() == {ControlKey("slots"): b'{"v":1,"slots":2}'}
        assert (cache.position, cache.at_end_ms()) == (8, 5)
        assert cache.counts()[State.PARTIAL] == 1, "slices are not counted"
        assert cache.counts()[State.DONE] == 0


def test_a_tombstone_removes(home: CacheDirectory) -> None:
    """Of objects, slices and controls, also within the batch that brought them."""
    with LedgerCache(home, OURS) as cache:
        cache.apply(rows((thing("a"), entry()), (thing("b"), entry()), (thing("b"), None)), 3)
        cache.apply(LedgerRows({}, {"pause": b'{"v":1,"paused":true,"at_ms":1}'}), 4)
        cache.apply(LedgerRows(rows((thing("a"), None)).entries, {"pause": None}), 6)
        assert list(cache.scan("b")) == []
        assert cache.controls() == {}
        assert cache.counts()[State.DONE] == 0


def test_a_scan_is_in_the_order_of_s3(home: CacheDirectory) -> None:
    """UTF-8 order, every content of a key, from after one key through another, across pages."""
    keys = ["a", "a+", "a/b", "b", "z", "é", "\ufffd", "\U0001f600"]
    assert keys == sorted(keys, key=str.encode)
    with LedgerCache(home, OURS) as cache:
        cache.apply(rows(*[(thing(key, etag), entry()) for key in reversed(keys) for etag in "21"]), 16)
        cache.apply(rows((thing("b", bucket="a"), entry()), (SplitKey(thing("z"), 0, 1), entry())), 18)
        assert [(known.id.key, known.id.etag) for known in cache.scan("b")] == [
            (key, etag) for key in keys for etag in "12"
        ]
        assert {known.id.key for known in cache.scan("b", "a/b", "z")} == {"b", "z"}
        assert list(cache.scan("b", "\U0001f600")) == []
        assert [known.id.etag for known in cache.of_key("b", "é")] == ["1", "2"]


def test_a_scan_spans_pages(home: CacheDirectory) -> None:
    """Five thousand entries come once each, though two thousand are read at a time."""
    with LedgerCache(home, OURS) as cache:
        cache.apply(rows(*[(thing(f"{n:05d}"), entry()) for n in range(5000)]), 5000)
        assert [known.id.key for known in cache.scan("b")] == [f"{n:05d}" for n in range(5000)]
        assert len(list(cache.scan("b", "00999", "03999"))) == 3000


@pytest.mark.parametrize("state", State)
def test_what_tells_an_entrys_age_is_known_without_decoding_it(home: CacheDirectory, state: State) -> None:
    """As the entry itself says, whichever of its two times is later."""
    written = [
        (thing("a"), replace(entry(state), updated_ms=2, last_modified_ms=1)),
        (thing("b"), replace(entry(state), updated_ms=1, last_modified_ms=3)),
    ]
    with LedgerCache(home, OURS) as cache:
        cache.apply(rows(*written), 2)
        known = list(cache.scan("b"))
    assert [(one.changed_ms, one.is_settled) for one in known] == [
        (each.changed_ms, each.is_settled) for _, each in written
    ]
    assert [one.changed_ms for one in known] == [2, 3]
    with pytest.raises(InvalidLedger):
        known[0]._replace(raw=b"{").changed_ms  # noqa: B018 - it raises


def test_states_are_found(home: CacheDirectory) -> None:
    """By state up to a limit, and all that becomes pending with the lead."""
    with LedgerCache(home, OURS) as cache:
        cache.apply(rows(*[(thing(state.value), entry(state)) for state in State]), 6)
        cache.apply(rows((SplitKey(thing("partial"), 0, 1), entry(State.FAILED))), 7)
        found = [known.state for known in cache.unfinished()]
        assert found == [State.FAILED, State.NEW, State.PARTIAL]
        assert [known.entry for known in cache.by_state(State.DONE, 5)] == [entry(State.DONE)]
        assert len(cache.by_state(State.FAILED, 5)) == 1
        assert cache.by_state(State.FAILED, 0) == []


def test_what_is_unfinished_comes_in_pages(home: CacheDirectory) -> None:
    """By bucket, key and ETag, from behind one object; what is done is not even looked at."""
    open_states = (State.PARTIAL, State.FAILED, State.NEW)
    with LedgerCache(home, OURS) as cache:
        cache.apply(
            rows(*[(thing(f"{n:05d}", str(n % 2)), entry(open_states[n % 3])) for n in range(5000)]), 5000
        )
        cache.apply(rows(*[(thing(f"{n:05d}x"), entry(State.DONE)) for n in range(5000)]), 10_000)
        assert [known.id.key for known in cache.unfinished()] == [f"{n:05d}" for n in range(5000)]
        behind = cache.unfinished(thing("01999", "1"))
        assert [known.id.key for known in behind] == [f"{n:05d}" for n in range(2000, 5000)]
        assert list(cache.unfinished(thing("04999", "1"))) == []
        plan = cache._select(f"EXPLAIN QUERY PLAN {UNFINISHED}", ("b", "k", "e", 10))
        assert [step[3].split(" (")[0] for step in plan] == ["SEARCH entries USING INDEX unfinished"]


STEPS = st.lists(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from([-1, 0, 1]), st.sampled_from([*State, None])),
        max_size=8,
    ),
    max_size=6,
)


@given(STEPS)
def test_the_cache_is_the_ledger_compacted(steps: list[list[tuple[str, int, State | None]]]) -> None:
    """Whatever comes in whatever batches: the last record of each key, and counts to match."""
    model: dict[LedgerKey, LedgerEntry] = {}
    with LedgerCache(CacheDirectory(path=None, is_shared=False), OURS) as cache:
        for number, step in enumerate(steps):
            batch: list[tuple[LedgerKey, LedgerEntry | None]] = []
            for key, begin, state in step:
                ledger_key: LedgerKey = thing(key) if begin < 0 else SplitKey(thing(key), begin, begin + 1)
                batch.append((ledger_key, None if state is None else entry(state)))
            cache.apply(rows(*batch), number)
            for ledger_key, found in batch:
                if found is None:
                    model.pop(ledger_key, None)
                else:
                    model[ledger_key] = found
            objects = {key: found for key, found in model.items() if isinstance(key, ObjectId)}
            assert {known.id: known.entry for known in cache.scan("b")} == objects
            states = [found.state for found in objects.values()]
            # Kept for one bucket at a time, whichever is asked for.
            for bucket in (None, "b") if number % 2 else ("b", None):
                assert cache.counts(bucket) == {state: states.count(state) for state in State}
            for key in "abc":
                slices = {k: v for k, v in model.items() if isinstance(k, SplitKey) and k.id == thing(key)}
                assert cache.splits(thing(key)) == slices


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param(b'{"bucket":"b","key":"k","etag":"e"}', b'{"v":2,"state":"done"}', id="newer"),
        pytest.param(b'{"bucket":"b","key":"k","etag":"e"}', b'{"v":1,"state":"asleep"}', id="unknown-state"),
        pytest.param(b'{"bucket":"b","key":"k","etag":"e"}', b"offset 7", id="no-json"),
        pytest.param(b'["connector",{"file":1}]', b'{"position":3}', id="connect-offsets"),
        pytest.param(b"", b"x", id="no-key"),
    ],
)
def test_what_is_not_ours_is_refused(home: CacheDirectory, key: bytes, value: bytes) -> None:
    """With nothing of the batch applied.

    Mutation tried: `row_state` without its comparison of `v` lets the first case through.
    """
    with LedgerCache(home, OURS) as cache:
        records: list[tuple[bytes, bytes | None]] = [
            (encode_key(thing("a")), encode_entry(entry())),
            (key, value),
        ]
        with pytest.raises(InvalidLedger):
            cache.apply(collect_rows(records), 2)
        assert cache.position is None
        assert cache.get(thing("a")) is None


def filled(home: CacheDirectory, identity: LedgerIdentity = OURS, *, at_end_ms: int | None = None) -> None:
    """A cache with one entry, closed without giving up its home."""
    cache = LedgerCache(home, identity)
    now_ms = int(time.time() * 1000) if at_end_ms is None else at_end_ms
    cache.apply(rows((thing("k"), entry())), 10, at_end_ms=now_ms)
    cache._database.close()


def is_kept(
    home: CacheDirectory, *, ends: tuple[int, int] = (0, 10), delete_retention_ms: int | None = WEEK_MS
) -> bool:
    """Whether opening the cache of OURS keeps what `filled` put there."""
    cache = open_cache(home, OURS, ends=ends, delete_retention_ms=delete_retention_ms)
    kept = cache.get(thing("k")) is not None
    assert (cache.position is not None) == kept, "entries and position go together"
    cache._database.close()
    return kept


@pytest.mark.parametrize(
    ("identity", "kept"),
    [
        pytest.param(OURS, True, id="ours"),
        pytest.param(
            LedgerIdentity(cluster_id="cluster", topic="ledger", topic_id="two"), False, id="made-again"
        ),
        pytest.param(
            LedgerIdentity(cluster_id="cluster", topic="other", topic_id="one"), False, id="other-topic"
        ),
        pytest.param(
            LedgerIdentity(cluster_id="moved", topic="ledger", topic_id="one"), False, id="other-cluster"
        ),
    ],
)
def test_the_cache_of_another_ledger_is_thrown_away(
    home: CacheDirectory,
    identity: LedgerIdentity,
    kept: bool,
) -> None:
    """Mutation tried: `_identify` that compares the names only keeps that of the topic made again."""
    filled(home, identity)
    assert found_identity(home) == identity
    assert is_kept(home) is kept


@pytest.mark.parametrize(("version", "kept"), [("1", False), (CACHE_VERSION, True), ("3", False)])
def test_the_cache_of_another_version_is_thrown_away(home: CacheDirectory, version: str, kept: bool) -> None:
    """Release 1.0.0, whose is the first, took what it has no word for from ours and began a ledger again.

    Which ledger it was made of is remembered all the same.
    """
    filled(home)
    assert home.path is not None
    with sqlite3.connect(home.path) as database:
        database.execute("UPDATE meta SET value = ? WHERE name = 'version'", (version,))
    database.close()
    assert found_identity(home) == OURS
    assert is_kept(home) is kept


@pytest.mark.parametrize(
    ("ends", "kept"),
    [((0, 10), True), ((10, 10), True), ((0, 9), False), ((11, 20), False), ((3, 300), True)],
)
def test_a_position_beyond_the_topic_throws_the_cache_away(
    home: CacheDirectory,
    ends: tuple[int, int],
    kept: bool,
) -> None:
    """A topic shorter than what was read of it has lost records; one that begins later, tombstones."""
    filled(home)
    assert is_kept(home, ends=ends) is kept


@pytest.mark.parametrize(
    ("age", "kept"), [(0.0, True), (0.49, True), (0.51, False), (3.0, False), (-0.01, False)]
)
def test_an_old_cache_is_thrown_away(home: CacheDirectory, age: float, kept: bool) -> None:
    """After half of delete.retention.ms a tombstone may have gone that the cache has not seen.

    One from the future is of an age that nobody knows: the wall clock was stepped back.
    """
    filled(home, at_end_ms=int(time.time() * 1000 - age * WEEK_MS))
    assert is_kept(home) is kept


def test_no_cache_is_too_old_where_tombstones_stay(home: CacheDirectory) -> None:
    """The topic forgets none that the cache has not seen."""
    filled(home, at_end_ms=int(time.time() * 1000 - 100 * WEEK_MS))
    assert is_kept(home, delete_retention_ms=None)


@pytest.mark.parametrize("damage", ["empty", "text", "header", "middle"])
def test_a_corrupt_file_is_thrown_away(home: CacheDirectory, damage: str) -> None:
    """Whatever is wrong with it, the ledger is read again and the service goes on."""
    assert home.path is not None
    filled(home)
    raw = bytearray(home.path.read_bytes())
    match damage:
        case "empty":
            raw.clear()
        case "text":
            raw[:] = b"this is no database" * 1000
        case "header":
            raw[:100] = bytes(100)
        case "middle":
            raw[1000:] = b"\xff" * (len(raw) - 1000)
    home.path.write_bytes(raw)
    assert not is_kept(home)
    assert not is_kept(home), "and the new file is sound"


def test_damage_met_while_reading_is_answered_by_reading_again(home: CacheDirectory) -> None:
    """Who reads waits for the content to be read again, instead of finding a known object new.

    Mutation tried: `_select` that gives [] on an error makes the waiting reader get None.
    """
    cache = LedgerCache(home, OURS)
    cache.apply(rows((thing("k"), entry())), 1)
    cache._database.execute("DROP TABLE entries")
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(cache.get, thing("k"))
        until_sync(lambda: cache.is_damaged, what="the damage was noticed")
        # As the follower does.
        cache.start_again()
        assert not cache.is_damaged
        cache.apply(rows((thing("k"), entry())), 1)
        assert not asked.done()
        cache.finish()
        assert asked.result(60) == entry()
    cache.close()


def test_a_full_disk_moves_the_cache_into_memory(home: CacheDirectory) -> None:
    """What was read before comes along, and the batch that did not fit is applied.

    Mutation tried: without `_move_into_memory` the OperationalError ends the follower.
    """
    with LedgerCache(home, OURS) as cache:
        cache.apply(rows((thing("before"), entry())), 1)
        # As a full disk answers: SQLITE_FULL at the next page.
        pages = cache._database.execute("PRAGMA page_count").fetchone()[0]
        cache._database.execute(f"PRAGMA max_page_count = {pages}")
        cache.apply(rows(*[(thing(f"{n}"), entry()) for n in range(2000)]), 2001)
        assert cache.get(thing("before")) == entry()
        assert cache.counts()[State.DONE] == 2001
        assert cache.position == 2001


def test_the_end_of_reading_ends_the_wait_for_it() -> None:
    """It would take five minutes, in which a service notices nothing else."""
    cache = LedgerCache(CacheDirectory(path=None, is_shared=False), OURS)
    cache.start_again()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(cache.counts)
        cache.end()
        with pytest.raises(Unavailable, match="could not be read again"):
            waiting.result(60)
    cache.close()


def test_a_lost_file_is_said_so(home: CacheDirectory) -> None:
    """When neither writing nor copying works, nothing that was read before may be trusted."""
    cache = LedgerCache(home, OURS)
    cache._database.close()
    with pytest.raises(CacheDamaged):
        cache.apply(rows((thing("k"), entry())), 1)


def test_one_process_has_the_folder(tmp_path: Path) -> None:
    """A second one gets a private place, which goes with it; the first keeps its own."""
    first, second = find_cache_directory(tmp_path, "a/name"), find_cache_directory(tmp_path, "a/name")
    assert first.path == tmp_path / "a%2Fname" / "ledger.sqlite3"
    assert first.is_shared
    assert second.path is not None
    assert not second.is_shared
    assert tmp_path not in second.path.parents
    second.close()
    assert not second.path.parent.exists()
    first.close()
    third = find_cache_directory(tmp_path, "a/name")
    assert third.is_shared, "the lock goes with the process that held it"
    third.close()


def test_what_a_killed_process_left_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what a living one has, in this process or another, nor what is being made, another's, or a link."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    making, elsewhere = tmp_path / f"{PRIVATE_PREFIX}making", tmp_path / "elsewhere"
    for folder in (making, elsewhere):
        folder.mkdir()
        (folder / "ledger.sqlite3").write_text("")
    (elsewhere / "lock").write_text("")
    (tmp_path / f"{PRIVATE_PREFIX}link").symlink_to(elsewhere)
    code = (
        "import sys, tempfile\n"
        "tempfile.tempdir = sys.argv[1]\n"
        "from headrace.kafka.cache_files import find_cache_directory\n"
        "home = find_cache_directory(None, 'name')\n"
        "home.path.write_text('')\n"
        "print(home.path, flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        path = Path(other.stdout.readline().strip())
        first = find_cache_directory(None, "name")
        assert path.exists(), "its process lives"
        other.kill()
        other.wait()
    second = find_cache_directory(None, "name")
    assert not path.parent.exists()
    assert first.path is not None
    assert first.path.parent.exists()
    assert making.exists()
    assert (elsewhere / "ledger.sqlite3").exists()
    for home in (first, second):
        home.close()


def test_who_has_the_folder_is_known_by_it(tmp_path: Path) -> None:
    """The next process with the lock has the same name; a copy of the folder and a private place have not."""
    first = find_cache_directory(tmp_path / "one", "name")
    private = find_cache_directory(tmp_path / "one", "name")
    name = first.instance_id()
    assert name is not None
    assert private.instance_id() is None
    first.close()
    assert first.instance_id() is None
    again = find_cache_directory(tmp_path / "one", "name")
    assert again.instance_id() == name
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    copy = find_cache_directory(tmp_path / "two", "name")
    assert copy.instance_id() not in {name, None}
    for home in (private, again, copy):
        home.close()


def test_an_unusable_state_dir_costs_a_re_read_only(tmp_path: Path) -> None:
    """A file where the folder should be, say: the cache lies elsewhere and works."""
    (tmp_path / "taken").write_text("")
    home = find_cache_directory(tmp_path / "taken", "name")
    assert not home.is_shared
    with LedgerCache(home, OURS) as cache:
        cache.apply(rows((thing("k"), entry())), 1)
        assert cache.get(thing("k")) == entry()
    home.close()


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_folder_that_takes_no_locks_is_no_other_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """As of some mounts of NFS: the line says what the system says; a private place needs none."""

    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with capture_logs() as lines:
        home = find_cache_directory(tmp_path, "name")
    assert not home.is_shared
    assert home.path is not None
    (line,) = lines
    assert line["event"] == "cache_relocated"
    assert line["reason"].startswith("state.dir cannot be used: ")
    assert os.strerror(code) in line["reason"]
    home.close()
    assert not home.path.parent.exists()


def test_the_identity_of_no_file_is_unknown(home: CacheDirectory) -> None:
    """A first start, and a file that is no cache, tell nothing."""
    assert found_identity(home) is None
    assert home.path is not None
    with sqlite3.connect(home.path) as database:
        database.execute("CREATE TABLE meta (name TEXT, value TEXT)")
    database.close()
    assert found_identity(home) is None


def test_what_another_bucket_has_left_is_not_counted_with_this_one() -> None:
    """A connector that was given another bucket showed the quarantined objects of the first one for ever."""
    other = ObjectId("other", "k", "e")
    with LedgerCache(CacheDirectory(path=None, is_shared=False), OURS) as cache:
        cache.apply(rows((thing("a"), entry()), (other, entry(State.QUARANTINED))), 1)
        assert cache.counts("b") == {**dict.fromkeys(State, 0), State.DONE: 1}
        cache.apply(rows((thing("c"), entry(State.QUARANTINED)), (other, entry())), 2)
        assert cache.counts("b")[State.QUARANTINED] == cache.counts("b")[State.DONE] == 1
        assert cache.counts("other") == {**dict.fromkeys(State, 0), State.DONE: 1}
        assert cache.counts()[State.DONE] == 2
        assert [known.id for known in cache.by_state(State.QUARANTINED, 9, bucket="b")] == [thing("c")]
        assert cache.by_state(State.QUARANTINED, 9, bucket="other") == []


def _quarantined(number: int, *, at: int) -> tuple[LedgerKey, LedgerEntry]:
    error = 'it says "{\u202e" \x00'
    return thing(f"{number:06}"), LedgerEntry(
        state=State.QUARANTINED, updated_ms=at, error=error, size=number
    )


def test_the_newest_of_many_quarantined_objects_come_first(home: CacheDirectory) -> None:
    """All are looked at, whatever the order of their keys and however many there are."""
    with LedgerCache(home, OURS) as cache:
        cache.apply(rows(*(_quarantined(number, at=number % 997) for number in range(3000))), 1)
        cache.apply(rows((thing("x", bucket="other"), _quarantined(0, at=5000)[1]), (thing("y"), entry())), 2)

        newest = cache.newest_quarantined("b", 3)
        assert [(one.entry.updated_ms, one.word) for one in newest] == [(996, "quarantined")] * 3
        assert {one.entry.size for one in newest} == {996, 1993, 2990}

        # One is replayed, one is quarantined again, and one more.
        again = [_quarantined(5, at=2000), _quarantined(9999, at=2001)]
        cache.apply(rows((thing("000996"), entry(State.NEW)), *again), 3)
        assert [one.entry.size for one in cache.newest_quarantined("b", 2)] == [9999, 5]
        assert {one.entry.size for one in cache.newest_quarantined("b", 4)} == {9999, 5, 1993, 2990}
        assert [one.key for one in cache.newest_quarantined("other", 9)] == ["x"]


def test_the_newest_quarantined_objects_are_found_without_the_others(home: CacheDirectory) -> None:
    """By an index in their order, so that a hundred thousand cost what fifty do."""
    with LedgerCache(home, OURS) as cache:
        plan = cache._select(f"EXPLAIN QUERY PLAN {NEWEST_QUARANTINED}", ("b", 50))
    assert [row[-1] for row in plan] == ["SEARCH entries USING INDEX quarantined (bucket=?)"]
