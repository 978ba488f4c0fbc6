"""Objects as decoders read them, each pinned to one content, and those of a batch in order, fetched ahead."""

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from headrace.model.errors import HeadraceError
from headrace.model.objects import S3Object, SideObject
from headrace.model.positions import BytePosition, ElementPosition
from headrace.model.slot_protocol import Split
from headrace.s3.connections import AT_ONCE_BYTES, READ_SECONDS
from headrace.s3.fast_get import BegunGet
from headrace.s3.reader.resumable_get import CHUNK_BYTES, RateLimiter, ReadAhead, ResumableGet
from headrace.s3.s3_calls import S3Calls

# -- One object pinned to one content, as decoders read it ---------------------------------------------------

# What of a stream's beginning is kept: enough to see what is stored, a tar included.
_HEAD_BYTES: Final = 512


class Content:
    """The bytes of a small object, or the error that they are not there for, as another thread brings them.

    In the place of a Future: its conditions cost as much as a request's signature, for what is here already
    whenever many objects are read.
    """

    __slots__ = ("_arrival", "_bytes", "_error", "is_here")

    def __init__(self) -> None:
        self.is_here = False
        self._bytes = b""
        self._error: BaseException | None = None
        # Held until it is here.
        self._arrival = threading.Lock()
        self._arrival.acquire()

    def bring(self, found: bytes) -> None:
        """These are the bytes; once."""
        self._bytes = found
        self.is_here = True
        self._arrival.release()

    def fail(self, error: BaseException) -> None:
        """There are none; once."""
        self._error = error
        self.bring(b"")

    def comes_within(self, seconds: float) -> bool:
        """Whether it is here, waiting so long for it; blocks."""
        if not self.is_here and self._arrival.acquire(timeout=seconds):
            self._arrival.release()
        return self.is_here

    def close(self) -> None:
        """They are not wanted any more."""

    def at_hand(self) -> bytes | None:
        """The bytes, if they are here."""
        return self._bytes if self.is_here and self._error is None else None

    def result(self) -> bytes:
        """The bytes; blocks until they are here. Raises what they are not there for."""
        if not self.is_here:
            with self._arrival:
                pass
        if self._error is not None:
            raise self._error
        return self._bytes


