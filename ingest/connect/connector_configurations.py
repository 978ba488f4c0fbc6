"""The configuration topic, in which connectors' configurations are.

It is a ledger of its own, read by every worker and written by the one that leads. That worker holds
the topic's partition in the workers' group, and every write is a transaction that carries its group metadata,
as a connector's own ledger writes do: a worker that lost the lead unnoticed is refused by the broker, so two
can never write over each other (docs/decisions/0080).
"""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from operator import attrgetter
from typing import Final

import structlog

from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.cache_files import LastRead
from headrace.kafka.control_records import OWNER
from headrace.kafka.driver_ledger import DriverLedger, prepare_ledger
from headrace.kafka.kafka_clients import client_properties
from headrace.kafka.kafka_errors import LedgerCutOff
from headrace.kafka.leadership import Leadership, Role, group_id
from headrace.kafka.ledger_follower import require_held
from headrace.kafka.ledger_reader import LedgerReader
from headrace.kafka.ledger_topic import OF_WORKERS, LedgerIdentity, describe_ledger_topic, refuse_changed
from headrace.model.errors import (
    HeadraceError,
    InvalidConfiguration,
    InvalidLedger,
    LeadershipLost,
    TopicMissing,
    Unavailable,
)
from headrace.model.ledger_entry import ControlKey, encode_key
from headrace.model.text_formatting import and_more, printable
from headrace.process.logs import RetryLog
from headrace.process.threads import SystemLimit, start_thread, within_limits
from ingest.connect.changes import RecordTooLarge
from ingest.connect.connector_loading import Changes, await_read_back, is_read_to
from ingest.connect.other_workers import BrokerContact
from ingest.connect.worker_settings import WorkerSettings
from ingest.http.rest.port import NotLeading
from ingest.service.stop import Stop

_log = structlog.get_logger(__name__)

_LOOK_SECONDS: Final = 0.2
_PAUSE_SECONDS: Final = 1.0
_CALL_SECONDS: Final = 30.0
_CHECK_SECONDS: Final = 60.0
# A topic that cannot serve, or may not be read, waits for an operator.
_REFUSED_SECONDS: Final = 3.0
_END_SECONDS: Final = 3.0
# Not every broker knows a topic at once that was just made.
_SETTLING_SECONDS: Final = 10.0
# How many keys of other programs are kept and logged.
_MOST_FOREIGN: Final = 100
_SHOWN: Final = 3
# What a record takes besides key and value: its batch's head, and its lengths.
_RECORD_OVERHEAD: Final = 128
# No broker and no topic is set to take less.
_ALWAYS_TAKEN: Final = 1_000
# librdkafka's, where nothing is set.
_CLIENT_LIMIT: Final = 1_000_000


