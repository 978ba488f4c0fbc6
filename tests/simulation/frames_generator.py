"""Scenarios of Spark's source: options in all pairs, objects that come, change and go, restarts, backups."""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from tests.simulation.apart import with_disks
from tests.simulation.pairs import all_pairs, drawn_count
from tests.simulation.scenario import Given, Scenario, Step

INCOMING: Final = "incoming"
SECOND: Final = "second"
STATE: Final = "state"
"""The bucket of logs that do not lie in what is read."""
FOLDER: Final = "folder"
"""Stands for a directory of the run, as the place of the log."""
WITHIN: Final = f"s3://{INCOMING}/in/state"
OTHER_LOG: Final = f"s3://{STATE}/other"
START_KEY: Final = "in/001"
EXCLUDED: Final = "in/c*"
AFTER_MS: Final = 1_700_000_001_000
"""`modifiedAfter` and `modifiedBefore` as they are drawn: some seconds into a run."""
BEFORE_MS: Final = 1_700_000_020_000
FIXED: Final = {
    "path": f"s3://{INCOMING}/in/",
    "aws.s3.region": "us-east-1",
    "poll.interval.ms": "2000",
}
TRIGGER: Final = "query.trigger"
SCHEMA: Final = "query.schema"
VERSIONS: Final = "query.versions"
EVENTS: Final = "query.events"
OWN: Final = (TRIGGER, SCHEMA, VERSIONS, EVENTS)
"""No options of the source: how a query runs, whether the bucket has versions, what its events tell."""
QUEUE: Final = "https://sqs.us-east-1.amazonaws.com/1/q"

DIMENSIONS: Final[Mapping[str, Sequence[str | None]]] = {
    "state.path": (f"s3://{STATE}/log", WITHIN, FOLDER),
    "rows": (None, "columns"),
    "input.format": ("jsonl", "json", "csv", "parquet"),
    "maxFilesPerTrigger": (None, "1", "2"),
    "maxBytesPerTrigger": (None, "150"),
    "sqs.queue.url": (None, QUEUE),
    "sqs.max.held": (None, "1"),
    "poll.listing": (None, "full", "incremental"),
    "reconcile.interval.ms": (None, "5000"),
    "object.min.age.ms": (None, "3000"),
    "max.pending.objects": (None, "1", "3"),
    "include.existing": (None, "false"),
    "native.start.key": (None, START_KEY),
    "object.exclude": (None, EXCLUDED),
    "modifiedAfter": (None, "2023-11-14T22:13:21"),
    "modifiedBefore": (None, "2023-11-14T22:13:40"),
    "on.superseded": (None, "skip"),
    "errors.tolerance": ("all", None),
    "schema.evolution": (None, "add", "rescue"),
    "split.bytes": (None, "1048576"),
    "tasks.max": (None, "1", "3"),
    TRIGGER: (None, "availableNow", "once"),
    SCHEMA: ("given", None),
    VERSIONS: (None, "kept"),
    EVENTS: (None, "bare", "twice"),
}
NARROWING: Final = (
    "include.existing",
    "native.start.key",
    "object.exclude",
    "modifiedAfter",
    "modifiedBefore",
)
"""Seldom: what leaves objects out leaves little to see."""
FAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "kill": {},
    "kill worker": {},
    "stop": {},
    "second": {},
    "pause": {"seconds": 15.0},
    "dies before a write": {"kind": "dies before PutObject", "count": 1},
    "dies after a write": {"kind": "dies after PutObject", "count": 1},
    "dies after deletions": {"kind": "dies after DeleteObjects", "count": 1},
    "dies at a checkpoint": {"count": 1},
    "s3": {"kind": "503", "count": 3},
    "s3 lost": {"kind": "lost", "count": 1},
    "write lost": {"kind": "lost PutObject", "count": 1},
    "s3 silent": {"kind": "silent", "count": 1},
    "s3 away": {"seconds": 10.0},
    "queue away": {"seconds": 40.0},
    "replaced before it is read": {"kind": "replaced GetObject", "count": 1},
    "replaced in its batch": {},
    "deleted in its batch": {},
    "clock": {"ms": 3_600_000},
}
ENDING: Final = frozenset({name for name in FAULTS if name.startswith("dies")} | {"kill", "stop"})
"""Faults after which a query has to be started again."""
OPERATIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "backup": {},
    "checkpoint restored": {},
    "log restored": {},
    "new query": {},
    "second query": {},
    "other bucket": {"options": {"path": f"s3://{SECOND}/in/"}},
    "other log": {"options": {"state.path": OTHER_LOG}},
    "other template": {"options": {"file.name.template": "never/.*"}},
    "bucket denied": {"bucket": INCOMING, "seconds": 20.0},
    "log denied": {"bucket": STATE, "seconds": 20.0},
    "odd messages": {},
}
_LIVES: Final = ("backup", "checkpoint restored", "log restored", "new query", "second query")
"""Often: they are what a log and a checkpoint have to agree about."""
CHANGING: Final = (
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
    "sqs.queue.url",
    "tasks.max",
    "object.min.age.ms",
    "on.superseded",
    "errors.tolerance",
    TRIGGER,
)


