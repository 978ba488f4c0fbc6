"""Announcements, HEADs, listings and restarts, case by case."""

from dataclasses import replace
from typing import Any

import pytest

from headrace.model.ledger_entry import LedgerEntry, SplitKey, State
from headrace.model.objects import ObjectId, Route, S3Object
from headrace.model.slot_protocol import BatchOutcome, Failure, Finished
from ingest.source.catalogue import Baseline, Effects, ExclusionReason, LedgerWrite, ObjectFilter
from ingest.source.notification import EventKind, ObjectEvent
from ingest.source.planner import BatchLimits
from tests.ingest.source.catalogue.desk import BUCKET, DAY, NOW, Desk, event, listed, object_id, page, route
from tests.ingest.source.catalogue.fake_ledger import FakeLedger
from tests.support.instants import at

HOUR = 3_600_000


def test_a_message_settles_after_its_last_object() -> None:
    """Two objects in one message, and one of them in another."""
    desk = Desk()
    assert desk.announce("m1", event("a"), event("b")).pending == 2
    assert desk.announce("m2", event("b")).pending == 0
    plan = desk.plan()
    desk.commit(plan, object_id("a"), LedgerEntry(state=State.DONE))
    assert desk.settled == []
    desk.commit(plan, object_id("b"), LedgerEntry(state=State.PARTIAL))
    assert desk.settled == []
    desk.commit(plan, object_id("b"), LedgerEntry(state=State.DONE))
    assert sorted(desk.settled) == ["m1", "m2"]


def test_however_it_is_known_it_is_ingested_once() -> None:
    """Announced three times, listed twice, before and after."""
    desk = Desk()
    desk.announce("m1", event("a"))
    desk.announce("m2", event("a"), event("a"))
    desk.observe(page(listed("a")))
    desk.complete(desk.plan())
    desk.announce("m3", event("a"))
    desk.observe(page(listed("a"), listing_id=2))
    assert desk.settled == ["m1", "m2", "m3"]
    assert desk.works[desk.plan()] == ()
    assert desk.catalogue.is_idle


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        (event("a", kind=EventKind.REMOVED), "removed"),
        (event("a", kind=EventKind.OTHER), "other"),
        (event("a", kind=EventKind.RESTORED), "restored"),
        (event("a?"), "unmatched"),
        (event("folder/"), "folder"),
        (event(".indexes/a"), "internal"),
    ],
)
def test_what_is_ignored_settles_at_once(named: ObjectEvent, reason: str) -> None:
    """And is counted, and explained by its key; the ledger hears nothing."""
    desk = Desk()
    effects = desk.announce("m", named)
    assert effects == Effects(
        settled=("m",), ignored={reason: 1}, decisions=((named.bucket, named.key, reason),)
    )
    assert desk.ledger.log == []


def test_a_message_of_another_bucket_stays_on_the_queue() -> None:
    """Even when one of its objects is ours, which is ingested all the same."""
    desk = Desk()
    desk.announce("m1", event("a", bucket="other"))
    assert desk.left == ["m1"]
    desk.announce("m2", event("a", bucket="other"), event("a"))
    desk.complete(desk.plan())
    assert (desk.left, desk.settled) == (["m1", "m2"], [])


def test_an_empty_object_is_skipped_for_good() -> None:
    """The ledger says so before its message goes."""
    desk = Desk()
    effects = desk.announce("m", event("a", size=0))
    assert (effects.settled, len(effects.writes)) == ((), 1)
    assert desk.settled == ["m"]
    entry = desk.entry("a")
    assert entry is not None
    assert (entry.state, entry.reason, entry.topic) == (State.SKIPPED, "empty", "topic")
    assert desk.observe(page(listed("a", size=0))).writes == ()


def test_an_empty_object_that_is_a_row_is_read() -> None:
    """In an archive a tombstone alone has no bytes."""
    route = Route(topic="topic", may_be_empty=True)
    desk = Desk(intake=ObjectFilter(route=lambda _key: route))
    effects = desk.announce("m", event("a", size=0))
    assert effects.writes == ()
    (work,) = desk.works[desk.plan()]
    assert work.object.id.key == "a"


