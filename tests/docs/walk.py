"""A reader of a page: does what stands in its blocks, in order, in a fresh folder against the real parts."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from localstack.ports import free_port
from tests.docs.pages import ROOT, Found
from tests.support import aws, kafka
from tests.support.until import until_sync

# What a page's command needs that a test cannot give, by how it begins.
NOT_RUN: Final[Mapping[str, str]] = {
    "make up": "its fixed ports may be taken; tests/localstack starts the same parts on free ones",
    "make down": "as make up",
    "make test": "this is a test of it",
    "make check": "CI runs it beside the tests",
    "make bench": "a quarter of an hour; tests/bench has its parts",
    "make latency": "six minutes, as above",
    "make faults": "an hour, and tests of its own",
    "make simulate": "minutes, and tests of its own in tests/simulation",
    ".venv/bin/python -m tests.simulation": "as above",
    "make format": "it would change the tree",
    ".venv/bin/python docker/third_party.py": "it would write the page again; tests/deploy compares the two",
    "make image": "minutes of building; tests/deploy builds the same Dockerfile",
    "make clean": "it takes away what this test runs on",
    "source": "each command here finds the environment on its PATH",
    "pip install": "minutes of downloads; the locked install is docker/make-venv, with tests of its own",
    "docker": "needs a container engine",
    "kubectl": "needs a cluster",
}
# Anything else of make is neither run nor passed over: whoever writes it into a page says here which.
RUN_BY_MAKE: Final = ("make demo", "make help", "make setup")
_SECONDS: Final = 120.0
# A target of make first looks whether the environment is complete, and a demo has a broker of its own.
_MAKE_SECONDS: Final = 600.0


@dataclass(slots=True, kw_only=True)
class Walk:
    """A folder with configurations whose names a page uses, and the one service that runs in the background.

    `expect` has, by command, what its output must hold; the command is run again until it does, for 60 s.
    `stop_before` names commands before which the page says to stop the service.
    """

    folder: Path
    bootstrap: str = field(default_factory=kafka.address)
    endpoint: str = field(default_factory=aws.address)
    name: str = field(default_factory=lambda: aws.unique("walk"))
    expect: Mapping[str, str] = field(default_factory=dict)
    stop_before: tuple[str, ...] = ()
    port: int = field(default_factory=free_port)
    rest_port: int = field(default_factory=free_port)
    _service: subprocess.Popen[bytes] | None = None

    @property
    def bucket(self) -> str:
        """The bucket that pages call my-bucket; the topic that they call orders has the same stem."""
        return f"{self.name}-bucket"

    @property
    def topic(self) -> str:
        """The topic that pages call orders."""
        return f"{self.name}-orders"

    def here(self, text: str) -> str:
        """The text with the addresses and names of this walk."""
        own = {
            "http://localhost:4566": self.endpoint,
            "localhost:9092": self.bootstrap,
            "localhost:8085": f"127.0.0.1:{self.port}",
            "localhost:8083": f"127.0.0.1:{self.rest_port}",
            "connectors/orders": f"connectors/{self.name}",
            "my-bucket": self.bucket,
            "2026-01-31T08:30:00Z": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "bench.peek orders": f"bench.peek --bootstrap {self.bootstrap} {self.topic}",
            "topic.name=orders": f"topic.name={self.topic}",
        }
        return re.sub("|".join(map(re.escape, own)), lambda found: own[found[0]], text)

    def write(self, file: str, options: Mapping[str, Any]) -> Path:
        """A configuration of this walk under the name that the page gives it."""
        path = self.folder / file
        ours = {
            "name": self.name,
            "topic": self.topic,
            "bootstrap.servers": self.bootstrap,
            "aws.s3.endpoint": self.endpoint,
            "aws.access.key.id": "test",
            "aws.secret.access.key": "test",
            "aws.s3.bucket.name": self.bucket,
            "aws.s3.region": "us-east-1",
            "http.listen": f"127.0.0.1:{self.port}",
            "state.dir": str(self.folder / "state"),
        }
        if "sqs.queue.url" in options:
            ours["sqs.queue.url"] = f"{self.endpoint}/queue/us-east-1/000000000000/{self.bucket}"
        path.write_text(json.dumps({**options, **ours}, indent=2))
        return path

    def do(self, found: Found) -> None:
        """What one line of a page says, unless it is among those that are not run."""
        if any(found.text.startswith(begin) for begin in NOT_RUN):
            return
        line = self.here(found.text)
        is_service = found.text.startswith("headrace run ") and "--until-idle" not in found.text
        if is_service or found.text in self.stop_before or found.text.startswith("headrace run "):
            self.stop()
        if is_service:
            self._start(line)
        elif "--watch" in found.text:
            self._watch(line)
        else:
            wanted = self.expect.get(found.text, "")
            until_sync(lambda: wanted in self._run(found, line), seconds=60, what=f"{wanted!r} from {found}")

    def stop(self) -> None:
        """End the service as Ctrl-C does; it ends well."""
        if self._service is None:
            return
        self._service.send_signal(signal.SIGINT)
        assert self._service.wait(60) == 0, (self.folder / "service.log").read_text()
        self._service = None

    def close(self) -> None:
        """Leave nothing running, whatever happened."""
        if self._service is not None:
            self._service.kill()
            self._service.wait()

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{_path()}",
            "HOME": str(self.folder),
            "PYTHONPATH": str(ROOT),
            **{name: value for name, value in _java().items() if value},
        }

    def _run(self, found: Found, line: str) -> str:
        is_make = line.startswith("make ")
        assert not is_make or line in RUN_BY_MAKE, f"{found}: run it, or say in {__name__} why not"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line],
            cwd=ROOT if is_make else self.folder,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=_MAKE_SECONDS if is_make else _SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{found} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def _start(self, line: str) -> None:
        with (self.folder / "service.log").open("wb") as log:
            self._service = subprocess.Popen(
                # `exec`, so that the signal reaches Headrace and not a shell.
                ["bash", "-c", f"exec {line}"],
                cwd=self.folder,
                env=self._environment(),
                stderr=log,
            )
        until_sync(self._is_ready, seconds=_SECONDS, what=f"{line} being ready")

    def _is_ready(self) -> bool:
        assert self._service is not None, "it was started"
        assert self._service.poll() is None, (self.folder / "service.log").read_text()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health/ready", timeout=60) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _watch(self, line: str) -> None:
        with subprocess.Popen(
            ["bash", "-c", f"exec {line}"],
            cwd=self.folder,
            env=self._environment(),
            stdout=subprocess.PIPE,
        ) as watching:
            assert watching.stdout is not None
            assert self.name in watching.stdout.readline().decode()
            watching.send_signal(signal.SIGINT)
            assert watching.wait(60) == 0


def _path() -> str:
    return os.environ.get("PATH", os.defpath)  # noqa: TID251 - Java is where the machine says it is


def _java() -> dict[str, str | None]:
    return {"JAVA_HOME": os.environ.get("JAVA_HOME")}  # noqa: TID251 - as above
