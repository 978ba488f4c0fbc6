"""The page of a worker in a real browser: its list of connectors, and the way from each back to it."""

import http.client
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast
from urllib.parse import quote, urlsplit

import pytest

from headrace.kafka.control_records import ConnectorRecord
from ingest.connect.hosted_connector import HostedConnector
from ingest.connect.worker_view import WorkerFigures, WorkerPages
from ingest.http.http_server import HttpServer, Request, Response
from ingest.http.metrics import Metrics
from ingest.http.snapshot import SinkStatus, Snapshot, SnapshotHolder
from tests.ingest.http.page.chromium import Chromium, Page, find_chromium
from tests.ingest.http.page.page_service import LEADER

HOSTILE = "<img src=x onerror=\"document.title='taken'\">/50%"
CALM = replace(LEADER, objects={"done": 5}, quarantined=(), pending_objects=0, records_per_second=10.0)


@dataclass
class _Running:
    snapshot_holder: SnapshotHolder
    metrics: Metrics = field(default_factory=lambda: Metrics(dict))


@dataclass
class _Hosted:
    """A connector as the pages see it."""

    record: ConnectorRecord
    connector: _Running | None
    shown_failure: str | None = None
    settings: None = None


@dataclass
class _Worker:
    """A worker as the pages see it, and where they are."""

    connectors: dict[str, _Hosted] = field(default_factory=dict)
    elsewhere: tuple[str, ...] = ()
    worker_problems: list[str] = field(default_factory=list)
    is_silent: bool = False
    has_problems: bool = True
    moves: bool = True
    url: str = ""

    def add(self, name: str, snapshot: Snapshot | None = CALM, failure: str | None = None) -> None:
        """A connector with this snapshot; None before it has any."""
        running = None if snapshot is None else _Running(SnapshotHolder(replace(snapshot, name=name)))
        record = ConnectorRecord(name=name, config={"name": name}, at_ms=0)
        self.connectors[name] = _Hosted(record, running, failure)

    def change(self, name: str, **changes: Any) -> None:
        """Another snapshot of this connector."""
        running = self.connectors[name].connector
        assert running is not None
        running.snapshot_holder.show(replace(running.snapshot_holder.snapshot, **changes))

    def overview(self) -> dict[str, Any]:
        """See `WorkerView`."""
        found = {
            "worker": "w1", "version": "1.0.0", "group": "workers", "since_ms": 0, "leader": "w1",
            "workers": {
                "w1": {"url": "http://a:1", "connectors": list(self.connectors)},
                "w2": {"url": "http://b:1", "connectors": list(self.elsewhere)},
            },
            "ready": not self.worker_problems, "problems": self.worker_problems,
        }  # fmt: skip
        if not self.has_problems:
            del found["problems"]
        return found

    def hosted(self) -> Mapping[str, HostedConnector]:
        """See `WorkerView`."""
        return cast("Mapping[str, HostedConnector]", self.connectors)

    def problems(self) -> list[str]:
        """See `WorkerView`."""
        return self.worker_problems

    def figures(self) -> WorkerFigures:
        """See `WorkerView`."""
        number = len(self.connectors)
        return WorkerFigures(leads=True, known=number, assigned=number, unplaced=0)

    def answer(self, request: Request) -> Response:
        """What the worker answers; connectors look around all the time, unless they hang."""
        if self.is_silent and request.path.endswith("status"):
            raise ConnectionAbortedError
        for name, hosted in self.connectors.items():
            if self.moves and hosted.connector is not None:
                self.change(name, at_ms=hosted.connector.snapshot_holder.snapshot.at_ms + 250)
        return self.pages.answer(request)

    def __post_init__(self) -> None:
        self.pages = WorkerPages(self)


@contextmanager
def _serving(worker: _Worker) -> Iterator[_Worker]:
    server = HttpServer("127.0.0.1", 0, worker.answer, option="http.listen", methods=frozenset({"GET"}))
    server.start()
    worker.url = f"http://127.0.0.1:{server.port}/"
    try:
        yield worker
    finally:
        server.close()


