"""Whether an object's bytes are those of parts that were sent to another upload of its name. Pure."""

import hashlib
from collections.abc import Iterable, Sequence

from isal import isal_zlib

from headrace.s3.part_text import SentPart, crc32_text


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
