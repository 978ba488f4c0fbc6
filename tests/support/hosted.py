"""A connector on a worker that many tests share: its start is a request, a process of its own takes seconds.

For tests of what a connector does with objects and records. What a process does (log, signals, exit codes,
a death) has a `Service` of its own.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.support.until import until_sync
from tests.support.worker_process import WorkerProcess

# What a worker's own file says for all of its connectors.
_OF_THE_WORKER: Final = ("bootstrap.servers", "state.dir", "http.listen", "name")


@dataclass(slots=True, kw_only=True)
class Hosted:
    """One connector, not created yet; whoever starts it stops it."""

    worker: WorkerProcess
    name: str
    options: Mapping[str, object] = field(default_factory=dict)

    @property
    def port(self) -> int:
        """Where the metrics of all connectors are, each with the label `connector`."""
        return self.worker.http_port

    @property
    def log(self) -> Path:
        """The log of the worker: lines of all of its connectors."""
        return self.worker.log

    def start(self, ready_seconds: float = 300) -> None:
        """Create it and return once it is ready; AssertionError with what it says, refused or late."""
        config = {name: _text(value) for name, value in self.options.items() if name not in _OF_THE_WORKER}
        code, answer = self.worker.ask("PUT", f"/connectors/{self.name}/config", config)
        assert code == 201, answer
        until_sync(self.is_ready, seconds=ready_seconds, what=f"a ready {self.name}, see {self.worker.log}")

    def is_ready(self) -> bool:
        """Whether `/status` says so; False while there is none, AssertionError once it has failed."""
        try:
            status = self.status()
        except urllib.error.HTTPError:
            return False
        assert status["role"] != "failed", status["problems"]
        return bool(status["ready"])

    def status(self) -> Any:
        """What `/connectors/NAME/status` says, which is `/status` of a process of its own."""
        url = f"http://127.0.0.1:{self.port}/connectors/{self.name}/status"
        with urllib.request.urlopen(url, timeout=60) as answer:
            return json.load(answer)

    def stop(self) -> None:
        """Delete it, which closes and commits what is open; returns once it has ended."""
        code, answer = self.worker.ask("DELETE", f"/connectors/{self.name}")
        assert code in (204, 404), answer
        until_sync(self._is_gone, seconds=60, what=f"the end of {self.name}, see {self.worker.log}")

    def _is_gone(self) -> bool:
        try:
            self.status()
        except urllib.error.HTTPError as error:
            return error.code == 404
        return False


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
