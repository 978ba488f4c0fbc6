"""Listings of the bucket: pages in key order, each handed over once, with no gap between them."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Final, Protocol

import structlog

from headrace.aws.aws_errors import is_unknown_to_store, may_be_about_credentials
from headrace.aws.store_answers import (
    SHOW_RESTORES,
    following,
    listed_by_head,
    listed_objects,
    restores_shown,
    stuck,
    without_etag,
)
from headrace.model.errors import HeadraceError, ObjectError, ObjectMissing
from headrace.model.objects import ListingPage, S3Object, is_directory_bucket
from listeners.discovery_events import (
    Backoff,
    Counters,
    ListingBegun,
    ListingFailed,
    ListingKind,
    Post,
    answer_of_refusal,
    translated_errors,
)

_log = structlog.get_logger(__name__)

PAGES_IN_FLIGHT: Final = 4
_HEADS_AT_ONCE: Final = 8
_PAUSES: Final = Backoff(first=1.0, longest=20.0)
# Of which each is told once.
_REFUSED_KEPT: Final = 1000
_OTHERS_TRIED: Final = 10


class ListClient(Protocol):
    """What we use of aiobotocore's S3 client."""

    def list_objects_v2(self, **arguments: Any) -> Awaitable[Mapping[str, Any]]:
        """`ListObjectsV2`."""

    def head_object(self, **arguments: Any) -> Awaitable[Mapping[str, Any]]:
        """`HeadObject`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """What is listed. `skip_through` leaves out, in every listing, keys up to and including that one.

    `is_read_without`: other objects may be read though S3 refuses to tell of one, as nothing hangs on it.
    """

    name: str
    prefix: str = ""
    requester_pays: bool = False
    skip_through: str | None = None
    is_read_without: bool = True

    @property
    def url(self) -> str:
        """For messages to people."""
        return f"s3://{self.name}/{self.prefix}"

    @property
    def begins_after(self) -> str | None:
        """The key after which a full listing begins, None for the prefix's start.

        Between a lower `skip_through` and the prefix nothing is listed: it would say that nothing is there.
        """
        skipped = self.skip_through
        return None if skipped is None or skipped < self.prefix else skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A listing that reached the end: its greatest key (None: no keys), and the seconds its requests took.

    `is_whole`: no object was left out as S3 refuses to tell of it.
    """

    last_key: str | None
    seconds: float
    is_whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    objects: tuple[S3Object, ...]
    refused: tuple[str, ...]
    last_key: str | None
    token: str | None
    seconds: float


