"""One scenario run and judged, and a failing one made as small as it gets."""

import gc
import hashlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from tests.simulation import (
    archives_generator,
    frames_generator,
    layouts_generator,
    restore_generator,
    sink_generator,
    source_generator,
    turns_generator,
    worker_generator,
    writing_generator,
)
from tests.simulation.archives_generator import archives_scenario
from tests.simulation.archives_laws import judge_archives
from tests.simulation.archives_run import run_archives
from tests.simulation.bare_nulls import NEEDED, is_bare
from tests.simulation.course import Ended
from tests.simulation.environment import FOLDER_PREFIX
from tests.simulation.frames_laws import judge_frames
from tests.simulation.frames_run import run_frames
from tests.simulation.frames_turns import turned_scenario
from tests.simulation.laws import Finding
from tests.simulation.layouts_generator import layout_scenario
from tests.simulation.layouts_laws import judge_layouts
from tests.simulation.restore_generator import restore_scenario
from tests.simulation.restore_laws import judge_restore
from tests.simulation.restore_run import run_restore
from tests.simulation.scenario import Scenario, Step
from tests.simulation.sink_generator import sink_scenario
from tests.simulation.sink_laws import is_comparable, judge
from tests.simulation.sink_run import run_sink
from tests.simulation.source_generator import source_scenario
from tests.simulation.source_laws import judge_source
from tests.simulation.source_run import run_source
from tests.simulation.turns_generator import turns_scenario
from tests.simulation.turns_laws import judge_turns
from tests.simulation.turns_run import run_turns
from tests.simulation.worker_generator import worker_scenario
from tests.simulation.worker_laws import judge_worker
from tests.simulation.worker_run import run_worker
from tests.simulation.writing_generator import writing_scenario
from tests.simulation.writing_laws import judge_writing
from tests.simulation.writing_run import run_writing

_T = TypeVar("_T")
_OTHER_CUTS = 1_000_003
_MOST_TRIES = 150
DATA = ("produce", "put", "arrive")
_SCENARIOS: Final = {
    "archives": archives_scenario,
    "frames": turned_scenario,
    "layouts": layout_scenario,
    "sink": sink_scenario,
    "source": source_scenario,
    "restore": restore_scenario,
    "turns": turns_scenario,
    "worker": worker_scenario,
    "writing": writing_scenario,
}
_RUNS: Final[dict[str, Callable[[Scenario], Ended]]] = {
    "archives": run_archives,
    "frames": run_frames,
    "layouts": run_sink,
    "sink": run_sink,
    "source": run_source,
    "restore": run_restore,
    "turns": run_turns,
    "worker": run_worker,
    "writing": run_writing,
}
_JUDGED: Final[dict[str, Callable[[Scenario, Any], list[Finding]]]] = {
    "archives": judge_archives,
    "frames": judge_frames,
    "source": judge_source,
    "restore": judge_restore,
    "turns": judge_turns,
    "worker": judge_worker,
    "writing": judge_writing,
}
"""By the laws of these what one run comes to is judged; the others have a second, undisturbed one."""
_FIXED: Final = {
    "archives": archives_generator.FIXED,
    "frames": frames_generator.FIXED,
    "layouts": layouts_generator.FIXED,
    "sink": sink_generator.FIXED,
    "source": source_generator.FIXED,
    "restore": restore_generator.FIXED,
    "turns": turns_generator.FIXED,
    "worker": worker_generator.FIXED,
    "writing": writing_generator.FIXED,
}

# Without these there is no run.
_NEEDED: Final = (
    "topics",
    "output.format",
    "output.layout",
    "input.format",
    "input.layout",
    "restore.topic.map",
    "archive.output.format",
    "archive.output.layout",
    # What an operator knows of the sink that wrote an archive.
    "restore.value",
    "restore.key",
    "restore.header",
    "restore.envelope",
    "store.envelope",
    "format.output.fields",
    "format.output.fields.value.encoding",
    "format.bytearray.separator",
    "path",
    "state.path",
    "workers",
    "cores",
    "partitions",
    "connectors",
)


def scenario_of(direction: str, seed: int) -> Scenario:
    """The scenario of a seed."""
    return _SCENARIOS[direction](seed)