@pytest.fixture
def worker() -> Iterator[_Worker]:
    """A worker with one connector of each kind."""
    made = _Worker(elsewhere=("far",))
    made.add("calm")
    made.add("busy", replace(CALM, records_per_second=2000.0, pending_objects=1200))
    made.add("bad", replace(CALM, ready=False, problems={"bucket": "403 on ListObjects."}))
    made.add("gone", None, "the topic is gone")
    made.add("held", replace(CALM, objects={"done": 1, "quarantined": 12}))
    made.add("queue", replace(CALM, mode="fallback", mode_reason="the queue does not exist"))
    made.add("sink", replace(CALM, sink=SinkStatus(lag=5, missing_topics=("late",))))
    made.add("topic", replace(CALM, problems={"topic x": "Topic x is missing."}))
    made.add("waits", replace(CALM, target="paused"))
    with _serving(made) as served:
        yield served


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """One browser for all tests of this module."""
    command = find_chromium()
    if command is None:
        pytest.skip("there is no Chromium on PATH (Debian: apt-get install chromium): no page was looked at")
    browser = Chromium(command, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


def _asked(url: str) -> tuple[int, str]:
    """Status and body."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=60)
    try:
        connection.request("GET", parts.path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def _names(page: Page) -> list[str]:
    return [
        str(name)
        for name in page.value("[...document.querySelectorAll('#rows th')].map((one) => one.innerText)")
    ]


def _row(page: Page, name: str) -> str:
    rows = page.value("[...document.querySelectorAll('#rows tr')].map((row) => row.innerText)")
    return next(" ".join(row.split()) for row in rows if row.split()[0] == name)


def _look(page: Page, name: str) -> str:
    """The class of a connector's state."""
    return str(
        page.value(
            f"[...document.querySelectorAll('#rows tr')].find((row) => row.cells[0].innerText === '{name}')"
            ".cells[2].className"
        )
    )


def _sort_by(page: Page, heading: str) -> None:
    page.value(
        f"[...document.querySelectorAll('thead button')].find((one) => one.innerText === '{heading}').click()"
    )


def test_problems_come_first_and_nothing_that_needs_a_look_is_green(
    chromium: Chromium, worker: _Worker
) -> None:
    """A deleted queue, a missing topic and quarantined objects among them, each with its sentence."""
    with chromium.page(worker.url) as page:
        page.await_text("#rows", lambda text: "calm" in text)
        names = _names(page)
        assert names[:2] == ["gone", "bad"]
        assert sorted(names[2:6]) == ["held", "queue", "sink", "topic"]
        assert names[6:] == ["waits", "busy", "calm", "far"]
        assert [name for name in names if "good" in _look(page, name)] == ["busy", "calm"]
        assert "failed" in _row(page, "gone")
        assert "the topic is gone" in _row(page, "gone")
        assert "not ready 10 0 objects 403 on ListObjects." in _row(page, "bad")
        assert "The bucket is listed: the queue does not exist" in _row(page, "queue")
        assert "1 topic not there: late." in _row(page, "sink")
        assert " 12" in _row(page, "held")
        assert "Runs on http://b:1." in _row(page, "far")
        counts = page.text("#counts")
        assert counts.startswith(
            "9 connectors here: 1 failed, 1 not ready, 3 running with problems, 1 paused, 3 running"
        )
        assert "; 1 with quarantined objects; 1 on other workers" in counts
        assert page.value("document.title") == "⚠ 2 · Headrace worker"
        assert page.complaints == []


def test_the_list_is_filtered_and_sorted(chromium: Chromium, worker: _Worker) -> None:
    """By any column, numbers with the largest first, and said to those who do not see the arrow."""
    with chromium.page(worker.url) as page:
        page.await_text("#rows", lambda text: "calm" in text)
        _sort_by(page, "Records/s")
        assert _names(page)[0] == "busy"
        sorts = "[...document.querySelectorAll('thead th')].map((one) => one.ariaSort)"
        assert page.value(sorts) == ["none", "none", "none", "descending", "none", "none", "none"]
        _sort_by(page, "Quarantined")
        assert _names(page)[0] == "held"
        _sort_by(page, "Connector")
        assert _names(page) == sorted(_names(page))
        _sort_by(page, "Connector")
        assert _names(page) == sorted(_names(page), reverse=True)

        page.value(
            "const field = document.querySelector('#filter'); field.value = 'SINK running';"
            " field.dispatchEvent(new Event('input')); 0"
        )
        assert _names(page) == ["sink"]
        assert page.text("#matching") == "1 of 10 shown"
        assert page.complaints == []


def test_rows_live_on_and_old_figures_are_dimmed(chromium: Chromium, worker: _Worker) -> None:
    """A row is not built anew; without an answer all of it is dimmed, and said to be old."""
    opacity = "getComputedStyle(document.querySelector('#rows')).opacity"
    with chromium.page(worker.url) as page:
        page.await_text("#rows", lambda text: "calm" in text)
        page.value("document.querySelector('#rows a').focus(); window.link = document.activeElement; 0")
        assert page.value(opacity) == "1"
        worker.change("calm", records_per_second=77.0)
        page.await_text("#rows", lambda text: "77" in text)
        assert page.value("document.activeElement === window.link")
        del worker.connectors["waits"]
        page.await_text("#rows", lambda text: "waits" not in text)
        assert page.value("document.activeElement === window.link")

        worker.is_silent = True
        page.await_text("#silent", lambda text: text.startswith("No answer from this worker since"))
        assert page.value(opacity) == "0.55"
        worker.is_silent = False
        page.await_text("#silent", lambda text: text == "")
        assert page.value(opacity) == "1"


def test_an_answer_that_cannot_be_shown_is_said_to_be_one(chromium: Chromium, worker: _Worker) -> None:
    """As of a version without a field that the page reads; it is over with an answer that can be shown."""
    with chromium.page(worker.url) as page:
        page.await_text("#rows", lambda text: "calm" in text)
        worker.has_problems = False
        page.await_text("#silent", lambda text: "this page cannot show all of it" in text)
        assert page.value("getComputedStyle(document.querySelector('#rows')).opacity") == "0.55"
        assert page.value("document.title").startswith("⚠ ")
        worker.has_problems = True
        page.await_text("#silent", lambda text: text == "")
        assert page.value("getComputedStyle(document.querySelector('#rows')).opacity") == "1"


@pytest.mark.long
def test_a_connector_that_hangs_is_dimmed(chromium: Chromium, worker: _Worker) -> None:
    """The worker answers from another thread."""
    worker.moves = False
    with chromium.page(worker.url) as page:
        page.await_text("#rows", lambda text: "Its figures do not move." in text, seconds=60)
        assert "bad" in _look(page, "calm")
        dimmed = "[...document.querySelectorAll('tr.stale')].map((row) => getComputedStyle(row).opacity)"
        assert set(page.value(dimmed)) == {"0.55"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_window_shows_each_connector_as_a_card(
    chromium: Chromium, worker: _Worker, scheme: str
) -> None:
    """Nothing is cut off, and each cell says what it is."""
    with chromium.page(worker.url, width=360, height=700, scheme=scheme) as page:
        page.await_text("#rows", lambda text: "calm" in text)
        assert page.value("document.documentElement.scrollWidth") <= 360
        page.await_text(
            "#rows",
            lambda _: page.value("getComputedStyle(document.querySelector('#rows td'), '::before').content"),
        )
        before = "getComputedStyle(document.querySelectorAll('#rows td')[1], '::before').content"
        assert "State" in page.value(before)
        assert page.value("document.querySelector('thead button').checkVisibility()")
        assert page.complaints == []


def test_a_connectors_page_leads_back_and_its_links_are_alive(chromium: Chromium, worker: _Worker) -> None:
    """Each connector answers what it would if it ran alone, and the list is one click away."""
    worker.add(HOSTILE)
    with chromium.page(worker.url) as page:
        page.await_text("#rows", lambda text: "50%" in text)
        page.value(
            "[...document.querySelectorAll('#rows a')].find((one) => one.innerText.includes('50%')).click()"
        )
        page.await_text("#role", lambda text: text == "leader")
        assert page.text("h1") == HOSTILE
        links = page.value("[...document.querySelectorAll('footer a')].map((one) => one.href)")
        assert len(links) == 4
        assert [_asked(link)[0] for link in links] == [200] * 4
        assert page.text("#up") == "All connectors of this worker"
        page.value("document.querySelector('#up').click()")
        page.await_text("#rows", lambda text: "50%" in text)
        assert page.value("document.title") == "⚠ 2 · Headrace worker"
        assert page.complaints == []


@pytest.mark.parametrize(
    ("name", "look"),
    [
        ("calm", "good"),
        ("queue", "warn"),
        ("topic", "warn"),
        ("held", "warn"),
        ("sink", "warn"),
        ("bad", "bad"),
    ],
)
def test_a_connectors_page_is_green_only_without_a_word(
    chromium: Chromium, worker: _Worker, name: str, look: str
) -> None:
    """Ready as it may be: a deleted queue, a missing topic and quarantined objects need a look."""
    with chromium.page(f"{worker.url}connectors/{name}/") as page:
        page.await_text("#ready", bool)
        assert look in page.value("document.querySelector('#ready').className").split()
        assert page.complaints == []


@pytest.mark.parametrize(
    ("failure", "role", "reason"),
    [
        ("the topic is gone", "failed", "It has failed, and has no figures."),
        (None, "starting", "It starts, "),
    ],
)
def test_the_page_of_a_connector_that_was_never_loaded_says_why(
    chromium: Chromium, worker: _Worker, failure: str | None, role: str, reason: str
) -> None:
    """It has a configuration and perhaps a failure, and nothing else."""
    worker.add("new", None, failure)
    with chromium.page(f"{worker.url}connectors/new/") as page:
        page.await_text("#role", lambda text: text == role)
        assert page.text("#name") == "new"
        assert page.text("#reason").startswith(reason)
        assert page.text("#problems") == ("" if failure is None else f"connector: {failure}")
        assert not page.value("document.querySelector('#content').checkVisibility()")
        assert page.complaints == []


def test_what_a_connector_answers_is_its_own(worker: _Worker) -> None:
    """Metrics of this one alone, and whether it is ready."""

    def asked(path: str) -> tuple[int, str]:
        return _asked(f"{worker.url}connectors/{path}")

    status, text = asked("calm/metrics")
    assert status == 200
    assert 'headrace_ready{connector="calm"} 1.0' in text
    assert 'connector="bad"' not in text
    assert asked("calm/health/ready") == (200, "ready\n")
    assert asked("calm/health/live") == (200, "live\n")
    assert asked("bad/health/ready") == (503, "not ready: 403 on ListObjects.\n")
    assert asked("gone/health/ready") == (503, "not ready: the topic is gone\n")
    assert asked("none/metrics")[0] == 404
    assert "/connectors/NAME/health/ready" in asked("calm/other")[1]
    worker.add(HOSTILE)
    assert asked(quote(HOSTILE, safe=""))[0] == 301
    assert "<title>Headrace</title>" in asked(f"{quote(HOSTILE, safe='')}/")[1]
