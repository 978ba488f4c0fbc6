"""Scenarios of the sink: options in all pairs, records that are nasty, and what goes wrong meanwhile."""

import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from tests.simulation.apart import (
    around,
    by_schemas,
    store_steps,
    with_cut_logs,
    with_foreign_names,
    with_moved_offsets,
    with_nameless,
    with_unknown_topics,
)
from tests.simulation.bare_nulls import bare_scenario
from tests.simulation.circumstances import SINK, Circumstance, chosen_options
from tests.simulation.filtered_records import filtered_scenario
from tests.simulation.hidden_names import hidden_scenario
from tests.simulation.late_topics import late_scenario
from tests.simulation.pairs import all_pairs, changes, valid_options
from tests.simulation.reported_nulls import reporting_scenario
from tests.simulation.scenario import Scenario, Step
from tests.simulation.schemas import AVRO, JSON_SCHEMA, PROTOBUF
from tests.simulation.sink_records import FRAMED, JSON, records_by_schemas, records_of

STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
LETTERS: Final = "letters"
_OWN_SHARE: Final = 0.8
BUCKET: Final = "archive"
SECOND: Final = "second"
"""The bucket to which some connectors are moved."""

FIXED: Final = {
    "name": "sink",
    "bootstrap.servers": "broker:9092",
    "aws.s3.bucket.name": BUCKET,
    "aws.s3.region": "us-east-1",
    "http.listen": "",
}
"""What every scenario has. `topics` is added."""

_OBJECT: Final = "{{topic}}/{{partition}}-{{start_offset}}"
_BY_SCHEMA: Final = (
    f"{{{{schema_name}}}}/{_OBJECT}",
    f"{{{{schema_name}}}}/{_OBJECT}",
    f"{{{{schema_name}}}}/{{{{key}}}}/{_OBJECT}",
)
DIMENSIONS: Final[Mapping[str, Sequence[str | None]]] = {
    "output.format": ("jsonl", "parquet", "avro", "json", "csv"),
    "value.converter": (JSON, STRING, BYTES, None, AVRO, JSON_SCHEMA, PROTOBUF),
    "key.converter": (None, STRING, BYTES),
    "file.name.template": (
        f"all/{_OBJECT}",
        f"{{{{value:a}}}}/{_OBJECT}",
        f"{{{{key}}}}/{_OBJECT}",
        f"{{{{value:b.c}}}}/{{{{key}}}}/{_OBJECT}",
        f"{{{{date:yyyy-MM-dd-HH}}}}/{_OBJECT}",
        f"{{{{header:h}}}}/{_OBJECT}",
    ),
    "file.name.timestamp.source": (None, "value:ts", "event", "wallclock"),
    "file.name.values": (None, "plain"),
    "file.compression.type": (None, "none", "gzip", "zstd", "snappy"),
    "rotate.records": (None, "1", "3", "7"),
    "rotate.age.ms": (None, "2000"),
    "rotate.span.ms": (None, "3600000"),
    "rotate.schedule.ms": (None, "10000"),
    "rotate.bytes": (None, "200"),
    "rotate.together": (None, "first", "total"),
    "rotate.on.group.change": (None, "true"),
    "rotate.on.stop": (None, "false"),
    "errors.tolerance": ("all", None),
    "errors.deadletterqueue.topic.name": (LETTERS, None),
    "exactly.once.support": (None, "disabled"),
    "consumer.override.isolation.level": (None, "read_uncommitted"),
    "schema.compatibility": (None, "backward", "full"),
    "tasks.max": (None, "1", "3"),
    "max.open.files": (None, "2"),
    "job.linger.ms": (None, "0"),
    "file.name.unique": ("assumed",),
    "value.converter.schemas.enable": ("false", "true"),
    "transforms": (None, "i", "flatten", "time", "header", "schema", "unwrap", "route", "unwrap,flatten"),
}
_CONNECT: Final = "org.apache.kafka.connect.transforms."
_FLATTEN: Final = {"transforms.flatten.type": f"{_CONNECT}Flatten$Value"}
_UNWRAP: Final = {
    "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
    "transforms.unwrap.delete.tombstone.handling.mode": "rewrite",
    "transforms.unwrap.add.fields": "op",
}
_REGISTRY: Final = {"value.converter.schema.registry.url": "http://registry:8081"}
BESIDE: Final = {
    ("value.converter", AVRO): _REGISTRY,
    ("value.converter", JSON_SCHEMA): _REGISTRY,
    ("value.converter", PROTOBUF): _REGISTRY,
    ("transforms", "i"): {
        "transforms.i.type": f"{_CONNECT}InsertField$Value",
        "transforms.i.offset.field": "inserted",
    },
    ("transforms", "flatten"): _FLATTEN,
    ("transforms", "time"): {
        "transforms.time.type": f"{_CONNECT}TimestampConverter$Value",
        "transforms.time.field": "ts",
        "transforms.time.target.type": "string",
        "transforms.time.format": "yyyy-MM-dd HH:mm",
    },
    ("transforms", "header"): {
        "transforms.header.type": f"{_CONNECT}InsertHeader",
        "transforms.header.header": "h",
        "transforms.header.value.literal": "yes",
    },
    ("transforms", "schema"): {
        "transforms.schema.type": f"{_CONNECT}SetSchemaMetadata$Value",
        "transforms.schema.schema.name": "row",
    },
    ("transforms", "unwrap"): _UNWRAP,
    ("transforms", "unwrap,flatten"): {**_UNWRAP, **_FLATTEN},
    ("transforms", "route"): {
        "transforms.route.type": "io.debezium.transforms.ByLogicalTableRouter",
        "transforms.route.topic.regex": "events(.*)",
        "transforms.route.topic.replacement": "events$1",
        "transforms.route.key.enforce.uniqueness": "false",
    },
}


