"""One object pinned to one content, as decoders read it."""

import queue
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Final

from headrace.model.objects import S3Object
from headrace.process.threads import start_thread
from headrace.s3.reader.resumable_get import CHUNK_BYTES, RateLimiter, ResumableGet
from headrace.s3.s3_calls import S3Calls

# -- Chunks fetched by a thread of their own, a bounded number ahead of who takes them -----------------------

# Chunks of 1 MiB: what a decoder may find waiting.
CHUNKS_AHEAD: Final = 8
_END: Final = None


class ReadAhead:
    """An iterator over `chunks`, which a thread draws; an error arrives after what came before it."""

    def __init__(self, chunks: Iterator[bytes], *, window: int = CHUNKS_AHEAD) -> None:
        self._chunks = chunks
        self._queue: queue.Queue[bytes | BaseException | None] = queue.Queue(window)
        self._stopped = threading.Event()
        start_thread(self._fetch, name="read-ahead")

    def __iter__(self) -> Iterator[bytes]:
        """The chunks, once. Closing it, or its end, stops the thread and gives its connection back."""
        try:
            while True:
                item = self._queue.get()
                if item is None:
                    return
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            self.close()

    def close(self) -> None:
        """Stop fetching; does not wait for a read that is under way."""
        self._stopped.set()
        while True:
            try:
                # Room for the thread's last put, so that it sees the stop.
                self._queue.get_nowait()
            except queue.Empty:
                return

    def _fetch(self) -> None:
        end: BaseException | None = _END
        try:
            for chunk in self._chunks:
                if not self._put(chunk):
                    break
        except BaseException as error:  # noqa: BLE001  # handed to whoever takes the chunks
            end = error
        finally:
            close = getattr(self._chunks, "close", None)
            if close is not None:
                close()
        self._put(end)

    def _put(self, item: bytes | BaseException | None) -> bool:
        while not self._stopped.is_set():
            try:
                self._queue.put(item, timeout=0.2)
            except queue.Full:
                continue
            return True
        return False


# -- One object pinned to one content, as decoders read it ---------------------------------------------------

# What of a stream's beginning is kept: enough to see what is stored, a tar included.
_HEAD_BYTES: Final = 512


class S3Source:
    """See `headrace.model.byte_source.Source`. Used by one thread at a time.

    `fetch_whole` and `fetch_ahead` start reading before anybody asks; without them each question is a GET.
    """

    def __init__(self, calls: S3Calls, wanted: S3Object, pace: RateLimiter | None = None) -> None:
        self._wanted = wanted
        self._reading = ResumableGet(calls, wanted, RateLimiter(None) if pace is None else pace)
        self._whole: Future[bytes] | None = None
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
        return self._reading.fetched_bytes + sum(each.fetched_bytes for each in self.beside.values())

    @property
    def is_here(self) -> bool:
        """True when all of it, and what is read with it, was fetched: reading it waits for nothing."""
        return (
            self._whole is not None
            and self._whole.done()
            and all(each.is_here for each in self.beside.values())
        )

    def whole(self) -> bytes:
        """The whole object; blocks. For small ones."""
        return b"".join(self._reading.chunks(0, self.size))

    def use_whole(self, content: "Future[bytes]") -> None:
        """Serve everything from this future of `whole()`."""
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
        self._ahead = self._whole = None
        for each in self.beside.values():
            each.close()
