"""A standalone Spark cluster: a master and two workers with one core each, as processes."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyspark

from localstack.ports import HOST, free_port
from localstack.steps import PartError

_SPARK_CLASS: Final = Path(pyspark.__file__).parent / "bin" / "spark-class"
_DEPLOY: Final = "org.apache.spark.deploy"
_WORKERS: Final = 2
_JOIN_SECONDS: Final = 300


@dataclass(frozen=True, slots=True)
class Cluster:
    """What runs."""

    master: str
    workers: tuple[int, ...]
    """Process ids; executors are children of theirs."""

    @property
    def options(self) -> dict[str, object]:
        """For a service that works on it, `__` in a name for a dot."""
        return {
            "spark__master": self.master,
            "spark__driver__host": HOST,
            "spark__driver__bindAddress": HOST,
            "spark__executor__memory": "512m",
        }


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A cluster with both workers registered (PartError when they are not in time); ended afterwards."""
    port = free_port()
    master = f"spark://{HOST}:{port}"
    with ExitStack() as stack:

        def start(name: str, *arguments: str) -> tuple[int, Path]:
            log = folder / f"{name}-{port}.log"
            out = stack.enter_context(log.open("wb"))
            process = subprocess.Popen(
                [_SPARK_CLASS, *arguments], stdout=out, stderr=subprocess.STDOUT, cwd=folder
            )
            stack.callback(process.wait, 20)
            stack.callback(process.terminate)
            return process.pid, log

        _, log = start(
            "master",
            *(f"{_DEPLOY}.master.Master", "--host", HOST, "--port", str(port), "--webui-port", "0"),
        )
        workers = []
        for number in range(_WORKERS):
            pid, _ = start(
                f"worker-{number}",
                *(f"{_DEPLOY}.worker.Worker", "--cores", "1", "--memory", "1g", "--webui-port", "0"),
                *("--host", HOST, "--work-dir", str(folder / f"work-{port}-{number}"), master),
            )
            workers.append(pid)
        _until_joined(log)
        yield Cluster(master, tuple(workers))


def _until_joined(log: Path) -> None:
    """Return when the master's log tells of every worker."""
    deadline = time.monotonic() + _JOIN_SECONDS
    while log.read_text().count("Registering worker") < _WORKERS:
        if time.monotonic() > deadline:
            raise PartError(f"Spark's workers did not join in {_JOIN_SECONDS} s: see {log}.")
        time.sleep(0.05)
