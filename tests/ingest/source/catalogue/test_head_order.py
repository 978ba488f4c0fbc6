"""Versions of a key go in their order, in whatever order their HEADs are answered."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.clock import Instant
from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.objects import Route, S3Object
from headrace.model.positions import BytePosition
from headrace.options.choices import Ordering
from ingest.source.catalogue import ObjectFilter
from ingest.source.catalogue.deduplication import HeadRequests, Source, as_announced
from ingest.source.notification import EventKind
from ingest.source.planner import BatchLimits
from tests.ingest.source.catalogue.desk import DAY, NOW, Desk, event, listed, object_id, page, route


def version(number: int, key: str = "a", etag: str | None = None, **fields: Any) -> Any:
    """The event of a version, which does not name its ETag unless it is given."""
    defaults = {"version_id": f"v{number}", "sequencer": f"0{number}", "event_time_ms": NOW - 1000 + number}
    return event(key, etag, **{**defaults, **fields})


def ask(desk: Desk, message: str, named: Any) -> str:
    """The token of the one HEAD that follows."""
    (request,) = desk.announce(message, named).heads
    return request.token


def answer(desk: Desk, token: str, number: int, key: str = "a") -> Any:
    """S3 has the version."""
    found = listed(key, str(number), version_id=f"v{number}")
    return desk.do(desk.catalogue.on_head_answer(token, found, desk.now))


def read(desk: Desk) -> list[str]:
    """The ETags that are read now, one after the other."""
    found = []
    while works := desk.works[desk.plan()]:
        found += [work.object.id.etag for work in works]
        desk.complete(desk.plans)
    return found


def test_an_answer_waits_for_that_of_an_earlier_version() -> None:
    """It is repeated after a 503, and the later one is not."""
    desk = Desk()
    tokens = [ask(desk, f"m{number}", version(number)) for number in (1, 2, 3)]
    answer(desk, tokens[2], 3)
    answer(desk, tokens[1], 2)
    assert (read(desk), desk.settled, desk.catalogue.is_idle) == ([], [], False)
    answer(desk, tokens[0], 1)
    assert read(desk) == ["1", "2", "3"]
    assert (desk.settled, desk.catalogue.is_idle) == (["m1", "m2", "m3"], True)


def test_what_is_free_does_not_wait() -> None:
    """The earliest of those that have answered, other keys, and the same version once more."""
    desk = Desk()
    tokens = [ask(desk, f"m{number}", version(number)) for number in (1, 2, 3)]
    answer(desk, tokens[0], 1)
    assert read(desk) == ["1"]
    other = ask(desk, "other", version(4, "b"))
    answer(desk, other, 4, "b")
    assert read(desk) == ["4"]
    again = ask(desk, "again", version(2))
    answer(desk, again, 2)
    assert read(desk) == ["2"]
    answer(desk, tokens[1], 2)
    assert (read(desk), desk.settled) == ([], ["m1", "other", "again", "m2"])
    answer(desk, tokens[2], 3)
    assert read(desk) == ["3"]
    assert desk.catalogue.is_idle


def test_an_earlier_event_may_come_later() -> None:
    """Queues have no order; only what is unanswered is waited for."""
    desk = Desk()
    second = ask(desk, "m2", version(2))
    first = ask(desk, "m1", version(1))
    answer(desk, second, 2)
    assert read(desk) == []
    answer(desk, first, 1)
    assert read(desk) == ["1", "2"]


def test_an_event_that_needs_no_head_waits_too() -> None:
    """The first came with a size and ETag from a queue of old messages, say."""
    desk = Desk(retention_ms=DAY)
    old = ask(desk, "m1", version(1, etag="1", event_time_ms=NOW - DAY - 1))
    desk.announce("m2", version(2, etag="2"))
    desk.announce("m3", version(3, etag="2"))
    assert read(desk) == []
    answer(desk, old, 1)
    assert read(desk) == ["1", "2"]
    assert sorted(desk.settled) == ["m1", "m2", "m3"]


def test_by_time_where_no_sequencer_is_told() -> None:
    """As pending versions go."""
    desk = Desk()
    first, second = (ask(desk, f"m{number}", version(number, sequencer=None)) for number in (1, 2))
    answer(desk, second, 2)
    assert read(desk) == []
    answer(desk, first, 1)
    assert read(desk) == ["1", "2"]


@pytest.mark.parametrize(("is_forbidden", "left"), [(False, []), (True, ["m1"])])
def test_an_earlier_version_that_is_not_there(is_forbidden: bool, left: list[str]) -> None:
    """404, or 403 by which nothing is learned and its message stays: the later one continues."""
    desk = Desk()
    first, second = (ask(desk, f"m{number}", version(number)) for number in (1, 2))
    answer(desk, second, 2)
    desk.do(desk.catalogue.on_head_answer(first, None, desk.now, is_forbidden=is_forbidden))
    assert read(desk) == ["2"]
    assert (desk.left, desk.settled[-1], desk.catalogue.is_idle) == (left, "m2", True)


@pytest.mark.parametrize("key", ["a%2Bb", "a+b"])
def test_either_key_of_an_event_may_be_the_one(key: str) -> None:
    """A version of the alternate key waits until it is known that the first is another key's."""
    desk = Desk()
    token = ask(desk, "m1", version(1, "a%2Bb", "1", alternate_key="a+b"))
    desk.announce("m2", version(2, "a+b", "2"))
    assert read(desk) == []
    if key == "a+b":
        (request,) = desk.do(desk.catalogue.on_head_answer(token, None, desk.now)).heads
        assert read(desk) == []
        token = request.token
    answer(desk, token, 1, key)
    assert desk.keys(desk.plan())[0] == key
    desk.complete(desk.plans)
    read(desk)
    assert (sorted(desk.settled), desk.catalogue.is_idle) == (["m1", "m2"], True)


