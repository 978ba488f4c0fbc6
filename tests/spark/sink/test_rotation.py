"""When an open object closes: each trigger alone, the first of several, and the clock in its zone."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.columns import NO_TIME
from headrace.names.date_fields import read_zone
from spark.sink.object_keys import ObjectNames
from spark.sink.rotation import Limit, OpenFacts, RotateReason, Rotation, next_on_schedule
from spark.sink.routed_tools import SmallFiles
from tests.spark.sink.grouped import TAIL, names_of, sink_of

_OFF = {"rotate_records": "0", "rotate_bytes": "0", "rotate_age_ms": "0", "open_object_max_age_ms": "0"}
_HOUR = 3_600_000
_NEVER_MS = 10**9


def _rotation(names: ObjectNames | None = None, /, **options: str) -> Rotation:
    given = {**_OFF, "rotate_bytes": str(10**12), **options}
    return Rotation(sink_of(**given).rotation, names_of(TAIL) if names is None else names)


def _open(*, records: int = 1, size: int = 0, opened: int = 0, first: int = 0) -> OpenFacts:
    return OpenFacts(records=records, bytes=size, opened_ms=opened, first_timestamp_ms=first)


@pytest.mark.parametrize(
    ("options", "before", "at", "reason"),
    [
        ({"rotate_records": "3"}, _open(records=2), _open(records=3), RotateReason.RECORDS),
        ({"rotate_bytes": "100"}, _open(size=99), _open(size=100), RotateReason.BYTES),
    ],
)
def test_an_object_closes_at_its_size(
    options: dict[str, str], before: OpenFacts, at: OpenFacts, reason: RotateReason
) -> None:
    """Not one sooner."""
    rotation = _rotation(**options)

    assert rotation.due(before, _NEVER_MS) is None
    assert rotation.due(at, 0) is reason


@pytest.mark.parametrize(
    ("options", "due_ms", "reason"),
    [
        ({"rotate_age_ms": "5000"}, 5100, RotateReason.AGE),
        ({"open_object_max_age_ms": "5000"}, 5100, RotateReason.MAX_AGE),
        ({"rotate_schedule_ms": "5000"}, 5000, RotateReason.SCHEDULE),
        ({"rotate_schedule_ms": "5000", "rotate_age_ms": "4000"}, 4100, RotateReason.AGE),
        ({"rotate_schedule_ms": "3000", "rotate_age_ms": "4000"}, 3000, RotateReason.SCHEDULE),
    ],
)
def test_an_object_closes_at_its_time(options: dict[str, str], due_ms: int, reason: RotateReason) -> None:
    """The first of several, and `next_due_ms` is when."""
    rotation, facts = _rotation(**options), _open(opened=100)

    assert rotation.next_due_ms(facts) == due_ms
    assert rotation.due(facts, due_ms - 1) is None
    assert rotation.due(facts, due_ms) is reason


def test_an_age_begins_when_the_object_was_opened_at_the_latest() -> None:
    """With rotate.age.from=closed too, where the clock was put back after the last one closed."""
    rotation = _rotation(rotate_age_ms="5000")

    assert rotation.next_due_ms(replace(_open(opened=100), age_from_ms=50)) == 5050
    assert rotation.next_due_ms(replace(_open(opened=100), age_from_ms=_HOUR)) == 5100


def test_what_is_off_closes_nothing() -> None:
    """0 is off."""
    assert _rotation().due(_open(records=10**9), 10**15) is None
    assert _rotation().next_due_ms(_open()) is None


def test_an_object_closes_when_the_clock_in_its_name_is_over() -> None:
    """So that no record read after eleven stands under ten o'clock."""
    names = names_of("{{date:yyyy-MM-dd/HH}}/" + TAIL, file_name_timestamp_source="wallclock")
    rotation = _rotation(names)

    assert rotation.next_due_ms(_open(opened=_HOUR - 1)) == _HOUR
    assert rotation.due(_open(opened=_HOUR - 1), _HOUR) is RotateReason.NAME


@pytest.mark.parametrize(
    ("facts", "times", "limit"),
    [
        (None, [0] * 2, Limit(2, None)),
        (None, [0] * 3, Limit(3, RotateReason.RECORDS)),
        (None, [0] * 9, Limit(3, RotateReason.RECORDS)),
        (_open(records=2), [0] * 9, Limit(1, RotateReason.RECORDS)),
        (_open(records=3), [0] * 9, Limit(0, RotateReason.RECORDS)),
    ],
)
def test_rows_are_counted_exactly(facts: OpenFacts | None, times: list[int], limit: Limit) -> None:
    """`rotate.records` is a number of records and not of batches."""
    assert _rotation(rotate_records="3").limit(facts, np.array(times, np.int64)) == limit


