"""What became of an object when its upload was to be completed, and what S3 has in its place.

A sent part is compared with what S3 lists, and an object's bytes with parts that were sent to another upload
of its name. An object that is in the bucket is read as what it was when it was first asked for.
"""

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from isal import isal_zlib

from headrace.aws.store_answers import needed
from headrace.s3.client import BOTOCORES, translate_upload

OBJECT_ID: Final = "headrace-object"
"""The user metadata that holds the id of a sealed object, from its upload's start."""


class CompletionState(StrEnum):
    """Where an object is after a completion was tried."""

    COMPLETED = "completed"
    """It is there: completed by this call, or before."""
    NAME_TAKEN = "name_taken"
    """Another object has the name; the upload is there still."""
    UPLOAD_MISSING = "upload_missing"
    """There is neither the upload nor an object of this name."""
    SUPERSEDED = "superseded"
    """There is no upload, and another object has the name."""
    PARTS_DIFFER = "parts_differ"
    """The upload's parts are not those that were sealed."""
    UNPROVEN = "unproven"
    """There is no upload or the name is taken, and S3 does not say by what (403, or 400 of what has another
    key): nothing may be concluded."""


class Completion(NamedTuple):
    """The state, and the id of the object that has the name when it is another (empty: it has none)."""

    state: CompletionState
    other_id: str = ""


def by_metadata(metadata: Mapping[str, str] | None, object_id: str, *, is_taken: bool) -> Completion:
    """What the object of the name means, None for no object: after a 412 (`is_taken`), or without upload."""
    if metadata is None:
        return Completion(CompletionState.UPLOAD_MISSING)
    found = metadata.get(OBJECT_ID, "")
    if found == object_id:
        return Completion(CompletionState.COMPLETED)
    return Completion(CompletionState.NAME_TAKEN if is_taken else CompletionState.SUPERSEDED, found)


@dataclass(frozen=True, slots=True, kw_only=True)
class SentPart:
    """A part that S3 has. `etag` with its quotes; `checksum` is the CRC32 in base64, None without one."""

    number: int
    etag: str
    size: int
    checksum: str | None


def crc32_text(crc32: int) -> str:
    """The checksum as S3's headers have it."""
    return base64.b64encode(crc32.to_bytes(4, "big")).decode()


def part_text(answer: Mapping[str, Any]) -> str:
    """What an upload's record in the ledger keeps of a sent part: `"etag"`, and its checksum after a space.

    The checksum is what S3 has answered: a store that knows none is not asked about it later.
    """
    etag, checksum = str(answer["ETag"]), answer.get("ChecksumCRC32")
    return f"{etag} {checksum}" if checksum else etag


def completion_parts(texts: Sequence[str]) -> list[dict[str, Any]]:
    """The parts of `CompleteMultipartUpload`, of what `part_text` gave for each in order."""
    return [_completed(number, *_split(text)) for number, text in enumerate(texts, 1)]


def accepted_parts(texts: Sequence[str], listed: Sequence[SentPart]) -> list[dict[str, Any]] | None:
    """The parts as S3 lists them, when they hold what was sealed; None when one is missing or differs.

    Under KMS a late repetition of the same part has another ETag: there the checksum decides.
    """
    by_number = {part.number: part for part in listed}
    accepted = []
    for number, text in enumerate(texts, 1):
        etag, checksum = _split(text)
        part = by_number.get(number)
        if part is None or (part.etag != etag and (checksum is None or part.checksum != checksum)):
            return None
        accepted.append(_completed(number, part.etag, checksum))
    return accepted


def _split(text: str) -> tuple[str, str | None]:
    etag, _, checksum = text.partition(" ")
    return etag, checksum or None


def _completed(number: int, etag: str, checksum: str | None) -> dict[str, Any]:
    part: dict[str, Any] = {"PartNumber": number, "ETag": etag}
    if checksum is not None:
        part["ChecksumCRC32"] = checksum
    return part


class _Part:
    """The bytes of one part as they come."""

    def __init__(self, sent: SentPart) -> None:
        self._sent = sent
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._crc32 = 0
        self.missing = sent.size

    def take(self, chunk: memoryview) -> memoryview:
        """Add what is this part's; the rest is the next one's."""
        own, rest = chunk[: self.missing], chunk[self.missing :]
        self._md5.update(own)
        self._crc32 = isal_zlib.crc32(own, self._crc32)
        self.missing -= len(own)
        return rest

    def is_same(self) -> bool:
        """By its ETag, which is no digest under KMS: there by its checksum."""
        if self._md5.hexdigest() == self._sent.etag.strip('"'):
            return True
        return self._sent.checksum is not None and crc32_text(self._crc32) == self._sent.checksum


def is_same_content(chunks: Iterable[bytes], sent: Sequence[SentPart]) -> bool:
    """Whether the bytes, as they come, are those of the parts one after the other, and no more."""
    parts = iter(sent)
    part: _Part | None = None
    for chunk in chunks:
        rest = memoryview(chunk)
        while rest:
            if part is None:
                following = next(parts, None)
                if following is None:
                    return False
                part = _Part(following)
            rest = part.take(rest)
            if not part.missing:
                if not part.is_same():
                    return False
                part = None
    return part is None and all(not each.size for each in parts)


_CHUNK_BYTES: Final = 1024 * 1024

Get = Callable[..., Any]


class StoredObject:
    """See `ByteSource`; another content under the name is an ObjectError of its reads."""

    def __init__(self, get: Get, bucket: str, key: str, answer: Mapping[str, Any]) -> None:
        """`get` is GetObject with the caller's retries and errors, `answer` that of a GET of the whole.

        SourceUnavailable where the answer does not say which content it is, or how long.
        """
        self._get = get
        self._bucket = bucket
        self._key = key
        self._etag = needed(answer, "ETag", what=self.name)
        self._size = int(needed(answer, "ContentLength", what=self.name))
        self._fetched = 0

    @property
    def size(self) -> int:
        """Size of the object in bytes."""
        return self._size

    @property
    def name(self) -> str:
        """`s3://bucket/key`."""
        return f"s3://{self._bucket}/{self._key}"

    @property
    def fetched_bytes(self) -> int:
        """Bytes fetched from S3 so far."""
        return self._fetched

    def stream(self, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes from `begin` to `end` in chunks; a cut connection is SourceUnavailable."""
        stop = self._size if end is None else min(end, self._size)
        if begin >= stop:
            return
        answer = self._get(self._bucket, self._key, IfMatch=self._etag, Range=f"bytes={begin}-{stop - 1}")
        try:
            yield from self._counted(answer["Body"].iter_chunks(_CHUNK_BYTES))
        except BOTOCORES as error:
            raise translate_upload(error, what=self.name) from error
        finally:
            answer["Body"].close()

    def read_at(self, offset: int, length: int) -> bytes:
        """Exactly these bytes, or fewer only at the end of the object; blocks."""
        return b"".join(self.stream(offset, offset + length))

    def _counted(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self._fetched += len(chunk)
            yield chunk
