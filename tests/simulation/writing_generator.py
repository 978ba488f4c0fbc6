"""Scenarios of writing queries of Spark: the writer's options in all pairs, rows, restarts, faults."""

import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from spark.frames.writing import WRITTEN
from tests.simulation.apart import OWN_FROM, store_steps, with_disks, with_frames_again
from tests.simulation.circumstances import Circumstance
from tests.simulation.layouts_generator import _OF_LAYOUT as OF_LAYOUT
from tests.simulation.layouts_records import layout_records
from tests.simulation.pairs import all_pairs, valid_options
from tests.simulation.scenario import Given, Scenario, Step
from tests.simulation.sink_generator import BYTES, STRING, noted
from tests.simulation.sink_records import JSON, records_of

BUCKET: Final = "archive"
SECOND: Final = "second"
STATE: Final = "state"
"""The bucket of files of batches that are not in a directory."""
FOLDER: Final = "folder"
"""Stands for a directory of the run, as the place of these files."""
OUT: Final = "out/"
FIXED: Final = {"path": f"s3://{BUCKET}/{OUT}", "aws.s3.region": "us-east-1"}
TASKS: Final = "query.tasks"
LIMIT: Final = "query.limit"
COLUMNS: Final = "query.columns"
TRIGGER: Final = "query.trigger"
OWN: Final = (TASKS, LIMIT, COLUMNS, TRIGGER)
"""No options of the writer: how its rows come to tasks, how many a batch has, which columns, how it runs."""
_OBJECT: Final = "{{topic}}/{{partition}}-{{start_offset}}"
_KEYS: Final = "keys/{{topic}}/{{key}}"
_OF_QUERY: Final[Mapping[str, Sequence[str | None]]] = {
    "state.path": (f"s3://{STATE}/writes", FOLDER),
    TASKS: (None, "ranges", "mixed", "spread"),
    LIMIT: (None, "1", "3"),
    COLUMNS: (None, "bare", "texts"),
    TRIGGER: (None, "availableNow"),
}
_OWN_LAYOUT: Final[Mapping[str, Sequence[str | None]]] = {
    "output.format": ("jsonl", "parquet", "avro", "json", "csv"),
    "value.converter": (JSON, STRING, BYTES, None),
    "key.converter": (None, STRING, BYTES),
    "file.name.template": (
        f"all/{_OBJECT}",
        f"{{{{value:a}}}}/{_OBJECT}",
        f"{{{{key}}}}/{_OBJECT}",
        f"{{{{date:yyyy-MM-dd-HH}}}}/{_OBJECT}",
        f"{{{{header:h}}}}/{_OBJECT}",
        _KEYS,
    ),
    "file.name.timestamp.source": (None, "event", "wallclock"),
    "file.name.values": (None, "plain"),
    "file.compression.type": (None, "none", "gzip", "zstd", "snappy"),
    "rotate.records": (None, "1", "3"),
    "rotate.span.ms": (None, "3600000"),
    "rotate.bytes": (None, "200"),
    "rotate.together": (None, "first", "total"),
    "rotate.on.group.change": (None, "true"),
    "schema.compatibility": (None, "backward", "full"),
    "max.open.files": (None, "2"),
    "file.name.unique": ("assumed",),
    "behavior.on.null.values": (None, "ignore", "fail"),
    "value.converter.schemas.enable": ("false", "true"),
    "aws.s3.part.size": (None, "5242880"),
    "record.max.bytes": (None, "2097152"),
    "aws.s3.object.tags": (None, "offsets"),
    **_OF_QUERY,
}
_TAKEN: Final = frozenset(one.name for one in WRITTEN)
LAYOUTS: Final = ("headrace", "aiven", "headrace", "confluent", "headrace", "lenses", "headrace", "quix")
"""In turn: every other scenario has our own."""


def _dimensions(layout: str) -> dict[str, Sequence[str | None]]:
    if layout == "headrace":
        return dict(_OWN_LAYOUT)
    found = {name: values for name, values in OF_LAYOUT[layout].items() if name in _TAKEN}
    # Only converters that need no registry.
    for name in ("value.converter", "key.converter"):
        found[name] = tuple(one for one in found[name] if one in (JSON, STRING, BYTES, None))
    del found["aws.s3.prefix"]
    # Without times and keys there is less to hold against the records.
    return {**found, **_OF_QUERY, COLUMNS: (None, "texts")}


