"""One run of the service: everything made, in the order that the protocol asks for, and unmade at the end."""

import gc
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Final, TypeVar

import structlog

from ingest.catalogue import Baseline, Catalogue
from ingest.errors import AccessDenied, LeadLost, ObjectError, SourceUnavailable, Unusable
from ingest.exits import Exit
from ingest.http import Endpoints
from ingest.intake import left_by
from ingest.kafka import controls
from ingest.kafka.clients import ClientProperties
from ingest.kafka.leadership import Leadership, Role
from ingest.kafka.ledger import DriverLedger, prepare_ledger
from ingest.kafka.topics import OutputTopics, TopicCreation
from ingest.ledger import State
from ingest.metrics import Metrics
from ingest.planner import Planner
from ingest.rest.server import rest_server
from ingest.service.commands import Commands
from ingest.service.connector import Led, ServiceConnector
from ingest.service.deciders import deciders
from ingest.service.engine import Engine
from ingest.service.events import Fatal
from ingest.service.idle import UntilIdle
from ingest.service.inbox import Inbox
from ingest.service.ledger_writes import LedgerWatch, LedgerWrites
from ingest.service.loop import Parts, Service, now_ms
from ingest.service.pages import look, pages
from ingest.service.recovery import Recovery
from ingest.service.slots import Slots
from ingest.service.snapshot import Board, Snapshot
from ingest.service.steering import Steering
from ingest.service.stop import Stop
from ingest.service.tally import Tally
from ingest.service.view import CacheView
from ingest.settings import Settings
from listeners.posts import Counters
from listeners.run import Listeners
from spark.lanes import Lanes
from spark.s3 import new_s3_calls

_log = structlog.get_logger(__name__)
T = TypeVar("T")

