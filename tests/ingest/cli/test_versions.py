"""What is too old is refused at the start, in one sentence and with exit code 2, before anything is begun."""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from headrace.model.errors import InvalidConfiguration
from headrace.options.secret import Secret
from headrace.options.settings import SparkSettings
from ingest.cli.run import require_versions
from spark.spark_conf import SUPPORTED, require_server, require_spark, spark_at

ROOT: Final = Path(__file__).parents[3]
LOCAL: Final = SparkSettings(master="local[*]", remote=None, properties=())
MINOR: Final = ".".join(map(str, SUPPORTED))


def java_that_says(folder: Path, version: str) -> Path:
    """A JAVA_HOME whose java has to be started to be asked."""
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-10-15' >&2\n")
    command.chmod(0o755)
    return folder


def java_that_states(folder: Path, version: str) -> Path:
    """A JAVA_HOME with a release file; its java cannot be started at all."""
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text("no program\n")
    command.chmod(0o755)
    (folder / "release").write_text(f'IMPLEMENTOR="Somebody"\nJAVA_VERSION="{version}"\n')
    return folder


def spark_home(folder: Path, version: str) -> Path:
    """A SPARK_HOME with the one jar that tells."""
    (folder / "jars").mkdir(parents=True)
    (folder / "jars" / f"spark-core_2.13-{version}.jar").touch()
    return folder


@pytest.mark.parametrize("java", [java_that_says, java_that_states])
@pytest.mark.parametrize(("version", "number"), [("1.8.0_412", 8), ("11.0.25", 11), ("16.0.2", 16)])
def test_an_old_java_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    java: Callable[[Path, str], Path],
    version: str,
    number: int,
) -> None:
    """It names the java that Spark would take."""
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, version)))

    with pytest.raises(InvalidConfiguration) as refused:
        require_versions(LOCAL)

    assert str(refused.value) == (
        f"Spark needs Java 17 or later, and {tmp_path}/bin/java is {number}. "
        "Install a JRE 17 or later and set JAVA_HOME to it."
    )


@pytest.mark.parametrize("java", [java_that_says, java_that_states])
@pytest.mark.parametrize("version", ["17.0.15", "21.0.5", "25"])
def test_a_newer_java_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, java: Callable[[Path, str], Path], version: str
) -> None:
    """17 is the least."""
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, version)))
    monkeypatch.delenv("SPARK_HOME", raising=False)

    require_versions(LOCAL)


def test_without_java_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not as the end of a JVM that never was."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(InvalidConfiguration, match="there is no java on PATH"):
        require_versions(LOCAL)


def test_with_a_server_of_spark_connect_none_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Java and Spark are the server's."""
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setenv("SPARK_HOME", "/nowhere")

    require_versions(SparkSettings(master="", remote=Secret("sc://host"), properties=()))


@pytest.mark.parametrize(
    ("version", "there"),
    [("3.5.1", "Spark 3.5.1"), ("4.0.0", "Spark 4.0.0"), (None, "no Spark")],
    ids=["3.5", "4.0", "none"],
)
def test_a_spark_home_of_another_spark_is_refused(tmp_path: Path, version: str | None, there: str) -> None:
    """PySpark starts what is there, and the two would fail at each other's calls."""
    if version is not None:
        spark_home(tmp_path, version)

    with pytest.raises(InvalidConfiguration) as refused:
        require_spark(str(tmp_path))

    assert f"SPARK_HOME is {tmp_path}, where there is {there}: unset SPARK_HOME" in str(refused.value)


@pytest.mark.parametrize("version", [f"{MINOR}.0", f"{MINOR}.2-SNAPSHOT"])
def test_a_spark_home_of_the_same_minor_is_not(tmp_path: Path, version: str) -> None:
    """A site may have builds of its own."""
    require_spark(str(spark_home(tmp_path, version)))


def test_the_supported_spark_is_the_locked_one() -> None:
    """What the tests run against is what is promised, in the package's dependencies too."""
    locked = re.search(r"^pyspark==(\d+\.\d+)\.", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert locked is not None

    assert locked[1] == MINOR
    assert f'"pyspark>={MINOR},<{SUPPORTED[0]}.{SUPPORTED[1] + 1}"' in (ROOT / "pyproject.toml").read_text()
    require_spark(None)


def test_the_jars_that_pyspark_brings_tell_their_version() -> None:
    """The name is looked for where the jars really are."""
    import pyspark

    assert spark_at(Path(pyspark.__file__).parent) == pyspark.__version__


@pytest.mark.parametrize(
    ("version", "is_fit"), [("3.5.4", False), ("4.0.1", True), ("4.3.0", True), ("5.0.0", False)]
)
def test_a_server_of_another_major_is_refused(version: str, *, is_fit: bool) -> None:
    """Spark Connect's clients and servers may differ in the minor."""
    if is_fit:
        require_server(version, "the server")
    else:
        with pytest.raises(InvalidConfiguration, match=f"the server is Spark {version}, and Headrace needs"):
            require_server(version, "the server")


def _ends(*command: str, folder: Path, **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},  # noqa: TID251 - a child's
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("command", ["run", "worker"])
def test_the_command_ends_with_the_sentence_alone(tmp_path: Path, command: str) -> None:
    """No broker is asked before: the address is nobody's."""
    java_that_says(tmp_path / "java", "11.0.25")
    configurations = {
        "run": {"name": "orders", "bootstrap.servers": "127.0.0.1:1", "aws.s3.bucket.name": "my-bucket",
                "topic": "orders", "file.name.template": ".*", "http.listen": ""},
        "worker": {"bootstrap.servers": "127.0.0.1:1", "group.id": "workers",
                   "config.storage.topic": "connectors", "http.listen": "", "rest.listen": "127.0.0.1:0"},
    }  # fmt: skip
    (tmp_path / "file.json").write_text(json.dumps(configurations[command]))

    code, said = _ends(
        sys.executable, "-m", "ingest", command, "file.json",
        folder=tmp_path, JAVA_HOME=str(tmp_path / "java"),
    )  # fmt: skip

    assert code == 2
    assert said == (
        f"Spark needs Java 17 or later, and {tmp_path}/java/bin/java is 11. "
        "Install a JRE 17 or later and set JAVA_HOME to it.\n"
    )


ENTRY: Final = ("ingest/__init__.py", "ingest/__main__.py")


@pytest.mark.parametrize("file", ENTRY)
def test_what_runs_before_the_check_is_read_by_an_old_python(file: str) -> None:
    """And imports nothing that is written for a newer one."""
    tree = ast.parse((ROOT / file).read_text(), feature_version=(3, 7))
    top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]

    assert {ast.unparse(node) for node in top} <= {"import gc", "import sys", "from typing import NoReturn"}


def test_python_3_10_is_refused(tmp_path: Path) -> None:
    """By the entry point, whichever Python says that it is one."""
    as_3_10 = "import runpy, sys; sys.version_info = 3, 10, 13; runpy.run_module('ingest', None, '__main__')"

    assert _ends(sys.executable, "-c", as_3_10, folder=tmp_path) == (
        2,
        f"Headrace needs Python 3.11 or later, and {sys.executable} is 3.10.13: run it with a newer one.\n",
    )
