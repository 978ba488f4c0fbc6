"""A changed configuration is judged by what is stored, also where that cannot be loaded any more."""

from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path

import pytest

from headrace.kafka.control_records import ConnectorRecord, connector_key, encode
from headrace.model.clock import wall_ms
from headrace.options.value_types import HostPort
from ingest.connect.other_workers import Sender
from ingest.connect.worker_routes import reading_elsewhere
from ingest.http.http_server import HttpServer, Request, Response
from ingest.http.rest.port import NotLeading
from ingest.http.rest.server import FORWARDED
from tests.ingest.connect.test_worker_changes import SINK, SOURCE, WORKER, Worker

_KEYED_SINK = {**SINK, "aws.access.key.id": "AKIA"}
_FORMAT = {"input.format": "csv"}
_LEDGER = {"offsets.storage.topic": "elsewhere"}


def _reference(folder: Path, year: str) -> dict[str, str]:
    return {"aws.secret.access.key": f"${{file:{folder}/{year}.properties:k}}"}


@pytest.fixture
def rotated(tmp_path: Path) -> Worker:
    """One whose connectors' key is in a file that another one has replaced; objects are begun."""
    worker, file = Worker(), tmp_path / "2025.properties"
    file.write_text("k=one\n")
    for name, config in (("uploads", SOURCE), ("archive", _KEYED_SINK)):
        body = {"name": name, "config": {**config, **_reference(tmp_path, "2025")}}
        assert worker.ask("POST", "/connectors", body)[0] == 201
    file.rename(tmp_path / "2026.properties")
    worker.in_hand = ["orders/a.jsonl"]
    return worker


@pytest.mark.parametrize(
    ("method", "name", "config", "said"),
    [
        ("PATCH", "uploads", _FORMAT, "input.format would give the position"),
        ("PUT", "uploads", {**SOURCE, **_FORMAT}, "input.format would give the position"),
        ("PATCH", "uploads", _LEDGER, "offsets.storage.topic is where"),
        ("PUT", "archive", {**_KEYED_SINK, **_LEDGER}, "offsets.storage.topic is where"),
        ("PUT", "archive", SOURCE, "would turn a source into a sink"),
    ],
)
def test_a_reference_that_leads_nowhere_any_more_takes_no_guard_away(
    rotated: Worker, tmp_path: Path, method: str, name: str, config: dict[str, str], said: str
) -> None:
    """The key may be replaced alone, and the rest is refused as ever."""
    given = {**config, **_reference(tmp_path, "2026")}
    status, shown = rotated.ask(method, f"/connectors/{name}/config", given)

    assert (status, said in shown["message"]) == (400, True)
    assert rotated.ask("PATCH", f"/connectors/{name}/config", _reference(tmp_path, "2026"))[0] == 200


def test_what_cannot_be_compared_has_to_be_corrected_first(rotated: Worker, tmp_path: Path) -> None:
    """Without the key its id has no meaning, so that nothing of before is left to compare with."""
    status, shown = rotated.ask("PUT", "/connectors/uploads/config", SINK)

    assert status == 400
    assert "send the correction of aws.secret.access.key alone first" in shown["message"]
    assert "2025.properties cannot be read" in shown["message"]
    assert rotated.ask("PATCH", "/connectors/uploads/config", _reference(tmp_path, "2026"))[0] == 200
    status, shown = rotated.ask("PUT", "/connectors/uploads/config", SINK)
    assert "would turn a source into a sink" in shown["message"]


def test_what_an_earlier_version_took_is_compared_without_it() -> None:
    """The ledger stays where it is."""
    worker = Worker()
    config = {**SINK, "name": "archive", "aws.s3.object.tags": "aws:x=1"}
    record = ConnectorRecord(name="archive", config=config, at_ms=wall_ms(), created_ms=wall_ms())
    worker.store.records[connector_key("archive")] = encode(record)

    status, shown = worker.ask("PUT", "/connectors/archive/config", {**SINK, **_LEDGER})
    assert (status, "offsets.storage.topic is where" in shown["message"]) == (400, True)
    assert worker.ask("PUT", "/connectors/archive/config", SINK)[0] == 200


_POLICY = "connector.client.config.override.policy=None"
_LIMITED = (
    "config.providers=file\n"
    "config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider\n"
    "config.providers.file.param.allowed.paths=/allowed"
)
_OTHER_BROKERS = {"bootstrap.servers": "kafka-9:9092"}
_BY_REFERENCE = {"offsets.storage.topic": "${env:BUCKET}"}
_BEGUN = {"topic": "${env:BUCKET}"}


@pytest.mark.parametrize(
    ("limit", "stored", "sent", "said"),
    [
        (_POLICY, {**SOURCE, **_OTHER_BROKERS}, SOURCE, "bootstrap.servers is where"),
        (_POLICY, {**SINK, **_OTHER_BROKERS}, SINK, "bootstrap.servers is where"),
        (_LIMITED, {**SOURCE, **_BY_REFERENCE}, {**SOURCE, **_LEDGER}, "offsets.storage.topic is where"),
        (_LIMITED, {**SINK, **_BY_REFERENCE}, SINK, "offsets.storage.topic is where"),
        (_LIMITED, {**SOURCE, **_BEGUN}, {**SOURCE, "topic": "other"}, "topic would give the position"),
    ],
)
def test_what_the_workers_file_forbids_by_now_is_compared_as_it_ran(
    limit: str, stored: dict[str, str], sent: dict[str, str], said: str
) -> None:
    """What it says to remove would otherwise be removed with the connector's past."""
    before, worker = Worker(), Worker(f"{WORKER}\n{limit}")
    assert before.ask("PUT", "/connectors/c/config", stored)[0] == 201
    worker.store.records |= before.store.records
    worker.in_hand = ["orders/a.jsonl"]
    status, shown = worker.ask("PUT", "/connectors/c/config", stored | {"tasks.max": "2"})
    assert (status, "the worker's file" in shown["message"]) == (400, True)

    status, shown = worker.ask("PUT", "/connectors/c/config", sent)
    assert (status, said in shown["message"]) == (400, True)


