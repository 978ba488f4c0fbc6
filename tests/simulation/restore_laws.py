"""The laws, as they are about restores."""

from collections import Counter
from collections.abc import Iterator, Mapping

from tests.simulation.laws import Finding, sanity
from tests.simulation.listing_order import is_in_order
from tests.simulation.restore_run import RestoreOutcome, is_beside, number_of, numbered
from tests.simulation.scenario import Scenario
from tests.simulation.unsound_laws import judge_unsound
from tests.simulation.unsound_values import ARCHIVED_AS


def judge_restore(scenario: Scenario, outcome: RestoreOutcome) -> list[Finding]:
    """All that is against a law."""
    if ARCHIVED_AS in scenario.options:
        return judge_unsound(scenario, outcome)
    found = list(sanity(outcome))
    found += [Finding("last step last", sentence) for sentence in outcome.too_early]
    found += _once(scenario, outcome)
    found += _order(scenario, outcome)
    return found


def _order(scenario: Scenario, outcome: RestoreOutcome) -> Iterator[Finding]:
    """Records of a partition come in the order in which they were archived, whatever zeros names have."""
    for partition, records in enumerate(outcome.restored if is_in_order(scenario) else ()):
        numbers = [number_of(record, scenario) for record in records]
        if numbers != sorted(one for one in numbers if one is not None):
            yield Finding("order", f"records of partition {partition} are restored as {numbers}")


def is_marked(scenario: Scenario) -> bool:
    """Whether an operator has said of some objects that they are not to be read."""
    return any(step.act == "mark" or step.given.get("change") == "done" for step in scenario.steps)


def again(outcome: RestoreOutcome, seen: Mapping[int, int]) -> Iterator[Finding]:
    """What a stopped connector was to read again is in Kafka once more."""
    for key in sorted(outcome.again):
        missing = [number for number in outcome.archive.get(key, ()) if seen.get(number) == 1]
        if missing and not is_beside(key):
            yield Finding("once", f"{key} was to be read again, and records {missing} are in Kafka once")


def _once(scenario: Scenario, outcome: RestoreOutcome) -> Iterator[Finding]:
    """Every record of the archive is in Kafka once, in its partition, or the end says that it is not."""
    is_exact = scenario.options.get("exactly.once.support") != "disabled"
    seen: Counter[int] = Counter()
    meant = numbered(scenario)
    for partition, records in enumerate(outcome.restored):
        for record in records:
            number = number_of(record, scenario)
            if number is None or number not in meant:
                yield Finding("once", f"{record.key!r}: {record.value!r} is restored, and was never archived")
                continue
            seen[number] += 1
            given = meant[number]
            if given.partition != partition:
                yield Finding("once", f"record {number} is in partition {partition}")
            if record.key is not None and record.key != given.key:
                yield Finding("once", f"record {number} has the key {record.key!r}")
    for number, count in seen.items():
        if count > 1 + outcome.repeats and is_exact:
            yield Finding("once", f"record {number} is restored {count} times")
    if outcome.ending != "exit 0" or not outcome.arrived or is_marked(scenario):
        return
    yield from again(outcome, seen)
    archived = {number for numbers in outcome.archive.values() for number in numbers}
    changes = [step.given.get("options", {}) for step in scenario.steps]
    ignores = "ignore" in (one.get("restore.tombstones") for one in (scenario.options, *changes))
    missing = [
        number
        for number in sorted(archived)
        if number not in seen and not (ignores and meant[number].value is None)
    ]
    if missing:
        yield Finding(
            "once", f"records {missing} are in the archive and not in Kafka, and the restore ended well"
        )