class ConfigurationTopic:
    """Joins the workers' group in a thread of its own; everybody may read, who leads may write."""

    def __init__(self, settings: WorkerSettings, stop: Stop, *, admin: type[KafkaAdmin] = KafkaAdmin) -> None:
        self._settings, self._new_admin = settings, admin
        self._stop = stop
        self._clients = client_properties(settings.frame)
        self._lock = threading.RLock()
        self._led: DriverLedger | None = None
        self._failures: list[HeadraceError] = []
        self._reader: LedgerReader | None = None
        # Which topic this worker has begun with, and how far it has read it: another, or less of it, would
        # be read as if connectors had been deleted.
        self._identity: LedgerIdentity | None = None
        self._last_read: LastRead | None = None
        self._settled_at = 0.0
        self._refused: tuple[float, str] | None = None
        self._problem: str | None = None
        self._retries = RetryLog(_log, "worker_lead_lost")
        self._refusals = RetryLog(_log, "worker_lead_refused", is_error=True)
        self._foreign: dict[bytes, None] = {}
        self._thread: threading.Thread | None = None
        self._contact = BrokerContact(
            lambda: self._admin().cluster_id(), session_seconds=settings.session_timeout_ms / 1000
        )
        self.cluster_id: str | None = None
        self.leads_began = 0
        """How often this worker has begun to lead: a lead may be lost and taken again between two looks."""

    def open(self) -> None:
        """Make the topic where it is missing, and read it. Blocks; InvalidConfiguration, Unavailable."""
        settings = self._settings
        try:
            found = prepare_ledger(
                self._clients,
                name=settings.name,
                topic=settings.topic,
                replication_factor=settings.replication_factor,
                words=OF_WORKERS,
            )
            self._identity, self._last_read = found.identity, None
            self.cluster_id = found.identity.cluster_id
            self._settled_at = time.monotonic() + _SETTLING_SECONDS
            self._refuse_others_topic(self._read())
        except TopicMissing as error:
            raise _unreadable(error) from error  # tried again: it is there, or made then
        except InvalidLedger as error:
            raise InvalidConfiguration(
                f"config.storage.topic = {settings.topic!r} cannot hold this group's configurations: {error} "
                "Headrace's workers need a topic of their own; one that is missing is created."
            ) from error
        self._thread = start_thread(self._run, name="worker-lead")

    @property
    def is_leading(self) -> bool:
        """Whether this worker leads."""
        return self._led is not None

    @property
    def problem(self) -> str | None:
        """What keeps the topic from being read or led, in a sentence."""
        return self._contact.problem or self._problem

    @property
    def is_cut_off(self) -> bool:
        """Whether the brokers have not answered this worker for a session: others are to have its work."""
        return self._contact.problem is not None

    def is_answered(self) -> bool:
        """Whether a broker answers within three seconds: a write without one takes as long as the session."""
        try:
            self._admin().cluster_id()
        except HeadraceError:
            return False
        return True

    @property
    def foreign(self) -> str | None:
        """Which records of the topic are passed over, as they are not Headrace's, in a sentence."""
        keys = list(self._foreign)
        if not keys:
            return None
        shown = [repr(printable(key.decode("utf-8", "replace"))) for key in keys[:_SHOWN]]
        return (
            f"config.storage.topic = {self._settings.topic!r} holds records that are not Headrace's, which "
            f"are passed over: keys {and_more(shown, len(keys))}. Find what writes there, and remove each "
            "with a tombstone"
        )

    def controls(self) -> Mapping[ControlKey, bytes]:
        """What is committed, as this worker has read it. InvalidLedger, Unavailable: it cannot be read."""
        led, failures = self._led, self._failures
        if led is not None:
            if failures:
                raise _unreadable(self._noted(failures[0])) from failures[0]
            return led.cache.controls()
        with self._lock:
            if self._refused is not None and time.monotonic() < self._refused[0]:
                raise InvalidLedger(self._refused[1])
            try:
                reader = self._reader or self._read()
                # Raises what has ended the reading.
                reader.wait_for(lambda: False, 0.0)
            except HeadraceError as error:
                self._end_reading()
                found = _unreadable(self._noted(error))
                if isinstance(found, InvalidLedger):
                    self._refused = time.monotonic() + _REFUSED_SECONDS, str(found)
                raise found from error
            self._refused = None
            return reader.cache.controls()

    def read_to_end(self) -> None:
        """Return when all that is committed by now is read. InvalidLedger; Unavailable after seconds.

        Who leads has to as well: it may have hung, and another worker may have led meanwhile.
        """
        self.controls()
        led, reader = self._led, self._reader
        try:
            end = self._admin().stable_end(self._settings.topic)
            # What is not read takes two offsets at least, its record's and its commit's. That the commit of
            # what was read last has been passed shows half a second later, when a fetch has found nothing.
            is_read = is_read_to(end - 1, led, reader, seconds=_END_SECONDS)
        except HeadraceError as error:
            raise _unreadable(error) from error
        if not is_read:
            raise Unavailable(
                f"config.storage.topic cannot be read to its end in {_END_SECONDS:.0f} s: is Kafka up?"
            )

    def write(self, changes: Changes) -> None:
        """Commit all of these or none; return when this worker reads them.

        NotLeading, RecordTooLarge, Unavailable.
        """
        with self._lock:
            led = self._led
            if led is None:
                raise NotLeading(
                    "Cannot complete request momentarily: this worker does not lead its group (any more)",
                    passes=True,
                )
            self._require_room(changes)
            # Its records come after what is read, and the commit's after them.
            least = led.last_read.end + len(changes) + 1
            try:
                led.commit(list(changes), timeout=_CALL_SECONDS)
            except LeadershipLost as error:
                raise NotLeading(f"Cannot complete request momentarily: {error}") from error
            await_read_back(led, changes, least=least, ask_end=self._ask_end, failures=self._failures)

    def close(self) -> None:
        """Leave the group, so that another worker leads at once; `stop` has been asked for."""
        if self._thread is not None:
            self._thread.join(10.0)
        with self._lock:
            self._end_reading()

    def _require_room(self, changes: Changes) -> None:
        """RecordTooLarge for a record that the brokers would refuse: they would do it again and again."""
        size = max(len(encode_key(key)) + len(raw or b"") for key, raw in changes) + _RECORD_OVERHEAD
        if size < _ALWAYS_TAKEN:
            return
        topic = self._settings.topic
        limits = {
            "max.request.size (producer.max.request.size in the worker's file)": int(
                self._clients.producer.get("message.max.bytes", _CLIENT_LIMIT)
            )
        }
        # Who may not ask learns it by the attempt.
        with suppress(HeadraceError):
            found = KafkaAdmin(self._clients.admin, timeout=_CALL_SECONDS).topic_configuration(topic)
            # Brokers of other makers may not say.
            if found.get("max.message.bytes"):
                limits[f"max.message.bytes of topic {topic!r}"] = int(found["max.message.bytes"])
        name, limit = min(limits.items(), key=lambda one: one[1])
        if size > limit:
            raise RecordTooLarge(size=size, limit=limit, name=name)

    def _ask_end(self) -> int:
        return self._admin().ends(self._settings.topic)[1]

    def _admin(self) -> KafkaAdmin:
        return self._new_admin(self._clients.admin, timeout=_END_SECONDS)

    # -- reading ---------------------------------------------------------------------------------------------

    def _noted(self, error: HeadraceError) -> HeadraceError:
        """The error, in words of the configuration topic."""
        if not isinstance(error, LedgerCutOff):
            return error
        return InvalidLedger(
            f"The configuration topic {self._settings.topic!r} does not have any more what was read of it: "
            f"records were deleted from it, brokers have lost them, or it was made again: {OF_WORKERS.lost}"
        )

    def _require_same_topic(self) -> None:
        """InvalidLedger when the topic is not what this worker has read and decided by; Unavailable. Blocks.

        Each time by what brokers say then. Not by the offset that they give as the end: one of them may give
        a lower one for a moment, and a topic that was cut grows past what was read.
        """
        if self._identity is None:
            return
        settings = self._settings
        try:
            now = describe_ledger_topic(self._admin(), settings.topic, OF_WORKERS).identity
        except TopicMissing as error:
            if time.monotonic() < self._settled_at:
                raise Unavailable(f"{error} Brokers may not know yet that it was made.") from error
            now = None
        refuse_changed(self._identity, now, OF_WORKERS)
        read, group = self._read_so_far(), group_id(settings.name)
        if read is not None:
            try:
                require_held(
                    self._clients.consumer,
                    read,
                    topic=settings.topic,
                    group=group,
                    timeout=_CALL_SECONDS,
                    words=OF_WORKERS,
                )
            except LedgerCutOff as error:
                raise self._noted(error) from error

    def _read_so_far(self) -> LastRead | None:
        with self._lock:
            found = [
                self._last_read,
                *(one.last_read for one in (self._reader, self._led) if one is not None),
            ]
            known = (one for one in found if one is not None)
            self._last_read = max(known, key=attrgetter("place"), default=None)
            return self._last_read

    def _read(self) -> LedgerReader:
        self._require_same_topic()
        settings = self._settings
        self._foreign.clear()
        try:
            with within_limits():
                self._reader = LedgerReader(
                    self._clients,
                    name=settings.name,
                    topic=settings.topic,
                    timeout=_CALL_SECONDS,
                    pass_over=self._pass_over,
                    before=self._identity,
                    words=OF_WORKERS,
                    refused=_REFUSED_SECONDS,
                )
        except SystemLimit as error:
            raise Unavailable(str(error)) from error
        return self._reader

    def _refuse_others_topic(self, reader: LedgerReader) -> None:
        """InvalidLedger where there are records of other programs, and no worker has ever led."""
        if self._foreign and OWNER not in reader.cache.controls():
            key = next(iter(self._foreign))
            self._end_reading()
            raise InvalidLedger(f"It holds a key that is not Headrace's: {key[:200]!r}.")

    def _pass_over(self, key: bytes, value: bytes | None) -> None:
        """Note a record of another program: no worker has to stop for it, and its tombstone settles it.

        Compaction keeps the last record of each key, so one that stopped them would do so for days.
        """
        if value is None:
            self._foreign.pop(key, None)
        elif key not in self._foreign and len(self._foreign) < _MOST_FOREIGN:
            self._foreign[key] = None
            _log.warning(
                "configuration_record_foreign",
                topic=self._settings.topic,
                key=printable(key.decode("utf-8", "replace")),
                detail="it is passed over: find what writes there, and remove it with a tombstone",
            )

    def _end_reading(self) -> None:
        self._read_so_far()
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    # -- leading ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stop.asked.is_set():
            pause = _PAUSE_SECONDS
            try:
                with within_limits():
                    self._lead()
            except InvalidLedger as error:
                self._problem, pause = str(error), _REFUSED_SECONDS
                self._refusals.failed(None, error)
            except (HeadraceError, SystemLimit) as error:
                self._problem = str(error)
                self._retries.failed(None, error, detail="it is tried again")
            self._stop.asked.wait(pause)

    def _lead(self) -> None:
        """Wait for the lead and keep it until it is lost or the worker stops."""
        # Before it joins: one that has begun with the new one may lead. Who is cut off from the brokers is
        # found below, and what is led over is looked at again.
        with suppress(Unavailable):
            self._require_same_topic()
        settings, lost = self._settings, threading.Event()
        failures: list[HeadraceError] = []
        self._failures = failures
        with ExitStack() as closing:
            leadership = Leadership(
                self._clients.consumer,
                name=settings.name,
                ledger_topic=settings.topic,
                session_timeout_ms=settings.session_timeout_ms,
                on_lost=lambda _reason: lost.set(),
            )
            closing.callback(leadership.close)
            leadership.join()
            while not leadership.wait_for_lead(_LOOK_SECONDS, self._stop.asked):
                # What a member of the group has met before is not taken back: the brokers are asked.
                self._problem = leadership.problem if leadership.role is Role.JOINING else None
                self._contact.look()
                if self._stop.asked.is_set():
                    return
            ledger = DriverLedger(
                self._clients,
                name=settings.name,
                topic=settings.topic,
                lead=leadership,
                state_dir=None,
                on_failed=failures.append,
                is_given_up=self._stop.at_once.is_set,
                pass_over=self._pass_over,
                before=self._identity,
                words=OF_WORKERS,
            )
            closing.callback(ledger.close)
            ledger.take_over(timeout=_CALL_SECONDS)
            self._require_same_topic()
            closing.callback(self._set_led, None)
            self._set_led(ledger)
            self._problem = None
            for retries in (self._retries, self._refusals):
                retries.over(None)
            _log.info("worker_leads", group=settings.group, topic=settings.topic)
            self._keep(ledger, lost, failures)

    def _keep(self, ledger: DriverLedger, lost: threading.Event, failures: Sequence[HeadraceError]) -> None:
        checked = time.monotonic()
        while not lost.wait(_LOOK_SECONDS) and not self._stop.asked.is_set():
            self._contact.on_heard()
            if failures:
                raise self._noted(failures[0])
            if time.monotonic() - checked > _CHECK_SECONDS:
                checked = time.monotonic()
                with suppress(Unavailable):
                    ledger.check()
        if lost.is_set():
            self._contact.on_lost()
            raise LeadershipLost("another worker leads, or the brokers have not heard of this one in time.")

    def _set_led(self, ledger: DriverLedger | None) -> None:
        with self._lock:
            # What it has read back the reader may not have read yet.
            self._read_so_far()
            self.leads_began += ledger is not None
            self._led = ledger


def _unreadable(error: HeadraceError) -> HeadraceError:
    """The error with what it keeps from being read; of what does not pass by itself it is InvalidLedger."""
    text = f"config.storage.topic cannot be read: {error}"
    return InvalidLedger(text) if isinstance(error, InvalidLedger) else Unavailable(text)
