"""Archives whose names do not sort, events before listings, and a bound that is full: what is drawn.

Of the first, objects have offsets without zeros up to a record, and with zeros from there on. Of the second,
events tell of all objects, and listings are refused for minutes. Of the third, S3 refuses one object for
minutes, and `max.pending.objects` is full: what waits for room, or for a listing that has none, is said.
"""

import random
from collections.abc import Iterator, Mapping
from typing import Final

from tests.simulation.apart import OWN_FROM
from tests.simulation.pairs import valid_options
from tests.simulation.scenario import Given, Scenario, Step

PADDED_FROM: Final = "archive.padded.from"
"""How many records are archived before names get zeros."""
FAILS: Final = "object fails"
SLOWLY: Final = "listed slowly"
LOOKED_FULL: Final = "looked at while full"
IN_ORDER: Final = "archive.in.order"
"""All of the archive is there at the start, and nothing bounds what is known."""
_KINDS: Final = {"padded": 0.05, "full": 0.1, "events": 0.15}
"""Each with the end of its share."""
_QUEUE: Final = "https://sqs.us-east-1.amazonaws.com/1/q"
_FAULTS: Final = ("kill", "kill worker", "stop")
_NO_ORDER: Final = {
    "sqs.queue.url": None,
    "exactly.once.support": None,
    "restore.tombstones": None,
    "archive.tombstones": None,
    "max.pending.objects": None,
    "archive.names": None,
    "object.min.age.ms": None,
}


def with_listing_order(scenario: Scenario, fixed: Mapping[str, str], topic: str) -> Scenario:
    """The scenario; some have names of two kinds instead, or events, or a bound that is full."""
    rng = random.Random(f"restore-listing-{scenario.seed}")
    if scenario.seed < OWN_FROM or (kind := _kind(rng.random())) is None:
        return scenario
    changed: dict[str, str | None] = {
        **_NO_ORDER,
        "ordering": rng.choice((None, "partition")),
        "archive.page": rng.choice("1235"),
        "archive.records": rng.choice("112"),
    }
    count = rng.choice((13, 16, 24))
    if kind == "padded" or rng.random() < 0.3:
        changed[PADDED_FROM] = str(rng.randrange(3, count - 2))
    if kind == "events":
        more = {"sqs.queue.url": _QUEUE, "sqs.max.held": rng.choice((None, "1", "2"))}
        changed |= {**more, "archive.names": rng.choice((None, "unpadded", "unpadded"))}
    if kind != "full":
        changed[IN_ORDER] = "yes"
    if kind == "full":
        changed["max.pending.objects"] = rng.choice("358")
        changed["archive.names"] = rng.choice((None, "unpadded", "unpadded"))
        changed["ordering"] = rng.choice((None, "partition", "object"))
    partitions = rng.choice((1, 2, 2))
    archive = {name: value for name, value in scenario.options.items() if name.startswith("archive.")}
    own = {name: value for name, value in scenario.options.items() if name not in archive}
    options = valid_options(
        {**own, **{name: value for name, value in changed.items() if not name.startswith("archive.")}},
        fixed,
        {},
    )
    archive |= {name: value for name, value in changed.items() if name.startswith("archive.") and value}
    left_out = {name for name, value in changed.items() if value is None}
    records = tuple(
        Given(
            topic,
            rng.randrange(partitions),
            b"k%d" % number,
            b'{"n":%d}' % number,
            1_700_000_000_000 + number,
        )
        for number in range(count)
    )
    return scenario.without(
        options={name: one for name, one in (options | archive).items() if name not in left_out},
        topics={topic: partitions},
        records=records,
        steps=tuple(_steps(rng, kind)),
    )


def _kind(drawn: float) -> str | None:
    for kind, end in _KINDS.items():
        if drawn < end:
            return kind
    return None


def _steps(rng: random.Random, kind: str) -> Iterator[Step]:
    """All of the archive is there at the start."""
    late = rng.choice((0.0, 3.0)) if kind == "events" else 0.0
    order = rng.choice(("sorted", "random")) if kind == "events" else "sorted"
    yield Step(0.0, "arrive", {"portion": 0, "of": 1, "order": order, "late": late})
    seconds = rng.choice((300.0, 500.0))
    if kind == "full":
        yield Step(0.0, FAILS, {"number": rng.choice((0, 0, 1, 3)), "seconds": seconds})
    if kind != "full":
        # Slots are ready before the first listing is over.
        yield Step(0.0, SLOWLY, {"seconds": rng.choice((0.5, 2.0, 6.0))})
    yield Step(0.0, "start", {})
    if kind == "events":
        refused = {"operation": "ListObjectsV2", "seconds": rng.choice((20.0, 200.0))}
        yield Step(rng.choice((0.3, 2.0, 6.0, 12.0)), "forbidden", refused)
    for _ in range(rng.choice((0, 1, 1, 2))):
        fault = rng.choice(_FAULTS)
        yield Step(rng.choice((0.05, 1.0, 5.0, 15.0)), fault, {})
        if fault != "kill worker":
            yield Step(rng.choice((0.1, 2.0)), "start", {})
    if kind == "full":
        yield Step(rng.choice((20.0, 60.0)), LOOKED_FULL, {})
        yield Step(seconds, "wait", {})


def is_in_order(scenario: Scenario) -> bool:
    """Whether partitions come back in their order."""
    return IN_ORDER in scenario.options
