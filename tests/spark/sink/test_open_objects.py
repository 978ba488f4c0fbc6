"""How many objects of a slot may be open: with our layout, and as many as it bears with another sink's."""

from pathlib import Path
from typing import Any, Final, cast

import pytest
import structlog

from headrace.model.clock import wall_ms
from headrace.model.sink_protocol import PartitionGrant
from spark.sink.partition_work import PartitionWork
from spark.sink.record_feed import close_excess
from tests.headrace.vendors.archive import Record
from tests.support.sink_archives import DrivenTools, kafka_records, sink_settings

_CONNECT: Final = {
    "topics": "t",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
_CONFLUENT: Final = {
    **_CONNECT,
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "s3.bucket.name": "bucket",
    "flush.size": "1000",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    "partitioner.class": "io.confluent.connect.storage.partitioner.FieldPartitioner",
    "partition.field.name": "a",
}
_LENSES: Final = {
    **_CONNECT,
    "connector.class": "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector",
    "connect.s3.kcql": "INSERT INTO bucket SELECT * FROM t PARTITIONBY a",
}
_AIVEN: Final = {
    **_CONNECT,
    "connector.class": "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
    "aws.s3.bucket.name": "bucket",
    "format.output.type": "jsonl",
}
_OWN: Final = {
    **_CONNECT,
    "aws.s3.bucket.name": "bucket",
    "file.name.template": "{{value:a}}/{{topic}}/{{partition}}/{{start_offset}}{{extension}}",
}
_GIVEN: Final = {"max.open.files": "2"}
_EARLY: Final = "objects_closed_early"


@pytest.mark.parametrize(
    ("config", "most", "is_said"),
    [
        (_OWN, 10_000, False),
        (_OWN | _GIVEN, 2, False),
        (_CONFLUENT, 100_000, False),
        (_CONFLUENT | _GIVEN, 2, True),
        (_CONFLUENT | {"max.open.files": "10000"}, 10_000, True),
        (_CONFLUENT | {"output.layout": "headrace"}, 10_000, False),
        (_LENSES, 100_000, False),
        (_LENSES | _GIVEN, 2, True),
        (_AIVEN, 100_000, False),
        (_OWN | {"output.layout": "quix", "output.format": "json"}, 100_000, False),
    ],
)
def test_objects_of_another_sinks_layout_close_by_its_triggers(
    config: dict[str, str], most: int, *, is_said: bool
) -> None:
    """Ten thousand were the most, in silence: above it came bursts of tiny objects. What is given wins."""
    settings = sink_settings(config)
    assert settings.sink is not None
    assert settings.sink.buffer.max_open_objects == most
    assert any(each.startswith("max.open.files=") for each in settings.warnings) is is_said


def test_a_route_has_the_limit_of_its_own_layout() -> None:
    """The other topics have that of theirs."""
    settings = sink_settings(
        _OWN
        | {
            "topics": "t,u",
            "route.r.topics": "u",
            "route.r.output.layout": "confluent",
            "route.r.file.name.template": "{{topic}}+{{partition}}+{{start_offset}}",
        }
    )
    assert settings.sink is not None
    route = settings.sink.route("u")
    assert route is not None
    assert (settings.sink.buffer.max_open_objects, route.sink.buffer.max_open_objects) == (10_000, 100_000)


class _Objects:
    """Those of a partition: it has so many open, the oldest since its number."""

    def __init__(self, opened: int, since: int) -> None:
        self.open_count = opened
        self._since = since

    @property
    def oldest_open_ms(self) -> int | None:
        return self._since if self.open_count else None

    def close_oldest(self) -> None:
        self.open_count -= 1


class _Work:
    def __init__(self, most: int, opened: int, since: int) -> None:
        self.max_open_objects = most
        self.objects = _Objects(opened, since)


def test_each_limit_is_for_those_that_have_it() -> None:
    """A partition with many open ones by another limit closes none of the others."""
    works = [_Work(2, 3, 5), _Work(2, 1, 6), _Work(10, 9, 1)]
    close_excess(cast("Any", works))
    assert [work.objects.open_count for work in works] == [1, 1, 9]


@pytest.mark.parametrize("config", [_CONFLUENT, _LENSES])
def test_what_closes_before_its_triggers_is_said(config: dict[str, str], tmp_path: Path) -> None:
    """Above what is given all that is open of the partition closes, and the log says so once an hour."""
    made = DrivenTools(config | _GIVEN, tmp_path)
    records = [
        Record(
            topic="t",
            partition=0,
            offset=offset,
            timestamp=0,
            key=b"k",
            value=b'{"a":"%d"}' % offset,
            headers=(),
        )
        for offset in range(6)
    ]
    try:
        grant = PartitionGrant(topic="t", partition=0, topic_id="id", offset=0)
        work = PartitionWork(grant, made.tools.for_topic("t"))
        with structlog.testing.capture_logs() as logs:
            for first in (0, 3):
                work.add(kafka_records(records[first : first + 2]), wall_ms())
                close_excess([work])
                assert work.objects.open_count == 2
                work.add(kafka_records(records[first + 2 : first + 3]), wall_ms())
                close_excess([work])
                assert work.objects.open_count == 0
        said = [each for each in logs if each["event"] == _EARLY]
        assert len(said) == 1
        assert "max.open.files" in said[0]["detail"]
    finally:
        made.close()
