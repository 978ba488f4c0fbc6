"""What slots report, turned into the ledger's words: failures, slices, suspects, lost slots, commands."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from headrace.model.ledger_entry import ERROR_MAX, LedgerEntry, LedgerKey, SplitKey, State
from headrace.model.objects import S3Object
from headrace.model.positions import BytePosition
from headrace.model.slot_protocol import UNRECORDED_OPTIONS, BatchOutcome, Checkpoint, Failure, Finished
from headrace.options.choices import Ordering
from ingest.source.catalogue import LedgerWrite, Mark, Replay, Selection
from ingest.source.catalogue.effects import Unreported
from ingest.source.planner import BatchLimits
from tests.ingest.source.catalogue.desk import BUCKET, NOW, Desk, event, listed, object_id, page
from tests.ingest.source.catalogue.fake_ledger import FakeLedger, known_objects, make_suspects
from tests.support.instants import at

DONE = LedgerEntry(state=State.DONE, records=1)
PARTIAL = LedgerEntry(state=State.PARTIAL, position=BytePosition(1))
EVERYTHING = Selection()


class TestFailures:
    """One entry for each failure that needs one."""

    def test_attempts_end_in_quarantine(self) -> None:
        """Counted in the ledger; the message goes with the last."""
        desk = Desk(limits=BatchLimits(slots=1, max_attempts=3))
        desk.announce("m", event("a"))
        seen = []
        for _ in range(3):
            desk.fail(desk.plan(), "ObjectCorrupt")
            entry = desk.entry("a")
            assert entry is not None
            seen.append((entry.state, entry.reason, entry.attempts, entry.error))
            desk.now_ms += 60_000
        said = "ObjectCorrupt said why"
        assert seen == [
            (State.FAILED, "corrupt", 1, said),
            (State.FAILED, "corrupt", 2, said),
            (State.QUARANTINED, "corrupt", 3, said),
        ]
        assert desk.settled == ["m"]

    def test_an_error_is_kept_in_a_bounded_length(self) -> None:
        """A record above the ledger's limit would end the ingester."""
        desk = Desk()
        desk.announce("m", event("a"))
        plan = desk.plan()
        desk.finish(plan, [Failure(work=desk.works[plan][0], kind="ObjectCorrupt", message="x" * 2_000_000)])
        entry = desk.entry("a")
        assert entry is not None
        assert entry.error == "x" * (ERROR_MAX - 1) + "…"

    def test_attempts_survive_a_restart(self) -> None:
        """They are the ledger's, not the memory's."""
        desk = Desk(limits=BatchLimits(slots=1, max_attempts=2))
        desk.announce("m", event("a"))
        desk.fail(desk.plan(), "ObjectCorrupt")
        again = Desk(ledger=desk.ledger, limits=BatchLimits(slots=1, max_attempts=2))
        again.fail(again.plan(), "ObjectCorrupt")
        entry = again.entry("a")
        assert entry is not None
        assert (entry.state, entry.reason) == (State.QUARANTINED, "corrupt")

    def test_another_reason_counts_anew(self) -> None:
        """Two misfortunes are not one."""
        desk = Desk(limits=BatchLimits(slots=1, max_attempts=2))
        desk.announce("m", event("a"))
        for kind, attempts in (("ObjectForbidden", 1), ("ObjectCorrupt", 1)):
            plan = desk.plan()
            desk.planner.access.of(BUCKET).has_read()
            desk.fail(plan, kind)
            entry = desk.entry("a")
            assert entry is not None
            assert (entry.state, entry.attempts) == (State.FAILED, attempts)
            desk.now_ms += 60_000

    def test_progress_between_attempts_keeps_the_count(self) -> None:
        """Rows before the damage are kept, and it is still the second attempt."""
        desk = Desk(limits=BatchLimits(slots=1, max_attempts=2))
        desk.announce("m", event("a"))
        desk.fail(desk.plan(), "ObjectCorrupt")
        desk.now_ms += 60_000
        plan = desk.plan()
        partial = LedgerEntry(state=State.PARTIAL, records=5, attempts=1, position=BytePosition(50))
        desk.commit(plan, object_id("a"), partial)
        desk.fail(plan, "ObjectCorrupt")
        entry = desk.entry("a")
        assert entry is not None
        assert (entry.state, entry.attempts, entry.records) == (State.QUARANTINED, 2, 5)
        assert entry.position == BytePosition(50)

    def test_a_missing_topic_is_said_once(self) -> None:
        """It is failed, without a number, and not written again at each try."""
        desk = Desk()
        desk.announce("m", event("a"))
        for _ in range(9):
            desk.fail(desk.plan(), "TopicMissing")
            desk.now_ms += 60_000
        assert len(desk.ledger.log) == 1
        entry = desk.entry("a")
        assert entry is not None
        assert (entry.state, entry.reason, entry.attempts) == (State.FAILED, "topic_missing", 0)
        assert desk.catalogue.waiting_reasons() == {"topic_missing": 1}
        assert not desk.catalogue.is_idle

    def test_a_permanent_refusal_keeps_its_reason(self) -> None:
        """At once, with the words of the error."""
        desk = Desk()
        desk.announce("m", event("a-3-7"))
        desk.fail(desk.plan(), "InvalidObject", reason="unknown_partition")
        entry = desk.entry("a-3-7")
        assert entry is not None
        assert (entry.state, entry.reason, entry.partition) == (State.QUARANTINED, "unknown_partition", 3)
        assert (desk.settled, desk.catalogue.is_idle) == (["m"], True)

    def test_a_quarantine_that_the_task_committed_is_its_end(self) -> None:
        """A bad record under `errors.tolerance=none`."""
        desk = Desk()
        desk.announce("m", event("a"))
        plan = desk.plan()
        desk.commit(plan, object_id("a"), LedgerEntry(state=State.QUARANTINED, reason="bad_json"))
        desk.finish(plan)
        assert (desk.settled, desk.catalogue.is_idle) == (["m"], True)

    def test_nothing_settles_before_the_write_is_acknowledged(self) -> None:
        """The driver's transaction may still fail."""
        desk = Desk()
        desk.announce("m", event("a", size=0))
        effects = desk.catalogue.on_message("n", [event("b", size=0)], at(NOW))
        assert effects.settled == ()
        assert desk.works[desk.plan()] == ()
        assert not desk.catalogue.is_idle
        assert desk.catalogue.on_written(effects.writes, at(NOW)).settled == ("n",)


