"""`headrace run`: the service, from its configuration to its exit code."""

from typing import Annotated

import structlog
import typer

from ingest import logs
from ingest.cli.configuration import read_settings
from ingest.cli.options import Config, Format, Level, LogFormat, LogLevel, Sets, StartupTimeout, WorkerConfig
from ingest.exits import Exit

_log = structlog.get_logger(__name__)

UntilIdleFlag = Annotated[
    bool, typer.Option("--until-idle", help="End when everything that is there now has been ingested.")
]
AcceptNewLedger = Annotated[
    bool,
    typer.Option(
        "--accept-new-ledger",
        help="Go on with an empty or another ledger: what it does not know is ingested again.",
    ),
]


def run(
    config: Config,
    until_idle: UntilIdleFlag = False,
    accept_new_ledger: AcceptNewLedger = False,
    startup_timeout: StartupTimeout = 60.0,
    sets: Sets = None,
    worker_config: WorkerConfig = None,
    log_level: Level = LogLevel.INFO,
    log_format: Format = LogFormat.JSON,
) -> None:
    """Ingest objects as they arrive, until SIGTERM or SIGINT."""
    settings = read_settings(config, sets=sets or (), worker_config=worker_config)
    logs.configure(level=log_level.value, style=log_format.value)
    for warning in settings.warnings:
        _log.warning("configuration", warning=warning)
    # Spark and the clients take seconds to import: a wrong configuration is told before.
    from ingest.service.start import RunOptions, run_service
    from ingest.service.stop import Stop

    stop = Stop()
    stop.install()
    options = RunOptions(
        until_idle=until_idle, accept_new_ledger=accept_new_ledger, startup_seconds=startup_timeout
    )
    code = run_service(settings, options, stop)
    if code is not Exit.DONE:
        raise typer.Exit(int(code))
