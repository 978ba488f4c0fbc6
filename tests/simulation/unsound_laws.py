"""The laws, as they are about restores of values that are no number, and of rows that have no value."""

from collections import Counter
from collections.abc import Iterator

from tests.simulation.laws import Finding, sanity
from tests.simulation.restore_run import RestoreOutcome
from tests.simulation.scenario import Scenario
from tests.simulation.unsound_values import NULL, is_bad, made_objects


def judge_unsound(scenario: Scenario, outcome: RestoreOutcome) -> list[Finding]:
    """All that is against a law."""
    return [*sanity(outcome), *_once(scenario, outcome), *_last_step_last(scenario, outcome)]


def _once(scenario: Scenario, outcome: RestoreOutcome) -> Iterator[Finding]:
    """A row with a value, or a null, is in Kafka once; any other is a dead letter and no record."""
    meant = {one.key: one for one in scenario.records}
    found = Counter(record.key for records in outcome.restored for record in records)
    for partition, records in enumerate(outcome.restored):
        for record in records:
            given = meant.get(record.key)
            value = None if given is None or given.value == NULL else given.value
            if given is None or record.value != value or given.partition != partition:
                what = f"{record.key!r}: {record.value!r} is restored in partition {partition}"
                yield Finding("once", f"{what}, and {given} was archived")
    repeated = sorted(key or b"" for key, count in found.items() if count > 1)
    if repeated:
        yield Finding("once", f"{repeated} are restored more than once")
    if outcome.ending != "exit 0" or not outcome.arrived:
        return
    if missing := sorted(key or b"" for key, one in meant.items() if key not in found and not is_bad(one)):
        yield Finding("once", f"{missing} are in the archive and not in Kafka, and the restore ended well")
    bad = sum(map(is_bad, scenario.records))
    if "errors.deadletterqueue.topic.name" in scenario.options and outcome.letters != bad:
        yield Finding("once", f"{bad} rows are bad records, and there are {outcome.letters} dead letters")


def _last_step_last(scenario: Scenario, outcome: RestoreOutcome) -> Iterator[Finding]:
    """An object with a bad row stays."""
    bad = {one.key for one in made_objects(scenario) if any(map(is_bad, one.records))}
    for _, what, name, by in outcome.history:
        if what == "deleted" and name.partition("/")[2] in bad:
            yield Finding("last step last", f"{name} has bad rows, and was deleted by {by}")
