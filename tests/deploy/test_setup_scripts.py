"""The scripts of `make setup` on machines that lack something: one sentence with the fix, and exit code 1."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

DOCKER = Path(__file__).parents[2] / "docker"
# What the scripts use of a machine besides Python, Java and uv.
_TOOLS = ("bash", "cat", "cmp", "dirname", "env", "grep", "mktemp", "rm", "sed", "tail")
_NO_NETWORK = "ERROR: Could not find a version that satisfies the requirement uv==1 (from versions: none)"
_FULL = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"
_OTHER_FILES = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE."


def program(place: Path, body: str) -> Path:
    """An executable script of the shell."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"#!/bin/sh\n{body}\n")
    place.chmod(0o755)
    return place


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder of programs with nothing but what every machine has; the PATH of `run`."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for tool in _TOOLS:
        found = next(Path(one, tool) for one in ("/usr/bin", "/bin") if Path(one, tool).exists())
        (folder / tool).symlink_to(found)
    return folder


def run(machine: Path, script: str, *arguments: Path | str, **environment: str) -> tuple[int, str, str]:
    """Exit code, output and words of a script on this machine."""
    done = subprocess.run(
        [DOCKER / script, *arguments],
        cwd=machine.parent,
        env={"PATH": str(machine), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def is_one_sentence(words: str) -> bool:
    """One line."""
    return words.count("\n") == 1 and words.endswith("\n")


# -- Java -----


def java(says: str, *, code: int = 0) -> str:
    """A program that answers `-version` so."""
    return f"cat >&2 <<'EOF'\n{says}\nEOF\nexit {code}"


@pytest.mark.parametrize(
    "says",
    [
        'openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment',
        'openjdk version "21" 2023-09-19',
        'Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "17.0.1" 2021-10-19',
    ],
)
def test_java_that_will_do(machine: Path, says: str) -> None:
    """Seventeen and newer; nothing is said."""
    program(machine / "java", java(says))

    assert run(machine, "check-java") == (0, "", "")


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (None, "There is no java on PATH; install a Java 17 runtime"),
        (java('java version "1.8.0_202"'), "is Java 8, and Spark needs 17 or newer; install"),
        (java('openjdk version "11.0.2" 2019-01-15'), "is Java 11, and Spark needs 17"),
        (java("gij 4.2"), "is Java of an unknown version, and"),
        (java("Unable to locate a Java Runtime.\nVisit us", code=1), "(Unable to locate a Java Runtime.)"),
    ],
)
def test_java_that_will_not_do(machine: Path, body: str | None, found: str) -> None:
    """None, one that is too old, and one that is only a name."""
    if body is not None:
        program(machine / "java", body)

    code, _, words = run(machine, "check-java")

    assert (code, is_one_sentence(words)) == (1, True)
    assert found in words


def test_java_home_is_where_spark_looks_first(machine: Path) -> None:
    """As Spark's scripts do, so a wrong one is named although the PATH has another."""
    program(machine / "java", java('openjdk version "17.0.15"'))
    home = machine.parent / "jdk"
    code, _, words = run(machine, "check-java", JAVA_HOME=str(home))
    assert (code, words) == (1, f"There is no {home}/bin/java; unset JAVA_HOME, or let it name a Java 17.\n")

    program(home / "bin" / "java", java('openjdk version "11.0.2"'))
    assert f"{home}/bin/java is Java 11" in run(machine, "check-java", JAVA_HOME=str(home))[2]


# -- Python -----


def test_no_python_that_is_new_enough(machine: Path, tmp_path: Path) -> None:
    """An old one is none, whatever it is called."""
    (tmp_path / "a.lock").write_text("one==1\n")
    program(machine / "python3", "exit 1")

    code, _, words = run(machine, "make-venv", tmp_path / "venv", "a.lock")

    assert code == 1
    assert words == "There is no Python 3.11 or newer on PATH; install one, as python3.11 or python3.\n"


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("Error: Command '[.., '-m', 'ensurepip', ..]' returned non-zero", "apt-get install python3-venv"),
        ("Error: [Errno 28] No space left on device: 'x'", "the disk is full; free 3 GB, then repeat"),
        ("Error: [Errno 13] Permission denied: 'x'", "Permission denied: 'x'; mend that, then repeat"),
    ],
)
def test_no_environment_can_be_made(machine: Path, tmp_path: Path, said: str, found: str) -> None:
    """Debian's Python without its package venv, a full disk, another's folder."""
    (tmp_path / "a.lock").write_text("one==1\n")
    program(machine / "python3", f'[ "$2" != venv ] || {{ echo "first"; echo "{said}"; exit 1; }}')

    code, _, words = run(machine, "make-venv", tmp_path / "venv", "a.lock")

    assert (code, is_one_sentence(words)) == (1, True)
    assert f"cannot make the virtual environment {tmp_path}/venv" in words
    assert found in words
    assert not (tmp_path / "venv" / "installed.lock").exists()


