"""Connectors are spread over workers evenly, and move as little as possible."""

from hypothesis import given
from hypothesis import strategies as st

from ingest.connect.other_workers import assign

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
