"""Two buckets and one queue on real services: each object of each bucket is in Kafka once."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import aws, kafka
from tests.support.discovery import log_lines
from tests.support.service import announce, new_route, queue_depth, rows
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]


@pytest.mark.long
def test_a_bucket_joins_another_one_and_a_third_is_missing(tmp_path: Path) -> None:
    """Nothing of the first is read again; a key and content that both have are two objects."""
    first = new_route(tmp_path)
    second = replace(first, bucket=aws.new_bucket())
    announce(second.bucket, second.queue_url)
    missing, name = aws.unique("never-made"), aws.unique("buckets")
    alone = first.service(name, record__headers="source")
    first.upload("same/k.jsonl", rows("same", 10))
    alone.start()
    first.await_rows()
    assert alone.stop() == 0

    second.upload("same/k.jsonl", rows("same", 10))
    buckets = f"{first.bucket},{missing},{second.bucket}"
    both = first.service(name, record__headers="source", aws__s3__bucket__name=buckets)
    both.start()
    for route, stem in ((first, "one"), (second, "two")):
        route.upload("while/running.jsonl", rows(stem, 20))
    first.await_rows()
    until_sync(lambda: queue_depth(first.queue_url) == 0, seconds=60, what="an empty queue")
    shown = both.status()

    assert first.account() == (0, 0)
    assert shown["records_total"] == 50, "what was done before was not read again"
    assert list(shown["problems"]) == [f"bucket {missing}"]
    assert shown["buckets"] == buckets.split(",")
    assert both.stop() == 0
    assert {(line["bucket"], line["key"]) for line in log_lines(both, "object")} == {
        (second.bucket, "same/k.jsonl"),
        (first.bucket, "while/running.jsonl"),
        (second.bucket, "while/running.jsonl"),
    }
    found = {
        ((dict(record.headers or [])["headrace.bucket"] or b"").decode(), record.value)
        for record in kafka.committed(first.topic)
    }
    wanted = {(first.bucket, row) for row in (*rows("same", 10), *rows("one", 20))}
    assert found == wanted | {(second.bucket, row) for row in (*rows("same", 10), *rows("two", 20))}
