"""Spark's classes in an archive that its JVM maps, instead of reading and checking each at every start.

`spark.dump_classes` makes it. It fits one Java and one set of jars, which its name says; there may be none.
"""

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

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
        jars = sorted((jar for jar in os.scandir(home / "jars") if jar.name.endswith(".jar")), key=_name)
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
