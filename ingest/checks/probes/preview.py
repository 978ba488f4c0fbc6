"""What `plan` counts: a listing against the ledger, by topic and partition. Pure."""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.model.errors import HeadraceError
from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.objects import S3Object
from headrace.options.choices import RestorePartition
from headrace.options.transforms import NO_TRANSFORMS, TransformChain
from headrace.options.transforms.read_chain import known_topics
from ingest.source.catalogue import ExclusionReason, ObjectFilter
from ingest.source.catalogue.deduplication import LedgerVerdict, Source, verdict_of

_EXAMPLES: Final = 5


@dataclass(slots=True)
class Amount:
    """Objects and their bytes."""

    objects: int = 0
    bytes: int = 0

    def add(self, s3_object: S3Object) -> None:
        """One more."""
        self.objects += 1
        self.bytes += s3_object.size

    def as_dict(self) -> dict[str, Any]:
        """The JSON shape."""
        return {"objects": self.objects, "bytes": self.bytes}


@dataclass(slots=True)
class Examples(Amount):
    """Objects, bytes, and the first few keys."""

    examples: list[str] = field(default_factory=list)

    def add_named(self, s3_object: S3Object, name: str) -> None:
        """One more, which people are shown by this name."""
        self.add(s3_object)
        if len(self.examples) < _EXAMPLES:
            self.examples.append(name)

    def as_dict(self) -> dict[str, Any]:
        """The JSON shape."""
        return {**Amount.as_dict(self), "examples": self.examples}


@dataclass(slots=True)
class PartitionAmounts:
    """What goes, or went, to one topic-partition. `begun` is part of `pending`."""

    done: Amount = field(default_factory=Amount)
    pending: Amount = field(default_factory=Amount)
    begun: Amount = field(default_factory=Amount)
    skipped: Amount = field(default_factory=Amount)
    quarantined: Amount = field(default_factory=Amount)

    def as_dict(self) -> dict[str, Any]:
        """The JSON shape."""
        return {
            "done": self.done.as_dict(),
            "pending": self.pending.as_dict(),
            "begun": self.begun.as_dict(),
            "skipped": self.skipped.as_dict(),
            "quarantined": self.quarantined.as_dict(),
        }


def _only_topic(transforms: TransformChain, topic: str) -> str:
    """The topic that all records of this one come to; this one where there is no such."""
    found = known_topics(transforms, topic)
    return next(iter(found)) if len(found) == 1 else topic


TopicPartition = tuple[str, int | None]
"""Topic, and partition; None leaves it to the partitioner, or to the number of partitions (modulo)."""


class Preview:
    """What `run` would make of a listing now.

    Topics are those that `transforms` give the records of a key, where that is one for all of them.
    """

    def __init__(
        self,
        filters: Mapping[str, ObjectFilter],
        *,
        now_ms: int,
        transforms: TransformChain = NO_TRANSFORMS,
        restored: RestorePartition = RestorePartition.ORIGINAL,
    ) -> None:
        """`restored` is `restore.partition` of an archive: only the original one is known by a key."""
        self._filters = filters
        self._is_original = restored is RestorePartition.ORIGINAL
        self._routed = functools.cache(lambda topic: _only_topic(transforms, topic))
        self._now_ms = now_ms
        self.listed = Amount()
        self.of_bucket = {bucket: Amount() for bucket in filters}
        """The same, of each bucket."""
        self.was_read = False
        """Whether the ledger has an object of these buckets, be it listed or gone."""
        self.refused: dict[str, HeadraceError] = {}
        """Why a bucket, of several, could not be listed to its end."""
        self.archived = Examples()
        self.shares: dict[TopicPartition, PartitionAmounts] = {}
        self.left_out: dict[str, Examples] = {}

    def add(self, pairs: Iterable[tuple[S3Object, LedgerEntry | None]]) -> None:
        """Listed objects with what the ledger says of each."""
        for s3_object, entry in pairs:
            self.listed.add(s3_object)
            self.of_bucket[s3_object.id.bucket].add(s3_object)
            self._add(s3_object, entry)

    def total(self) -> PartitionAmounts:
        """All topic-partitions together."""
        total = PartitionAmounts()
        for share in self.shares.values():
            for name in ("done", "pending", "begun", "skipped", "quarantined"):
                ours, theirs = getattr(total, name), getattr(share, name)
                ours.objects += theirs.objects
                ours.bytes += theirs.bytes
        return total

    def as_dict(self) -> dict[str, Any]:
        """The JSON shape (docs/commands.md)."""
        return {
            "listed": self.listed.as_dict(),
            "buckets": {bucket: found.as_dict() for bucket, found in self.of_bucket.items()},
            "total": self.total().as_dict(),
            "partitions": [
                {"topic": topic, "partition": partition, **self.shares[topic, partition].as_dict()}
                for topic, partition in self.places()
            ],
            "left_out": {reason: found.as_dict() for reason, found in sorted(self.left_out.items())},
            "archived": self.archived.as_dict(),
        }

    def places(self) -> list[TopicPartition]:
        """The topic-partitions in order, the partitioner's first."""
        return sorted(self.shares, key=lambda place: (place[0], -1 if place[1] is None else place[1]))

    def _named(self, s3_object: S3Object) -> str:
        """The key, after its bucket where there are several."""
        return s3_object.id.key if len(self._filters) == 1 else f"{s3_object.id.bucket}/{s3_object.id.key}"

    def _add(self, s3_object: S3Object, entry: LedgerEntry | None) -> None:
        self.was_read |= entry is not None
        # The baseline is for what nobody has begun, as in `run`.
        judge = self._filters[s3_object.id.bucket]
        route = (
            judge.listed_route_or_reason(s3_object)
            if entry is None
            else judge.route_or_reason(s3_object.id.key)
        )
        if isinstance(route, ExclusionReason):
            self.left_out.setdefault(route.value, Examples()).add_named(s3_object, self._named(s3_object))
            return
        partition = route.partition if self._is_original else None
        share = self.shares.setdefault((self._routed(route.topic), partition), PartitionAmounts())
        is_at = verdict_of(entry, s3_object, Source.LISTING, self._now_ms)
        if entry is not None and is_at is LedgerVerdict.SETTLED:
            match entry.state:
                case State.DONE:
                    share.done.add(s3_object)
                case State.QUARANTINED:
                    share.quarantined.add(s3_object)
                case _:
                    share.skipped.add(s3_object)
            return
        if is_at is LedgerVerdict.REVIVED and judge.is_never_listed(s3_object.id.key):
            # It comes back with a listing, and `run` has none of these keys (`native.start.key`).
            share.skipped.add(s3_object)
            return
        if s3_object.size == 0 and not route.may_be_empty:
            share.skipped.add(s3_object)
            return
        if s3_object.is_archived:
            self.archived.add_named(s3_object, self._named(s3_object))
            share.skipped.add(s3_object)
            return
        share.pending.add(s3_object)
        if is_at is LedgerVerdict.UNFINISHED:
            share.begun.add(s3_object)
