"""The listeners as the service sees them, on LocalStack, with a proxy before it where something fails."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from headrace.model.errors import AccessDenied, ObjectMissing
from headrace.model.objects import ListingPage, ObjectId, S3Object
from headrace.process.threads import ThreadFailures, collecting
from listeners.discovery_events import (
    Event,
    HeadAnswer,
    ListingBegun,
    ListingFailed,
    ListingKind,
    Mode,
    ModeChanged,
)
from listeners.listeners import Listeners
from tests.support import aws
from tests.support.configuration import settings_for
from tests.support.credential_service import CredentialService
from tests.support.listener_host import ListenerHost
from tests.support.listening import Inbox
from tests.support.proxy import Answer, Cut, Proxy, Refuse, Silent
from tests.support.until import until_sync

pytestmark = pytest.mark.parts

QUICK = {
    "sqs.wait.time.seconds": "1",
    "events.fallback.after.ms": "600",
    "poll.interval.ms": "200",
    "aws.s3.backoff.delay.ms": "10",
    "aws.s3.backoff.max.delay.ms": "100",
}
EVENTS, FALLBACK, LISTING = Mode.EVENTS, Mode.FALLBACK, Mode.LISTING


def _queue() -> str:
    """A queue whose messages come back soon: LocalStack gives some to long polls whose client is gone."""
    return aws.new_queue(attributes={"VisibilityTimeout": "2"})


def _put(bucket: str, *keys: str) -> None:
    client = aws.s3()
    for key in keys:
        client.put_object(Bucket=bucket, Key=key, Body=key.encode())


def test_with_a_queue_messages_come_and_one_listing() -> None:
    """The full listing of the start, then events only; what is settled is gone."""
    bucket, queue = aws.new_bucket(), _queue()
    _put(bucket, "a", "b")
    with ListenerHost(settings_for(bucket=bucket, queue_url=queue, options=QUICK)) as service:
        aws.sqs().send_message(QueueUrl=queue, MessageBody="news")
        until_sync(lambda: service.deliveries and service.of(ListingPage))
        assert [delivery.body for delivery in service.deliveries] == ["news"]
        service.listeners.settle([service.deliveries[0].id])
        until_sync(lambda: service.count("settled") == 1)
        assert service.modes == [EVENTS]
    assert service.listed == ["a", "b"]
    assert [begun.kind for begun in service.of(ListingBegun)] == [ListingKind.FULL]


def test_without_a_queue_listings_follow_one_another() -> None:
    """A new object is found by the next poll, one that sorts before the others too."""
    bucket = aws.new_bucket()
    _put(bucket, "m")
    # `auto` continues from "m" for a while where LocalStack takes longer than a quarter of the interval.
    options = {**QUICK, "poll.listing": "full"}
    with ListenerHost(settings_for(bucket=bucket, queue_url=None, options=options)) as service:
        until_sync(lambda: "m" in service.listed)
        _put(bucket, "a", "z")
        until_sync(lambda: {"a", "z"} <= set(service.listed))
    assert service.modes == [LISTING]


def test_incremental_polls_and_the_start_key() -> None:
    """Full at the start, then from the last key; keys up to the start key never show."""
    bucket = aws.new_bucket()
    _put(bucket, "a", "m", "n")
    options = {**QUICK, "poll.listing": "incremental"}
    with ListenerHost(
        settings_for(bucket=bucket, queue_url=None, options=options), skip_through="m"
    ) as service:
        until_sync(lambda: len(service.of(ListingBegun)) > 2)
        _put(bucket, "b", "o")
        until_sync(lambda: "o" in service.listed)
    assert set(service.listed) == {"n", "o"}
    begun = service.of(ListingBegun)
    assert [(one.kind, one.after_key) for one in begun[:2]] == [
        (ListingKind.FULL, "m"),
        (ListingKind.INCREMENTAL, "n"),
    ]


def test_a_listing_can_be_asked_for_paused_and_resumed() -> None:
    """Before the clients are there as well as later."""
    bucket, queue = aws.new_bucket(), _queue()
    with ListenerHost(settings_for(bucket=bucket, queue_url=queue, options=QUICK)) as service:
        service.listeners.pause_listing()
        until_sync(lambda: service.of(ListingBegun))
        assert service.of(ListingPage) == []
        service.listeners.resume_listing()
        until_sync(lambda: len(service.of(ListingPage)) == 1)
        service.listeners.request_listing()
        until_sync(lambda: len(service.of(ListingPage)) == 2)


def test_a_queue_that_does_not_exist_is_listing_instead() -> None:
    """At once, with the reason; when the queue is made, events take over after a full listing."""
    bucket, queue = aws.new_bucket(), _queue()
    aws.sqs().delete_queue(QueueUrl=queue)
    with ListenerHost(
        settings_for(bucket=bucket, queue_url=queue, options={**QUICK, "events.fallback.after.ms": "60000"})
    ) as service:
        until_sync(lambda: service.modes == [EVENTS, FALLBACK])
        assert "NonExistentQueue" in service.of(ModeChanged)[-1].why
        _put(bucket, "found by listing")
        until_sync(lambda: "found by listing" in service.listed)
        aws.sqs().create_queue(QueueName=queue.rsplit("/", 1)[1])
        until_sync(lambda: service.modes == [EVENTS, FALLBACK, EVENTS], seconds=60)


def test_a_queue_deleted_under_way_and_made_again() -> None:
    """What arrives in between is listed; the messages held are let go without a word."""
    bucket, queue = aws.new_bucket(), _queue()
    with ListenerHost(settings_for(bucket=bucket, queue_url=queue, options=QUICK)) as service:
        aws.sqs().send_message(QueueUrl=queue, MessageBody="held")
        until_sync(lambda: len(service.deliveries) == 1)
        aws.sqs().delete_queue(QueueUrl=queue)
        until_sync(lambda: service.modes == [EVENTS, FALLBACK])
        _put(bucket, "unannounced")
        until_sync(lambda: "unannounced" in service.listed)
        service.listeners.settle([service.deliveries[0].id])
        aws.sqs().create_queue(QueueName=queue.rsplit("/", 1)[1])
        aws.sqs().send_message(QueueUrl=queue, MessageBody="again")
        until_sync(lambda: len(service.deliveries) == 2, seconds=60)
        until_sync(lambda: service.modes == [EVENTS, FALLBACK, EVENTS])
        service.listeners.settle([service.deliveries[1].id])
        until_sync(lambda: service.count("settled") >= 1)


FORBIDDEN = Answer(
    403, b'{"__type":"com.amazonaws.sqs#AccessDenied","message":"no"}', "application/x-amz-json-1.0"
)
FAULTS = [
    pytest.param(Refuse(), id="refused"),
    pytest.param(Answer(500), id="500"),
    pytest.param(Answer(503, b"", "text/plain"), id="503"),
    pytest.param(FORBIDDEN, id="forbidden"),
    pytest.param(Cut(), id="cut"),
    pytest.param(Silent(), id="silent", marks=pytest.mark.long),
]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_failing_endpoint_and_back(fault: Refuse | Answer | Cut | Silent) -> None:
    """Fallback with the reason, listings at the poll cadence, and back after one full listing; no crash."""
    bucket, queue = aws.new_bucket(), _queue()
    with (
        Proxy(aws.address()) as proxy,
        ListenerHost(settings_for(bucket=bucket, queue_url=queue, sqs=proxy.url, options=QUICK)) as service,
    ):
        aws.sqs().send_message(QueueUrl=queue, MessageBody="before")
        until_sync(lambda: len(service.deliveries) == 1)
        proxy.on(fault)
        if not isinstance(fault, Silent):  # silence is noticed by the time-out alone
            proxy.cut()
        until_sync(lambda: service.modes == [EVENTS, FALLBACK], seconds=60)
        _put(bucket, "unannounced")
        until_sync(lambda: "unannounced" in service.listed)
        proxy.off()
        proxy.cut()
        aws.sqs().send_message(QueueUrl=queue, MessageBody="after")
        until_sync(lambda: len(service.deliveries) == 2, seconds=60)
        until_sync(lambda: service.modes == [EVENTS, FALLBACK, EVENTS])
        service.listeners.settle(delivery.id for delivery in service.deliveries)
        until_sync(lambda: service.count("settled") == 2)


def test_a_short_failure_is_none() -> None:
    """Two failed calls within the time switch nothing."""
    bucket, queue = aws.new_bucket(), _queue()
    options = {**QUICK, "events.fallback.after.ms": "20000"}
    with (
        Proxy(aws.address()) as proxy,
        ListenerHost(settings_for(bucket=bucket, queue_url=queue, sqs=proxy.url, options=options)) as service,
    ):
        until_sync(lambda: len(proxy.requests) > 2)
        proxy.on(Answer(500), times=2)
        proxy.cut()
        aws.sqs().send_message(QueueUrl=queue, MessageBody="after")
        until_sync(lambda: len(service.deliveries) == 1)
        assert service.modes == [EVENTS]


def test_a_bucket_that_does_not_answer_is_told_and_listed_later() -> None:
    """S3 failing is no reason to end, nor to take a listing for complete."""
    bucket = aws.new_bucket()
    _put(bucket, "a")
    with Proxy(aws.address()) as proxy:
        proxy.on(Answer(503))
        with ListenerHost(
            settings_for(bucket=bucket, queue_url=None, s3=proxy.url, options=QUICK)
        ) as service:
            until_sync(lambda: len(service.of(ListingFailed)) >= 2)
            assert service.of(ListingPage) == []
            proxy.off()
            until_sync(lambda: service.listed[:1] == ["a"])
        first = service.of(ListingPage)[0]
        assert (first.listing_id, first.is_last) == (1, True)


def test_without_credentials_it_keeps_trying(monkeypatch: pytest.MonkeyPatch) -> None:
    """A named source that has none is told as such; stopping works all the same."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    provider = "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider"
    settings = settings_for(
        bucket=aws.new_bucket(), queue_url=None, keys=False, options={"aws.credentials.provider": provider}
    )
    with ListenerHost(settings) as service:
        until_sync(lambda: service.of(ListingFailed))
        failure = service.of(ListingFailed)[0]
        assert isinstance(failure.error, AccessDenied)
        assert "aws.credentials.provider names the source 'environment'" in str(failure.error)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        until_sync(lambda: service.of(ListingPage))


