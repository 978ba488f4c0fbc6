"""Workers on real parts: connectors of both kinds by REST, side by side, taken over after kill -9.

Their password files change meanwhile: a group of its own for that would be two more starts of Spark.
"""

import json
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from headrace.model.errors import Exit
from tests.ingest.connect.both_ways import BothWays
from tests.support import aws, kafka
from tests.support.until import until_sync
from tests.support.worker_process import WorkerProcess, source_config

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]


def test_a_source_and_a_sink_are_created_run_taken_over_and_deleted(
    workers: list[WorkerProcess], tmp_path: Path
) -> None:
    """Objects to Kafka to objects: none lost, none twice, though the worker that leads is killed."""
    first, second = workers
    accounts = [_with_accounts(worker) for worker in workers]
    source, sink, broken = aws.unique("source"), aws.unique("sink"), aws.unique("broken")
    way = BothWays(tmp_path)
    first.start()
    until_sync(first.answers, seconds=60, what="an address that answers")
    # Before anybody leads the group: it is waited for, as in Connect.
    status, shown = first.ask("POST", "/connectors", {"name": source, "config": way.source})
    assert (status, shown["name"], shown["type"]) == (201, source, "source")
    assert shown["config"]["aws.secret.access.key"] == "[hidden]"
    assert first.ask("PUT", f"/connectors/{sink}/config", way.sink)[0] == 201
    # It cannot work, which is found out later, and touches no other.
    missing = source_config("no-such-bucket-here", way.topic)
    assert first.ask("POST", "/connectors", {"name": broken, "config": missing})[0] == 201
    way.upload("a")
    way.await_archived()
    until_sync(lambda: first.state(broken) == "FAILED", seconds=60, what="a FAILED connector")
    assert "no-such-bucket-here" in first.ask("GET", f"/connectors/{broken}/status")[1]["connector"]["trace"]
    for sample in (f'connector_failed{{connector="{broken}"}}', f'leader{{connector="{source}"}}'):
        until_sync(lambda wanted=sample: f"headrace_{wanted} 1.0" in first.metrics(), what=sample)  # type: ignore[misc]  # the default binds the loop's variable

    second.start()
    second.await_ready()
    until_sync(lambda: len(_running_on(first)) < 3, seconds=60, what="connectors that are spread")
    assert set(second.ask("GET", "/connectors")[1]) == {source, sink, broken}

    def type_of_the_sink() -> Any:
        """As the second worker hears it of who runs it, and of nobody while they are dealt out."""
        return second.ask("GET", "/connectors?expand=status")[1][sink].get("status", {}).get("type")

    until_sync(lambda: type_of_the_sink() == "sink", what="the status of each connector")
    way.upload("b")
    way.await_archived(60)

    _outlive_a_missing_file_and_a_changed_password(workers, accounts)

    first.kill()
    way.upload("c")
    until_sync(lambda: set(_running_on(second)) == {source, sink, broken}, seconds=60, what="a takeover")
    until_sync(lambda: second.state(sink) == second.state(source) == "RUNNING", seconds=60, what="leads")
    way.await_archived(90)
    assert Counter(record.value or b"" for record in kafka.committed(way.topic)) == way.uploaded
    assert way.archive.account() == (0, 0)

    config = second.ask("GET", f"/connectors/{sink}/config")[1]
    assert second.ask("PUT", f"/connectors/{sink}/config", config)[0] == 200
    assert second.ask("PUT", f"/connectors/{sink}/stop")[0] == 204
    until_sync(lambda: second.state(sink) == "STOPPED", what="a connector that is stopped")
    for name in (source, sink, broken):
        assert second.ask("DELETE", f"/connectors/{name}") == (204, None)
    assert second.ask("GET", "/connectors") == (200, [])
    assert second.stop() == Exit.DONE


def _running_on(worker: WorkerProcess) -> list[str]:
    """The connectors that a worker runs, as it shows them itself."""
    with urllib.request.urlopen(f"http://127.0.0.1:{worker.http_port}/status", timeout=60) as answer:
        return list(json.loads(answer.read())["connectors"])


def _with_accounts(worker: WorkerProcess) -> Path:
    """Give a worker a file of accounts, and have it asked as the one in it."""
    file = worker.folder / f"accounts-{worker.port}"
    file.touch(mode=0o600)
    file.write_text("ann:one\n")
    worker.options = {"rest.auth.file": str(file)}
    worker.user = "ann:one"
    return file


def _members(worker: WorkerProcess) -> set[str]:
    """The addresses of the group's workers, as this one shows them."""
    return {one["url"] for one in worker.status()["workers"].values()}


def _outlive_a_missing_file_and_a_changed_password(workers: list[WorkerProcess], files: list[Path]) -> None:
    """Nobody ends, nobody drops out, and a request is passed on by one that has the new file already."""
    leader, follower = workers
    group = {f"http://127.0.0.1:{worker.port}" for worker in workers}
    until_sync(lambda: _members(leader) == group, seconds=60, what="a group of two")

    away = files[1].rename(files[1].with_name("away"))
    follower.await_log("auth_file_not_read")
    assert follower.ask("GET", "/connectors")[0] == 200
    away.rename(files[1])

    files[1].write_text("ann:another\n")
    follower.await_log("auth_file_read")
    follower.user = "ann:another"
    # Passed on to the worker that leads, which has the former file.
    until_sync(lambda: follower.ask("DELETE", "/connectors/none")[0] == 404, what="an answer of the leader")

    files[0].write_text("ann:a third\n")
    leader.await_log("auth_file_read")
    assert [leader.ask("GET", "/")[0], follower.ask("DELETE", "/connectors/none")[0]] == [401, 401]
    assert follower.status()["problems"] == []
    files[0].write_text("ann:a fourth\n")
    until_sync(
        lambda: follower.status()["problems"] != [], seconds=60, what="a worker that says it is refused"
    )
    assert "rest.auth.file has to be the same" in follower.status()["problems"][0]

    files[1].write_text("ann:a fourth\n")
    until_sync(lambda: follower.status()["problems"] == [], seconds=60, what="a follower without a problem")
    until_sync(lambda: _members(leader) == group, seconds=60, what="a group of two again")
    assert [worker.process.poll() for worker in workers if worker.process is not None] == [None, None]
    for worker in workers:
        worker.user = "ann:a fourth"
