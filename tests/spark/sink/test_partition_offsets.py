from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.columns import Numbers
from headrace.model.sink_entries import ObjectState, PartitionCheckpoint, SealedObject, Upload
from headrace.model.sink_protocol import EarlierGroups
from ingest.sink.starting import grant_of, removable
from spark.sink.partition_offsets import Mask, PartitionCommit, PartitionOffsets
from tests.spark.sink.granted import NOW, offsets_of
from tests.support.examples import examples, max_examples


class TestWhatIsReadAgain:
    """Which records are passed over after a crash."""

    def test_a_group_is_done_up_to_its_last_object(self) -> None:
        """By the options in force and by earlier ones, each for itself."""
        one = offsets_of(
            2, done=(("a", 4),), highest=7, earlier=(EarlierGroups(options="old", done=(("x", 7),)),)
        )
        read = np.array([2, 4, 5, 8])
        assert one.earlier == ("old",)
        assert _rows(one.unarchived("a", read), read) == [5, 8]
        assert one.unarchived("b", read) is None
        assert _rows(one.unarchived("x", read, options="old"), read) == [8]

    def test_a_listed_dead_letter_is_not_read_again(self) -> None:
        """Even if it could be converted now; nor is what lies below the position."""
        one = offsets_of(2, highest=4, dead_letters=(4,))
        read = np.array([1, 2, 4, 5])
        assert _rows(one.unread(read), read) == [2, 5]
        assert one.unread(np.array([5, 6])) is None

    def test_a_record_that_fails_now_and_is_not_listed_stops_the_partition(self) -> None:
        """At or below the highest offset that anything covers; above it is a bad record as any."""
        one = offsets_of(2, highest=4, dead_letters=(3,))
        assert one.refuse_changed([3]) is None
        assert one.refuse_changed([5, 9]) is None
        assert one.refuse_changed([5, 4, 2]) == 2

    def test_replaying_ends_above_the_highest(self) -> None:
        """From there on nothing can be archived already."""
        one = offsets_of(2, highest=4)
        assert one.is_replaying
        one.advance(5)
        assert not one.is_replaying


