"""Where the tombstones of a topic's folder stand: what is asked of the bucket, and what is said of it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import pytest

from headrace.model.errors import ObjectMissing
from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.objects import ObjectId, PlacedTombstones, RowPlace, S3Object, SideObject
from headrace.model.positions import BytePosition, JoinedPosition
from ingest.service.tombstone_search import BucketCalls, FolderSearch
from ingest.source.catalogue.tombstones import FolderPlaces
from tests.headrace.formats.memory_source import MemorySource
from tests.headrace.options.loading import load_with
from tests.ingest.source.catalogue.desk import listed, object_id

_FOLDER: Final = "topics/t/"


def _value(start: int, side: str = "") -> str:
    return f"{_FOLDER}partition=0/t+0+{start:010}{side}.json"


def _gone(start: int, side: str = ".keys") -> str:
    return f"{_FOLDER}tombstone/t+0+{start:010}{side}.json"


def _keys(count: int) -> bytes:
    return b'"k"\n' * count


class _Bucket:
    """Objects and tags in memory; counts what is asked."""

    def __init__(
        self, objects: Mapping[str, bytes], tags: Mapping[str, Mapping[str, str]] | None = None
    ) -> None:
        self.objects = dict(objects)
        self.ledger: dict[ObjectId, LedgerEntry] = {}
        self.tags = tags or {}
        self.listings: list[str] = []
        self.read: list[str] = []

    def search(self, search: FolderSearch, folder: str = _FOLDER) -> FolderPlaces:
        """What is found of the folder."""
        return search.search(
            BucketCalls(self._listed, self._tags, self._source, lambda _: self.ledger.items()), folder
        )

    def _listed(self, prefix: str) -> Iterable[S3Object]:
        self.listings.append(prefix)
        return [listed(key) for key in sorted(self.objects) if key.startswith(prefix)]

    def _tags(self, seen: S3Object) -> Mapping[str, str]:
        return self.tags.get(seen.id.key, {})

    def _source(self, seen: S3Object) -> MemorySource:
        self.read.append(seen.id.key)
        return MemorySource(self.objects[seen.id.key], name=seen.id.url)


def _search(mode: str = "proven", **more: str) -> FolderSearch:
    bare: dict[str, str | None] = {"topic": None, "file.name.template": None}
    told = {name.replace("__", "."): value for name, value in more.items()}
    return FolderSearch(load_with({**bare, "input.layout": "confluent", "restore.tombstones": mode, **told}))


def test_a_folder_ends_where_the_sinks_delimiter_says() -> None:
    """Another topic's keys may begin like it, where that is no slash: they are none of its values."""

    def under(key: str) -> str:
        return key.replace("/", "_")

    other = "topics_t_u_partition=0_t_u+0+0000000000.json"
    bucket = _Bucket({under(_value(0)): b"", under(_value(0, ".keys")): _keys(1), other: b""})
    bucket.objects |= {under(_gone(1)): _keys(1)}
    bucket.ledger[object_id(other.replace("0000.json", "0009.json"))] = _done(1)
    (found,) = bucket.search(_search(directory__delim="_"), "topics_t_").tombstones

    assert [value.id.key for value in found.values] == [under(_value(0))]
    assert (found.unknown, found.own_from) == (None, 0)


def test_a_folder_without_tombstones_is_one_request() -> None:
    """Nothing of its values is listed or read."""
    bucket = _Bucket({_value(0): b"{}\n", _value(0, ".keys"): _keys(1)})

    assert bucket.search(_search()) == FolderPlaces(folder=_FOLDER)
    assert (bucket.listings, bucket.read) == ([f"{_FOLDER}tombstone/"], [])


