"""The S3 client of a process, and calls of it: retried here and nowhere else, errors in our words.

The bucket's rule for unfinished uploads is one of the calls:
https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpu-abort-incomplete-mpu-lifecycle-config.html
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import structlog
from botocore.client import BaseClient
from botocore.exceptions import ClientError

from headrace.aws.aws_credentials import signed_again
from headrace.aws.aws_errors import AwsRefusal, answer_of, classify, is_unknown_to_store
from headrace.aws.store_answers import (
    answered_ms,
    following,
    headed_object,
    listed_objects,
    needed,
    showing_restores,
    without_etag,
)
from headrace.model.errors import AccessDenied, HeadraceError, ObjectError, ObjectMissing, SourceUnavailable
from headrace.model.objects import S3Object
from headrace.options.aws_forms import rights_on
from headrace.options.settings import BackoffSettings, S3Settings
from headrace.process.threads import of_each
from headrace.s3.client import BOTOCORES, GetAnswer, GetRequest, attempted, new_s3_client, translate_s3
from headrace.s3.fast_get import BegunGet, FastGet

_log = structlog.get_logger(__name__)

T = TypeVar("T")


class Translate(Protocol):
    """As `translate_s3`."""

    def __call__(self, error: Exception, *, what: str) -> HeadraceError:
        """Our error for one of `BOTOCORES` about `what`."""


_NEXT_UPLOADS: Final = {"KeyMarker": "NextKeyMarker", "UploadIdMarker": "NextUploadIdMarker"}


_ASKED_AT_ONCE: Final = 16


class UploadsUnderWay(NamedTuple):
    """Multipart uploads that were not completed at `at_ms`, by S3's clock in whole seconds."""

    at_ms: int
    begun_ms: dict[str, int]
    """By key, when the earliest of its uploads began: what S3 will give as its LastModified."""
    ids: dict[str, frozenset[str]]
    """By key, the ids of its uploads."""


