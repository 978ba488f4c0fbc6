"""Ranges of entries that full listings do not show, from one listing to the next."""

from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ingest.source.catalogue.expiry import DOUBTED_MS
from ingest.source.catalogue.ledger_view import APART_MS, MOST_RANGES, Absence, fewer, since

KEYS = [f"k{number}" for number in range(6)]
IDS = [(key, etag) for key in KEYS for etag in "123"]


@given(
    st.lists(
        st.tuples(
            st.integers(1, 30 * APART_MS),
            st.dictionaries(st.sampled_from(KEYS), st.sampled_from("123")),
            st.sets(st.sampled_from(IDS)),
        ),
        max_size=12,
    )
)
def test_ranges_say_what_is_true_of_each_entry(
    listings: list[tuple[int, dict[str, str], set[tuple[str, str]]]],
) -> None:
    """The time since which no listing has shown it, cut to a day; what is listed is in no range."""
    now_ms, absences = 0, list[Absence]()
    shown = dict.fromkeys(IDS, 0)
    for apart_ms, current, entries in listings:
        now_ms += apart_ms
        listed = [place for place in sorted(current.items()) if place in entries]
        bounds = [("", ""), *((key, f"{etag}\0") for key, etag in listed)]
        ranges = [
            (begin, end) for begin, end in zip(bounds, [*listed, ("z", "")], strict=True) if begin < end
        ]
        absences = since(ranges, absences, now_ms, now_ms - DOUBTED_MS)
        assert absences == sorted(absences)
        for place in IDS:
            if place in listed:
                shown[place] = 0
            elif not shown[place]:
                shown[place] = now_ms
            within = [one.since_ms for one in absences if one.begin <= place < one.end]
            assert within == ([max(shown[place], now_ms - DOUBTED_MS)] if shown[place] else [])


def test_too_many_ranges_join_or_are_let_go() -> None:
    """What that makes of them leaves later, never sooner."""
    now_ms = 10 * APART_MS
    many = [
        Absence((f"{number:06}", ""), (f"{number + 1:06}", ""), number % 3 * APART_MS)
        for number in range(MOST_RANGES + 1)
    ]
    assert fewer(many, now_ms) == [Absence(many[0].begin, many[-1].end, 2 * APART_MS)]
    young = [one._replace(since_ms=now_ms) for one in many]
    assert fewer(young, now_ms) == young[:MOST_RANGES]


class _Counted(list[Absence]):
    """Ranges of an earlier listing, and how often one of them is looked at."""

    looks = 0

    def __getitem__(self, number: Any) -> Any:
        self.looks += 1
        return super().__getitem__(number)

    def __iter__(self) -> Iterator[Absence]:
        for number in range(len(self)):
            yield self[number]


def test_many_ranges_are_gone_through_once() -> None:
    """Each was compared with all before it: 50,000 took five seconds at the end of each listing."""
    ranges = [((f"{number:06}", "a"), (f"{number:06}", "b")) for number in range(1_000)]
    earlier = _Counted(since(ranges, [], 0, 0))
    assert since(ranges, earlier, 5, 0) == earlier
    assert earlier.looks < 6 * len(ranges)
