"""Reading the ledger: read-committed, to its true end, and onwards as it grows."""

import functools
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from headrace.kafka.cache_files import LastRead, collect_rows
from headrace.kafka.kafka_clients import Properties, new_ledger_consumer
from headrace.kafka.kafka_errors import LedgerCutOff, LedgerEndHidden, translate
from headrace.kafka.ledger_cache import CacheDamaged, LedgerCache
from headrace.kafka.ledger_topic import OF_INGESTERS, LedgerWords
from headrace.kafka.librdkafka import Waker
from headrace.model.clock import wall_ms
from headrace.model.errors import AccessDenied, HeadraceError, Unavailable
from headrace.model.ledger_entry import (
    ControlKey,
    LedgerEntry,
    LedgerKey,
    decode_entry,
    decode_key,
    is_control_key,
)
from headrace.process.threads import start_thread

_log = structlog.get_logger(__name__)

# How late it may notice that it is to close, where it cannot be woken; a record wakes it at once.
_POLL_SECONDS: Final = 0.5
# How late it may notice that the cache is damaged.
_LONG_POLL_SECONDS: Final = 2.0
_CALL_SECONDS: Final = 10.0
# How soon a wait notices that nobody waits for its end any more.
_WAIT_SECONDS: Final = 0.5
# Large, because a restart with a million entries is bound by the number of SQLite transactions.
_RECORDS_AT_ONCE: Final = 50_000
# How often a quiet ledger is noted to have been read to its end (the cache's age counts from there).
_NOTE_SECONDS: Final = 60.0

_NO_EPOCH: Final = -1
_EOF: Final = KafkaError._PARTITION_EOF  # noqa: SLF001 - how the library names its local codes
_OFFSET_GONE: Final = KafkaError._AUTO_OFFSET_RESET  # noqa: SLF001 - as above

PassOver = Callable[[bytes, bytes | None], None]


@dataclass(frozen=True, slots=True)
class Applied:
    """A committed object's or split's record; None is a tombstone."""

    key: LedgerKey
    entry: LedgerEntry | bytes | None
    """Raw bytes for a control record (see headrace.kafka.control_records)."""


