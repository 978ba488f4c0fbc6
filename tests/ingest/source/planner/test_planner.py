"""What goes into a batch, in what order, and who waits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.ledger_entry import LedgerEntry, SplitKey, State
from headrace.model.objects import Route, S3Object
from headrace.model.slot_protocol import BatchOutcome, Failure, Finished
from headrace.options.choices import Ordering
from ingest.source.catalogue.ledger_view import APART_MS
from ingest.source.catalogue.pending import PendingObject, sequencer_rank
from ingest.source.planner import Backoff, BatchLimits
from tests.ingest.source.catalogue.desk import BUCKET, DAY, NOW, Desk, event, listed, object_id, page
from tests.ingest.source.catalogue.fake_ledger import FakeLedger, make_suspects
from tests.support.instants import at

MIB = 1_048_576
DONE = LedgerEntry(state=State.DONE)


class TestBatches:
    """How much one slot gets."""

    def test_caps(self) -> None:
        """Objects, and bytes unless one object alone has more."""
        desk = Desk(limits=BatchLimits(slots=1, max_objects=3, max_bytes=100))
        desk.announce("m", *(event(f"o{number}", size=1) for number in range(4)))
        assert desk.keys(desk.plan()) == ["o0", "o1", "o2"]
        desk.complete(1)
        desk.announce("n", event("p", size=60), event("q", size=50), event("r", size=100))
        assert desk.keys(desk.plan()) == ["o3", "p"]
        desk.complete(2)
        assert desk.keys(desk.plan()) == ["q"]

    @pytest.mark.parametrize(
        ("objects", "idle_slots", "sizes"),
        [(1, 2, [1, 0]), (2, 2, [1, 1]), (7, 2, [4, 3]), (7, 3, [3, 2, 2]), (100, 4, [25, 25, 25, 25])],
    )
    def test_idle_slots_share(self, objects: int, idle_slots: int, sizes: list[int]) -> None:
        """The first to ask does not take everything."""
        desk = Desk(limits=BatchLimits(slots=idle_slots))
        desk.announce("m", *(event(f"o{number}") for number in range(objects)))
        plans = [desk.plan(slot, idle_slots=idle_slots - slot) for slot in range(idle_slots)]
        assert [len(desk.works[plan]) for plan in plans] == sizes

    def test_bytes_are_shared_too(self) -> None:
        """One slot reads the large one while the other reads the small ones."""
        desk = Desk(limits=BatchLimits(slots=2))
        desk.announce("m", event("large", size=1000), *(event(f"o{number}", size=10) for number in range(9)))
        assert desk.keys(desk.plan(0, idle_slots=2)) == ["large"]
        assert len(desk.works[desk.plan(1)]) == 9

    def test_the_last_of_it_is_left_to_busy_slots_too(self) -> None:
        """Two slots end at about the same time; what is little goes to one of them at once."""
        desk = Desk(limits=BatchLimits(slots=2, max_bytes=3200))
        desk.announce("m", *(event(f"o{number}", size=100) for number in range(20)))
        first, second = desk.plan(0, idle_slots=2), desk.plan(1)
        assert [len(desk.works[plan]) for plan in (first, second)] == [10, 5]
        sizes = []
        for _ in range(4):
            desk.complete(second)
            second = desk.plan(1)
            sizes.append(len(desk.works[second]))
        assert sizes == [3, 1, 1, 0]

        desk.announce("n", *(event(f"p{number}", size=1) for number in range(20)))
        assert len(desk.works[desk.plan(1)]) == 20

    def test_fresh_events_go_before_the_backlog_which_keeps_a_share(self) -> None:
        """A fifth of the objects of each batch."""
        desk = Desk(limits=BatchLimits(slots=1, max_objects=10))
        desk.observe(page(*(listed(f"old{number:02}") for number in range(20))))
        desk.announce("m", *(event(f"new{number:02}") for number in range(20)))
        keys = desk.keys(desk.plan())
        assert keys == [f"new{number:02}" for number in range(8)] + ["old00", "old01"]

    def test_a_batch_of_backlog_is_short(self) -> None:
        """An event that comes while it is worked off waits for a fifth of a batch, not for a whole one."""
        desk = Desk(limits=BatchLimits(slots=1, max_objects=100, max_bytes=4000))
        desk.observe(page(*(listed(f"old{number:03}") for number in range(100))))
        assert len(desk.works[desk.plan()]) == 20
        desk.complete(1)
        desk.observe(page(*(listed(f"z{number}", size=400) for number in range(10)), listing_id=2))
        while desk.keys(plan := desk.plan())[0] < "z":
            desk.complete(plan)
        desk.complete(plan)
        assert len(desk.works[desk.plan()]) == 2

    def test_paused(self) -> None:
        """Nothing is planned, what is under way goes on."""
        desk = Desk()
        desk.announce("m", event("a"), event("b"))
        plan = desk.plan(0, idle_slots=2)
        desk.planner.is_paused = True
        assert desk.works[desk.plan(1)] == ()
        desk.complete(plan)
        desk.planner.is_paused = False
        assert desk.keys(desk.plan()) == ["b"]

    def test_no_entry_leaves_the_ledger_while_paused(self) -> None:
        """Offsets may be changed then; what was begun is done with the next turn after it."""
        desk = Desk(retention_ms=DAY)
        for key in ("gone", "here"):
            desk.ledger.commit(object_id(key), LedgerEntry(state=State.DONE, updated_ms=NOW - 2 * DAY))
        desk.ledger.follow()
        for number in (1, 2):
            desk.now_ms += APART_MS
            desk.catalogue.on_listing_page(page(listed("here"), listing_id=number), desk.now)
        assert not desk.catalogue.is_idle
        desk.planner.is_paused = True
        assert desk.tick().writes == ()
        desk.planner.is_paused = False
        assert [write.key for write in desk.tick().writes] == [object_id("gone")]
        assert desk.catalogue.is_idle

    def test_a_slot_has_one_plan(self) -> None:
        """The caller may not forget one."""
        desk = Desk()
        desk.announce("m", event("a"), event("b"))
        desk.plan(0, idle_slots=2)
        assert desk.planner.has_live_plans
        with pytest.raises(AssertionError, match="slot 0 has a plan"):
            desk.plan(0)
        with pytest.raises(AssertionError, match="plan 1 exists"):
            desk.planner.next_batch(1, 1, at(NOW))

    def test_work_says_where_to_go_on(self) -> None:
        """Route and identity from the object, counts from its last checkpoint."""
        desk = Desk()
        desk.announce("m", event("a", version_id="v"))
        plan = desk.plan()
        desk.commit(plan, object_id("a"), LedgerEntry(state=State.PARTIAL, records=7, bad=2, attempts=1))
        desk.finish(plan)
        (work,) = desk.works[desk.plan()]
        assert (work.records, work.bad, work.attempts, work.start) == (7, 2, 1, None)
        assert (work.object.version_id, work.route) == ("v", Route(topic="topic"))


class TestBigObjects:
    """One slot is kept for small ones."""

    def test_never_in_all_slots(self) -> None:
        """Three big objects, three slots: the third slot waits for something small."""
        desk = Desk(limits=BatchLimits(slots=3, max_bytes=100))
        desk.announce("m", *(event(f"big{number}", size=101) for number in range(3)))
        assert [desk.keys(desk.plan(slot)) for slot in range(3)] == [["big0"], ["big1"], []]
        desk.announce("n", event("small"))
        assert desk.keys(desk.plan(2)) == ["small"]
        desk.complete(1)
        assert desk.keys(desk.plan(0)) == ["big2"]

    def test_a_single_slot_takes_them(self) -> None:
        """There is no other that could be kept."""
        desk = Desk(limits=BatchLimits(slots=1, max_bytes=100))
        desk.announce("m", event("big", size=101))
        assert desk.keys(desk.plan()) == ["big"]

    def test_they_alternate_with_small_ones(self) -> None:
        """Neither kind starves the other where there is one slot."""
        desk = Desk(limits=BatchLimits(slots=1, max_objects=1, max_bytes=100))
        for number in range(3):
            desk.announce(f"m{number}", event(f"big{number}", size=101), event(f"small{number}"))
        order = []
        for _ in range(6):
            plan = desk.plan()
            order += desk.keys(plan)
            desk.complete(plan)
        assert order == ["small0", "big0", "small1", "big1", "small2", "big2"]

    def test_they_travel_alone(self) -> None:
        """A big one in a batch would hold its commit back."""
        desk = Desk(limits=BatchLimits(slots=2, max_bytes=100))
        desk.announce("m", event("big", size=101), event("a", size=1), event("b", size=1))
        assert [desk.keys(desk.plan(slot, idle_slots=1)) for slot in range(2)] == [["a", "b"], ["big"]]


class TestVersions:
    """Versions of one key go one after the other."""

    @pytest.mark.parametrize(
        ("first", "second", "expected"),
        [
            ({"sequencer": "0A"}, {"sequencer": "0B"}, ["1", "2"]),
            ({"sequencer": "0B"}, {"sequencer": "0A"}, ["2", "1"]),
            ({"sequencer": "0A1"}, {"sequencer": "0A"}, ["2", "1"]),
            ({"sequencer": "0a"}, {"sequencer": "0B"}, ["1", "2"]),
            (
                {"sequencer": "01", "event_time_ms": NOW},
                {"sequencer": "01", "event_time_ms": NOW - 1},
                ["2", "1"],
            ),
            (
                {"sequencer": None, "event_time_ms": NOW},
                {"sequencer": None, "event_time_ms": NOW},
                ["1", "2"],
            ),
            ({"sequencer": None, "event_time_ms": NOW}, {"event_time_ms": NOW + 999}, ["2", "1"]),
            ({"sequencer": None, "event_time_ms": NOW}, {"event_time_ms": NOW + 1000}, ["1", "2"]),
        ],
    )
    def test_order(
        self, first: dict[str, str | int | None], second: dict[str, str | int | None], expected: list[str]
    ) -> None:
        """By sequencer, else by time; a listing's whole second is the end of that second."""
        desk = Desk()
        desk.announce("m", event("a", "1", **first), event("a", "2", **second))
        order = []
        for _ in range(2):
            plan = desk.plan()
            (work,) = desk.works[plan]
            order.append(work.object.id.etag)
            assert desk.works[desk.plan(1)] == ()
            desk.complete(plan)
        assert order == expected

    def test_an_earlier_version_that_comes_late_waits(self) -> None:
        """Two at a time would mix them."""
        desk = Desk()
        desk.announce("m", event("a", "2", sequencer="02"))
        plan = desk.plan()
        desk.announce("m", event("a", "1", sequencer="01"), event("a", "3", sequencer="03"))
        assert desk.works[desk.plan(1)] == ()
        desk.finish(plan)
        assert [work.object.id.etag for work in desk.works[desk.plan(1)]] == ["1"]

    def test_an_event_may_change_the_order(self) -> None:
        """It brings the sequencer that was not known: what did not come first does now."""
        desk = Desk()
        desk.announce("m", event("a", "1", sequencer=None, event_time_ms=NOW + 1))
        desk.announce("n", event("a", "2", sequencer="02", event_time_ms=NOW))
        plan = desk.plan()
        assert desk.works[plan][0].object.id.etag == "2"
        desk.fail(plan, "SourceUnavailable")
        assert desk.works[desk.plan()] == ()
        desk.announce("o", event("a", "1", sequencer="01", event_time_ms=NOW + 1))
        assert [work.object.id.etag for work in desk.works[desk.plan()]] == ["1"]

    def test_a_failed_version_holds_the_next_one_back(self) -> None:
        """Order is kept even when it takes long."""
        desk = Desk()
        desk.announce("m", event("a", "1", sequencer="01"), event("a", "2", sequencer="02"))
        desk.fail(desk.plan(), "SourceUnavailable")
        assert desk.works[desk.plan()] == ()
        desk.now_ms += 1000
        assert [work.object.id.etag for work in desk.works[desk.plan()]] == ["1"]

    @given(st.text("0123456789ABCDEF", max_size=6), st.text("0123456789ABCDEF", max_size=6))
    def test_sequencers_compare_as_aws_says(self, first: str, second: str) -> None:
        """The shorter one is padded with zeros on the right."""
        width = max(len(first), len(second))
        padded = first.ljust(width, "0"), second.ljust(width, "0")
        ranks = sequencer_rank(first), sequencer_rank(second)
        assert (ranks[0] < ranks[1], ranks[0] == ranks[1]) == (padded[0] < padded[1], padded[0] == padded[1])


