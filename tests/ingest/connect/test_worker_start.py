"""A worker whose brokers are away at its start, without parts of a service around it."""

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from headrace.kafka.control_records import WORKERS, WorkerRecord, WorkersRecord, encode, workers_record
from headrace.model.errors import Exit, HeadraceError, Unavailable
from headrace.model.ledger_entry import ControlKey
from headrace.process.threads import ThreadFailures
from ingest.connect.connector_loading import Loading
from ingest.connect.other_workers import Liveness
from ingest.connect.worker import Worker
from ingest.connect.worker_settings import WorkerSettings, read_worker
from ingest.service.stop import Stop
from localstack.ports import free_port
from spark.jvm import Jvm
from tests.support.until import until_sync


def test_a_worker_without_brokers_lives_and_ends_with_0_when_it_is_stopped() -> None:
    """It waits for them: what looks after it sees that it lives, and why it is not ready."""
    port, stop = free_port(), Stop()
    endings: list[object] = []
    thread = threading.Thread(target=lambda: endings.append(_ending(port, stop)), daemon=True)
    thread.start()
    until_sync(lambda: _asked(port, "live")[0] == HTTPStatus.OK, seconds=30, what="that it lives")
    status, said = _asked(port, "ready")
    assert (status, "has not joined its group" in said) == (HTTPStatus.SERVICE_UNAVAILABLE, True)
    until_sync(lambda: "bootstrap.servers" in _asked(port, "ready")[1], seconds=60, what="the reason")
    assert endings == []

    began = time.monotonic()
    stop.ask("SIGTERM")
    thread.join(60)
    assert endings == [Exit.DONE]
    assert time.monotonic() - began < 5


def test_a_worker_that_ends_is_not_ready() -> None:
    """Its first failure is the reason, while it still closes connectors; of a stop, that it stops."""
    stop, failures, ended = Stop(), ThreadFailures(), "Spark's JVM has ended: it was killed."
    settings, unused = _settings(free_port()), cast("Any", None)
    worker = Worker(
        settings, Loading(settings, unused), stop, folder=None, startup_seconds=600.0, failures=failures
    )
    joining = ["this worker has not joined its group yet", "Spark is starting"]
    assert worker.problems() == joining

    stop.ask("SIGTERM")
    assert worker.problems() == [*joining, "this worker is stopping"]
    failures.add(Unavailable(ended))
    assert worker.problems() == [*joining, ended]
    assert not worker.overview()["ready"]


def test_a_spark_that_fails_unexpectedly_is_the_reason() -> None:
    """In a sentence, once: `/status` answers while the worker closes."""
    settings, unused, failures = _settings(free_port()), cast("Any", None), ThreadFailures()
    loading, jvm = Loading(settings, unused), _BrokenJvm()
    worker = Worker(settings, loading, Stop(), folder=None, startup_seconds=600.0, jvm=jvm, failures=failures)
    worker._spark.start()
    reason = "It ends with an unexpected error: RuntimeError('Answer from Java side is empty')"
    until_sync(lambda: reason in worker.problems(), seconds=30, what="the reason")
    failures.add(jvm.error)  # as the worker's own turn adds it
    assert worker.problems() == ["this worker has not joined its group yet", reason]


def test_a_turn_that_fails_is_told_once_and_says_nothing_of_other_workers() -> None:
    """What was known of them may not be so any more."""
    settings, unused = _settings(free_port()), cast("Any", None)
    worker = Worker(settings, Loading(settings, unused), Stop(), folder=None, startup_seconds=600.0)
    worker._topic = cast("Any", _RefusedTopic())
    alone = WorkersRecord(leader="w", workers={worker._id: WorkerRecord(url=None, connectors=("a",))})
    worker._unplaced.look(alone, ())
    assert worker.figures().unplaced == 1

    with capture_logs() as logs:
        worker._tick()
        worker._tick()
    assert [(one["event"], one["log_level"]) for one in logs] == [
        ("worker_turn_failed", "warning"),
        ("worker_turn_failed", "debug"),
    ]
    assert worker.figures().unplaced == 0
    assert any("may not be written" in one for one in worker.problems())


@pytest.mark.parametrize("is_readable", [True, False])
def test_a_worker_that_leads_again_takes_no_living_worker_for_dead(*, is_readable: bool) -> None:
    """Whether or not its topic could be read in between: it gives the others their time to say so."""
    worker, topic, now = _leading()
    worker._tick()
    assert set(topic.written()) == {worker._id, "other"}

    topic.is_leading, topic.is_readable = False, is_readable
    worker._tick()
    now[0] += 12
    worker._tick()
    topic.is_leading = topic.is_readable = True
    topic.leads_began += 1
    worker._tick()
    assert set(topic.written()) == {worker._id, "other"}


