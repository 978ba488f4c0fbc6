"""The ledger as the catalogue sees it: the cache, with what is committed on top; what listings do not show.

Where all objects are deleted once they were read, the entries that full listings do not show are one range
of the ledger's order, however many there are.
"""

import heapq
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple, Protocol

from headrace.model.ledger_entry import LedgerEntry, LedgerKey, SplitKey, State
from headrace.model.objects import ObjectId

Entries = Iterator[tuple[ObjectId, LedgerEntry]]


class KnownEntry(Protocol):
    """An object's entry, decoded only when it is looked into: a listing passes those of all objects."""

    @property
    def key(self) -> str:
        """The object's key."""

    @property
    def etag(self) -> str:
        """Its ETag."""

    @property
    def id(self) -> ObjectId:
        """The object."""

    @property
    def is_done(self) -> bool:
        """Whether the entry's state is `done`."""

    @property
    def is_settled(self) -> bool:
        """Whether nothing more is owed for the object (`LedgerEntry.is_settled`)."""

    @property
    def changed_ms(self) -> int:
        """When the entry was written, or the object, whichever is later (`LedgerEntry.changed_ms`)."""

    @property
    def entry(self) -> LedgerEntry:
        """The whole entry."""


@dataclass(frozen=True, slots=True)
class DecodedEntry:
    """A `KnownEntry` that is no bytes any more, or none yet."""

    id: ObjectId
    entry: LedgerEntry

    @property
    def key(self) -> str:
        """See `KnownEntry`."""
        return self.id.key

    @property
    def etag(self) -> str:
        """See `KnownEntry`."""
        return self.id.etag

    @property
    def is_done(self) -> bool:
        """See `KnownEntry`."""
        return self.entry.state is State.DONE

    @property
    def is_settled(self) -> bool:
        """See `KnownEntry`."""
        return self.entry.is_settled

    @property
    def changed_ms(self) -> int:
        """See `KnownEntry`."""
        return self.entry.changed_ms


UNFINISHED = frozenset({State.PARTIAL, State.FAILED, State.NEW})

# More than a transaction of the driver and a batch of every slot have together. A few hundred bytes each.
_MOST_REMEMBERED: Final = 20_000


# S3's keys have at most 1,024 bytes; the last code point has four.
_LAST: Final = "\U0010ffff"
_LONGEST: Final = 256
# What is between them is nothing that UTF-8 can write.
_BEFORE_SURROGATES: Final = 0xD7FF
_AFTER_SURROGATES: Final = 0xE000


def last_below(prefix: str) -> str:
    """A key that no key with this beginning sorts after."""
    return prefix + _LAST * _LONGEST


def place_before(key: str) -> str | None:
    """The highest bound of a scan that leaves out nothing which begins with `key`; None: no bound."""
    if not key:
        return None
    rest, code = key[:-1], ord(key[-1])
    if code == 0:
        return rest
    before = _BEFORE_SURROGATES if code == _AFTER_SURROGATES else code - 1
    return f"{rest}{chr(before)}{_LAST}"


class LedgerView(Protocol):
    """What a read-committed read of the ledger has given so far. Entries of objects only, unless said."""

    def get(self, object_id: ObjectId, /) -> LedgerEntry | None:
        """The entry of one object."""

    def scan(self, bucket: str, after_key: str | None, through_key: str | None, /) -> Iterator[KnownEntry]:
        """Entries with `after_key` < key <= `through_key` (None: no bound), by key, then ETag.

        It is read to the end before anything is written to the view.
        """

    def splits(self, object_id: ObjectId, /) -> Sequence[tuple[SplitKey, LedgerEntry]]:
        """The entries of an object's splits, in any order."""

    def unfinished(self, after: ObjectId | None, /) -> Entries:
        """Entries in partial, failed or new of the objects after `after`, in order of bucket, key, ETag."""


