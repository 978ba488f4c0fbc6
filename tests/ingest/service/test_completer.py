"""What is left pending is completed in threads that are there only then."""

import queue
import threading
import time
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from headrace.model.errors import AccessDenied, SourceUnavailable
from headrace.model.sink_entries import TIMES_GONE, SealedObject, Upload, Verdict
from headrace.s3.completion import Completion, CompletionState
from ingest.http.metrics import Metrics
from ingest.service.service_events import ComponentProblem
from ingest.service.sink.completer import Completer, CompletionEnded
from ingest.service.sink.sink_statistics import SinkStatistics
from tests.support.until import until_sync

_DAY_MS = 86_400_000


class _Calls:
    """Completes whatever it is given."""

    def complete(self, *_: object, **__: object) -> Completion:
        """Done."""
        return Completion(state=CompletionState.COMPLETED)


class _Answers:
    """Answers of S3, the last of them for ever."""

    def __init__(self, *answers: CompletionState) -> None:
        self._answers = list(answers)

    def complete(self, *_: object, **__: object) -> Completion:
        """The next one."""
        return Completion(state=self._answers.pop(0) if len(self._answers) > 1 else self._answers[0])


def _no_rule(_bucket: str, _key: str) -> None:
    """No bucket ends uploads."""


def _sealed(number: int) -> SealedObject:
    return SealedObject(
        id=f"object-{number}",
        topic="t",
        partition=0,
        topic_id="i",
        group="",
        first_offset=number,
        last_offset=number,
        records=1,
        bytes=1,
        uploads=(Upload(key=f"{number}", upload_id="u", parts=('"e"',)),),
        options="o",
        sealed_ms=0,
        bucket="b",
    )


def _threads() -> int:
    return sum(one.name.startswith("completer-") for one in threading.enumerate())


def test_threads_come_with_the_first_object_and_go_at_the_end() -> None:
    """A leader that is left nothing has none."""
    ended: list[CompletionEnded | ComponentProblem] = []
    calls: Any = _Calls()
    completer = Completer(calls, ended.append, expiry_ms=_no_rule, entry_of=lambda _id: None)
    # Those of a test before may go on ending.
    until_sync(lambda: _threads() == 0, what="no threads")

    for number in range(50):
        completer.submit(_sealed(number))
    until_sync(lambda: len(ended) == 50, what="all objects")

    assert {one.verdict for one in ended if isinstance(one, CompletionEnded)} == {Verdict.COMPLETE}
    assert 1 <= _threads() <= 8
    completer.close()
    until_sync(lambda: _threads() == 0, what="the end of its threads")


@pytest.mark.parametrize(
    ("state", "says"),
    [
        (CompletionState.UNPROVEN, "s3:ListBucket"),
        (CompletionState.UNPROVEN, "encrypted with another key (SSE-C)"),
        (CompletionState.PARTS_DIFFER, "rewind the partition"),
    ],
)
def test_an_answer_that_decides_nothing_is_a_problem(state: CompletionState, says: str) -> None:
    """With the object, its offsets and what to do, until it has its end."""
    told: queue.SimpleQueue[CompletionEnded | ComponentProblem] = queue.SimpleQueue()
    calls: Any = _Answers(*[state] * 5, CompletionState.COMPLETED)
    completer = Completer(calls, told.put, expiry_ms=_no_rule, entry_of=lambda _id: None, first_pause=0.001)
    try:
        completer.submit(_sealed(7))
        problem, over, ended = told.get(timeout=60), told.get(timeout=60), told.get(timeout=60)
    finally:
        completer.close()

    assert isinstance(problem, ComponentProblem)
    assert says in (problem.sentence or "")
    assert "s3://b/7 (offsets 7 to 7 of t-0)" in (problem.sentence or "")
    assert over == ComponentProblem(problem.component, None)
    assert isinstance(ended, CompletionEnded)
    assert ended.verdict is Verdict.COMPLETE