class Table(NamedTuple):
    """What the options of a sink are drawn from: values, what all have, what some need, what may change."""

    dimensions: Mapping[str, Sequence[str | None]]
    fixed: Mapping[str, str]
    beside: Mapping[tuple[str, str], Mapping[str, str]]
    changing: Sequence[str]


@cache
def _rows() -> list[dict[str, str | None]]:
    return all_pairs(DIMENSIONS)


def sink_scenario(seed: int) -> Scenario:
    """The scenario of a seed: pairs of options in their order first, between circumstances."""
    drawn_alone = (bare_scenario, reporting_scenario, hidden_scenario, late_scenario, filtered_scenario)
    if (own := next(filter(None, (draw(seed, FIXED) for draw in drawn_alone)), None)) is not None:
        return own
    rng = random.Random(f"sink-{seed}")
    drawn = chosen_options(rng, seed, _rows(), DIMENSIONS, SINK)
    named = by_schemas("sink", seed, drawn, _BY_SCHEMA, FRAMED)
    chosen, about, of_schemas, has_nameless = with_nameless("sink", seed, named, _BY_SCHEMA[0])
    topics = {f"events{number}": rng.choice((1, 1, 2, 3)) for number in range(rng.choice((1, 1, 2)))}
    if about is not None and about.partitions:
        topics = {"events0": rng.choice(about.partitions)}
    options = valid_options(chosen, {**FIXED, "topics": ",".join(topics)}, BESIDE)
    records = tuple(
        records_of(rng, topics, options, about)
        if of_schemas is None
        else records_by_schemas(of_schemas, topics, options, about, has_nameless=has_nameless)
    )
    steps = with_foreign_names("sink", seed, sink_steps(rng, len(records), options, topics, about, TABLE))
    steps = with_cut_logs("sink", seed, steps, list(topics))
    steps = around("sink", seed, steps, denied=(*topics, LETTERS), retained=list(topics))
    steps = with_unknown_topics("sink", seed, steps, list(topics))
    steps = with_moved_offsets("sink", seed, steps, topics)
    return Scenario(
        seed=seed,
        direction="sink",
        options=options,
        topics=topics,
        records=records,
        steps=(*store_steps("sink", seed, (BUCKET, SECOND)), *steps),
    )


