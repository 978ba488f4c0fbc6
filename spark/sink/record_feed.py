"""Gives fetched records to their partitions; what cannot be understood at the moment waits.

A schema registry that is away holds back the records that need it, not what is open already, and not the
partitions that can continue. A partition whose checkpoint has no room for more bad records waits as well, and
one whose dead letters no broker takes at the moment.
"""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

import structlog

from headrace.formats.converters.typed_columns import RowsUnread
from headrace.kafka.producer import SlotRevoked
from headrace.model.columns import KafkaRecords
from headrace.model.error_policy import LEAST
from headrace.model.errors import AccessDenied, HeadraceError, SourceUnavailable
from headrace.model.sink_entries import TopicPartition
from spark.sink.partition_work import PartitionWork
from spark.sink.slot_uploads import SlotUploads
from spark.task.slot_session import DriverConnection

T = TypeVar("T")

_log = structlog.get_logger(__name__)

_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 10.0
_CONVERTER: Final = "converter"
_CROWDED: Final = "checkpoint"
_HELD: Final = "dead_letters"
# Of a partition that fails again and again where it is read again: everything is uploaded again each time.
_LONGEST_DELAY: Final = 30.0
_MOST_DOUBLINGS: Final = 6
# What fails whenever an object is completed may do so once in each `rotate.interval.ms`: an hour, mostly.
_FORGOTTEN_SECONDS: Final = 2 * 3600.0
# Each question about a dead letter topic may take its time, and a transaction that fails a minute.
_FIRST_HELD_PAUSE: Final = 1.0
_LONGEST_HELD_PAUSE: Final = 30.0
# A slot with junk in many partitions begins to wait twice a second, for days.
_UNREAD_QUIET_SECONDS: Final = 60.0
# A partition that is crowded is so for as long as S3 takes to have one object.
_LONG_SECONDS: Final = 60.0
# How long the next piece of a fetch waits for S3: then there is more in memory, and a round comes to its end.
_ROOM_SECONDS: Final = 1.0
FULL_SECONDS: Final = 0.1
"""How long S3 is waited for where it has too much to take."""
_FETCH_RECORDS: Final = 10_000
# What is fetched at once is there several times while it is decoded, grouped and encoded.
_FETCH_BYTES: Final = 4 * 1024 * 1024
MAX_PENDING: Final = 2_000
"""Closed objects that are not completed: beyond these, filling stops."""

# What is no record's fault, and ends the slot: its own errors, memory and disk.
_NOT_OF_RECORDS: Final = (HeadraceError, SlotRevoked, MemoryError, OSError)