def test_an_upload_that_somebody_ended_is_not_complete_without_a_word() -> None:
    """Nor is it made again: a consumer may have taken the object away."""
    told: queue.SimpleQueue[CompletionEnded | ComponentProblem] = queue.SimpleQueue()
    calls: Any = _Answers(CompletionState.UPLOAD_MISSING)
    completer = Completer(calls, told.put, expiry_ms=_no_rule, entry_of=lambda _id: None, first_pause=0.001)
    try:
        completer.submit(_sealed(7))
        ended = told.get(timeout=60)
    finally:
        completer.close()

    assert isinstance(ended, CompletionEnded)
    assert ended.verdict is Verdict.UNPROVEN
    statistics = SinkStatistics(Metrics(dict))
    with capture_logs() as lines:
        statistics.left_object_ended(ended.sealed, ended.verdict)
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("object_unproven", "warning")
    assert (line["key"], line["first_offset"], line["last_offset"]) == ("7", 7, 7)
    assert (statistics.recent[0].state, statistics.unproven_objects_total) == ("unproven", 1)


@pytest.mark.parametrize(
    ("bucket", "verdict"), [("seven days", Verdict.UPLOAD_GONE), ("no rule", Verdict.UNPROVEN)]
)
def test_the_rule_that_counts_is_that_of_the_bucket_of_the_object(bucket: str, verdict: Verdict) -> None:
    """Whatever buckets the sink has now: another one's rule made what had been ended complete."""
    told: queue.SimpleQueue[CompletionEnded | ComponentProblem] = queue.SimpleQueue()
    calls: Any = _Answers(CompletionState.UPLOAD_MISSING)
    rules = {("seven days", "7"): 7 * _DAY_MS, ("no rule", "7"): None}
    completer = Completer(
        calls,
        told.put,
        expiry_ms=lambda bucket, key: rules[bucket, key],
        entry_of=lambda _id: None,
        first_pause=0.001,
    )
    try:
        completer.submit(replace(_sealed(7), bucket=bucket))
        ended = told.get(timeout=60)
    finally:
        completer.close()

    assert isinstance(ended, CompletionEnded)
    assert ended.verdict is verdict


def test_an_object_waits_while_its_bucket_does_not_say_its_rules() -> None:
    """It is not quarantined by a rule that nobody knows; the reason is a problem meanwhile."""
    told: queue.SimpleQueue[CompletionEnded | ComponentProblem] = queue.SimpleQueue()
    calls: Any = _Answers(CompletionState.UPLOAD_MISSING)
    refusals = ["503", "503", "504"]

    def expiry_ms(_bucket: str, _key: str) -> None:
        if refusals:
            raise SourceUnavailable(refusals.pop(0))

    completer = Completer(calls, told.put, expiry_ms=expiry_ms, entry_of=lambda _id: None, first_pause=0.001)
    try:
        completer.submit(_sealed(7))
        first, second, over, ended = (told.get(timeout=60) for _ in range(4))
    finally:
        completer.close()

    for problem, why in ((first, "503"), (second, "504")):
        assert isinstance(problem, ComponentProblem)
        assert problem.sentence == f"s3://b/7 (offsets 7 to 7 of t-0) cannot be completed: {why}"
    assert over == ComponentProblem("completion of s3://b/7", None)
    assert isinstance(ended, CompletionEnded)
    assert ended.verdict is Verdict.UNPROVEN


def test_rules_are_asked_for_only_where_they_decide() -> None:
    """A former leader's object that is there is complete, however the bucket's rules are."""
    told: queue.SimpleQueue[CompletionEnded | ComponentProblem] = queue.SimpleQueue()
    asked: list[tuple[str, str]] = []
    calls: Any = _Answers(*[CompletionState.UPLOAD_MISSING] * (TIMES_GONE - 1), CompletionState.COMPLETED)
    completer = Completer(
        calls,
        told.put,
        expiry_ms=lambda *where: asked.append(where),
        entry_of=lambda _id: None,
        first_pause=0.001,
    )
    try:
        completer.submit(_sealed(7))
        assert isinstance(told.get(timeout=60), CompletionEnded)
    finally:
        completer.close()
    assert asked == []


