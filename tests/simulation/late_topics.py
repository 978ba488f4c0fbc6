"""Topics that a sink reads by a pattern, some of which are made while it runs, or while it does not.

Where a topic begins that was never read is `auto.offset.reset`; but what appears later is read from its first
record, as there is no old one in it: with `latest` too nothing of it may be left out.
"""

import random
from collections.abc import Iterator, Mapping
from typing import Final

from tests.simulation.apart import LEADERLESS, OWN_FROM
from tests.simulation.scenario import Given, Scenario, Step
from tests.simulation.sink_records import JSON

TOPIC_MADE: Final = "topic made"
PATTERN: Final = "topics.regex"
RESET: Final = "consumer.override.auto.offset.reset"
_SHARE: Final = 0.06
_FAULTS: Final = ("kill", "kill", "stop", "kill worker", "broker away", "pause leader", "grow", "grow")


def late_scenario(seed: int, fixed: Mapping[str, str]) -> Scenario | None:
    """In some scenarios of the sink there is nothing else; None in all others."""
    rng = random.Random(f"late-topics-{seed}")
    if seed < OWN_FROM or rng.random() >= _SHARE:
        return None
    options = {
        **fixed,
        PATTERN: rng.choice(("events.*", "events.*", ".*")),
        RESET: rng.choice(("latest", "latest", "latest", "earliest")),
        "output.format": "jsonl",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        "file.name.template": "all/{{topic}}/{{partition}}-{{start_offset}}",
        "rotate.records": rng.choice(("1", "2", "3")),
    }
    more = {"tasks.max": rng.choice(("1", "3")), "rotate.age.ms": "2000", "rotate.on.stop": "false"}
    options |= {name: value for name, value in more.items() if rng.random() < 0.4}
    topics = {f"events{number}": rng.choice((1, 1, 2)) for number in range(rng.choice((2, 3, 4)))}
    late = rng.sample(list(topics), rng.randint(1, len(topics)))
    first = [name for name in topics if name not in late]
    records: list[Given] = []
    steps = tuple(_steps(rng, topics, first, late, records))
    return Scenario(
        seed=seed, direction="sink", options=options, topics=topics, records=tuple(records), steps=steps
    )


def _steps(
    rng: random.Random, topics: Mapping[str, int], there: list[str], late: list[str], records: list[Given]
) -> Iterator[Step]:
    """Topics come one after the other, and records with them or soon after; processes end in between."""
    grown = dict(topics)
    if there and rng.random() < 0.6:
        yield from _records(rng, grown, there, records)
    yield Step(0.0, "start", {})
    if there and rng.random() < 0.5:
        yield from _records(rng, grown, there, records)
    for name in late:
        if rng.random() < 0.6:
            yield from _fault(rng, grown, there)
        if rng.random() < 0.2:
            yield Step(0.0, "stop", {})
        yield Step(rng.choice((0.0, 1.0, 6.0, 40.0)), TOPIC_MADE, {"topic": name, "partitions": topics[name]})
        there.append(name)
        if rng.random() < 0.8:
            yield from _records(rng, grown, [name], records)
        if rng.random() < 0.4:
            yield from _fault(rng, grown, there)
        yield Step(0.0, "start", {})
        yield from _records(rng, grown, there, records)
    yield Step(rng.choice((0.0, 40.0, 80.0)), "wait", {})
    yield from _records(rng, grown, there, records)


def _records(
    rng: random.Random, grown: Mapping[str, int], names: list[str], records: list[Given]
) -> Iterator[Step]:
    begin = len(records)
    for number in range(begin, begin + rng.choice((1, 2, 4))):
        name = rng.choice(names)
        place = rng.randrange(grown[name])
        records.append(Given(name, place, None, b'{"n":%d}' % number, 1_700_000_000_000 + number))
    given = {"begin": begin, "end": len(records), "how": "plain"}
    yield Step(rng.choice((0.0, 0.05, 1.0)), "produce", given)


def _fault(rng: random.Random, grown: dict[str, int], there: list[str]) -> Iterator[Step]:
    after, fault = rng.choice((0.1, 1.0, 8.0)), rng.choice(_FAULTS)
    if fault == "grow":
        if there:
            name = rng.choice(there)
            grown[name] += 1
            yield Step(after, "grow", {"topic": name})
    elif fault in ("broker away", "pause leader"):
        # So short that it keeps the lead: who takes it anew takes what is there for old.
        yield Step(after, fault, {"seconds": rng.choice((1.0, 3.0))})
    else:
        yield Step(after, fault, {})
        if fault in ("kill", "stop"):
            yield Step(rng.choice((0.1, 2.0, 12.0)), "start", {})
    if there and rng.random() < 0.2:
        given = {"topic": rng.choice(there), "seconds": rng.choice((1.0, 8.0, 40.0))}
        yield Step(rng.choice((0.0, 0.5)), LEADERLESS, given)


def has_late_topics(scenario: Scenario) -> bool:
    """Whether topics are read by a pattern."""
    return PATTERN in scenario.options
