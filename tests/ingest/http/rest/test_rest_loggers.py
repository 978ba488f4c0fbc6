"""`/admin/loggers`: levels that change what is written, as Connect's clients change them."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

import headrace.kafka.ledger_cache
from headrace.process import logs
from ingest.http.http_server import HttpServer
from tests.ingest.http.rest.recording_connector import FakeConnector
from tests.ingest.http.rest.test_rest_server import ask, serve, settings

CACHE = headrace.kafka.ledger_cache.__name__


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    """What is logged, from INFO up at first, as JSON lines."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    logs.configure(level="info", style="json", stream=stream)
    yield stream
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("botocore").setLevel(logging.NOTSET)


@pytest.fixture
def server(out: io.StringIO) -> Iterator[HttpServer]:
    """A running one, over the levels of this process; a standby's levels are its own."""
    del out
    made = serve(FakeConnector(standby=True), settings())
    made.start()
    yield made
    made.close()


def put(server: HttpServer, name: str, body: Any, query: str = "") -> tuple[int, Any]:
    """Status and JSON of a change."""
    return ask(server, "PUT", f"/admin/loggers/{name}{query}", json.dumps(body).encode())


def written(out: io.StringIO) -> list[str]:
    """The events in the log."""
    return [json.loads(line)["event"] for line in out.getvalue().splitlines()]


def test_a_level_is_for_a_logger_and_all_below_it(server: HttpServer, out: io.StringIO) -> None:
    """The next line is written or not; others go on as before."""
    cache, rest = structlog.get_logger(CACHE), structlog.get_logger("listeners.listeners")
    cache.debug("hidden")

    status, changed = put(server, "headrace.kafka", {"level": "debug"})
    assert (status, "headrace.kafka" in changed) == (200, True)
    cache.debug("shown")
    rest.debug("hidden")
    assert ask(server, "GET", f"/admin/loggers/{CACHE}")[1]["level"] == "DEBUG"

    assert put(server, CACHE, {"level": "ERROR"})[0] == 200
    cache.warning("hidden")
    cache.error("shown too")
    rest.info("shown as well")
    assert put(server, "headrace", {"level": "OFF"})[0] == 200
    cache.error("hidden")

    assert written(out) == ["shown", "shown too", "shown as well"]


def test_the_root_is_everything_but_the_talk_of_libraries(server: HttpServer, out: io.StringIO) -> None:
    """A library's DEBUG lines hold headers with credentials."""
    put(server, CACHE, {"level": "ERROR"})
    status, changed = put(server, "root", {"level": "TRACE"})
    assert (status, {"root", CACHE} <= set(changed)) == (200, True)
    structlog.get_logger(CACHE).debug("ours")
    structlog.get_logger().debug("of no name")
    logging.getLogger("botocore.auth").debug("Authorization: ..")

    status, refused = put(server, "botocore", {"level": "DEBUG"})
    assert (status, refused["error_code"]) == (400, 400)
    assert "credentials" in refused["message"]
    assert put(server, "botocore", {"level": "INFO"})[0] == 200
    logging.getLogger("botocore.auth").info("theirs")
    logging.getLogger("botocore.auth").debug("Authorization: ..")

    assert written(out) == ["ours", "of no name", "theirs"]


def test_all_loggers_are_listed_with_their_levels(server: HttpServer) -> None:
    """In Connect's shape: level, and when it was changed."""
    before = ask(server, "GET", "/admin/loggers")[1]
    assert before["root"] == before["ingest.http.http_server"] == {"level": "INFO", "last_modified": None}

    put(server, "ingest.http.http_server", {"level": "warn"})
    after = ask(server, "GET", "/admin/loggers")[1]
    assert after["ingest.http.http_server"]["level"] == "WARN"
    assert after["ingest.http.http_server"]["last_modified"] > 1_700_000_000_000
    assert after["root"] == before["root"]
    assert put(server, "ingest.http.http_server", {"level": "OFF"}) == (200, ["ingest.http.http_server"])
    assert "ingest.http.http_server" not in ask(server, "GET", "/admin/loggers")[1]


@pytest.mark.parametrize(
    ("name", "body", "query", "status", "message"),
    [
        ("root", {}, "", 400, "Desired 'level' parameter was not specified in request."),
        ("root", {"level": 3}, "", 400, "Desired 'level' parameter was not specified in request."),
        ("root", [], "", 400, "Desired 'level' parameter was not specified in request."),
        ("root", {"level": "loud"}, "", 404, "invalid log level 'loud'."),
        ("root", {"level": "INFO"}, "?scope=cluster", 400, "each instance has levels of its own"),
    ],
)
def test_what_is_no_change_is_refused_in_connects_words(
    server: HttpServer, name: str, body: Any, query: str, status: int, message: str
) -> None:
    """And changes nothing."""
    before = ask(server, "GET", "/admin/loggers")
    answer, shape = put(server, name, body, query)

    assert (answer, shape["error_code"]) == (status, status)
    assert message in shape["message"]
    assert ask(server, "GET", "/admin/loggers") == before


def test_a_logger_that_is_not_there_is_404(server: HttpServer) -> None:
    """In Connect's words."""
    status, shape = ask(server, "GET", "/admin/loggers/org.apache.kafka")

    assert (status, shape["message"]) == (404, "Logger org.apache.kafka not found.")
