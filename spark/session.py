"""The SparkContext, built in one place, with our own packages as an archive for executors without them."""

import contextlib
import re
import shutil
import socket
import sys
import tempfile
import weakref
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import structlog
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # publishes no types
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException

from headrace.model.errors import Unavailable
from spark.jvm import END_SECONDS, ENDING, Jvm, end_jvm
from spark.spark_conf import is_local, spark_conf


def build_code_archive(kept_by: object) -> Path:
    """An archive of our packages; it is removed when `kept_by` is garbage."""
    top = Path(__file__).parent.parent
    folder = tempfile.mkdtemp(prefix="headrace-")
    # Executors fetch the file when they come up, which may be any time later.
    weakref.finalize(kept_by, shutil.rmtree, folder, ignore_errors=True)
    archive = Path(folder) / "headrace.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for package in ("headrace", "ingest", "listeners", "spark"):
            for module in sorted((top / package).rglob("*.py")):
                packed.write(module, module.relative_to(top))
    return archive


log = structlog.get_logger(__name__)

_AROUND: Final = re.compile(r"^(?:[a-z]\w*\.)+[\w$]+: |\s*SQLSTATE: \w+\s*$")


def build_context(given: Mapping[str, str], *, name: str, jvm: Jvm | None = None) -> SparkContext:
    """A running SparkContext for the ingester `name`; blocks for some seconds. Raises Unavailable.

    `given` holds the `spark.*` options as the user wrote them. The JVM ends when this process does, kill -9
    included, and when `jvm` is killed: then this is Unavailable. What it writes to stderr joins our log.
    """
    values = spark_conf(given, name=name)
    jvm = jvm or Jvm()
    try:
        jvm.spawn(values)
        gateway = jvm.gateway(_conf(values))
        try:
            context = SparkContext(gateway=gateway, conf=_conf(values))
        except Py4JError as error:
            # The JVM is asked for its text: not once it has ended.
            why = _text_of(error)
            end_jvm(gateway)
            raise Unavailable(why) from None
        except BaseException:
            end_jvm(gateway)
            raise
    except Unavailable as error:
        raise _not_started(values, str(error)) from error
    except (PySparkException, Py4JError, OSError) as error:
        raise _not_started(values, _text_of(error)) from None
    context.setLogLevel(values["spark.log.level"])
    # Workers must have our packages, so they run on our own interpreter unless the cluster has its own.
    context.pythonExec = values.get("spark.pyspark.python", sys.executable)
    if not is_local(values["spark.master"]):
        context.addPyFile(str(build_code_archive(context)))
    return context


def stop_context(context: SparkContext, seconds: float = END_SECONDS) -> None:
    """End Spark and its JVM, and wait for it, so long at most; one that is gone already is no error."""
    gateway: Any = context._gateway  # noqa: SLF001  # pyspark has no public way to its JVM
    # Taken away from PySpark, which would end it, with a wait, while the JVM is still there.
    accumulators: Any = context._accumulatorServer  # noqa: SLF001  # nor to this
    context._accumulatorServer = None  # type: ignore[assignment]  # noqa: SLF001  # as above
    # A task that is cut off here was voided before: what Spark and its worker say of its end is no news.
    ENDING.set()
    try:
        context.setLogLevel("OFF")
        context.stop()
    except (PySparkException, Py4JError, OSError) as error:
        log.info("spark_lost", error=str(error))
    end_accumulators(accumulators, lambda: end_jvm(gateway, seconds))


def end_accumulators(server: Any, end_client: Callable[[], object]) -> None:
    """End PySpark's server of accumulators together with its one client, the JVM, whose tasks are over.

    It looks once a second whether it is to end, while a client is connected, and else twice.
    """
    server.handle_error = lambda *_: None
    end_client()
    # Which wakes it.
    with contextlib.suppress(OSError):
        server.socket.shutdown(socket.SHUT_RDWR)
    server.shutdown()


def _text_of(error: Exception) -> str:
    """What an exception says, of Java's on one line without its trace, its class and its SQLSTATE."""
    try:
        text = str(error)
    except Py4JError:
        return "its JVM has ended"
    words = text.partition("\n\tat ")[0].rpartition("\n: ")[2]
    return " ".join(_AROUND.sub("", words.strip()).split())


def _not_started(values: Mapping[str, str], why: str) -> Unavailable:
    return Unavailable(f"Spark did not start with spark.master={values['spark.master']!r}: {why}")


def _conf(values: Mapping[str, str]) -> SparkConf:
    return SparkConf(loadDefaults=False).setAll(list(values.items()))
