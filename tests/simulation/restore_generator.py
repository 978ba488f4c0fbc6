"""Scenarios of restores: our sink archives in Confluent's layout, and the objects come back in any order."""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from tests.simulation.apart import around
from tests.simulation.circumstances import OWED, RESTORE, Circumstance, chosen_options
from tests.simulation.hard_reading import with_hard_reading
from tests.simulation.listing_order import with_listing_order
from tests.simulation.owed_actions import with_owed_actions
from tests.simulation.pairs import all_pairs, drawn_count, valid_options
from tests.simulation.scenario import Given, Scenario, Step
from tests.simulation.sink_generator import FAULTS, fault_steps, story_of
from tests.simulation.sink_records import JSON
from tests.simulation.unsound_values import unsound_scenario

ARCHIVE: Final = "archive"
ARCHIVED: Final = "orders"
RESTORED: Final = "restored"
STRING: Final = "org.apache.kafka.connect.storage.StringConverter"

SINK: Final = {
    "name": "sink",
    "bootstrap.servers": "broker:9092",
    "aws.s3.bucket.name": ARCHIVE,
    "aws.s3.region": "us-east-1",
    "http.listen": "",
    "topics": ARCHIVED,
    "output.layout": "confluent",
    "output.format": "jsonl",
    "file.name.template": (
        "topics/{{topic}}/partition={{partition}}/"
        "{{topic}}+{{partition}}+{{start_offset:padding=true}}{{extension}}"
    ),
    "value.converter": JSON,
    "value.converter.schemas.enable": "false",
    "key.converter": STRING,
    "rotate.together": "first",
    "file.compression.type": "none",
}
FIXED: Final = {
    "name": "restore",
    "bootstrap.servers": "broker:9092",
    "aws.s3.bucket.name": "incoming",
    "aws.s3.region": "us-east-1",
    "http.listen": "",
    "input.layout": "confluent",
    "restore.topic.map": f"{ARCHIVED}:{RESTORED}",
    "poll.interval.ms": "2000",
    "restore.sidecars.wait.ms": "3000",
}
DIMENSIONS: Final[Mapping[str, Sequence[str | None]]] = {
    "archive.keys": ("keys", None),
    "archive.tombstones": ("tombstone", None),
    "archive.tags": ("offsets", None),
    "archive.records": ("1", "3", "5"),
    "post.action": (None, "delete", "move:done/"),
    "restore.sidecars": (None, "required"),
    "restore.tombstones": (None, "proven", "after", "ignore"),
    "ordering": (None, "object", "partition"),
    "job.max.objects": (None, "1", "2"),
    "tasks.max": (None, "1", "3"),
    "transaction.boundary.records": (None, "1"),
    "job.linger.ms": (None, "0"),
    "sqs.queue.url": (None, "https://sqs.us-east-1.amazonaws.com/1/q"),
    "object.min.age.ms": (None, "3000"),
    "reconcile.interval.ms": (None, "5000"),
    "exactly.once.support": (None, "disabled"),
}

OPERATIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "replay": {"from_start": False},
    "replay whole": {"from_start": True},
    "pause connector": {},
}
"""What an operator does to a restore, and with what."""
CHANGING: Final = ("restore.tombstones",)
"""What is another one after a restart."""
# The second sorts after tombstones, and its values after those are listed.
UNPADDED: Final = "unpadded"
_NAMES: Final = {
    UNPADDED: (":padding=true", ""),
    "years": ("partition={{partition}}", "year={{date:yyyy}}"),
}
_OPERATED: Final = 0.15
_BOUNDED: Final = 0.25
_CHANGED: Final = 0.3
_PROVEN: Final = 0.7
_OWED: Final = 1 / 30


@cache
def _rows() -> list[dict[str, str | None]]:
    return all_pairs(DIMENSIONS)


def sink_options(options: Mapping[str, str]) -> dict[str, str]:
    """The configuration of the sink that made the archive."""
    more = {"rotate.records": options.get("archive.records", "3")}
    if options.get("archive.keys"):
        more |= {"sidecars": "keys", "sidecars.keys.format": "jsonl"}
        if options.get("archive.tombstones"):
            more["sidecars.tombstones.directory"] = "tombstone"
    if options.get("archive.tags"):
        more["aws.s3.object.tags"] = "offsets"
    if (names := options.get("archive.names")) is not None:
        more["file.name.template"] = SINK["file.name.template"].replace(*_NAMES[names])
    return SINK | more


def source_options(options: Mapping[str, str]) -> dict[str, str]:
    """The configuration of the restore."""
    return {name: value for name, value in options.items() if not name.startswith("archive.")}


def _bounds(seed: int) -> dict[str, str]:
    """For one restore in four a small bound of what is pending, and pages of a listing that are smaller yet.

    Drawn apart, so that what else a seed draws stays as it is.
    """
    rng = random.Random(f"restore-bounds-{seed}")
    if rng.random() >= _BOUNDED:
        return {}
    names = rng.choice((None, "unpadded", "years"))
    bounds = {"archive.page": rng.choice("123"), "max.pending.objects": rng.choice("138")}
    return bounds if names is None else bounds | {"archive.names": names}


