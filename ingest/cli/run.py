"""`headrace run`: the service, from its configuration to its exit code.

What a service needs of the machine: a Java and a Spark that are not too old, and soon a JVM.
"""

import sys
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Annotated, Any, Final

import structlog
import typer
from rich.console import Console

from headrace.model.errors import Exit, InvalidConfiguration, Unavailable
from headrace.options import Settings
from headrace.options.settings import SparkSettings
from headrace.process import logs
from ingest.checks.findings.finding import Verdict, java_there
from ingest.checks.probes.machine import probe_java
from ingest.checks.probes.running_service import NoAnswer, read_running_status
from ingest.cli.cli_options import Config, LogFormat, LogLevel, Sets, StartupTimeout, WorkerConfig
from ingest.cli.configuration import environment, read_settings
from ingest.cli.progress_bar import is_terminal, until_idle_bar
from ingest.service.stop import Stop
from spark.jvm import Jvm
from spark.memory import refuse_unused
from spark.spark_conf import conf_of
from spark.versions import require_spark


def require_versions(spark: SparkSettings) -> None:
    """InvalidConfiguration, one sentence, when Java or Spark is missing here, or not supported."""
    if spark.remote is not None:
        # Spark and its JVM are the server's, which is asked when there is a session.
        return
    finding = java_there(probe_java(environment()))
    if finding.verdict is Verdict.FAIL:
        raise InvalidConfiguration(f"{finding.sentence} {finding.remedy}")
    require_spark(environment().get("SPARK_HOME"))


def spawned_jvm(spark: SparkSettings, *, name: str) -> Jvm:
    """Spark's JVM, on its way up while this process imports the rest: it takes as long. Not waited for."""
    jvm = Jvm()
    if spark.remote is None:
        refuse_unused()
        # What keeps it from starting is told by the service, which tries again.
        with suppress(Unavailable):
            jvm.spawn(conf_of(spark, name=name))
    return jvm


_log = structlog.get_logger(__name__)

# How long a standby waits for the ledger when the REST interface asks for it.
_LEDGER_SECONDS: Final = 30.0

UntilIdleFlag = Annotated[
    bool,
    typer.Option(
        "--until-idle",
        help="End when everything that is there now has been ingested; with a progress bar on a terminal.",
    ),
]
AcceptNewLedger = Annotated[
    bool,
    typer.Option(
        "--accept-new-ledger",
        help="Continue with an empty or another ledger: what it does not know is ingested again.",
    ),
]
RunLevel = Annotated[
    LogLevel | None,
    typer.Option(
        "--log-level",
        help="What is logged to stderr, from this level up. Default: info; with a progress bar, warning.",
    ),
]
RunFormat = Annotated[
    LogFormat | None,
    typer.Option(
        "--log-format",
        help="One JSON line an event, or columns. Default: console on a terminal, else json.",
    ),
]


def run(
    config: Config,
    until_idle: UntilIdleFlag = False,
    accept_new_ledger: AcceptNewLedger = False,
    startup_timeout: StartupTimeout = 60.0,
    sets: Sets = None,
    worker_config: WorkerConfig = None,
    log_level: RunLevel = None,
    log_format: RunFormat = None,
) -> None:
    """Ingest objects as they arrive, until SIGTERM or SIGINT.

    What is in the bucket is found by listing, new objects are announced by the queue. Each finished object is
    one line on stderr; http.listen serves /status, /metrics and a page for people. Ctrl-C or SIGTERM commits
    what is at hand and ends within 30 s; a second one ends at once, and nothing is lost by it either.
    """
    settings = read_settings(config, sets=sets or (), worker_config=worker_config)
    # The bar asks the service as anybody else would, so there is none where nobody can ask.
    has_bar = until_idle and settings.http.listen is not None and is_terminal(sys.stderr)
    # The bar puts itself between stderr and what is written there, so it has to come before the logs.
    with _bar(settings) if has_bar else nullcontext():
        logs.configure(
            level=(log_level or (LogLevel.WARNING if has_bar else LogLevel.INFO)).value,
            style=(log_format or (LogFormat.CONSOLE if sys.stderr.isatty() else LogFormat.JSON)).value,
        )
        for warning in settings.warnings:
            _log.warning("configuration_warned", warning=warning)
        require_versions(settings.spark)
        stop = Stop()
        stop.install()
        jvm = spawned_jvm(settings.spark, name=settings.name)
        # Spark and the clients take seconds to import: a wrong configuration is reported before.
        from ingest.checks.probes.ledger_reader import open_ledger_reader
        from ingest.service.composition import Service
        from ingest.service.connector import RunOptions

        options = RunOptions(
            until_idle=until_idle, accept_new_ledger=accept_new_ledger, startup_seconds=startup_timeout
        )
        code = Service(
            settings, options, stop, lambda: open_ledger_reader(settings, timeout=_LEDGER_SECONDS), jvm=jvm
        ).run()
    if code is not Exit.DONE:
        raise typer.Exit(int(code))


def _bar(settings: Settings) -> AbstractContextManager[None]:
    def look() -> dict[str, Any] | None:
        answer = read_running_status(settings.http.listen, name=settings.name)
        return None if isinstance(answer, NoAnswer) else answer

    return until_idle_bar(look, Console(stderr=True))
