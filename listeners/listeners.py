"""All listeners of one ingester in a thread of their own, seen from the service's thread."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from headrace.aws.store_answers import headed_object
from headrace.formats.inventory_manifest import Manifest
from headrace.model.errors import HeadraceError, ObjectError, ObjectForbidden, ObjectMissing
from headrace.model.objects import ObjectId, S3Object
from headrace.options.choices import Ordering
from headrace.options.settings import Settings, SqsSettings
from headrace.process.threads import start_thread
from listeners.async_clients import s3_client, sqs_client
from listeners.discovery import DiscoveryMonitor
from listeners.discovery_events import (
    Backoff,
    Counters,
    HeadAnswer,
    HeadsWait,
    ListingFailed,
    Post,
    translated_errors,
)
from listeners.listing import Bucket, Lister
from listeners.sqs import QueueOptions, SqsListener
from listeners.visibility import Queue

if TYPE_CHECKING:
    from listeners.inventory import InventoryReader

# -- HEAD for objects that an event named without ETag or size -----------------------------------------------

_AT_ONCE: Final = 8
_PAUSES: Final = Backoff(first=0.5, longest=20.0)
_QUIET_FAILURES: Final = 3
# A HEAD has no body that says more than 400: expired credentials, which pass, or an object that wants a
# customer's key (SSE-C), which does not.
_REFUSALS: Final = 10


class HeadClient(Protocol):
    """What we use of aiobotocore's S3 client."""

    def head_object(self, **arguments: Any) -> Awaitable[Mapping[str, Any]]:
        """`HeadObject`."""

    def get_object(self, **arguments: Any) -> Awaitable[Mapping[str, Any]]:
        """`GetObject`."""


class HeadRequester:
    """Asks S3 for what an event left out, eight calls at a time; who waits for a next try does not count."""

    def __init__(
        self,
        *,
        client: HeadClient,
        post: Post,
        tasks: asyncio.TaskGroup,
        requester_pays: bool = False,
        pauses: Backoff = _PAUSES,
        quiet_failures: int = _QUIET_FAILURES,
    ) -> None:
        self._client = client
        self._post = post
        self._tasks = tasks
        self._more: dict[str, Any] = {"RequestPayer": "requester"} if requester_pays else {}
        self._pauses = pauses
        self._quiet_failures = quiet_failures
        self._gate = asyncio.Semaphore(_AT_ONCE)
        self._unanswered: set[str] = set()
        self._told: str | None = None

    def request(
        self, token: str, *, bucket: str, key: str, version_id: str | None, reads: bool = False
    ) -> None:
        """Post, later, what HEAD says under `token`; one that fails is repeated for as long as it takes.

        Only what S3 refuses every time is given up, as forbidden: it may be so for good. With `reads` a byte
        is read instead, whose refusal says at once what it is. What is waited for after more than
        `quiet_failures` is a `HeadsWait`.
        """
        version = {} if version_id is None else {"VersionId": version_id}
        wanted = {"Bucket": bucket, "Key": key, **version, **self._more}
        self._tasks.create_task(self._answer(token, wanted, reads=reads))

    async def _answer(self, token: str, wanted: Mapping[str, Any], *, reads: bool) -> None:
        answer = await self._answered(token, wanted, reads=reads)
        self._over(token)
        self._post(HeadAnswer(token=token, answer=answer))

    async def _answered(
        self, token: str, wanted: Mapping[str, Any], *, reads: bool
    ) -> S3Object | HeadraceError:
        failures = refusals = 0
        while True:
            try:
                async with self._gate:
                    return await self._asked(wanted, reads=reads)
            except (ObjectMissing, ObjectForbidden) as error:
                return error
            except HeadraceError as error:
                if reads and isinstance(error, ObjectError):
                    return error
                failures += 1
                refusals += isinstance(error, ObjectError)
                if refusals >= _REFUSALS:
                    return ObjectForbidden(f"{error} It is not asked again.")
                if failures - refusals > self._quiet_failures and not isinstance(error, ObjectError):
                    self._waits(token, error)
            await asyncio.sleep(self._pauses.delay_seconds(failures))

    def _waits(self, token: str, error: HeadraceError) -> None:
        """Tell why, of one of those that are waited for; there may be thousands."""
        self._unanswered.add(token)
        if self._told is None or self._told == token:
            self._told = token
            self._post(HeadsWait(sentence=f"{error} It is asked again, and what needs the answer waits."))

    def _over(self, token: str) -> None:
        if token not in self._unanswered:
            return
        self._unanswered.discard(token)
        if self._told == token:
            self._told = None  # the next try of another tells of that
        if not self._unanswered:
            self._told = None
            self._post(HeadsWait(sentence=None))

    async def _asked(self, wanted: Mapping[str, Any], *, reads: bool) -> S3Object:
        bucket, key = wanted["Bucket"], wanted["Key"]
        with translated_errors(ObjectId(bucket, key, "").url):
            if not reads:
                head = await self._client.head_object(**wanted)
                return headed_object(bucket, key, head)
            head = await self._client.get_object(**wanted, Range="bytes=0-0")
            async with head["Body"] as body:
                if "ContentRange" in head:
                    await body.read()
                # Else Range was not heeded, and the body is the whole object: it is left unread.
            return headed_object(bucket, key, head)