class TestHead:
    """Events that a HEAD has to confirm."""

    def ask(self, desk: Desk, named: ObjectEvent) -> str:
        """The token of the one HEAD that follows."""
        effects = desk.announce("m", named)
        assert effects.settled == ()
        (request,) = effects.heads
        assert (request.key, request.version_id) == (named.key, named.version_id)
        return request.token

    def test_the_etag_comes_from_s3(self) -> None:
        """An event without one is no identity."""
        desk = Desk()
        token = self.ask(desk, event("a", None, version_id="v1"))
        desk.do(desk.catalogue.on_head_answer(token, listed("a", "7", size=99), at(NOW)))
        (work,) = desk.works[desk.plan()]
        assert (work.object.id, work.object.size, work.object.version_id) == (object_id("a", "7"), 99, "v1")
        assert work.object.last_modified_ms == NOW - 50
        desk.complete(1)
        assert desk.settled == ["m"]

    def test_what_is_known_under_its_etag_is_not_read_again(self) -> None:
        """The HEAD finds what is done, or what is pending."""
        desk = Desk()
        desk.announce("m0", event("a"))
        token = self.ask(desk, event("a", None))
        desk.do(desk.catalogue.on_head_answer(token, listed("a"), at(NOW)))
        assert desk.settled == []
        desk.complete(desk.plan())
        assert desk.settled == ["m0", "m"]
        token = self.ask(desk, event("a", None))
        desk.do(desk.catalogue.on_head_answer(token, listed("a"), at(NOW)))
        assert desk.settled == ["m0", "m", "m"]

    def test_nothing_there(self) -> None:
        """No object, no entry."""
        desk = Desk()
        effects = desk.do(desk.catalogue.on_head_answer(self.ask(desk, event("a", None)), None, at(NOW)))
        assert (effects.settled, effects.ignored) == (("m",), {"missing": 1})

    @pytest.mark.parametrize(("etag", "is_believed"), [("1", True), ("2", False)])
    def test_an_event_older_than_the_ledger_remembers(
        self,
        etag: str,
        is_believed: bool,
    ) -> None:
        """It is believed only if its ETag is current."""
        desk = Desk(retention_ms=DAY)
        token = self.ask(desk, event("a", event_time_ms=NOW - DAY - 1))
        effects = desk.do(desk.catalogue.on_head_answer(token, listed("a", etag), at(NOW)))
        assert effects.pending == int(is_believed)
        assert effects.ignored == ({} if is_believed else {"outdated": 1})

    def test_an_event_as_old_as_the_ledger_remembers_is_believed(self) -> None:
        """And one without a time."""
        desk = Desk(retention_ms=DAY)
        assert desk.announce("m", event("a", event_time_ms=NOW - DAY)).heads == ()
        assert desk.announce("n", event("b", event_time_ms=None)).heads == ()

    def test_the_alternate_key_is_tried_when_the_raw_one_is_not_there(self) -> None:
        """EventBridge as LocalStack writes it."""
        desk = Desk()
        token = self.ask(desk, event("a%2Bb", alternate_key="a+b"))
        (request,) = desk.do(desk.catalogue.on_head_answer(token, None, at(NOW))).heads
        assert (request.token, request.key) == (token, "a+b")
        desk.do(desk.catalogue.on_head_answer(token, listed("a+b"), at(NOW)))
        assert desk.keys(desk.plan()) == ["a+b"]

    def test_the_raw_key_is_proven_though_overwritten(self) -> None:
        """The content that the event names is looked for under it, and reading finds out."""
        desk = Desk()
        token = self.ask(desk, event("a%2Bb", alternate_key="a+b", version_id="v1"))
        desk.do(desk.catalogue.on_head_answer(token, listed("a%2Bb", "2"), at(NOW)))
        (work,) = desk.works[desk.plan()]
        assert (work.object.id, work.object.version_id) == (object_id("a%2Bb"), "v1")

    def test_no_head_for_what_is_known_under_the_raw_key(self) -> None:
        """The second announcement costs nothing."""
        desk = Desk()
        desk.announce("m0", event("a%2Bb"))
        assert desk.announce("m", event("a%2Bb", alternate_key="a+b")).heads == ()

    def test_the_same_content_under_the_alternate_key_is_another_object(self) -> None:
        """Of two keys with one content the raw one is looked for first, whatever is known of the other."""
        desk = Desk()
        desk.announce("m0", event("a b", version_id="v1"))
        token = self.ask(desk, event("a+b", alternate_key="a b", version_id="v2"))
        desk.do(desk.catalogue.on_head_answer(token, listed("a+b"), at(NOW)))
        found = [(work.object.id.key, work.object.version_id) for work in desk.works[desk.plan()]]
        assert sorted(found) == [("a b", "v1"), ("a+b", "v2")]

    def test_a_key_left_out_is_not_asked_for(self) -> None:
        """Only the alternate one matches."""
        desk = Desk()
        (request,) = desk.announce("m", event("a?b", alternate_key="a+b")).heads
        assert request.key == "a+b"
        effects = desk.do(desk.catalogue.on_head_answer(request.token, None, at(NOW)))
        assert (effects.settled, effects.ignored) == (("m",), {"missing": 1})

    def test_forbidden_without_identity_leaves_the_message(self) -> None:
        """Nobody knows what to read; its own redrive policy decides."""
        desk = Desk()
        token = self.ask(desk, event("a", None))
        effects = desk.do(desk.catalogue.on_head_answer(token, None, at(NOW), is_forbidden=True))
        assert (effects.abandoned, effects.settled, effects.ignored) == (("m",), (), {"forbidden": 1})

    def test_forbidden_with_identity_goes_on(self) -> None:
        """The read will say forbidden, and that is counted and quarantined like any other."""
        desk = Desk()
        token = self.ask(desk, event("a%2Bb", alternate_key="a+b"))
        assert desk.do(desk.catalogue.on_head_answer(token, None, at(NOW), is_forbidden=True)).pending == 1

    def test_an_unknown_token_says_nothing(self) -> None:
        """An answer from before a restart."""
        assert Desk().catalogue.on_head_answer("head-99", listed("a"), at(NOW)) == Effects()

    def test_a_restore_without_etag(self) -> None:
        """It revives what is archived, and nothing else."""
        desk = Desk()
        token = self.ask(desk, event("a", None, kind=EventKind.RESTORED))
        effects = desk.do(desk.catalogue.on_head_answer(token, listed("a"), at(NOW)))
        assert (effects.pending, effects.ignored) == (0, {"restored": 1})

    def test_idle_waits_for_answers(self) -> None:
        """`--until-idle` must not end while a HEAD is under way."""
        desk = Desk()
        self.ask(desk, event("a", None))
        assert not desk.catalogue.is_idle


