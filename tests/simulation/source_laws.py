"""The laws, as they are about ingested objects."""

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Final

from tests.simulation.laws import Finding, sanity
from tests.simulation.scenario import Scenario
from tests.simulation.source_run import Row, SourceOutcome, row_of, rows_of_object

# A row with more text does not fit in a topic with a limit.
_LARGE: Final = 500


def judge_source(scenario: Scenario, outcome: SourceOutcome) -> list[Finding]:
    """All that is against a law."""
    found = list(sanity(outcome))
    if not _is_misread(scenario):
        found += [Finding("last step last", sentence) for sentence in outcome.too_early]
    found += _once(scenario, outcome)
    found += _order(scenario, outcome)
    return found


def _is_wanted(scenario: Scenario, key: str) -> bool:
    return key.startswith(scenario.options.get("aws.s3.prefix", ""))


def _once(scenario: Scenario, outcome: SourceOutcome) -> Iterator[Finding]:
    """Every row of every object that was there is in Kafka once, and no other."""
    is_exact = scenario.options.get("exactly.once.support") != "disabled"
    seen: Counter[Row] = Counter()
    known: Counter[Row] = Counter()
    for given in scenario.records:
        known.update(rows_of_object(given)[0])
    for record in itertools.chain.from_iterable(outcome.records):
        row = row_of(record.value)
        if row is None or row not in known:
            yield Finding("once", f"{record.value!r} is in Kafka, and in no object")
        else:
            seen[row] += 1
    for row, count in seen.items():
        if is_exact and count > known[row] * (1 + outcome.repeats):
            yield Finding("once", f"row {row[0]} is in Kafka {count} times")
    if outcome.ending == "exit 0":
        yield from _all_there(scenario, outcome, seen)


def _all_there(scenario: Scenario, outcome: SourceOutcome, seen: Counter[Row]) -> Iterator[Finding]:
    """What was not replaced, deleted or marked is in Kafka, or has its dead letters."""
    acts = {step.act for step in scenario.steps}
    is_exact = scenario.options.get("exactly.once.support") != "disabled"
    bad = 0
    for number in outcome.whole:
        given = scenario.records[number]
        if not _is_wanted(scenario, given.topic):
            continue
        good, faulty = rows_of_object(given)
        bad += faulty
        missing = [row for row in good if row not in seen and not ("limit" in acts and len(row[1]) > _LARGE)]
        if missing and "mark" not in acts and not _is_misread(scenario):
            yield Finding("once", f"{given.topic}: {len(missing)} of {len(good)} rows are not in Kafka")
    if (
        "errors.deadletterqueue.topic.name" in scenario.options
        and is_exact
        and scenario.options.get("errors.tolerance") == "all"
        and len(outcome.letters) < bad
        and not acts & {"mark", "change", "limit"}
        and scenario.options.get("input.format") == "jsonl"
    ):
        yield Finding("once", f"{len(outcome.letters)} dead letters of {bad} bad rows")


def _is_misread(scenario: Scenario) -> bool:
    """Whether rows may be bad because the operator has given another format to objects that were there."""
    return scenario.options.get("errors.tolerance") == "all" and any(
        "input.format" in step.given.get("options", ()) for step in scenario.steps
    )


def _order(scenario: Scenario, outcome: SourceOutcome) -> Iterator[Finding]:
    """Rows of one object keep their order in each partition, unless they need not."""
    if (
        scenario.options.get("ordering") == "none"
        or outcome.repeats
        or any("ordering" in step.given.get("options", ()) for step in scenario.steps)
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
            row = row_of(record.value)
            if row is None or row not in places:
                continue
            number, place = places[row]
            if place < last.get(number, -1):
                yield Finding("once", f"rows of {scenario.records[number].topic} are out of their order")
                return
            last[number] = place
