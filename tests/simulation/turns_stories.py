"""What every other scenario of turns is about: what is seldom drawn by chance, and options of its own."""

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tests.simulation.scenario import Given, Step

LONG_AGE: Final = "36000000"
"""An age that no run comes to: such a tail rests."""
RATE: Final = "source.max.bytes.per.second"
LOOK: Final = "look"
"""What came by now has to be done in time, whatever else is wrong: `records` of sinks, those that fill
objects (`full`), or `rows`."""
REFUSE: Final = "bucket refused"
ALLOW: Final = "bucket allowed"
MAKE: Final = "make"
_OBJECT_ROWS: Final = 20
_SINKS: Final = ("one", "two", "three")


_Values = str | tuple[str | None, ...] | None


class Story(NamedTuple):
    """Options (several: one of them; None: not given), objects of the source, and steps.

    `steps` is given what draws, and by kind the range of places that its records have: a sink's topic by the
    sink's name, and `objects`. None leaves records and steps to chance. Rows of objects are `pad` bytes long.
    """

    options: Mapping[str, _Values]
    objects: int
    steps: Callable[[random.Random, Mapping[str, range]], Iterator[Step]] | None
    pad: int = 0
    counts: tuple[int, ...] = (2, 5, 9)


def _of_sinks(**options: _Values) -> dict[str, _Values]:
    return {f"{sink}.{name.replace('_', '.')}": value for sink in _SINKS for name, value in options.items()}


def _produce(places: range, after: float = 0.0) -> Step:
    return Step(after, "produce", {"begin": places.start, "end": places.stop})


def _late(rng: random.Random, places: Mapping[str, range]) -> Iterator[Step]:
    """Records come while the source has more to read than a turn has room for."""
    yield Step(0.0, "start")
    yield _produce(places["objects"])
    for sink in _SINKS:
        if sink in places:
            yield _produce(places[sink], rng.choice((0.5, 4.0, 8.0)))
    yield Step(0.0, LOOK, {"what": "records"})


def _refused(rng: random.Random, places: Mapping[str, range]) -> Iterator[Step]:
    """Sinks end at a bucket that refuses them, and a source wants the core."""
    yield Step(0.0, "start")
    for sink in _SINKS:
        if sink in places:
            yield _produce(places[sink], rng.choice((0.0, 3.0)))
    yield Step(rng.choice((2.0, 8.0, 14.0)), REFUSE)
    yield _produce(places["objects"], rng.choice((0.5, 5.0)))
    yield Step(0.0, LOOK, {"what": "rows"})
    yield Step(rng.choice((0.0, 20.0)), ALLOW)


def _deleted(rng: random.Random, places: Mapping[str, range]) -> Iterator[Step]:
    """What was read of a topic that is deleted then is in open objects, as a bucket refuses them for long."""
    yield Step(0.0, "start")
    yield _produce(places["one"], rng.choice((0.0, 3.0)))
    yield Step(rng.choice((12.0, 16.0)), REFUSE)
    yield Step(rng.choice((0.0, 1.0)), "delete", {"topic": "events-one"})
    yield _produce(places["two"], rng.choice((8.0, 12.0)))
    yield Step(rng.choice((45.0, 60.0)), ALLOW)
    yield Step(5.0, "wait")


def _earlier_life(rng: random.Random, places: Mapping[str, range]) -> Iterator[Step]:
    """Of a topic that was read far, and left open, another life has less, and fills objects."""
    one = places["one"]
    yield Step(0.0, "start")
    yield _produce(one[:2])
    yield Step(0.5, "hang", {"topic": "events-one", "commits": False, "aborted": len(one) + 5})
    # What it waits at, and has left open, is remembered where no slot has it when it is deleted.
    yield _produce(places["two"], rng.choice((12.0, 16.0)))
    yield Step(rng.choice((20.0, 25.0)), "delete", {"topic": "events-one"})
    yield Step(rng.choice((0.3, 5.0)), MAKE, {"topic": "events-one"})
    yield _produce(one[2:], rng.choice((0.5, 5.0)))
    yield Step(0.0, LOOK, {"what": "full"})
    if rng.random() < 0.5:
        yield Step(rng.choice((0.0, 6.0)), "hang", {"topic": "events-one", "commits": rng.random() < 0.5})


_ONE_CORE: Final = {"cores": "1", RATE: None}
STORIES: Final = {
    "a source with a backlog": Story(
        {
            **_ONE_CORE,
            **_of_sinks(rotate_age_ms="20000"),
            "source": "1",
            RATE: "2048",
        },
        70,
        _late,
        pad=330,
    ),
    "tails that rest": Story(
        {
            **_ONE_CORE,
            **_of_sinks(rotate_on_stop="false", rotate_age_ms=LONG_AGE, rotate_records=(None, "50")),
            "three": "1",
        },
        0,
        None,
    ),
    "a bucket that refuses": Story(
        {**_ONE_CORE, **_of_sinks(rotate_on_stop="true", rotate_age_ms=("60000", LONG_AGE)), "source": "1"},
        1,
        _refused,
    ),
    "a deleted topic and a bucket that refuses": Story(
        {
            **_ONE_CORE,
            **_of_sinks(
                rotate_on_stop="true", rotate_age_ms=("60000", LONG_AGE), rotate_records=(None, "50")
            ),
        },
        0,
        _deleted,
    ),
    "an earlier life of a topic": Story(
        {
            **_ONE_CORE,
            **_of_sinks(rotate_age_ms=LONG_AGE, rotate_on_stop="false", rotate_records="3"),
            "partitions": "1",
        },
        0,
        _earlier_life,
        counts=(5, 8, 11),
    ),
}
"""By what they are about, in their order."""


def story_of(seed: int) -> Story | None:
    """What the scenario of a seed is about; None: of chance."""
    return list(STORIES.values())[seed // 2 % len(STORIES)] if seed % 2 else None


def chosen(
    rng: random.Random, story: Story, dimensions: Mapping[str, Sequence[str | None]]
) -> dict[str, str | None]:
    """Options at random, and those of the story."""
    found = {name: rng.choice(values) for name, values in dimensions.items()}
    return found | {
        name: rng.choice(value) if isinstance(value, tuple) else value
        for name, value in story.options.items()
    }


def records_and_steps(
    rng: random.Random, story: Story, topics: Mapping[str, int]
) -> tuple[tuple[Given, ...], tuple[Step, ...]]:
    """The records of a story that has steps of its own, and these."""
    assert story.steps is not None
    records: list[Given] = []
    places: dict[str, range] = {}
    for topic, partitions in topics.items():
        begin = len(records)
        for number in range(begin, begin + rng.choice(story.counts)):
            value = json.dumps({"a": number}).encode()
            records.append(Given(topic, rng.randrange(partitions), None, value, 0))
        places[topic.removeprefix("events-")] = range(begin, len(records))
    begin = len(records)
    for number in range(begin, begin + story.objects):
        names = [f"{number}-{row}" for row in range(_OBJECT_ROWS)]
        rows = [json.dumps({"row": name, **({"pad": story.pad} if story.pad else {})}) for name in names]
        records.append(Given(f"{number:03}.jsonl", 0, None, "\n".join(rows).encode(), 0))
    places["objects"] = range(begin, len(records))
    return tuple(records), tuple(story.steps(rng, places))
