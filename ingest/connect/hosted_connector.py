"""One connector of a worker, in a thread of its own: what ends it ends nothing else."""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import structlog

from headrace.kafka.control_records import ConnectorRecord, Creation, TargetState
from headrace.kafka.ledger_reader import open_ledger_reader
from headrace.model.errors import Exit, HeadraceError, exit_code
from headrace.options import Settings, SettingsError
from headrace.options.describe import unresolved
from headrace.process.threads import SystemLimit, ThreadFailures, collecting_own, start_thread, within_limits
from ingest.connect.shared_slots import SharedSlots, SharedSpark
from ingest.http.rest.port import AskedCondition, ConnectorCondition, ConnectorPort, NotLeading, OffsetsPort
from ingest.http.rest.server import offsets_port
from ingest.service.composition import Connector, RunOptions
from ingest.service.leadership_phase import TAKING_UP
from ingest.service.startup import STARTING
from ingest.service.stop import Stop, Stopped

_log = structlog.get_logger(__name__)

_LEDGER_SECONDS: Final = 30.0
# How long it waits to be tried again where what ended it is outside: a broker or a bucket that is away.
_FIRST_PAUSE: Final = 2.0
_LONGEST_PAUSE: Final = 60.0
# A life that finds no brokers gives up within a minute or two: a longer one has worked.
_WORKED_SECONDS: Final = 300.0

LoadSettings = Callable[[ConnectorRecord], Settings]


@dataclass(slots=True, kw_only=True)
class _Run:
    """One life of the connector, from a start to its end."""

    connector: Connector
    settings: Settings


class HostedConnector:
    """A connector that this worker runs. One thread starts it; every other method any thread may call."""

    def __init__(self, record: ConnectorRecord, load: LoadSettings, spark: SharedSpark) -> None:
        self.record = record
        self._load = load
        self._spark = spark
        self._stop = Stop()
        self._revive = threading.Event()
        self._run: _Run | None = None
        self._failure: str | None = None
        self._failure_before: str | None = None
        self._thread: threading.Thread | None = None
        self._pause, self._start_at = 0.0, 0.0
        self.is_outdated = False
        """What its references lead to has changed: `HostedConnectors.reconcile` gives it another life."""

    def start(self) -> None:
        """Begin to run, unless it does; returns at once.

        Without a thread left it has failed, and another call tries it again once its pause is over.
        """
        if self._thread is not None or not (self._revive.is_set() or time.monotonic() >= self._start_at):
            return
        is_asked_for = self._revive.is_set()
        self._revive.clear()
        # Its threads inherit this context: their lines carry the connector's name.
        with structlog.contextvars.bound_contextvars(connector=self.record.name):
            try:
                live = partial(self._live, is_asked_for=is_asked_for)
                self._thread = start_thread(live, name=f"connector-{self.record.name}")
            except SystemLimit as error:
                self._fail(f"It cannot run: {error}")
                self._pause = pause_after(self._pause, 0.0)
                self._start_at = time.monotonic() + self._pause
                _log.error("connector_failed", error=self._failure)  # the sentence says it

    def stop(self, *, at_once: bool = False) -> None:
        """Ask it to commit what it has and end; `at_once` asks again, and nothing is waited for."""
        if not self._stop.asked.is_set():
            self._stop.ask("the worker")
        if at_once and not self._stop.at_once.is_set():
            self._stop.ask("the worker")
        self._revive.set()

    def join(self, seconds: float) -> bool:
        """Whether it has ended in this time."""
        if self._thread is not None:
            self._thread.join(seconds)
        return self._thread is None or not self._thread.is_alive()

    def revive(self) -> bool:
        """Start it again, if it has failed, or if its references lead to something else by now.

        False where it runs on as it is.

        HeadraceError where they cannot be read any more: what runs stays.
        """
        if self._failure is not None:
            self._revive.set()
            return True
        settings = self.settings
        if settings is None:
            return False
        if _led_to(self._load(self.record)) != _led_to(settings):
            self.is_outdated = True
            return True
        # A start that waits is tried again all the time.
        is_waiting, self._failure_before = self.shown_failure is not None, None
        return is_waiting

    @property
    def failure(self) -> str | None:
        """The sentence that it failed with; None while it runs."""
        return self._failure

    @property
    def shown_failure(self) -> str | None:
        """The same, or what keeps a new life from beginning; None once that leads or stands by.

        While brokers are away almost all of its time goes into starts: it has not recovered in each of them.
        """
        failure, run = self._failure, self._run
        if failure is not None or run is None:
            return failure
        snapshot = run.connector.snapshot_holder.snapshot
        if snapshot.role != "starting":
            return None
        waits = snapshot.problems.get(STARTING)
        if waits is not None:
            return as_written(waits, run.settings)
        before = self._failure_before
        return None if before is None else f"It starts again. It failed before with: {before}"

    @property
    def connector(self) -> Connector | None:
        """Its present life."""
        run = self._run
        return None if run is None else run.connector

    @property
    def settings(self) -> Settings | None:
        """The settings of its present life."""
        run = self._run
        return None if run is None else run.settings

    # -- its thread ------------------------------------------------------------------------------------------

    def _live(self, *, is_asked_for: bool) -> None:
        pause = 0.0
        while not self._stop.asked.is_set():
            failed_for_good, began = False, time.monotonic()
            try:
                with within_limits():
                    self._live_once(is_asked_for=is_asked_for)
            except HeadraceError as error:
                self._fail(str(error))
                failed_for_good = needs_operator(error)
                _log.error("connector_failed", error=self._failure)  # the sentence says it
            except SystemLimit as error:
                self._fail(f"It cannot run: {error}")
                _log.exception("connector_failed")
            except Exception as error:  # noqa: BLE001  # a bug in one connector is no other's
                self._fail(f"It ended with an unexpected error: {error!r}")
                failed_for_good = True
                _log.exception("connector_failed")
            if self._stop.asked.is_set():
                break
            pause = pause_after(pause, time.monotonic() - began)
            self._revive.wait(None if failed_for_good else pause)
            is_asked_for = self._revive.is_set()
            pause = 0.0 if is_asked_for else pause
            self._revive.clear()
        run, self._run = self._run, None
        if run is not None:
            run.connector.close()

    def _fail(self, sentence: str) -> None:
        """Have the end of a life shown, and with it no figure of the time before."""
        run = self._run
        if run is not None:
            run.connector.show_failure()
        self._failure = as_written(sentence, self.settings)

    def _live_once(self, *, is_asked_for: bool) -> None:
        """Run until it is asked to end, or cannot continue."""
        settings = self._load(self.record)
        failures = ThreadFailures()
        before = self._run
        if before is not None:
            before.connector.close()
        connector = Connector(
            settings,
            RunOptions(creation=_creation(self.record), is_assigned=True),
            self._stop,
            slot_source=SharedSlots(self._spark, settings),
            failures=failures,
            open_ledger=lambda: open_ledger_reader(settings, timeout=_LEDGER_SECONDS),
        )
        # Who asks for another life wants to know how that one is.
        self._failure_before = None if is_asked_for else self._failure
        self._run, self._failure = _Run(connector=connector, settings=settings), None
        for warning in settings.warnings:
            _log.warning("configuration_warned", warning=warning)
        _log.info("connector_started")
        with collecting_own(failures):
            try:
                connector.run()
            except Stopped:
                pass
            finally:
                connector.show_end()
        failures.raise_first()
        _log.info("connector_stopped")


