"""What is drawn apart from all else of a scenario, so that its other draws stay what they were."""

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tests.simulation.circumstances import BY_SCHEMAS, Circumstance
from tests.simulation.scenario import Step
from tests.simulation.schemas import AVRO, JSON_SCHEMA

NO_CONDITIONS: Final = "store without conditions"
CUT_OFF: Final = "cut off"
FOREIGN: Final = "foreign name"
AGAIN: Final = "batch again"
COMPACTED: Final = "ledger compacted"
RETENTION: Final = "retention"
LOG_CUT: Final = "log cut off"
EXPIRED: Final = "offsets expired"
IDS_EXPIRED: Final = "transactional ids expired"
WEEKS: Final = "weeks"
BY_TIME: Final = (COMPACTED, EXPIRED, IDS_EXPIRED, WEEKS)
"""What Kafka, and nothing else, does to a connector by time."""
DENIED: Final = "topic denied"
LEADERLESS: Final = "topic without a leader"
HIDDEN: Final = "topic hidden"
HELD: Final = "held"
"""A connector is paused or stopped for a time, in which its offsets may be changed."""
RESUMED: Final = "resumed"
PAGES: Final = "page keys"
LACKING: Final = "listings lack"
REWINDS: Final = "rewinds"
GROUP_MOVED: Final = "group moved"
"""Another program commits offsets for a sink's group."""
OWN_FROM: Final = 300
"""Before it are the seeds of `make test` and of the table of mutations, chosen for what they find: what is
drawn since then comes from here on."""
LEDGER: Final = "the ledger"
"""Stands for the connector's own ledger among topics."""
DISK_FULL: Final = "disk full"
DISK_BROKEN: Final = "disk broken"
NO_FILES: Final = "no descriptors"
DISKS: Final = (DISK_FULL, DISK_BROKEN, NO_FILES)
_STORE_SHARE: Final = 0.12
_CUT_SHARE: Final = 0.15
_FOREIGN_SHARE: Final = 0.12
_AGAIN_SHARE: Final = 0.6
_KEPT_SHARE: Final = 0.2
_LOG_SHARE: Final = 0.1
_MARKER_SHARE: Final = 0.3
_DISK_SHARE: Final = 0.1
_DENIED_SHARE: Final = 0.12
_UNKNOWN_SHARE: Final = 0.12
_CLOCK_SHARE: Final = 0.1
_OFFSETS_SHARE: Final = 0.15
_TAKEOVER_SHARE: Final = 0.5
_FIRST_SHARE: Final = 0.4
_AFTER_SHARE: Final = 0.6
_SCHEMAS_SHARE: Final = 0.1
_NAMELESS_SHARE: Final = 0.06
_NULLS: Final = BY_SCHEMAS._replace(counts=(8, 12, 20))
_OWN_SHARE: Final = 0.7
_WAIT_SHARE: Final = 0.4
_SECONDS: Final = (4.0, 12.0, 20.0, 45.0)
_MOVED_MS: Final = (-172_800_000, -3_600_000, -5_000, 5_000, 172_800_000)
"""What a clock is moved by: two days, an hour, or what its synchronisation jumps by."""


def store_steps(direction: str, seed: int, buckets: Sequence[str]) -> tuple[Step, ...]:
    """Some stores refuse conditions of writes."""
    if random.Random(f"store-{direction}-{seed}").random() < _STORE_SHARE:
        return (Step(0.0, NO_CONDITIONS, {"buckets": list(buckets)}),)
    return ()


