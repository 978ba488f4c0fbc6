"""A real Apache Kafka broker (KRaft, one node) from its jars, without Docker."""

import hashlib
import shutil
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from localstack import jars
from localstack.daemon import Daemon
from localstack.ports import HOST, is_listening, refuse_taken_port
from localstack.steps import PartError, say, step

# A machine that is busy with much else takes a minute.
_START_SECONDS = 180
# A broker for tests: small, at once, and strict where production is (no topic made by accident).
_PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "inter.broker.listener.name": "PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "auto.create.topics.enable": "false",
    "num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # A killed broker may register again only when its old session is over: 3 s rather than 9.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # The default of 128 MiB would be a quarter of the heap below.
    "log.cleaner.dedupe.buffer.size": "16777216",
    # Tests write records of 1970; a slow one would find them gone.
    "log.retention.ms": "-1",
}
_JAVA_OPTIONS = (
    "-Xmx512m",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)
# Of tests and of demos, which last minutes: optimising what is run for so short takes half of its CPU.
QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
"""The JVM writes what it thinks of an archive to its log."""
_FEATURES = "bootstrap.checkpoint"
_SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_LASTING = ("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")


class Broker:
    """One broker: its listener at `127.0.0.1:port`, its controller's, and all it keeps in `folder`.

    `properties` are lines of server.properties added to, or in place of, those above: limits, an authorizer.
    `listeners` adds named listeners to the plain one, such as `{"SASL://127.0.0.1:9095": "SASL_PLAINTEXT"}`;
    `java_options` go to the JVM, `format_options` (SCRAM users) to the storage tool; `more_classes` are added
    to its class path. One that is `lasting` is optimised while it runs, as brokers under load are.
    Every broker is apart: tests start a second one with a folder and ports of its own.
    """

    def __init__(
        self,
        *,
        folder: Path,
        jar_folder: Path,
        port: int,
        controller_port: int | None = None,
        properties: Mapping[str, str] | None = None,
        listeners: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
        format_options: Sequence[str] = (),
        more_classes: Sequence[Path] = (),
        lasting: bool = False,
    ) -> None:
        self.folder = folder.resolve()
        """All that it keeps."""
        self._jar_folder = jar_folder.resolve()
        self._port = port
        self._controller_port = port + 1 if controller_port is None else controller_port
        self._properties = properties or {}
        self._listeners = listeners or {}
        self._java_options = (*_JAVA_OPTIONS, *(_LASTING if lasting else _SHORT_LIVED), *java_options)
        self._format_options = format_options
        self._more_classes = more_classes
        self.daemon = Daemon("kafka", self.folder)

    @property
    def bootstrap(self) -> str:
        """Where clients start: `host:port` of the plain listener."""
        return f"{HOST}:{self._port}"

    def start(self) -> None:
        """Start with the data that is there, formatting the storage when there is none.

        Does nothing when this broker runs already. Blocks until it answers; PartError when it does not.
        """
        if self.daemon.is_running_at(self.bootstrap):
            say("kafka", f"already running at {self.bootstrap} (pid {self.daemon.pid})")
            return
        refuse_taken_port("kafka", self._port, "KAFKA_PORT")
        refuse_taken_port("kafka", self._controller_port, "KAFKA_PORT (its controller takes the next port)")
        paths = jars.fetch(self._jar_folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        configuration = self.folder / "server.properties"
        configuration.write_text(
            "".join(f"{name}={value}\n" for name, value in self._all_properties().items())
        )
        java = [
            _java(),
            *_archived(paths, self._java_options),
            *self._java_options,
            "-cp",
            ":".join(map(str, [*paths, *self._more_classes])),
        ]
        if not (self.folder / "data" / "meta.properties").exists():
            self._format(java, configuration)
        with step("kafka", f"starting the broker at {self.bootstrap}"):
            self.daemon.start(
                [*java, "kafka.Kafka", str(configuration)],
                address=self.bootstrap,
                folder=self.folder,
                environment={},
            )
            self._wait_until_it_answers()

    def stop(self) -> bool:
        """Shut down in good order and keep the data; True when it ran."""
        with step("kafka", "stopping the broker"):
            return self.daemon.stop()

    def kill(self) -> None:
        """End it as a crash would (SIGKILL) and keep the data."""
        self.daemon.kill()

    def wipe(self) -> None:
        """Forget all data of a stopped broker."""
        if self.daemon.pid is not None:
            raise PartError(f"the broker at {self.bootstrap} runs; stop it before wiping its data")
        shutil.rmtree(self.folder / "data", ignore_errors=True)

    def _all_properties(self) -> dict[str, str]:
        plain, controller = f"PLAINTEXT://{self.bootstrap}", f"CONTROLLER://{HOST}:{self._controller_port}"
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"} | {
            address.partition("://")[0]: protocol for address, protocol in self._listeners.items()
        }
        return (
            _PROPERTIES
            | {
                "listeners": ",".join([plain, controller, *self._listeners]),
                "advertised.listeners": ",".join([plain, *self._listeners]),
                "listener.security.protocol.map": ",".join(f"{name}:{p}" for name, p in protocols.items()),
                "controller.quorum.voters": f"1@{HOST}:{self._controller_port}",
                "log.dirs": str(self.folder / "data"),
            }
            | dict(self._properties)
        )

    def _format(self, java: Sequence[str], configuration: Path) -> None:
        cluster_id, data = _new_id(), self.folder / "data"
        # Which features a cluster begins with is all that formatting finds out, the same each time: a second
        # of CPU. The lock is part of the name, as another Kafka has others.
        digest = hashlib.sha256(jars.LOCK.read_bytes()).hexdigest()
        kept = self._jar_folder / f"bootstrap-{digest[:16]}.checkpoint"
        if not self._format_options and kept.exists():
            data.mkdir(exist_ok=True)
            shutil.copyfile(kept, data / _FEATURES)
            identity = {"version": 1, "node.id": 1, "cluster.id": cluster_id, "directory.id": _new_id()}
            (data / "meta.properties").write_text("".join(f"{name}={it}\n" for name, it in identity.items()))
            return
        tool = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", str(configuration)]
        with step("kafka", "formatting the storage"):
            done = subprocess.run(
                [*java, *tool, *self._format_options], capture_output=True, text=True, check=False
            )
        if done.returncode != 0:
            raise PartError(f"the storage of the broker could not be formatted:\n{done.stdout}{done.stderr}")
        if not self._format_options:
            made = self._jar_folder / f"{kept.name}-{cluster_id}"
            shutil.copyfile(data / _FEATURES, made)
            made.replace(kept)

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not is_listening(self._port):
            if self.daemon.pid is None or time.monotonic() > deadline:
                raise PartError(f"the broker did not start; {self.daemon.last_words()}")
            time.sleep(0.05)
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        try:
            admin.list_topics(timeout=max(1.0, deadline - time.monotonic()))
        except KafkaException as error:
            raise PartError(f"the broker listens at {self.bootstrap} but does not answer: {error}") from error


