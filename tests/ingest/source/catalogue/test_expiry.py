"""When entries expire: what full listings do not show, and how it is kept."""

from dataclasses import replace

import pytest

from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.objects import ListingPage, ObjectId, S3Object
from ingest.source.catalogue.expiry import (
    DOUBTED_MS,
    IN_A_TURN,
    Expiry,
)
from ingest.source.catalogue.ledger_view import APART_MS, Overlay, last_below, place_before
from ingest.source.catalogue.listing_merge import compared_with_ledger
from tests.ingest.source.catalogue.fake_ledger import FakeView
from tests.support.instants import at

DAY = 86_400_000
NOW = 100 * DAY
OLD = LedgerEntry(state=State.DONE, updated_ms=NOW - 31 * DAY)
HERE = [f"in/{number:02}" for number in range(10)]


class Passes:
    """Full listings of a bucket with ten objects, in which some are absent."""

    def __init__(self, *, prefix: str = "in/", retention_ms: int = 30 * DAY) -> None:
        self.view = FakeView()
        for key in HERE:
            self.view.apply(_id(key), OLD)
        self.ledger = Overlay(self.view)
        self.expiry = Expiry(self.ledger, "bucket", prefix=prefix, retention_ms=retention_ms)
        self.listing_id = 0
        self.steps = self.largest_turn = self.now_ms = 0

    def run(
        self,
        now_ms: int,
        absent: dict[str, LedgerEntry],
        *,
        here: list[str] = HERE,
        pages: tuple[tuple[str | None, str | None], ...] = ((None, None),),
        is_full: bool = True,
    ) -> tuple[list[str], tuple[str, ...]]:
        """What has expired after this listing, and the warnings. What is absent is in the ledger alone."""
        for key, entry in absent.items():
            self.view.apply(_id(key), entry)
        self._list(now_ms, here, pages, is_full=is_full)
        return self.take_stock()

    def show(self, now_ms: int, keys: list[str]) -> None:
        """A full listing of these, of which no stock is taken yet."""
        self._list(now_ms, keys, ((None, None),), is_full=True)

    def _list(
        self, now_ms: int, keys: list[str], pages: tuple[tuple[str | None, str | None], ...], *, is_full: bool
    ) -> None:
        self.listing_id += 1
        for after, through in pages:
            page = ListingPage(
                bucket="bucket",
                listing_id=self.listing_id,
                is_full=is_full,
                after_key=after,
                through_key=through,
                objects=[
                    S3Object(id=_id(key), size=1, last_modified_ms=0)
                    for key in sorted(keys)
                    if key > (after or "") and (through is None or key <= through)
                ],
            )
            self.observe(page, now_ms)

    def observe(self, page: ListingPage, now_ms: int) -> None:
        """One page, as the catalogue takes it."""
        self.now_ms = now_ms
        self.expiry.begin_page(page, at(now_ms))
        for s3_object, known in compared_with_ledger(page, self.ledger, self.expiry):
            if s3_object is not None:
                self.expiry.listed(s3_object.id, is_known=known is not None)
            elif known is not None:
                self.expiry.absent(known)
        self.expiry.end_page(page)

    def take_stock(self) -> tuple[list[str], tuple[str, ...]]:
        """All turns of it; what has expired leaves the ledger."""
        found: list[str] = []
        warnings: tuple[str, ...] = ()
        self.steps = self.largest_turn = 0
        while self.expiry.is_taking_stock:
            read = self.view.rows
            step = self.expiry.step(at(self.now_ms))
            self.largest_turn = max(self.largest_turn, self.view.rows - read)
            self.steps += 1
            warnings += step.warnings
            found += [known.key for known in step.expired]
            for known in step.expired:
                self.view.apply(known.id, None)
        return found, warnings


def _id(key: str, etag: str = "1") -> ObjectId:
    return ObjectId("bucket", key, etag)


@pytest.mark.parametrize(("refused", "expired"), [((), ["in/05"]), (("s3://bucket/in/05 is refused",), [])])
def test_a_listing_of_which_s3_refuses_an_object_expires_nothing(
    refused: tuple[str, ...], expired: list[str]
) -> None:
    """The object is there: once it may be read, its entry is what keeps it from being read again."""
    passes = Passes()
    for now_ms in (NOW, NOW + APART_MS):
        passes.listing_id += 1
        page = ListingPage(
            bucket="bucket",
            listing_id=passes.listing_id,
            is_full=True,
            after_key=None,
            through_key=None,
            objects=[S3Object(id=_id(key), size=1, last_modified_ms=0) for key in HERE if key != "in/05"],
            refused=refused,
        )
        passes.observe(page, now_ms)
        found, _ = passes.take_stock()
    assert found == expired