class TestRevival:
    """`skipped` is not always final."""

    def skipped(self, kind: str) -> Desk:
        """A desk whose object `a` was skipped."""
        desk = Desk()
        desk.announce("m", event("a"))
        desk.fail(desk.plan(), kind)
        assert desk.settled == ["m"]
        return desk

    @pytest.mark.parametrize("kind", ["ObjectMissing", "ObjectSuperseded"])
    def test_a_repeated_event_is_no_news(self, kind: str) -> None:
        """Or a message would cost a GET each time it comes."""
        desk = self.skipped(kind)
        assert desk.announce("again", event("a")).ignored == {"known": 1}
        assert desk.catalogue.is_idle

    @pytest.mark.parametrize("kind", ["ObjectMissing", "ObjectSuperseded", "ObjectArchived"])
    def test_a_newer_event_is(self, kind: str) -> None:
        """The same content was uploaded again; one without a size takes it from the ledger."""
        desk = self.skipped(kind)
        assert desk.announce("again", event("a", event_time_ms=NOW, size=None)).pending == 1
        (work,) = desk.works[desk.plan()]
        assert work.object.size == 10
        desk.complete(2)
        assert desk.settled == ["m", "again"]

    @pytest.mark.parametrize(("kind", "pending"), [("ObjectMissing", 1), ("ObjectArchived", 0)])
    def test_a_listing_shows_it(self, kind: str, pending: int) -> None:
        """Archived objects are listed as ever."""
        desk = self.skipped(kind)
        assert desk.observe(page(listed("a", storage_class="GLACIER"))).pending == pending

    def test_a_restore_revives_the_archived(self) -> None:
        """The message waits for its end."""
        desk = self.skipped("ObjectArchived")
        restore = event("a", kind=EventKind.RESTORED)
        assert desk.announce("restored", restore).pending == 1
        desk.complete(desk.plan())
        assert desk.settled == ["m", "restored"]

    def test_rows_that_were_produced_are_not_produced_again(self) -> None:
        """It goes on where it stopped."""
        desk = Desk()
        desk.announce("m", event("a"))
        plan = desk.plan()
        desk.commit(plan, object_id("a"), LedgerEntry(state=State.PARTIAL, records=4, bad=1))
        desk.fail(plan, "ObjectMissing")
        assert desk.warnings == ["s3://bucket/a is missing after 4 of its rows were produced; they stay."]
        desk.announce("again", event("a", event_time_ms=NOW))
        (work,) = desk.works[desk.plan()]
        assert (work.records, work.bad) == (4, 1)

    def test_seen_while_it_was_being_read(self) -> None:
        """Gone, and back before the task's answer: another look, not an entry."""
        desk = Desk()
        desk.announce("m", event("a"))
        plan = desk.plan()
        desk.announce("again", event("a", event_time_ms=NOW))
        effects = desk.fail(plan, "ObjectMissing")
        assert (effects.writes, desk.settled) == ((), [])
        desk.complete(desk.plan())
        assert desk.settled == ["m", "again"]

    def test_another_version_while_it_was_being_read(self) -> None:
        """The older version may be there where the newer one is not."""
        desk = Desk()
        desk.announce("m", event("a", version_id="v2", event_time_ms=NOW - 1))
        plan = desk.plan()
        desk.announce("n", event("a", version_id="v1", event_time_ms=NOW - 2))
        desk.fail(plan, "ObjectMissing")
        assert [work.object.version_id for work in desk.works[desk.plan()]] == ["v1"]

    def test_listed_while_it_was_being_read(self) -> None:
        """Another look when it was missing, none when it is archived: listings show that as ever."""
        desk = Desk()
        desk.announce("m", event("a"), event("b"))
        plan = desk.plan()
        desk.observe(page(listed("a"), listed("b")))
        failures = [
            Failure(work=work, kind=kind, message="no")
            for work, kind in zip(desk.works[plan], ("ObjectMissing", "ObjectArchived"), strict=True)
        ]
        desk.finish(plan, failures)
        assert [(key.key, entry.reason) for key, entry in desk.ledger.truth.items()] == [("b", "archived")]  # type: ignore[union-attr]  # objects only
        assert desk.keys(desk.plan()) == ["a"]

    def test_revived_while_its_last_plan_lives(self) -> None:
        """The task has committed its end but not reported the end of the batch: nobody else may begin it."""
        desk = Desk()
        desk.announce("m", event("a"))
        plan = desk.plan()
        desk.commit(plan, object_id("a"), LedgerEntry(state=State.SKIPPED, reason="superseded"))
        assert desk.observe(page(listed("a"))).pending == 1
        assert desk.works[desk.plan(1)] == ()
        desk.finish(plan)
        assert desk.keys(desk.plan(1)) == ["a"]

    def test_announced_while_its_end_was_being_written(self) -> None:
        """The write is acknowledged, but is not its end any more: no message settles by it."""
        desk = Desk()
        desk.announce("m", event("a"))
        plan = desk.plan()
        failure = Failure(work=desk.works[plan][0], kind="ObjectMissing", message="gone")
        finished = Finished(batch=plan, outcome=BatchOutcome.CLEAN, failures=(failure,))
        effects = desk.planner.on_finished(plan, finished, at(NOW))
        desk.announce("again", event("a", event_time_ms=NOW))
        desk.do(effects)
        assert desk.settled == []
        desk.complete(desk.plan())
        assert desk.settled == ["m", "again"]

    def test_a_restored_revived_object_survives_its_lost_plan(self) -> None:
        """The ledger still says skipped; that was before."""
        desk = self.skipped("ObjectMissing")
        desk.announce("again", event("a", event_time_ms=NOW))
        desk.die(0, desk.plan())
        assert desk.settled == ["m"]
        assert not desk.catalogue.is_idle


