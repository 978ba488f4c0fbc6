"""One GET of an object's bytes, whose cut connections are resumed by range, within `max.bytes.per.second`."""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.client import HTTPException
from typing import Final

import structlog
from botocore.exceptions import BotoCoreError
from urllib3.exceptions import HTTPError

from headrace.model.errors import ObjectForbidden, ObjectSuperseded, SourceUnavailable
from headrace.model.objects import S3Object
from headrace.process.threads import start_thread
from headrace.s3.client import Body, GetAnswer, translate_s3
from headrace.s3.fast_get import BegunGet
from headrace.s3.s3_calls import S3Calls


class RateLimiter:
    """Lets bytes through at a rate, a second's worth at once at most; thread-safe. None: no limit."""

    def __init__(
        self,
        bytes_per_second: float | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._free_at = clock()

    @property
    def is_limited(self) -> bool:
        """Whether `acquire` may ever wait."""
        return self._rate is not None

    @property
    def bytes_ahead(self) -> float:
        """How many bytes are worth reading before they are asked for: a second's; infinite without a limit.

        What is read further ahead takes the turn of what is asked for, and is thrown away with its batch.
        """
        return float("inf") if self._rate is None else self._rate

    def acquire(self, count: int) -> None:
        """Return when `count` bytes may have been read; blocks."""
        if self._rate is None:
            return
        with self._lock:
            now = self._clock()
            # Time that nobody used is saved up to one second.
            self._free_at = max(self._free_at, now - 1) + count / self._rate
            wait = self._free_at - now
        if wait > 0:
            self._sleep(wait)


log = structlog.get_logger(__name__)

CHUNK_BYTES: Final = 1024 * 1024


class ResumableGet:
    """GETs of one object, all of the same content; counts what it fetched.

    A 403 on reading by version falls back to the key alone, for all that follows: `If-Match` pins the
    content either way.
    """

    def __init__(self, calls: S3Calls, wanted: S3Object, pace: RateLimiter) -> None:
        self._calls = calls
        self._wanted = wanted
        self._pace = pace
        self._by_version = wanted.version_id is not None
        self.fetched_bytes = 0
        self._begun: BegunGet | None = None

    def begin(self) -> BegunGet | None:
        """A GET of all of it, sent; None where it is to be read by `chunks`. Waits for no answer."""
        return self._calls.begin(self._wanted, by_version=self._by_version)

    def use(self, begun: BegunGet) -> None:
        """Have `chunks` from 0 to the end take its first answer from this."""
        self._begun = begun

    def chunks(self, begin: int, end: int) -> Iterator[bytes]:
        """The bytes [begin, end) in chunks of CHUNK_BYTES; blocks. Resumes where a connection was cut.

        Raises as `Source` says. Retries are counted from zero whenever bytes have come.
        """
        at = begin
        while at < end:
            body, chunk = self._calls.attempted(partial(self._begin, at, end))
            try:
                while True:
                    at += len(chunk)
                    self.fetched_bytes += len(chunk)
                    self._pace.acquire(len(chunk))
                    yield chunk
                    if at >= end:
                        break
                    chunk = self._read(body, min(CHUNK_BYTES, end - at))
            except SourceUnavailable as error:
                log.debug("read_resumed", object=self._wanted.id.url, at=at, error=str(error))
            finally:
                # A body read to its end gives its connection back to the pool; any other closes it.
                body.close()

    def _begin(self, begin: int, end: int) -> tuple[Body, bytes]:
        """A body and its first chunk: a connection that opens but gives nothing is a failure."""
        body = self._open(begin, end)
        try:
            return body, self._read(body, min(CHUNK_BYTES, end - begin))
        except BaseException:
            body.close()
            raise

    def _open(self, begin: int, end: int) -> Body:
        begun, self._begun = self._begun, None
        try:
            answer = None if begun is None else begun.answer()
            if answer is None:
                answer = self._calls.get(
                    self._wanted,
                    begin=begin,
                    end=None if end >= self._wanted.size else end,
                    by_version=self._by_version,
                )
        except ObjectForbidden as error:
            if not self._by_version:
                raise
            # The policy may grant s3:GetObject and not s3:GetObjectVersion.
            self._by_version = False
            say = log.debug if self._calls.has_warned_of_versions else log.warning
            self._calls.has_warned_of_versions = True
            say("version_forbidden", object=self._wanted.id.url, error=str(error), effect="read by ETag")
            return self._open(begin, end)
        self._check(answer, begin)
        return answer.body

    def _check(self, answer: GetAnswer, begin: int) -> None:
        """ObjectSuperseded when the answer is of other content, whatever If-Match was taken for."""
        total = answer.content_length
        if answer.content_range is not None:
            # bytes 5-9/10
            span, _, length = answer.content_range.removeprefix("bytes ").partition("/")
            if span.partition("-")[0] != str(begin):
                raise self._refuse(answer, "a wrong range came")
            total = int(length) if length.isdigit() else self._wanted.size
        elif begin:
            raise self._refuse(answer, "ranges are ignored")
        elif total is None or total < 0:
            raise self._refuse(answer, "no length came")
        etag = answer.etag.strip('"')
        if not etag:
            raise self._refuse(answer, "no ETag came")
        if etag != self._wanted.id.etag or total != self._wanted.size:
            answer.body.close()
            raise ObjectSuperseded(
                f"{self._wanted.id.url} was overwritten with other content since it was announced."
            )

    def _refuse(self, answer: GetAnswer, cause: str) -> SourceUnavailable:
        answer.body.close()
        return SourceUnavailable(f"{self._wanted.id.url} could not be read for now ({cause}).")

    def _read(self, body: Body, length: int) -> bytes:
        """Up to `length` bytes, at least one; SourceUnavailable when the body ends or breaks before."""
        try:
            chunk = body.read(length)
        except BotoCoreError as error:
            raise translate_s3(error, what=self._wanted.id.url) from error
        except (HTTPError, HTTPException, OSError) as error:
            raise SourceUnavailable(f"{self._wanted.id.url} could not be read for now ({error}).") from error
        if not chunk:
            raise SourceUnavailable(
                f"{self._wanted.id.url} could not be read for now (the body ended early)."
            )
        return chunk


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
