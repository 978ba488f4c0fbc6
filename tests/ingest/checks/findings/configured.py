"""Settings of a complete configuration with some options changed."""

import json
from collections.abc import Mapping

from headrace.options import Settings
from headrace.vendors.load import load

_COMPLETE: Mapping[str, str] = {
    "name": "uploads",
    "bootstrap.servers": "127.0.0.1:9092",
    "aws.s3.bucket.name": "bucket",
    "sqs.queue.url": "https://sqs.us-east-1.amazonaws.com/123456789012/queue",
    "topic": "events",
    "file.name.template": ".*",
}


def configured(changes: Mapping[str, str | None] | None = None) -> Settings:
    """The settings; an option that is None is left out."""
    options = {**_COMPLETE, **(changes or {})}
    given = {name: value for name, value in options.items() if value is not None}
    return load(json.dumps(given), kind="json", environment={}, read_file=lambda path: path)
