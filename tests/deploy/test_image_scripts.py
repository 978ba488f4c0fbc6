"""The Dockerfile and the scripts that its steps call, run as far as they run without an engine."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ingest.cli.app import app
from ingest.http.http_server import Response
from ingest.service.endpoints import StatusEndpoints
from localstack.ports import free_port

TOP = Path(__file__).parents[2]
DOCKERFILE = (TOP / "Dockerfile").read_text().replace("\\\n", " ")
HEALTH = TOP / "docker" / "health"


def steps(keyword: str) -> list[str]:
    """What follows the keyword, in each step that begins with it."""
    return re.findall(rf"^{keyword} +(.+)$", DOCKERFILE, re.MULTILINE)


def test_every_run_step_is_a_script_of_the_tree() -> None:
    """So that what builds the image can be read, run and tested without one."""
    scripts = []
    for step in steps("RUN"):
        found = re.fullmatch(r"(?:--mount=\S+ )?/?(docker/[a-z-]+)((?: [\w./${}-]+)*)", step)
        assert found is not None, step
        scripts.append(found[1])
        assert os.access(TOP / found[1], os.X_OK), found[1]

    assert len(scripts) == len(steps("RUN")) >= 6


def test_every_argument_is_declared_in_the_stage_that_uses_it() -> None:
    """One from before the first FROM is empty after it; a label with it would be, too."""
    _, *stages = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)
    used = 0
    for stage in stages:
        _, _, body = stage.partition("\n")
        declared: set[str] = set()
        for line in body.splitlines():
            declared |= set(re.findall(r"^ARG (\w+)", line))
            found = set(re.findall(r"\$\{(\w+)\}", line.partition("#")[0]))
            assert found <= declared, line
            used += len(found)

    assert used >= 2


def test_what_is_copied_is_there_and_not_kept_out() -> None:
    """.dockerignore names what may come in."""
    allowed = {line[1:] for line in (TOP / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    sources = [name for step in steps("COPY") if "--from" not in step for name in step.split()[:-1]]

    assert sources
    for name in sources:
        assert (TOP / name).exists(), name
        assert name.split("/")[0] in allowed, name


def test_all_that_the_wheel_is_made_of_is_copied() -> None:
    """A package or a file that pyproject.toml names and the image lacks would stop its build."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text())
    build = project["tool"]["hatch"]["build"]
    wheel = build["targets"]["wheel"]
    named = {*wheel["packages"], *wheel["force-include"], build["hooks"]["custom"]["path"].split("/")[0]}
    named |= {project["project"]["readme"], *project["project"]["license-files"], "pyproject.toml"}
    copied = {name for step in steps("COPY") if "--from" not in step for name in step.split()[:-1]}

    assert named <= copied


def test_nobody_is_root_and_signals_reach_python() -> None:
    """The exec form of the entry point; a numeric user, which Kubernetes can see is not root."""
    last = DOCKERFILE.rsplit("\nFROM", 1)[1]

    assert json.loads(*re.findall(r"^ENTRYPOINT (.+)$", last, re.MULTILINE)) == ["headrace"]
    assert re.findall(r"^USER (.+)$", last, re.MULTILINE) == ["10001:10001"]
    assert "install --directory --owner=headrace" in (TOP / "docker" / "add-user").read_text()


def test_what_it_runs_by_default_is_a_command_that_there_is(tmp_path: Path) -> None:
    """And its endpoints are reached from outside: the override is one that the settings take."""
    verb, file, *arguments = json.loads(*steps("CMD"))
    assert (verb, file) == ("run", "/etc/headrace/headrace.json")
    configuration = tmp_path / "headrace.json"
    configuration.write_text('{"name": "n", "file.name.template": ".*"}')

    result = CliRunner().invoke(app, [verb, str(configuration), *arguments])

    # It ends at what the file lacks, and has nothing to say about http.listen.
    assert "bootstrap.servers" in str(result.exception) + result.output
    assert "http.listen" not in str(result.exception) + result.output
    assert arguments == ["--set", f"http.listen=0.0.0.0:{steps('EXPOSE')[0]}"]


def test_classes_are_shared_where_they_will_be_used() -> None:
    """By root, in the image that has Java, and in the folder where Headrace stays."""
    last = DOCKERFILE.rsplit("\nFROM", 1)[1]
    ordered = ["install-java", "COPY --from=build /opt/headrace", "share-classes /opt/headrace", "USER "]

    assert sorted(ordered, key=last.index) == ordered


