"""Names show what is in Avro data that are copied, whose schema has no columns; 1.0.0 saw nothing of it."""

import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import fastavro
import pytest

from headrace.conversion.sink_records import sink_records
from headrace.model.sink_entries import GroupingOptions
from headrace.options.settings import Settings
from spark.sink.grouping_options import COPIED_DATA, grouping_options
from tests.headrace.formats.encoding.registry import datum, framed, registry
from tests.headrace.vendors.archive import Record
from tests.spark.sink.grouped import TAIL, tools_after
from tests.support.sink_archives import NOON_MS, kafka_records, sink_settings, written

_REGISTRY: Final = registry()
_AVRO: Final = "io.confluent.connect.avro.AvroConverter"
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_REGION: Final = {"name": "region", "type": "string"}
_UNION: Final = {
    "type": "record",
    "name": "Sale",
    "fields": [
        {"name": "u", "type": ["null", "long", "string"]},
        _REGION,
        {"name": "at", "type": "long"},
    ],
}
_TREE: Final = {
    "type": "record",
    "name": "Tree",
    "fields": [_REGION, {"name": "next", "type": ["null", "Tree"]}],
}
_PLAIN: Final = {"type": "record", "name": "Plain", "fields": [_REGION]}
_SALES: Final = [
    (_UNION, {"u": 1, "region": "eu", "at": NOON_MS}),
    (_UNION, {"u": "a", "region": "us", "at": NOON_MS}),
    (_UNION, {"u": None, "region": "eu", "at": NOON_MS}),
]
_BY_REGION: Final = {"file.name.template": "{{value:region}}/" + TAIL}
_BY_TIME: Final = {
    "file.name.template": "{{date:yyyy-MM-dd}}/" + TAIL,
    "file.name.timestamp.source": "value:at",
}

_Given = list[tuple[Any, Any]]


def _configured(changes: Mapping[str, str]) -> dict[str, str]:
    found = {
        "aws.s3.bucket.name": "bucket",
        "topics": "t",
        "output.format": "avro",
        "file.compression.type": "none",
    }
    for part in ("key", "value"):
        found[f"{part}.converter"] = _AVRO
        found[f"{part}.converter.schema.registry.url"] = _REGISTRY.urls[0]
    return {**found, **changes}


def _settings(changes: Mapping[str, str]) -> Settings:
    return sink_settings(_configured(changes))


def _records(given: _Given) -> list[Record]:
    """Records with the same key and value."""
    return [
        Record(
            topic="t",
            partition=0,
            offset=offset,
            timestamp=0,
            key=framed(_REGISTRY, schema, value, "t-key"),
            value=framed(_REGISTRY, schema, value, "t-value"),
            headers=(),
        )
        for offset, (schema, value) in enumerate(given)
    ]


def _rows(body: bytes) -> list[Any]:
    return list(fastavro.reader(io.BytesIO(body)))


@pytest.mark.parametrize(
    ("name", "more", "given", "expected"),
    [
        ("{{value:u}}", {}, _SALES, {"1": [0], "a": [1], _NULL: [2]}),
        ("{{value:region}}", {}, _SALES, {"eu": [0, 2], "us": [1]}),
        ("{{key:region}}", {}, _SALES, {"eu": [0, 2], "us": [1]}),
        ("{{value:region}}", {"file.name.values": "plain"}, _SALES, {"eu": [0, 2], "us": [1]}),
        ("{{value:region}}", {}, [(_TREE, {"region": "eu", "next": None})], {"eu": [0]}),
        ("{{key}}", {}, [(["int", "string"], each) for each in (1, "a", 2)], {"1": [0], "a": [1], "2": [2]}),
        (
            "{{date:yyyy-MM-dd}}",
            {"file.name.timestamp.source": "value:at"},
            _SALES,
            {"2027-01-15": [0, 1, 2]},
        ),
    ],
)
def test_names_show_what_is_in_data_without_columns(
    name: str, more: Mapping[str, str], given: _Given, expected: Mapping[str, list[int]]
) -> None:
    """And the objects have the data as they were."""
    found = written(_configured({"file.name.template": f"{name}/{TAIL}", **more}), _records(given))

    rows = {key.split("/")[0]: _rows(each.body) for key, each in found.objects.items()}
    assert {key: [row["offset"] for row in each] for key, each in rows.items()} == expected
    values = {row["offset"]: row["value"] for each in rows.values() for row in each}
    assert values == {offset: value for offset, (_, value) in enumerate(given)}


