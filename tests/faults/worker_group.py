"""A group of workers that a campaign harms: its processes, its connectors, and who leads which."""

import json
import random
import time
import urllib.request
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.faults.account import account
from tests.faults.load import Load, Shape
from tests.sink.archive_account import Archive
from tests.support import aws, kafka
from tests.support.until import until_sync
from tests.support.worker_process import WorkerProcess, sink_config, source_config

_SPREAD_SECONDS: Final = 120.0
_LOOK_SECONDS: Final = 0.2

_JSON: Final = {
    "value__converter": "org.apache.kafka.connect.json.JsonConverter",
    "value__converter__schemas__enable": "false",
}
_BY_FIELD: Final = _JSON | {
    "file__name__template": "{{value:text}}/{{topic}}/{{partition}}/"
    "{{start_offset:padding=true}}.headrace{{extension}}",
}
# Keys come in any order here: the last one says nothing of those that are new.
_LISTED: Final = {"poll__listing": "full", "poll__interval__ms": "3000"}
# One of each kind that a worker may have to give from hand to hand.
SOURCES: Final[Sequence[Mapping[str, str]]] = (
    _LISTED,
    # The S3 of the tests knows no conditional deletes.
    _LISTED | {"post__action": "delete", "post__action__unconditional": "true"},
    _LISTED | {"post__action": "move:done/", "post__action__unconditional": "true"},
    {"sqs": "true"},
    {"sqs": "true", "post__action": "tag:state=done"},
)
SINKS: Final[Sequence[Mapping[str, str]]] = (
    {"rotate__age__ms": "2000"},
    {"rotate__age__ms": "15000", "rotate__records": "200"},
    {"rotate__age__ms": "2000"} | _BY_FIELD,
    {"rotate__age__ms": "20000"} | _BY_FIELD,
    {
        "rotate__age__ms": "3000",
        "file__name__template": "{{topic}}/{{date:yyyy-MM-dd/HH}}/{{partition}}/"
        "{{start_offset:padding=true}}.headrace{{extension}}",
        "file__name__timestamp__source": "wallclock",
    },
)


@dataclass(slots=True, kw_only=True)
class Lane:
    """Objects to a topic to objects: one source, one sink, and what they are given."""

    source: str
    sink: str
    bucket: str
    topic: str
    archive: Archive
    load: Load
    queue_url: str | None
    seen: dict[str, int] = field(default_factory=dict)

    def archived(self) -> int:
        """How many records are in objects; what an object holds never changes, so each is read once."""
        for key in set(self.archive.keys()) - self.seen.keys():
            self.seen[key] = len(self.archive.content(key).splitlines())
        return sum(self.seen.values())


