"""Scenarios of the source: options in all pairs, objects that come, change and go, and what goes wrong."""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

from tests.simulation.apart import RESUMED, around
from tests.simulation.circumstances import SOURCE, Circumstance, chosen_options
from tests.simulation.hard_reading import with_hard_reading
from tests.simulation.open_heads import drawn_mode, options_of, placed_names, steps_of, versions
from tests.simulation.owed_actions import with_owed_actions, with_slow_replays
from tests.simulation.pairs import all_pairs, changes, drawn_count, valid_options
from tests.simulation.scenario import Given, Scenario, Step
from tests.simulation.sink_generator import FAULTS, LETTERS, fault_steps, first_steps, noted, story_of
from tests.simulation.slow_reading import with_slow_reading
from tests.simulation.version_order import VERSIONS
from tests.support.inventory import KEY

INCOMING: Final = "incoming"
TOPIC: Final = "rows"
FIXED: Final = {
    "name": "source",
    "bootstrap.servers": "broker:9092",
    "aws.s3.bucket.name": INCOMING,
    "aws.s3.region": "us-east-1",
    "http.listen": "",
    "topic": TOPIC,
    "file.name.template": ".*",
    "poll.interval.ms": "2000",
}
MOVED: Final = "moved"
"""The bucket to which objects are moved."""
INVENTORIES: Final = "inventories"
MANIFEST: Final = KEY
"""Where the inventory of what is there at the first start lies."""
SECOND: Final = "second"
"""The bucket to which some connectors are moved, and that others have beside the first one."""
BOTH: Final = f"{INCOMING},{SECOND}"

PLACED: Final = "in/{{partition}}-{{start_offset}}.jsonl"
"""Names of objects that have their place in a partition."""

