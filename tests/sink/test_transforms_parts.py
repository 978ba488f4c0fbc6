"""Transforms on real parts: a chain of two and a predicate, in a sink and in a source."""

import json
from pathlib import Path

import pytest

from tests.sink.archive_account import Archive, new_archive
from tests.support import aws, kafka

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

KAFKA = "org.apache.kafka.connect.transforms."
JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """An empty bucket and an empty topic."""
    return new_archive(tmp_path)


def test_a_sink_routes_and_masks(archive: Archive) -> None:
    """Every record is in one object, under the topic that it was sent to, and tombstones are dropped."""
    archive.produce(
        {"value": None if number % 10 == 0 else b'{"card":"%d","n":%d}' % (number, number)}
        for number in range(1000)
    )
    sink = archive.service(
        aws.unique("sink"),
        value__converter=JSON,
        value__converter__schemas__enable="false",
        transforms="drop,mask,route",
        predicates="isNull",
        **{
            "predicates.isNull.type": KAFKA + "predicates.RecordIsTombstone",
            "transforms.drop.type": KAFKA + "Filter",
            "transforms.drop.predicate": "isNull",
            "transforms.mask.type": KAFKA + "MaskField$Value",
            "transforms.mask.fields": "card",
            "transforms.mask.replacement": "****",
            "transforms.route.type": KAFKA + "RegexRouter",
            "transforms.route.regex": "(.*)",
            "transforms.route.replacement": "masked-$1",
        },
    )
    archive.run(sink)
    found = list(archive.rows())
    assert sorted(row["value"]["n"] for _, row in found) == [n for n in range(1000) if n % 10]
    assert {row["value"]["card"] for _, row in found} == {"****"}
    assert {row["topic"] for _, row in found} == {f"masked-{archive.topic}"}
    assert all(key.startswith(f"masked-{archive.topic}/") for key, _ in found)
    kept = archive.archived()
    assert max(kept.values()) == 1


def test_a_source_takes_keys_from_values_and_routes(archive: Archive) -> None:
    """Records go to the topics that the chain names, in the transactions of their objects."""
    target = kafka.new_topic("routed", partitions=1)
    rows = [{"id": f"k{number}"} for number in range(500)]
    body = "".join(json.dumps(row) + "\n" for row in rows)
    aws.s3().put_object(Bucket=archive.bucket, Key="in/rows.jsonl", Body=body.encode())
    source = archive.service(
        aws.unique("source"),
        connector__class="HeadraceSource",
        topics=None,
        topic=archive.topic,
        file__name__template=".*",
        input__format="jsonl",
        transforms="toKey,key,route",
        predicates="ours",
        **{
            "transforms.toKey.type": KAFKA + "ValueToKey",
            "transforms.toKey.fields": "id",
            "transforms.key.type": KAFKA + "ExtractField$Key",
            "transforms.key.field": "id",
            "predicates.ours.type": KAFKA + "predicates.TopicNameMatches",
            "predicates.ours.pattern": "archived.*",
            "transforms.route.type": KAFKA + "RegexRouter",
            "transforms.route.regex": ".*",
            "transforms.route.replacement": target,
            "transforms.route.predicate": "ours",
        },
    )
    archive.run(source)
    found = list(kafka.committed(target))
    assert [record.key for record in found] == [row["id"].encode() for row in rows]
    assert [json.loads(record.value or b"") for record in found] == rows
    assert list(kafka.committed(archive.topic)) == []
