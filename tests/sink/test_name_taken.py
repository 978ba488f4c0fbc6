"""An object of somebody else under a name of a running sink, and the way out that docs/sink.md describes."""

from pathlib import Path

import pytest

from bench.stage import Service
from headrace.model.errors import Exit
from localstack.ports import free_port
from tests.sink.archive_account import new_archive
from tests.sink.rest_calls import RestCalls
from tests.support import aws
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.long, pytest.mark.timeout(600)]


def quarantined(sink: Service) -> int:
    """How many objects wait for an operator."""
    return sum(one["quarantined_objects"] for one in sink.status()["sink"]["partitions"])


def test_a_taken_name_is_set_aside_and_its_records_are_archived_once_it_is_free(tmp_path: Path) -> None:
    """The partition goes on; after a rewind nothing is missing, and the sink forgets what was set aside."""
    archive = new_archive(tmp_path, partitions=1)
    name, port = aws.unique("sink"), free_port()
    rest = RestCalls(port, name)
    options = {"rotate__records": 10, "rotate__age__ms": 3_600_000, "rest__listen": f"127.0.0.1:{port}"}
    sink = archive.service(name, **options)
    taken = f"{archive.topic}/0/{10:020}.headrace.jsonl.gz"
    aws.s3().put_object(Bucket=archive.bucket, Key=taken, Body=b"of somebody else")
    archive.produce({"value": b'{"n":%d}' % number} for number in range(40))
    sink.start(ready_seconds=300)
    try:
        until_sync(
            lambda: len(archive.keys()) == 4 and quarantined(sink) == 1, seconds=120, what="the others"
        )
        assert rest.offset() == 40
        assert sink.is_ready()
        assert aws.s3().get_object(Bucket=archive.bucket, Key=taken)["Body"].read() == b"of somebody else"
        (line,) = (one for one in sink.log.read_text().splitlines() if "object_quarantined" in one)
        assert taken in line
        assert '"reason": "name_taken"' in line

        assert rest.ask("PUT", "/stop")[0] == 204
        aws.s3().delete_object(Bucket=archive.bucket, Key=taken)
        assert rest.rewind(archive.topic, 0, 10) == 200
        assert rest.ask("PUT", "/resume")[0] == 202
        until_sync(lambda: rest.offset() == 40 and len(archive.keys()) == 4, seconds=120, what="the rest")
        until_sync(lambda: quarantined(sink) == 2, seconds=60, what="those that have a name already")
        assert archive.account() == (0, 0)

        assert rest.ask("PUT", "/stop")[0] == 204
        assert rest.rewind(archive.topic, 0, 40) == 200
        assert rest.ask("PUT", "/resume")[0] == 202
        until_sync(lambda: quarantined(sink) == 0, seconds=60, what="what was set aside as forgotten")
    finally:
        assert sink.stop() == Exit.DONE
    archive.run(archive.service(name, **options), seconds=300)
    assert archive.account() == (0, 0)
