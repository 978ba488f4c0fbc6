"""The REST interface of a service: what a request sets holds, over restarts and takeovers too."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench.stage import Service, StageError
from localstack.ports import free_port
from tests.ingest.http.numbered import Numbered
from tests.support import aws, rest_request
from tests.support.service import Route, new_route, queue_depth, rows
from tests.support.until import until_sync

pytestmark = pytest.mark.parts

# Spark's start takes seconds, and minutes where everything else is tested at the same time.
PATIENCE = 240


@dataclass(frozen=True, slots=True)
class Steered:
    """A service and its REST interface."""

    route: Route
    service: Service
    name: str
    port: int

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and JSON (None without a body) of a request about the connector; `/` begins elsewhere."""
        where = path if path.startswith("/") else f"/connectors/{self.name}{path and '/'}{path}"
        return rest_request.ask(f"http://127.0.0.1:{self.port}{where}", method, body)

    def state(self) -> str:
        """The connector's state in Connect's words."""
        return str(self.ask("GET", "status")[1]["connector"]["state"])

    def etags(self) -> dict[str, tuple[str, str]]:
        """ETag and state of each object that has an offset, by key."""
        items = self.ask("GET", "offsets")[1]["offsets"]
        return {
            item["partition"]["key"]: (item["partition"]["etag"], item["offset"]["state"]) for item in items
        }

    def states(self, prefix: str) -> dict[str, str]:
        """The state of each object with this prefix that has an offset, by key."""
        return {key: state for key, (_, state) in self.etags().items() if key.startswith(prefix)}

    def put_back(self, key: str, offset: Any) -> tuple[int, Any]:
        """Ask for another offset of an object that is in the bucket."""
        etag = aws.s3().head_object(Bucket=self.route.bucket, Key=key)["ETag"].strip('"')
        partition = {"bucket": self.route.bucket, "key": key, "etag": etag}
        return self.ask("PATCH", "offsets", {"offsets": [{"partition": partition, "offset": offset}]})


def steered(route: Route, name: str = "", **changes: object) -> Steered:
    """A service with a REST interface, not started; a name of its own unless one is given."""
    name, port = name or aws.unique("rest"), free_port()
    service = route.service(name, rest__listen=f"127.0.0.1:{port}", **changes)
    return Steered(route, service, name, port)


@pytest.fixture(scope="module")
def it(numbered_service: Numbered) -> Steered:
    """A running one, which the tests of this module share; its queue has nothing for others any more."""
    aws.sqs().purge_queue(QueueUrl=numbered_service.route.queue_url)
    own = numbered_service
    return Steered(own.route, own.service, own.name, own.rest_port)


def test_a_paused_service_reads_nothing_until_it_is_resumed_and_a_restart_changes_nothing(
    it: Steered,
) -> None:
    """What is uploaded meanwhile arrives once, after the resume."""
    it.route.upload("a.jsonl", rows("a", 50))
    it.route.await_rows()

    assert it.ask("PUT", "pause") == (202, None)
    assert it.state() == "PAUSED"
    it.route.upload("b.jsonl", rows("b", 50))
    assert it.service.stop() == 0
    it.service.start(ready_seconds=PATIENCE)
    until_sync(lambda: it.service.status()["role"] == "leader", seconds=PATIENCE, what="the lead")

    until_sync(lambda: it.state() == "PAUSED", what="the pause of before")
    until_sync(it.service.is_ready, what="readiness")
    until_sync(lambda: it.service.status()["target"] == "paused", what="a published look")
    assert it.route.account() == (50, 0)

    assert it.ask("PUT", "resume") == (202, None)
    it.route.await_rows()
    assert it.route.account() == (0, 0)
    assert it.state() == "RUNNING"


def test_a_stopped_service_gives_its_slots_back_and_lets_offsets_be_changed(it: Steered) -> None:
    """One object is read again, another never; nothing else changes."""
    again, kept, never = (f"stopped/{stem}.jsonl" for stem in ("again", "kept", "never"))
    for key in (again, kept):
        it.route.upload(key, rows(key, 50))
    it.route.await_rows()
    refused = it.put_back(again, None)
    assert (refused[0], refused[1]["error_code"]) == (400, 400)
    assert "must be in the STOPPED state" in refused[1]["message"]

    assert it.ask("PUT", "stop") == (204, None)
    shown = it.ask("GET", "status")[1]
    assert (shown["connector"]["state"], shown["tasks"]) == ("STOPPED", [])
    assert it.states("stopped/") == {again: "done", kept: "done"}

    it.route.upload(never, rows(never, 50), counts=False)
    altered = {"message": "The offsets for this connector have been altered successfully"}
    assert it.put_back(again, None) == (200, altered)
    size = sum(len(row) + 1 for row in rows(never, 50))
    assert it.put_back(never, {"state": "done", "size": size}) == (200, altered)
    assert sorted(it.states("stopped/")) == [kept, never]

    it.route.uploaded.update(rows(again, 50))
    assert it.ask("PUT", "resume") == (202, None)
    it.route.await_rows()
    until_sync(lambda: queue_depth(it.route.queue_url) == 0, seconds=180, what="an empty queue")
    assert it.route.account() == (0, 0)


def test_a_reset_has_everything_read_again(it: Steered) -> None:
    """As if nothing had ever been read; nothing twice beyond that."""
    it.route.upload("reset.jsonl", rows("reset", 50))
    it.route.await_rows()
    assert it.ask("PUT", "stop") == (204, None)
    reset = {"message": "The offsets for this connector have been reset successfully"}
    assert it.ask("DELETE", "offsets") == (200, reset)
    assert it.ask("GET", "offsets") == (200, {"offsets": []})

    # Also what other tests have put into the bucket.
    for key in aws.keys(it.route.bucket):
        body = aws.s3().get_object(Bucket=it.route.bucket, Key=key)["Body"].read()
        # Of one with a bad row what is before it.
        it.route.uploaded.update(body.partition(b"{broken")[0].splitlines())
    assert it.ask("PUT", "resume") == (202, None)
    it.route.await_rows()
    assert it.route.account() == (0, 0)


