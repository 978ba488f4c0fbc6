"""The laws, as they are about connectors that take turns at the cores of one process."""

from collections.abc import Iterator

from tests.simulation.laws import Finding, sanity
from tests.simulation.scenario import Scenario
from tests.simulation.turns_run import TurnsOutcome

_SHOWN = 3


def judge_turns(_scenario: Scenario, outcome: TurnsOutcome) -> list[Finding]:
    """All that is against a law."""
    found = [*sanity(outcome), *_once(outcome)]
    found += [Finding("in time", sentence) for sentence in outcome.late[:_SHOWN]]
    found += [Finding("no work, no core", sentence) for sentence in outcome.busy]
    found += [Finding("forward, or said", sentence) for sentence in outcome.unsaid]
    return found


def _once(outcome: TurnsOutcome) -> Iterator[Finding]:
    """Every record that a reader gets is in exactly one object, and every row of an object in Kafka once."""
    for place, times in outcome.archived.items():
        if times > 1:
            yield Finding("once", f"{place} is archived {times} times")
        if place not in outcome.expected | outcome.earlier:
            yield Finding("once", f"{place} is archived, and no reader gets it")
    for place in sorted((outcome.expected | outcome.read) - outcome.archived.keys())[:_SHOWN]:
        what = "of a deleted topic, was read, and " if place in outcome.read else ""
        yield Finding("once", f"{place}, {what}is not archived")
    for row, times in outcome.rows.items():
        if times > 1 or row not in outcome.wanted:
            yield Finding("once", f"row {row} is in Kafka {times} times")
    if missing := sorted(outcome.wanted - outcome.rows.keys()):
        yield Finding("once", f"rows are not in Kafka: {missing[:_SHOWN]}")
