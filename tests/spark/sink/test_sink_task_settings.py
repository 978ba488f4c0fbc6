"""Which options decide into which group a record comes, and which earlier ones can still be followed."""

import json
from collections.abc import Mapping

import pytest

from headrace.model.sink_entries import GroupingOptions
from headrace.options.sink_settings import SinkSettings
from headrace.vendors.load import load
from spark.sink.sink_work import can_group_by, grouping_changed, grouping_hash, grouping_options

_JSON = "org.apache.kafka.connect.json.JsonConverter"
_BY_REGION = "{{value:region}}/{{topic}}/{{partition}}/{{start_offset}}"


def sink(changes: Mapping[str, str]) -> SinkSettings:
    """A sink of orders with these options."""
    options = {
        "name": "archive",
        "bootstrap.servers": "127.0.0.1:9092",
        **({} if "s3.bucket.name" in changes else {"aws.s3.bucket.name": "bucket"}),
        "topics": "orders",
        **changes,
    }
    found = load(
        json.dumps(options), kind="json", environment={"HOME": "/nowhere"}, read_file=lambda path: path
    ).sink
    assert found is not None
    return found


def earlier(changes: Mapping[str, str]) -> GroupingOptions:
    """What the ledger has of a sink with these options."""
    settings = sink(changes)
    return GroupingOptions(hash=grouping_hash(settings), options=grouping_options(settings))


@pytest.mark.parametrize(
    ("changes", "is_same"),
    [
        ({}, True),
        ({"rotate.records": "7", "aws.s3.prefix": "elsewhere/", "output.format": "csv"}, True),
        ({"file.name.template": _BY_REGION}, False),
        ({"file.name.timestamp.source": "wallclock"}, False),
        ({"file.name.timestamp.timezone": "Europe/Berlin"}, False),
        ({"value.converter": _JSON}, False),
        ({"value.converter": _JSON, "value.converter.schemas.enable": "false"}, False),
    ],
)
def test_the_hash_is_of_what_groups_records(changes: Mapping[str, str], is_same: bool) -> None:
    """And of nothing else: a new hash makes every open group an earlier one."""
    assert (grouping_hash(sink(changes)) == grouping_hash(sink({}))) is is_same


@pytest.mark.parametrize(
    ("changes", "is_told"),
    [
        ({}, False),
        ({"file.name.template": "{{topic}}/{{key}}"}, False),
        ({"file.name.template": "{{topic}}/{{key}}", "key.converter": _JSON}, True),
        ({"file.name.template": _BY_REGION}, True),
        ({"file.name.template": _BY_REGION, "file.name.values": "plain"}, False),
    ],
)
def test_groups_of_numbers_are_told_from_those_of_earlier_versions(
    changes: Mapping[str, str], is_told: bool
) -> None:
    """Others have the hash that they had, so that nothing of theirs becomes an earlier group."""
    assert ("file.name.numbers" in grouping_options(sink(changes))) is is_told


@pytest.mark.parametrize(
    ("before", "now", "can"),
    [
        ({}, {"file.name.template": _BY_REGION}, True),
        ({"file.name.template": _BY_REGION}, {}, True),
        ({}, {"value.converter": _JSON}, False),
        ({"key.converter": _JSON}, {}, False),
        (
            {"value.converter": _JSON, "value.converter.schemas.enable": "true"},
            {"value.converter": _JSON, "value.converter.schemas.enable": "false"},
            False,
        ),
    ],
)
def test_earlier_names_can_be_followed_and_earlier_converters_cannot(
    before: Mapping[str, str],
    now: Mapping[str, str],
    can: bool,
) -> None:
    """Records are read as they are now; only then are they grouped as they were."""
    assert can_group_by(earlier(before), sink(now)) is can


@pytest.mark.parametrize(
    ("changes", "advice"),
    [
        ({}, "set them back, let the sink read this partition past offset 8, stop it cleanly once"),
        ({"rotate.on.stop": "false"}, "set them back and set rotate.on.stop=true, let the sink"),
        (
            {
                "connector.class": "io.confluent.connect.s3.S3SinkConnector",
                "s3.bucket.name": "bucket",
                "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
                "value.converter": _JSON,
                "key.converter": _JSON,
                "flush.size": "3",
                "storage.class": "io.confluent.connect.s3.storage.S3Storage",
            },
            "set them back and set rotate.on.stop=true, let the sink",
        ),
    ],
)
def test_the_advice_for_changed_converters_closes_all_objects(
    changes: Mapping[str, str], advice: str
) -> None:
    """Where a stop leaves objects open, and that is in the way; and it can be followed."""
    settings = sink(changes)
    assert advice in grouping_changed(settings, behind=8)
    followed = sink({**changes, "rotate.on.stop": "true"})
    assert followed.rotation.on_stop
    assert grouping_hash(followed) == grouping_hash(settings)