class TestCommit:
    """What a transaction says."""

    def test_the_lowest_open_object_holds_the_offset_back(self) -> None:
        """And without one it is the position."""
        one = offsets_of()
        one.open("A", "a", 0)
        one.open("B", "b", 1)
        one.advance(4)
        one.seal("B", 3)
        commit = one.commit()
        assert (commit.objects, commit.checkpoint.offset, commit.checkpoint.highest) == (("B",), 0, 3)
        one.committed(commit)
        one.seal("A", 2)
        commit = one.commit()
        assert (commit.objects, commit.checkpoint.offset, commit.checkpoint.highest) == (("A",), 4, 3)

    def test_an_object_waits_for_the_earlier_one_of_its_group(self) -> None:
        """Its entry would say that the group is archived up to its end."""
        one = offsets_of()
        one.open("A1", "a", 0)
        one.advance(2)
        one.open("A2", "a", 2)
        one.advance(4)
        one.seal("A2", 3)
        assert one.commit().objects == ()
        one.seal("A1", 1)
        assert one.commit().objects == ("A1", "A2")

    def test_objects_of_one_group_that_overlap_are_committed_together(self) -> None:
        """A record of the open one could lie below the end of the other."""
        one = offsets_of()
        one.open("A1", "a", 0)
        one.open("A2", "a", 1)
        one.advance(4)
        one.seal("A1", 2)
        assert one.commit().objects == ()
        one.seal("A2", 3)
        assert one.commit().objects == ("A1", "A2")

    def test_groups_that_mean_nothing_after_a_crash_close_together(self) -> None:
        """None of them while a record below its last one is in an object that is open."""
        one = offsets_of(closes_together=True)
        one.open("A", "10h", 0)
        one.open("B", "11h", 1)
        one.advance(3)
        one.seal("A", 2)
        assert one.commit().objects == ()
        one.seal("B", 1)
        commit = one.commit()
        assert (commit.objects, commit.checkpoint.offset) == (("A", "B"), 3)

    def test_what_is_opened_behind_them_does_not_hold_them_back(self) -> None:
        """Else a partition that always has an open object would never commit."""
        one = offsets_of(closes_together=True)
        one.open("A", "10h", 0)
        one.open("B", "11h", 1)
        one.advance(3)
        one.seal("A", 2)
        one.seal("B", 1)
        one.open("C", "10h", 3)
        one.advance(5)
        commit = one.commit()
        assert (commit.objects, commit.checkpoint.offset) == (("A", "B"), 3)

    def test_the_oldest_are_committed_first_where_not_all_are(self) -> None:
        """The offset is that of the first of the others."""
        one = offsets_of()
        for number, group in enumerate("abab"):
            one.open(f"{number}", group, number)
            one.seal(f"{number}", number)
            one.advance(number + 1)
        commit = one.commit(most=3)
        assert (commit.objects, commit.checkpoint.offset) == (("0", "1", "2"), 3)
        one.committed(commit)
        assert one.commit(most=0).objects == ()
        assert one.commit(most=3).objects == ("3",)

    @pytest.mark.parametrize("closes_together", [False, True])
    def test_what_overlaps_is_committed_whole(self, *, closes_together: bool) -> None:
        """However few may be: an entry covers all of its group that lies below its end."""
        one = offsets_of(closes_together=closes_together)
        for number, (first, last) in enumerate([(0, 2), (1, 4), (3, 3), (5, 5)]):
            one.open(f"{number}", "a", first)
            one.seal(f"{number}", last)
        one.advance(6)
        commit = one.commit(most=1)
        assert (commit.objects, commit.checkpoint.offset) == (("0", "1", "2"), 5)

    def test_a_dead_letter_is_listed_until_the_offset_has_passed_it(self) -> None:
        """It is produced once, in the transaction that lists it first."""
        one = offsets_of()
        one.open("A", "a", 0)
        one.add_dead_letter(1)
        one.advance(2)
        commit = one.commit()
        assert (commit.dead_letters, commit.checkpoint.dead_letters) == ((1,), (1,))
        assert (commit.checkpoint.offset, commit.checkpoint.highest) == (0, 1)
        one.committed(commit)
        one.seal("A", 0)
        commit = one.commit()
        assert (commit.dead_letters, commit.checkpoint.dead_letters) == ((), ())

    def test_what_lies_below_the_position_cannot_be_opened(self) -> None:
        """A commit in between would have passed it."""
        one = offsets_of()
        one.advance(3)
        with pytest.raises(AssertionError, match="below the position"):
            one.open("A", "a", 2)
        with pytest.raises(AssertionError, match="below the position"):
            one.add_dead_letter(2)

    def test_an_offset_that_has_moved_is_news(self) -> None:
        """Of records that were passed over, or left out, a commit says no more than that."""
        one = offsets_of(2, done=(("a", 3),), highest=3)
        assert not one.has_news
        assert not one.is_news(one.commit())
        one.advance(4)
        assert one.has_news
        assert one.is_news(one.commit())
        one.committed(one.commit())
        assert not one.has_news
        assert not one.is_news(one.commit())

    def test_an_open_object_is_no_news_until_it_is_sealed_or_a_dead_letter_comes(self) -> None:
        """A commit is put together only then: a slot asks ten times a second for each of its partitions."""
        one = offsets_of()
        one.open("A", "a", 0)
        one.advance(2)
        assert not one.has_news
        one.add_dead_letter(2)
        assert one.has_news
        one.advance(3)
        one.committed(one.commit())
        assert not one.has_news
        one.seal("A", 1)
        assert one.has_news

    def test_entries_are_the_groups_above_the_offset(self) -> None:
        """Those that a slot needs that takes over; the oldest open object keeps them there."""
        one = offsets_of()
        for number, group in enumerate("abc"):
            one.open(group, group, number)
        one.advance(3)
        one.seal("b", 1)
        one.seal("c", 2)
        one.committed(one.commit())
        assert (one.entries, one.oldest_open()) == (2, "a")
        one.open("d", "d", 3)
        one.seal("a", 0)
        # The next transaction has it: to close another one would not help, and d is not full.
        assert (one.entries, one.oldest_open()) == (2, None)
        one.committed(one.commit())
        assert (one.entries, one.oldest_open()) == (0, "d")


