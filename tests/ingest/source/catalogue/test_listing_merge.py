"""Pages merged with the ledger."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.objects import ListingPage, ObjectId, S3Object
from ingest.source.catalogue.ledger_view import DecodedEntry
from ingest.source.catalogue.listing_merge import merged_with_ledger

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
