"""One leadership, from joining the group to its end: everything made for it, and unmade with it."""

import gc
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import structlog

from ingest import clock
from ingest.catalogue import Baseline, Catalogue
from ingest.commands.command_queue import CommandQueue
from ingest.errors import LeadershipLost, Unavailable
from ingest.exits import Exit
from ingest.kafka import control_records
from ingest.kafka.cache_view import CacheLedgerView
from ingest.kafka.driver_ledger import DriverLedger
from ingest.kafka.kafka_clients import ClientProperties
from ingest.kafka.leadership import Leadership, Role
from ingest.metrics import Metrics
from ingest.model.ledger_entry import State
from ingest.model.objects import Route
from ingest.model.snapshot import SnapshotHolder
from ingest.object_selection import baseline_from
from ingest.planner import Planner
from ingest.service.apply_effects import EffectsApplier
from ingest.service.deciders import deciders
from ingest.service.endpoints import build_snapshot
from ingest.service.event_loop import EventLoop, LoopParts
from ingest.service.idle import UntilIdle
from ingest.service.inbox import Inbox
from ingest.service.ledger_writes import LedgerMonitor, LedgerWrites
from ingest.service.lifecycle import Lifecycle
from ingest.service.recovery import Recovery
from ingest.service.rest_adapter import LeadershipView, RestAdapter
from ingest.service.service_events import Fatal
from ingest.service.slot_states import SlotStates
from ingest.service.slot_supervisor import SlotParts, SlotSupervisor
from ingest.service.spark_startup import SparkStartup
from ingest.service.startup import Found, Stopped, output_topics
from ingest.service.statistics import Statistics
from ingest.service.stop import Stop
from ingest.service.topic_creation import TopicCreator
from ingest.settings import Settings
from listeners.discovery_events import Counters
from listeners.listeners import Listeners
from spark.slots import SlotPool

_log = structlog.get_logger(__name__)