class TestPartitions:
    """`ordering=partition`: keys here are `name-partition-offset`."""

    def desk(self, *, slots: int = 2, max_objects: int = 1000, max_bytes: int = MIB) -> Desk:
        """A desk of this ordering."""
        limits = BatchLimits(
            slots=slots, max_objects=max_objects, max_bytes=max_bytes, ordering=Ordering.PARTITION
        )
        return Desk(limits=limits)

    def test_order_within_a_topic_partition(self) -> None:
        """Absent offsets first, then by number, then by key."""
        desk = self.desk()
        keys = ["b-0-10", "a-0-10", "a-0-9", "z-0-", "a-0-100"]
        desk.announce("m", *(event(key) for key in keys))
        assert desk.keys(desk.plan()) == ["z-0-", "a-0-9", "a-0-10", "b-0-10", "a-0-100"]

    def test_a_topic_partition_is_in_one_slot(self) -> None:
        """Another slot gets another topic-partition, or nothing."""
        desk = self.desk(max_objects=2)
        desk.announce("m", *(event(f"a-0-{number}") for number in range(4)), event("a-1-0"))
        plan = desk.plan(0, idle_slots=2)
        assert desk.keys(plan) == ["a-0-0", "a-0-1"]
        other = desk.plan(1)
        assert desk.keys(other) == ["a-1-0"]
        desk.complete(other)
        assert desk.works[desk.plan(1)] == ()
        desk.complete(plan)
        assert desk.keys(desk.plan(1)) == ["a-0-2", "a-0-3"]

    def test_a_failed_object_holds_its_topic_partition_back(self) -> None:
        """Until its delay is over; others go on."""
        desk = self.desk()
        desk.announce("m", *(event(f"a-{number % 2}-{number}") for number in range(4)))
        plan = desk.plan()
        assert desk.keys(plan) == ["a-0-0", "a-0-2", "a-1-1", "a-1-3"]
        for key in ("a-1-1", "a-1-3"):
            desk.commit(plan, object_id(key), DONE)
        desk.fail(plan, "ObjectCorrupt")
        assert desk.works[desk.plan()] == ()
        assert desk.planner.next_due_ms() == at(NOW).steady_ms + 1000
        desk.now_ms += 1000
        assert desk.keys(desk.plan()) == ["a-0-0", "a-0-2"]

    @pytest.mark.parametrize(
        ("kind", "comes_next"),
        [("ObjectCorrupt", "a-0-0"), ("InvalidObject", "a-0-1")],
        ids=["failed", "quarantined"],
    )
    def test_a_failure_holds_its_place_until_it_is_acknowledged(self, kind: str, comes_next: str) -> None:
        """Between the batch's end and the driver's commit nothing passes it, whatever it becomes."""
        desk = self.desk()
        desk.announce("m", *(event(f"a-0-{number}") for number in range(3)))
        plan = desk.plan()
        failure = Failure(work=desk.works[plan][0], kind=kind, message="why", reason="unfit")
        finished = Finished(batch=plan, outcome=BatchOutcome.CLEAN, failures=(failure,))
        effects = desk.planner.on_finished(plan, finished, desk.now)
        assert len(effects.writes) == 1
        assert (desk.works[desk.plan()], desk.planner.ready(desk.now)) == ((), 0)
        desk.do(effects)
        desk.tick(1000)
        assert desk.keys(desk.plan())[0] == comes_next

    def test_what_is_written_from_its_first_moment_on_has_its_place(self) -> None:
        """An object whose end is proposed before it was ever planned."""
        desk = self.desk()
        effects = desk.catalogue.on_message("m", [event("a-0-1", size=0), event("a-0-2")], desk.now)
        assert desk.works[desk.plan()] == ()
        desk.do(effects)
        assert desk.keys(desk.plan()) == ["a-0-2"]

    def test_an_object_cut_under_another_ordering_goes_split_by_split(self) -> None:
        """It holds its topic-partition until the last one, suspects among them included."""
        ledger = FakeLedger()
        cut = LedgerEntry(state=State.PARTIAL, size=30, cuts=(0, 10, 20, 30))
        ledger.commit(object_id("a-0-1"), cut)
        desk = Desk(ledger=ledger, limits=BatchLimits(slots=1, ordering=Ordering.PARTITION))
        desk.announce("m", event("a-0-2"))
        make_suspects(desk.planner, object_id("a-0-1"))
        order = []
        for _ in range(4):
            desk.tick()
            plan = desk.plan()
            order += [(work.object.id.key, work.begin) for work in desk.works[plan]]
            for work in desk.works[plan]:
                key = object_id(work.object.id.key)
                assert work.begin is None or work.end is not None
                desk.commit(plan, key if work.end is None else SplitKey(key, work.begin or 0, work.end), DONE)
            desk.finish(plan)
        assert order == [("a-0-1", 0), ("a-0-1", 10), ("a-0-1", 20), ("a-0-2", None)]

    def test_a_quarantined_object_does_not(self) -> None:
        """A person will see to it."""
        desk = self.desk()
        desk.announce("m", event("a-0-1"), event("a-0-2"))
        plan = desk.plan()
        desk.fail(plan, "InvalidObject", reason="unknown_partition")
        assert desk.keys(desk.plan()) == ["a-0-2"]

    def test_a_late_lower_offset_is_produced_with_a_warning(self) -> None:
        """What is returned and taken again is not late."""
        desk = self.desk()
        desk.announce("m", event("a-0-5"), event("a-0-7"))
        plan = desk.plan()
        desk.commit(plan, object_id("a-0-5"), DONE)
        desk.finish(plan)
        desk.announce("m", event("a-0-3"), event("a-0-"))
        assert desk.keys(desk.plan()) == ["a-0-", "a-0-3", "a-0-7"]
        desk.tick()
        (warning,) = desk.warnings
        assert warning == (
            "s3://bucket/a-0-3 has the start offset 3, below 5, which topic-0 has already: "
            "it is produced now, out of order."
        )

    def test_fresh_topic_partitions_go_before_the_backlog(self) -> None:
        """One event lifts its whole topic-partition; the backlog keeps its share."""
        desk = self.desk(slots=1, max_objects=3)
        desk.observe(page(*(listed(f"a-{number // 4}-{number}") for number in range(8))))
        desk.announce("m", event("a-1-9"))
        assert desk.keys(desk.plan()) == ["a-1-4", "a-1-5", "a-0-0"]

    def test_big_objects_keep_their_place_and_leave_a_slot(self) -> None:
        """A big one goes alone, when its turn has come."""
        desk = self.desk(max_bytes=100)
        desk.announce("m", event("a-0-1"), event("a-0-2", size=101), event("a-1-1", size=101))
        desk.announce("n", event("a-0-3"))
        plan = desk.plan()
        assert desk.keys(plan) == ["a-0-1"]
        assert desk.keys(desk.plan(1)) == ["a-1-1"]
        desk.complete(plan)
        assert desk.works[desk.plan(0)] == ()
        desk.complete(2)
        assert desk.keys(desk.plan(0)) == ["a-0-2"]

    def test_versions_of_a_key_are_never_in_one_batch(self) -> None:
        """And the next offset waits for both."""
        desk = self.desk()
        desk.announce("m", event("a-0-1", "2", sequencer="02"), event("a-0-2"))
        desk.announce("m", event("a-0-1", "1", sequencer="01"))
        order = []
        for _ in range(3):
            plan = desk.plan()
            order += [(work.object.id.key, work.object.id.etag) for work in desk.works[plan]]
            desk.complete(plan)
        assert order == [("a-0-1", "1"), ("a-0-1", "2"), ("a-0-2", "1")]

    def test_a_gone_head_does_not_hold_back(self) -> None:
        """Its end was written by the driver meanwhile."""
        desk = self.desk()
        desk.announce("m", event("a-0-1", size=0), event("a-0-2"))
        assert desk.keys(desk.plan()) == ["a-0-2"]


