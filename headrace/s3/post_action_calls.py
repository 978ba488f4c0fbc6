"""What is done with an object that is in Kafka: only content that was read is deleted, moved or tagged."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from email.charset import Charset
from typing import Any, Final, TypeVar

import structlog
from botocore.exceptions import ClientError
from s3transfer.exceptions import S3CopyFailedError
from s3transfer.manager import TransferConfig, TransferManager

from headrace.aws.aws_errors import (
    AwsRefusal,
    answer_of,
    classify,
    is_condition_refused,
    is_refused_for_good,
    refusal,
)
from headrace.model.errors import (
    AccessDenied,
    HeadraceError,
    InvalidConfiguration,
    ObjectError,
    ObjectMissing,
    SourceUnavailable,
)
from headrace.model.objects import S3Object, is_directory_bucket
from headrace.options.settings import S3Settings
from headrace.s3.client import new_s3_client, translate_s3, words_of
from headrace.s3.s3_calls import S3Calls

_log = structlog.get_logger(__name__)

T = TypeVar("T")

# S3 copies no larger object by one request.
_COPY_MAX_BYTES: Final = 5 * 1024**3
# How stores say that they do not know what is asked of them.
_UNKNOWN: Final = frozenset({"NotImplemented", "MethodNotAllowed"})
_PART_BYTES: Final = 256 * 1024**2
_KEPT: Final = (
    "CacheControl",
    "ContentDisposition",
    "ContentEncoding",
    "ContentLanguage",
    "ContentType",
    "Expires",
    "StorageClass",
)
_KEY_MAX_BYTES: Final = 1024
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-tagging.html
_MOST_TAGS: Final = 10
_MOVED: Final = "headrace-moved"
"""Metadata of a copy, whose ETag may differ: the ETag of what was copied."""
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingMetadata.html
_METADATA_MAX_BYTES: Final = 2048
_UTF8: Final = Charset("utf-8")
_COMPLETION: Final = "before-parameter-build.s3.CompleteMultipartUpload"

Removing = Callable[[], AbstractContextManager[None]]
"""Around each request that takes an object away; raises, of its own, where it is to stay."""


class PostActionCalls:
    """Each call blocks, may be repeated, and is False where other content, or none, has the key by now.

    Unless `is_unconditional`, S3 itself sees to it that a delete meets no other content. Raises classes of
    `errors` as `S3Calls` does: what passes by itself, after the retries of `aws.s3.backoff.*`, and
    what is refused.
    """

    def __init__(
        self,
        client: Any,
        calls: S3Calls,
        *,
        bucket: str,
        target_bucket: str | None = None,
        is_unconditional: bool = False,
        copy_max_bytes: int = _COPY_MAX_BYTES,
    ) -> None:
        self._client = client
        self._calls = calls
        self._bucket = bucket
        self._target = target_bucket or bucket
        self._is_unconditional = is_unconditional
        self._copy_max_bytes = copy_max_bytes

    def delete(self, key: str, etag: str, removing: Removing = nullcontext) -> bool:
        """The object is gone; in a bucket with versions a marker hides it."""
        if self._current(key, etag) is None:
            return False
        condition = {} if self._is_unconditional else {"IfMatch": f'"{etag}"'}

        def delete() -> None:
            # Asked of each attempt: between two there may be minutes.
            with removing():
                self._client.delete_object(Bucket=self._bucket, Key=key, **condition)

        with self._unconditional_needed(key, "deleted", "deletes"):
            return self._unless_refused(delete, key=key)
        raise AssertionError("a refusal is raised")

    @contextmanager
    def _unconditional_needed(self, key: str, done: str, calls: str) -> Iterator[None]:
        """Name the option where the store does not know the condition."""
        try:
            yield
        except AccessDenied as error:
            refused = error.__cause__
            if not isinstance(refused, ClientError) or answer_of(refused)[0] not in _UNKNOWN:
                raise
            raise InvalidConfiguration(
                f"{self._url(key)} is not {done}: this S3 knows no conditional {calls}. Set "
                "post.action.unconditional=true if no key is ever overwritten."
            ) from error

    def move(self, key: str, etag: str, target: str) -> bool:
        """The object is where `copy` puts it, and is gone where it was."""
        return self.copy(key, etag, target) and self.delete(key, etag)

    def copy(self, key: str, etag: str, target: str) -> bool:
        """The object is under `target` as well, with its metadata and tags.

        Where other content has that key, it stays, and the object goes to the key with its ETag after.
        """
        found = self._current(key, etag)
        if found is None:
            return False
        place, has_copy = self._place(key, target, etag)
        if not has_copy and not self._is_copied(found, place):
            return False
        if found.size > self._copy_max_bytes:
            # They are put once the copy is there, which an earlier attempt may not have come to.
            self._copy_tags(key, place)
        return True

    def _place(self, key: str, target: str, etag: str) -> tuple[str, bool]:
        """The key to copy to, and whether an earlier attempt has made the copy already.

        ObjectError for a key that S3 has no room for.
        """
        self._refuse_long(key, target)
        known = self._head(target, self._target)
        if known is None:
            return target, False
        if known.id.etag == etag or self._moved_etag(target) == etag:
            return target, True
        other = f"{target}.{etag}"
        self._refuse_long(key, other)
        if self._head(other, self._target) is not None:
            return other, True
        _log.warning(
            "move_target_taken",
            target=self._target_url(target),
            key=self._target_url(other),
            detail="other content has the key that post.action moves the object to: it stays, and the object "
            "goes to the key followed by its ETag",
        )
        return other, False

    def _refuse_long(self, key: str, target: str) -> None:
        """ObjectError before S3 is asked, whose answer to a HEAD of it tells nothing."""
        if (size := len(target.encode())) > _KEY_MAX_BYTES:
            raise ObjectError(
                f"{self._url(key)} stays where it is: the key that it moves to has {size:,} bytes, and S3 "
                f"takes {_KEY_MAX_BYTES:,} at most. Shorten the prefix in post.action, or the object's key."
            )

    def _moved_etag(self, key: str) -> str | None:
        """The ETag of which the object is a copy that says so; None where it is not one."""
        try:
            found = self._calls.retried(
                lambda: self._client.head_object(Bucket=self._target, Key=key), what=self._target_url(key)
            )
        except ObjectMissing:
            return None
        return dict(found.get("Metadata", {})).get(_MOVED)

    def _is_copied(self, found: S3Object, target: str) -> bool:
        key, etag = found.id.key, found.id.etag
        copied = self._copied_in_parts if found.size > self._copy_max_bytes else self._copied_whole
        with self._unconditional_needed(key, "moved", "copies"):
            if copied(key, etag, target):
                return True
        if self._current(key, etag) is None:
            return False
        raise SourceUnavailable(
            f"{self._target_url(target)} was written while {self._url(key)} was moved there."
        )

    def tag(self, key: str, etag: str, name: str, value: str) -> bool:
        """The object has this tag next to those that it has."""
        found = self._current(key, etag)
        if found is None:
            return False
        given = {"Bucket": self._bucket, "Key": key}
        if found.version_id is not None:
            given["VersionId"] = found.version_id
        tags = self._tags(given)
        # One that has more is in a store that takes more.
        if name not in tags and len(tags) == _MOST_TAGS:
            raise ObjectError(
                f"{self._url(key)} gets no tag {name!r}: it has {_MOST_TAGS} already, as many as S3 takes. "
                "Remove one of them, or use another post.action."
            )
        if tags.get(name) != value:
            self._put_tags(given, {**tags, name: value})
        return True

    def _current(self, key: str, etag: str) -> S3Object | None:
        """The object, unless other content or none has its key."""
        found = self._head(key)
        return None if found is None or found.id.etag != etag else found

    def _head(self, key: str, bucket: str | None = None) -> S3Object | None:
        try:
            return self._calls.head(bucket or self._bucket, key)
        except ObjectMissing:
            return None

    def _unless_refused(self, call: Callable[[], object], *, key: str, what: str = "") -> bool:
        """False where a condition of the call about the object is not met, or the object is not there.

        `what` is what errors name, where it is not the object.
        """

        def called() -> bool:
            try:
                call()
            except S3CopyFailedError:  # a part's condition, in s3transfer's words
                return False
            except ClientError as error:
                code, status = answer_of(error)
                if is_condition_refused(code, status) or code == "NoSuchKey":
                    return False
                if classify(code, status, error.operation_name) is AwsRefusal.ARCHIVED:
                    # Of a copy it is what is read, whatever else its errors are about.
                    raise refusal(code, status, error.operation_name, what=self._url(key)) from error
                raise
            return True

        return self._retried(called, what=what or self._url(key))

    def _tags(self, given: dict[str, str]) -> dict[str, str]:
        answer = self._retried(lambda: self._client.get_object_tagging(**given), what=self._url(given["Key"]))
        return {each["Key"]: each["Value"] for each in answer.get("TagSet", ())}

    def _put_tags(self, given: dict[str, str], tags: dict[str, str]) -> None:
        pairs = [{"Key": each, "Value": text} for each, text in tags.items()]
        self._retried(
            lambda: self._client.put_object_tagging(**given, Tagging={"TagSet": pairs}),
            what=self._url(given["Key"]),
        )

    def _copied_whole(self, key: str, etag: str, target: str) -> bool:
        kept, metadata = self._kept(key)
        # The copy's own ETag does not say what it is of where the object was uploaded in parts or is
        # encrypted with a key of KMS, nor in another bucket that encrypts otherwise.
        marked = {**metadata, _MOVED: etag}
        if _is_ascii(kept) and _is_ascii(marked) and _fits(marked):
            given = {**kept, "MetadataDirective": "REPLACE", "Metadata": marked}
        else:
            # Nothing is lost where S3 itself copies what it would not take from us.
            given = {name: kept[name] for name in ("StorageClass",) if name in kept}
        if not self._is_unconditional:
            given["IfNoneMatch"] = "*"
        return self._unless_refused(
            lambda: self._client.copy_object(
                Bucket=self._target,
                Key=target,
                CopySource={"Bucket": self._bucket, "Key": key},
                CopySourceIfMatch=f'"{etag}"',
                **given,
            ),
            key=key,
            what=self._target_url(target),
        )

    def _kept(self, key: str) -> tuple[dict[str, Any], dict[str, str]]:
        """What a copy has of the object next to its content, and the metadata of its writer."""
        known = self._calls.retried(
            lambda: self._client.head_object(Bucket=self._bucket, Key=key), what=self._url(key)
        )
        kept = {name: known[name] for name in _KEPT if known.get(name)}
        if is_directory_bucket(self._bucket) != is_directory_bucket(self._target):
            # Their class is their own, and they have no other.
            kept.pop("StorageClass", None)
        return kept, dict(known.get("Metadata", {}))

    def _copied_in_parts(self, key: str, etag: str, target: str) -> bool:
        kept, metadata = ({name: _encoded(value) for name, value in some.items()} for some in self._kept(key))
        marked = {**metadata, _MOVED: etag}
        given = {
            **kept,
            "MetadataDirective": "REPLACE",
            "Metadata": marked if _fits(marked) else metadata,
            "CopySourceIfMatch": f'"{etag}"',
        }
        config = TransferConfig(
            multipart_threshold=self._copy_max_bytes,
            multipart_chunksize=min(_PART_BYTES, self._copy_max_bytes),
        )
        if not self._is_unconditional:
            # s3transfer hands no condition on, and the client completes no other uploads.
            self._client.meta.events.register(_COMPLETION, _overwrite_nothing, unique_id=_MOVED)

        def copy() -> None:
            with TransferManager(self._client, config) as transfers:
                source = {"Bucket": self._bucket, "Key": key}
                transfers.copy(source, self._target, target, extra_args=given).result()

        return self._unless_refused(copy, key=key)

    def _copy_tags(self, key: str, target: str) -> None:
        if tags := self._tags({"Bucket": self._bucket, "Key": key}):
            self._put_tags({"Bucket": self._target, "Key": target}, tags)

    def _retried(self, call: Callable[[], T], *, what: str) -> T:
        return self._calls.retried(call, what=what, translate=_translated)

    def _url(self, key: str) -> str:
        return f"s3://{self._bucket}/{key}"

    def _target_url(self, key: str) -> str:
        return f"s3://{self._target}/{key}"


def _translated(error: Exception, *, what: str) -> HeadraceError:
    """As `translate_s3`, with what S3 itself says; a request that is bad for good is an ObjectError."""
    if not isinstance(error, ClientError):
        return translate_s3(error, what=what)
    code, status = answer_of(error)
    words = words_of(error)
    if is_refused_for_good(code, status, error.operation_name):
        return ObjectError(f"{what} is refused ({code or status}){words and f': {words}'}.")
    return refusal(code, status, error.operation_name, what=what, message=words)


def _overwrite_nothing(params: dict[str, Any], **_: object) -> None:
    """A handler of botocore: the upload is completed only where its key is free."""
    params["IfNoneMatch"] = "*"


def _fits(metadata: Mapping[str, str]) -> bool:
    """Whether S3 takes so much metadata of its writers."""
    return sum(len(name) + len(value.encode()) for name, value in metadata.items()) <= _METADATA_MAX_BYTES


def _is_ascii(headers: Mapping[str, Any]) -> bool:
    """Whether botocore sends all of these, and signs them as they are sent."""
    return all(str(value).isascii() for value in headers.values())


def _encoded(value: Any) -> Any:
    """A header's value as S3 shows it: what is not ASCII by RFC 2047. Anything but text stays as it is."""
    if not isinstance(value, str) or value.isascii():
        return value
    # Some stores send the bytes as they are, which Python takes for Latin-1.
    content = value.encode("latin-1")
    try:
        return _UTF8.header_encode(content.decode())
    except UnicodeDecodeError:
        return _UTF8.header_encode(value)


def new_post_action_calls(
    settings: S3Settings, *, is_unconditional: bool, target_bucket: str | None = None
) -> PostActionCalls:
    """Calls through a new client with its own connections.

    AccessDenied when this machine's AWS configuration allows no client.
    """
    client = new_s3_client(settings).client
    calls = S3Calls(client, backoff=settings.backoff, requester_pays=settings.requester_pays)
    return PostActionCalls(
        client,
        calls,
        bucket=settings.bucket,
        target_bucket=target_bucket,
        is_unconditional=is_unconditional,
    )
