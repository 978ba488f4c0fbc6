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
from headrace.model.ledger_entry import LedgerEntry, LedgerKey, SplitKey
from headrace.model.objects import ListingPage, ObjectId
from ingest.source.catalogue.ledger_view import (
    APART_MS,
    Absence,
    KnownEntry,
    Overlay,
    Pass,
    Place,
    fewer,
    last_below,
    place_after,
    place_before,
    since,
)

DOUBTED_MS: Final = 24 * APART_MS
# Of the ledger, in one turn of the thread that decides: some 20 ms.
IN_A_TURN: Final = 5_000
# What a range costs in a turn, however few entries are in it.
_RANGE_COST: Final = 20
# Of them in the ledger, in a record which has other things in it.
_NOTED_BYTES: Final = 100_000


class Notes(NamedTuple):
    """Ranges, and when some of the full listings began since which they are absent; by the wall clock."""

    absences: Sequence[Absence] = ()
    listed_ms: Sequence[int] = ()


NOTHING_NOTED: Final = Notes()


class Step(NamedTuple):
    """What one turn of taking stock has come to."""

    expired: Sequence[KnownEntry] = ()
    warnings: tuple[str, ...] = ()


class Leaving:
    """Entries whose tombstones are under way, for as long as the ledger is away, or some milliseconds.

    What is met meanwhile counts as known, and would be read again after that: it gets its entry back. It may
    be met, and become pending, before that is written, too.
    """

    def __init__(self) -> None:
        self._entries: dict[ObjectId, tuple[KnownEntry, Mapping[SplitKey, LedgerEntry]]] = {}
        self._met: set[ObjectId] = set()
        self._returning: set[ObjectId] = set()

    def begin(self, known: KnownEntry, splits: Mapping[SplitKey, LedgerEntry]) -> None:
        """Tombstones of an entry, and of those of its splits, are to be written."""
        self._entries[known.id] = known, splits

    def met(self, object_id: ObjectId) -> None:
        """An object is shown by a listing, or announced, or a command is for it."""
        if object_id in self._entries:
            self._met.add(object_id)

    def end(self, object_id: ObjectId) -> list[tuple[LedgerKey, LedgerEntry]]:
        """Its tombstones are written: what is to be written again."""
        known, splits = self._entries.pop(object_id, (None, {}))
        if object_id not in self._met:
            return []
        self._met.remove(object_id)
        assert known is not None, "only what leaves is met"
        self._returning.add(object_id)
        return [*splits.items(), (object_id, known.entry)]

    def is_back(self, object_id: ObjectId) -> bool:
        """A record of the object is written: whether it is what `end` gave."""
        is_back = object_id in self._returning
        self._returning.discard(object_id)
        return is_back


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
        self._pass = Pass(("", ""), None)

    # What a listing shows

    def begin_page(self, page: ListingPage, now: Instant) -> None:
        """A page is about to be merged; one that does not follow on the last ends the listing's use here."""
        if page.listing_id != self._listing_id:
            self._listing_id, self._begun = page.listing_id, now
            self._is_counting = page.is_full
            after = page.after_key
            is_expired = self._is_expired if self._is_note_due else None
            self._pass = Pass((self.prefix, "") if after is None else (after, last_below("")), is_expired)
        elif page.after_key != self._position:
            self._is_counting = False
        if page.refused:
            # Their entries are of what is there.
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

        It may be newer than that which called for stock to be taken, and one that has not come to its end has
        shown something already.
        """
        place = known.key, known.etag
        if self._pass.has_shown(place):
            return False
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
                at = place_after((found[-1].key, found[-1].etag)) if len(found) == IN_A_TURN else None
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
