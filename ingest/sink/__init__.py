"""Records to objects, as the leader decides it: partitions to slots, sealed objects, completion. Pure.

archive      `Archive`, begin here
partitions, entries    what the ledger says, and what is shown of it
starting     where reading begins, as functions of it
starts       brings a free partition to where it may be granted, and orders what the leader completes
dealing      whether a slot could do anything for a partition, and which slot gets what
"""

from ingest.sink.archive import Archive
from ingest.sink.partitions import ArchiveCounts, PartitionCondition, PartitionStatus, active_members
from ingest.sink.sink_effects import (
    EarlierArchive,
    FoundLives,
    FoundPartition,
    FoundTopics,
    GroupOffset,
    LostOffsets,
    SinkEffects,
    SinkWrite,
    TopicLife,
)
from ingest.sink.starting import Refused, committed_further
from ingest.sink.starts import ArchiveOptions

__all__ = [
    "Archive",
    "ArchiveCounts",
    "ArchiveOptions",
    "EarlierArchive",
    "FoundLives",
    "FoundPartition",
    "FoundTopics",
    "GroupOffset",
    "LostOffsets",
    "PartitionCondition",
    "PartitionStatus",
    "Refused",
    "SinkEffects",
    "SinkWrite",
    "TopicLife",
    "active_members",
    "committed_further",
]
