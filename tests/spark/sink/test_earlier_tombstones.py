"""What names of tombstones alone show decides groups as well: it is noted, and read again as it was."""

from collections.abc import Mapping
from typing import Final

import pytest

from headrace.conversion.sink_records import sink_records
from headrace.model.sink_entries import GroupingOptions
from headrace.options.sink_settings import SinkSettings
from spark.sink.grouping_options import can_group_by, grouping_hash, grouping_options
from tests.headrace.vendors.archive import Record
from tests.spark.sink.grouped import tools_after
from tests.support.sink_archives import kafka_records, sink_settings

_EACH: Final = "{{topic}}/{{partition}}/{{start_offset}}"
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
_AVRO: Final = {
    "key.converter": "io.confluent.connect.avro.AvroConverter",
    "key.converter.schema.registry.url": "http://127.0.0.1:1",
}


def _options(variable: str, **changes: str) -> dict[str, str]:
    return {
        "aws.s3.bucket.name": "bucket",
        "topics": "t",
        "output.format": "jsonl",
        "file.name.template": _EACH,
        "sidecars": "keys",
        "sidecars.tombstones.template": f"gone/{variable}/{_EACH}",
        "key.converter": _JSON,
        **changes,
    }


def _sink(variable: str, changes: Mapping[str, str]) -> SinkSettings:
    settings = sink_settings(_options(variable, **changes))
    assert settings.sink is not None
    return settings.sink


@pytest.mark.parametrize(
    ("variable", "key", "changes", "shown"),
    [
        ("{{key}}", b"\xff", {"key.converter": _BYTES, "file.name.values": "lenses"}, "\ufffd"),
        ("{{key:a.0}}", b'{"a":[7]}', {"file.name.values": "lenses"}, "7"),
        ("{{key:a}}", b'{"a":12345678901234567.89}', {}, "12345678901234567.89"),
        ("{{key}}", b"12345678901234567.89", {}, "12345678901234567.89"),
    ],
)
def test_tombstones_are_in_the_groups_that_they_were_in(
    variable: str, key: bytes, changes: dict[str, str], shown: str
) -> None:
    """After a change of what is no matter to them; in others what is open would be lost."""
    settings = sink_settings(_options(variable, **changes))
    assert settings.sink is not None
    before = GroupingOptions(hash="before", options=grouping_options(settings.sink))
    tools = tools_after(before, settings)
    record = Record(topic="t", partition=0, offset=0, timestamp=0, key=key, value=None, headers=())
    (run,) = sink_records(settings.sink).convert(kafka_records([record])).runs

    (now,) = tools.shapes.split(run).parts
    assert shown in now.group
    assert [one.group for one in tools.earlier["before"].shapes.split(run).parts] == [now.group]


def test_how_keys_look_in_names_of_tombstones_is_noted() -> None:
    """A date is 2024-01-01 or 19723: with the same hash, groups that are open would get no more records."""
    iso, connect = (_sink("{{key:day}}", _AVRO | {"json.format": style}) for style in ("iso", "connect"))
    assert grouping_hash(iso) != grouping_hash(connect)
    before = GroupingOptions(hash=grouping_hash(iso), options=grouping_options(iso))
    assert can_group_by(before, iso)
    assert not can_group_by(before, connect)


@pytest.mark.parametrize("values", ["escaped", "plain", "lenses"])
def test_tombstones_that_show_nothing_of_keys_note_nothing(values: str) -> None:
    """Their sinks keep the hash that they had."""
    noted = grouping_options(_sink("all", _AVRO | {"file.name.values": values}))
    assert "key.form" not in noted
    assert "file.name.numbers" not in noted
    assert noted["file.name.values"] == ("escaped" if values == "escaped" else "plain")
