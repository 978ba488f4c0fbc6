"""The end of a leadership: what waits for its answer then."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest

from headrace.kafka.control_records import TargetState
from headrace.model.errors import LeadershipLost
from headrace.model.sink_entries import TopicPartition
from ingest.http.rest.port import NotLeading, OffsetAboveEnd
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


class _Archive:
    """One partition, whose log has grown since it was looked at; it is looked at in `rounds` turns."""

    def __init__(self, rounds: int = 3) -> None:
        self.end, self.found_request, self._rounds = 20, 1, rounds

    def look(self) -> None:
        """A turn of the service."""
        self._rounds -= 1
        if not self._rounds:
            self.end, self.found_request = 30, 2

    def partitions(self) -> tuple[()]:
        """None has an entry."""
        return ()


@dataclass(slots=True)
class _Stopped:
    """A stopped sink's leadership, which sets any offset that is in the log."""

    archive: _Archive = field(default_factory=_Archive)
    looks: int = 0
    set_offsets: list[int | None] = field(default_factory=list)
    cache: Any = None

    @property
    def lifecycle(self) -> "_Stopped":
        """Itself."""
        return self

    def post(self, event: Any) -> None:
        """Do it at once; a turn of the service."""
        if self.looks:
            self.archive.look()
        event.act()

    def look_again(self) -> int:
        """Ask Kafka."""
        self.looks += 1
        return 2

    def rewind(self, offsets: Mapping[TopicPartition, int | None], told: Future[None]) -> None:
        """Set them."""
        (offset,) = offsets.values()
        if offset is not None and offset > self.archive.end:
            raise OffsetAboveEnd(f"the end is {self.archive.end}")
        self.set_offsets.append(offset)
        told.set_result(None)


class _Adapter(SinkAdapter):
    def offsets(self) -> Mapping[TopicPartition, int]:
        """None has an entry."""
        return {}


@pytest.mark.parametrize(("offset", "looks", "refused"), [(20, 0, None), (30, 1, None), (31, 1, "is 30")])
def test_an_offset_is_judged_by_the_log_as_it_is(offset: int, looks: int, refused: str | None) -> None:
    """What had come since the last look was above the end, and refused."""
    adapter = _Adapter(SnapshotHolder(Snapshot(name="orders", version="1", role="leader")))
    led = _Stopped()
    adapter.lead(led)  # type: ignore[arg-type]  # what offsets ask of it
    with nullcontext() if refused is None else pytest.raises(OffsetAboveEnd, match=refused):
        adapter.alter({TopicPartition("t", 0): offset})

    assert (led.looks, led.set_offsets) == (looks, [] if refused else [offset])
