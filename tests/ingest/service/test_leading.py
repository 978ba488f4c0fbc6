"""The end of a leadership: what waits for its answer then."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from headrace.kafka.control_records import TargetState
from headrace.model.errors import LeadershipLost
from ingest.http.rest.port import NotLeading
from ingest.http.snapshot import Snapshot, SnapshotHolder
from ingest.service.leading import lead_until_over
from ingest.service.sink.sink_lifecycle import SinkAdapter

_SECONDS = 10.0


@dataclass(slots=True)
class _Led:
    """A leadership that carries out what it is asked, but no stop."""

    asked: threading.Event = field(default_factory=threading.Event)
    cache: Any = None

    def post(self, event: Any) -> None:
        """Do it at once."""
        event.act()

    def set_target(self, target: TargetState, told: Future[None]) -> None:
        """Written, and never done."""
        del target, told
        self.asked.set()


def _end() -> None:
    """An end without an error."""


def _lose() -> None:
    raise LeadershipLost("another one leads")


@pytest.mark.parametrize(("run", "raised"), [(_end, None), (_lose, LeadershipLost)])
def test_a_stop_under_way_is_to_be_asked_again(
    run: Callable[[], None], raised: type[Exception] | None
) -> None:
    """In a worker another life of the connector follows: nothing of this one would answer."""
    adapter = SinkAdapter(SnapshotHolder(Snapshot(name="orders", version="1", role="stopping")))
    led = _Led()
    adapter.lead(led)  # type: ignore[arg-type]  # what a stop asks of it
    with ThreadPoolExecutor() as threads:
        stop = threads.submit(adapter.steer, TargetState.STOPPED)
        assert led.asked.wait(_SECONDS)
        try:
            lead_until_over(run, close=_end, abandon=lambda _error: None, adapter=adapter)
        except LeadershipLost:
            assert raised is LeadershipLost
        with pytest.raises(NotLeading) as caught:
            stop.result(_SECONDS)
    assert caught.value.passes
    with pytest.raises(NotLeading):
        adapter.require_leading()
