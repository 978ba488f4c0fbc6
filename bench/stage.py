"""A stage for demo and benchmarks: the real parts, a bucket with its queue, and `headrace` as a process.

The scripts of this folder run from the top of the tree: `python -m bench.demo`.
"""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from botocore.config import Config
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from localstack_client.session import Session

from localstack.parts import Parts
from localstack.ports import free_port
from localstack.steps import say

# A topic that was just made answers so, until its leader is known.
_SOON = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)


class StageError(Exception):
    """Something on the stage did not happen in time; the text says what and shows the end of the log."""


class NotReadyError(StageError):
    """The service ran, and was not ready in time."""


class Stage:
    """Parts that run, a bucket, and a folder for configuration and logs."""

    def __init__(self, parts: Parts, folder: Path) -> None:
        self.folder = folder
        self.bootstrap = parts.broker.bootstrap
        self.endpoint = parts.emulator.endpoint
        self.parts = parts
        self._lookers: dict[str, Consumer] = {}
        self._partitions: dict[str, tuple[int, ...]] = {}
        self.s3: Any = self._client("s3")
        self.sqs: Any = self._client("sqs")

    @cached_property
    def admin(self) -> AdminClient:
        """A client for topics, which connects at once: there may be a stage before there is its broker."""
        # It outlives the broker by a moment, which is nothing to log.
        return AdminClient({"bootstrap.servers": self.bootstrap, "log.connection.close": False})

    def _client(self, service: str) -> Any:
        options = Config(s3={"addressing_style": "path"}, max_pool_connections=32)
        host = urlsplit(self.endpoint).netloc
        session = Session("test", "test", region_name="us-east-1", localstack_host=host)
        return session.client(service, config=options)

    def make_bucket(self, name: str) -> None:
        """An empty bucket."""
        self.s3.create_bucket(Bucket=name)

    def make_queue(self, name: str) -> str:
        """The URL of a queue that gets the notifications of nobody yet."""
        return str(self.sqs.create_queue(QueueName=name)["QueueUrl"])

    def make_topic(self, name: str, partitions: int) -> None:
        """A topic, there when this returns."""
        self.admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)

    def drop_topic(self, name: str) -> None:
        """Delete a topic: twenty million records each would fill a disk."""
        self.admin.delete_topics([name])[name].result(30)

    def configuration(self, **options: object) -> dict[str, object]:
        """Options of a Headrace configuration for this stage, with `__` in a name for a dot."""
        common: dict[str, object] = {
            "bootstrap.servers": self.bootstrap,
            "aws.s3.endpoint": self.endpoint,
            "aws.s3.region": "us-east-1",
            "aws.access.key.id": "test",
            "aws.secret.access.key": "test",
            "state.dir": str(self.folder / "state"),
        }
        return common | {name.replace("__", "."): value for name, value in options.items()}

    def daemon_pids(self) -> dict[str, int]:
        """The processes of the broker and of S3."""
        daemons = {"broker": self.parts.broker.daemon, "S3": self.parts.emulator.daemon}
        return {name: daemon.pid for name, daemon in daemons.items() if daemon.pid is not None}

    def service(self, name: str, options: Mapping[str, object]) -> "Service":
        """A `headrace` with this configuration, not started."""
        return Service(self.folder, name, options)

    def ends(self, topic: str, isolation: str = "read_committed") -> dict[int, int]:
        """Where each partition of a topic ends for a reader of that isolation level.

        Asked over a kept connection: a new client for each look would cost more than what it measures.
        """
        if isolation not in self._lookers:
            self._lookers[isolation] = Consumer(
                {"bootstrap.servers": self.bootstrap, "group.id": "ends", "isolation.level": isolation}
            )
        looker = self._lookers[isolation]
        # A topic that was just made may be listed without partitions yet.
        if not self._partitions.get(topic):
            self._partitions[topic] = tuple(looker.list_topics(topic, timeout=30).topics[topic].partitions)
        return {number: _end(looker, TopicPartition(topic, number)) for number in self._partitions[topic]}

    def close(self) -> None:
        """Let go of the connections that were kept."""
        for looker in self._lookers.values():
            looker.close()
        # Closed when nobody has it any more, it does not log each attempt to reach a broker that has ended.
        self.__dict__.pop("admin", None)

    def read(self, topic: str, *, until: Callable[[], bool]) -> Iterator[Any]:
        """Committed messages of a topic from its start; ends when `until` is true and nothing is left."""
        partitions = self.ends(topic)
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "stage-reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,
                "auto.offset.reset": "earliest",
            }
        )
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        ended: set[int] = set()
        try:
            while True:
                # Not `consume` with a time: it would wait all of it for the ten thousandth message.
                first = consumer.poll(0.05)
                messages = [] if first is None else [first, *consumer.consume(10000, 0)]
                for message in messages:
                    error = message.error()
                    if error is None:
                        ended.discard(message.partition())
                        yield message
                    elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                        ended.add(int(message.partition() or 0))
                    else:
                        raise StageError(f"Reading {topic} failed: {error}")
                if len(ended) == len(partitions) and until():
                    return
        finally:
            consumer.close()


