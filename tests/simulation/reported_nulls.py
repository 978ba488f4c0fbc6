"""Nulls that a sink is to write, to ignore or to report, over kills, and with another option after some."""

import random
from collections.abc import Iterator, Mapping
from typing import Final

from tests.simulation.apart import OWN_FROM
from tests.simulation.scenario import Given, Scenario, Step
from tests.simulation.sink_records import JSON

NULLS: Final = "behavior.on.null.values"
_WORDS: Final = ("report", "report", "write", "ignore")
_SHARE: Final = 0.05
_CHANGED: Final = 0.6
_STORY_SHARE: Final = 0.3
_BEFORE: Final = ("write", "write", "ignore")
_OBJECT: Final = "{{topic}}/{{partition}}-{{start_offset}}"
_BY_KEY: Final = f"{{{{key}}}}/{_OBJECT}"
_TEMPLATES: Final = (f"all/{_OBJECT}", _BY_KEY, _BY_KEY, f"{{{{value:a}}}}/{_OBJECT}")
_FAULTS: Final = ("kill", "kill", "kill", "kill worker", "stop")


def reporting_scenario(seed: int, fixed: Mapping[str, str]) -> Scenario | None:
    """In some scenarios of the sink there is nothing else; None in all others."""
    rng = random.Random(f"reported-nulls-{seed}")
    if seed < OWN_FROM or rng.random() >= _SHARE:
        return None
    first, is_changed = rng.choice(_WORDS), rng.random() < _CHANGED
    if is_changed and rng.random() < _CHANGED:
        first = rng.choice(_BEFORE)
    options = {
        **fixed,
        "topics": "events0",
        "output.format": rng.choice(("jsonl", "avro", "parquet", "csv")),
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "file.name.template": rng.choice(_TEMPLATES),
        "file.name.unique": "assumed",
        "rotate.records": rng.choice(("1", "2", "2", "3", "3", "7")),
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "letters",
        NULLS: first,
    }
    has_story = rng.random() < _STORY_SHARE
    if has_story:
        options |= {"file.name.template": _BY_KEY, "rotate.records": "2", NULLS: rng.choice(_BEFORE)}
    more = {"tasks.max": "1", "rotate.age.ms": "2000", "rotate.on.stop": "false", "rotate.together": "first"}
    options |= {name: value for name, value in more.items() if rng.random() < 0.3 and not has_story}
    partitions = rng.choice((1, 1, 2))
    records = []
    for number in range(rng.choice((6, 10, 16))):
        value = None if rng.random() < 0.4 else b'{"n":%d,"a":"%b"}' % (number, rng.choice((b"x", b"y")))
        place, key = rng.randrange(partitions), rng.choice((b"a", b"b"))
        records.append(Given("events0", place, key, value, 1_700_000_000_000 + number))
    told = _below_others(rng) if has_story else []
    begun = tuple(_story(rng, len(told))) if has_story else ()
    steps = (*begun, *_steps(rng, len(told), len(told) + len(records), first if is_changed else None))
    records = [*told, *records]
    return Scenario(
        seed=seed,
        direction="sink",
        options=options,
        topics={"events0": partitions},
        records=tuple(records),
        steps=tuple(steps),
    )


def _below_others(rng: random.Random) -> list[Given]:
    """Nulls of one key that stay in an open object, among values of another that are archived above them."""
    keys = [b"a", *rng.choice(([], [b"b"])), *rng.choice(([b"b"] * 2, [b"b"] * 4))]
    values = [None if key == b"a" else b'{"n":%d,"a":"z"}' % (100 + place) for place, key in enumerate(keys)]
    return [
        Given("events0", 0, key, value, 1_600_000_000_000 + place)
        for place, (key, value) in enumerate(zip(keys, values, strict=True))
    ]


def _story(rng: random.Random, count: int) -> Iterator[Step]:
    """It is killed after that, and reads the nulls again with another option."""
    yield Step(0.0, "start", {})
    yield Step(0.0, "produce", {"begin": 0, "end": count, "how": "plain"})
    yield Step(rng.choice((6.0, 8.0, 12.0)), "kill", {})
    yield Step(0.0, "change", {"options": {NULLS: rng.choice(("report", "report", "ignore", "write"))}})
    yield Step(rng.choice((0.1, 2.0)), "start", {})
    yield Step(rng.choice((0.0, 8.0)), "wait", {})


def _steps(rng: random.Random, done: int, count: int, word: str | None) -> Iterator[Step]:
    """Records in portions, and ends of processes after moments; `word` is changed at some of these."""
    yield Step(0.0, "start", {})
    while done < count:
        end = min(count, done + rng.choice((2, 3, 5)))
        yield Step(rng.choice((0.0, 0.05, 0.3, 2.5)), "produce", {"begin": done, "end": end, "how": "plain"})
        done = end
        if rng.random() < 0.4:
            yield Step(0.0, "await", {"what": rng.choice(("object", "transaction", "another transaction"))})
        if rng.random() < 0.6:
            fault = rng.choice(_FAULTS)
            # Mostly so late that something is archived, and something is open.
            yield Step(rng.choice((0.1, 0.4, 8.0, 8.0, 12.0)), fault, {})
            if word is not None and fault != "kill worker" and rng.random() < 0.6:
                word = "report" if word != "report" and rng.random() < 0.5 else _another(rng, word)
                yield Step(0.0, "change", {"options": {NULLS: word}})
            yield Step(rng.choice((0.1, 2.0)), "start", {})


def _another(rng: random.Random, word: str) -> str:
    return rng.choice([one for one in _WORDS if one != word])


def is_reporting(scenario: Scenario) -> bool:
    """Whether the option is drawn."""
    return scenario.direction == "sink" and NULLS in scenario.options


def _words(scenario: Scenario) -> set[str]:
    changes = (step.given.get("options", {}).get(NULLS) for step in scenario.steps)
    return {one for one in (scenario.options.get(NULLS), *changes) if one is not None}


def may_leave_nulls_out(scenario: Scenario) -> bool:
    """Whether a null may be in no object and no dead letter.

    By `ignore`, or as it was read before a change: then an object could have it, and it is left out.
    """
    words = _words(scenario)
    return "ignore" in words or len(words) > 1


def nulls_elsewhere(
    scenario: Scenario,
    places: set[tuple[str, int, int]],
    letters: set[tuple[str, int, int]],
    ending: str | None,
) -> Iterator[str]:
    """What is wrong: nulls that are where the option does not have them, a partition that stops at one.

    `places` are those of nulls that objects have.
    """
    words = _words(scenario)
    if "write" not in words and places:
        yield f"the nulls {sorted(places)} are archived"
    if "report" not in words and letters:
        yield f"the nulls {sorted(letters)} are dead letters"
    if ending not in ("exit 0", None):
        yield f"it ended with {ending!r}, and nulls are all that could be refused"
