"""An archive restored by a connector of a real worker into a real broker."""

from collections.abc import Mapping
from urllib.parse import urlencode

from tests.headrace.vendors.archive import Archive
from tests.restore.whole_archives import names_in, options_for, topics_in
from tests.support import aws, kafka
from tests.support.discovery import metric
from tests.support.hosted import Hosted
from tests.support.service import Route
from tests.support.until import until_sync
from tests.support.worker_process import WorkerProcess


def new_topics(bucket: Archive) -> dict[str, str]:
    """A new topic for each topic that the names of the archive say, with its partitions."""
    partitions = max(record.partition for record in bucket.records) + 1
    return {name: kafka.new_topic("restored", partitions=partitions) for name in topics_in(bucket)}


def restored_into_kafka(
    worker: WorkerProcess, bucket: Archive, topics: Mapping[str, str], *, place: str | None = None
) -> dict[tuple[str, int], list[kafka.Record]]:
    """What a consumer of the new topics gets once every object has come to an end.

    The objects are in the bucket `place` already; without one they are put into a new one.
    """
    if place is None:
        place = aws.new_bucket()
        for key, content in bucket.objects.items():
            tags = urlencode(bucket.tags.get(key, {}))
            aws.s3().put_object(Bucket=place, Key=key, Body=content, Tagging=tags)
    wanted = len(names_in(bucket))
    route = Route(folder=worker.folder, bucket=place, queue_url="", topic=next(iter(topics.values())))
    options = route.options(**_changes(bucket, topics))
    restore = Hosted(worker=worker, name=aws.unique("restore"), options=options)
    restore.start()
    try:
        until_sync(lambda: _ended(restore.status()["objects"]) >= wanted, seconds=150, what="all objects")
        assert metric(restore, "headrace_objects_total", connector=restore.name, state="failed") == 0
    finally:
        restore.stop()
    found: dict[tuple[str, int], list[kafka.Record]] = {}
    for topic, restored in topics.items():
        for record in kafka.committed(restored):
            found.setdefault((topic, record.partition), []).append(record)
    return found


def _ended(objects: Mapping[str, int]) -> int:
    return sum(objects.get(state, 0) for state in ("done", "skipped", "quarantined"))


def _changes(bucket: Archive, topics: Mapping[str, str]) -> dict[str, object]:
    more: dict[str, object] = {"sqs.queue.url": None, "poll.interval.ms": 1000}
    if bucket.vendor == "confluent":
        # Objects that were written just now may be followed by their side objects still.
        more["restore.sidecars.wait.ms"] = 2000
    options = options_for(bucket, topics) | more
    return {option.replace(".", "__"): value for option, value in options.items()}
