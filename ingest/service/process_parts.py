"""What lives as long as the connector in this process, for every leadership of it."""

from dataclasses import dataclass, field

from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.control_records import Creation
from headrace.kafka.kafka_clients import ClientProperties
from headrace.options import Settings
from headrace.process.threads import ThreadFailures
from ingest.http.metrics import Metrics
from ingest.http.snapshot import SnapshotHolder
from ingest.service.spark_startup import SlotSource
from ingest.service.startup import Found
from ingest.service.statistics import Statistics
from ingest.service.stop import Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessParts:
    """What lives as long as the connector in this process, and every leadership of it uses."""

    settings: Settings
    clients: ClientProperties
    slot_source: SlotSource
    snapshot_holder: SnapshotHolder
    metrics: Metrics
    statistics: Statistics
    stop: Stop
    found: Found
    until_idle: bool
    accept_new_ledger: bool
    startup_seconds: float
    startup_deadline: float
    """Monotonic seconds."""
    admin: KafkaAdmin
    failures: ThreadFailures
    creation: Creation | None
    """As which creation in a worker it runs."""
    is_assigned: bool
    """Whether a group of workers gave it to this process, so that no other one should lead it."""


@dataclass(slots=True)
class Past:
    """What this process remembers of its leaderships: nothing that another one decides by."""

    has_run: bool = False
    """It has led or stood by: from then on nothing outside ends it."""
    has_led: bool = False
    is_standing_by: bool = False
    has_lost_its_place: bool = False
    """Another process that lives has come with the id of this one's `state.dir`: its lock proves nothing."""
    members: set[str] = field(default_factory=set)
    """Ids that the group gave to this process while it led."""
