"""The sink's entries in the ledger as the leader has them: read, written, and on their way."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import NamedTuple

from headrace.model.ledger_entry import ControlKey
from headrace.model.sink_entries import (
    GroupingOptions,
    ObjectState,
    SealedObject,
    SinkEntry,
    TopicPartition,
    key_of,
    partition_key,
)
from ingest.sink.partitions import PartitionState, PartitionStates, sink_entries
from ingest.sink.sink_effects import SinkEffectsBuilder, SinkWrite
from ingest.sink.starting import removable


class ObjectEnd(NamedTuple):
    """What became of a pending object."""

    id: str
    state: ObjectState
    reason: str | None = None


class LedgerEntries:
    """Changed in memory at once, in the ledger by the writes that it adds to effects.

    A key whose write is not acknowledged yet `is_unwritten`: a read of the ledger may show what was before.
    """

    def __init__(self, controls: Iterable[tuple[ControlKey, bytes]]) -> None:
        self.states = PartitionStates()
        self._unwritten: dict[ControlKey, SinkEntry | None] = {}
        for entry in sink_entries(controls):
            self.states.apply(entry)

    @property
    def is_all_written(self) -> bool:
        """True when every write is acknowledged."""
        return not self._unwritten

    def is_unwritten(self, key: ControlKey) -> bool:
        """True while a write of this key is on its way."""
        return key in self._unwritten

    def write(self, effects: SinkEffectsBuilder, entry: SinkEntry) -> None:
        """Have the entry written."""
        key = key_of(entry)
        self._unwritten[key] = entry
        effects.writes.append(SinkWrite(key=key, entry=entry))
        self.states.apply(entry)

    def remove(self, effects: SinkEffectsBuilder, entry: SealedObject | GroupingOptions) -> None:
        """Have the entry removed."""
        key = key_of(entry)
        self._unwritten[key] = None
        effects.writes.append(SinkWrite(key=key, entry=None))
        self.states.remove(entry)

    def on_written(self, writes: Iterable[SinkWrite]) -> None:
        """These are acknowledged; a newer write of the same key is still on its way."""
        for write in writes:
            if write.key in self._unwritten and self._unwritten[write.key] == write.entry:
                del self._unwritten[write.key]

    def end_objects(self, effects: SinkEffectsBuilder, ends: Iterable[ObjectEnd]) -> None:
        """Have pending objects completed or quarantined; what has its end, or is unknown, stays."""
        ended: list[SealedObject] = []
        for end in ends:
            sealed = self.states.object(end.id)
            if sealed is not None and sealed.state is ObjectState.PENDING:
                ended.append(_ended(sealed, end))
                self.states.apply(ended[-1])
        gone: set[str] = set()
        for partition in {one.partition_of for one in ended}:
            passed = self._removable(self.states[partition])
            gone.update(one.id for one in passed)
            for one in passed:
                self.remove(effects, one)
        for one in ended:
            if one.id not in gone:
                self.write(effects, one)

    def remove_passed(self, effects: SinkEffectsBuilder, state: PartitionState) -> None:
        """Have the entries removed that say nothing any more."""
        for sealed in self._removable(state):
            self.remove(effects, sealed)

    def remove_unused_options(self, effects: SinkEffectsBuilder, current: str) -> None:
        """Have options removed that are not in force and that no entry needs any more."""
        old = [one for one in self.states.options.values() if one.hash != current]
        if not old:
            return
        used = {hash_ for state in self.states for hash_ in state.options_above}
        for options in old:
            if options.hash not in used:
                self.remove(effects, options)

    def reread(
        self, partitions: Collection[TopicPartition], controls: Iterable[tuple[ControlKey, bytes]]
    ) -> list[SealedObject]:
        """Take these partitions from the ledger, with what is on its way there; its objects that are new."""
        known = {one for partition in partitions for one in self.states[partition].objects}
        self.states.replace(partitions, sink_entries(controls))
        for key, entry in self._unwritten.items():
            if entry is None:
                self.states.remove_key(key)
            elif not isinstance(entry, GroupingOptions) and entry.partition_of in partitions:
                self.states.apply(entry)
        found = (self.states[partition].objects for partition in partitions)
        return [one for objects in found for one in objects.values() if one.id not in known]

    def _removable(self, state: PartitionState) -> tuple[SealedObject, ...]:
        if state.checkpoint is None or self.is_unwritten(partition_key(state.partition)):
            # What the checkpoint says is not in the ledger yet: the entries may still be needed.
            return ()
        return removable(state.checkpoint, state.objects.values())


def _ended(sealed: SealedObject, end: ObjectEnd) -> SealedObject:
    """The entry with its end; what is complete needs its parts no more, of which there may be thousands."""
    uploads = sealed.uploads
    if end.state is ObjectState.COMPLETE:
        uploads = tuple(replace(upload, parts=()) for upload in uploads)
    return replace(sealed, state=end.state, reason=end.reason, uploads=uploads)
