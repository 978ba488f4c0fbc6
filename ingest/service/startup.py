"""What has to be there before a process joins its group: topics, ledger, bucket; and topics made later.

A task finds a topic missing that a key names, and the driver creates it.
"""

import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import structlog

from headrace.formats.inventory_manifest import Manifest
from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.control_records import FirstStart
from headrace.kafka.data_topics import OutputTopics, TopicCreation
from headrace.kafka.driver_ledger import prepare_ledger
from headrace.kafka.kafka_clients import ClientProperties, Properties
from headrace.kafka.ledger_topic import LedgerIdentity
from headrace.model.errors import (
    AccessDenied,
    HeadraceError,
    InvalidConfiguration,
    ObjectError,
    ResourceMissing,
    SourceUnavailable,
    Unavailable,
    first_refusal,
)
from headrace.options import Settings
from headrace.options.settings import S3Settings
from headrace.options.transforms.read_chain import known_topics
from headrace.process.logs import RetryLog
from headrace.process.threads import ThreadFailures, start_thread
from headrace.s3 import S3Calls, UploadsUnderWay, new_s3_calls
from headrace.s3.s3_calls import there_if_told, uploads_if_allowed
from ingest.http.snapshot import SnapshotHolder
from ingest.service.service_events import OwnEvent, TopicAnswered
from ingest.service.statistics import Statistics
from ingest.service.stop import PatientStart, Stop
from ingest.sink import active_members
from ingest.source.first_starts import newest_uploads
from spark.jvm import require_master

_log = structlog.get_logger(__name__)