class TestListing:
    """What pages bring."""

    def test_left_out_objects_are_counted_and_judged_again(self) -> None:
        """The baseline is for listings only; an event brings the object in."""
        intake = ObjectFilter(route=route, baseline=Baseline(existing_before_ms=NOW, start_key="b"))
        desk = Desk(intake=intake)
        seen = [listed("a"), listed("c", last_modified_ms=NOW - 1), listed("d", last_modified_ms=NOW)]
        for listing_id in (1, 2):
            effects = desk.observe(page(*seen, listing_id=listing_id))
            assert effects.ignored == {"start_key": 1, "existing": 1}
        assert desk.announce("m", event("c")).pending == 1
        assert desk.catalogue.pending_objects == 2

    def test_the_baseline_is_not_for_what_was_begun(self) -> None:
        """A replay of an old object must find it."""
        ledger = FakeLedger()
        ledger.commit(object_id("a"), LedgerEntry(state=State.SKIPPED, reason="missing", size=10))
        desk = Desk(ledger=ledger, intake=ObjectFilter(route=route, baseline=Baseline(start_key="b")))
        assert desk.observe(page(listed("a"))).pending == 1

    def test_one_scan_a_page_and_no_look_up(self) -> None:
        """A million objects are a thousand scans."""
        ledger = FakeLedger()
        for number in range(100):
            ledger.commit(object_id(f"{number:03}"), LedgerEntry(state=State.DONE))
        desk = Desk(ledger=ledger)
        desk.observe(page(*(listed(f"{number:03}") for number in range(100))))
        assert (ledger.view.scans, ledger.view.gets) == (1, 0)
        assert desk.catalogue.is_idle

    def test_a_page_out_of_order_is_looked_up(self) -> None:
        """Directory buckets list as they like: nothing may come twice for that."""
        ledger = FakeLedger()
        ledger.commit(object_id("a"), LedgerEntry(state=State.DONE))
        desk = Desk(ledger=ledger)
        assert desk.observe(page(listed("b"), listed("a"))).pending == 1

    def test_what_was_committed_counts_before_the_follower_read_it(self) -> None:
        """The cache lags; the overlay does not."""
        desk = Desk()
        desk.announce("m", event("a"))
        desk.announce("m", event("c"))
        desk.complete(desk.plan())
        assert desk.ledger.view.entries == {}
        assert desk.observe(page(listed("a"), listed("b"), listed("c"))).pending == 1

    def test_a_listed_object_is_promoted_by_its_event(self) -> None:
        """The event says version and order, and somebody waits for it now."""
        desk = Desk()
        desk.observe(page(listed("a"), listed("b")))
        desk.announce("m", event("b", version_id="v1"))
        plan = desk.plan()
        assert desk.keys(plan) == ["b", "a"]
        assert desk.works[plan][0].object.version_id == "v1"

    def test_entries_of_vanished_objects_expire(self) -> None:
        """Slices too; what is pending again is left alone."""
        ledger = FakeLedger()
        old = LedgerEntry(state=State.DONE, updated_ms=NOW - 2 * DAY)
        cut = replace(old, state=State.QUARANTINED, cuts=(0, 5, 10))
        for key in ("a", "b", "c", "d", "e", "f"):
            ledger.commit(object_id(key), old)
        ledger.commit(object_id("b"), cut)
        ledger.commit(SplitKey(object_id("b"), 0, 5), old)
        desk = Desk(ledger=ledger, retention_ms=DAY)
        there = [listed(key) for key in ("c", "d", "e")]
        desk.observe(page(*there))
        desk.now_ms += HOUR
        first = page(*there[:1], listing_id=2, through_key="c")
        assert desk.observe(first).writes == ()
        # `a` is written again before the listing ends.
        desk.catalogue.states.ledger.committed(object_id("a"), replace(old, updated_ms=desk.now_ms))
        effects = desk.observe(page(*there[1:], listing_id=2, after_key="c"))
        assert effects.writes == (
            LedgerWrite(key=SplitKey(object_id("b"), 0, 5), entry=None),
            LedgerWrite(key=object_id("b"), entry=None),
            LedgerWrite(key=object_id("f"), entry=None),
        )
        assert set(ledger.truth) == {object_id(key) for key in "acde"}

    def test_too_many_vanished_entries_are_a_warning(self) -> None:
        """Somebody changed the bucket, or emptied it by mistake."""
        ledger = FakeLedger()
        ledger.commit(object_id("a"), LedgerEntry(state=State.DONE))
        desk = Desk(ledger=ledger)
        desk.now_ms = 40 * DAY
        desk.observe(page())
        desk.now_ms += HOUR
        desk.observe(page(listing_id=2))
        assert len(desk.warnings) == 1
        assert desk.entry("a") is not None

    def test_a_tombstone_under_way_comes_before_the_object_that_returns(self) -> None:
        """Its record could land on top of a checkpoint otherwise."""
        ledger = FakeLedger()
        for key in ("a", "b"):
            entry = LedgerEntry(state=State.SKIPPED, reason="missing", updated_ms=0, size=10)
            ledger.commit(object_id(key), entry)
        desk = Desk(ledger=ledger)
        desk.now_ms = 40 * DAY
        desk.observe(page(listing_id=1))
        ledger.commit(object_id("b"), LedgerEntry(state=State.DONE))
        desk.catalogue.states.ledger.committed(object_id("b"), LedgerEntry(state=State.DONE))
        desk.now_ms += HOUR
        desk.catalogue.on_listing_page(page(listed("b"), listing_id=2), desk.now)
        effects = desk.planner.tick(desk.now)
        assert [write.key for write in effects.writes] == [object_id("a")]
        assert desk.announce("m", event("a", event_time_ms=desk.now_ms)).pending == 1
        assert desk.works[desk.plan()] == ()
        desk.do(effects)
        left = desk.entry("a")
        assert left is not None
        assert left.reason == "missing"  # with what it had come to, as if it had not left
        assert desk.keys(desk.plan()) == ["a"]

    def test_backpressure(self) -> None:
        """Listing stops at the bound and goes on a good deal below it; events always pass."""
        desk = Desk(max_pending_objects=10)
        desk.observe(page(*(listed(f"{number:02}") for number in range(9))))
        assert desk.catalogue.wants_listing
        desk.announce("m", event("x"))
        assert not desk.catalogue.wants_listing
        plan = desk.plan()
        desk.commit(plan, desk.works[plan][0].object.id, LedgerEntry(state=State.DONE))
        assert not desk.catalogue.wants_listing
        desk.commit(plan, desk.works[plan][1].object.id, LedgerEntry(state=State.DONE))
        assert desk.catalogue.wants_listing


