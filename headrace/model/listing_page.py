"""A page of a listing, as S3 gave it."""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.model.objects import S3Object


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingPage:
    """What S3 listed of a bucket in (`after_key`, `through_key`]; None is the prefix's start, and its end.

    Pages of one bucket and `listing_id` come in order, without a gap. `is_full` says that the listing goes
    through the whole prefix (from `native.start.key` on), rather than from the last key seen. `is_inventory`:
    the objects are some that an inventory names, in no order, and of others it says nothing.
    """

    bucket: str
    listing_id: int
    is_full: bool
    after_key: str | None
    through_key: str | None
    objects: Sequence[S3Object]
    is_inventory: bool = False

    @property
    def is_last(self) -> bool:
        """True for the page that reaches the end of the prefix."""
        return self.through_key is None

    @property
    def is_in_order(self) -> bool:
        """True when the keys rise within the page's bounds: what a merge relies on.

        Some stores (directory buckets, for one) list in another order.
        """
        if self.is_inventory:
            return False
        before = self.after_key
        for listed in self.objects:
            key = listed.id.key
            if before is not None and key <= before:
                return False
            before = key
        return self.through_key is None or before is None or before <= self.through_key
