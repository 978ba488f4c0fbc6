"""What a worker of xdist leaves out is nothing that is printed."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import worker_reports


def _report(**values: Any) -> dict[str, Any]:
    at_once = {"when": "setup", "outcome": "passed", "sections": [], "duration": 0.001}
    return {"data": at_once | values}


@pytest.mark.parametrize(
    ("event", "values", "is_told"),
    [
        ("logstart", {}, False),
        ("logfinish", {}, False),
        ("testreport", _report(), False),
        ("testreport", _report(when="teardown"), False),
        ("testreport", _report(when="call"), True),
        ("testreport", _report(outcome="failed"), True),
        ("testreport", _report(outcome="skipped"), True),
        ("testreport", _report(when="teardown", outcome="failed"), True),
        ("testreport", _report(when="teardown", sections=[["Captured stdout teardown", "x"]]), True),
        ("testreport", _report(duration=0.005), True),
        ("runtest_protocol_complete", {"item_index": 1, "duration": 0.1}, True),
        ("warning_recorded", {}, True),
    ],
)
def test_what_is_printed_is_told(event: str, values: dict[str, Any], is_told: bool) -> None:
    """Results, failures around a test, output, and what takes so long that it is listed."""
    assert worker_reports.is_told(event, values) == is_told


@pytest.mark.parametrize(
    ("verbose", "xmlpath", "told"),
    [
        (0, None, ["workerready"]),
        (1, None, ["logstart", "workerready"]),
        (0, "x", ["logstart", "workerready"]),
    ],
)
def test_all_is_told_where_more_is_asked_for(verbose: int, xmlpath: str | None, told: list[str]) -> None:
    """By `-v`, which prints each test that begins, and in a report for other tools."""

    class WorkerInteractor:
        def __init__(self) -> None:
            self.sent: list[str] = []

        def sendevent(self, name: str, **_: object) -> None:
            self.sent.append(name)

    worker = WorkerInteractor()
    config: Any = SimpleNamespace(
        option=SimpleNamespace(verbose=verbose),
        getoption=lambda name, default: xmlpath if name == "xmlpath" else default,
        pluginmanager=SimpleNamespace(get_plugins=lambda: {object(), worker}),
    )
    worker_reports.tell_less(config)

    worker.sendevent("logstart", nodeid="x")
    worker.sendevent("workerready")

    assert worker.sent == told
