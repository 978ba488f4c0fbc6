"""The simulated services answer as the real ones do: the same conversation with both."""

import asyncio
import json
import subprocess
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.simulation.conversations import talk_kafka, talk_s3, talk_sqs
from tests.support.aws import unique

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

pytestmark = pytest.mark.parts


@cache
def _simulated() -> Any:
    """What the simulated ones answer, by service, in a process whose clocks and threads are simulated."""
    command = [sys.executable, "-m", "tests.simulation.conversations", "kafka", "s3", "sqs"]  # our own
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _plain(said: Any) -> Any:
    """As it comes out of JSON."""
    return json.loads(json.dumps(list(said)))


def test_kafka(kafka_bootstrap: str) -> None:
    """Transactions, fencing, limits of topics, and what readers get."""
    common: Any = {"bootstrap.servers": kafka_bootstrap, "allow.auto.create.topics": False}
    reader = {"group.id": "none", "enable.partition.eof": True, "auto.offset.reset": "error"}
    opened: list[Consumer] = []

    def consumer(given: dict[str, Any]) -> Consumer:
        opened.append(Consumer({**common, **reader, **given}))
        return opened[-1]

    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    name = unique("conversation")
    try:
        said = _plain(
            talk_kafka(
                name,
                lambda given: Producer({"bootstrap.servers": kafka_bootstrap, **given}),
                consumer,
                admin,
                lambda topic, count, config=None: NewTopic(topic, count, config=config or {}),
            )
        )
    finally:
        for each in opened:
            each.close()
        for future in admin.delete_topics([name, f"{name}-small"]).values():
            future.result(20)

    assert _simulated()["kafka"] == said


def test_s3(s3: "S3Client", bucket: str) -> None:
    """Conditions, ranges, uploads in parts, listings, copies and tags."""
    said = _plain(talk_s3(bucket, s3))

    assert _simulated()["s3"] == said


def test_sqs(sqs: "SQSClient") -> None:
    """Visibility, receipts, deletions, and a queue that is gone."""
    url = sqs.create_queue(QueueName=unique("conversation"))["QueueUrl"]
    client: Any = sqs

    async def ask(operation: str, **given: Any) -> Any:
        return getattr(client, operation)(QueueUrl=url, **given)

    said = asyncio.run(
        talk_sqs(
            ask,
            lambda body: client.send_message(QueueUrl=url, MessageBody=body),
            lambda: client.delete_queue(QueueUrl=url),
        )
    )

    assert _simulated()["sqs"] == _plain(said)
