"""Options that Connect has for every connector: those that decide nothing here are taken by ours, too."""

import pytest

from headrace.options.declarations.option import WITHOUT_MEANING
from tests.headrace.options.loading import load_with

_OF_CONNECT = (
    "config.action.reload",
    "tasks.max.enforce",
    "connector.plugin.version",
    "key.converter.plugin.version",
    "value.converter.plugin.version",
    "header.converter.plugin.version",
    "errors.log.include.messages",
    "errors.retry.timeout",
    "errors.deadletterqueue.context.headers.enable",
    "transaction.boundary",
)
_SINK = {
    "aws.access.key.id": None,
    "aws.secret.access.key": None,
    "aws.s3.prefix": None,
    "file.name.template": None,
    "topic": None,
    "input.format": None,
    "topics": "events",
}


@pytest.mark.parametrize(
    "own",
    [
        {"connector.class": "HeadraceSource"},
        {"connector.class": None},
        {"connector.class": "io.aiven.kafka.connect.s3.source.S3SourceConnector"},
        {"connector.class": "HeadraceSink", **_SINK},
        {"connector.class": None, **_SINK},
    ],
)
def test_connects_options_for_every_connector_are_taken(own: dict[str, str | None]) -> None:
    """With one warning that has all of them."""
    assert set(_OF_CONNECT) <= set(WITHOUT_MEANING)
    found = load_with({**own, **dict.fromkeys(_OF_CONNECT, "1")})
    ignored = [one for one in found.warnings if "accepted without a meaning" in one]
    assert ignored == [f"accepted without a meaning here: {', '.join(sorted(_OF_CONNECT))}"]


@pytest.mark.parametrize("name", [None, "io.aiven.kafka.connect.s3.source.S3SourceConnector"])
def test_the_longest_pause_bounds_the_first_one(name: str | None) -> None:
    """It is Connect's option: the first pause is an option that nobody wrote."""
    found = load_with({"connector.class": name, "errors.retry.delay.max.ms": "1"})
    assert (found.errors.retry_delay_ms, found.errors.retry_delay_max_ms) == (1, 1)