class Follower:
    """Reads from the cache's position on, from `start` if it has none, in its own thread, into the cache.

    What the cache has read is held against the ledger's leader epochs (KIP-320): where brokers have lost it,
    the cache is thrown away, and the ledger read whole.
    The thread ends at `close`, or with an error that `wait_for` and `check` raise from then on, and that
    `on_failed` is called with. `require_wanted` is called during waits, and may raise to end them. With
    `pass_over` only control records are read, and it is called with the key and value of all others.
    """

    def __init__(
        self,
        properties: Properties,
        cache: LedgerCache,
        *,
        topic: str,
        group: str,
        start: int,
        on_applied: Callable[[tuple[Applied, ...]], None] | None = None,
        on_failed: Callable[[HeadraceError], None] | None = None,
        require_wanted: Callable[[], object] = lambda: None,
        pass_over: PassOver | None = None,
        words: LedgerWords = OF_INGESTERS,
    ) -> None:
        self._called = f"{words.called} {topic!r}"
        self._pass_over = pass_over
        self._on_failed = on_failed
        self._require_wanted = require_wanted
        self._cache = cache
        self._topic = topic
        self._on_applied = on_applied
        self._is_live = False
        self._changed = threading.Condition()
        self._last_read = cache.last_read
        self._position = start if cache.position is None else cache.position
        if self._last_read is not None:
            # Where it begins to read. The cache's may be after markers whose epoch was not known: where
            # brokers have lost these, what others wrote in their place would count as read already.
            self._position = self._last_read.end
        self._has_seen_end = False
        self._rebuilt_at: int | None = None
        self._problem: HeadraceError | None = None
        self._error: BaseException | None = None
        self._stop = threading.Event()
        self._noted = 0.0
        self._new_consumer = functools.partial(
            new_ledger_consumer, properties, group=group, isolation="read_committed"
        )
        self._is_patient = False
        self._consumer = self._new_consumer(is_patient=False)
        self._waker = Waker(self._consumer)
        self._poll_seconds = self._waker.seconds(woken=_LONG_POLL_SECONDS, otherwise=_POLL_SECONDS)
        self._assign(self._consumer)
        self._thread = start_thread(self._run, name="ledger-follower")

    @property
    def position(self) -> int:
        """The largest of: where reading began, the last record + 1, the last EOF."""
        with self._changed:
            return self._position

    @property
    def last_read(self) -> LastRead:
        """What it has read up to, for `require_held`."""
        return self._last_read or LastRead(_NO_EPOCH, self.position)

    def go_live(self) -> None:
        """Call `on_applied` with all that follows, in the follower's thread, once it is in the cache."""
        self._is_live = True

    def wait_for_visible_end(self, timeout: float, *, refused: float | None = None) -> None:
        """Return when everything committed and visible has been read once; Unavailable without progress.

        After `refused` seconds, where given, for a topic that may not be read.
        """
        what = "its visible end was not reached"
        try:
            self._wait(lambda: self._has_seen_end, timeout, what, refused=refused)
        except LedgerEndHidden as error:
            raise Unavailable(str(self._problem or error)) from error

    def wait_for(self, end: int, timeout: float) -> None:
        """Return when everything below the offset `end` is in the cache.

        ReadHeldBack when the position has not moved for `timeout` seconds: an open transaction hides what
        lies above it, commits included, and every "end" that a read-committed consumer sees lies below it
        too.
        """
        self._wait(lambda: self._position >= end, timeout, f"offset {end} was not reached")

    def check(self) -> None:
        """Raise what ended the thread, if something did."""
        with self._changed:
            if self._error is not None:
                raise self._error

    def close(self) -> None:
        """Stop reading. Blocks until the thread is done with what it holds."""
        self._stop.set()
        self._waker.wake()
        self._thread.join()

    def _wait(
        self, is_there: Callable[[], bool], timeout: float, what: str, *, refused: float | None = None
    ) -> None:
        with self._changed:
            stuck_at = -1
            while not is_there():
                if self._error is not None:
                    raise self._error
                if stuck_at == self._position:
                    raise LedgerEndHidden(
                        f"The {self._called} was read to offset {stuck_at} and no further for "
                        f"{timeout:.1f} s ({what}): "
                        f"{self._problem or 'an open transaction hides what follows.'}"
                    )
                stuck_at = self._position
                self._wait_for_news(is_there, stuck_at, timeout, timeout if refused is None else refused)
            if self._error is not None:
                raise self._error

    def _wait_for_news(
        self, is_there: Callable[[], bool], position: int, timeout: float, refused: float
    ) -> None:
        began = time.monotonic()
        has_news = functools.partial(self._has_news, is_there, position)
        while not self._changed.wait_for(has_news, min(_WAIT_SECONDS, timeout)):
            self._require_wanted()
            is_refused = isinstance(self._problem, AccessDenied)
            if time.monotonic() - began >= (refused if is_refused else timeout):
                return

    def _has_news(self, is_there: Callable[[], bool], position: int) -> bool:
        return is_there() or self._error is not None or self._position != position

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                if self._cache.is_damaged:
                    self._start_again()
                if self._is_live and not self._is_patient:
                    self._become_patient()
                    continue
                self._step()
        except BaseException as error:
            self._cache.end()
            with self._changed:
                self._error = error
                self._changed.notify_all()
            if not isinstance(error, HeadraceError):
                raise
            if self._on_failed is not None:
                self._on_failed(error)
        finally:
            self._waker.close()
            self._consumer.close()

    def _become_patient(self) -> None:
        """Read on with a consumer whose fetches wait: no end is waited for any more, only news."""
        self._is_patient = True
        try:
            patient = self._new_consumer(is_patient=True)
        except HeadraceError:
            # Such as a token that is not to be had now: the old one reads the same.
            return
        self._assign(patient)
        eager, waker = self._consumer, self._waker
        # `close` sets its event before it wakes: one that wakes the old one is seen before the next wait.
        self._consumer, self._waker = patient, Waker(patient)
        waker.close()
        eager.close()

    def _assign(self, consumer: Consumer) -> None:
        """Have it read from here on, and see before whether the ledger still has what was read."""
        # What lies between the two where the epoch of markers is not known is read again, and is markers.
        consumer.assign([_place_after(self._topic, self._last_read or LastRead(_NO_EPOCH, self._position))])

    def _step(self) -> None:
        """Wait for something, then take all that is there."""
        # Not `poll`: it wakes five times a second to see whether Python has a signal.
        first = self._consumer.consume(1, self._poll_seconds)
        if not first:
            return
        records, position, is_end = self._sorted_out([*first, *self._consumer.consume(_RECORDS_AT_ONCE, 0)])
        now = time.monotonic()
        if records or position != self._position or (is_end and now - self._noted > _NOTE_SECONDS):
            self._noted = now
            at_end_ms = wall_ms() if is_end else None
            try:
                self._cache.apply(
                    collect_rows(records), position, at_end_ms=at_end_ms, last_read=self._last_read
                )
            except CacheDamaged:
                self._start_again()
                return
        if self._rebuilt_at is not None and position >= self._rebuilt_at:
            self._rebuilt_at = None
            self._cache.finish()
        with self._changed:
            self._position = position
            self._has_seen_end = self._has_seen_end or is_end
            self._changed.notify_all()
        if self._is_live and self._on_applied is not None and records:
            self._on_applied(tuple(_applied(key, value) for key, value in records))

    def _sorted_out(self, messages: list[Message]) -> tuple[list[tuple[bytes, bytes | None]], int, bool]:
        """The records, the position after them, and whether the visible end was the last thing seen."""
        records: list[tuple[bytes, bytes | None]] = []
        position, is_end, last = self._position, False, None
        for message in messages:
            error = message.error()
            if error is None or error.code() == _EOF:
                self._problem = None
            if error is None:
                key, value = message.key() or b"", message.value()
                if self._pass_over is None or is_control_key(key):
                    records.append((key, value))
                else:
                    self._pass_over(key, value)
                position, is_end, last = int(message.offset() or 0) + 1, False, message
            elif error.code() == _EOF:
                # EOF counts what records do not show: commit and abort markers, aborted and compacted
                # records.
                position, is_end = max(position, int(message.offset() or 0)), True
            elif error.code() == _OFFSET_GONE:
                self._throw_away(position)
                return [], self._position, False
            else:
                self._judge(error)
        if last is not None:
            epoch = last.leader_epoch()
            end = int(last.offset() or 0) + 1
            self._last_read = None if epoch is None or epoch <= _NO_EPOCH else LastRead(epoch, end)
        if is_end:
            self._pass_markers(position)
        return records, position, is_end

    def _pass_markers(self, end: int) -> None:
        """After the last record there may be markers of transactions, whose leader epoch librdkafka knows.

        With it the cache is held against the ledger up to there: of one that has lost them nothing else would
        tell, as they are no records.
        """
        if self._last_read is not None and self._last_read.end >= end:
            return
        (passed,) = self._consumer.position([TopicPartition(self._topic, 0)])
        if passed.offset == end and passed.leader_epoch is not None:
            self._last_read = LastRead(passed.leader_epoch, end)

    def _judge(self, error: KafkaError) -> None:
        found = translate(error, what=f"the {self._called} cannot be read")
        if error.fatal():
            raise found
        # The consumer goes on by itself when the cause is gone; whatever waits meanwhile gets the error.
        if not error.retriable():
            self._problem = found
            _log.warning("ledger_read_interrupted", topic=self._topic, error=str(found))

    def _throw_away(self, position: int) -> None:
        """Have the ledger read whole: it does not have any more what the cache has.

        At once while nothing has been decided by the cache; otherwise LedgerCutOff, and at the next start.
        """
        if self._has_seen_end or self._cache.last_read is None:
            raise LedgerCutOff(
                f"The {self._called} does not have any more what was read of it up to offset "
                f"{position}: records were deleted from it, brokers have lost them, or it was made again. "
                "Start again to have it read whole and checked."
            )
        reason = f"brokers have lost records of the ledger that it has, below its position {position}"
        _log.warning("cache_discarded", reason=reason, detail="the ledger is read whole")
        self._cache.forget()
        self._begin_at_start()

    def _start_again(self) -> None:
        """Read the topic from its start into memory; the cache's readers wait until we are where we were."""
        self._cache.start_again()
        with self._changed:
            self._rebuilt_at = max(self._position, self._rebuilt_at or 0)
        self._begin_at_start()

    def _begin_at_start(self) -> None:
        while not self._stop.is_set():
            try:
                low, _ = self._consumer.get_watermark_offsets(TopicPartition(self._topic, 0), _CALL_SECONDS)
            except KafkaException as error:
                # Brokers that are away: there is nothing to read from until they are back.
                self._judge(error.args[0])
                self._stop.wait(_POLL_SECONDS)
                continue
            with self._changed:
                self._position, self._last_read = low, None
            # Assigned again rather than sought: nothing fetched before may follow.
            self._assign(self._consumer)
            return


