from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.ledger_entry import LedgerEntry, LedgerKey, SplitKey, State
from headrace.model.objects import ObjectId
from ingest.source.catalogue.ledger_view import Overlay
from tests.ingest.source.catalogue.fake_ledger import FakeView

OBJECT = ObjectId("bucket", "key", "etag")
PARTIAL = LedgerEntry(state=State.PARTIAL, records=1)
DONE = LedgerEntry(state=State.DONE, records=2)


@pytest.mark.parametrize("is_read_first", [False, True], ids=["report first", "follower first"])
@pytest.mark.parametrize("entries", [[DONE], [PARTIAL, DONE]], ids=["one commit", "two commits"])
def test_nothing_stays_behind(is_read_first: bool, entries: list[LedgerEntry]) -> None:
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


@pytest.mark.parametrize("key", [OBJECT, SplitKey(OBJECT, 0, 10)], ids=["object", "slice"])
def test_a_tombstone_hides_what_the_view_is_about_to_show(key: LedgerKey) -> None:
    """Written and removed again before the follower has read either: it shows the first for a moment."""
    view = FakeView()
    overlay = Overlay(view)
    overlay.committed(key, PARTIAL)
    overlay.committed(key, None)
    view.apply(key, PARTIAL)
    overlay.applied(key, PARTIAL)
    assert overlay.get(OBJECT) is None
    assert overlay.splits(OBJECT) == {}
    view.apply(key, None)
    overlay.applied(key, None)
    assert len(overlay) == 0


@pytest.mark.parametrize("is_read_first", [False, True], ids=["report first", "follower first"])
def test_small_objects_cost_no_read_of_the_database(is_read_first: bool) -> None:
    """Red before: one for each object, behind the lock that the follower writes under."""
    view = FakeView()
    overlay = Overlay(view)
    for number in range(100):
        key, entry = _object(number), LedgerEntry(state=State.DONE, updated_ms=number)
        if not is_read_first:
            overlay.committed(key, entry)
        view.apply(key, entry)
        overlay.applied(key, entry)
        if is_read_first:
            overlay.committed(key, entry)
    assert (len(overlay), len(overlay._read), view.gets) == (0, 0, 0)


@pytest.mark.parametrize("key", [OBJECT, SplitKey(OBJECT, 0, 10)], ids=["object", "slice"])
def test_a_tombstone_that_was_read_first_does_not_stay(key: LedgerKey) -> None:
    """Red before: it hid its key for the life of the process, and each page of a listing walked past it."""
    view = FakeView()
    overlay = Overlay(view)
    for entry in (DONE, None):
        view.apply(key, entry)
        overlay.applied(key, entry)
        overlay.committed(key, entry)
    assert (len(overlay), len(overlay._read)) == (0, 0)


def test_a_tombstone_is_not_taken_for_an_older_one() -> None:
    """The cache is read again from the start, and the follower tells of the first tombstone again."""
    view = FakeView()
    overlay = Overlay(view)
    view.apply(OBJECT, DONE)  # what the cache shows when it is whole again
    overlay.applied(OBJECT, None)
    overlay.committed(OBJECT, None)
    assert overlay.get(OBJECT) is None
    view.apply(OBJECT, None)
    overlay.applied(OBJECT, DONE)
    overlay.applied(OBJECT, None)
    assert len(overlay) == 0


def test_an_older_record_that_says_the_same_is_not_taken_for_the_new_one() -> None:
    """Remembered is the first of two alike; with another one ahead the view is asked."""
    view = FakeView()
    overlay = Overlay(view)
    overlay.committed(OBJECT, DONE)
    overlay.committed(OBJECT, PARTIAL)
    view.apply(OBJECT, DONE)
    overlay.applied(OBJECT, DONE)
    view.apply(OBJECT, PARTIAL)  # and the follower has not told of it
    overlay.committed(OBJECT, DONE)
    assert overlay.get(OBJECT) == DONE


def test_what_is_remembered_is_bounded_and_what_is_let_go_is_asked_for() -> None:
    """The reports of five objects come after the follower, which remembers three."""
    view = FakeView()
    overlay = Overlay(view, most_remembered=3)
    for number in range(5):
        view.apply(_object(number), DONE)
        overlay.applied(_object(number), DONE)
        assert len(overlay._read) <= 3
    for number in range(5):
        overlay.committed(_object(number), DONE)
    assert (len(overlay), len(overlay._read), view.gets) == (0, 0, 2)


def test_a_key_that_was_forgotten_is_not_remembered() -> None:
    """A lost task's record was read; the next one of its object has still to be."""
    view = FakeView()
    overlay = Overlay(view)
    view.apply(OBJECT, PARTIAL)
    overlay.applied(OBJECT, PARTIAL)
    overlay.forget(OBJECT)
    assert len(overlay._read) == 0
    overlay.committed(OBJECT, DONE)
    assert (overlay.get(OBJECT), view.gets) == (DONE, 0)


@pytest.mark.parametrize("key", [OBJECT, SplitKey(OBJECT, 0, 10)], ids=["object", "slice"])
def test_two_records_that_were_read_before_either_report(key: LedgerKey) -> None:
    """Only the second is remembered: of the first, and of the second behind it, the view is asked."""
    view = FakeView()
    overlay = Overlay(view)
    for entry in (PARTIAL, DONE):
        view.apply(key, entry)
        overlay.applied(key, entry)
    for entry in (PARTIAL, DONE):
        overlay.committed(key, entry)
    assert (len(overlay), len(overlay._read)) == (0, 0)