class TestLostSlots:
    """Void, fence, read, plan."""

    @pytest.mark.parametrize("outcome", [BatchOutcome.FENCED, BatchOutcome.UNKNOWN, None])
    def test_work_stays_reserved_until_recovered(self, outcome: BatchOutcome | None) -> None:
        """Whatever the task said last."""
        desk = Desk()
        desk.announce("m", event("a"), event("b"))
        plan = desk.plan()
        if outcome is None:
            desk.planner.on_lost(plan)
        else:
            desk.finish(plan, outcome=outcome)
        assert desk.works[desk.plan(1)] == ()
        # A commit that nobody acknowledged is in the ledger.
        desk.ledger.commit(object_id("a"), DONE)
        for key, entry in desk.ledger.follow():
            desk.catalogue.on_ledger_record(key, entry)
        desk.do(desk.planner.on_recovered(0, at(NOW), worker_died=False))
        assert desk.keys(desk.plan(1)) == ["b"]
        assert desk.settled == []
        desk.complete(desk.plans)
        assert desk.settled == ["m"]

    def test_the_ledger_wins_over_what_was_reported(self) -> None:
        """After a fence it says how far the object is."""
        desk = Desk()
        desk.announce("m", event("a"))
        plan = desk.plan()
        desk.commit(plan, object_id("a"), LedgerEntry(state=State.PARTIAL, records=1))
        desk.ledger.commit(object_id("a"), LedgerEntry(state=State.PARTIAL, records=2))
        desk.die(0, plan)
        desk.tick()
        (work,) = desk.works[desk.plan()]
        assert work.records == 2
        assert len(desk.catalogue.states.ledger) == 1  # the suspect's entry, not read back yet

    def test_what_a_lost_slot_committed_without_a_word_is_counted(self) -> None:
        """Records and bad records of transactions that were not reported, and none twice."""
        desk = Desk()
        desk.announce("m", event("a"), event("b"), event("c"))
        plan = desk.plan()
        desk.commit(plan, object_id("a"), replace(PARTIAL, records=4, bad=1))
        desk.commit(plan, object_id("b"), replace(DONE, records=7, bad=0, topic="orders"))
        desk.ledger.commit(object_id("a"), replace(DONE, records=9, bad=3, topic="orders"))
        desk.planner.on_lost(plan)
        for key, entry in desk.ledger.follow():
            desk.catalogue.on_ledger_record(key, entry)
        effects = desk.planner.on_recovered(0, at(NOW), worker_died=False)
        assert effects.unreported == (Unreported(topic="orders", records=5, bad=2),)
        desk.do(effects)
        assert desk.keys(desk.plan()) == ["c"]

    def test_a_record_that_compaction_took_does_not_outlive_its_successor(self) -> None:
        """The follower never reads the first, so the overlay must let go of it at the recovery."""
        desk = Desk()
        desk.announce("m", event("a"))
        plan = desk.plan()
        first = LedgerEntry(state=State.PARTIAL, records=1)
        desk.do(desk.planner.on_committed(plan, [Checkpoint(key=object_id("a"), entry=first)]))
        desk.ledger.commit(object_id("a"), LedgerEntry(state=State.PARTIAL, records=2))
        desk.planner.on_lost(plan)
        for key, entry in desk.ledger.follow():
            desk.catalogue.on_ledger_record(key, entry)
        desk.do(desk.planner.on_recovered(0, at(NOW), worker_died=False))
        assert desk.works[desk.plan()][0].records == 2

    def test_late_reports_of_a_void_plan_say_nothing(self) -> None:
        """The socket delivered them after the fence."""
        desk = Desk()
        desk.announce("m", event("a"))
        plan = desk.plan()
        desk.planner.on_lost(plan)
        desk.do(desk.planner.on_recovered(0, at(NOW), worker_died=False))
        late = [Checkpoint(key=object_id("a"), entry=DONE)]
        assert desk.planner.on_committed(plan, late).settled == ()
        assert desk.finish(plan).settled == ()
        desk.planner.on_lost(plan)
        assert desk.keys(desk.plan()) == ["a"]

    def test_other_slots_are_untouched(self) -> None:
        """Recovery is for one slot."""
        desk = Desk()
        desk.announce("m", event("a"), event("b"))
        desk.plan(0, idle_slots=2)
        other = desk.plan(1)
        desk.die(0, 1)
        desk.complete(other)
        desk.tick()
        assert desk.keys(desk.plan(1)) == ["a"]


