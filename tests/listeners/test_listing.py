"""Listings over a bucket in memory: no gap, no repeat, no leak, whatever fails."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.errors import AccessDenied, SourceUnavailable
from headrace.model.objects import ListingPage, ObjectId, S3Object
from listeners.discovery_events import Backoff, Event, ListingBegun, ListingFailed, ListingKind
from listeners.listeners import are_read_without_others
from listeners.listing import PAGES_IN_FLIGHT, Bucket, Listed, Lister
from tests.headrace.options.loading import load_with
from tests.support.fake_bucket import FakeBucket
from tests.support.listening import Inbox, service_error
from tests.support.until import until

AT_ONCE = Backoff(first=0.0, longest=0.0)
FULL, INCREMENTAL = ListingKind.FULL, ListingKind.INCREMENTAL


class _Service(Inbox):
    """Acknowledges every page as soon as it comes."""

    lister: Lister

    def post(self, event: Event) -> None:
        super().post(event)
        if isinstance(event, ListingPage):
            self.lister.page_done()

    @property
    def keys(self) -> list[str]:
        return [found.id.key for page in self.of(ListingPage) for found in page.objects]


def _list(
    client: FakeBucket,
    *,
    bucket: Bucket | None = None,
    kind: ListingKind = FULL,
    after: str | None = None,
    quiet_failures: int = 0,
) -> tuple[_Service, Listed]:
    service = _Service()

    async def scenario() -> Listed:
        service.lister = Lister(
            client=client,
            bucket=bucket or Bucket(name="b"),
            post=service.post,
            counters=service.counters,
            pauses=AT_ONCE,
            quiet_failures=quiet_failures,
        )
        return await service.lister.list(kind, after=after)

    return service, asyncio.run(scenario())


def _assert_seamless(pages: Sequence[ListingPage], *, begin: str | None) -> None:
    """Each page begins where the one before ended; only the last has no end; objects lie inside, in order."""
    assert [page.is_last for page in pages] == [False] * (len(pages) - 1) + [True]
    position = begin
    for page in pages:
        assert page.after_key == position
        assert (page.through_key is None) is page.is_last
        for found in page.objects:
            key = found.id.key.encode()
            assert position is None or position.encode() < key
            assert page.through_key is None or key <= page.through_key.encode()
            position = found.id.key
        position = page.through_key


def test_an_object_as_listed() -> None:
    """ETag without quotes, time in milliseconds, no version; S3's own clock with the page."""
    service, listed = _list(FakeBucket(["k"]))
    assert service.events == [
        ListingBegun(bucket="b", listing_id=1, kind=FULL, after_key=None),
        ListingPage(
            bucket="b",
            listing_id=1,
            is_full=True,
            after_key=None,
            through_key=None,
            objects=(
                S3Object(
                    id=ObjectId("b", "k", "etag-k"),
                    size=3,
                    last_modified_ms=1_769_860_800_000,
                    storage_class="STANDARD",
                ),
            ),
        ),
    ]
    assert listed.last_key == "k"
    assert service.counts["list_requests"] == 1


@pytest.mark.parametrize(
    ("restore", "is_archived"),
    [
        ({}, True),
        ({"RestoreStatus": {"IsRestoreInProgress": True}}, True),
        ({"RestoreStatus": {"IsRestoreInProgress": False, "RestoreExpiryDate": "later"}}, False),
    ],
    ids=["never", "under way", "done"],
)
def test_a_restored_object_is_not_archived(restore: Mapping[str, Any], *, is_archived: bool) -> None:
    """Its class stays what it was: only what S3 is asked to show with it tells."""
    client = FakeBucket(["k"], shown={"k": {"StorageClass": "GLACIER", **restore}})
    service, _ = _list(client)

    assert [found.is_archived for page in service.of(ListingPage) for found in page.objects] == [is_archived]
    assert client.calls[0]["OptionalObjectAttributes"] == ["RestoreStatus"]


def test_restores_are_not_asked_for_where_the_store_refuses_it() -> None:
    """Nothing is reported as failing; the next listing asks once more."""
    client = FakeBucket(
        [f"{number:03}" for number in range(20)],
        page=10,
        fails=lambda number: None if number else service_error("NotImplemented", 501),
    )
    service, _ = _list(client)

    assert ["OptionalObjectAttributes" in call for call in client.calls] == [True, False, False]
    assert service.of(ListingFailed) == []
    assert len(service.keys) == 20


