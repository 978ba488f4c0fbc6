"""Records that a sink's `Filter` drops, over kills, and with another filter after some.

What is dropped counts as handled; what is read again, as an object was open below it, is judged by the filter
of then.
"""

import random
from collections.abc import Iterator, Mapping
from typing import Final

from tests.simulation.apart import OWN_FROM
from tests.simulation.scenario import Given, Scenario, Step
from tests.simulation.sink_records import JSON

_SHARE: Final = 0.05
_CHANGED: Final = 0.7
_PREDICATE: Final = "org.apache.kafka.connect.transforms.predicates.HasHeaderKey"
_NAME: Final = "predicates.p.name"
_NEGATE: Final = "transforms.drop.negate"
_OFF: Final[Mapping[str, str | None]] = dict.fromkeys(
    (
        *("transforms", "predicates", "transforms.drop.type", "transforms.drop.predicate", _NEGATE),
        *("predicates.p.type", _NAME),
    )
)
_OBJECT: Final = "{{topic}}/{{partition}}-{{start_offset}}"
_FAULTS: Final = ("kill", "kill", "kill", "kill worker", "stop")
_HEADERS: Final = ("h", "k")


def _filter(name: str | None, *, is_negated: bool) -> dict[str, str | None]:
    """The options of a filter that drops what has this header, or has it not; None: of none."""
    if name is None:
        return dict(_OFF)
    return {
        "transforms": "drop",
        "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter",
        "transforms.drop.predicate": "p",
        _NEGATE: "true" if is_negated else None,
        "predicates": "p",
        "predicates.p.type": _PREDICATE,
        _NAME: name,
    }


def _drawn(rng: random.Random) -> dict[str, str | None]:
    return _filter(rng.choice(("h", "h", "k", None)), is_negated=rng.random() < 0.2)


def filtered_scenario(seed: int, fixed: Mapping[str, str]) -> Scenario | None:
    """In some scenarios of the sink there is nothing else; None in all others."""
    rng = random.Random(f"filtered-{seed}")
    if seed < OWN_FROM or rng.random() >= _SHARE:
        return None
    options: dict[str, str] = {
        **fixed,
        "topics": "events0",
        "output.format": rng.choice(("jsonl", "avro", "parquet")),
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "file.name.template": f"{{{{key}}}}/{_OBJECT}",
        "file.name.unique": "assumed",
        "rotate.records": rng.choice(("1", "2", "2", "3", "7")),
        **{name: value for name, value in _drawn(rng).items() if value is not None},
    }
    more = {"tasks.max": "1", "rotate.age.ms": "2000", "rotate.on.stop": "false", "rotate.together": "first"}
    options |= {name: value for name, value in more.items() if rng.random() < 0.3}
    partitions = rng.choice((1, 1, 2))
    records = []
    for number in range(rng.choice((6, 10, 16))):
        value = b'{"n":%d,"a":"%b"}' % (number, rng.choice((b"x", b"y")))
        headers = tuple((name, b"1") for name in _HEADERS if rng.random() < 0.4)
        place, key = rng.randrange(partitions), rng.choice((b"a", b"a", b"b"))
        records.append(Given("events0", place, key, value, 1_700_000_000_000 + number, headers))
    return Scenario(
        seed=seed,
        direction="sink",
        options=options,
        topics={"events0": partitions},
        records=tuple(records),
        steps=tuple(_steps(rng, len(records), is_changed=rng.random() < _CHANGED)),
    )


def _steps(rng: random.Random, count: int, *, is_changed: bool) -> Iterator[Step]:
    """Records in portions, and ends of processes after moments; the filter changes at some of these."""
    yield Step(0.0, "start", {})
    done = 0
    while done < count:
        end = min(count, done + rng.choice((2, 3, 5)))
        yield Step(rng.choice((0.0, 0.05, 0.3, 2.5)), "produce", {"begin": done, "end": end, "how": "plain"})
        done = end
        if rng.random() < 0.4:
            yield Step(0.0, "await", {"what": rng.choice(("object", "transaction", "another transaction"))})
        if rng.random() < 0.7:
            fault = rng.choice(_FAULTS)
            # Mostly so late that something is archived, and something is open.
            yield Step(rng.choice((0.1, 0.4, 8.0, 8.0, 12.0)), fault, {})
            if is_changed and fault != "kill worker" and rng.random() < 0.7:
                yield Step(0.0, "change", {"options": _drawn(rng)})
            yield Step(rng.choice((0.1, 2.0)), "start", {})


def is_filtered(scenario: Scenario) -> bool:
    """Whether a filter is drawn."""
    return scenario.direction == "sink" and any(_NAME in one for one in _all(scenario))


def _all(scenario: Scenario) -> Iterator[Mapping[str, str | None]]:
    yield scenario.options
    yield from (step.given["options"] for step in scenario.steps if step.act == "change")


def _drops(options: Mapping[str, str | None], given: Given) -> bool:
    name = options.get(_NAME)
    has_it = any(header == name for header, _ in given.headers)
    return name is not None and has_it != (options.get(_NEGATE) == "true")


def may_be_dropped(scenario: Scenario, given: Given) -> bool:
    """Whether one of its filters drops the record."""
    return is_filtered(scenario) and any(_drops(options, given) for options in _all(scenario))


def archived_all_the_same(
    scenario: Scenario, places: Mapping[tuple[str, int, int], Given], ending: str | None
) -> Iterator[str]:
    """What is wrong: records that objects have and each filter drops, a partition that stops.

    `places` are those of records that objects have.
    """
    for place, given in sorted(places.items()):
        if all(_drops(options, given) for options in _all(scenario)):
            yield f"{place} is archived, and each filter drops it"
    # Above open objects what is archived is known by the transforms of then, as is documented.
    is_changed = "grouping_changed" in (ending or "") and len(list(_all(scenario))) > 1
    if ending not in ("exit 0", None) and not is_changed:
        yield f"it ended with {ending!r}, and a filter stops nothing"