class TestSuspects:
    """What may kill workers runs alone, each attempt in the ledger before it begins."""

    def test_a_killer_is_found_out_and_the_others_go_on(self) -> None:
        """Three lonely deaths are enough."""
        desk = Desk(limits=BatchLimits(slots=2))
        desk.announce("m", event("good"), event("killer"), event("fine"))
        deaths = 0
        batches: list[list[str]] = []
        while not desk.catalogue.is_idle:
            desk.tick(1000)
            plan = desk.plan()
            keys = desk.keys(plan)
            if not keys:
                continue
            batches.append(keys)
            if "killer" in keys:
                deaths += 1
                entry = desk.entry("killer")
                assert (entry.attempts if entry else 0) == deaths - 1
                desk.die(0, plan)
            else:
                desk.complete(plan)
        assert batches[0] == ["good", "killer", "fine"]
        assert sorted(batches[1:]) == [["fine"], ["good"], ["killer"], ["killer"], ["killer"]]
        entry = desk.entry("killer")
        assert entry is not None
        assert (entry.state, entry.reason, entry.attempts) == (State.QUARANTINED, "worker_died", 3)
        assert desk.settled == ["m"]

    def test_who_gets_further_before_each_death_is_not_what_kills(self) -> None:
        """Only deaths without a commit between them are counted; the same place kills every time."""
        desk = Desk()
        desk.announce("m", event("large"))
        lonely = 0
        desk.die(0, desk.plan())
        while (known := desk.entry("large")) is None or known.state is not State.QUARANTINED:
            desk.tick(1000)
            plan = desk.plan()
            if not desk.works[plan]:
                continue
            lonely += 1
            (work,) = desk.works[plan]
            if lonely <= 5:
                step = LedgerEntry(
                    state=State.PARTIAL,
                    records=lonely,
                    attempts=work.attempts,
                    position=BytePosition(lonely * 10),
                )
                desk.commit(plan, object_id("large"), step)
            desk.die(0, plan)
        assert lonely == 5 + 3
        assert (known.reason, known.attempts, known.position) == ("worker_died", 3, BytePosition(50))

    def test_no_suspect_runs_before_its_attempt_is_written(self) -> None:
        """The driver may die with the worker."""
        desk = Desk()
        desk.announce("m", event("a"))
        desk.die(0, desk.plan())
        assert desk.works[desk.plan()] == ()
        effects = desk.planner.tick(at(NOW))
        (write,) = effects.writes
        assert write.entry is not None
        assert (write.entry.state, write.entry.reason, write.entry.attempts) == (
            State.FAILED,
            "worker_died",
            1,
        )
        assert desk.works[desk.plan()] == ()
        desk.do(effects)
        assert desk.keys(desk.plan()) == ["a"]

    def test_no_more_are_armed_than_there_are_slots(self) -> None:
        """A restart must not count attempts against a thousand innocent objects."""
        desk = Desk(limits=BatchLimits(slots=2))
        desk.announce("m", *(event(f"o{number}") for number in range(9)))
        desk.die(0, desk.plan())
        assert len(desk.tick().writes) == 2
        assert len(desk.tick().writes) == 0
        desk.complete(desk.plan())
        assert len(desk.tick().writes) == 1

    def test_who_survives_alone_is_no_suspect_any_more(self) -> None:
        """And its attempts are forgotten, or restarts would add up."""
        desk = Desk()
        desk.announce("m", event("a"), event("b"))
        desk.die(0, desk.plan())
        desk.tick()
        plan = desk.plan()
        (key,) = desk.keys(plan)
        desk.finish(plan)
        entry = desk.entry(key)
        assert entry is not None
        assert (entry.state, entry.attempts) == (State.PARTIAL, 0)
        assert desk.keys(desk.plan()) == [key]

    def test_suspicion_survives_a_restart(self) -> None:
        """The ledger remembers how often it was alone."""
        ledger = FakeLedger()
        for key, attempts in (("a", 2), ("b", 3)):
            entry = LedgerEntry(state=State.FAILED, reason="worker_died", attempts=attempts, size=1)
            ledger.commit(object_id(key), entry)
        desk = Desk(ledger=ledger)
        assert desk.works[desk.plan()] == ()
        desk.tick()
        assert desk.keys(desk.plan()) == ["a"]
        for key, state in (("a", State.FAILED), ("b", State.QUARANTINED)):
            known = desk.entry(key)
            assert known is not None
            assert (known.state, known.attempts) == (state, 3)

    def test_named_by_the_service(self) -> None:
        """Whatever is waiting can be made a suspect."""
        desk = Desk()
        desk.announce("m", event("a"), event("b"))
        make_suspects(desk.planner, object_id("a"), object_id("unknown"))
        desk.tick()
        assert [desk.keys(desk.plan(slot)) for slot in range(2)] == [["b"], ["a"]]

    def test_in_a_topic_partition_the_first_one_is_armed(self) -> None:
        """Or the armed one would wait for the one that waits to be armed."""
        desk = Desk(limits=BatchLimits(slots=1, ordering=Ordering.PARTITION))
        desk.announce("m", event("a-0-5"), event("a-0-6"))
        desk.die(0, desk.plan())
        desk.tick()
        desk.announce("m", event("a-0-1"))
        make_suspects(desk.planner, object_id("a-0-1"))
        order = []
        for _ in range(3):
            desk.tick()
            plan = desk.plan()
            order += desk.keys(plan)
            desk.complete(plan)
        assert order == ["a-0-1", "a-0-5", "a-0-6"]


