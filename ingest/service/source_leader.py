"""The source's leadership: catalogue, planner and listeners over the ledger that was taken over."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import structlog

from headrace.formats.inventory_manifest import Manifest
from headrace.kafka.control_records import FirstStart
from headrace.kafka.driver_ledger import DriverLedger
from headrace.kafka.ledger_cache import CacheLedgerView, LedgerCache
from headrace.kafka.tokens import login_problem
from headrace.model import clock
from headrace.model.errors import Exit, LeadershipLost
from headrace.model.ledger_entry import State
from headrace.model.objects import ObjectId, OwedAction, Route, moved_below
from headrace.options import Settings
from headrace.options.choices import RestoreTombstones
from headrace.options.transforms.read_chain import known_topics
from ingest.service.apply_effects import EffectsApplier, PostActions
from ingest.service.endpoints import ProblemLog, build_snapshot
from ingest.service.event_loop import EventLoop, Inbox, LoopComponents
from ingest.service.idle import Patience, UntilIdle, listening
from ingest.service.leadership_phase import TakenLead
from ingest.service.leading import await_ended, close_slots, lead_until_over, void_slots
from ingest.service.ledger_writes import LedgerMonitor, LedgerWrites, Recovery
from ingest.service.lifecycle import Lifecycle
from ingest.service.rest_adapter import SourceAdapter, SourceLeadership
from ingest.service.slot_states import SlotStates
from ingest.service.slot_supervisor import SlotComponents, SlotSupervisor
from ingest.service.source_start import (
    InventoriesFound,
    ListingNotes,
    deciders,
    inventories_to_read,
    require_inventories,
    with_inventories,
)
from ingest.service.startup import TopicCreator, output_topics
from ingest.service.tombstone_search import TombstoneSearch
from ingest.source.catalogue import Catalogue
from ingest.source.command_queue import CommandQueue
from ingest.source.first_starts import (
    awaited_inventories,
    baseline_from,
    begun_again,
    first_start_of,
    first_start_records,
    left_out,
    other_buckets,
    skipped_keys,
)
from ingest.source.object_selection import has_read_nothing, key_problems, unfinished_left_out
from ingest.source.planner import Planner
from listeners.discovery_events import Counters
from listeners.listeners import Listeners
from spark.slots import SlotPool

_log = structlog.get_logger(__name__)

_RELEASE_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    """What runs while this process leads, and has to be ended in order."""

    loop: EventLoop
    ledger: DriverLedger
    catalogue: Catalogue
    planner: Planner
    lifecycle: Lifecycle
    recovery: Recovery
    writes: LedgerWrites
    watch: LedgerMonitor
    listeners: Listeners
    skip_through: Mapping[str, str]
    """Keys of a bucket up to its own are left out of listings."""
    inventories: Mapping[str, Sequence[Manifest]]
    """What of a bucket is read before its first listing."""


class SourceLeader:
    """See `ingest.service.leadership_phase.Leader`."""

    def __init__(self, taken: TakenLead, connector: SourceAdapter) -> None:
        self._taken = taken
        self._connector = connector
        self._process = taken.process
        self._settings = taken.process.settings
        self._leadership = taken.leadership
        self._closing = taken.closing
        self._inbox: Inbox = taken.inbox
        self._problems = ProblemLog()
        self._inventories: InventoriesFound = ()

    def lead(self) -> Exit:
        """See `Leader.lead`."""
        taken = self._taken
        self._inventories = self._read_inventories(taken.ledger.cache)
        require_inventories(self._inventories, self._settings, taken.ledger.cache)
        with taken.leading_again_later():
            firsts = self._first_starts(taken.ledger)
            self._warn_of_left_out(taken.ledger)
        return self._lead(self._compose(taken.ledger, taken.slot_pool, firsts))

    def _read_inventories(self, cache: LedgerCache) -> InventoriesFound:
        """Only where a first start owes them: later a bucket of inventories may be away, or gone."""
        if not awaited_inventories(self._settings, cache):
            return ()
        if not self._taken.has_led_before:
            return self._process.found.read_inventories()
        with self._taken.leading_again_later():
            return self._process.found.read_inventories()

    def _warn_of_left_out(self, ledger: DriverLedger) -> None:
        """Name where objects were not finished and are not read any more: by their bucket, or their key."""
        for bucket, unfinished in left_out(ledger.cache, *self._settings.buckets).items():
            _log.warning(
                "bucket_left_out",
                bucket=bucket,
                unfinished=unfinished,
                detail="aws.s3.bucket.name does not name it any more: its objects are left where they "
                "are, and continue from there once it is named again",
            )
        for bucket, reasons in unfinished_left_out(self._settings, ledger.cache).items():
            _log.warning(
                "objects_left_out",
                bucket=bucket,
                unfinished=dict(reasons),
                detail="they continue once aws.s3.prefix, object.* and file.name.template take their keys",
            )

    def _first_starts(self, ledger: DriverLedger) -> dict[str, FirstStart]:
        """What is remembered of the first start with each bucket; committed before any is read or listed.

        All at once: a record of 1.0.0, of a bucket that it does not name, is no other's once one has a name.
        """
        places = self._settings.by_place()
        firsts = {place.s3.bucket: self._first_start(ledger, place) for place in places}
        if records := first_start_records(ledger.cache, firsts):
            ledger.commit(records)
        return firsts

    def _first_start(self, ledger: DriverLedger, settings: Settings) -> FirstStart:
        """What is to be remembered of the first start with a bucket."""
        bucket = settings.s3.bucket
        found = first_start_of(ledger.cache, bucket)
        is_new = found is None or not found.covers(settings.s3.prefix)
        if found is None or is_new:
            others = other_buckets(ledger.cache, bucket)
            if found is None and others:
                _log.warning(
                    "bucket_changed",
                    bucket=bucket,
                    earlier=", ".join(others),
                    detail="this is the first start with this bucket: include.existing and native.start.key "
                    "count from now on",
                )
            elif found is not None:
                _log.warning(
                    "prefix_changed",
                    bucket=bucket,
                    prefix=settings.s3.prefix,
                    earlier=found.below,
                    detail="this is the first start with this prefix: include.existing and native.start.key "
                    "count from now on for keys that were outside the earlier one",
                )
            now = self._process.found.buckets[bucket].first_start(settings)
            found = begun_again(now, found, settings.s3.prefix)
        elif settings.discovery.native_start_key not in {None, *(one.start_key for one in found.all)}:
            _log.warning(
                "start_key_not_taken",
                bucket=bucket,
                native_start_key=settings.discovery.native_start_key,
                earlier=found.start_key,
                detail="native.start.key counts at the first start with a bucket and a prefix, which was "
                "before; use object.include or object.exclude, or another name",
            )
        found = with_inventories(found, settings, is_new=is_new)
        target = moved_below(settings.post_action)
        if target is not None and target not in found.moved_to:
            found = msgspec.structs.replace(found, moved_to=(*found.moved_to, target))
        baseline = baseline_from(settings, found)
        for prefix in set(found.moved_to) - set(baseline.moved_to):
            _log.warning(
                "moved_objects_read",
                bucket=bucket,
                prefix=prefix,
                detail="post.action moved objects there, and aws.s3.prefix now lies there: they are ingested "
                "as new objects",
            )
        return found

    def _compose(
        self, ledger: DriverLedger, slot_pool: SlotPool, firsts: Mapping[str, FirstStart]
    ) -> _Running:
        """Everything that this leadership needs, over the ledger that it has taken over."""
        settings, process = self._settings, self._process
        baselines = {bucket: baseline_from(settings, first) for bucket, first in firsts.items()}
        slots = process.slot_source.slots
        catalogue, planner = deciders(settings, CacheLedgerView(ledger.cache), firsts, baselines, slots=slots)
        commands = CommandQueue(catalogue)
        for key, raw in ledger.cache.controls().items():
            commands.on_control_record(key, raw)
        listening_as = listening(settings) if process.until_idle else settings
        listeners = Listeners(listening_as, self._inbox.put, self._counters())
        post_actions = self._post_actions()
        lifecycle = Lifecycle(
            commands=commands,
            catalogue=catalogue,
            planner=planner,
            listeners=listeners,
            slot_pool=slot_pool,
            post_actions=post_actions,
        )
        writes = LedgerWrites(ledger, self._inbox.put)
        recovery = Recovery(ledger, self._inbox.put, all_slots=slots)
        applier = EffectsApplier(
            writes=writes,
            listeners=listeners,
            statistics=process.statistics,
            clock=clock.now,
            search=self._searching(ledger),
            act=_nothing if post_actions is None else post_actions.request,
            withdraw=_nothing if post_actions is None else post_actions.withdraw,
        )
        supervisor = SlotSupervisor(
            SlotComponents(
                planner=planner,
                slot_pool=slot_pool,
                recovery=recovery,
                statistics=process.statistics,
                metadata=self._leadership.metadata,
                remember=self._remembering(ledger),
                create_topics=self._creating_topics(),
                apply=applier.apply,
                clock=clock.now,
            ),
            slots=slots,
            max_batch_seconds=settings.jobs.max_seconds,
        )
        loop = EventLoop(
            self._inbox,
            LoopComponents(
                catalogue=catalogue,
                planner=planner,
                commands=commands,
                lifecycle=lifecycle,
                listeners=listeners,
                writes=writes,
                applier=applier,
                supervisor=supervisor,
                statistics=process.statistics,
                post_actions=post_actions,
            ),
            buckets=settings.buckets,
            startup_deadline=self._listing_deadline(),
            stop=process.stop,
            failures=process.failures,
            until_idle=self._until_idle(),
            on_full_listing=ListingNotes(firsts, ledger.cache, catalogue, writes.submit_records).listed,
        )
        return _Running(
            loop=loop,
            ledger=ledger,
            catalogue=catalogue,
            planner=planner,
            lifecycle=lifecycle,
            recovery=recovery,
            writes=writes,
            watch=LedgerMonitor(ledger, self._inbox.put),
            listeners=listeners,
            skip_through=skipped_keys(baselines),
            inventories={
                bucket: inventories_to_read(self._inventories, first, bucket)
                for bucket, first in firsts.items()
            },
        )

    def _listing_deadline(self) -> float:
        """Until when a bucket that cannot be listed ends the run: only at the start of the process."""
        if self._taken.has_led_before:
            return math.inf
        return max(time.monotonic() + 1.0, self._process.startup_deadline)

    def _counters(self) -> Counters:
        metrics = self._process.metrics
        return Counters(
            messages=lambda outcome, count: metrics.sqs_messages.labels(outcome).inc(count),
            heartbeats=metrics.sqs_heartbeats.inc,
            list_requests=metrics.list_requests.inc,
            inventory_rows=lambda outcome, count: metrics.inventory_rows.labels(outcome).inc(count),
        )

    def _remembering(self, ledger: DriverLedger) -> Callable[[str], None]:
        connector = self._connector

        def remember(topic: str) -> None:
            ledger.add_anchor(topic)
            connector.remember(topic)

        return remember

    def _creating_topics(self) -> Callable[[Route], None]:
        """What creates the topics of a route (`topic.creation.default.*`), or nothing."""
        settings = self._settings
        if settings.kafka.topic_creation is None:
            return lambda _route: None
        topics = output_topics(settings, self._process.clients.admin)
        creator = TopicCreator(topics, self._inbox.put)
        self._closing.callback(creator.close)
        dead_letter = settings.errors.dead_letter

        def create(route: Route) -> None:
            # A task names what it misses in a sentence only; topics that are there are left as they are.
            for topic in known_topics(settings.transforms, route.topic):
                creator.request(topic)
            if dead_letter is not None:
                creator.request(dead_letter.topic)

        return create

    def _searching(self, ledger: DriverLedger) -> Callable[[str], None]:
        """What searches folders for the places of tombstones; not used where there are none to restore."""
        settings = self._settings
        if settings.format.restore is None or settings.joining.tombstones is RestoreTombstones.IGNORE:
            return lambda _folder: None
        search = TombstoneSearch(settings, self._inbox.put, cache=ledger.cache)
        self._closing.callback(search.close)
        return search.request

    def _post_actions(self) -> PostActions | None:
        settings, counted = self._settings, self._process.metrics.post_actions
        if settings.post_action is None:
            return None
        actions = PostActions(
            settings.s3, settings.post_action, self._inbox.put, count=lambda each: counted.labels(each).inc()
        )
        self._closing.callback(actions.close)
        return actions

    def _until_idle(self) -> UntilIdle | None:
        if not self._process.until_idle:
            return None
        return UntilIdle(
            has_queue=self._settings.sqs is not None,
            patience=Patience(self._process.startup_seconds),
            buckets=len(self._settings.buckets),
        )

    def _lead(self, running: _Running) -> Exit:
        process = self._process
        self._taken.begin()
        process.metrics.leader.set(1)
        running.listeners.start(skip_through=running.skip_through, inventories=running.inventories)
        running.lifecycle.begin(running.ledger.cache.controls())
        running.loop.begin()
        self._connector.lead(
            SourceLeadership(
                post=self._inbox.put,
                lifecycle=running.lifecycle,
                statistics=process.statistics,
                cache=running.ledger.cache,
                buckets=self._settings.buckets,
            )
        )
        lead_until_over(
            lambda: self._run(running),
            close=lambda: self._close(running),
            abandon=lambda error: self._abandon(running, error),
            adapter=self._connector,
        )
        if not process.until_idle:
            return Exit.DONE
        has_failed = has_read_nothing(self._settings, running.catalogue.unread_keys)
        return Exit.QUARANTINED if has_failed or self._has_quarantined(running) else Exit.DONE

    def _run(self, running: _Running) -> None:
        running.loop.run(lambda slots: self._publish(running, slots))
        if self._process.until_idle and not self._process.stop.asked.is_set():
            # The exit code is found in the cache, which follows the last commits.
            running.ledger.read_to_end()

    def _has_quarantined(self, running: _Running) -> bool:
        """Whether an object of these buckets is: what another bucket has left is no news of them."""
        return bool(running.ledger.cache.counts_in(self._settings.buckets)[State.QUARANTINED])

    def _publish(self, running: _Running, slots: SlotStates) -> None:
        process, target = self._process, running.lifecycle.target
        process.metrics.set_target(target)
        keys, failure = key_problems(self._settings, running.catalogue.unread_keys)
        if failure != process.statistics.problems.get("keys"):
            process.statistics.trouble("keys", failure)
        shown = build_snapshot(
            replace(process.snapshot_holder.snapshot, target=target),
            catalogue=running.catalogue,
            planner=running.planner,
            ledger=running.ledger.cache.counts_in(self._settings.buckets),
            slots=slots,
            statistics=process.statistics,
            metrics=process.metrics,
            known=running.ledger.cache,
            buckets=self._settings.buckets,
            now=clock.now(),
        )
        shown = replace(shown, problems={**shown.problems, **keys})
        shown = shown.with_problems(login_problem(self._settings.kafka))
        shown = replace(shown, last_error=process.statistics.last_of(shown.problems))
        process.snapshot_holder.show(shown)
        self._problems.tell(shown.problems, ready=shown.ready)

    # -- the end ---------------------------------------------------------------------------------------------

    def _close(self, running: _Running) -> None:
        """Commit at the next batch of rows, settle what that finished, release the rest."""
        close_slots(self._taken, running.loop.drain)
        running.recovery.close()
        running.watch.close()
        running.writes.close(2.0)
        running.loop.drain(lambda: True)
        running.listeners.stop(seconds=3.0)
        self._taken.give_up()

    def _abandon(self, running: _Running, error: LeadershipLost) -> None:
        """Void everything at once; return when nothing of this leadership is at work in this process.

        What is in the inbox still is of no use: the next leader reads the ledger.
        """
        process = self._process
        running.lifecycle.let_go()
        void_slots(self._taken, error, adapter=self._connector, statistics=process.statistics)
        running.recovery.close()
        running.watch.close()
        running.writes.close(0.0)
        running.listeners.stop(seconds=_RELEASE_SECONDS)
        await_ended((running.recovery, running.watch, running.writes), process.stop)


def _nothing(_owed: OwedAction | ObjectId) -> None:
    """No `post.action` is configured, so none is owed."""