DIMENSIONS: Final[Mapping[str, Sequence[str | None]]] = {
    "input.format": ("jsonl", "csv", "json", "avro", "parquet", "text"),
    "json.path": (None, "$.Records[*]"),
    "input.archive": (None, "auto", "zip", "tar"),
    "ordering": (None, "partition", "none"),
    "distribution.type": (None, "partition"),
    "errors.tolerance": ("all", None),
    "errors.deadletterqueue.topic.name": (LETTERS, None),
    "exactly.once.support": (None, "disabled"),
    "post.action": (None, "delete", "move:done/", "move:in/done/", "move:s3://moved/done/"),
    "transaction.boundary.records": (None, "1", "3"),
    "transaction.boundary.interval.ms": (None, "10"),
    "job.max.objects": (None, "1", "2"),
    "job.max.seconds": (None, "1"),
    "job.linger.ms": (None, "0"),
    "tasks.max": (None, "1", "3"),
    "aws.s3.prefix": (None, "in/"),
    "poll.listing": (None, "full", "incremental"),
    "reconcile.interval.ms": (None, "0", "5000"),
    "max.pending.objects": (None, "1", "3"),
    "record.headers": (None, "source"),
    "key.source": (None, "none", "field:n"),
    "sqs.queue.url": (None, "https://sqs.us-east-1.amazonaws.com/1/q"),
    "sqs.max.held": (None, "1"),
    "object.min.age.ms": (None, "3000"),
    "decode.unit.max.bytes": (None, "1024"),
    "errors.max.attempts": (None, "1"),
    "max.bytes.per.second": (None, "20000"),
    "record.timestamp": (None, "object"),
    "record.fields": (None, "constant:from"),
    "transforms": (None, "insert", "flatten", "time", "header", "flatten,insert,header"),
    "aws.s3.bucket.name": (None, BOTH),
    "initial.inventory": (None, f"s3://{INVENTORIES}/{MANIFEST}"),
    # Seldom: what they leave out is read by no other option.
    "include.existing": (None, None, None, "false"),
    "native.start.key": (None, None, None, "in/b.jsonl"),
    # Objects of more than one batch are split, where they may be.
    "job.max.bytes": (None, None, "600", "3000"),
    "sqs.visibility.timeout.seconds": (None, "5"),
    "events.fallback.after.ms": (None, "1000"),
    "errors.retry.delay.ms": (None, "100"),
    # Without it no order of objects is possible.
    "file.name.template": (None, None, PLACED),
}
_CONNECT: Final = "org.apache.kafka.connect.transforms."
_INSERT: Final = {
    "transforms.insert.type": f"{_CONNECT}InsertField$Value",
    "transforms.insert.static.field": "inserted",
    "transforms.insert.static.value": "yes",
}
_FLATTEN: Final = {"transforms.flatten.type": f"{_CONNECT}Flatten$Value"}
_HEADER: Final = {
    "transforms.header.type": f"{_CONNECT}InsertHeader",
    "transforms.header.header": "h",
    "transforms.header.value.literal": "yes",
}
_TIME: Final = {
    "transforms.time.type": f"{_CONNECT}TimestampConverter$Value",
    "transforms.time.field": "t",
    "transforms.time.target.type": "string",
    "transforms.time.format": "yyyy-MM-dd",
}
_WITH: Final[Mapping[tuple[str, str], Mapping[str, str]]] = {
    ("input.format", "text"): {"text.pattern": "(?P<n>[0-9]+-[0-9]+) (?P<x>y*)"},
    ("transforms", "insert"): _INSERT,
    ("transforms", "flatten"): _FLATTEN,
    ("transforms", "time"): _TIME,
    ("transforms", "header"): _HEADER,
    ("transforms", "flatten,insert,header"): {**_FLATTEN, **_INSERT, **_HEADER},
}
_WITH_TIMES: Final = ("jsonl", "json")
"""Formats whose rows have a time, which a transform needs."""
SOURCE_FAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    **FAULTS,
    "queue away": {"seconds": 40.0},
    "replaced before it is read": {"kind": "replaced GetObject", "count": 1},
    "replaced before it goes": {"kind": "replaced DeleteObject", "count": 1},
}
OPERATIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "replay": {"from_start": False},
    "replay whole": {"from_start": True},
    "mark": {"prefix": "in/"},
    "reset": {},
    "pause connector": {},
    "forbidden": {"operation": "GetObject", "seconds": 20.0},
    "forbidden to act": {"operation": "DeleteObject", "seconds": 20.0},
    "limit": {"topic": TOPIC, "size": 700},
    "bare events": {},
    "starts late": {"count": 3},
    "topic again": {"topic": TOPIC},
    "grow": {"topic": TOPIC},
    # An inventory is of one bucket.
    "other bucket": {"options": {"aws.s3.bucket.name": SECOND, "initial.inventory": None}},
    "bucket added": {"options": {"aws.s3.bucket.name": BOTH, "initial.inventory": None}},
    "uploads begin": {"count": 2},
    "bucket denied": {"bucket": SECOND, "seconds": 20.0},
    "foreign messages": {"count": 14},
}
_BUCKET: Final = "aws.s3.bucket.name"
_QUEUE: Final = "https://sqs.us-east-1.amazonaws.com/1/q"
_VERSIONS_SHARE: Final = 0.08
_PREFIXES_SHARE: Final = 0.06
_PREFIXES: Final = (
    *(("in/00", "in/"), ("in/00", None), ("in/", None), ("in/d", "in/", None)),
    *((None, "in/"), ("in/", "in/00", "in/")),
    *(("z", "in/"), ("in/d", "in/00", "in/")),
)
"""Prefixes one after the other: wider, narrower, and moved."""
_START_KEYS: Final = (None, None, "in/001", "in/b.jsonl", "in/d/e.jsonl")
FIRST_START: Final = ("include.existing", "native.start.key")
"""What counts at the first start with a bucket."""
# What a connector may be given while objects are half read.
CHANGING: Final = (
    "tasks.max",
    "ordering",
    "transaction.boundary.records",
    "errors.tolerance",
    "post.action",
    "poll.listing",
    "sqs.queue.url",
    "record.headers",
    "job.max.objects",
    "decode.unit.max.bytes",
    # Often: each of its values means something else for what is there.
    *("input.format",) * 5,
    *(_BUCKET,) * 3,
    "input.archive",
    *FIRST_START * 2,
    "aws.s3.prefix",
)
_NAMES: Final = (
    "in/a.jsonl",
    "in/b.jsonl",
    "in/c.jsonl",
    "in/d/e.jsonl",
    "in/f.jsonl.gz",
    "in/g.jsonl.zst",
    "z.jsonl",
    "in/\u00e9 x.jsonl",
)