@pytest.mark.parametrize("ordering", [Ordering.OBJECT, Ordering.PARTITION])
@pytest.mark.parametrize(
    ("max_objects", "arriving", "size"),
    [(1000, 250, 1), (10, 10, 1), (1, 1, 1), (1000, 1, 2 * MIB)],
    ids=["many", "a batch of them", "one by one", "big"],
)
def test_the_backlog_is_read_however_many_events_come(
    ordering: Ordering, max_objects: int, arriving: int, size: int
) -> None:
    """Each batch finds as many fresh ones as it can take, or more; most of them are taken all the same."""
    limits = BatchLimits(slots=1, max_objects=max_objects, max_bytes=MIB, ordering=ordering)
    desk = Desk(limits=limits)
    backlog = [f"old-99-{number}" for number in range(5)]
    desk.observe(page(*(listed(key, size=size) for key in backlog)))
    taken = []
    for batch in range(20):
        fresh = (event(f"new-{number % 50}-{batch}{number:03}", size=size) for number in range(arriving))
        desk.announce(f"m{batch}", *fresh)
        plan = desk.plan()
        taken += desk.keys(plan)
        for key in desk.works[plan]:
            desk.commit(plan, key.object.id, DONE)
        desk.finish(plan)

    assert {key for key in taken if key.startswith("old")} == set(backlog)
    assert len(taken) >= 2 * len(backlog)


