"""What a worker shows: connectors over REST, those of other workers included, pages and metrics."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Final, NoReturn, Protocol
from urllib.parse import quote, unquote

from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace.kafka.control_records import ConnectorRecord, TargetState
from headrace.model.clock import wall_ms
from headrace.model.text_formatting import printable
from headrace.options.given import Problem
from headrace.options.value_types import HostPort
from headrace.options.vendor import Direction
from headrace.process.own_process import own_version
from ingest.connect.changes import folder_problems, kept_secrets, shown_config, worker_problems
from ingest.connect.hosted_connector import HostedConnector, HostedOffsets, HostedPort, as_written, unassigned
from ingest.connect.hosted_connectors import HostedConnectors, runs_as
from ingest.connect.worker_settings import WorkerSettings
from ingest.http.http_server import HttpServer, Request, Response, Route
from ingest.http.metrics import ProcessMetrics
from ingest.http.page import PAGE_HEADERS, status_page, worker_page
from ingest.http.rest import plugins
from ingest.http.rest.port import AskedCondition, ConnectorCondition, NotLeading
from ingest.http.rest.rest_routes import ServedConnector
from ingest.http.rest.router import Identity
from ingest.http.snapshot import NO_CONNECTOR, SinkStatus, Snapshot


class WorkerDirectory:
    """`ingest.http.rest.rest_routes.ConnectorDirectory` of a worker."""

    def __init__(
        self,
        records: Callable[[], Mapping[str, ConnectorRecord]],
        hosted: HostedConnectors,
        *,
        worker_id: str,
        version: str,
        settings: WorkerSettings,
        cluster_id: Callable[[], str | None],
    ) -> None:
        self._records = records
        self._hosted = hosted
        self._worker_id = worker_id
        self._version = version
        self._cluster_id = cluster_id
        self._settings = settings

    @property
    def cluster_id(self) -> str | None:
        """See `ConnectorDirectory.cluster_id`."""
        return self._cluster_id()

    @property
    def worker_config(self) -> str:
        """See `ConnectorDirectory.worker_config`."""
        return self._settings.text

    @property
    def origins(self) -> Collection[str]:
        """See `ConnectorDirectory.origins`."""
        return self._settings.origins

    def judge(self, config: Mapping[str, str]) -> tuple[Mapping[str, str], Sequence[Problem]]:
        """See `ConnectorDirectory.judge`: as it would be created, or changed where there is such a one."""
        name = config.get("name", "")
        kept = kept_secrets(config, self._records().get(name))
        of_worker = worker_problems(name, kept, reserved=self._settings.name)
        return kept, [*of_worker, *folder_problems(kept)]

    def require_health(self) -> None:
        """The configurations can be read; how each connector is, its status says."""
        self._records()

    def names(self) -> Sequence[str]:
        """See `ConnectorDirectory.names`."""
        return list(self._records())

    def find(self, name: str) -> ServedConnector | None:
        """See `ConnectorDirectory.find`."""
        record = self._records().get(name)
        return None if record is None else self.served(record)

    def served(self, record: ConnectorRecord) -> ServedConnector:
        """The connector of a record, whether it runs here or not."""
        way = plugins.way_of(record.config)
        identity = Identity(
            name=record.name,
            config={
                plugins.CLASS: plugins.default_class(way),
                **shown_config(record),
                "name": record.name,
            },
            worker_id=self._worker_id,
            version=self._version,
            type=way,
        )
        hosted = self._hosted.find(record.name)
        # What was changed, or deleted and made again, is another one, though the one before still runs.
        if hosted is None or runs_as(hosted.record) != runs_as(record):
            absent = _Absent(self._cluster_id())
            return ServedConnector(identity=identity, port=absent, offsets=absent)
        port = HostedPort(hosted, self._cluster_id())
        return ServedConnector(identity=identity, port=port, offsets=HostedOffsets(hosted))


class _Absent:
    """A connector that does not run here (any more, or yet)."""

    def __init__(self, cluster_id: str | None) -> None:
        self.cluster_id = cluster_id

    def condition(self) -> ConnectorCondition:
        """See `ConnectorPort.condition`."""
        return unassigned()

    def ask_condition(self) -> AskedCondition:
        """See `ConnectorPort.ask_condition`."""
        return lambda _seconds: unassigned()

    def revive(self) -> bool:
        """See `ConnectorPort.revive`."""
        return False

    def require_leading(self) -> None:
        """See `ConnectorPort.require_leading`."""
        _refuse()

    def steer(self, target: TargetState) -> None:
        """See `ConnectorPort.steer`."""
        del target
        _refuse()

    def restart(self, slots: Collection[int]) -> None:
        """See `ConnectorPort.restart`."""
        del slots
        _refuse()

    def restart_task(self, slot: int) -> None:
        """See `ConnectorPort.restart_task`."""
        del slot
        _refuse()

    def topics(self) -> Sequence[str]:
        """See `ConnectorPort.topics`."""
        _refuse()

    def reset_topics(self) -> None:
        """See `ConnectorPort.reset_topics`."""
        _refuse()

    def items(self) -> Iterator[dict[str, Any]]:
        """See `OffsetsPort.items`."""
        _refuse()

    def alter(self, items: list[Any]) -> None:
        """See `OffsetsPort.alter`."""
        del items
        _refuse()

    def reset(self) -> None:
        """See `OffsetsPort.reset`."""
        _refuse()


def _refuse() -> NoReturn:
    raise NotLeading(
        "Cannot complete request momentarily due to a rebalance: no worker runs this connector yet",
        passes=True,
    )


_HTML: Final = "text/html; charset=utf-8"
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
_OF_ONE: Final = ("", "status", "metrics", "health/live", "health/ready")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFigures:
    """How many connectors the worker knows, is to run, and knows to run on no worker; whether it leads."""

    leads: bool
    known: int
    assigned: int
    unplaced: int


class WorkerView(Protocol):
    """What of the worker is shown; any thread may ask."""

    def overview(self) -> dict[str, Any]:
        """The worker without its connectors."""

    def hosted(self) -> Mapping[str, HostedConnector]:
        """The connectors that run here, by name."""

    def problems(self) -> list[str]:
        """Why the worker is not ready, a sentence each."""

    def figures(self) -> WorkerFigures:
        """What `/metrics` counts of the worker."""


class WorkerPages:
    """The routes of `http.listen`; nothing here blocks."""

    def __init__(self, view: WorkerView) -> None:
        self._view = view
        self._process = ProcessMetrics("worker")
        self._routes: Mapping[str, Route] = {
            "": lambda: Response(HTTPStatus.OK, _HTML, worker_page(), headers=PAGE_HEADERS),
            "health/live": lambda: Response.of_text("live\n"),
            "health/ready": self._ready,
            "status": lambda: Response.of_json(self._status()),
            "metrics": lambda: Response(HTTPStatus.OK, _TEXT, self._exposition()),
        }

    def answer(self, request: Request) -> Response:
        """The answer of a path."""
        parts = [unquote(part) for part in request.path.strip("/").split("/")]
        route = self._routes.get("/".join(parts))
        if route is not None:
            return route()
        match parts:
            case ["connectors", name, *rest] if "/".join(rest) in _OF_ONE:
                return self._one(name, "/".join(rest), is_page=request.path.endswith("/"))
        known = ", ".join(["/", *(f"/{path}" for path in self._routes if path)])
        ones = ", ".join(f"/connectors/NAME/{path}" for path in _OF_ONE)
        return Response.of_text(f"No such page. There are: {known}, {ones}\n", HTTPStatus.NOT_FOUND)

    def _ready(self) -> Response:
        return _readiness(self._view.problems())

    def _status(self) -> dict[str, Any]:
        connectors = {name: shown_connector(hosted) for name, hosted in self._view.hosted().items()}
        return self._view.overview() | {"connectors": connectors}

    def _one(self, name: str, path: str, *, is_page: bool) -> Response:
        """What a connector that runs here would answer at this path if it ran alone."""
        hosted = self._view.hosted().get(name)
        if hosted is None:
            return Response.of_text(f"{self._where(name)}\n", HTTPStatus.NOT_FOUND)
        shown = shown_connector(hosted)
        beside: Mapping[str, Route] = {
            "status": lambda: Response.of_json(shown),
            "metrics": lambda: Response(HTTPStatus.OK, _TEXT, _metrics_of({name: hosted})),
            "health/live": lambda: Response.of_text("live\n"),
            "health/ready": lambda: _readiness(
                [] if shown["ready"] else list(shown["problems"].values()) or [shown["role"]]
            ),
        }
        if path in beside:
            return beside[path]()
        if not is_page:
            # The page asks for what lies beside it.
            where = (("Location", f"{quote(name, safe='')}/"),)
            return Response(HTTPStatus.MOVED_PERMANENTLY, None, b"", headers=where)
        return Response(HTTPStatus.OK, _HTML, status_page(), headers=PAGE_HEADERS)

    def _where(self, name: str) -> str:
        """Why this worker does not show a connector."""
        for worker, one in self._view.overview()["workers"].items():
            if name in one["connectors"]:
                where = f" (its REST interface: {one['url']})" if one["url"] else ""
                return f"This connector runs on the worker {worker}{where}: look at that one's page."
        return f"{NO_CONNECTOR}; / lists those that there are."

    def _exposition(self) -> bytes:
        of_worker: Any = _OfWorker(self._view)
        return self._process.exposition() + generate_latest(of_worker) + _metrics_of(self._view.hosted())


def pages_server(listen: HostPort, view: WorkerView) -> HttpServer:
    """What answers at `http.listen`, not started."""
    return HttpServer(
        listen.host,
        listen.port,
        WorkerPages(view).answer,
        option="http.listen",
        methods=frozenset({"GET", "HEAD"}),
    )


def _metrics_of(hosted: Mapping[str, HostedConnector]) -> bytes:
    collector: Any = _AllConnectors(hosted)
    return generate_latest(collector)


def _readiness(problems: Sequence[str]) -> Response:
    """Ready without problems."""
    if not problems:
        return Response.of_text("ready\n")
    text = f"not ready: {printable('; '.join(problems))}\n"
    return Response.of_text(text, HTTPStatus.SERVICE_UNAVAILABLE)


def shown_connector(hosted: HostedConnector) -> dict[str, Any]:
    """One connector's `/status`; of one that has failed, with its sentence."""
    connector, failure = hosted.connector, hosted.shown_failure
    snapshot = _not_begun(hosted.record) if connector is None else connector.snapshot_holder.snapshot
    settings, last_error = hosted.settings, snapshot.last_error
    snapshot = replace(
        snapshot,
        problems={what: as_written(one, settings) for what, one in snapshot.problems.items()},
        last_error=None if last_error is None else as_written(last_error, settings),
    )
    if failure is not None:
        # What is waited for at a start is among them already.
        is_shown = failure in snapshot.problems.values()
        problems = {**snapshot.problems, **({} if is_shown else {"connector": failure})}
        snapshot = replace(snapshot.without_leadership(), role="failed", problems=problems)
    return snapshot.as_dict()


