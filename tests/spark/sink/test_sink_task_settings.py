"""Which options decide into which group a record comes, and which earlier ones can still be followed."""

import json
from collections.abc import Mapping

import pytest

from headrace.model.sink_entries import GroupingOptions
from headrace.options.sink_settings import SinkSettings
from headrace.vendors.load import load
from spark.sink.grouping_options import (
    can_group_by,
    grouping_changed,
    grouping_hash,
    grouping_options,
    options_that_keep_open,
)

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


_BY_DAY = {
    "file.name.template": "{{topic}}/{{partition}}/{{value:day}}/{{start_offset}}",
    "value.converter": _JSON,
}
_BY_TIME = {
    "file.name.template": "{{topic}}/{{partition}}/{{timestamp:unit=yyyy}}/{{start_offset}}",
    "file.name.timestamp.source": "value:day",
    "value.converter": _JSON,
}
_PARQUET = {"output.format": "parquet"}
_CONNECT = {"json.format": "connect"}
_AVRO = {
    "value.converter": "io.confluent.connect.avro.AvroConverter",
    "schema.registry.url": "http://127.0.0.1:8081",
}
_ROUTED = {"topics": "orders,payments", "route.r.topics": "payments"}


@pytest.mark.parametrize(
    ("before", "change", "can"),
    [
        (_BY_DAY, _PARQUET, False),
        (_BY_DAY, _CONNECT, True),
        (_BY_DAY, {"output.format": "json"}, True),
        (_BY_DAY | _PARQUET, _CONNECT, False),
        (_BY_DAY | _PARQUET, {"output.format": "avro"}, True),
        (_BY_DAY | {"value.converter.schemas.enable": "false"}, _PARQUET | _CONNECT, True),
        (_BY_DAY | {"file.name.template": "{{topic}}/{{partition}}/{{start_offset}}"}, _PARQUET, True),
        (_BY_TIME, _PARQUET, False),
        (_BY_TIME | {"file.name.timestamp.source": "event"}, _PARQUET, True),
        (_BY_DAY | _AVRO, _CONNECT, False),
        (_BY_DAY | _AVRO | {"file.name.template": "{{topic}}/{{partition}}/{{key:a}}"}, _CONNECT, True),
        (_BY_DAY | _ROUTED, {"route.r.output.format": "parquet"}, False),
        (_BY_DAY | _ROUTED | {"route.r.output.format": "parquet"}, {"route.r.json.format": "connect"}, False),
        (
            _BY_DAY | _ROUTED | {"route.r.file.name.template": "{{topic}}/{{partition}}/{{start_offset}}"},
            {"route.r.output.format": "parquet"},
            True,
        ),
        # Names that show the field no more: what was open is still named by it.
        (_BY_DAY | _PARQUET, {"file.name.template": "{{topic}}/{{partition}}/{{start_offset}}"}, True),
        (
            _BY_DAY | _PARQUET,
            {"file.name.template": "{{topic}}/{{partition}}/{{start_offset}}", **_CONNECT},
            False,
        ),
    ],
)
def test_an_output_that_shows_fields_otherwise_groups_otherwise(
    before: Mapping[str, str], change: Mapping[str, str], can: bool
) -> None:
    """A date is 2024-01-15, or 19737: of what is archived as the one, nothing may come as the other."""
    after = {**before, **change}

    assert can_group_by(earlier(before), sink(after)) is can
    if not can:
        assert grouping_hash(sink(before)) != grouping_hash(sink(after))


def test_an_upgrade_stops_no_partition() -> None:
    """Earlier versions did not note how fields look: the hash is another one, their groups are followed."""
    settings = sink({**_BY_DAY, **_PARQUET})
    noted = grouping_options(settings)
    before = {name: text for name, text in noted.items() if not name.endswith(".form")}

    assert noted.keys() - before.keys() == {"value.form"}
    assert can_group_by(GroupingOptions(hash="before", options=before), settings)


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
            _ROUTED | {"route.r.rotate.on.stop": "false"},
            "set them back and set route.r.rotate.on.stop=true, let the sink",
        ),
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
    assert advice in grouping_changed(settings, topic="payments", behind=8)
    kept = options_that_keep_open(settings)
    followed = sink({**changes, **dict.fromkeys(kept, "true")})
    assert options_that_keep_open(followed) == []
    assert grouping_hash(followed) == grouping_hash(settings)