def output_topics(settings: Settings, properties: Properties) -> OutputTopics:
    """The output topics, made by `topic.creation.default.*` where they are missing and it is set."""
    creation = settings.kafka.topic_creation
    if creation is None:
        return OutputTopics(properties, may_create=settings.sink is None)
    made = TopicCreation(partitions=creation.partitions, replication_factor=creation.replication_factor)
    return OutputTopics(properties, creation=made)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketAtStart:
    """What the start found of one bucket of a source."""

    now_by_s3_ms: int
    """The time by S3's own clock."""
    uploads: UploadsUnderWay | None
    """Multipart uploads under way at that time; None where not needed."""

    def first_start(self, settings: Settings) -> FirstStart:
        """What is remembered of a first start with the bucket at that time; asks S3, and blocks."""
        first = FirstStart(at_ms=self.now_by_s3_ms, start_key=settings.discovery.native_start_key)
        if self.uploads is None:
            return first
        # Asked for the few that a record has room for.
        kept = newest_uploads([self.uploads.begun_ms])[0]
        there = there_if_told(settings.s3, self.uploads, kept)
        kept = newest_uploads([kept], [there])[0]
        there = {key: etag for key, etag in there.items() if key in kept}
        return msgspec.structs.replace(first, uploads=kept, there=there or msgspec.UNSET)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the start found."""

    topics: tuple[str, ...]
    """Output topics that the configuration names."""
    ledger: LedgerIdentity
    buckets: Mapping[str, BucketAtStart]
    """Those of a source."""
    read_inventories: Callable[[], tuple[Manifest, ...] | InvalidConfiguration] = tuple
    """Asks for those of `initial.inventory`, or why they cannot be read. Blocks, as `Startup.find` does."""


STARTING: Final = "start"
"""What is waited for, among the problems of `/status`."""


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
        failures: ThreadFailures,
    ) -> None:
        self._patiently = PatientStart(
            deadline=deadline, stop=stop, failures=failures, on_trouble=self._show_trouble
        )
        self._settings = settings
        self._clients = clients
        self._accept_new_ledger = accept_new_ledger
        self._snapshot_holder = snapshot_holder
        self._statistics = statistics

    def find(self) -> Found:
        """Everything, once it is there. Blocks.

        Stopped, TopicMissing, ResourceMissing, InvalidLedger, Unavailable.
        """
        topics = self._patiently.answer(self._require_topics)
        buckets: Mapping[str, BucketAtStart] = {}
        if self._settings.sink is not None:
            self._patiently.answer(self._require_free_group)
            self._patiently.answer(self._require_buckets)
        else:
            buckets = self._patiently.answer(self._ask_buckets)
        # Last: a start that ends here leaves no ledger behind.
        ledger = self._patiently.answer(self._prepare_ledger)
        spark = self._settings.spark
        if spark.remote is None:
            self._patiently.answer(lambda: require_master(spark.master))
        return Found(
            topics=tuple(topics),
            ledger=ledger,
            buckets=buckets,
            read_inventories=lambda: self._patiently.answer(self._read_inventories),
        )

    def _show_trouble(self, sentence: str | None) -> None:
        """Have `/status` say what is waited for, or that nothing is any more."""
        self._statistics.trouble(STARTING, sentence)
        if sentence is None and STARTING not in self._snapshot_holder.snapshot.problems:
            return
        shown, problems = self._snapshot_holder.snapshot, dict(self._statistics.problems)
        last_error = shown.last_error if sentence is None else sentence
        self._snapshot_holder.show(replace(shown, problems=problems, last_error=last_error))

    def _require_topics(self) -> list[str]:
        """The output topics that the configuration names, there or made; TopicMissing is exit 2."""
        settings = self._settings
        topics = output_topics(settings, self._clients.admin)
        dead = settings.errors.dead_letter
        named = sorted(known_topics(settings.transforms, settings.routing.topic))
        if dead is not None:
            named.append(dead.topic)
        try:
            return [found.name for found in topics.require(named)]
        except Unavailable as error:
            raise Unavailable(f"bootstrap.servers = {settings.kafka.bootstrap_servers!r}: {error}") from error

    def _require_free_group(self) -> None:
        """No other consumer is in the sink's own group, as another vendor's connector of its name would."""
        sink = self._settings.sink
        assert sink is not None
        if members := KafkaAdmin(self._clients.admin).members(sink.group_id):
            raise Unavailable(active_members(sink.group_id, members))

    def _require_buckets(self) -> None:
        """The buckets of a sink are there; ResourceMissing is exit 2.

        A bucket that may not be listed is there: of a missing one S3 says so to everyone.
        """
        for s3 in {each.s3.bucket: each.s3 for each in self._settings.by_place()}.values():
            try:
                new_s3_calls(s3).clock_ms(s3.bucket, s3.prefix)
            except ResourceMissing:
                raise
            except AccessDenied as error:
                _log.info("bucket_not_listed", bucket=s3.bucket, error=str(error))
            except (ObjectError, SourceUnavailable) as error:
                raise Unavailable(f"aws.s3.bucket.name = {s3.bucket!r} cannot be reached: {error}") from error

    def _prepare_ledger(self) -> LedgerIdentity:
        """Which the ledger's topic is, there and ours; InvalidLedger is exit 2."""
        kafka = self._settings.kafka
        creation = kafka.topic_creation
        found = prepare_ledger(
            self._clients,
            name=self._settings.name,
            topic=kafka.ledger_topic,
            replication_factor=None if creation is None else creation.replication_factor,
            accept_new_ledger=self._accept_new_ledger,
        )
        return found.identity

    def _ask_buckets(self) -> dict[str, BucketAtStart]:
        """Each bucket of a source as it is now: where one of them answers, the others may come later."""
        found: dict[str, BucketAtStart] = {}
        refused: dict[str, HeadraceError] = {}
        for place in self._settings.by_place():
            try:
                found[place.s3.bucket] = self._ask_s3(place.s3)
            except (ResourceMissing, Unavailable) as error:
                refused[place.s3.bucket] = error
        if not found:
            raise first_refusal(refused.values())
        for bucket, refusal in refused.items():
            _log.warning(
                "bucket_not_listed",
                bucket=bucket,
                error=str(refusal),
                detail="the other buckets are read; if this is its first start, with include.existing=false, "
                "a multipart upload that is under way there and that no event announces is not ingested",
            )
            now_by_s3_ms = min(one.now_by_s3_ms for one in found.values())
            found[bucket] = BucketAtStart(now_by_s3_ms=now_by_s3_ms, uploads=None)
        return found

    def _ask_s3(self, s3: S3Settings) -> BucketAtStart:
        """The time by S3's own clock, and the uploads under way then; the bucket can be listed."""
        try:
            calls = new_s3_calls(s3)
            # The uploads first: who begins later is dated later than this answer.
            under_way = None if self._settings.discovery.include_existing else uploads_if_allowed(calls, s3)
            clock_ms = calls.clock_ms(s3.bucket, s3.prefix)
            if self._settings.more_buckets:
                _warn_of_region(calls, s3)
        except ResourceMissing:
            raise
        except (AccessDenied, ObjectError, SourceUnavailable) as error:
            raise Unavailable(f"aws.s3.bucket.name = {s3.bucket!r} cannot be listed: {error}") from error
        if under_way is None:
            return BucketAtStart(now_by_s3_ms=clock_ms, uploads=None)
        return BucketAtStart(now_by_s3_ms=under_way.at_ms, uploads=under_way)

    def _read_inventories(self) -> tuple[Manifest, ...] | InvalidConfiguration:
        """The manifests of `initial.inventory`."""
        urls = self._settings.discovery.initial_inventory
        if not urls:
            return ()
        # Without the option it has no use.
        from headrace.s3.inventory_manifests import read_manifests

        try:
            return read_manifests(new_s3_calls(self._settings.s3), urls, buckets=self._settings.buckets)
        except InvalidConfiguration as error:
            return error


