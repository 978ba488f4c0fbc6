"""Keys of Lenses' sink, of its objects and of the index files that say how far a topic-partition is. Pure.

The offset in an object's name is that of its last record. A lock is JSON: `owner`, `committedOffset` (the
last offset that is in objects, null before any is) and `pendingState`, the operations of a commit that was
under way and the offset that it commits. Each partition has one; with PARTITIONBY each combination of values
has one of its own next to it.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import unquote_plus

import msgspec

from headrace.formats.content_kind import RowShape
from headrace.names.archive_names import (
    ArchiveName,
    Inexact,
    LayoutName,
    NameElement,
    directories_of,
    read_offset,
    read_partition,
    without_prefix,
)
from headrace.options.choices import NameOptions

# Of a row that is an envelope.
MEMBERS: Final = frozenset({"key", "value", "headers", "metadata", "keyIsArray", "valueIsArray"})
# One of these, or all of that in its metadata, says that it is an envelope and not a value with such members.
_MARKS: Final = frozenset({"keyIsArray", "valueIsArray"})
_PLACE: Final = frozenset({"topic", "partition", "offset"})
_EXTENSION: Final = r"\.(?P<extension>json|gz|avro|parquet|csv|text|bytes)"
_TOPIC: Final = re.compile(r"(?:topic=)?(?P<topic>[A-Za-z0-9._-]+)")
_PARTITION: Final = re.compile(r"(?:partition=)?(?P<partition>[0-9]+)")
_DEFAULT: Final = re.compile(
    rf"(?P<last>[0-9]+)_(?P<first_ms>-?[0-9]{{1,19}})_(?P<last_ms>-?[0-9]{{1,19}})(?P<suffix>[^/]*?){_EXTENSION}"
)
_CUSTOM: Final = re.compile(
    rf"(?P<topic>[A-Za-z0-9._-]+)\((?P<partition>[0-9]+)_(?P<last>[0-9]+)\)(?P<suffix>[^/]*?){_EXTENSION}"
)
# Releases before the times came into the name; Quix writes 19 digits there.
_OLD: Final = re.compile(rf"(?P<last>0|[1-9][0-9]{{0,17}}){_EXTENSION}")

# What the sink pads to by default. No topic has come to such an offset: the number was padded on the right.
_OFFSET_DIGITS: Final = 12
# Partitions may be padded alone: so many digits are doubted. A topic may have 10,000 partitions, but few do.
_MANY_DIGITS: Final = 5


def is_envelope(shape: RowShape) -> bool:
    """True where rows of this shape are envelopes and nothing else."""
    is_placed = shape.within.get("metadata", frozenset()) >= _PLACE
    return shape.members <= MEMBERS and (is_placed or not _MARKS.isdisjoint(shape.members))


_SPREAD: Final = Inexact(
    NameElement.ORDER,
    "records are spread over objects by PARTITIONBY, so their order between objects of a partition is lost",
)


def read_name(key: str, options: NameOptions) -> ArchiveName | None:
    """What the key says, or None for a key that this sink does not write."""
    rest = without_prefix(key, options.prefix)
    if rest is None:
        return None
    *directories, file = rest.split("/")
    if custom := _CUSTOM.fullmatch(file):
        return _custom(key, custom, directories)
    if len(directories) < 2:  # noqa: PLR2004  # a topic and a partition
        return None
    topic, partition = _TOPIC.fullmatch(directories[-2]), _PARTITION.fullmatch(directories[-1])
    if topic is None or partition is None:
        return None
    return _default(key, file, topic["topic"], partition["partition"])


def _default(key: str, file: str, topic: str, partition: str) -> ArchiveName | None:
    if found := _DEFAULT.fullmatch(file):
        times = (int(found["first_ms"]), int(found["last_ms"]))
        return _name(key, "default", topic, partition, found["last"], found["extension"], times=times)
    if found := _OLD.fullmatch(file):
        return _name(key, "old", topic, partition, found["last"], found["extension"])
    return None


def _custom(key: str, found: re.Match[str], directories: list[str]) -> ArchiveName | None:
    values = directories_of(directories)
    # With topic and partition alone nothing is spread.
    spread = {name for name, _ in values} - {"topic", "partition"}
    return _name(
        key,
        "custom",
        found["topic"],
        found["partition"],
        found["last"],
        found["extension"],
        directories=values,
        inexact=(_SPREAD,) if spread else (),
    )


def _name(
    key: str,
    rule: str,
    topic: str,
    partition_text: str,
    last_text: str,
    extension: str,
    *,
    times: tuple[int, int] | None = None,
    directories: tuple[tuple[str, str], ...] = (),
    inexact: tuple[Inexact, ...] = (),
) -> ArchiveName | None:
    partition, last = read_partition(partition_text), read_offset(last_text)
    if partition is None or last is None:
        return None
    first_ms, last_ms = times or (None, None)
    return ArchiveName(
        key=key,
        layout=LayoutName.LENSES,
        rule=rule,
        topic=topic,
        partition=partition,
        last_offset=last,
        first_timestamp_ms=first_ms,
        last_timestamp_ms=last_ms,
        directories=directories,
        stem=key,
        extension=f".{extension}",
        inexact=(*inexact, *_padded_on_the_right(last_text, partition_text)),
    )


def _padded_on_the_right(last: str, partition: str) -> tuple[Inexact, ...]:
    """What `padding.type=RightPad` makes of numbers: 1 and 10 look alike, and order is lost with them."""
    found: list[NameElement] = []
    if len(last) >= _OFFSET_DIGITS and _may_end_in_padding(last):
        found += [NameElement.OFFSET, NameElement.ORDER]
    if (found or len(partition) >= _MANY_DIGITS) and _may_end_in_padding(partition):
        found.append(NameElement.PARTITION)
    why = "the number {} looks as if zeros had been put after it (padding.type=RightPad)"
    return tuple(
        Inexact(each, why.format(partition if each is NameElement.PARTITION else last)) for each in found
    )


def _may_end_in_padding(digits: str) -> bool:
    return len(digits) > 1 and digits[0] != "0" and digits[-1] == "0"


_LOCKS: Final = ".locks"
_LOCK: Final = ".lock"
_PARTITION_DIGITS: Final = 5
_LOCK_DIGITS: Final = 20

_Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Text = Annotated[str, msgspec.Meta(min_length=1)]


class InvalidLock(ValueError):
    """The file is not one of Lenses' locks; `str()` is why, without the file's name."""


class UploadOperation(msgspec.Struct, frozen=True, tag_field="type", tag="upload"):
    """A file of the worker's disk is put into the bucket: no other machine has it."""

    bucket: _Text
    source: str
    destination: _Text


