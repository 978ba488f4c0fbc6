"""Nulls of a sink whose names show schemas: they have none, so that they close no object and are taken.

Which schema a null comes with depends on what was fetched with it, and so it must not be told by objects.
"""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Final

from tests.simulation.archive_rows import Row
from tests.simulation.laws import Finding
from tests.simulation.scenario import Given, Scenario
from tests.simulation.schemas import schema_of
from tests.simulation.sink_records import FRAMED, meaning_of_value
from tests.simulation.sink_run import Outcome, Place

_SHOWS: Final = "{{schema_name}}"
_CLOSING: Final = frozenset({"rotate.records", "rotate.on.stop"})
"""What closes an object in the law below: its limit, and the end."""


def refused_nulls(
    scenario: Scenario, places: list[Place], expected: Mapping[Place, Given]
) -> Iterator[Finding]:
    """Which tombstones are dead letters, where nothing of a record but its value can be refused."""
    if _shows_schemas(scenario):
        for place in sorted(places):
            if place in expected and expected[place].value is None:
                yield Finding("alone", f"the tombstone {place} is a dead letter")


def closed_by_nulls(scenario: Scenario, calm: Outcome) -> Iterator[Finding]:
    """Objects of an undisturbed run that have closed before a null, though they had room for it."""
    options = scenario.options
    limits = {name for name in options if name.startswith("rotate.")} - _CLOSING
    if not _shows_schemas(scenario) or limits or "max.open.files" in options or calm.ending != "exit 0":
        return
    most = int(options.get("rotate.records", "0"))
    for rows in _by_group(calm.rows):
        objects = [list(found) for _, found in groupby(rows, lambda row: row.key)]
        for number, one in enumerate(objects[:-1]):
            place = _place(objects[number + 1][0])
            if len(one) == most or place not in calm.expected or not _is_null(calm.expected[place], options):
                continue
            # What follows the null would close it, and may be what the null was read with.
            before = _schemas(one, calm.expected, options)
            after = _schemas([row for rest in objects[number + 1 :] for row in rest], calm.expected, options)
            if not after or before[-1:] == after[:1]:
                what = f"has {len(one)} records, and closed before the null {place}"
                yield Finding("alone", f"{one[0].key} {what}")


def _place(row: Row) -> Place:
    return row.topic, row.partition, row.offset


def _schemas(rows: list[Row], expected: Mapping[Place, Given], options: Mapping[str, str]) -> list[int]:
    """The schemas of those that are no nulls."""
    given = (expected[_place(row)] for row in rows if _place(row) in expected)
    return [schema_of(one.value) for one in given if one.value is not None and not _is_null(one, options)]


def _by_group(rows: list[Row]) -> Iterator[list[Row]]:
    """The rows of each group of a partition, by offset."""

    def group(row: Row) -> tuple[str, int, str]:
        return row.topic, row.partition, row.key.rpartition(f"/{row.topic}/")[0]

    for _, found in groupby(sorted(rows, key=lambda row: (*group(row), row.offset)), group):
        yield list(found)


def _shows_schemas(scenario: Scenario) -> bool:
    options = scenario.options
    has_schemas = options.get("value.converter") in FRAMED and _SHOWS in options.get("file.name.template", "")
    is_changed = any("options" in step.given for step in scenario.steps)
    # In other vendors' layouts a null may have no row.
    is_own = scenario.direction == "sink"
    return is_own and has_schemas and "transforms" not in options and not is_changed


def _is_null(given: Given, options: Mapping[str, str]) -> bool:
    return given.value is None or meaning_of_value(given.value, options) is None