def test_rows_are_counted_in_keys_once_and_not_where_tags_say_them() -> None:
    """Keys are small; a search that follows counts only what is new."""
    objects = {_value(start, side): _keys(2) for start in (0, 3) for side in ("", ".keys")}
    bucket = _Bucket(
        objects | {_gone(1): _keys(1), _gone(1, ".headers"): b""},
        {_value(0): {"startOffset": "0", "endOffset": "2", "recordCount": "2"}},
    )
    search = _search()
    (found,) = bucket.search(search).tombstones

    assert found.inserts == {_value(0): (RowPlace(1, 0, 1),)}
    assert (found.own_from, found.rows, found.unknown) == (1, 1, None)
    assert found.headers is not None
    assert [value.id.key for value in found.values] == [_value(0), _value(3)]
    assert sorted(bucket.read) == [_value(3, ".keys"), _gone(1)]
    bucket.search(search)
    assert len(bucket.read) == 2


def test_rows_behind_all_values_are_the_objects_own() -> None:
    """Two of them stand before the second value object, one behind it."""
    tags = {
        _value(start): {"startOffset": str(start), "endOffset": str(start), "recordCount": "1"}
        for start in (0, 3)
    }
    bucket = _Bucket({_value(0): b"{}\n", _value(3): b"{}\n", _gone(1): _keys(2), _gone(4): _keys(1)}, tags)
    first, last = bucket.search(_search()).tombstones

    assert (first.inserts, first.own_from) == ({_value(3): (RowPlace(0, 0, 2),)}, 2)
    assert (last.inserts, last.own_from) == ({}, 0)


@pytest.mark.parametrize("damage", [b'"k"', b"\x1f\x8b damaged"])
def test_what_cannot_be_counted_is_said_of_all_of_the_partition(damage: bytes) -> None:
    """One damaged object leaves the places of its neighbours open, and does not stop the search."""
    bucket = _Bucket({_value(0): b"{}\n", _gone(1): _keys(1), _gone(3): damage})
    found = bucket.search(_search()).tombstones

    assert [each.object.id.key for each in found] == [_gone(1), _gone(3)]
    assert all("is not proven" in (each.unknown or "") and _gone(3) in (each.unknown or "") for each in found)


def test_what_is_gone_since_it_was_listed_is_searched_again() -> None:
    """It is another folder by now."""

    class _Gone(MemorySource):
        def read_at(self, offset: int, length: int) -> bytes:
            del offset, length
            raise ObjectMissing("gone")

    calls = BucketCalls(
        lambda prefix: [listed(key) for key in (_gone(1),) if key.startswith(prefix)],
        lambda _seen: {},
        lambda seen: _Gone(b"x", name=seen.id.url),
        lambda _: (),
    )
    with pytest.raises(ObjectMissing):
        _search().search(calls, _FOLDER)


@pytest.mark.parametrize(("rows", "is_placed"), [(1000, True), (1001, False)])
def test_places_that_would_fill_the_ledger_are_held_back(rows: int, is_placed: bool) -> None:
    """Each run of rows stands in the entry of its value object, so that there is a bound to them."""
    # A value, a tombstone, a value ..: with one value object of all of them, each tombstone is a run.
    tags = {"startOffset": "0", "endOffset": str(2 * rows), "recordCount": str(rows + 1)}
    objects = {_value(0): b""} | {_gone(2 * row + 1): _keys(1) for row in range(rows)}
    found = _Bucket(objects, {_value(0): tags}).search(_search()).tombstones

    assert len(found) == rows
    assert all(each.inserts for each in found)
    assert {each.unknown is None for each in found} == {is_placed}


def test_after_needs_no_counts() -> None:
    """All rows are behind all values."""
    bucket = _Bucket({_value(0): b"{}\n", _gone(1): _keys(3)})
    (found,) = bucket.search(_search("after")).tombstones

    assert (found.own_from, found.inserts, found.unknown) == (0, {}, None)
    assert bucket.read == []


_FIRST: Final = (RowPlace(1, 0, 1),)
_BOTH: Final = (RowPlace(1, 0, 2),)
_SECOND: Final = (RowPlace(2, 1, 1),)


