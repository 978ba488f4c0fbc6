"""The bucket's keys in their order, page by page."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final

import tenacity

from headrace.model.errors import SourceUnavailable
from headrace.model.objects import ObjectId, S3Object
from headrace.options.settings import S3Settings
from listeners.failures import translated_errors

_PAGE_KEYS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysPage:
    """What S3 listed in (`after_key`, `through_key`], None being the prefix's start and its end."""

    after_key: str | None
    through_key: str | None
    objects: tuple[S3Object, ...]


def list_pages(
    client: Any, settings: S3Settings, *, prefix: str, sleep: Callable[[float], None] = time.sleep
) -> Iterator[KeysPage]:
    """All keys that begin with `prefix`. Each page blocks.

    What passes by itself is repeated (`aws.s3.backoff.*`). AccessDenied, SourceUnavailable.
    """
    position: str | None = None
    token: str | None = None
    while True:
        answer = _asked(client, settings, prefix=prefix, token=token, sleep=sleep)
        token = answer.get("NextContinuationToken") if answer.get("IsTruncated") else None
        contents = answer.get("Contents", ())
        last = contents[-1]["Key"] if contents else position
        yield KeysPage(
            after_key=position,
            through_key=None if token is None else last,
            objects=tuple(_object(settings.bucket, entry) for entry in contents),
        )
        if token is None:
            return
        position = last


def answered_ms(answer: Mapping[str, Any]) -> int:
    """The server's clock when it answered, in ms since 1970, to the second."""
    date: str = answer["ResponseMetadata"]["HTTPHeaders"]["date"]
    return int(parsedate_to_datetime(date).timestamp() * 1000)


def _asked(
    client: Any, settings: S3Settings, *, prefix: str, token: str | None, sleep: Callable[[float], None]
) -> Mapping[str, Any]:
    arguments: dict[str, Any] = {"Bucket": settings.bucket, "Prefix": prefix, "MaxKeys": _PAGE_KEYS}
    if token is not None:
        arguments["ContinuationToken"] = token
    if settings.requester_pays:
        arguments["RequestPayer"] = "requester"

    def ask() -> Mapping[str, Any]:
        with translated_errors(f"aws.s3.bucket.name = {settings.bucket!r}"):
            found: Mapping[str, Any] = client.list_objects_v2(**arguments)
        return found

    backoff = settings.backoff
    attempts: tenacity.Retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(SourceUnavailable),
        stop=tenacity.stop_after_attempt(1 + backoff.max_retries),
        wait=tenacity.wait_random_exponential(
            multiplier=backoff.delay_ms / 1000, max=backoff.max_delay_ms / 1000
        ),
        sleep=sleep,
        reraise=True,
    )
    return attempts(ask)


def _object(bucket: str, entry: Mapping[str, Any]) -> S3Object:
    return S3Object(
        id=ObjectId(bucket, entry["Key"], entry["ETag"].strip('"')),
        size=entry["Size"],
        last_modified_ms=int(entry["LastModified"].timestamp() * 1000),
        storage_class=entry.get("StorageClass"),
    )
