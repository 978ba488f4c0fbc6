"""Scenarios of connectors that share the cores of one process: sinks, mostly a source, one core or two."""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from tests.simulation.pairs import all_pairs
from tests.simulation.scenario import Given, Scenario, Step
from tests.simulation.sink_records import JSON
from tests.simulation.turns_stories import LONG_AGE, MAKE, RATE, REFUSE, chosen, records_and_steps, story_of

ARCHIVE: Final = "archive"
INCOMING: Final = "incoming"
ROWS: Final = "rows"
SOURCE: Final = "source"
SINKS: Final = ("one", "two", "three")
FIXED: Final[Mapping[str, str]] = {}
_ONE: Final[Mapping[str, Sequence[str | None]]] = {
    "rotate.on.stop": ("false", "true"),
    "rotate.age.ms": ("20000", "60000", LONG_AGE),
    "rotate.records": (None, "3", "50"),
    "tasks.max": ("1", "2"),
}
DIMENSIONS: Final[Mapping[str, Sequence[str | None]]] = {
    "cores": ("1", "2"),
    "partitions": ("1", "2"),
    SOURCE: ("1", None),
    "three": ("1", None),
    RATE: (None, "1024"),
    **{f"{sink}.{option}": values for sink in SINKS for option, values in _ONE.items()},
}
"""`partitions` is that of each topic; `three` and `source`: whether there is such a connector.
Where there is a source, the limit is its own."""
FAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "kill": {},
    "stop": {},
    "kill worker": {},
    "executor lost": {"seconds": 6.0},
    "s3 away": {"seconds": 50.0},
    "broker away": {"seconds": 8.0},
    "clock": {"ms": 30_000},
}
OPERATIONS: Final = ("delete", "hang", MAKE, REFUSE)
_BASE: Final = {
    "bootstrap.servers": "broker:9092",
    "aws.s3.region": "us-east-1",
    "http.listen": "",
}
_SINK: Final = {
    **_BASE,
    "aws.s3.bucket.name": ARCHIVE,
    "file.name.template": "all/{{topic}}/{{partition}}-{{start_offset}}",
    "file.name.unique": "assumed",
    "output.format": "jsonl",
    "output.fields": "topic,partition,offset,value",
    "value.converter": JSON,
    "value.converter.schemas.enable": "false",
}
_SOURCE: Final = {
    **_BASE,
    "aws.s3.bucket.name": INCOMING,
    "topic": ROWS,
    "file.name.template": ".*",
    "input.format": "jsonl",
    "poll.interval.ms": "5000",
}


def topic_of(sink: str) -> str:
    """The topic that this sink archives."""
    return f"events-{sink}"


def configurations(options: Mapping[str, str], *, closes: bool) -> dict[str, dict[str, str]]:
    """By connector, its configuration; `closes`: sinks leave nothing open at an end."""
    found = {}
    for sink in SINKS:
        if sink == "three" and sink not in options:
            continue
        own = {
            name.removeprefix(f"{sink}."): text
            for name, text in options.items()
            if name.startswith(f"{sink}.")
        }
        found[sink] = {**_SINK, **own, "name": sink, "topics": topic_of(sink)}
        if closes:
            found[sink]["rotate.on.stop"] = "true"
    if SOURCE in options:
        found[SOURCE] = {**_SOURCE, "name": SOURCE}
        if RATE in options:
            found[SOURCE]["max.bytes.per.second"] = options[RATE]
    return found


@cache
def _rows() -> list[dict[str, str | None]]:
    return all_pairs(DIMENSIONS)


def turns_scenario(seed: int) -> Scenario:
    """The scenario of a seed: every other one is about something, of the others pairs of options first."""
    rng, rows, story = random.Random(f"turns-{seed}"), _rows(), story_of(seed)
    if story is not None:
        drawn = chosen(rng, story, DIMENSIONS)
    elif seed // 2 < len(rows):
        drawn = rows[seed // 2]
    else:
        drawn = {name: rng.choice(values) for name, values in DIMENSIONS.items()}
    options = {name: text for name, text in drawn.items() if text is not None}
    sinks = [sink for sink in SINKS if sink != "three" or sink in options]
    topics = {topic_of(sink): int(options["partitions"]) for sink in sinks}
    if story is not None and story.steps is not None:
        records, steps = records_and_steps(rng, story, topics)
    else:
        records = tuple(_records(rng, topics, has_source=SOURCE in options))
        steps = tuple(_steps(rng, len(records), list(topics)))
    return Scenario(
        seed=seed, direction="turns", options=options, topics=topics, records=records, steps=steps
    )


def _records(rng: random.Random, topics: Mapping[str, int], *, has_source: bool) -> Iterator[Given]:
    places = [(topic, number) for topic, count in topics.items() for number in range(count)]
    for number in range(rng.choice((8, 20, 40))):
        if has_source and rng.random() < 0.1:
            rows = [json.dumps({"row": f"{number}-{row}"}) for row in range(rng.choice((1, 5, 40)))]
            yield Given(f"{number}.jsonl", 0, None, "\n".join(rows).encode(), 0)
        else:
            topic, partition = rng.choice(places)
            yield Given(topic, partition, None, json.dumps({"a": number}).encode(), 0)


def _steps(rng: random.Random, records: int, topics: Sequence[str]) -> Iterator[Step]:
    yield Step(0.0, "start")
    done, is_deleted = 0, False
    while done < records:
        end = min(records, done + rng.choice((1, 4, 12, 40)))
        yield Step(rng.choice((0.0, 0.5, 3.0, 12.0, 20.0)), "produce", {"begin": done, "end": end})
        done = end
        if rng.random() < 0.35:
            fault = rng.choice(list(FAULTS))
            yield Step(rng.choice((0.0, 0.2, 2.0, 16.0)), fault, dict(FAULTS[fault]))
            if fault in ("kill", "stop"):
                yield Step(rng.choice((0.1, 12.0)), "start")
        if rng.random() < 0.25:
            given = {"topic": rng.choice(topics), "commits": rng.random() < 0.5}
            yield Step(rng.choice((0.0, 0.5, 5.0)), "hang", given)
        if not is_deleted and rng.random() < 0.08:
            is_deleted = True
            yield Step(rng.choice((0.5, 4.0, 17.0)), "delete", {"topic": rng.choice(topics)})
