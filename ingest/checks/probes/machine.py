"""The facts of `check` about this machine, Spark's cluster, the service that runs, and schema registries.

What a running service shows on `http.listen` is asked for; a service that does not answer is not there.
"""

import http.client
import json
import re
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec

from headrace.model.errors import HeadraceError
from headrace.options import Settings
from headrace.options.choices import ValueFormat
from headrace.options.schema_settings import RegistrySettings
from headrace.options.settings import HttpSettings, SparkSettings
from headrace.options.value_types import HostPort
from headrace.process.threads import start_thread
from ingest.checks.findings.finding import (
    Address,
    Cluster,
    Finding,
    Java,
    MachineFacts,
    OptionFile,
    ok,
    unusable,
    warn,
)
from ingest.http.snapshot import NO_CONNECTOR

_SECONDS: Final = 2.0
# A worker puts the answers of all its connectors together first: two hundred sinks take a second or two.
_WORKER_SECONDS: Final = 15.0
# So many times the seconds that one receive may take, for all of an answer.
_RECEIVES: Final = 3
# Two hundred sinks of sixty partitions are 9 MB; whatever else listens there must not fill our memory.
_MAX_BYTES: Final = 256 * 1024 * 1024
_ANY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - listened on, and asked at home


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """No answer, or none of this ingester's, and why."""

    why: str
    is_missing: bool = False
    """Whether a worker has answered that there is no such connector."""


def read_running_status(
    listen: HostPort | None, *, name: str, seconds: float = _SECONDS
) -> dict[str, Any] | NoAnswer:
    """The answer of `/status` (docs/commands.md). Blocks for a few `seconds` at most."""
    answer = _ask(listen, seconds)
    if isinstance(answer, NoAnswer):
        return answer
    if {"worker", "connectors"} <= answer.keys():
        return NoAnswer(
            f"{listen} is a worker of Headrace: `headrace status WORKER --worker --connector {name}`, with "
            "the worker's file, asks it for a connector of its own"
        )
    if {"name", "role"} <= answer.keys() and answer["name"] != name:
        return NoAnswer(f"{listen} is the ingester {answer['name']!r}")
    return answer if _is(_Answered, answer) else NoAnswer(f"{listen} answers, but not as Headrace does")


def read_running_worker(
    listen: HostPort | None, *, seconds: float = _WORKER_SECONDS
) -> dict[str, Any] | NoAnswer:
    """The answer of a worker's `/status` (docs/worker.md). Blocks for a few times `seconds` at most."""
    answer = _ask(listen, seconds)
    if isinstance(answer, NoAnswer) or {"worker", "connectors"} <= answer.keys():
        return answer
    return NoAnswer(f"{listen} answers, but not as a worker of Headrace does")


def read_running_connector(
    listen: HostPort | None, name: str, *, seconds: float = _SECONDS
) -> dict[str, Any] | NoAnswer:
    """What a worker answers for one of its connectors. Blocks for a few `seconds` at most."""
    answer = _ask(listen, seconds, f"/connectors/{quote(name, safe='')}/status")
    if isinstance(answer, NoAnswer):
        return answer
    # One that has not come so far as to know anything of itself has no more than its problems.
    if _is(_Answered if answer.get("since_ms") else _Bare, answer):
        return answer
    return NoAnswer(f"{listen} answers, but not as a worker of Headrace does")


def _ask(listen: HostPort | None, seconds: float, path: str = "/status") -> dict[str, Any] | NoAnswer:
    """The JSON object that is answered."""
    if listen is None:
        return NoAnswer("http.listen is off")
    host = _ANY_ADDRESS.get(listen.host, listen.host)
    connection = http.client.HTTPConnection(host, listen.port, timeout=seconds)
    late = threading.Event()
    try:
        connection.connect()
        with _deadline(connection.sock, _RECEIVES * seconds, late):
            connection.request("GET", path, headers={"Connection": "close"})
            answer = connection.getresponse()
            body = answer.read(_MAX_BYTES + 1)
    except (OSError, http.client.HTTPException) as error:
        if not late.is_set():
            return NoAnswer(f"{listen} does not answer ({str(error) or type(error).__name__})")
    finally:
        connection.close()
    if late.is_set():
        return NoAnswer(f"{listen} does not come to the end of its answer")
    if answer.status == HTTPStatus.NOT_FOUND and answer.getheader("Content-Type", "").startswith(
        "text/plain"
    ):
        # A worker says where the connector is.
        why = body.decode("utf-8", "replace").strip().removesuffix(".")
        return NoAnswer(why, is_missing=why.startswith(NO_CONNECTOR))
    if answer.status != HTTPStatus.OK:
        return NoAnswer(f"{listen} answers {answer.status}")
    return _shape_of(body, listen)


