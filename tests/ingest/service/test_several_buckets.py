"""A service of several buckets, as far as it needs no other process."""

import json
import queue
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import structlog.testing

from headrace.kafka.cache_files import CacheDirectory, LedgerRows, collect_rows
from headrace.kafka.control_records import FirstStart, encode_control, first_start_key
from headrace.kafka.ledger_cache import CacheLedgerView, LedgerCache
from headrace.kafka.ledger_topic import LedgerIdentity
from headrace.model.errors import AccessDenied, HeadraceError, ResourceMissing, SourceUnavailable, Unavailable
from headrace.model.ledger_entry import LedgerEntry, State, encode_entry, encode_key
from headrace.model.objects import ListingPage, ObjectId, OwedAction, PostAction, PostActionKind, S3Object
from headrace.options import Settings
from headrace.options.settings import S3Settings
from ingest.http.metrics import Metrics
from ingest.service import startup
from ingest.service.apply_effects import PostActions
from ingest.service.event_loop import MessageReader
from ingest.service.idle import Patience, UntilIdle
from ingest.service.service_events import ActionsDone, OwnEvent
from ingest.service.source_start import deciders
from ingest.service.startup import Startup
from ingest.service.statistics import Statistics, of_bucket
from ingest.source.command_queue import new_commands
from ingest.source.first_starts import baseline_of, first_start_of, left_out, other_buckets
from listeners.discovery_events import Message
from tests.headrace.options.loading import load_with
from tests.support.instants import at

A, B = "a-bucket", "b-bucket"
TWO = {"aws.s3.bucket.name": f"{A},{B}"}
NOW = 1_700_000_000_000


@pytest.fixture
def cache() -> Iterator[LedgerCache]:
    """A ledger's cache, in memory."""
    identity = LedgerIdentity(cluster_id="cluster", topic="ledger", topic_id="one")
    with LedgerCache(CacheDirectory(path=None, is_shared=False), identity) as made:
        yield made


def _page(bucket: str, *keys: str) -> ListingPage:
    return ListingPage(
        bucket=bucket,
        listing_id=1,
        is_full=True,
        after_key=None,
        through_key=None,
        objects=[
            S3Object(id=ObjectId(bucket, key, "e"), size=5, last_modified_ms=NOW - 1000) for key in keys
        ],
    )


def test_the_ledger_of_one_bucket_continues_with_two(cache: LedgerCache) -> None:
    """As a version that knew one bucket wrote it, byte for byte: nothing of it is read or written again."""
    done = (
        b'{"v":1,"state":"done","reason":null,"records":3,"bad":0,"position":null,"topic":null,"partition":null,'
        b'"attempts":0,"error":null,"size":5,"version_id":null,"last_modified_ms":1,"updated_ms":2}'
    )
    begun = done.replace(b'"done"', b'"partial"')
    begun = begun.replace(b'"position":null', b'"position":{"byte":2,"options":"h"}')
    records = [
        (b'{"bucket":"a-bucket","key":"done","etag":"e"}', done),
        (b'{"bucket":"a-bucket","key":"begun","etag":"e"}', begun),
    ]
    cache.apply(collect_rows(records), 1)
    first = FirstStart(at_ms=NOW - 500, start_key="d", prefix="")
    cache.apply(LedgerRows({}, {first_start_key(A).name: encode_control(first)}), 2)
    settings = load_with({**TWO, "include.existing": "false", "native.start.key": "d"})

    baselines = {place.s3.bucket: baseline_of(place, cache, NOW) for place in settings.by_place()}
    assert first_start_of(cache, A) == first
    assert first_start_of(cache, B) is None, "the first start of the new bucket alone is to come"
    assert [baselines[bucket].existing_before_ms for bucket in (A, B)] == [NOW - 500, NOW]

    catalogue, planner = deciders(settings, CacheLedgerView(cache), {A: first}, baselines, slots=1)
    catalogue.resume(at(NOW))
    effects = [catalogue.on_listing_page(_page(bucket, "begun", "done"), at(NOW)) for bucket in (A, B)]
    assert [(each.writes, each.finished) for each in effects] == [((), ())] * 2
    (work,) = planner.next_batch(0, 1, at(NOW))
    assert (work.object.id, work.records) == (ObjectId(A, "begun", "e"), 3)