_OF: Final = {layout: _dimensions(layout) for layout in dict.fromkeys(LAYOUTS)}
DIMENSIONS: Final[Mapping[str, Sequence[str | None]]] = {
    name: tuple(dict.fromkeys(value for one in _OF.values() for value in one.get(name, (None,))))
    for name in dict.fromkeys(name for one in _OF.values() for name in one)
}
"""Those of all layouts."""

FAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "kill": {},
    "kill worker": {},
    "kill leader": {"seconds": 6.0},
    "pause": {"seconds": 15.0},
    "pause worker": {"seconds": 20.0},
    "executor lost": {"seconds": 6.0},
    "stop": {},
    "second": {},
    "speculate": {"batches": 2},
    "dies before a file": {"kind": "dies before PutObject", "count": 1},
    "dies after a file": {"kind": "dies after PutObject", "count": 1},
    "dies before a completion": {"kind": "dies before CompleteMultipartUpload", "count": 1},
    "dies after a completion": {"kind": "dies after CompleteMultipartUpload", "count": 1},
    "dies at a checkpoint": {"count": 1},
    "s3": {"kind": "503", "count": 3},
    "s3 lost": {"kind": "lost", "count": 1},
    "file lost": {"kind": "lost PutObject", "count": 1},
    "complete lost": {"kind": "lost CompleteMultipartUpload", "count": 1},
    "file late": {"kind": "late PutObject", "count": 4},
    "complete late": {"kind": "late CompleteMultipartUpload", "count": 4},
    "file conflict": {"kind": "409 PutObject", "count": 1},
    "complete conflict": {"kind": "409 CompleteMultipartUpload", "count": 2},
    "s3 silent": {"kind": "silent", "count": 1},
    "s3 broken": {"kind": "broken", "count": 2},
    "s3 away": {"seconds": 10.0},
    "clock": {"ms": 3_600_000},
    "clock back": {"ms": -172_800_000},
}
ENDING: Final = frozenset(
    {name for name in FAULTS if name.startswith("dies")} | {"kill", "kill leader", "stop"}
)
"""Faults after which a query has to be started again."""
OPERATIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "checkpoint restored": {},
    "new query": {},
    "other query": {},
    "batch write": {"ordered": True},
    "batch unordered": {"ordered": False},
    "taken away": {},
    "uploads ended": {},
    "foreign name": {},
    "other bucket": {"options": {"path": f"s3://{SECOND}/{OUT}"}},
    "days": {"days": 4},
    "bucket denied": {"bucket": BUCKET, "seconds": 20.0},
    "denied for long": {"bucket": BUCKET},
    "state denied": {"bucket": STATE, "seconds": 20.0},
}
CHANGING: Final = (
    "output.format",
    "file.name.template",
    "file.compression.type",
    "rotate.records",
    "rotate.bytes",
    "behavior.on.null.values",
    "max.open.files",
    TASKS,
    LIMIT,
    TRIGGER,
)
FILTER: Final = "filter"
"""The query's own filter leaves out stretches of rows, so that batches have none."""
_FILTER_SHARE: Final = 0.1
_DAYS: Final = 3
"""So old an unfinished upload gets, where the bucket has a rule."""


class About(NamedTuple):
    """What half of the scenarios are about: options (several: one of them), faults, operations."""

    options: Mapping[str, str | tuple[str | None, ...] | None]
    faults: tuple[str, ...]
    operations: tuple[str, ...] = ()
    story: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    """Steps in an order of their own, once, with rows of theirs: what is seldom made by chance."""


