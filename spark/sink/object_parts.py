"""The uploads of one open object: side objects', if it has any, and the main one, which is the last."""

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace

from headrace.formats.converted_records import ConvertedRecords
from headrace.model.sink_entries import Upload
from spark.sink.object_shape import ObjectShape
from spark.sink.open_object import OpenObject


class ObjectParts:
    """Filled, sealed and given up together."""

    def __init__(self, shape: ObjectShape, objects: tuple[OpenObject, ...]) -> None:
        """`objects` are in the order of the shape's roles."""
        self._shape = shape
        self._objects = objects
        self._failure: BaseException | None = None

    @property
    def size(self) -> int:
        """Bytes of the main object so far."""
        return self._objects[-1].size

    @property
    def total_size(self) -> int:
        """Bytes of all of them."""
        return sum(one.size for one in self._objects)

    @property
    def failure(self) -> BaseException | None:
        """Why one of them cannot be sealed any more."""
        return self._failure or next((one.failure for one in self._objects if one.failure is not None), None)

    def fail(self, error: BaseException) -> None:
        """It has to be written again."""
        self._failure = error

    def add(self, records: ConvertedRecords) -> None:
        """A row in each for every record."""
        for one in self._objects:
            one.add(records)

    def seal(self, *, name: str | None = None, tags: Mapping[str, str] | None = None) -> "SealedParts":
        """What the ledger needs; `name` where it was not known before. `tags` are the main object's. Once."""
        uploads = []
        for role, one in zip(self._shape.roles, self._objects, strict=True):
            key = None if name is None else self._shape.key(role, name)
            is_main = one is self._objects[-1]
            uploads.append((role, one.seal(key=key, tags=tags if is_main else None)))
        return SealedParts(tuple(uploads))

    def abandon(self) -> None:
        """Give all back."""
        for one in self._objects:
            one.abandon()


class SealedParts:
    """The uploads of an object whose last parts are on their way."""

    def __init__(self, uploads: tuple[tuple[str, Future[Upload]], ...]) -> None:
        self._uploads = uploads

    @property
    def has_all(self) -> bool:
        """True once S3 has all parts of all of them; an upload that has failed never has."""
        return all(
            upload.done() and not upload.cancelled() and upload.exception() is None
            for _, upload in self._uploads
        )

    def result(self) -> tuple[Upload, ...]:
        """What the ledger's entry has, in the order of completion; only once it `has_all`."""
        return tuple(replace(upload.result(), role=role) for role, upload in self._uploads)
