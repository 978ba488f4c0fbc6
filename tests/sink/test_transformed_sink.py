"""Transforms in a sink without services: routed topics in names, refused records, and groups by the clock."""

import io
import json
from typing import Any, Final

import fastavro
import pytest

from tests.headrace.vendors.archive import Record
from tests.support.sink_archives import NOON_MS, written

KAFKA: Final = "org.apache.kafka.connect.transforms."
LENSES: Final = "io.lenses.connect.smt.header."
_PLAIN: Final[dict[str, Any]] = {
    "connector.class": "HeadraceSink",
    "aws.s3.bucket.name": "bucket",
    "topics": "orders",
    "file.compression.type": "none",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
_ROUTE: Final = {
    "transforms": "route",
    "transforms.route.type": KAFKA + "TimestampRouter",
}


def records(*values: Any, step_ms: int = 0) -> list[Record]:
    """Records of orders-0 with these JSON values, each `step_ms` after the one before."""
    return [
        Record(
            topic="orders",
            partition=0,
            offset=offset,
            timestamp=NOON_MS + offset * step_ms,
            key=None,
            value=json.dumps(value).encode(),
            headers=(),
        )
        for offset, value in enumerate(values)
    ]


def rows_by_key(found: Any) -> dict[str, list[int]]:
    """The offsets in each object."""
    return {
        key: [json.loads(line)["offset"] for line in each.body.splitlines()]
        for key, each in sorted(found.objects.items())
    }


def rows_of(body: bytes) -> list[Any]:
    """The rows of an object in Avro."""
    return list(fastavro.reader(io.BytesIO(body)))


_CONFLUENT: Final = {
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "name": "archive",
    "topics": "orders",
    "s3.bucket.name": "bucket",
    "flush.size": "1",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "partitioner.class": "io.confluent.connect.storage.partitioner.FieldPartitioner",
    "partition.field.name": "address.city",
}


@pytest.mark.parametrize(
    "transforms", [{}, {"transforms": "f", "transforms.f.type": KAFKA + "Flatten$Value"}]
)
def test_confluents_partitioner_finds_nested_and_flattened_fields(transforms: dict[str, str]) -> None:
    """By one name."""
    rows = [{"address": {"city": city}} for city in ("Berlin", "Paris")]
    found = written({**_CONFLUENT, **transforms}, records(*rows))

    assert sorted(found.objects) == [
        "topics/orders/address.city=Berlin/orders+0+0000000000.json",
        "topics/orders/address.city=Paris/orders+0+0000000001.json",
    ]


@pytest.mark.parametrize("batch", [1, 2, 1000])
def test_names_and_rows_have_the_topic_that_records_go_to(batch: int) -> None:
    """And each topic has objects of its own; offsets are the partition's."""
    found = written({**_PLAIN, **_ROUTE}, records(1, 2, 3, step_ms=43_200_000), batch=batch)
    first, second = "orders-20270115/0/00000000000000000000", "orders-20270116/0/00000000000000000001"
    assert rows_by_key(found) == {f"{first}.headrace.jsonl": [0], f"{second}.headrace.jsonl": [1, 2]}
    assert found.committed == {("orders", 0): 3}
    (row,) = (json.loads(line) for line in found.objects[f"{first}.headrace.jsonl"].body.splitlines())
    assert row["topic"] == "orders-20270115"


def test_a_dropped_record_counts_as_handled() -> None:
    """The committed offset is behind it, though it is in no object."""
    config = {
        **_PLAIN,
        "transforms": "drop",
        "transforms.drop.type": KAFKA + "Filter",
        "transforms.drop.predicate": "all",
        "predicates": "all",
        "predicates.all.type": KAFKA + "predicates.TopicNameMatches",
        "predicates.all.pattern": "orders",
    }
    found = written(config, records(1, 2, 3))
    assert (found.objects, found.committed) == ({}, {("orders", 0): 3})


def test_a_refused_record_stops_its_partition_or_becomes_a_dead_letter() -> None:
    """What stands before it is written."""
    config = {**_PLAIN, "transforms": "mask", "transforms.mask.type": KAFKA + "MaskField$Value"}
    config["transforms.mask.fields"] = "a"
    given = records({"a": 1}, 5, {"a": 2})
    found = written(config, given)
    (stop,) = found.stops.values()
    assert (stop.offset, stop.reason) == (1, "transform_refused")
    assert stop.message == "transform mask: the value is JSON, but no object"
    assert list(rows_by_key(found).values()) == [[0]]
    tolerant = {**config, "errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"}
    found = written(tolerant, given)
    assert [letter.value for letter in found.dead_letters] == [b"5"]
    assert list(rows_by_key(found).values()) == [[0, 2]]


def test_what_stands_before_a_record_that_no_object_takes_is_written() -> None:
    """In whichever group, and however late in the fetch: all records before the stop are in objects."""
    config = {
        **_PLAIN,
        "output.format": "avro",
        "output.fields": "offset,value",
        "file.name.template": "{{value:g}}/{{topic}}/{{partition}}/{{start_offset}}",
    }
    numbers = [{"g": "a", "v": number} for number in range(3)]
    given = records(*numbers, {"g": "a"}, {"g": "b", "v": "y"}, {"g": "a", "v": 10**30})
    found = written(config, given, batch=3)
    (stop,) = found.stops.values()
    assert (stop.offset, stop.reason) == (5, "number_not_exact")
    offsets = {key: [row["offset"] for row in rows_of(each.body)] for key, each in found.objects.items()}
    assert offsets == {"a/orders/0/0": [0, 1, 2, 3], "b/orders/0/4": [4]}


class TestGroupsByTheClock:
    """A header of the wall clock names the group: what is read again comes into another one."""

    CONFIG: Final = {
        **_PLAIN,
        "transforms": "now,kind",
        "transforms.now.type": LENSES + "InsertWallclock",
        "transforms.now.header.name": "now",
        "transforms.now.format": "yyyy-MM-dd-HH",
        "transforms.kind.type": KAFKA + "HeaderFrom$Value",
        "transforms.kind.fields": "k",
        "transforms.kind.headers": "k",
        "transforms.kind.operation": "copy",
        "file.name.template": "{{header:now}}/{{header:k}}/{{topic}}/{{partition}}/{{start_offset}}",
        "rotate.records": "2",
        "rotate.age.ms": "0",
        "rotate.bytes": "0",
        "open.object.max.age.ms": "0",
    }

    def test_all_objects_of_a_partition_close_with_the_first(self) -> None:
        """So that nothing is skipped by its group after a crash: below the offset nothing is open."""
        found = written(self.CONFIG, records({"k": "a"}, {"k": "b"}, {"k": "a"}), batch=1)
        assert rows_by_key(found) == {
            "2027-01-15-12/a/orders/0/0": [0, 2],
            "2027-01-15-12/b/orders/0/1": [1],
        }
        assert found.committed == {("orders", 0): 3}

    def test_what_is_opened_behind_them_stays_open(self) -> None:
        """It does not hold the offset back; else a busy partition would write ever smaller objects."""
        found = written(self.CONFIG, records({"k": "a"}, {"k": "b"}, {"k": "a"}, {"k": "c"}), batch=1)
        assert list(rows_by_key(found).values()) == [[0, 2], [1]]
        assert (found.committed, found.unwritten) == ({("orders", 0): 3}, 1)

    def test_without_a_clock_each_closes_for_itself(self) -> None:
        """The offset waits for the one that is open."""
        config = {name: text for name, text in self.CONFIG.items() if ".now." not in name}
        config |= {"transforms": "kind", "file.name.template": config["file.name.template"][15:]}
        found = written(config, records({"k": "a"}, {"k": "b"}, {"k": "a"}), batch=1)
        assert list(rows_by_key(found).values()) == [[0, 2]]
        assert found.committed == {("orders", 0): 1}
