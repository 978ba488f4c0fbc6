"""Runs a scenario of a restore of another vendor's layout: our sink makes the archive that comes back."""

from collections.abc import Mapping
from typing import Final

from tests.simulation.archives_generator import ARCHIVED, sink_part
from tests.simulation.broker import Record
from tests.simulation.course import run_course
from tests.simulation.environment import Environment, environment
from tests.simulation.layouts_parts import difference_in_restored
from tests.simulation.layouts_records import number_in, number_in_key, number_of_given
from tests.simulation.layouts_restore import Restored
from tests.simulation.layouts_rows import looks, name_of, side_rows
from tests.simulation.restore_run import RestoreCourse, RestoreOutcome
from tests.simulation.scenario import Given, Scenario

_OWN_HEADERS = "headrace."


def run_archives(scenario: Scenario) -> RestoreOutcome:
    """Make the archive, and restore it while things go wrong."""
    outcome = RestoreOutcome()
    with environment(scenario.seed) as made:
        run_course(made, _ArchivesCourse(made, scenario, outcome))
    return outcome


def numbered(scenario: Scenario) -> dict[int, Given]:
    """The records of a scenario by their numbers, which stay when others are left out."""
    sink = sink_part(scenario.options)
    found = ((number_of_given(one, sink), one) for one in scenario.records)
    return {number: one for number, one in found if number is not None}


def number_of(record: Record) -> int | None:
    """Which record of the archive a restored one is."""
    return number_in_key(record.key) if record.value is None else number_in(record.value)


def difference_of(
    record: Record, given: Given, scenario: Scenario, *, has_sides: frozenset[str]
) -> str | None:
    """How a restored record is another one; `has_sides` are the objects next to values that are joined."""
    headers = tuple(one for one in record.headers if not one[0].startswith(_OWN_HEADERS))
    restored = Restored(record.key, record.value, headers, record.timestamp_ms)
    # The offset that it had: what our sink was told to insert is none of this.
    place = (ARCHIVED, given.partition, -1)
    is_produced = scenario.options.get("restore.timestamp") == "produce"
    return difference_in_restored(
        restored, (place, given), sink_part(scenario.options), has_sides=has_sides, has_times=not is_produced
    )


SIDES = frozenset({"keys", "headers"})
_WAIT_SECONDS: Final = 3.0
"""`restore.sidecars.wait.ms` of all scenarios."""


class _ArchivesCourse(RestoreCourse):
    """An archive of any layout."""

    archived = ARCHIVED

    def __init__(self, made: Environment, scenario: Scenario, outcome: RestoreOutcome) -> None:
        self._meant = numbered(scenario)
        super().__init__(made, scenario, outcome)

    def sink_options(self) -> dict[str, str]:
        """See RestoreCourse."""
        return sink_part(self.scenario.options)

    def numbers(self, objects: Mapping[str, bytes]) -> dict[str, list[int]]:
        """See RestoreCourse. Headers are those of the rows next to them."""
        sink, found = self.sink_options(), {}
        keys: dict[str, list[int]] = {}
        for key, body in objects.items():
            name = name_of(sink["output.layout"], key)
            assert name is not None, f"{key} is no name of the layout"
            if name.side == "headers":
                continue
            if name.side == "keys":
                separator = sink.get("output.separator", "\\n").replace("\\n", "\n")
                form = sink.get("sidecars.keys.format", "avro")
                numbers = [number_in_key(one) for one in side_rows(name, body, form, separator)]
                keys[key.partition(".keys")[0]] = [one for one in numbers if one is not None]
            else:
                numbers = [look.number for look in looks(body, sink)]
            found[key] = [one for one in numbers if one is not None]
        for key, numbers_of_keys in keys.items():
            for other in objects:
                # What a null in a value is, its key says.
                if (
                    other.startswith(f"{key}.")
                    and other in found
                    and len(found[other]) < len(numbers_of_keys)
                ):
                    found[other] = numbers_of_keys
        return found

    def there(self, key: str) -> set[int]:
        """See RestoreCourse. Headers are not missed where none had come with the object, or before it."""
        came = self.came.get(key, 0.0)
        has_headers = any(".headers." in other and at <= came for other, at in self.told.items())
        sides = SIDES if has_headers else frozenset({"keys"})
        found = set()
        for record in self.committed():
            number = number_of(record)
            given = None if number is None else self._meant.get(number)
            if number is None or given is None:
                continue
            if difference_of(record, given, self.scenario, has_sides=sides) is None:
                found.add(number)
        return found

    def shows_no_keys(self, key: str, *, is_told: bool = False) -> bool:
        """See RestoreCourse; only one layout has keys in objects of their own."""
        if "keys" not in self.sink_options().get("sidecars", ""):
            return False
        # Headers that came in the time of a wait show a topic that has them alone, to `required` as well.
        until = self.came.get(key, 0.0) + _WAIT_SECONDS
        if any(step.act == "replay" for step in self.scenario.steps):
            # It waits once more, from then on.
            until = self.made.kernel.now
        has_headers = any(".headers." in other and at <= until for other, at in self.came.items())
        return super().shows_no_keys(key, is_told=is_told or has_headers)
