"""A 403 of one object and a 403 of everything: told apart by whether anything else can be read."""

from dataclasses import replace
from typing import Any

import pytest

from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.slot_protocol import Failure
from ingest.source.catalogue import ObjectFilter
from ingest.source.planner import BatchLimits
from tests.ingest.source.catalogue.desk import BUCKET, Desk, event, listed, route
from tests.ingest.source.catalogue.fake_ledger import FakeLedger

READ = LedgerEntry(state=State.DONE, records=1, size=10)


def desk_with(max_attempts: int = 3, **fields: Any) -> Desk:
    """A desk of one slot."""
    return Desk(limits=BatchLimits(slots=1, max_attempts=max_attempts), **fields)


def read(desk: Desk, key: str) -> None:
    """Announce one more object, and have it read, if it is its turn."""
    desk.announce(f"of-{key}", event(key))
    plan = desk.plan()
    for work in desk.works[plan]:
        if work.object.id.key == key:
            desk.commit(plan, work.object.id, READ)
    desk.finish(plan)


def attempts(desk: Desk, key: str = "forbidden") -> int:
    """What the ledger counts against it."""
    entry = desk.entry(key)
    return 0 if entry is None else entry.attempts


def test_while_others_read_every_attempt_counts() -> None:
    """Then it is the object's own policy, and a person has to look at it."""
    desk = desk_with()
    desk.announce("m", event("forbidden"))
    for number in range(3):
        plan = desk.plan()
        assert desk.keys(plan) == ["forbidden"]
        # Another slot reads in the meantime.
        desk.planner.access.of(BUCKET).has_read()
        desk.fail(plan, "ObjectForbidden")
        assert attempts(desk) == number + 1
        desk.now_ms += 60_000
    entry = desk.entry("forbidden")
    assert entry is not None
    assert (entry.state, entry.reason) == (State.QUARANTINED, "forbidden")
    assert desk.access_problem is None


def test_a_batch_in_which_others_read_tells_enough() -> None:
    """Their commits come before the end of the batch."""
    desk = desk_with()
    desk.announce("m", event("forbidden"), event("good"))
    plan = desk.plan()
    good = desk.works[plan][1].object.id
    desk.commit(plan, good, READ)
    desk.fail(plan, "ObjectForbidden")
    assert attempts(desk) == 1


@pytest.mark.parametrize("kind", ["ObjectForbidden", "ObjectError"])
def test_a_refusal_that_is_true_of_all_gives_nothing_up(kind: str) -> None:
    """One that is not known as well: a proxy that answers 400 to everything, a new code."""
    desk = desk_with()
    read(desk, "good")
    desk.announce("m", event("one"), event("two"))
    for _ in range(9):
        for head in desk.fail(desk.plan(), kind).heads:
            desk.do(desk.catalogue.on_head_answer(head.token, None, desk.now, is_forbidden=True))
        desk.now_ms += 60_000
    assert (attempts(desk, "one"), attempts(desk, "two")) == (0, 0)
    assert desk.access_problem is not None


def test_where_nothing_can_be_read_no_object_is_given_up() -> None:
    """However often: it is not the objects' fault, and the service says that it is not ready."""
    desk = desk_with()
    desk.announce("m", event("forbidden"), event("also"))
    for _ in range(20):
        desk.fail(desk.plan(), "ObjectForbidden")
        desk.now_ms += 60_000
    assert (desk.entry("forbidden"), desk.entry("also")) == (None, None)
    assert desk.access_problem is not None
    assert "ObjectForbidden said why" in desk.access_problem