class Overlay:
    """The view with the commits on top that were acknowledged but not yet read back.

    An entry leaves the overlay when the follower reads exactly it; everything later for that key has passed
    through `committed` as well, except what a lost task wrote, for which `forget` gives way to the view.

    What the follower has read before the report of it came (both take milliseconds) never enters: objects are
    many, so that what stayed would be memory lost. So the last record of each key that was read and
    took nothing out is remembered until its report comes. Where none is remembered, the record is still to be
    read, and no database need be asked for each object. This holds as `applied` hears of everything that
    `committed` hears of: the follower is live before anything is planned or written (`take_over` ends so).
    Reports of a key come in the ledger's order, and a tombstone is written only after the one before.

    The view is asked in doubt: when several records of a key are under way; for a tombstone, as one is like
    the other; and for all once the memory, which is bounded, had to let go of a key.
    """

    def __init__(self, view: LedgerView, *, most_remembered: int = _MOST_REMEMBERED) -> None:
        self._view = view
        self._ahead: dict[LedgerKey, LedgerEntry | None] = {}
        self._read: OrderedDict[LedgerKey, LedgerEntry | None] = OrderedDict()
        self._most_remembered = most_remembered
        self._has_let_go = False

    def __len__(self) -> int:
        return len(self._ahead)

    def committed(self, key: LedgerKey, entry: LedgerEntry | None) -> None:
        """A commit with this record was acknowledged."""
        if self._is_read(key, entry):
            # The follower was quicker: nothing would ever come to take it out again.
            self._ahead.pop(key, None)
            self._read.pop(key, None)
        else:
            self._ahead[key] = entry

    def _is_read(self, key: LedgerKey, entry: LedgerEntry | None) -> bool:
        if key not in self._read:
            return self._has_let_go and entry is not None and self._shown(key) == entry
        # With another one ahead it may be an older record that says the same.
        is_it = key not in self._ahead and self._read[key] == entry
        if entry is None:
            # Nothing is what a view shows that has not come to the record before, too: both have to say so.
            return is_it and self._shown(key) is None
        return is_it or self._shown(key) == entry

    def _shown(self, key: LedgerKey) -> LedgerEntry | None:
        if isinstance(key, SplitKey):
            return dict(self._view.splits(key.id)).get(key)
        return self._view.get(key) if isinstance(key, ObjectId) else None

    def applied(self, key: LedgerKey, entry: LedgerEntry | None) -> None:
        """The follower has read this record, and the view shows it."""
        if key in self._ahead and self._ahead[key] == entry:
            del self._ahead[key]
            # Reports come in order: what was remembered is older, and its own has come.
            self._read.pop(key, None)
            return
        self._read[key] = entry
        self._read.move_to_end(key)
        if len(self._read) > self._most_remembered:
            self._read.popitem(last=False)
            self._has_let_go = True

    def forget(self, key: LedgerKey) -> None:
        """The view was read to the end after a fence: what it says of this key is final."""
        self._ahead.pop(key, None)
        self._read.pop(key, None)

    def not_read_back(self, bucket: str, prefix: str) -> Iterator[ObjectId]:
        """Objects whose newest entries the view does not show yet."""
        for key in self._ahead:
            if isinstance(key, ObjectId) and key.bucket == bucket and key.key.startswith(prefix):
                yield key

    def get(self, object_id: ObjectId) -> LedgerEntry | None:
        """The newest entry known of an object."""
        if object_id in self._ahead:
            return self._ahead[object_id]
        return self._view.get(object_id)

    def scan(self, bucket: str, after_key: str | None, through_key: str | None) -> Iterator[KnownEntry]:
        """As `LedgerView.scan`, with the newest entries known."""
        ahead = {
            key: entry
            for key, entry in self._ahead.items()
            if isinstance(key, ObjectId)
            and key.bucket == bucket
            and (after_key is None or key.key > after_key)
            and (through_key is None or key.key <= through_key)
        }
        entries = self._view.scan(bucket, after_key, through_key)
        return entries if not ahead else _overlaid(entries, ahead)

    def below(self, bucket: str, prefix: str) -> Iterator[KnownEntry]:
        """Entries of the bucket's keys with this beginning, by key, then ETag."""
        known = self.scan(bucket, place_before(prefix), last_below(prefix))
        return (one for one in known if one.key.startswith(prefix))

    def splits(self, object_id: ObjectId) -> dict[SplitKey, LedgerEntry]:
        """The newest entries known of an object's splits."""
        known: dict[SplitKey, LedgerEntry] = dict(self._view.splits(object_id))
        for key, entry in self._ahead.items():
            if isinstance(key, SplitKey) and key.id == object_id:
                if entry is None:
                    known.pop(key, None)
                else:
                    known[key] = entry
        return known

    def unfinished(self, after: ObjectId | None) -> Entries:
        """As `LedgerView.unfinished`, with the newest entries known."""
        ahead = {
            key: entry
            for key, entry in self._ahead.items()
            if isinstance(key, ObjectId) and (after is None or key > after)
        }
        merged = _overlaid((DecodedEntry(*pair) for pair in self._view.unfinished(after)), ahead)
        return ((known.id, known.entry) for known in merged if known.entry.state in UNFINISHED)


def _overlaid(
    entries: Iterator[KnownEntry], ahead: dict[ObjectId, LedgerEntry | None]
) -> Iterator[KnownEntry]:
    newest = (
        DecodedEntry(key, entry)
        for key, entry in sorted(ahead.items(), key=itemgetter(0))
        if entry is not None
    )
    older = (known for known in entries if known.id not in ahead)
    return heapq.merge(older, newest, key=attrgetter("id"))


APART_MS: Final = 3_600_000
"""How long no listing has shown what may leave the ledger."""
# 600 bytes each, where one is listed, one is not, and so forth.
MOST_RANGES: Final = 50_000

Place = tuple[str, str]
"""Key and ETag: the ledger's order within a bucket."""


