"""Which entries leave the ledger: what full listings do not show any more.

An entry leaves (docs/ledger.md) when its state is final, it is older than `ledger.retention.ms`, and no
full listing for an hour, at least two, has shown its content. Where more than half of the entries would
leave, the listings are doubted: it takes a day of them. What listings do not show is kept as ranges of the
ledger's order, not by entry: where all objects are deleted once they were read it is one, however many.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import dropwhile, islice, takewhile
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple

from headrace.model.clock import Instant
from headrace.model.objects import ListingPage, ObjectId
from ingest.source.catalogue.ledger_view import KnownEntry, Overlay, last_below, place_before

APART_MS: Final = 3_600_000
DOUBTED_MS: Final = 24 * APART_MS
# Of the ledger, in one turn of the thread that decides: some 20 ms.
IN_A_TURN: Final = 5_000
# What a range costs in a turn, however few entries are in it.
_RANGE_COST: Final = 20
# 600 bytes each, where one is listed, one is not, and so forth.
MOST_RANGES: Final = 50_000
# Of them in the ledger, in a record which has other things in it.
_NOTED_BYTES: Final = 100_000

Place = tuple[str, str]
"""Key and ETag: the ledger's order within a bucket."""


class Absence(NamedTuple):
    """Entries from `begin` to `end` (exclusive) that no full listing since `since_ms` has shown."""

    begin: Place
    end: Place
    since_ms: int


class Notes(NamedTuple):
    """Ranges, and when some of the full listings began since which they are absent; by the wall clock."""

    absences: Sequence[Absence] = ()
    listed_ms: Sequence[int] = ()


NOTHING_NOTED: Final = Notes()


class Step(NamedTuple):
    """What one turn of taking stock has come to."""

    expired: Sequence[KnownEntry] = ()
    warnings: tuple[str, ...] = ()


