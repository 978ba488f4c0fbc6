"""Small objects that the decoding thread receives itself, many at a time, and what it leaves to fetchers."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from headrace.model.errors import (
    AccessDenied,
    HeadraceError,
    ObjectForbidden,
    ObjectSuperseded,
    ResourceMissing,
    SourceUnavailable,
)
from headrace.model.objects import Route, S3Object, SideObject
from headrace.model.slot_protocol import Split
from headrace.s3 import S3Calls
from headrace.s3.connections import AT_ONCE_BYTES, Connections
from headrace.s3.reader import Prefetch, RateLimiter, S3Source
from headrace.s3.reader.s3_source import _UNDER_WAY, SMALL_BYTES
from tests.headrace.s3.scripted_s3 import (
    ETAG,
    Say,
    ScriptedS3,
    an_object,
    calls_by,
    chunked,
    error,
    said,
    settings,
)

ROUTE = Route(topic="t")
_BODY = b"content"


@pytest.fixture
def calls(server: ScriptedS3) -> S3Calls:
    """Calls with one retry and forty connections that are kept."""
    return kept(server, calls_by("fast", settings(server.url, retries=1)))


def connections(calls: S3Calls) -> Connections:
    """Those to the server."""
    assert calls._fast_get is not None
    (found,) = calls._fast_get._origins.values()
    return found


def kept(server: ScriptedS3, calls: S3Calls, count: int = 40) -> S3Calls:
    """The same, with the bucket known and so many connections more, of which not all are kept."""
    path = b"/bucket/first"
    assert S3Source(calls, an_object(len(path), "first")).whole() == path
    home = connections(calls)
    for _ in range(count):
        home.give_back(home._connected())
    eventually(lambda: server.connections == count + 1)
    return calls


def splits(*keys: str, size: int | None = None) -> list[Split]:
    """Works of the objects with these keys."""
    return [
        Split(object=an_object(len(f"/bucket/{key}") if size is None else size, key), route=ROUTE)
        for key in keys
    ]


def read(source: S3Source) -> bytes:
    """All of it."""
    return b"".join(source.stream())


def eventually(holds: Callable[[], bool]) -> None:
    """Wait for it, a minute at most."""
    deadline = time.monotonic() + 60
    ticks = threading.Event()
    while not holds():
        assert time.monotonic() < deadline
        ticks.wait(0.002)


def fetchers() -> set[threading.Thread]:
    """Threads that fetch; those of a test before may go on ending."""
    return {each for each in threading.enumerate() if each.name.startswith("prefetch")}


def test_small_objects_come_in_order_without_a_thread_for_each(server: ScriptedS3, calls: S3Calls) -> None:
    """Over connections that are kept, so many at a time, each asked for once, and counted."""
    before = fetchers()
    works = splits(*(f"key-{number:03}" for number in range(150)))
    prefetch = Prefetch(calls, works, RateLimiter(None), streams=True)

    first = prefetch.next()
    eventually(lambda: len(server.asked) == 1 + _UNDER_WAY)
    assert fetchers() <= before
    found = [read(first)]
    counted = first.fetched_bytes
    found += [read(prefetch.next()) for _ in works[1:]]
    prefetch.close()

    assert found == [f"/bucket/{work.object.id.key}".encode() for work in works]
    assert counted == len(found[0])
    assert fetchers() <= before
    assert sorted(one.path for one in server.asked) == sorted(["/bucket/first", *map(bytes.decode, found)])
    # None was given back in a state that is no good for the next.
    assert len(connections(calls)._kept) == 32


def test_what_connects_or_is_larger_is_a_fetchers(
    server: ScriptedS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first object of a process, and one that no buffer of a connection holds."""
    calls = calls_by("fast", settings(server.url))
    server.usual = lambda path: Say(said(b"x" * (AT_ONCE_BYTES + 1) if "large" in path else path.encode()))
    begun: list[str] = []
    begin = calls.begin

    def noted(wanted: S3Object, *, by_version: bool) -> Any:
        begun.append(wanted.id.key)
        return begin(wanted, by_version=by_version)

    monkeypatch.setattr(calls, "begin", noted)
    works = [*splits("a", "b"), *splits("large", size=AT_ONCE_BYTES + 1), *splits("c")]
    prefetch = Prefetch(calls, works, RateLimiter(None), streams=True)

    found = [read(prefetch.next()) for _ in works]
    prefetch.close()

    assert [len(one) for one in found] == [9, 9, AT_ONCE_BYTES + 1, 9]
    assert len(server.asked) == 4
    assert begun == ["a", "b", "c"]


