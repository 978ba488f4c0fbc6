"""The queue of notifications: receive, keep invisible while held, delete when the service says so."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

import structlog

from headrace.model.errors import AccessDenied, HeadraceError
from listeners.discovery_events import Backoff, Counters, HeldFull, Message, Post, Received
from listeners.visibility import BATCH, BatchResult, HeldMessages, Queue, Receipt

_LOG = structlog.get_logger(__name__)

EXTENSION_SECONDS: Final = 300
_UNKNOWN_VISIBILITY_SECONDS: Final = 60
_SETTLERS: Final = 2
_SETTLE_ATTEMPTS: Final = 5
_AT_ONCE: Final = 8
_FULL_AGAIN_SECONDS: Final = 1.0
_RECEIVE_PAUSES: Final = Backoff(first=0.5, longest=10.0)
_SETTLE_PAUSES: Final = Backoff(first=0.25, longest=4.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """`sqs.*` as the listener needs them. `visibility_seconds` None: the queue's own."""

    wait_seconds: int = 20
    visibility_seconds: int | None = None
    receivers: int = 2
    max_held: int = 2000
    extension_seconds: int = EXTENSION_SECONDS
    receive_pauses: Backoff = _RECEIVE_PAUSES
    settle_pauses: Backoff = _SETTLE_PAUSES


class QueueHealth(Protocol):
    """Is called with whether the queue answers (the fallback)."""

    def queue_answered(self, *, asked: float) -> None:
        """A receive that was sent at `asked` (monotonic seconds) was answered."""

    def queue_failed(self, error: HeadraceError, *, since: float) -> None:
        """A receive failed; the queue can be said to fail since then."""