def restore_scenario(seed: int) -> Scenario:
    """The scenario of a seed: pairs of options in their order first, between circumstances."""
    if (unsound := unsound_scenario(seed, FIXED, ARCHIVED)) is not None:
        return unsound
    rng = random.Random(f"restore-{seed}")
    chosen, about = chosen_options(rng, seed, _rows(), DIMENSIONS, RESTORE)
    # Drawn apart, as bounds are.
    if (owing := random.Random(f"restore-owed-{seed}")).random() < _OWED:
        chosen, about = OWED.chosen(owing, chosen), OWED
    archive = {name: value for name, value in chosen.items() if name.startswith("archive.") and value}
    own = {name: value for name, value in chosen.items() if not name.startswith("archive.")}
    options = valid_options(own, FIXED, {}) | archive | _bounds(seed)
    more, changes = ({}, ()) if about is OWED else _changes(seed, options)
    options |= more
    partitions = rng.choice((about.partitions if about is not None else ()) or (1, 1, 2))
    has_tombstones = "archive.keys" in archive and "archive.tombstones" in archive
    share = rng.choice((0.0, 0.1, 0.4)) if has_tombstones else 0.0
    if about is not None and about.bad_share is not None:
        share = about.bad_share
    records = tuple(_records(rng, partitions, share, about))
    drawn = _with_changes(seed, restore_steps(rng, about), changes)
    steps = around("restore", seed, with_hard_reading("restore", seed, drawn), denied=(RESTORED,))
    options, steps = with_owed_actions("restore", seed, options, steps)
    scenario = Scenario(
        seed=seed,
        direction="restore",
        options=options,
        topics={ARCHIVED: partitions},
        records=records,
        steps=steps,
    )
    return with_listing_order(scenario, FIXED, ARCHIVED)


def _changes(seed: int, options: Mapping[str, str]) -> tuple[dict[str, str], tuple[Step, ...]]:
    """In some scenarios restarts, each with another value of `restore.tombstones`: options, and steps.

    Drawn apart, as bounds are.
    """
    rng, steps = random.Random(f"restore-changes-{seed}"), list[Step]()
    if "archive.tombstones" not in options or "archive.keys" not in options or rng.random() >= _CHANGED:
        return {}, ()
    now = options.get(CHANGING[0])
    for _ in range(rng.choice((1, 1, 2))):
        now = rng.choice([mode for mode in (None, "after", "after", "proven", "ignore") if mode != now])
        steps += [
            Step(0.0, "await", {"what": rng.choice(("task", "transaction", "another transaction"))}),
            Step(rng.choice((0.0, 0.0, 0.02, 0.1, 0.5, 3.0)), rng.choice(("stop", "kill")), {}),
            Step(0.0, "change", {"options": {CHANGING[0]: now}}),
            Step(rng.choice((0.0, 0.5, 4.0)), "start", {}),
        ]
    # Places are proven, and a restart finds objects of which some rows are in Kafka.
    is_proven = {"archive.tags": "offsets", "archive.records": "5", "transaction.boundary.records": "1"}
    return (is_proven if rng.random() < _PROVEN else {}), tuple(steps)


def _with_changes(seed: int, steps: Iterable[Step], changes: Sequence[Step]) -> Iterator[Step]:
    rng, found = random.Random(f"restore-restarts-{seed}"), list(steps)
    arrived = [place for place, step in enumerate(found) if step.act == "arrive"]
    place = min(rng.choice(arrived) + 2, len(found))  # right after the start that follows
    yield from (*found[:place], *changes, *found[place:])


def _records(
    rng: random.Random, partitions: int, share: float, about: Circumstance | None
) -> Iterator[Given]:
    """Records with keys, and so great a share of tombstones; or one, whose place is proven."""
    owed = rng.choice((1, 2, 3)) if about is OWED else None
    counts = () if about is None else about.counts
    for number in range(rng.choice(counts) if counts else drawn_count(rng, small=(1, 4, 6), big=(12, 25))):
        value = None if rng.random() < share or number == owed else b'{"n":%d}' % number
        yield Given(ARCHIVED, rng.randrange(partitions), b"k%d" % number, value, 1_700_000_000_000 + number)


def restore_steps(rng: random.Random, about: Circumstance | None) -> Iterator[Step]:
    """Portions of the archive come, in the order of their names or in any."""
    order = rng.choice(("sorted", "random", "values first", "tombstones last"))
    portions, between = rng.choice((1, 1, 2, 4)), (0.0, 0.1, 2.0, 8.0)
    if about is not None:
        order, portions = rng.choice(about.orders), rng.choice(about.portions)
        between = (2.0, 2.0, 8.0, 8.0)
    is_first = rng.random() < 0.5
    if is_first and (about is None or not about.before):
        yield Step(0.0, "start", {})
    for portion in range(portions):
        given = {"portion": portion, "of": portions, "order": order, "late": rng.choice((0.0, 3.0))}
        yield Step(rng.choice(between), "arrive", given)
        yield Step(0.0, "start", {})
        if portion == 0:
            yield from story_of(rng, about)
        for _ in range(rng.choice((0, 0, 1, 2))):
            yield from fault_steps(rng, rng.choice((0.0, 0.05, 0.1, 0.2, 1.0, 5.0)), FAULTS, about)
        if rng.random() < _OPERATED:
            name = rng.choice(list(OPERATIONS))
            yield Step(
                rng.choice((0.0, 0.1, 4.0, 12.0)), "replay" if "replay" in name else name, OPERATIONS[name]
            )
