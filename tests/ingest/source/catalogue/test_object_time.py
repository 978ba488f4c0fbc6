"""The time of an object is that of its upload: a restore has another, and one that is begun keeps its own."""

import pytest

from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.positions import BytePosition
from headrace.model.slot_protocol import Split
from ingest.source.notification import EventKind, ObjectEvent
from tests.ingest.source.catalogue.desk import DAY, NOW, Desk, event, listed, object_id, page
from tests.ingest.source.catalogue.fake_ledger import FakeLedger

UPLOADED = NOW // 1000 * 1000 - 300 * DAY
HALF = BytePosition(byte=5)


def begun(desk: Desk, plan: int) -> None:
    """A task commits half of the first object of its plan, as it was handed out."""
    known = desk.works[plan][0].object
    entry = LedgerEntry(
        state=State.PARTIAL,
        records=5,
        position=HALF,
        options="x",
        size=10,
        last_modified_ms=known.last_modified_ms,
    )
    desk.commit(plan, known.id, entry)


def work(desk: Desk) -> Split:
    """The one object that is read now."""
    (found,) = desk.works[desk.plan()]
    return found


def restored(etag: str | None = "1") -> ObjectEvent:
    """S3 has brought it back a moment ago."""
    return event("a", etag, kind=EventKind.RESTORED)


class TestRestores:
    """Years may lie between an upload and its restore."""

    def archived(self) -> Desk:
        """A listing shows what cannot be read; the read is under way."""
        desk = Desk()
        desk.observe(page(listed("a", last_modified_ms=UPLOADED)))
        desk.plan()
        return desk

    @pytest.mark.parametrize("etag", ["1", None])
    def test_what_was_skipped_has_its_upload_s_time(self, etag: str | None) -> None:
        """A restore that names no ETag costs a HEAD. Its time to the commit is no measure."""
        desk = self.archived()
        desk.fail(1, "ObjectArchived")
        for head in desk.announce("m", restored(etag)).heads:
            desk.do(desk.catalogue.on_head_answer(head.token, listed("a"), desk.now))
        assert work(desk).object.last_modified_ms == UPLOADED
        desk.complete(desk.plans)
        ended = desk.catalogue.states.recent[-1]
        assert (desk.settled, ended.is_announced, ended.is_timed) == (["m"], True, False)

    def test_one_that_comes_during_the_read(self) -> None:
        """It is another look at the same upload."""
        desk = self.archived()
        desk.announce("m", restored())
        desk.fail(1, "ObjectArchived")
        assert work(desk).object.last_modified_ms == UPLOADED
        desk.complete(desk.plans)
        assert not desk.catalogue.states.recent[-1].is_timed

    def test_one_of_what_waits(self) -> None:
        """It was listed, and no slot was free."""
        desk = Desk()
        desk.observe(page(listed("a", last_modified_ms=UPLOADED)))
        desk.announce("m", restored())
        assert work(desk).object.last_modified_ms == UPLOADED

    def test_an_upload_has_the_time_of_its_event(self) -> None:
        """As it has where nothing else is known; and it is timed."""
        desk = self.archived()
        desk.fail(1, "ObjectArchived")
        desk.announce("m", event("a"))
        assert work(desk).object.last_modified_ms == NOW - 50
        desk.complete(desk.plans)
        assert desk.catalogue.states.recent[-1].is_timed


class TestBegunObjects:
    """Records of one object have one time."""

    def begin(self) -> Desk:
        """Half of it is committed, as a listing shows it."""
        desk = Desk()
        desk.observe(page(listed("a", last_modified_ms=UPLOADED)))
        begun(desk, desk.plan())
        return desk

    def check(self, desk: Desk) -> None:
        """The rest is read in the time of the first half."""
        found = work(desk)
        assert (found.start, found.object.last_modified_ms) == (HALF, UPLOADED)

    def test_an_event_while_it_waits(self) -> None:
        """A large upload ends hours after its LastModified."""
        desk = self.begin()
        desk.finish(1)
        desk.announce("m", event("a"))
        self.check(desk)

    def test_an_event_before_it_is_begun_is_believed(self) -> None:
        """It knows more than whole seconds."""
        desk = Desk()
        desk.observe(page(listed("a", last_modified_ms=UPLOADED)))
        desk.announce("m", event("a"))
        assert work(desk).object.last_modified_ms == NOW - 50

    @pytest.mark.parametrize("is_event", [True, False])
    def test_what_is_shown_during_a_read_that_finds_it_gone(self, is_event: bool) -> None:
        """The same content is there again."""
        desk = self.begin()
        if is_event:
            desk.announce("m", event("a"))
        else:
            desk.observe(page(listed("a"), listing_id=2))
        desk.fail(1, "ObjectMissing")
        self.check(desk)

    @pytest.mark.parametrize("is_event", [True, False])
    def test_what_is_shown_after_that(self, is_event: bool) -> None:
        """The ledger knows its first half."""
        desk = self.begin()
        desk.fail(1, "ObjectMissing")
        if is_event:
            desk.announce("m", event("a"))
        else:
            desk.observe(page(listed("a"), listing_id=2))
        self.check(desk)

    def test_offsets_that_were_set_without_a_time(self) -> None:
        """There is none to keep."""
        desk = Desk()
        desk.observe(page(listed("a", last_modified_ms=UPLOADED)))
        known = desk.works[desk.plan()][0].object
        desk.commit(1, known.id, LedgerEntry(state=State.SKIPPED, reason="missing", position=HALF))
        desk.finish(1)
        desk.announce("m", event("a"))
        assert work(desk).object.last_modified_ms == NOW - 50

    @pytest.mark.parametrize("state", [State.NEW, State.PARTIAL])
    def test_offsets_that_were_set_without_a_time_of_what_waits(self, state: State) -> None:
        """Its records would be of 1970."""
        ledger = FakeLedger()
        ledger.commit(
            object_id("a"), LedgerEntry(state=state, size=10, records=5, position=HALF, options="x")
        )
        desk = Desk(ledger=ledger)
        desk.announce("m", event("a"))
        assert work(desk).object.last_modified_ms == NOW - 50


def test_a_restored_copy_that_a_listing_shows_is_not_timed() -> None:
    """Its upload is long ago, and no event tells of its restore."""
    desk = Desk()
    desk.observe(page(listed("a", last_modified_ms=UPLOADED)))
    desk.plan()
    desk.fail(1, "ObjectArchived")
    desk.now_ms += DAY
    restored_copy = listed("a", last_modified_ms=UPLOADED, storage_class="INTELLIGENT_TIERING")
    desk.observe(page(restored_copy, listing_id=2))
    assert work(desk).object.last_modified_ms == UPLOADED
    desk.complete(desk.plans)
    assert not desk.catalogue.states.recent[-1].is_timed
