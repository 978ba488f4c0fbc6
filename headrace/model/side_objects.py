"""What an object is read with: the objects of its keys and headers, and tombstones merged into it."""

from dataclasses import dataclass

from headrace.model.fast_pickle import fast_pickle
from headrace.model.objects import ObjectId, S3Object


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
    """`count` tombstones, from row `first` of their object on, stand before row `row` of a value object."""

    row: int
    first: int
    count: int


@fast_pickle
@dataclass(frozen=True, slots=True)
class PlacedTombstones:
    """Rows of a tombstone object that stand between those of a value object."""

    keys: SideObject
    headers: SideObject | None
    places: tuple[RowPlace, ...]
