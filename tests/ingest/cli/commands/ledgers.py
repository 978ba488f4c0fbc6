"""What tests of commands share: a catalogue over a ledger in memory, and a leader that carries steps out."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.kafka.control_records import encode_control
from headrace.model.ledger_entry import ControlKey, LedgerEntry, LedgerKey, SplitKey, State
from headrace.model.objects import ObjectId, Route, S3Object
from ingest.source.catalogue import Catalogue, ObjectFilter
from ingest.source.catalogue.ledger_view import DecodedEntry
from ingest.source.command_queue import CommandQueue, CommandStep, ObjectsCommand
from tests.support.instants import at

BUCKET = "bucket"


def an_object(key: str, *, size: int = 10, etag: str = "e") -> S3Object:
    """An object as a listing shows it."""
    return S3Object(id=ObjectId(BUCKET, key, etag), size=size, last_modified_ms=1000)


def an_entry(state: State, *, records: int = 3, reason: str | None = None) -> LedgerEntry:
    """What the ledger may say of it."""
    return LedgerEntry(state=state, records=records, reason=reason, size=10, last_modified_ms=1000)


class View:
    """A `LedgerView` over a dictionary."""

    def __init__(self) -> None:
        self.entries: dict[LedgerKey, LedgerEntry] = {}

    def get(self, object_id: ObjectId, /) -> LedgerEntry | None:
        """The entry of one object."""
        return self.entries.get(object_id)

    def scan(self, bucket: str, after_key: str | None, through_key: str | None, /) -> Iterator[DecodedEntry]:
        """Entries in order of their keys."""
        for key in sorted(key for key in self.entries if isinstance(key, ObjectId)):
            if key.bucket == bucket and (after_key is None or key.key > after_key):
                if through_key is not None and key.key > through_key:
                    return
                yield DecodedEntry(key, self.entries[key])

    def splits(self, object_id: ObjectId, /) -> list[tuple[SplitKey, LedgerEntry]]:
        """The entries of an object's slices."""
        return [
            (key, entry)
            for key, entry in self.entries.items()
            if isinstance(key, SplitKey) and key.id == object_id
        ]

    def unfinished(self, after: ObjectId | None, /) -> Iterator[tuple[ObjectId, LedgerEntry]]:
        """Entries that are to become pending."""
        unfinished = {State.PARTIAL, State.FAILED, State.NEW}
        for known in self.scan(BUCKET, None, None):
            if known.entry.state in unfinished and (after is None or known.id > after):
                yield known.id, known.entry


@dataclass(slots=True)
class Ledger:
    """The topic as its leader has it: entries and control records; what a crash leaves is all of it."""

    view: View = field(default_factory=View)
    controls: dict[ControlKey, bytes] = field(default_factory=dict)

    def order(self, key: ControlKey, order: ObjectsCommand) -> None:
        """A command was committed by somebody."""
        self.controls[key] = encode_control(order)

    def leader(self) -> "Leader":
        """A process that has just taken the lead."""
        catalogue = Catalogue(
            view=self.view, filters={BUCKET: ObjectFilter(route=lambda _key: Route(topic="t"))}
        )
        leader = Leader(ledger=self, catalogue=catalogue, commands=CommandQueue(catalogue))
        for key, raw in self.controls.items():
            leader.commands.on_control_record(key, raw)
        return leader


@dataclass(slots=True)
class Leader:
    """Carries out steps as the service does."""

    ledger: Ledger
    catalogue: Catalogue
    commands: CommandQueue
    now_ms: int = 1_000_000
    transactions: int = 0

    def step(self) -> CommandStep | None:
        """The next step, a second later; not committed."""
        self.now_ms += 1000
        return self.commands.step(at(self.now_ms))

    def commit(self, step: CommandStep) -> None:
        """One transaction: the writes and the command's record."""
        for write in step.effects.writes:
            if write.entry is None:
                self.ledger.view.entries.pop(write.key, None)
            else:
                self.ledger.view.entries[write.key] = write.entry
        key, raw = step.record
        if raw is None:
            self.ledger.controls.pop(key, None)
        else:
            self.ledger.controls[key] = raw
        self.transactions += 1
        self.catalogue.on_written(step.effects.writes, at(self.now_ms))
        for write in step.effects.writes:
            self.catalogue.on_ledger_record(write.key, write.entry)
        # What was written is read back, as everything is.
        self.commands.on_control_record(key, raw)
        self.commands.written()

    def apply_all(self) -> int:
        """Steps until there is none; how many objects were written."""
        changed = 0
        while (step := self.step()) is not None:
            changed += sum(isinstance(write.key, ObjectId) for write in step.effects.writes)
            self.commit(step)
        return changed
