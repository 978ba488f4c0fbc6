"""The configuration topic: a ledger of its own, read by every worker and written by the one that leads.

The worker that leads holds the topic's partition in the workers' group, and every write is a transaction that
carries its group metadata, as a connector's own ledger writes do: a worker that lost the lead unnoticed is
refused by the broker, so two can never write over each other (docs/decisions/0080).
"""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Final

import structlog

from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.driver_ledger import DriverLedger, prepare_ledger
from headrace.kafka.leadership import Leadership
from headrace.model.errors import (
    HeadraceError,
    InvalidConfiguration,
    InvalidLedger,
    LeadershipLost,
    Unavailable,
)
from headrace.model.ledger_entry import ControlKey, encode_key
from headrace.process.threads import start_thread
from ingest.checks.probes.ledger_reader import LedgerReader, client_properties
from ingest.connect.changes import RecordTooLarge
from ingest.connect.worker_settings import WorkerSettings
from ingest.http.rest.port import NotLeading
from ingest.service.stop import Stop

_log = structlog.get_logger(__name__)

_LOOK_SECONDS: Final = 0.2
_PAUSE_SECONDS: Final = 1.0
_CALL_SECONDS: Final = 30.0
_CHECK_SECONDS: Final = 60.0
# What a record takes besides key and value: its batch's head, and its lengths.
_RECORD_OVERHEAD: Final = 128
# No broker and no topic is set to take less.
_ALWAYS_TAKEN: Final = 1_000
# librdkafka's, where nothing is set.
_CLIENT_LIMIT: Final = 1_000_000

Changes = Sequence[tuple[ControlKey, bytes | None]]


class ConfigurationTopic:
    """Joins the workers' group in a thread of its own; everybody may read, who leads may write."""

    def __init__(self, settings: WorkerSettings, stop: Stop) -> None:
        self._settings = settings
        self._stop = stop
        self._clients = client_properties(settings.frame)
        self._lock = threading.RLock()
        self._led: DriverLedger | None = None
        self._reader: LedgerReader | None = None
        self._problem: str | None = None
        self._thread: threading.Thread | None = None
        self.cluster_id: str | None = None

    def open(self) -> None:
        """Make the topic where it is missing, and read it. Blocks; InvalidConfiguration, Unavailable."""
        settings = self._settings
        try:
            found = prepare_ledger(
                self._clients,
                name=settings.name,
                topic=settings.topic,
                replication_factor=settings.replication_factor,
            )
            self.cluster_id = found.identity.cluster_id
            self._read()
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
        return self._problem

    def controls(self) -> Mapping[ControlKey, bytes]:
        """What is committed, as this worker has read it. Unavailable while it cannot be read."""
        led = self._led
        if led is not None:
            return led.cache.controls()
        with self._lock:
            reader = self._reader
            try:
                if reader is None:
                    reader = self._read()
                reader.wait_for(lambda: True, 0.0)
            except HeadraceError as error:
                self._end_reading()
                raise Unavailable(f"config.storage.topic cannot be read: {error}") from error
            return reader.cache.controls()

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
            try:
                led.commit(list(changes), timeout=_CALL_SECONDS)
            except LeadershipLost as error:
                raise NotLeading(f"Cannot complete request momentarily: {error}") from error
            deadline = time.monotonic() + _CALL_SECONDS
            while any(led.cache.controls().get(key) != raw for key, raw in changes):
                if time.monotonic() > deadline:
                    raise Unavailable("The change is written, but cannot be read back yet: is Kafka up?")
                time.sleep(0.01)

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
            limits[f"max.message.bytes of topic {topic!r}"] = int(found["max.message.bytes"])
        name, limit = min(limits.items(), key=lambda one: one[1])
        if size > limit:
            raise RecordTooLarge(size=size, limit=limit, name=name)

    # -- reading ---------------------------------------------------------------------------------------------

    def _read(self) -> LedgerReader:
        settings = self._settings
        self._reader = LedgerReader(
            self._clients, name=settings.name, topic=settings.topic, timeout=_CALL_SECONDS
        )
        return self._reader

    def _end_reading(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    # -- leading ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stop.asked.is_set():
            try:
                self._lead()
            except InvalidLedger as error:
                self._problem = str(error)
                _log.error("worker_lead_refused", error=str(error))  # the sentence says it
            except HeadraceError as error:
                self._problem = str(error)
                _log.warning("worker_lead_lost", error=str(error), detail="it is tried again")
            self._stop.asked.wait(_PAUSE_SECONDS)

    def _lead(self) -> None:
        """Wait for the lead and keep it until it is lost or the worker stops."""
        settings, lost = self._settings, threading.Event()
        failures: list[HeadraceError] = []
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
                self._problem = leadership.problem
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
            )
            closing.callback(ledger.close)
            ledger.take_over(timeout=_CALL_SECONDS)
            closing.callback(self._set_led, None)
            self._set_led(ledger)
            self._problem = None
            _log.info("worker_leads", group=settings.group, topic=settings.topic)
            self._keep(ledger, lost, failures)

    def _keep(self, ledger: DriverLedger, lost: threading.Event, failures: Sequence[HeadraceError]) -> None:
        checked = time.monotonic()
        while not lost.wait(_LOOK_SECONDS) and not self._stop.asked.is_set():
            if failures:
                raise failures[0]
            if time.monotonic() - checked > _CHECK_SECONDS:
                checked = time.monotonic()
                with suppress(Unavailable):
                    ledger.check()
        if lost.is_set():
            raise LeadershipLost("another worker leads, or the brokers have not heard of this one in time.")

    def _set_led(self, ledger: DriverLedger | None) -> None:
        with self._lock:
            self._led = ledger