@pytest.mark.parametrize(
    ("code", "asks"),
    [
        ("ExpiredToken", [True, True, True]),
        ("RequestTimeout", [True, True, True]),
        ("Throttling", [True, True, True]),
        ("InvalidArgument", [True, False, False]),
        ("400", [True, False, False]),
    ],
)
def test_a_bad_request_for_something_else_does_not_hide_restored_copies(code: str, asks: list[bool]) -> None:
    """Without the question they would count as archived, and be left out."""
    client = FakeBucket(
        [f"{number:03}" for number in range(20)],
        page=10,
        fails=lambda number: None if number else service_error(code, 400),
    )
    service, _ = _list(client, quiet_failures=1)

    assert ["OptionalObjectAttributes" in call for call in client.calls] == asks
    assert len(service.keys) == 20


@pytest.mark.parametrize(("times", "reported"), [(1, 0), (2, 1)])
def test_keys_that_were_rotated_are_no_failure(times: int, reported: int) -> None:
    """The first refusal has the client's keys resolved again; another one is reported."""
    client = FakeBucket(
        ["k"], fails=lambda number: service_error("ExpiredToken", 400) if number < times else None
    )
    service, _ = _list(client)

    assert len(service.of(ListingFailed)) == reported
    assert service.keys == ["k"]


class _WithoutETags(FakeBucket):
    async def list_objects_v2(self, **arguments: Any) -> Mapping[str, Any]:
        answer = await super().list_objects_v2(**arguments)
        for entry in answer["Contents"]:
            del entry["ETag"]
        return answer


def test_no_object_outside_the_prefix_is_asked_for() -> None:
    """A policy may grant the prefix alone: the refusal of another key would hold up the listing for ever."""
    client = _WithoutETags(["a/k", "in/k", "z/k"], ignores=frozenset({"Prefix"}))
    service, _ = _list(client, bucket=Bucket(name="b", prefix="in/"))
    assert service.keys == client.heads == ["in/k"]


@pytest.mark.parametrize("etag", [None, "", '""'])
def test_an_object_that_a_store_lists_without_its_etag_is_asked_for(etag: str | None) -> None:
    """AIStore, S3Proxy and others list some so: it was a failure of the listing, of all keys after it."""

    class Lacking(FakeBucket):
        async def list_objects_v2(self, **arguments: Any) -> Mapping[str, Any]:
            answer = await super().list_objects_v2(**arguments)
            for entry in answer["Contents"]:
                if entry["Key"] not in {"a", "in/"}:
                    entry["ETag"] = etag
                    if etag is None:
                        del entry["ETag"]
            return answer

        async def head_object(self, **arguments: Any) -> Mapping[str, Any]:
            found = await super().head_object(**arguments)
            if arguments["Key"] == "gone":
                raise service_error("404", 404, "HeadObject")
            return {**found, "VersionId": "v"}

    client = Lacking(["a", "b", "gone", "in/", *(f"k{number}" for number in range(20))])
    service, _ = _list(client)
    assert service.of(ListingFailed) == []
    assert [found.id.etag for found in service.of(ListingPage)[0].objects] == [
        f"etag-{key}" for key in sorted(client.keys) if key != "gone"
    ]
    assert {found.version_id for found in service.of(ListingPage)[0].objects} == {None}
    assert sorted(client.heads) == sorted(set(client.keys) - {"a", "in/"})


class _Refusing(FakeBucket):
    """Lists objects whose names begin with `x` without ETags, and refuses the HEADs of `refused` at first."""

    refused: frozenset[str] = frozenset({"x1"})
    status = 403
    times = 4
    then_all = False
    _is_refusing = False

    async def list_objects_v2(self, **arguments: Any) -> Mapping[str, Any]:
        answer = await super().list_objects_v2(**arguments)
        for entry in answer["Contents"]:
            if entry["Key"].startswith("x"):
                del entry["ETag"]
        return answer

    async def head_object(self, **arguments: Any) -> Mapping[str, Any]:
        found = await super().head_object(**arguments)
        self.times -= 1
        is_refused = arguments["Key"] in self.refused or (self.then_all and self._is_refusing)
        if self.times >= 0 and is_refused:
            self._is_refusing = True
            raise service_error(str(self.status), self.status, "HeadObject")
        return found


