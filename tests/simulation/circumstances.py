"""What half of the scenarios are about: circumstances that a protection is there for, seldom made by chance.

Two groups in one partition, one of them sealed, and a kill before the other is: each is likely, and all
together are one scenario in some hundreds. Here they are drawn together, with what else chance brings.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

_Option = str | Sequence[str | None] | None


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
SINK: Final = {
    "one group sealed, another open": Circumstance(_GROUPS, ("kill", "stop", "kill worker")),
    "dead letters above an open object": Circumstance(
        {**_GROUPS, "rotate.records": ("3", "7")}, ("kill", "kill worker"), bad_share=0.35
    ),
    "completions in doubt": Circumstance(
        {**_GROUPS, "file.name.template": f"all/{_OBJECT}"},
        ("complete lost", "complete lost", "s3 broken", "kill", "s3 away"),
    ),
    "types that change": Circumstance(
        {
            **_GROUPS,
            "file.name.template": f"all/{_OBJECT}",
            "output.format": ("avro", "parquet"),
            "rotate.records": ("3", "7"),
            "value.converter.schemas.enable": "false",
        },
        ("kill", "stop"),
        kinds=("1", '"text"'),
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
    "commits in doubt": Circumstance(
        _GROUPS, ("commit unanswered", "commit unanswered", "pause worker", "broker away")
    ),
}
"""By what it is about."""
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
}
"""By what it is about; its bad share are tombstones."""
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
    "replaced while it is read": Circumstance(
        {
            "exactly.once.support": None,
            "job.max.objects": (None, "1"),
            "post.action": ("delete", "move:done/", None),
            "input.format": "jsonl",
        },
        ("replaced before it is read", "replaced before it goes", "pause", "kill"),
        names=1,
    ),
    "a slot that comes back": Circumstance(
        {
            "transaction.boundary.records": ("1", "3"),
            "exactly.once.support": None,
            "max.bytes.per.second": None,
        },
        ("pause worker", "pause worker", "second", "pause"),
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