def by_schemas(
    direction: str,
    seed: int,
    drawn: tuple[dict[str, str | None], Circumstance | None],
    names: Sequence[str],
    converters: Sequence[str],
) -> tuple[dict[str, str | None], Circumstance | None, random.Random | None]:
    """Options and circumstance; in some scenarios schemas of a registry name objects.

    Then also that by which their records are drawn.
    """
    (chosen, about), rng = drawn, random.Random(f"by schemas-{direction}-{seed}")
    if rng.random() >= _SCHEMAS_SHARE:
        return chosen, about, None
    if rng.random() < _OWN_SHARE:
        about = BY_SCHEMAS
        chosen = about.chosen(rng, chosen)
    own = {
        "file.name.template": rng.choice(names),
        "value.converter": rng.choice(converters),
        "file.name.timestamp.source": None,
        "transforms": rng.choice((None, None, "i", "header")),
        # By a schema that is held against that of the open object no two runs need be alike.
        "schema.compatibility": rng.choice((None, None, None, "backward")),
    }
    return {**chosen, **own}, about, rng


def with_nameless(
    direction: str,
    seed: int,
    drawn: tuple[dict[str, str | None], Circumstance | None, random.Random | None],
    template: str,
) -> tuple[dict[str, str | None], Circumstance | None, random.Random | None, bool]:
    """What `by_schemas` gives; in some scenarios nulls are in one group with values of nameless schemas.

    Then also True. Only of columns objects have one schema.
    """
    rng = random.Random(f"nameless-{direction}-{seed}")
    if seed < OWN_FROM or rng.random() >= _NAMELESS_SHARE or drawn[2] is not None:
        return *drawn, False
    own = {
        "file.name.template": template,
        "value.converter": rng.choice((AVRO, AVRO, JSON_SCHEMA)),
        "output.format": rng.choice(("parquet", "avro")),
        "rotate.records": rng.choice(("3", "7", "7")),
        "file.name.timestamp.source": None,
        "transforms": None,
        "schema.compatibility": rng.choice((None, None, "backward")),
    }
    return {**_NULLS.chosen(rng, drawn[0]), **own}, _NULLS, rng, True


def with_cuts(
    direction: str, seed: int, steps: Iterable[Step], numbers: Sequence[int] = ()
) -> tuple[Step, ...]:
    """The steps; in some scenarios one process is cut off from Kafka, which others reach, between two."""
    rng, found = random.Random(f"cut-{direction}-{seed}"), list(steps)
    if rng.random() < _CUT_SHARE:
        for _ in range(rng.choice((1, 1, 2))):
            seconds = rng.choice(_SECONDS)
            whom = {"number": rng.choice(numbers)} if numbers else {"of": rng.choice(("all", "task"))}
            cut = [Step(rng.choice((0.0, 0.3, 2.0)), CUT_OFF, {"seconds": seconds, **whom})]
            if rng.random() < _WAIT_SHARE:
                # Else what comes next, and the end, come before it is noticed.
                cut.append(Step(seconds - 1.0, "wait", {}))
            place = rng.randint(1, len(found))
            found[place:place] = cut
    return tuple(found)


def with_foreign_names(direction: str, seed: int, steps: Iterable[Step]) -> tuple[Step, ...]:
    """The steps; in some scenarios another program takes names that objects of a sink are about to have."""
    rng, found = random.Random(f"foreign-{direction}-{seed}"), list(steps)
    if rng.random() < _FOREIGN_SHARE:
        for _ in range(rng.choice((1, 2, 4))):
            place = rng.randint(1, len(found))
            found.insert(place, Step(rng.choice((0.0, 0.02, 0.1, 0.5)), FOREIGN, {}))
    return tuple(found)


def with_frames_again(seed: int, steps: Iterable[Step]) -> tuple[Step, ...]:
    """The steps; what frames wrote at once is mostly written again, over what is there or next to it."""
    rng, found = random.Random(f"again-{seed}"), list(steps)
    written = [place for place, step in enumerate(found) if step.act == "batch write"]
    for place in reversed(written):
        if rng.random() < _AGAIN_SHARE:
            again = Step(rng.choice((0.5, 3.0, 8.0)), AGAIN, {"overwrites": rng.random() < 0.5})
            found.insert(rng.randint(place + 1, len(found)), again)
    return tuple(found)


