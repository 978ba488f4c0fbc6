"""A page of a listing, merged with the ledger's entries of the same keys, without what is left out.

Keys that are left out get no ledger entry and are judged again at each listing.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple

from headrace.model.objects import ListingPage, Route, S3Object
from headrace.names.archive_names import any_of, is_bookkeeping
from ingest.source.catalogue.expiry import Expiry
from ingest.source.catalogue.ledger_view import DecodedEntry, KnownEntry, Overlay, last_below, place_before

# Each is decoded: some 20 ms.
_UNLISTED_IN_A_TURN: Final = 2_000


class ExclusionReason(StrEnum):
    """Why an object is not ours, as the counters name it."""

    OUTSIDE_PREFIX = "outside_prefix"
    FOLDER = "folder"
    INTERNAL = "internal"
    EXCLUDED = "excluded"
    UNMATCHED = "unmatched"
    START_KEY = "start_key"
    EXISTING = "existing"
    MOVED = "moved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What the first start left to the past; of listings only, events are never filtered.

    `existing_before_ms` is S3's clock at the first start with `include.existing=false`; `start_key` is
    `native.start.key`, itself left out. `uploads` are the multipart uploads that were under way at the first
    start, by key, with the ms they began at: completed later they are new, though S3 dates them back to then.
    `there` are the ETags of younger objects that were there under such keys: their uploads were broken off.
    `moved_to` are prefixes that `post.action` has moved objects to, now or under an earlier configuration:
    what lies there was read before, whatever announces it. All but this is of keys below `prefix`; `earlier`
    are those of prefixes that had their first start before, the last of these first.
    """

    existing_before_ms: int | None = None
    start_key: str | None = None
    uploads: Mapping[str, int] = field(default_factory=dict)
    there: Mapping[str, str] = field(default_factory=dict)
    moved_to: tuple[str, ...] = ()
    prefix: str = ""
    earlier: tuple["Baseline", ...] = ()

    @property
    def skip_through(self) -> str | None:
        """The key up to which listings do not look; of several only the filter knows which is for a key."""
        return None if self.earlier else self.start_key

    def of_key(self, key: str) -> "Baseline | None":
        """The one that counts for a key: that of the first start which could see it."""
        return next((one for one in (*reversed(self.earlier), self) if key.startswith(one.prefix)), None)

    def leaves_out(self, listed: S3Object) -> ExclusionReason | None:
        """Why an object that only a listing knows is left to the past, None where it is not."""
        past = self if not self.earlier else self.of_key(listed.id.key)
        if past is None:
            return None
        if past.start_key is not None and listed.id.key <= past.start_key:
            return ExclusionReason.START_KEY
        return ExclusionReason.EXISTING if past.is_existing(listed) else None

    def is_existing(self, listed: S3Object) -> bool:
        """True for what was there at the first start, and is to be left out for that."""
        if self.existing_before_ms is None or listed.last_modified_ms >= self.existing_before_ms:
            return False
        begun_ms = self.uploads.get(listed.id.key)
        # Listings know whole seconds. What was under the key before is older than the upload, or known.
        if begun_ms is None or listed.last_modified_ms < begun_ms // 1000 * 1000:
            return True
        return self.there.get(listed.id.key) == listed.id.etag


