"""Where a discovery log is: a directory, or a prefix of S3; a name is taken by one writer only in both.

Tasks note there which bad rows they meet.
"""

import errno
import os
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
from botocore.exceptions import ClientError

from headrace.aws.aws_credentials import signed_again
from headrace.aws.aws_errors import answer_of
from headrace.aws.store_answers import following, needed
from headrace.model.errors import AccessDenied, FrameRefused, HeadraceError, ObjectForbidden, ObjectMissing
from headrace.model.slot_protocol import Split
from headrace.options.settings import S3Settings
from headrace.s3.client import BOTOCORES, WriteConflict, attempted, new_s3_client, translate_s3
from spark.frames.addresses import s3_address, state_directory
from spark.frames.log_entries import ABOUT, identity

_TAKEN: Final = 412
_CONFLICT: Final = 409
_UNSUPPORTED: Final = 501
_DELETED_AT_ONCE: Final = 1000
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
_ANOTHER_PLACE: Final = (
    "name a directory that the user of Spark's driver may write to, on a file system with hard links"
)


class LogStore(Protocol):
    """Small files by name, `/` between folder and file. FrameRefused in a sentence that names the place."""

    where: str
    """The place, for messages."""

    def create(self, name: str, content: bytes) -> bool:
        """Write a file that is not there, whole and durable; False when it is there."""

    def replace(self, name: str, content: bytes) -> None:
        """Write a file, whole and durable, over what is there."""

    def read(self, name: str) -> bytes | None:
        """The file, None when it is not there."""

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted, `folder/` before each."""

    def remove(self, names: Iterable[str]) -> None:
        """Have these files gone; those that are gone already are passed over."""


def log_store(path: str, s3: S3Settings) -> LogStore:
    """The store at `state.path`; S3 is reached as the bucket of the objects is. FrameRefused for no place."""
    directory = state_directory(path)
    if directory is not None:
        return DirectoryStore(Path(directory))
    address = s3_address(path)
    assert address is not None, "it is no directory"
    return S3Store(s3, bucket=address[0], prefix=address[1].strip("/"))


def refuse_other_directory(store: LogStore, name: str) -> None:
    """FrameRefused in a task that does not see this file, which the query's driver has made."""
    if store.read(name) is None:
        raise FrameRefused(
            f"state.path = {store.where!r} has no {name} here, and the query's driver has made it: name a "
            "directory that the driver and all executors see, or s3://bucket/prefix."
        )


