"""Where one granted partition is: what is archived already, what is open, what the next commit says.

Pure arithmetic of offsets. The rule that all of it serves: whatever is read again after a crash at any moment
is in no object and no dead letter, and whatever is not read again is in one.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import numpy as np
import numpy.typing as npt

from headrace.model.columns import Numbers
from headrace.model.sink_entries import NO_EPOCH, NONE_COVERED, PartitionCheckpoint
from headrace.model.sink_protocol import PartitionGrant

Mask = npt.NDArray[np.bool_]

MAX_ENTRIES: Final = 10_000
"""Above so many entries over its offset a partition closes the open object that holds the offset back."""
_DEAD_LETTERS_A_GROUP: Final = 3
# A checkpoint has room for those of one more fetch.
_MOST_ENTRIES: Final = MAX_ENTRIES * 5 // 4


@dataclass(slots=True)
class _Open:
    """An object that is not committed. `last_offset` is set once it is sealed."""

    id: str
    group: str
    first_offset: int
    last_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCommit:
    """What the next transaction says of the partition: these sealed objects, these new dead letters.

    The dead letters are produced in the same transaction; `checkpoint.dead_letters` has earlier ones too.
    """

    objects: tuple[str, ...]
    dead_letters: tuple[int, ...]
    checkpoint: PartitionCheckpoint


class PartitionOffsets:
    """One partition while a slot holds it.

    `options` is the hash of those in force. With `closes_together` (grouping that is not deterministic, or
    names that show what was open together) objects are committed up to an offset below which nothing is open:
    no record is skipped by its group.
    """

    def __init__(self, grant: PartitionGrant, *, options: str, closes_together: bool = False) -> None:
        self.position = grant.offset
        """The next record: everything below is in an open object, archived, or meant to be left out."""
        self._grant = grant
        self._options = options
        self.closes_together = closes_together
        """Whether what is committed has to lie wholly below what is not."""
        self._done = {earlier.options: dict(earlier.done) for earlier in grant.earlier}
        self._done[options] = dict(grant.done)
        self._committed = grant.offset
        self._highest = grant.highest
        self._epoch = self._known_epoch = grant.leader_epoch
        # Whether it says anything of what lies before an offset: not where Kafka has deleted that.
        self._is_proof = grant.leader_epoch != NO_EPOCH and grant.epoch_end <= grant.offset
        # Where the records or markers end of which it is the latest; above that were no records.
        self._epoch_end = grant.epoch_end if self._is_proof else grant.offset
        self._dead_letters = set(grant.dead_letters)
        self._new_dead_letters: set[int] = set()
        self._open: dict[str, _Open] = {}
        self._sealed = 0

    # -- reading ---------------------------------------------------------------------------------------------

    @property
    def is_replaying(self) -> bool:
        """True while records come that an object or a dead letter may cover already."""
        return self.position <= self._highest

    @property
    def highest(self) -> int:
        """The highest offset that an object or a dead letter covers."""
        return self._highest

    @property
    def earlier(self) -> tuple[str, ...]:
        """The hashes of the earlier options by which records are to be grouped too, while replaying."""
        return tuple(one for one in self._done if one != self._options)

    def unread(self, offsets: Numbers) -> Mask | None:
        """Which of the fetched records are to be converted; None for all of them.

        Not those below the position, and none that has a dead letter, even if it could be converted now.
        """
        if not len(offsets) or (offsets[0] >= self.position and not self._dead_letters):
            return None
        mask: Mask = offsets >= self.position
        if self._dead_letters:
            mask &= ~np.isin(offsets, np.fromiter(self._dead_letters, np.int64))
        return None if mask.all() else mask

    def note_epochs(self, runs: Sequence[tuple[int, int]], end: int) -> int | None:
        """Records up to `end` are read, `runs` are the first offsets and leader epochs of them.

        The offset of the first that is not what was read before: of a later epoch than the log had then, and
        covered by an object or a dead letter, or where no record was. None: there is none.
        """
        if not runs:
            return None
        known = self._known_epoch
        changed = None
        if known != NO_EPOCH:
            later = (offset for offset, epoch in runs if epoch > known)
            changed = next((offset for offset in later if self._was_read(offset)), None)
        # What is refused here is so at the next start as well: its epoch goes into no checkpoint.
        taken = [epoch for offset, epoch in runs if changed is None or offset < changed]
        if taken:
            # A later epoch than a record's proves as much of it as its own does.
            self._epoch = max(self._epoch, taken[-1])
            read = end if changed is None else changed
            if read > self._epoch_end:
                self._epoch_end, self._is_proof = read, True
        return changed

    def _was_read(self, offset: int) -> bool:
        """Whether this was read before: what an entry covers, and where no record was."""
        read = max(self._highest, self._grant.offset - 1)
        return offset <= read or self._epoch_end <= offset < self.position

    def read_to(self, position: int, epoch: int) -> int | None:
        """Nothing below is left to come: after the last record there may be markers of transactions.

        `epoch` is that of the last marker; NO_EPOCH: it is not known. The result as of `note_epochs`: a later
        one than the log had when an entry covered more than this is another log's. Nothing is taken of it.
        """
        if NO_EPOCH != self._known_epoch < epoch and self._was_read(position - 1):
            # Only a marker is known. What lies between is not, and no record of it is left to come.
            return self.position
        if epoch != NO_EPOCH:
            self._epoch, self._epoch_end = max(self._epoch, epoch), position
            self._is_proof = True
        self.advance(position)
        return None

    def deleted(self, first: int, end: int) -> int | None:
        """Kafka has deleted what lies between; the first of it that was not read.

        None: only markers of transactions lay there.
        """
        first = max(first, self.position)
        if first >= end:
            return None
        if end > self._epoch_end:
            self._epoch_end, self._is_proof = end, False
        return first

    @property
    def start(self) -> tuple[int, int]:
        """The offset to read from, and the leader epoch of what lies before it, or NO_EPOCH.

        Before the position, where only what has an unknown epoch, and no record, lies between the two.
        """
        return min(self.position, self._epoch_end), self._epoch if self._is_proof else NO_EPOCH

    def refuse_changed(self, faults: Iterable[int]) -> int | None:
        """The first of these records that fails now and did not when it was read before; None: there is none.

        Its group is not known, so it is not known whether an object has it: the partition stops there, with
        the reason `replay_changed`.
        """
        changed = (one for one in faults if one <= self._highest and one not in self._dead_letters)
        return min(changed, default=None)

    def unarchived(self, group: str, offsets: Numbers, *, options: str | None = None) -> Mask | None:
        """Which of a group's records are in no object yet; None for all of them.

        `group` is by the options in force, or by the earlier ones of this hash. A record is archived if any
        of them says so.
        """
        done = self._done[options or self._options].get(group, NONE_COVERED)
        if not len(offsets) or offsets[0] > done:
            return None
        mask: Mask = offsets > done
        return mask

    # -- filling ---------------------------------------------------------------------------------------------

    def open(self, object_id: str, group: str, first_offset: int) -> None:
        """An object was opened with this record, which is not below the position."""
        assert first_offset >= self.position, f"offset {first_offset} is below the position {self.position}"
        assert object_id not in self._open, f"object {object_id} is open"
        self._open[object_id] = _Open(object_id, group, first_offset)

    def add_dead_letter(self, offset: int) -> None:
        """The record becomes a dead letter with the next transaction."""
        assert offset >= self.position, f"offset {offset} is below the position {self.position}"
        self._new_dead_letters.add(offset)

    def advance(self, position: int) -> None:
        """Every record below is in an open object, a dead letter, or left out for good."""
        assert position >= self.position, f"the position goes back from {self.position} to {position}"
        self.position = position

    def seal(self, object_id: str, last_offset: int) -> None:
        """All parts of the object are sent: it goes into the next transaction that can have it."""
        self._open[object_id].last_offset = last_offset
        self._sealed += 1

    def oldest_open(self) -> str | None:
        """The open object that holds the committed offset back.

        None where a sealed one does, which a transaction is about to have: to close others would not help.
        """
        oldest = min(self._open.values(), key=lambda one: one.first_offset, default=None)
        return None if oldest is None or oldest.last_offset is not None else oldest.id

    @property
    def committed_offset(self) -> int:
        """Where a slot would begin that takes over now."""
        return self._committed

    @property
    def entries(self) -> int:
        """How much lies above the committed offset that a slot that takes over must know.

        Groups that have an entry there, and dead letters, which the checkpoint lists: it has to fit into one
        record of the ledger, so that a few of them count as one group.
        """
        # Those that the offset has passed are removed with each commit.
        dead_letters = len(self._dead_letters) + len(self._new_dead_letters)
        return sum(map(len, self._done.values())) + dead_letters // _DEAD_LETTERS_A_GROUP

    @property
    def is_crowded(self) -> bool:
        """Whether no more may be read: what holds the offset back is closed, and S3 has not taken it yet."""
        return self.entries > _MOST_ENTRIES

    # -- committing ------------------------------------------------------------------------------------------

    def commit(self, *, most: int | None = None) -> PartitionCommit:
        """What a transaction that begins now says. Objects that are sealed later wait for the next.

        With `most` those above so many wait as well, except for what is committed together or not at all.
        """
        objects = self._committable(most)
        chosen = {one.id for one in objects}
        still_open = (one.first_offset for one in self._open.values() if one.id not in chosen)
        offset = min(still_open, default=self.position)
        dead_letters = self._dead_letters | self._new_dead_letters
        covered = [one.last_offset for one in objects if one.last_offset is not None]
        highest = max([self._highest, *covered, *self._new_dead_letters])
        epoch, epoch_end = self._epoch_of(offset, highest)
        return PartitionCommit(
            objects=tuple(one.id for one in objects),
            dead_letters=tuple(sorted(self._new_dead_letters)),
            checkpoint=PartitionCheckpoint(
                topic=self._grant.topic,
                partition=self._grant.partition,
                topic_id=self._grant.topic_id,
                offset=offset,
                highest=highest,
                dead_letters=tuple(sorted(one for one in dead_letters if one >= offset)),
                options=self._options,
                is_made_again=self._grant.is_made_again,
                leader_epoch=epoch,
                epoch_end=epoch_end,
            ),
        )

    def _epoch_of(self, offset: int, highest: int) -> tuple[int, int]:
        """The leader epoch and `epoch_end` of a checkpoint."""
        if self.is_replaying and self._known_epoch == NO_EPOCH:
            # What is covered, and not read again yet, may be of a later one.
            return NO_EPOCH, offset
        if self._is_proof:
            return self._epoch, min(offset, self._epoch_end)
        is_covering = self._epoch != NO_EPOCH and highest >= offset
        return (self._epoch, highest + 1) if is_covering else (NO_EPOCH, offset)

    @property
    def has_news(self) -> bool:
        """Whether `commit` may say anything new: asked ten times a second where no records come."""
        if self._sealed or self._new_dead_letters:
            return True
        first_open = (one.first_offset for one in self._open.values())
        return min(first_open, default=self.position) != self._committed

    def is_news(self, commit: PartitionCommit) -> bool:
        """True for a commit that says something new: objects, dead letters, or only another offset.

        The last of these needs no transaction at once, but one before the slot gives the partition up.
        """
        return bool(commit.objects or commit.dead_letters) or commit.checkpoint.offset != self._committed

    def committed(self, commit: PartitionCommit) -> None:
        """The transaction with this is acknowledged: nothing was opened, sealed or read since."""
        done = self._done[self._options]
        for object_id in commit.objects:
            gone = self._open.pop(object_id)
            assert gone.last_offset is not None, "only what is sealed is committed"
            self._sealed -= 1
            done[gone.group] = max(done.get(gone.group, NONE_COVERED), gone.last_offset)
        checkpoint = commit.checkpoint
        self._committed = checkpoint.offset
        self._highest = checkpoint.highest
        self._known_epoch = checkpoint.leader_epoch
        self._dead_letters = set(checkpoint.dead_letters)
        self._new_dead_letters -= set(commit.dead_letters)
        for of_options in self._done.values():
            passed = [group for group, last in of_options.items() if last < self._committed]
            for group in passed:
                del of_options[group]

    def abandon(self) -> None:
        """Give up everything that is not committed: reading continues at the committed offset."""
        self._open.clear()
        self._sealed = 0
        self._new_dead_letters.clear()
        self.position = self._committed

    def _committable(self, most: int | None) -> list[_Open]:
        """The sealed objects that can be committed without those that are still open; the first of them.

        An entry says that its group is archived up to its last offset. So nothing of the group that lies
        below may still be open; and where groups mean nothing after a crash, nothing of the partition.
        """
        if not self._sealed or most == 0:
            return []
        found = [_below_a_cut(self._open.values())] if self.closes_together else self._of_groups()
        if most is not None and sum(map(len, found)) > most:
            found = [_first(found, most)]
        return sorted((one for group in found for one in group), key=_order)

    def _of_groups(self) -> list[list[_Open]]:
        groups: dict[str, list[_Open]] = defaultdict(list)
        for one in self._open.values():
            groups[one.group].append(one)
        return [list(_prefix(group)) for group in groups.values()]


def _below_a_cut(objects: Iterable[_Open]) -> list[_Open]:
    """The sealed objects that lie wholly below all others."""
    ordered = sorted(objects, key=_order)
    found: list[_Open] = []
    end = -1
    for place, one in enumerate(ordered):
        if one.last_offset is None:
            break
        end = max(end, one.last_offset)
        if place + 1 == len(ordered) or end < ordered[place + 1].first_offset:
            found = ordered[: place + 1]
    return found


def _first(groups: Iterable[list[_Open]], most: int) -> list[_Open]:
    """So many of these, the oldest first, and those that lie between them in their group."""
    found: list[_Open] = []
    for together in sorted(
        (each for group in groups for each in _apart(group)), key=lambda one: _order(one[0])
    ):
        if len(found) >= most:
            break
        found += together
    return found


def _apart(ordered: list[_Open]) -> Iterator[list[_Open]]:
    """The objects of a group, which are sealed, by the places where all before lie wholly below all after."""
    begin, end = 0, -1
    for place, one in enumerate(ordered):
        if begin < place and end < one.first_offset:
            yield ordered[begin:place]
            begin = place
        end = max(end, one.last_offset or 0)
    if begin < len(ordered):
        yield ordered[begin:]


def _order(one: _Open) -> tuple[int, str]:
    return one.first_offset, one.id


def _prefix(group: list[_Open]) -> Iterator[_Open]:
    """The first objects of a group that are sealed and lie wholly below the others."""
    ordered = sorted(group, key=_order)
    sealed = [one for one in ordered if one.last_offset is not None]
    if len(sealed) == len(ordered):
        yield from ordered
        return
    first_open = next(place for place, one in enumerate(ordered) if one.last_offset is None)
    ends = list(accumulate((one.last_offset or 0 for one in ordered[:first_open]), max))
    for place in range(first_open, 0, -1):
        if ends[place - 1] < ordered[place].first_offset:
            yield from ordered[:place]
            return