@cache
def _rows() -> list[dict[str, str | None]]:
    return all_pairs(DIMENSIONS)


def source_scenario(seed: int) -> Scenario:
    """The scenario of a seed: pairs of options in their order first, between circumstances."""
    rng = random.Random(f"source-{seed}")
    chosen, about = chosen_options(rng, seed, _rows(), DIMENSIONS, SOURCE)
    if chosen["transforms"] == "time" and chosen["input.format"] not in _WITH_TIMES:
        chosen["transforms"] = None
    options = valid_options(chosen, FIXED, _WITH)
    partitions = rng.choice((1, 2, 3))
    places = partitions if options["file.name.template"] == PLACED else 0
    objects = tuple(_objects(rng, about, several=options[_BUCKET] == BOTH, places=places))
    drawn = _steps(rng, len(objects), options, about)
    given = around("source", seed, with_hard_reading("source", seed, drawn), denied=(TOPIC, LETTERS))
    options, steps = _with_prefixes(seed, options, given)
    if steps == given:
        options, steps = with_owed_actions("source", seed, options, given)
    if steps == given:
        options, steps = with_slow_replays("source", seed, options, given)
    scenario = Scenario(
        seed=seed,
        direction="source",
        options=options,
        topics={TOPIC: partitions},
        records=objects,
        steps=steps,
    )
    with_heads = _with_open_heads(scenario)
    found = _with_versions(scenario) if with_heads is None else with_heads
    return with_slow_reading(found, FIXED)


def _with_open_heads(scenario: Scenario) -> Scenario | None:
    """In some scenarios versions come whose HEADs have no answer for minutes; None in all others."""
    rng, mode = drawn_mode(scenario)
    if mode is None:
        return None
    changed = options_of(rng, mode, _QUEUE, PLACED)
    options = valid_options({**scenario.options, **changed}, FIXED, _WITH)
    begin = len(scenario.records)
    given = placed_names(mode, scenario.records)
    records = (*given, *versions(rng, mode, begin, 0, TIME_MS))
    block = steps_of(rng, mode, options, begin, len(records))
    return scenario.without(options=options, records=records, steps=(*block, *scenario.steps))


def _with_versions(scenario: Scenario) -> Scenario:
    """Of some scenarios the objects are versions of one key, or two; some more come at once."""
    rng = random.Random(f"versions-{scenario.seed}")
    has_another = any(
        "native.start.key" in step.given.get("options", ()) or step.act == RESUMED for step in scenario.steps
    )
    if rng.random() >= _VERSIONS_SHARE or has_another:
        return scenario
    changed = {
        "sqs.queue.url": _QUEUE,
        "initial.inventory": None,
        "file.name.template": FIXED["file.name.template"],
        # HEADs of all are asked together, and what is known is read at once.
        "sqs.max.held": None,
        "job.linger.ms": "0",
        "object.min.age.ms": None,
        # Listings show the newest while HEADs about earlier ones are open.
        "reconcile.interval.ms": rng.choice(("1000", "1000", "3600000")),
    }
    options = valid_options({**scenario.options, **changed}, FIXED, _WITH)
    names = [f"in/{one}.jsonl" for one in rng.choice(("v", "vw"))]
    records = [replace(one, topic=rng.choice(names)) for one in scenario.records]
    begin, bucket = len(records), rng.choice((0, 1))
    for number in range(begin, begin + rng.choice((2, 4, 7))):
        lines = (
            json.dumps({"n": f"{number}-{row}", "x": "y" * 50, "t": TIME_MS, "d": {"e": row}}).encode()
            for row in range(rng.choice((1, 2, 5)))
        )
        records.append(Given(rng.choice(names), bucket, None, b"\n".join(lines), 0))
    put = Step(rng.choice((0.0, 0.5, 3.0)), "put", {"begin": begin, "end": len(records), "late": 0.0})
    steps = list(scenario.steps)
    steps.insert(rng.randint(1, len(steps)), put)
    first = Step(0.0, VERSIONS, {"bare": rng.choice((0.6, 1.0))})
    return scenario.without(options=options, records=tuple(records), steps=(first, *steps))