def test_a_role_that_is_refused_for_a_while() -> None:
    """Listing and queue fail with a sentence that names the role, and both go on once it is granted."""
    bucket, queue = aws.new_bucket(), _queue()
    _put(bucket, "a")
    with CredentialService() as sts:
        sts.grant(seconds=60)
        options = {
            **QUICK,
            "aws.sts.role.arn": f"arn:aws:iam::{aws.ACCOUNT}:role/reader",
            "aws.sts.config.endpoint": sts.url,
        }
        with ListenerHost(settings_for(bucket=bucket, queue_url=queue, options=options)) as service:
            until_sync(lambda: "a" in service.listed)
            sts.refuse("AccessDenied", 403, "not authorized to perform: sts:AssumeRole")
            until_sync(lambda: service.modes[-1] is FALLBACK and service.of(ListingFailed), seconds=60)
            sentence = str(service.of(ListingFailed)[-1].error)
            assert "aws.sts.role.arn" in sentence
            assert "not authorized to perform: sts:AssumeRole" in sentence
            assert "aws.sts.role.arn" in service.of(ModeChanged)[-1].why
            _put(bucket, "b")
            sts.grant()
            until_sync(lambda: service.modes[-1] is EVENTS and "b" in service.listed, seconds=60)


def test_a_role_is_assumed() -> None:
    """With the static keys as what assumes it."""
    bucket = aws.new_bucket()
    _put(bucket, "a")
    with Proxy(aws.address()) as proxy:
        options = {
            **QUICK,
            "aws.sts.role.arn": f"arn:aws:iam::{aws.ACCOUNT}:role/reader",
            "aws.sts.role.external.id": "known-to-both",
            "aws.sts.config.endpoint": proxy.url,
        }
        with ListenerHost(settings_for(bucket=bucket, queue_url=None, options=options)) as service:
            until_sync(lambda: "a" in service.listed)
            until_sync(lambda: len(service.of(ListingPage)) >= 3)
        assert len(proxy.requests) == 1, "once, not with every call"