def test_a_limited_rate_is_waited_for_by_fetchers(calls: S3Calls) -> None:
    """The thread that decodes would hold back what it has decoded."""
    waited: list[str] = []
    pace = RateLimiter(1.0, sleep=lambda _: waited.append(threading.current_thread().name))
    works = splits("a", "b")
    prefetch = Prefetch(calls, works, pace, streams=True)

    assert [read(prefetch.next()) for _ in works] == [b"/bucket/a", b"/bucket/b"]
    prefetch.close()

    assert waited
    assert all(name.startswith("prefetch") for name in waited)


def test_a_limited_rate_is_not_spent_on_what_is_far_ahead(calls: S3Calls) -> None:
    """That is thrown away where a batch ends, and would come before what is asked for."""
    works = [*splits(*(f"key-{number:03}" for number in range(40))), *splits("large", size=SMALL_BYTES + 1)]
    pace = RateLimiter(50.0, clock=lambda: 0.0, sleep=lambda _: None)
    prefetch = Prefetch(calls, works, pace, streams=True)

    for work in works[:-1]:
        assert read(prefetch.next()) == f"/bucket/{work.object.id.key}".encode()
        assert sum(one.size for one in prefetch._ready) <= 50
    prefetch.close()


def test_nothing_more_is_fetched_for_what_is_closed(server: ScriptedS3, calls: S3Calls) -> None:
    """Else it took its turns at a limited rate from the batches that come after it."""
    before, waits, done = fetchers(), [], threading.Event()

    def wait(seconds: float) -> None:
        waits.append(seconds)
        done.wait(60)

    works = splits(*(f"key-{number:03}" for number in range(64)))
    prefetch = Prefetch(calls, works, RateLimiter(1e6, clock=lambda: 0.0, sleep=wait), streams=True)
    prefetch.next()
    eventually(lambda: len(waits) == 8)
    prefetch.close()
    done.set()
    eventually(lambda: fetchers() <= before)

    assert len(server.asked) == 1 + 8