def read_uncommitted(
    properties: Properties,
    *,
    topic: str,
    group: str,
    start: int,
    end: int,
    timeout: float,
    require_wanted: Callable[[], object] = lambda: None,
    words: LedgerWords = OF_INGESTERS,
) -> Iterator[tuple[bytes, bytes | None]]:
    """Every record from `start` up to `end`, of open and aborted transactions too.

    ReadHeldBack when nothing comes for `timeout` seconds. For what must be known before fencing: slots in
    use. `require_wanted` is called while nothing comes, and may raise to end it.
    """
    consumer = new_ledger_consumer(properties, group=group, isolation="read_uncommitted", is_patient=False)
    try:
        consumer.assign([TopicPartition(topic, 0, start)])
        position, heard_at = start, time.monotonic()
        while position < end:
            message = consumer.poll(min(_WAIT_SECONDS, timeout))
            if message is None:
                require_wanted()
                if time.monotonic() - heard_at < timeout:
                    continue
                raise LedgerEndHidden(
                    f"The {words.called} {topic!r} gave nothing at offset {position} for {timeout:.0f} s."
                )
            heard_at = time.monotonic()
            error = message.error()
            if error is None:
                position = int(message.offset() or 0) + 1
                yield message.key() or b"", message.value()
            elif error.code() == _EOF:
                position = max(position, int(message.offset() or 0))
            elif not error.retriable():
                raise translate(error, what=f"the {words.called} {topic!r} cannot be read")
    finally:
        consumer.close()


