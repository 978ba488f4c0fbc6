"""The bucket's rules that move objects to colder storage classes: what is asked for, and ours. Pure."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ingest.checks.findings.upload_lifecycle import Rule

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
_ID: Final = "headrace-transitions:"
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
    name = f"{_ID}{prefix}"[:_MAX_ID]
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
