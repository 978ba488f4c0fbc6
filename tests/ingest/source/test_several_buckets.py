"""One catalogue and one planner for several buckets: what is so of one is not so of another."""

from dataclasses import replace
from typing import Any

import pytest

from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.objects import ObjectId, S3Object
from headrace.model.slot_protocol import Failure
from headrace.options.choices import Ordering
from ingest.source.catalogue import Baseline, ObjectFilter
from ingest.source.catalogue.catalogue import Catalogue
from ingest.source.catalogue.ledger_view import APART_MS
from ingest.source.planner import BatchLimits
from tests.ingest.source.catalogue.desk import DAY, NOW, Desk, event, listed, page, route
from tests.ingest.source.catalogue.fake_ledger import FakeLedger

A, B = "a-bucket", "b-bucket"
DONE = LedgerEntry(state=State.DONE, records=1, size=10)


def _desk(**options: Any) -> Desk:
    return Desk(buckets=(A, B), **options)


def _in(bucket: str, key: str, etag: str = "1") -> S3Object:
    return replace(listed(key), id=ObjectId(bucket, key, etag))


def _work(desk: Desk, plan: int) -> list[str]:
    return [work.object.id.url for work in desk.works[plan]]


def _fail(desk: Desk, plan: int, kind: str) -> None:
    failures = tuple(Failure(work=work, kind=kind, message=f"{kind} said why") for work in desk.works[plan])
    desk.finish(plan, failures=failures)


def test_one_key_in_two_buckets_is_two_objects() -> None:
    """With one ETag too: neither is the other's version, waits for it, or ends with it."""
    desk = _desk()
    desk.announce("m", event("k", bucket=A))
    desk.announce("n", event("k", bucket=B))
    plan = desk.plan(idle_slots=1)
    assert sorted(_work(desk, plan)) == [f"s3://{A}/k", f"s3://{B}/k"]
    desk.commit(plan, ObjectId(A, "k", "1"), DONE)
    assert desk.settled == ["m"]
    desk.commit(plan, ObjectId(B, "k", "1"), DONE)
    assert desk.settled == ["m", "n"]
    assert set(desk.ledger.truth) == {ObjectId(A, "k", "1"), ObjectId(B, "k", "1")}


def test_versions_of_one_key_wait_within_their_bucket() -> None:
    """The second version in one bucket waits for the first one there, and not for that of the other."""
    desk = _desk()
    desk.announce("m", event("k", "1", bucket=A, sequencer="01"), event("k", "2", bucket=A, sequencer="02"))
    desk.announce("n", event("k", "2", bucket=B, sequencer="03"))
    plan = desk.plan()
    assert sorted((work.object.id.bucket, work.object.id.etag) for work in desk.works[plan]) == [
        (A, "1"),
        (B, "2"),
    ]


def test_an_object_of_no_bucket_of_the_list_is_ignored() -> None:
    """As that of another bucket than the only one."""
    desk = _desk()
    effects = desk.announce("m", event("k", bucket="c-bucket"))
    assert (effects.ignored, desk.left) == ({"other_bucket": 1}, ["m"])


def test_in_a_topic_partition_ties_are_broken_by_key_then_bucket() -> None:
    """In whichever order they become known: start offsets, then keys, then buckets."""
    wanted = [f"s3://{A}/t-0-1", f"s3://{B}/t-0-1", f"s3://{A}/t-0-2", f"s3://{A}/u-0-2"]
    for order in ((0, 1, 2, 3), (3, 1, 2, 0), (1, 0, 3, 2)):
        desk = _desk(limits=BatchLimits(slots=1, ordering=Ordering.PARTITION))
        for number in order:
            bucket, _, key = wanted[number].removeprefix("s3://").partition("/")
            desk.announce(f"m{number}", event(key, bucket=bucket))
        assert _work(desk, desk.plan()) == wanted


def test_each_listing_is_compared_with_the_entries_of_its_bucket() -> None:
    """What one bucket does not show is not missing from the other, though its keys lie between."""
    old = LedgerEntry(state=State.DONE, updated_ms=NOW - 40 * DAY, last_modified_ms=NOW - 40 * DAY)
    ledger = FakeLedger()
    for bucket in (A, B):
        for key in ("j", "k", "l"):
            ledger.commit(ObjectId(bucket, key, "1"), old)
    desk = _desk(ledger=ledger)
    for number in (1, 2):
        # Both listings run at once, under one number, page by page.
        desk.observe(page(_in(A, "j"), bucket=A, listing_id=number, through_key="j"))
        desk.observe(page(_in(B, "j"), _in(B, "k"), bucket=B, listing_id=number, through_key="k"))
        desk.observe(page(_in(A, "l"), bucket=A, listing_id=number, after_key="j"))
        desk.observe(page(_in(B, "l"), bucket=B, listing_id=number, after_key="k"))
        desk.now_ms += APART_MS
    gone = {ObjectId(bucket, key, "1") for bucket in (A, B) for key in ("j", "k", "l")} - set(ledger.truth)
    assert gone == {ObjectId(A, "k", "1")}


def test_messages_of_a_denied_bucket_make_room_for_those_of_the_others() -> None:
    """They need not count against `sqs.max.held`; where all are denied, receiving has to slow down."""
    desk = _desk()
    desk.announce("m", event("k", bucket=A))
    _fail(desk, desk.plan(), "AccessDenied")
    desk.announce("n", event("l", bucket=A))
    desk.announce("o", event("k", bucket=B))
    assert desk.planner.park(desk.now) == ("m", "n")
    _fail(desk, desk.plan(), "AccessDenied")
    desk.announce("p", event("l", bucket=B))
    assert desk.planner.park(desk.now) == ()


