"""Chunks fetched by a thread of their own, a bounded number ahead of who takes them."""

import queue
import threading
from collections.abc import Iterator
from typing import Final

from headrace.process.threads import start_thread

# Chunks of 1 MiB: what a decoder may find waiting.
CHUNKS_AHEAD: Final = 8
_END: Final = None


class ReadAhead:
    """An iterator over `chunks`, which a thread draws; an error arrives behind what came before it."""

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