@pytest.mark.parametrize("keys", [["x1", "x2"], ["k", "x1"]])
@pytest.mark.parametrize("status", [400, 403])
def test_an_object_of_which_s3_does_not_tell_is_left_out_alone(keys: list[str], status: int) -> None:
    """It held up the listing, and with it all keys after it."""
    client = _Refusing(keys)
    client.status = status
    with structlog.testing.capture_logs() as logged:
        service, _ = _list(client)

    assert service.of(ListingFailed) == []
    (page,) = service.of(ListingPage)
    assert [found.id.key for found in page.objects] == [key for key in keys if key != "x1"]
    assert [sentence.startswith("s3://b/x1 ") for sentence in page.refused] == [True]
    assert [line["error"] for line in logged if line["event"] == "listed_object_refused"] == [*page.refused]


@pytest.mark.parametrize(
    ("keys", "bucket"),
    [
        # S3 answers nothing else: nothing says that one object is to blame.
        (["x1"], Bucket(name="b")),
        (["in/", "x1"], Bucket(name="b")),
        (["k", "x1"], Bucket(name="b")),
        # Values are restored without keys that are not there.
        (["x1", "x2"], Bucket(name="b", is_read_without=False)),
    ],
)
def test_a_listing_waits_where_more_may_be_refused(keys: list[str], bucket: Bucket) -> None:
    """Credentials that expire, or a bucket that is denied, are no object's."""
    client = _Refusing(keys)
    client.refused = frozenset({"k", "x1"})
    service, _ = _list(client, bucket=bucket)

    assert service.of(ListingFailed) != []
    assert service.of(ListingPage)[-1].refused == ()
    assert service.keys == keys


def test_objects_are_not_left_out_as_credentials_expire_among_their_heads() -> None:
    """Those that were answered before say nothing of that: each key after them would be left out."""
    keys = [f"x{number:02}" for number in range(20)]
    client = _Refusing(keys)
    client.refused = frozenset(keys[8:])
    # The store refuses all by then.
    client.then_all = True
    client.times = 20 + 1
    service, _ = _list(client)

    assert service.of(ListingFailed) != []
    assert [page.refused for page in service.of(ListingPage)] == [()]
    assert service.keys == keys


@pytest.mark.parametrize(
    ("options", "may_be"),
    [
        ({}, True),
        # What comes after an object that fails waits there, too.
        ({"ordering": "partition", "file.name.template": "{{topic}}-{{partition}}-{{start_offset}}"}, False),
        ({"input.layout": "confluent", "input.format": "jsonl", "ordering": "object"}, False),
    ],
)
def test_an_object_is_left_out_only_where_nothing_hangs_on_it(options: dict[str, str], may_be: bool) -> None:
    """It would be produced after those that it goes before, or they without it."""
    assert are_read_without_others(load_with(options)) is may_be


@pytest.mark.parametrize("kind", list(ListingKind))
def test_a_listing_says_that_it_left_something_out(kind: ListingKind) -> None:
    """Its schedule has to look for that."""
    client = _Refusing(["x1", "x2"])
    _, listed = _list(client, kind=kind, after="a")
    assert not listed.is_whole
    client.times = 0
    _, listed = _list(client, kind=kind, after="a")
    assert listed.is_whole


@pytest.mark.parametrize("name", ["Size", "LastModified"])
def test_an_entry_that_lacks_something_is_a_failure_of_the_listing(name: str) -> None:
    """Which is told, and the page is asked for again: nothing is left out, and the listing does not end."""

    class Lacking(FakeBucket):
        async def list_objects_v2(self, **arguments: Any) -> Mapping[str, Any]:
            answer = await super().list_objects_v2(**arguments)
            if len(self.calls) <= 3:
                del answer["Contents"][1][name]
            return answer

    service, _ = _list(Lacking(["a", "b", "c"]))
    assert service.keys == ["a", "b", "c"]
    assert [str(failed.error).partition(",")[0] for failed in service.of(ListingFailed)] == [
        f"s3://b/b in a listing was answered without {name.replace('tM', 't-M')}"
    ] * 3


def test_a_directory_bucket_is_not_asked_for_restores() -> None:
    """It refuses that."""
    client = FakeBucket(["k"])
    _list(client, bucket=Bucket(name="b--use1-az4--x-s3"))

    assert "OptionalObjectAttributes" not in client.calls[0]