def test_a_source_that_is_away_for_a_minute_is_a_problem() -> None:
    """S3 or a registry: no object is given up, and whatever is read, or only damaged, ends it."""
    desk = desk_with()
    desk.announce("m", event("one"), event("two"))
    desk.fail(desk.plan(), "SourceUnavailable")
    desk.now_ms += 59_000
    desk.fail(desk.plan(), "SourceUnavailable")
    assert desk.access_problem is None
    desk.now_ms += 60_000
    desk.fail(desk.plan(), "SourceUnavailable")
    assert desk.access_problem == "No object could be read for 119 s: SourceUnavailable said why"
    assert (desk.entry("one"), desk.entry("two")) == (None, None)

    desk.now_ms += 60_000
    read(desk, "good")
    assert desk.access_problem is None
    desk.now_ms += 60_000
    desk.fail(desk.plan(), "SourceUnavailable")
    assert desk.access_problem is None, "it begins again"


@pytest.mark.parametrize("kind", ["ObjectCorrupt", "InvalidObject"])
def test_a_damaged_object_shows_that_the_source_answers(kind: str) -> None:
    """What cannot be decoded was fetched."""
    desk = desk_with()
    desk.announce("m", event("one"))
    desk.fail(desk.plan(), "SourceUnavailable")
    desk.announce("n", event("two"))
    desk.fail(desk.plan(), kind)
    desk.announce("o", event("three"))
    desk.now_ms += 120_000
    desk.fail(desk.plan(), "SourceUnavailable")
    assert desk.access_problem is None


def test_the_first_read_after_it_ends_it() -> None:
    """The service is ready again, and counting begins."""
    desk = desk_with()
    desk.announce("m", event("forbidden"))
    desk.fail(desk.plan(), "ObjectForbidden")
    assert desk.access_problem is not None
    read(desk, "good")
    assert desk.access_problem is None
    desk.now_ms += 60_000
    desk.fail(desk.plan(), "ObjectForbidden")
    assert attempts(desk) == 1
    assert desk.access_problem is None


def test_one_read_counts_one_attempt() -> None:
    """Rights that are lost after it must not use up the attempts of all objects."""
    desk = desk_with()
    read(desk, "good")
    desk.announce("m", event("forbidden"))
    for _ in range(9):
        plan = desk.plan()
        desk.fail(plan, "ObjectForbidden")
        # What was read before is looked at again: it is forbidden now as well.
        desk.now_ms += 60_000
    assert attempts(desk) == 0


def test_in_a_quiet_bucket_a_head_of_what_was_read_tells() -> None:
    """200: the others can be read, so it is the one object."""
    desk = desk_with()
    read(desk, "good")
    desk.announce("m", event("forbidden"))
    (asked,) = desk.fail(desk.plan(), "ObjectForbidden").heads
    assert (asked.key, asked.reads) == ("good", True), "a HEAD needs no right to decrypt"
    assert desk.access_problem is None, "it is not known yet"
    assert attempts(desk) == 0
    desk.do(desk.catalogue.on_head_answer(asked.token, listed("good"), desk.now))
    assert desk.access_problem is None
    assert attempts(desk) == 1, "no attempt is made in vain"
    for number in (2, 3):
        desk.now_ms += 60_000
        (asked,) = desk.fail(desk.plan(), "ObjectForbidden").heads
        desk.do(desk.catalogue.on_head_answer(asked.token, listed("good"), desk.now))
        assert attempts(desk) == number
    entry = desk.entry("forbidden")
    assert entry is not None
    assert (entry.state, entry.reason, entry.error) == (
        State.QUARANTINED,
        "forbidden",
        "ObjectForbidden said why",
    )
    assert desk.settled[-1] == "m"


def test_an_answer_that_comes_after_the_next_attempt_has_begun_counts_nothing() -> None:
    """That attempt's own end will tell: no driver write names an object that a plan holds."""
    desk = desk_with()
    read(desk, "good")
    desk.announce("m", event("forbidden"))
    (asked,) = desk.fail(desk.plan(), "ObjectForbidden").heads
    desk.now_ms += 60_000
    plan = desk.plan()
    assert desk.keys(plan) == ["forbidden"]
    desk.do(desk.catalogue.on_head_answer(asked.token, listed("good"), desk.now))
    assert attempts(desk) == 0
    desk.fail(plan, "ObjectForbidden")
    assert attempts(desk) == 1