def test_objects_of_keys_keep_the_last_record_of_each() -> None:
    """All under one name, only the last of all would be there."""
    found = written(_configured({"file.name.template": "{{topic}}/{{key:region}}"}), _records(_SALES))
    assert sorted(found.objects) == ["t/eu", "t/us"]


def test_a_value_that_cannot_be_shown_is_in_no_group() -> None:
    """Its enum has no such symbol: the data can be copied, but not a text made of them."""
    colour = {"type": "enum", "name": "Colour", "symbols": ["RED"]}
    exact = {
        "type": "record",
        "name": "Exact",
        "fields": [{"name": "c", "type": [colour, "string"]}, _REGION],
    }
    loose = {**exact, "fields": [{"name": "c", "type": ["int", "string"]}, _REGION]}
    frame = framed(_REGISTRY, exact, {"c": "RED", "region": "eu"}, "t-value")[:5]
    record = _records([(loose, {"c": 5, "region": "eu"})])[0]
    damaged = replace(record, value=frame + datum(loose, {"c": 5, "region": "eu"}))

    found = written(_configured(_BY_REGION), [damaged])

    assert found.stops["t", 0].reason == "name_not_scalar"
    assert list(written(_configured({"file.name.template": TAIL}), [damaged]).objects) == ["t/0/0.avro"]


def _before(settings: Settings) -> GroupingOptions:
    """What the ledger has of this sink as earlier versions ran it."""
    assert settings.sink is not None
    options = grouping_options(settings.sink)
    return GroupingOptions(
        hash="before", options={name: options[name] for name in options if name != COPIED_DATA}
    )


@pytest.mark.parametrize(
    ("changes", "given", "then", "now"),
    [
        (_BY_REGION, _SALES, [_NULL], ["eu", "us"]),
        ({"file.name.template": "{{key:region}}/" + TAIL}, _SALES, [_NULL], ["eu", "us"]),
        (_BY_REGION, [(_PLAIN, {"region": "eu"})], ["eu"], ["eu"]),
        (_BY_TIME, _SALES, [], ["2027-01-15"]),
    ],
)
def test_what_earlier_versions_archived_is_known_by_their_groups(
    changes: Mapping[str, str], given: _Given, then: list[str], now: list[str]
) -> None:
    """By the groups of now they would be archived again, and what was open at the upgrade would be lost."""
    settings = _settings(changes)
    assert settings.sink is not None
    tools = tools_after(_before(settings), settings)
    runs = sink_records(settings.sink).convert(kafka_records(_records(given))).runs

    earlier = tools.earlier["before"]
    assert earlier.converter is None, "only names are others"
    assert [one.group for run in runs for one in earlier.shapes.split(run).parts] == then
    assert [one.group for run in runs for one in tools.shapes.split(run).parts] == now


@pytest.mark.parametrize(
    ("changes", "is_noted"),
    [
        (_BY_REGION, True),
        (_BY_TIME, True),
        ({"file.name.template": "{{topic}}/{{key}}"}, True),
        ({"file.name.template": TAIL}, False),
        ({"file.name.template": "{{date:yyyy}}/" + TAIL}, False),
        (_BY_REGION | {"output.format": "jsonl"}, False),
        (_BY_REGION | {"output.format": "parquet"}, False),
        (_BY_REGION | {"output.layout": "confluent"}, False),
        (_BY_REGION | {"output.fields": "key,offset", "output.format": "avro"}, False),
        (
            {
                "file.name.template": "{{key:region}}/" + TAIL,
                "output.fields": "value",
                "output.envelope": "false",
            },
            False,
        ),
    ],
)
def test_only_names_that_show_copied_data_are_noted(changes: Mapping[str, str], is_noted: bool) -> None:
    """All others keep the hash that they had."""
    sink = _settings(changes).sink
    assert sink is not None
    assert (COPIED_DATA in grouping_options(sink)) is is_noted
