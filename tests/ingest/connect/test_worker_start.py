"""A worker whose brokers are away at its start, without parts of a service around it."""

import json
import threading
import time
import urllib.error
import urllib.request
from http import HTTPStatus
from typing import Any

from headrace.model.errors import Exit, HeadraceError
from ingest.connect.connector_loading import Loading
from ingest.connect.worker import Worker
from ingest.connect.worker_settings import read_worker
from ingest.service.stop import Stop
from localstack.ports import free_port
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


def _ending(port: int, stop: Stop) -> object:
    """How a worker ends whose brokers never answer."""
    given = {
        "bootstrap.servers": "127.0.0.1:1",
        "rest.listen": f"127.0.0.1:{free_port()}",
        "http.listen": f"127.0.0.1:{port}",
    }
    settings = read_worker(json.dumps(given), is_json=True, environment={}, read_file=str)
    unused: Any = None
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