class Lister:
    """Lists one bucket, page by page. All methods belong to the listeners' loop.

    The client must not repeat calls by itself: a failed call is repeated here, for as long as it takes, and
    reported once more than `quiet_failures` in a row have failed.
    """

    def __init__(
        self,
        *,
        client: ListClient,
        bucket: Bucket,
        post: Post,
        counters: Counters,
        pauses: Backoff = _PAUSES,
        quiet_failures: int = 0,
        page_keys: int = 1000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._bucket = bucket
        self._post = post
        self._counters = counters
        self._pauses = pauses
        self._quiet_failures = quiet_failures
        self._page_keys = page_keys
        self._clock = clock
        self._listing_id = 0
        self._in_flight = 0
        self._changed = asyncio.Event()
        self._is_paused = False
        self._shows_restores = False
        self._refused: set[str] = set()
        self.is_failing = False
        """Whether the bucket cannot be listed at present."""

    async def list(self, kind: ListingKind, *, after: str | None) -> Listed:
        """Post every page of what comes after the key `after`, or of the whole prefix for a full listing.

        Returns only when the end was reached: a failed call is repeated, from the last key, for as long as it
        takes. Waits while paused and while four pages are not acknowledged.
        """
        self._listing_id += 1
        self._shows_restores = restores_shown(self._bucket.name)
        position = after if kind is ListingKind.INCREMENTAL else self._bucket.begins_after
        self._post(
            ListingBegun(bucket=self._bucket.name, listing_id=self._listing_id, kind=kind, after_key=position)
        )
        last_key, token, seconds = None, None, 0.0
        is_whole = True
        ends = {position}
        while True:
            await self._may_go_on()
            answer = await self._answer(after=position, token=token, ends=ends)
            token = answer.token
            seconds += answer.seconds
            is_whole = is_whole and not answer.refused
            if answer.last_key is None and token is not None:
                continue  # S3 may answer with nothing and yet have more, where many keys were deleted
            self._in_flight += 1
            self._post(
                ListingPage(
                    bucket=self._bucket.name,
                    listing_id=self._listing_id,
                    is_full=kind is ListingKind.FULL,
                    after_key=position,
                    through_key=None if token is None else answer.last_key,
                    objects=answer.objects,
                    refused=answer.refused,
                )
            )
            last_key = position = answer.last_key or last_key
            ends.add(position)
            if token is None:
                return Listed(last_key=last_key, seconds=seconds, is_whole=is_whole)

    async def take(self, objects: Sequence[S3Object]) -> None:
        """Post objects that an inventory names, when a page of a listing might be posted."""
        await self._may_go_on()
        self._in_flight += 1
        self._post(
            ListingPage(
                bucket=self._bucket.name,
                listing_id=0,
                is_full=False,
                after_key=None,
                through_key=None,
                objects=objects,
                is_inventory=True,
            )
        )

    def page_done(self) -> None:
        """The service has taken in one page."""
        self._in_flight -= 1
        self._changed.set()

    def pause(self) -> None:
        """Ask for no more pages after the one under way."""
        self._is_paused = True

    def resume(self) -> None:
        """Continue after `pause`."""
        self._is_paused = False
        self._changed.set()

    async def _may_go_on(self) -> None:
        while self._is_paused or self._in_flight >= PAGES_IN_FLIGHT:
            self._changed.clear()
            await self._changed.wait()

    async def _answer(
        self, *, after: str | None, token: str | None, ends: AbstractSet[str | None]
    ) -> _Answer:
        """One page, repeated until it comes: from the key `after`, for a token may not outlive a failure.

        `ends` are the last keys of the pages before it. None of them comes twice, in whatever order keys are.
        """
        failures = 0
        while True:
            begun = self._clock()
            try:
                page = await self._list(after=after, token=token)
                heads, refused = await self._heads(page)
                answer = self._parsed(page, heads, refused, sent=token, seconds=self._clock() - begun)
                if answer.token is not None and answer.last_key is not None and answer.last_key in ends:
                    raise stuck(self._bucket.url)
            except HeadraceError as error:
                if not is_directory_bucket(self._bucket.name):  # which has no order, and refuses StartAfter
                    token = None
                self._counters.list_requests(1)
                code, status = answer_of_refusal(error)
                if self._shows_restores and is_unknown_to_store(code, status):
                    # Such as by a store that knows no such header: without it the rest is the same.
                    self._shows_restores = False
                    continue
                failures += 1
                # Keys that were rotated are known by their first refusal.
                is_news = failures > 1 or not may_be_about_credentials(code, status, "ListObjectsV2")
                if failures > self._quiet_failures and is_news:
                    self.is_failing = True
                    self._post(
                        ListingFailed(bucket=self._bucket.name, listing_id=self._listing_id, error=error)
                    )
                await asyncio.sleep(self._pauses.delay_seconds(failures))
            else:
                self.is_failing = False
                self._counters.list_requests(1)
                return answer

    async def _list(self, *, after: str | None, token: str | None) -> Mapping[str, Any]:
        # botocore asks for url-encoded keys by itself and decodes them: keys may hold what XML cannot.
        arguments: dict[str, Any] = {"Bucket": self._bucket.name, "MaxKeys": self._page_keys}
        if self._bucket.prefix:
            arguments["Prefix"] = self._bucket.prefix
        if token is not None:
            arguments["ContinuationToken"] = token
        elif after is not None:
            arguments["StartAfter"] = after
        if self._shows_restores:
            arguments |= SHOW_RESTORES
        if self._bucket.requester_pays:
            arguments["RequestPayer"] = "requester"
        with translated_errors(f"listing {self._bucket.url}"):
            return await self._client.list_objects_v2(**arguments)

    def _of_prefix(self, page: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """The entries without those of a store that does not know prefixes, which may not be asked for."""
        prefix = self._bucket.prefix
        return [entry for entry in page.get("Contents", ()) if entry.get("Key", prefix).startswith(prefix)]

    async def _heads(self, page: Mapping[str, Any]) -> tuple[dict[str, S3Object | None], tuple[str, ...]]:
        """What HEAD says of objects that the page shows without their ETags; None of one that is left out.

        That is one that is gone, or refused while others are answered: a sentence of each of the latter.
        """
        keys = without_etag(self._of_prefix(page))
        answers: dict[str, S3Object | ObjectError | None] = {}
        for begin in range(0, len(keys), _HEADS_AT_ONCE):
            some = keys[begin : begin + _HEADS_AT_ONCE]
            answers |= zip(some, await asyncio.gather(*map(self._head, some)), strict=True)
        refused = {key: found for key, found in answers.items() if isinstance(found, ObjectError)}
        if refused and not (self._bucket.is_read_without and await self._answers_others(page, answers)):
            raise next(iter(refused.values()))
        self._tell_refused(refused)
        heads = {key: None if isinstance(one, ObjectError) else one for key, one in answers.items()}
        return heads, tuple(map(str, refused.values()))

    async def _answers_others(
        self, page: Mapping[str, Any], answers: Mapping[str, S3Object | ObjectError | None]
    ) -> bool:
        """Whether S3 answers HEADs of other objects: else none of them is to blame.

        They are asked for now: credentials that were good for some of these may have expired since.
        """
        answered = [key for key, found in answers.items() if not isinstance(found, ObjectError)]
        with_etag = (entry["Key"] for entry in self._of_prefix(page) if entry["Key"] not in answers)
        others = chain(answered[-1:], (key for key in with_etag if not key.endswith("/")))
        for other in islice(others, _OTHERS_TRIED):
            if not isinstance(await self._head(other), ObjectError):
                return True
        return False

    def _tell_refused(self, refused: Mapping[str, ObjectError]) -> None:
        """Log those that were not refused before."""
        for key, error in refused.items():
            if key not in self._refused and len(self._refused) < _REFUSED_KEPT:
                self._refused.add(key)
                _log.warning("listed_object_refused", error=str(error), effect="it is left out meanwhile")

    async def _head(self, key: str) -> S3Object | ObjectError | None:
        payer = {"RequestPayer": "requester"} if self._bucket.requester_pays else {}
        try:
            with translated_errors(f"s3://{self._bucket.name}/{key}"):
                head = await self._client.head_object(Bucket=self._bucket.name, Key=key, **payer)
        except ObjectMissing:
            return None
        except ObjectError as error:
            return error
        return listed_by_head(self._bucket.name, key, head)

    def _parsed(
        self,
        page: Mapping[str, Any],
        heads: Mapping[str, S3Object | None],
        refused: tuple[str, ...],
        *,
        sent: str | None,
        seconds: float,
    ) -> _Answer:
        entries = page.get("Contents", ())
        more = following(page, {"ContinuationToken": sent}, what=self._bucket.url)
        return _Answer(
            objects=tuple(listed_objects(self._bucket.name, self._of_prefix(page), heads)),
            refused=refused,
            last_key=entries[-1].get("Key") if entries else None,
            token=None if more is None else more["ContinuationToken"],
            seconds=seconds,
        )
