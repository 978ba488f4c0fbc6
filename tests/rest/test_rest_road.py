"""The REST interface of a service on real parts: what it is told holds, over restarts and takeovers too."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from bench.stage import Service
from localstack.ports import free_port
from tests.support import aws
from tests.support.service import Road, new_road, queue_depth, rows
from tests.support.until import until_sync

pytestmark = pytest.mark.parts


@dataclass(frozen=True, slots=True)
class Steered:
    """A service and its REST interface."""

    road: Road
    service: Service
    name: str
    port: int

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and JSON (None without a body) of a request about the connector; `/` begins elsewhere."""
        where = path if path.startswith("/") else f"/connectors/{self.name}{path and '/'}{path}"
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{where}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=100) as answer:  # noqa: S310 - as above
                raw, status = answer.read(), answer.status
        except urllib.error.HTTPError as error:
            with error:
                raw, status = error.read(), error.code
        return status, json.loads(raw) if raw else None

    def state(self) -> str:
        """The connector's state in Connect's words."""
        return str(self.ask("GET", "status")[1]["connector"]["state"])

    def etags(self) -> dict[str, tuple[str, str]]:
        """ETag and state of each object that has an offset, by key."""
        items = self.ask("GET", "offsets")[1]["offsets"]
        return {
            item["partition"]["key"]: (item["partition"]["etag"], item["offset"]["state"]) for item in items
        }

    def put_back(self, key: str, offset: Any) -> tuple[int, Any]:
        """Ask for another offset of an object that is in the bucket."""
        etag = aws.s3().head_object(Bucket=self.road.bucket, Key=key)["ETag"].strip('"')
        partition = {"bucket": self.road.bucket, "key": key, "etag": etag}
        return self.ask("PATCH", "offsets", {"offsets": [{"partition": partition, "offset": offset}]})


def steered(road: Road, **changes: object) -> Steered:
    """A service with a REST interface, not started."""
    name, port = aws.unique("rest"), free_port()
    service = road.service(name, rest__listen=f"127.0.0.1:{port}", **changes)
    return Steered(road, service, name, port)


@pytest.fixture(scope="module")
def it(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Steered]:
    """A running one, which the tests of this module use in their order."""
    made = steered(new_road(tmp_path_factory.mktemp("rest")))
    made.service.start()
    yield made
    assert made.service.stop() == 0


def test_a_paused_service_reads_nothing_until_it_is_resumed_and_a_restart_changes_nothing(
    it: Steered,
) -> None:
    """What is uploaded meanwhile arrives once, after the resume."""
    it.road.upload("a.jsonl", rows("a", 50))
    it.road.await_rows()

    assert it.ask("PUT", "pause") == (202, None)
    assert it.state() == "PAUSED"
    it.road.upload("b.jsonl", rows("b", 50))
    assert it.service.stop() == 0
    it.service.start()
    until_sync(lambda: it.service.status()["role"] == "leader", seconds=60, what="the lead")

    assert it.state() == "PAUSED"
    assert it.service.is_ready()
    until_sync(lambda: it.service.status()["target"] == "paused", seconds=5, what="a published look")
    assert it.road.account() == (50, 0)

    assert it.ask("PUT", "resume") == (202, None)
    it.road.await_rows()
    assert it.road.account() == (0, 0)
    assert it.state() == "RUNNING"


def test_a_stopped_service_gives_its_slots_back_and_lets_offsets_be_changed(it: Steered) -> None:
    """One object is read again, another never; nothing else changes."""
    refused = it.put_back("a.jsonl", None)
    assert (refused[0], refused[1]["error_code"]) == (400, 400)
    assert "must be in the STOPPED state" in refused[1]["message"]

    assert it.ask("PUT", "stop") == (204, None)
    shown = it.ask("GET", "status")[1]
    assert (shown["connector"]["state"], shown["tasks"]) == ("STOPPED", [])
    assert {key: state for key, (_, state) in it.etags().items()} == {"a.jsonl": "done", "b.jsonl": "done"}

    it.road.upload("c.jsonl", rows("c", 50), counts=False)
    altered = {"message": "The offsets for this connector have been altered successfully"}
    assert it.put_back("a.jsonl", None) == (200, altered)
    size = sum(len(row) + 1 for row in rows("c", 50))
    assert it.put_back("c.jsonl", {"state": "done", "size": size}) == (200, altered)
    assert sorted(it.etags()) == ["b.jsonl", "c.jsonl"]

    it.road.uploaded.update(rows("a", 50))
    assert it.ask("PUT", "resume") == (202, None)
    it.road.await_rows()
    until_sync(lambda: queue_depth(it.road.queue_url) == 0, seconds=30, what="an empty queue")
    assert it.road.account() == (0, 0)


def test_a_reset_has_everything_read_again(it: Steered) -> None:
    """As if nothing had ever been read; nothing twice beyond that."""
    assert it.ask("PUT", "stop") == (204, None)
    reset = {"message": "The offsets for this connector have been reset successfully"}
    assert it.ask("DELETE", "offsets") == (200, reset)
    assert it.ask("GET", "offsets") == (200, {"offsets": []})

    for stem in ("a", "b", "c"):
        it.road.uploaded.update(rows(stem, 50))
    assert it.ask("PUT", "resume") == (202, None)
    it.road.await_rows()
    assert it.road.account() == (0, 0)


def test_what_a_tool_looks_at_first(it: Steered) -> None:
    """The pages that user interfaces open with."""
    root = it.ask("GET", "/")[1]
    expanded = it.ask("GET", "/connectors?expand=status&expand=info")[1][it.name]

    assert root["kafka_cluster_id"]
    assert expanded["status"]["connector"]["state"] == "RUNNING"
    assert [task["task"] for task in expanded["info"]["tasks"]] == [0, 1]
    assert expanded["info"]["config"]["aws.secret.access.key"] == "***"
    assert it.ask("GET", "topics") == (200, {it.name: {"topics": [it.road.topic]}})
    assert it.ask("POST", "restart?includeTasks=true")[0] == 202
    assert it.ask("DELETE", "")[0] == 405
    it.road.upload("after-restart.jsonl", rows("after", 10))
    it.road.await_rows()
    assert it.road.account() == (0, 0)
