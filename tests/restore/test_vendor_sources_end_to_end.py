"""The configurations of Confluent's and Lenses' own sources, run as they are on what their sinks wrote."""

import time
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlencode

import pytest

from tests.headrace.vendors.archive import Archive, archive
from tests.headrace.vendors.decoding import Restored
from tests.headrace.vendors.restoring import differences_in_kafka
from tests.restore.restored_by_service import new_topics
from tests.restore.whole_archives import excused_in_kafka, names_in, restored_row
from tests.support import aws, kafka
from tests.support.hosted import Hosted
from tests.support.until import until_sync
from tests.support.worker_process import WorkerProcess

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
_OF_CONVERTERS: Final = {
    "key.converter": _STRING,
    "value.converter": _JSON,
    "value.converter.schemas.enable": "false",
}
_PARTITIONER: Final = "io.confluent.connect.storage.partitioner."


def _confluent(place: str, **more: str) -> dict[str, str]:
    return {
        "connector.class": "io.confluent.connect.s3.source.S3SourceConnector",
        "tasks.max": "2",
        "s3.bucket.name": place,
        "s3.region": "us-east-1",
        "store.url": aws.address(),
        "aws.access.key.id": "test",
        "aws.secret.access.key": "test",
        "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
        "s3.poll.interval.ms": "1000",
        "confluent.topic.bootstrap.servers": "broker:9092",
        "confluent.topic.replication.factor": "1",
        **{name.replace("__", "."): text for name, text in more.items()},
    }


def _lenses(topic: str, source: str, more: str) -> dict[str, str]:
    return {
        "connector.class": "io.lenses.streamreactor.connect.aws.s3.source.S3SourceConnector",
        "tasks.max": "2",
        "connect.s3.kcql": " ".join(["insert into", f"`{topic}`", "select * from", source, more]),
        "connect.s3.aws.auth.mode": "Credentials",
        "connect.s3.aws.access.key": "test",
        "connect.s3.aws.secret.key": "test",
        "connect.s3.aws.region": "us-east-1",
        "connect.s3.custom.endpoint": aws.address(),
        "connect.s3.vhost.bucket": "true",
        "connect.s3.source.partition.search.interval": "1000",
        "connect.s3.source.partition.search.recurse.levels": "2",
    }


def _stored(bucket: Archive) -> str:
    place = aws.new_bucket()
    for key, content in bucket.objects.items():
        tags = urlencode(bucket.tags.get(key, {}))
        aws.s3().put_object(Bucket=place, Key=key, Body=content, Tagging=tags)
    return place


def _run(
    worker: WorkerProcess,
    options: Mapping[str, str],
    wanted: int,
    settled: Callable[[], bool] = lambda: True,
) -> dict[str, int]:
    """The ends of objects, once as many have come to one, and what follows them is `settled`."""
    connector = Hosted(worker=worker, name=aws.unique("sister"), options=options)
    connector.start()

    def ends() -> dict[str, int]:
        found = connector.status()["objects"]
        return {state: found.get(state, 0) for state in ("done", "skipped", "quarantined")}

    try:
        until_sync(lambda: sum(ends().values()) >= wanted, seconds=180, what="all objects")
        until_sync(settled, seconds=60, what="what follows their end")
        return ends()
    finally:
        connector.stop()


def _differences(bucket: Archive, topics: Mapping[str, str], began_ms: int) -> set[str]:
    rows: dict[tuple[str, int], list[Restored]] = {}
    for topic, to in topics.items():
        for record in kafka.committed(to):
            row = restored_row(record, began_ms, bucket)
            rows.setdefault((topic, record.partition), []).append(row)
    return differences_in_kafka(bucket, rows)


def test_an_archive_comes_back_by_confluents_source(shared_worker: WorkerProcess) -> None:
    """RESTORE_BACKUP; keys, headers and tombstones come back besides, in the order that is proven."""
    bucket = archive("confluent-kvh_json_readd")
    topics, began_ms = new_topics(bucket), int(time.time() * 1000)
    options = {
        **_confluent(_stored(bucket), mode="RESTORE_BACKUP"),
        **_OF_CONVERTERS,
        "partitioner.class": f"{_PARTITIONER}DefaultPartitioner",
        "restore.sidecars.wait.ms": "2000",
        "record.headers": "source",
        "restore.topic.map": ",".join(f"{old}:{new}" for old, new in topics.items()),
    }
    ends = _run(shared_worker, options, len(names_in(bucket)))

    assert ends["quarantined"] == 0
    assert _differences(bucket, topics, began_ms) == excused_in_kafka(bucket.name)


def test_an_archive_comes_back_by_lenses_source(shared_worker: WorkerProcess) -> None:
    """Envelopes of JSON, into the topic of the statement."""
    bucket = archive("lenses-envelope_json")
    topics, began_ms = new_topics(bucket), int(time.time() * 1000)
    (topic,) = topics.values()
    source = f"{_stored(bucket)}:streamReactorBackups"
    more = "BATCH=10 STOREAS `JSON` LIMIT 1000 PROPERTIES('store.envelope'=true)"
    options = {**_lenses(topic, source, more), **_OF_CONVERTERS, "record.headers": "source"}
    ends = _run(shared_worker, options, len(names_in(bucket)))

    assert ends["quarantined"] == 0
    assert _differences(bucket, topics, began_ms) == excused_in_kafka(bucket.name)


def test_files_of_any_names_go_into_the_topic_of_the_pair(shared_worker: WorkerProcess) -> None:
    """GENERIC: what the expression does not match is left out."""
    place, topic = aws.new_bucket(), kafka.new_topic("generic", partitions=1)
    for key, content in {"q/a.json": b'{"n":1}\n{"n":2}\n', "q/b.txt": b"no\n", "r/c.json": b"{}\n"}.items():
        aws.s3().put_object(Bucket=place, Key=key, Body=content)
    options = _confluent(
        place,
        mode="GENERIC",
        topics__dir="q",
        topic__regex__list=rf"{topic}:.*\.json",
        value__converter=_JSON,
        value__converter__schemas__enable="false",
        behavior__on__error="log",
    )
    _run(shared_worker, options, 1)

    assert [(each.key, each.value) for each in kafka.committed(topic)] == [
        (None, b'{"n":1}'),
        (None, b'{"n":2}'),
    ]


def test_an_object_of_bytes_is_one_record(shared_worker: WorkerProcess) -> None:
    """Lenses' BYTES, and its way to have done with an object."""
    place, topic = aws.new_bucket(), kafka.new_topic("bytes", partitions=1)
    content = bytes(range(256)) * 1000
    aws.s3().put_object(Bucket=place, Key="in/picture", Body=content)
    more = (
        f"STOREAS `BYTES` PROPERTIES('post.process.action'=MOVE, 'post.process.action.bucket'='{place}', "
        "'post.process.action.prefix'='done')"
    )

    def is_moved() -> bool:
        found = aws.s3().list_objects_v2(Bucket=place)["Contents"]
        return [each["Key"] for each in found] == ["done/picture"]

    # LocalStack knows no conditional deletes.
    options = {**_lenses(topic, f"{place}:in", more), "post.action.unconditional": "true"}
    _run(shared_worker, options, 1, settled=is_moved)

    assert [each.value for each in kafka.committed(topic)] == [content]