class TestResume:
    """Taking the lead."""

    def test_unfinished_objects_go_on(self) -> None:
        """With their attempts, positions and counts; what is final is left alone."""
        ledger = FakeLedger()
        for key, state in (
            ("a", State.PARTIAL),
            ("b", State.FAILED),
            ("c", State.NEW),
            ("d", State.DONE),
            ("e", State.QUARANTINED),
            ("f?", State.PARTIAL),
        ):
            entry = LedgerEntry(state=state, records=5, attempts=2, size=10, version_id="v")
            ledger.commit(object_id(key), entry)
        desk = Desk(ledger=ledger)
        assert desk.catalogue.counts == {"pending": 2, "active": 0, "failed": 1}
        plan = desk.plan()
        assert desk.keys(plan) == ["a", "b", "c"]
        assert {(work.records, work.attempts, work.object.version_id) for work in desk.works[plan]} == {
            (5, 2, "v")
        }

    def test_only_as_many_as_there_is_room_for(self) -> None:
        """A replay of a million objects does not fill the memory."""
        ledger = FakeLedger()
        for number in range(25):
            ledger.commit(object_id(f"{number:02}"), LedgerEntry(state=State.NEW, size=1))
        desk = Desk(ledger=ledger, max_pending_objects=10)
        done: list[str] = []
        while not desk.catalogue.is_idle:
            assert desk.catalogue.pending_objects <= 10
            plan = desk.plan()
            done += desk.keys(plan)
            desk.complete(plan)
            desk.tick()
        assert sorted(done) == [f"{number:02}" for number in range(25)]

    def test_a_turn_reads_a_part_of_it(self) -> None:
        """Room for many at once is filled over several turns; all versions of a key come together."""
        ledger = FakeLedger()
        for number in range(9000):
            ledger.commit(object_id(f"{number:04}"), LedgerEntry(state=State.NEW, size=1))
        ledger.commit(object_id("4999", "2"), LedgerEntry(state=State.NEW, size=1))
        desk = Desk(ledger=ledger, max_pending_objects=4000, limits=BatchLimits(slots=1, max_objects=8000))
        pending = [desk.catalogue.pending_objects]
        while desk.catalogue.pending_objects:
            desk.complete(desk.plan())
        for _ in range(3):
            desk.tick()
            pending.append(desk.catalogue.pending_objects)
        assert pending == [4000, 1001, 2001, 3001]
        assert desk.catalogue.states.table.of_place((BUCKET, "4999")) != []

    def test_a_replay_that_finds_no_room_is_remembered(self) -> None:
        """Its entries are found again in the ledger."""
        desk = Desk(max_pending_objects=2)
        desk.announce("m", event("x"), event("y"))
        writes = (LedgerWrite(key=object_id("a"), entry=LedgerEntry(state=State.NEW, size=1)),)
        desk.do(desk.catalogue.on_written(writes, at(NOW)))
        assert desk.catalogue.pending_objects == 2
        desk.complete(desk.plan())
        assert not desk.catalogue.is_idle
        desk.tick()
        assert desk.keys(desk.plan()) == ["a"]


