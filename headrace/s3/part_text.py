"""A sent part as the ledger keeps it, and whether what S3 lists is that part."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


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
