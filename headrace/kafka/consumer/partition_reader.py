"""Reads the partitions of one slot from given offsets: no group is joined, nothing is committed."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import confluent_kafka
import numpy as np
from confluent_kafka import KafkaError, KafkaException

from headrace.kafka.consumer.batch_fetch import NewFetch, PartitionNews, best_fetch
from headrace.kafka.consumer.held_back import HeldPartitions
from headrace.kafka.consumer.message_columns import (
    OFFSET_CODES,
    FaultReason,
    LostOffsets,
    PartitionFault,
    ReaderEvent,
    above_end_message,
    cut_off_at,
    fault_message,
    fault_of,
    truncated_message,
)
from headrace.kafka.kafka_clients import Properties, Throttle, new_consumer
from headrace.kafka.kafka_errors import translate
from headrace.model.columns import KafkaRecords
from headrace.model.sink_entries import NO_EPOCH, TopicPartition
from headrace.model.sink_protocol import HELD_SECONDS, HeldBack

# -- librdkafka's properties of a reader, most of them for a bounded memory ----------------------------------

_KIB: Final = 1024
_LARGEST_FETCH: Final = 50 * _KIB * _KIB
_DEFAULT_MESSAGE_BYTES: Final = 1_000_000
# A record of 200 bytes with what librdkafka keeps of each beside its bytes, and does not count: the queue
# stops at so many records, too.
_SMALL_RECORD_BYTES: Final = 512


def reader_properties(
    given: Mapping[str, str], group_id: str, budget_bytes: int, isolation_level: str
) -> dict[str, Any]:
    """What nothing overrides. The queue stops at half of the budget, and a fetch adds a quarter at most.

    A batch of records that is larger is fetched nevertheless: Kafka gives at least one.
    """
    message_bytes = int(given.get("message.max.bytes", _DEFAULT_MESSAGE_BYTES))
    fetch_bytes = min(max(budget_bytes // 4, message_bytes), max(_LARGEST_FETCH, message_bytes))
    return {
        # librdkafka wants one; it is not joined.
        "group.id": group_id,
        "isolation.level": isolation_level,
        # An offset that is not there is looked into, never passed over.
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "check.crcs": True,
        "queued.max.messages.kbytes": max(budget_bytes // 2 // _KIB, 1),
        "queued.min.messages": max(budget_bytes // 2 // _SMALL_RECORD_BYTES, 1),
        "fetch.max.bytes": fetch_bytes,
        "max.partition.fetch.bytes": min(_KIB * _KIB, fetch_bytes),
        # Behind a full queue; a second, the default, would be a pause at every turn.
        "fetch.queue.backoff.ms": 20,
    }


# -- Reads the partitions of one slot from given offsets: no group is joined, nothing is committed -----------

_KAFKA: Final = "kafka"
_ASK_SECONDS: Final = 5.0
_ASK_AGAIN_SECONDS: Final = 2.0
# librdkafka says nothing of a topic that this user may not even describe.
_SILENT_SECONDS: Final = 15.0
# librdkafka repeats what goes on failing; what it has not repeated for so long is over.
_PROBLEM_SECONDS: Final = 60.0
# A right that was taken away it says once, however long it is away: such a partition is tried again.
_AGAIN_SECONDS: Final = 20.0


class PartitionReader:
    """For one thread. Only `poll` blocks, for the time given; errors raised are of `errors`.

    `budget_bytes` bounds what librdkafka has fetched and `poll` has not returned yet.
    """

    def __init__(
        self,
        properties: Properties,
        *,
        group_id: str,
        budget_bytes: int,
        isolation_level: str = "read_committed",
        new_fetch: NewFetch = best_fetch,
        held_seconds: float = HELD_SECONDS,
    ) -> None:
        ours = reader_properties(properties, group_id, budget_bytes, isolation_level)
        self._throttle = throttle = Throttle()
        self._fetch = new_fetch(
            lambda on_error: new_consumer(properties, ours, on_error=on_error, throttle=throttle),
            self._on_error,
        )
        self._consumer = self._fetch.consumer
        self._positions: dict[TopicPartition, int] = {}
        # Where the last records or markers end, and their leader epoch: from there it is assigned again.
        self._read: dict[TopicPartition, tuple[int, int]] = {}
        self._faulty: set[TopicPartition] = set()
        # When the log's ends are asked for next, of partitions whose position is not in their log.
        self._out_of_range: dict[TopicPartition, float] = {}
        # When it is asked next which topics there are; None: there is no doubt.
        self._topics_due: float | None = None
        # Since when nothing has come of partitions, not even that they are at their end.
        self._silent: dict[TopicPartition, float] = {}
        # When partitions that fail are assigned again.
        self._failing: dict[TopicPartition, float] = {}
        self._paused: set[TopicPartition] = set()
        self._held = HeldPartitions(held_seconds)
        self._events: list[ReaderEvent] = []
        self._problems: dict[str, tuple[float, str]] = {}

    def assign(
        self, starts: Mapping[TopicPartition, int], leader_epochs: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """Read these partitions from these offsets, and no others. None is paused or faulty then.

        With a leader epoch an offset is read from if the log still has what it had before it in that epoch;
        else the partition has the fault LOG_TRUNCATED.
        """
        epochs = leader_epochs or {}
        places = [
            confluent_kafka.TopicPartition(*at, offset, leader_epoch=epochs.get(at, NO_EPOCH))
            for at, offset in starts.items()
        ]
        self._fetch.on_assign(starts)
        with _translated("assign"):
            self._consumer.assign(places)
        self._positions = dict(starts)
        self._read = {at: (offset, epochs.get(at, NO_EPOCH)) for at, offset in starts.items()}
        self._silent = dict.fromkeys(starts, time.monotonic())
        self._faulty.clear()
        self._out_of_range.clear()
        self._held.read_again()
        self._failing.clear()
        self._paused.clear()
        self._problems.clear()

    def poll(self, max_records: int, seconds: float) -> list[KafkaRecords]:
        """Records of the partitions, one entry for each that has any, waited for up to `seconds`."""
        self._ask_ends()
        self._ask_topics()
        self._try_failing()
        with _translated("fetch"):
            fetched = self._fetch.fetch(max_records, seconds)
        faults = self._faults(fetched.news)
        found = [self._kept(records, faults) for records in fetched.records]
        for partition in fetched.partitions() if self._silent else ():
            self._silent.pop(partition, None)
        for news in fetched.news:
            self._on_news(news)
        for partition, news in faults.items():
            self._stop(partition, news)
        return [records for records in found if records is not None]

    def drain_events(self) -> list[ReaderEvent]:
        """What has happened to partitions since the last call."""
        events, self._events = self._events, []
        return events

    def problems(self) -> dict[str, str]:
        """What fails at the moment and may pass by itself: sentences by `kafka` or topic-partition."""
        now = time.monotonic()
        fails = {
            part: sentence
            for part, (since, sentence) in self._problems.items()
            if now - since < _PROBLEM_SECONDS
        }
        return {**self._held.sentences(self._positions, self.high_watermarks), **fails}

    def know_held(self, held: Mapping[TopicPartition, HeldBack]) -> None:
        """Pick up what an earlier reader of these has found of transactions that hold them back."""
        self._held.know(held)

    def held(self) -> dict[TopicPartition, HeldBack]:
        """What open transactions hold back, as far as it was noticed, for a later reader."""
        return self._held.known()

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Give no records of these until they are resumed; what is fetched of them is fetched again then."""
        partitions = tuple(partitions)
        self._paused.update(partitions)
        for partition in partitions:
            self._held.not_at_end(partition)
        with _translated("pause"):
            self._consumer.pause(self._places(partitions))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Continue with these at their positions; a partition with a fault stays where it is."""
        partitions = tuple(partitions)
        self._paused.difference_update(partitions)
        with _translated("resume"):
            self._consumer.resume(self._places(partitions))

    def positions(self) -> dict[TopicPartition, int]:
        """The offset of each partition before which everything was given out; without a request.

        At the end of a log that is after the markers of transactions, too.
        """
        return dict(self._positions)

    def reached(self) -> dict[TopicPartition, tuple[int, int]]:
        """The positions, each with the leader epoch of what lies before it, or NO_EPOCH: it is not known."""
        return {
            at: (position, self._read[at][1] if self._read[at][0] == position else NO_EPOCH)
            for at, position in self._positions.items()
        }

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """The ends of the logs as the last fetches told them; absent before the first. Without a request."""
        found = {}
        for partition in self._positions:
            place = confluent_kafka.TopicPartition(*partition)
            _, end = self._consumer.get_watermark_offsets(place, cached=True)
            if end >= 0:
                found[partition] = end
        return found

    def close(self) -> None:
        """Give all back; blocks for a moment."""
        self._fetch.close()

    def _places(self, partitions: Iterable[TopicPartition]) -> list[confluent_kafka.TopicPartition]:
        wanted = [one for one in partitions if one in self._positions and one not in self._faulty]
        return [confluent_kafka.TopicPartition(*partition) for partition in wanted]

    def _faults(self, news: Sequence[PartitionNews]) -> dict[TopicPartition, PartitionNews]:
        """The first error of each partition that ends its reading."""
        faults: dict[TopicPartition, PartitionNews] = {}
        for one in news:
            is_ours = one.partition in self._positions and one.partition not in self._faulty
            if is_ours and fault_of(one.error) is not None:
                faults.setdefault(one.partition, one)
        return faults

    def _kept(
        self, records: KafkaRecords, faults: Mapping[TopicPartition, PartitionNews]
    ) -> KafkaRecords | None:
        """The records that are asked for, and before a fault; the position is after them then."""
        partition = TopicPartition(records.topic, records.partition)
        if partition not in self._positions or partition in self._faulty:
            return None
        if partition in faults:
            # The offset in the error may be anything, and librdkafka may have gone on behind the batch: what
            # has no gap before it is good for certain.
            is_next = records.offsets == self._positions[partition] + np.arange(len(records))
            records = records.take(np.flatnonzero(np.logical_and.accumulate(is_next)))
            if not len(records):
                return None
        self._positions[partition] = end = records.last_offset + 1
        self._read[partition] = end, max((epoch for _, epoch in records.leader_epochs), default=NO_EPOCH)
        self._held.not_at_end(partition)
        self._forget_problems(partition)
        return records

    def _on_news(self, news: PartitionNews) -> None:
        """What is no fault: an end, an offset to look into, or what may pass."""
        partition, code = news.partition, news.error.code()
        position = self._positions.get(partition)
        if position is None or partition in self._faulty or fault_of(news.error) is not None:
            return
        if code == KafkaError._PARTITION_EOF:  # noqa: SLF001  # how the library names its local codes
            if news.offset > position:
                self._pass_markers(partition, news.offset)
            self._held.at_end(partition, news.offset)
            self._forget_problems(partition)
        elif code in OFFSET_CODES:
            self._look_into(partition, position, news.error)
        else:
            sentence = str(translate(news.error, what=str(partition)))
            now = time.monotonic()
            self._problems[str(partition)] = (now, sentence)
            self._failing[partition] = now + _AGAIN_SECONDS

    def _pass_markers(self, partition: TopicPartition, end: int) -> None:
        """Move on to the log's end, after markers of transactions, whose leader epoch librdkafka knows."""
        with _translated("position"):
            (passed,) = self._consumer.position(self._places([partition]))
        if passed.offset == end and passed.leader_epoch is not None:
            self._read[partition] = end, passed.leader_epoch
        elif self._read[partition][1] == NO_EPOCH and self.high_watermarks().get(partition, 0) > end:
            # Aborted records before an open transaction, whose markers are to come. If the log were cut off
            # below this end, nothing would show it: no checkpoint is to have it yet.
            return
        self._positions[partition] = end

    def _look_into(self, partition: TopicPartition, position: int, error: KafkaError) -> None:
        """An offset that is not in its log: cut off below it, or else the log's ends are to tell."""
        cut = cut_off_at(error)
        if cut is not None and cut < position:
            # The log's ends tell nothing: it may have grown beyond the position again.
            message = truncated_message(str(partition), position, cut)
            self._report(partition, FaultReason.LOG_TRUNCATED, message)
        else:
            self._out_of_range[partition] = 0.0

    def _stop(self, partition: TopicPartition, news: PartitionNews) -> None:
        """Report a fault, and read no further."""
        reason, position = fault_of(news.error), self._positions[partition]
        assert reason is not None
        self._report(partition, reason, fault_message(str(partition), reason, position, news.error))

    def _report(self, partition: TopicPartition, reason: FaultReason, message: str) -> None:
        self.pause([partition])
        self._faulty.add(partition)
        self._events.append(
            PartitionFault(
                topic=partition.topic,
                partition=partition.partition,
                offset=self._positions[partition],
                reason=reason,
                message=message,
            )
        )

    def _ask_ends(self) -> None:
        """Find out about offsets that are not in their logs; blocks while a broker is asked."""
        now = time.monotonic()
        for partition, due in list(self._out_of_range.items()):
            if due > now:
                continue
            place = confluent_kafka.TopicPartition(*partition)
            try:
                low, high = self._consumer.get_watermark_offsets(place, timeout=_ASK_SECONDS)
            except KafkaException as error:
                self._out_of_range[partition] = time.monotonic() + _ASK_AGAIN_SECONDS
                sentence = str(translate(error, what=f"{partition}, the ends of its log"))
                self._problems[str(partition)] = (time.monotonic(), sentence)
            else:
                del self._out_of_range[partition]
                self._go_on(partition, low, high)

    def _ask_topics(self) -> None:
        """Find out which topics are gone, and why nothing comes; blocks while a broker is asked.

        A broker that holds this client back by a quota is why, and would not answer in time.
        """
        now = time.monotonic()
        if self._throttle.holds:
            self._silent = dict.fromkeys(self._silent, now)
        silent = {one for one, since in self._silent.items() if now - since >= _SILENT_SECONDS}
        is_doubted = self._topics_due is not None and self._topics_due <= now
        if not is_doubted and not silent:
            return
        asked = (set(self._positions) if is_doubted else silent) - self._faulty
        self._topics_due = None
        self._silent |= dict.fromkeys(silent, now)
        for topic in {one.topic for one in asked}:
            try:
                found = self._consumer.list_topics(topic, timeout=_ASK_SECONDS).topics[topic]
            except KafkaException as error:
                self._topics_due = time.monotonic() + _ASK_AGAIN_SECONDS
                if not self._throttle.holds:
                    sentence = str(translate(error, what=f"topic {topic}"))
                    self._problems[_KAFKA] = (time.monotonic(), sentence)
                return
            self._on_topic(found, {one for one in asked if one.topic == topic})

    def _on_topic(self, found: Any, asked: set[TopicPartition]) -> None:
        """What the broker says of a topic: these partitions are gone, or something is wrong with it."""
        for partition in asked:
            error = found.error
            if error is None and partition.partition not in found.partitions:
                error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
            if error is None:
                continue
            if fault_of(error) is FaultReason.TOPIC_DELETED:
                reason, position = FaultReason.TOPIC_DELETED, self._positions[partition]
                self._report(partition, reason, fault_message(str(partition), reason, position, error))
            else:
                sentence = str(translate(error, what=str(partition)))
                self._problems[str(partition)] = (time.monotonic(), sentence)

    def _go_on(self, partition: TopicPartition, low: int, high: int) -> None:
        """From the earliest record when earlier ones are deleted; not at all from above the end."""
        position = self._positions[partition]
        if position > high:
            message = above_end_message(str(partition), position, high)
            self._report(partition, FaultReason.OFFSET_ABOVE_END, message)
            return
        if position < low:
            lost = LostOffsets(topic=partition.topic, partition=partition.partition, first=position, end=low)
            self._events.append(lost)
            self._positions[partition] = position = low
        # Nothing is known of what lies before it.
        self._read[partition] = position, NO_EPOCH
        self._assign_again(partition)

    def _try_failing(self) -> None:
        """Have what failed fail again, or be over: at its end a partition says nothing of its own accord."""
        now = time.monotonic()
        for partition, due in list(self._failing.items()):
            if partition not in self._positions or partition in self._faulty:
                del self._failing[partition]
            elif due <= now and partition not in self._paused:
                self._failing[partition] = now + _AGAIN_SECONDS
                self._assign_again(partition)

    def _assign_again(self, partition: TopicPartition) -> None:
        """Begin again where the last records end; the log has to have these if their epoch is known."""
        end, epoch = self._read[partition]
        place = confluent_kafka.TopicPartition(*partition, end, leader_epoch=epoch)
        # librdkafka has stopped with the partition, so that it cannot be sought in.
        with _translated(f"assign {partition}"):
            self._consumer.incremental_unassign([place])
            self._consumer.incremental_assign([place])
        self._fetch.on_assign_again(partition)

    def _forget_problems(self, partition: TopicPartition) -> None:
        if self._problems:
            self._failing.pop(partition, None)
            self._problems.pop(str(partition), None)
            self._problems.pop(_KAFKA, None)

    def _on_error(self, error: KafkaError) -> None:
        """What librdkafka says of brokers and of topics as a whole; called by `poll`."""
        if fault_of(error) is FaultReason.TOPIC_DELETED:
            self._topics_due = 0.0
            return
        self._problems[_KAFKA] = (time.monotonic(), str(translate(error, what="Kafka")))


@contextmanager
def _translated(what: str) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        raise translate(error, what=what) from error