def _with_prefixes(
    seed: int, options: dict[str, str], steps: tuple[Step, ...]
) -> tuple[dict[str, str], tuple[Step, ...]]:
    """In some scenarios without a queue restarts make the prefix narrower or wider, or move it.

    Each has a start key of its own, which counts only for keys that none before it could see.
    """
    rng = random.Random(f"prefixes-{seed}")
    if rng.random() >= _PREFIXES_SHARE:
        return options, steps
    gone = dict.fromkeys(("sqs.queue.url", "initial.inventory", "include.existing"))
    drawn = [
        {"aws.s3.prefix": prefix, "native.start.key": rng.choice(_START_KEYS)}
        for prefix in rng.choice(_PREFIXES)
    ]
    first, *others = (valid_options({**options, **gone, **one}, FIXED, _WITH) for one in drawn)
    found = list(steps)
    places = sorted(rng.randint(1, len(found)) for _ in others)
    for number, (place, after) in enumerate(zip(places, others, strict=True)):
        new = {name: after.get(name) for name in drawn[0]}
        # Of what is known some is read, some has yet to be listed.
        more = [Step(rng.choice((0.0, 1.0, 4.0)), "change", {"options": new}), *_restart(rng)]
        found[place + 3 * number : place + 3 * number] = more
    return first, tuple(found)


TIME_MS: Final = 1_700_000_000_000
_SIZES: Final = (0, 0, 50, 50, 900)


def _objects(
    rng: random.Random, about: Circumstance | None, *, several: bool, places: int
) -> Iterator[Given]:
    """Objects as they are put, one after the other; a name may come again, in another bucket too.

    What is the partition of a record is here the number of the bucket. Names have one of so many places.
    """
    few = None if about is None else about.names
    known = [f"in/{rng.randrange(places)}-{number:03}.jsonl" for number in range(6)] if places else _NAMES
    names = rng.sample(known, few or rng.choice((1, 3, 6)))
    bad_share = rng.choice((0.0, 0.0, 0.1, 0.4))
    counts = () if about is None else about.counts
    for number in range(rng.choice(counts) if counts else drawn_count(rng, small=(1, 2, 3), big=(8, 15))):
        name = (
            rng.choice(names)
            if rng.random() < (0.7 if few else 0.2)
            else f"in/{rng.randrange(places)}-{number:03}.jsonl"
            if places
            else f"in/{number:03}-{rng.choice('abc')}.jsonl"
        )
        lines = []
        rows = about.rows if about is not None and about.rows else (0, 1, 2, 5, 12)
        for row in range(rng.choice(rows)):
            bad = rng.random() < bad_share
            lines.append(
                rng.choice((b"no JSON", b"{", b"\xff"))
                if bad
                else json.dumps(
                    {"n": f"{number}-{row}", "x": "y" * rng.choice(_SIZES), "t": TIME_MS, "d": {"e": row}}
                ).encode()
            )
        body = rng.choice((b"\n", b"\n", b"\r\n")).join(lines) + rng.choice((b"\n", b""))
        # Of one bucket it is none; another may come.
        bucket = rng.choice((0, 1))
        yield Given(name, bucket, None, body, 0)
        if several and rng.random() < 0.3:
            yield Given(name, 1 - bucket, None, body, 0)