def _with(places: tuple[RowPlace, ...], state: State, *, sent: int, reason: str | None = None) -> LedgerEntry:
    """A value object that tombstones were merged into, `sent` of which are in Kafka."""
    placed = PlacedTombstones(SideObject(_gone(1), "1", 10), None, places)
    position = JoinedPosition(BytePosition(9), 2, sent)
    return LedgerEntry(state=state, reason=reason, position=position, tombstones=(placed,), size=9)


@pytest.mark.parametrize(
    ("entry", "own_from", "is_named"),
    [
        (_with(_FIRST, State.DONE, sent=1), 1, True),
        (_with(_FIRST, State.PARTIAL, sent=0), 1, True),
        (_with(_FIRST, State.QUARANTINED, sent=0), 1, True),
        (_with(_BOTH, State.DONE, sent=2), 2, True),
        # What has ended before its last row has no more of them than its position says.
        (_with(_BOTH, State.SKIPPED, sent=1, reason="missing"), 1, False),
        (_with(_FIRST, State.SKIPPED, sent=0, reason="missing"), 0, False),
        (_with(_BOTH, State.DONE, sent=1, reason="marked"), 1, False),
        # A replay from the start has forgotten them, and so has an attempt before the first row.
        (LedgerEntry(state=State.NEW, size=9), 0, False),
        (replace(_with(_BOTH, State.FAILED, sent=0), position=None), 0, False),
    ],
)
@pytest.mark.parametrize("is_there", [True, False])
def test_after_leaves_out_what_was_merged_while_proven_was_set(
    entry: LedgerEntry, own_from: int, is_named: bool, is_there: bool
) -> None:
    """Or it would be sent a second time, after values of its keys that came later."""
    bucket = _Bucket({_gone(1): _keys(2)} | ({_value(0): b"{}\n"} if is_there else {}))
    bucket.ledger[object_id(_value(0))] = entry
    (found,) = bucket.search(_search("after")).tombstones

    assert (found.own_from, found.unknown) == (own_from, None)
    assert (found.own_from < found.rows) is (own_from < 2)
    assert found.inserts == ({_value(0): entry.tombstones[0].places} if is_named else {})


def test_after_holds_back_what_was_merged_with_rows_before_that_were_not() -> None:
    """A tombstone object is sent from one row on; a replay of both from their starts has all in order."""
    bucket = _Bucket({_value(0): b"{}\n", _value(10): b"{}\n", _gone(1): _keys(2)})
    bucket.ledger[object_id(_value(10))] = _with(_SECOND, State.DONE, sent=1)
    (found,) = bucket.search(_search("after")).tombstones

    assert found.unknown is not None
    assert f"replay it with --from-start, and these: s3://bucket/{_value(10)}" in found.unknown
    bucket.ledger[object_id(_value(0))] = _with(_FIRST, State.PARTIAL, sent=0)
    (found,) = bucket.search(_search("after")).tombstones
    assert (found.own_from, found.rows, found.unknown) == (2, 2, None)


@pytest.mark.parametrize(("state", "is_certain"), [(State.DONE, True), (State.PARTIAL, False)])
def test_after_does_not_wait_for_another_version_of_a_value_object(state: State, is_certain: bool) -> None:
    """What an overwritten one has of them is certain once it has ended."""
    bucket = _Bucket({_value(0): b"{}\n", _gone(1): _keys(2)})
    bucket.ledger[object_id(_value(0), "older")] = _with(_FIRST, state, sent=1)
    (found,) = bucket.search(_search("after")).tombstones

    assert (found.unknown is None) is is_certain
    assert found.inserts == {}
    assert not is_certain or (found.own_from, found.rows) == (1, 2)