class S3Calls:
    """Calls of S3 about single objects; thread-safe. All block, and raise classes of `errors` only."""

    def __init__(
        self, client: Any, *, backoff: BackoffSettings, requester_pays: bool, fast_get: FastGet | None = None
    ) -> None:
        self._client = client
        self._fast_get = fast_get
        self._backoff = backoff
        self._fixed: dict[str, str] = {"RequestPayer": "requester"} if requester_pays else {}
        self.has_warned_of_versions = False
        """A 403 on reading by version was said; it is likely to be true of every object."""

    def head(self, bucket: str, key: str, version_id: str | None = None) -> S3Object:
        """What S3 says of an object now."""
        asked = {"Bucket": bucket, "Key": key, **_version(version_id), **self._fixed}
        return self.retried(
            lambda: headed_object(bucket, key, self._client.head_object(**asked)), what=f"s3://{bucket}/{key}"
        )

    def content(self, bucket: str, key: str, *, most: int) -> bytes:
        """The content of a small object; of a larger one the first `most` bytes and one. Blocks."""

        def read() -> bytes:
            body = self._client.get_object(Bucket=bucket, Key=key, **self._fixed)["Body"]
            try:
                found: bytes = body.read(most + 1)
                return found
            finally:
                body.close()

        return self.retried(read, what=f"s3://{bucket}/{key}")

    def clock_ms(self, bucket: str, prefix: str) -> int:
        """The time by S3's own clock, in ms since 1970, from the smallest listing there is."""
        what, given = f"s3://{bucket}/{prefix}", {"Bucket": bucket, "Prefix": prefix, **self._fixed}
        return self.retried(
            lambda: answered_ms(self._client.list_objects_v2(**given, MaxKeys=1), what=what), what=what
        )

    def region(self, bucket: str) -> str | None:
        """The bucket's region, which Amazon names in a refusal too; None where its S3 does not say.

        A policy that allows one prefix refuses the question, as that has none.
        """

        def asked() -> str | None:
            try:
                found: str | None = self._client.head_bucket(Bucket=bucket).get("BucketRegion")
            except ClientError as error:
                headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
                if (named := headers.get("x-amz-bucket-region")) is None:
                    raise
                found = str(named)
            return found

        return self.retried(asked, what=f"s3://{bucket}")

    def uploads_under_way(self, bucket: str, prefix: str) -> UploadsUnderWay:
        """The multipart uploads under `prefix` that are not completed yet; blocks, a call a thousand."""
        marker: dict[str, Any] = {}
        what = f"the uploads of s3://{bucket}/{prefix}"
        begun: dict[str, int] = {}
        ids: dict[str, frozenset[str]] = {}
        at_ms: int | None = None
        while True:
            asked = {"Bucket": bucket, "Prefix": prefix, **marker, **self._fixed}
            found = self.retried(
                lambda asked=asked: self._client.list_multipart_uploads(**asked),  # type: ignore[misc]  # mypy takes the default for an argument
                what=what,
            )
            at_ms = answered_ms(found, what=what) if at_ms is None else at_ms
            for upload in found.get("Uploads", ()):
                key = needed(upload, "Key", what=what)
                begun_ms = int(needed(upload, "Initiated", what=what).timestamp() * 1000)
                begun[key] = min(begun_ms, begun.get(key, begun_ms))
                ids[key] = ids.get(key, frozenset()) | {needed(upload, "UploadId", what=what)}
            more = following(found, marker, what=what, names=_NEXT_UPLOADS)
            if more is None:
                return UploadsUnderWay(at_ms=at_ms, begun_ms=begun, ids=ids)
            marker = more

    def there_before(
        self, bucket: str, prefix: str, under_way: UploadsUnderWay, keys: Collection[str]
    ) -> dict[str, str]:
        """ETags by key of objects that were there at `at_ms`, and are younger than an upload of their key.

        So one that was broken off and never aborted. Of a key nothing is said where the object may not be
        read, or where one of the uploads has ended since, which may have made it. Blocks, a call a key: of
        short keys a first start asks about twenty thousand.
        """

        def etag(key: str) -> str | None:
            with suppress(ObjectError, AccessDenied):
                now = self.head(bucket, key)
                if under_way.begun_ms[key] // 1000 * 1000 <= now.last_modified_ms < under_way.at_ms:
                    return now.id.etag
            return None

        etags = of_each(etag, keys, at_once=_ASKED_AT_ONCE, name="first-start")
        found = {key: there for key, there in zip(keys, etags, strict=True) if there is not None}
        if not found:
            return {}
        later = self.uploads_under_way(bucket, prefix).ids
        return {key: etag for key, etag in found.items() if under_way.ids[key] <= later.get(key, frozenset())}

    def listed(self, bucket: str, prefix: str) -> Iterator[S3Object]:
        """The objects under `prefix`, by key, a call a thousand, and one for each without an ETag; blocks."""
        token: dict[str, Any] = {}
        ask = showing_restores(self._client.list_objects_v2, bucket)
        while True:
            asked = {"Bucket": bucket, "Prefix": prefix, **token, **self._fixed}
            found = self.retried(
                lambda asked=asked: ask(**asked),  # type: ignore[misc]  # mypy takes the default for an argument
                what=f"s3://{bucket}/{prefix}",
            )
            entries = found.get("Contents", ())
            lacking = without_etag(entries)
            heads = of_each(
                partial(self._if_there, bucket), lacking, at_once=_ASKED_AT_ONCE, name="list-head"
            )
            yield from listed_objects(bucket, entries, dict(zip(lacking, heads, strict=True)))
            more = following(found, token, what=f"s3://{bucket}/{prefix}")
            if more is None:
                return
            token = more

    def _if_there(self, bucket: str, key: str) -> S3Object | None:
        try:
            # As `listed_by_head` has it.
            return replace(self.head(bucket, key), version_id=None)
        except ObjectMissing:
            return None

    def tags(self, wanted: S3Object) -> dict[str, str]:
        """The tags of an object; none where they may not be read (`s3:GetObjectTagging`). Blocks."""
        of = wanted.id
        asked = {"Bucket": of.bucket, "Key": of.key, **_version(wanted.version_id), **self._fixed}
        try:
            found = self.retried(lambda: self._client.get_object_tagging(**asked), what=of.url)
        except (ObjectError, AccessDenied):
            return {}
        return {tag["Key"]: tag["Value"] for tag in found["TagSet"]}

    def get(self, wanted: S3Object, *, begin: int, end: int | None, by_version: bool) -> GetAnswer:
        """The answer to one GET of [begin, end) of exactly this content, its body unread.

        One attempt, and another one only where the credentials of the first have expired.
        """
        asked = self._asked(wanted, begin=begin, end=end, by_version=by_version)
        answer = None if self._fast_get is None else self._fast_get.get(asked)
        return self._get_by_botocore(asked) if answer is None else answer

    def begin(self, wanted: S3Object, *, by_version: bool) -> BegunGet | None:
        """A GET of exactly this content, sent over a kept connection; None where `get` has to send it.

        Waits for no answer.
        """
        if self._fast_get is None:
            return None
        return self._fast_get.begin(self._asked(wanted, begin=0, end=None, by_version=by_version))

    def _asked(self, wanted: S3Object, *, begin: int, end: int | None, by_version: bool) -> GetRequest:
        return GetRequest(
            bucket=wanted.id.bucket,
            key=wanted.id.key,
            etag=wanted.id.etag,
            version_id=_version_id(wanted.version_id) if by_version else None,
            range=f"bytes={begin}-{'' if end is None else end - 1}" if begin or end is not None else None,
            requester_pays=bool(self._fixed),
        )

    def _get_by_botocore(self, asked: GetRequest) -> GetAnswer:
        try:
            response: dict[str, Any] = signed_again(lambda: self._client.get_object(**asked.parameters()))
        except BOTOCORES as error:
            raise translate_s3(error, what=asked.what) from error
        return GetAnswer(
            body=response["Body"],
            etag=str(response.get("ETag", "")),
            content_length=response.get("ContentLength"),
            content_range=response.get("ContentRange"),
        )

    def retried(self, call: Callable[[], T], *, what: str, translate: Translate = translate_s3) -> T:
        """What `call` of botocore gives, after at most `max_retries` repeats; errors are `translate`'s.

        Credentials that have expired are resolved again, and the call is repeated at once.
        """

        def translated() -> T:
            try:
                return signed_again(call)
            except BOTOCORES as error:
                raise translate(error, what=what) from error

        return self.attempted(translated)

    def attempted(self, call: Callable[[], T]) -> T:
        """What `call` gives, after at most `max_retries` repeats with growing, jittered delays.

        The one retry policy, `aws.s3.backoff.*`, for SourceUnavailable, which passes by itself.
        """
        return attempted(call, self._backoff)