def test_a_head_that_is_never_answered_says_something_too() -> None:
    """S3 does not even answer that: after some attempts the service says what it sees."""
    desk = desk_with()
    read(desk, "good")
    desk.announce("m", event("forbidden"))
    for _ in range(20):
        desk.fail(desk.plan(), "ObjectForbidden")
        desk.now_ms += 60_000
    assert desk.access_problem is not None
    assert attempts(desk) == 0


def test_a_head_that_is_forbidden_too_says_that_all_are() -> None:
    """Only one is asked at a time."""
    desk = desk_with()
    read(desk, "good")
    desk.announce("m", event("forbidden"), event("also"))
    plan = desk.plan()
    (asked,) = desk.fail(plan, "ObjectForbidden").heads
    assert desk.fail(desk.plan(), "ObjectForbidden").heads == ()
    desk.do(desk.catalogue.on_head_answer(asked.token, None, desk.now, is_forbidden=True))
    assert desk.access_problem is not None
    assert attempts(desk) == 0


def test_of_what_was_read_and_is_gone_the_404_counts() -> None:
    """The one read before it is asked for, until there is none left."""
    desk = desk_with()
    read(desk, "first")
    read(desk, "second")
    desk.announce("m", event("forbidden"))
    (asked,) = desk.fail(desk.plan(), "ObjectForbidden").heads
    assert asked.key == "second"
    (asked,) = desk.do(desk.catalogue.on_head_answer(asked.token, None, desk.now)).heads
    assert asked.key == "first"
    assert desk.access_problem is None
    assert desk.do(desk.catalogue.on_head_answer(asked.token, None, desk.now)).heads == ()
    assert (desk.access_problem, attempts(desk)) == (None, 1)


def test_refused_credentials_are_said_until_something_is_read() -> None:
    """AccessDenied is true of all objects, whatever is asked."""
    desk = desk_with()
    desk.announce("m", event("a"))
    desk.fail(desk.plan(), "AccessDenied")
    assert desk.access_problem == "AccessDenied said why"
    desk.now_ms += 60_000
    desk.complete_with(desk.plan(), READ)
    assert desk.access_problem is None


@pytest.mark.parametrize("kind", ["ObjectMissing", "ObjectSuperseded", "ObjectArchived", "ObjectCorrupt"])
def test_an_answer_about_the_object_ends_it_as_well(kind: str) -> None:
    """S3 speaks to us again."""
    desk = desk_with()
    desk.announce("m", event("a"))
    desk.fail(desk.plan(), "AccessDenied")
    desk.now_ms += 60_000
    desk.fail(desk.plan(), kind)
    assert desk.access_problem is None


def test_a_missing_topic_is_named_until_something_is_written_to_it() -> None:
    """Objects of other topics go on meanwhile, and say nothing about it."""
    desk = desk_with()
    desk.announce("m", event("a"))
    desk.fail(desk.plan(), "TopicMissing")
    assert desk.catalogue.missing_topics == {"topic": "TopicMissing said why"}
    desk.now_ms += 60_000
    desk.complete_with(desk.plan(), LedgerEntry(state=State.DONE, records=1, size=10, topic="other"))
    assert desk.catalogue.missing_topics == {}, "nothing is pending that wants it"

    desk.announce("n", event("b"), event("c"))
    desk.fail(desk.plan(), "TopicMissing")
    assert desk.catalogue.missing_topics != {}
    plan = desk.plan()
    desk.commit(plan, desk.works[plan][0].object.id, LedgerEntry(state=State.DONE, size=10, topic="topic"))
    assert desk.catalogue.missing_topics != {}, "none of its records may have gone there"
    desk.planner.access.topics.has_written("topic")
    assert desk.catalogue.missing_topics == {}


def _fail_for_dead_letters(desk: Desk, key: str) -> None:
    desk.announce(key, event(key))
    plan = desk.plan()
    (work,) = desk.works[plan]
    desk.finish(plan, [Failure(work=work, kind="TopicMissing", message="no topic 'dead'", topic="dead")])


