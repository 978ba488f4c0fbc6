"""An object that is in the bucket, read as what it was when it was first asked for."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from headrace.s3.errors import BOTOCORES, translate_upload

_CHUNK_BYTES: Final = 1024 * 1024

Get = Callable[..., Any]


class StoredObject:
    """See `ByteSource`; another content under the name is an ObjectError of its reads."""

    def __init__(self, get: Get, bucket: str, key: str, answer: Mapping[str, Any]) -> None:
        """`get` is GetObject with the caller's retries and errors, `answer` that of a GET of the whole."""
        self._get = get
        self._bucket = bucket
        self._key = key
        self._etag = answer["ETag"]
        self._size = int(answer["ContentLength"])
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
