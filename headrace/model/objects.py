"""What an object is, as listings, the ledger and decoders see it, and what becomes of it in the end."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO, Final, Protocol

from headrace.model.fast_pickle import fast_pickle

_ARCHIVES: Final = frozenset({"GLACIER", "DEEP_ARCHIVE"})


@fast_pickle
@dataclass(frozen=True, slots=True, order=True)
class ObjectId:
    """Identity of an object's content: the same key with another ETag is another object.

    `etag` has no quotes. Ordering is by bucket, then key in code point order, which is the order of
    UTF-8 bytes that S3 lists in.
    """

    bucket: str
    key: str
    etag: str

    @property
    def url(self) -> str:
        """`s3://bucket/key`, for messages to people (not escaped: see `headrace.model.text_formatting`)."""
        return f"s3://{self.bucket}/{self.key}"

    @property
    def place(self) -> tuple[str, str]:
        """Bucket and key: what versions of one key have in common, and those of two buckets do not."""
        return self.bucket, self.key


@fast_pickle
@dataclass(frozen=True, slots=True, kw_only=True)
class S3Object:
    """An object as an event or a listing described it.

    `version_id` is None on buckets without versions ("null" included); `sequencer` is None from listings
    and orders events of one key, nothing else. `storage_class` is None where nothing tells, and where a
    listing shows that a restored copy is there, which is read as any other object is.
    """

    id: ObjectId
    size: int
    last_modified_ms: int
    version_id: str | None = None
    sequencer: str | None = None
    storage_class: str | None = None

    @property
    def is_archived(self) -> bool:
        """True when a GET needs a restore first; GLACIER_IR is read like any other class."""
        return self.storage_class in _ARCHIVES

    @property
    def latest_ms(self) -> int:
        """The latest moment at which it may have been written, in epoch milliseconds.

        S3 cuts LastModified to whole seconds in listings and in HEAD; only events know more.
        """
        return self.last_modified_ms + (999 if self.last_modified_ms % 1000 == 0 else 0)


@fast_pickle
@dataclass(frozen=True, slots=True)
class ArchivePlace:
    """What an object of an archive is among those that it belongs with.

    `stem` is the beginning of its key that its side objects have too, `folder` the topic's own beginning.
    `side` names the part of records that a side object holds; None is an object with rows of its own.
    """

    stem: str
    folder: str
    side: str | None = None
    is_tombstone: bool = False


@fast_pickle
@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where the records of an object go, by the template or the archive's layout, and `topic`.

    `partition` None leaves it to the producer's partitioner. `start_offset` orders the objects of a
    partition; `timestamp_ms`, what `{{timestamp}}` or the layout's name gave, orders those of one offset.
    `may_be_empty`: an object of no bytes is a row and has to be read. `archive` is set where objects may
    belong together. `routed` is the topic that transforms name from `topic`, where it is known and one.
    `archived` is the archive's own topic where `topic` is another: each has an order of its own.
    """

    topic: str
    partition: int | None = None
    start_offset: int | None = None
    timestamp_ms: int | None = None
    may_be_empty: bool = False
    archive: ArchivePlace | None = None
    routed: str | None = None
    archived: str | None = None

    @property
    def output(self) -> str:
        """The topic that records come to; `topic` where each record names one."""
        return self.routed or self.topic


# -- What an object is read with: the objects of its keys and headers, and tombstones merged into it ---------


@fast_pickle
@dataclass(frozen=True, slots=True)
class SideObject:
    """One content of an object in the bucket of another one, which it is read with. `size` in bytes."""

    key: str
    etag: str
    size: int
    version_id: str | None = None

    def as_object(self, bucket: str) -> S3Object:
        """The object to be read."""
        return S3Object(
            id=ObjectId(bucket, self.key, self.etag),
            size=self.size,
            last_modified_ms=0,
            version_id=self.version_id,
        )


@fast_pickle
@dataclass(frozen=True, slots=True, order=True)
class RowPlace:
    """`count` tombstones, from row `first` of their object on, are before row `row` of a value object."""

    row: int
    first: int
    count: int


