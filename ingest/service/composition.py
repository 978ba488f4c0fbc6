"""One run of `headrace run`: the process, and in it the connector, led one leadership after the other."""

import socket
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final

import structlog

from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.control_records import Creation
from headrace.kafka.kafka_clients import client_properties
from headrace.model.clock import wall_ms
from headrace.model.errors import Exit, LeadershipLost, TakenOver, Unavailable
from headrace.options import Settings
from headrace.process.own_process import own_version
from headrace.process.threads import ThreadFailures, collecting
from ingest.http.metrics import Metrics, ProcessMetrics
from ingest.http.rest.auth import AuthFile
from ingest.http.rest.port import SinkPort, SourcePort
from ingest.http.rest.server import run_server
from ingest.http.snapshot import SinkStatus, Snapshot, SnapshotHolder
from ingest.http.traces.exporter import exporting
from ingest.http.traces.object_traces import SinkTraces, SourceTraces
from ingest.service.endpoints import StatusEndpoints, endpoints
from ingest.service.idle import Patience
from ingest.service.leadership_phase import Leader, LeadershipPhase, Past, ProcessComponents, TakenLead
from ingest.service.rest_adapter import SourceAdapter
from ingest.service.sink.sink_leader import SinkLeader
from ingest.service.sink.sink_lifecycle import SinkAdapter
from ingest.service.sink.sink_statistics import SinkStatistics
from ingest.service.source_leader import SourceLeader
from ingest.service.spark_startup import OwnSlots, SlotSource
from ingest.service.standby import InstanceSink, InstanceSource, OpenLedger, StandbyLedger
from ingest.service.startup import Startup
from ingest.service.statistics import Statistics
from ingest.service.stop import Stop, Stopped
from spark.jvm import Jvm

_log = structlog.get_logger(__name__)

_SHORT_SECONDS: Final = 60.0
_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 10.0
_SIGNAL_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What the command line says next to the configuration."""

    until_idle: bool = False
    accept_new_ledger: bool = False
    startup_seconds: float = 60.0
    creation: Creation | None = None
    """As which creation in a worker it runs; None: it continues as it was left."""
    is_assigned: bool = False
    """Whether a group of workers gave it to this process: another one that leads is not of the group."""


class Connector:
    """Everything of one connector but the process: Spark is given, and so is who serves what it shows.

    `run` blocks; the rest may be called from any thread, before and after it too.
    """

    def __init__(
        self,
        settings: Settings,
        options: RunOptions,
        stop: Stop,
        *,
        slot_source: SlotSource,
        failures: ThreadFailures,
        open_ledger: OpenLedger,
    ) -> None:
        self._settings = settings
        self._options = options
        self._stop = stop
        self._slot_source = slot_source
        self._failures = failures
        self._standby_ledger = StandbyLedger(open_ledger)
        self.snapshot_holder = SnapshotHolder(
            Snapshot(
                name=settings.name,
                version=own_version(),
                buckets=() if settings.sink is not None else settings.buckets,
                since_ms=wall_ms(),
                sink=None if settings.sink is None else SinkStatus(),
            )
        )
        self.metrics = Metrics(lambda: self.snapshot_holder.snapshot.counted_objects)
        self._statistics = Statistics(self.metrics)
        self._sink_statistics = SinkStatistics(self.metrics)
        self._source = SourceAdapter(self.snapshot_holder)
        self._sink = SinkAdapter(self.snapshot_holder)
        self._deadline = time.monotonic() + options.startup_seconds
        self._clients = client_properties(settings)
        self.port = self._port()
        """How the REST interface asks it, whether this process leads it or stands by."""

    def run(self) -> Exit:
        """The whole run, until `stop` or `--until-idle`.

        Stopped before it led; an error of `headrace.model.errors` for what it cannot continue with.
        """
        settings = self._settings
        with exporting(settings.traces, name=settings.name, count=self._count_spans) as send:
            if send is not None:
                self._statistics.traces, self._sink_statistics.traces = SourceTraces(send), SinkTraces(send)
            return self._run()

    def _count_spans(self, outcome: str, spans: int) -> None:
        self.metrics.trace_spans.labels(outcome).inc(spans)

    def _run(self) -> Exit:
        found = Startup(
            self._settings,
            self._clients,
            accept_new_ledger=self._options.accept_new_ledger,
            deadline=self._deadline,
            stop=self._stop,
            snapshot_holder=self.snapshot_holder,
            statistics=self._statistics,
            failures=self._failures,
        ).find()
        self._source.cluster_id = self._sink.cluster_id = found.ledger.cluster_id
        # From here on nothing is likely to be wrong, and a standby has it running when its turn comes.
        self._slot_source.start()
        process = ProcessComponents(
            settings=self._settings,
            clients=self._clients,
            slot_source=self._slot_source,
            snapshot_holder=self.snapshot_holder,
            metrics=self.metrics,
            statistics=self._statistics,
            stop=self._stop,
            found=found,
            until_idle=self._options.until_idle,
            accept_new_ledger=self._options.accept_new_ledger,
            startup_seconds=self._options.startup_seconds,
            startup_deadline=self._deadline,
            admin=KafkaAdmin(self._clients.admin),
            failures=self._failures,
            creation=self._options.creation,
            is_assigned=self._options.is_assigned,
        )
        return self._lead(process)

    def close(self) -> None:
        """Let go of what answers questions."""
        self._standby_ledger.close()

    def show_end(self) -> None:
        """Show that it is ending, and not ready."""
        self.snapshot_holder.show(
            replace(self.snapshot_holder.snapshot, role="stopping", ready=False, at_ms=wall_ms())
        )

    def show_failure(self) -> None:
        """Show nothing of what only a leader knows: it has ended with an error, perhaps while it led."""
        shown = self.snapshot_holder.snapshot
        self.snapshot_holder.show(replace(shown.without_leadership(), problems=shown.problems))
        self.metrics.stand_by()

    def _lead(self, process: ProcessComponents) -> Exit:
        """Lead, stand by when the lead is lost, and lead again, until the run is over."""
        past, short = Past(patience=Patience(self._options.startup_seconds)), 0
        while True:
            began = time.monotonic()
            try:
                return LeadershipPhase(process, past, self._new_leader).run()
            except TakenOver:
                raise
            except Unavailable as error:
                # A signal to all processes ends the JVM as well, perhaps before it is noticed here.
                if self._stop.asked.wait(_SIGNAL_SECONDS):
                    raise Stopped from error
                raise
            except LeadershipLost as error:
                if not past.has_run and began > self._deadline:
                    raise Unavailable(str(error)) from error
                _log.warning(
                    "leadership_lost",
                    error=str(error),
                    detail="this process stands by and leads again when it can",
                )
            # Two that take the lead from each other over and over must not be busy with that alone.
            short = short + 1 if time.monotonic() - began < _SHORT_SECONDS else 0
            self._stop.asked.wait(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**short))

    def _new_leader(self, taken: TakenLead) -> Leader:
        """What leads in this configuration's direction."""
        sink = self._settings.sink
        if sink is None:
            return SourceLeader(taken, self._source)
        return SinkLeader(taken, sink, self._sink_statistics, self._sink)

    def _port(self) -> SourcePort | SinkPort:
        """The connector as the REST interface asks it, whether this instance leads or stands by."""
        settings, ledger, tasks_max = self._settings, self._standby_ledger, self._settings.identity.tasks_max
        if settings.sink is not None:
            return InstanceSink(self._sink, ledger, tasks_max=tasks_max)
        return InstanceSource(self._source, ledger, buckets=settings.buckets, tasks_max=tasks_max)