def test_two_reports_that_came_before_either_was_read() -> None:
    """The first record takes nothing out, and is not remembered for longer than the second takes."""
    view = FakeView()
    overlay = Overlay(view)
    for entry in (PARTIAL, DONE):
        overlay.committed(OBJECT, entry)
    for entry in (PARTIAL, DONE):
        view.apply(OBJECT, entry)
        overlay.applied(OBJECT, entry)
    assert (len(overlay), len(overlay._read)) == (0, 0)


def test_the_key_that_was_read_longest_ago_is_let_go() -> None:
    """Not the one that was remembered first, of which another record was read since."""
    view = FakeView()
    overlay = Overlay(view, most_remembered=2)
    for number, entry in ((0, PARTIAL), (1, DONE), (0, DONE), (2, DONE)):
        view.apply(_object(number), entry)
        overlay.applied(_object(number), entry)
    overlay.committed(_object(0), DONE)
    assert view.gets == 0


def test_a_tombstone_hides_its_object_also_once_a_key_was_let_go() -> None:
    """The view shows nothing either, but it has not come to the record before it."""
    view = FakeView()
    overlay = Overlay(view, most_remembered=0)
    overlay.applied(_object(1), DONE)
    overlay.committed(OBJECT, DONE)
    overlay.committed(OBJECT, None)
    view.apply(OBJECT, DONE)
    overlay.applied(OBJECT, DONE)
    assert overlay.get(OBJECT) is None


_KEYS: list[LedgerKey] = [OBJECT, ObjectId("bucket", "other", "etag"), SplitKey(OBJECT, 0, 10)]


@given(
    steps=st.lists(
        st.sampled_from(["commit", "remove", "read", "tell", "report", "lose", "again"]), max_size=40
    ),
    which=st.lists(st.integers(0, len(_KEYS) - 1), min_size=40, max_size=40),
    most=st.sampled_from([1, 2, 100]),
)
def test_in_any_order_it_shows_the_newest_and_ends_empty(
    steps: list[str], which: list[int], most: int
) -> None:
    """Commits, the follower's reading, its telling and the reports in any order that the protocol allows.

    A tombstone comes only when all before it was reported; a task that is lost reports no more, and the view
    is read to its end. `again` is a cache that is damaged and read anew from the ledger's start.
    """
    scene = _Scene(most)
    for step, number in zip(steps, which, strict=False):
        scene.step(step, _KEYS[number])
        scene.shows_the_newest()
    for key in _KEYS:
        while scene.unreported[key]:
            scene.step("report", key)
            scene.shows_the_newest()
    while scene.read < len(scene.log):
        scene.step("read", OBJECT)
    while scene.untold:
        scene.step("tell", OBJECT)
        scene.shows_the_newest()
    # One that let go of a key does not know a tombstone again.
    left = [key for key in _KEYS if key in scene.ahead and (most == 100 or scene.last[key] is not None)]
    assert left == []


class _Scene:
    """The ledger as a list of records; the cache has read some, told of fewer; tasks have reported some."""

    def __init__(self, most: int) -> None:
        self.view = FakeView()
        self.overlay = Overlay(self.view, most_remembered=most)
        self.log: list[tuple[LedgerKey, LedgerEntry | None]] = []
        self.read = 0
        self.untold: deque[tuple[LedgerKey, LedgerEntry | None]] = deque()
        self.unreported: dict[LedgerKey, deque[int]] = {key: deque() for key in _KEYS}
        self.reported: dict[LedgerKey, int] = dict.fromkeys(_KEYS, -1)

    @property
    def ahead(self) -> dict[LedgerKey, LedgerEntry | None]:
        return self.overlay._ahead

    @property
    def last(self) -> dict[LedgerKey, LedgerEntry | None]:
        return dict(self.log)

    def step(self, name: str, key: LedgerKey) -> None:
        match name:
            case "commit":
                self._commit(key, LedgerEntry(state=State.PARTIAL, updated_ms=len(self.log)))
            case "remove" if not self.unreported[key]:
                self._commit(key, None)
            case "read" if self.read < len(self.log):
                self.view.apply(*self.log[self.read])
                self.untold.append(self.log[self.read])
                self.read += 1
            case "tell" if self.untold:
                self.overlay.applied(*self.untold.popleft())
            case "report" if self.unreported[key]:
                at = self.unreported[key].popleft()
                self.overlay.committed(*self.log[at])
                self.reported[key] = at
            case "lose":
                self._lose(key)
            case "again":
                # Readers wait until it has come to where it was: they see no change, but all is told again.
                self.untold.extend(self.log[: self.read])

    def shows_the_newest(self) -> None:
        """What was reported last of each key, or what came after it."""
        for key in _KEYS:
            entry = self.overlay.splits(key.id).get(key) if isinstance(key, SplitKey) else self._get(key)
            newer = [
                value for at, (one, value) in enumerate(self.log) if one == key and at >= self.reported[key]
            ]
            assert entry in newer or (self.reported[key] < 0 and entry is None)

    def _get(self, key: LedgerKey) -> LedgerEntry | None:
        assert isinstance(key, ObjectId)
        return self.overlay.get(key)

    def _commit(self, key: LedgerKey, entry: LedgerEntry | None) -> None:
        self.unreported[key].append(len(self.log))
        self.log.append((key, entry))

    def _lose(self, key: LedgerKey) -> None:
        """What it committed is read, told of now or later, and never reported."""
        while self.read < len(self.log):
            self.step("read", key)
        self.unreported[key].clear()
        self.overlay.forget(key)


def _object(number: int) -> ObjectId:
    return ObjectId("bucket", f"key {number}", "etag")
