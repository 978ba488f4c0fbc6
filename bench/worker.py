"""A `headrace worker` as a process, and the connectors in it."""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from bench.stage import NotReadyError, Stage, StageError, says_ready
from localstack.ports import free_port

_PATIENCE_SECONDS: Final = 300.0
# What a worker's own file has for all of its connectors.
_OF_THE_WORKER: Final = ("bootstrap.servers", "state.dir")


class Worker:
    """One worker on a stage, whose connectors are made by requests; whoever launches it stops it."""

    def __init__(self, on_stage: Stage, name: str, **options: object) -> None:
        self._stage = on_stage
        self._port, self._http_port = free_port(), free_port()
        self.log = on_stage.folder / f"{name}.log"
        self._file = on_stage.folder / f"{name}.properties"
        lines = {
            "bootstrap.servers": on_stage.bootstrap,
            "group.id": name,
            "config.storage.replication.factor": 1,
            "listeners": f"http://127.0.0.1:{self._port}",
            "http.listen": f"127.0.0.1:{self._http_port}",
            "state.dir": on_stage.folder / "state",
        } | {option.replace("__", "."): value for option, value in options.items()}
        self._file.write_text("".join(f"{option}={value}\n" for option, value in lines.items()))
        self._process: subprocess.Popen[bytes] | None = None

    def launch(self) -> None:
        """Start it, and wait for nothing."""
        argv = [str(Path(sys.executable).with_name("headrace")), "worker", str(self._file)]
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(argv, stdout=output, stderr=output)

    def launch_again(self) -> None:
        """Start it once more where it has ended: launched before its broker, it waits only so long for it."""
        if self._running().poll() is not None:
            self.launch()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._running().pid

    def await_ready(self, seconds: float) -> None:
        """Return once it is; StageError with its log's end when it ended, or is not in time."""
        self.until(lambda: says_ready(self._http_port, timeout=10), "a ready worker", seconds)

    def put(self, name: str, config: Mapping[str, object]) -> None:
        """Create a connector; what the worker's own file has is left out."""
        own = {option: _text(value) for option, value in config.items() if option not in _OF_THE_WORKER}
        self._ask("PUT", f"/connectors/{name}/config", own)

    def connectors(self) -> dict[str, Any]:
        """What `/status` says of each connector, by name."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._http_port}/status", timeout=60) as answer:
            found: dict[str, Any] = json.load(answer)["connectors"]
        return found

    def status(self, name: str) -> Any:
        """What `/connectors/NAME/status` says; None while there is none, StageError once it has failed."""
        url = f"http://127.0.0.1:{self._http_port}/connectors/{name}/status"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                said = json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return None
        if said["role"] == "failed":
            raise StageError(f"The connector {name} has failed: {said['problems']}")
        return said

    def is_ready(self, name: str) -> bool:
        """Whether this connector says so."""
        said = self.status(name)
        return said is not None and bool(said["ready"])

    def until(self, condition: Callable[[], bool], what: str, seconds: float, *, every: float = 0.05) -> None:
        """Return once it is so; StageError when it is not in time, or the worker has ended.

        Looked at every so many seconds: where a look takes the worker's time, and many are needed, seldom.
        """
        deadline = time.monotonic() + seconds
        while not condition():
            if (code := self._running().poll()) is not None:
                raise StageError(f"headrace worker ended with {code}:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise NotReadyError(f"There was no {what} within {seconds:.0f} s:\n{self.tail()}")
            time.sleep(every)

    def stop(self) -> int:
        """SIGTERM, and the exit code; kill after 60 s. Does nothing when it does not run."""
        if self._process is None:
            return 0
        self._process.terminate()
        try:
            return self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def tail(self, lines: int = 15) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            raise StageError("The worker was not launched.")
        return self._process

    def _ask(self, method: str, path: str, body: Mapping[str, str] | None = None) -> None:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                urllib.request.urlopen(request, timeout=100).close()  # noqa: S310 - our own server
            except urllib.error.HTTPError as error:
                with error:
                    # Momentarily, as Connect's workers answer: on a busy machine a worker may lose its lead.
                    if error.code != HTTPStatus.CONFLICT or time.monotonic() > deadline:
                        raise StageError(f"{method} {path}: {error.code} {error.read().decode()}") from error
                time.sleep(1)
            else:
                return


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
