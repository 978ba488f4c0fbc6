"""Actions after the commit: tried again where they fail, and no other object waits for that."""

import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from headrace.model.errors import AccessDenied
from headrace.model.objects import ObjectId, OwedAction, PostAction, PostActionKind
from headrace.options.settings import S3Settings
from headrace.process.threads import ThreadFailures, collecting
from headrace.s3.post_action_calls import Removing
from ingest.service.apply_effects import PROBLEM, PostActions
from ingest.service.service_events import ActionsDone, ComponentProblem, OwnEvent
from ingest.source.planner.retry_policy import Backoff
from tests.headrace.options.loading import load_with
from tests.support.until import until_sync

_ID: Final = ObjectId("bucket", "k", "1")


def test_a_withdrawn_action_is_not_tried_again_and_is_no_problem_any_more() -> None:
    """Nobody answers at the endpoint: the action fails until it is withdrawn."""
    settings = load_with(
        {
            "aws.s3.endpoint": "http://127.0.0.1:9",
            "aws.s3.backoff.max.retries": "1",
            "aws.s3.backoff.delay.ms": "1",
        }
    )
    told: queue.SimpleQueue[OwnEvent] = queue.SimpleQueue()
    actions = PostActions(settings.s3, PostAction(PostActionKind.DELETE), told.put, count=lambda _: None)
    actions.request(OwedAction(_ID, (("k", "1", None),)))
    failed = told.get(timeout=60)
    assert isinstance(failed, ComponentProblem)
    assert (failed.component, failed.sentence is None) == (PROBLEM, False)
    assert not actions.is_idle

    actions.withdraw(_ID)

    # It may have failed once more before that.
    while (said := told.get(timeout=60)) == failed:
        pass
    assert said == ComponentProblem(PROBLEM, None)
    assert actions.is_idle
    actions.close()


def test_a_request_that_is_not_sent_is_a_problem_of_its_object() -> None:
    """Botocore refuses this bucket's name with an error of its own, which ended the service."""
    failures, told = ThreadFailures(), queue.SimpleQueue[OwnEvent]()
    with collecting(failures):
        actions = PostActions(
            load_with().s3, PostAction(PostActionKind.DELETE), told.put, count=lambda _: None
        )
        actions.request(OwedAction(replace(_ID, bucket="no bucket"), (("k", "1", None),)))

        failed = told.get(timeout=60)

    assert isinstance(failed, ComponentProblem)
    assert "s3://no bucket/k" in str(failed.sentence)
    assert failures.first is None
    actions.close()


@dataclass
class Store:
    """Deletes and moves in buckets, of which some refuse.

    `gate` holds every call before it asks whether the object may go, `request` the request that follows.
    """

    refuses: set[str] = field(default_factory=set)
    gate: threading.Event = field(default_factory=threading.Event)
    request: threading.Event = field(default_factory=threading.Event)
    requests: int = 0
    done: list[tuple[str, str]] = field(default_factory=list)
    copies: list[tuple[str, str]] = field(default_factory=list)
    tried: Counter[str] = field(default_factory=Counter)
    begun: Counter[str] = field(default_factory=Counter)
    keys: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.gate.set()
        self.request.set()

    def calls(self, settings: S3Settings, **_: Any) -> Any:
        """Those of a bucket."""
        return _Calls(self, settings.bucket)


@dataclass
class _Calls:
    store: Store
    bucket: str

    def delete(self, key: str, _etag: str, removing: Removing) -> bool:
        self.store.begun[key] += 1
        self.store.gate.wait(60)
        with removing():
            self.store.requests += 1
            self.store.request.wait(60)
            self.store.tried[self.bucket] += 1
            self.store.keys[key] += 1
            if self.store.refuses & {self.bucket, key}:
                raise AccessDenied("s3:DeleteObject is refused.")
            self.store.done.append((self.bucket, key))
        return True

    def copy(self, key: str, _etag: str, target: str) -> bool:
        self.store.copies.append((key, target))
        return True