class About(NamedTuple):
    """What half of the scenarios are about: options that it needs (several: one of them), and faults."""

    options: Mapping[str, str | tuple[str | None, ...] | None]
    faults: tuple[str, ...]
    operations: tuple[str, ...] = ()
    names: int | None = None
    """So few names, for objects that replace each other; None: as chance has it."""
    begins: str | None = None
    """What it begins with, None for nothing of its own."""
    is_large: bool = False
    """Whether all objects are so large that they are split."""


_ALL: Final[Mapping[str, str | tuple[str | None, ...] | None]] = dict.fromkeys(NARROWING)
_ONE_BY_ONE: Final = {**_ALL, "maxFilesPerTrigger": "1"}
CIRCUMSTANCES: Final = {
    "two queries on one log": About(
        {**_ONE_BY_ONE, TRIGGER: None}, ("second", "pause", "write lost"), ("second query",)
    ),
    "a write that is not answered": About(
        {**_ONE_BY_ONE, "state.path": (f"s3://{STATE}/log", WITHIN)},
        ("write lost", "write lost", "dies after a write", "dies before a write"),
    ),
    "a death between log and checkpoint": About(
        _ONE_BY_ONE, ("dies at a checkpoint", "dies after a write", "dies after deletions", "kill")
    ),
    "backups that are put back": About(
        _ONE_BY_ONE,
        ("kill", "stop"),
        ("backup", "backup", "checkpoint restored", "log restored", "new query", "other bucket", "other log"),
    ),
    "a log that is put back and written to": About(
        {**_ONE_BY_ONE, TRIGGER: None, "object.min.age.ms": None, SCHEMA: "given"},
        ("kill", "stop", "dies at a checkpoint"),
        begins="written to",
    ),
    "replaced before it is read": About(
        {
            **_ALL,
            "sqs.queue.url": (None, QUEUE, QUEUE),
            "input.format": ("jsonl", "parquet"),
            VERSIONS: (None, "kept"),
            EVENTS: (None, "twice"),
        },
        ("replaced before it is read", "replaced before it is read", "kill", "dies at a checkpoint"),
        names=1,
    ),
    "large objects that go": About(
        {
            **_ALL,
            "sqs.queue.url": QUEUE,
            "input.format": "jsonl",
            "on.superseded": (None, "skip"),
            "object.min.age.ms": None,
            "split.bytes": "1048576",
            "tasks.max": (None, "3"),
            TRIGGER: None,
            SCHEMA: "given",
            VERSIONS: None,
        },
        ("replaced in its batch", "deleted in its batch", "kill worker", "s3 silent"),
        names=1,
        is_large=True,
    ),
    "messages of what is under way": About(
        {**_ONE_BY_ONE, "sqs.queue.url": QUEUE, EVENTS: (None, "twice"), TRIGGER: None},
        ("kill", "dies at a checkpoint", "kill worker", "s3", "pause"),
    ),
}
"""By what it is about."""
_OWN_SHARE: Final = 0.8
_NAMES: Final = ("in/a.jsonl", "in/b.jsonl", "in/c.jsonl", "in/d/e.jsonl", "z.jsonl", "in/\u00e9 x.jsonl")
_PORTIONS: Final = 3
_SIZES: Final = (0, 0, 50, 50, 200)
_LARGE_SIZES: Final = (50, 200)
# So many times longer are the texts of a large object: it is split.
STRETCHED: Final = 3000