class SqsListener:
    """Receivers, heartbeat and settling for one queue. All methods belong to the listeners' loop.

    `run` returns only by cancellation. A message is deleted only by `settle`; what is not settled is seen
    again by the next receiver, which the catalogue absorbs.
    """

    def __init__(
        self,
        *,
        queue: Queue,
        options: QueueOptions,
        post: Post,
        counters: Counters,
        health: QueueHealth,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queue = queue
        self._options = options
        self._post = post
        self._counters = counters
        self._health = health
        self._clock = clock
        self._extension = max(options.extension_seconds, options.visibility_seconds or 0)
        self._held = HeldMessages(limit=options.max_held, extension=self._extension)
        self._visibility: int | None = None
        self._asks_visibility = options.visibility_seconds is not None
        self._open = asyncio.Event()
        self._open.set()
        self._gives_back = False
        self._room = asyncio.Event()
        self._full_posted = -_FULL_AGAIN_SECONDS
        self._any_held = asyncio.Event()
        self._due: deque[str] = deque()
        self._any_due = asyncio.Event()
        self._attempts: dict[str, int] = {}
        self._side_calls: set[asyncio.Task[None]] = set()

    @property
    def held(self) -> int:
        """How many messages are held."""
        return len(self._held)

    async def run(self) -> None:
        """Receive, extend and delete until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._options.receivers):
                tasks.create_task(self._receive())
            for _ in range(_SETTLERS):
                tasks.create_task(self._settle())
            tasks.create_task(self._heartbeat())

    def settle(self, message_ids: Iterable[str]) -> None:
        """Delete these messages soon; ids that are not held are passed over."""
        for message_id in message_ids:
            if message_id in self._held and message_id not in self._attempts:
                self._attempts[message_id] = 0
                self._due.append(message_id)
        self._any_due.set()

    def park(self, message_ids: Iterable[str]) -> None:
        """Count these no longer against `max_held`; they stay held, invisible and undeleted."""
        for message_id in message_ids:
            self._held.park(message_id)
        self._room.set()

    def release(self, message_ids: Iterable[str]) -> None:
        """Make these messages visible to any receiver at once, and hold them no longer."""
        receipts = [receipt for receipt in map(self._forget, message_ids) if receipt is not None]
        if receipts:
            self._run_in_background(self._make_visible(receipts, outcome="released"))

    def release_all(self) -> None:
        """The same for every message held, and for those that a call under way still brings; see `resume`."""
        self._gives_back = True
        self.release(self._held.ids)

    def pause(self) -> None:
        """Receive no further after the calls under way; what is held stays held and invisible."""
        self._open.clear()

    def resume(self) -> None:
        """Continue after `pause`."""
        self._gives_back = False
        self._open.set()

    def abandon(self, message_id: str) -> None:
        """Hold it no longer and do nothing: it reappears in its time, for the queue's own redrive policy."""
        if self._forget(message_id) is not None:
            self._counters.messages("left", 1)

    async def close(self) -> None:
        """Delete what is still to be settled, then release the rest. Call after `run` has been cancelled."""
        due = [receipt for receipt in map(self._held.receipt, self._attempts) if receipt is not None]
        await self._delete_now(due)
        rest = [receipt for receipt in map(self._forget, self._held.ids) if receipt is not None]
        await self._make_visible(rest, outcome="released")
        await asyncio.gather(*self._side_calls)

    # Receiving

    async def _receive(self) -> None:
        failures = 0
        while True:
            most = await self._reserve()
            asked, holds = self._clock(), bool(len(self._held))
            try:
                visibility = await self._visibility_seconds()
                messages = await self._queue.receive(
                    most=most,
                    wait_seconds=self._options.wait_seconds,
                    visibility_seconds=visibility if self._asks_visibility else None,
                )
                self._hold(messages, hidden_for=visibility, held_before=holds)
            except HeadraceError as error:
                failures += 1
                self._visibility = None
                # A call that was never answered says nothing about the time it was allowed to wait.
                self._health.queue_failed(error, since=min(self._clock(), asked + self._options.wait_seconds))
                await asyncio.sleep(self._options.receive_pauses.delay_seconds(failures))
            else:
                failures = 0
                self._health.queue_answered(asked=asked)
            finally:
                self._held.unreserve(most)
                self._room.set()

    async def _reserve(self) -> int:
        await self._open.wait()
        while not (most := self._held.reserve(BATCH)):
            self._room.clear()
            if self._held.is_full:
                self._post_full()
            with suppress(TimeoutError):
                async with asyncio.timeout(_FULL_AGAIN_SECONDS):
                    await self._room.wait()
            await self._open.wait()
        return most

    def _post_full(self) -> None:
        """Ask which messages need not count, at most once a second: objects fail as time goes by."""
        now = self._clock()
        if now - self._full_posted >= _FULL_AGAIN_SECONDS:
            self._full_posted = now
            self._post(HeldFull())

    async def _visibility_seconds(self) -> int:
        """How long a received message is invisible at first; asked once, after failures, and in doubt."""
        if self._options.visibility_seconds is not None:
            return self._options.visibility_seconds
        if self._visibility is None:
            try:
                own = await self._queue.visibility_seconds()
            except AccessDenied:
                # Receiving may be allowed where reading the queue's attributes is not: then we set the time.
                own = 0
            self._asks_visibility = own == 0
            self._visibility = own or _UNKNOWN_VISIBILITY_SECONDS
        return self._visibility

    def _hold(self, messages: Sequence[Mapping[str, Any]], *, hidden_for: int, held_before: bool) -> None:
        now = self._clock()
        if any(self._held.is_early(message["MessageId"], now) for message in messages):
            self._visibility = None  # the queue may have another since
        new = tuple(
            _message_of(message)
            for message in messages
            if self._held.hold(message["MessageId"], message["ReceiptHandle"], now=now, hidden_for=hidden_for)
        )
        if new:
            self._any_held.set()
            self._counters.messages("received", len(new))
        if len(new) < len(messages):
            self._counters.messages("redelivered", len(messages) - len(new))
        if self._gives_back:
            self.release(message.id for message in new)
        elif new or not (messages or held_before or len(self._held)):
            # A FIFO queue gives nothing of a group of which a message is held: it is not empty by that.
            self._post(Received(messages=new))

    def _forget(self, message_id: str) -> Receipt | None:
        receipt = self._held.release(message_id)
        self._attempts.pop(message_id, None)
        if receipt is not None:
            self._room.set()
        return receipt

    # Heartbeat

    async def _heartbeat(self) -> None:
        while True:
            if not len(self._held):
                self._any_held.clear()
                await self._any_held.wait()
            visibility = self._options.visibility_seconds or self._visibility or _UNKNOWN_VISIBILITY_SECONDS
            await asyncio.sleep(min(5.0, min(visibility, self._extension) / 8))
            await self._extend()

    async def _extend(self) -> None:
        now = self._clock()
        expiring = self._held.expiring(now)
        if expiring:
            _LOG.warning(
                "messages_reaching_limit",
                messages=len(expiring),
                detail="SQS lets a message be held for 12 hours: they are let go, and received again",
            )
            await self._make_visible(expiring, outcome="renewed")
        due: dict[int, list[Receipt]] = {}
        for receipt in self._held.due(now):
            due.setdefault(self._held.extension(receipt, now), []).append(receipt)
        for seconds, receipts in due.items():
            for answer in await self._in_batches(receipts, partial(self._queue.hide, seconds=seconds)):
                self._held.record_extended(answer.done, asked=now)
                self._held.record_refused((*answer.failed, *answer.hopeless))
                self._counters.heartbeats(len(answer.done))

    # Deleting and releasing

    async def _settle(self) -> None:
        while True:
            while not self._due:
                self._any_due.clear()
                await self._any_due.wait()
            ids = [self._due.popleft() for _ in range(min(BATCH, len(self._due)))]
            receipts = [receipt for receipt in map(self._held.receipt, ids) if receipt is not None]
            if receipts:
                await self._delete(receipts)

    async def _delete(self, receipts: Sequence[Receipt]) -> None:
        try:
            answer = await self._queue.delete(receipts)
        except HeadraceError:
            answer = BatchResult(failed=tuple(receipts))
        self._deleted(answer.done)
        for receipt in (*answer.failed, *answer.hopeless):
            if receipt.message_id not in self._held:
                continue  # released meanwhile: when it comes back, it is settled as if for the first time
            attempts = self._attempts[receipt.message_id] = self._attempts.get(receipt.message_id, 0) + 1
            is_stale = self._held.receipt(receipt.message_id) == receipt and receipt in answer.hopeless
            if is_stale or attempts >= _SETTLE_ATTEMPTS:
                self._forget(receipt.message_id)
                self._counters.messages("unsettled", 1)
            else:
                pause = self._options.settle_pauses.delay_seconds(attempts)
                asyncio.get_running_loop().call_later(pause, self._retry_delete, receipt.message_id)

    def _deleted(self, receipts: Iterable[Receipt]) -> None:
        for receipt in receipts:
            if self._held.receipt(receipt.message_id) in {receipt, None}:
                self._forget(receipt.message_id)
                self._counters.messages("settled", 1)
            else:
                # Delivered again while the delete was under way: only the newest handle deletes surely.
                self._retry_delete(receipt.message_id)

    def _retry_delete(self, message_id: str) -> None:
        if message_id in self._held:
            self._due.append(message_id)
            self._any_due.set()

    async def _delete_now(self, receipts: Sequence[Receipt]) -> None:
        for answer in await self._in_batches(receipts, self._queue.delete):
            for receipt in answer.done:
                self._forget(receipt.message_id)
            self._counters.messages("settled", len(answer.done))

    async def _make_visible(self, receipts: Sequence[Receipt], *, outcome: str) -> None:
        """Make messages visible, once and without insisting: their time-out does the same, only later."""
        for answer in await self._in_batches(receipts, lambda some: self._queue.hide(some, seconds=0)):
            if answer.done:
                self._counters.messages(outcome, len(answer.done))

    async def _in_batches(
        self,
        receipts: Sequence[Receipt],
        call: Callable[[Sequence[Receipt]], Coroutine[None, None, BatchResult]],
    ) -> list[BatchResult]:
        """The answers to a batch call over all receipts, some at once; a batch that failed whole is empty."""
        gate = asyncio.Semaphore(_AT_ONCE)

        async def one(batch: Sequence[Receipt]) -> BatchResult:
            async with gate:
                try:
                    return await call(batch)
                except HeadraceError:
                    return BatchResult()

        batches = [receipts[index : index + BATCH] for index in range(0, len(receipts), BATCH)]
        return await asyncio.gather(*map(one, batches))

    def _run_in_background(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._side_calls.add(task)
        task.add_done_callback(self._side_calls.discard)


def _message_of(message: Mapping[str, Any]) -> Message:
    return Message(id=message["MessageId"], body=message["Body"])
