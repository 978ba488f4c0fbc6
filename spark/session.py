"""The SparkSession, built in one place: what the exactly-once protocol needs of Spark is set here."""

import os
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final

import structlog
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # publishes no types
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.model.errors import Unavailable
from headrace.options.secret import is_secret_name
from headrace.process.logs import relay
from spark.class_archive import CLASS_PATH, JAVA_OPTIONS, archive_settings
from spark.code_archive import build_code_archive
from spark.jvm import END_SECONDS, Jvm, end_jvm

log = structlog.get_logger(__name__)

# Spark never runs a task twice for us: a plan that is executed twice is refused by its number, but a retry
# would only hide that the slot has to be fenced (docs/protocol.md, step 5).
REQUIRED: Final = {"spark.task.maxFailures": "1", "spark.speculation": "false"}

DEFAULTS: Final = {
    "spark.master": "local[*]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Slots are independent jobs: none waits behind another one's task.
    "spark.scheduler.mode": "FAIR",
    # 45 instead of 84 ms for a warm job.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    # The driver holds references to objects only, the rows are in the Python workers.
    "spark.driver.memory": "512m",
    "spark.eventLog.enabled": "false",
    "spark.log.level": "WARN",
}

_LOCAL_DEFAULTS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Forks Python workers from a process that has our libraries loaded: 50 ms instead of a second and more.
    "spark.python.daemon.module": "spark.daemon",
}

# This JVM starts tasks and moves no rows: with the second compiler and a parallel collector it burned 16 s of
# CPU until its first job was over, without them 8 s, on the cores that the first upload waits for.
_SHORT_LIVED_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# Ours, Spark's and the values that redact to `*********` on any page or in any event log that is switched on.
_REDACTED: Final = "(?i)secret|password|passphrase|token|access[.]?key|credential|jaas|sasl|headrace[.]"

# Lines of the launcher and the JVM before its logging is up.
_CHATTER: Final = (
    "WARNING: Using incubator modules",
    "WARNING: A ",
    "NOTE: Picked up",
    "Picked up JAVA_TOOL",
)
_LEVELS: Final = {"WARN": "warning", "ERROR": "error", "FATAL": "error"}
# Set while the process's one session is being stopped.
_ENDING: Final = threading.Event()


def is_local(master: str) -> bool:
    """True when executors live in the driver's own JVM."""
    return master == "local" or master.startswith("local[")


def spark_conf(given: Mapping[str, str], *, name: str) -> dict[str, str]:
    """The whole Spark configuration: our defaults under what was given, what the protocol needs above it."""
    conf = {**DEFAULTS, "spark.app.name": f"headrace-{name}"}
    master = given.get("spark.master", DEFAULTS["spark.master"])
    if is_local(master):
        conf |= _LOCAL_DEFAULTS
    conf |= {
        "spark.redaction.regex": _REDACTED,
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "headrace-spark-warehouse"),
        "spark.executorEnv.PYTHONPATH": str(Path(__file__).parent.parent),
        # One thread for each BLAS call is enough, and a fork must not inherit a pool.
        "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",
    }
    conf |= given
    options = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    if is_local(master):
        options += f" {_SHORT_LIVED_JAVA}"
    shared = archive_settings(given, os.environ)  # noqa: TID251  # Spark's scripts look there for Java
    if shared is not None:
        options += f" {shared[0]}"
        conf[CLASS_PATH] = shared[1]
    conf[JAVA_OPTIONS] = f"{options} {given.get(JAVA_OPTIONS, '')}".strip()
    return conf | REQUIRED


def build_session(given: Mapping[str, str], *, name: str, jvm: Jvm | None = None) -> SparkSession:
    """A running SparkSession for the ingester `name`; blocks for some seconds. Raises Unavailable.

    `given` holds the `spark.*` options as the user wrote them. The JVM ends when this process does, kill -9
    included, and when somebody kills `jvm`: then this is Unavailable. What it writes to stderr joins our log.
    """
    values = spark_conf(given, name=name)
    jvm = jvm or Jvm()
    _ENDING.clear()
    # What starts the JVM stands in its command line, for all users of the machine to read: no secrets there.
    shown = {option: value for option, value in values.items() if not is_secret_name(option)}
    try:
        gateway = jvm.start(_conf(shown), _forward)
        try:
            context = SparkContext(gateway=gateway, conf=_conf(values))
        except BaseException:
            end_jvm(gateway)
            raise
    except Unavailable as error:
        raise _not_started(values, str(error)) from error
    except (PySparkException, Py4JError, OSError) as error:
        raise _not_started(values, str(error).partition("\n\tat ")[0].rpartition(": ")[2].strip()) from error
    context.setLogLevel(values["spark.log.level"])
    # Workers must have our packages, so they run on our own interpreter unless the cluster has its own.
    context.pythonExec = values.get("spark.pyspark.python", sys.executable)
    if not is_local(values["spark.master"]):
        context.addPyFile(str(build_code_archive(context)))
    return SparkSession(context)


def stop_session(session: SparkSession, seconds: float = END_SECONDS) -> None:
    """End Spark and its JVM, and wait for it, so long at most; one that is gone already is no error."""
    gateway: Any = session.sparkContext._gateway  # noqa: SLF001  # pyspark has no public way to its JVM
    # A task that is cut off here was voided before: what Spark and its worker say of its end is no news.
    _ENDING.set()
    try:
        session.sparkContext.setLogLevel("OFF")
        session.stop()
    except (PySparkException, Py4JError, OSError) as error:
        log.info("spark_lost", error=str(error))
    end_jvm(gateway, seconds)


def _not_started(values: Mapping[str, str], why: str) -> Unavailable:
    return Unavailable(f"Spark did not start with spark.master={values['spark.master']!r}: {why}")


def _conf(values: Mapping[str, str]) -> SparkConf:
    return SparkConf(loadDefaults=False).setAll(list(values.items()))


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
            if line.startswith("{"):
                # A task's own log, structured already.
                relay(line)
                continue
            level, _, rest = line.partition(" ")
            if _ENDING.is_set():
                log.debug("spark_logged", text=line)
            elif level in _LEVELS:
                source, _, text = rest.partition(": ")
                getattr(log, _LEVELS[level])("spark_logged", logger=source, text=text)
            else:
                log.info("spark_logged", text=line)
