"""Nulls of a registry's topic that come before all values, in rows that are bare values, over kills.

Such a null is an object of a null, or a bad record where it is read again with a value: one of the two.
"""

import random
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.simulation.apart import OWN_FROM
from tests.simulation.archive_rows import FOREIGN, Row, decoded
from tests.simulation.s3 import StoredObject
from tests.simulation.scenario import Given, Scenario, Step
from tests.simulation.schemas import AVRO, JSON_SCHEMA, PROTOBUF, framed_by, meaning_of_framed, schemas_of

NEEDED: Final = ("output.envelope", "output.fields", "value.converter", "file.name.template")
"""Options by which the rows are read."""
_SHARE: Final = 0.05
_OBJECT: Final = "{{topic}}/{{partition}}-{{start_offset}}"
_BY_KEY: Final = f"{{{{key}}}}/{{{{schema_name}}}}/{_OBJECT}"
_TEMPLATES: Final = (f"all/{_OBJECT}", f"{{{{schema_name}}}}/{_OBJECT}", _BY_KEY, _BY_KEY)
_CONVERTER: Final = "value.converter"
_REGISTRY: Final = "value.converter.schema.registry.url"
_FAULTS: Final = ("kill", "kill", "kill worker", "stop")
_Place = tuple[str, int, int]


def is_bare(scenario: Scenario) -> bool:
    """Whether rows are values alone, and layouts of other vendors have no say in them."""
    return scenario.direction == "sink" and scenario.options.get("output.envelope") == "false"


def bare_scenario(seed: int, fixed: Mapping[str, str]) -> Scenario | None:
    """In some scenarios of the sink there is nothing else; None in all others."""
    rng = random.Random(f"bare-nulls-{seed}")
    if seed < OWN_FROM or rng.random() >= _SHARE:
        return None
    converter = rng.choice((AVRO, JSON_SCHEMA, PROTOBUF))
    options = {
        **fixed,
        "topics": "events0",
        "output.envelope": "false",
        "output.fields": "value",
        "output.format": rng.choice(("avro", "parquet")),
        _CONVERTER: converter,
        _REGISTRY: "http://registry:8081",
        "file.name.template": rng.choice(_TEMPLATES),
        "rotate.records": rng.choice(("1", "2", "7")),
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "letters",
    }
    more = {"tasks.max": "1", "rotate.age.ms": "2000", "rotate.on.stop": "false", "rotate.together": "first"}
    options |= {name: value for name, value in more.items() if rng.random() < 0.3}
    partitions, first = rng.choice((1, 1, 2)), rng.choice((1, 2, 4, 4))
    ids = schemas_of(converter, with_nulls=False)[: rng.choice((1, 2))]
    records = []
    for number in range(first + rng.choice((3, 6, 10))):
        is_null = number < first or rng.random() < 0.3
        value = None if is_null else framed_by(converter, rng.choice(ids), number)
        place = rng.randrange(partitions)
        key = rng.choice((b"a", b"b"))
        records.append(Given("events0", place, key, value, 1_700_000_000_000 + number))
    steps = (*_store(rng), *_steps(rng, first, len(records)))
    return Scenario(
        seed=seed,
        direction="sink",
        options=options,
        topics={"events0": partitions},
        records=tuple(records),
        steps=steps,
    )


def _store(rng: random.Random) -> Iterator[Step]:
    yield Step(0.0, "start", {})
    if rng.random() < 0.3:
        kind = rng.choice(("lost CompleteMultipartUpload", "lost UploadPart", "503"))
        yield Step(0.0, "s3", {"kind": kind, "count": rng.choice((1, 2))})


def _steps(rng: random.Random, first: int, count: int) -> Iterator[Step]:
    """The nulls, and in portions what comes after them, each after a moment in which a process may end."""
    done, end = 0, first
    while done < count:
        yield Step(rng.choice((0.0, 0.05, 0.3, 2.5)), "produce", {"begin": done, "end": end, "how": "plain"})
        done, end = end, min(count, end + rng.choice((1, 2, 4)))
        if rng.random() < 0.3:
            yield Step(0.0, "await", {"what": rng.choice(("object", "transaction"))})
        if rng.random() < 0.6:
            yield Step(rng.choice((0.0, 0.02, 0.1, 0.4, 1.0)), rng.choice(_FAULTS), {})
            if rng.random() < 0.5 and done < count:
                # What comes while nothing runs is fetched with what is read again.
                yield Step(0.05, "produce", {"begin": done, "end": end, "how": "plain"})
                done, end = end, min(count, end + rng.choice((1, 2, 4)))
            yield Step(rng.choice((0.1, 2.0)), "start", {})


def bare_rows(
    objects: Mapping[str, StoredObject],
    converter: str,
    expected: Mapping[_Place, Given],
    letters: set[_Place],
) -> Iterator[Row]:
    """The rows of objects, whose places the names and the values tell: a null is the next one of its group.

    `letters` are in no object.
    """
    numbers = {
        (place[:2], _number(converter, given.value)): place
        for place, given in expected.items()
        if given.value is not None
    }
    for key, stored in sorted(objects.items()):
        if stored.body == FOREIGN:
            continue
        group, topic, name = key.rsplit("/", 2)
        shown = group.split("/")[0].encode() if "/" in group else None
        partition, _, start = name.partition("-")
        at = topic, int(partition)
        following = int(start)
        for row, fields in enumerate(decoded(stored.body)):
            number = _number_of_row(fields)
            if number is None and not row:
                # Its name says so, whatever became of the record besides.
                place = (*at, following)
            elif number is None:
                nulls = (
                    place
                    for place, given in sorted(expected.items())
                    if place[:2] == at and place[2] >= following and given.value is None
                    if shown in (None, given.key) and place not in letters
                )
                place = next(nulls, (*at, following))
            else:
                place = numbers[at, number]
            yield Row(key, *place, {"value": None if number is None else fields})
            following = place[2] + 1


def _number(converter: str, value: bytes | None) -> Any:
    meant = None if value is None else meaning_of_framed(converter, value)
    return meant["n"] if isinstance(meant, dict) else None


def _number_of_row(fields: Any) -> Any:
    return fields.get("n") if isinstance(fields, dict) else None
