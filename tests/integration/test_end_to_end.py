"""End to end on real services: what is uploaded is in Kafka, once."""

import gzip
import json
from collections.abc import Iterator

import pytest

from tests.support import aws, kafka
from tests.support.hosted import Hosted
from tests.support.service import Route, new_route, queue_depth, rows
from tests.support.until import until_sync
from tests.support.worker_process import WorkerProcess

pytestmark = pytest.mark.parts


@pytest.fixture(scope="module")
def route(tmp_path_factory: pytest.TempPathFactory) -> Route:
    """A route with objects from before the start."""
    made = new_route(tmp_path_factory.mktemp("route"))
    made.upload("before/start.jsonl", rows("before", 100))
    return made


@pytest.fixture(scope="module")
def service(route: Route, shared_worker: WorkerProcess) -> Iterator[Hosted]:
    """The connector on that route, for all tests of this module."""
    made = Hosted(worker=shared_worker, name=aws.unique("route"), options=route.options())
    made.start()
    yield made
    made.stop()


@pytest.fixture
def exact(route: Route, service: Hosted) -> Iterator[None]:  # noqa: ARG001 - it has to run
    """After the test: every row of the route is there, none twice, and the queue is empty."""
    yield
    route.await_rows()
    until_sync(lambda: queue_depth(route.queue_url) == 0, seconds=60, what="an empty queue")
    assert route.account() == (0, 0)


@pytest.mark.usefixtures("exact")
def test_what_was_there_before_the_start_is_found_by_listing(route: Route) -> None:
    """No event of this service's time told of it."""
    route.await_rows()


@pytest.mark.usefixtures("exact")
def test_an_upload_while_it_runs_arrives(route: Route) -> None:
    """The reason for all of it."""
    route.upload("while/running.jsonl", rows("while", 1000))


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("key", ["a b.jsonl", "a+b.jsonl", "100%.jsonl", "a=b.jsonl", "é.jsonl", "%2B.jsonl"])
def test_a_key_arrives_as_it_is_written(route: Route, key: str) -> None:
    """Keys are form-encoded in events and must be decoded once; the record's key is the object's."""
    row = b'{"key":"%s"}' % key.encode()
    route.upload(f"keys/{key}", [row])
    route.await_rows()

    keys = [record.key for record in kafka.committed(route.topic) if record.value == row]
    assert keys == [f"keys/{key}".encode()]


@pytest.mark.usefixtures("exact")
def test_gzip_is_told_by_its_first_bytes(route: Route) -> None:
    """The key says nothing of it."""
    lines = rows("zipped", 1000)
    body = gzip.compress(b"\n".join(lines))
    aws.s3().put_object(Bucket=route.bucket, Key="zipped.jsonl", Body=body)
    route.uploaded.update(lines)


def test_each_finished_object_has_one_line_in_the_log(route: Route, service: Hosted) -> None:
    """The canonical line: who, where to, how many, how long, how it ended."""
    route.await_rows()
    text = service.worker.log.read_text(errors="replace")
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{") and service.name in line]
    found = [line for line in lines if line["event"] == "object" and line["key"] == "before/start.jsonl"]

    assert len(found) == 1
    assert found[0]["records"] == 100
    assert found[0]["outcome"] == "done"