def test_two_complete_listings_an_hour_apart_expire_an_old_entry() -> None:
    """Neither one listing nor two in a row are enough."""
    passes = Passes()
    assert passes.run(NOW, {"in/a": OLD}) == ([], ())
    assert passes.run(NOW + APART_MS - 1, {}) == ([], ())
    assert passes.run(NOW + APART_MS, {}) == (["in/a"], ())


@pytest.mark.parametrize(
    ("key", "entry"),
    [
        ("out/a", OLD),
        ("in", OLD),
        ("in0", OLD),
        ("in/a", LedgerEntry(state=State.PARTIAL, updated_ms=NOW - 31 * DAY)),
        ("in/a", LedgerEntry(state=State.FAILED, updated_ms=NOW - 31 * DAY)),
        ("in/a", LedgerEntry(state=State.DONE, updated_ms=NOW - 29 * DAY)),
        ("in/a", LedgerEntry(state=State.DONE, updated_ms=NOW - 31 * DAY, last_modified_ms=NOW - 29 * DAY)),
    ],
    ids=["outside the prefix", "before it", "after it", "partial", "failed", "young", "young content"],
)
def test_what_stays(key: str, entry: LedgerEntry) -> None:
    """However long it is absent."""
    passes = Passes()
    passes.run(NOW, {key: entry})
    assert passes.run(NOW + APART_MS, {}) == ([], ())


def test_what_was_not_in_the_ledger_was_not_absent() -> None:
    """An entry that came between two others that are absent is younger than their absence."""
    passes = Passes(retention_ms=0)
    passes.run(NOW, {"in/a": OLD, "in/c": OLD})
    between = LedgerEntry(state=State.DONE, updated_ms=NOW + 1)
    assert passes.run(NOW + APART_MS, {"in/b": between}) == (["in/a", "in/c"], ())
    assert passes.run(NOW + 2 * APART_MS + 1, {}) == (["in/b"], ())


def test_what_was_shown_before_it_had_an_entry_was_not_absent() -> None:
    """A listing shows it as new, it is read, and no listing of the next hour shows it."""
    passes = Passes()
    passes.run(NOW, {"in/a": OLD, "in/c": OLD}, here=[*HERE, "in/b"])
    assert passes.run(NOW + APART_MS, {"in/b": OLD}) == (["in/a", "in/c"], ())
    assert passes.run(NOW + 2 * APART_MS, {}) == (["in/b"], ())


def test_an_entry_that_came_later_takes_two_listings_of_its_own() -> None:
    """However old it is by the second: the listings before it came do not count, where they are rare."""
    passes = Passes(retention_ms=0)
    passes.run(NOW, {"in/a": replace(OLD, updated_ms=NOW + 3 * DAY), "in/b": replace(OLD, updated_ms=NOW)})
    came = LedgerEntry(state=State.DONE, updated_ms=NOW + 1)
    assert passes.run(NOW + DAY, {"in/aa": came}) == (["in/b"], ())
    assert passes.run(NOW + DAY + 1, {}) == ([], ())
    assert passes.run(NOW + DAY + APART_MS, {}) == (["in/aa"], ())


def test_an_entry_of_the_prefix_alone_expires() -> None:
    """A key may be all of `aws.s3.prefix`."""
    passes = Passes(prefix="in/")
    passes.run(NOW, {"in/": OLD})
    assert passes.run(NOW + APART_MS, {}) == (["in/"], ())


def test_one_sight_in_between_begins_the_hour_again() -> None:
    """It was absent, then there: only absence from all of them counts."""
    passes = Passes()
    passes.run(NOW, {"in/a": OLD})
    passes.run(NOW + 1, {}, here=[*HERE, "in/a"])
    passes.run(NOW + 2, {})
    assert passes.run(NOW + APART_MS, {}) == ([], ())
    assert passes.run(NOW + APART_MS + 2, {}) == (["in/a"], ())