def test_a_dead_letter_topic_is_named_as_long_as_an_object_waits_for_it() -> None:
    """Others that are committed meanwhile have written to their own topic alone."""
    desk = desk_with()
    _fail_for_dead_letters(desk, "bad")
    for number in range(3):
        desk.announce(f"n{number}", event(f"good{number}"))
        plan = desk.plan()
        desk.complete_with(plan, LedgerEntry(state=State.DONE, records=3, size=10, topic="topic"))
        desk.planner.access.topics.has_written("topic")
        assert desk.catalogue.missing_topics == {"dead": "no topic 'dead'"}
    desk.planner.access.topics.has_written("dead")
    assert desk.catalogue.missing_topics == {}


def test_an_object_that_waits_for_another_topic_waits_for_the_former_no_more() -> None:
    """One of those that transforms name is made by hand; then the next one is missing, in the same words."""
    desk = desk_with()
    _fail_for_dead_letters(desk, "bad")
    desk.now_ms += 60_000
    (work,) = desk.works[plan := desk.plan()]
    desk.finish(plan, [Failure(work=work, kind="TopicMissing", message="no topic 'next'", topic="next")])
    assert desk.catalogue.missing_topics == {"next": "no topic 'next'"}


@pytest.mark.parametrize(
    ("kind", "is_over"),
    [
        ("TopicMissing", True),
        ("TopicForbidden", True),
        ("TopicWithoutLeader", False),
        ("SubjectForbidden", False),
    ],
)
def test_a_commit_to_a_topic_shows_that_it_is_there_and_no_more(kind: str, is_over: bool) -> None:
    """Another object's records were of a partition that has a leader, or of a subject that is known."""
    desk = desk_with()
    desk.announce("m", event("a"))
    desk.fail(desk.plan(), kind)
    desk.planner.access.topics.has_written("topic")
    assert (desk.catalogue.missing_topics == {}) is is_over
    desk.now_ms += 60_000
    desk.complete(desk.plan())
    desk.announce("other", event("other"))
    assert desk.catalogue.missing_topics == {}


@pytest.mark.parametrize("end", [State.DONE, State.SKIPPED])
def test_a_topic_that_no_object_waits_for_any_more_is_not_named(end: State) -> None:
    """It was made by hand, and no dead letter follows; what waits then waits for something else."""
    desk = desk_with()
    topics = desk.planner.access.topics
    _fail_for_dead_letters(desk, "bad")
    topics.answered("topic", None)
    topics.answered("dead", "not allowed to create 'dead'")
    assert desk.catalogue.missing_topics == {"dead": "not allowed to create 'dead'"}
    desk.now_ms += 60_000
    desk.complete_with(desk.plan(), LedgerEntry(state=end, records=3, bad=1, size=10, topic="topic"))
    desk.announce("other", event("other"))
    assert desk.catalogue.missing_topics == {}


def test_a_refusal_to_create_a_topic_that_is_not_missed_is_not_shown() -> None:
    """All topics of an object are asked for, whichever is missing."""
    desk = desk_with()
    desk.announce("m", event("a"))
    desk.fail(desk.plan(), "TopicMissing")
    desk.planner.access.topics.answered("dead", "not allowed to create 'dead'")
    assert desk.catalogue.missing_topics == {"topic": "TopicMissing said why"}
    desk.planner.access.topics.answered("topic", None)
    assert desk.catalogue.missing_topics == {}


def test_one_forbidden_object_is_its_own_where_all_others_are_deleted() -> None:
    """`post.action=delete` leaves nothing to read once more: a 404 says that reading is allowed."""
    desk = desk_with()
    read(desk, "good")
    desk.announce("m", event("forbidden"))
    for _ in range(3):
        for head in desk.fail(desk.plan(), "ObjectForbidden").heads:
            desk.do(desk.catalogue.on_head_answer(head.token, None, desk.now))
        assert desk.access_problem is None
        desk.now_ms += 60_000
    entry = desk.entry("forbidden")
    assert entry is not None
    assert (entry.state, entry.reason) == (State.QUARANTINED, "forbidden")


