"""The task's end of the socket: what the driver sends is received at once even while the task is busy."""

import contextlib
import queue
import socket
import threading
import time
from typing import Final, TypeVar

from headrace.kafka.producer import SlotRevoked
from headrace.model.sink_protocol import GroupWanted, LeaderGroup, ObjectsEnded, SinkBatch
from headrace.model.slot_protocol import Batch, End, Welcome, Working
from headrace.process.threads import start_thread
from spark.socket_protocol import AuthenticatedSocket, Disconnected, connect
from spark.task.entry import TaskCredentials

_CONNECT_SECONDS: Final = 10.0
BEAT_SECONDS: Final = 5.0
"""How often a task that has a batch sends the driver a sign of life."""


def why_unreachable(address: tuple[str, int]) -> str | None:
    """None when something answers there; otherwise what the system says. Blocks for 10 s at most."""
    try:
        socket.create_connection(address, _CONNECT_SECONDS).close()
    except OSError as error:
        return str(error.strerror or error)
    return None


B = TypeVar("B", Batch, SinkBatch)


class DriverConnection:
    """The connection to the driver. A closed one means that the slot is void, whichever side closed it."""

    def __init__(self, wire: AuthenticatedSocket, *, beat_seconds: float = BEAT_SECONDS) -> None:
        self._wire = wire
        self._beat_seconds = beat_seconds
        self._void = threading.Event()
        self._end = threading.Event()
        self._beat_at = time.monotonic()
        self._messages: queue.Queue[object] = queue.Queue()
        self._groups: queue.Queue[LeaderGroup | None] = queue.Queue()
        self._ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        start_thread(self._listen, name="driver-link")

    @classmethod
    def connect(cls, ticket: TaskCredentials) -> "DriverConnection":
        """A proven connection; blocks. Raises SlotRevoked when the driver is not there or refuses."""
        try:
            connection = socket.create_connection(ticket.address, _CONNECT_SECONDS)
            return cls(connect(connection, ticket.start_id, ticket.token))
        except (OSError, Disconnected) as error:
            raise SlotRevoked(
                f"the driver at {ticket.address} is not there for this task: {error}"
            ) from error

    def is_void(self) -> bool:
        """True once nothing may be started for this slot any more."""
        return self._void.is_set()

    def is_void_in_a_wait(self) -> bool:
        """As `is_void`, asked by the working thread during a wait for brokers: it works on, and says so."""
        self.beat()
        return self._void.is_set()

    def beat(self, idle_seconds: float = 0.0) -> None:
        """Send the driver a sign of life every few seconds; `idle_seconds` as in `Working`.

        For the working thread only: from a thread of its own it would say so of a task that hangs.
        """
        now = time.monotonic()
        if now - self._beat_at < self._beat_seconds:
            return
        self._beat_at = now
        try:
            self._wire.send(Working(idle_seconds))
        except Disconnected:
            self._void.set()

    def is_ending(self) -> bool:
        """True once the driver has asked the task to end, at its next checkpoint when it is busy."""
        return self._end.is_set()

    def send(self, message: object) -> None:
        """Send it to the driver; SlotRevoked when it is gone."""
        try:
            self._wire.send(message)
        except Disconnected as error:
            self._void.set()
            raise SlotRevoked(str(error)) from error

    def welcome(self) -> Welcome:
        """The driver's answer to Hello; blocks. SlotRevoked when it refuses."""
        message = self._messages.get()
        if not isinstance(message, Welcome):
            raise SlotRevoked("the driver refused this task")
        return message

    def batch(self, batch_type: type[B]) -> B | None:
        """The next batch, or None when the task is to end; blocks. SlotRevoked when the driver is gone."""
        message = self._messages.get()
        if isinstance(message, batch_type):
            return message
        if isinstance(message, End):
            return None
        raise SlotRevoked("the driver is gone")

    def ended_objects(self) -> list[str]:
        """The ids of objects that the leader has brought to their ends since the last call."""
        ended: list[str] = []
        while not self._ended.empty():
            ended.append(self._ended.get())
        return ended

    def leader_group(self, batch: int) -> LeaderGroup:
        """The leader's group metadata of the moment; blocks. SlotRevoked when the leader is gone.

        The leader asks brokers first, for as long as that takes: the wait gives signs of life.
        """
        self.send(GroupWanted(batch=batch))
        answer = None
        while answer is None and not self.is_void_in_a_wait():
            with contextlib.suppress(queue.Empty):
                answer = self._groups.get(timeout=self._beat_seconds)
        if answer is None:
            raise SlotRevoked("the driver is gone")
        return answer

    def close(self) -> None:
        """End the connection."""
        self._wire.close()

    def _listen(self) -> None:
        """Body of the thread: a batch and an end wait their turn, a broken connection is known at once."""
        while True:
            try:
                message = self._wire.receive()
            except Disconnected:
                self._void.set()
                self._messages.put(None)
                self._groups.put(None)
                return
            if isinstance(message, LeaderGroup):
                self._groups.put(message)
                continue
            if isinstance(message, ObjectsEnded):
                for object_id in message.ids:
                    self._ended.put(object_id)
                continue
            if isinstance(message, End):
                self._end.set()
            self._messages.put(message)
