"""Jars of Kafka: exactly those of a lock, fetched once and checked each time.

`kafka-jars.lock` has the broker's, `connect-jars.lock` what a Kafka Connect worker needs beside them.
"""

import hashlib
import importlib.util
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from localstack.steps import PartError, say, step

LOCK = Path(__file__).with_name("kafka-jars.lock")


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    """One line of the lock: `group:artifact:version sha256:digest`."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def name(self) -> str:
        """The file name under which it is kept."""
        return f"{self.artifact}-{self.version}.jar"


def read_lock(lock: Path = LOCK) -> list[Jar]:
    """Every jar of the lock, in its order; a ValueError names a line that is none."""
    jars = []
    for line in lock.read_text().splitlines():
        coordinates, _, digest = line.partition(" sha256:")
        match coordinates.split(":"), len(digest):
            case [group, artifact, version], 64:
                jars.append(Jar(group=group, artifact=artifact, version=version, sha256=digest))
            case _:
                raise ValueError(
                    f"{lock.name}: expected 'group:artifact:version sha256:digest', got {line!r}"
                )
    return jars


def fetch(folder: Path, lock: Path = LOCK) -> list[Path]:
    """The paths of all jars of a lock in `folder`, fetched where they are missing.

    Maven fetches where it is installed: it is the faster one (8 s, Ivy 28 s) and knows the mirror a site has
    configured. Otherwise Ivy does, which PySpark ships. Both keep what they fetched in the user's cache.
    PartError when a jar cannot be fetched or is not the locked one. Blocks.
    """
    jars = read_lock(lock)
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    missing = [jar for jar in jars if not (folder / jar.name).exists()]
    if missing:
        with tempfile.TemporaryDirectory(prefix="fetch-", dir=folder) as scratch:
            _fetch_missing(missing, Path(scratch))
            for jar in missing:
                (Path(scratch) / jar.name).replace(folder / jar.name)
    if mismatches := list(_mismatches(jars, folder, lock.name)):
        raise PartError("\n".join(mismatches))
    return [folder / jar.name for jar in jars]


def _fetch_missing(missing: list[Jar], scratch: Path) -> None:
    tried = []
    for name, argv in (("Maven", _maven(missing, scratch)), ("Ivy", _ivy(missing, scratch))):
        if argv is None:
            tried.append(f"{name} is not installed")
            continue
        with step("kafka", f"fetching {len(missing)} jars with {name}"):
            done = subprocess.run(argv, cwd=scratch, capture_output=True, text=True, check=False)
        absent = [jar.name for jar in missing if not (scratch / jar.name).exists()]
        if not absent:
            return
        said = f"{done.stdout}{done.stderr}".strip()[-800:]
        tried.append(f"{name} (exit {done.returncode}) did not bring {', '.join(absent[:3])}: {said}")
        say("kafka", f"{name} could not fetch all jars")
    raise PartError(
        f"the Kafka jars could not be fetched; can the package registries be reached? {'; '.join(tried)}"
    )


def _ivy(jars: Iterable[Jar], scratch: Path) -> list[str] | None:
    """The call of Ivy that brings these jars and nothing they depend on: the lock names those already."""
    pyspark = importlib.util.find_spec("pyspark")
    java = shutil.which("java")
    if pyspark is None or pyspark.origin is None or java is None:
        return None
    ivy_jar = next((Path(pyspark.origin).parent / "jars").glob("ivy-*.jar"))
    module = scratch / "ivy.xml"
    module.write_text(
        '<ivy-module version="2.0"><info organisation="headrace" module="broker"/>'
        '<configurations><conf name="default"/></configurations><dependencies>'
        + "".join(
            f'<dependency org="{jar.group}" name="{jar.artifact}" rev="{jar.version}"'
            ' transitive="false" conf="default->master"/>'
            for jar in jars
        )
        + "</dependencies></ivy-module>",
    )
    pattern = str(scratch / "[artifact]-[revision].[ext]")
    return [java, "-jar", str(ivy_jar), "-ivy", str(module), "-retrieve", pattern]


def _maven(jars: Iterable[Jar], scratch: Path) -> list[str] | None:
    """The call of Maven that brings these jars."""
    maven = shutil.which("mvn")
    if maven is None:
        return None
    project = scratch / "pom.xml"
    project.write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>headrace</groupId>"
        "<artifactId>broker</artifactId><version>1</version><dependencies>"
        + "".join(
            f"<dependency><groupId>{jar.group}</groupId><artifactId>{jar.artifact}</artifactId>"
            f"<version>{jar.version}</version></dependency>"
            for jar in jars
        )
        + "</dependencies></project>",
    )
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
    return [
        maven,
        "-B",
        "-q",
        "-f",
        str(project),
        goal,
        f"-DoutputDirectory={scratch}",
        "-DexcludeTransitive=true",
    ]


def _mismatches(jars: Iterable[Jar], folder: Path, lock_name: str) -> Iterator[str]:
    for jar in jars:
        path = folder / jar.name
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != jar.sha256:
            path.unlink()
            yield (
                f"{jar.name} has sha256 {digest}, but {lock_name} says {jar.sha256}; it was removed: "
                "run again, and if it stays so, do not trust the place it comes from"
            )
