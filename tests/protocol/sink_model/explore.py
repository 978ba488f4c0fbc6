"""Looking at every world that a scenario can come to, breadth first."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from tests.protocol.sink_model.leader import leader_steps
from tests.protocol.sink_model.outside import outside_steps
from tests.protocol.sink_model.promise import broken_end, broken_promise
from tests.protocol.sink_model.task import task_steps
from tests.protocol.sink_model.world import Budget, Scenario, Step, World, first_world


def steps(scenario: Scenario, world: World) -> Iterator[Step]:
    """Everything that may happen next, in any order."""
    yield from task_steps(scenario, world)
    yield from leader_steps(scenario, world)
    yield from outside_steps(scenario, world)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The result of a search: how far it looked, and the shortest way to the first thing that is wrong."""

    worlds: int
    quiet: int
    complete: bool
    wrong: str | None = None
    trace: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The trace as numbered lines, for a failing test to show."""
        lines = [f"{number:3}. {words}" for number, words in enumerate(self.trace, start=1)]
        return "\n".join([*lines, f"     {self.wrong}: {self.worlds} worlds, complete: {self.complete}"])


class _Ways:
    """How each world was reached first, by the world's hash."""

    def __init__(self, first: World) -> None:
        self.came_from: dict[int, tuple[int, str]] = {hash(first): (0, "")}

    def add(self, key: int, before: int, words: str) -> bool:
        """False for a world that was seen."""
        if key in self.came_from:
            return False
        self.came_from[key] = (before, words)
        return True

    def found(self, key: int, quiet: int, wrong: str) -> Found:
        words: list[str] = []
        worlds = len(self.came_from)
        while self.came_from[key][1]:
            key, step = self.came_from[key]
            words.append(step)
        return Found(worlds=worlds, quiet=quiet, complete=False, wrong=wrong, trace=tuple(reversed(words)))


def search(scenario: Scenario, *, limit: int, watch: Callable[[str], bool] | None = None) -> Found:
    """Through all worlds up to `limit` of them; ends at the first that breaks a promise.

    `watch` makes a step with such words count as wrong.
    """
    first = first_world(scenario)
    ways = _Ways(first)
    waiting = deque([(hash(first), first)])
    quiet = 0
    while waiting:
        number, world = waiting.popleft()
        following = list(steps(scenario, world))
        if not following:
            quiet += 1
            if wrong := broken_end(scenario, world):
                return ways.found(number, quiet, wrong)
        for words, after in following:
            key = hash(after)
            if not ways.add(key, number, words):
                continue
            wrong = words if watch and watch(words) else broken_promise(scenario, after)
            if wrong:
                return ways.found(key, quiet, wrong)
            if len(ways.came_from) >= limit:
                return Found(worlds=limit, quiet=quiet, complete=False)
            waiting.append((key, after))
    return Found(worlds=len(ways.came_from), quiet=quiet, complete=True)


def follow(scenario: Scenario, way: str) -> str | None:
    """What is wrong at the end of this way, a digit a step: its place among those that may happen then."""
    world = first_world(scenario)
    for digit in way:
        choices = list(steps(scenario, world))
        if int(digit) >= len(choices):
            return None
        world = choices[int(digit)][1]
    if next(iter(steps(scenario, world)), None) is None:
        return broken_end(scenario, world)
    return broken_promise(scenario, world)


def way_of(scenario: Scenario, trace: Sequence[str]) -> str:
    """The way that a search has found, for `follow`."""
    world, way = first_world(scenario), ""
    for words in trace:
        choices = list(steps(scenario, world))
        place = next(number for number, choice in enumerate(choices) if choice[0] == words)
        way, world = f"{way}{place}", choices[place][1]
    return way


def walk(scenario: Scenario, random: Random, *, faults: int) -> Found:
    """One random way: `faults` steps with all that may happen, then on to the end without."""
    world = first_world(scenario)
    trace: list[str] = []
    while choices := list(steps(scenario, world)):
        words, world = random.choice(choices)
        trace.append(words)
        wrong = broken_promise(scenario, world)
        if not wrong and len(trace) > faults + 2000:
            wrong = "it does not come to an end"
        if wrong:
            return Found(worlds=len(trace), quiet=0, complete=False, wrong=wrong, trace=tuple(trace))
        if len(trace) == faults:
            world = world._replace(budget=Budget())
    wrong = broken_end(scenario, world)
    return Found(worlds=len(trace), quiet=1, complete=True, wrong=wrong, trace=tuple(trace))
