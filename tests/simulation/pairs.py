"""Configurations in which every pair of values of two options comes, and that the settings accept."""

import itertools
import json
import random
from collections.abc import Mapping, Sequence
from typing import Final

from headrace.options import SettingsError
from headrace.vendors.load import load

_BIG_SHARE: Final = 0.15
_Value = str | None
_Pair = tuple[str, _Value, str, _Value]


def all_pairs(dimensions: Mapping[str, Sequence[_Value]]) -> list[dict[str, _Value]]:
    """Rows in which every pair of values comes, as few as a greedy search finds."""
    rng = random.Random(30)
    names = list(dimensions)
    order = {name: place for place, name in enumerate(names)}

    def pair(one: str, left: _Value, other: str, right: _Value) -> _Pair:
        return (one, left, other, right) if order[one] < order[other] else (other, right, one, left)

    missing = {
        (one, left, other, right)
        for one, other in itertools.combinations(names, 2)
        for left in dimensions[one]
        for right in dimensions[other]
    }
    rows: list[dict[str, _Value]] = []
    while missing:
        one, left, other, right = min(missing, key=str)
        row: dict[str, _Value] = {one: left, other: right}
        rest = [name for name in names if name not in row]
        rng.shuffle(rest)
        for name in rest:
            gains = [
                (sum(pair(name, value, done, row[done]) in missing for done in row), rng.random())
                for value in dimensions[name]
            ]
            row[name] = dimensions[name][gains.index(max(gains))]
        rows.append({name: row[name] for name in names})
        missing -= {(one, row[one], other, row[other]) for one, other in itertools.combinations(names, 2)}
    return rows


def drawn_count(rng: random.Random, *, small: Sequence[int], big: Sequence[int]) -> int:
    """How much data a scenario has: mostly little, since pairs of circumstances need no more."""
    return rng.choice(big if rng.random() < _BIG_SHARE else small)


def valid_options(
    chosen: Mapping[str, _Value],
    fixed: Mapping[str, str],
    beside: Mapping[tuple[str, str], Mapping[str, str]],
) -> dict[str, str]:
    """The chosen options without those that the settings refuse; `beside` is what some values need."""
    options = {**fixed, **{name: value for name, value in chosen.items() if value is not None}}
    for (name, value), more in beside.items():
        if options.get(name) == value:
            options |= more
    while True:
        try:
            load(json.dumps(options), kind="json", environment={}, read_file=str)
        except SettingsError as error:
            dropped = _refused(error, options, fixed)
            options = {
                name: value
                for name, value in options.items()
                if name != dropped and (not name.startswith(f"{dropped}.") or name in fixed)
            }
        else:
            return options


def _refused(error: SettingsError, options: Mapping[str, str], fixed: Mapping[str, str]) -> str:
    """What to leave out: an option that is named, else the last that may go."""
    named = (problem.option for problem in error.problems)
    may_go = [name for name in options if name not in fixed]
    found = next((name for name in named if name in may_go), None)
    if found is None and not may_go:
        raise error
    return may_go[-1] if found is None else found


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    """What is not the same, by name; None for what is gone."""
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return {name: after.get(name) for name in names}
