"""`headrace run` and `headrace worker`: from a configuration, or a worker's file, to the exit code.

Both need a Java and a Spark that are not too old, and soon a JVM. A worker's status is asked for here, too:
`headrace status WORKER --worker`.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Annotated, Any, Final

import structlog
import typer
from rich.console import Console

from headrace.model.errors import Exit, InvalidConfiguration, Unavailable
from headrace.model.text_formatting import counted, printable
from headrace.options import Settings, SettingsError
from headrace.options.settings import SparkSettings
from headrace.options.worker_file import is_json
from headrace.process import logs
from headrace.process.own_process import raise_descriptor_limit, read_regular_text
from headrace.vendors.load import load
from ingest.checks.findings.finding import Verdict, java_there
from ingest.checks.probes.machine import (
    NoAnswer,
    probe_java,
    read_running_connector,
    read_running_status,
    read_running_worker,
)
from ingest.cli import cli_options as cli
from ingest.cli.configuration import environment, read_settings, read_text
from ingest.cli.progress_bar import is_terminal, until_idle_bar
from ingest.connect.worker_settings import WorkerSettings, read_worker
from ingest.service.stop import Stop
from spark.jvm import Jvm
from spark.memory import refuse_unused
from spark.spark_conf import conf_of, require_spark


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
# Files and connections that a worker has open, and for each connector with one broker. Fewer than these are
# reached by connectors that memory has room for.
_OWN_DESCRIPTORS: Final = 60
_CONNECTORS_DESCRIPTORS: Final = 30
_FEW_DESCRIPTORS: Final = 4_096
_MORE_DESCRIPTORS: Final = "raise the hard limit: LimitNOFILE= of a unit, ulimit -Hn of a shell"

UntilIdleFlag = Annotated[
    bool,
    typer.Option(
        "--until-idle",
        help="End when everything that is there now is dealt with; with a progress bar on a terminal.",
    ),
]
AcceptNewLedger = Annotated[
    bool,
    typer.Option(
        "--accept-new-ledger",
        help="Continue with an empty or another ledger: what it does not know is ingested or archived again.",
    ),
]
RunLevel = Annotated[
    cli.LogLevel | None,
    typer.Option(
        "--log-level",
        help="What is logged to stderr, from this level up. Default: info; with a progress bar, warning.",
    ),
]
RunFormat = Annotated[
    cli.LogFormat | None,
    typer.Option(
        "--log-format",
        help="One JSON line an event, or columns. Default: console on a terminal, else json.",
    ),
]


def run(
    config: cli.Config,
    until_idle: UntilIdleFlag = False,
    accept_new_ledger: AcceptNewLedger = False,
    startup_timeout: cli.StartupTimeout = 60.0,
    sets: cli.Sets = None,
    worker_config: cli.WorkerConfig = None,
    log_level: RunLevel = None,
    log_format: RunFormat = None,
) -> None:
    """Ingest objects as they arrive, or archive topics, until SIGTERM or SIGINT.

    A configuration with connector.class=HeadraceSink, or with topics, archives them. Else what is in the
    bucket is found by listing, and new objects are announced by the queue. Each finished object is one line
    on stderr; http.listen serves /status, /metrics and a page for people. Ctrl-C or SIGTERM commits what is
    at hand and ends within 30 s; a second one ends at once, and nothing is lost by it either.
    """
    settings = read_settings(config, sets=sets or (), worker_config=worker_config)
    # The bar asks the service as anybody else would, so there is none where nobody can ask.
    has_bar = until_idle and settings.http.listen is not None and is_terminal(sys.stderr)
    # The bar puts itself between stderr and what is written there, so it has to come before the logs.
    with _bar(settings) if has_bar else nullcontext():
        logs.configure(
            level=(log_level or (cli.LogLevel.WARNING if has_bar else cli.LogLevel.INFO)).value,
            style=(
                log_format or (cli.LogFormat.CONSOLE if sys.stderr.isatty() else cli.LogFormat.JSON)
            ).value,
        )
        for warning in settings.warnings:
            _log.warning("configuration_warned", warning=warning)
        # Before there is a JVM, whose Python workers have what it has.
        raise_descriptor_limit()
        require_versions(settings.spark)
        stop = Stop()
        stop.install()
        jvm = spawned_jvm(settings.spark, name=settings.name)
        # Spark and the clients take seconds to import: a wrong configuration is reported before.
        from headrace.kafka.ledger_reader import open_ledger_reader
        from ingest.service.composition import RunOptions, Service

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


def worker_settings(file: Path) -> WorkerSettings:
    """The settings of a worker's file. InvalidConfiguration with every problem."""
    text = read_text(file, "The worker's file")
    try:
        return read_worker(
            text,
            is_json=is_json(text, file.suffix),
            environment=environment(),
            read_file=read_regular_text,
        )
    except SettingsError as error:
        raise InvalidConfiguration(f"{file}: {error}") from error


