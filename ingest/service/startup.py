"""What has to be there before a process joins its group: output topics, the ledger's topic, the bucket."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import structlog

from ingest.errors import AccessDenied, ObjectError, SourceUnavailable, Unavailable
from ingest.kafka.driver_ledger import prepare_ledger
from ingest.kafka.kafka_clients import ClientProperties
from ingest.kafka.output_topics import OutputTopics, TopicCreation
from ingest.model.snapshot import SnapshotHolder
from ingest.service.statistics import Statistics
from ingest.service.stop import Stop
from ingest.settings import Settings
from spark.s3 import new_s3_calls

_log = structlog.get_logger(__name__)
T = TypeVar("T")

_TRY_AGAIN_SECONDS: Final = 0.5


class Stopped(Exception):
    """The run ends before it led."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the start found."""

    topics: tuple[str, ...]
    """Output topics that the configuration names."""
    cluster_id: str
    now_by_s3_ms: int
    """The time by S3's own clock."""


class Startup:
    """Asks for what is needed, patiently while broker or S3 are away. `deadline` is monotonic seconds."""

    def __init__(
        self,
        settings: Settings,
        clients: ClientProperties,
        *,
        accept_new_ledger: bool,
        deadline: float,
        stop: Stop,
        snapshot_holder: SnapshotHolder,
        statistics: Statistics,
    ) -> None:
        self._settings = settings
        self._clients = clients
        self._accept_new_ledger = accept_new_ledger
        self._deadline = deadline
        self._stop = stop
        self._snapshot_holder = snapshot_holder
        self._statistics = statistics

    def find(self) -> Found:
        """Everything, once it is there. Blocks; Stopped, TopicMissing, InvalidLedger, Unavailable."""
        topics = self._patiently(self._require_topics)
        return Found(
            topics=tuple(topics),
            cluster_id=self._patiently(self._prepare_ledger),
            now_by_s3_ms=self._patiently(self._s3_clock_ms),
        )

    def _patiently(self, ask: Callable[[], T]) -> T:
        """The answer, asked for until the start-up time is over while broker or S3 are not there."""
        warned = False
        while True:
            if self._stop.asked.is_set():
                raise Stopped
            try:
                return ask()
            except (Unavailable, AccessDenied, SourceUnavailable) as error:
                if time.monotonic() > self._deadline:
                    raise Unavailable(str(error)) from error
                if not warned:
                    seconds = round(self._deadline - time.monotonic())
                    _log.warning("start_waits", error=str(error), seconds=seconds)
                warned = True
                self._statistics.trouble("start", str(error))
                self._snapshot_holder.show(
                    replace(self._snapshot_holder.snapshot, problems=dict(self._statistics.problems))
                )
                self._stop.asked.wait(_TRY_AGAIN_SECONDS)
            finally:
                self._statistics.trouble("start", None)

    def _require_topics(self) -> list[str]:
        """The output topics that the configuration names, there or made; TopicMissing is exit 2."""
        settings = self._settings
        creation = settings.kafka.topic_creation
        topics = OutputTopics(
            self._clients.admin,
            creation=None
            if creation is None
            else TopicCreation(
                partitions=creation.partitions, replication_factor=creation.replication_factor
            ),
        )
        dead = settings.errors.dead_letter
        named = [settings.routing.topic, None if dead is None else dead.topic]
        try:
            return [topic.name for topic in topics.require(name for name in named if name is not None)]
        except Unavailable as error:
            raise Unavailable(f"bootstrap.servers = {settings.kafka.bootstrap_servers!r}: {error}") from error

    def _prepare_ledger(self) -> str:
        """Id of the cluster in which the ledger's topic is, there and ours; InvalidLedger is exit 2."""
        kafka = self._settings.kafka
        creation = kafka.topic_creation
        found = prepare_ledger(
            self._clients,
            name=self._settings.name,
            topic=kafka.ledger_topic,
            replication_factor=None if creation is None else creation.replication_factor,
            accept_new_ledger=self._accept_new_ledger,
        )
        return found.identity.cluster_id

    def _s3_clock_ms(self) -> int:
        """The time by S3's own clock, asked by the smallest listing; proves that the bucket can be listed."""
        s3 = self._settings.s3
        try:
            return new_s3_calls(s3).clock_ms(s3.bucket, s3.prefix)
        except (AccessDenied, ObjectError, SourceUnavailable) as error:
            raise Unavailable(f"aws.s3.bucket.name = {s3.bucket!r} cannot be listed: {error}") from error
