"""The ledger as Connect's partitions and offsets (KIP-875), a source's and a sink's, to JSON and back.

A source's partition is an object, `{"bucket","key","etag"}`. Its offset is flat, as Connect requires:
`state`, where work continues (`byte`, `element` and `byte`, `block` and `record`, or `group` and `row`; of a
zip or tar `entry`, `header` and `member`, too; with `options`, the hash of what gives it meaning), `records`
and `bad` so far, `reason`, and `size` and `last_modified_ms` of the object, which let a saved offset be
brought back to a ledger without it. A sink's are topic-partitions.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.objects import ObjectId, S3Object
from headrace.model.positions import (
    BlockPosition,
    BytePosition,
    ElementPosition,
    JoinedPosition,
    MemberPosition,
    PlainPosition,
    Position,
    RowPosition,
    position_as_dict,
    position_from_dict,
)
from headrace.model.sink_entries import TopicPartition
from headrace.options.choices import InputFormat
from headrace.options.settings import FormatSettings
from headrace.vendors.key_names import options_of_object
from ingest.http.rest.port import Change, InvalidOffsets, LedgerObject, SinkPort, SourcePort
from ingest.source.catalogue.object_commands import Offset

_PARTITION: Final = ("bucket", "key", "etag")
# With `auto` the object decides, so that any is a position.
_KINDS: Final[Mapping[InputFormat, tuple[type[PlainPosition], ...]]] = {
    InputFormat.JSONL: (BytePosition,),
    InputFormat.JSON: (ElementPosition, BytePosition),
    InputFormat.CSV: (BytePosition,),
    InputFormat.TEXT: (BytePosition,),
    InputFormat.BYTES: (BytePosition,),
    InputFormat.AVRO: (BlockPosition,),
    InputFormat.PARQUET: (RowPosition,),
    InputFormat.AUTO: (BytePosition, ElementPosition, BlockPosition, RowPosition),
}
_NUMBERS: Final = ("records", "bad", "size", "last_modified_ms")
_JOINED: Final = ("values", "row", "tombstones")
_MEMBER: Final = ("entry", "header", "member")
_SLICES: Final = ("slices", "slices_done")
_TEXTS: Final = ("state", "reason", "options", "version_id")
_LONG_MAX: Final = 2**63 - 1
_NOT_SAID: Final = -1


def has_offset(entry: LedgerEntry) -> bool:
    """False for an object that is to be read from its start: Connect shows no offset for what has none."""
    return entry.state is not State.NEW or entry.position is not None or entry.cuts is not None


def as_item(known: LedgerObject) -> dict[str, Any]:
    """One element of `offsets`."""
    object_id, entry = known.object.id, known.entry
    offset: dict[str, Any] = {"state": entry.state.value}
    if entry.position is not None:
        offset |= position_as_dict(entry.position)
        if entry.options is not None:
            offset["options"] = entry.options
    if known.splits:
        offset |= {"slices": known.splits, "slices_done": known.splits_done}
    offset |= {"records": entry.records, "bad": entry.bad}
    if entry.reason is not None:
        offset["reason"] = entry.reason
    offset |= {"size": entry.size, "last_modified_ms": entry.last_modified_ms}
    if entry.version_id is not None:
        offset["version_id"] = entry.version_id
    return {
        "partition": {"bucket": object_id.bucket, "key": object_id.key, "etag": object_id.etag},
        "offset": offset,
    }


class OffsetsReader:
    """Reads the items of a `PATCH` body for one ingester: its buckets, its format, its options' hash."""

    def __init__(
        self,
        *,
        buckets: Sequence[str],
        input_format: InputFormat,
        options: str,
        format_settings: FormatSettings | None = None,
    ) -> None:
        self._buckets = buckets
        self._format = format_settings
        self._kinds = _KINDS[input_format]
        self._options = options

    def read(self, items: list[Any]) -> list[Change]:
        """The changes that the items of `offsets` ask for; InvalidOffsets for the first that is none."""
        changes: dict[ObjectId, Change] = {}
        for number, item in enumerate(items):
            try:
                change = self._change(item)
            except InvalidOffsets as error:
                raise InvalidOffsets(f"offsets[{number}]: {error}") from error
            if changes.setdefault(change.object.id, change) != change:
                raise InvalidOffsets(f"offsets[{number}]: its partition was given another offset before")
        return list(changes.values())

    def _change(self, item: Any) -> Change:
        if not isinstance(item, dict) or not isinstance(item.get("partition"), dict):
            raise InvalidOffsets("The partition for a source connector offset cannot be null or missing")
        object_id = self._partition(item["partition"])
        offset = item.get("offset")
        if offset is None:
            return Change(object=S3Object(id=object_id, size=0, last_modified_ms=0), offset=None)
        if not isinstance(offset, dict):
            raise InvalidOffsets("the offset has to be an object or null")
        offset = {name: value for name, value in offset.items() if value is not None}
        self._check_fields(offset)
        return Change(
            object=S3Object(
                id=object_id,
                size=offset.get("size", _NOT_SAID),
                last_modified_ms=offset.get("last_modified_ms", 0),
                version_id=offset.get("version_id"),
            ),
            offset=self._offset(offset, object_id.key),
        )

    def _partition(self, partition: dict[str, Any]) -> ObjectId:
        if sorted(partition) != sorted(_PARTITION) or not all(
            isinstance(partition[name], str) and partition[name] for name in _PARTITION
        ):
            raise InvalidOffsets("a partition holds bucket, key and etag, each a text, and nothing else")
        if partition["bucket"] not in self._buckets:
            named = ", ".join(map(repr, self._buckets))
            is_only = len(self._buckets) == 1
            raise InvalidOffsets(f"the {'bucket of this connector is' if is_only else 'buckets are'} {named}")
        return ObjectId(partition["bucket"], partition["key"], partition["etag"].strip('"'))

    def _check_fields(self, offset: dict[str, Any]) -> None:
        place = self._places
        split = [name for name in _SLICES if name in offset]
        if split:
            raise InvalidOffsets(
                "an object that is read in splits cannot be given a position; leave it out, or set its "
                "offset to null to have it read again"
            )
        known = (
            *_TEXTS,
            *_NUMBERS,
            *place,
            *(_JOINED if _JOINED[0] in offset else ()),
            *(_MEMBER if _MEMBER[0] in offset else ()),
        )
        unknown = sorted(set(offset) - set(known))
        if unknown:
            raise InvalidOffsets(f"an offset has no {unknown[0]!r} here; there are: {', '.join(known)}")
        for name in (*_NUMBERS, *place):
            number = offset.get(name, 0)
            if type(number) is not int or not 0 <= number <= _LONG_MAX:
                raise InvalidOffsets(f"{name} has to be a whole number from 0")
        for name in _TEXTS:
            if not isinstance(offset.get(name, ""), str):
                raise InvalidOffsets(f"{name} has to be a text")

    def _offset(self, offset: dict[str, Any], key: str) -> Offset:
        position, options = self._position(offset), self._options
        if self._format is not None:
            options = options_of_object(options, self._format, key)
        text = offset.get("state", State.NEW.value)
        if text not in set(State):
            raise InvalidOffsets(f"state has to be one of: {', '.join(State)}")
        state = State(text)
        if state is State.NEW and position is None:
            raise InvalidOffsets(
                "a new object has no offset; to have all of it read again, set the offset to null"
            )
        return Offset(
            state=state,
            reason=offset.get("reason"),
            records=offset.get("records", 0),
            bad=offset.get("bad", 0),
            position=position,
            options=None if position is None else offset.get("options", options),
        )

    @property
    def _places(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for kind in self._kinds for name in kind.__slots__))

    def _position(self, offset: dict[str, Any]) -> Position | None:
        if _JOINED[0] in offset:
            try:
                return position_from_dict({name: offset[name] for name in _JOINED if name in offset})
            except ValueError as error:
                raise InvalidOffsets(
                    "a position has to hold values, row and tombstones, as a GET shows them"
                ) from error
        if _MEMBER[0] in offset:
            return self._in_member(offset)
        return self._plain(offset)

    def _in_member(self, offset: dict[str, Any]) -> MemberPosition:
        entry, header, member = (offset.get(name) for name in _MEMBER)
        within = self._plain(offset)
        if (
            type(entry) is not int
            or type(header) is not int
            or min(entry, header) < 0
            or not isinstance(member, str)
            or within is None
        ):
            raise InvalidOffsets(
                "a position in an archive has to hold entry, header, member and where in it, as a GET shows "
                "them"
            )
        return MemberPosition(entry, header, member, within)

    def _plain(self, offset: dict[str, Any]) -> PlainPosition | None:
        given = [name for name in self._places if name in offset]
        if not given:
            return None
        for kind in self._kinds:
            if set(kind.__slots__) == set(given):
                return kind(**{name: offset[name] for name in given})
        shapes = " or ".join(" and ".join(kind.__slots__) for kind in self._kinds)
        raise InvalidOffsets(f"a position has to hold {shapes}")