class Service:
    """The connector of a process with what serves it, run once."""

    def __init__(
        self,
        settings: Settings,
        options: RunOptions,
        stop: Stop,
        open_ledger: OpenLedger,
        *,
        jvm: Jvm | None = None,
    ) -> None:
        self._settings = settings
        self._until_idle = options.until_idle
        self._failures = ThreadFailures()
        self._slot_source = OwnSlots(settings, deadline=time.monotonic() + options.startup_seconds, jvm=jvm)
        self._connector = Connector(
            settings,
            options,
            stop,
            slot_source=self._slot_source,
            failures=self._failures,
            open_ledger=open_ledger,
        )

    @property
    def snapshot(self) -> Snapshot:
        """How it is now; any thread may ask."""
        return self._connector.snapshot_holder.snapshot

    def run(self) -> Exit:
        """Run until `stop`, `--until-idle` or an error of `errors` that has the exit code. Blocks."""
        settings, connector = self._settings, self._connector
        with collecting(self._failures):
            with ExitStack() as closing:
                try:
                    _serve(settings, connector, closing, until_idle=self._until_idle)
                    _log_start(settings, connector)
                    closing.callback(self._slot_source.close)
                    code = connector.run()
                except Stopped:
                    code = Exit.DONE
                finally:
                    connector.show_end()
            self._failures.raise_first()
        _log.info("service_stopped", name=settings.name, exit_code=int(code))
        return code


def _log_start(settings: Settings, connector: Connector) -> None:
    http, rest = settings.http.listen, settings.http.rest_listen
    shown = connector.snapshot_holder.snapshot
    _log.info(
        "service_started",
        name=settings.name,
        version=shown.version,
        role=shown.role,
        http_listen=None if http is None else str(http),
        rest_listen=None if rest is None else str(rest),
        buckets=settings.buckets,
        spark_master=settings.spark.master if settings.spark.remote is None else "spark.remote",
    )


def _serve(settings: Settings, connector: Connector, closing: ExitStack, *, until_idle: bool) -> None:
    """Answer over HTTP; what it makes is unmade by `closing`, the newest first."""
    listen, auth_file = settings.http.listen, settings.http.rest_auth_file
    auth = None if auth_file is None or settings.http.rest_listen is None else AuthFile(auth_file)
    if listen is not None:
        role = "source" if settings.sink is None else "sink"
        process = ProcessMetrics(role, until_idle=until_idle)
        routes = endpoints(
            connector.snapshot_holder, connector.metrics, process, problems=lambda: _problems_of(auth)
        )
        server = StatusEndpoints(listen.host, listen.port, routes)
        server.start()
        closing.callback(server.close)
    rest_listen = settings.http.rest_listen
    if rest_listen is not None:
        rest = run_server(
            rest_listen,
            settings,
            connector.port,
            host_name=socket.gethostname(),
            version=own_version(),
            auth=auth,
        )
        rest.start()
        closing.callback(connector.close)
        closing.callback(rest.close)


def _problems_of(auth: AuthFile | None) -> dict[str, str]:
    problem = None if auth is None else auth.problem
    return {} if problem is None else {"rest": problem}