def require_held(
    properties: Properties,
    read: LastRead,
    *,
    topic: str,
    group: str,
    timeout: float,
    words: LedgerWords = OF_INGESTERS,
) -> None:
    """Return when the ledger still has what was read of it. Blocks.

    The partition's leader is asked for what follows, and judges by epochs: what was lost and written again
    since is not taken for it. LedgerCutOff; Unavailable without an answer for `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    consumer = new_ledger_consumer(properties, group=group, isolation="read_uncommitted", is_patient=False)
    try:
        consumer.assign([_place_after(topic, read)])
        while (left := deadline - time.monotonic()) > 0:
            message = consumer.poll(left)
            error = None if message is None else message.error()
            if message is not None and (error is None or error.code() == _EOF):
                return
            if error is not None and error.code() == _OFFSET_GONE:
                raise LedgerCutOff(
                    f"The {words.called} {topic!r} does not have any more what was read of it up to offset "
                    f"{read.end}."
                )
            if error is not None and not error.retriable():
                raise translate(error, what=f"the {words.called} {topic!r} cannot be read")
    finally:
        consumer.close()
    raise Unavailable(f"The {words.called} {topic!r} gave nothing at offset {read.end} for {timeout:.0f} s.")


def _place_after(topic: str, read: LastRead) -> TopicPartition:
    if read.epoch == _NO_EPOCH:
        return TopicPartition(topic, 0, read.end)
    return TopicPartition(topic, 0, read.end, leader_epoch=read.epoch)


def _applied(raw_key: bytes, raw_value: bytes | None) -> Applied:
    key = decode_key(raw_key)
    if raw_value is None or isinstance(key, ControlKey):
        return Applied(key, raw_value)
    return Applied(key, decode_entry(raw_value))