@contextmanager
def acting(
    store: Store,
    action: PostAction | None = None,
    *,
    most: int = 100_000,
    prefix: str = "",
    again: Backoff | None = None,
) -> Iterator[tuple[PostActions, "queue.SimpleQueue[OwnEvent]"]]:
    """Actions on the store, deletes by themselves, and what they tell; closed at the end."""
    told: queue.SimpleQueue[OwnEvent] = queue.SimpleQueue()
    actions = PostActions(
        replace(load_with().s3, prefix=prefix),
        action or PostAction(PostActionKind.DELETE),
        told.put,
        count=lambda _: None,
        calls=store.calls,
        most=most,
        **({} if again is None else {"again": again}),
    )
    try:
        yield actions, told
    finally:
        store.gate.set()
        store.request.set()
        actions.close()


def _owed(bucket: str, key: str) -> OwedAction:
    return OwedAction(ObjectId(bucket, key, "e"), ((key, "e", None),))


def test_objects_that_are_refused_hold_up_no_others() -> None:
    """A thread that slept after each failure had another bucket's object wait five seconds for each four."""
    store = Store(refuses={"held"})
    with acting(store) as (actions, _):
        for number in range(2_000):
            actions.request(_owed("held", f"k{number}"))
        until_sync(lambda: store.tried["held"] >= 2_000, what="all were refused once")
        for number in range(20):
            actions.request(_owed("free", f"k{number}"))

        until_sync(lambda: len(store.done) == 20, what="the other bucket's are done")
        # Two seconds and more apart: nothing was tried without a pause.
        assert store.tried["held"] < 3_000
        assert not actions.is_idle


def test_what_was_withdrawn_acts_no_more_where_the_object_is_asked_for_again() -> None:
    """It waited for its next try, and had its turns, too, with what it was read with before."""
    store = Store(refuses={"b"})
    with acting(store, again=Backoff(first_ms=1, longest_ms=1)) as (actions, _):
        actions.request(OwedAction(ObjectId("b", "k", "e"), (("side", "e", None), ("k", "e", None))))
        until_sync(lambda: store.keys["side"], what="it is refused")
        actions.withdraw(ObjectId("b", "k", "e"))
        actions.request(_owed("b", "k"))
        before = store.keys["side"]
        until_sync(lambda: store.keys["k"] >= 6, what="the new one is tried again")
        # One call may have been under way.
        assert store.keys["side"] <= before + 1


def test_the_end_of_what_was_withdrawn_is_no_end_of_the_new_one() -> None:
    """It was under way: the new one has its own turn, and its own end."""
    store = Store(refuses={"k"})
    store.request.clear()
    with acting(store, again=Backoff(first_ms=1, longest_ms=1)) as (actions, told):
        actions.request(OwedAction(ObjectId("b", "k", "e"), (("side", "e", None),)))
        until_sync(lambda: store.requests, what="its request is under way")
        actions.withdraw(ObjectId("b", "k", "e"))
        actions.request(_owed("b", "k"))
        store.request.set()
        until_sync(lambda: store.done and store.keys["k"] >= 4, what="the new one is tried again")
        assert not actions.is_idle

    events = [told.get_nowait() for _ in range(told.qsize())]
    assert not any(isinstance(event, ActionsDone) for event in events)


@contextmanager
def _under_way() -> Iterator[tuple[PostActions, Store]]:
    """An action whose next question is whether its objects may still go; `gate` lets it ask."""
    store = Store()
    store.gate.clear()
    with acting(store) as (actions, _):
        actions.request(OwedAction(ObjectId("b", "k", "e"), (("side", "e", None), ("k", "e", None))))
        until_sync(lambda: store.begun["side"], what="it is under way")
        yield actions, store


def test_what_was_withdrawn_takes_no_object_away_though_it_is_under_way() -> None:
    """The copy of a move takes minutes: the object of a replay that was committed meanwhile was deleted."""
    with _under_way() as (actions, store):
        actions.withdraw(ObjectId("b", "k", "e"))
        actions.request(_owed("b", "other"))
        store.gate.set()
        until_sync(lambda: actions.is_idle, what="all that is owed is done")
        assert not _happens(lambda: len(store.done) > 1)
    assert store.done == [("b", "other")]