def test_the_first_key_is_free_once_the_alternate_one_is_asked() -> None:
    """What waited for it there continues."""
    desk = Desk()
    token = ask(desk, "m1", version(1, "a%2Bb", "1", alternate_key="a+b"))
    desk.announce("m2", version(2, "a%2Bb", "2"))
    assert read(desk) == []
    desk.do(desk.catalogue.on_head_answer(token, None, desk.now))
    assert read(desk) == ["2"]


def test_what_waits_is_judged_again() -> None:
    """A listing has found it meanwhile, of an earlier time, and it is read: its message is done."""
    desk = Desk()
    first, second = (ask(desk, f"m{number}", version(number)) for number in (1, 2))
    answer(desk, second, 2)
    desk.observe(page(listed("a", "2", last_modified_ms=NOW - 5000)))
    assert read(desk) == ["2"]
    assert desk.settled == []
    desk.do(desk.catalogue.on_head_answer(first, None, desk.now))
    assert (read(desk), desk.settled, desk.catalogue.is_idle) == ([], ["m1", "m2"], True)


def test_what_is_begun_does_not_wait() -> None:
    """It was first when it was begun, and what is committed of it must not be forgotten meanwhile."""
    desk = Desk()
    desk.announce("m2", version(2, etag="2"))
    begun = LedgerEntry(state=State.PARTIAL, records=5, position=BytePosition(byte=5), options="x")
    desk.commit(desk.plan(), object_id("a", "2"), begun)
    desk.fail(desk.plans, "ObjectMissing")
    ask(desk, "m1", version(1))
    desk.announce("again", version(3, etag="2"))
    (work,) = desk.works[desk.plan()]
    assert (work.object.id.etag, work.start) == ("2", BytePosition(byte=5))


def test_restored_objects_wait_as_well() -> None:
    """They take the same way."""
    desk = Desk()
    desk.announce("m0", version(0, etag="0", sequencer=None))
    desk.fail(desk.plan(), "ObjectArchived")
    first = ask(desk, "m1", version(1, sequencer=None, event_time_ms=NOW - DAY))
    desk.announce("m2", version(0, etag="0", sequencer=None, kind=EventKind.RESTORED))
    assert read(desk) == []
    answer(desk, first, 1)
    assert sorted(read(desk)) == ["0", "1"]
    assert sorted(desk.settled) == ["m0", "m1", "m2"]


