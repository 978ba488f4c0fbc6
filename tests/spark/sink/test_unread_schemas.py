"""Records whose schemas a registry is asked for later, as it had none for many before."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from headrace.formats.converters.typed_columns import RowsUnread
from headrace.kafka.consumer.message_columns import FaultReason
from headrace.model.columns import column_of
from headrace.model.errors import SourceUnavailable
from headrace.model.sink_protocol import PartitionGrant
from tests.spark.sink.fed_slots import P0, P1, FedSlot, fed_slots, records
from tests.support.sink_archives import NOON_MS


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[Callable[..., FedSlot]]:
    """See `fed_slots`."""
    with fed_slots(tmp_path) as made:
        yield made


class _Registry:
    """Is asked for some records of t-0 at a time, each of which has a schema of its own."""

    def __init__(self, at_a_time: int) -> None:
        self.known: set[int] = set()
        self.left = self._at_a_time = at_a_time

    def read(self, offsets: set[int]) -> None:
        for row, offset in enumerate(sorted(offsets)):
            if offset not in self.known:
                if not self.left:
                    raise RowsUnread("It is asked for soon.", row=row)
                self.left -= 1
                self.known.add(offset)

    def later(self) -> None:
        self.left = self._at_a_time


def test_what_is_before_a_schema_that_is_asked_for_later_is_written(slot: Callable[..., FedSlot]) -> None:
    """Else a fetch of which each value has an id of its own would never be read to its end."""
    registry = _Registry(30)
    one = slot(registry.read)
    one.read(records(0, 100))
    positions = [one.works[P0].position]
    while positions[-1] < 100:
        registry.later()
        one.now += 1.0
        one.feed.retry(NOON_MS)
        positions.append(one.works[P0].position)
    assert positions == [30, 60, 90, 100]
    assert (one.reader.paused, one.feed.problems()) == (set(), {})
    assert one.close() == list(range(100))


def test_no_partition_waits_for_another_that_is_full_of_such_schemas(slot: Callable[..., FedSlot]) -> None:
    """Each has its turn, as a slot asks the registry for all."""
    registry = _Registry(5)
    one = slot(registry.read, 0, 1)
    one.read(records(0, 100), records(200, 201, 1))
    assert one.works[P1].position == 200
    for _ in range(2):
        registry.later()
        one.now += 1.0
        one.feed.retry(NOON_MS)
    assert one.works[P1].position == 201
    assert one.works[P0].position < 100


def test_waiting_for_such_schemas_is_one_line_of_the_log(slot: Callable[..., FedSlot]) -> None:
    """It began and ended twice a second, each time a WARN, and its problem told that nothing is archived."""
    registry = _Registry(5)
    one = slot(registry.read)
    problems = []
    with structlog.testing.capture_logs() as logged:
        for now, first in ((1.0, 0), (60.0, 10), (119.0, 20), (180.0, 30)):
            one.now = now
            one.read(records(first, first + 10))
            problems.append(one.feed.problems()["converter"])
            registry.later()
            one.now += 0.5
            one.feed.retry(NOON_MS)
            registry.later()
            assert one.feed.problems() == {}

    assert [line["log_level"] for line in logged] == ["warning", "debug", "debug", "warning"]
    assert set(problems) == {"It is asked for soon. Until then t-0 can only be archived at that pace."}


def test_a_registry_that_is_away_goes_before_such_schemas(slot: Callable[..., FedSlot]) -> None:
    """Its partitions come no further, the others do."""
    registry = _Registry(5)

    def reads(offsets: set[int]) -> None:
        if min(offsets) >= 200:
            raise SourceUnavailable("It is away.")
        registry.read(offsets)

    one = slot(reads, 0, 1)
    one.read(records(0, 10), records(200, 210, 1))
    assert one.feed.problems() == {"converter": "It is away. Until then nothing more of t-1 is archived."}


def test_a_partition_stops_at_a_bad_record_before_such_a_schema(slot: Callable[..., FedSlot]) -> None:
    """Nothing after it is to be read: it does not wait."""
    registry = _Registry(5)
    one = slot(registry.read, **{"value.converter": "org.apache.kafka.connect.storage.StringConverter"})
    one.read(replace(records(0, 10), values=column_of([b"ok", b"\xff", *[b"ok"] * 8])))
    stop = one.works[P0].stop
    assert stop is not None
    assert (stop.offset, one.works[P0].position) == (1, 1)
    assert not one.feed.is_waiting(P0)


def _cut_off(one: FedSlot) -> None:
    """The partition was read to 95, and its log was cut off at 90 before all is fetched again."""
    grant = PartitionGrant(
        topic="t",
        partition=0,
        topic_id="id",
        offset=0,
        highest=95,
        dead_letters=(95,),
        leader_epoch=1,
    )
    one.begin_again(grant)
    one.read(replace(records(0, 100), leader_epochs=((0, 1), (90, 2))))


def _faulty(one: FedSlot) -> None:
    """The reader cannot read beyond what is fetched, as it finds while the partition waits."""
    one.read(records(0, 90))
    one.works[P0].stop_reading(90, FaultReason.LOG_TRUNCATED, "It is cut off.")


@pytest.mark.parametrize("stops", [_cut_off, _faulty])
def test_what_waits_below_a_stop_is_archived(
    slot: Callable[..., FedSlot], stops: Callable[[FedSlot], None]
) -> None:
    """The stop lies above the schemas that are asked for later: none of their records is passed over."""
    registry = _Registry(30)
    one = slot(registry.read)
    stops(one)
    work = one.works[P0]
    positions = [work.position]
    while one.feed.is_waiting(P0):
        registry.later()
        one.now += 1.0
        one.feed.retry(NOON_MS)
        positions.append(work.position)
    assert positions == [30, 60, 90]
    assert work.is_at_stop
    assert one.reader.paused == {P0}
    assert one.close() == list(range(90))
    assert work.committed_offset == 90


def test_a_fault_of_the_reader_does_not_lift_a_stop_below_it(slot: Callable[..., FedSlot]) -> None:
    """Records from the stop on wait for an operator, whatever is found further on."""
    registry = _Registry(30)
    one = slot(registry.read)
    _cut_off(one)
    one.works[P0].stop_reading(100, FaultReason.LOG_TRUNCATED, "It is cut off.")
    stop = one.works[P0].stop
    assert stop is not None
    assert stop.offset == 90