def test_what_a_tool_looks_at_first(it: Steered) -> None:
    """The pages that user interfaces open with."""
    root = it.ask("GET", "/")[1]
    expanded = it.ask("GET", "/connectors?expand=status&expand=info")[1][it.name]

    assert root["kafka_cluster_id"]
    assert expanded["status"]["connector"]["state"] == "RUNNING"
    assert [task["task"] for task in expanded["info"]["tasks"]] == [0, 1]
    assert expanded["info"]["config"]["aws.secret.access.key"] == "***"
    assert it.ask("GET", "topics") == (200, {it.name: {"topics": [it.route.topic]}})
    assert it.ask("POST", "restart?includeTasks=true")[0] == 202
    assert it.ask("DELETE", "")[0] == 405
    it.route.upload("after-restart.jsonl", rows("after", 10))
    it.route.await_rows()
    assert it.route.account() == (0, 0)


@pytest.mark.long
def test_a_standby_says_so_and_stays_paused_when_it_takes_the_lead(tmp_path: Path) -> None:
    """The wish is the ingester's, not a process's."""
    route = new_route(tmp_path)
    first = steered(route)
    second = steered(route, first.name)
    try:
        first.service.start(ready_seconds=PATIENCE)
        second.service.start(ready_seconds=PATIENCE)
        until_sync(lambda: second.service.status()["role"] == "standby", seconds=PATIENCE, what="a standby")
        assert second.ask("GET", "/connectors") == (200, [first.name])
        assert second.ask("GET", "/health")[0] == 200
        route.upload("read.jsonl", rows("read", 20))
        route.await_rows()
        until_sync(lambda: list(second.etags()) == ["read.jsonl"], seconds=60, what="the ledger on a standby")
        for path in ("offsets", "topics"):
            assert second.ask("GET", path) == first.ask("GET", path), path
        assert len(second.ask("GET", "tasks")[1]) == len(second.ask("GET", "")[1]["tasks"]) == 2
        shown = second.ask("GET", "/connectors?expand=status")[1][first.name]["status"]
        assert (shown["connector"]["state"], shown["connector"]["worker_id"]) == ("RUNNING", "leader")
        assert [task["id"] for task in shown["tasks"]] == [0, 1]
        refused = second.ask("PUT", "pause")
        assert (refused[0], refused[1]["error_code"]) == (409, 409)
        assert "standby" in refused[1]["message"]

        assert first.ask("PUT", "pause") == (202, None)
        until_sync(lambda: second.state() == "PAUSED", seconds=60, what="the pause on a standby")
        route.upload("a.jsonl", rows("a", 50))
        first.service.kill()
        until_sync(lambda: second.service.status()["role"] == "leader", seconds=PATIENCE, what="a takeover")

        assert second.state() == "PAUSED"
        assert route.account() == (50, 0)
        assert second.ask("PUT", "resume") == (202, None)
        route.await_rows()
        assert route.account() == (0, 0)
    finally:
        second.service.stop()
        first.service.stop()


@pytest.mark.long
def test_an_object_in_progress_comes_to_a_checkpoint_and_goes_on_from_there(tmp_path: Path) -> None:
    """Paused in its middle, stopped, and resumed: every row once."""
    route = new_route(tmp_path)
    # Small batches keep it busy with the object until the pause is there.
    it = steered(route, transaction__boundary__interval__ms=100, producer__override__batch__num__messages=20)
    try:
        it.service.start(ready_seconds=PATIENCE)
        route.upload("large.jsonl", rows("x" * 100, 500_000))
        until_sync(lambda: it.service.status()["records_total"] > 0, seconds=60, what="the first commit")
        assert it.ask("PUT", "pause") == (202, None)

        def is_idle() -> bool:
            slots = it.service.status()["slots"]
            return bool(slots["busy"] == slots["ending"] == 0)

        until_sync(is_idle, seconds=60, what="no slot at work")
        (item,) = it.ask("GET", "offsets")[1]["offsets"]
        assert item["offset"]["state"] == "partial"
        assert 0 < item["offset"]["records"] < 500_000
        assert item["offset"]["byte"] > 0
        assert route.account() == (500_000 - item["offset"]["records"], 0)

        assert it.ask("PUT", "stop") == (204, None)
        saved = it.ask("GET", "offsets")[1]
        assert saved["offsets"] == [item]
        assert it.ask("PATCH", "offsets", saved)[0] == 200
        assert it.ask("GET", "offsets")[1] == saved
        assert it.ask("PUT", "resume") == (202, None)
        route.await_rows()
        assert route.account() == (0, 0)
    finally:
        it.service.stop()


@pytest.mark.long
def test_until_idle_does_not_wait_for_a_pause_to_end(tmp_path: Path) -> None:
    """It ends with 3 and says what is the matter; so does a password file for everybody, with 2."""
    accounts = tmp_path / "accounts"
    accounts.write_text("ann:secret\n")
    accounts.chmod(0o644)
    it = steered(new_route(tmp_path))
    try:
        it.service.start(ready_seconds=PATIENCE)
        assert it.ask("PUT", "stop") == (204, None)
    finally:
        assert it.service.stop() == 0

    with pytest.raises(StageError, match="ended with 3"):
        it.service.command("run", "--until-idle")
    with pytest.raises(StageError, match="ended with 2"):
        it.service.command("run", "--set", f"rest.auth.file={accounts}")
