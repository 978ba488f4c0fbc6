"""The ledger as the catalogue sees it: the tailing cache, and on top what is committed but not read back."""

import heapq
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Final, Protocol

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