def test_what_a_bucket_of_before_has_left_is_known(cache: LedgerCache) -> None:
    """A bucket that is not in the list any more has had its first start here."""
    for bucket in (A, B):
        first = encode_control(FirstStart(at_ms=5))
        cache.apply(LedgerRows({}, {first_start_key(bucket).name: first}), (cache.position or 0) + 1)
    assert other_buckets(cache, A, B) == ()
    assert other_buckets(cache, A) == (B,)
    assert left_out(cache, A) == {}, "nothing is unfinished there"
    for number, state in enumerate((State.DONE, State.PARTIAL, State.FAILED, State.NEW), start=10):
        record = encode_key(ObjectId(B, state, "e")), encode_entry(LedgerEntry(state=state))
        cache.apply(collect_rows([record]), number)
    assert left_out(cache, A) == {B: 3}
    assert left_out(cache, A, B) == {}


def test_counts_are_those_of_the_buckets_of_the_list(cache: LedgerCache) -> None:
    """And follow what is written to any of them."""
    counted = []
    for number, bucket in enumerate((A, B, "c-bucket", B)):
        key, entry = ObjectId(bucket, f"k{number}", "e"), LedgerEntry(state=State.QUARANTINED)
        cache.apply(collect_rows([(encode_key(key), encode_entry(entry))]), number)
        counted.append(cache.counts_in((A, B))[State.QUARANTINED])
    assert counted == [1, 2, 2, 3]
    assert cache.counts("c-bucket")[State.QUARANTINED] == 1


@dataclass
class _Calls:
    """S3's answers by bucket: an error, or its clock."""

    answers: dict[str, HeadraceError | int]
    uploads: dict[str, int] = field(default_factory=dict)
    regions: dict[str, str] = field(default_factory=dict)

    def clock_ms(self, bucket: str, _prefix: str) -> int:
        answer = self.answers[bucket]
        if isinstance(answer, HeadraceError):
            raise answer
        return answer

    def region(self, bucket: str) -> str | None:
        return self.regions.get(bucket)


def _start(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, HeadraceError | int], **regions: str
) -> Startup:
    calls = _Calls(answers, regions={f"{name}-bucket": region for name, region in regions.items()})
    made: Callable[[S3Settings], Any] = lambda _s3: calls  # noqa: E731 - a stand-in of one line
    monkeypatch.setattr(startup, "new_s3_calls", made)
    nothing: Any = None
    return Startup(
        load_with(TWO),
        nothing,
        accept_new_ledger=False,
        deadline=time.monotonic(),
        stop=nothing,
        snapshot_holder=nothing,
        statistics=nothing,
        failures=nothing,
    )


@pytest.mark.parametrize("refusal", [AccessDenied, ResourceMissing, SourceUnavailable])
def test_a_start_needs_one_bucket_that_answers(
    monkeypatch: pytest.MonkeyPatch, refusal: type[HeadraceError]
) -> None:
    """The first start of another is dated by S3's clock all the same, with a WARN that names the bucket."""
    starting = _start(monkeypatch, {A: refusal("said why"), B: NOW})
    with structlog.testing.capture_logs() as logged:
        found = starting._ask_buckets()
    assert {bucket: one.now_by_s3_ms for bucket, one in found.items()} == {A: NOW, B: NOW}
    assert [(line["event"], line["bucket"]) for line in logged] == [("bucket_not_listed", A)]


def test_a_start_names_a_bucket_of_another_region(monkeypatch: pytest.MonkeyPatch) -> None:
    """Amazon redirects its requests, so that nothing else would say it; no event of it reaches the queue."""
    starting = _start(monkeypatch, {A: NOW, B: NOW}, a="us-east-1", b="eu-west-1")
    with structlog.testing.capture_logs() as logged:
        starting._ask_buckets()
    (line,) = logged
    assert (line["event"], line["bucket"], line["region"]) == ("bucket_elsewhere", B, "eu-west-1")
    assert line["remedy"] == "give it a source of its own, with aws.s3.region=eu-west-1"


