"""A lead that cannot be taken up, as brokers refuse what the first start writes into the ledger.

    python -m tests.simulation.refused_takeovers

in a process of its own, as the simulation exchanges clocks, threads and locks.
"""

import gc
from collections.abc import Callable
from functools import partial, update_wrapper
from typing import Any, Final

from tests.simulation.discovery_courses import Course, run
from tests.simulation.environment import Instance
from tests.support.service import rows

_LEDGER: Final = "source-offsets"
# What every takeover writes has room, the record of this first start has not.
_ROOM: Final = 400
_START_KEY: Final = "in/" + "0" * 900
_WAITING_SECONDS: Final = 20.0


def the_first_start_of_a_process(course: Course) -> None:
    """It ends, as with any other write that its first leadership needs."""
    _narrow(course)
    course.start(native__start__key=_START_KEY)
    course.wait(lambda: course.one.is_over, "its end")
    assert "too large" in (course.one.ending or ""), course.one.ending


def a_standby(course: Course) -> None:
    """It runs, so it tries again, and says so all the time; it recovers by itself."""
    second = _standing_by(course, until_idle=False)
    course.made.kernel.sleep(5.0)
    for _ in range(int(_WAITING_SECONDS)):
        shown = _shown(second)
        assert (shown.role, shown.ready) == ("standby", False)
        assert list(shown.problems) == ["leadership"], shown.problems
        assert "too large" in shown.problems["leadership"]
        course.made.kernel.sleep(1.0)
    course.made.broker.topics[_LEDGER].configuration.pop("max.message.bytes")
    course.wait(lambda: _shown(second).ready, "the lead")
    assert (_shown(second).role, dict(_shown(second).problems)) == ("leader", {})


def until_idle(course: Course) -> None:
    """It ends as it does with other things outside that do not come."""
    second = _standing_by(course, until_idle=True)
    course.wait(lambda: second.is_over, "its end")
    assert (second.ending or "").startswith("Unavailable: --until-idle: The lead could not be taken up")


def _standing_by(course: Course, *, until_idle: bool) -> Instance:
    """A process that has the lead after it has stood by, and whose first start is refused."""
    course.start(aws__s3__prefix="in/", sqs__queue__url=None)
    course.put("in/1", rows("one", 2), announced=False)
    course.wait(lambda: course.values() == course.uploaded, "the rows")
    options = {name: value for name, value in course.options.items() if name != "aws.s3.prefix"}
    second = Instance(course.made, options | {"native.start.key": _START_KEY}, until_idle=until_idle)
    course.wait(lambda: second.connector is not None and _shown(second).role == "standby", "a standby")
    _narrow(course)
    course.stop()
    return second


def _narrow(course: Course) -> None:
    broker = course.made.broker
    if _LEDGER not in broker.topics:
        broker.create(_LEDGER, 1, {"cleanup.policy": "compact"})
    broker.topics[_LEDGER].configuration["max.message.bytes"] = str(_ROOM)


def _shown(instance: Instance) -> Any:
    assert instance.connector is not None
    return instance.connector.snapshot_holder.snapshot


COURSES: Final[tuple[Callable[[], None], ...]] = tuple(
    update_wrapper(partial(run, course), course)
    for course in (the_first_start_of_a_process, a_standby, until_idle)
)


if __name__ == "__main__":
    # What ends with garbage would end at a moment of its own.
    gc.disable()
    for one in COURSES:
        one()