class FeedReader(Protocol):
    """What of `PartitionReader` is needed."""

    def assign(
        self, starts: Mapping[TopicPartition, int], leader_epochs: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """See `PartitionReader.assign`."""

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """See `PartitionReader.pause`."""

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """See `PartitionReader.resume`."""


@dataclass(slots=True)
class _Held:
    """Partitions of which nothing is read until something is over."""

    partitions: set[TopicPartition]
    why: str
    is_over: Callable[[], bool]
    ask_at: float
    pause: float = _FIRST_HELD_PAUSE


@dataclass(slots=True)
class _Failing:
    """Why a partition is read again, how often in a row for that, when it is next, and whether it waits."""

    why: str
    count: int = 0
    read_at: float = 0.0
    is_delayed: bool = False


class RecordFeed:
    """For the slot's thread. `works` are the slot's partitions, of which it may lose some.

    `between` is called before each piece of a fetch but the first.
    """

    def __init__(
        self,
        works: Mapping[TopicPartition, PartitionWork],
        reader: FeedReader,
        *,
        between: Callable[[], None] = lambda: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._between = between
        self._works = works
        self._reader = reader
        self._now = now
        self._waiting: dict[TopicPartition, deque[KafkaRecords]] = {}
        self._why: dict[TopicPartition, HeadraceError] = {}
        self._told_unread_until = 0.0
        self._crowded: dict[TopicPartition, float] = {}
        self._pause = _FIRST_PAUSE
        self._retry_at = 0.0
        self._held: _Held | None = None
        self._failing: dict[TopicPartition, _Failing] = {}

    def add(self, records: KafkaRecords, now_ms: int) -> None:
        """Give these to their partition, after what waits there."""
        partition = TopicPartition(records.topic, records.partition)
        waiting = self._waiting.get(partition)
        if waiting is not None:
            waiting.append(records)
        else:
            self._give(partition, deque([records]), now_ms)

    def retry(self, now_ms: int) -> None:
        """Try what waits again, when it is time."""
        self._look_at_held()
        self._look_at_delayed()
        if not self._waiting or self._now() < self._retry_at:
            return
        for partition in list(self._waiting):
            # One that still fails answers for the others: each question may take its time. They come before
            # it the next time, as it may be full of ids that no registry has.
            if not self._give(partition, self._waiting[partition], now_ms):
                self._waiting[partition] = self._waiting.pop(partition)
                return

    def hold(self, partitions: Iterable[TopicPartition], why: str, is_over: Callable[[], bool]) -> None:
        """Read nothing of these until `is_over`, which is asked now and then and may block; for `read`."""
        held = set() if self._held is None else self._held.partitions
        self._held = _Held(held | set(partitions), why, is_over, self._now() + _FIRST_HELD_PAUSE)
        _log.warning("partitions_held_back", partitions=sorted(map(str, self._held.partitions)), error=why)

    def delay(self, partition: TopicPartition, times: int, why: str) -> None:
        """Read nothing of it for a while, the longer the more `times` it has failed at one place; for `read`.

        What fails for the same reason `why` is counted as well: `times` begins again with each commit, which
        may be of other groups' objects. Once may be a coincidence, and is not waited for, nor is what comes
        again long after it was over.
        """
        now, known = self._now(), self._failing.get(partition)
        if known is None or known.why != why or now - known.read_at > _FORGOTTEN_SECONDS:
            known = self._failing[partition] = _Failing(why)
        known.count = max(known.count + 1, times)
        pause = 0.0
        if known.count > 1:
            pause = min(_FIRST_PAUSE * 2 ** min(known.count - 2, _MOST_DOUBLINGS), _LONGEST_DELAY)
        known.read_at, known.is_delayed = now + pause, pause > 0

    def is_waiting(self, partition: TopicPartition) -> bool:
        """Whether records of it are fetched and not written."""
        return partition in self._waiting

    def read_to(self, reached: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Nothing below these positions is left to come, each with the leader epoch of what lies before."""
        for partition, (position, epoch) in reached.items():
            work = self._works.get(partition)
            if work is None or self.is_waiting(partition):
                continue
            if not work.read_to(position, epoch):
                self._reader.pause([partition])

    def read(self) -> None:
        """Read each partition from where its work is, up to its stop; what waits is fetched again."""
        self._waiting.clear()
        self._why.clear()
        self._crowded.clear()
        starts = {work.partition: work.start for work in self._works.values()}
        self._reader.assign(
            {partition: offset for partition, (offset, _) in starts.items()},
            {partition: epoch for partition, (_, epoch) in starts.items()},
        )
        self._reader.pause(
            one.partition
            for one in self._works.values()
            if one.is_at_stop or self._is_kept_back(one.partition)
        )

    def problems(self) -> dict[str, str]:
        """Why records wait."""
        found = {}
        if self._why:
            found[_CONVERTER] = _unconverted(self._why)
        if self._held is not None and (those := self._held.partitions & self._works.keys()):
            held = ", ".join(sorted(map(str, those)))
            found[_HELD] = f"{self._held.why} Until then nothing more of {held} is archived."
        now = self._now()
        for partition in sorted(self._failing.keys() & self._works.keys()):
            one = self._failing[partition]
            # Until it would have failed again, had that not been mended.
            if one.count >= LEAST and now - one.read_at < _LONG_SECONDS:
                found[str(partition)] = (
                    f"{partition} has failed {one.count} times for one reason: {one.why.rstrip('.')}. It is "
                    "read again, after pauses, until that is mended."
                )
        long = sorted(str(one) for one, since in self._crowded.items() if now - since > _LONG_SECONDS)
        if long:
            found[_CROWDED] = (
                f"{', '.join(long)} has as many bad records above an object that S3 does not have yet as its "
                "checkpoint can list, and waits for it: see what the log and `problems` say of S3."
            )
        return found

    def _give(self, partition: TopicPartition, waiting: deque[KafkaRecords], now_ms: int) -> bool:
        """Write what can be; False when the rest has to wait."""
        work = self._works.get(partition)
        while waiting and work is not None:
            if work.is_crowded:
                # It says nothing of the others that wait.
                self._wait(partition, waiting)
                self._crowded.setdefault(partition, self._now())
                return True
            self._crowded.pop(partition, None)
            position = work.position
            try:
                add_records(work, waiting[0], now_ms, self._between)
            except (SourceUnavailable, AccessDenied) as error:
                if work.position > position:
                    self._pause = _FIRST_PAUSE
                self._hold(partition, waiting, error)
                return False
            waiting.popleft()
        self._crowded.pop(partition, None)
        if self._waiting.pop(partition, None) is not None:
            self._why.pop(partition, None)
            self._pause = _FIRST_PAUSE
            if work is not None and not work.is_at_stop:
                self._reader.resume([partition])
        return True

    def _hold(self, partition: TopicPartition, waiting: deque[KafkaRecords], why: HeadraceError) -> None:
        if partition not in self._why:
            self._wait(partition, waiting)
            self._tell(partition, why)
        else:
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        self._why[partition] = why
        self._retry_at = self._now() + self._pause

    def _tell(self, partition: TopicPartition, why: HeadraceError) -> None:
        """Log that a partition begins to wait; for schemas asked for later, once until that is over."""
        tell = _log.warning
        if isinstance(why, RowsUnread):
            now = self._now()
            if now < self._told_unread_until:
                tell = _log.debug
            self._told_unread_until = now + _UNREAD_QUIET_SECONDS
        tell("records_held_back", partition=str(partition), error=str(why), detail="it is tried again")

    def _look_at_held(self) -> None:
        held = self._held
        if held is None or self._now() < held.ask_at:
            return
        if held.is_over():
            self._held = None
            self._resume(held.partitions)
            _log.info("partitions_resumed", partitions=sorted(map(str, held.partitions)))
        else:
            held.pause = min(2 * held.pause, _LONGEST_HELD_PAUSE)
            held.ask_at = self._now() + held.pause

    def _look_at_delayed(self) -> None:
        now = self._now()
        due = [one for one, failing in self._failing.items() if failing.is_delayed and failing.read_at <= now]
        for partition in due:
            self._failing[partition].is_delayed = False
        if due:
            self._resume(due)

    def _is_kept_back(self, partition: TopicPartition) -> bool:
        failing = self._failing.get(partition)
        is_delayed = failing is not None and failing.is_delayed
        return is_delayed or (self._held is not None and partition in self._held.partitions)

    def _resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these, but for those that something else keeps back."""
        works = [self._works[one] for one in partitions if one in self._works]
        self._reader.resume(
            one.partition
            for one in works
            if not (one.is_at_stop or self.is_waiting(one.partition) or self._is_kept_back(one.partition))
        )

    def _wait(self, partition: TopicPartition, waiting: deque[KafkaRecords]) -> None:
        if partition not in self._waiting:
            self._waiting[partition] = waiting
            self._reader.pause([partition])


def _unconverted(why: Mapping[TopicPartition, HeadraceError]) -> str:
    """Why partitions wait for their converter; those that come no further at all go before."""
    still = {one: error for one, error in why.items() if not isinstance(error, RowsUnread)}
    of = still or why
    held = ", ".join(sorted(map(str, of)))
    end = f"nothing more of {held} is archived" if still else f"{held} can only be archived at that pace"
    return f"{next(iter(of.values()))} Until then {end}."


class FetchSize:
    """How many records the next fetch may have, by what the one before has come to."""

    def __init__(self) -> None:
        self._most = _FETCH_RECORDS
        self._per_object = 1.0

    def within(self, pending: int) -> int:
        """As many as may close what is left of MAX_PENDING, where so many objects are pending; at least 1.

        A fetch ends before anything of it is taken by S3: 10,000 of its records may be as many objects.
        """
        return max(min(self._most, int((MAX_PENDING - pending) * self._per_object)), 1)

    def measure(self, records: KafkaRecords, pace_bytes: int) -> None:
        """The next fetch is of as many records like these as fit: all may be dead letters."""
        most = min(_FETCH_BYTES, pace_bytes) * len(records) // max(records.payload_bytes(), 1)
        self._most = min(max(most, 1), _FETCH_RECORDS)

    def closed(self, records: int, objects: int) -> None:
        """So many objects were closed by a fetch of so many records."""
        if records:
            self._per_object = records / max(objects, 1)


def add_records(
    work: PartitionWork, records: KafkaRecords, now_ms: int, between: Callable[[], None] = lambda: None
) -> None:
    """Write records of a partition; where our own code fails at them, that is the partition's `failure`.

    `between` is called before each piece but the first. Raises what is no record's fault.
    """
    for number, piece in enumerate(work.bounded(records)):
        if work.isolation.broken is not None:
            return
        if number:
            between()
        try:
            work.add(piece, now_ms)
        except _NOT_OF_RECORDS:
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is, it would come again at the same record
            work.isolation.failed(error, piece)


def make_room(uploads: SlotUploads, link: DriverConnection) -> None:
    """Bring memory within its bound between two pieces: compressed records may be a thousand times a fetch.

    What is open is spilled, and S3 is waited for a while where it is slow. SlotRevoked when the slot is void.
    """
    uploads.balance()
    end = time.monotonic() + _ROOM_SECONDS
    # Many pieces in a row may wait: the leader takes a slot that is silent for lost.
    while not link.is_void_in_a_wait():
        if not uploads.is_full or link.is_ending() or time.monotonic() >= end:
            return
        uploads.wait(FULL_SECONDS)
    raise SlotRevoked


def pending_objects(works: Iterable[PartitionWork], completing: int) -> int:
    """How many objects are closed and not completed: S3 does not have them yet, or they are `completing`.

    Small ones need more memory for what is known of them than for what they hold.
    """
    return completing + sum(len(work.objects.closed) for work in works)


def safely(work: PartitionWork, act: Callable[[], T]) -> T | None:
    """What comes of doing this with a partition; where our own code fails, that is its `failure`."""
    try:
        return act()
    except _NOT_OF_RECORDS:
        raise
    except Exception as error:  # noqa: BLE001  # as above
        work.isolation.failed(error)
        return None


def close_excess(works: Iterable[PartitionWork]) -> None:
    """Close what is open for the longest time where more objects are open than the settings let.

    Partitions of a route with another layout may have another limit: each limit is for those that have it.
    """
    by_limit: dict[int, list[PartitionWork]] = {}
    for work in works:
        by_limit.setdefault(work.max_open_objects, []).append(work)
    for limit, those in by_limit.items():
        close_oldest(those, limit)


def close_oldest(works: Collection[PartitionWork], limit: int) -> None:
    """Close what is open for the longest time where more objects are open than `limit`."""
    excess = _open_count(works) - limit
    while excess > 0:
        oldest = min(
            (work for work in works if work.objects.oldest_open_ms is not None),
            key=lambda work: work.objects.oldest_open_ms or 0,
        )
        opened = _open_count(works)
        safely(oldest, oldest.objects.close_oldest)
        # Where objects close together, one takes others along; one that fails is given up soon.
        excess -= max(opened - _open_count(works), 1)


def _open_count(works: Collection[PartitionWork]) -> int:
    return sum(work.objects.open_count for work in works)
