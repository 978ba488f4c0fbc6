"""A leader of a scene's ingester in this process: what `run` does about ledger and commands, and no more."""

import queue
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from headrace.kafka.driver_ledger import DriverLedger, prepare_ledger
from headrace.kafka.kafka_clients import client_properties
from headrace.kafka.leadership import Leadership
from headrace.kafka.ledger_cache import CacheLedgerView
from headrace.kafka.ledger_follower import Applied
from headrace.model import clock
from headrace.model.ledger_entry import ControlKey, LedgerEntry
from headrace.model.objects import ObjectId
from headrace.options import Settings
from ingest.cli.configuration import read_settings
from ingest.source.catalogue import Catalogue
from ingest.source.command_queue import CommandQueue
from ingest.source.object_selection import object_filters_of
from tests.ingest.cli.cli_environment import Scene


@dataclass(slots=True)
class Leading:
    """The lead, held; commands are applied by a thread while `applying`."""

    settings: Settings
    ledger: DriverLedger
    applied: "queue.SimpleQueue[tuple[Applied, ...]]"
    stop: threading.Event = field(default_factory=threading.Event)
    written: list[ObjectId] = field(default_factory=list)
    """Every object that a command changed, in order."""

    def write(self, entries: Mapping[ObjectId, LedgerEntry]) -> None:
        """Commit these entries as the driver."""
        self.ledger.commit(list(entries.items()))

    @contextmanager
    def applying(self) -> Iterator[None]:
        """Apply commands meanwhile."""
        thread = threading.Thread(target=self._apply)
        thread.start()
        try:
            yield
        finally:
            self.stop.set()
            thread.join()

    def _apply(self) -> None:
        catalogue = Catalogue(
            view=CacheLedgerView(self.ledger.cache),
            filters=object_filters_of(self.settings, {}),
            max_pending_objects=0,
        )
        commands = CommandQueue(catalogue)
        for key, raw in self.ledger.cache.controls().items():
            commands.on_control_record(key, raw)
        while not self.stop.is_set():
            try:
                for one in self.applied.get(timeout=0.02):
                    if isinstance(one.key, ControlKey):
                        assert not isinstance(one.entry, LedgerEntry)
                        commands.on_control_record(one.key, one.entry)
            except queue.Empty:
                pass
            while (step := commands.step(clock.now())) is not None:
                self.ledger.commit([*((w.key, w.entry) for w in step.effects.writes), step.record])
                self.written += [w.key for w in step.effects.writes if isinstance(w.key, ObjectId)]
                catalogue.on_written(step.effects.writes, clock.now())
                commands.written()


@contextmanager
def leading(scene: Scene) -> Iterator[Leading]:
    """The lead of the scene's ingester, given back at the end."""
    settings = read_settings(scene.file, sets=(), worker_config=None)
    clients = client_properties(settings)
    prepare_ledger(clients, name=scene.name, topic=scene.ledger)
    lead = Leadership(clients.consumer, name=scene.name, ledger_topic=scene.ledger)
    applied: queue.SimpleQueue[tuple[Applied, ...]] = queue.SimpleQueue()
    ledger = DriverLedger(
        clients,
        name=scene.name,
        topic=scene.ledger,
        lead=lead,
        state_dir=None,
        anchors=[scene.topic],
        on_applied=applied.put,
        # A busy broker that shows nothing new for a while shall not be taken for an open transaction.
        boundary_seconds=20.0,
    )
    lead.join()
    try:
        assert lead.wait_for_lead(60, threading.Event())
        ledger.take_over(timeout=60)
        yield Leading(settings, ledger, applied)
    finally:
        ledger.close()
        lead.close()
