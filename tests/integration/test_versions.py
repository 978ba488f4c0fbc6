"""Every route that an event can take to the queue, on a bucket with versions.

What versions and overwrites come to is in `tests/simulation/discovery_courses.py`.
"""

import json
from collections.abc import Iterator

import pytest

from bench.stage import Service
from tests.support import aws, kafka
from tests.support.discovery import (
    await_settled,
    log_lines,
    running,
    values_of,
)
from tests.support.service import Route, rows
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def route(tmp_path_factory: pytest.TempPathFactory) -> Route:
    """A versioned bucket that tells by prefix: `sns/` through SNS, `bridge/` through EventBridge."""
    route = Route(
        folder=tmp_path_factory.mktemp("versions"),
        bucket=aws.new_bucket(),
        queue_url=aws.new_queue(),
        topic=kafka.new_topic("route", partitions=2),
    )
    aws.s3().put_bucket_versioning(Bucket=route.bucket, VersioningConfiguration={"Status": "Enabled"})
    connect(route)
    return route


def connect(route: Route) -> None:
    """Configure both routes to the one queue."""
    arn = aws.queue_arn(route.queue_url)
    topic = aws.sns().create_topic(Name=aws.unique("topic"))["TopicArn"]
    aws.sns().subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    rule = aws.unique("rule")
    detail = {"bucket": {"name": [route.bucket]}, "object": {"key": [{"prefix": "bridge/"}]}}
    pattern = {"source": ["aws.s3"], "detail-type": ["Object Created"], "detail": detail}
    aws.events().put_rule(Name=rule, EventPattern=json.dumps(pattern))
    aws.events().put_targets(Rule=rule, Targets=[{"Id": "queue", "Arn": arn}])
    aws.s3().put_bucket_notification_configuration(
        Bucket=route.bucket,
        NotificationConfiguration={
            "TopicConfigurations": [
                {
                    "TopicArn": topic,
                    "Events": ["s3:ObjectCreated:*"],
                    "Filter": {"Key": {"FilterRules": [{"Name": "prefix", "Value": "sns/"}]}},
                }
            ],
            "EventBridgeConfiguration": {},
        },
    )


@pytest.fixture(scope="module")
def service(route: Route) -> Iterator[Service]:
    """A service that begins with what arrives, and lists once, at its start: all else is told by events."""
    options = {"include__existing": False, "sqs__wait__time__seconds": 1}
    with running(route.service(aws.unique("versions"), **options)) as service:
        until_sync(lambda: service.status()["last_full_listing_ms"], seconds=60, what="the first listing")
        yield service


@pytest.fixture
def exact(route: Route, service: Service) -> Iterator[None]:
    """After the test every row is there, once, and the queue is empty."""
    yield
    await_settled(service, route)
    assert route.account() == (0, 0)


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("route_name", ["sns", "bridge"])
@pytest.mark.parametrize("key", ["plain.jsonl", "a b+c%2B=é.jsonl"])
def test_an_upload_told_through_another_service(
    route: Route, service: Service, route_name: str, key: str
) -> None:
    """S3 to SNS to SQS, wrapped, and S3 to EventBridge to SQS: the key as it is, the object once."""
    name = f"{route_name}/{key}"
    content = rows(name, 5)
    route.upload(name, content)
    await_settled(service, route)

    assert values_of(route, name) == content
    assert log_lines(service, "message_left_on_queue") == []
