"""Partitions as a slot was granted them, for tests of what it reads and commits."""

from headrace.model.sink_protocol import PartitionGrant
from spark.sink.partition_offsets import PartitionOffsets

NOW = "now"


def grant(offset: int = 0, **fields: object) -> PartitionGrant:
    """A grant of t-0."""
    return PartitionGrant(topic="t", partition=0, topic_id="id", offset=offset, **fields)  # type: ignore[arg-type]  # fields by name


def offsets_of(offset: int = 0, *, closes_together: bool = False, **fields: object) -> PartitionOffsets:
    """The offsets of a slot that was granted t-0."""
    return PartitionOffsets(grant(offset, **fields), options=NOW, closes_together=closes_together)
