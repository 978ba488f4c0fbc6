"""Where the queue's SQS answers when the configuration does not say."""

import pytest

from tests.ingest.settings.loading import load_with


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
