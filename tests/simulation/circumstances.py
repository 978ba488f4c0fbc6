"""What half of the scenarios are about: circumstances that a protection is there for, seldom made by chance.

Two groups in one partition, one of them sealed, and a kill before the other is: each is likely, and all
together are one scenario in some hundreds. Here they are drawn together, with what else chance brings.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from tests.simulation.scenario import Step

_Option = str | Sequence[str | None] | None


class Act(NamedTuple):
    """A step of a story: so long after the one before it (one of these), what is done with what."""

    after: tuple[float, ...]
    act: str | tuple[str, ...]
    given: Mapping[str, Any] = {}
    """A value that is a tuple is one of these."""

    def drawn(self, rng: random.Random) -> Step:
        """The step."""
        given = {
            name: rng.choice(value) if isinstance(value, tuple) else value
            for name, value in self.given.items()
        }
        act = self.act if isinstance(self.act, str) else rng.choice(self.act)
        return Step(rng.choice(self.after), act, given)


class Circumstance(NamedTuple):
    """Options that it needs (several: one of them), and which faults are drawn."""

    options: Mapping[str, _Option]
    faults: tuple[str, ...]
    bad_share: float | None = None
    """So many records are bad; None: as chance has it."""
    names: int | None = None
    """So few names, for objects that replace each other; None: as chance has it."""
    kinds: tuple[str, ...] = ()
    """The values that one member of records has, in JSON; empty: as chance has it."""
    orders: tuple[str, ...] = ()
    """In which orders an archive comes, in portions with time between them; empty: as chance has it."""
    portions: tuple[int, ...] = (2, 3, 4)
    """In how many an archive comes."""
    counts: tuple[int, ...] = ()
    """How many records or objects there are; empty: as chance has it."""
    rows: tuple[int, ...] = ()
    """How many each object has; empty: as chance has it."""
    partitions: tuple[int, ...] = ()
    """How many the one topic has; empty: as chance has it, of topics too."""
    gaps: tuple[float, ...] = ()
    """The seconds between portions of the data; empty: as chance has it."""
    before: tuple[Act, ...] = ()
    """What happens before the first of the data comes, in this order; at once a start, where it is empty."""
    story: tuple[Act, ...] = ()
    """What happens in this order, once, behind a portion of the data."""

    def chosen(self, rng: random.Random, drawn: Mapping[str, str | None]) -> dict[str, str | None]:
        """What was drawn, with the options of this one."""
        own = {
            name: value if value is None or isinstance(value, str) else rng.choice(value)
            for name, value in self.options.items()
        }
        return {**drawn, **own}


_OBJECT: Final = "{{topic}}/{{partition}}-{{start_offset}}"
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_GROUPS: Final[Mapping[str, _Option]] = {
    "file.name.template": (f"{{{{value:a}}}}/{_OBJECT}", f"{{{{key}}}}/{_OBJECT}"),
    "value.converter": _JSON,
    "transforms": None,
    "output.format": ("jsonl", "avro", "parquet"),
    "rotate.records": ("1", "3"),
    "rotate.age.ms": None,
    "rotate.span.ms": None,
    "rotate.schedule.ms": None,
    "rotate.bytes": None,
    "rotate.together": None,
    "rotate.on.group.change": None,
    "rotate.on.stop": (None, "false"),
    "max.open.files": None,
    "exactly.once.support": None,
    "schema.compatibility": None,
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": "letters",
}
_MOMENTS: Final = (0.0, 0.0, 0.0, 0.004, 0.02)
"""Within and about the calls of a transaction."""
_START: Final = Act((0.1, 2.0), "start")
SINK: Final = {
    "one group sealed, another open": Circumstance(
        {**_GROUPS, "file.name.template": f"{{{{value:a}}}}/{_OBJECT}"},
        ("kill", "stop", "kill worker"),
        kinds=('"p"', '"q"'),
        counts=(6, 9, 12),
        partitions=(1, 1, 2),
        story=(
            Act((0.0,), "await", {"what": "object"}),
            Act((0.0, 0.01, 0.1), ("kill", "kill", "kill worker")),
            _START,
        ),
    ),
    "an upload that is late beside those after it": Circumstance(
        {
            **_GROUPS,
            "file.name.template": f"all/{_OBJECT}",
            "rotate.records": "1",
            "tasks.max": (None, "1"),
        },
        ("kill", "kill worker"),
        counts=(3, 4, 6),
        partitions=(1,),
        before=(
            Act((0.0,), "start"),
            Act((0.0,), "s3", {"kind": ("lost UploadPart", "lost PutObject"), "count": (1, 2, 3)}),
        ),
        story=(
            Act((0.0,), "await", {"what": "transaction"}),
            Act((0.0, 0.01, 0.1, 0.3), ("kill", "kill worker")),
            _START,
        ),
    ),
    "dead letters above an open object": Circumstance(
        {**_GROUPS, "rotate.records": ("3", "7")}, ("kill", "kill worker"), bad_share=0.35
    ),
    "left for the leader": Circumstance(
        {**_GROUPS, "rotate.records": "1", "tasks.max": (None, "1", "3")},
        ("kill", "kill worker", "stop"),
        before=(
            Act((0.0,), "start"),
            Act((0.0, 0.2), "forbidden", {"operation": "CompleteMultipartUpload", "seconds": (4.0, 20.0)}),
        ),
        story=(Act((0.3, 1.0, 3.0), ("kill", "kill worker")), _START),
    ),
    "a slot that Spark starts late": Circumstance(
        {"tasks.max": "3", "exactly.once.support": None},
        ("starts late", "kill worker"),
        counts=(4, 6, 9),
        partitions=(2, 3),
        before=(Act((0.0,), "start"), Act((0.1,), "starts late", {"count": (1, 2, 3)})),
        story=(Act((0.0, 1.0), "starts late", {"count": (1, 2, 3)}),),
    ),
    "a slot that Spark gives up": Circumstance(
        _GROUPS,
        ("executor lost", "kill worker"),
        counts=(4, 6, 9),
        story=(
            Act((0.0,), "await", {"what": "transaction"}),
            Act(_MOMENTS, "executor lost", {"seconds": (5.2, 6.0, 8.0, 11.0)}),
            Act((12.0,), "wait"),
        ),
    ),
    "completions in doubt": Circumstance(
        {**_GROUPS, "file.name.template": f"all/{_OBJECT}"},
        ("complete lost", "complete lost", "s3 broken", "kill", "s3 away"),
        before=(
            Act((0.0,), "start"),
            Act((0.0,), "s3", {"kind": "lost CompleteMultipartUpload", "count": (1, 2, 3)}),
        ),
        story=(Act((0.1, 0.3, 1.0, 21.0), ("kill", "kill worker", "wait")), _START),
    ),
    "types that change": Circumstance(
        {
            **_GROUPS,
            "file.name.template": f"all/{_OBJECT}",
            "output.format": ("avro", "parquet"),
            "rotate.records": "7",
            "rotate.age.ms": "2000",
            "value.converter.schemas.enable": "false",
        },
        ("kill", "stop"),
        kinds=("1", '"text"'),
        counts=(4, 6, 9),
        partitions=(1,),
        gaps=(0.0, 3.0, 3.0),
    ),
    "events of changed rows": Circumstance(
        {
            "value.converter": _JSON,
            "value.converter.schemas.enable": "true",
            "transforms": ("unwrap", "unwrap,flatten", "schema", "route", "flatten"),
            "output.format": ("jsonl", "avro", "parquet", "json"),
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": "letters",
        },
        ("kill", "stop"),
    ),
    "revoked while S3 is away": Circumstance(
        {**_GROUPS, "rotate.records": "1", "tasks.max": (None, "1", "3")},
        ("s3 away", "pause leader", "executor lost"),
        counts=(4, 6, 9),
        partitions=(1, 2),
        story=(
            Act((0.0,), "await", {"what": "transaction"}),
            Act((0.0, 0.004, 0.02, 0.1), "s3 away", {"seconds": (3.0, 9.0, 20.0)}),
            # A moment in which tasks look for the answer ten times a second, or more often.
            Act((0.0, 0.3, 1.0, 2.5), ("topic again", "grow"), {"topic": "events0"}),
            Act((0.0, 0.5), ("pause leader", "executor lost", "pause leader"), {"seconds": (6.0, 13.0)}),
            Act((12.0,), "wait"),
        ),
    ),
    "the lead is taken while there is no broker or token": Circumstance(
        _GROUPS,
        ("broker away", "token away", "kill"),
        before=(
            Act((0.0,), "start"),
            Act((0.1, 0.3, 0.5, 0.8, 1.2), ("broker away", "token away"), {"seconds": (0.4, 1.5, 8.0)}),
        ),
        story=(
            Act((0.0, 0.3, 1.0), ("kill", "stop")),
            Act((0.1, 2.0), "start"),
            Act((0.1, 0.3, 0.5, 0.8, 1.2), ("broker away", "token away"), {"seconds": (0.4, 1.5, 8.0)}),
        ),
    ),
    "commits in doubt": Circumstance(
        _GROUPS, ("commit unanswered", "commit unanswered", "pause worker", "broker away")
    ),
    "at least once, a process that hangs while objects are open": Circumstance(
        {
            **_GROUPS,
            "exactly.once.support": "disabled",
            "rotate.records": "7",
            "rotate.age.ms": ("1000", "2000"),
            "tasks.max": (None, "1"),
        },
        ("pause", "second"),
        kinds=('"p"',),
        counts=(3, 5),
        partitions=(1,),
        gaps=(4.0, 11.0),
        story=(
            Act((0.0, 0.1), "pause", {"seconds": (16.0, 20.0)}),
            Act((0.2,), "second"),
        ),
    ),
}
"""By what it is about."""
BY_SCHEMAS: Final = Circumstance(
    {
        **{name: value for name, value in _GROUPS.items() if name.startswith(("rotate.", "errors.", "max."))},
        "exactly.once.support": None,
        "tasks.max": (None, "1"),
    },
    ("kill", "stop", "kill worker"),
    counts=(5, 8, 12),
    partitions=(1, 1, 2),
    gaps=(0.0, 0.05, 2.0),
    story=(
        Act((0.0,), "await", {"what": "object"}),
        Act((0.0, 0.01, 0.1), ("kill", "kill", "kill worker")),
        _START,
    ),
)
"""Of sinks too, drawn apart: objects are named by schemas, and some are sealed while others are open."""
_RESTORED: Final[Mapping[str, _Option]] = {
    "archive.keys": "keys",
    "archive.tombstones": "tombstone",
    "archive.records": ("1", "3"),
    "post.action": ("delete", "move:done/"),
    "restore.sidecars": None,
    "object.min.age.ms": None,
}
RESTORE: Final = {
    "keys that are late": Circumstance(_RESTORED, ("kill", "stop"), bad_share=0.4, orders=("values first",)),
    "keys that come for some": Circumstance(
        _RESTORED, ("kill", "stop"), bad_share=0.1, orders=("keys of some first",)
    ),
    "tombstones that come first": Circumstance(
        _RESTORED, ("kill", "stop"), bad_share=0.4, orders=("tombstones first",), counts=(4, 6)
    ),
    "a value that cannot be restored": Circumstance(
        {
            **_RESTORED,
            "archive.records": "5",
            "archive.tags": "offsets",
            "restore.tombstones": None,
            "exactly.once.support": None,
        },
        ("kill", "stop"),
        bad_share=0.2,
        orders=("spoiled",),
        portions=(1,),
        counts=(4, 5, 6),
    ),
}
"""By what it is about; its bad share are tombstones."""
OWED: Final = Circumstance(
    {
        **RESTORE["a value that cannot be restored"].options,
        "restore.tombstones": "proven",
        "transaction.boundary.records": (None, "1"),
    },
    ("kill", "stop"),
    bad_share=0.0,
    orders=("spoiled",),
    portions=(1,),
    counts=(5, 6, 8),
    partitions=(1,),
    story=(
        Act((12.0,), ("stop", "kill")),
        Act((0.0,), "change", {"options": {"restore.tombstones": "after"}}),
        Act((0.0,), "mended"),
        Act((0.0, 0.5), "start"),
        Act((0.0, 0.1, 4.0), "replay", {"from_start": True, "states": ["quarantined"]}),
        Act((8.0,), "wait"),
    ),
)
"""Of restores too, drawn apart: a tombstone that a quarantined value owes, as `proven` is no more."""
_WORKS: Final[Mapping[str, _Option]] = {
    "sqs.queue.url": None,
    "transaction.boundary.records": ("1", "3"),
    "transaction.boundary.interval.ms": None,
    "exactly.once.support": None,
    "max.bytes.per.second": None,
    "max.pending.objects": None,
    "object.min.age.ms": None,
    "job.max.objects": (None, "1"),
    "job.linger.ms": None,
    "input.format": ("jsonl", "jsonl", "csv"),
    "input.archive": None,
    "initial.inventory": None,
    "aws.s3.prefix": None,
    "post.action": None,
}
SOURCE: Final = {
    "half read": Circumstance(
        {
            "transaction.boundary.records": "1",
            "exactly.once.support": None,
            "ordering": (None, "partition"),
            "max.bytes.per.second": None,
        },
        ("kill", "kill worker", "commit unanswered", "pause worker"),
    ),
    "replaced before it is read, or goes": Circumstance(
        {
            "exactly.once.support": None,
            "job.max.objects": (None, "1"),
            "post.action": ("delete", "move:done/", "move:s3://moved/done/"),
            "input.format": "jsonl",
            "errors.tolerance": "all",
        },
        ("replaced before it is read", "replaced before it goes", "pause", "kill"),
        names=1,
        rows=(1, 2, 5),
        before=(
            Act((0.0,), "start"),
            Act((0.0,), "s3", {"kind": ("replaced GetObject", "replaced DeleteObject"), "count": (1, 2)}),
        ),
        story=(Act((3.0,), "wait"),),
    ),
    "a slot that comes back": Circumstance(
        {
            "transaction.boundary.records": ("1", "3"),
            "exactly.once.support": None,
            "max.bytes.per.second": None,
        },
        ("pause worker", "pause worker", "second", "pause"),
    ),
    "a leader that stops": Circumstance(
        {**_WORKS, "transaction.boundary.records": "1", "job.max.objects": "1", "tasks.max": "3"},
        ("pause", "second"),
        rows=(5, 12, 20),
        counts=(2, 3, 4),
        before=(
            Act((0.0,), "start"),
            # Its successor has no use for the other slots.
            Act((0.0,), "change", {"options": ({"tasks.max": "1"}, {"tasks.max": "1"}, {})}),
            Act((1.0,), "second"),
        ),
        story=(
            Act((0.0,), "await", {"what": "another transaction"}),
            Act(_MOMENTS, ("pause", "pause", "kill leader"), {"seconds": (11.5, 12.0, 13.0)}),
            Act((15.0,), "wait"),
        ),
    ),
    "a leader that dies before its tasks": Circumstance(
        {**_WORKS, "transaction.boundary.records": "1", "job.max.objects": "1", "tasks.max": "3"},
        ("kill leader", "kill"),
        rows=(5, 12, 20),
        counts=(2, 3, 4),
        story=(
            Act((0.0,), "await", {"what": "another transaction"}),
            Act(_MOMENTS, "kill leader", {"seconds": (0.5, 1.0, 3.0)}),
            Act((0.0,), "change", {"options": ({"tasks.max": "1"}, {})}),
            Act((0.1,), "start"),
            Act((4.0,), "wait"),
        ),
    ),
    "a leader that hears late of its end": Circumstance(
        {**_WORKS, "tasks.max": (None, "1")},
        ("pause leader", "second"),
        rows=(5, 12, 20),
        counts=(1, 2, 4),
        before=(
            Act((0.0,), "start"),
            Act((1.0,), "second"),
            Act((1.0,), "starts late", {"count": 1, "seconds": (10.7, 11.3, 12.0, 12.7)}),
        ),
        story=(
            Act((0.0,), "await", {"what": "task"}),
            Act((0.0, 0.05), "pause leader", {"seconds": (12.8, 13.0)}),
            Act((15.0,), "wait"),
        ),
    ),
    "a slot that Spark gives up": Circumstance(
        {**_WORKS, "tasks.max": (None, "3")},
        ("executor lost", "kill worker"),
        rows=(5, 12, 20),
        counts=(3, 4, 6),
        story=(
            Act((0.0,), "await", {"what": "transaction"}),
            Act(_MOMENTS, "executor lost", {"seconds": (5.2, 6.0, 8.0, 11.0)}),
            Act((12.0,), "wait"),
        ),
    ),
    "a slot is lost, and its object asked for again": Circumstance(
        {**_WORKS, "transaction.boundary.records": ("1", "3"), "tasks.max": (None, "1", "3")},
        ("kill worker", "commit unanswered", "executor lost"),
        rows=(5, 12, 20),
        counts=(1, 2, 3),
        story=(
            Act((0.0,), "await", {"what": "transaction"}),
            Act((0.0, 0.02, 0.1), "commit unanswered", {"count": (0, 1)}),
            Act((0.02, 0.1, 0.3, 1.0), "kill worker"),
            Act((0.0, 0.05, 0.2, 0.5, 1.0), "replay", {"from_start": (False, True)}),
            Act((0.0, 0.5), ("kill worker", "wait")),
            Act((9.0,), "wait"),
        ),
    ),
    "the lead is taken while there is no broker or token": Circumstance(
        _WORKS,
        ("broker away", "token away", "kill"),
        before=(
            Act((0.0,), "start"),
            Act((0.1, 0.3, 0.5, 0.8, 1.2), ("broker away", "token away"), {"seconds": (0.4, 1.5, 8.0)}),
        ),
        story=(
            Act((0.0, 0.3, 1.0), ("kill", "stop")),
            Act((0.1, 2.0), "start"),
            Act((0.1, 0.3, 0.5, 0.8, 1.2), ("broker away", "token away"), {"seconds": (0.4, 1.5, 8.0)}),
        ),
    ),
    "slots that Spark starts late": Circumstance(
        _WORKS,
        ("starts late", "kill worker"),
        before=(Act((0.0,), "start"),),
        story=(Act((0.0,), ("stop", "kill")), Act((0.0,), "starts late", {"count": 3})),
    ),
    "a limit that falls": Circumstance(
        {**_WORKS, "errors.tolerance": ("all", "all", None), "transaction.boundary.records": (None, "3")},
        ("kill worker", "commit unanswered", "kill"),
        rows=(5, 12, 20),
        counts=(2, 3, 4),
        story=(
            Act((0.0,), "await", {"what": "transaction"}),
            Act(_MOMENTS, "limit", {"topic": ("rows", "rows", "letters"), "size": (300, 700)}),
        ),
    ),
    "objects in the order of their partition": Circumstance(
        {
            **_WORKS,
            "file.name.template": "in/{{partition}}-{{start_offset}}.jsonl",
            "ordering": "partition",
            "distribution.type": None,
        },
        ("kill", "kill worker", "executor lost", "s3", "pause worker"),
    ),
    "a post-action that is refused": Circumstance(
        {
            **_WORKS,
            "post.action": ("delete", "move:done/", "move:s3://moved/done/"),
            "aws.s3.bucket.name": None,
        },
        ("kill", "stop", "replaced before it goes"),
        before=(
            Act((0.0,), "start"),
            Act((0.0,), "forbidden", {"operation": "DeleteObject", "seconds": (4.0, 20.0)}),
        ),
        story=(Act((1.0, 6.0), ("kill", "wait", "stop")), _START),
    ),
    "events without ETag": Circumstance(
        {
            "sqs.queue.url": "https://sqs.us-east-1.amazonaws.com/1/q",
            "poll.listing": (None, "incremental"),
            "exactly.once.support": None,
        },
        ("queue away", "s3 lost", "s3", "kill", "replaced before it is read"),
        names=2,
        before=(Act((0.0,), "bare events"), Act((0.0,), "start")),
    ),
    "messages of others": Circumstance(
        {"sqs.queue.url": "https://sqs.us-east-1.amazonaws.com/1/q", "sqs.max.held": (None, "1")},
        ("queue away", "kill", "stop"),
        story=(Act((0.0, 2.0), "foreign messages", {"count": (1, 20, 30)}),),
    ),
    "a bucket with objects from before its first start": Circumstance(
        {
            **_WORKS,
            "aws.s3.bucket.name": (None, "incoming,second"),
            "include.existing": ("false", "false", None),
            "native.start.key": (None, "in/b.jsonl"),
        },
        ("kill", "stop", "second"),
        before=(
            Act((0.0,), "start"),
            Act(
                (2.5, 4.0),
                "change",
                {
                    "options": (
                        {"aws.s3.bucket.name": "second"},
                        {"aws.s3.bucket.name": "incoming,second"},
                        {"aws.s3.bucket.name": "second", "native.start.key": "in/b.jsonl"},
                        {"aws.s3.bucket.name": "second", "native.start.key": None},
                        {"aws.s3.bucket.name": "incoming,second", "include.existing": "false"},
                    )
                },
            ),
            Act((0.0, 1.0), ("uploads begin", "wait", "wait"), {}),
        ),
        story=(Act((1.5, 3.0), ("kill", "stop")), Act((0.1, 2.0, 12.0), "start"), Act((2.5,), "wait")),
    ),
    "one key in two buckets": Circumstance(
        {
            "aws.s3.bucket.name": "incoming,second",
            "exactly.once.support": None,
            "job.max.objects": (None, "1"),
            "ordering": (None, "partition"),
        },
        ("kill", "pause worker", "s3", "queue away", "stop"),
        names=1,
    ),
}
"""By what it is about."""


def chosen_options(
    rng: random.Random,
    seed: int,
    rows: Sequence[Mapping[str, str | None]],
    dimensions: Mapping[str, Sequence[str | None]],
    circumstances: Mapping[str, Circumstance],
) -> tuple[dict[str, str | None], Circumstance | None]:
    """A seed's options: of even ones a row of all pairs, and of odd ones what a circumstance needs."""
    place = seed // 2
    if seed % 2 == 0 and place < len(rows):
        return dict(rows[place]), None
    chosen = {name: rng.choice(values) for name, values in dimensions.items()}
    if seed % 2 == 0:
        return chosen, None
    about = circumstances[list(circumstances)[place % len(circumstances)]]
    return about.chosen(rng, chosen), about
