"""The driver's own transactions: every ledger write but the tasks' goes through here, fenced like theirs."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from headrace.kafka.fencing import driver_id, group_offsets, initialise, send_group_commit
from headrace.kafka.kafka_clients import Properties, new_transactional_producer
from headrace.kafka.kafka_errors import CommitUnknown, failure_of, is_unanswered, translate
from headrace.model.errors import Fenced, HeadraceError, LeadershipLost, TransactionAborted, Unavailable
from headrace.model.ledger_entry import LedgerEntry, LedgerKey, encode_entry, encode_key
from headrace.process.logs import RetryLog
from headrace.process.threads import start_thread

_log = structlog.get_logger(__name__)

_CALL_SECONDS: Final = 5.0
# A commit is asked for again until it is answered: shortly, so that a wait nobody needs any more ends soon.
_COMMIT_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 0.05
# What a record is refused with once its transaction has failed, whatever the reason.
_FAILED: Final = frozenset({KafkaError._STATE, KafkaError._FATAL})  # noqa: SLF001  # the library's names

Write = tuple[LedgerKey, LedgerEntry | bytes | None]
"""A key with its new entry, a control record's bytes, or None for a tombstone."""


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """Offsets of a group without members, by its metadata (`memberless_metadata`)."""

    group: bytes
    offsets: tuple[TopicPartition, ...]


