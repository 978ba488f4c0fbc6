"""The service's inbox: everything that any thread may tell it, in the order in which it was told."""

import queue

from headrace.kafka.ledger_follower import Applied
from headrace.model.objects import ListingPage
from ingest.service.service_events import OwnEvent
from ingest.source.catalogue.tombstones import FolderPlaces
from listeners.discovery_events import (
    HeadAnswer,
    HeldFull,
    InventoryWaits,
    ListingBegun,
    ListingFailed,
    ModeChanged,
    Received,
)
from spark.slots import SlotEvent

AppliedBatch = tuple[Applied, ...]
Event = (
    OwnEvent
    | AppliedBatch
    | FolderPlaces
    | Received
    | HeldFull
    | ListingBegun
    | ListingPage
    | ListingFailed
    | InventoryWaits
    | ModeChanged
    | HeadAnswer
    | SlotEvent
)
Inbox = queue.SimpleQueue[Event]