class TestSlices:
    """`ordering=none`: a large object is cut where its format allows."""

    CUTS = (0, 400, 800, 1000)

    def desk(self, ledger: FakeLedger | None = None) -> Desk:
        """A desk that cuts what is larger than 400 bytes."""
        limits = BatchLimits(slots=2, max_bytes=400, ordering=Ordering.NONE, can_cut=True)
        return Desk(ledger=ledger, limits=limits)

    def keys(self) -> list[SplitKey]:
        """Its three splits."""
        return [SplitKey(object_id("a"), begin, end) for begin, end in pairwise(self.CUTS)]

    def cut(self, desk: Desk) -> list[LedgerKey]:
        """An object of a thousand bytes, cut into three slices."""
        desk.announce("m", event("a", size=1000))
        plan = desk.plan()
        (work,) = desk.works[plan]
        assert work.splits_wanted == 10
        desk.finish(plan, cuts=((work, self.CUTS),))
        return list(self.keys())

    def end(self, desk: Desk, slot: int, entry: LedgerEntry = DONE) -> Any:
        """One slot takes a slice and ends it."""
        plan = desk.plan(slot)
        (work,) = desk.works[plan]
        assert work.begin is not None
        assert work.end is not None
        desk.commit(plan, SplitKey(work.object.id, work.begin, work.end), entry)
        return desk.finish(plan)

    def test_the_cuts_are_committed_before_a_slice_is_planned(self) -> None:
        """They never change for that ETag."""
        desk = self.desk()
        self.cut(desk)
        entry = desk.entry("a")
        assert entry is not None
        assert (entry.state, entry.cuts) == (State.PARTIAL, self.CUTS)
        first, second = desk.works[desk.plan(0)], desk.works[desk.plan(1)]
        assert [(work.begin, work.end) for work in (*first, *second)] == [(0, 400), (400, 800)]
        assert desk.catalogue.counts["active"] == 1

    def test_done_when_all_slices_are(self) -> None:
        """With the slices' tombstones in one transaction, and not before the last plan is over."""
        desk = self.desk()
        keys = self.cut(desk)
        assert self.end(desk, 0).writes == ()
        assert self.end(desk, 0).writes == ()
        plan = desk.plan()
        assert desk.commit(plan, keys[2], DONE).writes == ()
        effects = desk.finish(plan)
        assert [(write.key, write.entry is None) for write in effects.writes] == [
            (object_id("a"), False),
            *((key, True) for key in keys),
        ]
        entry = desk.entry("a")
        assert entry is not None
        assert (entry.state, entry.records, entry.cuts) == (State.DONE, 3, None)
        assert desk.settled == ["m"]
        assert set(desk.ledger.truth) == {object_id("a")}

    def hashes(self, ledger: FakeLedger) -> list[str | None]:
        """Under which settings the splits that are planned after a restart have to be read."""
        again = self.desk(ledger)
        return [work.options for slot in range(2) for work in again.works[again.plan(slot)]]

    @pytest.mark.parametrize("begun", [0, 1, 2])
    def test_every_split_is_read_under_the_settings_of_the_cuts(self, begun: int) -> None:
        """Also after a restart, whether it was begun, its neighbour was, or nobody."""
        desk = self.desk()
        desk.announce("m", event("a", size=1000))
        plan = desk.plan()
        (work,) = desk.works[plan]
        desk.finish(plan, cuts=((replace(work, options="made"), self.CUTS),))
        entry = desk.entry("a")
        assert entry is not None
        assert (entry.cuts, entry.options) == (self.CUTS, "made")
        for key, state in list(zip(self.keys(), (State.DONE, State.PARTIAL), strict=False))[:begun]:
            read = LedgerEntry(state=state, position=BytePosition(key.begin + 1), options="made")
            desk.ledger.commit(key, read)
        assert self.hashes(desk.ledger) == ["made", "made"]

    def test_another_bucket_has_cuts_and_splits_of_its_own(self) -> None:
        """An object of the same key and ETag there is neither cut nor done; back in the first, it is."""
        desk = self.desk()
        self.cut(desk)
        self.end(desk, 0)
        there = Desk(
            ledger=desk.ledger,
            limits=BatchLimits(slots=2, max_bytes=400, ordering=Ordering.NONE, can_cut=True),
            buckets=("other",),
        )
        assert there.works[there.plan()] == ()
        there.announce("n", event("a", size=1000, bucket="other"))
        plan = there.plan()
        (work,) = there.works[plan]
        assert (work.object.id.bucket, work.begin, work.end, work.splits_wanted) == ("other", None, None, 10)
        there.finish(plan, cuts=((work, (0, 500, 1000)),))
        begun = there.works[there.plan(0)]
        assert [(one.object.id.bucket, one.begin, one.end) for one in begun] == [("other", 0, 500)]

        back = self.desk(desk.ledger)
        left = [one for slot in range(2) for one in back.works[back.plan(slot)]]
        assert [(one.object.id.bucket, one.begin, one.end) for one in left] == [
            ("bucket", 400, 800),
            ("bucket", 800, 1000),
        ]

    def test_done_without_cuts_has_no_hash(self) -> None:
        """It meant them alone."""
        desk = self.desk()
        ends = [
            LedgerEntry(state=State.DONE, position=BytePosition(key.end), options="x") for key in self.keys()
        ]
        desk.ledger.commit(
            object_id("a"), LedgerEntry(state=State.PARTIAL, cuts=self.CUTS, options="x", size=1000)
        )
        for key, end in zip(self.keys(), ends, strict=True):
            desk.ledger.commit(key, end)
        entry = self.desk(desk.ledger).entry("a")
        assert entry is not None
        assert (entry.state, entry.cuts, entry.options) == (State.DONE, None, None)

    @pytest.mark.parametrize(
        ("cuts", "splits", "expected"),
        [
            pytest.param(None, [], None, id="old cuts, nothing begun: all will be read alike"),
            pytest.param(None, [(State.FAILED, None, None)], None, id="old cuts, a failure before any row"),
            pytest.param(None, [(State.DONE, 400, "x")], "x", id="old cuts, a split shows them"),
            pytest.param(
                None,
                [(State.DONE, 400, "x"), (State.PARTIAL, 500, "y")],
                UNRECORDED_OPTIONS,
                id="old cuts, two configurations",
            ),
            pytest.param(
                None, [(State.DONE, None, None)], UNRECORDED_OPTIONS, id="old cuts, nothing shows them"
            ),
            pytest.param("x", [(State.DONE, None, None)], "x", id="a split without rows"),
            pytest.param(
                "x",
                [(State.DONE, 400, "x"), (State.PARTIAL, 500, "y")],
                UNRECORDED_OPTIONS,
                id="a split begun under other settings",
            ),
        ],
    )
    def test_what_the_ledger_shows_of_the_settings(
        self, cuts: str | None, splits: list[tuple[State, int | None, str | None]], expected: str | None
    ) -> None:
        """Trusted is only what one configuration cut and read; all else waits for an operator."""
        ledger = FakeLedger()
        ledger.commit(
            object_id("a"), LedgerEntry(state=State.PARTIAL, cuts=self.CUTS, options=cuts, size=1000)
        )
        for key, (state, byte, options) in zip(self.keys(), splits, strict=False):
            position = None if byte is None else BytePosition(byte)
            ledger.commit(key, LedgerEntry(state=state, position=position, options=options))
        assert self.hashes(ledger)[0] == expected

    def test_an_object_that_cannot_be_cut_is_read_whole(self) -> None:
        """A gzip stream, found out by the task."""
        desk = self.desk()
        desk.announce("m", event("a", size=1000))
        plan = desk.plan()
        desk.finish(plan, cuts=((desk.works[plan][0], (0, 1000)),))
        (work,) = desk.works[desk.plan()]
        assert (work.splits_wanted, work.begin) == (0, None)

    @pytest.mark.parametrize(
        "limits",
        [
            BatchLimits(slots=2, max_bytes=400, ordering=Ordering.NONE, can_cut=False),
            BatchLimits(slots=2, max_bytes=400, ordering=Ordering.OBJECT, can_cut=True),
            BatchLimits(slots=1, max_bytes=400, ordering=Ordering.NONE, can_cut=True),
            BatchLimits(slots=2, max_bytes=1000, ordering=Ordering.NONE, can_cut=True),
        ],
        ids=["format", "ordering", "one slot", "small"],
    )
    def test_no_cuts_are_asked_for(self, limits: BatchLimits) -> None:
        """Where they cannot help."""
        desk = Desk(limits=limits)
        desk.announce("m", event("a", size=1000))
        assert desk.works[desk.plan()][0].splits_wanted == 0

    def test_no_cuts_once_it_was_begun(self) -> None:
        """Its position is one of the whole object."""
        desk = self.desk()
        ledger = desk.ledger
        begun = LedgerEntry(state=State.PARTIAL, position=BytePosition(7), size=1000)
        ledger.commit(object_id("a"), begun)
        again = self.desk(ledger)
        (work,) = again.works[again.plan()]
        assert (work.splits_wanted, work.start) == (0, BytePosition(7))

    def test_a_restart_goes_on_with_the_slices(self) -> None:
        """Those that are done stay so."""
        desk = self.desk()
        self.cut(desk)
        self.end(desk, 0)
        plan = desk.plan()
        partial = LedgerEntry(state=State.PARTIAL, records=4, position=BytePosition(500))
        desk.commit(plan, SplitKey(object_id("a"), 400, 800), partial)
        again = self.desk(desk.ledger)
        works = [again.works[again.plan(slot)][0] for slot in range(2)]
        assert [(work.begin, work.end, work.start, work.records) for work in works] == [
            (400, 800, BytePosition(500), 4),
            (800, 1000, None, 0),
        ]

    def test_a_restart_after_the_last_slice_writes_the_end(self) -> None:
        """The old driver died before it could."""
        desk = self.desk()
        for key in self.cut(desk):
            desk.ledger.commit(key, DONE)
        again = self.desk(desk.ledger)
        entry = again.entry("a")
        assert entry is not None
        assert (entry.state, entry.records) == (State.DONE, 3)
        assert again.catalogue.is_idle

    def test_slices_of_two_versions_do_not_mix(self) -> None:
        """Both were cut before a restart: one after the other all the same."""
        desk = self.desk()
        for etag, modified_ms in (("1", 2), ("2", 1)):
            cut = LedgerEntry(state=State.PARTIAL, cuts=(0, 5, 10), size=10, last_modified_ms=modified_ms)
            desk.ledger.commit(object_id("a", etag), cut)
        again = self.desk(desk.ledger)
        order = []
        for _ in range(4):
            plan = again.plan()
            (work,) = again.works[plan]
            order.append(work.object.id.etag)
            again.commit(plan, SplitKey(work.object.id, work.begin or 0, work.end or 0), DONE)
            again.finish(plan)
        assert order == ["2", "2", "1", "1"]
        assert again.catalogue.is_idle

    def test_an_earlier_version_goes_between_two_slices(self) -> None:
        """It came late; the slice whose end was being written when it was looked at wakes it."""
        desk = self.desk()
        self.cut(desk)
        plan = desk.plan()
        failure = Failure(work=desk.works[plan][0], kind="InvalidObject", message="bad", reason="bad_json")
        finished = Finished(batch=plan, outcome=BatchOutcome.CLEAN, failures=(failure,))
        effects = desk.planner.on_finished(plan, finished, at(NOW))
        desk.announce("n", event("a", "0", sequencer="00"))
        assert desk.works[desk.plan()] == ()
        desk.do(effects)
        assert [(work.object.id.etag, work.begin) for work in desk.works[desk.plan()]] == [("0", None)]

    def test_an_earlier_version_waits_for_the_plan_of_a_slice(self) -> None:
        """Not only for its last commit."""
        desk = self.desk()
        keys = self.cut(desk)
        plan = desk.plan()
        desk.announce("n", event("a", "0", sequencer="00"))
        assert desk.works[desk.plan(1)] == ()
        desk.commit(plan, keys[0], DONE)
        assert desk.works[desk.plan(1)] == ()
        desk.finish(plan)
        assert [(work.object.id.etag, work.begin) for work in desk.works[desk.plan(1)]] == [("0", None)]

    def test_a_slice_fails_by_itself(self) -> None:
        """Its own entry, its own delay; the others go on."""
        desk = self.desk()
        keys = self.cut(desk)
        desk.fail(desk.plan(), "ObjectCorrupt")
        known = desk.ledger.truth[keys[0]]
        assert (known.state, known.attempts) == (State.FAILED, 1)
        self.end(desk, 0)
        self.end(desk, 0)
        assert desk.works[desk.plan()] == ()
        desk.now_ms += 1000
        self.end(desk, 0)
        assert desk.settled == ["m"]

    @pytest.mark.parametrize(
        ("kind", "state"), [("InvalidObject", State.QUARANTINED), ("ObjectMissing", State.SKIPPED)]
    )
    def test_the_least_happy_slice_names_the_end(self, kind: str, state: State) -> None:
        """The slices' entries stay for whoever revives or replays it."""
        desk = self.desk()
        keys = self.cut(desk)
        desk.fail(desk.plan(), kind, reason="bad_json")
        self.end(desk, 0)
        self.end(desk, 0)
        entry = desk.entry("a")
        assert entry is not None
        assert (entry.state, entry.records, entry.cuts) == (state, 2, self.CUTS)
        assert set(desk.ledger.truth) == {object_id("a"), *keys}
        assert desk.settled == ["m"]

    def test_a_revived_object_goes_on_with_what_was_skipped(self) -> None:
        """A listing shows it again; two slices are done already."""
        desk = self.desk()
        self.cut(desk)
        desk.fail(desk.plan(), "ObjectMissing")
        self.end(desk, 0)
        self.end(desk, 0)
        desk.observe(page(listed("a", size=1000)))
        plan = desk.plan()
        (work,) = desk.works[plan]
        assert (work.begin, work.end) == (0, 400)
        desk.commit(plan, SplitKey(object_id("a"), 0, 400), DONE)
        desk.finish(plan)
        assert set(desk.ledger.truth) == {object_id("a")}

    def test_seen_again_while_its_slices_were_missing(self) -> None:
        """Another look at once, before any end is written."""
        desk = self.desk()
        self.cut(desk)
        for _ in range(3):
            plan = desk.plan()
            desk.announce("again", event("a", size=1000, event_time_ms=NOW))
            desk.fail(plan, "ObjectMissing")
        assert len(desk.works[desk.plan()]) == 1
        assert desk.settled == []

    def test_slices_of_a_lost_slot(self) -> None:
        """They are recovered, and may be suspects."""
        desk = self.desk()
        keys = self.cut(desk)
        plan = desk.plan()
        desk.ledger.commit(keys[0], DONE)
        desk.die(0, plan)
        plan = desk.plan()
        assert desk.works[plan][0].begin == 400
        desk.die(0, plan)
        desk.tick()
        known = desk.ledger.truth[keys[1]]
        assert (known.state, known.reason) == (State.FAILED, "worker_died")
        for _ in range(2):
            self.end(desk, 0)
        assert desk.settled == ["m"]