@cache
def _rows() -> list[dict[str, str | None]]:
    return all_pairs(DIMENSIONS)


def frames_scenario(seed: int) -> Scenario:
    """The scenario of a seed: pairs of options in their order first, between circumstances."""
    rng = random.Random(f"frames-{seed}")
    rows, place, about = _rows(), seed // 2, None
    drawn = {name: rng.choice(each) for name, each in DIMENSIONS.items()}
    drawn |= {name: rng.choice((None, None, drawn[name])) for name in NARROWING}
    if seed % 2:
        about = CIRCUMSTANCES[list(CIRCUMSTANCES)[place % len(CIRCUMSTANCES)]]
        own = about.options.items()
        drawn |= {name: rng.choice(value) if isinstance(value, tuple) else value for name, value in own}
    elif place < len(rows):
        drawn = rows[place]
    options = {**FIXED, **{name: value for name, value in drawn.items() if value is not None}}
    if "rows" not in options:
        # Columns alone have schemas.
        options = {name: value for name, value in options.items() if name not in (SCHEMA, "schema.evolution")}
    objects = tuple(_objects(rng, options, about))
    return Scenario(
        seed=seed,
        direction="frames",
        options=options,
        topics={},
        records=objects,
        steps=with_disks("frames", seed, _steps(rng, len(objects), options, about)),
    )


def _objects(rng: random.Random, options: Mapping[str, str], about: About | None) -> Iterator[Given]:
    """Objects as they are put, one after the other; a name may come again.

    What is the time of a record is here how many times longer the texts of the object are than they say.
    """
    few = None if about is None else about.names
    names = rng.sample(_NAMES[:4] if few else _NAMES, few or rng.choice((1, 3, 5)))
    bad_share = rng.choice((0.0, 0.0, 0.1, 0.4))
    new_share = rng.choice((0.0, 0.0, 0.3)) if "rows" in options else 0.0
    may_be_large = "split.bytes" in options
    are_large = about is not None and about.is_large
    for number in range(drawn_count(rng, small=(1, 2, 3, 5), big=(8, 15))):
        again = rng.random() < (0.7 if few else rng.choice((0.2, 0.2, 0.7)))
        name = rng.choice(names) if again else f"in/{number:03}-{rng.choice('abc')}.jsonl"
        lines = []
        for row in range(rng.choice((5, 9) if are_large else (0, 1, 2, 5, 9))):
            size = rng.choice(_LARGE_SIZES if are_large else _SIZES)
            members: dict[str, Any] = {"n": f"{number}-{row}", "x": "y" * size}
            if rng.random() < new_share:
                members["new"] = row
            bad = rng.random() < bad_share
            lines.append(rng.choice((b"no JSON", b"{")) if bad else json.dumps(members).encode())
        stretch = STRETCHED if may_be_large and (are_large or rng.random() < 0.3) else 0
        yield Given(name, 0, None, b"\n".join(lines) + rng.choice((b"\n", b"")), stretch)


def _steps(
    rng: random.Random, objects: int, options: Mapping[str, str], about: About | None
) -> Iterator[Step]:
    """Objects come in portions, with faults and operations between them."""
    done = 0
    if about is not None and about.begins is not None and objects >= _PORTIONS:
        done = rng.randint(_PORTIONS, objects)
        yield from _written_to(rng, done)
    is_inferred = "rows" in options and SCHEMA not in options
    # From nothing no schema can be inferred.
    started = done > 0 or rng.random() < (0.1 if is_inferred else 0.7)
    if started and not done:
        yield Step(0.0, "start", {})
    while done < objects:
        end = min(objects, done + rng.choice((1, 2, 5)))
        late = rng.choice((0.0, 0.0, 3.0, 70.0))
        yield Step(rng.choice((0.0, 0.05, 0.3, 2.0, 6.0)), "put", {"begin": done, "end": end, "late": late})
        done = end
        if not started or options.get(TRIGGER) is not None:
            started = True
            yield Step(0.1, "start", {})
        for _ in range(rng.choice((0, 1, 1, 2, 3))):
            yield from _fault(rng, about)
        if rng.random() < (0.6 if about is not None and about.operations else 0.4):
            yield from _operation(rng, options, about)
        if rng.random() < 0.15:
            yield Step(rng.choice((0.0, 0.1, 3.0)), "delete", {"number": rng.randrange(done)})


