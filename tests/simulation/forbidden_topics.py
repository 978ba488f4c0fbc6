"""Topics that keys name, one of which this user may not write: what becomes of the objects of the others.

    python -m tests.simulation.forbidden_topics

in a process of its own, as the simulation exchanges clocks, threads and locks.
"""

import gc
from collections.abc import Callable

from tests.simulation.discovery_courses import Course
from tests.simulation.environment import environment
from tests.support.service import rows

_GOOD, _SECRET = "good", "secret"
_MANY = 20
_SECONDS = 3_000.0
_LONGEST_SECONDS = 700.0
# Two topics' objects share a transaction that the brokers have refused once, and a slot begins again.
_SOON_SECONDS = 20.0


def forbidden_from_the_start(course: Course) -> None:
    """Objects of the other topic come at once, whatever waits for the forbidden one."""
    _deny(course)
    course.start(topic=None, file__name__template="{{topic}}/.*", tasks__max="2")
    for number in range(_MANY):
        course.put(f"{_SECRET}/{number}", rows(f"{_SECRET}{number}", 2))
    course.made.kernel.sleep(200.0)
    for number in range(3):
        _comes(course, f"{_GOOD}/{number}", within=2.0)
    _is_said(course)
    _allow(course)


def forbidden_while_it_runs(course: Course) -> None:
    """The right is taken away where objects of both topics are on their way."""
    _deny(course)
    course.made.broker.denied.clear()
    course.start(topic=None, file__name__template="{{topic}}/.*", tasks__max="1", job__linger__ms="500")
    _comes(course, f"{_GOOD}/first", within=20.0)
    _comes(course, f"{_SECRET}/first", within=2.0)
    _deny(course)
    began = course.made.kernel.now
    for number in range(4):
        course.put(f"{_GOOD}/{number}", rows(f"{_GOOD}{number}", 2))
        course.put(f"{_SECRET}/{number}", rows(f"{_SECRET}{number}", 2))
    course.wait(lambda: _count(course) == 5, "all of the other topic")
    assert course.made.kernel.now - began < _SOON_SECONDS
    kinds = {(line["key"].partition("/")[0], line["kind"]) for line in course.log("object_failed")}
    assert (_GOOD, "TransactionAborted") in kinds, "no transaction has held objects of both topics"
    assert kinds <= {(_SECRET, "TopicForbidden"), (_GOOD, "TransactionAborted")}
    _is_said(course)
    _allow(course)


def until_idle(course: Course) -> None:
    """It ends as it does where a topic is missing: what is left waits for something outside."""
    _deny(course)
    course.put(f"{_SECRET}/1", rows(_SECRET, 2), counts=False)
    course.put(f"{_GOOD}/1", rows(_GOOD, 2))
    course.start(topic=None, file__name__template="{{topic}}/.*")
    course.wait(lambda: _count(course) == 1, "the other")
    course.stop()
    assert "topic_forbidden (1 objects)" in (course.run_until_idle() or "")


def the_only_topic(course: Course) -> None:
    """The topic of all objects is no object's own matter: nothing is ready until it may be written."""
    _deny(course)
    course.start(topic=_GOOD, file__name__template=".*")
    course.wait(lambda: course.snapshot.ready, "a start")
    course.made.broker.denied.add(_GOOD)
    course.put("one", rows("one", 2))
    course.wait(lambda: "objects" in course.snapshot.problems, "a problem")
    assert not course.snapshot.ready
    _allow(course)


def _deny(course: Course) -> None:
    for topic in (_GOOD, _SECRET):
        if topic not in course.made.broker.topics:
            course.made.broker.create(topic, 2)
    course.made.broker.denied.add(_SECRET)


def _allow(course: Course) -> None:
    """It recovers by itself, each object after its own delay."""
    course.made.broker.denied.clear()
    course.made.kernel.sleep(_LONGEST_SECONDS)
    assert not course.snapshot.pending_objects
    assert course.snapshot.ready
    assert not course.snapshot.problems


def _comes(course: Course, key: str, *, within: float) -> None:
    topic, began = key.partition("/")[0], course.made.kernel.now
    before = _count(course, topic)
    course.put(key, rows(key, 2))
    course.wait(lambda: _count(course, topic) > before, key)
    assert course.made.kernel.now - began < within, f"{key} took {course.made.kernel.now - began:.1f} s"


def _count(course: Course, topic: str = _GOOD) -> int:
    """How many objects of the topic are in it, of two rows each."""
    broker = course.made.broker
    return sum(len(broker.visible(topic, place)) for place in range(2)) // 2


def _is_said(course: Course) -> None:
    assert course.snapshot.ready
    assert list(course.snapshot.problems) == [f"topic {_SECRET}"]
    assert f"{_SECRET!r} may not be written" in course.snapshot.problems[f"topic {_SECRET}"]


def _run(body: Callable[[Course], None]) -> None:
    with environment(7) as made:
        course = Course(made)
        made.kernel.spawn(made.kernel.process("operator"), lambda: body(course), "operator")
        made.kernel.run(until=made.kernel.now + _SECONDS)
        for _, error in made.kernel.failures:
            raise error


if __name__ == "__main__":
    # What ends with garbage would end at a moment of its own.
    gc.disable()
    for one in (forbidden_from_the_start, forbidden_while_it_runs, until_idle, the_only_topic):
        _run(one)