def test_another_content_of_a_listed_key_expires() -> None:
    """Whether its ETag sorts before that which is listed, or after it."""
    passes = Passes()
    for etag in ("0", "2"):
        passes.view.apply(_id("in/05", etag), OLD)
    passes.run(NOW, {})
    assert passes.run(NOW + APART_MS, {}) == (["in/05", "in/05"], ())
    assert passes.view.get(_id("in/05")) == OLD


@pytest.mark.parametrize(
    "pages",
    [
        ((None, "in/m"),),
        ((None, "in/m"), ("in/p", None)),
    ],
    ids=["given up half-way", "with a gap"],
)
def test_an_incomplete_listing_counts_for_nothing(pages: tuple[tuple[str | None, str | None], ...]) -> None:
    """Neither as the first of the two nor as the second."""
    passes = Passes()
    passes.run(NOW - 2 * APART_MS, {"in/a": OLD}, pages=pages)
    passes.run(NOW, {})
    assert passes.run(NOW + APART_MS, {}, pages=pages) == ([], ())
    assert passes.run(NOW + APART_MS + 1, {}) == (["in/a"], ())


def test_an_incremental_listing_counts_for_nothing() -> None:
    """It says nothing about the keys before it."""
    passes = Passes()
    passes.run(NOW, {"in/a": OLD})
    assert passes.run(NOW + APART_MS, {}, is_full=False) == ([], ())


def test_what_a_start_key_leaves_out_is_not_absent() -> None:
    """A full listing begins at `native.start.key`."""
    passes = Passes()
    pages = (("in/a", None),)
    here = [f"in/c{number}" for number in range(3)]
    passes.run(NOW, dict.fromkeys(("in/a", "in/b", *here), OLD), pages=pages, here=here)
    assert passes.run(NOW + APART_MS, {}, pages=pages, here=here) == (["in/b"], ())


def test_a_listing_out_of_order_counts_for_nothing() -> None:
    """Absence cannot be told without an order."""
    passes = Passes()
    passes.view.apply(_id("in/a"), OLD)
    objects = [S3Object(id=_id(key), size=1, last_modified_ms=0) for key in reversed(HERE)]
    for number in (1, 2):
        page = ListingPage(
            bucket="bucket",
            listing_id=number,
            is_full=True,
            after_key=None,
            through_key=None,
            objects=objects,
        )
        passes.observe(page, NOW + number * APART_MS)
        assert passes.take_stock() == ([], ())


def test_more_than_half_of_the_entries_takes_a_day_of_listings() -> None:
    """A listing that suddenly shows next to nothing is not believed soon, and a sentence says so once."""
    passes = Passes()
    gone = {f"in/{number}": OLD for number in range(11, 22)}
    passes.run(NOW, gone)
    expired, warnings = passes.run(NOW + APART_MS, {})
    assert expired == []
    assert len(warnings) == 1
    assert warnings[0].startswith(
        "Full listings of s3://bucket/in/ show no object for 11 of the ledger's 21 "
    )
    for hour in range(2, 24):
        assert passes.run(NOW + hour * APART_MS, {}) == ([], ())
    assert passes.run(NOW + DOUBTED_MS, {}) == (list(gone), ())


def test_what_is_shown_within_the_day_stays() -> None:
    """A store that listed wrongly for 23 hours, and then as it should: nothing was forgotten."""
    passes = Passes()
    gone = [f"in/{number}" for number in range(11, 33)]
    passes.run(NOW, dict.fromkeys(gone, OLD))
    for hour in range(1, 24):
        assert passes.run(NOW + hour * APART_MS, {})[0] == []
    passes.run(NOW + 23 * APART_MS + 1, {}, here=HERE + gone)
    for hour in range(24, 48):
        assert passes.run(NOW + hour * APART_MS, {})[0] == []
    assert passes.run(NOW + 2 * DOUBTED_MS, {})[0] == gone


def test_half_of_the_entries_is_believed_after_an_hour() -> None:
    """What is more than half is counted among all entries, not among those that are old."""
    passes = Passes()
    gone = {f"in/{number}": OLD for number in range(11, 21)}
    passes.run(NOW, gone)
    assert passes.run(NOW + APART_MS, {}) == (list(gone), ())


