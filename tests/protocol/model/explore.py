"""Looking at every world that a scenario can come to, or at some of them at random."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from sys import intern

from tests.protocol.model.driver import driver_steps
from tests.protocol.model.faults import outside_steps
from tests.protocol.model.promise import broken_end, broken_promise
from tests.protocol.model.task import task_steps
from tests.protocol.model.world import Budget, Scenario, Step, World, first_world


def steps(scenario: Scenario, world: World) -> Iterator[Step]:
    """Everything that may happen next, in any order: what follows and the world after it."""
    yield from task_steps(scenario, world)
    yield from driver_steps(scenario, world)
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


def search(scenario: Scenario, *, limit: int, watch: Callable[[str], bool] | None = None) -> Found:
    """Breadth first through all worlds up to `limit` of them; ends at the first that breaks a promise.

    `watch` makes a step with such words count as wrong. Worlds seen are kept as 64-bit hashes only, as model
    checkers do: with a million worlds the chance of ever taking two for one is 3 in 100 million.
    """
    first = first_world(scenario)
    came_from: dict[int, tuple[int, str]] = {hash(first): (0, "")}
    waiting = deque([(hash(first), first)])
    quiet = 0
    while waiting:
        number, world = waiting.popleft()
        moved = False
        for words, after in steps(scenario, world):
            moved = True
            key = hash(after)
            if key in came_from:
                continue
            came_from[key] = (number, intern(words))
            wrong = broken_promise(scenario, after)
            if watch and watch(words):
                wrong = words
            if wrong:
                return Found(
                    worlds=len(came_from),
                    quiet=quiet,
                    complete=False,
                    wrong=wrong,
                    trace=_trace(came_from, key),
                )
            if len(came_from) >= limit:
                return Found(worlds=len(came_from), quiet=quiet, complete=False)
            waiting.append((key, after))
        if not moved:
            quiet += 1
            wrong = broken_end(scenario, world)
            if wrong:
                return Found(
                    worlds=len(came_from),
                    quiet=quiet,
                    complete=False,
                    wrong=wrong,
                    trace=_trace(came_from, number),
                )
    return Found(worlds=len(came_from), quiet=quiet, complete=True)


def _trace(came_from: dict[int, tuple[int, str]], key: int) -> tuple[str, ...]:
    words: list[str] = []
    while came_from[key][1]:
        key, step = came_from[key]
        words.append(step)
    return tuple(reversed(words))


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
    """One random way: `faults` steps with all that may go wrong, then on without to the end."""
    world = first_world(scenario)
    trace: list[str] = []
    while len(trace) < faults and (choices := list(steps(scenario, world))):
        words, world = random.choice(choices)
        trace.append(words)
        if wrong := broken_promise(scenario, world):
            return Found(worlds=len(trace), quiet=0, complete=False, wrong=wrong, trace=tuple(trace))
    return finish(scenario, world, random, trace)


def finish(scenario: Scenario, world: World, random: Random, trace: list[str]) -> Found:
    """The way from here to where nothing is left to do, with nothing more going wrong."""
    world = world._replace(budget=Budget())
    patience = len(trace) + 2000
    while choices := list(steps(scenario, world)):
        words, world = random.choice(choices)
        trace.append(words)
        wrong = broken_promise(scenario, world)
        if not wrong and len(trace) > patience:
            wrong = "it does not come to an end"
        if wrong:
            return Found(worlds=len(trace), quiet=0, complete=False, wrong=wrong, trace=tuple(trace))
    wrong = broken_end(scenario, world)
    return Found(worlds=len(trace), quiet=1, complete=True, wrong=wrong, trace=tuple(trace))
