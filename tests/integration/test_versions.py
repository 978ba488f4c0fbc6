"""Versions and overwrites on a versioned bucket, and every route that an event can take to the queue."""

import json
from collections.abc import Iterator
from typing import Final

import pytest

from bench.stage import Service
from tests.support import aws, kafka
from tests.support.discovery import (
    announce_all,
    await_settled,
    log_lines,
    metric,
    outcomes,
    running,
    values_of,
)
from tests.support.service import Route, rows
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.timeout(300)]

EXISTING: Final = "v/existing.jsonl"


@pytest.fixture(scope="module")
def route(tmp_path_factory: pytest.TempPathFactory) -> Route:
    """A versioned bucket that tells by prefix: `v/` the queue, `sns/` through SNS, `bridge/` EventBridge."""
    route = Route(
        folder=tmp_path_factory.mktemp("versions"),
        bucket=aws.new_bucket(),
        queue_url=aws.new_queue(),
        topic=kafka.new_topic("route", partitions=2),
    )
    aws.s3().put_bucket_versioning(Bucket=route.bucket, VersioningConfiguration={"Status": "Enabled"})
    route.upload(EXISTING, rows("existing", 5), counts=False)
    route.upload("v/quiet.jsonl", rows("quiet", 5), counts=False)
    connect(route)
    return route


def connect(route: Route) -> None:
    """Configure the three routes to the one queue."""
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
            "QueueConfigurations": [
                {
                    "QueueArn": arn,
                    "Events": ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"],
                    "Filter": {"Key": {"FilterRules": [{"Name": "prefix", "Value": "v/"}]}},
                }
            ],
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
def test_what_was_there_before_the_first_start_is_left_alone(service: Service) -> None:
    """`include.existing=false`: the listing passes it over, without an entry."""
    assert service.status()["objects"]["done"] == 0
    assert metric(service, "headrace_objects_total", state="ignored", reason="existing") == 2


@pytest.mark.usefixtures("exact")
def test_an_event_about_what_was_there_is_believed(route: Route, service: Service) -> None:
    """Events are never filtered by age."""
    head = aws.s3().head_object(Bucket=route.bucket, Key=EXISTING)
    announce_all(route, [(EXISTING, head["ETag"].strip('"'), head["ContentLength"])])
    route.uploaded.update(rows("existing", 5))
    await_settled(service, route)

    assert values_of(route, EXISTING) == rows("existing", 5)


@pytest.mark.usefixtures("exact")
def test_every_content_of_a_quick_overwrite(route: Route, service: Service) -> None:
    """Each event names its version, and that version is read, however many came since.

    In which order a standard queue hands out events of one moment is its own business.
    """
    key = "v/overwritten.jsonl"
    contents = [rows(f"overwritten-{number}", 3) for number in range(5)]
    for content in contents:
        route.upload(key, content)
    await_settled(service, route)

    assert sorted(values_of(route, key)) == sorted(row for content in contents for row in content)
    assert outcomes(service, key) == [("done", None)] * 5


@pytest.mark.usefixtures("exact")
def test_a_then_b_then_a_gives_a_and_b(route: Route, service: Service) -> None:
    """The second A has the ETag of the first: a (key, ETag) is ingested once."""
    key = "v/aba.jsonl"
    first, second = rows("aba-a", 3), rows("aba-b", 3)
    route.upload(key, first)
    route.upload(key, second)
    await_settled(service, route)
    route.upload(key, first, counts=False)
    await_settled(service, route)

    assert sorted(values_of(route, key)) == sorted(first + second)


@pytest.mark.usefixtures("exact")
def test_deleted_and_uploaded_again(route: Route, service: Service) -> None:
    """Deleted before it was read, its version is there still; the same bytes again are known, others new."""
    key = "v/again.jsonl"
    first, second = rows("again-1", 3), rows("again-2", 3)
    route.upload(key, first)
    aws.s3().delete_object(Bucket=route.bucket, Key=key)
    route.upload(key, first, counts=False)
    aws.s3().delete_object(Bucket=route.bucket, Key=key)
    await_settled(service, route)
    route.upload(key, second)
    await_settled(service, route)

    assert values_of(route, key) == first + second
    assert metric(service, "headrace_objects_total", state="ignored", reason="removed") >= 2


@pytest.mark.usefixtures("exact")
def test_a_version_that_was_removed_for_good_is_missing_until_it_is_there_again(
    route: Route, service: Service
) -> None:
    """404 is `skipped`, reason `missing`, and not final: the same content in another version is read."""
    key = "v/missing.jsonl"
    content = rows("missing", 3)
    body = b"".join(line + b"\n" for line in content)
    client = aws.s3()
    put = client.put_object(Bucket=route.bucket, Key="elsewhere/missing.jsonl", Body=body)
    # Told of before it is there: the reader gets a 404, as it does for what was deleted since.
    announce_all(route, [(key, put["ETag"].strip('"'), len(body))])
    until_sync(
        lambda: outcomes(service, key) == [("skipped", "missing")], seconds=60, what="a missing object"
    )
    route.upload(key, content)
    await_settled(service, route)

    assert outcomes(service, key) == [("skipped", "missing"), ("done", None)]
    assert values_of(route, key) == content


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