_DIES: Final = (
    "dies before a file",
    "dies after a file",
    "dies before a completion",
    "dies after a completion",
    "dies at a checkpoint",
)
_MANY: Final[Mapping[str, str | tuple[str | None, ...] | None]] = {
    "rotate.records": ("1", "3"),
    TRIGGER: None,
    "behavior.on.null.values": None,
}
CIRCUMSTANCES: Final = {
    "a driver that dies in its commit": About(
        {**_MANY, TASKS: (None, "spread")}, (*_DIES, "kill", "s3 away")
    ),
    "a commit that comes late": About(
        {**_MANY, LIMIT: ("1", "3")}, ("kill leader", "pause", "second", "file late", "complete late", "kill")
    ),
    "a checkpoint that is put back": About(
        {**_MANY, LIMIT: ("1", "3", None, None)},
        _DIES,
        ("checkpoint restored", "change limit", "checkpoint restored"),
        story=(
            ("start", {}),
            ("wait", {}),
            ("stop", {}),
            ("change", {"options": {LIMIT: "1"}}),
            ("checkpoint restored", {}),
            ("start", {}),
            ("wait", {}),
        ),
    ),
    "a checkpoint that is put back after a driver died": About(
        {**_MANY, LIMIT: (None, "3")},
        _DIES,
        ("checkpoint restored", "change limit"),
        story=(
            ("s3", {"kind": "dies before CompleteMultipartUpload", "count": 1}),
            ("start", {}),
            ("wait", {}),
            ("change", {"options": {LIMIT: "1"}}),
            ("checkpoint restored", {}),
            ("start", {}),
            ("wait", {}),
        ),
    ),
    "a file that is there after its commit has failed": About(
        {**_MANY, "state.path": f"s3://{STATE}/writes"},
        ("file late", "file lost", "s3 away"),
        ("state denied", "change"),
        story=(
            ("s3", {"kind": "late PutObject", "count": 1}),
            ("forbidden", {"operation": "PutObject", "seconds": 40.0}),
            ("start", {}),
            ("wait", {}),
        ),
    ),
    "attempts that fail or come twice": About(
        {**_MANY, TASKS: ("ranges", "spread", None)},
        ("kill worker", "executor lost", "speculate", "speculate", "pause worker", "s3 silent"),
    ),
    "uploads that the bucket ends": About({**_MANY}, _DIES, ("days", "days", "taken away", "other bucket")),
    "objects that are taken away": About({**_MANY}, _DIES, ("taken away", "taken away", "days")),
    "names of keys": About(
        {"file.name.template": _KEYS, "file.compression.type": (None, "none"), TRIGGER: None},
        (*_DIES, "kill leader", "speculate", "kill worker"),
        ("taken away",),
    ),
    "what S3 forbids": About(
        _MANY, ("s3 away", "s3", "s3 silent"), ("denied for long", "bucket denied", "state denied")
    ),
    "a batch that another bucket has": About(
        {**_MANY, LIMIT: None},
        _DIES,
        ("other bucket", "days", "change"),
        story=(
            ("stop", {}),
            ("s3", {"kind": "dies before CompleteMultipartUpload", "count": 1}),
            ("start", {}),
            ("wait", {}),
            ("change", {"options": {"path": f"s3://{SECOND}/{OUT}"}}),
            ("days", {"days": 4}),
            ("start", {}),
        ),
    ),
    "several queries": About(_MANY, ("second", "pause", "kill leader"), ("other query", "batch write")),
    "uploads that another program ends": About(
        {**_MANY, TASKS: ("ranges", "spread", None)},
        ("kill worker", "pause worker", "executor lost", "stop"),
        ("uploads ended", "uploads ended", "uploads ended", "batch write", "other query"),
    ),
    "names that others have": About(
        _MANY, ("kill", "complete lost"), ("foreign name", "foreign name", "taken away")
    ),
}
"""By what it is about."""
_OWN_SHARE: Final = 0.8
HUGE: Final = b"huge "


@cache
def _rows(layout: str) -> list[dict[str, str | None]]:
    return all_pairs(_OF[layout])


