"""Where the queue's SQS answers when the configuration does not say."""

import pytest

from headrace.options import describe
from tests.headrace.options.loading import load_with


@pytest.mark.parametrize(
    ("queue_url", "given", "endpoint"),
    [
        pytest.param("https://sqs.eu-west-1.amazonaws.com/1/q", {}, None, id="Amazon's own"),
        pytest.param("https://sqs.cn-north-1.amazonaws.com.cn/1/q", {}, None, id="Amazon's in China"),
        pytest.param("http://127.0.0.1:4566/queue/us-east-1/1/q", {}, "http://127.0.0.1:4566", id="another"),
        pytest.param(
            "http://127.0.0.1:4566/1/q", {"sqs.endpoint": "http://proxy:1"}, "http://proxy:1", id="given"
        ),
    ],
)
def test_another_sqs_is_found_by_the_url_of_its_queue(
    queue_url: str, given: dict[str, str], endpoint: str | None
) -> None:
    """Asking Amazon for a queue of LocalStack fails for ever, however right the URL is."""
    sqs = load_with({"sqs.queue.url": queue_url, **given}).sqs

    assert sqs is not None
    assert sqs.endpoint == endpoint


@pytest.mark.parametrize(
    ("queue_url", "region"),
    [
        ("https://sqs.eu-central-1.amazonaws.com/1/q", "eu-central-1"),
        ("https://sqs.cn-north-1.amazonaws.com.cn/1/q", "cn-north-1"),
        ("https://sqs.us-gov-west-1.amazonaws.com/1/q", "us-gov-west-1"),
        ("https://sqs-fips.us-east-2.amazonaws.com/1/q", "us-east-2"),
        ("https://sqs.ap-southeast-2.api.aws/1/q", "ap-southeast-2"),
        ("https://eu-west-1.queue.amazonaws.com/1/q", "eu-west-1"),
        ("https://vpce-0a1b-xyz.sqs.eu-west-3.vpce.amazonaws.com/1/q", "eu-west-3"),
        ("http://sqs.eu-north-1.localhost.localstack.cloud:4566/1/q", "eu-north-1"),
        ("http://127.0.0.1:4566/queue/eu-west-2/1/q", "eu-west-2"),
        ("https://queue.amazonaws.com/1/q", "sa-east-1"),
        ("http://127.0.0.1:4566/1/q", "sa-east-1"),
        ("http://elasticmq:9324/queue/orders", "sa-east-1"),
    ],
)
def test_a_queue_is_asked_in_the_region_that_its_url_names(queue_url: str, region: str) -> None:
    """Signed for the bucket's region every request would be refused; without a name it is the bucket's."""
    given = {"sqs.queue.url": queue_url, "aws.s3.region": "sa-east-1"}
    settings = load_with(given)
    assert settings.sqs is not None
    assert settings.sqs.region == describe(settings)["sqs.region"] == region

    explicit = load_with({**given, "sqs.region": "ca-central-1"})
    assert explicit.sqs is not None
    assert explicit.sqs.region == "ca-central-1"