# -- what happens --------------------------------------------------------------------------------------------

FAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "kill": {},
    "kill worker": {},
    "pause worker": {"seconds": 130.0},
    "stop": {},
    "second": {},
    "pause": {"seconds": 15.0},
    "pause leader": {"seconds": 13.0},
    "kill leader": {"seconds": 3.0},
    "executor lost": {"seconds": 6.0},
    "broker away": {"seconds": 8.0},
    "token away": {"seconds": 8.0},
    "commit unanswered": {"count": 1},
    "s3": {"kind": "503", "count": 3},
    "s3 lost": {"kind": "lost", "count": 1},
    "complete lost": {"kind": "lost CompleteMultipartUpload", "count": 1},
    "s3 silent": {"kind": "silent", "count": 1},
    "s3 broken": {"kind": "broken", "count": 2},
    "s3 away": {"seconds": 10.0},
    "clock": {"ms": 3_600_000},
    "registry away": {"seconds": 10.0, "status": 0},
    "registry broken": {"seconds": 10.0, "status": 500},
    "registry refuses": {"seconds": 10.0, "status": 401},
}


OPERATIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "reset": {},
    "pause connector": {},
    "forbidden": {"operation": "CreateMultipartUpload", "seconds": 20.0},
    "forbidden to end": {"operation": "CompleteMultipartUpload", "seconds": 20.0},
    "starts late": {"count": 3},
    "topic again": {},
    "grow": {},
    "rewind": {"partition": 0, "offset": 1},
    "uploads ended": {},
    "other bucket": {"options": {"aws.s3.bucket.name": SECOND}},
}
# What a connector may be given while objects are open.
CHANGING: Final = (
    "output.format",
    "file.name.template",
    "file.compression.type",
    "rotate.records",
    "rotate.age.ms",
    "rotate.together",
    "rotate.on.stop",
    "max.open.files",
    "tasks.max",
    "schema.compatibility",
)


TABLE: Final = Table(DIMENSIONS, FIXED, BESIDE, CHANGING)


# Another one would show the values in names otherwise, or be followed by one that does.
_OF_FORMS: Final = ("output.format", "file.name.template")


def _shows_typed_values(options: Mapping[str, str]) -> bool:
    """Whether names show members of typed values: a changed form stops partitions (`grouping_changed`)."""
    converter = options.get("value.converter")
    has_schemas = options.get("value.converter.schemas.enable") != "false"
    is_typed = converter in FRAMED or (converter == JSON and has_schemas)
    shown = options.get("file.name.template", "") + options.get("file.name.timestamp.source", "")
    return is_typed and ("value:" in shown or "{{schema_name}}" in shown)


def _operation(
    rng: random.Random, options: Mapping[str, str], topics: Mapping[str, int], table: Table
) -> Any:
    """What an operator does; other options come with a restart."""
    after = rng.choice((0.0, 0.1, 1.0, 4.0))
    if rng.random() < 0.6:
        name = rng.choice(list(OPERATIONS))
        act = {"other bucket": "change", "forbidden to end": "forbidden"}.get(name, name)
        given = dict(OPERATIONS[name])
        if act in ("topic again", "grow", "rewind"):
            given["topic"] = rng.choice(list(topics))
        yield Step(after, act, given)
    else:
        act = "change"
        kept = _OF_FORMS if _shows_typed_values(options) else ()
        changed = rng.choice([each for each in table.changing if each not in kept])
        other = {**options, changed: rng.choice(table.dimensions[changed])}
        fixed = {**table.fixed, "topics": options["topics"]}
        yield Step(after, act, {"options": changes(options, valid_options(other, fixed, table.beside))})
    if act == "change":
        yield Step(0.0, rng.choice(("stop", "kill")), {})
        yield Step(rng.choice((0.1, 12.0)), "start", {})


