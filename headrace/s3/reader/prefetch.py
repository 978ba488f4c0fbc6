"""The works of a batch, in order: while one is decoded, what comes next is under way already."""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from headrace.model.objects import S3Object, SideObject
from headrace.model.positions import BytePosition, ElementPosition
from headrace.model.slot_protocol import Split
from headrace.s3.reader.resumable_get import RateLimiter
from headrace.s3.reader.s3_source import S3Source
from headrace.s3.s3_calls import S3Calls

# Objects up to this size are fetched whole, in memory, several at a time; larger ones are streamed.
SMALL_BYTES: Final = 2 * 1024 * 1024
# What is fetched whole and not decoded yet, all in all.
WINDOW_BYTES: Final = 16 * 1024 * 1024
_FETCHERS: Final = 8
# How far ahead of the decoder works are looked at, and how many of the next small ones a fetcher takes at a
# time, one after the other: to wake a thread for each costs as much as its GET.
_WORKS_AHEAD: Final = 64
_AT_A_TIME: Final = 4


class Prefetch:
    """Gives the source of each work, in order. Used by one thread; close it when done, whatever happened.

    `streams`: the format reads large objects from their position to their end, so they may begin early.
    """

    def __init__(self, calls: S3Calls, splits: Sequence[Split], pace: RateLimiter, *, streams: bool) -> None:
        self._calls = calls
        self._splits = splits
        self._pace = pace
        self._streams = streams
        self._pool = ThreadPoolExecutor(_FETCHERS, thread_name_prefix="prefetch")
        self._ready: deque[S3Source] = deque()
        # Opened, and not given to a fetcher yet.
        self._wanted: list[tuple[S3Source, Future[bytes]]] = []
        self._next = 0
        self._held = 0
        self._current: S3Source | None = None

    def next(self) -> S3Source:
        """The source of the next work; the one before is closed."""
        if self._current is not None:
            self._let_go(self._current)
        if not self._ready:
            self._look_ahead(need=True)
        self._current = self._ready.popleft()
        # With this one taken there may be room for more; small ones are asked for several at a time.
        if len(self._ready) <= _WORKS_AHEAD // 2:
            self._look_ahead(need=False)
        return self._current

    def close(self) -> None:
        """Drop everything; reads under way end by themselves."""
        for source in [*self._ready, *([] if self._current is None else [self._current])]:
            source.close()
        self._ready.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _let_go(self, source: S3Source) -> None:
        self._held -= sum(each.size for each in (source, *source.beside.values()) if each.size <= SMALL_BYTES)
        source.close()

    def _look_ahead(self, *, need: bool) -> None:
        """Start works as the window allows; one at least when `need`."""
        self._open_ahead(need=need)
        wanted, self._wanted = self._wanted, []
        # Each fetcher has one before any has two.
        at_a_time = max(1, min(_AT_A_TIME, len(wanted) // _FETCHERS))
        for first in range(0, len(wanted), at_a_time):
            self._pool.submit(_fetch, wanted[first : first + at_a_time])

    def _open_ahead(self, *, need: bool) -> None:
        while self._next < len(self._splits) and len(self._ready) < _WORKS_AHEAD:
            split = self._splits[self._next]
            size = split.object.size
            small = size <= SMALL_BYTES
            must = need and not self._ready
            if small and self._held + size > WINDOW_BYTES and not must:
                return
            if not small and self._ready and not must:
                # One stream ahead at most: it has a window of its own.
                return
            self._next += 1
            source = self._opened(split.object)
            for beside in _beside(split):
                source.beside[beside.key] = self._opened(beside.as_object(split.object.id.bucket))
            if not small and self._streams and not split.is_part and not split.splits_wanted:
                at = split.start
                source.fetch_ahead(at.byte if isinstance(at, BytePosition | ElementPosition) else 0)
            self._ready.append(source)

    def _opened(self, wanted: S3Object) -> S3Source:
        """The source of one object; a small one is on its way at once."""
        source = S3Source(self._calls, wanted, self._pace)
        if wanted.size <= SMALL_BYTES:
            self._held += wanted.size
            if wanted.size:
                content: Future[bytes] = Future()
                source.use_whole(content)
                self._wanted.append((source, content))
        return source


def _fetch(wanted: Sequence[tuple[S3Source, Future[bytes]]]) -> None:
    """Fetch these whole, in order."""
    for source, content in wanted:
        try:
            content.set_result(source.whole())
        except BaseException as error:  # noqa: BLE001  # raised where the object is decoded
            content.set_exception(error)


def _beside(split: Split) -> Iterator[SideObject]:
    """What is read together with the work's object."""
    yield from split.sides
    for each in split.tombstones:
        yield each.keys
        if each.headers is not None:
            yield each.headers
