"""Uploads to the S3 of the tests, or to one that misbehaves."""

import dataclasses
from typing import Any, Final

from headrace.options.secret import Secret
from headrace.options.settings import BackoffSettings, S3Settings, StaticCredentials
from headrace.options.sink_settings import UploadSettings
from headrace.s3.upload_calls import HasContent, UploadCalls, new_upload_calls
from tests.support import aws

PLAIN: Final = UploadSettings(
    part_bytes=16 * 1024 * 1024,
    connections=8,
    offset_tags=False,
    tags=(),
    storage_class=None,
    acl=None,
    encryption=None,
    kms_key_id=None,
    customer_key=None,
)


def upload_calls(
    bucket: str,
    *,
    endpoint: str | None = None,
    retries: int = 3,
    has_content: HasContent | None = None,
    **options: Any,
) -> UploadCalls:
    """Calls of uploads to this bucket, with quick retries."""
    settings = S3Settings(
        bucket=bucket,
        prefix="",
        region=aws.REGION,
        endpoint=endpoint or aws.address(),
        credentials=StaticCredentials(
            access_key_id="test", secret_access_key=Secret("test"), session_token=None
        ),
        backoff=BackoffSettings(delay_ms=1, max_delay_ms=5, max_retries=retries),
        path_style=True,
        requester_pays=False,
        ca_bundle=None,
    )
    return new_upload_calls(settings, dataclasses.replace(PLAIN, **options), has_content=has_content)
