"""The laws, as they are about ingested objects."""

from collections import Counter
from collections.abc import Iterator

from tests.simulation.laws import Finding, sanity
from tests.simulation.scenario import Scenario
from tests.simulation.source_run import SourceOutcome, rows_of_object


def judge_source(scenario: Scenario, outcome: SourceOutcome) -> list[Finding]:
    """All that is against a law."""
    found = list(sanity(outcome))
    found += [Finding("last step last", sentence) for sentence in outcome.too_early]
    found += _once(scenario, outcome)
    found += _order(scenario, outcome)
    return found


def _is_wanted(scenario: Scenario, key: str) -> bool:
    return key.startswith(scenario.options.get("aws.s3.prefix", ""))


def _once(scenario: Scenario, outcome: SourceOutcome) -> Iterator[Finding]:
    """Every row of every object that was there is in Kafka once, and no other."""
    is_exact = scenario.options.get("exactly.once.support") != "disabled"
    seen = Counter(record.value for partition in outcome.records for record in partition)
    known: Counter[bytes] = Counter()
    for given in scenario.records:
        known.update(rows_of_object(given)[0])
    for value, count in seen.items():
        if value is None or value not in known:
            yield Finding("once", f"{value!r} is in Kafka, and in no object")
        elif is_exact and count > known[value]:
            yield Finding("once", f"{value!r} is in Kafka {count} times")
    if outcome.ending != "exit 0":
        return
    bad = 0
    for number in outcome.whole:
        given = scenario.records[number]
        if not _is_wanted(scenario, given.topic):
            continue
        good, faulty = rows_of_object(given)
        bad += faulty
        missing = [row for row in good if row not in seen]
        if missing:
            yield Finding("once", f"{given.topic}: {len(missing)} of {len(good)} rows are not in Kafka")
    if (
        "errors.deadletterqueue.topic.name" in scenario.options
        and is_exact
        and scenario.options.get("errors.tolerance") == "all"
        and len(outcome.letters) < bad
    ):
        yield Finding("once", f"{len(outcome.letters)} dead letters of {bad} bad rows")


def _order(scenario: Scenario, outcome: SourceOutcome) -> Iterator[Finding]:
    """Rows of one object keep their order in each partition, unless they need not."""
    if (
        scenario.options.get("ordering") == "none"
        or scenario.options.get("exactly.once.support") == "disabled"
    ):
        return
    places = {
        row: (number, place)
        for number, given in enumerate(scenario.records)
        for place, row in enumerate(rows_of_object(given)[0])
    }
    for partition in outcome.records:
        last: dict[int, int] = {}
        for record in partition:
            if record.value is None or record.value not in places:
                continue
            number, place = places[record.value]
            if place < last.get(number, -1):
                yield Finding("once", f"rows of {scenario.records[number].topic} are out of their order")
                return
            last[number] = place