@contextmanager
def _deadline(connected: Any, seconds: float, late: threading.Event) -> Iterator[None]:
    """Shut the socket down after `seconds`, which ends what waits for it: its own limit is for a receive."""
    is_over = threading.Event()

    def end() -> None:
        if not is_over.wait(seconds):
            late.set()
            with suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)

    start_thread(end, name="answer-deadline")
    try:
        yield
    finally:
        is_over.set()


def _shape_of(body: bytes, listen: HostPort) -> dict[str, Any] | NoAnswer:
    """The JSON object that a body is."""
    if len(body) > _MAX_BYTES:
        return NoAnswer(f"{listen} answers with more than {_MAX_BYTES >> 20} MiB")
    try:
        shape = json.loads(body)
    except (ValueError, RecursionError):
        shape = None
    return shape if isinstance(shape, dict) else NoAnswer(f"{listen} answers, but not as Headrace does")


# -- What `headrace status` shows of an answer; what else is in one is passed on -----------------------------


class _Bare(msgspec.Struct):
    name: str
    role: str
    problems: dict[str, str]


class _Recent(msgspec.Struct):
    key: str
    state: str
    reason: str | None
    records: int
    bytes: int
    at_ms: int


class _SinkPartition(msgspec.Struct):
    topic: str
    partition: int
    state: str
    slot: int | None
    offset: int | None
    end: int | None
    lag: int | None


class _Sink(msgspec.Struct):
    lag: int | None
    open_objects: int
    pending_objects: int
    quarantined_objects: int
    objects_total: int
    bytes_total: int
    buffered_bytes: int
    spilled_bytes: int
    oldest_open_seconds: float
    partitions: list[_SinkPartition]


class _Answered(_Bare):
    ready: bool
    objects: dict[str, int]
    pending_objects: int
    pending_bytes: int
    oldest_pending_seconds: float
    records_total: int
    records_per_second: float
    read_bytes_total: int
    bytes_per_second: float
    transactions_total: int
    last_full_listing_ms: int | None
    target: str = "running"
    mode: str | None = None
    mode_reason: str | None = None
    last_error: str | None = None
    recent: list[_Recent] = []
    sink: _Sink | None = None


def _is(kind: type[msgspec.Struct], answer: dict[str, Any]) -> bool:
    """Whether an answer has what is shown of it, as the releases of Headrace have it."""
    try:
        msgspec.convert(answer, kind)
    except msgspec.ValidationError:
        return False
    return True


_STANDALONE: Final = "spark://"
_LOCAL: Final = "local"
_MASTER_PORT: Final = 7077
_CONNECT_PORT: Final = 15002
_JAVA_SECONDS: Final = 20.0
# openjdk version "21.0.5" .., and "1.8.0_412" up to 8
_RELEASE: Final = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')


def probe_machine(settings: Settings, environment: Mapping[str, str]) -> MachineFacts:
    """What this machine has; starts Java to ask for its version, and listens for a moment."""
    # With a server of Spark Connect the JVM is the server's.
    java = None if settings.spark.remote is not None else probe_java(environment)
    return MachineFacts(
        java=java,
        cluster=_cluster(settings.spark),
        addresses=list(_addresses(settings)),
        users=_users(settings.http),
        state=_written(settings.state_dir, settings.state_dir / quote(settings.name, safe="")),
        buffer=_buffer(settings),
    )


def _users(listened: HttpSettings) -> OptionFile | None:
    """The file of users as `run` reads it at its start."""
    path = listened.rest_auth_file
    if path is None or listened.rest_listen is None:
        return None
    # It brings the REST interface, of which nothing else is asked.
    from ingest.http.rest.auth import InvalidAuthFile, read_accounts

    try:
        read_accounts(path)
    except InvalidAuthFile as error:
        return OptionFile(path=path, problem=str(error))
    return OptionFile(path=path)


def _buffer(settings: Settings) -> OptionFile | None:
    """A sink's, where slots run in this machine's processes: it is a folder of theirs."""
    is_here = settings.spark.remote is None and settings.spark.master.startswith(_LOCAL)
    if settings.sink is None or not is_here:
        return None
    return _written(settings.sink.buffer.directory, settings.sink.buffer.directory)


def _written(option: Path, folder: Path) -> OptionFile:
    """Whether this process may write where the folder of an option would be; leaves nothing there."""
    try:
        there = next(each for each in (folder, *folder.parents) if each.exists())
        # It has no name, or loses it at once.
        tempfile.TemporaryFile(dir=there).close()
    except OSError as error:
        return OptionFile(path=str(option), problem=error.strerror or str(error))
    return OptionFile(path=str(option))


