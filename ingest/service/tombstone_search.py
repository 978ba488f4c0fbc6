"""Folders of topics searched for their tombstones, in a thread."""

import queue
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import structlog

from headrace.kafka.ledger_cache import LedgerCache
from headrace.model.errors import HeadraceError
from headrace.model.ledger_entry import LedgerEntry
from headrace.model.objects import ObjectId
from headrace.model.text_formatting import printable
from headrace.options import Settings
from headrace.process.logs import RetryLog
from headrace.process.threads import start_thread
from headrace.s3 import new_s3_calls
from headrace.s3.reader import S3Source
from ingest.service.folder_search import BucketCalls, FolderSearch
from ingest.service.service_events import ComponentProblem
from ingest.source.catalogue.tombstones import FolderPlaces

_log = structlog.get_logger(__name__)

PROBLEM: Final = "tombstones"
"""Its name among the problems of `/status`."""

_AGAIN_SECONDS: Final = 5.0
# An object that is replaced while it is looked at is found by the next search: that is no problem yet.
_OFTEN: Final = 2


class TombstoneSearch:
    """Searches folders one after the other; `post` gets what was found, or that it fails. Does not block."""

    def __init__(
        self,
        settings: Settings,
        post: Callable[[FolderPlaces | ComponentProblem], None],
        *,
        cache: LedgerCache,
        again_seconds: float = _AGAIN_SECONDS,
    ) -> None:
        self._settings = settings
        self._cache = cache
        self._again_seconds = again_seconds
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
        retries = RetryLog(_log, "tombstone_search_failed")
        while (folder := self._requests.get()) is not None:
            failed = 0
            while not self._is_closed.is_set():
                try:
                    calls = calls or self._calls()
                    self._post(self._search.search(calls, folder))
                    if failed >= _OFTEN:
                        self._post(ComponentProblem(PROBLEM, None))
                    retries.over(folder)
                    break
                except HeadraceError as error:
                    failed += 1
                    if failed >= _OFTEN:
                        self._post(ComponentProblem(PROBLEM, self._problem(folder, error)))
                    waits = "value objects of the topic wait for it; it is tried again"
                    retries.failed(folder, error, folder=folder, detail=waits)
                    self._is_closed.wait(self._again_seconds)

    def _problem(self, folder: str, error: HeadraceError) -> str:
        return (
            f"Objects below s3://{self._settings.s3.bucket}/{printable(folder)} wait, as the places of its "
            f"tombstones cannot be searched: {error} It is tried again; allow it, or set "
            "restore.tombstones to after or ignore."
        )

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