def test_what_is_forbidden_by_now_and_means_the_same_is_removed() -> None:
    """The value itself in place of its reference, and the worker's own brokers."""
    before, worker = Worker(), Worker(f"{WORKER}\n{_POLICY}\n{_LIMITED}")
    own = {"bootstrap.servers": "127.0.0.1:9092"}
    assert before.ask("PUT", "/connectors/c/config", {**SOURCE, **_BY_REFERENCE, **own})[0] == 201
    worker.store.records |= before.store.records
    config = {**SOURCE, "offsets.storage.topic": "bucket"}
    assert worker.ask("PUT", "/connectors/c/config", config)[0] == 200


_BROKERS = "kafka-1:9092,kafka-2:9092"


@pytest.mark.parametrize(
    ("brokers", "is_taken"),
    [
        ("kafka-2:9092,kafka-1:9092", True),
        ("kafka-1:9092,kafka-2:9092,kafka-3:9092", True),
        ("kafka-3:9092,kafka-2:9092", True),
        ("KAFKA-1:9092", True),
        (" kafka-1:9092 , kafka-2:9092", True),
        ("kafka-3:9092", False),
        ("kafka-1:9093", False),
    ],
)
def test_brokers_are_others_where_no_address_is_left(brokers: str, *, is_taken: bool) -> None:
    """In which order they are named, and how many, is no other cluster."""
    worker = Worker(WORKER.replace("127.0.0.1:9092", _BROKERS))
    config = {**SOURCE, "bootstrap.servers": _BROKERS}
    assert worker.ask("PUT", "/connectors/c/config", config)[0] == 201
    status, shown = worker.ask("PATCH", "/connectors/c/config", {"bootstrap.servers": brokers})

    assert status == (200 if is_taken else 400)
    if not is_taken:
        assert "bootstrap.servers is where this connector's ledger is" in shown["message"]
        assert "delete it and create it again with the same name" in shown["message"]


_CONFLUENT = {
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "topics": "t",
    "s3.bucket.name": "bucket-one",
    "s3.region": "us-east-1",
    "flush.size": "3",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": "io.confluent.connect.s3.format.bytearray.ByteArrayFormat",
    "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
}


@pytest.mark.parametrize(("before", "after"), [(",", ", "), ("|", "|\n"), ("", "\n"), ("---", "***")])
def test_only_what_is_shown_of_a_secret_keeps_it(before: str, after: str) -> None:
    """White space is a value of a separator, and asterisks are."""
    for method, rest in (("PUT", _CONFLUENT), ("PATCH", dict[str, str]())):
        worker, option = Worker(), "format.bytearray.separator"
        assert worker.ask("PUT", "/connectors/w/config", {**_CONFLUENT, option: before})[0] == 201
        assert worker.ask(method, "/connectors/w/config", {**rest, option: after})[0] == 200
        assert worker.records()["w"].config[option] == after


def _answering(status: HTTPStatus, headers: list[Mapping[str, str]]) -> HttpServer:
    def answer(request: Request) -> Response:
        headers.append(dict(request.headers.items()))
        return Response(status, "application/json", b'["orders/a.jsonl"]')

    return HttpServer("127.0.0.1", 0, answer, option="rest.listen", methods=None)


@pytest.mark.parametrize("status", [200, 401, 403, 404, 409, 500, 503])
def test_what_another_worker_does_not_tell_of_what_it_reads_is_unknown(status: int) -> None:
    """Not nothing: the change waits, or is refused."""
    asked: list[Mapping[str, str]] = []
    server = _answering(HTTPStatus(status), asked)
    server.start()
    try:
        url = f"http://{HostPort('127.0.0.1', server.port)}"
        if status == 200:
            assert reading_elsewhere(url, "uploads", Sender()) == ["orders/a.jsonl"]
        else:
            with pytest.raises(NotLeading, match=str(status)):
                reading_elsewhere(url, "uploads", Sender())
    finally:
        server.close()
    assert asked[0][FORWARDED] == "1"


@pytest.mark.parametrize(("method", "is_new"), [("PUT", False), ("POST", True)])
def test_one_whose_record_was_written_over_stays_stopped(method: str, *, is_new: bool) -> None:
    """Its ledger has what it is to be: the PUT that mends it is no creation, and begins nothing."""
    worker = Worker()
    assert worker.ask("POST", "/connectors", {"name": "uploads", "config": SOURCE})[0] == 201
    worker.store.records[connector_key("uploads")] = b"{"
    if method == "PUT":
        assert worker.ask("PUT", "/connectors/uploads/config", SOURCE)[0] == 201
    else:
        assert worker.ask("POST", "/connectors", {"name": "uploads", "config": SOURCE})[0] == 201
    assert (worker.records()["uploads"].created_ms is not None) is is_new
    # And with every change after it.
    assert worker.ask("PATCH", "/connectors/uploads/config", {"tasks.max": "2"})[0] == 200
    assert (worker.records()["uploads"].created_ms is not None) is is_new
