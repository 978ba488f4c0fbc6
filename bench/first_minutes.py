"""What a person waits for: the CPU of commands, a start, the recovery after `kill -9`, setup and demo.

    python -m bench.first_minutes [--only commands start recovery setup demo] [--rounds 3] [--running]
        [--json]

Wall time is what a person sees and depends on what else the machine does; CPU seconds next to it are what was
used. Start and recovery run from before the process is started (killed) until a read-committed consumer has
the record of a small object that waits in the bucket. With --running the test services of `make up` are used,
else a broker and an S3 are started on free ports.
"""

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bench import processes
from bench.fresh_tree import fresh_tree, time_make
from bench.latency import Seen
from bench.stage import Service, Stage, StageError, stage
from localstack.parts import CACHE, KAFKA_PORT, LOCALSTACK_PORT, Parts
from localstack.steps import say

HEADRACE: Final = str(Path(sys.executable).with_name("headrace"))
_PATIENCE_SECONDS: Final = 120.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")

_CONFIGURATION: Final = {
    "name": "orders",
    "bootstrap.servers": "127.0.0.1:1",
    "aws.s3.bucket.name": "orders",
    "aws.s3.endpoint": "http://127.0.0.1:1",
    "aws.access.key.id": "test",
    "aws.secret.access.key": "test",
    "sqs.queue.url": "http://127.0.0.1:1/queue/us-east-1/000000000000/orders",
    "file.name.template": "orders/{{topic}}-{{partition}}-{{start_offset}}",
    "input.format": "jsonl",
}
_SINK_OF_AIVEN: Final = {
    "name": "archive",
    "connector.class": "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
    "topics": "orders",
    "aws.s3.bucket.name": "archive",
    "aws.s3.region": "eu-central-1",
    "aws.access.key.id": "test",
    "aws.secret.access.key": "test",
    "format.output.type": "jsonl",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "bootstrap.servers": "127.0.0.1:1",
}
QUIET_COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "--version": ("--version",),
    "--help": ("--help",),
    "lint": ("lint", "{source}"),
    "options": ("options", "rotate."),
    "explain": ("explain", "{source}", "orders/orders-0-12"),
    "translate": ("translate", "{sink}"),
    "policy": ("policy", "{source}"),
}
"""Commands that contact nothing, with the arguments that they are measured with."""
ASKING_COMMANDS: Final = ("check", "plan", "status", "setup")
"""Commands that contact services; they are measured until their first connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One measurement: seconds that passed, CPU seconds, and who used them."""

    seconds: float
    cpu: float
    by: Mapping[str, float] = field(default_factory=dict)
    """CPU seconds of kinds of processes, or seconds of steps."""


# -- commands ----------------------------------------------------------------------------------------------


@contextmanager
def configurations(address: str | None = None) -> Iterator[dict[str, str]]:
    """Files of a source and of another vendor's sink; with an address, all services are there."""
    with TemporaryDirectory() as folder:
        source: dict[str, str] = dict(_CONFIGURATION)
        if address is not None:
            source = {name: value.replace("127.0.0.1:1", address) for name, value in source.items()}
        files = {}
        for name, options in (("source", source), ("sink", _SINK_OF_AIVEN)):
            files[name] = f"{folder}/{name}.json"
            Path(files[name]).write_text(json.dumps(options))
        yield files


