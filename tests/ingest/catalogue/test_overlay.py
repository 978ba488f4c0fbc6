import pytest

from ingest.catalogue.view import Overlay
from ingest.ledger import LedgerEntry, LedgerKey, SliceKey, State
from ingest.objects import ObjectId
from tests.ingest.catalogue.fake_ledger import FakeView

OBJECT = ObjectId("bucket", "key", "etag")
PARTIAL = LedgerEntry(state=State.PARTIAL, records=1)
DONE = LedgerEntry(state=State.DONE, records=2)


@pytest.mark.parametrize("is_read_first", [False, True], ids=["report first", "follower first"])
@pytest.mark.parametrize("entries", [[DONE], [PARTIAL, DONE]], ids=["one commit", "two commits"])
def test_nothing_stays_behind(is_read_first: bool, entries: list[LedgerEntry]) -> None:  # noqa: FBT001 - a table
    """Whichever comes first, the report of a commit or its record, in the end the overlay is empty.

    Red before the view was asked: an entry that the follower read first stayed for the life of the process.
    """
    view = FakeView()
    overlay = Overlay(view)
    if is_read_first:
        for entry in entries:
            view.apply(OBJECT, entry)
            overlay.applied(OBJECT, entry)
        for entry in entries:
            overlay.committed(OBJECT, entry)
    else:
        for entry in entries:
            overlay.committed(OBJECT, entry)
            assert overlay.get(OBJECT) == entry
        for entry in entries:
            view.apply(OBJECT, entry)
            overlay.applied(OBJECT, entry)
    assert overlay.get(OBJECT) == entries[-1]
    assert len(overlay) == 0


@pytest.mark.parametrize("key", [OBJECT, SliceKey(OBJECT, 0, 10)], ids=["object", "slice"])
def test_a_tombstone_hides_what_the_view_is_about_to_show(key: LedgerKey) -> None:
    """Written and removed again before the follower has read either: it shows the first for a moment."""
    view = FakeView()
    overlay = Overlay(view)
    overlay.committed(key, PARTIAL)
    overlay.committed(key, None)
    view.apply(key, PARTIAL)
    overlay.applied(key, PARTIAL)
    assert overlay.get(OBJECT) is None
    assert overlay.slices(OBJECT) == {}
    view.apply(key, None)
    overlay.applied(key, None)
    assert len(overlay) == 0
