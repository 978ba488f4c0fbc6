"""A driver whose steps a test scripts: a real slot pool, a real group, real objects, and no planner."""

import itertools
import json
import queue
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.kafka.leadership import Leadership
from headrace.model.ledger_entry import LedgerEntry, LedgerKey, decode_entry, decode_key
from headrace.model.objects import ObjectId, Route, S3Object
from headrace.model.slot_protocol import Batch, Finished, Split
from headrace.vendors.load import load
from spark.slots import BatchCommitted, BatchFinished, Jobs, SlotEnded, SlotEvent, SlotPool, SlotReady
from spark.source.source_work import SourceWork, task_settings
from tests.support import aws
from tests.support.kafka import Record, read_committed

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

Event = TypeVar("Event", SlotReady, BatchCommitted, BatchFinished, SlotEnded)


class ScriptedDriver:
    """Leads a group of its own and hands out what the test says."""

    def __init__(
        self,
        jobs: Jobs,
        *,
        bucket: str,
        topic: str,
        ledger: str,
        bootstrap: str,
        endpoint: str,
        linger_seconds: float,
        options: Mapping[str, str],
    ) -> None:
        self.bucket, self.topic, self.ledger = bucket, topic, ledger
        self.name = aws.unique("ingester")
        self.kafka = {"bootstrap.servers": bootstrap}
        given = {
            "name": self.name,
            "bootstrap.servers": bootstrap,
            "aws.s3.bucket.name": bucket,
            "aws.s3.endpoint": endpoint,
            "aws.access.key.id": "test",
            "aws.secret.access.key": "test",
            "topic": topic,
            "file.name.template": ".*",
            "input.format": "jsonl",
            "offsets.storage.topic": ledger,
            **{name.replace("_", "."): value for name, value in options.items()},
        }
        self.settings = load(
            json.dumps(given), kind="json", environment={"HOME": "/nowhere"}, read_file=lambda path: path
        )
        self.events: queue.Queue[SlotEvent] = queue.Queue()
        self.seen: list[SlotEvent] = []
        self._batch_numbers = itertools.count(1)
        self.leadership = Leadership({"bootstrap.servers": bootstrap}, name=self.name, ledger_topic=ledger)
        self.leadership.join()
        assert self.leadership.wait_for_lead(60, threading.Event())
        self.slot_pool = SlotPool(
            jobs,
            SourceWork(task_settings(self.settings, slots=2)),
            self.events.put,
            linger_seconds=linger_seconds,
        )
        self._s3: S3Client = aws.s3(endpoint)

    def close(self) -> None:
        """End the slots and leave the group."""
        self.slot_pool.close(5)
        self.leadership.close()
        self._s3.close()

    def put(self, key: str, content: bytes) -> S3Object:
        """Upload an object; what an event would say of it."""
        found = self._s3.put_object(Bucket=self.bucket, Key=key, Body=content)
        return S3Object(
            id=ObjectId(self.bucket, key, found["ETag"].strip('"')),
            size=len(content),
            last_modified_ms=1_700_000_000_000,
            version_id=found.get("VersionId"),
        )

    def break_tasks_broker(self) -> None:
        """Tasks that are started from here on have a broker that is not there."""
        given = task_settings(self.settings, slots=2)
        kafka = replace(given.kafka, producer=(("bootstrap.servers", "127.0.0.1:1"),))
        self.slot_pool._work = SourceWork(replace(given, kafka=kafka))

    def delete(self, key: str) -> None:
        """Remove an object."""
        self._s3.delete_object(Bucket=self.bucket, Key=key)

    def worker(self, slot: int) -> str:
        """The name of the process that works for the slot now."""
        worker = self.slot_pool._starts[slot].worker
        assert worker is not None
        return worker

    def worker_pid(self, slot: int) -> int:
        """Its process id."""
        return int(self.worker(slot).split("-")[-2])

    def split(self, found: S3Object, **given: Any) -> Split:
        """The object as work; `topic` and `partition` say where its records go."""
        route = Route(topic=given.pop("topic", self.topic), partition=given.pop("partition", None))
        return Split(object=found, route=route, **given)

    def batch(
        self, *works: Split, slot: int = 0, max_seconds: float = 60, group: bytes | None = None
    ) -> Batch:
        """The next plan, with the group's metadata of now."""
        return Batch(
            number=next(self._batch_numbers),
            slot=slot,
            group=self.leadership.metadata() if group is None else group,
            splits=works,
            max_seconds=max_seconds,
        )

    def ready(self, slot: int = 0) -> None:
        """Start the slot and wait until it takes work."""
        self.slot_pool.start(slot)
        self.expect(SlotReady)

    def run(self, *works: Split, slot: int = 0, max_seconds: float = 60) -> Finished:
        """Grant one batch to a ready slot; what it ended with."""
        assert self.slot_pool.grant(slot, self.batch(*works, slot=slot, max_seconds=max_seconds))
        return self.expect(BatchFinished).finished

    def expect(self, kind: type[Event], *, seconds: float = 60) -> Event:
        """The next event of this kind; those before it stay in `seen`."""
        deadline = time.monotonic() + seconds
        while True:
            event = self.events.get(timeout=max(0.01, deadline - time.monotonic()))
            self.seen.append(event)
            if isinstance(event, kind):
                return event

    def records(self, topic: str | None = None) -> list[Record]:
        """What a read-committed consumer sees in the topic."""
        return read_committed(self.topic if topic is None else topic)

    def entries(self) -> dict[LedgerKey, LedgerEntry]:
        """What the ledger says, the last record of each key."""
        found = {}
        for record in read_committed(self.ledger):
            assert record.key is not None
            assert record.value is not None
            found[decode_key(record.key)] = decode_entry(record.value)
        return found
