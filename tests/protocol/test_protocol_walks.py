"""Random ways through worlds too large to look at whole."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.protocol.model.explore import finish, steps, walk
from tests.protocol.model.promise import broken_promise
from tests.protocol.model.protections import without
from tests.protocol.model.scenarios import ALL_SMALL, EVERYTHING
from tests.protocol.model.world import Budget, first_world


class AnythingMayHappen(RuleBasedStateMachine):
    """Three drivers, three slots, four objects and every fault; hypothesis picks what happens next."""

    def __init__(self) -> None:
        super().__init__()
        self.world = first_world(EVERYTHING)
        self.trace: list[str] = []
        self.picks = 0

    @rule(pick=st.integers(0, 1023))
    def something_happens(self, pick: int) -> None:
        """One of the steps that are possible now; none when all is done."""
        choices = list(steps(EVERYTHING, self.world))
        if not choices:
            return
        words, self.world = choices[pick % len(choices)]
        self.trace.append(words)
        self.picks = self.picks * 31 + pick

    @invariant()
    def the_promise_is_kept(self) -> None:
        """At every moment."""
        assert broken_promise(EVERYTHING, self.world) is None, "\n".join(self.trace)

    def teardown(self) -> None:
        """From anywhere, when nothing more goes wrong, all rows come to be visible once."""
        found = finish(EVERYTHING, self.world, Random(self.picks), self.trace)
        assert found.wrong is None, f"\n{found}"


TestAnythingMayHappen = AnythingMayHappen.TestCase
TestAnythingMayHappen.settings = settings(
    max_examples=10,
    stateful_step_count=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


def walks(name: str, count: int) -> None:
    """Walk through the scenario so often, each time by another seed."""
    scenario = EVERYTHING if name == "everything" else ALL_SMALL[name]
    for seed in range(count):
        random = Random(f"{name} {seed}")
        found = walk(scenario, random, faults=random.randrange(10, 250))
        assert found.wrong is None, f"seed {seed}\n{found}"


@pytest.mark.parametrize("name", ["everything", *sorted(ALL_SMALL)])
def test_random_walks_keep_the_promise(name: str) -> None:
    """Faults first, then calm: each row visible once, and every message deleted."""
    walks(name, 80 if name == "everything" else 15)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_five_thousand_walks_keep_the_promise() -> None:
    """The same, for longer."""
    walks("everything", 5_000)


def test_a_calm_world_is_quickly_done() -> None:
    """Where nothing goes wrong it comes to its end: the walks do not pass for want of doing anything."""
    calm = replace(EVERYTHING, leaders=(3,), budget=Budget(), stumbles={})
    found = walk(calm, Random(1), faults=0)
    assert found.wrong is None
    assert sum("commits" in words for words in found.trace) >= len(calm.sizes)


@pytest.mark.parametrize(
    "name",
    ["fence", "settle_after_commit", "ledger_is_the_truth", "unanswered_commit_is_unknown", "grant_once"],
)
def test_walks_find_what_is_missing(name: str) -> None:
    """The walks are no blind ones: with one of these off, a few of them are enough to break the promise."""
    broken = replace(EVERYTHING, on=without(name))
    assert any(walk(broken, Random(seed), faults=200).wrong for seed in range(100))