def _not_begun(record: ConnectorRecord) -> Snapshot:
    """A connector that is not loaded yet, or could not be: `since_ms` is 0, and there is no figure."""
    sink = SinkStatus() if plugins.way_of(record.config) is Direction.SINK else None
    return Snapshot(name=record.name, version=own_version(), at_ms=wall_ms(), sink=sink)


CONNECTORS: Final = ("known", "assigned", "running", "unplaced")


class _OfWorker(Collector):
    """The worker's own metrics: a connector that runs nowhere has none."""

    def __init__(self, view: WorkerView) -> None:
        self._view = view

    def collect(self) -> Iterable[Metric]:
        """As the worker is at present."""
        figures, running = self._view.figures(), len(self._view.hosted())
        connectors = GaugeMetricFamily(
            "headrace_worker_connectors",
            "Connectors that this worker knows, is to run and runs, and those that no worker runs.",
            labels=["state"],
        )
        counts = (figures.known, figures.assigned, running, figures.unplaced)
        for state, count in zip(CONNECTORS, counts, strict=True):
            connectors.add_metric([state], count)
        return [
            GaugeMetricFamily(
                "headrace_worker_ready",
                "1 while /health/ready of the worker says so.",
                value=float(not self._view.problems()),
            ),
            GaugeMetricFamily(
                "headrace_worker_leader", "1 while this worker leads its group.", value=float(figures.leads)
            ),
            connectors,
        ]


class _AllConnectors(Collector):
    """The metrics of all connectors, each sample with the label `connector`."""

    def __init__(self, hosted: Mapping[str, HostedConnector]) -> None:
        self._hosted = hosted

    def collect(self) -> Iterable[Metric]:
        """Each family once, whichever connectors have it."""
        families: dict[str, Metric] = {}
        failed = GaugeMetricFamily(
            "headrace_connector_failed", "1 for a connector that has failed.", labels=["connector"]
        )
        for name, hosted in self._hosted.items():
            failure = hosted.shown_failure
            failed.add_metric([name], float(failure is not None))
            connector = hosted.connector
            if connector is None:
                continue
            connector.metrics.ready.set(connector.snapshot_holder.snapshot.ready and failure is None)
            for metric in connector.metrics.registry.collect():
                # A gauge and a counter of one name are two families in the text.
                family = families.setdefault(
                    f"{metric.name} {metric.type}", Metric(metric.name, metric.documentation, metric.type)
                )
                family.samples.extend(_labelled(metric, name))
        return [failed, *families.values()]


def _labelled(metric: Metric, connector: str) -> Iterator[Any]:
    for sample in metric.samples:
        yield sample._replace(labels={**sample.labels, "connector": connector})
