"""How far Lenses' sink has archived each topic-partition, by its locks; what it left is finished.

A partition that is new to us is asked for once. A lock's steps: an object is put under a temporary key,
copied to its final one and deleted where it was, and the lock says before each step which are left. The next
owner of the partition does them, in their order, and writes the lock after each one under the condition that
no other has. A process that is killed anywhere leaves a lock from which the next continues.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Protocol

import structlog
from botocore.exceptions import ClientError

from headrace.aws.aws_errors import answer_of
from headrace.kafka.data_topics import SurveyedPartition
from headrace.model.errors import (
    AccessDenied,
    HeadraceError,
    InvalidConfiguration,
    ObjectError,
    ObjectForbidden,
    ObjectMissing,
)
from headrace.model.ledger_entry import ControlKey
from headrace.model.sink_entries import TopicPartition, partition_key
from headrace.options import Settings
from headrace.options.settings import S3Settings
from headrace.s3.client import new_s3_client
from headrace.s3.post_action_calls import PostActionCalls
from headrace.s3.s3_calls import S3Calls
from headrace.vendors.lenses.names import (
    CopyOperation,
    DeleteOperation,
    IndexPlace,
    InvalidLock,
    Lock,
    Operation,
    PendingCommit,
    UploadOperation,
    offset_of,
    read_lock,
    values_of,
    written_lock,
)
from ingest.sink import EarlierArchive
from spark.sink.object_keys import ObjectNames, lenses_group

_log = structlog.get_logger(__name__)

_PRECONDITION_FAILED: Final = 412

Values = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedOffsets:
    """The last offsets that are in objects: all records up to `committed` (None: no lock says so).

    `groups` are those of single values, by their names in the lock's key.
    """

    committed: int | None
    groups: tuple[tuple[Values, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """What is pending in a lock, and whether it can be finished; else the records are read again."""

    lock: str
    offset: int
    is_finished: bool


class _Bytes(Protocol):
    def read(self) -> bytes: ...


class LensesIndex:
    """The index files in one bucket. Blocks; raises classes of `headrace.model.errors` only.

    InvalidConfiguration names a file that cannot be what it should, or that another client writes. With
    `is_preview` nothing is changed: the offsets are those that finishing would give, and `foreseen` has what
    would be finished.
    """

    def __init__(self, client: Any, calls: S3Calls, bucket: str, *, is_preview: bool = False) -> None:
        self._client = client
        self._calls = calls
        self._bucket = bucket
        self._is_preview = is_preview
        self.foreseen: list[Foreseen] = []

    def offsets(self, place: IndexPlace) -> IndexedOffsets:
        """How far the partition is, once what was pending is finished."""
        committed = [one for key in place.locks if (one := self._lock(key)) is not None]
        if not committed:
            committed = [one for key in place.earlier_locks if (one := self._lock(key)) is not None]
        if not committed:
            committed = [Lock(owner="", committed=self._by_names(place))]
        known = [each.committed for each in committed if each.committed is not None]
        groups: dict[Values, int] = {}
        for prefix in place.group_locks:
            for values, offset in self._group_locks(prefix):
                groups[values] = max(offset, groups.get(values, offset))
        return IndexedOffsets(committed=max(known, default=None), groups=tuple(sorted(groups.items())))

    def _group_locks(self, prefix: str) -> list[tuple[Values, int]]:
        found: list[tuple[Values, int]] = []
        for key in self._listed(prefix):
            values = values_of(key)
            if values is None:
                continue
            lock = self._lock(key)
            if lock is not None and lock.committed is not None:
                found.append((values, lock.committed))
        return found

    def _by_names(self, place: IndexPlace) -> int | None:
        """The offset of releases before 9: their newest file whose content names an object that is there."""
        keys = self._listed(place.offsets)
        named = sorted(
            ((offset, key) for key in keys if (offset := offset_of(key)) is not None), reverse=True
        )
        for offset, key in named:
            found = self._read(key)
            if found is not None and self._exists(found[0].decode(errors="replace")):
                return offset
        return None

    # -- one lock --------------------------------------------------------------------------------------------

    def _lock(self, key: str) -> Lock | None:
        """The lock with nothing pending any more; None where there is none."""
        found = self._read(key)
        if found is None:
            return None
        raw, etag = found
        try:
            lock = read_lock(raw)
        except InvalidLock as error:
            raise InvalidConfiguration(
                f"{self._url(key)} is no lock of Lenses' sink ({error}): repair or delete it, or set "
                "takeover.indexes=none to begin at the group's offsets."
            ) from error
        if self._is_preview:
            return self._foresee(key, lock)
        while lock.pending is not None:
            lock = self._step(key, lock, lock.pending)
            etag = self._write(key, lock, etag)
        return lock

    def _foresee(self, key: str, lock: Lock) -> Lock:
        """What the lock would say with nothing pending any more; the bucket stays as it is."""
        pending = lock.pending
        if pending is None:
            return lock
        is_finished = all(map(self._can_be_done, pending.operations))
        self.foreseen.append(Foreseen(lock=self._url(key), offset=pending.offset, is_finished=is_finished))
        return Lock(owner=lock.owner, committed=pending.offset if is_finished else lock.committed)

    def _can_be_done(self, operation: Operation) -> bool:
        """What `_is_done` would come to."""
        if isinstance(operation, UploadOperation):
            return False
        if isinstance(operation, DeleteOperation):
            return True
        return self._exists(operation.source, bucket=operation.bucket, etag=operation.etag) or self._exists(
            operation.destination, bucket=operation.bucket
        )

    def _step(self, key: str, lock: Lock, pending: PendingCommit) -> Lock:
        """What the lock says after the first of its pending operations."""
        first, *rest = pending.operations
        if not self._is_done(first):
            _log.warning(
                "takeover_commit_dropped",
                lock=self._url(key),
                offset=pending.offset,
                detail="what Lenses' sink had under way is not in the bucket; its records are read again",
            )
            return Lock(owner=lock.owner, committed=lock.committed)
        if rest:
            return Lock(
                owner=lock.owner,
                committed=lock.committed,
                pending=PendingCommit(offset=pending.offset, operations=tuple(rest)),
            )
        _log.info("takeover_commit_finished", lock=self._url(key), offset=pending.offset)
        return Lock(owner=lock.owner, committed=pending.offset)

    def _is_done(self, operation: Operation) -> bool:
        """Whether the operation is done, now or before; False when its commit cannot be finished."""
        if isinstance(operation, UploadOperation):
            # The file is on the disk of a worker of Connect.
            return False
        calls = PostActionCalls(self._client, self._calls, bucket=operation.bucket, is_unconditional=True)
        etag = operation.etag.strip('"')
        with _told_what_to_allow(operation.bucket):
            if isinstance(operation, DeleteOperation):
                # Gone already, or other content: nothing of this commit.
                calls.delete(operation.source, etag)
                return True
            assert isinstance(operation, CopyOperation)
            is_moved = calls.move(operation.source, etag, operation.destination)
        return is_moved or self._exists(operation.destination, bucket=operation.bucket)

    def _write(self, key: str, lock: Lock, etag: str) -> str:
        """The ETag of the lock with this content, which takes the place of what was read."""

        def put() -> Any:
            try:
                return self._client.put_object(
                    Bucket=self._bucket,
                    Key=key,
                    Body=written_lock(lock),
                    ContentType="application/json",
                    IfMatch=etag,
                )
            except ClientError as error:
                if answer_of(error)[1] != _PRECONDITION_FAILED:
                    raise
                raise InvalidConfiguration(
                    f"{self._url(key)} was written by another program meanwhile: stop Lenses' connector, "
                    "which is tried again then."
                ) from error

        with _told_what_to_allow(self._bucket):
            return str(self._calls.retried(put, what=self._url(key))["ETag"])

    # -- objects ---------------------------------------------------------------------------------------------

    def _listed(self, prefix: str) -> list[str]:
        """The keys under a prefix."""
        try:
            return [entry.id.key for entry in self._calls.listed(self._bucket, prefix)]
        except (ObjectForbidden, AccessDenied) as error:
            raise self._unlisted() from error

    def _read(self, key: str) -> tuple[bytes, str] | None:
        """Content and ETag; None when there is no such object."""

        def get() -> tuple[bytes, str]:
            answer = self._client.get_object(Bucket=self._bucket, Key=key)
            body: _Bytes = answer["Body"]
            return body.read(), str(answer["ETag"])

        try:
            return self._calls.retried(get, what=self._url(key))
        except ObjectMissing:
            return None
        except (ObjectForbidden, AccessDenied) as error:
            raise self._denied(key, error) from error

    def _exists(self, key: str, *, bucket: str | None = None, etag: str | None = None) -> bool:
        """Whether it is there; with `etag` as that content."""
        try:
            found = self._calls.head(bucket or self._bucket, key)
        except ObjectMissing:
            return False
        except (ObjectForbidden, AccessDenied) as error:
            raise self._denied(key, error) from error
        except ObjectError:
            return True
        return etag is None or found.id.etag == etag.strip('"')

    def _unlisted(self) -> AccessDenied:
        return AccessDenied(
            "Whether Lenses' sink has left locks cannot be told: S3 refuses s3:ListBucket, without which a "
            f"missing object looks forbidden. Allow s3:ListBucket on s3://{self._bucket}, or set "
            "takeover.indexes=none to begin at the group's offsets."
        )

    def _denied(self, key: str, error: Exception) -> AccessDenied:
        """Of a missing one, too, where the bucket may not be listed: then that is what has to be allowed."""
        self._listed(key)
        return _not_allowed(self._bucket, error)

    def _url(self, key: str) -> str:
        return f"s3://{self._bucket}/{key}"


@contextmanager
def _told_what_to_allow(bucket: str) -> Iterator[None]:
    try:
        yield
    except (ObjectForbidden, AccessDenied) as error:
        raise _not_allowed(bucket, error) from error


def _not_allowed(bucket: str, error: Exception) -> AccessDenied:
    return AccessDenied(
        f"The locks of Lenses' sink cannot be read and finished: {error} Allow s3:GetObject, s3:PutObject "
        f"and s3:DeleteObject on s3://{bucket}/*, or set takeover.indexes=none to begin at the "
        "group's offsets."
    )


def new_lenses_index(settings: S3Settings, bucket: str, *, is_preview: bool = False) -> LensesIndex:
    """The index files in the bucket, asked for through a client of its own."""
    client = new_s3_client(settings, uploads=True).client
    calls = S3Calls(client, backoff=settings.backoff, requester_pays=settings.requester_pays)
    return LensesIndex(client, calls, bucket, is_preview=is_preview)


class EarlierArchives:
    """What another sink's files say of partitions; for one thread, and blocks.

    `known` are the keys of the ledger: a partition with a checkpoint needs nothing of another's.
    """

    def __init__(
        self,
        settings: Settings,
        known: Callable[[], Collection[ControlKey]],
        *,
        new_index: Callable[[str], LensesIndex] | None = None,
    ) -> None:
        self._settings = settings
        self._known = known
        self._index = cache(new_index or self._new_index)
        self._found: dict[TopicPartition, EarlierArchive | None] = {}

    def of(self, partitions: Iterable[SurveyedPartition]) -> dict[TopicPartition, EarlierArchive]:
        """What is found of each of them that has something. A problem is asked for again."""
        sink = self._settings.sink
        if sink is None or sink.takeover_indexes is None:
            return {}
        places = {TopicPartition(one.topic, one.partition): one for one in partitions}
        if new := places.keys() - self._found.keys():
            known = self._known()
            for place in sorted(new):
                is_known = partition_key(place) in known
                self._found[place] = None if is_known else self._read(places[place], sink.takeover_indexes)
        given = {place: found for place in places if (found := self._found[place]) is not None}
        for place, found in given.items():
            if found.problem is not None:
                del self._found[place]
        return given

    def _read(self, one: SurveyedPartition, root: str) -> EarlierArchive:
        settings = self._settings
        assert settings.sink is not None
        route = settings.sink.route(one.topic)
        bucket, names = (
            (settings.s3.bucket, settings.sink.names) if route is None else (route.bucket, route.sink.names)
        )
        connector = settings.sink.takeover_connector or settings.name
        place = IndexPlace(root=root, connector=connector, topic=one.topic, partition=one.partition)
        try:
            offsets = self._index(bucket).offsets(place)
        except HeadraceError as error:
            return EarlierArchive(problem=str(error))
        return _earlier(one, offsets, ObjectNames(names, ""))

    def _new_index(self, bucket: str) -> LensesIndex:
        return new_lenses_index(self._settings.s3, bucket)


def _earlier(one: SurveyedPartition, offsets: IndexedOffsets, names: ObjectNames) -> EarlierArchive:
    """The locks in our words: the next offset, and how far groups are beyond."""
    committed = [] if offsets.committed is None else [offsets.committed]
    if not names.grouping:
        # One group has all records: its lock says what the partition's says, or a little more.
        committed += [last for _, last in offsets.groups]
        return EarlierArchive(offset=max(committed) + 1 if committed else None)
    offset = max(committed) + 1 if committed else None
    done: list[tuple[str, int]] = []
    for values, last in offsets.groups:
        if last < max(offset or 0, one.group_offset or 0):
            continue
        group = lenses_group(names, values)
        if group is None:
            shown = ", ".join(f"{name}={value}" for name, value in values)
            return EarlierArchive(
                problem=f"Lenses' sink has archived {one.topic}-{one.partition} up to offset {last} for "
                f"{shown}, by which this one does not group: begin with the PARTITIONBY of before, or set "
                "takeover.indexes=none to begin at the group's offsets."
            )
        done.append((group, last))
    return EarlierArchive(offset=offset, done=tuple(done))
