"""An ingester of the test's own on the shared broker."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.headrace.kafka.ingester import Ingester
from tests.support.aws import unique
from tests.support.kafka import TopicFactory, delete_topic


@pytest.fixture
def ingester(kafka_bootstrap: str, topic: TopicFactory, tmp_path: Path) -> Iterator[Ingester]:
    """An ingester with a prepared ledger and one output topic."""
    name = unique("ingester")
    with ExitStack() as stack:
        made = Ingester(
            name=name,
            topic=f"{name}-offsets",
            output=topic("output"),
            bootstrap=kafka_bootstrap,
            state_dir=tmp_path / "state",
            stack=stack,
        )
        made.prepare()
        yield made
        made.stop.set()
    if made.admin.has_topic(made.topic):
        delete_topic(made.topic, bootstrap=kafka_bootstrap)
