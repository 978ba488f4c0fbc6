"""Archives in Avro and Parquet with values that are NaN or infinite, and with rows that have no value.

Neither is a tombstone, whatever is read again: each is a bad record, and its object stays where it is.
"""

import io
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from tests.simulation.apart import OWN_FROM
from tests.simulation.pairs import valid_options
from tests.simulation.scenario import Given, Scenario, Step

ARCHIVED_AS: Final = "archive.values"
"""The format of an archive that is made by hand."""
_SHARE: Final = 0.05
_SOUND, NULL, _BARE = b"1.5", b"null", b"none"
_UNSOUND: Final = (b"nan", b"inf", b"-inf")
_FAULTS: Final = ("kill", "kill", "kill worker", "stop")
_RECORDS: Final = "io.aiven.avro.output.schema.connector_records"


def unsound_scenario(seed: int, fixed: Mapping[str, str], topic: str) -> Scenario | None:
    """In some restores there is nothing else; None in all others."""
    rng = random.Random(f"unsound-values-{seed}")
    if seed < OWN_FROM or rng.random() >= _SHARE:
        return None
    drawn = {
        "input.layout": "aiven",
        "restore.sidecars.wait.ms": None,
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": rng.choice(("letters", "letters", None)),
        "post.action": rng.choice((None, "delete")),
        "transaction.boundary.records": rng.choice((None, "1", "1", "2")),
        "job.max.objects": rng.choice((None, "1")),
        "tasks.max": rng.choice((None, "1", "3")),
    }
    options = valid_options(drawn, fixed, {})
    options = {name: value for name, value in options.items() if drawn.get(name, value) is not None}
    partitions, count = rng.choice((1, 2)), rng.choice((4, 8, 15))
    records = []
    for number in range(count):
        value = rng.choice((_SOUND, _SOUND, NULL, *_UNSOUND, _BARE))
        place = rng.randrange(partitions)
        records.append(Given(topic, place, b"k%d" % number, value, 1_700_000_000_000 + number))
    return Scenario(
        seed=seed,
        direction="restore",
        options=options
        | {ARCHIVED_AS: rng.choice(("avro", "parquet")), "archive.records": rng.choice("1358")},
        topics={topic: partitions},
        records=tuple(records),
        steps=tuple(_steps(rng)),
    )


def _steps(rng: random.Random) -> Iterator[Step]:
    of = rng.choice((1, 2))
    for portion in range(of):
        given = {"portion": portion, "of": of, "order": rng.choice(("sorted", "random")), "late": 0.0}
        yield Step(rng.choice((0.0, 2.0)), "arrive", given)
        yield Step(0.0, "start", {})
        if rng.random() < 0.6:
            yield Step(0.0, "await", {"what": rng.choice(("task", "transaction", "another transaction"))})
        for _ in range(rng.choice((0, 1, 2))):
            fault = rng.choice(_FAULTS)
            yield Step(rng.choice((0.0, 0.02, 0.1, 1.0)), fault, {})
            if fault != "kill worker":
                yield Step(rng.choice((0.1, 2.0)), "start", {})


@dataclass(frozen=True, slots=True)
class MadeObject:
    """An object of such an archive."""

    key: str
    body: bytes
    records: tuple[Given, ...]


def made_objects(scenario: Scenario) -> Iterator[MadeObject]:
    """The archive: rows of a partition in their order. All rows of an object have values, or none has."""
    most, form = int(scenario.options["archive.records"]), scenario.options[ARCHIVED_AS]
    for partition in range(max(scenario.topics.values())):
        rows: list[tuple[int, Given]] = list(
            enumerate(one for one in scenario.records if one.partition == partition)
        )
        while rows:
            has_values = rows[0][1].value != _BARE
            taken = [one for one in rows[:most] if (one[1].value != _BARE) is has_values]
            taken = taken if taken == rows[: len(taken)] else rows[:1]
            rows = rows[len(taken) :]
            fields = [_fields(offset, given, has_values=has_values) for offset, given in taken]
            body = _avro(fields, has_values=has_values) if form == "avro" else _parquet(fields)
            name = f"{taken[0][1].topic}-{partition}-{taken[0][0]}" + ".avro" * (form == "avro")
            yield MadeObject(name, body, tuple(given for _, given in taken))


def _fields(offset: int, given: Given, *, has_values: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"key": (given.key or b"").decode(), "offset": offset}
    if has_values:
        found["value"] = None if given.value == NULL else float(given.value or b"nan")
    return found


def _avro(rows: Sequence[Mapping[str, Any]], *, has_values: bool) -> bytes:
    kinds: dict[str, Any] = {"key": "string", "offset": "long"}
    kinds |= {"value": ["null", "double"]} if has_values else {}
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    out = io.BytesIO()
    fastavro.writer(out, {"type": "record", "name": _RECORDS, "fields": fields}, rows, sync_marker=b"s" * 16)
    return out.getvalue()


def _parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    kinds = {"key": pa.string(), "offset": pa.int64(), "value": pa.float64()}
    columns = {name: pa.array([row[name] for row in rows], kinds[name]) for name in rows[0]}
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def is_bad(given: Given) -> bool:
    """Whether the row of this record has no value that a record could have."""
    return given.value not in (_SOUND, NULL)
