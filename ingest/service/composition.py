"""One run of `headrace run`: the process around its connector."""

import socket
import time
from contextlib import ExitStack
from importlib.metadata import version

import structlog

from headrace.model.errors import Exit
from headrace.options import Settings
from headrace.process.threads import ThreadFailures, collecting
from ingest.http.http_server import StatusEndpoints
from ingest.http.process_metrics import ProcessMetrics
from ingest.http.rest.auth import AuthFile
from ingest.http.rest.server import run_server
from ingest.http.snapshot import Snapshot
from ingest.service.connector import Connector, RunOptions
from ingest.service.endpoints import endpoints
from ingest.service.spark_startup import OwnSlots
from ingest.service.standby import OpenLedger
from ingest.service.startup import Stopped
from ingest.service.stop import Stop
from spark.jvm import Jvm

_log = structlog.get_logger(__name__)


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
                    _serve(settings, connector, closing)
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


def _serve(settings: Settings, connector: Connector, closing: ExitStack) -> None:
    """Answer over HTTP; what it makes is unmade by `closing`, the newest first."""
    listen, auth_file = settings.http.listen, settings.http.rest_auth_file
    auth = None if auth_file is None or settings.http.rest_listen is None else AuthFile(auth_file)
    if listen is not None:
        process = ProcessMetrics("source" if settings.sink is None else "sink")
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
            version=version("headrace"),
            auth=auth,
        )
        rest.start()
        closing.callback(connector.close)
        closing.callback(rest.close)


def _problems_of(auth: AuthFile | None) -> dict[str, str]:
    problem = None if auth is None else auth.problem
    return {} if problem is None else {"rest": problem}