class _Refusing:
    """Refuses a bucket, and another one but for a prefix; counts the attempts."""

    def __init__(self) -> None:
        self.tried: Counter[str] = Counter()

    def complete(self, bucket: str, upload: Upload, **_: object) -> Completion:
        """Done, or refused."""
        self.tried[f"{bucket}/{upload.key}"] += 1
        if bucket == "denied" or int(upload.key) % 2 == 0:
            raise AccessDenied(f"s3://{bucket}/{upload.key}: 403")
        return Completion(state=CompletionState.COMPLETED)


def test_what_is_refused_holds_back_nothing_else() -> None:
    """Eight objects of a bucket had all threads until they had their ends; only they were problems."""
    told: queue.SimpleQueue[CompletionEnded | ComponentProblem] = queue.SimpleQueue()
    calls: Any = _Refusing()
    completer = Completer(calls, told.put, expiry_ms=_no_rule, entry_of=lambda _id: None, first_pause=0.001)
    try:
        for number in range(20):
            completer.submit(replace(_sealed(number), id=f"denied-{number}", bucket="denied"))
        for number in range(20):
            completer.submit(_sealed(number))
        ended: set[str] = set()
        problems: dict[str, str | None] = {}
        while len(ended) < 10 or len(problems) < 2:
            one = told.get(timeout=60)
            if isinstance(one, CompletionEnded):
                ended.add(one.sealed.id)
            else:
                problems[one.component] = one.sentence
        # Tried again, each of them.
        until_sync(
            lambda: all(calls.tried[f"{bucket}/{n}"] > 2 for bucket in ("denied", "b") for n in (0, 18)),
            what="more attempts",
        )
    finally:
        completer.close()

    assert ended == {f"object-{number}" for number in range(1, 20, 2)}
    assert all(problems.values())
    assert {name.split("/")[2] for name in problems} == {"denied", "b"}
    assert told.empty()


def test_a_later_object_is_shown_once_the_first_has_its_end() -> None:
    """A problem that is over is none of those that are left."""
    told: queue.SimpleQueue[CompletionEnded | ComponentProblem] = queue.SimpleQueue()
    mended: set[str] = set()

    class _Mended:
        def complete(self, bucket: str, upload: Upload, **_: object) -> Completion:
            if upload.key not in mended:
                raise AccessDenied(f"s3://{bucket}/{upload.key}: 403")
            return Completion(state=CompletionState.COMPLETED)

    calls: Any = _Mended()
    completer = Completer(calls, told.put, expiry_ms=_no_rule, entry_of=lambda _id: None, first_pause=0.001)
    try:
        completer.submit(_sealed(1))
        first = told.get(timeout=60)
        completer.submit(_sealed(2))
        mended.add("1")
        over, others = told.get(timeout=60), [told.get(timeout=60), told.get(timeout=60)]
        mended.add("2")
        last = [told.get(timeout=60), told.get(timeout=60)]
    finally:
        completer.close()

    assert isinstance(first, ComponentProblem)
    assert over == ComponentProblem(first.component, None)
    (shown,) = (one for one in others if isinstance(one, ComponentProblem))
    assert "s3://b/2" in (shown.sentence or "")
    assert last[0] == ComponentProblem(shown.component, None)
    assert isinstance(last[1], CompletionEnded)


def test_a_bucket_that_is_slow_to_answer_leaves_turns_to_others() -> None:
    """Each of its answers may take a minute, and a thousand of its objects may wait."""
    told: queue.SimpleQueue[CompletionEnded | ComponentProblem] = queue.SimpleQueue()
    answers = threading.Semaphore(0)
    under_way = threading.Semaphore(0)

    class _Slow:
        def complete(self, bucket: str, *_: object, **__: object) -> Completion:
            if bucket == "slow":
                under_way.release()
                answers.acquire(timeout=600)
                raise SourceUnavailable("504")
            return Completion(state=CompletionState.COMPLETED)

    calls: Any = _Slow()
    completer = Completer(calls, told.put, expiry_ms=_no_rule, entry_of=lambda _id: None)
    try:
        for number in range(100):
            completer.submit(replace(_sealed(number), id=f"slow-{number}", bucket="slow"))
        for _ in range(8):
            assert under_way.acquire(timeout=60)
        completer.submit(_sealed(7))
        answers.release()
        found = [told.get(timeout=60), told.get(timeout=60)]
    finally:
        completer.close()
        answers.release(1000)
    (ended,) = (one for one in found if isinstance(one, CompletionEnded))
    assert ended.sealed.id == "object-7"