@dataclass(slots=True)
class Group:
    """Workers of one group, with five sources, five sinks of the same topics, and a broken connector."""

    folder: Path
    chance: random.Random
    size: int = 3
    workers: list[WorkerProcess] = field(default_factory=list)
    lanes: list[Lane] = field(default_factory=list)
    broken: str = field(default_factory=lambda: aws.unique("broken"))

    def open(self) -> None:
        """Start the workers, create the connectors, begin the load."""
        name = aws.unique("group")
        options = {"spark.master": "local[4]"}
        self.workers = [
            WorkerProcess(folder=self.folder, group=name, options=options) for _ in range(self.size)
        ]
        for worker in self.workers:
            worker.start()
        for worker in self.workers:
            worker.await_ready(240)
        self.lanes = [self._lane(number) for number in range(len(SOURCES))]
        for lane, source, sink in zip(self.lanes, SOURCES, SINKS, strict=True):
            changes = {option: text for option, text in source.items() if option != "sqs"}
            if lane.queue_url is not None:
                changes |= {"sqs__queue__url": lane.queue_url, "sqs__endpoint": aws.address()}
            self._create(lane.source, source_config(lane.bucket, lane.topic, **changes))
            self._create(lane.sink, sink_config(lane.archive.bucket, lane.topic, **sink))
        self._create(self.broken, source_config("no-such-bucket-here", self.lanes[0].topic))
        for lane in self.lanes:
            lane.load.start()

    def close(self) -> None:
        """End what still runs."""
        for lane in self.lanes:
            lane.load.stop()
        for worker in self.workers:
            worker.kill()

    @property
    def names(self) -> set[str]:
        """The connectors that have to be led."""
        return {name for lane in self.lanes for name in (lane.source, lane.sink)}

    def living(self) -> list[WorkerProcess]:
        """The workers that were not killed."""
        return [one for one in self.workers if one.process is not None and one.process.poll() is None]

    def await_spread(self) -> None:
        """Every worker is up, every connector is led once, the broken one is FAILED and nothing else is."""

        def is_spread() -> bool:
            led = [leads(one) for one in self.living()]
            is_whole = sum(map(len, led)) == len(self.names) == len(set().union(*led)) and all(led)
            return is_whole or _later()

        until_sync(is_spread, seconds=_SPREAD_SECONDS, what="every connector led, on every worker some")
        until_sync(self._is_broken_failed, seconds=60, what="a broken connector that is FAILED")

    def await_led(self, names: Collection[str], *, since: float, seconds: float) -> dict[str, float]:
        """Seconds from `since` (monotonic) until each of these was led again. AssertionError."""
        found: dict[str, float] = {}

        def are_led() -> bool:
            for worker in self.living():
                for name in leads(worker) & set(names) - found.keys():
                    found[name] = time.monotonic() - since
            return len(found) == len(names) or _later()

        until_sync(are_led, seconds=seconds, what=f"{sorted(names)} led again")
        return found

    def settle(self) -> None:
        """End the load, and wait until all of it is in topics and objects."""
        for lane in self.lanes:
            lane.load.stop()
        for lane in self.lanes:
            until_sync(lambda lane=lane: self._is_over(lane), seconds=300, what=f"{lane.source}: all rows")  # type: ignore[misc]  # a lambda's default
        for worker in self.workers:
            code = worker.stop()
            assert code == 0, f"a clean stop ended with {code}: see {worker.log}"

    def _is_over(self, lane: Lane) -> bool:
        rows = lane.load.rows
        in_kafka = sum(1 for _ in kafka.committed(lane.topic, seconds=120))
        return in_kafka >= rows and lane.archived() >= rows

    def account(self) -> tuple[int, int, int]:
        """Rows, those lost and those twice: in Kafka of what was uploaded, in objects of what is in Kafka."""
        rows = lost = twice = 0
        for lane in self.lanes:
            in_kafka = account(kafka.address(), lane.topic, lane.load.rows)
            missing, repeated = lane.archive.account()
            rows += lane.load.rows
            lost += in_kafka.lost + missing
            twice += in_kafka.duplicated + repeated
        return rows, lost, twice

    def owed(self) -> list[str]:
        """Objects with which a post-action that is owed was not done."""
        found = []
        for lane, source in zip(self.lanes, SOURCES, strict=True):
            client, action = lane.load.client, source.get("post__action", "")
            keys = keys_of(lane.bucket)
            if action == "delete":
                found += keys
            elif action.startswith("move:"):
                found += [key for key in keys if not key.startswith("done/")]
            elif action.startswith("tag:"):
                found += [
                    key
                    for key in keys
                    if not client.get_object_tagging(Bucket=lane.bucket, Key=key)["TagSet"]
                ]
        return found

    def _lane(self, number: int) -> Lane:
        bucket, topic = aws.new_bucket(), kafka.new_topic(f"lane-{number}", partitions=2)
        queue_url = None
        if SOURCES[number].get("sqs"):
            queue_url = _notified_queue(bucket)
        return Lane(
            source=aws.unique(f"source-{number}"),
            sink=aws.unique(f"sink-{number}"),
            bucket=bucket,
            topic=topic,
            archive=Archive(folder=self.folder, bucket=aws.new_bucket(), topic=topic),
            load=Load(
                bucket=bucket,
                client=aws.s3(),
                shape=Shape(
                    forms=("jsonl", "gzip"),
                    per_second=0.7,
                    small_rows=150,
                    large_rows=(3_000, 8_000),
                    large_share=0.03,
                ),
                seed=self.chance.getrandbits(32),
            ),
            queue_url=queue_url,
        )

    def _create(self, name: str, config: Mapping[str, str]) -> None:
        # Any worker may be asked; who does not lead passes it on.
        worker = self.chance.choice(self.workers)
        until_sync(
            lambda: worker.ask("PUT", f"/connectors/{name}/config", dict(config))[0] in {200, 201},
            seconds=60,
            what=f"connector {name}, created",
        )

    def _is_broken_failed(self) -> bool:
        return any(shown_status(one).get(self.broken, {}).get("role") == "failed" for one in self.living())


def _notified_queue(bucket: str) -> str:
    """The URL of a new queue that is told of every object of the bucket."""
    url = aws.new_queue()
    queues: Any = [{"QueueArn": aws.queue_arn(url), "Events": ["s3:ObjectCreated:*"]}]
    aws.s3().put_bucket_notification_configuration(
        Bucket=bucket, NotificationConfiguration={"QueueConfigurations": queues}
    )
    return url


def _later() -> bool:
    """False, after a moment: who asks on and on keeps from its work whoever is asked."""
    time.sleep(_LOOK_SECONDS)
    return False


def keys_of(bucket: str) -> list[str]:
    """The keys of a bucket."""
    pages = aws.s3().get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return [found["Key"] for page in pages for found in page.get("Contents", ())]


def shown_status(worker: WorkerProcess) -> dict[str, Any]:
    """The connectors that a worker runs, as it shows them itself; empty while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{worker.http_port}/status", timeout=60) as answer:
            found: dict[str, Any] = json.loads(answer.read())["connectors"]
            return found
    except OSError:
        return {}


def leads(worker: WorkerProcess) -> set[str]:
    """The connectors that a worker leads."""
    return {name for name, one in shown_status(worker).items() if one["role"] == "leader"}
