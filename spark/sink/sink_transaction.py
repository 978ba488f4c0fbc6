"""One transaction of a slot of the sink: offsets, ledger records and dead letters, all or none."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import structlog
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from headrace.kafka.fencing import memberless_metadata
from headrace.kafka.kafka_errors import CommitUnknown
from headrace.kafka.producer import SlotRevoked, TransactionalProducer
from headrace.kafka.producer.topic_limits import topic_limits
from headrace.model.error_policy import Repeats
from headrace.model.errors import (
    Fenced,
    HeadraceError,
    RecordRefused,
    TopicForbidden,
    TopicMissing,
    TopicWithoutLeader,
)
from headrace.model.ledger_entry import encode_key
from headrace.model.sink_entries import (
    NO_EPOCH,
    ObjectState,
    PartitionCheckpoint,
    SealedObject,
    SinkEntry,
    encode_sink_entry,
    key_of,
    offset_mark,
)
from headrace.model.sink_entries import TopicPartition as SinkPartition
from headrace.model.sink_protocol import SinkBatch, SinkCommitted
from spark.sink.bad_records import STEPS, DeadLetter
from spark.sink.partition_work import PartitionWork, Transaction
from spark.sink.record_feed import safely
from spark.sink.sink_work import SinkTaskSettings
from spark.task.slot_session import DriverConnection

_log = structlog.get_logger(__name__)

# Entries of one transaction: below what a broker takes at once, and soon completed.
_OBJECTS_AT_ONCE: Final = 500
# Offsets that moved without an object (records that are not written) are committed this often.
_QUIET_COMMIT_SECONDS: Final = 10.0
# A refused or aborted transaction is made again so long, with everything that was to be in it.
_REPEAT_SECONDS: Final = 60.0
# From then on the dead letter topic is asked about: one that is being made again is there by then.
_TOPIC_SECONDS: Final = 10.0
# Twice as long after each refusal: what an ACL refuses is refused again at once.
_PAUSE_SECONDS: Final = 0.1
_LONG_PAUSE_SECONDS: Final = 2.0
# Of a producer whose id the brokers have forgotten: no abort gives it another one, where the group commit
# was refused (librdkafka 2.16).
_FORGOTTEN: Final = frozenset({KafkaError.INVALID_PRODUCER_ID_MAPPING, KafkaError.UNKNOWN_PRODUCER_ID})


class TransactionTurns:
    """What of a slot's partitions its next transaction has. For the slot's thread.

    `works` are the slot's partitions, of which it may lose some.
    """

    def __init__(
        self,
        works: Mapping[SinkPartition, PartitionWork],
        *,
        now: Callable[[], float] = time.monotonic,
        most: int = _OBJECTS_AT_ONCE,
    ) -> None:
        self._works = works
        self._now = now
        self._most = most
        self._quiet_at = now()
        # With which the last transaction was full: the others come first now.
        self._last: SinkPartition | None = None

    def hurry(self) -> None:
        """Let offsets that have moved without an object wait no longer."""
        self._quiet_at = -math.inf

    def next(self, now_ms: int) -> list[tuple[PartitionWork, Transaction]]:
        """What is to be committed now; empty where that is nothing."""
        is_quiet = self._now() - self._quiet_at >= _QUIET_COMMIT_SECONDS
        chosen: list[tuple[PartitionWork, Transaction]] = []
        room = self._most
        for work in self._in_turn():
            if not room and not is_quiet:
                break
            found = safely(work, partial(work.transaction, now_ms, most=room))
            if found is None or not (found.is_urgent or is_quiet):
                continue
            chosen.append((work, found))
            if found.objects:
                room = max(room - len(found.objects), 0)
                self._last = None if room else work.partition
        if not all(found.is_urgent for _, found in chosen):
            # Only then: a busy partition would put off for ever what the others have.
            self._quiet_at = self._now()
        return chosen

    def _in_turn(self) -> Iterator[PartitionWork]:
        works = list(self._works.values())
        first = next((place for place, work in enumerate(works, 1) if work.partition == self._last), 0)
        yield from works[first:]
        yield from works[:first]


class DeadLettersRefused(HeadraceError):
    """The dead letter topic takes no dead letter, not even one without any content; nothing is in doubt.

    So it is where it is gone, or may not be written.
    """


class DeadLettersWait(DeadLettersRefused):
    """The same at the moment: a partition of the dead letter topic has no leader, which passes by itself."""

    def __init__(self, message: str, *, topic: str) -> None:
        super().__init__(message)
        self.topic = topic


class SinkTransactions:
    """Makes the transactions of one batch; blocks. Raises SlotRevoked, Fenced, CommitUnknown, HeadraceError.

    After any of these nothing may be committed by this producer again, and what was to be committed is in
    doubt only with CommitUnknown.
    """

    def __init__(
        self,
        batch: SinkBatch,
        *,
        producer: TransactionalProducer,
        link: DriverConnection,
        settings: SinkTaskSettings,
        refusals: Callable[[Iterable[str]], Mapping[str, HeadraceError]] | None = None,
        topic_seconds: float = _TOPIC_SECONDS,
        report: Callable[[], None] = lambda: None,
    ) -> None:
        """`refusals` is `TopicLimits.refusals`, those of the process where it is not given.

        `report` is called before a transaction is made again, by when `problems` may say so.
        """
        self._report = report
        self._repeats = Repeats(fix="It is made again, with the same records.")
        self._place = f"the transaction of slot {batch.slot}"
        self._kafka = settings.kafka
        self._refusals = refusals
        self._topic_seconds = topic_seconds
        self._asks_at = 0.0
        self._batch = batch
        self._producer = producer
        self._link = link
        self._ledger_topic = settings.kafka.ledger_topic
        self._group = memberless_metadata(settings.sink.group_id)
        # How many of STEPS the dead letter topic has asked for so far: it stays so for the batch.
        self._steps = 0
        self.gone: frozenset[SinkPartition] = frozenset()
        """Partitions that Kafka did not have any more when the last transaction began."""

    def commit(
        self,
        objects: Sequence[SealedObject],
        checkpoints: Sequence[PartitionCheckpoint],
        dead_letters: Sequence[DeadLetter],
        bad: Iterable[str],
    ) -> SinkCommitted:
        """Commit these together; what the leader is to be sent. Repeated while it can be, for a minute.

        `bad` has the reason of each record that is left out with it, which not each has a dead letter for.
        """
        deadline = time.monotonic() + _REPEAT_SECONDS
        self._asks_at = time.monotonic() + self._topic_seconds
        pause = _PAUSE_SECONDS
        while True:
            began = time.monotonic()
            try:
                self._transact(objects, checkpoints, dead_letters)
            except (SlotRevoked, CommitUnknown):
                raise
            except RecordRefused as error:
                # The broker does not say which record it refuses.
                if not dead_letters or not self._may_repeat(error):
                    raise
                self._shorten(dead_letters[0].topic, error)
            except HeadraceError as error:
                if not self._may_repeat(error):
                    raise
                is_last = time.monotonic() > deadline
                self._look_at_topic(dead_letters, is_last=is_last)
                if is_last:
                    raise
                _log.warning("transaction_repeated", slot=self._batch.slot, error=str(error))
                self._repeats.failed(self._place, None, str(error))
                self._report()
                time.sleep(pause)
                pause = min(2 * pause, _LONG_PAUSE_SECONDS)
            else:
                self._repeats.over(self._place)
                records: Counter[str] = Counter()
                for one in objects:
                    records[one.topic] += one.records
                return SinkCommitted(
                    batch=self._batch.number,
                    objects=tuple(objects),
                    checkpoints=tuple(checkpoints),
                    records_by_topic=dict(records),
                    bad_by_reason=dict(Counter(bad)),
                    seconds=time.monotonic() - began,
                )

    def problems(self) -> dict[str, str]:
        """That nothing is committed, and why, where a transaction has been made again and again."""
        sentence = self._repeats.problems().get(self._place)
        return {} if sentence is None else {"transaction": sentence}

    def prove(self) -> None:
        """Show that the slot may work on: a transaction with nothing but the leader's group commit."""
        self.commit((), (), (), ())

    def _transact(
        self,
        objects: Sequence[SealedObject],
        checkpoints: Sequence[PartitionCheckpoint],
        dead_letters: Sequence[DeadLetter],
    ) -> None:
        producer = self._producer
        # Asked for each time: a standby's arrival raises the generation.
        answer = self._link.leader_group(self._batch.number)
        self.gone = frozenset(answer.gone)
        producer.begin(answer.group)
        # Offsets of a topic that is gone would fail the transaction; where it ends is in the ledger.
        offsets = [self._offset(one) for one in checkpoints if one.partition_of not in self.gone]
        if offsets:
            producer.send_offsets(offsets, self._group)
        for dead_letter in dead_letters:
            if self._steps:
                short = dead_letter.within(STEPS[self._steps - 1])
                producer.send_alone(short.topic, key=short.key, value=short.value, headers=short.headers)
            else:
                producer.send_record(
                    dead_letter.topic,
                    key=dead_letter.key,
                    value=dead_letter.value,
                    headers=dead_letter.headers,
                )
        # What is visible already (at least once) has nothing that could be left undone.
        pending = [one for one in objects if one.state is ObjectState.PENDING]
        entries: list[SinkEntry] = [*pending, *checkpoints]
        for entry in entries:
            producer.write_ledger(encode_key(key_of(entry)), encode_sink_entry(entry))
        producer.commit(())

    def _shorten(self, topic: str, error: RecordRefused) -> None:
        """Let dead letters be smaller from now on, one a request; DeadLettersRefused when none can be."""
        if self._steps == len(STEPS):
            raise DeadLettersRefused(
                f"The dead letter topic {topic!r} takes no dead letter, not even one that says only which "
                f"record it is of ({error}) Correct its max.message.bytes, its cleanup.policy or what the "
                "brokers demand of its records, or set another errors.deadletterqueue.topic.name."
            ) from error
        self._steps += 1
        _log.warning(
            "dead_letters_shortened",
            topic=topic,
            max_bytes=STEPS[self._steps - 1],
            error=str(error),
            remedy="raise max.message.bytes of the dead letter topic",
        )

    def _look_at_topic(self, dead_letters: Sequence[DeadLetter], *, is_last: bool) -> None:
        """DeadLettersRefused where brokers have something against the dead letter topic.

        They are asked after any error: where a topic is gone they say so, or let its records time out.
        """
        if not dead_letters or not (is_last or time.monotonic() >= self._asks_at):
            return
        self._asks_at = time.monotonic() + self._topic_seconds
        topic = dead_letters[0].topic
        if (found := self._refusal_of(topic)) is None:
            return
        # The others are committed without these.
        self._repeats.over(self._place)
        match found:
            case TopicMissing():
                why = "is not there any more: create it (`headrace setup CONFIG` does)"
            case TopicForbidden():
                why = "may not be written by this user: allow Write and Describe on it"
            case _:
                raise DeadLettersWait(
                    f"The dead letter topic {topic!r} takes nothing at the moment ({found}) "
                    "Bring it back, or set another errors.deadletterqueue.topic.name.",
                    topic=topic,
                ) from found
        raise DeadLettersRefused(
            f"The dead letter topic {topic!r} {why}, then restart the connector."
        ) from found

    def has_leaders(self, topic: str) -> bool:
        """Whether no broker says of the topic, asked now, that a partition of it has no leader; may block."""
        return not isinstance(self._refusal_of(topic), TopicWithoutLeader)

    def _refusal_of(self, topic: str) -> HeadraceError | None:
        refusals = self._refusals or topic_limits(self._kafka).refusals
        return refusals([topic]).get(topic)

    def _offset(self, checkpoint: PartitionCheckpoint) -> TopicPartition:
        mark = offset_mark(self._ledger_topic, checkpoint.topic_id)
        # Others who read on from it have it checked, where the epoch of what lies before it is known.
        epoch = checkpoint.leader_epoch if checkpoint.epoch_end == checkpoint.offset else NO_EPOCH
        return TopicPartition(checkpoint.topic, checkpoint.partition, checkpoint.offset, mark, epoch)

    def _may_repeat(self, error: HeadraceError) -> bool:
        """True once the transaction is aborted for certain, and this producer is still the slot's newest."""
        cause = error.__cause__
        if isinstance(cause, KafkaException):
            inner = cause.args[0]
            if inner.code() in _FORGOTTEN or (isinstance(error, Fenced) and inner.fatal()):
                return False
        return not self._producer.is_in_doubt and self._producer.abort() and not self._link.is_void()