class CopyOperation(msgspec.Struct, frozen=True, tag_field="type", tag="copy", rename="camel"):
    """An object is moved to its final name, if its content is that of the ETag."""

    bucket: _Text
    source: _Text
    destination: _Text
    etag: _Text = msgspec.field(name="eTag")


class DeleteOperation(msgspec.Struct, frozen=True, tag_field="type", tag="delete", rename="camel"):
    """An object is deleted, if its content is that of the ETag."""

    bucket: _Text
    source: _Text
    etag: _Text = msgspec.field(name="eTag")


Operation = UploadOperation | CopyOperation | DeleteOperation


class PendingCommit(msgspec.Struct, frozen=True, rename="camel"):
    """A commit under way: once the operations are done, in their order, `offset` is committed."""

    offset: _Offset = msgspec.field(name="pendingOffset")
    operations: Annotated[tuple[Operation, ...], msgspec.Meta(min_length=1)] = msgspec.field(
        name="pendingOperations"
    )


class Lock(msgspec.Struct, frozen=True, rename="camel"):
    """What one lock says. `committed` is the last offset that is in objects, None before any is."""

    owner: str
    committed: _Offset | None = msgspec.field(name="committedOffset", default=None)
    pending: PendingCommit | None = msgspec.field(name="pendingState", default=None)


def read_lock(raw: bytes) -> Lock:
    """What a lock's content says; InvalidLock. An empty one, left by a write that was cut, says nothing."""
    if not raw:
        return Lock(owner="")
    try:
        return msgspec.json.decode(raw, type=Lock)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidLock(str(error)) from error


def written_lock(lock: Lock) -> bytes:
    """The content of a lock, as Lenses' sink reads it."""
    return msgspec.json.encode(lock)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPlace:
    """Where the files of a topic-partition are: `root` is `connect.s3.indexes.name`."""

    root: str
    connector: str
    topic: str
    partition: int

    @property
    def locks(self) -> tuple[str, ...]:
        """The keys that the partition's lock may have: releases differ in how they write the topic."""
        return tuple(f"{each}{_LOCK}" for each in self._stems)

    @property
    def earlier_locks(self) -> tuple[str, ...]:
        """The keys of 9.0, which had no connector in them; read where none of `locks` is there."""
        return tuple(
            f"{self.root}/{_LOCKS}/{topic}/{self.partition}{_LOCK}" for topic in _texts_of(self.topic)
        )

    @property
    def group_locks(self) -> tuple[str, ...]:
        """The prefixes under which the locks of single values are."""
        return tuple(f"{each}/" for each in self._stems)

    @property
    def offsets(self) -> str:
        """The prefix of the files that releases before 9 wrote: each is named by an offset."""
        return f"{self.root}/{self.connector}/{self.topic}/{self.partition:0{_PARTITION_DIGITS}}/"

    @property
    def _stems(self) -> tuple[str, ...]:
        base = f"{self.root}/{self.connector}/{_LOCKS}"
        return tuple(f"{base}/{topic}/{self.partition}" for topic in _texts_of(self.topic))


def _texts_of(topic: str) -> tuple[str, str]:
    return f"Topic({topic})", topic


def values_of(key: str) -> tuple[tuple[str, str], ...] | None:
    """The names and values that a lock of single values is of; None for another file.

    Its name is `name=value_name=value.lock`, each part URL-encoded, underscores too.
    """
    stem = key.rpartition("/")[2]
    if not stem.endswith(_LOCK):
        return None
    pairs = [each.partition("=") for each in stem.removesuffix(_LOCK).split("_")]
    if not all(between for _, between, _ in pairs):
        return None
    return tuple((unquote_plus(name), unquote_plus(value)) for name, _, value in pairs)


def offset_of(key: str) -> int | None:
    """The offset that a file of releases before 9 is named by; None for another file."""
    text = key.rpartition("/")[2]
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _LOCK_DIGITS else None
