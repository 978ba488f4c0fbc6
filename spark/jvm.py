"""Spark's JVM: started so that it outlives the signals of this process, and ended by this process.

It is spawned without PySpark, which takes as long to load as the JVM to come up: both happen side by side.
Whether the master of a cluster is there is asked before, as a JVM takes minutes to say no.
"""

import contextlib
import os
import shlex
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import structlog

from headrace.model.errors import InvalidConfiguration, Unavailable
from headrace.options.secret import is_secret_name
from headrace.process.logs import relay
from headrace.process.own_process import hide_keys
from headrace.process.threads import start_thread
from spark.spark_conf import is_local, spark_home

if TYPE_CHECKING:
    from pyspark import SparkConf

log = structlog.get_logger(__name__)

# A service manager signals every process of the service, a terminal those of its foreground group, `timeout`
# its own group. What the JVM does is this process's to say: it ends when its standard input does, which is a
# pipe of ours. Java leaves a signal ignored that was ignored when it began.
_UNMOVED: Final = ("bash", "-c", 'trap "" HUP INT TERM; exec "$@"', "spark-submit")
_POLL_SECONDS: Final = 0.02
_GATEWAY: Final = "gateway"
END_SECONDS: Final = 10.0
_WATCH_SECONDS: Final = 0.5
# Spark asks for the address of the own name of the machine, which a container may lack; in local mode it has
# no use for it.
_LOOPBACK: Final = {"SPARK_LOCAL_IP": "127.0.0.1"}

# Lines of the launcher and the JVM before its logging is up.
_CHATTER: Final = (
    "WARNING: Using incubator modules",
    "WARNING: A ",
    "NOTE: Picked up",
    "Picked up JAVA_TOOL",
)
_CONNECT_SECONDS: Final = 3.0
_KUBERNETES: Final = "k8s://"
_STANDALONE: Final = "spark://"
_HTTPS_PORT: Final = 443
_HTTP_PORT: Final = 80

_LEVELS: Final = {"WARN": "warning", "ERROR": "error", "FATAL": "error"}
ENDING: Final = threading.Event()
"""Set while the process's one context is being stopped: what its JVM writes then is no news."""


class Jvm:
    """The one JVM of a context. `kill` may come from any thread, at any time, before a start too."""

    def __init__(self) -> None:
        self._killed = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None

    def spawn(self, conf: Mapping[str, str]) -> None:
        """Start it with this configuration, unless it was started before; does not wait. Unavailable."""
        if self._process is not None:
            return
        folder = self._folder = Path(tempfile.mkdtemp(prefix="headrace-spark-"))
        try:
            self._process = _spawn(conf, folder / _GATEWAY)
        except Unavailable:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def gateway(self, conf: "SparkConf") -> Any:
        """The py4j gateway to it, after `spawn`; blocks for a second. Unavailable when it ends instead."""
        from pyspark.java_gateway import launch_gateway

        assert self._folder is not None, "it was not spawned"
        try:
            self._await(self._folder / _GATEWAY)
            port, secret = _read(self._folder / _GATEWAY)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
        with _named(port, secret):
            launch: Any = launch_gateway
            gateway = launch(conf)
        gateway.proc = self._process
        return gateway

    def kill(self) -> None:
        """End it at once: whatever waits for it fails."""
        self._killed.set()
        if self._process is not None:
            self._process.kill()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def discard(self) -> None:
        """End it, although it was never used."""
        self.kill()
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(END_SECONDS)

    def watch(self, is_over: threading.Event) -> bool:
        """Wait until it has ended, however; False when `is_over` was set before, or it was never started."""
        process = self._process
        while process is not None and not is_over.wait(_WATCH_SECONDS):
            if process.poll() is not None:
                return not is_over.is_set()
        return False

    def _await(self, gateway_file: Path) -> None:
        """Wait until the JVM says where it listens; it moves the file there when it is whole."""
        assert self._process is not None
        while not gateway_file.is_file():
            if self._killed.is_set():
                self._process.kill()
            if self._process.poll() is not None:
                raise Unavailable(
                    "its JVM (Java 17) ended at once; its words are in the log above (--log-level info). "
                    "Check spark.driver.memory and spark.driver.extraJavaOptions."
                )
            self._killed.wait(_POLL_SECONDS)


