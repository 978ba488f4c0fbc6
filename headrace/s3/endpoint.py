"""Where GETs of a bucket go and what they carry, read from a request that botocore made.

What a GET asks for and what it gives, with botocore or without.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import quote, urlsplit

from headrace.s3.connections import Origin


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


_PORTS: Final = {"http": 80, "https": 443}
_CREDENTIAL: Final = re.compile(r"AWS4-HMAC-SHA256 Credential=.+/\d{8}/([a-z0-9-]+)/s3/aws4_request, ")
# Directory buckets have sessions of their own, and an ARN may mean several regions.
_OTHER_BUCKETS: Final = re.compile(r":|--x-s3$|--xa-s3$")
# Printable, without spaces and quotes: what is signed as it is sent.
_PLAIN_ETAG: Final = re.compile(r"[!#-~]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """How to ask for the objects of a bucket. `region` is None when requests are not signed."""

    origin: Origin
    host: str
    """The header: with the port unless it is the scheme's own."""
    prefix: str
    """What is before the key in the path, with its slash."""
    region: str | None
    user_agent: str

    def path(self, asked: GetRequest) -> str:
        """The path, as it is sent and signed."""
        return self.prefix + _path(asked.key)

    def headers(self, asked: GetRequest) -> dict[str, str]:
        """The headers that are signed, names in lower case."""
        # As `Asked.parameters` says it to botocore.
        headers = {"host": self.host, "if-match": f'"{asked.etag}"'}
        if asked.range is not None:
            headers["range"] = asked.range
        if asked.requester_pays:
            headers["x-amz-request-payer"] = "requester"
        return headers


def is_supported(asked: GetRequest) -> bool:
    """Whether the fast path can send this at all; what is unusual is botocore's."""
    return bool(asked.key) and _PLAIN_ETAG.fullmatch(asked.etag) is not None


def query_of(asked: GetRequest) -> str:
    """The query, as it is sent and signed; empty for none."""
    return "" if asked.version_id is None else f"versionId={quote(asked.version_id, safe='~')}"


def endpoint_of(url: str, headers: Mapping[str, str], asked: GetRequest) -> Endpoint | None:
    """The endpoint of botocore's request for `asked` (names in lower case); None for any other kind."""
    parts = urlsplit(url)
    own = _path(asked.key)
    if (
        _OTHER_BUCKETS.search(asked.bucket)
        or parts.scheme not in _PORTS
        or parts.hostname is None
        or "@" in parts.netloc
        or parts.query != query_of(asked)
        or not parts.path.endswith(f"/{own}")
    ):
        return None
    region = None
    if "authorization" in headers:
        found = _CREDENTIAL.match(headers["authorization"])
        if found is None:
            return None
        region = found[1]
    port = parts.port or _PORTS[parts.scheme]
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return Endpoint(
        origin=Origin(parts.scheme, parts.hostname, port),
        host=host if port == _PORTS[parts.scheme] else f"{host}:{port}",
        prefix=parts.path.removesuffix(own),
        region=region,
        user_agent=headers.get("user-agent", ""),
    )


def _path(key: str) -> str:
    return quote(key, safe="/~")
