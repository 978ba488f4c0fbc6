"""The archive of Spark's classes: found by Java and jars, made once, used where it fits, never in the way."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from spark.dump_classes import main
from spark.spark_conf import ClassArchive, archive_settings, fitting_archive, options_for, spark_conf

ROOT = Path(__file__).parents[2]
JAVA = "spark.driver.extraJavaOptions"


class Machine:
    """A Java and a Spark of files that nobody starts, and an environment that leads there."""

    def __init__(self, folder: Path) -> None:
        self.java_home = folder / "java"
        self.spark_home = folder / "spark"
        command = self.java_home / "bin" / "java"
        command.parent.mkdir(parents=True)
        command.write_text("#!/bin/sh\nexit 1\n")
        command.chmod(0o755)
        self.release("17.0.15")
        for name in ("b.jar", "a.jar", "c.txt"):
            self.jar(name, 3)

    @property
    def environment(self) -> dict[str, str]:
        """For Spark's scripts."""
        return {"JAVA_HOME": str(self.java_home), "SPARK_HOME": str(self.spark_home), "PATH": "/nowhere"}

    def release(self, version: str) -> None:
        """Have Java say that it is this one."""
        (self.java_home / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\n')

    def jar(self, name: str, size: int) -> None:
        """Have a jar of so many bytes."""
        jars = self.spark_home / "jars"
        jars.mkdir(parents=True, exist_ok=True)
        (jars / name).write_bytes(b"x" * size)

    def archive(self) -> ClassArchive:
        """What belongs to it."""
        found = fitting_archive(self.environment)
        assert found is not None
        return found


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """With a folder of archives of its own, whose name has a blank."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "a prefix"))
    return Machine(tmp_path)


def put(archive: ClassArchive, content: bytes = b"classes") -> Path:
    """A file in the archive's place."""
    file = archive.place(len(content))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


# -- which archive -----


def test_without_an_archive_nothing_is_said_of_one(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark is started as ever."""
    for name, value in machine.environment.items():
        monkeypatch.setenv(name, value)
    conf = spark_conf({}, name="n")

    assert archive_settings({}, machine.environment) is None
    assert "SharedArchiveFile" not in conf[JAVA]
    assert "spark.driver.extraClassPath" not in conf


def test_an_archive_is_used_with_the_class_path_that_it_was_made_for(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jars by name: Spark's own `jars/*` has the order of the disk."""
    for name, value in machine.environment.items():
        monkeypatch.setenv(name, value)
    file = put(machine.archive())
    conf = spark_conf({JAVA: "-Dmine=1"}, name="n")

    assert f'"-XX:SharedArchiveFile={file}"' in conf[JAVA]
    assert conf[JAVA].endswith(" -Dmine=1")
    jars = machine.spark_home / "jars"
    assert conf["spark.driver.extraClassPath"] == f"{jars / 'a.jar'}:{jars / 'b.jar'}"


def test_another_java_another_jar_or_a_later_one_has_another_archive(machine: Machine) -> None:
    """None is taken for another's."""
    names = [machine.archive().name]
    machine.release("17.0.16")
    names.append(machine.archive().name)
    machine.jar("d.jar", 3)
    names.append(machine.archive().name)
    machine.jar("a.jar", 4)
    names.append(machine.archive().name)
    os.utime(machine.spark_home / "jars" / "a.jar", (1, 1))
    names.append(machine.archive().name)

    assert len(set(names)) == len(names)
    assert "-java-17.0.15-" in names[0]
    assert "-java-17.0.16-" in names[1]
    assert names[0].startswith("spark-4.3.")


def test_it_is_found_through_links_as_on_path(machine: Machine, tmp_path: Path) -> None:
    """`java` of a distribution is a link to a link."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(machine.java_home / "bin" / "java")
    environment = {"PATH": str(tmp_path / "bin"), "SPARK_HOME": str(machine.spark_home)}

    assert fitting_archive(environment) == machine.archive()


@pytest.mark.parametrize("linked", ["", "jars"])
def test_jars_are_the_same_ones_through_a_link(machine: Machine, tmp_path: Path, linked: str) -> None:
    """A virtual environment that is used through a link has the archive that was made without it."""
    home = tmp_path / "linked" / "spark"
    (home / linked).parent.mkdir(parents=True)
    (home / linked).symlink_to(machine.spark_home / linked)
    environment = {**machine.environment, "SPARK_HOME": str(home)}

    assert fitting_archive(environment) == machine.archive()


@pytest.mark.parametrize("lacking", ["java/bin/java", "java/release", "spark/jars"])
def test_what_does_not_say_what_it_is_has_no_archive(machine: Machine, tmp_path: Path, lacking: str) -> None:
    """And is no error."""
    (tmp_path / lacking).rename(tmp_path / "away")

    assert fitting_archive(machine.environment) is None
    assert archive_settings({}, machine.environment) is None


def test_one_that_was_cut_off_is_not_used(machine: Machine) -> None:
    """The JVM would map pages that are not there, and die of the first."""
    archive = machine.archive()
    file = put(archive)
    assert archive.find() == file

    os.truncate(file, 3)

    assert archive.find() is None


@pytest.mark.parametrize(
    "given",
    [
        {JAVA: "-XX:SharedArchiveFile=/mine.jsa"},
        {JAVA: "-Xshare:off"},
        {JAVA: "-XX:ArchiveClassesAtExit=/mine.jsa"},
        {"spark.driver.defaultJavaOptions": "-XX:SharedArchiveFile=/mine.jsa"},
        {"spark.driver.extraClassPath": "/mine.jar"},
    ],
)
def test_what_the_user_says_of_archives_or_the_class_path_wins(
    machine: Machine, given: Mapping[str, str]
) -> None:
    """Ours is left out."""
    put(machine.archive())
    assert archive_settings({}, machine.environment) is not None

    assert archive_settings(given, machine.environment) is None


@pytest.mark.parametrize("variable", ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS"])
def test_so_does_the_environment(machine: Machine, variable: str) -> None:
    """Java reads those before the command line, which would win."""
    put(machine.archive())

    said = {variable: "-XX:SharedArchiveFile=/mine.jsa"}
    assert archive_settings({}, machine.environment | said) is None
    assert archive_settings({}, machine.environment | {variable: "-Dmine=1"}) is not None


# -- making it -----


def setup(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> int:
    """The command's exit code on this machine."""
    for name, value in machine.environment.items():
        monkeypatch.setenv(name, value)
    return main()


def test_one_that_is_there_is_not_made_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """This Java could not."""
    put(machine.archive())

    assert setup(machine, monkeypatch) == 0
    assert capsys.readouterr().out == "setup:      Spark's classes are archived already\n"


@pytest.mark.parametrize("what", ["java", "release", "folder"])
def test_a_failure_is_one_sentence(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    """A Java without classes of its own, one that says nothing of itself, a prefix that cannot be written."""
    if what == "release":
        (machine.java_home / "release").unlink()
    if what == "folder":
        (machine.java_home / "bin" / "java").write_text("#!/bin/sh\nexit 0\n")
        Path(sys.prefix).write_text("a file in the way")

    assert setup(machine, monkeypatch) == 1
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 1
    assert errors[0].startswith("setup:      Spark's classes are not archived: ")


# -- the real one -----

SESSION = """
import sys
sys.prefix = sys.argv[1]
from headrace.process.logs import configure
from spark.session import build_context, stop_context
from spark.slots import ContextJobs
from spark.slots.jobs import warm_workers
from spark.task.entry import NoWork
configure()
session = build_context({"spark.master": "local[1]", "spark.driver.extraJavaOptions": sys.argv[2]}, name="n")
warm_workers(ContextJobs(session), NoWork(), 1)
stop_context(session)
"""


def run(*code: str) -> subprocess.CompletedProcess[str]:
    """A process of its own: Spark allows one session in each."""
    return subprocess.run(
        [sys.executable, *code], cwd=ROOT, capture_output=True, text=True, check=False, timeout=280
    )


def start(prefix: Path, options: str = "") -> subprocess.CompletedProcess[str]:
    """A session with its first job, and its end."""
    return run("-c", SESSION, str(prefix), options)


def loaded(prefix: Path, log: Path) -> tuple[int, int]:
    """How many classes a session takes from the archive, and how many from jars; it says nothing of it."""
    done = start(prefix, f"-Xlog:class+load:file={log}")
    # Standard output is the command's, the other our log.
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    lines = log.read_text().splitlines()
    archived = sum(line.endswith("source: shared objects file (top)") for line in lines)
    return archived, sum(line.endswith(".jar") for line in lines)


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the command made an archive: half a minute."""
    folder = tmp_path_factory.mktemp("classes")
    left = folder / "share" / "headrace" / ".making-killed"
    left.mkdir(parents=True)
    os.utime(left, (1, 1))
    code = f"import sys; sys.prefix = {str(folder)!r}; from spark.dump_classes import main; sys.exit(main())"
    done = run("-c", code)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "Spark's classes are archived: " in done.stdout.splitlines()[-1]
    # What somebody left who was killed at it is gone.
    assert len(list(left.parent.iterdir())) == 1
    return folder


def made(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[ClassArchive, Path]:
    """The archive of this machine, and its file."""
    monkeypatch.setattr(sys, "prefix", str(prefix))
    archive = fitting_archive(os.environ)  # noqa: TID251  # the Java that the sessions here find
    assert archive is not None
    file = archive.find()
    assert file is not None
    return archive, file


def test_a_session_takes_its_classes_from_the_archive(prefix: Path, tmp_path: Path) -> None:
    """With our collector, compiler and log settings, first job included; and it says nothing of it."""
    archived, read = loaded(prefix, tmp_path / "with")
    before, all_read = loaded(tmp_path, tmp_path / "without")

    assert before == 0
    assert all_read > 5000
    assert archived > 5000
    # What cannot be archived: signed jars, classes of old compilers.
    assert read < all_read / 10


def test_what_java_says_of_a_failure_is_one_line(tmp_path: Path) -> None:
    """Sixty lines of Java where Spark does not start, in a build of an image above all; one says why."""
    code = (
        f"import sys; sys.prefix = {str(tmp_path)!r}; from spark.dump_classes import main; sys.exit(main())"
    )
    done = subprocess.run(
        ["env", "SPARK_LOCAL_IP=unknown.invalid", sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )

    assert done.returncode == 1
    assert done.stdout == "setup:      archiving Spark's classes, for quicker starts ...\n"
    (line,) = done.stderr.splitlines()
    assert line.startswith("setup:      Spark's classes are not archived: Spark did not start with ")
    assert "java.net.UnknownHostException: unknown.invalid" in line


def test_the_order_on_disk_does_not_matter(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An image is unpacked elsewhere: what follows our class path may stand in any order."""
    archive, file = made(prefix, monkeypatch)
    jars = archive.class_path.split(":")
    command = [str(archive.java), *options_for(file), "-Xshare:on", "-cp"]

    for tail, code in ((jars[::-1], 0), (jars, 0)):
        path = ":".join([*jars, *tail])
        assert (
            subprocess.run([*command, path, "-version"], check=False, capture_output=True).returncode == code
        )
    # The proof that it is looked at.
    wrong = subprocess.run(
        [*command, ":".join(jars[::-1]), "-version"], check=False, capture_output=True, text=True
    )
    assert wrong.returncode == 1
    assert "shared class paths mismatch" in wrong.stdout + wrong.stderr


def damaged(file: Path, folder: Path, at: int) -> Path:
    """A copy, of the same size, with other bytes in one place."""
    copy = folder / "share" / "headrace" / file.name
    copy.parent.mkdir(parents=True)
    shutil.copyfile(file, copy)
    with copy.open("r+b") as written:
        written.seek(at)
        written.write(b"not classes " * 8000)
    return copy


def test_a_damaged_archive_is_not_noticed(
    prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session starts on classes from jars, and nothing is written about it."""
    _, file = made(prefix, monkeypatch)
    damaged(file, tmp_path, file.stat().st_size // 2)

    archived, read = loaded(tmp_path, tmp_path / "load")

    assert archived == 0
    assert read > 5000


@pytest.mark.parametrize("part", [0.0, 0.1, 0.9])
def test_wherever_it_is_damaged(
    prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: float
) -> None:
    """Asked of Java alone, which is quick."""
    archive, file = made(prefix, monkeypatch)
    copy = damaged(file, tmp_path, int(file.stat().st_size * part))
    command = [str(archive.java), *options_for(copy), "-cp", archive.class_path]

    done = subprocess.run([*command, "--version"], check=False, capture_output=True, text=True)
    needed = subprocess.run([*command, "-Xshare:on", "-version"], check=False, capture_output=True)

    assert (done.returncode, done.stderr) == (0, "")
    assert "[cds" not in done.stdout
    assert needed.returncode == 1