# -- packages -----


class Venv:
    """A virtual environment whose pip notes its calls; `fails` has its words, by what is installed."""

    def __init__(self, folder: Path, *, fails: Mapping[str, str] | None = None, settings: str = "") -> None:
        self.folder = folder
        self.calls = folder / "calls"
        cases = "\n".join(
            f"*{asked}*) echo 'WARNING: again' >&2; echo \"{words}\" >&2; exit 1 ;;"
            for asked, words in (fails or {}).items()
        )
        program(
            folder / "bin" / "python",
            f'echo "pip $*" >> {self.calls}\n'
            f'[ "$*" != "-m pip config list" ] || {{ echo "{settings}"; exit 0; }}\n'
            f'case "$*" in\n{cases}\n*) exit 0 ;;\nesac',
        )

    def asked(self) -> list[str]:
        """What pip and uv were started with, without the question for settings."""
        return [call for call in self.calls.read_text().splitlines() if "config list" not in call]


def uv(machine: Path, venv: Venv, body: str = "exit 0", *, options: str = "") -> None:
    """A uv on the machine's PATH, whose help names these options."""
    program(
        machine / "uv",
        f'[ "$1" != --version ] || exit 0\n[ "$3" != --help ] || {{ echo " {options}"; exit 0; }}\n'
        f'echo "uv $* ${{UV_DEFAULT_INDEX-}}" >> {venv.calls}\n{body}',
    )


def test_uv_on_the_path_installs(machine: Path, tmp_path: Path) -> None:
    """With the hashes of the lock, and compiled unless asked otherwise; pip installs nothing."""
    venv = Venv(tmp_path / "venv")
    uv(machine, venv)

    assert run(machine, "install-locked", venv.folder, "a.lock", "b.lock") == (0, "", "")
    assert run(machine, "install-locked", venv.folder, "--no-compile", "a.lock") == (0, "", "")

    first, second = venv.asked()
    python = f"uv pip install --quiet --python {venv.folder}/bin/python"
    assert first.strip() == f"{python} --compile-bytecode --require-hashes --offline -r a.lock -r b.lock"
    assert second.strip() == f"{python} --require-hashes --offline -r a.lock"


def test_the_index_is_asked_for_what_uv_has_not_kept(machine: Path, tmp_path: Path) -> None:
    """Only then: some indexes have PySpark fetched and built again, though it is what the lock names."""
    venv = Venv(tmp_path / "venv")
    uv(
        machine,
        venv,
        'case "$*" in *--offline*) echo "error: Network connectivity is disabled" >&2; exit 1 ;; esac',
    )

    assert run(machine, "install-locked", venv.folder, "--no-compile", "a.lock") == (0, "", "")

    kept, fetched = (call.strip() for call in venv.asked())
    assert kept.endswith(" --require-hashes --offline -r a.lock")
    assert fetched.endswith(" --require-hashes -r a.lock")


def test_an_environment_is_compiled_unless_asked_otherwise(machine: Path, tmp_path: Path) -> None:
    """That of an image is, of which nothing can be written later; that of a tree is when it is imported."""
    venv = Venv(tmp_path / "venv")
    uv(machine, venv)
    program(machine / "python3", "exit 0")
    for name in ("a.lock", "b.lock"):
        (tmp_path / name).write_text(name)

    assert run(machine, "make-venv", venv.folder, "a.lock")[0] == 0
    assert run(machine, "make-venv", venv.folder, "--no-compile", "a.lock", "b.lock")[0] == 0
    said = run(machine, "make-venv", venv.folder, "--no-compile", "a.lock", "b.lock")

    assert ["--compile-bytecode" in call for call in venv.asked()] == [True, False]
    assert said == (0, f"setup:      {venv.folder} has the locked packages already\n", "")


def test_a_uv_that_can_has_pysparks_jars_left_uncompressed(machine: Path, tmp_path: Path) -> None:
    """The wheel that it makes of them is unpacked at once: 15 s less; an older uv refuses the option."""
    venv = Venv(tmp_path / "venv")
    uv(machine, venv, options="--config-settings-package <CONFIG_SETTINGS_PACKAGE>")

    assert run(machine, "install-locked", venv.folder, "--no-compile", "a.lock") == (0, "", "")

    (call,) = venv.asked()
    wanted = "--config-settings-package pyspark:--build-option=--compression=stored"
    assert f" {wanted} --require-hashes --offline -r a.lock" in call


def test_uv_uses_the_index_that_pip_is_set_up_with(machine: Path, tmp_path: Path) -> None:
    """A network with a mirror has it in pip's settings; the environment's word is the last."""
    index = "https://mirror.example/simple"
    settings = f"global.cert='/x'\nglobal.index-url='https://other.example'\n:env:.index-url='{index}'"
    venv = Venv(tmp_path / "venv", settings=settings)
    uv(machine, venv)

    run(machine, "install-locked", venv.folder, "a.lock")
    run(machine, "install-locked", venv.folder, "a.lock", UV_DEFAULT_INDEX="https://own.example")

    assert [call.rpartition(" ")[2] for call in venv.asked()] == [index, "https://own.example"]