def ask_worker(file: Path, connector: str | None = None) -> dict[str, Any]:
    """What the worker of this file answers at http.listen, of all or of one connector.

    InvalidConfiguration, Unavailable.
    """
    listen = worker_settings(file).frame.http.listen
    answer = read_running_worker(listen) if connector is None else read_running_connector(listen, connector)
    if isinstance(answer, NoAnswer):
        if connector is not None:
            kind = InvalidConfiguration if answer.is_missing else Unavailable
            raise kind(f"The connector {connector!r}: {answer.why}.")
        raise Unavailable(f"The worker does not say how it is: {answer.why}.")
    return answer


def worker_lines(shape: dict[str, Any]) -> Iterator[str]:
    """What people are shown: the worker, its connectors, and where the others are."""
    leads = ", leads the group" if shape["leader"] == shape["worker"] else ""
    yield f"{printable(shape['worker'])}: group {printable(shape['group'])}{leads}"
    for problem in shape["problems"]:
        yield f"problem   {printable(problem)}"
    connectors = shape["connectors"]
    width = max((len(name) for name in connectors), default=0)
    for name, one in sorted(connectors.items()):
        yield f"  {printable(name):{width}}  {_state(one)}{_left(one)}"
        for sentence in (one.get("problems") or {}).values():
            yield from (f"  {'':{width}}  {printable(line)}" for line in sentence.split("\n"))
    for worker, one in sorted(shape["workers"].items()):
        if worker != shape["worker"] and one["connectors"]:
            names = ", ".join(map(printable, one["connectors"]))
            yield f"elsewhere {printable(one['url'] or worker)}: {names}"


def _state(one: dict[str, Any]) -> str:
    if one["role"] != "leader":
        return str(one["role"])
    if one["target"] != "running":
        return str(one["target"])
    return "running" if one["ready"] else "has problems"


def is_bare(one: dict[str, Any]) -> bool:
    """Whether a connector has not come so far as to know anything of itself."""
    return not one.get("since_ms")


def _left(one: dict[str, Any]) -> str:
    if is_bare(one):
        return ""
    if one.get("sink") is not None:
        return f", {counted(one['sink']['lag'], 'offset')} not archived yet"
    return f", {counted(one['pending_objects'], 'object')} pending"


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
    startup_timeout: cli.StartupTimeout = 60.0,
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
        level=(log_level or cli.LogLevel.INFO).value,
        style=(log_format or (cli.LogFormat.CONSOLE if sys.stderr.isatty() else cli.LogFormat.JSON)).value,
    )
    for warning in settings.warnings:
        _log.warning("configuration_warned", warning=warning)
    if (most := raise_descriptor_limit()) < _FEW_DESCRIPTORS:
        room = (most - _OWN_DESCRIPTORS) // _CONNECTORS_DESCRIPTORS
        _log.warning("open_files_limited", limit=most, connectors=max(0, room), fix=_MORE_DESCRIPTORS)
    require_versions(settings.frame.spark)
    stop = Stop()
    stop.install()
    jvm = spawned_jvm(settings.frame.spark, name=settings.group)
    # Spark and the clients take seconds to import: a wrong configuration is reported before.
    from ingest.connect.connector_loading import Loading
    from ingest.connect.worker import Worker

    made = Worker(
        settings,
        Loading(settings, _load),
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
        read_file=read_regular_text,
        worker_config=worker_config,
    )