class LedgerWriter:
    """The producer `<name>-driver`. Thread-safe: one transaction at a time.

    `metadata` gives the group metadata of the moment, or raises LeadershipLost; every transaction asks again.
    `still_leads` asks the group itself; it is needed only after another writer has fenced this one.
    """

    def __init__(
        self,
        properties: Properties,
        *,
        name: str,
        ledger_topic: str,
        metadata: Callable[[], bytes],
        still_leads: Callable[[], bool],
    ) -> None:
        self._properties = properties
        self._id = driver_id(name)
        self._ledger_topic = ledger_topic
        self._metadata = metadata
        self._still_leads = still_leads
        self._lock = threading.Lock()
        self._producer: Producer | None = None
        self._was_fenced = False
        self._lost: str | None = None
        self._retries = RetryLog(_log, "ledger_write_repeated")

    def initialise(self, timeout: float) -> None:
        """Fence older drivers' transactions and allow this one's. Blocks; LeadershipLost, Unavailable."""
        with self._lock:
            self._initialise(time.monotonic() + timeout)

    def commit(
        self,
        writes: Sequence[Write],
        *,
        offsets: Sequence[TopicPartition] = (),
        other: GroupOffsets | None = None,
        timeout: float = 30.0,
    ) -> None:
        """Commit these writes, all or none; return when the broker has acknowledged it.

        `offsets` are committed for the group as well, `other` for another one. A transaction that is
        aborted is made again: the writes
        say what is, so repeating them is harmless. LeadershipLost when another driver or generation took
        over; CommitUnknown when the commit was not answered within `timeout` seconds (`initialise` and read,
        then write again); Unavailable when no transaction could be made in that time; AccessDenied,
        TopicMissing at once.
        """
        deadline = time.monotonic() + timeout
        with self._lock:
            while True:
                # Asked first, so that a process which knows that it lost the lead fences nobody.
                metadata = self._metadata()
                producer = self._producer or self._initialise(deadline)
                try:
                    self._transact(producer, metadata, writes, offsets, other, deadline)
                except Fenced as error:
                    # By the group: a standby's arrival has raised the generation and its news has not come
                    # yet.
                    self._wait_for_news(metadata, error, deadline)
                except (TransactionAborted, Unavailable) as error:
                    if time.monotonic() > deadline:
                        raise Unavailable(f"The ledger could not be written: {error}") from error
                    self._retries.failed(None, error)
                    time.sleep(_PAUSE_SECONDS)
                else:
                    self._retries.over(None)
                    return

    def close(self) -> None:
        """Let go of the producer; nothing is open between two calls of `commit`."""
        with self._lock:
            self._drop()

    def _initialise(self, deadline: float) -> Producer:
        self._drop()
        while True:
            self._refuse_usurped(deadline)
            producer = new_transactional_producer(self._properties, self._id)
            try:
                initialise(producer, self._id, deadline=deadline, require_wanted=self._metadata)
            except Fenced as error:
                self._was_fenced = True
                if time.monotonic() >= deadline:
                    raise Unavailable(f"Others keep fencing {self._id!r}: {error}") from error
            else:
                self._producer = producer
                return producer

    def _refuse_usurped(self, deadline: float) -> None:
        """LeadershipLost when the writer that has fenced this one leads now.

        Initialising again would end it. A driver of the past that was paused amid its takeover fences the
        leader of today as well: the group's owner decides which leads, and each asks before it initialises.
        """
        while self._was_fenced and self._lost is None:
            try:
                if self._still_leads():
                    _log.warning(
                        "ledger_writer_fenced",
                        transactional_id=self._id,
                        detail="by an instance that leads no more: it is initialised again",
                    )
                    self._was_fenced = False
                else:
                    self._lost = (
                        f"Another instance writes to the ledger as {self._id!r}: it has taken the lead."
                    )
            except Unavailable:
                if time.monotonic() > deadline:
                    raise
        if self._lost is not None:
            raise LeadershipLost(self._lost)

    def _transact(
        self,
        producer: Producer,
        metadata: bytes,
        writes: Sequence[Write],
        offsets: Sequence[TopicPartition],
        other: GroupOffsets | None,
        deadline: float,
    ) -> None:
        try:
            producer.begin_transaction()
            # First of all, so that a driver of the past is refused before it has written anything.
            self._send_group_commit(producer, [*group_offsets(self._ledger_topic), *offsets], metadata)
            if other is not None:
                self._send_group_commit(producer, other.offsets, other.group)
            for key, entry in writes:
                value = encode_entry(entry) if isinstance(entry, LedgerEntry) else entry
                self._produce(producer, encode_key(key), value)
            # From here on never an abort of ours: the broker may have committed without our hearing of it.
            while not self._is_committed(producer, deadline):
                self._require_lead_for_commit()
        except KafkaException as error:
            raise self._given_up(producer, error) from error

    def _send_group_commit(
        self, producer: Producer, offsets: Sequence[TopicPartition], metadata: bytes
    ) -> None:
        """Ask in a thread of its own: a call of librdkafka that never returns is left behind, Unavailable.

        With it is left its producer, which the next one's initialisation fences.
        """
        answer: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

        def ask() -> None:
            stuck = Unavailable(f"A call of librdkafka for {self._id!r} does not return: it is left behind.")
            try:
                send_group_commit(
                    producer, offsets, metadata, _CALL_SECONDS, on_stuck=lambda: answer.put(stuck)
                )
            except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
                answer.put(error)
            else:
                answer.put(None)

        start_thread(ask, name="group-commit")
        error = answer.get()
        if isinstance(error, Unavailable):
            _log.error("kafka_call_stalled", transactional_id=self._id, detail=str(error))
            self._producer = None
        if error is not None:
            raise error

    def _produce(self, producer: Producer, key: bytes, value: bytes | None) -> None:
        while True:
            try:
                producer.produce(self._ledger_topic, key=key, value=value, partition=0)
            except BufferError:
                producer.poll(_PAUSE_SECONDS)
            else:
                return

    def _is_committed(self, producer: Producer, deadline: float) -> bool:
        """True once acknowledged, False while unanswered, CommitUnknown when that lasts too long."""
        try:
            producer.commit_transaction(_COMMIT_SECONDS)
        except KafkaException as error:
            if not is_unanswered(error):
                raise
            if time.monotonic() > deadline:
                self._drop()
                raise CommitUnknown(f"The broker did not answer a commit of {self._id!r}.") from error
            return False
        return True

    def _require_lead_for_commit(self) -> None:
        """LeadershipLost when how the commit went no longer matters: the next leader reads it."""
        try:
            self._metadata()
        except LeadershipLost:
            self._drop()
            raise

    def _given_up(self, producer: Producer, error: KafkaException) -> HeadraceError:
        """What to raise, after letting go of the producer: the init of the next one aborts what is open."""
        if error.args[0].code() in _FAILED:
            # Else a writer that was fenced would fence the one that has the lead now.
            error = failure_of(producer) or error
        found = translate(error, what=f"a transaction of {self._id!r} on {self._ledger_topic!r}")
        if isinstance(found, Fenced) and error.args[0].fatal():
            self._drop()
            self._was_fenced = True
            return TransactionAborted(str(found))
        if error.args[0].txn_requires_abort():
            # Sooner than the next init, so that readers are not held back; when it fails, that one does it.
            with contextlib.suppress(KafkaException):
                producer.abort_transaction(_CALL_SECONDS)
        self._drop()
        return found

    def _wait_for_news(self, refused: bytes, error: Fenced, deadline: float) -> None:
        while self._metadata() == refused:
            if time.monotonic() > deadline:
                raise LeadershipLost(f"The group refuses this instance's transactions: {error}") from error
            time.sleep(_PAUSE_SECONDS)

    def _drop(self) -> None:
        """Forget the producer and what it has not sent. Not `close()`: it aborts, a commit in doubt too."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