def test_without_uv_pip_installs(machine: Path, tmp_path: Path) -> None:
    """It is asked for first, from its own lock; where it cannot be had, pip does what it would have done."""
    venv = Venv(tmp_path / "venv", fails={"uv.lock": _NO_NETWORK})

    assert run(machine, "install-locked", venv.folder, "--no-compile", "a.lock") == (0, "", "")

    asked, done = venv.asked()
    assert asked.endswith(f"-r {DOCKER}/uv.lock")
    assert "--require-hashes" in asked
    assert (
        done
        == "pip -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r a.lock"
    )


def test_where_uv_fails_pip_installs(machine: Path, tmp_path: Path) -> None:
    """In a line; what uv said of it is no matter once pip has done it."""
    venv = Venv(tmp_path / "venv")
    uv(machine, venv, "echo error: no such index >&2\nexit 2")

    code, _, words = run(machine, "install-locked", venv.folder, "a.lock")

    assert (code, words) == (0, "setup:      uv could not install the locked packages; trying pip ...\n")
    assert [call.split()[0] for call in venv.asked()] == ["uv", "uv", "pip"]


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (_NO_NETWORK, f"{_NO_NETWORK}; check the network and pip's index settings, then repeat"),
        (_FULL, "the disk is full; free 3 GB, then repeat"),
        (_OTHER_FILES, "the index has other files than the locks name"),
        ("Killed", "pip failed; check the network"),
    ],
)
def test_packages_that_cannot_be_installed(machine: Path, tmp_path: Path, said: str, found: str) -> None:
    """No network, a full disk, other files under the same names: one sentence."""
    venv = Venv(tmp_path / "venv", fails={"lock": said})

    code, _, words = run(machine, "install-locked", venv.folder, "a.lock")

    assert (code, is_one_sentence(words)) == (1, True)
    assert "the packages of a.lock could not be installed: " in words
    assert found in words


def test_a_full_disk_is_not_tried_twice(machine: Path, tmp_path: Path) -> None:
    """What uv had no room for, pip has none for either."""
    venv = Venv(tmp_path / "venv")
    uv(machine, venv, "echo 'error: failed to write: No space left on device (os error 28)' >&2\nexit 2")

    code, _, words = run(machine, "install-locked", venv.folder, "a.lock")

    assert (code, is_one_sentence(words)) == (1, True)
    assert "the disk is full" in words
    assert [call.split()[0] for call in venv.asked()] == ["uv"]


# -- the image -----


@pytest.mark.parametrize(
    ("engines", "chosen"),
    [
        ({"docker": 0, "podman": 0, "buildah": 0}, "docker build"),
        ({"docker": 1, "podman": 0, "buildah": 0}, "podman build --format docker"),
        ({"docker": 1, "buildah": 0}, "buildah build --format docker"),
    ],
)
def test_the_image_is_built_by_an_engine_that_works(
    machine: Path, engines: Mapping[str, int], chosen: str
) -> None:
    """A client whose daemon does not run is none."""
    for engine, code in engines.items():
        program(machine / engine, f'[ "$1" != info ] || exit {code}\necho "{engine} $*"')
    program(machine / "git", "echo abc")

    code, said, words = run(machine, "build-image", "--build-arg", "A=B")

    arguments = "--build-arg HEADRACE_COMMIT=abc --tag headrace --build-arg A=B ."
    assert (code, said, words) == (0, f"{chosen} {arguments}\n", "")


@pytest.mark.parametrize(
    ("engines", "found"),
    [
        ((), "there is neither docker nor podman nor buildah; install"),
        (("docker",), "as `docker info` fails; "),
    ],
)
def test_no_engine(machine: Path, engines: tuple[str, ...], found: str) -> None:
    """Neither installed nor running: one sentence with what to install."""
    for engine in engines:
        program(machine / engine, "exit 1")

    code, _, words = run(machine, "build-image")

    assert (code, is_one_sentence(words)) == (1, True)
    assert found in words
    assert "apt-get install buildah" in words


@pytest.mark.long
def test_no_network_at_all(tmp_path: Path) -> None:
    """The real Python and the real pip, with an index that no machine has."""
    (tmp_path / "a.lock").write_text(f"one==1 --hash=sha256:{'0' * 64}\n")
    done = subprocess.run(
        [DOCKER / "make-venv", tmp_path / "venv", tmp_path / "a.lock"],
        env={"PATH": os.defpath + f":{Path(sys.base_prefix, 'bin')}"}
        | {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "No matching distribution found for one==1; check the network and pip's index settings" in last
    assert "Traceback" not in done.stdout + done.stderr
    assert not (tmp_path / "venv" / "installed.lock").exists()
