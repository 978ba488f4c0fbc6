import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.docs.pages import PAGES, ROOT, Found, blocks, commands
from tests.docs.walk import NOT_RUN, Walk
from tests.support import aws, kafka

pytestmark = [pytest.mark.parts, pytest.mark.long, pytest.mark.timeout(900)]

ORDERS: Final = {
    "aws.s3.prefix": "orders/",
    "sqs.queue.url": "",
    "file.name.template": ".*",
    "input.format": "jsonl",
}
# As the connector's own documentation has it; credentials, names and the broker are given by the walk.
AIVEN: Final = {
    "connector.class": "io.aiven.kafka.connect.s3.source.S3SourceConnector",
    "aws.s3.prefix": "orders/",
    "aws.credentials.provider": "software.amazon.awssdk.auth.credentials.AwsCredentialsProviderChain",
    "file.name.template": ".*",
    "tasks.max": 1,
    "poll.interval.ms": 10000,
    "error.tolerance": "all",
    "input.format": "jsonl",
}
GOOD: Final = b'{"id":1}\n{"id":2}\n'
BAD: Final = b'{"id":3}\n{"id":4, oops\n{"id":5}\n'
QUARANTINED: Final = "headrace status orders.json --state quarantined"


def _page(name: str) -> Path:
    return ROOT / "docs" / name


@pytest.fixture
def walk(tmp_path: Path, kafka_bootstrap: str, s3_endpoint: str) -> Iterator[Walk]:
    """A reader in an empty folder, who leaves nothing running."""
    made = Walk(folder=tmp_path, bootstrap=kafka_bootstrap, endpoint=s3_endpoint)
    yield made
    made.close()


def _follow(walk: Walk, page: Path) -> None:
    for found in commands(page):
        walk.do(found)
    walk.stop()


def test_the_quick_start(walk: Walk) -> None:
    """Word for word: the page's own configuration, its files, its broken line and its repair."""
    page = _page("quick-start.md")
    configuration = next(block for block in blocks(page) if block.language == "json")
    walk.write("orders.json", json.loads(configuration.text))
    walk.stop_before = ("headrace replay orders.json --yes",)
    walk.expect = {
        "headrace explain orders.json orders/2026/01/31/part-0001.jsonl": f"topic {walk.topic}",
        "headrace plan orders.json": "1 (",
        "python -m bench.peek orders": '{"id": 12345678901234567890, "amount": 12}',
        QUARANTINED: "not_json",
        "headrace replay orders.json --dry-run": "1 object",
        "python -m bench.peek orders-bad": "oops",
    }

    _follow(walk, page)

    values = [record.value or b"" for record in kafka.committed(walk.topic)]
    assert sorted(values) == sorted(
        [
            b'{"id": 1, "amount": 867.90}',
            b'{"id": 12345678901234567890, "amount": 12}',
            b'{"id": 3}',
            b'{"id": 5}',
        ]
    )


def test_running_it(walk: Walk, own_broker: kafka.BrokerFactory) -> None:
    """A quarantined object is there to be dealt with; the other cluster is a broker of its own."""
    aws.s3().create_bucket(Bucket=walk.bucket)
    aws.s3().put_object(Bucket=walk.bucket, Key="orders/good.jsonl", Body=GOOD)
    aws.s3().put_object(Bucket=walk.bucket, Key="orders/2026/01/31/part-0001.jsonl", Body=BAD)
    file = walk.write("orders.json", ORDERS)
    _run(walk, f"headrace setup {file}")
    other = own_broker()
    moved = json.loads(file.read_text()) | {"bootstrap.servers": other.bootstrap, "state.dir": "moved"}
    (walk.folder / "moved.json").write_text(json.dumps(moved))
    walk.expect = {"headrace replay orders.json --dry-run": "1 object"}

    _follow(walk, _page("operations.md"))

    # Nothing was read again on the other cluster.
    assert kafka.read_committed(walk.topic, bootstrap=other.bootstrap) == []


def test_moving_from_aiven(walk: Walk) -> None:
    """Every command of the page, on a configuration as the connector has it."""
    aws.s3().create_bucket(Bucket=walk.bucket)
    aws.s3().put_object(Bucket=walk.bucket, Key="orders/2026/01/31/part-0001.jsonl", Body=GOOD)
    walk.write("connector.json", AIVEN)
    admin = AdminClient({"bootstrap.servers": walk.bootstrap})
    admin.create_topics([NewTopic(walk.topic, 1, 1)])[walk.topic].result(60)
    walk.expect = {
        "headrace explain connector.json orders/2026/01/31/part-0001.jsonl": f"topic {walk.topic}",
        "headrace mark connector.json --until 2026-01-31T08:30:00Z --dry-run": "1 object",
    }

    _follow(walk, _page("moving-from-aiven.md"))

    assert kafka.read_committed(walk.topic) == []


OTHERS: Final = [
    page
    for page in PAGES
    # tests/ingest/connect does what worker.md says, with a worker of its own.
    if page.name not in {"quick-start.md", "operations.md", "moving-from-aiven.md", "worker.md"}
    and any(not found.text.startswith(tuple(NOT_RUN)) for found in commands(page))
]


@pytest.mark.parametrize("page", OTHERS, ids=lambda page: page.name)
def test_the_commands_of_every_other_page(walk: Walk, page: Path) -> None:
    """On an ingester called orders that has a bucket with two objects."""
    aws.s3().create_bucket(Bucket=walk.bucket)
    for key in ("orders/2026/01/31/part-0001.jsonl", "orders/good.jsonl"):
        aws.s3().put_object(Bucket=walk.bucket, Key=key, Body=GOOD)
    file = walk.write("orders.json", ORDERS)
    _run(walk, f"headrace setup {file}")
    if page.name == "rest.md":
        # Its offsets are saved and brought back, so there have to be some.
        _run(walk, f"headrace run {file} --until-idle")

    _follow(walk, page)


def _run(walk: Walk, line: str) -> None:
    walk.do(Found(page=ROOT / "README.md", line=0, text=line))
