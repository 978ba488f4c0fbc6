"""Ranges of the ledger's order that hold entries which full listings do not show.

Where all objects are deleted once they were read it is one, however many entries are in it.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from ingest.source.catalogue.ledger_view import KnownEntry

APART_MS: Final = 3_600_000
"""How long no listing has shown what may leave the ledger."""
# 600 bytes each, where one is listed, one is not, and so forth.
MOST_RANGES: Final = 50_000

Place = tuple[str, str]
"""Key and ETag: the ledger's order within a bucket."""


class Absence(NamedTuple):
    """Entries from `begin` to `end` (exclusive) that no full listing since `since_ms` has shown."""

    begin: Place
    end: Place
    since_ms: int


class Pass:
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
        """An object that is shown, with an entry or without."""
        self.count += is_known
        if self._first_absent is not None:
            self._end(place)
            # Another content of the key may come before it in the merge, and after it in the ledger.
            self._first_absent = self._last_absent if self._last_absent > place else None
        # What has no entry yet may have one soon: it was shown.
        self._last = place

    def absent(self, known: KnownEntry) -> None:
        """An entry that is not shown."""
        self._last_absent = known.key, known.etag
        if self._is_expired is not None and len(self._may_expire) < MOST_RANGES and self._is_expired(known):
            self._may_expire.append((self._last_absent, place_after(self._last_absent)))
        if self._first_absent is None:
            self._first_absent = self._last_absent

    def skipped(self) -> None:
        """There may be any entries up to the next that is listed."""
        if self._first_absent is None:
            self._first_absent = self._last_absent = self._open
        self._is_unread = True

    def ranges(self, end: Place) -> list[tuple[Place, Place]]:
        """All of them, after the last page; `end` is after all that the listing could show."""
        if self._first_absent is not None:
            self._end(end)
        return self._ranges

    def has_shown(self, place: Place) -> bool:
        """Whether the listing has passed this place, and did not find an absent entry there."""
        if self._last is None or not self._begin <= place <= self._last:
            return False
        number = bisect_right(self._ranges, place, key=itemgetter(0)) - 1
        return number < 0 or place >= self._ranges[number][1]

    def may_expire(self) -> list[tuple[Place, Place]]:
        """Where there are absent entries that could leave, or were not read; where `is_expired` was given."""
        found = list[tuple[Place, Place]]()
        for begin, end in sorted(self._may_expire):
            if not found or end > found[-1][1]:
                found.append((begin, end))
        return found

    @property
    def _open(self) -> Place:
        return self._begin if self._last is None else place_after(self._last)

    def _end(self, end: Place) -> None:
        is_met = self._first_absent is not None and self._first_absent < end
        if is_met and self._open < end and len(self._ranges) < MOST_RANGES:
            self._ranges.append((self._open, end))
            if self._is_unread:
                self._may_expire.append((self._open, end))
        self._is_unread = False


def place_after(place: Place) -> Place:
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
