"""What a worker's pages say of a connector that runs elsewhere, or nowhere."""

from collections.abc import Mapping
from email.message import Message
from typing import Any

import pytest

from ingest.connect.hosted_connector import HostedConnector
from ingest.connect.worker_view import WorkerFigures, WorkerPages
from ingest.http.http_server import Request


class View:
    """A worker that runs nothing, beside one that does."""

    def overview(self) -> dict[str, Any]:
        """Two workers."""
        return {
            "worker": "w1",
            "workers": {
                "w1": {"url": "http://a:1", "connectors": []},
                "w2": {"url": "http://b:1", "connectors": ["orders"]},
            },
        }

    def hosted(self) -> Mapping[str, HostedConnector]:
        """None."""
        return {}

    def problems(self) -> list[str]:
        """None."""
        return []

    def figures(self) -> WorkerFigures:
        """It leads, and knows one that no worker runs."""
        return WorkerFigures(leads=True, known=3, assigned=1, unplaced=1)


class UnreadyView(View):
    """One that is not ready, and does not lead."""

    def problems(self) -> list[str]:
        """One."""
        return ["Kafka does not answer this worker"]

    def figures(self) -> WorkerFigures:
        """It knows nothing."""
        return WorkerFigures(leads=False, known=0, assigned=0, unplaced=0)


@pytest.mark.parametrize("path", ["/connectors/{}", "/connectors/{}/", "/connectors/{}/status"])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("orders", "This connector runs on the worker w2 (its REST interface: http://b:1)"),
        ("nobody", "There is no such connector on this worker"),
    ],
)
def test_a_connector_that_does_not_run_here_is_a_sentence(path: str, name: str, said: str) -> None:
    """With where to look."""
    request = Request(method="GET", path=path.format(name), query="", headers=Message(), body=b"")
    answer = WorkerPages(View()).answer(request)

    assert answer.status == 404
    assert answer.body.decode().startswith(said)


@pytest.mark.parametrize(
    ("view", "shown"),
    [
        (
            View(),
            {
                "headrace_worker_ready 1.0",
                "headrace_worker_leader 1.0",
                'headrace_worker_connectors{state="known"} 3.0',
                'headrace_worker_connectors{state="assigned"} 1.0',
                'headrace_worker_connectors{state="running"} 0.0',
                'headrace_worker_connectors{state="unplaced"} 1.0',
            },
        ),
        (UnreadyView(), {"headrace_worker_ready 0.0", "headrace_worker_leader 0.0"}),
    ],
)
def test_a_worker_that_runs_nothing_has_metrics_of_its_own(view: View, shown: set[str]) -> None:
    """Those of its connectors vanish with them: an alert over these alone would be silent."""
    request = Request(method="GET", path="/metrics", query="", headers=Message(), body=b"")

    assert shown <= set(WorkerPages(view).answer(request).body.decode().splitlines())
