"""A scene of the test's own on the shared parts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.kafka.admin import KafkaAdmin
from tests.ingest.cli.cli_environment import Scene
from tests.support import kafka
from tests.support.aws import unique


@pytest.fixture
def scene(tmp_path: Path, bucket: str, topic: kafka.TopicFactory, kafka_bootstrap: str) -> Iterator[Scene]:
    """An ingester that never ran, with a bucket and a topic."""
    made = Scene(folder=tmp_path, name=unique("operator"), bucket=bucket, topic=topic())
    yield made
    if KafkaAdmin({"bootstrap.servers": kafka_bootstrap}).has_topic(made.ledger):
        kafka.delete_topic(made.ledger, bootstrap=kafka_bootstrap)
