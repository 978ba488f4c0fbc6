"""The process: leads or follows its group, runs the connectors that are its, answers over HTTP."""

import secrets
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import structlog

from headrace.kafka.control_records import (
    WORKERS,
    ConnectorRecord,
    WorkerRecord,
    WorkersRecord,
    connector_records,
    encode,
    workers_record,
)
from headrace.model.clock import wall_ms
from headrace.model.errors import Exit, HeadraceError, Unavailable
from headrace.model.ledger_entry import ControlKey
from headrace.options import Settings
from headrace.options.value_types import HostPort
from headrace.process.log_levels import LEVELS
from headrace.process.logs import RetryLog
from headrace.process.own_process import own_version
from headrace.process.threads import ThreadFailures, collecting, start_thread
from ingest.connect.changes import ConnectorChanges, begun_in_ledger
from ingest.connect.connector_configurations import ConfigurationTopic
from ingest.connect.connector_loading import Loading
from ingest.connect.hosted_connector import HostedConnector
from ingest.connect.hosted_connectors import HostedConnectors, Unplaced, assign
from ingest.connect.other_workers import (
    ADVERTISE,
    Liveness,
    OtherGroup,
    Sender,
    group_mark,
    refusal_of,
    tell_leader,
)
from ingest.connect.shared_slots import SharedSpark
from ingest.connect.worker_routes import (
    Membership,
    WorkerRoutes,
    changing_acts,
    reading_elsewhere,
    refused_acts,
)
from ingest.connect.worker_settings import ConnectorFiles, WorkerSettings
from ingest.connect.worker_view import WorkerDirectory, WorkerFigures, pages_server
from ingest.http.http_server import HttpServer
from ingest.http.rest.auth import AuthFile
from ingest.http.rest.port import NotLeading
from ingest.http.rest.rest_routes import RestRoutes
from ingest.http.rest.router import Loggers
from ingest.http.rest.server import own_name, rest_server
from ingest.service.stop import PatientStart, Stop, Stopped
from spark.jvm import Jvm

_log = structlog.get_logger(__name__)

_TICK_SECONDS: Final = 0.25
_HEARTBEAT_SECONDS: Final = 1.0