@fast_pickle
@dataclass(frozen=True, slots=True)
class PlacedTombstones:
    """Rows of a tombstone object that are between those of a value object."""

    keys: SideObject
    headers: SideObject | None
    places: tuple[RowPlace, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingPage:
    """What S3 listed of a bucket in (`after_key`, `through_key`]; None is the prefix's start, and its end.

    Pages of one bucket and `listing_id` come in order, without a gap. `is_full` says that the listing goes
    through the whole prefix (from `native.start.key` on), rather than from the last key seen. `is_inventory`:
    the objects are some that an inventory names, in no order, and of others it says nothing. `refused` are
    sentences about objects that are there and not among these, as S3 does not tell which content they are.
    """

    bucket: str
    listing_id: int
    is_full: bool
    after_key: str | None
    through_key: str | None
    objects: Sequence[S3Object]
    is_inventory: bool = False
    refused: Sequence[str] = ()

    @property
    def is_last(self) -> bool:
        """True for the page that reaches the end of the prefix."""
        return self.through_key is None

    @property
    def is_in_order(self) -> bool:
        """True when the keys rise within the page's bounds: what a merge relies on.

        Some stores (directory buckets, for one) list in another order.
        """
        if self.is_inventory:
            return False
        before = self.after_key
        for listed in self.objects:
            key = listed.id.key
            if before is not None and key <= before:
                return False
            before = key
        return self.through_key is None or before is None or before <= self.through_key


_OTHER_BUCKET: Final = "s3://"


class PostActionKind(StrEnum):
    """What is done."""

    DELETE = "delete"
    MOVE = "move"
    TAG = "tag"


@dataclass(frozen=True, slots=True)
class PostAction:
    """One action; `target` is the prefix that objects move to, or the tag as `key=value`.

    The prefix has `s3://bucket/` before it where it is one of another bucket.
    `is_unconditional`: S3 is not asked to delete only the content that was read.
    """

    kind: PostActionKind
    target: str = ""
    is_unconditional: bool = False

    @property
    def moves_to(self) -> tuple[str | None, str]:
        """The bucket that objects move to, None for their own, and the prefix there."""
        if not self.target.startswith(_OTHER_BUCKET):
            return None, self.target
        bucket, _, prefix = self.target.removeprefix(_OTHER_BUCKET).partition("/")
        return bucket, prefix

    @property
    def text(self) -> str:
        """As the option spells it, and as the ledger notes that it is owed."""
        return f"{self.kind}:{self.target}" if self.target else str(self.kind)


def moved_below(action: PostAction | None) -> str | None:
    """The prefix of their own bucket that objects are moved to once they were read; it is not read itself."""
    if action is None or action.kind is not PostActionKind.MOVE:
        return None
    bucket, prefix = action.moves_to
    return prefix if bucket is None else None


@dataclass(frozen=True, slots=True)
class OwedAction:
    """An object that is done, and with it the objects it was read with: each as key, ETag and version id."""

    id: ObjectId
    contents: tuple[tuple[str, str, str | None], ...]


class PartBody(Protocol):
    """The bytes of a part of an upload that are not all in memory."""

    @property
    def crc32(self) -> int:
        """Of all bytes."""
        ...

    def open(self) -> BinaryIO:
        """A new reader at the first byte, which can seek."""
        ...


class ByteSource(Protocol):
    """One object, pinned to one content: everything it gives comes from the same ETag.

    Raises only classes of `errors`: ObjectMissing, ObjectSuperseded, ObjectForbidden, ObjectArchived,
    SourceUnavailable, AccessDenied. A cut connection is resumed inside, by range, and not seen here.
    """

    @property
    def size(self) -> int:
        """Size of the object in bytes, as stored."""

    @property
    def name(self) -> str:
        """`s3://bucket/key`, for messages."""

    @property
    def fetched_bytes(self) -> int:
        """Bytes fetched from S3 so far."""

    def stream(self, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes from `begin` to `end` (exclusive; None: the end) in chunks of a bounded size; blocks.

        Reads ahead in the background by a bounded window. Closing the iterator gives the connection back.
        """

    def read_at(self, offset: int, length: int) -> bytes:
        """Exactly the bytes [offset, offset + length), or fewer only at the end of the object; blocks."""


def is_directory_bucket(name: str) -> bool:
    """Whether a bucket, or an access point of one, is of S3 Express: its listings have no order."""
    return name.endswith(("--x-s3", "--xa-s3"))