class TestDelays:
    """Who comes back when."""

    @pytest.mark.parametrize(
        ("tries", "delay_ms"), [(0, 100), (1, 100), (2, 200), (5, 1600), (7, 5000), (99999, 5000)]
    )
    def test_exponential_to_a_bound(self, tries: int, delay_ms: int) -> None:
        """Doubling from the first delay."""
        assert Backoff(first_ms=100, longest_ms=5000, jitter=lambda: 1.0).delay_ms(tries) == delay_ms

    def test_full_jitter(self) -> None:
        """Anything from zero on."""
        assert Backoff(first_ms=100, longest_ms=5000, jitter=lambda: 0.0).delay_ms(9) == 0
        assert 0 <= Backoff(first_ms=100, longest_ms=5000).delay_ms(3) <= 400

    def test_an_object_waits_longer_each_time(self) -> None:
        """And at once again after progress."""
        desk = Desk()
        desk.announce("m", event("a"))
        for delay_ms in (1000, 2000, 4000):
            desk.fail(desk.plan(), "SourceUnavailable")
            assert desk.works[desk.plan()] == ()
            assert desk.planner.next_due_ms() == desk.now.steady_ms + delay_ms
            desk.now_ms += delay_ms
        plan = desk.plan()
        desk.commit(plan, object_id("a"), LedgerEntry(state=State.PARTIAL, records=1))
        desk.fail(plan, "SourceUnavailable")
        assert desk.works[desk.plan()] == ()
        assert desk.planner.next_due_ms() == desk.now.steady_ms + 1000
        assert desk.ledger.truth[object_id("a")].state is State.PARTIAL

    def test_others_do_not_wait(self) -> None:
        """One object that cannot be read holds nobody up."""
        desk = Desk()
        desk.announce("m", event("a"), event("b"))
        desk.fail(desk.plan(), "SourceUnavailable")
        assert desk.keys(desk.plan()) == ["b"]

    def test_refused_credentials_hold_everything(self) -> None:
        """No object is given up, and one success ends it."""
        desk = Desk()
        desk.announce("m", event("a"), event("b"))
        for delay_ms in (1000, 2000):
            desk.fail(desk.plan(), "AccessDenied")
            assert desk.works[desk.plan()] == ()
            assert desk.planner.next_due_ms() == desk.now.steady_ms + delay_ms
            assert desk.catalogue.waiting_reasons() == {"access_denied": 1}
            desk.now_ms += delay_ms
        desk.complete(desk.plan())
        assert desk.catalogue.waiting_reasons() == {}
        assert desk.planner.next_due_ms() is None

    def test_the_success_of_another_slot_ends_the_hold(self) -> None:
        """The credentials work again."""
        desk = Desk()
        desk.announce("m", event("a"), event("b"))
        denied, granted = desk.plan(0, idle_slots=2), desk.plan(1)
        desk.fail(denied, "AccessDenied")
        assert desk.works[desk.plan()] == ()
        desk.commit(granted, object_id("b"), DONE)
        assert desk.keys(desk.plan()) == ["a"]

    @pytest.mark.parametrize("kind", ["SourceUnavailable", "AccessDenied"])
    @pytest.mark.parametrize("ordering", [Ordering.OBJECT, Ordering.PARTITION])
    def test_what_is_due_is_no_time_to_wait_for(self, kind: str, ordering: Ordering) -> None:
        """While every slot is busy the service must not spin."""
        desk = Desk(limits=BatchLimits(slots=1, ordering=ordering))
        desk.announce("m", event("a"))
        desk.fail(desk.plan(), kind)
        desk.tick()
        assert desk.works[desk.plan()] == ()
        assert desk.planner.next_due_ms() == at(NOW).steady_ms + 1000
        desk.tick(1000)
        assert desk.planner.next_due_ms() is None
        assert desk.keys(desk.plan()) == ["a"]

    def test_an_aborted_transaction_comes_back_soon(self) -> None:
        """However often: it is not the object's fault."""
        desk = Desk()
        desk.announce("m", event("a"))
        for _ in range(4):
            desk.fail(desk.plan(), "TransactionAborted")
            desk.now_ms += 1000
        assert len(desk.works[desk.plan()]) == 1
        assert desk.ledger.log == []

    def test_min_age(self) -> None:
        """A writer that overwrites gets its time, from events and from listings."""
        desk = Desk()
        desk.catalogue.states.filters[BUCKET].min_age_ms = 5000
        desk.announce("m", event("a", event_time_ms=NOW - 1))
        desk.observe(page(listed("b", last_modified_ms=NOW - 5999)))
        assert desk.keys(desk.plan()) == ["b"]
        desk.now_ms = NOW + 4998
        assert desk.keys(desk.plan(1)) == []
        desk.now_ms = NOW + 4999
        assert desk.keys(desk.plan(1)) == ["a"]

    def test_min_age_of_a_time_in_whole_seconds(self) -> None:
        """Listings cut times to seconds: it may have been written as late as the second ended."""
        desk = Desk()
        desk.catalogue.states.filters[BUCKET].min_age_ms = 5000
        desk.now_ms = NOW + 2000
        desk.observe(page(listed("a", last_modified_ms=NOW)))
        desk.now_ms = NOW + 5998
        assert desk.keys(desk.plan()) == []
        desk.now_ms = NOW + 5999
        assert desk.keys(desk.plan(1)) == ["a"]

    def test_an_aborted_batch_is_taken_again_at_once(self) -> None:
        """Its task ended; nothing is in doubt."""
        desk = Desk()
        desk.announce("m", event("a"))
        desk.finish(desk.plan(), outcome=BatchOutcome.ABORTED)
        assert desk.keys(desk.plan()) == ["a"]


