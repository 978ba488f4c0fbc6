"""`headrace worker`: many connectors in one process."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import structlog
import typer

from headrace.model.errors import Exit, InvalidConfiguration
from headrace.options import Settings
from headrace.process import logs
from headrace.vendors.load import load
from ingest.cli.cli_options import LogFormat, LogLevel, StartupTimeout
from ingest.cli.configuration import environment
from ingest.cli.run import RunFormat, RunLevel, require_versions, spawned_jvm
from ingest.cli.worker_status import worker_settings
from ingest.service.stop import Stop

_log = structlog.get_logger(__name__)

WorkerFile = Annotated[
    Path,
    typer.Argument(
        metavar="WORKER", help="The worker's file: Kafka Connect's worker.properties, or a JSON file."
    ),
]
ConnectorsFolder = Annotated[
    Path | None,
    typer.Option(
        "--connectors",
        metavar="DIR",
        help="Connectors are the .json and .properties files of this folder, taken up as they change; "
        "the REST interface then refuses changes.",
    ),
]


def worker(
    file: WorkerFile,
    connectors: ConnectorsFolder = None,
    startup_timeout: StartupTimeout = 60.0,
    log_level: RunLevel = None,
    log_format: RunFormat = None,
) -> None:
    """Run many connectors, created by Kafka Connect's REST interface or from files, until SIGTERM or SIGINT.

    Workers with one group.id share the connectors and take over from each other. Each connector has its own
    leadership, ledger and failure; Spark's cores are shared by all. Ctrl-C or SIGTERM commits what is at hand
    and ends within 30 s; a second one ends at once, and nothing is lost by it either.
    """
    settings = worker_settings(file)
    if connectors is not None and not connectors.is_dir():
        raise InvalidConfiguration(f"--connectors {connectors}: there is no such folder.")
    logs.configure(
        level=(log_level or LogLevel.INFO).value,
        style=(log_format or (LogFormat.CONSOLE if sys.stderr.isatty() else LogFormat.JSON)).value,
    )
    for warning in settings.warnings:
        _log.warning("configuration_warned", warning=warning)
    require_versions(settings.frame.spark)
    stop = Stop()
    stop.install()
    jvm = spawned_jvm(settings.frame.spark, name=settings.group)
    # Spark and the clients take seconds to import: a wrong configuration is reported before.
    from ingest.connect.worker import Worker, loading

    made = Worker(
        settings,
        loading(settings, _load),
        stop,
        folder=connectors,
        startup_seconds=startup_timeout,
        jvm=jvm,
    )
    code = made.run()
    if code is not Exit.DONE:
        raise typer.Exit(int(code))


def _load(config: Mapping[str, str], worker_config: str) -> Settings:
    return load(
        json.dumps(dict(config)),
        kind="json",
        environment=environment(),
        read_file=_read_file,
        worker_config=worker_config,
    )


def _read_file(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")
