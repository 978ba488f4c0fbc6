"""A page of a listing, merged in key order with the ledger's entries of the same stretch of keys.

When the entry of an object that listings no longer show may leave the ledger (docs/operations.md).

Its content was absent from every complete listing for an hour, at least two; its state is final and older
than `ledger.retention.ms`; and no pass takes more than half of the entries: that looks like a wrong listing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from headrace.model.clock import Instant
from headrace.model.ledger_entry import LedgerEntry
from headrace.model.objects import ListingPage, ObjectId, S3Object
from ingest.source.catalogue.object_filter import ExclusionReason

APART_MS: Final = 3_600_000
# Bounds memory and the driver's transaction; what is beyond comes with a later pass.
MAX_IN_ONE_PASS: Final = 20_000


class Expiry:
    """Follows full listings of one prefix and says which entries have expired."""

    def __init__(self, *, prefix: str, retention_ms: int) -> None:
        self._prefix = prefix
        self._retention_ms = retention_ms
        self._absent_since: dict[ObjectId, int] = {}
        self._seen_listing_id: int | None = None
        self._is_counting = False
        self._position: str | None = None
        self._begun_ms = 0
        self._entries = 0
        self._absent = 0
        self._candidates: dict[ObjectId, int] = {}

    def begin_page(self, page: ListingPage, now: Instant) -> None:
        """A page is about to be merged; one that does not follow on the last ends the listing's use here."""
        if page.listing_id != self._seen_listing_id:
            self._forget_pass()
            self._seen_listing_id = page.listing_id
            self._is_counting = page.is_full
            self._begun_ms = now.steady_ms
        elif page.after_key != self._position:
            self._forget_pass()
        self._position = page.through_key

    def listed(self) -> None:
        """An entry whose content the page shows."""
        self._entries += 1

    def absent(self, object_id: ObjectId, entry: LedgerEntry, now_ms: int) -> None:
        """An entry within the page's bounds whose content the page does not show."""
        if not self._is_counting or not object_id.key.startswith(self._prefix):
            return
        self._entries += 1
        if not self.is_old(entry, now_ms):
            return
        self._absent += 1
        if len(self._candidates) < MAX_IN_ONE_PASS:
            self._candidates[object_id] = self._absent_since.get(object_id, self._begun_ms)

    def is_old(self, entry: LedgerEntry, now_ms: int) -> bool:
        """True when the entry's state is final and older than the retention."""
        age_ms = now_ms - max(entry.updated_ms, entry.last_modified_ms)
        return entry.is_settled and age_ms > self._retention_ms

    def invalidate(self) -> None:
        """This listing cannot be relied on for absence."""
        self._forget_pass()

    def end_page(self, page: ListingPage) -> tuple[list[ObjectId], str | None]:
        """After the last page of a full listing: what has expired, and a warning if that looks wrong."""
        if not page.is_last or not self._is_counting:
            return [], None
        self._absent_since = self._candidates
        entries, absent, begun_ms = self._entries, self._absent, self._begun_ms
        self._forget_pass()
        expired = [key for key, since in self._absent_since.items() if begun_ms - since >= APART_MS]
        if expired and absent * 2 > entries:
            return [], (
                f"A full listing shows no object for {absent} of the ledger's {entries} entries; none is "
                "removed. Check the bucket and aws.s3.prefix; entries stay until fewer than half are absent."
            )
        return expired, None

    def _forget_pass(self) -> None:
        self._is_counting = False
        self._entries, self._absent, self._candidates = 0, 0, {}


Met = tuple[S3Object | None, ObjectId | None, LedgerEntry | None]


def merged_with_ledger(
    listed: Iterable[S3Object], entries: Iterable[tuple[ObjectId, LedgerEntry]]
) -> Iterator[Met]:
    """Each listed object with its entry (or None), and each entry whose content was not listed, by itself.

    Both sides rise by key; a key may have entries of several ETags, of which S3 lists one.
    """
    rest = iter(entries)
    ahead = next(rest, None)
    for seen in listed:
        key, etag = seen.id.key, seen.id.etag
        found: LedgerEntry | None = None
        while ahead is not None and ahead[0].key <= key:
            if ahead[0].key == key and ahead[0].etag == etag:
                found = ahead[1]
            else:
                yield None, ahead[0], ahead[1]
            ahead = next(rest, None)
        yield seen, seen.id, found
    while ahead is not None:
        yield None, ahead[0], ahead[1]
        ahead = next(rest, None)


# Keys that say nothing of how others are read.
_NEUTRAL: Final = frozenset({ExclusionReason.FOLDER, ExclusionReason.INTERNAL, ExclusionReason.EXCLUDED})


class UnreadKeys:
    """Whether a full listing showed keys, and not one of them could be read."""

    def __init__(self) -> None:
        self.found: tuple[int, str] | None = None
        """How many keys the last full listing showed, and the first of them; None where one was read."""
        self._listing_id: int | None = None
        self._is_counting = False
        self._keys = 0
        self._example = ""

    def begin_page(self, page: ListingPage) -> None:
        """A page is about to be merged."""
        if page.listing_id != self._listing_id:
            self._listing_id, self._is_counting, self._keys = page.listing_id, page.is_full, 0

    def read(self) -> None:
        """A key was read, now or before."""
        self._is_counting, self.found = False, None

    def left_out(self, reason: ExclusionReason, key: str) -> None:
        """A key was left out for this reason."""
        if reason is ExclusionReason.UNMATCHED:
            self._example = self._example if self._keys else key
            self._keys += 1
        elif reason not in _NEUTRAL:
            self._is_counting = False  # the baseline leaves out keys without reading them

    def end_page(self, page: ListingPage) -> bool:
        """Whether this ends a full listing that has shown unread keys only, which are in `found` then."""
        if not page.is_last or not self._is_counting:
            return False
        self.found = (self._keys, self._example) if self._keys else None
        return self.found is not None


@dataclass(slots=True)
class BucketListings:
    """What the listings of one bucket show: entries that may leave the ledger, and keys that are not read."""

    expiry: Expiry
    unread: UnreadKeys = field(default_factory=UnreadKeys)
