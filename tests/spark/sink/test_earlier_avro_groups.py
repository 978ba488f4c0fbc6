"""Nulls in Avro behind transforms: what earlier versions archived is known by the defaults that they took."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

import numpy as np
import pytest

from headrace.conversion.sink_records import sink_records
from headrace.model.columns import TIMESTAMP_CREATED, KafkaRecords, column_of
from headrace.model.sink_entries import GroupingOptions
from headrace.model.sink_protocol import EarlierGroups as ArchivedBefore
from headrace.model.sink_protocol import PartitionGrant
from headrace.options.sink_settings import SinkSettings
from spark.sink.grouping_options import FILLED_DEFAULTS, can_group_by, grouping_options
from spark.sink.partition_work import PartitionWork
from tests.headrace.formats.encoding.registry import framed, registry
from tests.spark.sink.grouped import TAIL, tools_after
from tests.support.sink_archives import sink_settings

_TYPE: Final = "org.apache.kafka.connect.transforms."
_AVRO: Final = "io.confluent.connect.avro.AvroConverter"
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_BY_REGION: Final = {"file.name.template": "{{value:region}}/" + TAIL}
_EXCLUDE: Final = {
    "transforms": "r",
    "transforms.r.type": _TYPE + "ReplaceField$Value",
    "transforms.r.exclude": "id",
}
_EXCLUDE_OF_KEYS: Final = {
    **_EXCLUDE,
    "transforms.r.type": _TYPE + "ReplaceField$Key",
    "key.converter": _AVRO,
}
_KEPT: Final = {**_EXCLUDE, "transforms.r.replace.null.with.default": "false"}
_HOIST: Final = {
    "transforms": "r",
    "transforms.r.type": _TYPE + "HoistField$Value",
    "transforms.r.field": "region",
}
_AS_KEY: Final = {
    "file.name.template": "{{key}}/" + TAIL,
    "transforms": "k,f",
    "transforms.k.type": _TYPE + "ValueToKey",
    "transforms.k.fields": "region",
    "transforms.f.type": _TYPE + "ExtractField$Key",
    "transforms.f.field": "region",
}
_AS_HEADER: Final = {
    "file.name.template": "{{header:h}}/" + TAIL,
    "transforms": "h",
    "transforms.h.type": _TYPE + "HeaderFrom$Value",
    "transforms.h.fields": "region",
    "transforms.h.headers": "h",
    "transforms.h.operation": "copy",
}
# Noted by the builds between 1.0.0 and the first that notes defaults; they took those of Connect's first.
_BETWEEN: Final = {"value.form": "columns:iso"}
_OF_CONNECT: Final = {"type": "string", "connect.default": "us"}


def _configured(changes: Mapping[str, str]) -> dict[str, str]:
    """Options with a registry of their own, for keys too where they are read by it."""
    own = {"aws.s3.bucket.name": "bucket", "topics": "t", "value.converter": _AVRO, **changes}
    read_by = [name for name in own if name.endswith(".converter")]
    return own | dict.fromkeys((f"{name}.schema.registry.url" for name in read_by), f"mock://r{uuid4().hex}")


def _sink(configured: Mapping[str, str]) -> SinkSettings:
    found = sink_settings(configured).sink
    assert found is not None
    return found


def _before(sink: SinkSettings, noted: Mapping[str, str]) -> GroupingOptions:
    """What the ledger has of this sink by a version that did not note defaults."""
    unknown = {FILLED_DEFAULTS, "file.name.numbers", "value.form", "transforms"}
    options = {name: text for name, text in grouping_options(sink).items() if name not in unknown}
    return GroupingOptions(hash="before", options={**options, "transforms": sink.transforms.text, **noted})


def _fetched(configured: Mapping[str, str], *regions: tuple[dict[str, Any], str | None]) -> KafkaRecords:
    """Records whose field `region` has these types and defaults, and these values."""
    settings = registry(configured["value.converter.schema.registry.url"])
    values = []
    for kind, region in regions:
        fields = [{"name": "id", "type": "int"}, {"name": "region", **kind}]
        schema = {"type": "record", "name": "R", "fields": fields}
        values.append(framed(settings, schema, {"id": 1, "region": region}))
    count = len(values)
    return KafkaRecords(
        topic="t",
        partition=3,
        offsets=np.arange(count, dtype=np.int64),
        timestamps_ms=np.zeros(count, np.int64),
        timestamp_types=np.full(count, TIMESTAMP_CREATED, np.int64),
        keys=column_of([None] * count),
        values=column_of(values),
        headers=None,
    )


_OWN: Final = {"type": ["string", "null"], "default": "eu"}
_BOTH: Final = {"type": [_OF_CONNECT, "null"], "default": "eu"}
_OTHER: Final = {"type": ["null", _OF_CONNECT], "default": None}
_NONE: Final = {"type": ["null", "string"]}


@pytest.mark.parametrize(
    ("changes", "noted", "kind", "then", "now"),
    [
        pytest.param(_BY_REGION | _EXCLUDE, {}, _OWN, "eu", _NULL, id="1.0.0"),
        pytest.param(_BY_REGION | _EXCLUDE, {}, _BOTH, "eu", "us", id="1.0.0, of both"),
        pytest.param(_BY_REGION | _EXCLUDE, {}, _OTHER, _NULL, "us", id="1.0.0, of Connect"),
        pytest.param(_BY_REGION | _EXCLUDE, _BETWEEN, _OWN, "eu", _NULL, id="between"),
        pytest.param(_BY_REGION | _EXCLUDE, _BETWEEN, _BOTH, "us", "us", id="between, of both"),
        pytest.param(_BY_REGION | _EXCLUDE, _BETWEEN, _OTHER, "us", "us", id="between, of Connect"),
        pytest.param(_AS_KEY, {}, _OWN, "eu", _NULL, id="as the key"),
        pytest.param(_AS_HEADER, {}, _OWN, "eu", _NULL, id="as a header"),
        pytest.param(_BY_REGION | _KEPT, {}, _OWN, _NULL, _NULL, id="kept"),
    ],
)
def test_a_null_is_grouped_as_it_was(
    changes: Mapping[str, str],
    noted: Mapping[str, str],
    kind: dict[str, Any],
    then: str,
    now: str,
) -> None:
    """1.0.0 read the default of a field in Avro alone, later builds that of its type in Connect first."""
    configured = _configured(changes)
    sink = _sink(configured)
    before = _before(sink, noted)
    tools = tools_after(before, sink_settings(configured))
    earlier, records = tools.earlier["before"], _fetched(configured, (kind, None))

    assert can_group_by(before, sink)
    for reader, shapes, group in (
        (earlier.converter, earlier.shapes, then),
        (None, tools.shapes, now),
    ):
        runs = (reader or sink_records(sink)).convert(records).runs
        assert [one.group for run in runs for one in shapes.split(run).parts] == [group]


@pytest.mark.parametrize(
    ("done", "regions", "known"),
    [
        pytest.param("eu", [(_OWN, None), (_OWN, "eu")], [0, 1], id="archived"),
        pytest.param(_NULL, [(_OWN, None), (_NONE, None)], [1], id="open"),
        pytest.param("us", [(_OTHER, None), (_OTHER, "us")], [1], id="of Connect"),
    ],
)
def test_what_was_open_is_read_again_and_what_was_complete_is_not(
    done: str, regions: list[tuple[dict[str, Any], str | None]], known: list[int]
) -> None:
    """By the groups of now the first would be archived twice, or be lost."""
    configured = _configured(_BY_REGION | _EXCLUDE)
    sink = _sink(configured)
    tools = tools_after(_before(sink, {}), sink_settings(configured))
    earlier = ArchivedBefore(options="before", done=((done, 1),))
    grant = PartitionGrant(topic="t", partition=3, topic_id="id", offset=0, highest=1, earlier=(earlier,))
    work, records = PartitionWork(grant, tools), _fetched(configured, *regions)

    archived = work._archived_by_earlier_options(records, sink_records(sink).convert(records).runs)

    assert archived is not None
    assert archived.tolist() == known


@pytest.mark.parametrize(
    ("changes", "is_noted"),
    [
        (_BY_REGION | _EXCLUDE, True),
        (_AS_KEY, True),
        (_AS_HEADER, True),
        (
            _EXCLUDE
            | {"file.name.template": "{{date:yyyy}}/" + TAIL, "file.name.timestamp.source": "value:at"},
            True,
        ),
        (_EXCLUDE, False),
        (_EXCLUDE | {"file.name.template": "{{date:yyyy}}/" + TAIL}, False),
        (_BY_REGION, False),
        (_BY_REGION | _KEPT, False),
        (_BY_REGION | _HOIST, False),
        (_BY_REGION | _EXCLUDE_OF_KEYS, False),
        (_EXCLUDE | {"file.name.template": "{{key}}/" + TAIL}, False),
        (_EXCLUDE_OF_KEYS | {"file.name.template": "{{key}}/" + TAIL}, True),
        (_BY_REGION | _EXCLUDE | {"value.converter": _AVRO.replace("avro.Avro", "protobuf.Protobuf")}, False),
    ],
)
def test_only_nulls_that_decide_groups_are_noted(changes: Mapping[str, str], *, is_noted: bool) -> None:
    """1.0.0 had no other converter of a registry; all others keep the hash that it gave them."""
    assert (FILLED_DEFAULTS in grouping_options(_sink(_configured(changes)))) is is_noted
