"""Whose turn it is for a core: idle slots go first, nobody goes while a core is free."""

from dataclasses import dataclass

import pytest

from spark.slots.holdings import SlotHolding, to_recall
from spark.slots.slot_attempt import AttemptState

NOW = 1000.0


@dataclass(frozen=True)
class Pool:
    """A connector's slots, by name."""

    name: str

    def recall(self, slot: int, number: int) -> None:
        """Nothing: what is chosen is looked at."""


A, B, C = Pool("a"), Pool("b"), Pool("c")
STARTING, READY, BUSY, ENDING = (
    AttemptState.STARTING,
    AttemptState.READY,
    AttemptState.BUSY,
    AttemptState.ENDING,
)


def holding(
    pool: Pool, slot: int, stage: AttemptState, ago: float, *, is_ending: bool = False
) -> SlotHolding:
    """A slot that is at it since so many seconds."""
    return SlotHolding(pool=pool, slot=slot, number=slot, stage=stage, since=NOW - ago, is_ending=is_ending)


@pytest.mark.parametrize(
    ("holdings", "recalled"),
    [
        pytest.param([holding(A, 0, READY, 20), holding(B, 0, READY, 9)], [], id="nobody waits"),
        pytest.param([holding(A, 0, READY, 20), holding(B, 0, STARTING, 9)], [], id="a core is free"),
        pytest.param(
            [holding(A, 0, READY, 3), holding(A, 1, READY, 5), holding(B, 0, STARTING, 1)],
            [("a", 1)],
            id="the longest idle",
        ),
        pytest.param(
            [holding(A, 0, BUSY, 99), holding(A, 1, READY, 0), holding(B, 0, STARTING, 1)],
            [("a", 1)],
            id="idle before busy",
        ),
        pytest.param(
            [holding(A, 0, READY, 3), holding(A, 1, READY, 5), holding(B, 0, STARTING, 0.1)],
            [],
            id="who has just come is about to get a core",
        ),
        pytest.param(
            [holding(A, 0, BUSY, 30), holding(A, 1, BUSY, 40), holding(B, 0, STARTING, 1)],
            [("a", 1)],
            id="who works longest, after its turn",
        ),
        pytest.param(
            [holding(A, 0, BUSY, 10), holding(A, 1, BUSY, 10), holding(B, 0, STARTING, 9)],
            [],
            id="a turn is not cut short",
        ),
        pytest.param(
            [holding(A, 0, BUSY, 30), holding(A, 1, BUSY, 30), holding(A, 2, STARTING, 9)],
            [],
            id="nobody makes room for itself",
        ),
        pytest.param(
            [holding(A, 0, BUSY, 30, is_ending=True), holding(A, 1, BUSY, 30), holding(B, 0, STARTING, 9)],
            [],
            id="one is on its way out for who waits",
        ),
        pytest.param(
            [
                holding(A, 0, BUSY, 30),
                holding(B, 0, BUSY, 99),
                holding(A, 1, BUSY, 20),
                holding(C, 0, STARTING, 9),
            ],
            [("a", 0)],
            id="who has most gives first",
        ),
    ],
)
def test_who_gives_its_core_back(holdings: list[SlotHolding], recalled: list[tuple[str, int]]) -> None:
    """With two cores."""
    found = to_recall(holdings, cores=2, now=NOW)

    assert [(one.pool.name, one.slot) for one in found if isinstance(one.pool, Pool)] == recalled
