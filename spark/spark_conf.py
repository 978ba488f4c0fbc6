"""Spark's configuration: our defaults under what was given, what the exactly-once protocol needs above it.

No Spark is loaded for it: the JVM is started by it while everything else is imported. So the supported
versions, and the one that is there, are found out here without an import, and so is the archive of Spark's
classes that a JVM maps instead of reading and checking each at every start. `spark.dump_classes` makes that
archive; it fits one Java and one set of jars, which its name says, and there may be none.
"""

import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from headrace.model.errors import InvalidConfiguration
from headrace.options.settings import SparkSettings

QUIET: Final = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
"""The JVM writes what it thinks of an archive to standard output, which is ours."""

JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
CLASS_PATH: Final = "spark.driver.extraClassPath"

# Where options of Java may stand beside our own; a word about archives there is the user's decision.
_OPTIONS: Final = (JAVA_OPTIONS, "spark.driver.defaultJavaOptions")
_VARIABLES: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
_DECIDES: Final = re.compile(r"-Xshare|SharedArchiveFile|ArchiveClassesAtExit")
_RELEASE: Final = re.compile(rb'^JAVA_VERSION="([\w.]+)"', re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassArchive:
    """The archive for one Java and one Spark, made or not."""

    java: Path
    folder: Path
    name: str
    """Without the size, which is known once it is made."""
    class_path: str
    """Spark's jars by name: Spark itself names their folder, whose order differs between machines."""

    def place(self, size: int) -> Path:
        """Where an archive of so many bytes belongs."""
        return self.folder / f"{self.name}-{size}.jsa"

    def find(self) -> Path | None:
        """Its file; None when there is none, or it was cut off: that would be the end of the JVM."""
        try:
            return next(
                (file for file in self.folder.glob(f"{self.name}-*.jsa") if self._is_whole(file)), None
            )
        except OSError:
            return None

    def _is_whole(self, file: Path) -> bool:
        return file == self.place(file.stat().st_size)


def options_for(file: Path) -> list[str]:
    """The JVM's options to use the archive where it can, and to say nothing where it cannot."""
    # Verified: what was damaged since would be run as it is. It costs some hundredths of a second.
    return [f"-XX:SharedArchiveFile={file}", "-XX:+VerifySharedSpaces", "-Xshare:auto", *QUIET]


def archive_settings(given: Mapping[str, str], environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Options for Spark's JVM, and the class path before its own; None without an archive.

    Also None where the user decided about archives or the class path, in `given` or in the environment.
    """
    words = [given.get(option, "") for option in _OPTIONS]
    words += [environment.get(variable, "") for variable in _VARIABLES]
    if CLASS_PATH in given or any(_DECIDES.search(word) for word in words):
        return None
    archive = fitting_archive(environment)
    if archive is None or (file := archive.find()) is None:
        return None
    return " ".join(f'"{option}"' for option in options_for(file)), archive.class_path


def fitting_archive(environment: Mapping[str, str]) -> ClassArchive | None:
    """The archive for the Java and the Spark that Spark's scripts would start; nothing is started for it.

    None when there is no such Java, or it does not say what it is: a script in its place, for example.
    """
    java = _java(environment)
    if java is None:
        return None
    home = spark_home(environment)
    try:
        release = (java.parent.parent / "release").read_bytes()
        # Where links lead to: the JVM compares paths as they are written, and a virtual environment may be
        # reached by more than one.
        folder = (home / "jars").resolve()
        jars = sorted((jar for jar in os.scandir(folder) if jar.name.endswith(".jar")), key=_name)
        # The JVM compares sizes and times, too; here they let a new archive be made.
        traits = [f"{jar.path} {jar.stat().st_size} {int(jar.stat().st_mtime)}" for jar in jars]
    except OSError:
        return None
    stated = _RELEASE.search(release)
    if stated is None:
        return None
    spark = version("pyspark")
    print_ = hashlib.sha256(b"\0".join([release, spark.encode(), *map(os.fsencode, traits)])).hexdigest()
    return ClassArchive(
        java=java,
        folder=Path(sys.prefix) / "share" / "headrace",
        name=f"spark-{spark}-java-{stated[1].decode()}-{print_[:12]}",
        class_path=os.pathsep.join(jar.path for jar in jars),
    )


def _java(environment: Mapping[str, str]) -> Path | None:
    """JAVA_HOME's, else the one on PATH, as Spark's `spark-class` has it; where its links lead to."""
    home = environment.get("JAVA_HOME")
    found = shutil.which(f"{home}/bin/java" if home else "java", path=environment.get("PATH"))
    return None if found is None else Path(found).resolve()


def spark_home(environment: Mapping[str, str]) -> Path:
    """SPARK_HOME, else PySpark's own folder, found without importing it."""
    if home := environment.get("SPARK_HOME"):
        return Path(home)
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _name(entry: "os.DirEntry[str]") -> str:
    return entry.name


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


SUPPORTED: Final = (4, 3)
"""Major and minor: what the tests run against. We reach into parts of PySpark that each minor may change."""
_NAME: Final = ".".join(map(str, SUPPORTED))
_CORE: Final = re.compile(r"spark-core_[\d.]+-(\d+\.\d+\.\S+)\.jar")


def require_spark(spark_home: str | None) -> None:
    """InvalidConfiguration unless PySpark, and the Spark that it would start, are the supported ones.

    `spark_home` is the environment's SPARK_HOME: PySpark starts what is there instead of its own jars.
    """
    pyspark = version("pyspark")
    if _minor(pyspark) != SUPPORTED:
        raise InvalidConfiguration(
            f"Headrace runs on Spark {_NAME}, and PySpark {pyspark} is installed: install pyspark=={_NAME}.*."
        )
    if spark_home is None:
        return
    found = spark_at(Path(spark_home))
    if found is None or _minor(found) != SUPPORTED:
        there = "there is no Spark" if found is None else f"there is Spark {found}"
        raise InvalidConfiguration(
            f"Headrace runs on Spark {_NAME}, and SPARK_HOME is {spark_home}, where {there}: unset "
            f"SPARK_HOME (PySpark brings Spark along), or point it to a Spark {_NAME}."
        )


def require_server(found: str, place: str) -> None:
    """InvalidConfiguration unless a Spark Connect server has a version that this client can ask."""
    if _minor(found)[0] != SUPPORTED[0]:
        raise InvalidConfiguration(
            f"{place} is Spark {found}, and Headrace needs one of Spark {SUPPORTED[0]}: update the server, "
            "or use spark.master."
        )


def spark_at(home: Path) -> str | None:
    """The version of the Spark in this folder, by its jars; None where there is none."""
    names = (_CORE.fullmatch(jar.name) for jar in (home / "jars").glob("spark-core_*.jar"))
    return next((found[1] for found in names if found is not None), None)


def _minor(text: str) -> tuple[int, int]:
    """4.3.0-SNAPSHOT and 4.3.0.dev1 are (4, 3)."""
    numbers = re.match(r"(\d+)\.(\d+)", text)
    return (0, 0) if numbers is None else (int(numbers[1]), int(numbers[2]))