def _warn_of_region(calls: S3Calls, s3: S3Settings) -> None:
    """Warn of a bucket that is not where the others are: Amazon redirects what is sent to another region."""
    try:
        region = calls.region(s3.bucket)
    except HeadraceError:
        # It can be listed, and who may list need not be allowed this.
        return
    if region is not None and region != s3.region:
        _log.warning(
            "bucket_elsewhere",
            bucket=s3.bucket,
            region=region,
            detail=f"the buckets of a source are in one region, here {s3.region}: every request for this one "
            "is sent twice, and its events reach no queue of another region",
            remedy=f"give it a source of its own, with aws.s3.region={region}",
        )


# A template can name any number of topics; what does not fit is asked for by its next failed attempt.
_MAX_WAITING: Final = 100
# Rights and replicas do not change from one attempt to the next.
_AGAIN_SECONDS: Final = 10.0


class TopicCreator:
    """Creates topics, one after the other, in a thread next to the service's.

    `TopicAnswered` follows for each: without a sentence once it is there, also where another client made it.
    """

    def __init__(self, topics: OutputTopics, post: Callable[[OwnEvent], None]) -> None:
        self._topics = topics
        self._post = post
        self._retries = RetryLog(_log, "topic_not_created")
        self._lock = threading.Lock()
        self._waiting: set[str] = set()
        self._refused_at: dict[str, float] = {}
        self._requests: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        start_thread(self._run, name="topic-creation")

    def request(self, topic: str) -> None:
        """Have the topic created, unless that is under way or was refused just now. Does not block."""
        with self._lock:
            refused_at = self._refused_at.get(topic)
            is_too_soon = refused_at is not None and time.monotonic() - refused_at < _AGAIN_SECONDS
            if topic in self._waiting or is_too_soon or len(self._waiting) >= _MAX_WAITING:
                return
            self._waiting.add(topic)
        self._requests.put(topic)

    def close(self) -> None:
        """Create no more; a creation under way ends by its own timeout."""
        self._requests.put(None)

    def _run(self) -> None:
        while (topic := self._requests.get()) is not None:
            self._create(topic)

    def _create(self, topic: str) -> None:
        refusal: str | None = None
        try:
            self._topics.forget(topic)
            self._topics.get(topic)
        except HeadraceError as error:
            refusal = str(error)
            self._retries.failed(topic, error, topic=topic, detail="it is tried again")
        else:
            self._retries.over(topic)
        with self._lock:
            self._waiting.discard(topic)
            self._refused_at = {
                name: at
                for name, at in self._refused_at.items()
                if name != topic and time.monotonic() - at < _AGAIN_SECONDS
            }
            if refusal is not None:
                self._refused_at[topic] = time.monotonic()
        self._post(TopicAnswered(topic, refusal))