def _new_id() -> str:
    """An id as Kafka writes one; it must not begin with a hyphen, which would be an option."""
    return urlsafe_b64encode(b"h" + uuid.uuid4().bytes[1:]).decode().rstrip("=")


def class_archive(paths: Sequence[Path]) -> Path | None:
    """Where the archive of the jars' classes for this Java belongs, made or not; None for an unknown one."""
    java = Path(_java()).resolve()
    try:
        release = (java.parent.parent / "release").read_bytes()
    except OSError:
        return None
    # The JVM compares sizes and times, too; here they let a new archive be made.
    traits = [f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in paths]
    print_ = hashlib.sha256(b"\0".join([release, *(trait.encode() for trait in traits)])).hexdigest()
    return paths[0].parent / f"classes-{print_[:16]}.jsa"


def _archived(paths: Sequence[Path], given: Sequence[str]) -> list[str]:
    """Options to use the archive of classes where there is one, and to say nothing where it does not fit."""
    archive = class_archive(paths)
    if archive is None or not archive.exists() or any("ArchiveClasses" in option for option in given):
        return []
    return [
        f"-XX:SharedArchiveFile={archive}",
        "-XX:+VerifySharedSpaces",
        "-Xlog:cds=off",
        "-Xlog:cds+dynamic=off",
    ]


def _java() -> str:
    java = shutil.which("java")
    if java is None:
        raise PartError("there is no java on PATH; install a Java 17 runtime")
    return java