class DirectoryStore:
    """A directory; files appear by hard link, which only one writer gets, or by rename."""

    def __init__(self, root: Path) -> None:
        self.where = str(root)
        self._root = root

    def create(self, name: str, content: bytes) -> bool:
        """As of the protocol."""
        with self._explained():
            with self._temporary(name, content) as written:
                try:
                    os.link(written, self._root / name)
                except FileExistsError:
                    return False
            self._sync(name)
        return True

    def replace(self, name: str, content: bytes) -> None:
        """As of the protocol."""
        with self._explained():
            with self._temporary(name, content) as written:
                written.replace(self._root / name)
            self._sync(name)

    def read(self, name: str) -> bytes | None:
        """As of the protocol."""
        with self._explained():
            try:
                return (self._root / name).read_bytes()
            except FileNotFoundError:
                return None

    def names(self, folder: str) -> list[str]:
        """As of the protocol."""
        with self._explained():
            try:
                found = [path.name for path in (self._root / folder).iterdir()]
            except FileNotFoundError:
                return []
        return sorted(f"{folder}/{name}" for name in found if not name.startswith("."))

    def remove(self, names: Iterable[str]) -> None:
        """As of the protocol."""
        with self._explained():
            for name in names:
                (self._root / name).unlink(missing_ok=True)

    def _explained(self) -> "_Explained":
        return _Explained(self.where)

    def _temporary(self, name: str, content: bytes) -> "_Temporary":
        folder = (self._root / name).parent
        folder.mkdir(parents=True, exist_ok=True)
        return _Temporary(folder / f".{uuid.uuid4().hex}", content)

    def _sync(self, name: str) -> None:
        descriptor = os.open((self._root / name).parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class _Temporary:
    """A file that is written and durable, gone afterwards."""

    def __init__(self, path: Path, content: bytes) -> None:
        self._path = path
        self._content = content

    def __enter__(self) -> Path:
        try:
            with self._path.open("xb") as file:
                file.write(self._content)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            self.__exit__()
            raise
        return self._path

    def __exit__(self, *_error: object) -> None:
        with suppress(FileNotFoundError):
            self._path.unlink()


class _Explained:
    """Around all calls to the file system: what it refuses, as a sentence."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError):
            fix = "free some room there, and start it again" if error.errno in _NO_ROOM else _ANOTHER_PLACE
            why = f"may not be read and written ({error.strerror or error})"
            raise FrameRefused(f"state.path = {self._where!r} {why}: {fix}.") from error


class S3Store:
    """A prefix of a bucket; a name is taken by `If-None-Match`."""

    def __init__(self, s3: S3Settings, *, bucket: str, prefix: str) -> None:
        self.where = f"s3://{bucket}/{prefix}".rstrip("/")
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._backoff = s3.backoff
        self._client = new_s3_client(s3).client
        # Amazon's own keeps the condition; of another store one name is taken twice, to see.
        self._keeps_conditions = s3.endpoint is None

    def create(self, name: str, content: bytes) -> bool:
        """As of the protocol. After a call without an answer the name may be taken by the caller itself."""

        def put() -> bool:
            try:
                self._client.put_object(
                    Bucket=self._bucket, Key=self._key(name), Body=content, IfNoneMatch="*"
                )
            except ClientError as error:
                status = answer_of(error)[1]
                if status == _TAKEN:
                    return False
                if status == _CONFLICT:
                    # Another request for the name is under way, and need not come to anything.
                    raise WriteConflict(f"{self.where}/{name} is in another request.") from error
                if status == _UNSUPPORTED:
                    raise self._without_conditions("refuses") from error
                raise
            return True

        is_new = bool(self._called(put))
        if is_new and not self._keeps_conditions:
            if self._called(put):
                raise self._without_conditions("ignores")
            self._keeps_conditions = True
        return is_new

    def _without_conditions(self, verb: str) -> FrameRefused:
        return FrameRefused(
            f"state.path = {self.where!r} is in a store that {verb} If-None-Match, by which a name is taken "
            "once: name a directory that all drivers of the query see, or a bucket of another store."
        )

    def replace(self, name: str, content: bytes) -> None:
        """As of the protocol."""
        self._called(partial(self._client.put_object, Bucket=self._bucket, Key=self._key(name), Body=content))

    def read(self, name: str) -> bytes | None:
        """As of the protocol."""

        def get() -> bytes:
            with self._client.get_object(Bucket=self._bucket, Key=self._key(name))["Body"] as body:
                content: bytes = body.read()
                return content

        try:
            content: bytes = self._called(get)
        except ObjectMissing:
            return None
        return content

    def names(self, folder: str) -> list[str]:
        """As of the protocol."""
        prefix, found = self._key(f"{folder}/"), []
        given: dict[str, Any] = {"Bucket": self._bucket, "Prefix": prefix}
        while True:
            page = self._called(partial(self._client.list_objects_v2, **given))
            found += [
                needed(entry, "Key", what=self.where).removeprefix(self._prefix)
                for entry in page.get("Contents", ())
            ]
            more = following(page, given, what=f"s3://{self._bucket}/{prefix}")
            if more is None:
                # A directory bucket lists in an order of its own.
                return sorted(found)
            given |= more

    def remove(self, names: Iterable[str]) -> None:
        """As of the protocol."""
        keys = [{"Key": self._key(name)} for name in names]
        for begin in range(0, len(keys), _DELETED_AT_ONCE):
            some = {"Objects": keys[begin : begin + _DELETED_AT_ONCE], "Quiet": True}
            self._called(partial(self._client.delete_objects, Bucket=self._bucket, Delete=some))

    def _key(self, name: str) -> str:
        return self._prefix + name

    def _called(self, call: Callable[[], Any]) -> Any:
        def translated() -> Any:
            try:
                return signed_again(call)
            except BOTOCORES as error:
                raise translate_s3(error, what=self.where) from error

        try:
            return attempted(translated, self._backoff)
        except (ObjectMissing, FrameRefused):
            raise
        except (AccessDenied, ObjectForbidden) as error:
            raise FrameRefused(
                f"state.path = {self.where!r} may not be read and written: {error} It needs s3:GetObject, "
                "s3:PutObject, s3:DeleteObject and s3:ListBucket."
            ) from error
        except HeadraceError as error:
            raise FrameRefused(f"state.path = {self.where!r} is out of reach: {error}") from error


BAD: Final = "bad"
"""The folder of what tasks note of bad rows."""


_FEW_BAD: Final = 1000


class BadNotes:
    """The bad rows of a task's splits, in a file for each that has some, by its object and begin.

    So each row is noted once, whichever splits a task has: a frame that is read again has other objects, or
    a filter that leaves some out. A split without bad rows costs no call of its own.
    """

    def __init__(self, state: Callable[[], LogStore], *, batch: int | None) -> None:
        """`state` is asked for where it is first needed; `batch` None is of a frame that is read once."""
        self._state = state
        self._batch = batch
        self._name = ""
        self._rows: list[dict[str, Any]] = []
        self._kept = 0
        self._sound: list[str] = []
        self._has_some = False

    def begin(self, split: Split) -> None:
        """The rows that come are this split's."""
        self._name = f"{self._batch or 0:012d}/{identity(split.object.id).hex()}-{split.begin or 0}"
        self._rows, self._kept = [], 0

    def add(self, row: dict[str, Any]) -> None:
        """A bad row of the split."""
        self._rows.append(row)

    def keep_some(self) -> None:
        """Have those noted that come before rows which are given: a query may take no more, and end the task.

        The file has all of them each time, so that of many not every batch writes it.
        """
        if len(self._rows) <= _FEW_BAD or len(self._rows) >= 2 * self._kept:
            self.keep()

    def keep(self) -> None:
        """Have those noted that have come so far."""
        if len(self._rows) > self._kept:
            self._kept = len(self._rows)
            note_bad_rows(self._store, self._name, self._rows, is_whole=False)

    def end(self, *, is_whole: bool) -> None:
        """The split is over; `is_whole`: it was read to its end."""
        if not is_whole:
            self.keep()
        elif self._rows:
            self._has_some = True
            note_bad_rows(self._store, self._name, self._rows, is_whole=True)
        else:
            self._sound.append(self._name)

    def close(self) -> None:
        """All splits were read. Those without bad rows lose notes that an earlier read by other options has.

        So they do notes of their neighbours: Headrace 1.0.0 had one file for a task, by its first object. A
        task without any bad row makes no call.
        """
        if self._has_some:
            self._store.remove([file for name in self._sound for file in _files(name)])

    @cached_property
    def _store(self) -> LogStore:
        store = self._state()
        if self._batch is not None:
            refuse_other_directory(store, ABOUT)
        return store


def note_bad_rows(store: LogStore, name: str, rows: Sequence[dict[str, Any]], *, is_whole: bool) -> None:
    """Have these rows of a split noted, all of those before them included.

    The whole split's are written again, as a repeated task has them. Reads that took less have a file of
    their own, for what the other one lacks: a frame is read again for each look at it, and no look may take
    away what is noted.
    """
    lines = dict.fromkeys(msgspec.json.encode(row) + b"\n" for row in rows)
    whole, begun = _files(name)
    if is_whole:
        store.replace(whole, b"".join(lines))
        store.remove([begun])
        return
    noted = _lines(store, whole)
    if lines.keys() - noted.keys():
        store.replace(begun, b"".join(line for line in lines | _lines(store, begun) if line not in noted))


def _files(name: str) -> tuple[str, str]:
    """Those of a split: of reads to its end, and of others."""
    return f"{BAD}/{name}.jsonl", f"{BAD}/{name}.part.jsonl"


def _lines(store: LogStore, name: str) -> dict[bytes, None]:
    return dict.fromkeys((store.read(name) or b"").splitlines(keepends=True))