class TestOddAnswers:
    """Each is judged as that of a GET that waits for its answer: errors, retries and their number."""

    @pytest.mark.parametrize(
        ("say", "expected"),
        [
            (Say(chunked(b"con", b"tent")), SourceUnavailable),
            (Say(said(length=-1), "close"), SourceUnavailable),
            (Say(said(_BODY[:3], length=7), "close"), SourceUnavailable),
            (Say(said(etag=""), "close"), SourceUnavailable),
            (Say(b"", "close"), SourceUnavailable),
            (Say(b"", "reset"), SourceUnavailable),
            (Say(b"HTTP/1.1 200 OK\r\nETag:", "close"), SourceUnavailable),
            (Say(b"no HTTP\r\n\r\n"), SourceUnavailable),
            (Say(b"x" * 70_000, "close"), SourceUnavailable),
            (Say(said(b"", f"Content-Length: {'9' * 5000}"), "close"), SourceUnavailable),
            (Say(said(b"").replace(b"th: 0", b"th: " + b"9" * 5000), "close"), SourceUnavailable),
            (Say(said(_BODY, "Content-Range: bytes 3-9/10")), SourceUnavailable),
            (Say(error("SlowDown", 503)), SourceUnavailable),
            (Say(error("NoSuchBucket", 404)), ResourceMissing),
            (Say(error("AccessDenied", 403)), ObjectForbidden),
            (Say(said(etag="other")), ObjectSuperseded),
            (Say(said(b"contents")), ObjectSuperseded),
            (Say(said(b"x" * 2 * AT_ONCE_BYTES)), ObjectSuperseded),
            (Say(said(b"")), ObjectSuperseded),
        ],
    )
    def test_is_what_it_is_by_the_other_way(
        self, server: ScriptedS3, calls: S3Calls, say: Say, expected: type[Exception]
    ) -> None:
        """The same error after the same number of requests, and its connection is not used again."""
        server.usual = lambda _: say
        (work,) = splits("key", size=len(_BODY))
        outcomes = []
        for source_of in (self._gathered, self._alone):
            asked = len(server.asked)
            with pytest.raises(HeadraceError) as raised:
                source_of(calls, work)
            outcomes.append((raised.type, len(server.asked) - asked))

        assert outcomes[0] == outcomes[1]
        assert outcomes[0][0] is expected

    def _gathered(self, calls: S3Calls, work: Split) -> None:
        prefetch = Prefetch(calls, [work], RateLimiter(None), streams=True)
        try:
            read(prefetch.next())
        finally:
            prefetch.close()

    def _alone(self, calls: S3Calls, work: Split) -> None:
        S3Source(calls, work.object).whole()

    @pytest.mark.parametrize(
        ("say", "ranges"),
        [
            (Say(error("SlowDown", 503)), [None, None]),
            (Say(said()[:-3], "close"), [None, "bytes=4-"]),
            (Say(b"HTTP/1.1 200 OK\r\nETag:", "reset"), [None, None]),
            (Say(b"HTTP/1.1 307 Elsewhere\r\nContent-Length: 0\r\n\r\n"), [None, None]),
        ],
        ids=["refused", "cut", "reset", "elsewhere"],
    )
    def test_the_next_attempt_gets_it(
        self, server: ScriptedS3, calls: S3Calls, say: Say, ranges: list[str | None]
    ) -> None:
        """Where the first was cut, or by botocore after a redirect."""
        server.says(say)
        server.usual = lambda _: (
            Say(said(_BODY[4:], "Content-Range: bytes 4-6/7", status=206))
            if "range" in server.asked[-1].headers
            else Say(said())
        )
        prefetch = Prefetch(calls, splits("key", size=len(_BODY)), RateLimiter(None), streams=True)

        assert read(prefetch.next()) == _BODY
        prefetch.close()

        assert [one.headers.get("range") for one in server.asked[1:]] == ranges

    def test_a_version_that_may_not_be_read_is_read_by_its_content(
        self, server: ScriptedS3, calls: S3Calls
    ) -> None:
        """As by the other way."""
        server.usual = lambda path: Say(error("AccessDenied", 403) if "versionId" in path else said())
        work = Split(object=an_object(version_id="v"), route=ROUTE)
        prefetch = Prefetch(calls, [work], RateLimiter(None), streams=True)

        assert read(prefetch.next()) == _BODY
        prefetch.close()

    def test_a_head_in_pieces_is_waited_for(self, server: ScriptedS3, calls: S3Calls) -> None:
        """Bytes come as the network likes."""
        raw = said()
        server.says(Say(raw[:20], "silent"))
        prefetch = Prefetch(calls, splits("key", size=len(_BODY)), RateLimiter(None), streams=True)
        source = prefetch.next()
        eventually(lambda: len(server.asked) == 2)
        before = fetchers()

        assert not source.comes_within(0.01)
        for rest in (raw[20:-3], raw[-3:]):
            server._open[server.asked[-1].connection].sendall(rest)
            source.comes_within(0.05)
        assert fetchers() <= before
        assert read(source) == _BODY
        prefetch.close()
        assert len(server.asked) == 2