_GAPS: Final = (0.0, 0.0, 0.05, 0.05, 0.3, 2.0, 2.0, 11.0)


def sink_steps(
    rng: random.Random,
    records: int,
    options: Mapping[str, str],
    topics: Mapping[str, int],
    about: Circumstance | None,
    table: Table,
) -> Any:
    """Records in portions, with faults and operations between them; at the end all is made well again."""
    yield from first_steps(rng, about)
    done, current = 0, dict(options)
    story = tuple(_of_these(step, topics) for step in story_of(rng, about))
    while done < records:
        end = min(records, done + rng.choice((1, 3, 8, 30) if about is None else (1, 3, 5)))
        if story:
            # Most at once: a story is about what is there.
            end = max(end, records - rng.choice((0, 0, 2)))
        how = "plain" if story else rng.choice(("plain", "plain", "committed", "aborted", "held"))
        gaps = about.gaps if about is not None and about.gaps else _GAPS
        yield Step(rng.choice(gaps), "produce", {"begin": done, "end": end, "how": how})
        done = end
        yield from story
        has_story, story = bool(story), ()
        for _ in () if has_story else range(rng.choice((0, 0, 1, 1, 2))):
            after = rng.choice((0.0, 0.01, 0.03, 0.1, 0.2, 1.0, 5.0))
            yield from fault_steps(rng, after, FAULTS, about)
        if rng.random() < 0.2:
            yield from noted(_operation(rng, current, topics, table), current)


def _of_these(step: Step, topics: Mapping[str, int]) -> Step:
    """A step of a story, whose topic is the first there is: layouts have names of their own."""
    return (
        Step(step.after, step.act, {**step.given, "topic": next(iter(topics))})
        if "topic" in step.given
        else step
    )


def noted(steps: Iterator[Step], current: dict[str, str]) -> Iterator[Step]:
    """The steps; `current` has the options of what is started behind them."""
    for step in steps:
        for name, value in step.given.get("options", {}).items():
            current.pop(name, None)
            if value is not None:
                current[name] = value
        yield step


def first_steps(rng: random.Random, about: Circumstance | None) -> Iterator[Step]:
    """What happens before there is anything to do."""
    if about is None or not about.before:
        yield Step(0.0, "start", {})
    else:
        yield from (act.drawn(rng) for act in about.before)


def story_of(rng: random.Random, about: Circumstance | None) -> tuple[Step, ...]:
    """The steps that a circumstance has in an order of their own."""
    return () if about is None else tuple(act.drawn(rng) for act in about.story)


def fault_steps(
    rng: random.Random, after: float, faults: Mapping[str, Mapping[str, Any]], about: Circumstance | None
) -> Iterator[Step]:
    """One of the faults, mostly one of the circumstance, and a start where it ends a process."""
    is_about = about is not None and rng.random() < _OWN_SHARE
    fault = rng.choice(about.faults) if about is not None and is_about else rng.choice(list(faults))
    if fault == "starts late":
        yield Step(after, fault, {"count": rng.choice((1, 2, 3))})
        return
    yield Step(after, act_of(fault, faults), dict(faults[fault]))
    if fault in ("kill", "kill leader", "stop"):
        yield Step(rng.choice((0.1, 2.0, 12.0)), "start", {})
    if fault == "pause worker" and is_about:
        # As long as it takes until another worker has its slot, and the first comes back beside it.
        yield Step(rng.choice((1.0, 112.0, 128.0)), "wait", {})


def act_of(fault: str, faults: Mapping[str, Mapping[str, Any]]) -> str:
    """What is done for it: kinds of faults of S3, and of the registry, are one act with other words."""
    if "status" in faults[fault]:
        return "registry"
    return "s3" if "kind" in faults[fault] else fault