def time_command(arguments: tuple[str, ...]) -> Timed:
    """Seconds and CPU of one command, from its start to its end; StageError when it fails."""
    began = time.monotonic()
    process = subprocess.Popen([HEADRACE, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, status, usage = os.wait4(process.pid, 0)
    took = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.stderr is not None
    with process.stderr as words:
        if process.returncode:
            raise StageError(f"headrace {' '.join(arguments)}: {words.read().decode()}")
    return Timed(seconds=took, cpu=usage.ru_utime + usage.ru_stime)


def time_first_request(command: str) -> Timed:
    """Seconds and CPU of a command until it first connects to a service."""
    with socket.create_server(("127.0.0.1", 0)) as listening, TemporaryDirectory() as folder:
        listening.settimeout(_PATIENCE_SECONDS)
        with configurations(f"127.0.0.1:{listening.getsockname()[1]}") as files:
            began = time.monotonic()
            process = subprocess.Popen(
                [HEADRACE, command, files["source"]],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=folder,
            )
            try:
                connection, _ = listening.accept()
                took, cpu = time.monotonic() - began, own_cpu_seconds(process.pid)
                connection.close()
            finally:
                process.kill()
                process.wait()
    return Timed(seconds=took, cpu=cpu)


def own_cpu_seconds(pid: int) -> float:
    """CPU seconds of a process with all of its threads, and of none of its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(one) for one in fields[11:13]) / _TICKS


def measure_commands(rounds: int) -> dict[str, list[Timed]]:
    """Each command, in turn."""
    found: dict[str, list[Timed]] = {}
    with configurations() as files:
        for _ in range(rounds):
            for name, arguments in QUIET_COMMANDS.items():
                argv = tuple(one.format(**files) for one in arguments)
                found.setdefault(name, []).append(time_command(argv))
            for name in ASKING_COMMANDS:
                found.setdefault(f"{name} *", []).append(time_first_request(name))
    return found


# -- start and recovery ------------------------------------------------------------------------------------


class Waiting:
    """A bucket with its queue and topic, and services on it; the names are of this run alone."""

    def __init__(self, on_stage: Stage, name: str) -> None:
        self._stage = on_stage
        self.name = name
        self._count = 0
        on_stage.make_bucket(name)
        self._options = on_stage.configuration(
            aws__s3__bucket__name=name,
            sqs__queue__url=f"{on_stage.endpoint}/queue/us-east-1/000000000000/{name}",
            topic=name,
            topic__creation__default__partitions=1,
            topic__creation__default__replication__factor=1,
            file__name__template=".*",
            input__format="jsonl",
            tasks__max=2,
        )
        self.service().command("setup")
        self.seen = Seen(on_stage, name)

    def service(self, **changes: object) -> Service:
        """A `headrace` on this bucket, not started."""
        options = self._options | {name.replace("__", "."): value for name, value in changes.items()}
        return self._stage.service(self.name, options)

    def upload(self) -> bytes:
        """Upload one small object; the value of its only record."""
        self._count += 1
        value = b'{"number":%d}' % self._count
        self._stage.s3.put_object(Bucket=self.name, Key=f"{self._count:06}.jsonl", Body=value + b"\n")
        return value

    def await_value(self, value: bytes) -> float:
        """The moment at which the record was read."""
        return self.seen.wait(value, _PATIENCE_SECONDS)


def measure_starts(on_stage: Stage, rounds: int) -> dict[str, list[Timed]]:
    """The first start of a name, which makes its ledger, and one more, each with an object that waits."""
    found: dict[str, list[Timed]] = {"first start": [], "start": []}
    for number in range(rounds):
        waiting = Waiting(on_stage, _unique(f"start-{number}"))
        try:
            for times in found.values():
                value = waiting.upload()
                service = waiting.service()
                began = time.monotonic()
                with supervised(service):
                    seconds = waiting.await_value(value) - began
                    by = processes.cpu_seconds(service.pid)
                    times.append(Timed(seconds=seconds, cpu=sum(by.values()), by=by))
        finally:
            waiting.seen.stop()
    return found


def measure_recoveries(on_stage: Stage, rounds: int) -> dict[str, list[Timed]]:
    """`kill -9` of a single instance that is started again at once, and of a leader with a standby."""
    found: dict[str, list[Timed]] = {"killed, started again": [], "killed, standby": []}
    waiting = Waiting(on_stage, _unique("kill"))
    try:
        alone = waiting.service()
        with supervised(alone):
            waiting.await_value(waiting.upload())
            for _ in range(rounds):
                began = time.monotonic()
                os.kill(alone.pid, signal.SIGKILL)
                seconds = waiting.await_value(waiting.upload()) - began
                by = processes.cpu_seconds(alone.pid)
                found["killed, started again"].append(Timed(seconds=seconds, cpu=sum(by.values()), by=by))
        for _ in range(rounds):
            leader, standby = waiting.service(), waiting.service()
            leader.start()
            with supervised(standby):
                _await(standby.is_ready, "a standby that is ready")
                began = time.monotonic()
                leader.kill()
                seconds = waiting.await_value(waiting.upload()) - began
                found["killed, standby"].append(Timed(seconds=seconds, cpu=0.0))
    finally:
        waiting.seen.stop()
    return found


@contextmanager
def supervised(service: Service) -> Iterator[None]:
    """The service runs, and is started again as soon as it ends, as a service manager does; then stopped."""
    over = threading.Event()
    service.launch()

    def watch() -> None:
        while not over.wait(0.02):
            if not service.is_running:
                service.launch()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        service.stop()


def measure_tree(*, with_demo: bool) -> dict[str, list[Timed]]:
    """`make setup` in a fresh tree, and the first `make demo` there with one more; once, for its minutes."""
    found: dict[str, list[Timed]] = {}
    with fresh_tree() as tree:
        for name, target in (("setup", "setup"), ("demo, first", "demo"), ("demo", "demo")):
            if target == "setup" or with_demo:
                seconds, cpu, steps = time_make(tree, target)
                found[name] = [Timed(seconds=seconds, cpu=cpu, by=steps)]
    return found


def _await(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise StageError(f"There was no {what}.")
        time.sleep(0.05)


def _unique(stem: str) -> str:
    return f"headrace-{stem}-{os.getpid()}"


# -- the whole ---------------------------------------------------------------------------------------------


@contextmanager
def services(*, running: bool) -> Iterator[Stage]:
    """The test services that run already, or others."""
    if not running:
        with stage("first-minutes") as made:
            yield made
        return
    parts = Parts(state=CACHE / "parts", kafka_port=KAFKA_PORT, localstack_port=LOCALSTACK_PORT)
    with TemporaryDirectory() as folder:
        made = Stage(parts, Path(folder))
        yield made
        made.close()


def shown(found: Mapping[str, list[Timed]]) -> Table:
    """A row for each: medians, and from the least to the most."""
    table = Table()
    for heading in ("what", "seconds", "least to most", "CPU s", "least to most", "of it"):
        table.add_column(heading)
    for name, times in found.items():
        seconds, cpu = sorted(one.seconds for one in times), sorted(one.cpu for one in times)
        kinds = sorted({kind for one in times for kind in one.by})
        medians = {kind: statistics.median(one.by.get(kind, 0.0) for one in times) for kind in kinds}
        by = ", ".join(f"{kind} {median:.1f}" for kind, median in medians.items())
        table.add_row(name, *_figures(seconds), *_figures(cpu), by)
    return table


def _figures(values: list[float]) -> tuple[str, str]:
    return f"{statistics.median(values):.2f}", f"{values[0]:.2f} to {values[-1]:.2f}"


def main() -> int:
    """Print the figures as a table, or as JSON."""
    phases = ("commands", "start", "recovery", "setup", "demo")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=phases, default=phases)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--running", action="store_true", help="use the test services of `make up`")
    parser.add_argument("--json", action="store_true", help="every measurement, as JSON")
    asked = parser.parse_args()
    found: dict[str, list[Timed]] = {}
    if "commands" in asked.only:
        say("first", "commands (* until their first connection)")
        found |= measure_commands(asked.rounds)
    if {"start", "recovery"}.intersection(asked.only):
        with services(running=asked.running) as on_stage:
            if "start" in asked.only:
                say("first", "starts")
                found |= measure_starts(on_stage, asked.rounds)
            if "recovery" in asked.only:
                say("first", "recoveries")
                found |= measure_recoveries(on_stage, asked.rounds)
    if {"setup", "demo"}.intersection(asked.only):
        say("first", "a fresh tree")
        found |= measure_tree(with_demo="demo" in asked.only)
    if asked.json:
        made: dict[str, Any] = {
            name: [{"seconds": one.seconds, "cpu": one.cpu, **one.by} for one in times]
            for name, times in found.items()
        }
        print(json.dumps({"load": os.getloadavg()[0], **made}, indent=2))
    else:
        Console().print(shown(found))
        print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    return 0


if __name__ == "__main__":
    sys.exit(main())