def test_what_is_under_way_at_a_pause_is_done_after_the_resume() -> None:
    """It takes nothing away before."""
    with _under_way() as (actions, store):
        actions.pause()
        store.gate.set()
        assert not _happens(lambda: store.done or actions.is_idle)

        actions.resume()

        until_sync(lambda: actions.is_idle, what="it is done after the resume")
    assert store.done == [("b", "side"), ("b", "k")]


@pytest.mark.parametrize("asked", ["withdrawn", "paused"])
def test_what_an_object_was_read_with_does_not_go_without_it(asked: str) -> None:
    """Its keys were gone and its values stayed, so that a replay found other ones."""
    store = Store()
    store.request.clear()
    with acting(store) as (actions, _):
        actions.request(OwedAction(ObjectId("b", "k", "e"), (("side", "e", None), ("k", "e", None))))
        until_sync(lambda: store.requests, what="the first is sent")
        store.gate.clear()
        store.request.set()
        until_sync(lambda: store.begun["k"], what="the second has its turn")
        if asked == "withdrawn":
            actions.withdraw(ObjectId("b", "k", "e"))
        else:
            actions.pause()
        assert actions.is_removing
        store.gate.set()
        until_sync(lambda: not actions.is_removing, what="both are gone")
    assert store.done == [("b", "side"), ("b", "k")]


def test_a_move_takes_nothing_away_before_all_its_copies_are_there() -> None:
    """The copy of large values takes minutes."""
    store = Store()
    store.gate.clear()
    contents = (("in/side", "e", None), ("in/k", "e", None))
    with acting(store, PostAction(PostActionKind.MOVE, "done/"), prefix="in/") as (actions, _):
        actions.request(OwedAction(ObjectId("b", "in/k", "e"), contents))
        until_sync(lambda: store.begun["in/side"], what="the first is about to go")
        assert store.copies == [("in/side", "done/side"), ("in/k", "done/k")]
        store.gate.set()
        until_sync(lambda: actions.is_idle, what="it is done")
    assert store.done == [("b", "in/side"), ("b", "in/k")]


def test_what_is_under_way_at_the_end_takes_nothing_away() -> None:
    """The next leader does it, unless it was told otherwise."""
    others = _threads()
    with _under_way() as (actions, store):
        actions.close()
    until_sync(lambda: not _threads() - others, what="they end")
    assert store.done == []


def test_while_paused_nothing_is_begun_or_tried_again() -> None:
    """A stopped connector deleted what was owed, a hundred thousand objects of it, and offsets found none."""
    store = Store(refuses={"held"})
    with acting(store, again=Backoff(first_ms=1, longest_ms=1)) as (actions, _):
        actions.request(_owed("held", "k"))
        until_sync(lambda: store.tried["held"] >= 3, what="it is tried again")
        actions.pause()
        until_sync(lambda: not actions.is_removing, what="none is under way")
        tried = store.tried["held"]
        for number in range(20):
            actions.request(_owed("free", f"k{number}"))
        # A due action of a millisecond would have been tried by then.
        assert not _happens(lambda: store.tried["free"] or store.tried["held"] > tried)
        assert not store.begun["k0"]
        assert not actions.is_idle

        store.refuses.clear()
        actions.resume()
        until_sync(lambda: actions.is_idle, what="all are done")
    assert len(store.done) == 21


def test_a_request_that_is_with_s3_is_told() -> None:
    """It is not called back: offsets are not changed before it has its answer."""
    store = Store()
    store.request.clear()
    with acting(store) as (actions, _):
        actions.request(_owed("b", "k"))
        until_sync(lambda: store.requests, what="it is sent")
        actions.pause()
        assert actions.is_removing
        store.request.set()
        until_sync(lambda: not actions.is_removing, what="its answer has come")
        until_sync(lambda: actions.is_idle, what="it is done, though paused")