@pytest.mark.parametrize(
    ("answers", "raised"),
    [
        ({A: ResourceMissing("a"), B: ResourceMissing("b")}, ResourceMissing),
        ({A: ResourceMissing("a"), B: SourceUnavailable("b")}, Unavailable),
        ({A: AccessDenied("a"), B: AccessDenied("b")}, Unavailable),
    ],
)
def test_a_start_waits_while_no_bucket_answers(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, HeadraceError | int], raised: type[HeadraceError]
) -> None:
    """What may pass is waited for; where all are missing it ends at once."""
    with pytest.raises(raised):
        _start(monkeypatch, answers)._ask_buckets()


class _Settling:
    """What is done with messages."""

    def __init__(self) -> None:
        self.left: list[str] = []

    def abandon(self, message_id: str) -> None:
        self.left.append(message_id)


def test_messages_of_each_bucket_of_the_list_are_read() -> None:
    """And one that names another bucket too is left on the queue, as with one bucket."""
    settling: Any = _Settling()
    reader = MessageReader((A, B), settling, Statistics(Metrics(dict)))

    def message(*buckets: str) -> Message:
        records = [
            {
                "eventSource": "aws:s3",
                "eventName": "ObjectCreated:Put",
                "eventTime": "2023-11-14T22:13:20.000Z",
                "s3": {"bucket": {"name": bucket}, "object": {"key": "k", "eTag": "e", "size": 1}},
            }
            for bucket in buckets
        ]
        return Message(id="+".join(buckets), body=json.dumps({"Records": records}))

    events = reader.read(message(A, B))
    assert events is not None
    assert [event.bucket for event in events] == [A, B]
    assert reader.read(message(A, "c-bucket")) is None
    assert settling.left == [f"{A}+c-bucket"]


def test_idle_is_only_who_has_listed_every_bucket() -> None:
    """Twice the same bucket is one."""
    idle = UntilIdle(has_queue=False, patience=Patience(1.0), buckets=2)
    for bucket, is_over in ((A, False), (A, False), (B, True)):
        idle.begun(bucket, 1)
        idle.listed(bucket, 1)
        assert idle.is_over(is_idle=True) is is_over


def test_problems_have_the_name_of_the_bucket_where_there_are_several() -> None:
    """With one they are called as ever."""
    assert of_bucket("bucket", A, among=(A,)) == "bucket"
    assert of_bucket("bucket", A, among=(A, B)) == f"bucket {A}"


@dataclass
class _Deleting:
    bucket: str
    deleted: list[tuple[str, str]]

    def delete(self, key: str, _etag: str, _removing: Any) -> bool:
        self.deleted.append((self.bucket, key))
        return True


def test_an_action_is_carried_out_in_the_objects_own_bucket() -> None:
    """Which need not be the first one of the list."""
    deleted: list[tuple[str, str]] = []
    made: Callable[..., Any] = lambda settings, **_: _Deleting(settings.bucket, deleted)  # noqa: E731 - see above
    told: queue.SimpleQueue[OwnEvent] = queue.SimpleQueue()
    settings: Settings = load_with(TWO)
    actions = PostActions(
        settings.s3, PostAction(PostActionKind.DELETE), told.put, count=lambda _: None, calls=made
    )
    for bucket in (B, A, B):
        actions.request(OwedAction(ObjectId(bucket, "k", "1"), (("k", "1", None),)))
        assert told.get(timeout=60) == ActionsDone((ObjectId(bucket, "k", "1"),))
    actions.close()
    assert deleted == [(B, "k"), (A, "k"), (B, "k")]


def test_a_command_is_for_objects_of_one_bucket() -> None:
    """Its record names the bucket once, so that a selection of several is several commands."""
    seen = [S3Object(id=ObjectId(bucket, "k", "e"), size=1, last_modified_ms=1) for bucket in (A, A, B)]
    commands = [command for _, command in new_commands("mark", seen, at_ms=1)]
    assert [(command.bucket, len(command.objects)) for command in commands] == [(A, 2), (B, 1)]