def check_known(change: Change, known: LedgerObject | None) -> None:
    """InvalidOffsets when the ledger does not know the object and its size is not said.

    Sooner or later the object may be read, and with a wrong size it would count as empty, or as overwritten.
    """
    is_joined = change.offset is not None and isinstance(change.offset.position, JoinedPosition)
    if known is None and is_joined:
        raise InvalidOffsets(
            f"The ledger does not know with which objects {change.object.id.url} is read: set its "
            "offset to null to have it read from its start"
        )
    if known is None and change.offset is not None and change.object.size == _NOT_SAID:
        raise InvalidOffsets(
            f"The ledger does not know {change.object.id.url} with the ETag {change.object.id.etag}: its "
            "offset has to hold size (and last_modified_ms), as a GET shows them"
        )


class SourceOffsets:
    """`ingest.http.rest.port.OffsetsPort` of a source: its objects."""

    def __init__(self, source: SourcePort, reader: OffsetsReader) -> None:
        self._source = source
        self._reader = reader

    def items(self) -> Iterator[dict[str, Any]]:
        """See `OffsetsPort.items`."""
        return (as_item(known) for known in self._source.offsets() if has_offset(known.entry))

    def alter(self, items: list[Any]) -> None:
        """See `OffsetsPort.alter`."""
        changes = self._reader.read(items)
        for change in changes:
            check_known(change, self._source.find(change.object.id))
        self._source.alter(changes)

    def reset(self) -> None:
        """See `OffsetsPort.reset`."""
        self._source.reset()


