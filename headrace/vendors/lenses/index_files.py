"""The files that Lenses' sink keeps under its indexes: how far a topic-partition is, what it left half done.

A lock is JSON: `owner`, `committedOffset` (the last offset that is in objects, null before any is) and
`pendingState`, the operations of a commit that was under way and the offset that it commits. Each partition
has one; with PARTITIONBY each combination of values has one of its own next to it. Pure.
"""

from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import unquote_plus

import msgspec

_LOCKS: Final = ".locks"
_LOCK: Final = ".lock"
_PARTITION_DIGITS: Final = 5
_OFFSET_DIGITS: Final = 20

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
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _OFFSET_DIGITS else None
