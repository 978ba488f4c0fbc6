"""The places of tombstones, searched in a thread beside the service's, which waits for nothing."""

import queue
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import structlog

from ingest.catalogue.tombstones import FolderPlaces
from ingest.errors import HeadraceError
from ingest.kafka.ledger_cache import LedgerCache
from ingest.model.ledger_entry import LedgerEntry
from ingest.model.objects import ObjectId
from ingest.service.folder_search import BucketCalls, FolderSearch
from ingest.settings import Settings
from ingest.threads import start_thread
from spark.reader import S3Source
from spark.s3 import new_s3_calls

_log = structlog.get_logger(__name__)

_AGAIN_SECONDS: Final = 5.0


class TombstoneSearch:
    """Searches folders one after the other; `post` gets what was found. Does not block."""

    def __init__(
        self, settings: Settings, post: Callable[[FolderPlaces], None], *, cache: LedgerCache
    ) -> None:
        self._settings = settings
        self._cache = cache
        self._post = post
        self._search = FolderSearch(settings)
        self._requests: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._is_closed = threading.Event()
        start_thread(self._run, name="tombstone-search")

    def request(self, folder: str) -> None:
        """Have a folder searched."""
        self._requests.put(folder)

    def close(self) -> None:
        """Search no more."""
        self._is_closed.set()
        self._requests.put(None)

    def _run(self) -> None:
        calls: BucketCalls | None = None
        while (folder := self._requests.get()) is not None:
            while not self._is_closed.is_set():
                try:
                    calls = calls or self._calls()
                    self._post(self._search.search(calls, folder))
                    break
                except HeadraceError as error:
                    _log.warning(
                        "tombstone_search_failed",
                        folder=folder,
                        error=str(error),
                        detail="value objects of the topic wait for it; it is tried again",
                    )
                    self._is_closed.wait(_AGAIN_SECONDS)

    def _calls(self) -> BucketCalls:
        calls = new_s3_calls(self._settings.s3)
        return BucketCalls(
            listed=partial(calls.listed, self._settings.s3.bucket),
            tags=calls.tags,
            source=partial(S3Source, calls),
            known=self._known,
        )

    def _known(self, folder: str) -> Iterator[tuple[ObjectId, LedgerEntry]]:
        # All keys of the folder are before the first one that has the next letter in its delimiter's place.
        through = f"{folder[:-1]}{chr(ord(folder[-1]) + 1)}"
        for known in self._cache.scan(self._settings.s3.bucket, folder, through):
            if known.id.key.startswith(folder):
                yield known.id, known.entry
