"""The real Dockerfile built and run: it ingests, archives, is killed, starts again, and runs on a cluster."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from localstack.ports import free_port
from tests.deploy.built_image import STATE, Container, Image, Store, missing
from tests.deploy.test_contained import ready
from tests.support import aws, kafka
from tests.support.service import Route, new_route, rows
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.long, pytest.mark.timeout(2400)]

_MOST_BYTES = 1_100_000_000
_SPARK_CLASS = "/opt/headrace/lib/python3.11/site-packages/pyspark/bin/spark-class"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """Built once: six minutes, and 4 GB of disk until the module is over."""
    if (lacking := missing()) is not None:
        pytest.skip(f"this machine lacks {lacking}: the image was NOT built")
    store = Store(tmp_path_factory.mktemp("images"))
    try:
        yield store.build()
    finally:
        store.buildah("rm", "--all")
        store.buildah("rmi", "--all", "--force")


@contextmanager
def running(image: Image, folder: Path, *argv: str, state: str = "state") -> Iterator[Container]:
    """A container with this command, or the image's own, whose log is `container.log`."""
    command = [*image.config["Entrypoint"], *argv] if argv[0] != _SPARK_CLASS else argv
    with (folder / "container.log").open("ab") as log:
        container = Container(image, command, state=folder / state, config=folder / "config", log=log)
        try:
            yield container
        finally:
            container.kill()


def configure(folder: Path, options: Mapping[str, object]) -> tuple[str, ...]:
    """Write the file that the image's own command reads; that command, with a free port."""
    (folder / "config").mkdir()
    (folder / "config" / "headrace.json").write_text(
        json.dumps({**options, "state.dir": f"{STATE}/headrace"})
    )
    return "run", "/etc/headrace/headrace.json", "--set", f"http.listen=0.0.0.0:{free_port()}"


def await_ready(container: Container, command: tuple[str, ...], log: Path) -> None:
    """Return when it is ready; AssertionError with its log when it ends before."""
    port = int(command[-1].rpartition(":")[2])
    until_sync(lambda: ready(port) or not container.is_running, seconds=240, what=f"readiness, see {log}")
    assert container.is_running, log.read_text()[-3000:]


def in_image(image: Image, *argv: str) -> tuple[int, str]:
    """Exit code and words of a command as the image's user, in its files."""
    user = ("setpriv", "--reuid", "10001", "--regid", "10001", "--clear-groups")
    done = subprocess.run(
        ["chroot", image.root, *user, *argv],
        env=image.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, (done.stdout + done.stderr).strip()


def test_it_is_small_and_says_how_it_is_run(image: Image) -> None:
    """Its user and its command; what nobody loads is not in it, the archive of classes is."""
    assert image.size < _MOST_BYTES
    assert image.config["User"] == "10001:10001"
    assert image.config["Cmd"] == ["run", "/etc/headrace/headrace.json", "--set", "http.listen=0.0.0.0:8085"]
    assert image.config["Healthcheck"]["Test"] == ["CMD", "headrace-health"]
    archives = list((image.root / "opt/headrace/share/headrace").glob("*.jsa"))
    assert len(archives) == 1
    asked = (
        "import importlib.util as u; print([n for n in ('pip', 'setuptools', 'pandas') if u.find_spec(n)])"
    )
    assert in_image(image, "python", "-c", asked) == (0, "[]")
    code, said = in_image(image, "headrace", "--version")
    assert (code, said.startswith("headrace ")) == (0, True)


def test_it_ingests_is_killed_and_loses_nothing(image: Image, tmp_path: Path) -> None:
    """Each row once across a `kill -9` with rows on their way; healthy; SIGTERM is a clean stop."""
    route, log = new_route(tmp_path), tmp_path / "container.log"
    command = configure(tmp_path, route.options(name=aws.unique("image")))
    assert command[:3] == tuple(image.config["Cmd"][:3])
    address = f"http://127.0.0.1:{command[-1].rpartition(':')[2]}/health/live"
    assert in_image(image, "headrace-health", address)[0] == 1
    with running(image, tmp_path, *command) as container:
        await_ready(container, command, log)
        assert in_image(image, "headrace-health", address) == (0, "200 live")
        route.upload("one.jsonl", rows("one", 1000))
        route.await_rows(seconds=120)
        for number in range(20):
            route.upload(f"two-{number}.jsonl", rows(f"two-{number}", 1000))
    with running(image, tmp_path, *command) as container:
        await_ready(container, command, log)
        route.upload("three.jsonl", rows("three", 1000))
        route.await_rows(seconds=180)
        assert route.account() == (0, 0)

        container.terminate()
        assert container.wait(45) == 0, log.read_text()[-3000:]
    said = log.read_text()
    assert "Read-only file system" not in said
    assert "ClassNotFound" not in said
    assert "NoClassDefFound" not in said
    assert list((tmp_path / "state" / "headrace").glob("*/ledger.sqlite3"))


def test_it_archives(image: Image, tmp_path: Path) -> None:
    """The other direction: every record of a topic is in the bucket, as Parquet."""
    topic, log = kafka.new_topic("image"), tmp_path / "container.log"
    route = Route(folder=tmp_path, bucket=aws.new_bucket(), queue_url="", topic=topic)
    producer = Producer({"bootstrap.servers": kafka.address()})
    for row in rows("one", 2000):
        producer.produce(topic, row)
    producer.flush(60)
    of_a_source = ("sqs__queue__url", "topic", "file__name__template", "input__format")
    options: dict[str, object] = {"topics": topic, "output__format": "parquet", "rotate__age__ms": 1000}
    options |= dict.fromkeys(of_a_source)
    command = configure(tmp_path, route.options(name=aws.unique("image"), **options))
    with running(image, tmp_path, *command, "--until-idle") as container:
        assert container.wait(240) == 0, log.read_text()[-3000:]

    archived = 0
    for line in log.read_text().splitlines():
        assert "NoClassDefFound" not in line
        event = json.loads(line) if line.startswith("{") else {}
        archived += event["records"] if event.get("event") == "object_archived" else 0
    assert archived == 2000


def test_it_is_a_cluster_as_well(image: Image, tmp_path: Path) -> None:
    """A master, a worker with executors and the service on them, each from this image."""
    port, route = free_port(), new_route(tmp_path)
    master = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    command = configure(
        tmp_path,
        route.options(
            name=aws.unique("image"), spark__master=master, spark__driver__host="127.0.0.1",
            spark__driver__bindAddress="127.0.0.1", spark__executor__memory="512m",
        ),
    )  # fmt: skip
    log = tmp_path / "container.log"
    here = ("--host", "127.0.0.1", "--webui-port", "0")
    with ExitStack() as stack:
        stack.enter_context(
            running(image, tmp_path, _SPARK_CLASS, f"{deploy}.master.Master", "--port", str(port), *here)
        )
        until_sync(lambda: "I have been elected leader" in log.read_text(), seconds=120, what="a master")
        worker = (f"{deploy}.worker.Worker", "--cores", "2", "--memory", "1g", "--work-dir", f"{STATE}/work")
        stack.enter_context(
            running(image, tmp_path, _SPARK_CLASS, *worker, *here, master, state="worker-state")
        )
        until_sync(lambda: "Registering worker" in log.read_text(), seconds=120, what="a worker")
        container = stack.enter_context(running(image, tmp_path, *command, state="own-state"))
        await_ready(container, command, log)
        route.upload("one.jsonl", rows("one", 1000))
        route.await_rows(seconds=180)
        assert route.account() == (0, 0)
    assert "NoClassDefFound" not in log.read_text()