def writing_scenario(seed: int) -> Scenario:
    """The scenario of a seed: the layouts in turn, and of each pairs of options in their order first."""
    rng = random.Random(f"writing-{seed}")
    place, about = seed // 2, None
    layout = LAYOUTS[place % len(LAYOUTS)]
    dimensions, rows = _OF[layout], _rows(layout)
    chosen = {name: rng.choice(each) for name, each in dimensions.items()}
    if seed % 2:
        about = CIRCUMSTANCES[list(CIRCUMSTANCES)[place % len(CIRCUMSTANCES)]]
        own = {name: value for name, value in about.options.items() if name in dimensions}
        if layout != "headrace":
            own.pop("file.name.template", None)
        chosen |= {
            name: rng.choice(value) if isinstance(value, tuple) else value for name, value in own.items()
        }
    elif place // len(LAYOUTS) * LAYOUTS.count(layout) < len(rows):
        turn = LAYOUTS[: place % len(LAYOUTS)].count(layout)
        nth = place // len(LAYOUTS) * LAYOUTS.count(layout) + turn
        chosen = dict(rows[nth]) if nth < len(rows) else chosen
    filtered = _filtered(seed)
    if filtered:
        chosen[LIMIT] = random.Random(f"limit-{seed}").choice(("1", "3"))
    options = _valid(chosen, layout)
    name = "events" if layout == "headrace" else "events-"
    topics = {f"{name}{number}": rng.choice((1, 1, 2, 3)) for number in range(rng.choice((1, 1, 2)))}
    records = tuple(_records(rng, topics, options))
    return Scenario(
        seed=seed,
        direction="writing",
        options=options,
        topics=topics,
        records=records,
        steps=(
            *filtered,
            *store_steps("writing", seed, (BUCKET, SECOND)),
            *with_disks("writing", seed, with_frames_again(seed, _steps(rng, len(records), options, about))),
        ),
    )


def _filtered(seed: int) -> tuple[Step, ...]:
    """Some queries have a filter, and batches so small that some of them have no rows."""
    rng = random.Random(f"filter-{seed}")
    if seed < OWN_FROM or rng.random() >= _FILTER_SHARE:
        return ()
    return (Step(0.0, FILTER, {"rows": rng.choice((1, 2, 4))}),)


def _valid(chosen: Mapping[str, str | None], layout: str) -> dict[str, str]:
    """The chosen options without those that the settings refuse together."""
    base = {
        "name": "frames",
        "bootstrap.servers": "unused:9092",
        "topics.regex": ".*",
        "aws.s3.bucket.name": BUCKET,
        "aws.s3.prefix": OUT,
    }
    if layout != "headrace":
        base["output.layout"] = layout
    asked = {name: value for name, value in chosen.items() if name in _TAKEN}
    found = {"output.format": "jsonl", **valid_options(asked, base, {})}
    of_query = {name: value for name, value in chosen.items() if name in _OF_QUERY and value is not None}
    has_dates = "{{date" in found.get("file.name.template", "")
    if (
        has_dates
        and found.get("file.name.timestamp.source") != "wallclock"
        and of_query.get(COLUMNS) == "bare"
    ):
        # Each row would be refused for the time that it does not have.
        del of_query[COLUMNS]
    # Spark's name for bucket and prefix is `path`.
    kept = {name: value for name, value in found.items() if name not in base or name == "output.layout"}
    return {**FIXED, **kept, **of_query}


def _records(rng: random.Random, topics: Mapping[str, int], options: Mapping[str, str]) -> Iterator[Given]:
    """The rows, in the order in which they come."""
    has_huge = rng.random() < 0.08 and "output.layout" not in options
    is_text = options.get("value.converter") in (None, STRING, BYTES)
    made = layout_records if "output.layout" in options else records_of
    about = Circumstance(
        {}, (), bad_share=rng.choice((0.0, 0.0, 0.0, 0.0, 0.1)), counts=rng.choice(((2, 4), (6, 9), (12, 20)))
    )
    for one in made(rng, topics, options, about):
        value = one.value
        if has_huge and is_text and rng.random() < 0.3:
            value = HUGE + b"%d" % rng.choice((900_000, 1_500_000, 3_000_000))
        if options.get(COLUMNS) == "texts":
            # Columns of texts hold no other bytes.
            value = None if value is None else value.decode(errors="replace").encode()
        yield Given(one.topic, one.partition, one.key, value, one.timestamp_ms, one.headers)