def _written_to(rng: random.Random, objects: int) -> Iterator[Step]:
    """A log is restored from a backup that is older than the checkpoint, and written to by another query."""
    first, second = sorted(rng.sample(range(1, objects), _PORTIONS - 1))
    yield Step(0.0, "start", {})
    yield Step(0.1, "put", {"begin": 0, "end": first, "late": 0.0})
    yield Step(8.0, "backup", {})
    yield Step(0.1, "put", {"begin": first, "end": second, "late": 0.0})
    yield Step(8.0, "log restored", {})
    yield Step(0.1, "put", {"begin": second, "end": objects, "late": 0.0})
    yield Step(rng.choice((0.1, 8.0)), "second query", {})
    yield Step(rng.choice((0.1, 1.0, 20.0)), rng.choice(("stop", "kill")), {})
    yield Step(0.1, "start", {})


def _fault(rng: random.Random, about: About | None) -> Iterator[Step]:
    is_about = about is not None and rng.random() < _OWN_SHARE
    fault = rng.choice(about.faults if about is not None and is_about else list(FAULTS))
    after = rng.choice((0.0, 0.01, 0.03, 0.06, 0.1, 0.2, 1.0, 5.0))
    yield Step(after, act_of(fault), dict(FAULTS[fault]))
    if fault in ENDING:
        yield Step(rng.choice((0.1, 0.3, 2.0, 12.0)), "start", {})


def act_of(fault: str) -> str:
    """What is done for it: kinds of faults of S3 are one act with other words."""
    return "s3" if "kind" in FAULTS[fault] else fault


def _operation(rng: random.Random, options: Mapping[str, str], about: About | None) -> Iterator[Step]:
    """What an operator does; other options, and what is restored, come with a restart."""
    after = rng.choice((0.0, 0.1, 1.0, 4.0))
    kind = rng.random()
    if about is not None and about.operations and kind < _OWN_SHARE:
        yield from _life(rng, after, rng.choice(about.operations), options)
        return
    if kind < 0.35:
        name = rng.choice(CHANGING)
        others = [value for value in DIMENSIONS[name] if value != options.get(name)]
        yield Step(after, "change", {"options": {name: rng.choice(others)}})
        yield from restart(rng)
        return
    yield from _life(rng, after, rng.choice(_LIVES if kind < 0.7 else list(OPERATIONS)), options)


def _life(rng: random.Random, after: float, name: str, options: Mapping[str, str]) -> Iterator[Step]:
    """One of the operations."""
    if name == "other log" and options["state.path"] == WITHIN:
        # The files of the log of before would be objects like others.
        name = "backup"
    if name.endswith(("restored", "new query")):
        yield Step(after, "stop", {})
        yield Step(rng.choice((0.1, 8.0)), name, {})
        yield Step(0.1, "start", {})
    elif "options" in OPERATIONS[name]:
        yield Step(after, "change", dict(OPERATIONS[name]))
        yield from restart(rng)
        back = {one: options.get(one) for one in OPERATIONS[name]["options"]}
        yield Step(rng.choice((0.1, 2.0, 6.0)), "change", {"options": back})
        yield from restart(rng)
    else:
        yield Step(after, name, dict(OPERATIONS[name]))


def restart(rng: random.Random) -> Iterator[Step]:
    """The end of a process, and the next one."""
    yield Step(0.0, rng.choice(("stop", "kill")), {})
    yield Step(rng.choice((0.1, 8.0)), "start", {})