def test_heads_are_answered() -> None:
    """What an event left out: ETag, size, time; or that the object is gone."""
    bucket = aws.new_bucket()
    tag = aws.s3().put_object(Bucket=bucket, Key="é +", Body=b"12345")["ETag"].strip('"')
    with (
        Proxy(aws.address()) as proxy,
        ListenerHost(settings_for(bucket=bucket, queue_url=None, s3=proxy.url, options=QUICK)) as service,
    ):
        proxy.on(Answer(503, b""), when=lambda request: request.method == "HEAD", times=2)
        service.listeners.request_head("t1", bucket=bucket, key="é +", version_id=None)
        service.listeners.request_head("t2", bucket=bucket, key="gone", version_id=None)
        until_sync(lambda: len(service.of(HeadAnswer)) == 2)
    answers = {found.token: found.answer for found in service.of(HeadAnswer)}
    found = answers["t1"]
    assert isinstance(found, S3Object)
    assert (found.id, found.size, found.version_id) == (ObjectId(bucket, "é +", tag), 5, None)
    assert abs(found.last_modified_ms / 1000 - time.time()) < 600
    assert isinstance(answers["t2"], ObjectMissing)


def test_a_head_of_a_version() -> None:
    """The version asked for, also when it is not the newest."""
    bucket = aws.new_bucket()
    client = aws.s3()
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    old = client.put_object(Bucket=bucket, Key="k", Body=b"old one")
    client.put_object(Bucket=bucket, Key="k", Body=b"new")
    with ListenerHost(settings_for(bucket=bucket, queue_url=None, options=QUICK)) as service:
        service.listeners.request_head("t", bucket=bucket, key="k", version_id=old["VersionId"])
        until_sync(lambda: service.of(HeadAnswer))
    found = service.of(HeadAnswer)[0].answer
    assert isinstance(found, S3Object)
    assert (found.version_id, found.size) == (old["VersionId"], 7)