_TOPIC: Final = "kafka_topic"
_KAFKA_PARTITION: Final = "kafka_partition"
_OFFSET: Final = "kafka_offset"
_PARTITION_MAX: Final = 2**31 - 1
_OFFSET_MAX: Final = 2**63 - 1


class SinkOffsets:
    """`ingest.http.rest.port.OffsetsPort` of a sink: its topic-partitions."""

    def __init__(self, sink: SinkPort) -> None:
        self._sink = sink

    def items(self) -> Iterator[dict[str, Any]]:
        """See `OffsetsPort.items`."""
        # Asked before the answer begins: what it may raise is an answer, too.
        found = sorted(self._sink.offsets().items())
        return (
            {"partition": {_TOPIC: topic, _KAFKA_PARTITION: partition}, "offset": {_OFFSET: offset}}
            for (topic, partition), offset in found
        )

    def alter(self, items: list[Any]) -> None:
        """See `OffsetsPort.alter`."""
        self._sink.alter(read_sink_items(items))

    def reset(self) -> None:
        """See `OffsetsPort.reset`."""
        self._sink.reset()


def read_sink_items(items: list[Any]) -> dict[TopicPartition, int | None]:
    """Where each partition is to continue; None for a reset. InvalidOffsets for the first wrong item."""
    changes: dict[TopicPartition, int | None] = {}
    for number, item in enumerate(items):
        try:
            partition, offset = _change(item)
        except InvalidOffsets as error:
            raise InvalidOffsets(f"offsets[{number}]: {error}") from error
        if changes.setdefault(partition, offset) != offset:
            raise InvalidOffsets(f"offsets[{number}]: its partition was given another offset before")
    return changes


def _change(item: Any) -> tuple[TopicPartition, int | None]:
    if not isinstance(item, dict) or not isinstance(item.get("partition"), dict):
        raise InvalidOffsets("The partition for a sink connector offset cannot be null or missing")
    partition = _partition(item["partition"])
    offset = item.get("offset")
    if offset is None:
        return partition, None
    if not isinstance(offset, dict) or set(offset) != {_OFFSET}:
        raise InvalidOffsets(
            f"The offset for a sink connector should either be null or contain the key '{_OFFSET}' and "
            "nothing else"
        )
    return partition, _number(offset[_OFFSET], _OFFSET, _OFFSET_MAX)


def _partition(partition: dict[str, Any]) -> TopicPartition:
    topic = partition.get(_TOPIC)
    if set(partition) != {_TOPIC, _KAFKA_PARTITION} or not isinstance(topic, str) or not topic:
        raise InvalidOffsets(
            f"The partition for a sink connector offset must contain the keys '{_TOPIC}' and "
            f"'{_KAFKA_PARTITION}', and nothing else"
        )
    number = _number(partition[_KAFKA_PARTITION], _KAFKA_PARTITION, _PARTITION_MAX)
    return TopicPartition(topic, number)


def _number(value: Any, name: str, highest: int) -> int:
    """A whole number; Connect takes a text of digits too."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= len(str(highest)):
        value = int(value)
    if type(value) is not int or not 0 <= value <= highest:
        raise InvalidOffsets(f"{name} has to be a whole number from 0")
    return value
