"""The laws, as they are about restores of other vendors' layouts."""

from collections import Counter
from collections.abc import Iterator, Mapping

from tests.simulation.archives_generator import sink_part
from tests.simulation.archives_run import difference_of, number_of, numbered
from tests.simulation.broker import Record
from tests.simulation.first_rows import is_first_row
from tests.simulation.laws import Finding, sanity
from tests.simulation.layouts_rows import name_of
from tests.simulation.restore_laws import again, is_marked
from tests.simulation.restore_run import RestoreOutcome
from tests.simulation.scenario import Scenario


def judge_archives(scenario: Scenario, outcome: RestoreOutcome) -> list[Finding]:
    """All that is against a law."""
    found = list(sanity(outcome))
    found += [Finding("last step last", sentence) for sentence in outcome.too_early]
    found += _once(scenario, outcome)
    found += _order(scenario, outcome)
    return found


def _once(scenario: Scenario, outcome: RestoreOutcome) -> Iterator[Finding]:
    """Every record of the archive is in Kafka once, in its partition, or the end says that it is not."""
    is_exact = scenario.options.get("exactly.once.support") != "disabled"
    has_partition = scenario.options.get("restore.partition") != "partitioner"
    seen: Counter[int] = Counter()
    meant = numbered(scenario)
    for partition, records in enumerate(outcome.restored):
        for record in (one for one in records if not _is_of_none(one, scenario)):
            number = number_of(record)
            given = None if number is None else meant.get(number)
            if number is None or given is None:
                yield Finding("once", f"{record.key!r}: {record.value!r} is restored, and was never archived")
                continue
            seen[number] += 1
            if given.partition != partition and has_partition:
                yield Finding("once", f"record {number} is in partition {partition}")
            # Without what is next to it a value has neither key nor headers, which is said.
            is_joined = record.key is not None or not _has_sides(scenario)
            sides = frozenset({"keys"}) if is_joined else frozenset()
            difference = difference_of(record, given, scenario, has_sides=sides)
            if difference is not None:
                yield Finding("layout", f"record {number} is restored with another {difference}")
    for number, count in seen.items():
        if count > 1 + outcome.repeats and is_exact:
            yield Finding("once", f"record {number} is restored {count} times")
    if outcome.ending == "exit 0" and outcome.arrived and not is_marked(scenario):
        yield from _missing(scenario, outcome, seen)
        yield from again(outcome, seen)


def _is_of_none(record: Record, scenario: Scenario) -> bool:
    """Whether a restored record is none of the archive's, or shows not which."""
    return _is_nameless(record, scenario) or is_first_row(record.value, scenario.options)


def _is_nameless(record: Record, scenario: Scenario) -> bool:
    """A row of null that is restored without its keys shows nothing of which one it is."""
    return record.key is None and record.value is None and _has_sides(scenario)


def _missing(scenario: Scenario, outcome: RestoreOutcome, seen: Mapping[int, int]) -> Iterator[Finding]:
    meant = numbered(scenario)
    nameless = sum(_is_nameless(record, scenario) for records in outcome.restored for record in records)
    ignores = scenario.options.get("restore.tombstones") == "ignore"
    archived = {number for numbers in outcome.archive.values() for number in numbers}
    missing = [
        number
        for number in sorted(archived)
        if number not in seen and not (ignores and number in meant and meant[number].value is None)
    ]
    nulls = sum(number in meant and meant[number].value is None for number in missing)
    if len(missing) > min(nulls, nameless):
        yield Finding(
            "once", f"records {missing} are in the archive and not in Kafka, and the restore ended well"
        )


def _has_sides(scenario: Scenario) -> bool:
    return bool(sink_part(scenario.options).get("sidecars"))


def _order(scenario: Scenario, outcome: RestoreOutcome) -> Iterator[Finding]:
    """Rows of an object are in its order, and objects in that of the layout where all were known."""
    if scenario.options.get("exactly.once.support") == "disabled" or outcome.repeats:
        return
    places = _places(outcome)
    is_mixed = scenario.options.get("restore.partition") == "partitioner"
    for what, numbers in _runs(scenario, outcome, places):
        shown = [places[number] for number in numbers if number in places]
        by_partition: dict[int, list[int]] = {}
        for partition, place in shown:
            by_partition.setdefault(partition, []).append(place)
        if any(own != sorted(own) for own in by_partition.values()):
            yield Finding("order", f"{what}: records {numbers} are restored in another order")
        if len(by_partition) > 1 and not is_mixed:
            yield Finding("order", f"{what}: its records are in several partitions")


def _places(outcome: RestoreOutcome) -> dict[int, tuple[int, int]]:
    """By number, the partition and the place of what was restored first."""
    found: dict[int, tuple[int, int]] = {}
    for partition, records in enumerate(outcome.restored):
        for place, record in enumerate(records):
            number = number_of(record)
            if number is not None:
                found.setdefault(number, (partition, place))
    return found


def _runs(
    scenario: Scenario, outcome: RestoreOutcome, places: Mapping[int, tuple[int, int]]
) -> Iterator[tuple[str, list[int]]]:
    """What has an order: objects, and partitions where all of their objects were known before the first."""
    for key, numbers in outcome.archive.items():
        if not is_side(scenario, key):
            yield key, numbers
    if not _knows_all(scenario):
        return
    partitions: dict[int, list[int]] = {}
    for number, given in sorted(numbered(scenario).items()):
        if number in places:
            partitions.setdefault(given.partition, []).append(number)
    yield from ((f"partition {partition}", numbers) for partition, numbers in partitions.items())


def is_side(scenario: Scenario, key: str) -> bool:
    """Whether an object is one of keys, whose rows are those of another or tombstones."""
    name = name_of(sink_part(scenario.options)["output.layout"], key)
    return name is not None and name.side != ""


def _knows_all(scenario: Scenario) -> bool:
    """Whether every object was there before the first listing, in an order that names show."""
    options, sink = scenario.options, sink_part(scenario.options)
    first = next((step for step in scenario.steps if step.act in ("start", "arrive")), None)
    is_spread = "value:" in sink.get("file.name.template", "") or "timestamp" in sink.get(
        "file.name.template", ""
    )
    return (
        first is not None
        and first.act == "arrive"
        and first.given["of"] == 1
        and options.get("ordering") in (None, "partition")
        and "sqs.queue.url" not in options
        and not is_spread
        and options.get("restore.tombstones") != "after"
        and options.get("input.layout") != "auto"
    )