def test_how_long_the_oldest_that_is_old_enough_waits() -> None:
    """Not those below `object.min.age.ms`, whatever is known for longer, and whatever else they wait for."""
    desk = Desk()
    desk.catalogue.states.filters[BUCKET].min_age_ms = 60_000

    def waits() -> int:
        return desk.now.steady_ms - desk.catalogue.states.table.oldest_ripe_ms(desk.now.steady_ms)

    assert waits() == 0
    desk.announce("m", event("young"))
    desk.now_ms += 20_000
    assert waits() == 0
    desk.observe(page(listed("old", last_modified_ms=NOW - DAY)))
    desk.now_ms += 12_000
    assert waits() == 12_000
    desk.complete(desk.plan())
    desk.now_ms += 40_000
    assert waits() == desk.now_ms - (NOW - 50 + 60_000)


def _oldest_ms(desk: Desk) -> int | None:
    return desk.catalogue.states.table.oldest_ms(desk.now.steady_ms)


def test_a_key_that_is_written_again_and_again_does_not_hide_an_older_object() -> None:
    """Its place stays the first while another of its versions waits; what is known for long is found."""
    desk = Desk()
    assert _oldest_ms(desk) is None
    desk.announce("m", event("hot", "1", sequencer="01"))
    desk.now_ms += 1000
    desk.announce("m", event("stuck"))
    since_ms = desk.now.steady_ms
    for number in range(2, 5):
        desk.now_ms += 20_000
        desk.announce("m", event("hot", str(number), sequencer=f"0{number}"))
        plan = desk.plan()
        desk.commit(plan, object_id("hot", str(number - 1)), LedgerEntry(state=State.DONE))
        desk.finish(plan, outcome=BatchOutcome.ABORTED)
        desk.now_ms += 10_000
        desk.tick()
        assert _oldest_ms(desk) == since_ms
    desk.commit(desk.plan(), object_id("stuck"), LedgerEntry(state=State.DONE))
    desk.now_ms += 10_000
    assert _oldest_ms(desk) == since_ms + 20_000 + 2 * 30_000


