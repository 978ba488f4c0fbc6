"""What became of an object when its upload was to be completed, and what S3 has in its place.

A sent part is compared with what S3 lists, and an object's bytes with parts that were sent to another upload
of its name. An object that is in the bucket is read as what it was when it was first asked for.

What has an object's name already is replaced, on some grounds, or left: only at least once, as exactly once
nothing is replaced but what recurs by design.
"""

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self

import structlog
from isal import isal_zlib

from headrace.aws.store_answers import needed
from headrace.model.errors import ObjectError, SourceUnavailable
from headrace.s3.client import BOTOCORES, ConditionsUnknown, NameTaken, WriteConflict, translate_upload

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


_log = structlog.get_logger(__name__)

WHERE_FREE: Final[Mapping[str, str]] = {"IfNoneMatch": "*"}
"""The condition that no object has the name."""


class Beginning(NamedTuple):
    """Where an object begins whose name shows only where it ends; `grouping` hashes what its group is by."""

    topic_id: str
    partition: int
    grouping: str
    offset: int

    @property
    def text(self) -> str:
        """As the metadata `headrace-begins` has it."""
        return ":".join(map(str, self))

    @classmethod
    def read(cls, metadata: Mapping[str, str]) -> Self | None:
        """What an object's metadata say; None where they say nothing."""
        match metadata.get(BEGINS, "").split(":"):
            case [topic_id, partition, grouping, offset] if partition.isdecimal() and offset.isdecimal():
                return cls(topic_id, int(partition), grouping, int(offset))
        return None


BEGINS: Final = "headrace-begins"
"""The user metadata that holds the `Beginning`, where there is one."""

Prove = Callable[[], None]
"""Blocks until the caller has shown that it may replace objects; raises where it may not."""

Head = Callable[[str], Mapping[str, Any] | None]
"""What S3 has under a key, as HeadObject answers; None: nothing. Blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """On what grounds an object may take another one's place.

    With `begins` one of the same end that begins earlier is left: it has the same records and more.
    `main_key` is the object by which this is decided: what is next to values goes with them.
    """

    prove: Prove
    begins: Beginning | None = None
    main_key: str = ""

    def covers(self, main: Mapping[str, Any] | None) -> bool:
        """Whether the object of the main key (None: there is none) has all records of the one to come.

        WriteConflict where that cannot be known: its records were grouped by other options.
        """
        there = None if main is None else Beginning.read(main.get("Metadata", {}))
        ours = self.begins
        if there is None or ours is None or (there.topic_id, there.partition) != ours[:2]:
            return False
        if there.offset >= ours.offset:
            return False
        if there.grouping != ours.grouping:
            raise WriteConflict(
                f"The object {self.main_key} has records from offset {there.offset} on, grouped by other "
                f"options, and one from offset {ours.offset} on gets the same name: move it away, and show "
                "{{start_offset}} in file.name.template."
            )
        return True


# Each is another program's write between two requests of ours.
_MOST_RIVALS: Final = 5


class Rivals:
    """Replaces objects of other slots, each only after a proof. For one client's calls; thread-safe.

    The proof is asked for when the other object has been seen, and exactly that one is replaced: a slot that
    hung and resumes cannot replace what its successor has put, whose name has the same first offset.
    """

    def __init__(self) -> None:
        self.knows_conditions = True
        """False once the store has answered that it knows none."""

    def send(
        self,
        send: Callable[[Mapping[str, str]], None],
        head: Head,
        claim: Claim,
        *,
        key: str,
        object_id: str,
    ) -> bool:
        """Have `send` write under a condition. What it, `head` and the claim's proof raise is raised.

        False, and nothing was written, when the one that is there has the same records and more.
        SourceUnavailable while other programs write the name again and again. A store that knows no
        conditions is looked at before each write: a slot that hangs just then may be late.
        """

        def is_covered(found: Mapping[str, Any] | None) -> bool:
            return claim.covers(found if claim.main_key == key else head(claim.main_key))

        condition: Mapping[str, str] | None = WHERE_FREE if self.knows_conditions else None
        for _ in range(_MOST_RIVALS):
            # What is replaced unseen is looked at, where that may lose: a 403 is raised here.
            is_unseen = condition is not None and not condition
            if is_unseen and claim.begins is not None and is_covered(head(key)):
                return False
            refusal = None if condition is None else self._refusal(send, condition)
            if refusal is None and condition is not None:
                return True
            is_conflict = isinstance(refusal, WriteConflict)
            found, is_known = (None, False) if is_conflict else _found(head, key)
            if found is not None and found.get("Metadata", {}).get(OBJECT_ID) == object_id:
                return True
            if claim.begins is not None and found is not None and is_covered(found):
                return False
            if is_known and found is None:
                condition = WHERE_FREE if self.knows_conditions else {}
                continue
            claim.prove()
            condition = {}
            if found is not None and self.knows_conditions:
                condition = {"IfMatch": found["ETag"]}
        raise SourceUnavailable("Other programs write an object of the same name again and again.")

    def _refusal(
        self, send: Callable[[Mapping[str, str]], None], condition: Mapping[str, str]
    ) -> ConditionsUnknown | WriteConflict | NameTaken | None:
        """Why S3 does not write under the condition; None: it has written."""
        try:
            send(condition)
        except ConditionsUnknown as error:
            if not condition:
                raise
            self.note_unknown(error)
            return error
        except (WriteConflict, NameTaken) as error:
            return error
        return None

    def note_unknown(self, error: ConditionsUnknown) -> None:
        """Give no conditions any more, and log it once."""
        was_known, self.knows_conditions = self.knows_conditions, False
        if was_known:
            _log.warning(
                "conditions_unsupported", error=str(error), effect="names are looked at before a write"
            )


def _found(head: Head, key: str) -> tuple[Mapping[str, Any] | None, bool]:
    """What has the name, and whether that is known: it may be the caller's own, whose answer was lost."""
    try:
        return head(key), True
    except ObjectError:
        # A 403, or a 400 of what was written with a key of another life (SSE-C).
        return None, False