# -- All listeners of one ingester in a thread of their own, seen from the service's thread ------------------

_OPEN_PAUSES: Final = Backoff(first=0.5, longest=20.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listeners:
    listers: Mapping[str, Lister]
    heads: HeadRequester
    sqs: SqsListener | None


class Listeners:
    """Learns of objects and posts what it learns. Every method may be called from any thread.

    `start` and `stop` once each. `post` is called in the listeners' thread. Before `start` and after `stop`
    the other methods do nothing.
    """

    def __init__(self, settings: Settings, post: Post, counters: Counters) -> None:
        self._settings = settings
        self._post = post
        self._counters = counters
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watch = DiscoveryMonitor(settings, post)
        self._stop = asyncio.Event()
        self._stop_seconds = 5.0
        self._skip_through: Mapping[str, str] = {}
        self._inventories: Mapping[str, Sequence[Manifest]] = {}
        self._running: _Listeners | None = None
        self._failure: BaseException | None = None
        self._early: list[Callable[[_Listeners], None]] = []

    def start(
        self,
        *,
        skip_through: Mapping[str, str] = {},
        inventories: Mapping[str, Sequence[Manifest]] = {},
    ) -> None:
        """Begin to receive and to list; returns at once.

        `skip_through` leaves out keys of a bucket up to and including its own in every listing (the
        baseline's start key). `inventories` of a bucket are read before its first listing.
        """
        self._skip_through, self._inventories = skip_through, inventories
        self._loop = loop = asyncio.new_event_loop()
        self._thread = start_thread(partial(self._main, loop), name="listeners")

    def stop(self, *, seconds: float) -> None:
        """Receive no more, delete what is settled, release the rest; blocks, hardly longer than `seconds`."""
        self._stop_seconds = seconds
        self._in_loop(self._stop.set)
        if self._thread is not None:
            self._thread.join(seconds + 2.0)

    def settle(self, message_ids: Iterable[str]) -> None:
        """Delete these messages: all they name is committed."""
        ids = tuple(message_ids)
        self._with_queue(lambda sqs: sqs.settle(ids))

    def park(self, message_ids: Iterable[str]) -> None:
        """Count these messages no longer against `sqs.max.held`; they stay held."""
        ids = tuple(message_ids)
        self._with_queue(lambda sqs: sqs.park(ids))

    def abandon(self, message_id: str) -> None:
        """Leave a message that cannot be read to the queue's own redrive policy."""
        self._with_queue(lambda sqs: sqs.abandon(message_id))

    def release_all(self) -> None:
        """Give every held message back to the queue at once."""
        self._with_queue(lambda sqs: sqs.release_all())

    def pause_receiving(self) -> None:
        """Receive no further messages after the calls under way; what is held stays held."""
        self._with_queue(lambda sqs: sqs.pause())

    def resume_receiving(self) -> None:
        """Continue after `pause_receiving`."""
        self._with_queue(lambda sqs: sqs.resume())

    def page_done(self, bucket: str) -> None:
        """One `ListingPage` has been taken in; a few unacknowledged ones hold the listing of their bucket."""
        self._call(lambda running: running.listers[bucket].page_done())

    def pause_listing(self) -> None:
        """List no further after the page under way (`max.pending.objects`)."""
        self._with_listers(Lister.pause)

    def resume_listing(self) -> None:
        """Continue after `pause_listing`."""
        self._with_listers(Lister.resume)

    def request_listing(self) -> None:
        """Ask for a full listing that begins after now."""
        self._call(lambda _running: self._watch.request_full())

    def request_head(
        self, token: str, *, bucket: str, key: str, version_id: str | None, reads: bool = False
    ) -> None:
        """Ask for a HEAD, or with `reads` a byte; the `HeadAnswer` carries `token`. None after a stop."""

        def request(running: _Listeners) -> None:
            # What is asked for while the listeners end has no group of tasks to run in.
            if not self._stop.is_set():
                running.heads.request(token, bucket=bucket, key=key, version_id=version_id, reads=reads)

        self._call(request)

    # The listeners' thread

    def _with_listers(self, act: Callable[[Lister], None]) -> None:
        def act_on_all(running: _Listeners) -> None:
            for lister in running.listers.values():
                act(lister)

        self._call(act_on_all)

    def _with_queue(self, act: Callable[[SqsListener], None]) -> None:
        self._call(lambda running: None if running.sqs is None else act(running.sqs))

    def _call(self, act: Callable[["_Listeners"], None]) -> None:
        self._in_loop(lambda: self._when_open(act))

    def _in_loop(self, act: Callable[[], object]) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: the listeners have ended
                self._loop.call_soon_threadsafe(self._act, act)

    def _when_open(self, act: Callable[["_Listeners"], None]) -> None:
        if self._running is None:
            self._early.append(act)
        else:
            act(self._running)

    def _main(self, loop: asyncio.AbstractEventLoop) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(self._run())
        if self._failure is not None:
            raise self._failure

    def _act(self, act: Callable[[], object]) -> None:
        """Do what another thread asked for; the loop would only log what fails here, and continue."""
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - raised again by the thread, which ends with it
            self._failure = self._failure or error
            self._stop.set()

    async def _run(self) -> None:
        work = asyncio.create_task(self._work())
        stop = asyncio.create_task(self._stop.wait())
        await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work

    async def _work(self) -> None:
        self._watch.begin()
        async with AsyncExitStack() as clients:
            s3, sqs = await self._open(clients)
            try:
                async with asyncio.TaskGroup() as tasks:
                    self._start_listeners(s3, sqs, tasks)
            finally:
                if self._running is not None and self._running.sqs is not None:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(self._stop_seconds):
                            await self._running.sqs.close()

    async def _open(self, clients: AsyncExitStack) -> tuple[Any, Any]:
        """Clients of S3 and SQS (None without a queue), tried until the machine's configuration allows it."""
        settings, failures = self._settings, 0
        while True:
            try:
                s3 = await clients.enter_async_context(s3_client(settings.s3))
                if settings.sqs is None:
                    return s3, None
                return s3, await clients.enter_async_context(sqs_client(settings.sqs, settings.s3))
            except HeadraceError as error:
                failures += 1
                for bucket in settings.buckets:
                    self._post(ListingFailed(bucket=bucket, listing_id=0, error=error))
                await clients.aclose()
                await asyncio.sleep(_OPEN_PAUSES.delay_seconds(failures))

    def _start_listeners(self, s3: Any, sqs: Any, tasks: asyncio.TaskGroup) -> None:
        """Set everything to work, then do what was asked for in the meantime."""
        settings = self._settings.s3
        pauses = Backoff(first=settings.backoff.delay_ms / 1000, longest=settings.backoff.max_delay_ms / 1000)
        listers = {bucket: self._lister(bucket, s3, pauses) for bucket in self._settings.buckets}
        heads = HeadRequester(
            client=s3,
            post=self._post,
            tasks=tasks,
            requester_pays=settings.requester_pays,
            pauses=pauses,
            quiet_failures=settings.backoff.max_retries,
        )
        listener = None if self._settings.sqs is None else self._sqs_listener(sqs, self._settings.sqs)
        self._running = _Listeners(listers=listers, heads=heads, sqs=listener)
        for act in self._early:
            act(self._running)
        first = {
            bucket: partial(self._inventory_reader(s3, listers[bucket], pauses).read, manifests)
            for bucket, manifests in self._inventories.items()
            if manifests
        }
        tasks.create_task(self._watch.run(listers, first=first))
        if listener is not None:
            tasks.create_task(listener.run())

    def _lister(self, bucket: str, client: Any, pauses: Backoff) -> Lister:
        settings = self._settings.s3
        return Lister(
            client=client,
            bucket=Bucket(
                name=bucket,
                prefix=settings.prefix,
                requester_pays=settings.requester_pays,
                skip_through=self._skip_through.get(bucket),
                is_read_without=are_read_without_others(self._settings),
            ),
            post=self._post,
            counters=self._counters,
            pauses=pauses,
            quiet_failures=settings.backoff.max_retries,
        )

    def _inventory_reader(self, client: Any, lister: Lister, pauses: Backoff) -> "InventoryReader":
        # A first start with `initial.inventory` alone has a use for it.
        from listeners.inventory import InventoryReader

        return InventoryReader(
            client=client,
            lister=lister,
            post=self._post,
            counters=self._counters,
            settings=self._settings,
            pauses=pauses,
        )

    def _sqs_listener(self, client: Any, settings: SqsSettings) -> SqsListener:
        return SqsListener(
            queue=Queue(client=client, url=settings.queue_url),
            options=QueueOptions(
                wait_seconds=settings.wait_time_seconds,
                visibility_seconds=settings.visibility_timeout_seconds,
                receivers=settings.receivers,
                max_held=settings.max_held,
            ),
            post=self._post,
            counters=self._counters,
            health=self._watch,
        )


def are_read_without_others(settings: Settings) -> bool:
    """Whether objects may be read though others, which are there, are left out of the listing.

    Values of an archive are restored with their keys, and of a topic-partition the earlier ones go first.
    """
    return settings.format.restore is None and settings.routing.ordering is not Ordering.PARTITION