def _steps(
    rng: random.Random, objects: int, options: Mapping[str, str], about: Circumstance | None
) -> Iterator[Step]:
    """Objects come in portions, with faults and operations between them."""
    # An inventory of an empty bucket shows little.
    started = rng.random() < (0.2 if "initial.inventory" in options else 0.7)
    if rng.random() < 0.2:
        yield Step(0.0, "limit", {"topic": rng.choice((TOPIC, LETTERS)), "size": 700})
    story = story_of(rng, about)
    current = dict(options)
    started = started or bool(story)
    if started:
        yield from first_steps(rng, about)
    done = 0
    later: tuple[Step, ...] = ()
    while done < objects:
        end = min(objects, done + rng.choice((1, 2, 5)))
        if story:
            # Most at once: a story is about what is there.
            end = max(end, objects - rng.choice((0, 0, 1)))
        late = 0.0 if story else rng.choice((0.0, 0.0, 3.0, 70.0))
        after = rng.choice((0.0, 0.05, 0.3, 2.0, 6.0))
        yield Step(after, "put", {"begin": done, "end": end, "late": late})
        yield from later
        done, later = end, ()
        if not started:
            started = True
            yield Step(0.1, "start", {})
        yield from story
        has_story, story = bool(story), ()
        for _ in () if has_story else range(rng.choice((0, 0, 1, 1, 2))):
            after = rng.choice((0.0, 0.02, 0.05, 0.1, 0.2, 1.0, 5.0))
            yield from fault_steps(rng, after, SOURCE_FAULTS, about)
        if rng.random() < 0.3:
            operation = tuple(noted(_operation(rng, current), current))
            behind = _behind(rng, operation) if done < objects else 0
            yield from operation[: len(operation) - behind]
            later = operation[len(operation) - behind :]
        if rng.random() < 0.15:
            yield Step(rng.choice((0.0, 0.1, 3.0)), "delete", {"number": rng.randrange(done)})


def _behind(rng: random.Random, operation: Sequence[Step]) -> int:
    """How many steps of an operation come after the next objects, which another bucket then has already."""
    is_house = _BUCKET in operation[0].given.get("options", ())
    return len(operation) - 1 if is_house and rng.random() < 0.5 else 0


def _operation(rng: random.Random, options: Mapping[str, str]) -> Iterator[Step]:
    """What an operator does; other options come with a restart."""
    after = rng.choice((0.0, 0.1, 1.0, 4.0))
    if rng.random() < 0.5:
        name = rng.choice(list(OPERATIONS))
        named = {"replay whole": "replay", "forbidden to act": "forbidden"}
        act = "change" if "options" in OPERATIONS[name] else named.get(name, name)
        given = dict(OPERATIONS[name])
        if _BUCKET in given.get("options", ()):
            # Its first start is not like that of the bucket before it, in one of two.
            is_like = rng.random() < 0.5
            first = {} if is_like else {one: rng.choice(DIMENSIONS[one]) for one in FIRST_START}
            kept = valid_options({**options, **given["options"], **first}, FIXED, _WITH)
            given["options"] = changes(options, kept)
        yield Step(after, act, given)
    else:
        name, act = "change", "change"
        # Where a transform needs times, formats without them would be refused.
        has_times = options.get("transforms") == "time"
        has_one = options[_BUCKET] != BOTH
        left_out = [name for name, is_out in (("input.format", has_times), (_BUCKET, has_one)) if is_out]
        changed = rng.choice([one for one in CHANGING if one not in left_out])
        if changed == _BUCKET:
            # One of both goes, and comes back.
            yield Step(after, act, {"options": {_BUCKET: rng.choice((INCOMING, SECOND))}})
            yield from _restart(rng)
            yield Step(rng.choice((0.1, 2.0, 6.0)), act, {"options": {_BUCKET: BOTH}})
        else:
            kept = valid_options({**options, changed: rng.choice(DIMENSIONS[changed])}, FIXED, _WITH)
            yield Step(after, act, {"options": changes(options, kept)})
    if act == "change":
        yield from _restart(rng)


def _restart(rng: random.Random) -> Iterator[Step]:
    yield Step(0.0, rng.choice(("stop", "kill")), {})
    yield Step(rng.choice((0.1, 12.0)), "start", {})
