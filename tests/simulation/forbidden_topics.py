"""Topics that keys name, one of which cannot be written: what becomes of the objects of the others.

This user may not write it, or use its subject; it has no leader; it is deleted meanwhile; it is not there.

    python -m tests.simulation.forbidden_topics [COURSE ..]

in a process of its own, as the simulation exchanges clocks, threads and locks: it prints what
broke, by course.
"""

import gc
import json
import sys
import traceback
from collections.abc import Callable
from typing import Final

from tests.simulation.discovery_courses import Course, run
from tests.support.service import rows

_GOOD, _SECRET = "good", "secret"
_MANY = 20
_LONGEST_SECONDS = 700.0
_AFTER_SECONDS = 20.0
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
    _both(course)
    _deny(course)
    _only_the_other_comes(course, "TopicForbidden")
    _is_said(course)
    _allow(course)


def without_a_leader(course: Course) -> None:
    """What is sent to it is not taken in its time: that holds objects of the other one up once."""
    _both(course)
    course.made.broker.leaderless.add(_SECRET)
    _only_the_other_comes(course, "TopicWithoutLeader")
    for number in range(3):
        _comes(course, f"{_GOOD}/later-{number}", within=2.0)
    _is_said(course, "has no leader")
    course.made.broker.leaderless.clear()
    _recovers(course)


def deleted_while_it_runs(course: Course) -> None:
    """Only its own objects are of a missing topic, and no other one is named."""
    _both(course)
    course.made.broker.delete(_SECRET)
    _only_the_other_comes(course, "TopicMissing")
    _is_said(course, "does not exist")
    course.made.broker.create(_SECRET, 2)
    _recovers(course)


def a_subject_that_is_forbidden(course: Course) -> None:
    """The schema registry knows the user, who may not use the subject of one topic."""
    _with_avro_keys(course, forbidden=f"{_SECRET}-key")
    course.start(topic=None, file__name__template="{{topic}}/.*", tasks__max="2")
    for number in range(_MANY):
        course.put(f"{_SECRET}/{number}", rows(f"{_SECRET}{number}", 2))
    course.made.kernel.sleep(200.0)
    for number in range(3):
        _comes(course, f"{_GOOD}/{number}", within=2.0)
    assert {line["kind"] for line in course.log("object_failed")} == {"SubjectForbidden"}
    _is_said(course, f"let it use the subject {_SECRET}-key")
    course.made.registry.forbidden.clear()
    _recovers(course)


def the_subject_of_the_only_topic(course: Course) -> None:
    """It is true of all objects: nothing is ready until it may be used."""
    _with_avro_keys(course, forbidden=f"{_GOOD}-key")
    course.start(topic=_GOOD, file__name__template=".*")
    course.put("one", rows("one", 2))
    course.wait(lambda: "objects" in course.snapshot.problems, "a problem")
    assert not course.snapshot.ready
    course.made.registry.forbidden.clear()
    _recovers(course)


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


def no_record_for_it(course: Course) -> None:
    """Objects that leave no record need neither the topic before a router nor the one after it."""
    letters, kafka = "letters", "org.apache.kafka.connect.transforms."
    course.made.broker.create(letters, 1)
    course.options |= {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": letters,
        "transforms": "none,new",
        "transforms.none.type": f"{kafka}Filter",
        "transforms.none.predicate": "all",
        "transforms.new.type": f"{kafka}RegexRouter",
        "transforms.new.regex": "(.*)",
        "transforms.new.replacement": "new-$1",
        "predicates": "all",
        "predicates.all.type": f"{kafka}predicates.TopicNameMatches",
        "predicates.all.pattern": ".*",
    }
    course.start(topic=None, file__name__template="{{topic}}/.*")
    course.put(f"{_SECRET}/dropped", rows(_SECRET, 2))
    course.put(f"{_SECRET}/refused", [b"no JSON"])
    course.wait(lambda: len(course.made.broker.visible(letters, 0)) == 1, "a dead letter")
    course.wait(lambda: not course.snapshot.pending_objects, "nothing pending")
    assert not course.log("object_failed")


def _both(course: Course) -> None:
    """One slot has written to both topics, and has their objects in one transaction from now on."""
    _create(course)
    course.start(topic=None, file__name__template="{{topic}}/.*", tasks__max="1", job__linger__ms="500")
    _comes(course, f"{_GOOD}/first", within=20.0)
    _comes(course, f"{_SECRET}/first", within=2.0)


def _only_the_other_comes(course: Course, kind: str) -> None:
    """Objects of both topics are put, and those of the other one are in it soon."""
    began = course.made.kernel.now
    for number in range(4):
        course.put(f"{_GOOD}/{number}", rows(f"{_GOOD}{number}", 2))
        course.put(f"{_SECRET}/{number}", rows(f"{_SECRET}{number}", 2))
    course.wait(lambda: _count(course) == 5, "all of the other topic")
    assert course.made.kernel.now - began < _SOON_SECONDS
    kinds = {(line["key"].partition("/")[0], line["kind"]) for line in course.log("object_failed")}
    assert (_GOOD, "TransactionAborted") in kinds, "no transaction has held objects of both topics"
    assert kinds <= {(_SECRET, kind), (_GOOD, "TransactionAborted")}, kinds


def _with_avro_keys(course: Course, *, forbidden: str) -> None:
    _create(course)
    course.made.registry.forbidden.add(forbidden)
    course.options |= {
        "schema.registry.url": "http://registry:8081",
        "key.converter": "io.confluent.connect.avro.AvroConverter",
    }


def _create(course: Course) -> None:
    for topic in (_GOOD, _SECRET):
        if topic not in course.made.broker.topics:
            course.made.broker.create(topic, 2)


def _deny(course: Course) -> None:
    _create(course)
    course.made.broker.denied.add(_SECRET)


def _allow(course: Course) -> None:
    course.made.broker.denied.clear()
    _recovers(course)


def _recovers(course: Course) -> None:
    """By itself, each object after its own delay; and it stays so."""
    kernel = course.made.kernel
    ends = kernel.now + _LONGEST_SECONDS
    while not _is_well(course):
        assert kernel.now < ends, course.snapshot.problems
        kernel.sleep(1.0)
    kernel.sleep(_AFTER_SECONDS)
    assert _is_well(course), course.snapshot.problems


def _is_well(course: Course) -> bool:
    shown = course.snapshot
    return shown.ready and not (shown.pending_objects or shown.problems)


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


def _is_said(course: Course, sentence: str = f"{_SECRET!r} may not be written") -> None:
    assert course.snapshot.ready
    assert list(course.snapshot.problems) == [f"topic {_SECRET}"]
    assert sentence in course.snapshot.problems[f"topic {_SECRET}"]


COURSES: Final[dict[str, Callable[[Course], None]]] = {
    course.__name__: course
    for course in (
        forbidden_from_the_start,
        forbidden_while_it_runs,
        without_a_leader,
        deleted_while_it_runs,
        a_subject_that_is_forbidden,
        the_subject_of_the_only_topic,
        until_idle,
        the_only_topic,
        no_record_for_it,
    )
}


def broken(name: str) -> str | None:
    """What broke in a course; None where nothing did."""
    try:
        run(COURSES[name])
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what broke
        return "".join(traceback.format_exception(error))
    return None


if __name__ == "__main__":
    # What ends with garbage would end at a moment of its own.
    gc.disable()
    sys.stdout.write(json.dumps({name: broken(name) for name in sys.argv[1:] or COURSES}))
