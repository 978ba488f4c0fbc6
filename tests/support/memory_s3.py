"""S3 in memory, as far as uploads of the sink need it: a client with boto3's methods of multipart uploads."""

import hashlib
import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from botocore.exceptions import ClientError
from botocore.response import StreamingBody

from headrace.formats.content_digest import has_content
from headrace.options.settings import BackoffSettings
from headrace.options.sink_settings import UploadSettings
from headrace.s3.upload_calls import UploadCalls


@dataclass(frozen=True, slots=True)
class StoredObject:
    """What is in the bucket under one key. `headers` are the upload's other parameters, by boto3's names."""

    body: bytes
    tags: dict[str, str]
    metadata: dict[str, str]
    headers: dict[str, Any]
    bucket: str = ""


@dataclass(slots=True)
class _Upload:
    key: str
    given: dict[str, Any]
    parts: dict[int, bytes] = field(default_factory=dict)


class MemoryS3:
    """Thread-safe. `objects` are the visible ones, by key; all buckets are one."""

    def __init__(self) -> None:
        self.objects: dict[str, StoredObject] = {}
        self._uploads: dict[str, _Upload] = {}
        self._lock = threading.Lock()
        self._takes_parts = threading.Event()
        self._takes_parts.set()
        self.puts = 0
        """Requests that put a whole object."""

    @property
    def open_uploads(self) -> list[str]:
        """The keys of uploads that are neither completed nor aborted."""
        return [upload.key for upload in self._uploads.values()]

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Parts are not answered meanwhile."""
        self._takes_parts.clear()
        try:
            yield
        finally:
            self._takes_parts.set()

    def create_multipart_upload(self, **given: Any) -> dict[str, Any]:
        """A new upload."""
        with self._lock:
            upload_id = f"upload {len(self._uploads)} {given['Key']}"
            self._uploads[upload_id] = _Upload(given["Key"], given)
        return {"UploadId": upload_id}

    def upload_part(self, **given: Any) -> dict[str, Any]:
        """One part."""
        self._takes_parts.wait()
        body = given["Body"] if isinstance(given["Body"], bytes) else given["Body"].read()
        with self._lock:
            self._upload(given["UploadId"], "UploadPart").parts[given["PartNumber"]] = body
        return {"ETag": _etag(body), "ChecksumCRC32": given["ChecksumCRC32"]}

    def complete_multipart_upload(self, **given: Any) -> dict[str, Any]:
        """The object becomes visible, unless there is one and none is to be replaced."""
        with self._lock:
            upload = self._upload(given["UploadId"], "CompleteMultipartUpload")
            if given.get("IfNoneMatch") == "*" and upload.key in self.objects:
                raise _refused("PreconditionFailed", 412, "CompleteMultipartUpload")
            numbers = [part["PartNumber"] for part in given["MultipartUpload"]["Parts"]]
            body = b"".join(upload.parts[number] for number in numbers)
            described = dict(upload.given)
            self.objects[upload.key] = StoredObject(
                body=body,
                tags=dict(parse_qsl(described.pop("Tagging", ""), keep_blank_values=True)),
                metadata=described.pop("Metadata"),
                headers={name: each for name, each in described.items() if name not in {"Bucket", "Key"}},
                bucket=described["Bucket"],
            )
            del self._uploads[given["UploadId"]]
        return {}

    def put_object(self, **given: Any) -> dict[str, Any]:
        """A whole object, whatever had its name."""
        body = given["Body"] if isinstance(given["Body"], bytes) else given["Body"].read()
        tags = dict(parse_qsl(given.get("Tagging", ""), keep_blank_values=True))
        with self._lock:
            if given.get("IfNoneMatch") == "*" and given["Key"] in self.objects:
                raise _refused("PreconditionFailed", 412, "PutObject")
            self.puts += 1
            self.objects[given["Key"]] = StoredObject(
                body=body, tags=tags, metadata=given["Metadata"], headers={}, bucket=given["Bucket"]
            )
        return {}

    def abort_multipart_upload(self, **given: Any) -> dict[str, Any]:
        """The upload is gone."""
        with self._lock:
            self._upload(given["UploadId"], "AbortMultipartUpload")
            del self._uploads[given["UploadId"]]
        return {}

    def list_parts(self, **given: Any) -> dict[str, Any]:
        """The parts of an upload."""
        with self._lock:
            parts = self._upload(given["UploadId"], "ListParts").parts
            return {
                "Parts": [
                    {"PartNumber": number, "ETag": _etag(body), "Size": len(body)}
                    for number, body in sorted(parts.items())
                ]
            }

    def get_object(self, **given: Any) -> dict[str, Any]:
        """A visible object, or a range of it."""
        if given["Key"] not in self.objects:
            raise _refused("NoSuchKey", 404, "GetObject")
        body = self.objects[given["Key"]].body
        if given.get("IfMatch", _etag(body)) != _etag(body):
            raise _refused("PreconditionFailed", 412, "GetObject")
        first, last = map(int, given.get("Range", f"bytes=0-{len(body)}").removeprefix("bytes=").split("-"))
        part = body[first : last + 1]
        return {
            "Body": StreamingBody(io.BytesIO(part), len(part)),
            "ContentLength": len(part),
            "ETag": _etag(body),
        }

    def head_object(self, **given: Any) -> dict[str, Any]:
        """The metadata of a visible object."""
        if given["Key"] not in self.objects:
            raise _refused("404", 404, "HeadObject")
        return {"Metadata": self.objects[given["Key"]].metadata}

    def calls(self, options: UploadSettings) -> UploadCalls:
        """The sink's own calls, to this bucket."""
        backoff = BackoffSettings(delay_ms=1, max_delay_ms=2, max_retries=1)
        return UploadCalls(self, options, backoff=backoff, requester_pays=False, has_content=has_content)

    def _upload(self, upload_id: str, operation: str) -> _Upload:
        if upload_id not in self._uploads:
            raise _refused("NoSuchUpload", 404, operation)
        return self._uploads[upload_id]


def _etag(body: bytes) -> str:
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


def _refused(code: str, status: int, operation: str) -> ClientError:
    answer = {"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, operation)  # type: ignore[arg-type]  # an answer as S3 gives it
