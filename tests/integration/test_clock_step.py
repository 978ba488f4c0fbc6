"""The wall clock of a running service is stepped back an hour: it goes on as if nothing had happened."""

from pathlib import Path

import pytest

from tests.support import aws, kafka
from tests.support.run import start_run
from tests.support.service import new_route, rows
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

# Python reads the wall clock here; loaded by every interpreter that finds it on its path.
_STEPPING = """
import os, time
_read = time.time_ns
def _stepped():
    if not os.path.exists({stepped!r}):
        return _read()
    open({seen!r}, "a").close()
    return _read() - 3_600_000_000_000
time.time_ns = _stepped
time.time = lambda: _stepped() / 1e9
"""


def test_a_wall_clock_that_is_stepped_back_does_not_stop_planning(tmp_path: Path) -> None:
    """An object that failed is tried again after its delay, and what comes later is not held up either."""
    stepped, seen = tmp_path / "stepped", tmp_path / "seen"
    (tmp_path / "sitecustomize.py").write_text(_STEPPING.format(stepped=str(stepped), seen=str(seen)))
    route = new_route(tmp_path)
    topic = aws.unique("later")
    run = start_run(
        route,
        topic=None,
        file__name__template="{{topic}}/",
        errors__retry__delay__max__ms=1000,
        environment={"PYTHONPATH": str(tmp_path)},
    )
    try:
        route.upload(f"{topic}/before", rows("before", 3))
        until_sync(lambda: "object_failed" in run.events(), seconds=180, what="an attempt at the topic")

        stepped.touch()
        kafka.new_topic(name=topic)
        route.upload(f"{topic}/after", rows("after", 3))

        until_sync(lambda: run.events().count("object") == 2, seconds=60, what="both objects' ends")
    finally:
        run.end()
    last = [line for line in run.lines if line["event"] == "object"][-1]
    assert last["outcome"] == "done"
    assert 0 <= last["duration_seconds"] < 100
    assert seen.exists(), "nobody has read the stepped clock"
