"""Entries, descriptions of topics and controls for tests of the archive."""

from collections.abc import Iterable, Mapping
from dataclasses import fields

from headrace.model.ledger_entry import ControlKey
from headrace.model.sink_entries import (
    GroupingOptions,
    ObjectState,
    PartitionCheckpoint,
    SealedObject,
    SinkEntry,
    TopicPartition,
    Upload,
    decode_sink_entry,
    encode_sink_entry,
    key_of,
)
from headrace.options.choices import OffsetReset
from ingest.sink import Archive, ArchiveOptions, EarlierArchive, FoundPartition, FoundTopics, SinkEffects

NOW = GroupingOptions(hash="now", options={"file.name.template": "{{topic}}"})
P0 = TopicPartition("t", 0)


def sealed(
    object_id: str,
    first: int,
    last: int,
    *,
    group: str = "",
    partition: int = 0,
    topic_id: str = "id1",
    state: ObjectState = ObjectState.PENDING,
    key: str | None = None,
    options: str = NOW.hash,
) -> SealedObject:
    """A sealed object of topic `t`."""
    return SealedObject(
        id=object_id,
        topic="t",
        partition=partition,
        topic_id=topic_id,
        group=group,
        first_offset=first,
        last_offset=last,
        records=last - first + 1,
        bytes=10,
        uploads=(Upload(key=key or object_id, upload_id=f"u-{object_id}", parts=("e",)),),
        options=options,
        sealed_ms=0,
        bucket="b",
        state=state,
    )


def checkpoint(
    offset: int, *, partition: int = 0, topic_id: str = "id1", highest: int = -1, letters: Iterable[int] = ()
) -> PartitionCheckpoint:
    """A checkpoint of topic `t`."""
    return PartitionCheckpoint(
        topic="t",
        partition=partition,
        topic_id=topic_id,
        offset=offset,
        highest=highest,
        dead_letters=tuple(letters),
        options=NOW.hash,
    )


def controls(*entries: SinkEntry) -> list[tuple[ControlKey, bytes]]:
    """The entries as the ledger has them."""
    return [(key_of(entry), encode_sink_entry(entry)) for entry in entries]


def options(
    slots: int = 2, reset: OffsetReset = OffsetReset.EARLIEST, *, grants_idle: bool = True
) -> ArchiveOptions:
    """The options of a sink named `c`."""
    return ArchiveOptions(
        slots=slots, ledger="ledger", group="c", reset=reset, grouping=NOW, grants_idle=grants_idle
    )


def found(
    ends: Mapping[int, int],
    *,
    begin: int = 0,
    topic_id: str = "id1",
    topic: str = "t",
    group_offset: int | None = None,
    mark: str = "",
    earlier: EarlierArchive | None = None,
) -> tuple[FoundPartition, ...]:
    """Partitions of a topic with these ends."""
    return tuple(
        FoundPartition(
            topic=topic,
            partition=partition,
            topic_id=topic_id,
            begin=begin,
            end=end,
            group_offset=group_offset,
            group_mark=mark,
            earlier=earlier,
        )
        for partition, end in ends.items()
    )


def joined(one: SinkEffects, other: SinkEffects) -> SinkEffects:
    """Both, as if they had been said at once."""
    names = [field.name for field in fields(one) if field.name != "topics_wanted"]
    both = {name: getattr(one, name) + getattr(other, name) for name in names}
    return SinkEffects(**both, topics_wanted=one.topics_wanted or other.topics_wanted)


class Leader:
    """An archive whose ledger writes are acknowledged at once, unless they are held back."""

    def __init__(self, archive: Archive, ledger: Iterable[tuple[ControlKey, bytes]] = ()) -> None:
        self.archive = archive
        self.ledger = dict(ledger)
        self.effects = SinkEffects()
        self.apply(archive.begin())

    def apply(self, effects: SinkEffects) -> SinkEffects:
        """Carry out the writes; what else follows is gathered in `effects` and given back."""
        gathered = effects
        while effects.writes:
            for write in effects.writes:
                if write.raw is None:
                    self.ledger.pop(write.key, None)
                else:
                    self.ledger[write.key] = write.raw
            effects = self.archive.on_written(effects.writes)
            gathered = joined(gathered, effects)
        self.effects = joined(self.effects, gathered)
        return gathered

    def objects(self) -> dict[str, SealedObject]:
        """The sealed objects of the ledger, by their ids."""
        entries = (decode_sink_entry(key, raw) for key, raw in self.ledger.items())
        return {entry.id: entry for entry in entries if isinstance(entry, SealedObject)}

    def options(self) -> list[str]:
        """The hashes of the options of the ledger."""
        entries = (decode_sink_entry(key, raw) for key, raw in self.ledger.items())
        return [entry.hash for entry in entries if isinstance(entry, GroupingOptions)]

    def topics(self, *partitions: FoundPartition, members: tuple[str, ...] = ()) -> SinkEffects:
        """Describe the topics now."""
        request = self.archive.request_topics()
        return self.apply(
            self.archive.on_topics(FoundTopics(request=request, partitions=partitions, group_members=members))
        )


def leader(
    *entries: SinkEntry,
    slots: int = 2,
    reset: OffsetReset = OffsetReset.EARLIEST,
    grants_idle: bool = True,
) -> Leader:
    """The leader of a sink over these entries."""
    ledger = controls(*entries)
    return Leader(Archive.from_ledger(ledger, options(slots, reset, grants_idle=grants_idle)), ledger)
