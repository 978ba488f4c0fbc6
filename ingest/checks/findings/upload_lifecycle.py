"""The bucket's rules that end unfinished uploads: what they do to a sink's, and ours next to them. Pure.

A sink that is killed leaves uploads that are never completed; their parts cost as objects do, until a rule
of the bucket's lifecycle ends them. One that is too short ends uploads that are still wanted: those that
wait for their completion, and those of objects that stay open for long.
"""

from collections.abc import Mapping, Sequence
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