class Absence(NamedTuple):
    """Entries from `begin` to `end` (exclusive) that no full listing since `since_ms` has shown."""

    begin: Place
    end: Place
    since_ms: int


class Pass:
    """What one listing shows of the ledger: the ranges between listed entries that have others in them."""

    def __init__(self, begin: Place, is_expired: Callable[[KnownEntry], bool] | None) -> None:
        self.count = 0
        self._is_expired = is_expired
        self._may_expire: list[tuple[Place, Place]] = []
        self._is_unread = False
        self._begin = begin
        self._last: Place | None = None
        self._first_absent: Place | None = None
        self._last_absent: Place = ("", "")
        self._ranges: list[tuple[Place, Place]] = []

    def listed(self, place: Place, *, is_known: bool) -> None:
        """An object that is shown, with an entry or without."""
        self.count += is_known
        if self._first_absent is not None:
            self._end(place)
            # Another content of the key may come before it in the merge, and after it in the ledger.
            self._first_absent = self._last_absent if self._last_absent > place else None
        # What has no entry yet may have one soon: it was shown.
        self._last = place

    def absent(self, known: KnownEntry) -> None:
        """An entry that is not shown."""
        self._last_absent = known.key, known.etag
        if self._is_expired is not None and len(self._may_expire) < MOST_RANGES and self._is_expired(known):
            self._may_expire.append((self._last_absent, place_after(self._last_absent)))
        if self._first_absent is None:
            self._first_absent = self._last_absent

    def skipped(self) -> None:
        """There may be any entries up to the next that is listed."""
        if self._first_absent is None:
            self._first_absent = self._last_absent = self._open
        self._is_unread = True

    def ranges(self, end: Place) -> list[tuple[Place, Place]]:
        """All of them, after the last page; `end` is after all that the listing could show."""
        if self._first_absent is not None:
            self._end(end)
        return self._ranges

    def has_shown(self, place: Place) -> bool:
        """Whether the listing has passed this place, and did not find an absent entry there."""
        if self._last is None or not self._begin <= place <= self._last:
            return False
        number = bisect_right(self._ranges, place, key=itemgetter(0)) - 1
        return number < 0 or place >= self._ranges[number][1]

    def may_expire(self) -> list[tuple[Place, Place]]:
        """Where there are absent entries that could leave, or were not read; where `is_expired` was given."""
        found = list[tuple[Place, Place]]()
        for begin, end in sorted(self._may_expire):
            if not found or end > found[-1][1]:
                found.append((begin, end))
        return found

    @property
    def _open(self) -> Place:
        return self._begin if self._last is None else place_after(self._last)

    def _end(self, end: Place) -> None:
        is_met = self._first_absent is not None and self._first_absent < end
        if is_met and self._open < end and len(self._ranges) < MOST_RANGES:
            self._ranges.append((self._open, end))
            if self._is_unread:
                self._may_expire.append((self._open, end))
        self._is_unread = False


def place_after(place: Place) -> Place:
    """The place next to it."""
    return place[0], f"{place[1]}\0"


def since(
    ranges: Iterable[tuple[Place, Place]], earlier: Sequence[Absence], begun_ms: int, oldest_ms: int
) -> list[Absence]:
    """What a listing that began then does not show, with the time since which none has shown it.

    Those of a time before `oldest_ms`, when another began, get that time, so that they join again.
    """
    found: list[Absence] = []
    first = 0
    for begin, end in ranges:
        at = begin
        while first < len(earlier) and earlier[first].end <= begin:
            first += 1
        # By number: an iterator would pass all those before for each range.
        for number in range(first, len(earlier)):
            one = earlier[number]
            if one.begin >= end:
                break
            _add(found, at, max(at, one.begin), begun_ms)
            _add(found, max(at, one.begin), min(end, one.end), max(one.since_ms, oldest_ms))
            at = min(end, one.end)
        _add(found, at, end, begun_ms)
    return found


def fewer(absences: list[Absence], begun_ms: int) -> list[Absence]:
    """These, where they are not too many; else ranges of more than an hour join, and the last are let go.

    What is joined or let go leaves the ledger later, never sooner.
    """
    if len(absences) <= MOST_RANGES:
        return absences
    found: list[Absence] = []
    for begin, end, since_ms in absences:
        last = found[-1] if found else None
        is_long = last is not None and begun_ms - max(last.since_ms, since_ms) >= APART_MS
        if last is not None and is_long and last.end == begin:
            found[-1] = Absence(last.begin, end, max(last.since_ms, since_ms))
        else:
            found.append(Absence(begin, end, since_ms))
    return found[:MOST_RANGES]


def _add(found: list[Absence], begin: Place, end: Place, since_ms: int) -> None:
    if begin >= end:
        return
    if found and found[-1].end == begin and found[-1].since_ms == since_ms:
        found[-1] = Absence(found[-1].begin, end, since_ms)
    else:
        found.append(Absence(begin, end, since_ms))
