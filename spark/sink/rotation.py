"""When an open object closes. Pure: times are given, none is asked for."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from headrace.model.columns import Numbers
from headrace.options.sink_settings import RotationSettings
from spark.sink.names import ObjectNames

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LOCAL_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - a clock on the wall has no zone
_MILLISECOND: Final = timedelta(milliseconds=1)


class RotateReason(StrEnum):
    """Why an object closed."""

    RECORDS = "records"
    BYTES = "bytes"
    AGE = "age"
    SPAN = "span"
    SCHEDULE = "schedule"
    NAME = "name"
    """The wall clock in its name is over."""
    MAX_AGE = "max_age"
    KEY = "key"
    """Names are of keys alone: an object has one record."""
    SCHEMA = "schema"
    GROUP = "group"
    """A record of another group came."""
    OPEN_OBJECTS = "open_objects"
    TOGETHER = "together"
    """Another object of the partition closed, and its grouping is by the clock."""
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFacts:
    """What decides when an open object closes. `bytes` are compressed ones.

    `first_timestamp_ms` is the time of its first record that a span goes by, below 0 when that has none.
    `age_from_ms` is when its age begins, None for when it was opened.
    """

    records: int
    bytes: int
    opened_ms: int
    first_timestamp_ms: int
    age_from_ms: int | None = None


class Limit(NamedTuple):
    """How many rows an object takes, and why it closes after them; None: it stays open."""

    rows: int
    reason: RotateReason | None


class Rotation:
    """All triggers of one sink; whichever comes first closes an object."""

    def __init__(self, settings: RotationSettings, names: ObjectNames) -> None:
        self._settings = settings
        self._names = names
        self._zone = ZoneInfo(settings.timezone)

    def due(self, facts: OpenFacts, now_ms: int) -> RotateReason | None:
        """Why the object closes now; None: it stays open."""
        settings = self._settings
        if settings.records and facts.records >= settings.records:
            return RotateReason.RECORDS
        if settings.bytes and facts.bytes >= settings.bytes:
            return RotateReason.BYTES
        passed = [(moment, reason) for moment, reason in self._moments(facts) if moment <= now_ms]
        return min(passed)[1] if passed else None

    def next_due_ms(self, facts: OpenFacts) -> int | None:
        """When the object closes by the clock, if nothing else closes it before."""
        return min((moment for moment, _ in self._moments(facts)), default=None)

    def limit(self, facts: OpenFacts | None, timestamps_ms: Numbers) -> Limit:
        """How many of the records with these times the object takes; `facts` None: it is not open yet.

        An object that is not open takes one at least. With 0 rows an open one closes as it is.
        """
        rows, reason = len(timestamps_ms), None
        if self._names.overwrites:
            rows, reason = (1 if facts is None else 0), RotateReason.KEY
        within = self._within_span(facts, timestamps_ms[:rows])
        if within < rows:
            rows, reason = within, RotateReason.SPAN
        room = self._settings.records - (0 if facts is None else facts.records)
        if self._settings.records and room <= rows:
            rows, reason = max(room, 0), RotateReason.RECORDS
        return Limit(rows, reason)

    def _within_span(self, facts: OpenFacts | None, timestamps_ms: Numbers) -> int:
        """Rows before the first whose own time is a span after that of the object's first record."""
        span = self._settings.span_ms
        if not span or not len(timestamps_ms):
            return len(timestamps_ms)
        first = int(timestamps_ms[0]) if facts is None else facts.first_timestamp_ms
        if first < 0:
            return len(timestamps_ms)
        behind = np.flatnonzero(timestamps_ms >= first + span)
        return int(behind[0]) if len(behind) else len(timestamps_ms)

    def _moments(self, facts: OpenFacts) -> Iterator[tuple[int, RotateReason]]:
        settings, opened = self._settings, facts.opened_ms
        if settings.age_ms:
            begin = opened if facts.age_from_ms is None else facts.age_from_ms
            yield begin + settings.age_ms, RotateReason.AGE
        if settings.max_age_ms:
            yield opened + settings.max_age_ms, RotateReason.MAX_AGE
        if settings.schedule_ms:
            yield next_on_schedule(opened, settings.schedule_ms, self._zone), RotateReason.SCHEDULE
        name_ends = self._names.name_ends_ms(opened)
        if name_ends is not None:
            yield name_ends, RotateReason.NAME


def next_on_schedule(moment_ms: int, every_ms: int, zone: ZoneInfo) -> int:
    """The next moment at which the zone's clock shows a multiple of `every_ms` since 1970-01-01 00:00.

    Where the clock skips it, the moment at which it continues.
    """
    shown = _shown(moment_ms, zone)
    following = (shown // every_ms + 1) * every_ms
    found = moment_ms + following - shown
    if _shown(found, zone) % every_ms == 0:
        return found
    # The clock was put back or forward on the way.
    walls = [(_LOCAL_EPOCH + following * _MILLISECOND).replace(tzinfo=zone, fold=fold) for fold in (0, 1)]
    moments = [(wall - _EPOCH) // _MILLISECOND for wall in walls]
    return min(moment for moment in moments if moment > moment_ms)


def _shown(moment_ms: int, zone: ZoneInfo) -> int:
    """What the zone's clock shows, in ms since it showed 1970-01-01 00:00."""
    wall = datetime.fromtimestamp(moment_ms // 1000, UTC).astimezone(zone).replace(tzinfo=None)
    return (wall - _LOCAL_EPOCH) // _MILLISECOND + moment_ms % 1000