def test_a_bucket_that_refuses_is_asked_for_few_of_its_objects_and_then_for_all() -> None:
    """Each had a pause of its own: a thousand objects were hundreds of requests a second, without end."""
    told: queue.SimpleQueue[CompletionEnded | ComponentProblem] = queue.SimpleQueue()
    refuses, tried = threading.Event(), Counter[str]()

    class _Away:
        def complete(self, bucket: str, *_: object, **__: object) -> Completion:
            tried[bucket] += 1
            if bucket == "away" and refuses.is_set():
                raise SourceUnavailable("503 Slow Down")
            return Completion(state=CompletionState.COMPLETED)

    calls: Any = _Away()
    completer = Completer(calls, told.put, expiry_ms=_no_rule, entry_of=lambda _id: None, first_pause=0.2)
    refuses.set()
    began = time.monotonic()
    try:
        for number in range(1000):
            completer.submit(replace(_sealed(number), id=f"away-{number}", bucket="away"))
        until_sync(lambda: tried["away"] > 15, what="some attempts")
        for number in range(50):
            completer.submit(_sealed(number))
        until_sync(lambda: tried["b"] == 50, what="the other bucket")
        # Eight threads begin at once, and ten turns a second follow.
        assert tried["away"] <= 8 + 8 + 10 * (time.monotonic() - began)
        refuses.clear()
        ended = 0
        while ended < 1050:
            ended += isinstance(told.get(timeout=60), CompletionEnded)
    finally:
        completer.close()


def test_an_object_that_was_never_tried_comes_before_those_that_failed() -> None:
    """They may be many, and slow to fail."""
    told: queue.SimpleQueue[CompletionEnded | ComponentProblem] = queue.SimpleQueue()
    answers = threading.Semaphore(0)
    under_way = threading.Semaphore(0)

    class _Slow:
        def complete(self, _bucket: str, upload: Upload, **_: object) -> Completion:
            if upload.key != "99":
                under_way.release()
                answers.acquire(timeout=600)
                raise SourceUnavailable("504")
            return Completion(state=CompletionState.COMPLETED)

    calls: Any = _Slow()
    completer = Completer(calls, told.put, expiry_ms=_no_rule, entry_of=lambda _id: None, first_pause=0.001)
    try:
        for number in range(24):
            completer.submit(_sealed(number))
        answers.release(24)
        for _ in range(32):
            assert under_way.acquire(timeout=60)
        assert isinstance(told.get(timeout=60), ComponentProblem)
        # Sixteen wait, whose time has come by now.
        completer.submit(_sealed(99))
        answers.release()
        ended = told.get(timeout=60)
    finally:
        completer.close()
        answers.release(1000)
    assert isinstance(ended, CompletionEnded)
    assert ended.sealed.id == "object-99"


def test_uploads_of_an_object_are_completed_in_their_order() -> None:
    """The object's own is the last, however often one before it is refused."""
    told: queue.SimpleQueue[CompletionEnded | ComponentProblem] = queue.SimpleQueue()
    tried: list[str] = []

    class _Once:
        def complete(self, _bucket: str, upload: Upload, **_: object) -> Completion:
            tried.append(upload.key)
            if tried.count(upload.key) < 3:
                raise SourceUnavailable("503")
            return Completion(state=CompletionState.COMPLETED)

    calls: Any = _Once()
    uploads = tuple(Upload(key=key, upload_id="u", parts=('"e"',)) for key in ("keys", "headers", "main"))
    completer = Completer(calls, told.put, expiry_ms=_no_rule, entry_of=lambda _id: None, first_pause=0.001)
    try:
        completer.submit(replace(_sealed(7), uploads=uploads))
        found = [told.get(timeout=60) for _ in range(7)]
    finally:
        completer.close()
    assert tried == ["keys"] * 3 + ["headers"] * 3 + ["main"] * 3
    assert isinstance(found[-1], CompletionEnded)
    assert found[-1].verdict is Verdict.COMPLETE
