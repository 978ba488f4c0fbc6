"""Settings for tests against the real parts, from a configuration as a user would write it."""

import json
from collections.abc import Mapping
from types import MappingProxyType

from headrace.options import Settings
from headrace.vendors.load import load
from tests.support import aws


def settings_for(
    *,
    bucket: str,
    queue_url: str | None,
    s3: str | None = None,
    sqs: str | None = None,
    keys: bool = True,
    options: Mapping[str, str] = MappingProxyType({}),
) -> Settings:
    """Settings for a bucket, and a queue if given, of LocalStack (or of proxies before it)."""
    given = {
        "name": "listening",
        "bootstrap.servers": "127.0.0.1:9092",
        "topic": "events",
        "file.name.template": ".*",
        "aws.s3.bucket.name": bucket,
        "aws.s3.endpoint": s3 or aws.address(),
        **({"aws.access.key.id": "test", "aws.secret.access.key": "test"} if keys else {}),
        **({} if queue_url is None else {"sqs.queue.url": queue_url, "sqs.endpoint": sqs or aws.address()}),
        **options,
    }
    return load(json.dumps(given), kind="json", environment={}, read_file=_no_file)


def _no_file(path: str) -> str:
    raise FileNotFoundError(2, "No such file or directory", path)
