"""A worker of Kafka Connect itself, in distributed mode, from its jars: our answers are compared with it."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.request import urlopen

from localstack import jars
from localstack.parts import JAR_FOLDER
from localstack.ports import HOST, free_port
from tests.support import aws, kafka
from tests.support.until import until_sync

SOURCE_CLASS: Final = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK_CLASS: Final = "org.apache.kafka.connect.file.FileStreamSinkConnector"
_LOCK: Final = jars.LOCK.with_name("connect-jars.lock")
_PROPERTIES: Final[Mapping[str, str]] = {
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "offset.storage.partitions": "1",
    "status.storage.partitions": "1",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "plugin.discovery": "service_load",
    "offset.flush.interval.ms": "1000",
    "scheduled.rebalance.max.delay.ms": "0",
}


@contextmanager
def kafka_connect(folder: Path) -> Iterator[int]:
    """The port of a worker that has joined its group; it is ended afterwards. Its log is in the folder."""
    port, group = free_port(), aws.unique("connect")
    properties = {
        "bootstrap.servers": kafka.address(),
        "group.id": group,
        "listeners": f"http://{HOST}:{port}",
        "config.storage.topic": f"{group}-configs",
        "offset.storage.topic": f"{group}-offsets",
        "status.storage.topic": f"{group}-status",
        **_PROPERTIES,
    }
    file, log = folder / "connect.properties", folder / "connect.log"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    paths = [*jars.fetch(JAR_FOLDER), *jars.fetch(JAR_FOLDER, _LOCK)]
    java = shutil.which("java")
    assert java is not None
    argv = [
        *(java, "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", ":".join(map(str, paths))),
        *("org.apache.kafka.connect.cli.ConnectDistributed", str(file)),
    ]
    with log.open("ab") as output:
        process = subprocess.Popen(argv, stdout=output, stderr=output, cwd=folder)
    try:
        until_sync(lambda: _is_healthy(port), seconds=180, what=f"Kafka Connect, see {log}")
        yield port
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()


def _is_healthy(port: int) -> bool:
    try:
        with urlopen(f"http://{HOST}:{port}/health", timeout=60) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