def needs_operator(error: HeadraceError) -> bool:
    """True for what stays wrong until a configuration is changed, or a restart is asked for."""
    if isinstance(error, SettingsError):
        # What a reference points at may be mounted later, or just be written, and so may a trust store. That
        # an option has no value without it is a problem of the same option.
        passing = {one.option for one in error.problems if one.is_missing or one.is_unread}
        return not all(one.option in passing for one in error.problems)
    return exit_code(error) is Exit.CONFIGURATION


def pause_after(pause: float, lived: float) -> float:
    """The seconds before the next life, after one of `lived` seconds; `pause` were those before it, or 0."""
    return _FIRST_PAUSE if not pause or lived >= _WORKED_SECONDS else min(_LONGEST_PAUSE, pause * 2)


def _led_to(settings: Settings) -> tuple[object, ...]:
    """All texts of the connector and the worker, with their references replaced."""
    return settings.written, settings.texts, settings.kafka


def _creation(record: ConnectorRecord) -> Creation | None:
    if record.created_ms is None:
        return None
    return Creation(id=record.created_ms, state=TargetState(record.initial_state.lower()))


def as_written(sentence: str, settings: Settings | None) -> str:
    """A sentence about a connector without what its references lead to; None: nothing of it was read yet."""
    return sentence if settings is None else unresolved(sentence, settings)


@contextmanager
def _errors_as_written(hosted: HostedConnector) -> Iterator[None]:
    """Have errors that a client is answered say of the connector what its configuration says."""
    try:
        yield
    except HeadraceError as error:
        # One of several problems is of a configuration that was read, and says so itself.
        if error.args == (str(error),):
            error.args = (as_written(str(error), hosted.settings),)
        raise


