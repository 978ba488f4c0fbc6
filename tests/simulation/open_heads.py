"""HEADs about versions that stay unanswered for minutes, next to listings of the same keys: what is drawn.

What listings show waits for them for ten minutes; with `ordering=partition` not at all, for others of its
topic-partition would pass it.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tests.simulation.apart import OWN_FROM, RESUMED
from tests.simulation.scenario import Given, Scenario, Step

STUCK: Final = "HEADs stay open"
LOOKED: Final = "versions looked at"
_SHARE: Final = 0.05
_KILL_SHARE: Final = 0.3
_LISTINGS_SHARE: Final = 0.5
_OFTEN: Final = "1000"
_LISTED_SECONDS: Final = 660.0
LATER: Final = 2
"""So many come after the others where names have places."""
_ORDERED_SECONDS: Final = 240.0
"""As long as faults last that were there before."""
_OTHERS: Final = ("aws.s3.bucket.name", "include.existing", "initial.inventory", "native.start.key")
_SLOWING: Final = (
    "max.pending.objects",
    "object.min.age.ms",
    "sqs.max.held",
    "max.bytes.per.second",
    "post.action",
)
_TEMPLATES: Final = {"listed": ".*", "ordered": "in/{{partition}}-.*"}
"""How keys are read; all others have their place in a partition."""


def drawn_mode(scenario: Scenario) -> tuple[random.Random, str | None]:
    """By what the rest is drawn, and where versions have their order from; None: no HEAD stays open."""
    rng = random.Random(f"open-heads-{scenario.seed}")
    acts = {step.act for step in scenario.steps}
    # Where buckets or prefixes change, or an operator holds the connector, listings may show nothing.
    is_free = not acts & {RESUMED, "pause workers"} and not any(
        name in step.given.get("options", ())
        for step in scenario.steps
        for name in ("aws.s3.prefix", "ordering")
    )
    is_drawn = scenario.seed >= OWN_FROM and rng.random() < _SHARE and is_free
    return rng, rng.choice(("listed", "listed", "ordered", "placed")) if is_drawn else None


def options_of(rng: random.Random, mode: str, queue: str, placed: str) -> Mapping[str, str | None]:
    """What such a scenario changes; `placed`: names that have their offset in a partition."""
    # Without a listing events alone tell of a version.
    has_listings = mode != "placed" or rng.random() < _LISTINGS_SHARE
    return {
        **dict.fromkeys((*_OTHERS, *_SLOWING)),
        "sqs.queue.url": queue,
        "file.name.template": _TEMPLATES.get(mode, placed),
        "ordering": None if mode == "listed" else "partition",
        "job.linger.ms": "0",
        "reconcile.interval.ms": _OFTEN if has_listings else "3600000",
        "exactly.once.support": None,
    }


def versions(rng: random.Random, mode: str, begin: int, bucket: int, time_ms: int) -> Iterator[Given]:
    """Versions of a key or two, the newest last; where names have places, first those of the first place."""
    names = ["in/0-000.jsonl", "in/0-001.jsonl"] if mode == "placed" else ["in/0-v.jsonl", "in/0-w.jsonl"]
    count = rng.choice((3, 4) if mode == "placed" else (2, 3, 5))
    drawn = [rng.choice(names[: rng.choice((1, 2, 2))]) for _ in range(count)]
    if mode == "placed":
        drawn = [names[0]] * count + [names[1]] * LATER
    for number, name in enumerate(drawn, begin):
        row = {"n": f"{number}-0", "x": "y" * 50, "t": time_ms, "d": {"e": 0}}
        yield Given(name, bucket, None, json.dumps(row).encode(), 0)


def placed_names(mode: str, records: Sequence[Given]) -> list[Given]:
    """The records, all of which have a place where names show one."""
    names = {one.topic: f"in/{number % 2}-{100 + number}.jsonl" for number, one in enumerate(records)}
    return [one if mode == "listed" else replace(one, topic=names[one.topic]) for one in records]


def steps_of(
    rng: random.Random, mode: str, options: Mapping[str, str], begin: int, end: int
) -> Iterator[Step]:
    """They come, and are looked at as late as listings may wait; a process may end meanwhile."""
    seconds = _LISTED_SECONDS if mode == "listed" else _ORDERED_SECONDS
    is_killed = rng.random() < _KILL_SHARE
    before = rng.choice((20.0, 300.0)) if is_killed else 0.0
    open_seconds = before + seconds + rng.choice((60.0, 300.0))
    yield Step(0.0, "start", {})
    yield Step(0.0, STUCK, {"bare": rng.choice((0.5, 0.6, 1.0)), "seconds": open_seconds})
    after = rng.choice((0.0, 3.0))
    if mode == "placed":
        yield Step(after, "put", {"begin": begin, "end": end - LATER, "late": 0.0})
        begin, after = end - LATER, 4.0
    yield Step(after, "put", {"begin": begin, "end": end, "late": 0.0})
    if is_killed:
        yield Step(before, rng.choice(("kill", "stop")), {})
        yield Step(2.0, "start", {})
    yield Step(seconds, LOOKED if options["reconcile.interval.ms"] == _OFTEN else "wait", {})
