"""The bucket's own rules: those that end unfinished uploads, those that move objects. Pure.

A sink that is killed leaves uploads that are never completed; their parts cost as objects do, until a rule of
the bucket's lifecycle ends them. One that is too short ends uploads that are still wanted: those that wait
for their completion, and those of objects that stay open for long.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Rule = Mapping[str, Any]

MINIMUM_DAYS: Final = 3
OUR_DAYS: Final = 7
_ACTION: Final = "AbortIncompleteMultipartUpload"
_ID: Final = "headrace-unfinished-uploads"
_MAX_RULES: Final = 1000


class TooManyRules(ValueError):
    """The bucket has as many rules as S3 takes."""


def days_to_expiry(rules: Sequence[Rule], prefix: str) -> int | None:
    """After how many days unfinished uploads of all keys with this prefix end; None: some never do."""
    days = [_days(rule) for rule in _enabled(rules) if prefix.startswith(_prefix(rule))]
    return min(days, default=None)


def shortest_days(rules: Sequence[Rule], prefix: str) -> int | None:
    """The fewest days after which an unfinished upload of some key with this prefix ends; None: none does."""
    days = [
        _days(rule)
        for rule in _enabled(rules)
        if prefix.startswith(_prefix(rule)) or _prefix(rule).startswith(prefix)
    ]
    return min(days, default=None)


def with_our_rule(rules: Sequence[Rule], prefix: str) -> list[Rule] | None:
    """The rules with one for this prefix next to them, or None when one is there already."""
    if days_to_expiry(rules, prefix) is not None:
        return None
    if len(rules) >= _MAX_RULES:
        raise TooManyRules
    taken = {rule.get("ID") for rule in rules}
    names = (f"{_ID}-{number}" if number else _ID for number in range(_MAX_RULES + 1))
    ours = {
        "ID": next(name for name in names if name not in taken),
        "Status": "Enabled",
        "Filter": {"Prefix": prefix},
        _ACTION: {"DaysAfterInitiation": OUR_DAYS},
    }
    return [*rules, ours]


def _enabled(rules: Sequence[Rule]) -> list[Rule]:
    return [rule for rule in rules if rule.get("Status") == "Enabled" and _ACTION in rule]


def _days(rule: Rule) -> int:
    return int(rule[_ACTION]["DaysAfterInitiation"])


def _prefix(rule: Rule) -> str:
    """The beginning of the keys that a rule is for; older rules have it outside of the filter."""
    found = rule.get("Filter", {})
    prefix = found.get("Prefix", found.get("And", {}).get("Prefix", rule.get("Prefix")))
    return "" if prefix is None else str(prefix)


# From warm to cold, the only way that S3 moves objects, and the age in days from which it does so.
_MINIMUM_DAYS: Final = {
    "STANDARD_IA": 30,
    "INTELLIGENT_TIERING": 0,
    "ONEZONE_IA": 30,
    "GLACIER_IR": 0,
    "GLACIER": 0,
    "DEEP_ARCHIVE": 0,
}
_ORDER: Final = tuple(_MINIMUM_DAYS)
_FORM: Final = re.compile(r"\s*(\d{1,5})\s*:\s*([A-Za-z_]+)\s*")
_TRANSITION_ID: Final = "headrace-transitions:"
_MAX_ID: Final = 255


class InvalidTransitions(ValueError):
    """S3 would not take these; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Transition:
    """Objects of this age in days move to this storage class."""

    days: int
    storage_class: str

    def __str__(self) -> str:
        return f"{self.storage_class} after {self.days} days"


def parse_transitions(text: str) -> tuple[Transition, ...]:
    """Those of a text such as `90:GLACIER,365:DEEP_ARCHIVE`. Raises InvalidTransitions."""
    found = tuple(_one(part) for part in text.split(","))
    for before, after in itertools.pairwise(found):
        if after.days <= before.days:
            raise InvalidTransitions(f"{after} does not come after {before}: put them in order of days")
        if _ORDER.index(after.storage_class) <= _ORDER.index(before.storage_class):
            raise InvalidTransitions(
                f"S3 moves no object from {before.storage_class} to {after.storage_class}, only along "
                + ", ".join(_ORDER)
            )
    return found


def with_our_transitions(
    rules: Sequence[Rule], prefix: str, wanted: Sequence[Transition]
) -> list[Rule] | None:
    """The rules with these transitions for the prefix, or None when they are there already.

    A rule that was put here for the prefix before is replaced, and no other.
    """
    name = f"{_TRANSITION_ID}{prefix}"[:_MAX_ID]
    ours = {
        "ID": name,
        "Status": "Enabled",
        "Filter": {"Prefix": prefix},
        "Transitions": [{"Days": each.days, "StorageClass": each.storage_class} for each in wanted],
    }
    return None if ours in rules else [*(rule for rule in rules if rule.get("ID") != name), ours]


def _one(text: str) -> Transition:
    match = _FORM.fullmatch(text)
    if match is None:
        raise InvalidTransitions(
            f"{text.strip()!r} is no DAYS:CLASS; write for example 90:GLACIER,365:DEEP_ARCHIVE"
        )
    days, storage_class = int(match[1]), match[2].upper()
    least = _MINIMUM_DAYS.get(storage_class)
    if least is None:
        raise InvalidTransitions(f"{match[2]} is no class to move to; known are {', '.join(_ORDER)}")
    if days < least:
        raise InvalidTransitions(f"S3 moves objects to {storage_class} after {least} days at the earliest")
    return Transition(days, storage_class)
