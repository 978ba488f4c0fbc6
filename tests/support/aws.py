"""The LocalStack of the tests: its address, and things of one test in it with names of their own."""

import os
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from botocore.config import Config
from localstack_client.session import Session

if TYPE_CHECKING:
    from mypy_boto3_events import EventBridgeClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sns import SNSClient
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.literals import QueueAttributeNameType

REGION: Final = "us-east-1"
ACCOUNT: Final = "000000000000"


def address() -> str:
    """Where LocalStack answers; `make test` names it, else the port of `make up`."""
    return os.environ.get("HEADRACE_TEST_S3", "http://127.0.0.1:4566")  # noqa: TID251 - tests have no other way in


def unique(stem: str) -> str:
    """A name no other test uses: of a bucket, a queue, a topic."""
    return f"{stem}-{uuid.uuid4().hex[:12]}"


def s3(endpoint: str | None = None) -> "S3Client":
    """A client of LocalStack's S3."""
    client: S3Client = client_of("s3", endpoint)
    return client


def sqs(endpoint: str | None = None, *, region: str = REGION) -> "SQSClient":
    """A client of LocalStack's SQS."""
    client: SQSClient = client_of("sqs", endpoint, region=region)
    return client


def sns() -> "SNSClient":
    """A client of LocalStack's SNS."""
    client: SNSClient = client_of("sns")
    return client


def events() -> "EventBridgeClient":
    """A client of LocalStack's EventBridge."""
    client: EventBridgeClient = client_of("events")
    return client


def client_of(service: str, endpoint: str | None = None, *, region: str = REGION) -> Any:
    """A client of one of LocalStack's services, kept; a new one of `endpoint`, as of a proxy."""
    if endpoint is None:
        return _kept_client(service, urlsplit(address()).netloc, region)
    return _new_client(service, urlsplit(endpoint).netloc, region)


def _new_client(service: str, host: str, region: str) -> Any:
    session = Session("test", "test", region_name=region, localstack_host=host)
    return session.client(service, config=Config(s3={"addressing_style": "path"}))


# What waits for something asks many times a second: a client, and a connection, for each is most of its CPU.
_kept_client = cache(_new_client)


def new_queue(stem: str = "queue", attributes: Mapping["QueueAttributeNameType", str] | None = None) -> str:
    """The URL of a new queue; `stem` ending in `.fifo` makes it one."""
    is_fifo = stem.endswith(".fifo")
    name = unique(stem.removesuffix(".fifo")) + (".fifo" if is_fifo else "")
    wanted: dict[QueueAttributeNameType, str] = dict(attributes or {})
    if is_fifo:
        wanted |= {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    return sqs().create_queue(QueueName=name, Attributes=wanted)["QueueUrl"]


def new_bucket(stem: str = "bucket") -> str:
    """The name of a new bucket."""
    name = unique(stem)
    s3().create_bucket(Bucket=name)
    return name


def keys(bucket: str) -> list[str]:
    """The keys of a bucket."""
    pages = s3().get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return [found["Key"] for page in pages for found in page.get("Contents", ())]


def queue_arn(url: str) -> str:
    """The ARN of a queue."""
    return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{url.rsplit('/', 1)[1]}"


@asynccontextmanager
async def aio_client(service: str, endpoint: str | None = None, *, retries: int = 0) -> AsyncIterator[Any]:
    """An aiobotocore client, closed afterwards."""
    config = AioConfig(
        connect_timeout=2,
        read_timeout=30,
        retries={"total_max_attempts": retries + 1, "mode": "standard"},
        s3={"addressing_style": "path"},
    )
    session = get_session()
    async with session.create_client(
        service,
        endpoint_url=endpoint or address(),
        region_name=REGION,
        config=config,
        aws_access_key_id="test",
        aws_secret_access_key="test",
    ) as client:
        yield client
