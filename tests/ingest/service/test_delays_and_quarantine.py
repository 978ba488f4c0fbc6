"""What `/status` keeps of the past: how late objects were, and which are quarantined."""

from dataclasses import dataclass, field

import pytest

from headrace.kafka.cache_files import CachedEntry
from headrace.model.ledger_entry import LedgerEntry, State, encode_entry
from ingest.http.snapshot import EventToCommit
from ingest.service.statistics import Latency, QuarantineList
from tests.support.instants import MovedClock


@dataclass(slots=True)
class Ledger:
    """Quarantined objects, and how often they were asked for."""

    known: list[CachedEntry] = field(default_factory=list)
    asked: int = 0

    def newest_quarantined(self, bucket: str, limit: int) -> list[CachedEntry]:
        """As the cache answers."""
        assert bucket == "b"
        self.asked += 1
        return sorted(self.known, key=lambda one: -one.entry.updated_ms)[:limit]


def known(number: int, *, key: str | None = None, error: str | None = None) -> CachedEntry:
    """A quarantined object; the higher the number, the newer."""
    entry = LedgerEntry(
        state=State.QUARANTINED, reason="not_json", error=error, size=number, updated_ms=number * 1000
    )
    return CachedEntry("b", key or f"{number:04d}", "e", State.QUARANTINED, encode_entry(entry))


@pytest.mark.parametrize(
    ("waits", "shown"),
    [
        ([], None),
        ([3.0], (1, 3.0, 3.0, 3.0)),
        ([4.0, 1.0, 3.0, 2.0], (4, 2.0, 4.0, 4.0)),
        ([float(n) for n in range(1, 101)], (100, 50.0, 99.0, 100.0)),
        ([float(n) for n in range(1, 1501)], (1000, 1000.0, 1490.0, 1500.0)),
    ],
    ids=["none", "one", "four", "a hundred", "more than are kept"],
)
def test_percentiles_are_of_objects_that_there_were(
    waits: list[float], shown: tuple[int, float, float, float] | None
) -> None:
    """The nearest rank, of the last thousand."""
    latency = Latency(MovedClock())
    for wait in waits:
        latency.took(wait)

    expected = None
    if shown is not None:
        expected = EventToCommit(
            objects=shown[0], p50_seconds=shown[1], p99_seconds=shown[2], max_seconds=shown[3]
        )
    assert latency.shown == expected


def test_what_is_older_than_ten_minutes_is_no_news() -> None:
    """A slow morning does not colour the evening."""
    clock = MovedClock()
    latency = Latency(clock)
    latency.took(100.0)
    clock.now = 400
    latency.took(1.0)
    assert latency.shown is not None
    assert latency.shown.max_seconds == 100.0

    clock.now = 601
    assert latency.shown == EventToCommit(objects=1, p50_seconds=1.0, p99_seconds=1.0, max_seconds=1.0)
    clock.now = 1001
    assert latency.shown is None


def test_the_newest_fifty_come_first() -> None:
    """In whatever order the ledger has them."""
    ledger = Ledger([known(number) for number in (*range(0, 80, 2), *range(1, 80, 2))])

    newest = QuarantineList(MovedClock()).newest(ledger, "b", count=80, ended=0)

    assert [one.bytes for one in newest] == list(range(79, 29, -1))


def test_the_ledger_is_read_when_something_may_have_changed() -> None:
    """The service looks four times a second, for years."""
    clock, ledger = MovedClock(), Ledger([known(1)])
    quarantine = QuarantineList(clock)

    assert quarantine.newest(ledger, "b", count=0, ended=0) == ()
    assert ledger.asked == 0
    first = quarantine.newest(ledger, "b", count=1, ended=0)
    for _ in range(100):
        assert quarantine.newest(ledger, "b", count=1, ended=0) == first
    assert ledger.asked == 1
    # One was replayed, and another one came: as many as before.
    ledger.known = [known(2)]
    assert [one.bytes for one in quarantine.newest(ledger, "b", count=1, ended=1)] == [2]
    # What changes unseen is seen a little later.
    ledger.known = [known(3)]
    clock.now = 10
    assert [one.bytes for one in quarantine.newest(ledger, "b", count=1, ended=1)] == [3]
    assert quarantine.newest(ledger, "b", count=0, ended=1) == ()


def test_keys_and_errors_can_be_shown() -> None:
    """They come from outside."""
    ledger = Ledger([known(1, key="a\nb\x1b[31m", error="\u202egpj.exe")])

    (shown,) = QuarantineList(MovedClock()).newest(ledger, "b", count=1, ended=0)

    assert (shown.key, shown.error) == ("a\\nb\\x1b[31m", "\\u202egpj.exe")