class TestReady:
    """How many slots are of use."""

    @pytest.mark.parametrize("ordering", [Ordering.OBJECT, Ordering.PARTITION])
    def test_what_could_begin(self, ordering: Ordering) -> None:
        """Not what waits for its delay, nor big ones beyond their slots; nothing while paused or held."""
        desk = Desk(limits=BatchLimits(slots=2, max_bytes=100, ordering=ordering))
        assert desk.planner.ready(at(NOW)) == 0
        desk.announce("m", event("a-3-1"), event("a-1-1", size=101), event("a-2-1", size=101))
        assert desk.planner.ready(at(NOW)) == 2
        desk.planner.is_paused = True
        assert desk.planner.ready(at(NOW)) == 0
        desk.planner.is_paused = False
        plan = desk.plan(0)
        assert desk.keys(plan) == ["a-3-1"]
        assert desk.planner.ready(at(NOW)) == 1
        desk.plan(1)
        assert desk.planner.ready(at(NOW)) == 0
        desk.fail(plan, "TopicMissing")
        assert desk.catalogue.counts == {"pending": 1, "active": 1, "failed": 1}
        assert desk.planner.ready(at(NOW)) == 0
        assert desk.planner.ready(at(NOW + 1000)) == 1

    def test_slices_count_one_each(self) -> None:
        """Though their object is one."""
        limits = BatchLimits(slots=2, max_bytes=100, ordering=Ordering.NONE, can_cut=True)
        desk = Desk(limits=limits)
        desk.announce("m", event("a", size=200))
        plan = desk.plan()
        desk.finish(plan, cuts=((desk.works[plan][0], (0, 50, 100, 150, 200)),))
        assert desk.planner.ready(at(NOW)) == 4

    def test_denied(self) -> None:
        """No slot is started while credentials are refused."""
        desk = Desk()
        desk.announce("m", event("a"), event("b"))
        desk.fail(desk.plan(), "AccessDenied")
        assert (desk.planner.ready(at(NOW)), desk.planner.ready(at(NOW + 1000))) == (0, 2)


def test_a_pending_object_is_small() -> None:
    """It has slots, and no dictionary."""
    known = S3Object(id=object_id("a"), size=1, last_modified_ms=0)
    unit = PendingObject(known, route=Route(topic="topic"), since_ms=0)
    assert not hasattr(unit, "__dict__")
