"""What a GET asks for and what it gives, with botocore or without."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class GetRequest:
    """One GET: of this content (`etag` without quotes), of this version if any, of this range if any."""

    bucket: str
    key: str
    etag: str
    version_id: str | None = None
    range: str | None = None
    """As the header says it: `bytes=5-9`, `bytes=5-`."""
    requester_pays: bool = False

    @property
    def what(self) -> str:
        """`s3://bucket/key`, for messages."""
        return f"s3://{self.bucket}/{self.key}"

    def parameters(self) -> dict[str, str]:
        """The same for botocore's `get_object`."""
        # With or without a version id: what was announced is a content, and only that may be read.
        given = {"Bucket": self.bucket, "Key": self.key, "IfMatch": f'"{self.etag}"'}
        if self.version_id is not None:
            given["VersionId"] = self.version_id
        if self.range is not None:
            given["Range"] = self.range
        if self.requester_pays:
            given["RequestPayer"] = "requester"
        return given


class Body(Protocol):
    """The bytes of an answer, to be read by one thread and closed."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes, fewer only at the end, then none; blocks.

        Raises OSError, `http.client.HTTPException`, or errors of botocore and urllib3 when the connection
        breaks or the body ends before its length.
        """
        ...

    def close(self) -> None:
        """Give the connection back if the body was read to its end; else close it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GetAnswer:
    """S3's answer to a GET, its body unread. `etag` as it came, in quotes; None is what the answer lacks."""

    body: Body
    etag: str
    content_length: int | None
    content_range: str | None
