"""All courses that are written down, each file's in a fork of one process that has imported them.

    python -m tests.simulation.courses

To import the service takes longer than most courses do, and a file's courses are to have a process of their
own, as the simulation exchanges clocks, threads and locks. It prints what broke, by file and course.
"""

import gc
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Final

Broken = dict[str, str | None]
"""What broke, by course; None where nothing did."""
_SECONDS: Final = 400.0


@cache
def broken_of(file: str) -> Broken:
    """What broke in the courses of a file; the first that asks plays those of all files.

    A file whose process ended before its courses did has its status under the file's own name.
    """
    return _all_broken()[file]


@cache
def _all_broken() -> dict[str, Broken]:
    command = [sys.executable, "-m", "tests.simulation.courses"]  # this project's own
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Broken] = json.loads(done.stdout)
    return found


def _forked(file: str, courses: Mapping[str, Callable[[], str | None]]) -> Broken:
    """What broke in these, which a process of their own plays one after the other."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            found = {name: _outcome(course) for name, course in courses.items()}
            with os.fdopen(write, "w") as out:
                json.dump(found, out)
            # Threads of native libraries that killed processes have left may abort at an ordinary end.
            os._exit(0)
        finally:
            os._exit(1)
    os.close(write)
    with os.fdopen(read) as given:
        text = given.read()
    _, status = os.waitpid(child, 0)
    if status != 0 or not text:
        return {file: f"its process ended with {os.waitstatus_to_exitcode(status)}"}
    broken: Broken = json.loads(text)
    return broken


def _outcome(course: Callable[[], str | None]) -> str | None:
    try:
        return course()
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is what broke
        return "".join(traceback.format_exception(error))


def _files() -> dict[str, dict[str, Callable[[], str | None]]]:
    """What is played, by file and course; each gives or raises what broke."""
    # Only where they are played: what asks for the outcomes need not import the service.
    from tests.simulation import (
        discovery_courses,
        forbidden_topics,
        inventory_restarts,
        lost_ledger,
        refused_takeovers,
        until_archived,
    )

    found: dict[str, dict[str, Callable[[], str | None]]] = {
        "discovery_courses": {
            name: partial(discovery_courses.broken, name) for name in discovery_courses.COURSES
        },
        "forbidden_topics": {
            name: partial(forbidden_topics.broken, name) for name in forbidden_topics.COURSES
        },
    }
    for file, courses in (
        ("inventory_restarts", inventory_restarts.COURSES),
        ("refused_takeovers", refused_takeovers.COURSES),
        ("until_archived", until_archived.COURSES),
        ("lost_ledger", (lost_ledger.lost_while_away,)),
        ("lost_ledger marked", (lost_ledger.lost_and_marked,)),
    ):
        found[file] = {course.__name__: course for course in courses}
    return found


if __name__ == "__main__":
    files = _files()
    # What ends with garbage would end at a moment of its own.
    gc.disable()
    sys.stdout.write(json.dumps({file: _forked(file, courses) for file, courses in files.items()}))