def with_housekeeping(
    direction: str, seed: int, steps: Iterable[Step], topics: Sequence[str] = ()
) -> tuple[Step, ...]:
    """The steps; in some scenarios Kafka compacts the ledger, and ends offsets, and records of `topics`."""
    rng, found = random.Random(f"kept-{direction}-{seed}"), list(steps)
    if rng.random() < _KEPT_SHARE:
        for _ in range(rng.choice((1, 2, 3))):
            act = rng.choice((*BY_TIME, *((RETENTION,) if topics else ())))
            given: dict[str, Any] = {}
            if act == RETENTION:
                given = {"topic": rng.choice(topics), "share": rng.choice((0.3, 0.7, 1.0))}
            elif act == WEEKS:
                given = {"days": rng.choice((3, 9, 40))}
            place = rng.randint(1, len(found))
            found.insert(place, Step(rng.choice((0.0, 0.05, 0.5, 3.0)), act, given))
            if act == WEEKS:
                found.insert(place + 1, Step(0.1, "start", {}))
    return tuple(found)


def with_cut_logs(
    direction: str, seed: int, steps: Iterable[Step], topics: Sequence[str]
) -> tuple[Step, ...]:
    """The steps; in some scenarios a leader comes that has not all of its log, and producers send again."""
    rng, found = random.Random(f"log-{direction}-{seed}"), list(steps)
    if rng.random() < _LOG_SHARE:
        given = {
            "topic": rng.choice(topics),
            "share": rng.choice((0.1, 0.4, 0.8)),
            "again": rng.choice((0.0, 0.5, 1.0, 1.5, 3.0)),
            "seconds": rng.choice((0.0, 0.0, 0.3, 4.0)),
        }
        # Late, so that something has been read by then.
        place = rng.randint(len(found) // 2 + 1, len(found))
        found.insert(place, Step(rng.choice((0.05, 0.5, 3.0)), LOG_CUT, given))
        given["marker"] = rng.random() < _MARKER_SHARE
    return tuple(found)


def with_moved_offsets(
    direction: str, seed: int, steps: Iterable[Step], topics: Mapping[str, int]
) -> tuple[Step, ...]:
    """The steps; in some scenarios offsets are set: by rewinds, or by who archived under the group before."""
    rng, found = random.Random(f"offsets-{direction}-{seed}"), list(steps)
    if seed < OWN_FROM or rng.random() >= _OFFSETS_SHARE:
        return tuple(found)
    if rng.random() < _TAKEOVER_SHARE:
        _take_over(rng, found)
        return tuple(found)
    for _ in range(rng.choice((1, 1, 2))):
        # One that the topic may come to have, or never has, is among them.
        places = [(topic, number) for topic, count in topics.items() for number in range(count + 1)]
        where = ("begin", "middle", "middle", "end", "above", "far", "none")
        offsets = [
            [*one, rng.choice(where)] for one in rng.sample(places, rng.randint(1, min(3, len(places))))
        ]
        # Some before anything was read.
        place = 1 if rng.random() < _FIRST_SHARE else rng.randint(1, len(found))
        found.insert(place, Step(rng.choice((0.3, 1.0, 3.0)), REWINDS, {"offsets": offsets}))
    return tuple(found)


def _take_over(rng: random.Random, found: list[Step]) -> None:
    """A sink starts where another one was, whose offsets move on; it starts again in between."""
    produced = next((place for place, step in enumerate(found) if step.act == "produce"), None)
    if produced is None:
        return
    first = [place for place in range(produced) if found[place].act == "start"]
    share = rng.choice((0.0, 0.3, 0.6, 1.0, 1.0, 1.4))
    found[produced + 1 : produced + 1] = [Step(0.0, GROUP_MOVED, {"share": share}), Step(0.0, "start", {})]
    for place in first:
        found[place] = Step(0.0, "wait", {})
    for _ in range(rng.choice((0, 1, 2))):
        place = rng.randint(min(produced + 3, len(found)), len(found))
        moved = [Step(rng.choice((0.0, 0.1, 2.0)), GROUP_MOVED, {"share": rng.choice((0.0, 0.5, 1.0, 1.4))})]
        if rng.random() < _AFTER_SHARE:
            moved = [
                Step(rng.choice((0.05, 1.0)), rng.choice(("kill", "stop")), {}),
                *moved,
                Step(rng.choice((0.1, 2.0)), "start", {}),
            ]
        found[place:place] = moved


def with_disks(direction: str, seed: int, steps: Iterable[Step]) -> tuple[Step, ...]:
    """The steps; in some scenarios local disks are full, or fail, or descriptors are used up, for a while."""
    rng, found = random.Random(f"disk-{direction}-{seed}"), list(steps)
    if rng.random() < _DISK_SHARE:
        for _ in range(rng.choice((1, 1, 2))):
            given = {"seconds": rng.choice((0.3, 3.0, 20.0))}
            step = Step(
                rng.choice((0.0, 0.05, 0.5, 3.0)), rng.choice((DISK_FULL, DISK_BROKEN, NO_FILES)), given
            )
            found.insert(rng.randint(0, len(found)), step)
    return tuple(found)


def with_denials(direction: str, seed: int, steps: Iterable[Step], topics: Sequence[str]) -> tuple[Step, ...]:
    """The steps; in some scenarios a topic's ACL refuses all clients for a while."""
    rng, found = random.Random(f"denied-{direction}-{seed}"), list(steps)
    if rng.random() < _DENIED_SHARE:
        for _ in range(rng.choice((1, 1, 2))):
            given = {"topic": rng.choice((*topics, LEDGER)), "seconds": rng.choice((1.0, 8.0, 40.0))}
            found.insert(rng.randint(1, len(found)), Step(rng.choice((0.0, 0.05, 0.5, 3.0)), DENIED, given))
    return tuple(found)


def with_unknown_topics(
    direction: str, seed: int, steps: Iterable[Step], topics: Sequence[str]
) -> tuple[Step, ...]:
    """The steps; in some scenarios brokers do not say how a topic is: no leader, or no right to ask."""
    rng, found = random.Random(f"unknown-{direction}-{seed}"), list(steps)
    if rng.random() < _UNKNOWN_SHARE:
        for _ in range(rng.choice((1, 1, 2))):
            given = {"topic": rng.choice(topics), "seconds": rng.choice((1.0, 8.0, 40.0))}
            step = Step(rng.choice((0.0, 0.05, 0.5, 3.0)), rng.choice((LEADERLESS, HIDDEN)), given)
            found.insert(rng.randint(0, len(found)), step)
    return tuple(found)


def with_clocks(direction: str, seed: int, steps: Iterable[Step]) -> tuple[Step, ...]:
    """The steps; in some scenarios the clocks of all processes that run are moved, back as well."""
    rng, found = random.Random(f"clock-{direction}-{seed}"), list(steps)
    if rng.random() < _CLOCK_SHARE:
        for _ in range(rng.choice((1, 1, 2))):
            given = {"ms": rng.choice(_MOVED_MS), "tasks": rng.random() < 0.7}
            step = Step(rng.choice((0.0, 0.05, 0.5, 3.0)), "clock", given)
            # Mostly right after records have come, which are in objects that are open.
            at = [place for place, before in enumerate(found) if before.act == "produce"]
            is_after = bool(at) and rng.random() < _AFTER_SHARE
            found.insert(rng.choice(at) + 1 if is_after else rng.randint(1, len(found)), step)
    return tuple(found)


def around(
    direction: str, seed: int, steps: Iterable[Step], *, denied: Sequence[str], retained: Sequence[str] = ()
) -> tuple[Step, ...]:
    """The steps of a connector, with cuts, what Kafka does by time, ACLs of `denied`, disks and clocks."""
    found = with_cuts(direction, seed, steps)
    found = with_housekeeping(direction, seed, found, retained)
    found = with_denials(direction, seed, found, denied)
    found = with_disks(direction, seed, found)
    return with_clocks(direction, seed, found)