def test_a_restart_has_the_ledger_for_a_witness() -> None:
    """Nothing has ended in this process yet."""
    ledger = FakeLedger()
    ledger.commit(listed("good").id, READ)
    desk = desk_with(ledger=ledger)
    desk.announce("m", event("forbidden"))
    (head,) = desk.fail(desk.plan(), "ObjectForbidden").heads

    assert (head.key, head.reads) == ("good", True)


@pytest.mark.parametrize("refused", [1, 5, 40])
def test_one_forbidden_object_is_its_own_though_other_keys_are_forbidden_too(refused: int) -> None:
    """A policy may be about the prefix of last year; what it says of the witnesses is not said of all."""
    ledger = FakeLedger()
    for number in range(100):
        read_then = replace(READ, updated_ms=number if number < 100 - refused else 1000 + number)
        ledger.commit(listed(f"in/{number:02}").id, read_then)
    desk = desk_with(ledger=ledger)
    desk.announce("m", event("forbidden"))
    asked = 0
    for _ in range(3):
        heads = list(desk.fail(desk.plan(), "ObjectForbidden").heads)
        while heads:
            head = heads.pop()
            asked += 1
            is_refused = int(head.key[3:]) >= 100 - refused
            found = None if is_refused else listed(head.key)
            heads += desk.do(
                desk.catalogue.on_head_answer(head.token, found, desk.now, is_forbidden=is_refused)
            ).heads
        assert desk.access_problem is None
        desk.now_ms += 60_000
    entry = desk.entry("forbidden")
    assert entry is not None
    assert (entry.state, entry.reason) == (State.QUARANTINED, "forbidden")
    assert asked <= 3 * 11


def test_witnesses_are_of_the_prefix_that_is_read() -> None:
    """What an earlier prefix had may be forbidden by now."""
    ledger = FakeLedger()
    for key in ("in/2025/a", "in/2026", "in/2026/a", "in/2026/b", "in/2027/a"):
        ledger.commit(listed(key).id, replace(READ, updated_ms=5 if key == "in/2026/a" else 3))
    desk = desk_with(ledger=ledger, intake=ObjectFilter(route=route, prefix="in/2026/"))
    witnesses = [one.key for one in desk.catalogue.states._witnesses("bucket")]
    assert witnesses == ["in/2026/b", "in/2026/a"]


def test_rights_that_are_back_are_known_though_one_object_stays_forbidden() -> None:
    """Nothing else arrives that would show it."""
    desk = desk_with()
    read(desk, "good")
    desk.announce("m", event("forbidden"))
    (asked,) = desk.fail(desk.plan(), "ObjectForbidden").heads
    desk.do(desk.catalogue.on_head_answer(asked.token, None, desk.now, is_forbidden=True))
    problems = [desk.access_problem]
    desk.now_ms += 60_000
    (asked,) = desk.fail(desk.plan(), "ObjectForbidden").heads
    desk.do(desk.catalogue.on_head_answer(asked.token, listed("good"), desk.now))
    assert [*problems, desk.access_problem] == ["ObjectForbidden said why", None]
    assert attempts(desk) == 0


def test_many_forbidden_objects_are_not_given_up_on_the_word_of_a_404() -> None:
    """A key that nobody may use any more forbids all, and shows only where something is decrypted."""
    desk = desk_with(max_attempts=9)
    read(desk, "good")
    for number in range(12):
        desk.announce(f"m{number}", event(f"forbidden{number:02}"))
    for _ in range(12):
        for head in desk.fail(desk.plan(), "ObjectForbidden").heads:
            desk.do(desk.catalogue.on_head_answer(head.token, None, desk.now))
        desk.now_ms += 1
    assert desk.access_problem is not None
