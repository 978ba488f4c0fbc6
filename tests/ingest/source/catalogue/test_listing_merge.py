"""Pages merged with the ledger, and when entries expire."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.objects import ListingPage, ObjectId, S3Object
from ingest.source.catalogue.ledger_view import DecodedEntry
from ingest.source.catalogue.listing_merge import APART_MS, Expiry, merged_with_ledger
from tests.support.instants import at

DAY = 86_400_000
DONE = LedgerEntry(state=State.DONE)


def listed(key: str, etag: str = "1") -> S3Object:
    """An object as a listing shows it."""
    return S3Object(id=ObjectId("bucket", key, etag), size=1, last_modified_ms=0)


@given(
    keys=st.sets(st.tuples(st.text("abé😀", min_size=1, max_size=3), st.sampled_from("12"))),
    known=st.sets(st.tuples(st.text("abé😀", min_size=1, max_size=3), st.sampled_from("123"))),
)
def test_a_merge_is_a_look_up_for_each(keys: set[tuple[str, str]], known: set[tuple[str, str]]) -> None:
    """Each listed object meets its own entry, and each other entry stands alone, in key order."""
    page = [listed(key, etag) for key, etag in sorted(dict(sorted(keys)).items())]
    entries = [DecodedEntry(ObjectId("bucket", key, etag), DONE) for key, etag in sorted(known)]
    met = list(merged_with_ledger(page, entries))
    shown = {seen.id for seen in page}
    there = {entry.id: entry for entry in entries}
    assert [(seen.id, entry) for seen, entry in met if seen] == [
        (seen.id, there.get(seen.id)) for seen in page
    ]
    assert [entry.id for seen, entry in met if seen is None and entry] == sorted(set(there) - shown)


@pytest.mark.parametrize(
    ("keys", "after", "through", "expected"),
    [
        (["a", "b"], None, None, True),
        ([], "a", "b", True),
        (["b"], "a", "b", True),
        (["a"], "a", "b", False),
        (["c"], "a", "b", False),
        (["b", "a"], None, None, False),
        (["a", "a"], None, None, False),
        (["A", "a", "é", "😀"], None, None, True),
    ],
)
def test_a_page_is_in_order(
    keys: list[str],
    after: str | None,
    through: str | None,
    expected: bool,
) -> None:
    """Only then a merge may be relied on."""
    page = ListingPage(
        bucket="bucket",
        listing_id=1,
        is_full=True,
        after_key=after,
        through_key=through,
        objects=[listed(key) for key in keys],
    )
    assert page.is_in_order is expected


class Passes:
    """Full listings of a bucket with ten objects, in which some are absent."""

    def __init__(self) -> None:
        self.expiry = Expiry(prefix="in/", retention_ms=30 * DAY)
        self.listing_id = 0

    def run(
        self,
        now_ms: int,
        absent: dict[str, LedgerEntry],
        *,
        pages: tuple[tuple[str | None, str | None], ...] = ((None, None),),
        is_full: bool = True,
    ) -> tuple[list[str], str | None]:
        """What has expired after this listing, and the warning."""
        self.listing_id += 1
        found: list[ObjectId] = []
        warning = None
        for number, (after, through) in enumerate(pages):
            page = ListingPage(
                bucket="bucket",
                listing_id=self.listing_id,
                is_full=is_full,
                after_key=after,
                through_key=through,
                objects=(),
            )
            self.expiry.begin_page(page, at(now_ms))
            if number == 0:
                for _ in range(10):
                    self.expiry.listed()
                for key, entry in absent.items():
                    self.expiry.absent(ObjectId("bucket", key, "1"), entry, now_ms)
            ended, warning = self.expiry.end_page(page)
            found += ended
        return [key.key for key in found], warning


NOW = 100 * DAY
OLD = LedgerEntry(state=State.DONE, updated_ms=NOW - 31 * DAY)


def test_two_complete_listings_an_hour_apart_expire_an_old_entry() -> None:
    """Neither one listing nor two in a row are enough."""
    passes = Passes()
    assert passes.run(NOW, {"in/a": OLD}) == ([], None)
    assert passes.run(NOW + APART_MS - 1, {"in/a": OLD}) == ([], None)
    assert passes.run(NOW + APART_MS, {"in/a": OLD}) == (["in/a"], None)


@pytest.mark.parametrize(
    ("key", "entry"),
    [
        ("out/a", OLD),
        ("in/a", LedgerEntry(state=State.PARTIAL, updated_ms=NOW - 31 * DAY)),
        ("in/a", LedgerEntry(state=State.FAILED, updated_ms=NOW - 31 * DAY)),
        ("in/a", LedgerEntry(state=State.DONE, updated_ms=NOW - 29 * DAY)),
        ("in/a", LedgerEntry(state=State.DONE, updated_ms=NOW - 31 * DAY, last_modified_ms=NOW - 29 * DAY)),
    ],
    ids=["outside the prefix", "partial", "failed", "young", "young content"],
)
def test_what_stays(key: str, entry: LedgerEntry) -> None:
    """However long it is absent."""
    passes = Passes()
    passes.run(NOW, {key: entry})
    assert passes.run(NOW + APART_MS, {key: entry}) == ([], None)


def test_one_sight_in_between_begins_anew() -> None:
    """It was absent, then there: only absence from all of them counts."""
    passes = Passes()
    passes.run(NOW, {"in/a": OLD})
    passes.run(NOW + 1, {})
    assert passes.run(NOW + APART_MS, {"in/a": OLD}) == ([], None)


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
    passes.run(NOW, {"in/a": OLD})
    assert passes.run(NOW + APART_MS, {"in/a": OLD}, pages=pages) == ([], None)
    assert passes.run(NOW + APART_MS + 1, {"in/a": OLD}) == (["in/a"], None)


def test_an_incremental_listing_counts_for_nothing() -> None:
    """It says nothing about the keys before it."""
    passes = Passes()
    passes.run(NOW, {"in/a": OLD})
    assert passes.run(NOW + APART_MS, {"in/a": OLD}, is_full=False) == ([], None)


def test_a_listing_out_of_order_counts_for_nothing() -> None:
    """Absence cannot be told without an order."""
    expiry = Passes().expiry
    page = ListingPage(
        bucket="bucket", listing_id=1, is_full=True, after_key=None, through_key=None, objects=()
    )
    for now_ms in (NOW, NOW + APART_MS):
        expiry.begin_page(page, at(now_ms))
        expiry.invalidate()
        expiry.absent(ObjectId("bucket", "in/a", "1"), OLD, now_ms)
        assert expiry.end_page(page) == ([], None)


def test_never_more_than_half_of_the_entries() -> None:
    """A listing that suddenly shows next to nothing is not believed, and somebody is told."""
    passes = Passes()
    gone = {f"in/{number}": OLD for number in range(11)}
    passes.run(NOW, gone)
    expired, warning = passes.run(NOW + APART_MS, gone)
    assert expired == []
    assert warning is not None
    assert warning.startswith(
        "A full listing shows no object for 11 of the ledger's 21 entries; none is removed."
    )
    gone.popitem()
    assert len(passes.run(NOW + 2 * APART_MS, gone)[0]) == 10
