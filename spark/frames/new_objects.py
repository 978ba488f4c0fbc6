"""Finds new objects: events and listings, filtered, held against the log, waiting for their batch."""

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Final

import structlog

from headrace.model.clock import Instant, now, wall_ms
from headrace.model.errors import HeadraceError, ObjectMissing
from headrace.model.objects import ListingPage, ObjectId, S3Object
from headrace.model.text_formatting import printable
from headrace.options.settings import Settings
from headrace.process.logs import LastingTrouble
from headrace.process.threads import ThreadFailures, collecting_own
from ingest.source.catalogue import ObjectFilter
from ingest.source.catalogue.deduplication import HeadRequests, as_announced
from ingest.source.catalogue.effects import EffectsBuilder, HeadRequest, MessageTracker
from ingest.source.catalogue.listing_merge import ExclusionReason
from ingest.source.notification import (
    EventKind,
    Ignored,
    ObjectEvent,
    ObjectEvents,
    TestEvent,
    Unreadable,
    parse_notification,
)
from listeners.discovery_events import (
    Counters,
    Event,
    HeadAnswer,
    HeadsWait,
    HeldFull,
    ListingFailed,
    Message,
    ModeChanged,
    Post,
    Received,
    is_lasting,
)
from listeners.listeners import Listeners
from spark.frames.admission import ReadLimits, WaitingObjects
from spark.frames.frame_options import FramesSettings
from spark.frames.log_entries import KnownObjects, identity

_LOG = structlog.get_logger(__name__)

_FOR_EVER_MS: Final = 2**62
_LISTS_AGAIN_BELOW: Final = 0.9
_STOP_SECONDS: Final = 5.0
_PATIENCE_MS: Final = 600_000
"""How long a bucket may not be listed before a query that ends by itself ends without."""
_MOST_SHAPES: Final = 100