def new_s3_calls(settings: S3Settings) -> S3Calls:
    """Calls through a new client with its own connections; credentials are asked for by each call.

    AccessDenied when this machine's AWS configuration allows no client.
    """
    client, credentials = new_s3_client(settings)
    # It takes the place of botocore's own requests, which no other client makes.
    fast_get = FastGet(client, credentials) if isinstance(client, BaseClient) else None
    return S3Calls(
        client, backoff=settings.backoff, requester_pays=settings.requester_pays, fast_get=fast_get
    )


def uploads_if_allowed(calls: S3Calls, s3: S3Settings) -> UploadsUnderWay | None:
    """The multipart uploads under way for a first start; None, with a WARN, where they may not be listed."""
    try:
        return calls.uploads_under_way(s3.bucket, s3.prefix)
    except AccessDenied as error:
        # Refused, or not known to this store; where everything is refused, the listing says so next.
        _log.warning(
            "uploads_not_listed",
            error=str(error),
            detail="with include.existing=false a multipart upload that is under way at the first start "
            "and that no event announces is not ingested",
            remedy=f"allow {rights_on(s3.arn, 's3:ListBucketMultipartUploads')}",
        )
        return None


def there_if_told(
    s3: S3Settings, uploads: UploadsUnderWay, keys: Collection[str], *, calls: S3Calls | None = None
) -> dict[str, str]:
    """See `S3Calls.there_before`; nothing, with a WARN, where S3 does not answer.

    Asked by `calls`, or a client of its own.
    """
    try:
        return (new_s3_calls(s3) if calls is None else calls).there_before(
            s3.bucket, s3.prefix, uploads, keys
        )
    except (AccessDenied, SourceUnavailable) as error:
        _log.warning(
            "uploads_not_compared",
            bucket=s3.bucket,
            error=str(error),
            detail="with include.existing=false an object that is there already is ingested if it is younger "
            "than a multipart upload of its key that was broken off and not aborted",
        )
        return {}


