"""Records to objects, as the leader decides it: partitions to slots, sealed objects, completion. Pure.

archive      `Archive`, begin here
partitions, entries    what the ledger says
archived, starting     the rules, as functions of it
starts       brings a free partition to where it may be granted, and orders what the leader completes
dealing      which slot gets what
"""

from ingest.sink.archive import Archive, ArchiveOptions
from ingest.sink.condition import ArchiveCounts, PartitionStatus, active_members
from ingest.sink.effects import (
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
from ingest.sink.partitions import PartitionCondition
from ingest.sink.starting import Refused

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
]