def _end(looker: Consumer, place: TopicPartition) -> int:
    """Where a partition ends; one that was just made may have no leader for a moment."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return int(looker.get_watermark_offsets(place, timeout=30)[1])
        except KafkaException as error:
            if error.args[0].code() not in _SOON or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def says_ready(port: int, *, timeout: float) -> bool:
    """Whether the readiness endpoint at this port of the machine answers so in time."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=timeout) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


class Service:
    """One `headrace` process: its configuration file, its log, its endpoints."""

    def __init__(self, folder: Path, name: str, options: Mapping[str, object]) -> None:
        self.port = free_port()
        # Two instances of one name are two processes, each with its own file and log.
        stem = f"{name}-{self.port}"
        self.file = folder / f"{stem}.json"
        self.log = folder / f"{stem}.log"
        self.file.write_text(
            json.dumps({"name": name, **options, "http.listen": f"127.0.0.1:{self.port}"}, indent=2)
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None

    def command(self, verb: str, *arguments: str) -> None:
        """Run a command of Headrace on this configuration to its end, showing what it prints."""
        argv = [str(Path(sys.executable).with_name("headrace")), verb, str(self.file), *arguments]
        code = subprocess.run(argv, check=False).returncode
        if code != 0:
            raise StageError(f"`headrace {verb}` ended with {code}.")

    @property
    def pid(self) -> int:
        """Process id of the running service."""
        if self._process is None:
            raise StageError("The service is not running.")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """True between a start and the end of the process."""
        return self._process is not None and self._process.poll() is None

    def start(self, *arguments: str, ready_seconds: float = 300) -> None:
        """Start `headrace run`, wait until it is ready; not in time, it is killed (NotReadyError)."""
        process = self.launch(*arguments)
        deadline = time.monotonic() + ready_seconds
        while not self.is_ready():
            if process.poll() is not None:
                raise StageError(f"headrace ended with {process.returncode}:\n{self.tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise NotReadyError(f"headrace is not ready after {ready_seconds:.0f} s:\n{self.tail()}")
            time.sleep(0.05)

    def launch(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start `headrace run`, and wait for nothing."""
        argv = [str(Path(sys.executable).with_name("headrace")), "run", str(self.file), *arguments]
        if self._output is None:
            self._output = self.log.open("ab")
        self._process = subprocess.Popen(argv, stderr=self._output, stdout=self._output)
        return self._process

    def is_ready(self) -> bool:
        """True when the readiness endpoint says so."""
        return says_ready(self.port, timeout=2)

    def status(self) -> Any:
        """What `/status` says."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/status", timeout=60) as answer:
            return json.load(answer)

    def wait(self, seconds: float) -> int:
        """The exit code, once the process ends by itself."""
        if self._process is None:
            raise StageError("The service is not running.")
        return self._process.wait(seconds)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process itself: SIGKILL, SIGSTOP, SIGCONT; none to one that has ended."""
        if self._process is None:
            raise StageError("The service is not running.")
        # Not by its number, which may be another's once it has ended: numbers come round in minutes here.
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill with -9, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        self.wait(60)
        self._forget()

    def stop(self) -> int:
        """SIGTERM, and the exit code; kill after two minutes. Does nothing when it is not running."""
        if self._process is None:
            return 0
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(120)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._forget()
        return code

    def _forget(self) -> None:
        self._process = None
        if self._output is not None:
            self._output.close()
            self._output = None

    def tail(self, lines: int = 15) -> str:
        """The end of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


@contextmanager
def stage(
    name: str, *, lasting: bool = True, meanwhile: Callable[[Stage], None] | None = None
) -> Iterator[Stage]:
    """A stage with parts of its own on free ports, all gone afterwards (the logs too, unless it failed).

    `meanwhile` is called before the parts are started, with a stage on which nothing answers yet.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"headrace-{name}-"))
    parts = Parts(
        state=folder / "parts", kafka_port=free_port(), localstack_port=free_port(), lasting=lasting
    )
    try:
        made = Stage(parts, folder)
        if meanwhile is not None:
            meanwhile(made)
        parts.up(keep=False)
        try:
            yield made
        finally:
            made.close()
    except BaseException:
        say(name, f"it did not end well; logs are in {folder}")
        parts.down()
        raise
    # The pid files are in the folder: first they end, then away with it.
    parts.discard()
    shutil.rmtree(folder, ignore_errors=True)