def _version_id(headers: str | None) -> str | None:
    # On a bucket without versions S3 says "null" for none.
    return None if headers == "null" else headers


def _version(headers: str | None) -> dict[str, str]:
    version_id = _version_id(headers)
    return {} if version_id is None else {"VersionId": version_id}


_DAY_MS: Final = 86_400_000
# S3 counts in days, one at least.
_SHORTEST_EXPIRY_MS: Final = _DAY_MS
# A leader may lead for months, and a rule be made or changed at any time.
_RULES_SECONDS: Final = 300.0


_Rules = Sequence[tuple[str, int]]

UploadExpiry = Callable[[str, str], int | None]
"""The age from which a bucket ends an unfinished upload of a key, in ms; None where no rule of it does."""


def upload_expiry(s3: S3Settings, *, now: Callable[[], float] = time.monotonic) -> UploadExpiry:
    """What gives the rule of any bucket that these settings reach; where none may be read, a day.

    That is the shortest that S3 has. A bucket is asked when it is needed, and its rules are kept for five
    minutes, as is that they may not be read, of which one line of the log is for each bucket. What may pass
    decides nothing: it is raised, as a class of `headrace.model.errors`, and the next call asks again. It
    blocks, and is thread-safe. `now` is a monotonic clock, in seconds.
    """
    kept: dict[str, tuple[float, _Rules]] = {}
    refused: set[str] = set()

    def expiry_ms(bucket: str, key: str) -> int | None:
        until, rules = kept.get(bucket, (0.0, []))
        if bucket not in kept or now() >= until:
            rules = _upload_rules(replace(s3, bucket=bucket), refused)
            kept[bucket] = now() + _RULES_SECONDS, rules
        return min((age for prefix, age in rules if key.startswith(prefix)), default=None)

    return expiry_ms


def _upload_rules(s3: S3Settings, refused: set[str]) -> _Rules:
    """The bucket's rules for unfinished uploads: the prefix of the keys, and the age.

    Blocks, and raises what may pass. `refused` are the buckets of which it is logged that they may not be
    read.
    """
    try:
        answer = _lifecycle(s3)
    except HeadraceError as error:
        if not _may_not_be_read(error):
            raise
        if s3.bucket not in refused:
            refused.add(s3.bucket)
            _log.warning(
                "lifecycle_not_read",
                error=str(error),
                detail="an upload older than a day that is gone counts as ended by the bucket",
                remedy=f"allow {rights_on(s3.arn, 's3:GetLifecycleConfiguration')}",
            )
        return [("", _SHORTEST_EXPIRY_MS)]
    refused.discard(s3.bucket)
    return [
        (_prefix_of(rule), rule["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"] * _DAY_MS)
        for rule in answer.get("Rules", ())
        if rule.get("Status") == "Enabled" and "AbortIncompleteMultipartUpload" in rule
    ]


def _may_not_be_read(error: HeadraceError) -> bool:
    """Whether the bucket's rules are forbidden, or the store knows none: what does not pass by itself."""
    cause = error.__cause__
    if not isinstance(cause, ClientError):
        return False
    code, status = answer_of(cause)
    is_denied = classify(code, status, cause.operation_name) is AwsRefusal.DENIED
    return is_denied or is_unknown_to_store(code, status)


def _lifecycle(s3: S3Settings) -> Any:
    """S3's answer, without rules where there are none; classes of `headrace.model.errors`. Blocks.

    Repeated as `aws.s3.backoff.*` says.
    """
    client = new_s3_client(s3).client

    def once() -> Any:
        try:
            return signed_again(lambda: client.get_bucket_lifecycle_configuration(Bucket=s3.bucket))
        except BOTOCORES as error:
            if isinstance(error, ClientError) and answer_of(error)[0] == "NoSuchLifecycleConfiguration":
                return {}
            raise translate_s3(error, what=f"the lifecycle of s3://{s3.bucket}") from error

    return attempted(once, s3.backoff)


def _prefix_of(rule: Any) -> str:
    kept = rule.get("Filter", {})
    return str(kept.get("Prefix") or kept.get("And", {}).get("Prefix") or rule.get("Prefix") or "")
