"""What the REST interface shows of a worker's connectors, those included that other workers run."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from headrace.kafka.control_records import TargetState
from headrace.model.connector_records import ConnectorRecord
from headrace.options.direction_forms import Direction
from ingest.connect.changes import shown_config
from ingest.connect.hosted_connector import HostedConnectors, HostedOffsets, HostedPort, unassigned
from ingest.http.rest import plugins
from ingest.http.rest.directory import ServedConnector
from ingest.http.rest.port import ConnectorCondition, NotLeading
from ingest.http.rest.shapes import Identity


class WorkerDirectory:
    """`ingest.http.rest.directory.ConnectorDirectory` of a worker."""

    def __init__(
        self,
        records: Callable[[], Mapping[str, ConnectorRecord]],
        hosted: HostedConnectors,
        *,
        worker_id: str,
        version: str,
        worker_config: str,
        cluster_id: Callable[[], str | None],
    ) -> None:
        self._records = records
        self._hosted = hosted
        self._worker_id = worker_id
        self._version = version
        self._cluster_id = cluster_id
        self._worker_config = worker_config

    @property
    def cluster_id(self) -> str | None:
        """See `ConnectorDirectory.cluster_id`."""
        return self._cluster_id()

    @property
    def worker_config(self) -> str:
        """See `ConnectorDirectory.worker_config`."""
        return self._worker_config

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
        way = direction_of(record)
        identity = Identity(
            name=record.name,
            config={
                "connector.class": plugins.default_class(way),
                **shown_config(record),
                "name": record.name,
            },
            worker_id=self._worker_id,
            version=self._version,
            type=way,
        )
        hosted = self._hosted.find(record.name)
        if hosted is None:
            absent = _Absent(self._cluster_id())
            return ServedConnector(identity=identity, port=absent, offsets=absent)
        port = HostedPort(hosted, self._cluster_id())
        return ServedConnector(identity=identity, port=port, offsets=HostedOffsets(hosted))


def direction_of(record: ConnectorRecord) -> Direction:
    """Which way the data goes, as far as the names of the options tell."""
    plugin = plugins.plugin_class(record.config.get("connector.class", "").strip())
    if plugin is not None:
        return plugins.direction_of(plugin)
    has_topics = "topics" in record.config or "topics.regex" in record.config
    return Direction.SINK if has_topics else Direction.SOURCE


class _Absent:
    """A connector that does not run here (any more, or yet)."""

    def __init__(self, cluster_id: str | None) -> None:
        self.cluster_id = cluster_id

    def condition(self) -> ConnectorCondition:
        """See `ConnectorPort.condition`."""
        return unassigned()

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