# A clean stop commits at the next batch of rows; what is still open then is aborted (docs/commands.md).
_CLOSE_SECONDS: Final = 20.0
_LOOK_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessParts:
    """What lives as long as the process, and every leadership in it uses."""

    settings: Settings
    clients: ClientProperties
    spark_startup: SparkStartup
    snapshot_holder: SnapshotHolder
    metrics: Metrics
    statistics: Statistics
    connector: RestAdapter
    stop: Stop
    found: Found
    until_idle: bool
    accept_new_ledger: bool
    startup_seconds: float
    startup_deadline: float
    """Monotonic seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    """What runs while this process leads, and has to be ended in order."""

    loop: EventLoop
    ledger: DriverLedger
    slot_pool: SlotPool
    catalogue: Catalogue
    planner: Planner
    lifecycle: Lifecycle
    recovery: Recovery
    writes: LedgerWrites
    listeners: Listeners
    skip_through: str | None
    """Keys up to this one are left out of listings."""


class LeadershipPhase:
    """Joins, waits for the lead, leads. Used once: nothing of it is carried over into the next one."""

    def __init__(self, process: ProcessParts) -> None:
        self._process = process
        self._settings = process.settings
        self._inbox: Inbox = Inbox()

    def run(self) -> Exit:
        """Lead until the run is over. Blocks; Stopped, and errors of `ingest.errors`."""
        with ExitStack() as closing:
            leadership = self._join(closing)
            self._await_lead(leadership)
            _log.info("leading", group=leadership.group)
            ledger = self._take_over(leadership, closing)
            running = self._compose(leadership, ledger, closing)
            watch = LedgerMonitor(ledger, self._inbox.put)
            closing.callback(watch.close)
            return self._lead(running)

    # -- the road to the lead --------------------------------------------------------------------------------

    def _join(self, closing: ExitStack) -> Leadership:
        settings = self._settings
        lead = Leadership(
            self._process.clients.consumer,
            name=settings.name,
            ledger_topic=settings.kafka.ledger_topic,
            session_timeout_ms=settings.identity.lead_session_timeout_ms,
            instance_id=settings.identity.instance_id,
            on_lost=lambda reason: self._inbox.put(Fatal(LeadershipLost(f"The lead is lost: {reason}."))),
        )
        closing.callback(lead.close)
        lead.join()
        return lead

    def _await_lead(self, lead: Leadership) -> None:
        process = self._process
        while not lead.wait_for_lead(1.0, process.stop.asked):
            if process.stop.asked.is_set():
                raise Stopped
            is_up = process.spark_startup.is_up()
            if lead.role is Role.STANDBY:
                if process.snapshot_holder.snapshot.role != "standby":
                    _log.info("standby", group=lead.group, detail="another instance leads")
                # Ready is who can take over at once: a rollout must not stop the leader before.
                self._show(role="standby", ready=is_up)
            if lead.role is Role.JOINING and lead.problem and time.monotonic() > process.startup_deadline:
                raise Unavailable(lead.problem)

    def _take_over(self, leadership: Leadership, closing: ExitStack) -> DriverLedger:
        settings = self._settings
        ledger = DriverLedger(
            self._process.clients,
            name=settings.name,
            topic=settings.kafka.ledger_topic,
            lead=leadership,
            state_dir=settings.state_dir,
            anchors=self._process.found.topics,
            boundary_seconds=settings.kafka.transaction_interval_ms / 1000,
            accept_new_ledger=self._process.accept_new_ledger,
            on_applied=self._inbox.put,
        )
        closing.callback(ledger.close)
        ledger.take_over(timeout=self._process.startup_seconds)
        return ledger

    def _await_spark(self) -> None:
        while not self._process.spark_startup.is_up():
            if self._process.stop.asked.wait(_LOOK_SECONDS):
                raise Stopped

    def _baseline(self, ledger: DriverLedger) -> Baseline:
        """What the first start left to the past; committed before anything is received or listed."""
        found = ledger.control(control_records.FIRST_START)
        if not isinstance(found, control_records.FirstStart):
            start_key = self._settings.discovery.native_start_key
            known = self._process.found
            found = control_records.FirstStart(
                at_ms=known.now_by_s3_ms,
                start_key=start_key,
                uploads=msgspec.UNSET if known.uploads is None else known.uploads,
            )
            ledger.commit([(control_records.FIRST_START, control_records.encode_control(found))])
        return baseline_from(self._settings, found)

    # -- what leads ------------------------------------------------------------------------------------------

    def _compose(self, leadership: Leadership, ledger: DriverLedger, closing: ExitStack) -> _Running:
        """Everything that this leadership needs, over the ledger that it has taken over."""
        settings, process = self._settings, self._process
        baseline = self._baseline(ledger)
        self._await_spark()
        slot_pool = process.spark_startup.new_lanes(self._inbox.put)
        slots = process.spark_startup.slots
        ledger.raise_slots(slots)
        catalogue, planner = deciders(settings, CacheLedgerView(ledger.cache), baseline, slots=slots)
        commands = CommandQueue(catalogue)
        for key, raw in ledger.cache.controls().items():
            commands.on_control_record(key, raw)
        listeners = Listeners(settings, self._inbox.put, self._counters())
        lifecycle = Lifecycle(
            commands=commands, catalogue=catalogue, planner=planner, listeners=listeners, slot_pool=slot_pool
        )
        writes = LedgerWrites(ledger, self._inbox.put)
        recovery = Recovery(ledger, self._inbox.put, all_slots=slots)
        applier = EffectsApplier(
            writes=writes, listeners=listeners, statistics=process.statistics, clock=clock.now
        )
        supervisor = SlotSupervisor(
            SlotParts(
                planner=planner,
                slot_pool=slot_pool,
                recovery=recovery,
                statistics=process.statistics,
                metadata=leadership.metadata,
                remember=self._remembering(ledger),
                create_topics=self._creating_topics(closing),
                apply=applier.apply,
                clock=clock.now,
            ),
            slots=slots,
            max_batch_seconds=settings.jobs.max_seconds,
        )
        loop = EventLoop(
            self._inbox,
            LoopParts(
                catalogue=catalogue,
                planner=planner,
                commands=commands,
                lifecycle=lifecycle,
                listeners=listeners,
                writes=writes,
                applier=applier,
                supervisor=supervisor,
                statistics=process.statistics,
            ),
            bucket=settings.s3.bucket,
            startup_deadline=max(time.monotonic() + 1.0, process.startup_deadline),
            stop=process.stop,
            until_idle=self._until_idle(),
        )
        return _Running(
            loop=loop,
            ledger=ledger,
            slot_pool=slot_pool,
            catalogue=catalogue,
            planner=planner,
            lifecycle=lifecycle,
            recovery=recovery,
            writes=writes,
            listeners=listeners,
            skip_through=baseline.start_key,
        )

    def _counters(self) -> Counters:
        metrics = self._process.metrics
        return Counters(
            messages=lambda outcome, count: metrics.sqs_messages.labels(outcome).inc(count),
            heartbeats=metrics.sqs_heartbeats.inc,
            list_requests=metrics.list_requests.inc,
        )

    def _remembering(self, ledger: DriverLedger) -> Callable[[str], None]:
        connector = self._process.connector

        def remember(topic: str) -> None:
            ledger.add_anchor(topic)
            connector.remember(topic)

        return remember

    def _creating_topics(self, closing: ExitStack) -> Callable[[Route], None]:
        """What creates the topics of a route (`topic.creation.default.*`), or nothing."""
        settings = self._settings
        if settings.kafka.topic_creation is None:
            return lambda _route: None
        topics = output_topics(settings, self._process.clients.admin)
        creator = TopicCreator(topics, self._inbox.put)
        closing.callback(creator.close)
        dead_letter = settings.errors.dead_letter

        def create(route: Route) -> None:
            creator.request(route.topic)
            if dead_letter is not None:
                # A task names the topic in a sentence only; one that is there is left as it is.
                creator.request(dead_letter.topic)

        return create

    def _until_idle(self) -> UntilIdle | None:
        if not self._process.until_idle:
            return None
        return UntilIdle(
            has_queue=self._settings.sqs is not None, patience_seconds=self._process.startup_seconds
        )

    def _lead(self, running: _Running) -> Exit:
        process = self._process
        process.metrics.leader.set(1)
        running.listeners.start(skip_through=running.skip_through)
        running.lifecycle.begin(running.ledger.cache.controls())
        running.loop.begin()
        process.connector.lead(
            LeadershipView(
                post=self._inbox.put,
                lifecycle=running.lifecycle,
                statistics=process.statistics,
                cache=running.ledger.cache,
                bucket=self._settings.s3.bucket,
            )
        )
        try:
            # What is here now lives as long as this leadership: the collector need not go through it again.
            gc.freeze()
            running.loop.run(lambda slots: self._publish(running, slots))
        finally:
            process.metrics.leader.set(0)
            self._show(role="stopping", ready=False)
            self._close(running)
        quarantined = running.ledger.cache.counts()[State.QUARANTINED]
        return Exit.QUARANTINED if process.until_idle and quarantined else Exit.DONE

    def _publish(self, running: _Running, slots: SlotStates) -> None:
        process, target = self._process, running.lifecycle.target
        process.metrics.set_target(target)
        process.snapshot_holder.show(
            build_snapshot(
                replace(process.snapshot_holder.snapshot, target=target),
                catalogue=running.catalogue,
                planner=running.planner,
                ledger=running.ledger.cache.counts(),
                slots=slots,
                statistics=process.statistics,
                metrics=process.metrics,
                known=running.ledger.cache,
                now=clock.now(),
            )
        )

    def _show(self, *, role: str, ready: bool) -> None:
        """Show a role and readiness while there is nothing else to show."""
        snapshot_holder = self._process.snapshot_holder
        snapshot_holder.show(replace(snapshot_holder.snapshot, role=role, ready=ready, at_ms=clock.wall_ms()))

    # -- the end ---------------------------------------------------------------------------------------------

    def _close(self, running: _Running) -> None:
        """Commit at the next batch of rows, settle what that finished, release the rest."""
        stop = self._process.stop
        seconds = 0.0 if stop.at_once.is_set() else _CLOSE_SECONDS
        ending = threading.Thread(
            target=running.slot_pool.close, args=[seconds], name="lanes-close", daemon=True
        )
        ending.start()
        running.loop.drain(lambda: not ending.is_alive() or stop.at_once.is_set())
        running.recovery.close()
        running.writes.close(2.0)
        running.loop.drain(lambda: True)
        running.listeners.stop(seconds=3.0)