def test_a_lead_that_is_lost_and_taken_again_in_one_turn_is_another_lead() -> None:
    """A turn may take long, and another worker may have led meanwhile: it knew the one that came then."""
    worker, topic, now = _leading()
    worker._tick()

    now[0] += 12
    living = {name: WorkerRecord(url=f"http://{name}") for name in (worker._id, "other", "new")}

    def again() -> None:
        topic.leads_began += 1
        topic.write([(WORKERS, encode(WorkersRecord(leader="other", workers=living)))])

    topic.at_next_look = again
    worker._tick()
    now[0] += 2
    worker._tick()
    assert set(topic.written()) == {worker._id, "other", "new"}


def test_living_workers_have_their_time_from_when_they_can_know_who_leads() -> None:
    """The first write of a lead may take seconds, and a heartbeat goes to whom it names."""
    worker, topic, now = _leading()
    living = {name: WorkerRecord(url=f"http://{name}") for name in (worker._id, "other", "former")}
    topic.write([(WORKERS, encode(WorkersRecord(leader="former", workers=living)))])

    def slow() -> None:
        now[0] += 2.5
        worker._liveness.on_heartbeat("new", "http://new")

    topic.at_next_write = slow
    worker._tick()
    for seconds, living_then in (
        (2.9, {"other", "former", "new"}),
        (0.2, {"other", "new"}),
        (6.8, {"other", "new"}),
        (0.2, set()),
    ):
        now[0] += seconds
        worker._tick()
        assert set(topic.written()) == {worker._id, *living_then}


def _leading() -> tuple[Worker, "_Topic", list[float]]:
    """A worker that leads, its topic, and the clock by which it counts sessions of ten seconds."""
    settings, unused = _settings(free_port()), cast("Any", None)
    worker = Worker(settings, Loading(settings, unused), Stop(), folder=None, startup_seconds=600.0)
    topic, now = _Topic(worker._id), [100.0]
    worker._topic = cast("Any", topic)
    worker._liveness = Liveness(worker._id, session_seconds=10, clock=lambda: now[0])
    return worker, topic, now


class _Topic:
    """One that this worker leads by at times; another one lived when it began."""

    problem = None

    def __init__(self, own_id: str) -> None:
        self.is_leading = self.is_readable = True
        self.leads_began = 1
        self.at_next_look: Callable[[], None] | None = None
        self.at_next_write: Callable[[], None] | None = None
        living = {name: WorkerRecord(url=f"http://{name}") for name in (own_id, "other")}
        self._controls = {WORKERS: encode(WorkersRecord(leader=own_id, workers=living))}

    def controls(self) -> dict[ControlKey, bytes]:
        """See `ConfigurationTopic.controls`."""
        if not self.is_readable:
            raise Unavailable("The topic cannot be read.")
        found, happens = dict(self._controls), self.at_next_look
        self.at_next_look = None
        if happens is not None:
            happens()
        return found

    def write(self, changes: list[tuple[ControlKey, bytes]]) -> None:
        """See `ConfigurationTopic.write`."""
        self._controls.update(changes)
        happens, self.at_next_write = self.at_next_write, None
        if happens is not None:
            happens()

    def written(self) -> Mapping[str, WorkerRecord]:
        """The workers that live."""
        found = workers_record(self._controls)
        return {} if found is None else found.workers


class _RefusedTopic:
    """One that the leading worker may not write."""

    is_leading, problem = True, None

    def controls(self) -> Any:
        """Refuse it."""
        raise Unavailable("The topic may not be written.")


class _BrokenJvm(Jvm):
    """One whose gateway ends with an error that is none of ours."""

    error = RuntimeError("Answer from Java side is empty")

    def gateway(self, _conf: object) -> Any:
        """Raise it."""
        raise self.error


def _settings(port: int) -> WorkerSettings:
    """Of a worker whose brokers never answer."""
    given = {
        "bootstrap.servers": "127.0.0.1:1",
        "rest.listen": f"127.0.0.1:{free_port()}",
        "http.listen": f"127.0.0.1:{port}",
    }
    return read_worker(json.dumps(given), is_json=True, environment={}, read_file=str)


def _ending(port: int, stop: Stop) -> object:
    """How it ends."""
    settings, unused = _settings(port), cast("Any", None)
    try:
        return Worker(settings, Loading(settings, unused), stop, folder=None, startup_seconds=600.0).run()
    except HeadraceError as error:
        return error


def _asked(port: int, what: str) -> tuple[int, str]:
    """The answer's status and text; 0 while nothing answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/{what}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""
