"""The facts of `check`: S3, SQS and Kafka asked as `run` would, and every refusal kept instead of raised."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

from botocore.exceptions import BotoCoreError, ClientError
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined]  # exported, if not in so many words

from headrace.aws.aws_errors import AwsRefusal
from headrace.aws.store_answers import answered_ms
from headrace.formats.compression import sniff
from headrace.formats.compression.codecs import decompressed
from headrace.formats.content_kind import recognise
from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.control_records import TargetState, target_of
from headrace.kafka.fencing import initialise
from headrace.kafka.kafka_clients import (
    ClientProperties,
    client_properties,
    is_too_old,
    new_admin,
    new_transactional_producer,
    offered_versions,
)
from headrace.kafka.kafka_errors import translate
from headrace.kafka.leadership import group_id
from headrace.kafka.ledger_reader import open_ledger_reader
from headrace.kafka.ledger_topic import read_remembered_ledgers, refuse_other_members
from headrace.model.clock import wall_ms
from headrace.model.errors import (
    AccessDenied,
    HeadraceError,
    InvalidConfiguration,
    InvalidLedger,
    ObjectError,
    SourceUnavailable,
    TopicMissing,
)
from headrace.model.objects import PostActionKind, S3Object
from headrace.options import Settings
from headrace.options.settings import S3Settings
from headrace.s3.upload_calls import UploadCalls, new_upload_calls
from ingest.checks.findings.archive_findings import ArchiveSample, Sample
from ingest.checks.findings.bucket_findings import BucketFacts, Survey, TopicSample
from ingest.checks.findings.bucket_lifecycle import Rule
from ingest.checks.findings.finding import Cause, Refused
from ingest.checks.findings.kafka_findings import KafkaFacts, TopicFacts, wanted_topics
from ingest.checks.findings.queue_findings import QueueFacts
from ingest.checks.findings.sink_findings import UploadFacts
from ingest.checks.probes.bucket_keys import AwsClients, list_pages, object_request
from ingest.source.catalogue import ObjectFilter
from listeners.discovery_events import error_code, refusal_of, translated_errors

# -- The first bytes of some objects, with small ranged GETs: what they hold, and how it is compressed -------

# Enough for some lines of text, compressed or not.
_HEAD_BYTES: Final = 65_536


def read_samples(client: Any, settings: S3Settings, objects: Iterable[S3Object]) -> Iterator[Sample]:
    """One sample an object; none for what cannot be read, which is another finding. Blocks on a GET each."""
    for wanted in objects:
        asked = object_request(settings, wanted) | {"Range": f"bytes=0-{_HEAD_BYTES - 1}"}
        try:
            with translated_errors(wanted.id.url):
                head = client.get_object(**asked)["Body"].read()
        except HeadraceError:
            continue
        yield _sample(wanted.id.url, head)


def _sample(url: str, head: bytes) -> Sample:
    codec = sniff(head)
    plain = head if codec is None else b"".join(_begun(decompressed(codec, iter([head]), name=url)))
    # The end of what was read is no end of a line.
    return Sample(url=url, content=recognise(plain), codec=None if codec is None else str(codec))


def _begun(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """What comes before the cut, which to the decompressor is damage."""
    size = 0
    try:
        for chunk in chunks:
            yield chunk
            size += len(chunk)
            if size >= _HEAD_BYTES:
                return
    except ObjectError:
        return


# -- The facts of `check`: S3, SQS and Kafka asked as `run` would, and every refusal kept instead of raised --

# Ten listings' worth: enough to see what keys look like, and over in a few seconds.
_MAX_KEYS: Final = 10_000
_CALL_SECONDS: Final = 10.0
_CAUSES: Final[Mapping[AwsRefusal, Cause]] = {
    **dict.fromkeys((AwsRefusal.MISSING, AwsRefusal.NO_RESOURCE), Cause.MISSING),
    **dict.fromkeys((AwsRefusal.FORBIDDEN, AwsRefusal.DENIED), Cause.DENIED),
    AwsRefusal.KEY: Cause.KEY,
    AwsRefusal.QUOTA: Cause.QUOTA,
    AwsRefusal.CREDENTIALS: Cause.CREDENTIALS,
    AwsRefusal.OTHER_REGION: Cause.ELSEWHERE,
    AwsRefusal.ARCHIVED: Cause.ARCHIVED,
    AwsRefusal.CLOCK: Cause.CLOCK,
    AwsRefusal.UNAVAILABLE: Cause.UNREACHED,
}


def probe_bucket(settings: Settings, clients: AwsClients, object_filter: ObjectFilter) -> BucketFacts:
    """What the bucket answers; blocks on a handful of calls."""
    s3 = settings.s3
    region, skew_ms = _region_and_skew(clients.s3, s3.bucket)
    survey = _survey(clients.s3, s3, object_filter)
    get: bool | Refused | None = None
    get_version: bool | Refused | None = None
    if isinstance(survey, Survey) and survey.sample is not None:
        get, version_id = _get(clients.s3, s3, survey.sample, None)
        if version_id is not None:
            get_version, _ = _get(clients.s3, s3, survey.sample, version_id)
    samples: list[Sample] = []
    archive: list[ArchiveSample] = []
    if isinstance(survey, Survey) and get is True:
        if settings.format.restore is None:
            samples = list(read_samples(clients.s3, s3, survey.to_sample))
        else:
            # All decoders are loaded with it.
            from ingest.checks.probes.archive_samples import read_archive_samples

            archive = list(
                read_archive_samples(
                    clients.s3, settings, survey.to_sample, keys=survey.all_keys, taken=survey.keys
                )
            )
    return BucketFacts(
        region=region,
        survey=survey,
        skew_ms=skew_ms,
        get=get,
        get_version=get_version,
        samples=samples,
        archive=archive,
        move_target=_move_target(clients.s3, settings),
    )


def probe_queue(settings: Settings, clients: AwsClients, *, bucket_region: str | None) -> QueueFacts:
    """What the queue, and the bucket about it, answer. There has to be a queue. Blocks on two calls."""
    assert settings.sqs is not None, "no queue is configured"
    assert clients.sqs is not None, "clients are made of the same settings"
    attributes: Mapping[str, str] | Refused
    notification: Mapping[str, Any] | Refused
    try:
        with translated_errors(f"queue {settings.sqs.queue_url}"):
            found = clients.sqs.get_queue_attributes(QueueUrl=settings.sqs.queue_url, AttributeNames=["All"])
        attributes = found.get("Attributes", {})
    except HeadraceError as error:
        attributes = refused(error)
    try:
        with translated_errors(f"the notification configuration of s3://{settings.s3.bucket}"):
            notification = clients.s3.get_bucket_notification_configuration(Bucket=settings.s3.bucket)
    except HeadraceError as error:
        notification = refused(error)
    return QueueFacts(
        attributes=attributes,
        notification=notification,
        bucket_region=bucket_region or settings.s3.region,
    )


def probe_kafka(
    settings: Settings, samples: Mapping[str, TopicSample], *, target: TargetState | None = None
) -> KafkaFacts:
    """What the brokers answer about the topics that records come to. Blocks for seconds.

    `target` is what the ledger says is wanted, where that is known: the ledger is not read for it then.
    """
    clients = client_properties(settings)
    wanted = wanted_topics(settings, samples)
    admin = KafkaAdmin(clients.admin, timeout=_CALL_SECONDS)
    try:
        cluster: str | Refused = admin.cluster_id()
    except HeadraceError as error:
        cluster = _kafka_refused(error)
    if isinstance(cluster, Refused):
        return KafkaFacts(
            cluster=cluster, wanted={}, topics={}, ledger=cluster, memory=None, transactions=cluster
        )
    ledger = _topic(admin, clients, settings.kafka.ledger_topic)
    return KafkaFacts(
        cluster=cluster,
        is_too_old=is_too_old(offered_versions(clients.admin, timeout=_CALL_SECONDS)),
        wanted=wanted,
        topics={topic: _topic(admin, clients, topic) for topic in sorted(wanted)},
        ledger=ledger,
        memory=_memory(admin, settings, ledger),
        transactions=_transactions(clients, settings.name)
        if settings.kafka.exactly_once or settings.sink is not None
        else None,
        group=_group(clients, settings.identity.group_id),
        target=_target(settings, ledger) if target is None else target,
    )


def _move_target(client: Any, settings: Settings) -> Refused | None:
    """Why the other bucket that objects move to cannot be listed; None where it can, or there is none."""
    action = settings.post_action
    bucket = None if action is None or action.kind is not PostActionKind.MOVE else action.moves_to[0]
    if bucket is None:
        return None
    try:
        with translated_errors(f"s3://{bucket}"):
            client.list_objects_v2(Bucket=bucket, MaxKeys=1)
    except HeadraceError as error:
        return refused(error)
    return None


def _region_and_skew(client: Any, bucket: str) -> tuple[str | None, int | None]:
    """The bucket's region and our clock minus S3's: both are in the headers, of a refusal too."""
    try:
        answer: Any = client.head_bucket(Bucket=bucket)
    except ClientError as error:
        answer = error.response
    except (BotoCoreError, OSError, HeadraceError):
        return None, None
    now_ms = wall_ms()
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    region: str | None = headers.get("x-amz-bucket-region")
    # S3's date has no fraction of a second: on average it is half a second younger than it says.
    try:
        return region, now_ms - answered_ms(answer, what=f"s3://{bucket}") - 500
    except SourceUnavailable:
        return region, None


def _survey(client: Any, settings: S3Settings, object_filter: ObjectFilter) -> Survey | Refused:
    survey = Survey()
    try:
        for page in list_pages(client, settings, prefix=settings.prefix):
            survey.add(page.objects, object_filter)
            if survey.listed >= _MAX_KEYS:
                survey.is_whole = page.through_key is None
                break
    except HeadraceError as error:
        return refused(error)
    return survey


def _get(
    client: Any, settings: S3Settings, wanted: S3Object, version_id: str | None
) -> tuple[bool | Refused, str | None]:
    """Whether a byte of the object can be read, and its version id if the bucket has versions."""
    asked = object_request(settings, wanted) | {"Range": "bytes=0-0"}
    if version_id is not None:
        asked["VersionId"] = version_id
    try:
        with translated_errors(wanted.id.url):
            answer = client.get_object(**asked)
            answer["Body"].close()
    except HeadraceError as error:
        return refused(error), None
    found = answer.get("VersionId")
    return True, None if found in {None, "null"} else found


def refused(error: HeadraceError) -> Refused:
    """By the code of the answer that was translated, never by its text."""
    match error.__cause__:
        case ClientError() as cause:
            return Refused(_CAUSES.get(refusal_of(cause), Cause.OTHER), str(error))
        case _ if isinstance(error, AccessDenied):
            return Refused(Cause.CREDENTIALS, str(error))
        case _:
            return Refused(Cause.UNREACHED, str(error))


def _kafka_refused(error: HeadraceError) -> Refused:
    cause = {AccessDenied: Cause.DENIED, TopicMissing: Cause.MISSING}.get(type(error), Cause.UNREACHED)
    return Refused(cause, str(error))


# What Kafka takes for "no bound" is as many milliseconds as it can count.
_LONGEST_MS: Final = 2**63 - 1


def _topic(admin: KafkaAdmin, clients: ClientProperties, topic: str) -> TopicFacts | Refused:
    try:
        configuration = admin.topic_configuration(topic)
        partitions = admin.partition_count(topic)
        allowed = _allowed(clients, topic)
    except HeadraceError as error:
        return _kafka_refused(error)
    most = configuration.get("max.message.bytes")
    is_of_record = configuration.get("message.timestamp.type") == "CreateTime"
    return TopicFacts(
        partitions=partitions,
        max_message_bytes=None if most is None else int(most),
        cleanup_policy=configuration["cleanup.policy"],
        may_read=None if allowed is None else AclOperation.READ in allowed,
        may_write=None if allowed is None else AclOperation.WRITE in allowed,
        retention_ms=retention_ms(configuration) if is_of_record else None,
        refused_before_ms=_bound(
            # The latter is that of brokers before Kafka 3.6.
            configuration.get("message.timestamp.before.max.ms")
            or configuration.get("message.timestamp.difference.max.ms")
        )
        if is_of_record
        else None,
    )


def retention_ms(configuration: Mapping[str, str]) -> int | None:
    """How long a topic of this configuration keeps its records; None where no time deletes them."""
    is_deleted = "delete" in configuration["cleanup.policy"]
    return _bound(configuration.get("retention.ms")) if is_deleted else None


def _bound(given: str | None) -> int | None:
    """A number of milliseconds; None where it bounds nothing."""
    bound = -1 if given is None else int(given)
    return bound if 0 <= bound < _LONGEST_MS else None


def _allowed(clients: ClientProperties, topic: str) -> set[AclOperation] | None:
    """What this user may do with the topic, as the brokers themselves say (KIP-430); None if they do not."""
    # Held by a name: a client that is collected takes its unanswered questions with it.
    client = new_admin(clients.admin)
    futures = client.describe_topics(
        TopicCollection([topic]), include_authorized_operations=True, request_timeout=_CALL_SECONDS
    )
    try:
        found = futures[topic].result(_CALL_SECONDS + 1).authorized_operations
    except KafkaException as error:
        raise translate(error, what=f"topic {topic!r} could not be described") from error
    return set(found) or None if found is not None else None


def _group(clients: ClientProperties, group: str) -> bool | Refused | None:
    """Whether this user may join the group, as the brokers say (KIP-430); None if they do not."""
    client = new_admin(clients.admin)
    future = client.describe_consumer_groups(
        [group], include_authorized_operations=True, request_timeout=_CALL_SECONDS
    )[group]
    try:
        allowed = future.result(_CALL_SECONDS + 1).authorized_operations
    except KafkaException as error:
        return _kafka_refused(translate(error, what=f"consumer group {group!r} could not be described"))
    return None if not allowed else AclOperation.READ in allowed


def _memory(admin: KafkaAdmin, settings: Settings, ledger: TopicFacts | Refused) -> str | None:
    topic, group = settings.kafka.ledger_topic, group_id(settings.name)
    if isinstance(ledger, Refused) and ledger.cause is not Cause.MISSING:
        return None
    is_there = not isinstance(ledger, Refused)
    try:
        read_remembered_ledgers(admin, group).refuse_other(topic, admin.topic_id(topic) if is_there else None)
        refuse_other_members(admin, group, topic)
    except InvalidLedger as error:
        return str(error)
    except HeadraceError:
        # The group may not be described: `run` says so; here the topic's own finding says more.
        return None
    return None


def _target(settings: Settings, ledger: TopicFacts | Refused) -> TargetState:
    """What the ledger says is wanted; a ledger that cannot be read is another finding."""
    if isinstance(ledger, Refused) or ledger.may_read is False:
        return TargetState.RUNNING
    try:
        reading = open_ledger_reader(settings, timeout=_CALL_SECONDS)
    except HeadraceError:
        return TargetState.RUNNING
    if reading is None:
        return TargetState.RUNNING
    with reading:
        return target_of(reading.cache.controls())


def _transactions(clients: ClientProperties, name: str) -> bool | Refused:
    """Whether transactional ids of this ingester can be initialised: one of check's own, to fence no slot."""
    transactional_id = f"{name}-check"
    producer = new_transactional_producer(clients.producer, transactional_id)
    try:
        initialise(producer, transactional_id, deadline=time.monotonic() + _CALL_SECONDS)
    except HeadraceError as error:
        return _kafka_refused(error)
    producer.close()
    return True