class TestSlowAnswers:
    """One holds back its own object and no other."""

    def test_is_waited_for_so_long_and_what_is_decoded_goes_out(
        self, server: ScriptedS3, calls: S3Calls
    ) -> None:
        """`comes_within` says no in time; the objects before it are here."""
        server.usual = lambda path: Say(b"", "silent") if "slow" in path else Say(said(path.encode()))
        prefetch = Prefetch(calls, splits("a", "slow", "b"), RateLimiter(None), streams=True)

        assert read(prefetch.next()) == b"/bucket/a"
        began = time.monotonic()
        assert not prefetch.next().comes_within(0.1)
        assert time.monotonic() - began < 20
        # As for one that was broken off in the driver's name.
        assert read(prefetch.next()) == b"/bucket/b"
        prefetch.close()

    def test_one_that_is_silent_is_asked_for_again(self, server: ScriptedS3, calls: S3Calls) -> None:
        """After as long as any read may take, counted from when it was sent."""
        server.says(Say(b"", "silent"))
        prefetch = Prefetch(calls, splits("key"), RateLimiter(None), streams=True)
        source = prefetch.next()
        eventually(lambda: len(server.asked) == 2)
        assert not source.comes_within(0)
        connections(calls).read_seconds = 0.1

        eventually(lambda: source.comes_within(0.02))
        assert read(source) == b"/bucket/key"
        prefetch.close()
        assert len(server.asked) == 3

    def test_a_repeat_of_another_object_is_not_waited_for(
        self, server: ScriptedS3, calls: S3Calls, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Backoff is a fetcher's: it may take minutes."""
        ends = threading.Event()
        repeating: list[str] = []

        def attempted(call: Callable[[], Any]) -> Any:
            repeating.append(threading.current_thread().name)
            ends.wait(60)
            return call()

        monkeypatch.setattr(calls, "attempted", attempted)
        server.usual = lambda path: Say(error("SlowDown", 503) if "busy" in path else said(path.encode()))
        prefetch = Prefetch(calls, splits("busy", "a", "b"), RateLimiter(None), streams=True)
        busy = prefetch.next()

        assert not busy.comes_within(0.01)
        eventually(lambda: prefetch._ready[-1].comes_within(0))
        assert not busy.is_here
        ends.set()
        with pytest.raises(SourceUnavailable):
            read(busy)
        prefetch.close()
        assert len(repeating) == 1
        assert repeating[0].startswith("prefetch")


def test_closing_closes_what_nobody_will_read(server: ScriptedS3, calls: S3Calls) -> None:
    """A connection whose answer is to come is never used for another GET."""
    server.usual = lambda _: Say(b"", "silent")
    prefetch = Prefetch(calls, splits("a", "b", "c"), RateLimiter(None), streams=True)
    sources = [prefetch.next(), *prefetch._ready]
    eventually(lambda: len(server.asked) == 4)
    under_way: list[Any] = [source._whole for source in sources]

    prefetch.close()

    for content in under_way:
        assert content.begun.sent._connection is None
    assert len(connections(calls)._kept) == 32 - 3


def test_closing_closes_what_no_fetcher_has_begun_with(server: ScriptedS3, calls: S3Calls) -> None:
    """An odd answer that waits for a fetcher holds its connection."""
    server.usual = lambda _: Say(error("SlowDown", 503))
    prefetch = Prefetch(calls, splits("a", "b"), RateLimiter(None), streams=True)
    ends = threading.Event()
    for _ in range(8):
        prefetch._pool.submit(ends.wait, 30)
    source = prefetch.next()
    begun: Any = source._whole
    sent = begun.begun.sent
    eventually(lambda: not source.comes_within(0) and begun.begun is None)

    prefetch.close()
    ends.set()

    assert sent._connection is None


def test_a_split_that_is_skipped_makes_room(server: ScriptedS3, calls: S3Calls) -> None:
    """Its answer was never taken, and the rest still comes."""
    works = splits(*(f"key-{number:03}" for number in range(3 * _UNDER_WAY)))
    prefetch = Prefetch(calls, works, RateLimiter(None), streams=True)

    for _ in works[1:]:
        prefetch.next()
    last, path = prefetch.next(), f"/bucket/{works[-1].object.id.key}"
    eventually(lambda: path in [one.path for one in server.asked])
    assert read(last) == path.encode()
    prefetch.close()


def test_what_is_read_with_an_object_comes_in_any_order(calls: S3Calls) -> None:
    """More of it than are under way, the last first."""
    (work,) = splits("value")
    keys = [f"key-{number:03}" for number in range(2 * _UNDER_WAY)]
    sides = tuple(SideObject(key=key, etag=ETAG, size=len(f"/bucket/{key}")) for key in keys)
    prefetch = Prefetch(calls, [replace(work, sides=sides)], RateLimiter(None), streams=True)
    source = prefetch.next()

    for key in reversed(keys):
        assert read(source.beside[key]) == f"/bucket/{key}".encode()
    assert source.comes_within(10)
    prefetch.close()


def test_credentials_that_cannot_be_had_are_tried_once_by_the_decoding_thread(
    calls: S3Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To ask for them may take seconds each time; fetchers do, and say it."""
    tried: list[str] = []

    def begin(_wanted: S3Object, **_: bool) -> None:
        tried.append(threading.current_thread().name)
        raise AccessDenied("no credentials")

    monkeypatch.setattr(calls, "begin", begin)
    works = splits("a", "b", "c")
    prefetch = Prefetch(calls, works, RateLimiter(None), streams=True)

    assert [read(prefetch.next()) for _ in works] == [b"/bucket/a", b"/bucket/b", b"/bucket/c"]
    prefetch.close()
    assert len(tried) == 1