def test_a_bug_is_handed_to_the_service() -> None:
    """Nothing that is not an outside failure is retried or lost: the listeners' thread fails with it."""

    def post(event: Event) -> None:
        if isinstance(event, ListingPage):
            raise ValueError("a bug")  # noqa: TRY004 - any exception will do

    settings = settings_for(bucket=aws.new_bucket(), queue_url=None, options=QUICK)
    listeners = Listeners(settings, post, Inbox().counters)
    failures = ThreadFailures()
    with collecting(failures):
        listeners.start()
        until_sync(lambda: failures.first is not None)
        listeners.stop(seconds=1)
    assert isinstance(failures.first, ExceptionGroup)
    assert failures.first.subgroup(ValueError) is not None


def test_a_bug_in_what_was_asked_for_ends_the_listeners() -> None:
    """Asyncio would log it and go on, without the answer that somebody waits for."""
    settings = settings_for(bucket=aws.new_bucket(), queue_url=aws.new_queue(), options=QUICK)
    listeners = Listeners(settings, lambda _event: None, Inbox().counters)
    failures = ThreadFailures()
    unhashable: Any = [["no id"]]
    with collecting(failures):
        listeners.start()
        listeners.settle(unhashable)
        until_sync(lambda: failures.first is not None)
        listeners.stop(seconds=1)
    # In a group when it was asked for before the listeners' clients were there.
    error = failures.first
    assert isinstance(error, TypeError) or (isinstance(error, ExceptionGroup) and error.subgroup(TypeError))


def test_listeners_that_never_began_can_be_stopped() -> None:
    """And asked for things."""
    settings = settings_for(bucket="never-asked-for", queue_url=None)
    listeners = Listeners(settings, lambda _event: None, Inbox().counters)
    listeners.settle(["m"])
    listeners.stop(seconds=1)


def _seconds_to_stop(service: ListenerHost, *, most: float) -> float:
    began = time.monotonic()
    service.listeners.stop(seconds=most)
    return time.monotonic() - began


@pytest.mark.parametrize(
    ("break_it", "is_well"),
    [
        pytest.param(lambda _proxy: None, True, id="all well"),
        pytest.param(lambda proxy: proxy.on(Refuse()), False, id="queue away"),
        pytest.param(lambda proxy: proxy.on(Silent()), False, id="queue silent"),
    ],
)
def test_a_stop_releases_and_ends_in_time(break_it: Callable[[Proxy], None], *, is_well: bool) -> None:
    """Within the seconds given, whatever the queue does; nothing more can be done with the listeners then."""
    bucket, queue = aws.new_bucket(), _queue()
    options = {**QUICK, "sqs.wait.time.seconds": "2"}
    with Proxy(aws.address()) as proxy:
        service = ListenerHost(settings_for(bucket=bucket, queue_url=queue, sqs=proxy.url, options=options))
        service.listeners.start()
        aws.sqs().send_message(QueueUrl=queue, MessageBody="held")
        until_sync(lambda: service.count("heartbeats") >= 1)
        break_it(proxy)
        # Without a bound it would wait for a minute, and would try again.
        assert _seconds_to_stop(service, most=30 if is_well else 3) < 40
        service.listeners.settle([service.deliveries[0].id])
        service.listeners.request_listing()
        released = service.count("released")
    answer = aws.sqs().receive_message(QueueUrl=queue, WaitTimeSeconds=20 if is_well else 0)
    assert len(answer.get("Messages", ())) == released == (1 if is_well else 0)