class Worker:
    """One worker; `run` blocks."""

    def __init__(
        self,
        settings: WorkerSettings,
        load: Loading,
        stop: Stop,
        *,
        folder: Path | None,
        startup_seconds: float,
        jvm: Jvm | None = None,
        failures: ThreadFailures | None = None,
    ) -> None:
        self._settings = settings
        self._load = load
        self._stop = stop
        self._failures = ThreadFailures() if failures is None else failures
        self._files = None if folder is None else ConnectorFiles(folder, settings.resolved)
        # The lead is given back after what is left to do with it.
        self._topic_stop = Stop()
        self._topic = ConfigurationTopic(settings, self._topic_stop)
        self._deadline = time.monotonic() + startup_seconds
        self._spark = SharedSpark(settings.frame.spark, name=settings.group, deadline=self._deadline, jvm=jvm)
        self._hosted = HostedConnectors(lambda record: HostedConnector(record, load, self._spark))
        self._id = f"{socket.gethostname()}-{secrets.token_hex(4)}"
        self._since_ms = wall_ms()
        self._url: str | None = None
        self._liveness = Liveness(self._id, session_seconds=settings.session_timeout_ms / 1000)
        place = f"config.storage.topic = {settings.topic!r}" if folder is None else str(folder)
        self._unplaced = Unplaced(self._id, place)
        self._retries = RetryLog(_log, "worker_turn_failed")
        self._leads_began = 0
        self._looking = threading.Lock()
        self._controls: Mapping[ControlKey, bytes] = {}
        self._records: Mapping[str, ConnectorRecord] = {}
        self._workers: WorkersRecord | None = None
        self._problem: HeadraceError | None = None
        self._auth: AuthFile | None = None
        self._refused: str | None = None

    def run(self) -> Exit:
        """Until it is asked to stop. InvalidConfiguration, Unavailable at the start."""
        failures = self._failures
        http = self._settings.frame.http
        self._auth = None if http.rest_auth_file is None else AuthFile(http.rest_auth_file)
        with collecting(failures), ExitStack() as closing:
            closing.callback(self._close_topic)
            closing.callback(self._spark.close)
            # First: what looks after the process asks whether it lives while its brokers are away, too.
            if http.listen is not None:
                _serve(pages_server(http.listen, self), closing)
            try:
                PatientStart(
                    deadline=self._deadline, stop=self._stop, failures=failures, on_trouble=self._note_trouble
                ).answer(self._topic.open)
            except Stopped:
                return Exit.DONE
            self._spark.start()
            self._look()
            if http.rest_listen is not None:
                _serve(self._rest(http.rest_listen), closing)
            start_thread(self._beat, name="worker-heartbeat")
            _log.info("worker_started", worker=self._id, group=self._settings.group, url=self._url)
            try:
                while not self._stop.asked.wait(_TICK_SECONDS):
                    failures.raise_first()
                    self._spark.startup.is_up()
                    self._tick()
            except Exception as error:
                failures.add(error)  # it is shown as the reason while connectors are closed
                raise
            finally:
                self._leave()
                self._hosted.close(self._stop.at_once.is_set)
        failures.raise_first()
        _log.info("worker_stopped", worker=self._id)
        return Exit.DONE

    # -- what is shown (ingest.connect.worker_view.WorkerView) ----------------------------------------------

    def overview(self) -> dict[str, Any]:
        """The worker without its connectors."""
        workers, problems = self._workers, self.problems()
        noted = (
            self._topic.foreign,
            None if self._files is None else self._files.problem,
            self._liveness.problem if self._topic.is_leading else None,
            self._unplaced.problem,
        )
        return {
            "worker": self._id,
            "version": own_version(),
            "group": self._settings.group,
            "since_ms": self._since_ms,
            "leader": None if workers is None else workers.leader,
            "workers": {}
            if workers is None
            else {
                name: {"url": one.url, "connectors": list(one.connectors)}
                for name, one in workers.workers.items()
            },
            "ready": not problems,
            # These leave it ready: what it could read runs.
            "problems": problems + [one for one in noted if one is not None],
        }

    def hosted(self) -> Mapping[str, HostedConnector]:
        """The connectors that run here."""
        return self._hosted.all()

    def figures(self) -> WorkerFigures:
        """See `WorkerView.figures`."""
        workers = self._workers
        mine = None if workers is None else workers.workers.get(self._id)
        return WorkerFigures(
            leads=self._topic.is_leading,
            known=len(self._records),
            assigned=0 if mine is None else len(mine.connectors),
            unplaced=len(self._unplaced.names),
        )

    def problems(self) -> list[str]:
        """Why the worker is not ready; a connector that has failed is no reason."""
        of_auth = None if self._auth is None else self._auth.problem
        found = [str(one) for one in (self._problem, self._topic.problem, of_auth) if one is not None]
        if self._refused is not None and not self._topic.is_leading:
            found.append(self._refused)
        if self._workers is None or self._id not in self._workers.workers:
            found.append("this worker has not joined its group yet")
        try:
            if not self._spark.startup.is_up():
                found.append("Spark is starting")
        except Exception as error:  # noqa: BLE001  # whatever has ended Spark is the reason
            found.append(_reason(error))
        return found + [one for one in self._ending() if one not in found]

    def _ending(self) -> list[str]:
        """That it ends: others take its connectors, while it still closes them."""
        if self._failures.first is not None:
            return [_reason(self._failures.first)]
        return ["this worker is stopping"] if self._stop.asked.is_set() else []

    # -- the group -------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        try:
            self._look()
            if self._topic.is_leading:
                self._spread()
        except HeadraceError as error:
            # What runs goes on: each connector has a leadership of its own.
            self._problem = error
            self._retries.failed("turn", error)
            self._unplaced.look(None, self._records)
            return
        self._problem = None
        self._retries.over("turn")
        workers = self._workers
        mine = None if workers is None else workers.workers.get(self._id)
        names = set(() if mine is None else mine.connectors)
        names |= set(self._liveness.adopted(workers, set(self._records)))
        self._hosted.reconcile({name: self._records[name] for name in names if name in self._records})
        # Who leads gives away all that it has; without brokers nothing is known of the others.
        is_judged = not self._topic.is_leading and self._topic.problem is None
        self._unplaced.look(workers if is_judged else None, self._records)

    def _look(self) -> None:
        with self._looking:
            controls = self._topic.controls()
            # Four times a second, and hardly ever others: decoding hundreds of records is what costs.
            if controls != self._controls:
                self._workers = workers_record(controls)
                if self._files is None:
                    self._records = connector_records(controls)
                self._controls = controls
            if self._files is not None:
                self._records = self._files.records()

    def _spread(self) -> None:
        """Give every connector to a worker that lives; written only when something changes."""
        began = self._topic.leads_began
        if began != self._leads_began:
            # It may have begun since the last look, and another worker may have led before it.
            self._look()
            self._liveness.expect(self._workers)
        self._assign({self._id: self._url} | self._liveness.others())
        if began != self._leads_began:
            self._liveness.expect(self._workers, only_known=True)  # before they could not know whom to tell
            self._leads_began = began

    def _assign(self, live: Mapping[str, str | None]) -> None:
        before = self._workers
        had = {} if before is None else {name: one.connectors for name, one in before.workers.items()}
        spread = assign(set(self._records), live, had)
        after = WorkersRecord(
            leader=self._id,
            workers={name: WorkerRecord(url=live[name], connectors=mine) for name, mine in spread.items()},
        )
        if after != before:
            self._topic.write([(WORKERS, encode(after))])
            # Another leader may write again what was there before: that is news then.
            self._workers, self._controls = after, {}
            _log.info("connectors_assigned", workers={name: len(mine) for name, mine in spread.items()})

    def _beat(self) -> None:
        """Body of the thread that tells the leader of this worker, or asks after those it leads."""
        while not self._stop.asked.wait(_HEARTBEAT_SECONDS):
            if self._topic.is_leading:
                self._liveness.probe()
            elif self._topic.is_cut_off:
                # It can run none of its connectors, and hears of no assignment.
                self._tell("DELETE", b"")
            else:
                self._tell("PUT", (self._url or "").encode())

    def _leave(self) -> None:
        """Have others take this worker's connectors up while it still closes them."""
        if self._topic.is_leading:
            # Without brokers others miss it after its session, and its end does not wait for them.
            if self._topic.is_answered():
                with suppress(HeadraceError):
                    self._assign(self._liveness.others())
        else:
            self._tell("DELETE", b"")
        self._topic_stop.asked.set()

    def _close_topic(self) -> None:
        self._topic_stop.asked.set()
        self._topic_stop.at_once.set()
        self._topic.close()

    def _tell(self, method: str, body: bytes) -> None:
        workers = self._workers
        leader = None if workers is None else workers.workers.get(workers.leader)
        if workers is None or leader is None or leader.url is None or workers.leader == self._id:
            self._refused = None
            return
        if leader.url == self._url:
            # This worker would ask itself.
            self._note_refusal(
                f"the worker that leads, {workers.leader}, has this one's own address, {self._url}: "
                f"{ADVERTISE}"
            )
            return
        seconds = self._settings.session_timeout_ms / 2000
        try:
            status = tell_leader(leader.url, self._id, method, body, self._sender(), seconds)
        except OtherGroup as error:
            self._note_refusal(
                f"the worker that leads, {workers.leader}, is to be asked at {leader.url}, and {error}"
            )
        except ConnectionRefusedError:
            self._liveness.on_refused(workers.leader)
        except OSError:
            pass  # it is told again, and missed by its session
        else:
            self._note_refusal(refusal_of(leader.url, status))
            if status is HTTPStatus.NO_CONTENT:
                self._liveness.on_answered(workers.leader)

    def _note_refusal(self, why: str | None) -> None:
        if why not in {None, self._refused}:
            _log.warning("worker_not_joined", error=why)
        self._refused = why

    def _sender(self) -> Sender:
        return Sender(
            authorizations=() if self._auth is None else self._auth.authorizations(),
            group=group_mark(self._settings.group, self._topic.cluster_id),
        )

    # -- what it is made of ----------------------------------------------------------------------------------

    def _note_trouble(self, sentence: str | None) -> None:
        self._problem = None if sentence is None else Unavailable(sentence)

    def _rest(self, listen: HostPort) -> HttpServer:
        settings, host_name = self._settings, socket.gethostname()
        host = settings.advertised_host or own_name(listen, host_name)
        address = HostPort(host, settings.advertised_port or listen.port)
        self._url = f"http://{address}"
        directory = WorkerDirectory(
            lambda: self._records,
            self._hosted,
            worker_id=str(address),
            version=own_version(),
            settings=settings,
            cluster_id=lambda: self._topic.cluster_id,
        )
        store, load = _FreshStore(self._topic, self), self._load
        changes = ConnectorChanges(store, load, load_past=load.past, in_hand=self._in_hand)
        routes = RestRoutes(
            directory,
            Loggers(LEVELS),
            version=own_version(),
            changing=changing_acts(changes, directory) if self._files is None else {},
            refused={} if self._files is None else refused_acts(str(self._files.folder)),
        )
        membership = Membership(
            own_id=self._id,
            own_url=lambda: self._url,
            workers=lambda: self._workers,
            is_leading=lambda: self._topic.is_leading,
            on_heartbeat=self._liveness.on_heartbeat,
            on_leaving=self._liveness.on_leaving,
            sender=self._sender,
            reading=self._hosted.reading,
            read_to_end=self._read_to_end,
        )
        return rest_server(listen, WorkerRoutes(routes, membership).answer, self._auth, host_name=host_name)

    def _in_hand(self, settings: Settings, meaning: str) -> Sequence[str]:
        """See `InHand`: what the worker that runs it reads now, and what its ledger has of it.

        NotLeading while that is not known.
        """
        name = settings.name
        workers = self._workers
        worker = None if workers is None else workers.worker_of(name)
        if workers is None or worker in (None, self._id):
            reading = self._hosted.reading(name)
        else:
            url = workers.workers[str(worker)].url
            reading = [] if url is None else reading_elsewhere(url, name, self._sender())
        return [*reading, *(key for key in begun_in_ledger(settings, meaning) if key not in reading)]

    def take_up(self) -> None:
        """Show what was just written, without waiting for the next turn."""
        with suppress(HeadraceError):
            self._look()

    def _read_to_end(self) -> HeadraceError | None:
        """Know what other workers have written until now; why it cannot be read, or None."""
        if self._problem is not None:
            # Trying it again may take half a minute, and is done all the time.
            return self._problem
        try:
            if self._files is None:
                self._topic.read_to_end()
            self._look()
        except HeadraceError as error:
            return error
        return None


def _reason(failure: BaseException) -> str:
    """Why the worker ends, in a sentence."""
    is_ours = isinstance(failure, HeadraceError)
    return str(failure) if is_ours else f"It ends with an unexpected error: {failure!r}"


def _serve(server: HttpServer, closing: ExitStack) -> None:
    server.start()
    closing.callback(server.close)


class _FreshStore:
    """The configuration topic; what is written is shown at once."""

    def __init__(self, topic: ConfigurationTopic, worker: Worker) -> None:
        self._topic = topic
        self._worker = worker

    def controls(self) -> Mapping[Any, bytes]:
        """See `ConfigurationStore.controls`."""
        if not self._topic.is_leading:
            raise NotLeading(
                "Cannot complete request momentarily due to a rebalance: this worker does not lead",
                passes=True,
            )
        return self._topic.controls()

    def write(self, changes: list[tuple[Any, bytes | None]]) -> None:
        """See `ConfigurationStore.write`."""
        self._topic.write(changes)
        self._worker.take_up()