def test_a_request_that_is_with_s3_is_told_whatever_ends_another_of_its_object() -> None:
    """An object that was replayed meanwhile, and is done again."""
    store = Store()
    store.request.clear()
    with acting(store) as (actions, _):
        actions.request(_owed("b", "k"))
        until_sync(lambda: store.requests, what="it is sent")
        actions.withdraw(ObjectId("b", "k", "e"))
        store.gate.clear()
        actions.request(_owed("b", "k"))
        until_sync(lambda: store.begun["k"] == 2, what="the other one has its turn")
        actions.pause()
        store.gate.set()
        assert not _happens(lambda: not actions.is_removing)
        store.request.set()
        until_sync(lambda: not actions.is_removing, what="its answer has come")


def test_closed_while_paused_their_threads_end() -> None:
    """As a paused service is asked to end."""
    others = _threads()
    with acting(Store()) as (actions, _):
        actions.pause()
        actions.request(_owed("b", "k"))
    until_sync(lambda: not _threads() - others, what="they end")
    actions.resume()
    assert not actions.is_idle


def _threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name.startswith("post-action-")}


def _happens(happens: Callable[[], object], *, looks: int = 20) -> bool:
    """Whether it happens within some looks at it, a hundredth of a second apart."""
    waiting = threading.Event()
    return any(happens() or waiting.wait(0.01) for _ in range(looks))


def test_what_was_refused_is_done_soon_after_it_is_granted() -> None:
    """One that is tried again and is done brings two others, and these two each; their pauses are minutes."""
    store = Store(refuses={"held"})
    with acting(store) as (actions, told):
        for number in range(1_000):
            actions.request(_owed("held", f"k{number}"))
        until_sync(lambda: store.tried["held"] >= 1_000, what="all were refused once")
        store.refuses.clear()

        # The first ones pause for ten seconds at most; by their own pauses all would take 100.
        until_sync(lambda: actions.is_idle, seconds=60, what="all are done")

    events = [told.get_nowait() for _ in range(told.qsize())]
    assert sum(isinstance(event, ActionsDone) for event in events) == 1_000
    assert [event for event in events if isinstance(event, ComponentProblem)][-1].sentence is None


def test_more_than_are_kept_are_left_to_a_listing() -> None:
    """It is said once, and nothing is idle until a listing was asked for."""
    store = Store()
    store.gate.clear()
    with acting(store, most=10) as (actions, _), capture_logs() as logs:
        for number in range(30):
            actions.request(_owed("b", f"k{number}"))
        assert not actions.wants_listing()
        store.gate.set()
        until_sync(lambda: len(store.done) == 10, what="what was kept is done")
        until_sync(actions.wants_listing, what="there is room for a listing")
        # A thread may not have come back from the last one yet.
        until_sync(lambda: actions.is_idle, what="all that was kept has ended")
        assert not actions.wants_listing()

    assert [line["log_level"] for line in logs if line["event"] == "post_actions_left_out"] == ["warning"]


@pytest.mark.parametrize("gone", ["all", "half"])
def test_what_was_left_out_is_no_idleness(gone: str) -> None:
    """An end of `--until-idle` by it left objects in the bucket, and said nothing."""
    store = Store()
    store.gate.clear()
    with acting(store, most=4) as (actions, _):
        for number in range(8):
            actions.request(_owed("b", f"k{number}"))
        for number in range(4 if gone == "all" else 2):
            actions.withdraw(ObjectId("b", f"k{number}", "e"))
        assert not actions.is_idle
        assert actions.wants_listing()


@pytest.mark.parametrize(
    ("prefix", "key", "target"),
    [
        ("in/", "in/a/data.jsonl", "archive/a/data.jsonl"),
        ("in/da", "in/data.jsonl", "archive/ta.jsonl"),
        ("in/data.jsonl", "in/data.jsonl", "archive/data.jsonl"),
        ("data.jsonl", "data.jsonl", "archive/data.jsonl"),
        ("", "data.jsonl", "archive/data.jsonl"),
    ],
)
def test_where_a_move_puts_an_object(prefix: str, key: str, target: str) -> None:
    """Below its own prefix; where `aws.s3.prefix` is all of the key, under the last name of it."""
    store = Store()
    with acting(store, PostAction(PostActionKind.MOVE, "archive/"), prefix=prefix) as (actions, told):
        actions.request(_owed("b", key))
        assert told.get(timeout=60) == ActionsDone((ObjectId("b", key, "e"),))

    assert store.copies == [(key, target)]