def test_what_others_wait_for_does_not_wait() -> None:
    """`ordering=partition`: a higher offset would pass the object while it is out of the table."""
    desk = Desk(limits=BatchLimits(slots=2, ordering=Ordering.PARTITION))
    token = ask(desk, "m1", version(1, "t-0-7"))
    desk.announce("m2", version(2, "t-0-7", "2"))
    desk.announce("m3", event("t-0-10", "9"))
    assert read(desk) == ["2", "9"]
    desk.do(desk.catalogue.on_head_answer(token, None, desk.now))
    assert desk.catalogue.is_idle


def _ordered() -> Desk:
    return Desk(
        limits=BatchLimits(slots=2, ordering=Ordering.PARTITION),
        intake=ObjectFilter(route=lambda key: replace(route(key) or Route(topic="topic"), partition=0)),
    )


@pytest.mark.parametrize("keys", [("t-0-", "t-0-10"), ("a", "b", "c")])
def test_what_is_listed_of_a_topic_partition_does_not_wait(keys: tuple[str, ...]) -> None:
    """Without an offset it is the first of its topic-partition, or its key says when it goes."""
    desk = _ordered()
    token = ask(desk, "m1", version(1, keys[0]))
    desk.observe(page(*(listed(key, str(number)) for number, key in enumerate(keys, 2))))
    assert read(desk) == [str(number) for number, _ in enumerate(keys, 2)]
    answer(desk, token, 1, keys[0])
    assert (read(desk), desk.catalogue.is_idle) == (["1"], True)


def test_announced_versions_of_an_ordered_topic_partition_wait() -> None:
    """The contract: versions of one key go one after the other."""
    desk = _ordered()
    tokens = {number: ask(desk, f"m{number}", version(number)) for number in (1, 2, 3)}
    for number in (3, 2, 1):
        answer(desk, tokens[number], number)
    assert read(desk) == ["1", "2", "3"]


def test_what_a_listing_shows_waits_as_well() -> None:
    """An event's version may be earlier; listings tell neither versions nor sequencers."""
    desk = Desk()
    tokens = [ask(desk, f"m{number}", version(number)) for number in (1, 2)]
    desk.observe(page(listed("a", "3"), listed("b", "4")))
    assert read(desk) == ["4"]
    answer(desk, tokens[1], 2)
    assert (read(desk), desk.catalogue.is_idle) == ([], False)
    answer(desk, tokens[0], 1)
    assert read(desk) == ["1", "2", "3"]
    assert (desk.settled, desk.catalogue.is_idle) == (["m1", "m2"], True)


def test_a_listing_may_show_what_is_asked_about() -> None:
    """It is read once, by its event, and its message is settled."""
    desk = Desk()
    token = ask(desk, "m1", version(1))
    desk.observe(page(listed("a", "1")))
    assert read(desk) == []
    answer(desk, token, 1)
    assert (read(desk), desk.settled, desk.catalogue.is_idle) == (["1"], ["m1"], True)


@pytest.mark.parametrize("is_forbidden", [False, True])
def test_what_a_listing_shows_is_read_whatever_the_answer(is_forbidden: bool) -> None:
    """No later listing may show it before a run until idle is over."""
    desk = Desk()
    token = ask(desk, "m1", version(1))
    desk.observe(page(listed("a", "2")))
    desk.do(desk.catalogue.on_head_answer(token, None, desk.now, is_forbidden=is_forbidden))
    assert (read(desk), desk.catalogue.is_idle) == (["2"], True)


@pytest.mark.parametrize(
    "later", [{"version_id": None}, {"event_time_ms": NOW + 1000}, {"key": "b"}, {"key": "t-0-7"}]
)
def test_a_listing_does_not_wait_for_what_tells_of_nothing_earlier(later: dict[str, Any]) -> None:
    """Without a version the HEAD finds what the listing shows. What others wait for goes at once."""
    desk = Desk()
    key = later.pop("key", "a")
    ask(desk, "m1", version(1, "t-0-7" if key == "t-0-7" else "a", **later))
    desk.observe(page(listed(key, "2")))
    assert read(desk) == ["2"]