class S3Source:
    """See `headrace.model.objects.Source`. Used by one thread at a time.

    `fetch_whole` and `fetch_ahead` start reading before anybody asks; without them each question is a GET.
    """

    def __init__(self, calls: S3Calls, wanted: S3Object, pace: RateLimiter | None = None) -> None:
        self._wanted = wanted
        self._reading = ResumableGet(calls, wanted, RateLimiter(None) if pace is None else pace)
        self._whole: Content | None = None
        self._ahead: tuple[int, ReadAhead] | None = None
        self._head = b""
        self.beside: dict[str, S3Source] = {}
        """By key, the objects that are read together with this one: counted and closed with it."""

    @property
    def size(self) -> int:
        """Size of the object in bytes, as stored."""
        return self._wanted.size

    @property
    def name(self) -> str:
        """`s3://bucket/key`."""
        return self._wanted.id.url

    @property
    def fetched_bytes(self) -> int:
        """Bytes fetched from S3 so far."""
        own = self._reading.fetched_bytes
        return own + sum(each.fetched_bytes for each in self.beside.values()) if self.beside else own

    @property
    def is_here(self) -> bool:
        """True when all of it, and what is read with it, was fetched: reading it waits for nothing."""
        if self._whole is None or not self._whole.is_here:
            return False
        return not self.beside or all(each.is_here for each in self.beside.values())

    def comes_within(self, seconds: float) -> bool:
        """Whether it is here, where it is fetched whole waiting so long for it; blocks."""
        return self._whole is not None and self._whole.comes_within(seconds) and self.is_here

    def at_hand(self) -> bytes | None:
        """All of it, where it was fetched whole and is here; asks S3 nothing, and raises nothing."""
        return None if self._whole is None else self._whole.at_hand()

    def whole(self) -> bytes:
        """The whole object; blocks. For small ones."""
        return b"".join(self._reading.chunks(0, self.size))

    def begin(self) -> BegunGet | None:
        """A GET of all of it, sent, where that waits for nothing; else None."""
        return self._reading.begin()

    def take(self, begun: BegunGet) -> bytes | None:
        """All of it, by the answer that has arrived; None where `whole` is to read it, which has it then."""
        found = begun.content(self.size)
        if found is None:
            self._reading.use(begun)
        else:
            self._reading.fetched_bytes += len(found)
        return found

    def use_whole(self, content: Content) -> None:
        """Serve everything from what is to come of `whole()`."""
        self._whole = content

    def fetch_ahead(self, begin: int) -> None:
        """Start streaming from `begin`, for a `stream` from there that is to come."""
        self._ahead = (begin, ReadAhead(self._reading.chunks(begin, self.size)))

    def stream(self, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes [begin, end) in chunks of at most 1 MiB."""
        stop = self.size if end is None else min(end, self.size)
        if self._whole is not None:
            content = self._whole.result()
            for at in range(begin, stop, CHUNK_BYTES):
                yield content[at : min(at + CHUNK_BYTES, stop)]
            return
        ahead, self._ahead = self._ahead, None
        if ahead is not None and (ahead[0] != begin or stop != self.size):
            ahead[1].close()
            ahead = None
        chunks = ReadAhead(self._reading.chunks(begin, stop)) if ahead is None else ahead[1]
        first = begin == 0
        for chunk in chunks:
            if first:
                self._head, first = chunk[:_HEAD_BYTES], False
            yield chunk

    def read_at(self, offset: int, length: int) -> bytes:
        """Exactly [offset, offset + length), or fewer only at the end of the object."""
        if self._whole is not None:
            return self._whole.result()[offset : offset + length]
        stop = min(offset + length, self.size)
        if stop <= len(self._head):
            return self._head[offset:stop]
        return b"".join(self._reading.chunks(offset, stop))

    def close(self) -> None:
        """Stop what was started ahead and let go of what is held."""
        if self._ahead is not None:
            self._ahead[1].close()
        if self._whole is not None:
            self._whole.close()
        self._ahead = self._whole = None
        for each in self.beside.values():
            each.close()


# Objects up to this size are fetched whole, in memory, several at a time; larger ones are streamed.
SMALL_BYTES: Final = 2 * 1024 * 1024
# What is fetched whole and not decoded yet, all in all.
WINDOW_BYTES: Final = 16 * 1024 * 1024
_FETCHERS: Final = 8
# How far ahead of the decoder works are looked at, and how many of the next small ones a fetcher takes at a
# time, one after the other: to wake a thread for each costs as much as its GET.
_WORKS_AHEAD: Final = 64
_AT_A_TIME: Final = 4


# GETs of small objects that the thread which decodes sends and receives itself, so many at a time: a thread
# that wakes for one answer finds cold caches, which costs more than the GET. The answers wait in the system's
# buffers.
_UNDER_WAY: Final = 32
# How long the next one may be waited for with others, so that they are received together.
_TOGETHER_SECONDS: Final = 0.02


class _Gathered(Content):
    """Of an object that is received with others; see `_Gathering`."""

    __slots__ = ("_gathering", "_left", "begun", "is_asked", "is_closed", "source")

    def __init__(self, source: S3Source, gathering: "_Gathering") -> None:
        super().__init__()
        self._gathering = gathering
        self.source = source
        self.begun: BegunGet | None = None
        """None before it was asked for, and when a fetcher brings it."""
        # With what a fetcher is to begin.
        self._left: tuple[BegunGet | None, Future[None]] | None = None
        self.is_asked = False
        self.is_closed = False

    def comes_within(self, seconds: float) -> bool:
        """See `Content`; receives what has come of others, too."""
        if not self.is_here:
            self._gathering.receive(self, seconds)
        return self.is_here

    def result(self) -> bytes:
        """See `Content`."""
        while not self.is_here:
            self._gathering.receive(self, READ_SECONDS)
        return super().result()

    def close(self) -> None:
        """Close the connection that will not be read from."""
        self.is_closed = True
        begun = self.begun
        if self._left is not None and self._left[1].cancel():
            begun = self._left[0]
        if begun is not None:
            begun.close()

    def fetched_by(self, pool: ThreadPoolExecutor) -> None:
        """Leave it to a fetcher, which waits, repeats and judges."""
        begun, self.begun = self.begun, None
        self._left = begun, pool.submit(_fetch, ((self.source, self),))


class _Gathering:
    """GETs that one thread sends and receives, many at a time, over connections that are kept already.

    It waits for no single one. What needs more than a usual answer is a fetcher's: to connect, to learn of a
    bucket, an error, a repeat, an answer that breaks off.
    """

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._wanted: deque[_Gathered] = deque()
        self._under_way: list[_Gathered] = []
        self._may_begin = True

    def add(self, content: _Gathered) -> None:
        """Ask for this one after those before it."""
        self._wanted.append(content)

    def start(self) -> None:
        """Send GETs as long as there is room; waits for no answer."""
        self._under_way = [each for each in self._under_way if not (each.is_here or each.is_closed)]
        while self._wanted and len(self._under_way) < _UNDER_WAY:
            content = self._wanted.popleft()
            if not content.is_closed:
                self._ask(content)

    def _ask(self, content: _Gathered) -> None:
        content.is_asked = True
        self._under_way.append(content)
        if self._may_begin:
            try:
                content.begun = content.source.begin()
            except HeadraceError:
                # The fetcher says it, whose attempts count. Credentials that cannot be had may take seconds
                # each time.
                self._may_begin = False
        if content.begun is None:
            content.fetched_by(self._pool)

    def receive(self, content: _Gathered, seconds: float) -> None:
        """Receive what has come, waiting up to `seconds` for this one unless it has; blocks."""
        until = time.monotonic() + seconds
        self.start()
        if not content.is_asked:
            # Not in the order of the works, as what is read with an object may be: it waits for no room.
            self._wanted.remove(content)
            self._ask(content)
        if content.begun is None:
            Content.comes_within(content, seconds)
            return
        if not content.begun.arrive():
            later = self._under_way[len(self._under_way) // 2].begun
            if later is not None:
                later.wait(min(seconds, _TOGETHER_SECONDS))
            if not content.begun.arrive():
                content.begun.wait(max(0.0, until - time.monotonic()))
        for each in self._under_way:
            if each.begun is not None and not each.is_closed and each.begun.arrive():
                found = each.source.take(each.begun)
                if found is None:
                    each.fetched_by(self._pool)
                else:
                    each.begun = None
                    each.bring(found)
        self.start()


class Prefetch:
    """Gives the source of each work, in order. Used by one thread; close it when done, whatever happened.

    `streams`: the format reads large objects from their position to their end, so they may begin early.
    """

    def __init__(self, calls: S3Calls, splits: Sequence[Split], pace: RateLimiter, *, streams: bool) -> None:
        self._calls = calls
        self._splits = splits
        self._pace = pace
        self._streams = streams
        self._window = min(WINDOW_BYTES, pace.bytes_ahead)
        self._closed = threading.Event()
        self._pool = ThreadPoolExecutor(_FETCHERS, thread_name_prefix="prefetch")
        self._gathering = None if pace.is_limited else _Gathering(self._pool)
        self._ready: deque[S3Source] = deque()
        # Opened, and not given to a fetcher yet.
        self._wanted: list[tuple[S3Source, Content]] = []
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
        """Drop everything; of a fetcher's objects the one under way is read to its end, and no other."""
        for source in [*self._ready, *([] if self._current is None else [self._current])]:
            source.close()
        self._ready.clear()
        self._closed.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _let_go(self, source: S3Source) -> None:
        for each in (source, *source.beside.values()) if source.beside else (source,):
            if each.size <= SMALL_BYTES:
                self._held -= each.size
        source.close()

    def _look_ahead(self, *, need: bool) -> None:
        """Start works as the window allows; one at least when `need`."""
        self._open_ahead(need=need)
        wanted, self._wanted = self._wanted, []
        # Each fetcher has one before any has two.
        at_a_time = max(1, min(_AT_A_TIME, len(wanted) // _FETCHERS))
        for first in range(0, len(wanted), at_a_time):
            self._pool.submit(_fetch, wanted[first : first + at_a_time], self._closed)
        if self._gathering is not None:
            self._gathering.start()

    def _open_ahead(self, *, need: bool) -> None:
        while self._next < len(self._splits) and len(self._ready) < _WORKS_AHEAD:
            split = self._splits[self._next]
            size = split.object.size
            small = size <= SMALL_BYTES
            must = need and not self._ready
            if small and self._held + size > self._window and not must:
                return
            if not small and not must and (self._ready or self._pace.is_limited):
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
            if self._gathering is not None and 0 < wanted.size <= AT_ONCE_BYTES:
                gathered = _Gathered(source, self._gathering)
                source.use_whole(gathered)
                self._gathering.add(gathered)
            elif wanted.size:
                content = Content()
                source.use_whole(content)
                self._wanted.append((source, content))
        return source


def _fetch(wanted: Sequence[tuple[S3Source, Content]], closed: threading.Event | None = None) -> None:
    """Fetch these whole, in order, until the batch is closed."""
    for source, content in wanted:
        if closed is not None and closed.is_set():
            # It would take its turn at a limit from what is wanted since.
            return
        try:
            found = source.whole()
        except BaseException as error:  # noqa: BLE001  # raised where the object is decoded
            content.fail(error)
        else:
            content.bring(found)


def _beside(split: Split) -> Iterator[SideObject]:
    """What is read together with the work's object."""
    yield from split.sides
    for each in split.tombstones:
        yield each.keys
        if each.headers is not None:
            yield each.headers