def test_the_oldest_ages_no_more_once_it_is_done() -> None:
    """One object every 250 ms, each done within half a second of its arrival."""
    desk = Desk()
    desk.announce("m0", event("k0"))
    for number in range(1, 60):
        desk.now_ms += 250
        desk.announce(f"m{number}", event(f"k{number}"))
        if number > 1:
            plan = desk.plan()
            for work in desk.works[plan][:-1]:
                desk.commit(plan, work.object.id, LedgerEntry(state=State.DONE))
            desk.finish(plan, outcome=BatchOutcome.ABORTED)
            desk.tick()
        oldest_ms = min(pending.since_ms for pending in desk.catalogue.states.table)
        assert _oldest_ms(desk) == oldest_ms >= desk.now.steady_ms - 500


def test_what_is_seen_of_it() -> None:
    """For `/status` and `--until-idle`."""
    desk = Desk()
    assert _oldest_ms(desk) is None
    desk.announce("m", event("a", size=7), event("b", "1", size=5), event("b", "2", size=4))
    desk.now_ms += 10
    desk.announce("m", event("c", size=3))
    assert (desk.catalogue.pending_objects, desk.catalogue.pending_bytes) == (4, 19)
    assert _oldest_ms(desk) == at(NOW).steady_ms
    plan = desk.plan()
    assert desk.catalogue.counts == {"pending": 1, "active": 3, "failed": 0}
    desk.commit(plan, object_id("a"), LedgerEntry(state=State.DONE, records=3))
    assert _oldest_ms(desk) == at(NOW).steady_ms
    (ended,) = desk.catalogue.states.recent
    assert (ended.id, ended.entry.records, ended.since_ms, ended.seen_ms) == (
        object_id("a"),
        3,
        at(NOW).steady_ms,
        NOW - 50,
    )
    desk.finish(plan, outcome=BatchOutcome.ABORTED)
    assert desk.catalogue.counts == {"pending": 3, "active": 0, "failed": 0}
    desk.fail(desk.plan(), "TopicMissing")
    assert desk.catalogue.counts == {"pending": 2, "active": 0, "failed": 1}
    assert desk.catalogue.waiting_reasons() == {"topic_missing": 1}


def _unread(*pages: tuple[tuple[str, ...], str | None, str | None], **options: Any) -> tuple[int, str] | None:
    """What is unread after a full listing with these pages."""
    desk = Desk(**options)
    for keys, after, through in pages:
        desk.observe(page(*map(listed, keys), after_key=after, through_key=through))
    found = desk.catalogue.unread_keys
    assert found is None or found.reason is ExclusionReason.UNMATCHED
    return None if found is None else (found.keys, found.example)


def test_a_listing_of_which_every_key_is_left_out() -> None:
    """By the globs; of one that is not matched next to them the name is given."""
    intake = ObjectFilter(route=route, exclude=("a*",))
    desk = Desk(intake=intake)
    desk.observe(page(listed("a1"), listed("a2"), listed("folder/")))
    assert desk.catalogue.unread_keys == ("bucket", 2, "a1", ExclusionReason.EXCLUDED)
    assert _unread((("a1", "b?"), None, None), intake=intake) == (1, "b?")
    assert _unread((("a1", "b"), None, None), intake=intake) is None


@pytest.mark.parametrize(
    ("keys", "unread"),
    [
        (("a?", "b?", "folder/"), (2, "a?")),
        (("a?", "b"), None),
        (("folder/", ".indexes/a"), None),
        ((), None),
    ],
)
def test_a_listing_of_which_no_key_is_read(keys: tuple[str, ...], unread: tuple[int, str] | None) -> None:
    """Folders and bookkeeping are no data; one key that is read is enough."""
    assert _unread((tuple(sorted(keys)), None, None)) == unread


