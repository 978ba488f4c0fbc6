"""The sink's driver, as pure decisions: partitions to slots, sealed objects, completion, recovery.

`Archive` is the front door. `partitions` and `entries` hold what the ledger says, `archived` and `starting`
are the rules as functions of it, `starts` brings a free partition to where it may be granted, `completions`
orders what the leader completes, `dealing` says which slot gets what.
"""

from archive.archive import Archive, ArchiveOptions
from archive.condition import ArchiveCounts, PartitionStatus, active_members
from archive.effects import (
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
from archive.partitions import PartitionCondition
from archive.starting import Refused

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
