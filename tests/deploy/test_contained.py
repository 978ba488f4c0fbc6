"""Headrace as the image runs it: not root, read-only, process 1; and in an engine, where there is one."""

import json
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from localstack.ports import free_port
from tests.deploy.contained import FOLDER, Contained, missing
from tests.support import aws
from tests.support.service import Route, new_route, rows
from tests.support.until import until_sync

TOP = Path(__file__).parents[2]

pytestmark = [pytest.mark.parts, pytest.mark.long, pytest.mark.timeout(600)]


def healthy(port: int) -> bool:
    """What the image's health check says."""
    url = f"http://127.0.0.1:{port}/health/live"
    done = subprocess.run([sys.executable, TOP / "docker" / "health", url], capture_output=True, check=False)
    return done.returncode == 0


def ready(port: int) -> bool:
    """What an orchestrator asks."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=60) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@contextmanager
def contained(route: Route, port: int) -> Iterator[Contained]:
    """Headrace on this route with the image's default arguments but the port."""
    lacking = missing()
    if lacking is not None:
        pytest.skip(f"this machine lacks {lacking}: Headrace was NOT run as its container runs it")
    folder = route.folder / "writable"
    folder.mkdir()
    options = route.options(state__dir=None, name=aws.unique("contained"))
    (folder / "headrace.json").write_text(json.dumps(options))
    argv = ["headrace", "run", str(FOLDER / "headrace.json"), "--set", f"http.listen=0.0.0.0:{port}"]
    with (route.folder / "contained.log").open("wb") as log:
        process = Contained(folder, argv, log)
        try:
            yield process
        finally:
            process.kill()


def test_it_works_read_only_without_rights_and_stops_as_process_1(tmp_path: Path) -> None:
    """It needs /tmp and its state folder, nothing else; SIGTERM of an engine is a clean stop."""
    route, port = new_route(tmp_path), free_port()
    log = tmp_path / "contained.log"
    with contained(route, port) as process:
        until_sync(lambda: ready(port) or not process.is_running, seconds=240, what="readiness")
        assert process.is_running, log.read_text()
        assert healthy(port)
        rights = process.rights
        assert rights["NSpid"][-1] == "1"
        assert set(rights["Uid"]) == {"10001"}
        assert {int(rights[name][0], 16) for name in ("CapEff", "CapPrm", "CapBnd", "CapInh")} == {0}
        route.upload("one.jsonl", rows("one", 1000))
        route.await_rows(seconds=120)
        assert route.account() == (0, 0)

        began = time.monotonic()
        process.terminate()
        assert process.wait(60) == 0, log.read_text()
        assert time.monotonic() - began < 30
    said = log.read_text()
    assert "Read-only file system" not in said
    assert "cache_relocated" not in said, "the state folder was not used"
    assert list((tmp_path / "writable" / "headrace").glob("*/ledger.sqlite3"))


def engine() -> str | None:
    """An engine that answers; None when there is none."""
    for name in ("docker", "podman"):
        if shutil.which(name) is not None:
            tried = subprocess.run([name, "info"], capture_output=True, check=False, timeout=60)
            if tried.returncode == 0:
                return name
    return None


def test_the_image_is_built_and_runs(tmp_path: Path) -> None:
    """The real thing, where it can be had."""
    found = engine()
    if found is None:
        pytest.skip("no container engine answers: the image was NOT built")
    tag = aws.unique("headrace-test")
    subprocess.run([found, "build", "--tag", tag, str(TOP)], check=True, timeout=500)
    try:
        route, port = new_route(tmp_path), free_port()
        file = tmp_path / "headrace.json"
        file.write_text(json.dumps(route.options(state__dir=None, name=aws.unique("image"))))
        file.chmod(0o644)
        arguments = [
            "--detach", "--read-only", "--tmpfs", "/tmp", "--tmpfs", "/var/lib/headrace:uid=10001",  # noqa: S108  # a path in the container
            "--network", "host", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
            "--volume", f"{file}:/etc/headrace/headrace.json:ro", tag,
            "run", "/etc/headrace/headrace.json", "--set", f"http.listen=0.0.0.0:{port}",
        ]  # fmt: skip
        container = subprocess.check_output([found, "run", *arguments], text=True).strip()
        try:
            until_sync(lambda: ready(port), seconds=120, what="readiness")
            route.upload("one.jsonl", rows("one", 1000))
            route.await_rows(seconds=60)
            subprocess.run([found, "stop", "--time", "45", container], check=True)
            ended = subprocess.check_output([found, "wait", container], text=True).strip()
            assert ended == "0"
        finally:
            subprocess.run([found, "rm", "--force", container], check=True, capture_output=True)
    finally:
        subprocess.run([found, "rmi", "--force", tag], check=True, capture_output=True)