def test_a_listing_does_not_wait_for_ever() -> None:
    """One HEAD that is repeated for days must not keep a key from being read, nor what comes after it."""
    desk = Desk()
    token = ask(desk, "m1", version(1))
    desk.observe(page(listed("a", "2")))
    desk.tick(599_999)
    again = ask(desk, "again", version(1))
    desk.observe(page(listed("a", "3"), listing_id=2))
    assert read(desk) == []
    desk.tick(1)
    assert read(desk) == ["3"]  # without another listing, which may not come
    desk.observe(page(listed("a", "4"), listing_id=4))
    assert read(desk) == ["4"]
    for each in (token, again):
        answer(desk, each, 1)
    assert (read(desk), desk.catalogue.is_idle) == (["1"], True)


def test_a_key_that_waits_is_one_that_is_read() -> None:
    """Else `/status` says that the names of all keys do not fit."""
    desk = Desk()
    token = ask(desk, "m1", version(1))
    desk.observe(page(listed("a", "2"), listed("b?"), listed("c?")))
    assert desk.catalogue.unread_keys is None
    answer(desk, token, 1)
    assert (read(desk), desk.catalogue.unread_keys) == (["1", "2"], None)


def test_the_last_that_listings_have_shown_waits() -> None:
    """What was there before it is overwritten."""
    desk = Desk()
    token = ask(desk, "m1", version(1))
    for etag in "233":
        desk.observe(page(listed("a", etag)))
    assert read(desk) == []
    answer(desk, token, 1)
    assert (read(desk), desk.catalogue.is_idle) == (["1", "3"], True)


def test_very_many_versions_do_not_all_wait() -> None:
    """They are let go in one turn of the service's thread."""
    asked = HeadRequests(retention_ms=DAY)
    question = asked.open(version(0, sequencer="00"), ["a"], Instant(wall_ms=NOW, steady_ms=0))
    later = [
        as_announced(version(n, etag=str(n), sequencer=f"{n:06}"), object_id("a", str(n)), NOW)
        for n in range(1, 1100)
    ]
    tokens = [asked.hold(one, Source.EVENT) for one in later]
    assert tokens[1000:] == [None] * 99
    assert asked.held == set(tokens[:1000])
    asked.pop(question.token)
    assert [one.token for one in asked.release(question)] == tokens[:1000]
    assert not asked.held


def test_messages_of_what_waits_are_parked() -> None:
    """One HEAD that is never answered must not fill `sqs.max.held`; its own message counts."""
    desk = Desk()
    first, second = (ask(desk, f"m{number}", version(number)) for number in (1, 2))
    assert desk.planner.park(desk.now) == ()
    answer(desk, second, 2)
    assert desk.planner.park(desk.now) == ("m2",)
    assert desk.planner.park(desk.now) == ()
    answer(desk, first, 1)
    assert read(desk) == ["1", "2"]
    assert desk.settled == ["m1", "m2"]


@given(
    ranks=st.lists(st.integers(0, 9), min_size=1, max_size=12),
    luck=st.randoms(use_true_random=False),
)
def test_whatever_is_asked_all_comes_in_order(ranks: list[int], luck: Any) -> None:
    """Nothing waits when all is answered, and nothing passes an earlier version that was asked about."""
    questions = HeadRequests(retention_ms=DAY)
    asked = [questions.open(version(rank), ["a"], Instant(wall_ms=NOW, steady_ms=0)) for rank in ranks]
    luck.shuffle(asked)
    free: list[S3Object] = []
    while asked:
        question = asked.pop()
        assert questions.pop(question.token) is question
        found = as_announced(question.event, object_id("a"), NOW)
        token = questions.hold(found, Source.EVENT)
        came = [] if token is not None else [found]
        came += [held.object for held in questions.release(question)]
        for one in came:
            assert one.sequencer is not None
            assert all(one.sequencer <= (left.event.sequencer or "") for left in asked)
        free += came
    assert sorted(one.sequencer or "" for one in free) == sorted(f"0{rank}" for rank in ranks)
    assert not questions