# -- docker/health -----


@pytest.fixture
def endpoints() -> Iterator[str]:
    """Where /health/live answers 200, /health/ready 503."""
    routes = {
        "/health/live": lambda: Response.of_text("live\n"),
        "/health/ready": lambda: Response.of_text("not ready\n", HTTPStatus.SERVICE_UNAVAILABLE),
    }
    made = StatusEndpoints("127.0.0.1", 0, routes)
    made.start()
    yield f"http://127.0.0.1:{made.port}"
    made.close()


def health(*arguments: str, **environment: str) -> tuple[int, str]:
    """Exit code and words of the image's health check."""
    done = subprocess.run(
        [sys.executable, str(HEALTH), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout.strip()


def test_the_health_check_says_what_the_endpoint_says(endpoints: str) -> None:
    """Proxies of the environment are for S3."""
    proxy = "http://127.0.0.1:9"

    assert health(f"{endpoints}/health/live", http_proxy=proxy, HTTP_PROXY=proxy) == (0, "200 live")
    assert health(f"{endpoints}/health/ready") == (1, "503 not ready")


def test_the_health_check_of_nothing_fails() -> None:
    """Refused, in one line."""
    code, said = health(f"http://127.0.0.1:{free_port()}/health/live")

    assert code == 1
    assert "does not answer" in said


# -- the other scripts -----


@pytest.mark.parametrize(("code", "said"), [(0, ""), (1, "setup:      Spark starts without an archive, ")])
def test_spark_starts_without_an_archive(tmp_path: Path, code: int, said: str) -> None:
    """So a failure to make one fails neither `make setup` nor the image."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\n[ "$*" = "-m spark.dump_classes" ] && exit {code}\n')
    python.chmod(0o755)

    done = subprocess.run(
        [TOP / "docker" / "share-classes", tmp_path], check=False, capture_output=True, text=True
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(said)
    assert bool(done.stdout) == bool(said)


@pytest.mark.long
def test_no_build_tools_are_left(tmp_path: Path) -> None:
    """Neither pip nor setuptools can be imported afterwards, and a second time changes nothing."""
    venv.create(tmp_path / "made", with_pip=True)
    python = tmp_path / "made" / "bin" / "python"
    script = TOP / "docker" / "drop-build-tools"
    for _ in range(2):
        subprocess.run([script, python], check=True, stdout=subprocess.DEVNULL)

    left = "import importlib.util as u; print([n for n in ('pip', 'setuptools', 'wheel') if u.find_spec(n)])"
    assert subprocess.check_output([python, "-c", left], text=True).strip() == "[]"
    # The Python that this environment was made with keeps its own.
    assert subprocess.check_output([sys.executable, "-c", "import ensurepip; print(1)"], text=True) == "1\n"


@pytest.mark.long
def test_the_wheel_carries_what_is_no_module(tmp_path: Path) -> None:
    """Built and installed by the image's own scripts; the page and Spark's log settings are data."""
    venv.create(tmp_path / "made", with_pip=True)
    python = tmp_path / "made" / "bin" / "python"
    subprocess.run(
        [TOP / "docker" / "install-headrace", tmp_path / "made"],
        cwd=TOP,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    looked = subprocess.check_output(
        [python, "-I", "-c", "import ingest.http.page as p; print(p.__file__, len(p.status_page()))"],
        text=True,
        cwd=tmp_path,
    )

    file, size = looked.split()
    assert Path(file).is_relative_to(tmp_path)
    assert int(size) > 10_000
    assert (Path(file).parents[3] / "spark" / "log4j2.properties").is_file()
    assert (tmp_path / "made" / "bin" / "headrace").is_file()


@pytest.mark.long
def test_the_user_is_made(tmp_path: Path) -> None:
    """In a mount namespace whose /etc and /var/lib are copies, so that this machine's are not touched."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root and unshare: docker/add-user was NOT run")
    (tmp_path / "lib").mkdir()
    inside = (
        f"cp -a /etc {tmp_path}/etc && mount --bind {tmp_path}/etc /etc"
        f" && mount --bind {tmp_path}/lib /var/lib"
        f" && {TOP}/docker/add-user && getent passwd headrace && stat -c '%u %g %a' /var/lib/headrace"
    )
    said = subprocess.check_output(["unshare", "--mount", "bash", "-euc", inside], text=True).splitlines()

    assert said == ["headrace:x:10001:10001::/var/lib/headrace:/usr/sbin/nologin", "10001 10001 750"]
