"""The service's thread: takes one event after the other and decides; it alone knows catalogue and planner.

Events are in the inbox in the order in which any thread put them there. Messages of the queue are among them:
they are read, and settled or left when they are not about objects of ours.
"""

import queue
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import structlog

from headrace.kafka.ledger_follower import Applied
from headrace.model import clock
from headrace.model.errors import HeadraceError, ObjectForbidden, Unavailable
from headrace.model.ledger_entry import ControlKey, LedgerEntry
from headrace.model.objects import ListingPage, S3Object
from headrace.process.log_levels import is_debug
from headrace.process.logs import RetryLog
from headrace.process.threads import ThreadFailures
from ingest.service import tombstone_search
from ingest.service.apply_effects import PROBLEM, EffectsApplier, PostActions
from ingest.service.idle import UntilIdle, waits_sentence
from ingest.service.leading import Turns
from ingest.service.ledger_writes import LedgerWrites
from ingest.service.lifecycle import Lifecycle
from ingest.service.service_events import (
    ActionsDone,
    ComponentProblem,
    Fatal,
    LedgerEndBlocked,
    OwnEvent,
    Recovered,
    RunInServiceThread,
    TopicAnswered,
    Written,
)
from ingest.service.slot_states import SlotStates
from ingest.service.slot_supervisor import SlotSupervisor
from ingest.service.statistics import Statistics, of_bucket
from ingest.service.stop import Stop
from ingest.source.catalogue import Catalogue
from ingest.source.catalogue.tombstones import FolderPlaces
from ingest.source.command_queue import CommandQueue
from ingest.source.notification import (
    Ignored,
    ObjectEvent,
    ObjectEvents,
    TestEvent,
    Unreadable,
    parse_notification,
)
from ingest.source.planner import Planner
from listeners import discovery_events
from listeners.discovery_events import (
    HeadAnswer,
    HeadsWait,
    HeldFull,
    InventoryWaits,
    ListingBegun,
    ListingFailed,
    ListingKind,
    Message,
    ModeChanged,
    Received,
)
from listeners.listeners import Listeners
from spark.slots import BatchCommitted, BatchFinished, SlotEnded, SlotEvent, SlotReady, SlotRecalled

AppliedBatch = tuple[Applied, ...]
Event = OwnEvent | AppliedBatch | FolderPlaces | discovery_events.Event | SlotEvent
Inbox = queue.SimpleQueue[Event]


_log = structlog.get_logger(__name__)

_INVENTORY: Final = "inventory"
_HEADS: Final = "heads"
_REFUSED: Final = "refused"
# The problems that `--until-idle` waits for and names, next to buckets that cannot be listed.
_OUTSIDE: Final = (_INVENTORY, _HEADS, _REFUSED, PROBLEM, tombstone_search.PROBLEM)
# A hostile sender can invent any number of message shapes; one WARN each, up to here.
_MAX_SHAPES: Final = 100
# Of messages that were left, so many are known again.
_MAX_LEFT: Final = 10_000


