"""Spark's JVM: started so that it outlives the signals of this process, and ended by this process."""

import contextlib
import os
import shlex
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # publishes no types
from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int

from headrace.model.errors import Unavailable
from headrace.process.threads import start_thread

# A service manager signals every process of the service, a terminal those of its foreground group, `timeout`
# its own group. What the JVM does is this process's to say: it ends when its standard input does, which is a
# pipe of ours. Java leaves a signal ignored that was ignored when it began.
_UNMOVED: Final = ("bash", "-c", 'trap "" HUP INT TERM; exec "$@"', "spark-submit")
_POLL_SECONDS: Final = 0.05
END_SECONDS: Final = 10.0
_WATCH_SECONDS: Final = 0.5


class Jvm:
    """The one JVM of a session. `kill` may come from any thread, at any time, before a start too."""

    def __init__(self) -> None:
        self._killed = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, conf: SparkConf, forward: Callable[[IO[bytes]], None]) -> Any:
        """The py4j gateway to the JVM; blocks for some seconds. Unavailable when it ends instead.

        `forward` reads what it writes to stderr, in a thread of its own, from the first line on.
        """
        folder = Path(tempfile.mkdtemp(prefix="headrace-spark-"))
        try:
            gateway_file = folder / "gateway"
            self._process = _spawn(_command(conf), gateway_file, forward)
            self._await(gateway_file)
            port, secret = _read(gateway_file)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
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
                raise Unavailable("its JVM (Java 17) ended at once; its words are in the log above.")
            self._killed.wait(_POLL_SECONDS)


def end_jvm(gateway: Any, seconds: float = END_SECONDS) -> None:
    """Let the JVM behind this gateway end, and wait for that; after so long it is killed."""
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
    number: Any = read_int
    text: Any = UTF8Deserializer
    with gateway_file.open("rb") as info:
        return number(info), text().loads(info)


def _command(conf: SparkConf) -> list[str]:
    submit = str(Path(_find_spark_home()) / "bin" / "spark-submit")
    options = [part for name, value in conf.getAll() for part in ("--conf", f"{name}={value}")]
    # As pyspark does it: what is given here goes behind our options.
    given = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")  # noqa: TID251  # pyspark's own variable
    return [*_UNMOVED, submit, *options, *shlex.split(given)]


def _spawn(
    command: Sequence[str], gateway_file: Path, forward: Callable[[IO[bytes]], None]
) -> subprocess.Popen[bytes]:
    reading, writing = os.pipe()
    lines = os.fdopen(reading, "rb")
    start_thread(partial(forward, lines), name="spark-log")
    ours = {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(gateway_file)}
    environment = os.environ | ours  # noqa: TID251  # a child's is all that it is given
    try:
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stderr=writing, env=environment, start_new_session=True
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
