"""S3 as botocore's client shows it: conditions, uploads, answers that go missing, and who meddles."""

import base64
import binascii
import hashlib
import io
import itertools
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from typing import Any, Final, Self
from urllib.parse import parse_qsl

from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    IncompleteReadError,
    ReadTimeoutError,
)

from tests.simulation.kernel import EPOCH_MS, Kernel, Signal

_CALL_SECONDS: Final = 0.004
_LATE_SECONDS: Final = 60.0
_MIN_PART: Final = 5 * 1024 * 1024
_ENDPOINT: Final = "http://simulated-s3"
_LOOKS: Final = frozenset({"GetObject", "HeadObject"})
_REFUSALS: Final = {
    "503": ("SlowDown", 503),
    "409": ("ConditionalRequestConflict", 409),
    "expired": ("ExpiredToken", 400),
    "unknown": ("InvalidAccessKeyId", 403),
    "timeout": ("RequestTimeout", 400),
}
"""Kinds of what comes in the place of an answer: code and status, of which a HEAD has the status alone."""
_OF_KEYS: Final = frozenset({"expired", "unknown", "timeout"})
_NEXT_PAGE: Final = "next page"
_SAID_SHARE: Final = 0.5
_ACTIONS: Final = frozenset({"CopyObject", "DeleteObject", "HeadObject", "PutObjectTagging"})
"""Those of post-actions; with a queue there are other HEADs."""


@dataclass(slots=True)
class StoredObject:
    """An object that can be read."""

    body: bytes
    etag: str
    metadata: dict[str, str]
    modified_ms: int
    tags: dict[str, str] = field(default_factory=dict)
    version: str = "null"


@dataclass(slots=True)
class PendingUpload:
    """A multipart upload that is not complete."""

    bucket: str
    key: str
    begun_ms: int
    metadata: dict[str, str]
    tags: dict[str, str] = field(default_factory=dict)
    parts: dict[int, tuple[str, bytes]] = field(default_factory=dict)
    was_taken: bool = False
    """Whether its name was taken when it began."""

    def body(self) -> bytes:
        """What was sent, in the order of its numbers."""
        return b"".join(body for _, (_, body) in sorted(self.parts.items()))


@dataclass
class Weather:
    """What is wrong with S3 at the moment, each for so many of the next calls."""

    failing: dict[str, int] = field(default_factory=dict)
    """By kind, and of one operation where its name follows: `503`, `lost` (it happened, and is not
    answered), `late` (it happens some time after nobody waits for its answer), `silent` (it did not), `409`,
    `broken` (200 with an error in its document, of completions), `cut` (the body of a GET breaks off; with
    `replaced behind` somebody replaces its object then), `expired`, `unknown` and `timeout` (as `_REFUSALS`
    has it). `next page` is that operation of a listing that continues another one."""
    down_until: float = 0.0
    forbidden: set[str] = field(default_factory=set)
    """Operations that are refused."""
    denied: set[str] = field(default_factory=set)
    """Buckets of which everything is refused."""
    failing_until: dict[tuple[str, str], float] = field(default_factory=dict)
    """By bucket and key, until when reads of an object are answered by 503."""
    hidden_until: dict[tuple[str, str], float] = field(default_factory=dict)
    """Likewise, until when nobody may see what has a name: 403."""

    def refuse_look(self, operation: str, place: tuple[str, str], now: float) -> None:
        """Raise what comes in the place of an answer about this object."""
        if self.hidden_until.get(place, 0.0) > now:
            raise refused(operation, "403" if operation == "HeadObject" else "AccessDenied", 403)
        if operation == "GetObject" and self.failing_until.get(place, 0.0) > now:
            raise refused(operation, "SlowDown", 503)

    def strikes(self, kind: str, operation: str) -> bool:
        """Whether this call meets it."""
        for name in (f"{kind} {operation}", kind):
            left = self.failing.get(name, 0)
            if left > 0:
                self.failing[name] = left - 1
                return True
        return False


