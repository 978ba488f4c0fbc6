"""docs/security.md's ACLs of a sink and of a worker are enough, and each one is needed."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic

from tests.security.listed import listed
from tests.security.tls_environment import Acl, Guarded, guarded_broker
from tests.support.until import until_sync
from tests.support.worker_process import WorkerProcess, sink_config, source_config

pytestmark = [pytest.mark.parts, pytest.mark.long]  # a broker of its own, and services by the dozen

HEADRACE: Final = str(Path(sys.executable).with_name("headrace"))
USER: Final = "ingester"
NAMES: Final = {
    "NAME": "archive",
    "GROUP": "archive",
    "TOPIC": "archive-rows",
    "DEAD-LETTERS": "archive-dead",
    "WORKERS": "crew",
}
_OUTPUTS: Final = {NAMES["TOPIC"], NAMES["DEAD-LETTERS"]}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """The broker with one user, and a topic with a record."""
    with guarded_broker(tmp_path_factory.mktemp("guarded"), {USER: "its-password"}) as made:
        topic = NAMES["TOPIC"]
        made.admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
        yield made


@pytest.fixture
def allowed(guarded: Guarded) -> Iterator[Guarded]:
    """The broker, whose user has no right in the end."""
    yield guarded
    guarded.forbid_all(USER)


def _sink_acls() -> list[Acl]:
    """Those of every connector, without dead letters, and a sink's own."""
    return [each for each in listed("ACLs", NAMES) if each.name not in _OUTPUTS] + _own_of_sink()


def _own_of_sink() -> list[Acl]:
    return listed("ACLs of a sink", NAMES)


def _worker_acls(group: str = NAMES["WORKERS"]) -> list[Acl]:
    return listed("ACLs of a worker", {**NAMES, "WORKERS": group})


def _ledger_creation() -> Acl:
    return next(one for one in listed("ACLs for what is missing", NAMES) if "offsets" in one.name)


def _configurations_creation(group: str = NAMES["WORKERS"]) -> Acl:
    made = _ledger_creation()
    return Acl(kind=made.kind, name=f"{group}-configs", operation=made.operation)


def _case(acl: Acl) -> Any:
    return pytest.param(acl, id=f"{acl.operation.name} on {acl.kind.name} {acl.name}")


def _run(guarded: Guarded, folder: Path, bucket: str, verb: str, *arguments: str) -> Any:
    """A command of the sink, in a process of its own."""
    own = {"name": NAMES["NAME"], "state.dir": str(folder / "state"), "http.listen": ""}
    file = folder / "sink.json"
    file.write_text(json.dumps(sink_config(bucket, NAMES["TOPIC"]) | guarded.options(USER) | own))
    argv = [HEADRACE, verb, str(file), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=170)


def test_a_sink_runs_with_the_listed_acls_and_no_other(allowed: Guarded, tmp_path: Path, bucket: str) -> None:
    """From a first start that makes its ledger."""
    allowed.allow(USER, [*_sink_acls(), _ledger_creation()])

    for command in (["check"], ["setup"], ["run", "--until-idle"], ["status"], ["plan"]):
        done = _run(allowed, tmp_path, bucket, *command)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("acl", [_case(one) for one in _own_of_sink()])
def test_check_of_a_sink_names_a_missing_acl(allowed: Guarded, tmp_path: Path, bucket: str, acl: Acl) -> None:
    """With what is to be allowed."""
    allowed.allow(USER, [each for each in [*_sink_acls(), _ledger_creation()] if each != acl])

    found = [
        json.loads(line) for line in _run(allowed, tmp_path, bucket, "check", "--json").stdout.splitlines()
    ]
    failed = [one for one in found if one["verdict"] == "fail"]
    assert failed
    assert any("Read" in one["remedy"] for one in failed)


def test_a_sink_that_may_not_write_its_ledger_any_more_names_it(
    allowed: Guarded, tmp_path: Path, bucket: str
) -> None:
    """Its slots read, are refused and read again: `--until-idle` never ended, and nothing was shown."""
    acls = _sink_acls()
    allowed.allow(USER, [*acls, _ledger_creation()])
    first = _run(allowed, tmp_path, bucket, "run", "--until-idle")
    assert first.returncode == 0, first.stdout + first.stderr
    allowed.forbid_all(USER)
    ledger = _ledger_creation().name
    allowed.allow(USER, [one for one in acls if (one.name, one.operation.name) != (ledger, "WRITE")])
    producer = Producer({"bootstrap.servers": allowed.broker.bootstrap})
    producer.produce(NAMES["TOPIC"], b"a row")
    assert producer.flush(30) == 0

    done = _run(allowed, tmp_path, bucket, "run", "--until-idle", "--startup-timeout", "5")

    assert done.returncode == 3, done.stdout + done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert "the transaction of slot 0 has failed" in last
    assert ledger in last
    assert "docs/security.md" in last


def _worker(guarded: Guarded, folder: Path, group: str = NAMES["WORKERS"]) -> WorkerProcess:
    options = {name: str(value) for name, value in guarded.options(USER).items()}
    return WorkerProcess(folder=folder, group=group, options=options)


def test_a_worker_runs_with_the_listed_acls_and_no_other(
    allowed: Guarded, tmp_path: Path, bucket: str
) -> None:
    """From a first start that makes its topic: it leads, and keeps what is created and deleted."""
    allowed.allow(USER, [*_worker_acls(), _configurations_creation()])
    worker = _worker(allowed, tmp_path)
    worker.start()
    try:
        worker.await_ready()
        config = source_config(bucket, NAMES["TOPIC"])
        made = {"name": "one", "config": config, "initial_state": "STOPPED"}
        assert worker.ask("POST", "/connectors", made)[0] == 201
        assert worker.ask("DELETE", "/connectors/one")[0] == 204
    finally:
        worker.kill()


@pytest.mark.parametrize("index", range(len(_worker_acls())))
def test_a_worker_without_an_acl_is_not_ready_and_names_it(
    allowed: Guarded, tmp_path: Path, index: int
) -> None:
    """In its log: the resource, and where the list of ACLs is. Of a group that has written nothing yet."""
    group = f"crew-{index}"
    acls = _worker_acls(group)
    acl = acls.pop(index)
    allowed.allow(USER, [*acls, _configurations_creation(group)])
    worker = _worker(allowed, tmp_path, group)
    worker.start()
    try:

        def is_named() -> bool:
            return any(
                acl.name in line and "docs/security.md" in line
                for line in worker.log.read_text().splitlines()
            )

        until_sync(is_named, seconds=120, what=f"{acl.name} in {worker.log}")
        process = worker.process
        assert process is not None
        assert process.poll() not in {0, None} or not worker.is_ready()
    finally:
        worker.kill()
