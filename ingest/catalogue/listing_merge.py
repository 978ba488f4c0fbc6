"""A page of a listing, merged in key order with the ledger's entries of the same stretch of keys."""

from collections.abc import Iterable, Iterator

from ingest.model.ledger_entry import LedgerEntry
from ingest.model.objects import ObjectId, S3Object

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