def test_after_leaves_what_cannot_be_counted_to_who_reads_it() -> None:
    """Rows before are in Kafka; the object is quarantined with what is wrong, not its neighbours."""
    bucket = _Bucket({_value(0): b"{}\n", _gone(1): b'"k"'})
    bucket.ledger[object_id(_value(0))] = _with(_FIRST, State.DONE, sent=1)
    (found,) = bucket.search(_search("after")).tombstones

    assert (found.own_from, found.rows, found.unknown) == (1, 2, None)


def _done(rows: int, *tombstones: PlacedTombstones, state: State = State.DONE) -> LedgerEntry:
    position = JoinedPosition(BytePosition(9), rows)
    return LedgerEntry(state=state, records=rows, position=position, tombstones=tombstones, size=9)


def test_what_post_action_has_deleted_counts_in_the_proof() -> None:
    """The bucket shows no value, so the tombstone seemed to stand behind all: it deleted a live key."""
    bucket = _Bucket({_gone(1): _keys(1)})
    bucket.ledger[object_id(_value(0))] = _done(2)
    bucket.ledger[object_id(_value(3))] = _done(1)
    (found,) = bucket.search(_search()).tombstones

    assert found.inserts == {_value(0): (RowPlace(1, 0, 1),)}
    assert [value.id.key for value in found.values] == [_value(0), _value(3)]
    assert (found.own_from, found.unknown) == (1, None)


def test_a_value_object_that_is_gone_is_as_long_as_its_tags_said() -> None:
    """They were read while it was there: what is behind it is certain still."""
    tags = {_value(0): {"startOffset": "0", "endOffset": "2", "recordCount": "2"}}
    bucket = _Bucket({_value(0): b"", _gone(1): _keys(1)}, tags)
    search = _search()
    bucket.search(search)
    del bucket.objects[_value(0)]
    bucket.objects[_gone(3)] = _keys(1)
    bucket.ledger[object_id(_value(0))] = _done(2)

    assert [each.unknown for each in bucket.search(search).tombstones] == [None, None]


@pytest.mark.parametrize(
    "entry",
    [
        LedgerEntry(state=State.DONE, reason="marked", size=9),
        LedgerEntry(state=State.DONE, records=2, position=BytePosition(9), size=9),
        _done(1, state=State.PARTIAL),
    ],
)
def test_a_value_object_that_is_gone_and_was_not_counted_leaves_all_open(entry: LedgerEntry) -> None:
    """Its rows may be anywhere behind its first offset."""
    bucket = _Bucket({_gone(5): _keys(1)})
    bucket.ledger[object_id(_value(0))] = entry
    (found,) = bucket.search(_search()).tombstones

    assert found.unknown is not None
    assert _value(0) in found.unknown


def test_what_was_never_begun_and_is_gone_does_not_count() -> None:
    """None of its rows is in Kafka; nor are side objects, other versions or other partitions values."""
    bucket = _Bucket({_gone(5): _keys(1), _value(7): b"", _value(7, ".keys"): _keys(1)})
    bucket.ledger[object_id(_value(0))] = LedgerEntry(state=State.SKIPPED, reason="missing", size=9)
    bucket.ledger[object_id(_value(0, ".keys"))] = LedgerEntry(state=State.SKIPPED, reason="joined", size=9)
    bucket.ledger[object_id(_value(7), "older")] = _done(9)
    (found,) = bucket.search(_search()).tombstones

    assert found.inserts == {_value(7): (RowPlace(0, 0, 1),)}
    assert found.unknown is None


def test_rows_that_the_ledger_knows_to_be_merged_need_no_proof() -> None:
    """A restart finds the object that they were merged into deleted, and its tags with it."""
    placed = PlacedTombstones(SideObject(_gone(1), "1", 10), None, (RowPlace(1, 0, 2),))
    bucket = _Bucket({_gone(1): _keys(2)})
    bucket.ledger[object_id(_value(0))] = _done(2, placed)
    (found,) = bucket.search(_search()).tombstones

    assert (found.unknown, found.rows, found.own_from) == (None, 2, 2)
    assert found.inserts == {_value(0): (RowPlace(1, 0, 2),)}