def probe_uploads(settings: Settings, clients: AwsClients) -> UploadFacts:
    """What the bucket answers, asked with the sink's own options. Blocks on five calls."""
    assert settings.sink is not None, "a source uploads nothing"
    rules = _lifecycle_rules(clients, settings.s3.bucket)
    try:
        calls = new_upload_calls(settings.s3, settings.sink.upload)
    except HeadraceError as error:
        return UploadFacts(begin=_upload_refused(error), part=None, abort=None, missing=None, rules=rules)
    return _probe_uploads(calls, settings, rules)


def _probe_uploads(calls: UploadCalls, settings: Settings, rules: Sequence[Rule] | Refused) -> UploadFacts:
    bucket, probe_id = settings.s3.bucket, uuid4().hex
    key = f"{settings.s3.prefix}headrace-check-{probe_id}"
    try:
        upload = calls.begin(bucket, key, object_id=probe_id)
    except HeadraceError as error:
        return UploadFacts(begin=_upload_refused(error), part=None, abort=None, missing=None, rules=rules)
    part = _outcome(lambda: bool(calls.part(bucket, key, upload, 1, b"headrace check")))
    abort = _outcome(lambda: calls.abort(bucket, key, upload))
    missing = _outcome(lambda: calls.head_metadata(bucket, key) is None)
    return UploadFacts(begin=True, part=part, abort=abort, missing=missing, rules=rules)


def _outcome(call: Callable[[], bool]) -> bool | Refused:
    try:
        return call()
    except HeadraceError as error:
        return _upload_refused(error)


def _upload_refused(error: HeadraceError) -> Refused:
    if isinstance(error, InvalidConfiguration):
        return Refused(Cause.OPTION, str(error))
    return refused(error)


def _lifecycle_rules(clients: AwsClients, bucket: str) -> Sequence[Rule] | Refused:
    try:
        with translated_errors(f"the lifecycle configuration of s3://{bucket}"):
            try:
                rules: Sequence[Rule] = clients.s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
            except ClientError as error:
                if error_code(error) == "NoSuchLifecycleConfiguration":
                    return ()
                raise
    except HeadraceError as error:
        return refused(error)
    return rules