def _cluster(spark: SparkSettings) -> Cluster | None:
    """The masters of a standalone cluster, of which one is enough, or the server of Spark Connect."""
    if spark.remote is not None:
        # What follows the address may be a token.
        option, names = "spark.remote", [urlsplit(spark.remote.reveal()).netloc]
    elif spark.master.startswith(_STANDALONE):
        option, names = "spark.master", spark.master.removeprefix(_STANDALONE).split(",")
    else:
        return None
    problems = [_refused(name, _CONNECT_PORT if spark.remote is not None else _MASTER_PORT) for name in names]
    return Cluster(
        option=option,
        address=", ".join(names),
        problem=None if None in problems else "; ".join(filter(None, problems)),
    )


def _refused(name: str, port: int) -> str | None:
    """Why nothing listens there; None where something does."""
    try:
        place = urlsplit(f"//{name}")
        socket.create_connection((place.hostname or "", place.port or port), timeout=_SECONDS).close()
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)
    return None


def probe_java(environment: Mapping[str, str]) -> Java:
    """JAVA_HOME's, else the one on PATH: what Spark's own launcher takes."""
    home = environment.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else "java"
    found = shutil.which(command, path=environment.get("PATH"))
    if found is None:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on PATH"
        return Java(command=command, problem=f"is not there ({where})")
    if (stated := _stated(Path(found))) is not None:
        return Java(command=found, version=stated)
    try:
        done = subprocess.run(
            [found, "-version"], capture_output=True, text=True, check=False, timeout=_JAVA_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Java(command=found, problem=f"does not start ({error})")
    version = _VERSION.search(done.stderr + done.stdout)
    if done.returncode or version is None:
        return Java(command=found, problem=f"-version ends with {done.returncode} and names no version")
    return Java(command=found, version=int(version[1]))


def _stated(command: Path) -> int | None:
    """What the installation says of itself, which saves a start of Java; None where it does not."""
    try:
        text = (command.resolve().parent.parent / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    stated = _RELEASE.search(text)
    return None if stated is None else int(stated[1])


def _addresses(settings: Settings) -> Iterator[Address]:
    """`http.listen` and `rest.listen`; what our own running service holds is not taken."""
    answer = read_running_status(settings.http.listen, name=settings.name)
    for option, listen in (("http.listen", settings.http.listen), ("rest.listen", settings.http.rest_listen)):
        if listen is not None:
            problem = _problem(listen)
            is_ours = problem is not None and not isinstance(answer, NoAnswer)
            yield Address(option=option, address=str(listen), problem=problem, is_ours=is_ours)


def _problem(listen: HostPort) -> str | None:
    """Why the address cannot be listened on; None when it can."""
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    with socket.socket(family) as tried:
        # As the server does: what is only closing does not count.
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((listen.host, listen.port))
            tried.listen()
        except OSError as error:
            return error.strerror or str(error)
    return None


_REGISTRY_SECONDS: Final = 3.0
_OPTION: Final = "schema.registry.url"
_BY_SCHEMAS: Final = frozenset({ValueFormat.AVRO, ValueFormat.JSON_SCHEMA, ValueFormat.PROTOBUF})


def registry_findings(settings: Settings) -> Iterator[Finding]:
    """Whether each registry answers, without which no record is read or written. Blocks."""
    for registry in dict.fromkeys(_needed(settings)):
        if not any(url.startswith("mock://") for url in registry.urls):
            yield _finding(registry)


def _needed(settings: Settings) -> Iterator[RegistrySettings]:
    """Those of Confluent's kind; Glue is asked of AWS, with its own permissions."""
    if settings.sink is not None:
        for converter in (settings.sink.converters.key, settings.sink.converters.value):
            if isinstance(converter.registry, RegistrySettings):
                yield converter.registry
        return
    made = settings.format
    formats = {made.key_format} | ({made.value_format} if made.glue is None else set())
    if made.registry is not None and formats & _BY_SCHEMAS:
        yield made.registry


def _finding(registry: RegistrySettings) -> Finding:
    # It brings the client of registries, which nearly all configurations do without.
    from headrace.formats.records.registry_connection import answers_once

    urls = ", ".join(registry.urls)
    try:
        is_known = answers_once(registry, seconds=_REGISTRY_SECONDS)
    except HeadraceError as error:
        return unusable(
            _OPTION, f"{urls}: {error}", "Start it, or correct schema.registry.*; records wait for it."
        )
    if is_known:
        return ok(_OPTION, f"{urls} answers")
    return warn(
        _OPTION,
        f"{urls} answers, and does not know /schemas/types (404): the path of the address is not the "
        "registry's, or it is older than Confluent 5.5.",
        "Open that path in a browser; correct schema.registry.url where it is another program's.",
    )