def test_each_bucket_has_a_first_start_of_its_own() -> None:
    """`include.existing=false`, with a bucket added later: what is old there is older than its own."""
    early, late = Baseline(existing_before_ms=NOW - 10_000), Baseline(existing_before_ms=NOW)
    desk = _desk()
    desk.catalogue = Catalogue(
        view=desk.ledger.view,
        filters={A: ObjectFilter(route=route, baseline=early), B: ObjectFilter(route=route, baseline=late)},
    )
    for bucket in (A, B):
        seen = replace(_in(bucket, "k"), last_modified_ms=NOW - 5_000)
        desk.observe(page(seen, bucket=bucket))
    assert [pending.object.id.bucket for pending in desk.catalogue.states.table] == [A]


def test_what_a_bucket_left_out_of_the_list_had_begun_stays_as_it_is() -> None:
    """Its entry is neither read nor written; named again, it continues from its position."""
    begun = LedgerEntry(state=State.PARTIAL, records=3, size=10)
    ledger = FakeLedger()
    ledger.commit(ObjectId(B, "k", "1"), begun)
    assert not Desk(buckets=(A,), ledger=ledger).catalogue.states.table
    assert ledger.truth == {ObjectId(B, "k", "1"): begun}
    desk = _desk(ledger=ledger)
    (work,) = desk.works[desk.plan()]
    assert (work.object.id, work.records) == (ObjectId(B, "k", "1"), 3)


@pytest.mark.parametrize("ordering", [Ordering.OBJECT, Ordering.PARTITION])
@pytest.mark.parametrize("kind", ["AccessDenied", "ResourceMissing"])
def test_a_bucket_that_denies_everything_holds_up_no_other(ordering: Ordering, kind: str) -> None:
    """Its objects wait, with a growing delay; it is named as the problem until one of them is read."""
    desk = _desk(limits=BatchLimits(slots=1, max_objects=1, ordering=ordering))
    desk.announce("m", event("t-0-1", bucket=B), event("t-1-1", bucket=B))
    plan = desk.plan()
    assert _work(desk, plan) == [f"s3://{B}/t-0-1"]
    _fail(desk, plan, kind)
    desk.announce("n", event("t-2-1", bucket=A), event("t-3-1", bucket=A))
    for key in ("t-2-1", "t-3-1"):
        plan = desk.plan()
        assert _work(desk, plan) == [f"s3://{A}/{key}"]
        desk.complete(plan)
    assert _work(desk, desk.plan()) == []
    assert desk.planner.ready(desk.now) == 0
    assert desk.catalogue.access_problems == {B: f"{kind} said why"}
    due_ms = desk.planner.next_due_ms()
    assert due_ms is not None
    desk.now_ms += due_ms - desk.now.steady_ms
    while plan := desk.plan():
        if not desk.works[plan]:
            break
        desk.complete_with(plan, DONE)
    assert desk.catalogue.access_problems == {}
    assert not desk.catalogue.states.table


def test_a_read_ends_the_hold_of_its_own_bucket_at_once() -> None:
    """Another slot was at it; that another bucket can be read says nothing."""
    desk = _desk(limits=BatchLimits(slots=3, max_objects=1))
    desk.announce("m", *(event(f"k{number}", bucket=B) for number in range(3)), event("k", bucket=A))
    first, second = desk.plan(0), desk.plan(1)
    _fail(desk, first, "AccessDenied")
    third = desk.plan(0)
    assert _work(desk, third) == [f"s3://{A}/k"]
    desk.complete_with(third, DONE)
    assert _work(desk, desk.plan(0)) == [], "the other bucket was read, not this one"
    desk.complete_with(second, DONE)
    assert len(_work(desk, desk.plan(1))) == 1


def test_where_all_buckets_deny_everything_nothing_is_planned() -> None:
    """Until the first of their delays is over."""
    desk = _desk(limits=BatchLimits(slots=1, max_objects=1))
    for bucket in (A, B):
        desk.announce(bucket, event("k", bucket=bucket))
        _fail(desk, desk.plan(), "AccessDenied")
    assert desk.planner.ready(desk.now) == 0
    assert set(desk.catalogue.access_problems) == {A, B}
    assert desk.planner.next_due_ms() == desk.now.steady_ms + 1000


def test_what_is_read_in_one_bucket_counts_no_attempt_in_another() -> None:
    """A 403 may be true of all of a bucket, whose policy is not that of the other one."""
    desk = _desk(limits=BatchLimits(slots=1, max_objects=1, max_attempts=2))
    desk.announce("m", event("k", bucket=B))
    for number in range(5):
        plan = desk.plan()
        assert _work(desk, plan) == [f"s3://{B}/k"]
        _fail(desk, plan, "ObjectForbidden")
        desk.announce(f"a{number}", event(f"k{number}", bucket=A))
        plan = desk.plan()
        desk.complete_with(plan, DONE)
        desk.now_ms += 120_000
    assert ObjectId(B, "k", "1") not in desk.ledger.truth
    assert set(desk.catalogue.access_problems) == {B}


def test_a_doubt_is_asked_of_the_same_bucket() -> None:
    """That a byte of another bucket can be read says nothing of this one."""
    ledger = FakeLedger()
    ledger.commit(ObjectId(B, "old", "1"), DONE)
    desk = _desk(ledger=ledger, limits=BatchLimits(slots=1, max_objects=1))
    desk.announce("m", event("k", bucket=A))
    desk.complete_with(desk.plan(), DONE)
    desk.announce("n", event("k", bucket=B))
    effects = desk.fail(desk.plan(), "ObjectForbidden")
    assert [(asked.bucket, asked.key) for asked in effects.heads] == [(B, "old")]
