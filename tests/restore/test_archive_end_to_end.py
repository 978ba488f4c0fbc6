"""Archives of the real sinks restored by the real service into a real broker, and compared with Kafka.

What may differ is in the table of excuses that the layouts' own tests hold to be needed, each of them.
"""

import time
from typing import Final

import pytest

from headrace.model.ledger_entry import State
from tests.headrace.vendors.archive import NAMES, archive
from tests.headrace.vendors.restoring import differences_in_kafka
from tests.restore.restored_by_service import new_topics, restored_into_kafka
from tests.restore.whole_archives import MAY_DIFFER, excused_in_kafka, names_in, restored_row
from tests.soak.account import ledger_entries
from tests.support import aws, kafka
from tests.support.hosted import Hosted
from tests.support.service import Route
from tests.support.until import until_sync
from tests.support.worker_process import WorkerProcess

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

_ONE_A_LAYOUT: Final = (
    "aiven-jsonl_all",
    "confluent-avro_snappy",
    "confluent-kvh_json_readd",
    "lenses-envelope_json",
    "quix-new_jsonl",
)
_CASES: Final = [
    pytest.param(name, marks=() if name in _ONE_A_LAYOUT else pytest.mark.long)
    for name in NAMES
    if names_in(archive(name))
]


@pytest.mark.parametrize("name", _CASES)
def test_an_archive_comes_back_into_kafka(shared_worker: WorkerProcess, name: str) -> None:
    """Key, value, headers, timestamp, order and source offset of every record, but for what is excused."""
    bucket = archive(name)
    began_ms = int(time.time() * 1000)
    topics = new_topics(bucket)
    restored = restored_into_kafka(shared_worker, bucket, topics)
    rows = {
        (topic, partition): [restored_row(record, began_ms, bucket) for record in records]
        for (topic, partition), records in restored.items()
    }

    assert differences_in_kafka(bucket, rows) - MAY_DIFFER.get(name, set()) == excused_in_kafka(name)


def test_an_object_without_bytes_is_a_tombstone_and_partitions_fold(shared_worker: WorkerProcess) -> None:
    """Both ways around: an empty object is one row, and `modulo` finds a partition for each."""
    topic = kafka.new_topic("restored", partitions=2)
    place = aws.new_bucket()
    for key, content in {
        f"{topic}-5-0": b"",
        f"{topic}-5-1": b"YQ==\n!!!\nYg==",
        f"{topic}-4-0": b"Yw==",
    }.items():
        aws.s3().put_object(Bucket=place, Key=key, Body=content)
    route = Route(folder=shared_worker.folder, bucket=place, queue_url="", topic=topic)
    layout: dict[str, object] = {
        "input__layout": "aiven",
        "restore__partition": "modulo",
        "input__format": None,
    }
    names: dict[str, object] = {"file__name__template": None, "topic": None, "sqs__queue__url": None}
    more: dict[str, object] = {"ordering": "partition", "errors__tolerance": "all"}
    restore = Hosted(
        worker=shared_worker, name=aws.unique("restore"), options=route.options(**layout, **names, **more)
    )
    restore.start()
    try:
        until_sync(lambda: restore.status()["objects"].get("done") == 3, seconds=180, what="all objects done")
        # `recent` and the metrics know what this lead did: after a lost one the ledger alone has it all.
        entries = ledger_entries(f"{restore.name}-offsets")
        assert sorted((entry.state, entry.bad) for entry in entries.values()) == [
            (State.DONE, 0),
            (State.DONE, 0),
            (State.DONE, 1),
        ]
    finally:
        restore.stop()

    found = sorted((record.partition, record.offset, record.value) for record in kafka.committed(topic))
    assert [(partition, value) for partition, _, value in found] == [
        (0, b"c"),
        (1, None),
        (1, b"a"),
        (1, b"b"),
    ]