class TestCommands:
    """`replay` and `mark` on a running service."""

    def known(self, desk: Desk) -> list[S3Object]:
        """Every object of the ledger."""
        return known_objects(desk.catalogue, BUCKET)

    @pytest.mark.parametrize(
        ("state", "is_from_start", "is_replayed"),
        [
            (State.QUARANTINED, False, True),
            (State.FAILED, False, True),
            (State.SKIPPED, False, True),
            (State.DONE, False, False),
            (State.DONE, True, True),
            (State.QUARANTINED, True, True),
        ],
    )
    def test_replay(
        self,
        state: State,
        is_from_start: bool,
        is_replayed: bool,
    ) -> None:
        """From the position, or whole; `done` only whole."""
        entry = LedgerEntry(
            state=state, reason="corrupt", error="why", records=5, bad=1, attempts=4, position=BytePosition(9)
        )
        seen = listed("a")
        command = Replay(selection=EVERYTHING, is_from_start=is_from_start)
        writes = command.writes(seen, entry, {}, NOW)
        if not is_replayed:
            assert writes == []
            return
        kept = (0, 0, None) if is_from_start else (5, 1, BytePosition(9))
        (write,) = writes
        assert write.entry is not None
        assert (write.entry.records, write.entry.bad, write.entry.position) == kept
        assert (write.entry.state, write.entry.reason, write.entry.error, write.entry.attempts) == (
            State.NEW,
            None,
            None,
            0,
        )

    @pytest.mark.parametrize(
        ("selection", "is_taken"),
        [
            (Selection(), True),
            (Selection(key="in/a"), True),
            (Selection(key="in/"), False),
            (Selection(prefix="in/"), True),
            (Selection(prefix="out/"), False),
            (Selection(since_ms=NOW), True),
            (Selection(since_ms=NOW + 1), False),
            (Selection(until_ms=NOW), True),
            (Selection(until_ms=NOW - 1), False),
            (Selection(states=frozenset({State.DONE})), True),
            (Selection(states=frozenset({State.FAILED})), False),
        ],
    )
    def test_selections(self, selection: Selection, is_taken: bool) -> None:
        """Every condition that is given must hold."""
        assert selection.matches(object_id("in/a"), NOW, State.DONE) is is_taken

    def test_a_replayed_object_is_ingested_again(self) -> None:
        """By the running service."""
        desk = Desk()
        desk.announce("m", event("a"))
        desk.complete(desk.plan())
        command = Replay(selection=EVERYTHING, is_from_start=True)
        desk.do(desk.catalogue.apply_command(command, self.known(desk), at(NOW)))
        (work,) = desk.works[desk.plan()]
        assert (work.records, work.start) == (0, None)

    def test_a_replay_ends_the_delay_of_a_failed_object(self) -> None:
        """The operator has repaired something."""
        desk = Desk()
        desk.announce("m", event("a"))
        desk.fail(desk.plan(), "TopicMissing")
        desk.do(desk.catalogue.apply_command(Replay(selection=EVERYTHING), self.known(desk), at(NOW)))
        assert desk.catalogue.waiting_reasons() == {}
        assert desk.keys(desk.plan()) == ["a"]

    def test_mark(self) -> None:
        """Counted as done without being read, wherever it was."""
        desk = Desk()
        desk.announce("m", event("waiting"))
        desk.announce("n", event("done"))
        desk.complete(desk.plan())
        desk.announce("o", event("waiting2"))
        objects = [listed(key) for key in ("unknown", "done", "waiting2")]
        desk.do(desk.catalogue.apply_command(Mark(selection=EVERYTHING), objects, at(NOW)))
        marked = {key.key for key, entry in desk.ledger.log if entry and entry.reason == "marked"}  # type: ignore[union-attr]  # objects only
        assert marked == {"unknown", "waiting2"}
        assert desk.settled == ["m", "n", "o"]
        assert desk.observe(page(*objects)).pending == 0

    def test_mark_leaves_out_what_is_not_selected(self) -> None:
        """And what is done already."""
        command = Mark(selection=Selection(prefix="in/"))
        assert command.writes(listed("out/a"), None, {}, NOW) == []
        assert command.writes(listed("in/a"), DONE, {}, NOW) == []
        assert len(command.writes(listed("in/a"), LedgerEntry(state=State.FAILED), {}, NOW)) == 1

    def test_what_a_plan_holds_is_marked_when_it_rests(self) -> None:
        """No driver write names an object that a live plan holds."""
        desk = Desk()
        desk.announce("m", event("a"), event("b"))
        plan = desk.plan()
        desk.commit(plan, object_id("b"), DONE)
        objects = [listed("a"), listed("b")]
        assert (
            desk.do(desk.catalogue.apply_command(Mark(selection=EVERYTHING), objects, at(NOW))).writes == ()
        )
        assert not desk.catalogue.is_idle
        desk.finish(plan)
        entry = desk.entry("a")
        assert entry is not None
        assert (entry.state, entry.reason) == (State.DONE, "marked")
        assert desk.entry("b") == DONE
        assert (desk.settled, desk.catalogue.is_idle) == (["m"], True)

    def test_a_command_for_another_bucket_is_none_of_ours(self) -> None:
        """Nothing is written."""
        desk = Desk()
        foreign = S3Object(id=object_id("a").__class__("other", "a", "1"), size=1, last_modified_ms=0)
        assert desk.catalogue.apply_command(Mark(selection=EVERYTHING), [foreign], at(NOW)).writes == ()

    def test_a_write_for_what_a_plan_holds_is_a_bug(self) -> None:
        """The books refuse it."""
        desk = Desk()
        desk.announce("m", event("a"))
        desk.plan()
        from ingest.source.catalogue.effects import EffectsBuilder

        with pytest.raises(AssertionError, match="held by a live plan"):
            desk.catalogue.states.write(object_id("a"), None, EffectsBuilder())

    @pytest.mark.parametrize("is_from_start", [False, True])
    def test_replay_of_a_split_object(self, is_from_start: bool) -> None:
        """Its slices go on, or it is cut anew."""
        slices = TestSlices()
        desk = slices.desk()
        keys = slices.cut(desk)
        desk.fail(desk.plan(), "InvalidObject", reason="bad_json")
        slices.end(desk, 0)
        slices.end(desk, 0)
        command = Replay(selection=EVERYTHING, is_from_start=is_from_start)
        effects = desk.do(desk.catalogue.apply_command(command, self.known(desk), at(NOW)))
        (work,) = desk.works[desk.plan()]
        if is_from_start:
            assert [write for write in effects.writes if write.entry is None] == [
                LedgerWrite(key=key, entry=None) for key in keys
            ]
            assert (work.begin, work.splits_wanted) == (None, 10)
        else:
            assert (work.begin, work.end) == (0, 400)
            assert desk.works[desk.plan(1)] == ()

    def test_a_replay_of_a_waiting_split_object_stops_its_slices(self) -> None:
        """None is planned before the records are there."""
        slices = TestSlices()
        desk = slices.desk()
        slices.cut(desk)
        desk.fail(desk.plan(), "ObjectCorrupt")
        command = Mark(selection=EVERYTHING)
        effects = desk.catalogue.apply_command(command, [listed("a", size=1000)], at(NOW))
        assert desk.works[desk.plan()] == ()
        desk.do(effects)
        assert (desk.settled, desk.catalogue.is_idle) == (["m"], True)
        assert set(desk.ledger.truth) == {object_id("a")}