@pytest.mark.parametrize(
    ("facts", "times", "limit"),
    [
        (None, [100, 1099, 50, 1100, 60], Limit(3, RotateReason.SPAN)),
        (_open(first=100), [1099], Limit(1, None)),
        (_open(first=100), [1100], Limit(0, RotateReason.SPAN)),
        (None, [NO_TIME, 10**9], Limit(2, None)),
        (_open(first=NO_TIME), [10**9], Limit(1, None)),
        (_open(first=100), [NO_TIME], Limit(1, None)),
        (None, [-1, 998, 999], Limit(2, RotateReason.SPAN)),
        (_open(first=-5000), [-4001, -4000], Limit(1, RotateReason.SPAN)),
    ],
)
def test_a_span_is_of_the_records_own_times(facts: OpenFacts | None, times: list[int], limit: Limit) -> None:
    """From the first record's; one that is late belongs to the open object."""
    assert _rotation(rotate_span_ms="1000").limit(facts, np.array(times, np.int64)) == limit


def test_an_object_of_a_key_has_one_record() -> None:
    """The next one of the key is another object, which replaces it."""
    rotation = _rotation(names_of("{{topic}}/{{key}}"))

    assert rotation.limit(None, np.zeros(1, np.int64)) == Limit(1, RotateReason.KEY)
    assert rotation.limit(_open(), np.zeros(1, np.int64)) == Limit(0, RotateReason.KEY)


def _ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize(
    ("zone", "every_ms", "moment", "following"),
    [
        ("UTC", 24 * _HOUR, "2026-01-01T12:00Z", "2026-01-02T00:00Z"),
        ("UTC", _HOUR, "2026-01-01T12:00Z", "2026-01-01T13:00Z"),
        ("Europe/Berlin", 24 * _HOUR, "2026-01-01T12:00Z", "2026-01-01T23:00Z"),
        # The day on which the clock is put forward, and back.
        ("Europe/Berlin", 24 * _HOUR, "2026-03-28T23:00Z", "2026-03-29T22:00Z"),
        ("Europe/Berlin", 24 * _HOUR, "2026-10-24T22:00Z", "2026-10-25T23:00Z"),
        ("Europe/Berlin", _HOUR, "2026-03-29T00:30Z", "2026-03-29T01:00Z"),
        ("Europe/Berlin", 2 * _HOUR, "2026-03-29T00:30Z", "2026-03-29T01:00Z"),
        ("Europe/Berlin", _HOUR, "2026-10-25T00:30Z", "2026-10-25T01:00Z"),
        ("Europe/Berlin", _HOUR // 2, "2026-10-25T00:40Z", "2026-10-25T01:00Z"),
        # Midnight is skipped: the day begins at one o'clock there.
        ("Africa/Cairo", 24 * _HOUR, "2026-04-23T12:00Z", "2026-04-23T22:00Z"),
        ("America/Santiago", 6 * _HOUR, "2026-09-05T23:30Z", "2026-09-06T04:00Z"),
        ("-05:30", 24 * _HOUR, "2026-01-01T12:00Z", "2026-01-02T05:30Z"),
        ("Asia/Kolkata", _HOUR, "2026-01-01T12:00Z", "2026-01-01T12:30Z"),
    ],
)
def test_a_schedule_is_the_zones_clock(zone: str, every_ms: int, moment: str, following: str) -> None:
    """Midnight there, on days of 23 and 25 hours too."""
    found = next_on_schedule(_ms(moment), every_ms, read_zone(zone))

    assert datetime.fromtimestamp(found / 1000, UTC) == datetime.fromisoformat(following)


@given(
    moment=st.datetimes(datetime(1975, 1, 1), datetime(2035, 1, 1)),  # noqa: DTZ001 - UTC is put on it
    every=st.sampled_from([60_000, 900_000, _HOUR, 2 * _HOUR, 6 * _HOUR, 24 * _HOUR]),
    zone=st.sampled_from(
        ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kathmandu"]
    ),
)
def test_a_schedule_always_comes_and_not_too_late(moment: datetime, every: int, zone: str) -> None:
    """Later than now, and within the interval and what clocks are put back by."""
    now = int(moment.replace(tzinfo=UTC).timestamp() * 1000)

    found = next_on_schedule(now, every, ZoneInfo(zone))

    assert now < found <= now + every + timedelta(hours=1).total_seconds() * 1000


def test_small_objects_are_noticed_once_an_hour_with_the_option_that_helps() -> None:
    """By what closed most of them, after a hundred."""
    small = SmallFiles()
    said = [small.add(RotateReason.AGE, 1000, now_ms=10) for _ in range(200)]

    assert [sentence for sentence in said if sentence] == [
        "objects have 1.0 kB on average, and most close by age: raise rotate.age.ms"
    ]
    assert any(small.add(RotateReason.AGE, 1000, now_ms=10 + _HOUR) for _ in range(100))


def test_large_objects_and_ends_are_no_small_files() -> None:
    """A stop closes what is open, and a template of keys has small objects by design."""
    small = SmallFiles()

    assert not any(small.add(RotateReason.BYTES, 2_000_000, now_ms=0) for _ in range(300))
    assert not any(small.add(RotateReason.STOP, 1, now_ms=0) for _ in range(300))
    assert not any(small.add(RotateReason.KEY, 1, now_ms=0) for _ in range(300))