class Expiry:
    """Follows full listings of one prefix of a bucket and says which entries have expired.

    `needs` says of an entry that others are read by it, however old it is. `noted` is what `notes` gave to an
    earlier leader: where each run lists once, its absences are as long as the time between runs.
    """

    def __init__(
        self,
        ledger: Overlay,
        bucket: str,
        *,
        prefix: str,
        retention_ms: int,
        needs: Callable[[KnownEntry], bool] = lambda _: False,
        noted: Notes = NOTHING_NOTED,
    ) -> None:
        self._ledger = ledger
        self._bucket = bucket
        self.prefix = prefix
        self._retention_ms = retention_ms
        self._needs = needs
        self._absences: list[Absence] = []
        # One an hour, of the last day, and the newest that is older.
        self._listed: list[Instant] = []
        self._noted: Notes | None = noted
        self._noted_ms: int | None = None
        self._last_noted: list[Absence] = []
        self._last_noted_ms = 0
        self._walk: Iterator[tuple[int, Step]] | None = None
        self._walked_ms: int | None = None
        self._walk_begun_ms = 0
        self._is_doubted = False
        self._listing_id: int | None = None
        self._is_counting = False
        self._position: str | None = None
        self._begun = Instant(0, 0)
        self._page_ms = 0
        self._pass = _Pass(("", ""), None)

    # What a listing shows

    def begin_page(self, page: ListingPage, now: Instant) -> None:
        """A page is about to be merged; one that does not follow on the last ends the listing's use here."""
        if page.listing_id != self._listing_id:
            self._listing_id, self._begun = page.listing_id, now
            self._is_counting = page.is_full
            after = page.after_key
            is_expired = self._is_expired if self._is_note_due else None
            self._pass = _Pass((self.prefix, "") if after is None else (after, last_below("")), is_expired)
        elif page.after_key != self._position:
            self._is_counting = False
        self._position = page.through_key
        self._page_ms = now.steady_ms

    def listed(self, object_id: ObjectId, *, is_known: bool) -> None:
        """What the page shows, with an entry or without; in the ledger's order, together with `absent`."""
        self._pass.listed((object_id.key, object_id.etag), is_known=is_known)

    def absent(self, known: KnownEntry) -> None:
        """An entry within the page's bounds whose content the page does not show."""
        self._pass.absent(known)

    def skipped(self) -> None:
        """There may be any entries up to the next that is listed."""
        self._pass.skipped()

    def invalidate(self) -> None:
        """This listing cannot be relied on for absence."""
        self._is_counting = False

    def end_page(self, page: ListingPage) -> None:
        """After the last page of a full listing stock is taken, at most once in an hour."""
        if not page.is_last or not self._is_counting:
            return
        self._is_counting = False
        begun_ms = self._begun.steady_ms
        self._take_notes()
        self._listed = _with_hourly(self._listed, self._begun)
        ranges = self._pass.ranges((last_below(self.prefix), ""))
        self._absences = fewer(since(ranges, self._absences, begun_ms, self._listed[0].steady_ms), begun_ms)
        is_due = self._walked_ms is None or begun_ms - self._walked_ms >= APART_MS
        is_ripe = any(begun_ms - one.since_ms >= APART_MS for one in self._absences)
        if self._walk is None and is_due and is_ripe:
            self._walked_ms, self._walk_begun_ms = begun_ms, self._page_ms
            there = {apart: self._listed_before(apart) for apart in (APART_MS, DOUBTED_MS)}
            self._walk = self._take_stock(self._absences, self._pass.count, self._begun, there)

    def _take_notes(self) -> None:
        """What was noted by the wall clock, by the one that never steps; with the first full listing."""
        if self._noted is None:
            return
        begun, noted, self._noted = self._begun, self._noted, None
        offset_ms = begun.wall_ms - begun.steady_ms
        self._listed = [Instant(ms, min(begun.steady_ms, ms - offset_ms)) for ms in sorted(noted.listed_ms)]
        self._absences = self._last_noted = sorted(
            one._replace(since_ms=min(begun.steady_ms, one.since_ms - offset_ms)) for one in noted.absences
        )
        self._last_noted_ms = self._listed[-1].steady_ms if self._listed else begun.steady_ms

    def _listed_before(self, apart_ms: int) -> int:
        """When a full listing began, by the wall clock, this long before the last one; -1 where none did.

        Clocks step: of the two times that it had by then and by now the earlier one.
        """
        begun = self._begun
        found = [one for one in self._listed if begun.steady_ms - one.steady_ms >= apart_ms]
        return min(found[-1].wall_ms, found[-1].steady_ms + begun.wall_ms - begun.steady_ms) if found else -1

    def notes(self) -> Notes | None:
        """What a later leader is to know, where it has changed: hourly, after a full listing; else None.

        They go into a record of the ledger: of the ranges with an entry that could leave as many as it bears,
        those of the longest absence first. Where nothing but time has passed it is noted daily, so that
        entries which came into a range later leave by it, too.
        """
        begun = self._begun
        if self._noted is not None or not self._is_note_due:
            return None
        self._noted_ms = begun.steady_ms
        found, oldest_ms = self._worth_noting(), self._listed[0].steady_ms
        before = [one._replace(since_ms=max(oldest_ms, one.since_ms)) for one in self._last_noted]
        is_fresh = not found or begun.steady_ms - self._last_noted_ms < DOUBTED_MS
        if found == before and is_fresh:
            return None
        self._last_noted, self._last_noted_ms = found, self._listed[-1].steady_ms
        if not found:
            return NOTHING_NOTED
        offset_ms = begun.wall_ms - begun.steady_ms
        return Notes(
            [one._replace(since_ms=one.since_ms + offset_ms) for one in found],
            [one.wall_ms for one in self._listed],
        )

    @property
    def _is_note_due(self) -> bool:
        return self._noted_ms is None or self._begun.steady_ms - self._noted_ms >= APART_MS

    def _is_expired(self, known: KnownEntry) -> bool:
        return known.is_settled and self._begun.wall_ms - known.changed_ms > self._retention_ms

    def _worth_noting(self) -> list[Absence]:
        last, room = last_below(self.prefix), _NOTED_BYTES
        found: list[Absence] = []
        may_expire = self._pass.may_expire()
        for one in sorted(self._absences, key=attrgetter("since_ms")):
            number = bisect_right(may_expire, one.begin, key=itemgetter(1))
            if number == len(may_expire) or may_expire[number][0] >= one.end:
                continue
            end = (last_below(self.prefix)[: len(self.prefix) + 1], "") if one.end[0] == last else one.end
            room -= len(f"{one.begin}{end}".encode())
            if room > 0 and one.begin < end:
                found.append(one._replace(end=end))
        return sorted(found)

    # Taking stock

    @property
    def is_taking_stock(self) -> bool:
        """Whether `step` has more to do."""
        return self._walk is not None

    def step(self, now: Instant) -> Step:
        """As much as one turn of the thread may take; the ledger may be written to in between.

        Nothing leaves by a listing that was complete an hour ago (the ledger was away, or it was paused):
        after the next one stock is taken from the beginning.
        """
        if now.steady_ms - self._walk_begun_ms >= APART_MS:
            self._walk = self._walked_ms = None
        expired: list[KnownEntry] = []
        warnings: tuple[str, ...] = ()
        cost = 0
        while self._walk is not None and cost < IN_A_TURN:
            one = next(self._walk, None)
            if one is None:
                self._walk = None
            else:
                cost += one[0]
                expired += one[1].expired
                warnings += one[1].warnings
        return Step(expired, warnings)

    def _take_stock(
        self, absences: Sequence[Absence], listed: int, begun: Instant, there_ms: Mapping[int, int]
    ) -> Iterator[tuple[int, Step]]:
        entries, old = listed, 0
        for found in self._read(absences):
            for known in found:
                if not self._needs(known):
                    entries += 1
                    old += self._is_old(known, begun, there_ms[APART_MS])
            yield len(found) + _RANGE_COST, Step()
        was_doubted, self._is_doubted = self._is_doubted, old * 2 > entries
        if self._is_doubted and not was_doubted:
            yield 0, Step(warnings=(self._doubts(old, entries),))
        apart_ms = DOUBTED_MS if self._is_doubted else APART_MS
        ripe = [one for one in absences if begun.steady_ms - one.since_ms >= apart_ms] if old else []
        for found in self._read(ripe):
            expired = [
                known
                for known in found
                if self._is_old(known, begun, there_ms[apart_ms])
                and self._is_absent(known, begun.steady_ms - apart_ms)
                and not self._needs(known)
            ]
            yield len(found) + _RANGE_COST, Step(expired)

    def _is_absent(self, known: KnownEntry, since_ms: int) -> bool:
        """Whether the newest full listing, too, has it in a range of this time, or an earlier one.

        It may be newer than that which called for stock to be taken.
        """
        place = known.key, known.etag
        number = bisect_right(self._absences, place, key=attrgetter("begin")) - 1
        return (
            number >= 0 and place < self._absences[number].end and self._absences[number].since_ms <= since_ms
        )

    def _doubts(self, old: int, entries: int) -> str:
        return (
            f"Full listings of s3://{self._bucket}/{self.prefix} show no object for {old} of the ledger's "
            f"{entries} entries there, which are older than ledger.retention.ms. They leave the ledger once "
            "no full listing of a day has shown them. Where objects are deleted after they were read this is "
            "right; else check the bucket and aws.s3.prefix."
        )

    def _is_old(self, known: KnownEntry, begun: Instant, there_ms: int) -> bool:
        """Final, older than the retention, and there when a listing so long before began: two had no object.

        The time of a range does not tell: it says nothing of entries that came into it later.
        """
        changed_ms = known.changed_ms
        return known.is_settled and begun.wall_ms - changed_ms > self._retention_ms and changed_ms <= there_ms

    def _read(self, absences: Iterable[Absence]) -> Iterator[list[KnownEntry]]:
        """The entries of these ranges as the ledger has them now, each time as many as a turn bears."""
        for begin, end, _ in absences:
            at: Place | None = begin
            while at is not None:
                found = list(islice(self._between(at, end), IN_A_TURN))
                at = _after((found[-1].key, found[-1].etag)) if len(found) == IN_A_TURN else None
                yield found

    def _between(self, begin: Place, end: Place) -> Iterator[KnownEntry]:
        scanned = self._ledger.scan(self._bucket, place_before(begin[0]), end[0])
        later = dropwhile(lambda known: (known.key, known.etag) < begin, scanned)
        return takewhile(lambda known: (known.key, known.etag) < end, later)