class ObjectFilter:
    """Says where an object's records go, or why it is left out. `route` gives None for an unmatched key.

    `is_internal` knows the bookkeeping of the archive's layout; objects under `moved_to` were read before.
    `shown` are the kinds of side objects by folder that what is left out has shown; it may grow.
    """

    def __init__(
        self,
        *,
        route: Callable[[str], Route | None],
        is_internal: Callable[[str], bool] | None = None,
        shown: Mapping[str, AbstractSet[str]] = MappingProxyType({}),
        prefix: str = "",
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        baseline: Baseline = Baseline(),
        min_age_ms: int = 0,
        moved_to: str | None = None,
    ) -> None:
        self.prefix = prefix
        self.min_age_ms = min_age_ms
        self.shown = shown
        self._moved_to = baseline.moved_to if moved_to is None else (*baseline.moved_to, moved_to)
        self._route = route
        self._is_internal = is_internal
        self._include = any_of(include)
        self._exclude = any_of(exclude)
        self._baseline = baseline

    def route_or_reason(self, key: str) -> Route | ExclusionReason:
        """The route of an announced key, or why it is left out."""
        if not key.startswith(self.prefix):
            return ExclusionReason.OUTSIDE_PREFIX
        if key.endswith("/"):
            return ExclusionReason.FOLDER
        if self._moved_to and key.startswith(self._moved_to):
            return ExclusionReason.MOVED
        if is_bookkeeping(key) or (self._is_internal is not None and self._is_internal(key)):
            return ExclusionReason.INTERNAL
        if self.is_excluded(key):
            return ExclusionReason.EXCLUDED
        return self._route(key) or ExclusionReason.UNMATCHED

    def is_excluded(self, key: str) -> bool:
        """Whether `object.include` or `object.exclude` leaves a key out."""
        return bool((self._include and not self._include(key)) or (self._exclude and self._exclude(key)))

    def is_never_listed(self, key: str) -> bool:
        """Whether no listing of `run` shows the key: only an event can."""
        skipped = self._baseline.skip_through
        return skipped is not None and key <= skipped

    def listed_route_or_reason(self, listed: S3Object) -> Route | ExclusionReason:
        """The same for an object that only a listing knows: the baseline counts too."""
        return self._baseline.leaves_out(listed) or self.route_or_reason(listed.id.key)


Met = tuple[S3Object | None, KnownEntry | None]


def merged_with_ledger(listed: Iterable[S3Object], entries: Iterable[KnownEntry]) -> Iterator[Met]:
    """Each listed object with its entry (or None), and each entry whose content was not listed, by itself.

    Both sides rise by key; a key may have entries of several ETags, of which S3 lists one.
    """
    rest = iter(entries)
    ahead = next(rest, None)
    for s3_object in listed:
        key, etag = s3_object.id.key, s3_object.id.etag
        found: KnownEntry | None = None
        while ahead is not None and ahead.key <= key:
            if ahead.key == key and ahead.etag == etag:
                found = ahead
            else:
                yield None, ahead
            ahead = next(rest, None)
        yield s3_object, found
    while ahead is not None:
        yield None, ahead
        ahead = next(rest, None)


# Entries of objects that are gone which are read in passing, and how often it is tried.
_PASSED: Final = 2_000
_TRIES: Final = 8


def compared_with_ledger(page: ListingPage, ledger: Overlay, expiry: Expiry) -> Iterator[Met]:
    """The page next to the ledger's entries, of which it skips those between its keys that are too many.

    It takes a bounded time: all is not read where millions of objects were deleted.
    """
    objects = page.objects
    if not page.is_in_order:
        expiry.invalidate()
        yield from _looked_up(objects, ledger, expiry)
        return
    after = place_before(expiry.prefix) if page.after_key is None else page.after_key
    through = last_below(expiry.prefix) if page.through_key is None else page.through_key
    for _ in range(_TRIES):
        most = len(objects) + _PASSED
        # All of it is read first: what the merge leads to may write to the overlay.
        entries = list(islice(ledger.scan(page.bucket, after, through), most))
        if len(entries) < most:
            yield from merged_with_ledger(objects, entries)
            return
        key = entries[-1].key
        count = bisect_left(objects, key, key=lambda listed: listed.id.key)
        yield from merged_with_ledger(objects[:count], (known for known in entries if known.key < key))
        expiry.skipped()
        objects = objects[count:]
        if not objects:
            return
        after = place_before(objects[0].id.key)
    yield from _looked_up(objects, ledger, expiry)


def _looked_up(objects: Iterable[S3Object], ledger: Overlay, expiry: Expiry) -> Iterator[Met]:
    for s3_object in objects:
        entry = ledger.get(s3_object.id)
        yield s3_object, None if entry is None else DecodedEntry(s3_object.id, entry)
        expiry.skipped()


# Keys that say nothing of how others are read.
_NEUTRAL: Final = frozenset({ExclusionReason.FOLDER, ExclusionReason.INTERNAL})
_COUNTED: Final = (ExclusionReason.UNMATCHED, ExclusionReason.EXCLUDED)


class Unread(NamedTuple):
    """How many keys of a bucket were left out, the first of them, and why: `EXCLUDED` where all are."""

    bucket: str
    keys: int
    example: str
    reason: ExclusionReason = ExclusionReason.UNMATCHED