def _rows(mask: Mask | None, read: Numbers) -> list[int]:
    return [int(one) for one in (read if mask is None else read[mask])]


@dataclass
class Partition:
    """A partition, its ledger and its bucket, with a slot that may crash at any moment.

    `groups` has the group of each record by its offset, None for a bad one.
    """

    groups: list[str | None]
    closes_together: bool
    fold: bool = True
    checkpoint: PartitionCheckpoint = field(
        default_factory=lambda: PartitionCheckpoint(topic="t", partition=0, topic_id="id", offset=0)
    )
    entries: dict[str, SealedObject] = field(default_factory=dict)
    archived: Counter[int] = field(default_factory=Counter)
    lettered: Counter[int] = field(default_factory=Counter)
    next_id: int = 0
    stopped: bool = False
    readings: int = 0

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """A slot takes up what the ledger says; nothing else is left of the one before."""
        entries = tuple(self.entries.values())
        self.readings += 1
        self.slot = PartitionOffsets(
            grant_of(self.checkpoint, entries, options=NOW),
            options=NOW,
            closes_together=self.closes_together,
        )
        self.open: dict[str, tuple[str, list[int]]] = {}
        self.closed: set[str] = set()
        self.sealed: set[str] = set()

    def read(self, records: int) -> None:
        """Read so many records, and put each where it belongs."""
        for offset in range(self.slot.position, min(self.slot.position + records, len(self.groups))):
            if not self._read_one(offset):
                self.stopped = True
                return
            self.slot.advance(offset + 1)

    def _read_one(self, offset: int) -> bool:
        group, alone = self.groups[offset], np.array([offset])
        if self.slot.unread(alone) is not None:
            return True
        if group is None:
            if self.slot.refuse_changed([offset]) is not None:
                return False
            self.slot.add_dead_letter(offset)
            return True
        if self.closes_together:
            # By a clock, a record comes into another group whenever it is read again.
            group = f"{group}{self.readings}"
        if self.slot.unarchived(group, alone) is not None:
            return True
        for object_id, (of, offsets) in self.open.items():
            if of == group and object_id not in self.closed:
                offsets.append(offset)
                return True
        object_id, self.next_id = f"{self.next_id}", self.next_id + 1
        self.slot.open(object_id, group, offset)
        self.open[object_id] = (group, [offset])
        return True

    def close(self, which: int) -> None:
        """One of the open objects gets no more records; its last parts are on their way."""
        unclosed = [one for one in self.open if one not in self.closed]
        if unclosed:
            self.closed.add(unclosed[which % len(unclosed)])

    def seal(self, which: int) -> None:
        """All parts of one of the open objects are sent."""
        unsealed = [one for one in self.open if one not in self.sealed]
        if unsealed:
            object_id = unsealed[which % len(unsealed)]
            self.closed.add(object_id)
            self.sealed.add(object_id)
            self.slot.seal(object_id, self.open[object_id][1][-1])

    def commit(self, *, crash: bool, most: int | None = None) -> None:
        """A transaction; with `crash` its answer is never seen, and another slot takes over."""
        commit = self.slot.commit(most=most)
        for object_id in commit.objects:
            group, offsets = self.open.pop(object_id)
            self.archived.update(offsets)
            self.entries[object_id] = _entry(object_id, group, offsets)
        self.lettered.update(commit.dead_letters)
        self.checkpoint = commit.checkpoint
        if self.fold:
            for gone in removable(self.checkpoint, self.entries.values()):
                del self.entries[gone.id]
        if crash:
            self.start()
        else:
            self._committed(commit)

    def _committed(self, commit: PartitionCommit) -> None:
        self.sealed.difference_update(commit.objects)
        self.slot.committed(commit)

    def abandon(self) -> None:
        """The slot gives up what is open and goes on by itself."""
        self.slot.abandon()
        self.readings += 1
        self.open, self.closed, self.sealed = {}, set(), set()

    def finish(self) -> None:
        """Nothing goes wrong any more."""
        self.read(len(self.groups))
        for _ in list(self.open):
            self.seal(0)
        self.commit(crash=False)