class Bucket:
    """All buckets of the simulated S3, and how they came to hold what they do."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.weather = Weather()
        self.objects: dict[str, dict[str, StoredObject]] = {}
        self.uploads: dict[str, PendingUpload] = {}
        self.history: list[tuple[float, str, str, str]] = []
        """(when, what, bucket/key, by whom): `put`, `completed`, `replaced`, `deleted`, `aborted`."""
        self.lifecycle_days: int | None = None
        self.rules: dict[str, int] = {}
        """The same by bucket, where they differ."""
        self.on_taken: Callable[[str, str, StoredObject], None] = lambda _bucket, _key, _stored: None
        """Called with what a client is about to delete."""
        self.on_replaced: Callable[[str, str], None] = lambda _bucket, _key: None
        """Called where somebody replaces an object just before a client's call reaches it."""
        self.on_gone: Callable[[str, str], None] = lambda _bucket, _key: None
        """The same of one that is deleted (`gone`)."""
        self.on_put: Callable[[str, str, StoredObject], None] = lambda _bucket, _key, _stored: None
        """Called with what has become visible, as notifications of the bucket are made."""
        self.on_dies: Callable[[], None] = lambda: None
        """Called where the process that calls dies before or after its call is done."""
        self.on_call: Callable[[str, Mapping[str, Any]], None] = lambda _operation, _given: None
        """Called with each request that reaches S3."""
        self.on_asked: Callable[[str, Mapping[str, Any]], float] = lambda _method, _given: 0.0
        """Called with each call of a listener: so many seconds pass until it is made."""
        self.on_answered: Callable[[str, Mapping[str, Any], Any], None] = lambda _name, _given, _found: None
        """Called with the answer to each call of a listener, or with the error in its place."""
        self.actions = 0
        """How many requests of post-actions have been sent."""
        self.acted = Signal(kernel)
        """Given with each of them."""
        self.versions: dict[tuple[str, str, str], StoredObject] = {}
        """By bucket, key and version what buckets with versions have had."""
        self.versioned: set[str] = set()
        """Buckets that keep versions."""
        self.page_keys = 1000
        self.listings_lack: frozenset[str] = frozenset()
        """What entries of listings do not have in this store."""
        self.left_out: frozenset[str] = frozenset()
        """What a proxy leaves out of answers to HEADs and of listings, `date` of all."""
        """So many keys a page of a listing has at most: S3 may give fewer than it is asked for."""
        self.without_conditions: set[str] = set()
        """Buckets of a store that refuses conditions of writes."""
        self._numbers = itertools.count(1)

    def make(self, bucket: str) -> None:
        """A new bucket."""
        self.objects.setdefault(bucket, {})

    def now_ms(self) -> int:
        """S3's clock."""
        return EPOCH_MS + int((self.kernel.now - 1000.0) * 1000)

    def put(self, bucket: str, key: str, stored: StoredObject, what: str) -> None:
        """Make it visible."""
        found = self.objects[bucket]
        self.note("replaced" if key in found else what, bucket, key)
        if bucket in self.versioned:
            stored.version = f"version-{next(self._numbers)}"
            self.versions[bucket, key, stored.version] = stored
        found[key] = stored
        self.on_put(bucket, key, stored)
        self.kernel.begun.give()

    def note(self, what: str, bucket: str, key: str) -> None:
        """Remember what has happened."""
        process = self.kernel.here()
        self.history.append(
            (self.kernel.now, what, f"{bucket}/{key}", "" if process is None else process.name)
        )

    def new_id(self) -> str:
        """The id of an upload."""
        return f"upload-{next(self._numbers)}"


def refused(operation: str, code: str, status: int) -> ClientError:
    """A refusal as botocore raises it."""
    answer: Any = {
        "Error": {"Code": code, "Message": code},
        "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": {}},
    }
    return ClientError(answer, operation)