class Discovery:
    """New objects of one bucket, for one log. Methods may be called from any thread.

    `known` is read under the lock only, and changed by `admit`.
    """

    def __init__(
        self,
        given: FramesSettings,
        *,
        known: KnownObjects,
        object_filter: ObjectFilter,
        listeners: Callable[[Settings, Post, Counters], Listeners] = Listeners,
        clock: Callable[[], Instant] = now,
    ) -> None:
        settings = given.shared
        self._given = given
        self._known = known
        self._filter = object_filter
        self._bucket = settings.s3.bucket
        self._waiting = WaitingObjects(min_age_ms=settings.discovery.min_age_ms)
        self._messages = MessageTracker()
        self._heads = HeadRequests(retention_ms=_FOR_EVER_MS)
        # Objects of batches that Spark has not committed yet: their messages wait.
        self._uncommitted: dict[ObjectId, int] = {}
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._failures = ThreadFailures()
        self._watching = ExitStack()
        self._problem: HeadraceError | None = None
        self._clock = clock
        # Between two failures in a row are a call, which times out, and a pause.
        most_apart_ms = settings.s3.backoff.max_delay_ms + _PATIENCE_MS // 2
        self._refused_listings = LastingTrouble(most_apart_ms=most_apart_ms)
        self._unanswered_heads = LastingTrouble()
        self._heads_wait_for: str | None = None
        self._shapes_left: set[str] = set()
        self._most_waiting = settings.discovery.max_pending_objects
        self._is_listing_paused = False
        self._is_closing = False
        self._is_only_batch = False
        self._full_listings = 0
        self.mode = ""
        self.left_out: Counter[str] = Counter()
        """Objects that the filters left out, by why."""
        self._listeners = listeners(
            settings,
            self._post,
            Counters(
                messages=lambda _outcome, _count: None,
                heartbeats=lambda _count: None,
                list_requests=lambda _count: None,
                inventory_rows=lambda _outcome, _count: None,
            ),
        )

    def start(self, *, skip_through: str | None) -> None:
        """Begin to receive and to list; returns at once."""
        # A thread of theirs that dies finds nothing any more: the query has to learn of it.
        self._watching.enter_context(self._failures.waking(self._on_dead_thread))
        with collecting_own(self._failures):
            self._listeners.start(skip_through={} if skip_through is None else {self._bucket: skip_through})

    def stop(self) -> None:
        """End, and give back the messages that are held."""
        self._listeners.stop(seconds=_STOP_SECONDS)
        self._watching.close()

    @property
    def waiting(self) -> int:
        """Objects that are in no batch yet."""
        return len(self._waiting)

    @property
    def waiting_bytes(self) -> int:
        """Their bytes."""
        return self._waiting.bytes

    @property
    def problem(self) -> str | None:
        """What keeps listings from their end at the moment, or HEADs from their answers."""
        return self._heads_wait_for if self._problem is None else str(self._problem)

    def take(self, limits: ReadLimits) -> dict[bytes, S3Object]:
        """What goes into a batch now; raises what ended the listeners, and a refusal that will last."""
        with self._changed:
            self._raise_if_broken()
            return self._waiting.take(limits, wall_ms())

    def wait(self, seconds: float) -> None:
        """Block until something waits to be taken, or the time is over."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._error is None and (left := deadline - time.monotonic()) > 0:
                ready = self._waiting.next_ready_ms()
                if ready is not None:
                    if ready <= wall_ms():
                        return
                    left = min(left, (ready - wall_ms()) / 1000)
                self._changed.wait(left)

    def admit(self, batch: int, admitted: Mapping[bytes, S3Object]) -> None:
        """These objects are in a batch of the log."""
        with self._changed:
            self._waiting.remove(admitted)
            self._known.add(admitted)
            self._uncommitted |= dict.fromkeys((found.id for found in admitted.values()), batch)
            self._balance()

    def commit(self, batch: int) -> None:
        """Spark has done everything up to this batch: messages of its objects are deleted."""
        effects = EffectsBuilder()
        with self._changed:
            for found in [one for one, of_batch in self._uncommitted.items() if of_batch <= batch]:
                del self._uncommitted[found]
                self._messages.finish(found, effects)
        self._apply(effects)

    def only_what_is_there(self, *, at_once: bool, is_only_batch: bool = False) -> None:
        """Find what the first full listing finds and no more; `at_once`: however much that is.

        `is_only_batch`: no other is asked for, so it has all of that, or there is none.
        """
        with self._changed:
            self._is_closing = True
            self._is_only_batch = is_only_batch
            if at_once:
                self._most_waiting = sys.maxsize
            self._balance()

    def wait_for_batch(self, limits: ReadLimits) -> None:
        """Block until a batch is as full as it can be, or the first full listing has ended, or will not."""

        def is_enough() -> bool:
            if self._full_listings or self._error is not None or self._is_refused():
                return True
            # Without room nothing more is found until a batch is taken, however little it has.
            return self._is_listing_paused or self._waiting.fills(limits, wall_ms())

        with self._changed:
            self._changed.wait_for(is_enough)
            self._raise_if_broken()

    # -- the listeners' thread
    # ---------------------------------------------------------------------------------

    def _post(self, event: Event) -> None:
        try:
            with self._changed:
                self._take_in(event)
                self._changed.notify_all()
        except BaseException as error:  # noqa: BLE001  # raised again where the query can show it
            self._end_with(error)

    def _on_dead_thread(self) -> None:
        assert self._failures.first is not None, "it is what wakes"
        self._end_with(self._failures.first)

    def _end_with(self, error: BaseException) -> None:
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def _take_in(self, event: Event) -> None:
        match event:
            case Received(messages=messages):
                for message in messages:
                    self._on_message(message)
            case ListingPage():
                self._on_page(event)
            case ListingFailed(error=error):
                self._on_listing_failed(error)
            case HeadsWait(sentence=sentence):
                self._on_heads_wait(sentence)
            case HeadAnswer(token=token, answer=answer):
                self._on_head(token, answer)
            case ModeChanged(mode=mode):
                self.mode = mode.value
            case HeldFull():
                # What is in a batch or waits for one keeps its message: the batch's commit makes room.
                held = [message for message, _ in self._messages.counted()]
                self._listeners.park(message for message in held if self._messages.park(message))
            case _:
                pass
        self._balance()

    def _balance(self) -> None:
        """List on while few objects wait."""
        most = self._most_waiting
        if not self._is_listing_paused and len(self._waiting) >= most:
            if self._has_none_to_take():
                return
            self._is_listing_paused = True
            self._listeners.pause_listing()
        elif self._is_listing_paused and (
            len(self._waiting) < most * _LISTS_AGAIN_BELOW or self._has_none_to_take()
        ):
            self._is_listing_paused = False
            self._listeners.resume_listing()

    def _has_none_to_take(self) -> bool:
        """Whether nothing that waits will make room: it is too young for what ends with the listing."""
        return self._is_closing and not self._waiting.has_any(wall_ms())

    def _on_page(self, page: ListingPage) -> None:
        # First, as nothing is added while it refuses.
        self._problem = None
        self._refused_listings.end()
        for found in page.objects:
            self._on_listed(found)
        if page.is_full and page.is_last:
            self._full_listings += 1
        self._listeners.page_done(self._bucket)

    def _on_listed(self, found: S3Object) -> None:
        route = self._filter.listed_route_or_reason(found)
        if isinstance(route, ExclusionReason):
            self.left_out[route.value] += 1
            return
        self._found(found, is_fresh=False)

    def _on_listing_failed(self, error: HeadraceError) -> None:
        # Pages without keys are not posted: what lies between failures tells that there were some.
        self._problem = error
        if self._refused_listings.fail(self._clock().steady_ms):
            _LOG.warning("listing_failed", bucket=self._bucket, error=str(error))

    def _on_heads_wait(self, sentence: str | None) -> None:
        self._heads_wait_for = sentence
        if sentence is None:
            self._unanswered_heads.end()
        elif self._unanswered_heads.fail(self._clock().steady_ms):
            _LOG.warning("heads_unanswered", bucket=self._bucket, error=sentence)

    def _on_message(self, message: Message) -> None:
        parsed = parse_notification(message.body)
        match parsed:
            case ObjectEvents(events=events) if all(event.bucket == self._bucket for event in events):
                effects = EffectsBuilder()
                owed = {item for event in events if (item := self._on_event(event)) is not None}
                self._messages.hold(message.id, owed, effects)
                self._apply(effects)
            case ObjectEvents(events=events):
                foreign = min(event.bucket for event in events if event.bucket != self._bucket)
                self._leave(message, f"bucket {foreign}", "it names an object of another bucket")
            case Unreadable(shape=shape, reason=reason):
                self._leave(message, shape, reason)
            case TestEvent() | Ignored():
                self._listeners.settle([message.id])

    def _leave(self, message: Message, shape: str, reason: str) -> None:
        """Leave a message to the queue's own redrive policy; the log has the first of each shape."""
        self.left_out["unreadable_message"] += 1
        self._listeners.abandon(message.id)
        if shape in self._shapes_left or len(self._shapes_left) >= _MOST_SHAPES:
            return
        self._shapes_left.add(shape)
        detail = "messages like it are left to the queue's redrive policy"
        _LOG.warning(
            "message_left_on_queue", message_id=message.id, shape=shape, reason=reason, detail=detail
        )

    def _on_event(self, event: ObjectEvent) -> ObjectId | str | None:
        """What the event's message waits for; None for nothing."""
        if event.kind is not EventKind.CREATED:
            return None
        candidates = [key for key in (event.key, event.alternate_key) if key is not None]
        keys = [
            key for key in candidates if not isinstance(self._filter.route_or_reason(key), ExclusionReason)
        ]
        if not keys:
            self._leave_out(event.key)
            return None
        if event.etag is not None and not self._heads.is_needed(event, wall_ms()):
            announced = as_announced(event, ObjectId(self._bucket, event.key, event.etag), wall_ms())
            if not self._is_new(announced):
                return self._found(announced)
            # No event says whether it is archived, and what a batch of the log has is to be read.
        question = self._heads.open(event, keys, now())
        self._ask(question.request)
        return question.token

    def _leave_out(self, key: str) -> None:
        reason = str(self._filter.route_or_reason(key))
        is_outside = reason == ExclusionReason.OUTSIDE_PREFIX and not self._given.is_state(key)
        if is_outside and not self.left_out[reason]:
            detail = (
                "such messages are deleted: a query that is to read these objects needs a queue of its own"
            )
            _LOG.warning("message_outside_prefix", key=printable(key), detail=detail)
        self.left_out[reason] += 1

    def _ask(self, head: HeadRequest) -> None:
        self._listeners.request_head(
            head.token, bucket=self._bucket, key=head.key, version_id=head.version_id
        )

    def _on_head(self, token: str, answer: S3Object | HeadraceError) -> None:
        question = self._heads.pop(token)
        if question is None:
            return
        effects = EffectsBuilder()
        found = answer if isinstance(answer, S3Object) else None
        is_forbidden = found is None and not isinstance(answer, ObjectMissing)
        if found is None and not is_forbidden and question.alternate_key is not None:
            self._ask(self._heads.ask_alternate(question).request)
            return
        if is_forbidden and question.is_unanswered_without:
            _LOG.warning("object_forbidden", key=printable(question.key), error=str(answer))
            self._messages.abandon_all(token)
            self._messages.finish(token, effects)
        else:
            confirmed = self._heads.confirmed_object(question, found, wall_ms(), is_forbidden=is_forbidden)
            item = None if isinstance(confirmed, str) else self._found(confirmed)
            if item is None:
                self._messages.finish(token, effects)
            else:
                self._messages.replace(token, item, effects)
        self._apply(effects)

    def _apply(self, effects: EffectsBuilder) -> None:
        """Delete the messages that are done, and give back those of which an object is forbidden."""
        self._listeners.settle(effects.settled)
        for message in effects.abandoned:
            self._listeners.abandon(message)

    def _found(self, found: S3Object, *, is_fresh: bool = True) -> ObjectId | None:
        """Have an object wait unless the log knows it; what its message waits for, None for nothing."""
        key = identity(found.id)
        if found.id in self._uncommitted:
            return found.id
        if key in self._waiting:
            return found.id
        if key in self._known:
            return None
        if reason := self._reason(found):
            self.left_out[reason] += 1
            return None
        # Nor while listings are refused: uploads without end would hold up what ends the query.
        if not (self._is_closing and (self._full_listings or self._is_refused())):
            self._waiting.add(key, found, found_ms=wall_ms(), is_fresh=is_fresh)
        return found.id

    def _is_new(self, found: S3Object) -> bool:
        """Whether it would wait from now on, as far as an event tells."""
        key = identity(found.id)
        is_there = found.id in self._uncommitted or key in self._waiting or key in self._known
        return not is_there and self._reason(found) is None

    def _reason(self, found: S3Object) -> str | None:
        if self._given.is_state(found.id.key):
            return "state"
        if not self._given.is_in_time(found):
            return "modified"
        if found.is_archived:
            if not self.left_out["archived"]:
                _LOG.warning(
                    "object_archived",
                    key=printable(found.id.key),
                    detail="objects like it are read once they are restored",
                )
            return "archived"
        return None

    def _is_refused(self) -> bool:
        if self._problem is None:
            return False
        # Where the query ends with the listing nothing else would show that it waits, nor end it. Counted to
        # the last failure, as pages without keys may have come since.
        has_lasted = self._is_closing and self._refused_listings.lasted_ms >= _PATIENCE_MS
        return has_lasted or is_lasting(self._problem)

    def _raise_if_broken(self) -> None:
        if self._error is not None:
            raise self._error
        # What waits is read before the query ends, but where its one batch would hide that there is more.
        is_read_first = not self._is_only_batch and self._waiting.has_any(wall_ms())
        if self._is_refused() and not self._full_listings and not is_read_first:
            assert self._problem is not None, "it is what refuses"
            raise self._problem