def _with_hourly(listed: Sequence[Instant], begun: Instant) -> list[Instant]:
    """Times of full listings, one in an hour, with one more; of those older than a day the last."""
    is_apart = not listed or begun.steady_ms - listed[-1].steady_ms >= APART_MS
    times = [*listed, begun] if is_apart else list(listed)
    old = sum(begun.steady_ms - one.steady_ms >= DOUBTED_MS for one in times)
    return times[max(0, old - 1) :]


class _Pass:
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
        self.count += is_known
        if self._first_absent is not None:
            self._end(place)
            # Another content of the key may come before it in the merge, and after it in the ledger.
            self._first_absent = self._last_absent if self._last_absent > place else None
        # What has no entry yet may have one soon: it was shown.
        self._last = place

    def absent(self, known: KnownEntry) -> None:
        self._last_absent = known.key, known.etag
        if self._is_expired is not None and len(self._may_expire) < MOST_RANGES and self._is_expired(known):
            self._may_expire.append((self._last_absent, _after(self._last_absent)))
        if self._first_absent is None:
            self._first_absent = self._last_absent

    def skipped(self) -> None:
        if self._first_absent is None:
            self._first_absent = self._last_absent = self._open
        self._is_unread = True

    def ranges(self, end: Place) -> list[tuple[Place, Place]]:
        if self._first_absent is not None:
            self._end(end)
        return self._ranges

    def may_expire(self) -> list[tuple[Place, Place]]:
        """Where there are absent entries that could leave, or were not read; where `is_expired` was given."""
        found = list[tuple[Place, Place]]()
        for begin, end in sorted(self._may_expire):
            if not found or end > found[-1][1]:
                found.append((begin, end))
        return found

    @property
    def _open(self) -> Place:
        return self._begin if self._last is None else _after(self._last)

    def _end(self, end: Place) -> None:
        is_met = self._first_absent is not None and self._first_absent < end
        if is_met and self._open < end and len(self._ranges) < MOST_RANGES:
            self._ranges.append((self._open, end))
            if self._is_unread:
                self._may_expire.append((self._open, end))
        self._is_unread = False


def _after(place: Place) -> Place:
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
