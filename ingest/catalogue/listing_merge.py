"""A page of a listing, merged in key order with the ledger's entries of the same stretch of keys."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ingest.model.ledger_entry import LedgerEntry
from ingest.model.objects import ObjectId, S3Object


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingPage:
    """What S3 listed in (`after_key`, `through_key`]; None is the prefix's start, and its end.

    Pages of one `listing_id` come in order, without a gap. `is_full` says that the listing goes through the
    whole prefix (from `native.start.key` on), rather than from the last key seen.
    """

    listing_id: int
    is_full: bool
    after_key: str | None
    through_key: str | None
    objects: Sequence[S3Object]

    @property
    def is_last(self) -> bool:
        """True for the page that reaches the end of the prefix."""
        return self.through_key is None

    @property
    def is_in_order(self) -> bool:
        """True when the keys rise within the page's bounds: what a merge relies on.

        Some stores (directory buckets, for one) list in another order.
        """
        before = self.after_key
        for listed in self.objects:
            key = listed.id.key
            if before is not None and key <= before:
                return False
            before = key
        return self.through_key is None or before is None or before <= self.through_key


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
