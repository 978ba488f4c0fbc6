"""Connectors are spread over workers evenly, and move as little as possible; what none runs is named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from headrace.kafka.control_records import WorkerRecord, WorkersRecord
from ingest.connect.hosted_connectors import Unplaced, assign

NAMES = st.frozensets(st.sampled_from([f"c{number}" for number in range(12)]))
WORKERS = st.frozensets(st.sampled_from(["w1", "w2", "w3", "w4"]), min_size=1)


@given(NAMES, WORKERS, NAMES, WORKERS)
def test_each_once_evenly_and_nothing_moves_without_need(
    first: frozenset[str], workers: frozenset[str], then: frozenset[str], others: frozenset[str]
) -> None:
    """Whatever comes and goes."""
    before = assign(first, workers, {})
    after = assign(then, others, before)

    placed = [one for mine in after.values() for one in mine]
    assert sorted(placed) == sorted(then)
    sizes = [len(mine) for mine in after.values()]
    assert max(sizes) - min(sizes) <= 1
    assert assign(then, others, after) == after
    highest = -(-len(then) // len(others))
    for worker in others:
        stayed = set(after[worker]) & set(before.get(worker, ()))
        could = set(before.get(worker, ())) & then
        assert len(could - stayed) <= max(0, len(could) - highest + 1)


def test_no_worker_has_nothing_to_say() -> None:
    """Before the first one is there."""
    assert assign({"a"}, (), {}) == {}


def test_what_a_lost_worker_had_is_spread_and_the_rest_stays() -> None:
    """A kill moves only its own."""
    before = {"w1": ("a", "d"), "w2": ("b", "e"), "w3": ("c", "f")}

    assert assign("abcdef", ("w1", "w3"), before) == {"w1": ("a", "b", "d"), "w3": ("c", "e", "f")}


def of_group(**connectors: tuple[str, ...]) -> WorkersRecord:
    """The workers, of which `leader` leads."""
    workers = {name: WorkerRecord(url=None, connectors=mine) for name, mine in connectors.items()}
    return WorkersRecord(leader="leader", workers=workers)


class Watched:
    """`Unplaced` of the worker `own`, by a clock that is set."""

    def __init__(self) -> None:
        self.now = 0.0
        self.unplaced = Unplaced("own", "/connectors.d", clock=lambda: self.now)

    def look(self, at: float, workers: WorkersRecord | None, known: set[str]) -> tuple[list[str], str | None]:
        """Which none runs then, and the problem."""
        self.now = at
        self.unplaced.look(workers, known)
        return sorted(self.unplaced.names), self.unplaced.problem


@pytest.mark.parametrize(
    ("connectors", "known", "unplaced", "said"),
    [
        pytest.param(
            {"leader": ("orders",), "own": ("payments",)},
            {"orders"},
            ["payments"],
            "this worker is to run payments, which /connectors.d does not have. They run nowhere",
            id="the leader alone has it",
        ),
        pytest.param(
            {"leader": ("orders",), "own": ()},
            {"orders", "refunds", "invoices"},
            ["invoices", "refunds"],
            "no worker is given invoices, refunds: /connectors.d has them, and the worker that leads, "
            "leader, does not",
            id="this one alone has it",
        ),
        pytest.param({"leader": ("a",), "own": ("b",)}, {"a", "b"}, [], None, id="the same files"),
        pytest.param({"leader": ("a", "b"), "own": ()}, {"a"}, [], None, id="run by the one that has it"),
        pytest.param({"leader": ("a",)}, {"a", "b"}, [], None, id="not joined yet"),
    ],
)
def test_what_no_worker_runs_is_a_problem_after_a_minute(
    connectors: dict[str, tuple[str, ...]], known: set[str], unplaced: list[str], said: str | None
) -> None:
    """Said once in the log; counted at once."""
    watched, workers = Watched(), of_group(**connectors)

    with capture_logs() as logs:
        assert watched.look(0.0, workers, known) == (unplaced, None)
        assert watched.look(59.0, workers, known) == (unplaced, None)
        problem = watched.look(60.0, workers, known)[1]
        assert watched.look(300.0, workers, known) == (unplaced, problem)
    assert (problem or "").startswith(said or "")
    assert (problem is None) is (said is None)
    assert [one["event"] for one in logs] == (["connectors_not_run"] if said else [])
    # Files come late, or the leader is another one.
    everywhere = set(known).union(*connectors.values())
    assert watched.look(301.0, of_group(leader=tuple(everywhere), own=()), everywhere) == ([], None)


def test_what_cannot_be_judged_begins_again() -> None:
    """A worker that leads itself gives away all that it has."""
    watched = Watched()
    watched.look(0.0, of_group(own=("a",)), set())

    assert watched.look(100.0, None, set()) == ([], None)
    assert watched.look(101.0, of_group(own=("a",)), set()) == (["a"], None)
    assert watched.look(161.0, of_group(own=("a",)), set())[1] is not None


def test_a_long_list_is_cut() -> None:
    """The sentence stays one."""
    watched, many = Watched(), tuple(f"c{number}" for number in range(9))
    watched.look(0.0, of_group(own=many), set())

    assert "c0, c1, c2, c3, c4 and 4 more, which" in str(watched.look(60.0, of_group(own=many), set())[1])