@contextmanager
def _collecting_nothing() -> Iterator[None]:
    """Within a run no garbage is collected: what ends with it would end at a moment of its own."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _loading_nothing(run: Callable[..., _T], *arguments: object, **given: object) -> _T:
    """What a run comes to. One that was the first to load a module is made again.

    Modules draw random numbers and read the clock when they are loaded, which only the first run has.
    """
    while True:
        before = len(sys.modules)
        found = run(*arguments, **given)
        if len(sys.modules) <= before:
            return found


@_collecting_nothing()
def check(scenario: Scenario) -> list[Finding]:
    """What a scenario shows to be against a law."""
    if scenario.direction in _JUDGED:
        return _JUDGED[scenario.direction](scenario, _loading_nothing(_RUNS[scenario.direction], scenario))
    outcome = _loading_nothing(run_sink, scenario)
    calm = None
    if is_comparable(scenario):
        calm = _loading_nothing(run_sink, scenario, calm=True, seed=scenario.seed + _OTHER_CUTS)
    return (judge_layouts if scenario.direction == "layouts" else judge)(scenario, outcome, calm)


@_collecting_nothing()
def digest(scenario: Scenario) -> str:
    """A line that differs when anything in a run does."""
    found = _loading_nothing(_RUNS[scenario.direction], scenario)
    # The name of a run's folder is no part of it.
    events = re.sub(f"{FOLDER_PREFIX}\\w+", "", repr((found.history, found.log)))
    events = hashlib.sha256(events.encode()).hexdigest()[:16]
    return f"seed {scenario.seed}: {found.turns} turns, {found.seconds:.6f} s, events {events}"


def shrink(
    scenario: Scenario, finding: Finding, checked: Callable[[Scenario], Sequence[Finding]] = check
) -> Scenario:
    """A smaller scenario that breaks the same law in the same words, as far as a hundred tries go."""
    tries = 0

    def still_fails(candidate: Scenario) -> bool:
        nonlocal tries
        tries += 1
        return any(_kind(one) == _kind(finding) for one in checked(candidate))

    is_smaller = True
    while is_smaller and tries < _MOST_TRIES:
        is_smaller = False
        for candidate in _smaller(scenario):
            if tries >= _MOST_TRIES:
                break
            if still_fails(candidate):
                scenario, is_smaller = candidate, True
                break
    return scenario


def _kind(finding: Finding) -> tuple[str, str]:
    """A law and the words of its sentence, without what is particular."""
    words = [word for word in finding.sentence.split() if word.isalpha()]
    return finding.law, " ".join(words[:6])


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    """Scenarios with less in them, those with much less first."""
    steps = scenario.steps
    for size in (8, 4, 2, 1):
        for begin in range(0, len(steps), size):
            kept = steps[:begin] + steps[begin + size :]
            if len(kept) < len(steps) and any(step.act not in DATA for step in steps[begin : begin + size]):
                yield scenario.without(steps=kept)
    for size in (16, 8, 4, 2, 1):
        for begin in range(0, len(scenario.records), size):
            if begin + size <= len(scenario.records):
                yield _without_records(scenario, begin, begin + size)
    needed = (*_NEEDED, *(NEEDED if is_bare(scenario) else ()))
    for name in scenario.options:
        if name not in _FIXED[scenario.direction] and name not in needed:
            dropped = {
                key: value
                for key, value in scenario.options.items()
                if key != name and not key.startswith(f"{name}.")
            }
            yield scenario.without(options=dropped)


def _without_records(scenario: Scenario, begin: int, end: int) -> Scenario:
    """The scenario without the records of a range; what is produced later moves up."""
    count = end - begin

    def moved(place: int) -> int:
        return place if place <= begin else max(begin, place - count)

    steps = []
    for step in scenario.steps:
        if step.act not in DATA or "begin" not in step.given:
            steps.append(step)
            continue
        first, behind = moved(step.given["begin"]), moved(step.given["end"])
        if behind > first:
            steps.append(Step(step.after, step.act, {**step.given, "begin": first, "end": behind}))
    return scenario.without(records=scenario.records[:begin] + scenario.records[end:], steps=tuple(steps))
