"""The ledger's cache after the catalogue's port `LedgerView`."""

from collections.abc import Iterator

from headrace.kafka.ledger_cache import LedgerCache
from headrace.model.ledger_entry import LedgerEntry, SplitKey
from headrace.model.objects import ObjectId


class CacheLedgerView:
    """A `LedgerView` over the cache; thread-safe as the cache is."""

    def __init__(self, cache: LedgerCache) -> None:
        self._cache = cache

    def get(self, object_id: ObjectId, /) -> LedgerEntry | None:
        """The entry of one object."""
        return self._cache.get(object_id)

    def scan(
        self, bucket: str, after_key: str | None, through_key: str | None, /
    ) -> Iterator[tuple[ObjectId, LedgerEntry]]:
        """Entries with `after_key` < key <= `through_key` (None: no bound), by key, then ETag."""
        return ((known.id, known.entry) for known in self._cache.scan(bucket, after_key or "", through_key))

    def splits(self, object_id: ObjectId, /) -> list[tuple[SplitKey, LedgerEntry]]:
        """The entries of an object's splits."""
        return list(self._cache.splits(object_id).items())

    def unfinished(self, after: ObjectId | None, /) -> Iterator[tuple[ObjectId, LedgerEntry]]:
        """Entries in partial, failed or new of the objects after `after`, in order."""
        return ((known.id, known.entry) for known in self._cache.unfinished(after))