class _Body:
    """The body of a GET."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def read(self, amount: int | None = None) -> bytes:
        """Bytes."""
        return self._file.read() if amount is None else self._file.read(amount)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_ended: object) -> None:
        self.close()

    def iter_chunks(self, size: int) -> Any:
        """Bytes, chunk by chunk."""
        while chunk := self._file.read(size):
            yield chunk

    def close(self) -> None:
        """End it."""


class _CutBody(_Body):
    """One that breaks off: with an error, or, where it is read by amounts, by ending too early."""

    def __init__(self, data: bytes, left: int, broken: Callable[[], bool]) -> None:
        super().__init__(data[:left])
        self._broken = broken
        self._sizes = left, len(data)

    def read(self, amount: int | None = None) -> bytes:
        """Bytes; the error where it breaks off."""
        found = super().read(amount)
        if amount is None or not found:
            says_so = self._broken()
            if amount is None or says_so:
                raise IncompleteReadError(actual_bytes=self._sizes[0], expected_bytes=self._sizes[1])
        return found


class SimulatedS3:
    """`boto3.client("s3")`, as far as the product calls it."""

    def __init__(self, bucket: Bucket) -> None:
        self._all = bucket
        self._kernel = bucket.kernel

    # -- uploads ---------------------------------------------------------------------------------------------

    def create_multipart_upload(self, **given: Any) -> Any:
        """See botocore."""

        def act() -> Any:
            upload_id = self._all.new_id()
            self._all.uploads[upload_id] = PendingUpload(
                given["Bucket"],
                given["Key"],
                self._all.now_ms(),
                dict(given.get("Metadata", {})),
                _tags(given),
                was_taken=given["Key"] in self._all.objects[given["Bucket"]],
            )
            return {"UploadId": upload_id}

        return self._call("CreateMultipartUpload", act, given)

    def upload_part(self, **given: Any) -> Any:
        """See botocore."""
        body = _read(given["Body"])

        def act() -> Any:
            upload = self._upload("UploadPart", given)
            etag = f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
            upload.parts[given["PartNumber"]] = (etag, body)
            return {"ETag": etag, "ChecksumCRC32": _crc32(body)}

        return self._call("UploadPart", act, given)

    def complete_multipart_upload(self, **given: Any) -> Any:
        """See botocore."""

        def act() -> Any:
            operation = "CompleteMultipartUpload"
            upload = self._upload(operation, given)
            if self._all.weather.strikes("broken", operation):
                raise refused(operation, "InternalError", 200)
            self._is_met(operation, given, upload)
            bodies = []
            wanted = given["MultipartUpload"]["Parts"]
            for place, part in enumerate(wanted, 1):
                etag, body = upload.parts.get(part["PartNumber"], ("", b""))
                if etag.strip('"') != part["ETag"].strip('"'):
                    raise refused(operation, "InvalidPart", 400)
                if place < len(wanted) and len(body) < _MIN_PART:
                    raise refused(operation, "EntityTooSmall", 400)
                bodies.append(body)
            data = b"".join(bodies)
            digests = b"".join(hashlib.md5(body, usedforsecurity=False).digest() for body in bodies)
            etag = f'"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(bodies)}"'
            del self._all.uploads[given["UploadId"]]
            stored = StoredObject(data, etag, upload.metadata, upload.begun_ms, upload.tags)
            self._all.put(given["Bucket"], given["Key"], stored, "completed")
            return {"ETag": etag}

        return self._call("CompleteMultipartUpload", act, given)

    def abort_multipart_upload(self, **given: Any) -> Any:
        """See botocore."""

        def act() -> Any:
            self._upload("AbortMultipartUpload", given)
            del self._all.uploads[given["UploadId"]]
            self._all.note("aborted", given["Bucket"], given["Key"])
            return {}

        return self._call("AbortMultipartUpload", act, given)

    def list_parts(self, **given: Any) -> Any:
        """See botocore."""

        def act() -> Any:
            upload = self._upload("ListParts", given)
            parts = [
                {"PartNumber": number, "ETag": etag, "Size": len(body), "ChecksumCRC32": _crc32(body)}
                for number, (etag, body) in sorted(upload.parts.items())
            ]
            return {"Parts": parts, "IsTruncated": False}

        return self._call("ListParts", act, given)

    def put_object(self, **given: Any) -> Any:
        """See botocore."""
        body = _read(given["Body"])

        def act() -> Any:
            self._is_met("PutObject", given)
            etag = f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
            stored = StoredObject(
                body, etag, dict(given.get("Metadata", {})), self._all.now_ms(), _tags(given)
            )
            self._all.put(given["Bucket"], given["Key"], stored, "put")
            return {"ETag": etag}

        return self._call("PutObject", act, given)

    def _is_met(self, operation: str, given: Mapping[str, Any], upload: PendingUpload | None = None) -> None:
        """Refuse a write whose condition is not met, or cannot be met by this upload any more."""
        if given["Bucket"] in self._all.without_conditions and {"IfNoneMatch", "IfMatch"} & given.keys():
            raise refused(operation, "NotImplemented", 501)
        there = self._bucket(operation, given).get(given["Key"])
        if given.get("IfNoneMatch") == "*":
            if there is not None:
                raise refused(operation, "PreconditionFailed", 412)
            if upload is not None and upload.was_taken:
                raise refused(operation, "ConditionalRequestConflict", 409)
        if "IfMatch" in given:
            if there is None:
                raise refused(operation, "NoSuchKey", 404)
            if there.etag.strip('"') != given["IfMatch"].strip('"'):
                raise refused(operation, "PreconditionFailed", 412)
            if upload is not None and upload.begun_ms < there.modified_ms:
                raise refused(operation, "ConditionalRequestConflict", 409)

    # -- objects ---------------------------------------------------------------------------------------------

    def head_object(self, **given: Any) -> Any:
        """See botocore."""
        return self._call("HeadObject", lambda: self._head("HeadObject", given), given)

    def get_object(self, **given: Any) -> Any:
        """See botocore."""

        def act() -> Any:
            answer, body = self._head("GetObject", given), self._stored("GetObject", given).body
            asked = given.get("Range")
            if asked is not None:
                begin, _, end = asked.removeprefix("bytes=").partition("-")
                first, last = int(begin), int(end) if end else len(body) - 1
                if first >= len(body):
                    raise refused("GetObject", "InvalidRange", 416)
                part = body[first : last + 1]
                answer |= {
                    "ContentRange": f"bytes {first}-{first + len(part) - 1}/{len(body)}",
                    "ContentLength": len(part),
                }
                body = part
            return answer | {"Body": self._body(body, given)}

        return self._call("GetObject", act, given)

    def _body(self, data: bytes, given: Mapping[str, Any]) -> _Body:
        """The body of an answer, which may break off."""
        weather, rng = self._all.weather, self._kernel.rng
        if not data or not weather.strikes("cut", "GetObject"):
            return _Body(data)

        def broken() -> bool:
            if weather.strikes("replaced behind", "GetObject"):
                self._all.on_replaced(given["Bucket"], given["Key"])
            return rng.random() < _SAID_SHARE

        return _CutBody(data, rng.randrange(len(data)), broken)

    def list_objects_v2(self, **given: Any) -> Any:
        """See botocore."""

        def act() -> Any:
            after = given.get("ContinuationToken") or given.get("StartAfter") or ""
            prefix = given.get("Prefix", "")
            found = self._bucket("ListObjectsV2", given)
            keys = [
                key
                for key in sorted(found, key=str.encode)
                if key.startswith(prefix) and key.encode() > after.encode()
            ]
            shown = keys[: min(given.get("MaxKeys", 1000), self._all.page_keys)]
            answer: dict[str, Any] = {
                "Contents": [
                    {
                        "Key": key,
                        "ETag": found[key].etag,
                        "Size": len(found[key].body),
                        "LastModified": _at(found[key].modified_ms),
                        "StorageClass": "STANDARD",
                    }
                    for key in shown
                ],
                "IsTruncated": len(shown) < len(keys),
            }
            if answer["IsTruncated"]:
                answer["NextContinuationToken"] = shown[-1]
            return answer

        return self._call("ListObjectsV2", act, given)

    def head_bucket(self, **given: Any) -> Any:
        """See botocore."""
        return self._call("HeadBucket", lambda: {"BucketRegion": "us-east-1"}, given)

    def list_multipart_uploads(self, **given: Any) -> Any:
        """See botocore."""

        def act() -> Any:
            self._bucket("ListMultipartUploads", given)
            return {
                "Uploads": [
                    {"Key": one.key, "UploadId": upload_id, "Initiated": _at(one.begun_ms)}
                    for upload_id, one in self._all.uploads.items()
                    if one.bucket == given["Bucket"] and one.key.startswith(given.get("Prefix", ""))
                ],
                "IsTruncated": False,
            }

        return self._call("ListMultipartUploads", act, given)

    def delete_object(self, **given: Any) -> Any:
        """See botocore."""

        def act() -> Any:
            found = self._bucket("DeleteObject", given)
            if (
                "IfMatch" in given
                and given["Key"] in found
                and found[given["Key"]].etag.strip('"') != given["IfMatch"].strip('"')
            ):
                raise refused("DeleteObject", "PreconditionFailed", 412)
            taken = found.pop(given["Key"], None)
            if taken is not None:
                self._all.on_taken(given["Bucket"], given["Key"], taken)
                self._all.note("deleted", given["Bucket"], given["Key"])
            return {}

        return self._call("DeleteObject", act, given)

    def delete_objects(self, **given: Any) -> Any:
        """See botocore, with `Quiet`; what is not there is passed over."""

        def act() -> Any:
            found = self._bucket("DeleteObjects", given)
            for one in given["Delete"]["Objects"]:
                taken = found.pop(one["Key"], None)
                if taken is not None:
                    self._all.on_taken(given["Bucket"], one["Key"], taken)
                    self._all.note("deleted", given["Bucket"], one["Key"])
            return {}

        return self._call("DeleteObjects", act, given)

    def copy_object(self, **given: Any) -> Any:
        """See botocore."""

        def act() -> Any:
            source = given["CopySource"]
            bucket, key = source["Bucket"], source["Key"]
            stored = self._all.objects.get(bucket, {}).get(key)
            if stored is None:
                raise refused("CopyObject", "NoSuchKey", 404)
            if "CopySourceIfMatch" in given and stored.etag.strip('"') != given["CopySourceIfMatch"].strip(
                '"'
            ):
                raise refused("CopyObject", "PreconditionFailed", 412)
            target = self._bucket("CopyObject", given)
            if given.get("IfNoneMatch") == "*" and given["Key"] in target:
                raise refused("CopyObject", "PreconditionFailed", 412)
            copied = StoredObject(
                stored.body, stored.etag, dict(stored.metadata), self._all.now_ms(), stored.tags
            )
            self._all.put(given["Bucket"], given["Key"], copied, "copied")
            return {"CopyObjectResult": {"ETag": stored.etag}}

        return self._call("CopyObject", act, given)

    def get_object_tagging(self, **given: Any) -> Any:
        """See botocore."""

        def act() -> Any:
            stored = self._bucket("GetObjectTagging", given).get(given["Key"])
            if stored is None:
                raise refused("GetObjectTagging", "NoSuchKey", 404)
            return {"TagSet": [{"Key": name, "Value": value} for name, value in stored.tags.items()]}

        return self._call("GetObjectTagging", act, given)

    def put_object_tagging(self, **given: Any) -> Any:
        """See botocore."""

        def act() -> Any:
            stored = self._bucket("PutObjectTagging", given).get(given["Key"])
            if stored is None:
                raise refused("PutObjectTagging", "NoSuchKey", 404)
            stored.tags.clear()
            stored.tags.update({one["Key"]: one["Value"] for one in given["Tagging"]["TagSet"]})
            return {}

        return self._call("PutObjectTagging", act, given)

    def get_bucket_lifecycle_configuration(self, **given: Any) -> Any:
        """See botocore."""

        def act() -> Any:
            days = self._all.rules.get(given["Bucket"], self._all.lifecycle_days)
            if days is None:
                raise refused("GetBucketLifecycleConfiguration", "NoSuchLifecycleConfiguration", 404)
            return {
                "Rules": [
                    {
                        "Status": "Enabled",
                        "Filter": {},
                        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": days},
                    }
                ]
            }

        return self._call("GetBucketLifecycleConfiguration", act, given)

    # -- what all calls do -----------------------------------------------------------------------------------

    def _call(self, operation: str, act: Callable[[], Any], given: Mapping[str, Any]) -> Any:
        kernel, weather = self._kernel, self._all.weather
        kernel.require_alive()
        if weather.down_until > kernel.now:
            kernel.sleep(min(5.0, weather.down_until - kernel.now))
            raise ConnectionClosedError(endpoint_url=_ENDPOINT)
        kernel.sleep(_CALL_SECONDS * (0.5 + kernel.rng.random()))
        kernel.require_alive()
        if operation in _ACTIONS:
            self._all.actions += 1
            self._all.acted.give()
        self._strike(operation, act, is_next="ContinuationToken" in given)
        self._all.on_call(operation, given)
        if operation in weather.forbidden or given["Bucket"] in weather.denied:
            raise refused(operation, "403" if operation == "HeadObject" else "AccessDenied", 403)
        if operation in _LOOKS:
            weather.refuse_look(operation, (given["Bucket"], given["Key"]), kernel.now)
        if given["Bucket"] not in self._all.objects:
            raise refused(operation, "NoSuchBucket", 404)
        self._meddle(operation, given)
        if weather.strikes("dies before", operation):
            self._all.on_dies()
            kernel.require_alive()
        answer = act()
        if weather.strikes("dies after", operation):
            self._all.on_dies()
            kernel.require_alive()
        if weather.strikes("lost", operation):
            kernel.sleep(20.0)
            raise ReadTimeoutError(endpoint_url=_ENDPOINT)
        # Who dies here has done it, and never hears of it.
        kernel.sleep(_CALL_SECONDS * kernel.rng.random())
        return self._answered(operation, answer)

    def _meddle(self, operation: str, given: Mapping[str, Any]) -> None:
        """Somebody replaces or deletes what a call is about, just before it reaches it."""
        weather = self._all.weather
        if given.get("Key") in self._all.objects[given["Bucket"]]:
            if weather.strikes("replaced", operation):
                self._all.on_replaced(given["Bucket"], given["Key"])
            if weather.strikes("gone", operation):
                self._all.on_gone(given["Bucket"], given["Key"])

    def _answered(self, operation: str, answer: Any) -> Any:
        left_out = self._all.left_out
        headers = {} if "date" in left_out else {"date": formatdate(self._all.now_ms() / 1000, usegmt=True)}
        if operation == "ListObjectsV2":
            left_out |= self._all.listings_lack
        if left_out and operation in {"HeadObject", "ListObjectsV2"}:
            answer = _without(answer, left_out)
        return {"ResponseMetadata": {"HTTPStatusCode": 200, "HTTPHeaders": headers}, **answer}

    def _strike(self, operation: str, act: Callable[[], Any], *, is_next: bool) -> None:
        """Raise what comes in the place of an answer to this request; `is_next`: of another page."""
        for name in (_NEXT_PAGE, operation) if is_next else (operation,):
            self._strike_by(name, operation, act)

    def _strike_by(self, name: str, operation: str, act: Callable[[], Any]) -> None:
        kernel, weather = self._kernel, self._all.weather
        for kind, (code, status) in _REFUSALS.items():
            if weather.strikes(kind, name):
                is_bare = kind in _OF_KEYS and operation == "HeadObject"
                raise refused(operation, str(status) if is_bare else code, status)
        is_late = weather.strikes("late", name)
        if is_late:
            self._arrive_late(act)
        if is_late or weather.strikes("silent", name):
            kernel.sleep(20.0)
            raise ReadTimeoutError(endpoint_url=_ENDPOINT)

    def _arrive_late(self, act: Callable[[], Any]) -> None:
        """A request is carried out at some time after who sent it has given it up, or has died."""
        kernel = self._kernel

        def arrive() -> None:
            kernel.sleep(_LATE_SECONDS * kernel.rng.random())
            with suppress(ClientError):
                act()

        kernel.spawn(kernel.process("network", is_prompt=True), arrive, "late request")

    def _bucket(self, operation: str, given: Mapping[str, Any]) -> dict[str, StoredObject]:
        found = self._all.objects.get(given["Bucket"])
        if found is None:
            raise refused(operation, "NoSuchBucket", 404)
        return found

    def _upload(self, operation: str, given: Mapping[str, Any]) -> PendingUpload:
        found = self._all.uploads.get(given["UploadId"])
        if found is None or (found.bucket, found.key) != (given["Bucket"], given["Key"]):
            raise refused(operation, "NoSuchUpload", 404)
        return found

    def _stored(self, operation: str, given: Mapping[str, Any]) -> StoredObject:
        """The object, or the version of it, that is asked for."""
        version = given.get("VersionId", "null")
        if version == "null":
            stored = self._bucket(operation, given).get(given["Key"])
        else:
            stored = self._all.versions.get((given["Bucket"], given["Key"], version))
        if stored is None:
            code = "NoSuchKey" if version == "null" else "NoSuchVersion"
            raise refused(operation, "404" if operation == "HeadObject" else code, 404)
        return stored

    def _head(self, operation: str, given: Mapping[str, Any]) -> dict[str, Any]:
        stored = self._stored(operation, given)
        if "IfMatch" in given and given["IfMatch"].strip('"') != stored.etag.strip('"'):
            raise refused(operation, "PreconditionFailed", 412)
        return {
            "ETag": stored.etag,
            "ContentLength": len(stored.body),
            "LastModified": _at(stored.modified_ms),
            "Metadata": dict(stored.metadata),
            "VersionId": stored.version,
        }


def _tags(given: Mapping[str, Any]) -> dict[str, str]:
    return dict(parse_qsl(given.get("Tagging", ""), keep_blank_values=True))


def _read(body: Any) -> bytes:
    return body if isinstance(body, bytes) else bytes(body.read())


def _crc32(body: bytes) -> str:
    return base64.b64encode(binascii.crc32(body).to_bytes(4, "big")).decode()


def _at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms // 1000, UTC)


def _without(answer: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    left = {name: value for name, value in answer.items() if name not in names}
    if "Contents" in left:
        left["Contents"] = [_without(entry, names) for entry in left["Contents"]]
    return left
