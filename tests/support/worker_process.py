"""A `headrace worker` process of a test, and requests to it."""

import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

from bench.stage import says_ready
from localstack.ports import free_port
from tests.support import aws, kafka
from tests.support.rest_request import ask
from tests.support.until import until_sync


@dataclass(slots=True, kw_only=True)
class WorkerProcess:
    """One worker of a group; whoever starts it ends it."""

    folder: Path
    group: str
    port: int = field(default_factory=free_port)
    http_port: int = field(default_factory=free_port)
    arguments: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    """More lines of its file."""
    process: "subprocess.Popen[bytes] | None" = None
    user: str | None = None
    """As `name:password`, where the file has `rest.auth.file`."""

    @property
    def log(self) -> Path:
        """What it has logged."""
        return self.folder / f"worker-{self.port}.log"

    def start(self) -> None:
        """Start it; `await_ready` follows."""
        file = self.folder / f"worker-{self.port}.properties"
        options = {
            "bootstrap.servers": kafka.address(),
            "group.id": self.group,
            "config.storage.replication.factor": "1",
            "listeners": f"http://127.0.0.1:{self.port}",
            "http.listen": f"127.0.0.1:{self.http_port}",
            "session.timeout.ms": "6000",
            "state.dir": str(self.folder / f"state-{self.port}"),
            "status.storage.topic": "connect-status",
        } | dict(self.options)
        file.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
        argv = [str(Path(sys.executable).with_name("headrace")), "worker", str(file), *self.arguments]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(argv, stdout=output, stderr=output, start_new_session=True)

    def await_ready(self, seconds: float = 300) -> None:
        """Return when it has joined its group and Spark is up; AssertionError late, or once it has ended."""

        def is_ready() -> bool:
            ended = self.process is not None and self.process.poll() is not None
            assert not ended, f"the worker has ended, see {self.log}"
            return self.is_ready()

        until_sync(is_ready, seconds=seconds, what=f"a ready worker, see {self.log}")

    def answers(self) -> bool:
        """Whether its REST interface does, whatever it says."""
        try:
            return self.ask("GET", "/")[0] == HTTPStatus.OK
        except OSError:
            return False

    def is_ready(self) -> bool:
        """Whether it says so."""
        return says_ready(self.http_port, timeout=10)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and JSON (None without a body) of a request."""
        return ask(f"http://127.0.0.1:{self.port}{path}", method, body, user=self.user)

    def state(self, name: str) -> str:
        """A connector's state in Connect's words."""
        status, shown = self.ask("GET", f"/connectors/{name}/status")
        return str(shown["connector"]["state"]) if status == 200 else f"{status}"

    def metrics(self) -> str:
        """Its exposition."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}/metrics", timeout=60) as answer:
            return str(answer.read().decode())

    def status(self) -> Any:
        """Its `/status`."""
        return ask(f"http://127.0.0.1:{self.http_port}/status")[1]

    def await_log(self, event: str) -> None:
        """Return when it has logged this event."""
        until_sync(lambda: event in self.log.read_text(), seconds=60, what=f"{event} in {self.log}")

    def kill(self) -> None:
        """As the kernel does it."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> int:
        """As a service manager does it; its exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(60)


def source_config(bucket: str, topic: str, **changes: str) -> dict[str, str]:
    """A source of JSON lines; `__` in a name for a dot."""
    own = {
        "connector.class": "HeadraceSource",
        "topic": topic,
        "file.name.template": ".*",
        "input.format": "jsonl",
        "poll.interval.ms": "500",
    }
    return _config(bucket, own, changes)


def sink_config(bucket: str, topic: str, **changes: str) -> dict[str, str]:
    """A sink; `__` in a name for a dot."""
    own = {"connector.class": "HeadraceSink", "topics": topic, "rotate.age.ms": "500"}
    return _config(bucket, own, changes)


def _config(bucket: str, own: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    common = {
        "aws.s3.endpoint": aws.address(),
        "aws.access.key.id": "test",
        "aws.secret.access.key": "test",
        "aws.s3.bucket.name": bucket,
        "lead.session.timeout.ms": "6000",
        "tasks.max": "1",
    }
    return common | dict(own) | {name.replace("__", "."): value for name, value in changes.items()}
