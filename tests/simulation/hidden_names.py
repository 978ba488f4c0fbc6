"""Names that another program has taken, of which S3 tells nothing for minutes, next to a backlog of records.

A HEAD is a 403 there: which object has the name is not known, so that what is to have it waits.
"""

import random
from collections.abc import Iterator, Mapping
from typing import Final

from tests.simulation.apart import OWN_FROM
from tests.simulation.scenario import Given, Scenario, Step
from tests.simulation.sink_records import JSON

HIDDEN: Final = "name hidden"
LOOKED_HIDDEN: Final = "looked at while hidden"
_SHARE: Final = 0.05
LOOK_AFTER: Final = 60.0
"""Seconds after the last records."""
_FAULTS: Final = ("kill", "kill worker", "stop")


def hidden_scenario(seed: int, fixed: Mapping[str, str]) -> Scenario | None:
    """In some scenarios of the sink there is nothing else; None in all others."""
    rng = random.Random(f"hidden-names-{seed}")
    if seed < OWN_FROM or rng.random() >= _SHARE:
        return None
    options = {
        **fixed,
        "topics": "events0",
        "output.format": rng.choice(("jsonl", "avro", "parquet")),
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        "file.name.template": "all/{{topic}}/{{partition}}-{{start_offset}}",
        "file.name.unique": "assumed",
        "rotate.records": rng.choice(("1", "2", "3")),
        "rotate.age.ms": "2000",
    }
    more = {"tasks.max": rng.choice(("1", "3")), "job.linger.ms": "0", "rotate.on.stop": "false"}
    options |= {name: value for name, value in more.items() if rng.random() < 0.4}
    partitions = rng.choice((1, 2, 3))
    records = tuple(
        Given("events0", rng.randrange(partitions), None, b'{"n":%d}' % number, 1_700_000_000_000 + number)
        for number in range(rng.choice((8, 14, 24)))
    )
    return Scenario(
        seed=seed,
        direction="sink",
        options=options,
        topics={"events0": partitions},
        records=records,
        steps=tuple(_steps(rng, len(records))),
    )


def _steps(rng: random.Random, count: int) -> Iterator[Step]:
    """Some names are hidden as objects are about to have them; more records come, and processes end."""
    yield Step(0.0, "start", {})
    done = 0
    while done < count:
        end = min(count, done + rng.choice((2, 4, 9)))
        yield Step(rng.choice((0.0, 0.3, 3.0)), "produce", {"begin": done, "end": end, "how": "plain"})
        done = end
        if rng.random() < 0.6:
            yield Step(rng.choice((0.0, 0.02, 0.1)), HIDDEN, {"seconds": rng.choice((150.0, 400.0))})
        if rng.random() < 0.3:
            fault = rng.choice(_FAULTS)
            yield Step(rng.choice((0.1, 1.0, 6.0)), fault, {})
            if fault != "kill worker":
                yield Step(rng.choice((0.1, 2.0)), "start", {})
    yield Step(LOOK_AFTER, LOOKED_HIDDEN, {})
    yield Step(rng.choice((1.0, 200.0)), "wait", {})