def test_an_empty_prefix_is_one_empty_page() -> None:
    """So that entries of vanished objects can be seen to have vanished."""
    service, listed = _list(FakeBucket(["other/k"]), bucket=Bucket(name="b", prefix="in/"))
    assert [(page.objects, page.is_last) for page in service.of(ListingPage)] == [((), True)]
    assert listed.last_key is None


def test_the_prefix_goes_with_every_page_and_the_requester_pays() -> None:
    """Also with pages that continue, and after a failure."""
    client = FakeBucket(
        [f"in/{number:03}" for number in range(50)],
        page=10,
        fails=lambda number: service_error("SlowDown", 503) if number == 2 else None,
    )
    _list(client, bucket=Bucket(name="b", prefix="in/", requester_pays=True))
    assert len(client.calls) == 6
    assert {call["Prefix"] for call in client.calls} == {"in/"}
    assert {call["RequestPayer"] for call in client.calls} == {"requester"}


def test_nothing_outside_the_prefix_leaks() -> None:
    """Not even from a server that ignores the prefix."""
    keys = [f"{folder}/{number:03}" for folder in ("a", "in", "z") for number in range(30)]
    service, _ = _list(
        FakeBucket(keys, page=7, ignores=frozenset({"Prefix"})), bucket=Bucket(name="b", prefix="in/")
    )
    assert service.keys == [f"in/{number:03}" for number in range(30)]


def test_incremental_goes_on_after_the_last_key() -> None:
    """And finds nothing that sorts before it: that is what reconciling is for."""
    service, listed = _list(FakeBucket(["a", "m", "n", "o"]), kind=INCREMENTAL, after="m")
    assert service.keys == ["n", "o"]
    assert service.of(ListingPage)[0].after_key == "m"
    assert listed.last_key == "o"


def test_the_start_key_is_left_out_of_full_listings() -> None:
    """`native.start.key`: up to and including it."""
    service, _ = _list(FakeBucket(["a", "m", "n"]), bucket=Bucket(name="b", skip_through="m"))
    assert service.keys == ["n"]
    _assert_seamless(service.of(ListingPage), begin="m")


def test_a_start_key_below_the_prefix_makes_no_claim_about_what_lies_between() -> None:
    """A prefix that was narrowed: entries outside would count as absent, leave, and be read again later."""
    bucket = Bucket(name="b", prefix="in/2025/", skip_through="in/2024/1")
    service, _ = _list(FakeBucket(["in/2024/2", "in/2025/1", "in/2025/2"], page=1), bucket=bucket)
    assert service.keys == ["in/2025/1", "in/2025/2"]
    _assert_seamless(service.of(ListingPage), begin=None)
    assert [begun.after_key for begun in service.of(ListingBegun)] == [None]


def test_a_failure_is_told_when_repeating_did_not_help() -> None:
    """`aws.s3.backoff.max.retries` repeats are quiet; the listing itself goes on without an end."""
    errors = [service_error("InternalError", 500)] * 4 + [service_error("AccessDenied", 403)]
    client = FakeBucket(["k"], fails=lambda number: errors[number] if number < 5 else None)
    service, _ = _list(client, quiet_failures=3)
    assert [type(failure.error) for failure in service.of(ListingFailed)] == [SourceUnavailable, AccessDenied]
    assert service.keys == ["k"]
    assert service.counts["list_requests"] == 6


_KEYS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4), max_size=40, unique=True
)


@given(_KEYS, st.integers(1, 7), st.sets(st.integers(0, 60)), st.booleans())
def test_every_key_once_in_order_and_without_a_gap(
    keys: list[str],
    page: int,
    failing: set[int],
    gaps: bool,
) -> None:
    """For any keys, page size and failed calls, also where S3 answers with empty pages."""
    client = FakeBucket(
        keys, page=page, gaps=gaps, fails=lambda number: TimeoutError() if number in failing else None
    )
    service, listed = _list(client)
    assert service.keys == sorted(keys, key=str.encode)
    assert listed.last_key == max(keys, key=str.encode, default=None)
    _assert_seamless(service.of(ListingPage), begin=None)


