"""End to end on real services: what is uploaded is in Kafka, once."""

import gzip
import json
from collections.abc import Iterator

import pytest

from bench.stage import Service
from tests.support import aws, kafka
from tests.support.service import Road, new_road, queue_depth, rows, send_event
from tests.support.until import until_sync

pytestmark = pytest.mark.parts


@pytest.fixture(scope="module")
def road(tmp_path_factory: pytest.TempPathFactory) -> Road:
    """A road with objects from before the start."""
    made = new_road(tmp_path_factory.mktemp("road"))
    made.upload("before/start.jsonl", rows("before", 100))
    return made


@pytest.fixture(scope="module")
def service(road: Road) -> Iterator[Service]:
    """The service on that road, for all tests of this module."""
    made = road.service(aws.unique("road"))
    made.start()
    yield made
    assert made.stop() == 0


@pytest.fixture
def exact(road: Road, service: Service) -> Iterator[None]:  # noqa: ARG001 - it has to run
    """After the test: every row of the road is there, none twice, and the queue is empty."""
    yield
    road.await_rows()
    until_sync(lambda: queue_depth(road.queue_url) == 0, seconds=30, what="an empty queue")
    assert road.account() == (0, 0)


@pytest.mark.usefixtures("exact")
def test_what_was_there_before_the_start_is_found_by_listing(road: Road) -> None:
    """No event of this service's time told of it."""
    road.await_rows()


@pytest.mark.usefixtures("exact")
def test_an_upload_while_it_runs_arrives(road: Road) -> None:
    """The reason for all of it."""
    road.upload("while/running.jsonl", rows("while", 1000))


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("key", ["a b.jsonl", "a+b.jsonl", "100%.jsonl", "a=b.jsonl", "é.jsonl", "%2B.jsonl"])
def test_a_key_arrives_as_it_is_written(road: Road, key: str) -> None:
    """Keys are form-encoded in events and must be decoded once; the record's key is the object's."""
    row = b'{"key":"%s"}' % key.encode()
    road.upload(f"keys/{key}", [row])
    road.await_rows()

    keys = [record.key for record in kafka.committed(road.topic) if record.value == row]
    assert keys == [f"keys/{key}".encode()]


@pytest.mark.usefixtures("exact")
def test_the_same_object_announced_three_times_is_read_once(road: Road) -> None:
    """SQS delivers at least once, and S3 itself repeats events."""
    road.upload("thrice.jsonl", rows("thrice", 10))
    head = aws.s3().head_object(Bucket=road.bucket, Key="thrice.jsonl")
    for _ in range(3):
        send_event(
            road.queue_url, road.bucket, [("thrice.jsonl", head["ETag"].strip('"'), head["ContentLength"])]
        )


@pytest.mark.usefixtures("exact")
def test_several_objects_in_one_message_settle_together(road: Road) -> None:
    """A message may be deleted only when every object it names is done."""
    named = []
    for number in range(5):
        key = f"together/{number}.jsonl"
        road.upload(key, rows(f"together-{number}", 10))
        head = aws.s3().head_object(Bucket=road.bucket, Key=key)
        named.append((key, head["ETag"].strip('"'), head["ContentLength"]))
    send_event(road.queue_url, road.bucket, named)


@pytest.mark.usefixtures("exact")
def test_a_zero_byte_object_is_skipped_and_its_message_settled(road: Road, service: Service) -> None:
    """It gives nothing, and must not come again either."""
    before = service.status()["objects"]["skipped"]
    aws.s3().put_object(Bucket=road.bucket, Key="empty.jsonl", Body=b"")

    until_sync(lambda: service.status()["objects"]["skipped"] == before + 1, seconds=30, what="a skipped one")


@pytest.mark.usefixtures("exact")
def test_an_overwrite_with_new_content_is_read_again(road: Road) -> None:
    """Another ETag is another object: both contents, once each."""
    road.upload("overwritten.jsonl", rows("first", 10))
    road.await_rows()
    road.upload("overwritten.jsonl", rows("second", 10))


@pytest.mark.usefixtures("exact")
def test_gzip_is_told_by_its_first_bytes(road: Road) -> None:
    """The key says nothing of it."""
    lines = rows("zipped", 1000)
    body = gzip.compress(b"\n".join(lines))
    aws.s3().put_object(Bucket=road.bucket, Key="zipped.jsonl", Body=body)
    road.uploaded.update(lines)


def test_each_finished_object_has_one_line_in_the_log(road: Road, service: Service) -> None:
    """The canonical line: who, where to, how many, how long, how it ended."""
    road.await_rows()
    lines = [json.loads(line) for line in service.log.read_text().splitlines() if line.startswith("{")]
    found = [line for line in lines if line["event"] == "object" and line["key"] == "before/start.jsonl"]

    assert len(found) == 1
    assert found[0]["records"] == 100
    assert found[0]["outcome"] == "done"
