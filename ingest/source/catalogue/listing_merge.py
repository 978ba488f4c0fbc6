"""A page of a listing, merged in key order with the ledger's entries of the same stretch of keys."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from headrace.model.ledger_entry import LedgerEntry
from headrace.model.listing_page import ListingPage
from headrace.model.objects import ObjectId, S3Object
from ingest.source.catalogue.expiry import Expiry
from ingest.source.catalogue.object_filter import ExclusionReason

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