def end_jvm(gateway: Any, seconds: float = END_SECONDS) -> None:
    """Let the JVM after this gateway end, and wait for that; after so long it is killed."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # publishes no types
    from pyspark import SparkContext

    # It may have gone by itself, or been killed.
    with contextlib.suppress(Py4JError, OSError):
        gateway.shutdown()
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(seconds)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()
    # A next session of this process, as in tests, starts a JVM of its own.
    SparkContext._gateway = None  # noqa: SLF001  # pyspark has no public way to its JVM
    SparkContext._jvm = None  # noqa: SLF001  # as above


def _read(gateway_file: Path) -> tuple[int, str]:
    """Port and secret of the gateway, as pyspark writes and reads them."""
    from pyspark.serializers import UTF8Deserializer, read_int

    number: Any = read_int
    text: Any = UTF8Deserializer
    with gateway_file.open("rb") as info:
        return number(info), text().loads(info)


def _command(conf: Mapping[str, str]) -> list[str]:
    submit = str(spark_home(os.environ) / "bin" / "spark-submit")  # noqa: TID251  # as PySpark does
    # It stands in its command line, for all users of the machine to read: no secrets there.
    shown = {option: value for option, value in conf.items() if not is_secret_name(option)}
    options = [part for name, value in shown.items() for part in ("--conf", f"{name}={value}")]
    # As pyspark does it: what is given here goes behind our options.
    given = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")  # noqa: TID251  # pyspark's own variable
    return [*_UNMOVED, submit, *options, *shlex.split(given)]


def _spawn(conf: Mapping[str, str], gateway_file: Path) -> subprocess.Popen[bytes]:
    ENDING.clear()
    reading, writing = os.pipe()
    lines = os.fdopen(reading, "rb")
    start_thread(partial(_forward, lines), name="spark-log")
    ours = {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(gateway_file)}
    environment = os.environ | ours  # noqa: TID251  # a child's is all that it is given
    if is_local(conf["spark.master"]):
        environment = hide_keys(_LOOPBACK | environment)
    try:
        return subprocess.Popen(
            _command(conf), stdin=subprocess.PIPE, stderr=writing, env=environment, start_new_session=True
        )
    except OSError as error:
        raise Unavailable(f"its JVM could not be started: {error}") from error
    finally:
        os.close(writing)


@contextmanager
def _named(port: int, secret: str) -> Iterator[None]:
    """The only way in which pyspark learns of a JVM that runs already."""
    environment = os.environ  # noqa: TID251  # see above
    environment.update({"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret})
    try:
        yield
    finally:
        del environment["PYSPARK_GATEWAY_PORT"], environment["PYSPARK_GATEWAY_SECRET"]


def _forward(lines: IO[bytes]) -> None:
    """What the JVM and its Python workers write to stderr, as events of our log, until the pipe ends."""
    with lines:
        for raw in lines:
            line = raw.decode("utf-8", "replace").rstrip()
            if not line or line.startswith(_CHATTER):
                continue
            if line.startswith("\tat "):
                log.debug("spark_logged", text=line)
                continue
            if line.startswith("{") and relay(line):
                # A task's own log, structured already.
                continue
            level, _, rest = line.partition(" ")
            if ENDING.is_set():
                log.debug("spark_logged", text=line)
            elif level in _LEVELS:
                source, _, text = rest.partition(": ")
                getattr(log, _LEVELS[level])("spark_logged", logger=source, text=text)
            else:
                log.info("spark_logged", text=line)


def addresses(master: str) -> list[tuple[str, int]]:
    """Host and port of each master that the URL names; none where it names no address, as `local[*]`.

    InvalidConfiguration where one of them is none.
    """
    if master.startswith(_STANDALONE):
        return [_host_and_port(place) for place in master.removeprefix(_STANDALONE).split(",")]
    if master.startswith(_KUBERNETES):
        place = master.removeprefix(_KUBERNETES)
        try:
            # As Spark reads it: without a scheme it is https.
            url = urlsplit(place if "://" in place else f"https://{place}")
            port = url.port or (_HTTP_PORT if url.scheme == "http" else _HTTPS_PORT)
        except ValueError as error:
            raise InvalidConfiguration(
                f"spark.master = {master!r} is no address: {error}. Expected k8s://https://HOST:PORT."
            ) from error
        if url.hostname is not None:
            return [(url.hostname, port)]
    return []


def require_master(master: str) -> None:
    """Return when one of the masters accepts a connection, or none is named. Blocks.

    Unavailable; InvalidConfiguration for an address that is none.
    """
    refusals = []
    for host, port in addresses(master):
        try:
            with socket.create_connection((host, port), timeout=_CONNECT_SECONDS):
                return
        except OSError as error:
            refusals.append(f"{host}:{port}: {error.strerror or error}")
    if refusals:
        raise Unavailable(f"spark.master = {master!r} cannot be reached ({'; '.join(refusals)}).")


def _host_and_port(place: str) -> tuple[str, int]:
    host, _, port = place.rpartition(":")
    return host.strip("[]"), int(port)