def _steps(
    rng: random.Random, records: int, options: Mapping[str, str], about: About | None
) -> Iterator[Step]:
    """Rows come in portions, with faults and operations between them."""
    done, current, has_story = 0, dict(options), False
    if rng.random() < 0.5 or (about is not None and "days" in about.operations):
        yield Step(0.0, "rule", {"bucket": rng.choice((BUCKET, BUCKET, SECOND)), "days": _DAYS})
    if rng.random() < 0.7 and (about is None or not about.story):
        yield Step(0.0, "start", {})
    while done < records:
        end = min(records, done + rng.choice((1, 2, 4, 8)))
        yield Step(rng.choice((0.0, 0.05, 0.3, 2.0, 4.0)), "produce", {"begin": done, "end": end})
        done = end
        for act, given in about.story if about is not None and not has_story else ():
            has_story = True
            yield Step(rng.choice((0.5, 2.0)), act, dict(given))
        if options.get(TRIGGER) is not None or rng.random() < 0.7:
            yield Step(rng.choice((0.0, 0.1)), "start", {})
        for _ in range(rng.choice((0, 1, 1, 2, 3))):
            yield from _fault(rng, about)
        if rng.random() < (0.6 if about is not None and about.operations else 0.35):
            yield from noted(_operation(rng, current, about), current)


def _fault(rng: random.Random, about: About | None) -> Iterator[Step]:
    is_about = about is not None and rng.random() < _OWN_SHARE
    fault = rng.choice(about.faults if about is not None and is_about else list(FAULTS))
    after = rng.choice((0.0, 0.01, 0.03, 0.06, 0.1, 0.2, 1.0, 5.0))
    yield Step(after, act_of(fault), dict(FAULTS[fault]))
    if fault in ENDING:
        yield Step(rng.choice((0.1, 0.3, 2.0, 12.0)), "start", {})


def act_of(fault: str) -> str:
    """What is done for it: kinds of faults of S3 are one act with other words."""
    if "kind" in FAULTS[fault]:
        return "s3"
    return "clock" if fault == "clock back" else fault


def _operation(rng: random.Random, options: Mapping[str, str], about: About | None) -> Iterator[Step]:
    """What an operator does; other options, and what is restored, come with a restart."""
    after = rng.choice((0.0, 0.1, 1.0, 4.0))
    if about is not None and about.operations and rng.random() < _OWN_SHARE:
        name = rng.choice(about.operations)
    elif rng.random() < 0.35:
        name = "change"
    else:
        name = rng.choice(list(OPERATIONS))
    if name.startswith("change"):
        # Objects of other layouts are read by what they say of all of them.
        may_change = CHANGING if "output.layout" not in options else CHANGING[3:]
        changed = LIMIT if name == "change limit" else rng.choice(may_change)
        yield Step(after, "change", {"options": _changed(rng, options, changed)})
        yield from restart(rng)
    elif name in ("checkpoint restored", "new query", "days"):
        yield Step(after, rng.choice(("stop", "kill")), {})
        yield Step(rng.choice((0.1, 8.0)), name, dict(OPERATIONS[name]))
        yield Step(0.1, "start", {})
    elif "options" in OPERATIONS[name]:
        yield Step(after, "change", dict(OPERATIONS[name]))
        yield from restart(rng)
    else:
        act = {"batch unordered": "batch write"}.get(name, name)
        yield Step(after, act, dict(OPERATIONS[name]))


def _changed(rng: random.Random, options: Mapping[str, str], name: str) -> dict[str, str | None]:
    """Another value of one option, with what the settings then leave out."""
    layout = options.get("output.layout", "headrace")
    values = [value for value in _OF[layout].get(name, (None,)) if value != options.get(name)]
    # What is changed comes first: what does not go with it is left out.
    others = {name: rng.choice(values or [None]), **{one: own for one, own in options.items() if one != name}}
    found = _valid(others, layout)
    names = [one for one in {**options, **found} if options.get(one) != found.get(one)]
    return {one: found.get(one) for one in names if one not in FIXED}


def restart(rng: random.Random) -> Iterator[Step]:
    """The end of a process, and the next one."""
    yield Step(0.0, rng.choice(("stop", "kill")), {})
    yield Step(rng.choice((0.1, 8.0)), "start", {})