def test_neither_a_page_nor_a_turn_grows_with_what_was_deleted() -> None:
    """Of a long stretch a page reads some; stock is taken of it in several turns, and all expires at once."""
    count = 3 * IN_A_TURN
    passes = Passes()
    here = [*HERE, *(f"in/2{number}" for number in range(10))]
    gone = [f"in/1{number:06}" for number in range(count)]
    young = [f"in/3{number:06}" for number in range(count)]
    entries = {_id(key): OLD for key in (*here, *gone)}
    entries |= dict.fromkeys(map(_id, young), replace(OLD, updated_ms=NOW))
    passes.view.fill(sorted(entries.items()))
    passes.run(NOW, {}, here=here)
    assert passes.view.rows < IN_A_TURN
    expired, _ = passes.run(NOW + APART_MS, {}, here=here)
    assert expired == gone
    assert passes.steps > 6
    assert passes.largest_turn <= 2 * IN_A_TURN


def _half_way() -> tuple[Passes, list[str], list[str]]:
    """Stock is being taken, of what is listed and of what is not; the count is over."""
    passes = Passes()
    here = [f"in/2{number:05}" for number in range(3 * IN_A_TURN)]
    gone = [f"in/1{number:05}" for number in range(3 * IN_A_TURN)]
    passes.view.fill([(_id(key), OLD) for key in sorted([*HERE, *here, *gone])])
    passes.show(NOW, [*HERE, *here])
    passes.show(NOW + APART_MS, [*HERE, *here])
    while not (left := [known.key for known in passes.expiry.step(at(NOW + APART_MS)).expired]):
        assert passes.expiry.is_taking_stock
    assert left == gone[: len(left)]
    for key in left:
        passes.view.apply(_id(key), None)
    return passes, here, gone[len(left) :]


def test_what_a_listing_shows_while_stock_is_taken_stays() -> None:
    """The ledger may be slow, or away, and listings come meanwhile: their objects were read twice."""
    passes, here, rest = _half_way()
    passes.show(NOW + APART_MS + 1, [*HERE, *here, *rest[10:]])
    assert passes.expiry.is_taking_stock
    assert passes.take_stock() == (rest[:10], ())


def test_what_was_not_shown_once_more_stays() -> None:
    """It was shown after stock began, and then not again: that absence is young."""
    passes, here, rest = _half_way()
    passes.show(NOW + APART_MS + 1, [*HERE, *here, *rest])
    passes.show(NOW + APART_MS + 2, [*HERE, *here])
    assert passes.take_stock() == ([], ())


def test_stock_that_waited_for_an_hour_is_taken_from_the_beginning() -> None:
    """As while it is paused, where nothing is listed: what was true then may not be any more."""
    passes, here, rest = _half_way()
    assert not passes.expiry.step(at(NOW + 2 * APART_MS)).expired
    assert not passes.expiry.is_taking_stock
    passes.show(NOW + 2 * APART_MS + 1, [*HERE, *here])
    assert passes.take_stock() == (rest, ())


def test_listed_objects_among_many_deleted_ones_are_known() -> None:
    """However far apart: each has its entry, and none of them is absent."""
    passes = Passes()
    here, gone = [], []
    for folder in range(20):
        here.append(f"in/{folder:02}/b")
        gone += [f"in/{folder:02}/{end}{number:04}" for number in range(600) for end in "ac"]
    passes.view.fill([(_id(key), OLD) for key in sorted([*here, *gone])])
    for now_ms in (NOW, NOW + DOUBTED_MS):
        page = ListingPage(
            bucket="bucket",
            listing_id=now_ms,
            is_full=True,
            after_key=None,
            through_key=None,
            objects=[S3Object(id=_id(key), size=1, last_modified_ms=0) for key in here],
        )
        met = compared_with_ledger(page, passes.ledger, Expiry(passes.ledger, "b", prefix="", retention_ms=0))
        assert [known.id for s3_object, known in met if s3_object is not None and known is not None] == [
            _id(key) for key in here
        ]
        passes.observe(page, now_ms)
        expired, _ = passes.take_stock()
    assert expired == sorted(gone)


@pytest.mark.parametrize("prefix", ["", "a", "a/", "a\0", "\ue000", "é", "\U0010ffff", "a" * 1024])
def test_bounds_of_a_prefix_leave_nothing_of_it_out(prefix: str) -> None:
    """They are in the order of UTF-8, as S3's and SQLite's."""
    before = place_before(prefix)
    below = [prefix, f"{prefix}\0", f"{prefix}\U0010ffff\U0010ffff/b"]
    for key in below:
        assert before is None or before.encode() < key.encode()
        assert key.encode() <= last_below(prefix).encode()
    if before is not None:
        assert not before.startswith(prefix)