_TRY_AGAIN_SECONDS: Final = 0.5
# A clean stop commits at the next batch of rows; what is still open then is aborted (contract, section 6).
_CLOSE_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What the command line says beside the configuration."""

    until_idle: bool = False
    accept_new_ledger: bool = False
    startup_seconds: float = 60.0


class Stopped(Exception):
    """The run ends before it led."""


def run_service(settings: Settings, options: RunOptions, stop: Stop) -> Exit:
    """Run until `stop`, `--until-idle` or an error of `ingest.errors` that carries the exit code. Blocks."""
    run = _Run(settings, options, stop)
    with ExitStack() as closing:
        try:
            return run.run(closing)
        except Stopped:
            return Exit.DONE
        finally:
            run.show(role="stopping", ready=False)


class _Run:
    """What one run is made of, as far as it has come."""

    def __init__(self, settings: Settings, options: RunOptions, stop: Stop) -> None:
        self._settings = settings
        self._options = options
        self._stop = stop
        self._inbox: Inbox = Inbox()
        self._board = Board(Snapshot(name=settings.name, version=version("headrace"), since_ms=now_ms()))
        self._metrics = Metrics(lambda: self._board.snapshot.objects)
        self._tally = Tally(self._metrics)
        self._connector = ServiceConnector(self._board, self._inbox.put)
        self._deadline = time.monotonic() + options.startup_seconds
        kafka = settings.kafka
        self._clients = ClientProperties(
            producer=kafka.client("producer"), consumer=kafka.client("consumer"), admin=kafka.client("admin")
        )

    # -- what is shown ---------------------------------------------------------------------------------------

    def show(self, *, role: str, ready: bool) -> None:
        """Show a role and readiness before there is anything else to show, or at the end."""
        self._board.show(replace(self._board.snapshot, role=role, ready=ready, at_ms=now_ms()))

    def _serve(self, closing: ExitStack) -> None:
        listen = self._settings.http.listen
        if listen is not None:
            endpoints = Endpoints(listen.host, listen.port, pages(self._board, self._metrics))
            endpoints.start()
            closing.callback(endpoints.close)
        rest_listen = self._settings.http.rest_listen
        if rest_listen is not None:
            rest = rest_server(
                rest_listen,
                self._settings,
                self._connector,
                host_name=socket.gethostname(),
                version=version("headrace"),
            )
            rest.start()
            closing.callback(rest.close)

    # -- the road to the lead --------------------------------------------------------------------------------

    def run(self, closing: ExitStack) -> Exit:
        """The whole run; what it makes is unmade by `closing`, the newest first."""
        settings = self._settings
        self._serve(closing)
        topics = self._patiently(self._require_topics)
        self._connector.cluster_id = self._patiently(self._prepare_ledger)
        now_by_s3_ms = self._patiently(self._s3_clock_ms)
        # From here on nothing is likely to be wrong, and a standby has it running when its turn comes.
        engine = Engine(settings, self._inbox)
        closing.callback(engine.close)
        engine.start()
        lead = self._join(closing)
        self._await_lead(lead, engine)
        _log.info("leading", group=lead.group)
        ledger = DriverLedger(
            self._clients,
            name=settings.name,
            topic=settings.kafka.ledger_topic,
            lead=lead,
            state_dir=settings.state_dir,
            anchors=topics,
            boundary_seconds=settings.kafka.transaction_interval_ms / 1000,
            accept_new_ledger=self._options.accept_new_ledger,
            on_applied=self._inbox.put,
        )
        closing.callback(ledger.close)
        cache = ledger.take_over(timeout=self._options.startup_seconds)
        baseline = self._baseline(ledger, now_by_s3_ms)
        lanes = engine.lanes()
        ledger.raise_slots(engine.slots)
        catalogue, planner = deciders(settings, CacheView(cache), baseline, slots=engine.slots)
        leading = _Leading(lead, ledger, lanes, catalogue, planner, engine.slots, baseline)
        return self._lead(closing, leading)

    def _patiently(self, ask: Callable[[], T]) -> T:
        """The answer, asked for until the start-up time is over while broker or S3 are not there."""
        warned = False
        while True:
            if self._stop.asked.is_set():
                raise Stopped
            try:
                return ask()
            except (Unusable, AccessDenied, SourceUnavailable) as error:
                if time.monotonic() > self._deadline:
                    raise Unusable(str(error)) from error
                if not warned:
                    _log.warning("start_waits", error=str(error), seconds=self._options.startup_seconds)
                warned = True
                self._tally.trouble("start", str(error))
                self._board.show(replace(self._board.snapshot, problems=dict(self._tally.problems)))
                self._stop.asked.wait(_TRY_AGAIN_SECONDS)
            finally:
                self._tally.trouble("start", None)

    def _require_topics(self) -> list[str]:
        """The output topics that the configuration names, there or made; TopicMissing is exit 2."""
        settings = self._settings
        creation = settings.kafka.topic_creation
        topics = OutputTopics(
            self._clients.admin,
            creation=None
            if creation is None
            else TopicCreation(
                partitions=creation.partitions, replication_factor=creation.replication_factor
            ),
        )
        dead = settings.errors.dead_letter
        named = [settings.routing.topic, None if dead is None else dead.topic]
        try:
            return [topic.name for topic in topics.require(name for name in named if name is not None)]
        except Unusable as error:
            raise Unusable(f"bootstrap.servers = {settings.kafka.bootstrap_servers!r}: {error}") from error

    def _prepare_ledger(self) -> str:
        """Id of the cluster in which the ledger's topic is, there and ours; LedgerUnfit is exit 2."""
        kafka = self._settings.kafka
        creation = kafka.topic_creation
        found = prepare_ledger(
            self._clients,
            name=self._settings.name,
            topic=kafka.ledger_topic,
            replication_factor=None if creation is None else creation.replication_factor,
            accept_new_ledger=self._options.accept_new_ledger,
        )
        return found.identity.cluster_id

    def _join(self, closing: ExitStack) -> Leadership:
        settings = self._settings
        lead = Leadership(
            self._clients.consumer,
            name=settings.name,
            ledger_topic=settings.kafka.ledger_topic,
            session_timeout_ms=settings.identity.lead_session_timeout_ms,
            instance_id=settings.identity.instance_id,
            on_lost=lambda reason: self._inbox.put(Fatal(LeadLost(f"The lead is lost: {reason}."))),
        )
        closing.callback(lead.close)
        lead.join()
        return lead

    def _await_lead(self, lead: Leadership, engine: Engine) -> None:
        while not lead.wait_for_lead(1.0, self._stop.asked):
            if self._stop.asked.is_set():
                raise Stopped
            if lead.role is Role.STANDBY:
                if self._board.snapshot.role != "standby":
                    _log.info("standby", group=lead.group, detail="another instance leads")
                # Ready is who can take over at once: a rollout must not stop the leader before.
                self.show(role="standby", ready=engine.is_up())
            if lead.role is Role.JOINING and lead.problem and time.monotonic() > self._deadline:
                raise Unusable(lead.problem)

    def _baseline(self, ledger: DriverLedger, now_by_s3_ms: int) -> Baseline:
        """What the first start left to the past; committed before anything is received or listed."""
        found = ledger.control(controls.FIRST_START)
        if not isinstance(found, controls.FirstStart):
            start_key = self._settings.discovery.native_start_key
            found = controls.FirstStart(at_ms=now_by_s3_ms, start_key=start_key)
            ledger.commit([(controls.FIRST_START, controls.encode_control(found))])
        return left_by(self._settings, found)

    def _s3_clock_ms(self) -> int:
        """The time by S3's own clock, asked by the smallest listing; proves that the bucket can be listed."""
        s3 = self._settings.s3
        try:
            return new_s3_calls(s3).clock_ms(s3.bucket, s3.prefix)
        except (AccessDenied, ObjectError, SourceUnavailable) as error:
            raise Unusable(f"aws.s3.bucket.name = {s3.bucket!r} cannot be listed: {error}") from error

    # -- leading ---------------------------------------------------------------------------------------------

    def _lead(self, closing: ExitStack, leading: "_Leading") -> Exit:
        settings = self._settings
        counters = Counters(
            messages=lambda outcome, count: self._metrics.sqs_messages.labels(outcome).inc(count),
            heartbeats=self._metrics.sqs_heartbeats.inc,
            list_requests=self._metrics.list_requests.inc,
        )
        commands = Commands(leading.catalogue)
        controls_found = leading.ledger.cache.controls()
        for key, raw in controls_found.items():
            commands.take(key, raw)
        listeners = Listeners(settings, self._inbox.put, counters)
        steering = Steering(
            commands=commands,
            catalogue=leading.catalogue,
            planner=leading.planner,
            listeners=listeners,
            lanes=leading.lanes,
        )

        def remember(topic: str) -> None:
            leading.ledger.remember(topic)
            self._connector.remember(topic)

        parts = Parts(
            catalogue=leading.catalogue,
            planner=leading.planner,
            commands=commands,
            steering=steering,
            listeners=listeners,
            lanes=leading.lanes,
            writes=LedgerWrites(leading.ledger, self._inbox.put),
            recovery=Recovery(leading.ledger, self._inbox.put, all_slots=leading.slots),
            metadata=leading.lead.metadata,
            remember=remember,
            metrics=self._metrics,
            tally=self._tally,
        )
        watch = LedgerWatch(leading.ledger, self._inbox.put)
        closing.callback(watch.close)
        service = Service(
            self._inbox,
            parts,
            bucket=settings.s3.bucket,
            slots=leading.slots,
            max_batch_seconds=settings.jobs.max_seconds,
            startup_seconds=max(1.0, self._deadline - time.monotonic()),
            stop=self._stop,
            until_idle=UntilIdle(
                has_queue=settings.sqs is not None, patience_seconds=self._options.startup_seconds
            )
            if self._options.until_idle
            else None,
        )
        self._metrics.leader.set(1)
        parts.listeners.start(skip_through=leading.baseline.start_key)
        steering.begin(controls_found)
        service.begin()
        self._connector.lead(
            Led(
                steering=steering,
                tally=self._tally,
                cache=leading.ledger.cache,
                bucket=settings.s3.bucket,
            )
        )
        try:
            # What is here now lives as long as the process: the collector need not go through it again.
            gc.freeze()
            service.run(lambda slots: self._board.show(self._look(leading, slots, steering.target)))
        finally:
            self._metrics.leader.set(0)
            self.show(role="stopping", ready=False)
            self._close(service, parts)
        quarantined = leading.ledger.cache.counts()[State.QUARANTINED]
        return Exit.QUARANTINED if self._options.until_idle and quarantined else Exit.DONE

    def _look(self, leading: "_Leading", slots: Slots, target: controls.Target) -> Snapshot:
        self._metrics.set_target(target)
        return look(
            replace(self._board.snapshot, target=target),
            catalogue=leading.catalogue,
            ledger=leading.ledger.cache.counts(),
            slots=slots,
            tally=self._tally,
            metrics=self._metrics,
        )

    def _close(self, service: Service, parts: Parts) -> None:
        """Commit at the next batch of rows, settle what that finished, release the rest."""
        seconds = 0.0 if self._stop.at_once.is_set() else _CLOSE_SECONDS
        ending = threading.Thread(target=parts.lanes.close, args=[seconds], name="lanes-close", daemon=True)
        ending.start()
        service.drain(lambda: not ending.is_alive() or self._stop.at_once.is_set())
        parts.recovery.close()
        parts.writes.close(2.0)
        service.drain(lambda: True)
        parts.listeners.stop(seconds=3.0)


@dataclass(frozen=True, slots=True)
class _Leading:
    """What there is once this process leads."""

    lead: Leadership
    ledger: DriverLedger
    lanes: Lanes
    catalogue: Catalogue
    planner: Planner
    slots: int
    baseline: Baseline