class UnreadKeys:
    """Whether a full listing showed keys, and not one of them could be read."""

    def __init__(self) -> None:
        self.found: Unread | None = None
        """What the last full listing showed; None where one was read."""
        self.was_read = False
        """Whether one was read since a full listing showed none."""
        self.is_unjudged = False
        """Whether the last full listing showed keys that the baseline leaves out: they may be read well."""
        self._listing_id: int | None = None
        self._is_counting = self._is_left_out = False
        self._keys: Counter[ExclusionReason] = Counter()
        self._examples: dict[ExclusionReason, str] = {}

    def begin_page(self, page: ListingPage) -> None:
        """A page is about to be merged."""
        if page.listing_id != self._listing_id:
            self._listing_id, self._is_counting = page.listing_id, page.is_full
            self._is_left_out = False
            self._keys.clear()
            self._examples.clear()

    def read(self) -> None:
        """A key was read, now or before."""
        self._is_counting, self.found, self.was_read = False, None, True

    def left_out(self, reason: ExclusionReason, key: str) -> None:
        """A key was left out for this reason."""
        if reason in _COUNTED:
            self._examples.setdefault(reason, key)
            self._keys[reason] += 1
        elif reason not in _NEUTRAL:
            # The baseline does not read keys.
            self._is_counting, self._is_left_out, self.is_unjudged = False, True, True

    def end_page(self, page: ListingPage) -> bool:
        """Whether this ends a full listing that has shown unread keys only, which are in `found` then."""
        if page.is_last and page.is_full:
            self.is_unjudged = self._is_left_out
        if not page.is_last or not self._is_counting:
            return False
        reason = next((each for each in _COUNTED if self._keys[each]), None)
        self.found = None
        if reason is not None:
            self.found = Unread(page.bucket, self._keys[reason], self._examples[reason], reason)
            self.was_read = False
        return self.found is not None


class ListedKeys:
    """How far the first full listing of a bucket has come. `is_complete`: it has shown all keys."""

    def __init__(self) -> None:
        self.is_complete = False
        self._through: str | None = None

    def listed(self, page: ListingPage) -> None:
        """One more page."""
        if page.is_full and not self.is_complete:
            self.is_complete = page.is_last
            self._through = page.through_key if page.is_in_order else None

    def has_passed(self, key: str) -> bool:
        """Whether all keys up to this one were shown."""
        return self.is_complete or (self._through is not None and self._through >= key)


class Unlisted:
    """The entries of keys up to `through_key`, after which listings begin: to be looked at once, by turns."""

    def __init__(self, ledger: Overlay, bucket: str, prefix: str, through_key: str | None) -> None:
        self._ledger = ledger
        self._bucket = bucket
        self._prefix = prefix
        self._through_key = None if through_key is None else min(through_key, last_below(prefix))
        self._last: tuple[str, str] | None = None
        self.has_more = through_key is not None

    def look_again(self) -> None:
        """From the first one on."""
        self._last, self.has_more = None, self._through_key is not None

    def step(self) -> list[KnownEntry]:
        """As many as one turn of the thread may take; the ledger may be written to in between."""
        if not self.has_more:
            return []
        last = (self._prefix, "") if self._last is None else self._last
        known = self._ledger.scan(self._bucket, place_before(last[0]), self._through_key)
        found = list(islice((one for one in known if (one.key, one.etag) > last), _UNLISTED_IN_A_TURN))
        self.has_more = len(found) == _UNLISTED_IN_A_TURN
        if found:
            self._last = found[-1].key, found[-1].etag
        return found


@dataclass(slots=True)
class BucketListings:
    """What the listings of one bucket show: entries that may leave the ledger, and keys that are not read.

    `unlisted` are those that they do not show.
    """

    expiry: Expiry
    unlisted: Unlisted
    unread: UnreadKeys = field(default_factory=UnreadKeys)

    @property
    def is_taking_stock(self) -> bool:
        """Whether more entries are to be looked at that listings do not show."""
        return self.expiry.is_taking_stock or self.unlisted.has_more


def unread_of(listings: Mapping[str, BucketListings], knows_keys: Callable[[str], bool]) -> Unread | None:
    """What the first of the buckets has left out, where no key of any was read, now or before, or may be.

    `knows_keys` is asked of a bucket that has yet to be listed.
    """
    unread = {bucket: one.unread for bucket, one in listings.items()}
    first = next((one.found for one in unread.values() if one.found is not None), None)
    if first is None or any(one.was_read or one.is_unjudged for one in unread.values()):
        return None
    return None if any(knows_keys(bucket) for bucket, one in unread.items() if one.found is None) else first
