"""The running connector as the REST interface asks it: from threads of its own, answered by the service's."""

import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Any, Final, Generic, Protocol, TypeVar

from headrace.kafka.control_records import TOPICS, TargetState
from headrace.kafka.ledger_cache import LedgerCache
from headrace.model.errors import HeadraceError
from ingest.http.rest.port import AskedCondition, ConnectorCondition, NotLeading, Unanswered
from ingest.http.snapshot import SnapshotHolder
from ingest.service.service_events import RunInServiceThread

T = TypeVar("T")

# As long as Connect itself lets a request wait.
REQUEST_SECONDS: Final = 90.0
LOOK_SECONDS: Final = 0.01
# How long a stop waits for slots to be given back: a task commits at its next batch of rows.
_STOP_SECONDS: Final = 60.0


class Steering(Protocol):
    """What one leadership lets be steered; all but `post` is called in the service's thread."""

    @property
    def post(self) -> Callable[[RunInServiceThread], None]:
        """Have something done in the service's thread."""

    @property
    def cache(self) -> LedgerCache:
        """What is read back of the ledger."""

    def condition(self) -> ConnectorCondition:
        """How the connector is now."""

    def set_target(self, target: TargetState, told: Future[None]) -> None:
        """Write down what is wanted and act on it; told once it is written, and for a stop carried out."""

    def restart(self, slots: Collection[int]) -> None:
        """Try again what waits, and end the tasks of these slots at their next checkpoint."""

    def restart_task(self, slot: int) -> None:
        """End the task of one slot at its next checkpoint."""

    def reset_topics(self, told: Future[None]) -> None:
        """Write down that the topics up to now do not count any more; told once it is written."""


V = TypeVar("V", bound=Steering)


class RestAdapter(Generic[V]):
    """`ingest.http.rest.port.ConnectorPort` over the service, but for what each direction adds.

    Every method may be called from any thread.
    """

    def __init__(self, snapshot_holder: SnapshotHolder) -> None:
        self._snapshot_holder = snapshot_holder
        self._led: V | None = None
        self._waiting_lock = threading.Lock()
        self._waiting: set[Future[Any]] = set()
        self.cluster_id: str | None = None

    # -- told by the service ---------------------------------------------------------------------------------

    def lead(self, led: V) -> None:
        """This process leads from now on."""
        self._led = led

    def stand_by(self) -> None:
        """This process does not lead any more; who waits for an answer gets NotLeading."""
        with self._waiting_lock:
            self._led = None
            waiting, self._waiting = self._waiting, set()
        for told in waiting:
            # Answers come from the service's thread, which is this one.
            if not told.done():
                told.set_exception(self._not_leading())

    # -- asked by the REST interface -------------------------------------------------------------------------

    def require_leading(self) -> None:
        """NotLeading unless this instance leads."""
        self._require_led()

    def condition(self) -> ConnectorCondition:
        """How it is now, as the service's thread sees it."""
        return self.ask_condition()(REQUEST_SECONDS)

    def ask_condition(self) -> AskedCondition:
        """See `ConnectorPort.ask_condition`."""
        led = self._require_led()
        told = self._posted(led, led.condition)
        return lambda seconds: self._await(led, told, seconds)

    def steer(self, target: TargetState) -> None:
        """Return once the wish is in the ledger; for STOPPED also once all slots are given back."""
        led = self._require_led()
        told: Future[None] = Future()
        try:
            self._ask(led, lambda: led.set_target(target, told))
            self._await(led, told, _STOP_SECONDS if target is TargetState.STOPPED else REQUEST_SECONDS)
        except NotLeading:
            # Whether it is written or not: the same wish again, of who leads next, changes nothing.
            raise self._not_leading(nothing_done=True) from None

    def revive(self) -> bool:
        """False: what fails while the service runs is tried again by itself."""
        return False

    def restart(self, slots: Collection[int]) -> None:
        """Try again what waits, and end the tasks of these slots at their next checkpoint."""
        led = self._require_led()
        self._ask(led, lambda: led.restart(slots))

    def restart_task(self, slot: int) -> None:
        """End the task of one slot at its next checkpoint."""
        led = self._require_led()
        self._ask(led, lambda: led.restart_task(slot))

    def reset_topics(self) -> None:
        """Return once the ledger says that the topics up to now do not count any more."""
        led = self._require_led()
        before = led.cache.controls().get(TOPICS)
        told: Future[None] = Future()
        self._ask(led, lambda: led.reset_topics(told))
        self._await(led, told, REQUEST_SECONDS)
        deadline = time.monotonic() + REQUEST_SECONDS
        while led.cache.controls().get(TOPICS) == before:
            if time.monotonic() > deadline:
                raise Unanswered("The reset is written, but could not be read back: is Kafka up?")
            time.sleep(LOOK_SECONDS)

    # -- inside ----------------------------------------------------------------------------------------------

    def _require_led(self) -> V:
        if self._led is None:
            raise self._not_leading(nothing_done=True)
        return self._led

    def _not_leading(self, *, nothing_done: bool = False) -> NotLeading:
        role = self._snapshot_holder.snapshot.role
        return NotLeading(
            "Cannot complete request momentarily: "
            + (
                "this instance is a standby; send the request to the one that leads"
                if role == "standby"
                else f"this instance does not lead (it is {role}); try again"
            ),
            is_standby=role == "standby",
            passes=nothing_done and role != "standby",
        )

    def _ask(self, led: V, act: Callable[[], T]) -> T:
        """What it returns or raises, called in the service's thread."""
        return self._await(led, self._posted(led, act), REQUEST_SECONDS)

    def _posted(self, led: V, act: Callable[[], T]) -> Future[T]:
        told: Future[T] = Future()

        def run() -> None:
            try:
                told.set_result(act())
            except HeadraceError as error:
                told.set_exception(error)

        led.post(RunInServiceThread(run))
        return told

    def _await(self, led: V, told: Future[T], seconds: float) -> T:
        with self._waiting_lock:
            if self._led is not led:
                raise self._not_leading()
            self._waiting.add(told)
        try:
            return told.result(seconds)
        except TimeoutError:
            raise Unanswered(
                "Request timed out: it was taken down and may still be carried out; look at the status"
            ) from None
        finally:
            with self._waiting_lock:
                self._waiting.discard(told)
