"""LocalStack (S3, SQS, SNS, STS, EventBridge) in a virtual environment of its own, without Docker."""

import hashlib
import json
import shutil
import socket
import subprocess
import sys
import time
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from localstack.daemon import Daemon
from localstack.ports import HOST, refuse_taken_port
from localstack.steps import PartError, say, step

LOCK = Path(__file__).with_name("requirements.lock")
_MAIN = Path(__file__).with_name("whole_completes.py")
INSTALL = Path(__file__).resolve().parent.parent / "docker/install-locked"

_SERVICES = ("s3", "sqs", "sns", "sts", "events")
_START_SECONDS = 90


class Emulator:
    """One LocalStack at `http://127.0.0.1:port`, with its packages in `venv` and all it keeps in `folder`.

    It keeps its state in memory: a stop forgets every bucket and queue.
    """

    def __init__(self, *, folder: Path, venv: Path, port: int) -> None:
        self._folder = folder.resolve()
        self._venv = venv.absolute()
        self._port = port
        self.daemon = Daemon("localstack", self._folder)

    @property
    def endpoint(self) -> str:
        """The address of all its services."""
        return f"http://{HOST}:{self._port}"

    def fetch(self) -> None:
        """Make the virtual environment with exactly the locked packages, unless it is there already."""
        stamp = self._venv / "lock.sha256"
        # The interpreter is part of what is installed: another one needs other wheels.
        wanted = hashlib.sha256(LOCK.read_bytes() + sys.version.encode()).hexdigest()
        if stamp.exists() and stamp.read_text() == wanted:
            return
        shutil.rmtree(self._venv, ignore_errors=True)
        with step("localstack", "installing its locked packages"):
            _run([sys.executable, "-m", "venv", str(self._venv)])
            # Most of its modules are never imported: compiling them all would double the time.
            _run([str(INSTALL), str(self._venv), "--no-compile", str(LOCK)])
        stamp.write_text(wanted)

    def start(self) -> None:
        """Start it unless it runs already. Blocks until S3 answers; PartError when it does not."""
        if self.daemon.is_running_at(self.endpoint):
            say("localstack", f"already running at {self.endpoint} (pid {self.daemon.pid})")
            return
        refuse_taken_port("localstack", self._port, "LOCALSTACK_PORT")
        self.fetch()
        with step("localstack", f"starting it at {self.endpoint}"):
            # -P, and a folder of its own: our folder named localstack must not hide its package.
            argv = [str(self._venv / "bin/python"), "-P", str(_MAIN)]
            self.daemon.start(
                argv, address=self.endpoint, folder=self._folder, environment=self._environment()
            )
            self._wait_until_it_answers()

    def stop(self) -> bool:
        """Stop it, and with it everything in it; True when it ran."""
        with step("localstack", "stopping it"):
            return self.daemon.stop(within_seconds=15)

    def _environment(self) -> dict[str, str]:
        return {
            "SERVICES": ",".join(_SERVICES),
            "GATEWAY_LISTEN": f"{_listening_host()}:{self._port}",
            # Addresses it hands out (queue URLs) have to name the port it really has.
            "LOCALSTACK_HOST": f"{HOST}:{self._port}",
            "SQS_ENDPOINT_STRATEGY": "path",
            "FILESYSTEM_ROOT": str(self._folder / "filesystem"),
            "DNS_ADDRESS": "0",
            "DISABLE_EVENTS": "1",
            "SKIP_SSL_CERT_DOWNLOAD": "1",
            "PYTHONPATH": "",
        }

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not self._is_ready():
            if self.daemon.pid is None or time.monotonic() > deadline:
                raise PartError(f"LocalStack did not start; {self.daemon.last_words()}")
            time.sleep(0.1)

    def _is_ready(self) -> bool:
        """Whether all services are there; listing the buckets makes S3 load now rather than in a test."""
        try:
            services = json.loads(self._get("/_localstack/health"))["services"]
            self._get("/")
        except (OSError, HTTPException, ValueError):
            return False
        return all(services.get(name) in {"available", "running"} for name in _SERVICES)

    def _get(self, path: str) -> bytes:
        with closing(HTTPConnection(HOST, self._port, timeout=30)) as connection:
            connection.request("GET", path)
            return connection.getresponse().read()


def _listening_host() -> str:
    """Loopback in the form that LocalStack keeps to: given an IPv4 host, it listens for everybody.

    So it is given IPv6's way to write the same address, unless this machine has no IPv6 at all.
    """
    mapped = f"::ffff:{HOST}"
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind((mapped, 0))
    except OSError:
        return HOST
    return f"[{mapped}]"


def _run(argv: list[str]) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        # The script's own sentence is its last; of what else fails the last line says most.
        raise PartError(f"{done.stdout}{done.stderr}".strip().rpartition("\n")[2] or f"{argv[0]} failed")
