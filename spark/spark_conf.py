"""Spark's configuration: our defaults under what was given, what the exactly-once protocol needs above it.

It needs no Spark to be loaded: the JVM is started by it while everything else is imported.
"""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headrace.options.settings import SparkSettings
from spark.class_archive import CLASS_PATH, JAVA_OPTIONS, archive_settings

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


def conf_of(spark: SparkSettings, *, name: str) -> dict[str, str]:
    """The whole Spark configuration of these settings, which are not those of a Spark Connect server."""
    return spark_conf(spark.conf() | {"spark.master": spark.master}, name=name)
