"""What full listings have shown is known to the next leader: where each run of the service lists once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import pytest

from headrace.kafka.cache_files import CacheDirectory, LedgerRows, collect_rows
from headrace.kafka.control_records import (
    FIRST_START,
    AbsentRange,
    FirstStart,
    encode_control,
    first_start_key,
)
from headrace.kafka.ledger_cache import CacheLedgerView, LedgerCache
from headrace.kafka.ledger_topic import LedgerIdentity
from headrace.kafka.ledger_writer import Write
from headrace.model.clock import Instant
from headrace.model.ledger_entry import ControlKey, LedgerEntry, State, encode_entry, encode_key
from headrace.model.objects import ListingPage, ObjectId, S3Object
from headrace.options import Settings
from ingest.service.service_events import Written
from ingest.service.source_start import ListingNotes, deciders, with_inventories
from ingest.source.first_starts import baseline_from, first_start_of
from tests.headrace.options.loading import load_with

BUCKET = "uploads"
NAMED = first_start_key(BUCKET)
HOUR = 3_600_000
DAY = 24 * HOUR
NOW = 1_700_000_000_000


@dataclass
class Ledger:
    """A ledger that several runs lead, one after the other."""

    cache: LedgerCache
    settings: Settings
    written: list[ControlKey] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    def apply(self, rows: LedgerRows) -> None:
        """More records."""
        self.cache.apply(rows, (self.cache.position or 0) + 1)

    def remember(self, key: ControlKey, first: FirstStart) -> None:
        """A first start."""
        self.apply(LedgerRows({}, {key.name: encode_control(first)}))

    def done(self, *keys: str, at_ms: int) -> None:
        """Objects that are done."""
        value = encode_entry(LedgerEntry(state=State.DONE, updated_ms=at_ms))
        self.apply(collect_rows((encode_key(ObjectId(BUCKET, key, "e")), value) for key in keys))

    def submit(self, records: Sequence[Write], _written: Written) -> None:
        """As `LedgerWrites.submit_records`."""
        for key, value in records:
            assert isinstance(key, ControlKey)
            assert isinstance(value, bytes)
            self.written.append(key)
            self.apply(LedgerRows({}, {key.name: value}))

    def run(self, *listings: tuple[int, Sequence[str]]) -> list[str]:
        """One leadership with these full listings; the keys whose entries leave. Its clock starts at zero."""
        first = first_start_of(self.cache, BUCKET)
        assert first is not None
        firsts = {BUCKET: first}
        baselines = {BUCKET: baseline_from(self.settings, first)}
        catalogue, _ = deciders(self.settings, CacheLedgerView(self.cache), firsts, baselines, slots=1)
        notes = ListingNotes(firsts, self.cache, catalogue, self.submit)
        found: list[str] = []
        for number, (at_ms, keys) in enumerate(listings):
            page = ListingPage(
                bucket=BUCKET,
                listing_id=number,
                is_full=True,
                after_key=None,
                through_key=None,
                objects=[S3Object(id=ObjectId(BUCKET, key, "e"), size=1, last_modified_ms=0) for key in keys],
            )
            now = Instant(wall_ms=at_ms, steady_ms=at_ms - listings[0][0])
            catalogue.on_listing_page(page, now)
            notes.listed(BUCKET, is_first=number == 0)
            while catalogue.is_taking_stock:
                effects = catalogue.take_stock(now)
                catalogue.on_written(effects.writes, now)
                gone = [write.key for write in effects.writes if isinstance(write.key, ObjectId)]
                self.apply(collect_rows((encode_key(key), None) for key in gone))
                found += [key.key for key in gone]
        return found


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    """A ledger whose connector has had its first start."""
    identity = LedgerIdentity(cluster_id="cluster", topic="ledger", topic_id="one")
    with LedgerCache(CacheDirectory(path=None, is_shared=False), identity) as cache:
        settings = load_with({"aws.s3.bucket.name": BUCKET, "aws.s3.prefix": "in/"})
        made = Ledger(cache, settings)
        made.remember(NAMED, FirstStart(at_ms=5, prefix="in/"))
        yield made


def test_entries_expire_where_each_run_lists_once(ledger: Ledger) -> None:
    """As by cron with `--until-idle` and `post.action=delete`: nothing is ever listed of what is done."""
    removed = 0
    for day in range(40):
        ledger.done(*(f"in/{day:02}-{number}" for number in range(10)), at_ms=NOW + day * DAY)
        removed += len(ledger.run((NOW + day * DAY, ())))
    # Of the first day to the ninth all are older than thirty days.
    assert removed == 90


def test_entries_between_objects_that_stay_expire_where_each_run_lists_once(ledger: Ledger) -> None:
    """However many others are absent that are too young: by the order of keys a hundred ranges were noted."""
    removed, stay = 0, list[str]()
    for day in range(40):
        keys = [f"in/{sha256(f'{day} {number}'.encode()).hexdigest()}" for number in range(60)]
        stay += keys[:40]
        ledger.done(*keys, at_ms=NOW + day * DAY)
        removed += len(ledger.run((NOW + day * DAY, sorted(stay))))
    # Noted once they are older than thirty days, they leave with the run after that.
    assert removed >= 8 * 20


def test_of_a_stretch_that_is_not_read_all_is_noted(ledger: Ledger) -> None:
    """Too many entries for a page: there may be such in it that could leave."""
    gone = [f"in/b{number:05}" for number in range(6_000)]
    ledger.done("in/a", *gone[:3_000], "in/c", at_ms=NOW - DAY)
    ledger.done(*gone[3_000:], at_ms=NOW - 90 * DAY)
    ledger.run((NOW, ["in/a", "in/c"]))
    assert ledger.run((NOW + DAY, ["in/a", "in/c"])) == gone[3_000:]


def test_one_run_alone_expires_nothing(ledger: Ledger) -> None:
    """However old: a bucket that is listed wrongly once is not forgotten."""
    ledger.done("in/a", "in/b", at_ms=NOW - 90 * DAY)
    assert ledger.run((NOW, ())) == []


def test_less_than_a_day_between_runs_is_not_enough_for_more_than_half(ledger: Ledger) -> None:
    """As within one run; for less than half an hour is."""
    ledger.done("in/a", "in/b", at_ms=NOW - 90 * DAY)
    ledger.run((NOW, ["in/a"]))
    assert ledger.run((NOW + HOUR, ["in/a"])) == ["in/b"]
    ledger.run((NOW + 2 * HOUR, ()))
    assert ledger.run((NOW + 25 * HOUR, ())) == []
    assert ledger.run((NOW + 26 * HOUR, ())) == ["in/a"]


def test_what_a_run_has_shown_begins_again(ledger: Ledger) -> None:
    """What was noted before it counts no more."""
    ledger.done("in/a", "in/b", "in/c", at_ms=NOW - 90 * DAY)
    ledger.run((NOW, ["in/a", "in/b"]))
    ledger.run((NOW + HOUR // 2, ["in/a", "in/b", "in/c"]))
    assert ledger.run((NOW + HOUR, ["in/a", "in/b"])) == []
    assert first_start_of(ledger.cache, BUCKET) != FirstStart(at_ms=5, prefix="in/")
    ledger.run((NOW + 2 * DAY, ["in/a", "in/b", "in/c"]))
    assert first_start_of(ledger.cache, BUCKET) == FirstStart(at_ms=5, prefix="in/")


@pytest.mark.parametrize("shown", [True, False], ids=["shown as new", "announced"])
def test_what_came_after_the_note_takes_two_listings_of_its_own(ledger: Ledger, *, shown: bool) -> None:
    """Its place was noted as empty, for a month: one wrong listing was enough, and it was read twice."""
    here = [f"in/z{number}" for number in range(9)]
    ledger.done("in/a1", "in/a9", *here, at_ms=NOW - 90 * DAY)
    ledger.run((NOW, ["in/m", *here] if shown else here))
    ledger.done("in/m", at_ms=NOW + 1000)
    assert ledger.run((NOW + 31 * DAY, here)) == ["in/a1", "in/a9"]
    assert ledger.run((NOW + 31 * DAY + HOUR, here)) == ["in/m"]


def test_a_sight_between_two_notes_is_noted(ledger: Ledger) -> None:
    """The same range, of a later time."""
    ledger.done("in/a", "in/b", at_ms=NOW - 90 * DAY)
    ledger.run((NOW, ["in/a"]))
    ledger.run((NOW + 1, ["in/a", "in/b"]))
    ledger.run((NOW + 2, ["in/a"]))
    assert ledger.run((NOW + HOUR, ["in/a"])) == []
    assert ledger.run((NOW + HOUR + 2, ["in/a"])) == ["in/b"]


def test_where_nothing_changes_it_is_noted_daily(ledger: Ledger) -> None:
    """Not hourly, from the second day on: the time of listings is needed for what came into a range later."""
    ledger.done("in/a", *(f"in/b{number:05}" for number in range(3_000)), at_ms=NOW)
    ledger.run(*((NOW + hour * HOUR, ["in/a"]) for hour in range(0, 97, 2)))
    assert ledger.written == [NAMED] * 5


def test_a_clock_that_was_behind_makes_nothing_older(ledger: Ledger) -> None:
    """A time to come counts as now."""
    ledger.done("in/a", "in/b", at_ms=NOW - 90 * DAY)
    ledger.run((NOW + DAY, ["in/a"]))
    assert ledger.run((NOW, ["in/a"]), (NOW + HOUR - 1, ["in/a"])) == []


def test_it_is_noted_hourly_where_it_has_changed(ledger: Ledger) -> None:
    """A listing each ten seconds is no record each."""
    ledger.done("in/a", "in/b", at_ms=NOW - 90 * DAY)
    ledger.run(*((NOW + seconds * 1000, ()) for seconds in range(0, 7210, 10)))
    assert ledger.written == [NAMED]
    ledger.run((NOW, ()), (NOW + HOUR, ["in/a"]), (NOW + HOUR + 1, ()))
    assert ledger.written == [NAMED, NAMED]


def test_a_record_of_1_0_0_stays_where_1_0_0_looks_for_it(ledger: Ledger) -> None:
    """It refuses a ledger with a control record that it does not know."""
    ledger.apply(LedgerRows({}, {NAMED.name: None}))
    ledger.remember(FIRST_START, FirstStart(at_ms=5))
    ledger.done("in/a", at_ms=NOW - 90 * DAY)
    ledger.run((NOW, ()), (NOW + HOUR, ()))
    assert ledger.written == []
    assert NAMED not in ledger.cache.controls()


def test_what_a_record_of_1_0_0_notes_counts_for_nothing(ledger: Ledger) -> None:
    """1.0.0 may have led in between: it keeps the record as it is, and its listings are in no note."""
    ledger.apply(LedgerRows({}, {NAMED.name: None}))
    range_ = AbsentRange("in/a", "", "in/z", "", NOW - DAY)
    ledger.remember(FIRST_START, FirstStart(at_ms=5, absent=(range_,), listed_ms=(NOW - DAY,)))
    here = [f"in/{number}" for number in range(9)]
    ledger.done("in/b", *here, at_ms=NOW - 90 * DAY)
    assert ledger.run((NOW, here)) == []
    assert ledger.run((NOW, here), (NOW + HOUR, here)) == ["in/b"]


def test_an_inventory_is_over_with_the_first_full_listing(ledger: Ledger) -> None:
    """And stays so with what is noted later."""
    settings = load_with(
        {
            "aws.s3.bucket.name": BUCKET,
            "aws.s3.prefix": "in/",
            "initial.inventory": "s3://inventories/manifest.json",
        }
    )
    ledger.remember(NAMED, with_inventories(FirstStart(at_ms=5, prefix="in/"), settings, is_new=True))
    ledger.done("in/a", at_ms=NOW - 90 * DAY)
    ledger.run((NOW, ["in/a"]), (NOW + HOUR, ()))
    assert ledger.written == [NAMED, NAMED]
    first = first_start_of(ledger.cache, BUCKET)
    assert first is not None
    assert not first.owes_inventory
    assert len(first.absent or ()) == 1