def _entry(object_id: str, group: str, offsets: list[int]) -> SealedObject:
    return SealedObject(
        id=object_id,
        topic="t",
        partition=0,
        topic_id="id",
        group=group,
        first_offset=offsets[0],
        last_offset=offsets[-1],
        records=len(offsets),
        bytes=1,
        uploads=(Upload(key=object_id, upload_id=object_id, parts=()),),
        options=NOW,
        sealed_ms=0,
        bucket="b",
        state=ObjectState.COMPLETE,
    )


RECORDS = st.lists(st.sampled_from(["a", "a", "b", None]), min_size=6, max_size=10)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["read", "close", "seal", "seal and commit", "commit", "commit unanswered", "crash", "abandon"]
        ),
        st.integers(0, 3),
    ),
    min_size=10,
    max_size=25,
)


def _act(partition: Partition, step: str, number: int) -> None:
    match step:
        case "read":
            partition.read(number + 1)
        case "close":
            partition.close(number)
        case "seal":
            partition.seal(number)
        case "seal and commit":
            partition.seal(number)
            partition.commit(crash=False)
        case "commit" | "commit unanswered":
            partition.commit(crash=step != "commit", most=number or None)
        case "crash":
            partition.start()
        case "abandon":
            partition.abandon()


@settings(max_examples=5 * max_examples(), deadline=None, derandomize=True)
@given(groups=RECORDS, steps=STEPS, closes_together=st.booleans(), fold=st.booleans())
def test_each_record_is_in_one_object_or_lettered_once(
    groups: list[str | None], steps: list[tuple[str, int]], *, closes_together: bool, fold: bool
) -> None:
    """Whatever crashes between whichever transactions."""
    partition = Partition(groups, closes_together, fold)
    for step, number in steps:
        _act(partition, step, number)
        assert not partition.stopped
    partition.finish()
    assert partition.archived == Counter(offset for offset, group in enumerate(groups) if group is not None)
    assert partition.lettered == Counter(offset for offset, group in enumerate(groups) if group is None)
    assert partition.checkpoint.offset == len(groups)


@settings(max_examples=examples(400), deadline=None, derandomize=True)
@given(groups=RECORDS, steps=STEPS)
def test_conversion_that_changes_repeats_and_loses_nothing(
    groups: list[str | None], steps: list[tuple[str, int]]
) -> None:
    """A record that fails now and did not, or the other way round: once, or the partition stops before it.

    Its group is the same whenever it is read: it follows from the record and the options.
    """
    partition = Partition(list(groups), closes_together=False)
    for step, number in steps:
        _act(partition, step, number)
        if step in {"crash", "commit unanswered"}:
            readable = groups[number] or "a"
            partition.groups[number] = readable if partition.groups[number] is None else None
        if partition.stopped:
            break
    if not partition.stopped:
        partition.finish()
    ends = partition.archived + partition.lettered
    below = partition.slot.committed_offset if partition.stopped else len(groups)
    assert all(times == 1 for times in ends.values())
    assert partition.stopped or set(ends) == set(range(len(groups)))
    assert all(offset in ends for offset in range(below))