class MessageReader:
    """Reads messages about the buckets of one source."""

    def __init__(self, buckets: Collection[str], listeners: Listeners, statistics: Statistics) -> None:
        self._buckets = frozenset(buckets)
        self._listeners = listeners
        self._statistics = statistics
        self._shapes: set[str] = set()
        self._left: set[str] = set()

    def is_news(self, message: Message) -> bool:
        """False for a message that was left on the queue before: it comes again and again."""
        return message.id not in self._left

    def read(self, message: Message) -> Sequence[ObjectEvent] | None:
        """The events that it tells of; None when it told of none, and has been settled or left."""
        match parse_notification(message.body):
            case ObjectEvents(events=events):
                if is_debug(__name__):
                    told = [f"{event.name} {event.key}" for event in events]
                    _log.debug("message_parsed", message_id=message.id, events=told)
                foreign = {event.bucket for event in events} - self._buckets
                if not foreign:
                    return events
                self._leave(message, f"bucket {min(foreign)}", "it names an object of another bucket")
            case TestEvent():
                _log.debug("message_ignored", message_id=message.id, reason="test_event")
                self._statistics.ignored("test_event")
                self._listeners.settle([message.id])
            case Ignored(reason=reason):
                _log.debug("message_ignored", message_id=message.id, reason=reason)
                self._statistics.ignored(reason)
                self._listeners.settle([message.id])
            case Unreadable(shape=shape, reason=reason):
                self._leave(message, shape, reason)
        return None

    def _leave(self, message: Message, shape: str, reason: str) -> None:
        """Leave a message to the queue's own redrive policy, with one WARN for each shape."""
        self._statistics.left_on_queue()
        self._listeners.abandon(message.id)
        if len(self._left) < _MAX_LEFT:
            self._left.add(message.id)
        if shape not in self._shapes and len(self._shapes) < _MAX_SHAPES:
            self._shapes.add(shape)
            _log.warning(
                "message_left_on_queue",
                message_id=message.id,
                shape=shape,
                reason=reason,
                detail="messages like it are left to the queue's redrive policy",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopComponents:
    """What the event loop works with; all of it is running."""

    catalogue: Catalogue
    planner: Planner
    commands: CommandQueue
    lifecycle: Lifecycle
    listeners: Listeners
    writes: LedgerWrites
    applier: EffectsApplier
    supervisor: SlotSupervisor
    statistics: Statistics
    post_actions: PostActions | None = None

    @property
    def takes_stock(self) -> bool:
        """Whether the ledger may be looked through: a `replay` first withdraws what is owed there."""
        return self.commands.is_idle and not self.planner.is_paused


class OnFullListing(Protocol):
    """What is done when a full listing of a bucket is complete."""

    def __call__(self, bucket: str, *, is_first: bool) -> None:
        """Whether it is the bucket's first under this leadership."""


class EventLoop:
    """The loop of one leadership. `run` blocks; everybody else posts into `inbox`.

    Buckets that cannot be listed end it while `startup_deadline` (monotonic) matters: until the first page of
    any of them. `on_full_listing` is called with the end of each full listing of one.
    """

    def __init__(
        self,
        inbox: Inbox,
        components: LoopComponents,
        *,
        buckets: Sequence[str],
        startup_deadline: float,
        stop: Stop,
        failures: ThreadFailures,
        until_idle: UntilIdle | None = None,
        on_full_listing: OnFullListing | None = None,
    ) -> None:
        self._components = components
        self._applier = components.applier
        self._supervisor = components.supervisor
        self._buckets = buckets
        self._message_reader = MessageReader(buckets, components.listeners, components.statistics)
        self._startup_deadline = startup_deadline
        self._until_idle = until_idle
        self._on_full_listing = on_full_listing
        self._has_listed = self._is_queue_failing = False
        self._listing_paused = False
        self._first_full_listings: dict[str, int] = {}
        self._refused: dict[str, str] = {}  # by bucket, of its last full listing
        self._full_listings: dict[str, int] = {}
        self._listing_retries = RetryLog(_log, "listing_failed")
        self._turns = Turns(inbox, self, stop=stop, failures=failures)

    def begin(self) -> None:
        """Pick up what the ledger knows to be unfinished; once, before `run`."""
        self._applier.apply(self._components.catalogue.resume(clock.now()))

    def run(self, publish: Callable[[SlotStates], None]) -> None:
        """Work until an end is asked for, `--until-idle` is over, or it cannot continue (then it raises).

        `publish` is called about four times a second to show what is going on, every 5 s while nothing is.
        """
        self._turns.run(lambda: publish(self._supervisor.slots))

    def drain(self, is_over: Callable[[], bool]) -> None:
        """See `Turns.drain`."""
        self._turns.drain(is_over)

    # -- what its turns ask ----------------------------------------------------------------------------------

    def due_seconds(self) -> float | None:
        """See `Decider`."""
        if self._components.catalogue.is_taking_stock and self._components.takes_stock:
            return 0.0
        due_ms = self._components.planner.next_due_ms()
        return None if due_ms is None else (due_ms - clock.now().steady_ms) / 1000

    def is_quiet(self) -> bool:
        """See `Decider`."""
        return self._until_idle is None and (self._components.lifecycle.is_at_rest or self._is_idle())

    def handle(self, event: Event) -> None:  # noqa: C901, PLR0912 - one row for each kind of event
        """See `Decider`."""
        match event:
            case Received():
                self._on_messages(event)
            case HeldFull():
                self._components.listeners.park(self._components.planner.park(clock.now()))
            case ListingPage():
                self._on_listing_page(event)
            case HeadAnswer():
                self._on_head_answer(event)
            case SlotReady() | BatchCommitted() | BatchFinished() | SlotEnded() | SlotRecalled():
                self._supervisor.take(event)
            case Written(writes, is_command):
                self._components.statistics.written(writes)
                self._applier.apply(self._components.catalogue.on_written(writes, clock.now()))
                if is_command:
                    self._components.commands.written()
            case Recovered(slots):
                for slot in slots:
                    self._supervisor.recovered(slot)
            case LedgerEndBlocked(slots):
                self._supervisor.void_all(slots)
            case tuple():
                for applied in event:
                    self._read_back(applied)
            case ModeChanged(mode=mode, why=why, is_failing=is_failing):
                self._is_queue_failing = is_failing
                self._components.statistics.mode_changed(mode, why)
            case ListingBegun(bucket=bucket, listing_id=number, kind=ListingKind.FULL):
                self._first_full_listings.setdefault(bucket, number)
                self._refused.pop(bucket, None)
                if self._until_idle is not None:
                    self._until_idle.begun(bucket, number)
            case ListingFailed(bucket=bucket, error=error):
                self._listing_failed(bucket, error)
            case InventoryWaits(sentence=waits_for):
                self._components.statistics.trouble(_INVENTORY, waits_for)
            case HeadsWait(sentence=waits_for):
                self._components.statistics.trouble(_HEADS, waits_for)
            case FolderPlaces():
                self._components.catalogue.on_tombstones(event)
            case RunInServiceThread(act):
                act()
            case ComponentProblem(component, sentence):
                self._components.statistics.trouble(component, sentence)
            case TopicAnswered(topic, refusal):
                self._components.planner.access.topics.answered(topic, refusal)
            case ActionsDone(objects):
                self._components.statistics.acted(objects)
                self._applier.apply(self._components.catalogue.on_acted(objects))
            case Fatal():
                raise event.ending()

    def _read_back(self, applied: Applied) -> None:
        """The follower has read a record of the ledger."""
        if isinstance(applied.key, ControlKey):
            if isinstance(applied.entry, bytes | None):
                self._components.commands.on_control_record(applied.key, applied.entry)
        elif isinstance(applied.entry, LedgerEntry | None):
            self._components.catalogue.on_ledger_record(applied.key, applied.entry)

    # -- what listeners tell ---------------------------------------------------------------------------------

    def _on_messages(self, received: Received) -> None:
        _log.debug("messages_received", messages=len(received.messages))
        if self._until_idle is not None:
            news = sum(map(self._message_reader.is_news, received.messages))
            self._until_idle.received(news)
        for message in received.messages:
            events = self._message_reader.read(message)
            if events is not None:
                self._applier.apply(self._components.catalogue.on_message(message.id, events, clock.now()))

    def _on_head_answer(self, event: HeadAnswer) -> None:
        catalogue = self._components.catalogue
        match event.answer:
            case S3Object():
                self._applier.apply(catalogue.on_head_answer(event.token, event.answer, clock.now()))
            case ObjectForbidden():
                self._applier.apply(
                    catalogue.on_head_answer(event.token, None, clock.now(), is_forbidden=True)
                )
            case _:
                self._applier.apply(catalogue.on_head_answer(event.token, None, clock.now()))

    def _on_listing_page(self, page: ListingPage) -> None:
        components = self._components
        self._has_listed = True
        components.statistics.trouble(self._problem_of(page.bucket), None)
        self._listing_retries.over(page.bucket)
        effects = components.catalogue.on_listing_page(page, clock.now())
        _log.debug(
            "page_listed",
            bucket=page.bucket,
            objects=len(page.objects),
            pending=effects.pending,
            ignored=dict(effects.ignored),
            detail="what is neither is done, skipped or quarantined in the ledger, is pending already, or "
            "waits for an earlier version of its key",
        )
        self._applier.apply(effects)
        self._note_refused(page)
        components.listeners.page_done(page.bucket)
        if page.is_last and page.is_full:
            self._full_listings[page.bucket] = clock.wall_ms()
            if len(self._full_listings) == len(self._buckets):
                components.statistics.full_listing_done(min(self._full_listings.values()))
            is_first = page.listing_id == self._first_full_listings[page.bucket]
            if self._on_full_listing is not None:
                self._on_full_listing(page.bucket, is_first=is_first)
            if self._until_idle is not None:
                is_whole = page.bucket not in self._refused
                self._until_idle.listed(page.bucket, page.listing_id, is_whole=is_whole)
        self._hold_listing()

    def _note_refused(self, page: ListingPage) -> None:
        """Count what S3 does not tell of: a run until idle does not end well without it."""
        for sentence in page.refused[:1]:
            self._components.statistics.ignored("forbidden", len(page.refused))
            self._refused[page.bucket] = sentence
        if self._until_idle is not None:
            self._components.statistics.trouble(_REFUSED, next(iter(self._refused.values()), None))

    def _hold_listing(self) -> None:
        """Pause listing above `max.pending.objects` and while paused; resume when there is room again."""
        wanted = self._components.catalogue.wants_listing and not self._components.planner.is_paused
        if wanted == self._listing_paused:
            self._listing_paused = not wanted
            if self._listing_paused:
                self._components.listeners.pause_listing()
            else:
                self._components.listeners.resume_listing()

    def _listing_failed(self, bucket: str, error: HeadraceError) -> None:
        sentence = f"aws.s3.bucket.name = {bucket!r} cannot be listed: {error}"
        self._components.statistics.trouble(self._problem_of(bucket), sentence)
        self._listing_retries.failed(bucket, error, bucket=bucket, detail="it continues where it was")

    def _problem_of(self, bucket: str) -> str:
        """What has the problem, as `/status` names it: a bucket that cannot be listed."""
        return of_bucket("bucket", bucket, among=self._buckets)

    def _unlisted(self) -> list[str]:
        """A sentence for each bucket that cannot be listed."""
        problems = self._components.statistics.problems
        return [problems[name] for name in map(self._problem_of, self._buckets) if name in problems]

    # -- what follows ----------------------------------------------------------------------------------------

    def decide(self) -> None:
        """Give every ready slot a batch, and start as many free slots as there is work left for."""
        components = self._components
        components.lifecycle.advance(self._supervisor.slots)
        now = clock.now()
        self._applier.apply(components.planner.tick(now, takes_stock=components.takes_stock))
        self._hold_listing()
        self._list_what_was_left_out()
        step = components.commands.step(now)
        if step is not None:
            self._applier.apply(replace(step.effects, writes=()))
            components.writes.submit(step.effects.writes, step.record)
        self._supervisor.plan(now)

    def _list_what_was_left_out(self) -> None:
        """Of more actions than are kept in memory, the ledger knows the rest, and a listing names them."""
        actions = self._components.post_actions
        if actions is not None and actions.wants_listing():
            self._components.listeners.request_listing()
            self._components.catalogue.look_again()
            if self._until_idle is not None:
                self._until_idle.list_again()

    def _is_idle(self) -> bool:
        components = self._components
        if components.post_actions is not None and not components.post_actions.is_idle:
            return False
        return (
            components.catalogue.is_idle
            and components.commands.is_idle
            and not components.planner.has_live_plans
        )

    def is_over(self, now: float) -> bool:
        """What only time brings: the end of `--until-idle`, and of the patience at start."""
        components = self._components
        unlisted = self._unlisted()
        if not self._has_listed and len(unlisted) == len(self._buckets) and now > self._startup_deadline:
            raise Unavailable("; ".join(unlisted))
        if self._until_idle is None:
            return False
        if components.planner.is_paused:
            raise Unavailable(
                f"--until-idle: the ingester is {components.lifecycle.target}, as was asked through the REST "
                "interface, so nothing will be done; PUT .../resume there lets it continue"
            )
        if self._until_idle.is_over(is_idle=self._is_idle()):
            return True
        waits_for = self._waits_for(self._until_idle)
        if self._until_idle.patience.is_over(now, waits=bool(waits_for)):
            raise Unavailable(waits_sentence(waits_for, components.statistics.last_error))
        return False

    def _waits_for(self, until_idle: UntilIdle) -> list[str]:
        """What `--until-idle` waits for and only others can change; empty while something continues."""
        components = self._components
        if components.planner.has_live_plans or components.catalogue.counts["active"]:
            return []
        reasons = sorted(components.catalogue.waiting_reasons().items())
        found = [f"{reason} ({count} objects)" for reason, count in reasons]
        found += self._unlisted()
        problems = components.statistics.problems
        found += [problems[component] for component in _OUTSIDE if component in problems]
        # While the listing goes on there may be news from there.
        if self._is_queue_failing and (found or (until_idle.has_listed and self._is_idle())):
            found.append(f"sqs.queue.url: {components.statistics.mode_reason}")
        return found