def test_pages_wait_to_be_taken_in() -> None:
    """A few pages ahead of the service, no more; each acknowledgement lets one more come."""

    async def scenario() -> None:
        inbox = Inbox()
        lister = Lister(
            client=FakeBucket([f"{number:04}" for number in range(100)], page=10),
            bucket=Bucket(name="b"),
            post=inbox.post,
            counters=inbox.counters,
        )
        task = asyncio.create_task(lister.list(FULL, after=None))
        await until(lambda: len(inbox.of(ListingPage)) == PAGES_IN_FLIGHT)
        for taken in range(10):
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(inbox.of(ListingPage)) == min(10, PAGES_IN_FLIGHT + taken)
            lister.page_done()
        await task

    asyncio.run(scenario())


def test_a_paused_listing_goes_on_where_it_was() -> None:
    """`max.pending.objects`: paused before the next page, resumed from it."""

    async def scenario() -> None:
        inbox = _Service()
        client = FakeBucket([f"{number:04}" for number in range(100)], page=10)
        inbox.lister = lister = Lister(
            client=client, bucket=Bucket(name="b"), post=inbox.post, counters=inbox.counters
        )
        lister.pause()
        task = asyncio.create_task(lister.list(FULL, after=None))
        for _ in range(20):
            await asyncio.sleep(0)
        assert client.calls == []
        lister.resume()
        await task
        assert len(client.calls) == 10
        _assert_seamless(inbox.of(ListingPage), begin=None)

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", [FULL, INCREMENTAL])
def test_listings_are_numbered(kind: ListingKind) -> None:
    """The service tells their pages apart by it."""

    async def scenario() -> None:
        inbox = _Service()
        inbox.lister = Lister(
            client=FakeBucket(["k"]), bucket=Bucket(name="b"), post=inbox.post, counters=inbox.counters
        )
        await inbox.lister.list(FULL, after=None)
        await inbox.lister.list(kind, after="k")
        assert [(begun.listing_id, begun.kind) for begun in inbox.of(ListingBegun)] == [(1, FULL), (2, kind)]
        assert [page.listing_id for page in inbox.of(ListingPage)] == [1, 2]

    asyncio.run(scenario())


def test_tokens_that_are_passed_over_are_done_without() -> None:
    """What comes after the last key is asked for instead: each key once, though each page fails first."""
    keys = [f"k{number}" for number in range(6)]

    service, listed = _list(FakeBucket(keys, page=2, ignores=frozenset({"ContinuationToken"})))

    assert (service.keys, listed.last_key) == (keys, "k5")
    _assert_seamless(service.of(ListingPage), begin=None)
    assert {type(failure.error) for failure in service.of(ListingFailed)} == {SourceUnavailable}


def test_a_listing_that_begins_again_and_again_says_so() -> None:
    """A cache that answers by the path alone: the first page is taken once, and is no end of the listing."""
    ignored = frozenset({"ContinuationToken", "StartAfter"})
    bucket, service = FakeBucket(["a", "b", "c"], page=2, ignores=ignored), _Service()

    async def scenario() -> None:
        service.lister = Lister(
            client=bucket,
            bucket=Bucket(name="b"),
            post=service.post,
            counters=service.counters,
            pauses=AT_ONCE,
        )
        listing = asyncio.create_task(service.lister.list(FULL, after=None))
        await until(lambda: len(service.of(ListingFailed)) >= 3, what="three failures")
        listing.cancel()

    asyncio.run(scenario())

    assert service.keys == ["a", "b"]
    assert not any(page.is_last for page in service.of(ListingPage))
    assert "the same one again" in str(service.of(ListingFailed)[-1].error)


class _Directory(FakeBucket):
    """Lists as a directory bucket: what comes after a key is no question for it."""

    async def list_objects_v2(self, **arguments: Any) -> Mapping[str, Any]:
        if "StartAfter" in arguments:
            raise service_error("NotImplemented", 501)
        if len(self.calls) == 1:
            self.calls.append(arguments)
            raise service_error("SlowDown", 503)
        return await super().list_objects_v2(**arguments)


def test_a_page_of_a_directory_bucket_is_asked_for_by_its_token_again() -> None:
    """After a failure too."""
    keys = [f"k{number}" for number in range(6)]

    service, _ = _list(_Directory(keys, page=2), bucket=Bucket(name="data--euw1-az1--x-s3"))

    assert service.keys == keys
    assert len(service.of(ListingFailed)) == 1