class HostedPort:
    """`ingest.http.rest.port.ConnectorPort` of a connector that this worker runs, whatever it is at."""

    def __init__(self, hosted: HostedConnector, cluster_id: str | None) -> None:
        self._hosted = hosted
        self.cluster_id = cluster_id

    def require_leading(self) -> None:
        """See `ConnectorPort.require_leading`."""
        with _errors_as_written(self._hosted):
            self._led().require_leading()

    def condition(self) -> ConnectorCondition:
        """FAILED with its sentence, UNASSIGNED until it leads, then as it says itself."""
        known = self._known()
        if known is not None:
            return known
        try:
            with _errors_as_written(self._hosted):
                return self._shown(self._port().condition())
        except NotLeading:
            return unassigned()

    def ask_condition(self) -> AskedCondition:
        """See `ConnectorPort.ask_condition`."""
        known = self._known()
        if known is not None:
            return lambda _seconds: known
        try:
            with _errors_as_written(self._hosted):
                asked = self._port().ask_condition()
        except NotLeading:
            return lambda _seconds: unassigned()

        def answer(seconds: float) -> ConnectorCondition:
            try:
                with _errors_as_written(self._hosted):
                    return self._shown(asked(seconds))
            except NotLeading:
                return unassigned()

        return answer

    def steer(self, target: TargetState) -> None:
        """See `ConnectorPort.steer`."""
        with _errors_as_written(self._hosted):
            self._led().steer(target)

    def restart(self, slots: Collection[int]) -> None:
        """See `ConnectorPort.restart`."""
        with _errors_as_written(self._hosted):
            self._led().restart(slots)

    def restart_task(self, slot: int) -> None:
        """See `ConnectorPort.restart_task`."""
        with _errors_as_written(self._hosted):
            self._led().restart_task(slot)

    def revive(self) -> bool:
        """See `ConnectorPort.revive`."""
        return self._hosted.revive()

    def topics(self) -> Sequence[str]:
        """See `ConnectorPort.topics`."""
        with _errors_as_written(self._hosted):
            return self._port().topics()

    def reset_topics(self) -> None:
        """See `ConnectorPort.reset_topics`."""
        with _errors_as_written(self._hosted):
            self._led().reset_topics()

    def _shown(self, condition: ConnectorCondition) -> ConnectorCondition:
        settings = self._hosted.settings
        return replace(condition, problems=tuple(as_written(one, settings) for one in condition.problems))

    def _known(self) -> ConnectorCondition | None:
        """How it is, where it need not be asked."""
        failure = self._hosted.shown_failure or self._why_not_led()
        if failure is not None:
            return ConnectorCondition(target=TargetState.RUNNING, problems=(failure,), slots=())
        return unassigned() if self._stands_by() else None

    def _stands_by(self) -> bool:
        connector = self._hosted.connector
        return connector is not None and connector.snapshot_holder.snapshot.role == "standby"

    def _why_not_led(self) -> str | None:
        """Who leads it that is no worker of this group, or why this process cannot; None without a reason."""
        connector = self._hosted.connector
        if connector is None or not self._stands_by():
            return None
        problems = connector.snapshot_holder.snapshot.problems
        why = problems.get("lead") or problems.get(TAKING_UP)
        return None if why is None else as_written(why, self._hosted.settings)

    def _led(self) -> ConnectorPort:
        """The connector, for what only who leads it can do."""
        port, elsewhere = self._port(), self._why_not_led()
        if self._stands_by():
            why = elsewhere or "who led this connector before has not given it up yet"
            raise NotLeading(f"Cannot complete request momentarily: {why}", passes=elsewhere is None)
        return port

    def _port(self) -> ConnectorPort:
        failure, connector = self._hosted.failure, self._hosted.connector
        if failure is not None:
            raise NotLeading(
                f"Cannot complete request momentarily: the connector has failed ({failure}); "
                "POST .../restart starts it again"
            )
        if connector is None:
            raise NotLeading(
                "Cannot complete request momentarily: the connector is being started", passes=True
            )
        return connector.port


class HostedOffsets:
    """`ingest.http.rest.port.OffsetsPort` of a connector that this worker runs."""

    def __init__(self, hosted: HostedConnector) -> None:
        self._hosted = hosted

    def items(self) -> Iterator[dict[str, Any]]:
        """See `OffsetsPort.items`."""
        with _errors_as_written(self._hosted):
            return self._offsets().items()

    def alter(self, items: list[Any]) -> None:
        """See `OffsetsPort.alter`."""
        with _errors_as_written(self._hosted):
            self._offsets().alter(items)

    def reset(self) -> None:
        """See `OffsetsPort.reset`."""
        with _errors_as_written(self._hosted):
            self._offsets().reset()

    def _offsets(self) -> OffsetsPort:
        connector, settings, failure = self._hosted.connector, self._hosted.settings, self._hosted.failure
        if connector is None or settings is None or failure is not None:
            raise NotLeading(
                "Cannot complete request momentarily: the connector does not run", passes=failure is None
            )
        return offsets_port(settings, connector.port)


def unassigned() -> ConnectorCondition:
    """A connector that has no leader yet."""
    return ConnectorCondition(target=TargetState.RUNNING, problems=(), slots=(), state="UNASSIGNED")
