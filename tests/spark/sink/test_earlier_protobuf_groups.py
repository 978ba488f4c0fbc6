"""Wrappers and decimals of Protobuf: what earlier builds archived is known by the groups it had then."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

import numpy as np
import pytest

from headrace.conversion.sink_records import sink_records
from headrace.formats.records.protobuf_schemas import ProtobufSchema
from headrace.model.columns import TIMESTAMP_CREATED, KafkaRecords, column_of
from headrace.model.sink_entries import GroupingOptions
from headrace.model.sink_protocol import EarlierGroups as ArchivedBefore
from headrace.model.sink_protocol import PartitionGrant
from headrace.options.sink_settings import SinkSettings
from spark.sink.grouping_options import PLAIN_PROTOBUF, can_group_by, grouping_options
from spark.sink.partition_work import PartitionWork
from tests.headrace.formats.encoding.registry import framed_as, registry
from tests.spark.sink.grouped import TAIL, tools_after
from tests.support.sink_archives import sink_settings

_PROTO: Final = (
    'syntax = "proto3"; import "google/protobuf/wrappers.proto"; import "confluent/type/decimal.proto";'
    'import "confluent/meta.proto"; message R { google.protobuf.StringValue region = 1;'
    "confluent.type.Decimal price = 2 [(confluent.field_meta) = {params: [{key:"
    '"scale",value:"2"},{key:"precision",value:"9"}]}]; google.protobuf.Int64Value at = 3;'
    "oneof one { google.protobuf.StringValue chosen = 4; } }"
)
_TYPE: Final = "org.apache.kafka.connect.transforms."
_PROTOBUF: Final = "io.confluent.connect.protobuf.ProtobufConverter"
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_KEYS: Final = {"key.converter": _PROTOBUF}
_BY_TIME: Final = {"file.name.template": "{{date:yyyy-MM-dd}}/" + TAIL}
_AS_KEY: Final = {
    "file.name.template": "{{key}}/" + TAIL,
    "transforms": "k,f",
    "transforms.k.type": _TYPE + "ValueToKey",
    "transforms.k.fields": "price",
    "transforms.f.type": _TYPE + "ExtractField$Key",
    "transforms.f.field": "price",
}
_ROUTE: Final = {"route.a.topics": "t", "route.a.file.name.template": "{{value:region.value}}/" + TAIL}


def _by(variable: str) -> dict[str, str]:
    return {"file.name.template": f"{variable}/{TAIL}"}


def _configured(changes: Mapping[str, str]) -> dict[str, str]:
    own = {"aws.s3.bucket.name": "bucket", "topics": "t", "value.converter": _PROTOBUF, **changes}
    own.setdefault("output.format", "parquet")
    read_by = [name for name in own if name.endswith(".converter")]
    return own | dict.fromkeys((f"{name}.schema.registry.url" for name in read_by), f"mock://r{uuid4().hex}")


def _sink(configured: Mapping[str, str]) -> SinkSettings:
    found = sink_settings(configured).sink
    assert found is not None
    return found


def _before(sink: SinkSettings) -> GroupingOptions:
    """What the ledger has of this sink by a build that did not note how Protobuf is read."""
    noted = grouping_options(sink)
    options = {name: text for name, text in noted.items() if not name.endswith(PLAIN_PROTOBUF)}
    return GroupingOptions(hash="before", options=options)


def _message(**fields: Any) -> bytes:
    from google.protobuf import message_factory

    return bytes(
        message_factory.GetMessageClass(ProtobufSchema(_PROTO, {}).message((0,)))(
            **fields
        ).SerializeToString()
    )


def _fetched(configured: Mapping[str, str], regions: Sequence[str]) -> KafkaRecords:
    settings = registry(configured["value.converter.schema.registry.url"])
    contents = [
        _message(
            region={"value": each},
            price={"value": b"\x64"},
            at={"value": 1735689599999},
            chosen={"value": each},
        )
        for each in regions
    ]
    framed = column_of([framed_as(settings, "PROTOBUF", _PROTO, b"\0" + each) for each in contents])
    count = len(regions)
    return KafkaRecords(
        topic="t",
        partition=3,
        offsets=np.arange(count, dtype=np.int64),
        timestamps_ms=np.zeros(count, np.int64),
        timestamp_types=np.full(count, TIMESTAMP_CREATED, np.int64),
        keys=framed if "key.converter" in configured else column_of([None] * count),
        values=framed,
        headers=None,
    )


@pytest.mark.parametrize(
    ("changes", "then", "now"),
    [
        pytest.param(_by("{{value:region.value}}"), "eu", _NULL, id="a wrapper"),
        pytest.param(_by("{{value:region.value}}") | {"output.format": "jsonl"}, "eu", _NULL, id="in a text"),
        pytest.param(_by("{{value:one_0.chosen.value}}"), "eu", _NULL, id="in a oneof"),
        pytest.param(_by("{{key:region.value}}") | _KEYS, "eu", _NULL, id="of keys"),
        pytest.param(_ROUTE, "eu", _NULL, id="of a route"),
        pytest.param(_by("{{value:price}}"), "1.0", "100.0", id="a decimal"),
        pytest.param(_AS_KEY, "1.0", "100.0", id="a decimal as the key"),
        pytest.param(
            _BY_TIME | {"file.name.timestamp.source": "value:at.value"}, "2024-12-31", None, id="a time"
        ),
    ],
)
def test_records_are_grouped_as_they_were(changes: Mapping[str, str], then: str, now: str | None) -> None:
    """Wrappers were messages, and decimals without a scale had that of their field."""
    configured = _configured(changes)
    sink = _sink(configured)
    before = _before(sink)
    tools = tools_after(before, sink_settings(configured))
    earlier, records = tools.earlier["before"], _fetched(configured, ["eu"])

    def groups(shapes: Any, reader: Any) -> list[str]:
        return [one.group for run in reader.convert(records).runs for one in shapes.split(run).parts]

    assert can_group_by(before, sink)
    assert earlier.converter is not None
    assert groups(earlier.shapes, earlier.converter) == [then]
    assert groups(tools.shapes, tools.converter) == ([] if now is None else [now])


@pytest.mark.parametrize(
    ("variable", "done", "regions", "known"),
    [
        pytest.param("{{value:region.value}}", "us", ["eu", "us"], [1], id="a wrapper"),
        pytest.param("{{value:region.value}}", _NULL, ["eu", "us"], None, id="another group"),
        pytest.param("{{value:price}}", "1.0", ["eu"], [0], id="a decimal"),
    ],
)
def test_what_was_open_is_read_again_and_what_was_complete_is_not(
    variable: str, done: str, regions: list[str], known: list[int] | None
) -> None:
    """By the groups of now the one that is done would be archived twice, or those of another be lost."""
    configured = _configured(_by(variable))
    sink = _sink(configured)
    tools = tools_after(_before(sink), sink_settings(configured))
    archived = ArchivedBefore(options="before", done=((done, 1),))
    grant = PartitionGrant(topic="t", partition=3, topic_id="id", offset=0, highest=1, earlier=(archived,))
    records = _fetched(configured, regions)

    found = PartitionWork(grant, tools)._archived_by_earlier_options(
        records, sink_records(sink).convert(records).runs
    )

    assert (None if found is None or not len(found) else found.tolist()) == known


def test_a_name_that_is_corrected_with_the_upgrade_archives_nothing_twice() -> None:
    """The former name is read as it was."""
    configured = _configured(_by("{{value:region}}"))
    sink = _sink(configured)
    former = {**_before(sink).options, **_before(_sink(_configured(_by("{{value:region.value}}")))).options}
    before = GroupingOptions(hash="before", options=former)
    tools = tools_after(before, sink_settings(configured))
    archived = ArchivedBefore(options="before", done=(("us", 1),))
    grant = PartitionGrant(topic="t", partition=3, topic_id="id", offset=0, highest=1, earlier=(archived,))
    records = _fetched(configured, ["eu", "us"])

    found = PartitionWork(grant, tools)._archived_by_earlier_options(
        records, sink_records(sink).convert(records).runs
    )

    assert can_group_by(before, sink)
    assert found is not None
    assert found.tolist() == [1]


@pytest.mark.parametrize(
    ("changes", "is_noted"),
    [
        (_by("{{value:region}}"), True),
        (_by("{{key:region}}") | _KEYS, True),
        (_by("{{key}}") | _KEYS, True),
        (_BY_TIME | {"file.name.timestamp.source": "value:at"}, True),
        (_AS_KEY, True),
        (_by("{{key}}"), False),
        (_BY_TIME, False),
        ({"file.name.template": TAIL}, False),
        ({"file.name.template": TAIL} | _KEYS, False),
        (_by("{{value:region}}") | {"value.converter": "io.confluent.connect.avro.AvroConverter"}, False),
    ],
)
def test_only_protobuf_that_decides_groups_is_noted(changes: Mapping[str, str], *, is_noted: bool) -> None:
    """All others keep their hash."""
    assert (PLAIN_PROTOBUF in grouping_options(_sink(_configured(changes)))) is is_noted


def test_a_route_notes_it_for_itself() -> None:
    """Its names show a field."""
    options = grouping_options(_sink(_configured(_ROUTE)))
    assert PLAIN_PROTOBUF not in options
    assert options[f"route.a.{PLAIN_PROTOBUF}"] == "plain"


def test_what_is_noted_is_read_as_now() -> None:
    """Nothing is converted twice after a restart of the same build."""
    configured = _configured(_by("{{value:region}}"))
    own = GroupingOptions(hash="own", options=grouping_options(_sink(configured)))
    assert tools_after(own, sink_settings(configured)).earlier["own"].converter is None
