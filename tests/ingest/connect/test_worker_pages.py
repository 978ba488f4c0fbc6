"""What a worker's pages say of a connector that runs elsewhere, or nowhere."""

from collections.abc import Mapping
from email.message import Message
from typing import Any

import pytest

from ingest.connect.hosted_connector import HostedConnector
from ingest.connect.worker_view import WorkerPages
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