def test_keys_are_unread_only_once_all_pages_have_come() -> None:
    """And are not any more when a later page, an event, or a later listing shows one that is read."""
    assert _unread((("a?",), None, "b"), (("c?",), "b", None)) == (2, "a?")
    assert _unread((("a?",), None, "b")) is None
    assert _unread((("a?",), None, "b"), (("c",), "b", None)) is None
    desk = Desk()
    desk.observe(page(listed("a?")))
    assert desk.catalogue.unread_keys is not None
    desk.announce("m", event("b"))
    assert desk.catalogue.unread_keys is None


def test_keys_that_the_baseline_leaves_out_count_until_the_next_listing_has_ended() -> None:
    """They may be read well: what was said before they came is not said again amid a listing."""
    desk = Desk(intake=ObjectFilter(route=route, baseline=Baseline(start_key="b")))
    desk.observe(page(listed("c?")))
    assert desk.catalogue.unread_keys is not None
    desk.observe(page(listed("a"), listed("c?"), listing_id=2))
    assert desk.catalogue.unread_keys is None
    desk.observe(page(listing_id=3, through_key="A"))
    assert desk.catalogue.unread_keys is None
    desk.observe(page(listed("c?"), listing_id=3, after_key="A"))
    assert desk.catalogue.unread_keys is not None


def test_what_was_read_before_and_is_gone_was_read() -> None:
    """`post.action` leaves what nobody reads."""
    ledger = FakeLedger()
    ledger.commit(object_id("gone"), LedgerEntry(state=State.DONE))
    assert _unread((("a?",), None, None), ledger=ledger) is None


def test_of_several_buckets_one_that_reads_is_enough() -> None:
    """What it has read may be gone by now, or be known from before a restart, its listing yet to come."""
    other = ObjectId("other", "b-0-0", "1")
    desk = Desk(buckets=("bucket", "other"))
    desk.observe(page(listed("a?")))
    assert desk.catalogue.unread_keys is not None
    desk.observe(page(S3Object(id=other, size=10, last_modified_ms=NOW), bucket="other"))
    assert desk.catalogue.unread_keys is None
    desk.observe(page(bucket="other", listing_id=2))
    assert desk.catalogue.unread_keys is None

    ledger = FakeLedger()
    ledger.commit(other, LedgerEntry(state=State.DONE))
    desk = Desk(buckets=("bucket", "other"), ledger=ledger)
    desk.observe(page(listed("a?")))
    assert desk.catalogue.unread_keys is None


def test_of_several_buckets_one_whose_keys_the_baseline_leaves_out_may_read_well() -> None:
    """As of a single one, and as `plan` has it: it is not known whether its keys are read."""
    intake = ObjectFilter(route=route, baseline=Baseline(start_key="b"))
    desk = Desk(buckets=("bucket", "other"), intake=intake)
    other = S3Object(id=ObjectId("other", "a-0-0", "1"), size=10, last_modified_ms=NOW)
    desk.observe(page(listed("c?")))
    assert desk.catalogue.unread_keys is not None
    desk.observe(page(other, bucket="other"))
    assert desk.catalogue.unread_keys is None
    desk.observe(page(bucket="other", listing_id=2))
    assert desk.catalogue.unread_keys is not None


def test_what_the_baseline_leaves_out_was_not_looked_at() -> None:
    """It may be read well: nothing is said of the few that came since."""
    intake = ObjectFilter(route=route, baseline=Baseline(start_key="b"))
    assert _unread((("a", "c?"), None, None), intake=intake) is None


def test_a_page_of_an_inventory_has_no_order_and_says_nothing_of_other_keys() -> None:
    """Even one that is sorted is no stretch of the ledger: each object is looked up, and no other entry."""
    ledger = FakeLedger()
    old = LedgerEntry(state=State.DONE, updated_ms=NOW - 90 * DAY, last_modified_ms=NOW - 90 * DAY)
    for key in ("absent", "done"):
        ledger.commit(object_id(key), old)
    desk = Desk(ledger=ledger)
    sorted_page = page(
        listed("a"), listed("done"), listed("z"), listing_id=0, is_full=False, is_inventory=True
    )
    assert not sorted_page.is_in_order

    scans = ledger.view.scans
    for _ in range(3):
        desk.observe(sorted_page)
        desk.now_ms += 2 * HOUR
    assert ledger.view.scans == scans
    assert desk.catalogue.pending_objects == 2
    assert ledger.view.get(object_id("absent")) == old

    desk.observe(page(listed("a"), listed("done"), listed("since"), listed("z")))
    assert desk.catalogue.pending_objects == 3
