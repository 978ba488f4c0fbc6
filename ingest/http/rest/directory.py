"""The connectors that an interface serves: one of `headrace run`, or those of a worker."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ingest.http.rest.port import ConnectorPort, OffsetsPort
from ingest.http.rest.shapes import Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedConnector:
    """A connector as the interface shows and steers it."""

    identity: Identity
    port: ConnectorPort
    offsets: OffsetsPort


class ConnectorDirectory(Protocol):
    """Called by many threads at once; it may block."""

    @property
    def cluster_id(self) -> str | None:
        """Id of the Kafka cluster; None while it is not known."""

    @property
    def worker_config(self) -> str:
        """What a configuration may leave out because the worker knows it, as `.properties` text."""

    def require_health(self) -> None:
        """NotLeading from a standby, Unanswered when the service does not answer."""

    def names(self) -> Sequence[str]:
        """The connectors' names, sorted."""

    def find(self, name: str) -> ServedConnector | None:
        """The connector of this name."""
