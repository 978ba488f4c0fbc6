"""Connections between simulated processes: bytes arrive in order, and a dead end is seen by the other one."""

import errno
import socket
from typing import Any, Final

from tests.simulation.kernel import Kernel, Process, Signal

_NOTICED_SECONDS: Final = 0.5
_listening: Final[dict[int, "SimulatedServer"]] = {}


def _kernel() -> Kernel:
    from tests.simulation.patches import kernel

    return kernel()


class SimulatedSocket:
    """One end of a connection."""

    family = socket.AF_UNIX

    def __init__(self, owner: Process) -> None:
        self._owner = owner
        self._received = bytearray()
        self._is_closed = False
        self._kernel = _kernel()
        self._changed = Signal(self._kernel)
        self.other: SimulatedSocket | None = None
        # A process that dies closes its connections.
        owner.files.append(self._end)

    def settimeout(self, seconds: float | None) -> None:
        """Waits end with the connection, or with its process."""

    def setsockopt(self, *_: object) -> None:
        """Nothing to set."""

    def sendall(self, data: bytes) -> None:
        """Hand bytes to the other end."""
        self._kernel.require_alive()
        other = self.other
        if self._is_closed or other is None or other._is_gone:
            raise BrokenPipeError(32, "Broken pipe")
        other._received += data
        other._changed.give()
        self._kernel.turn()

    def recv_into(self, buffer: memoryview) -> int:
        """Some of the bytes that have come; 0 once the other end is closed."""
        while not self._received:
            if self._is_closed:
                raise OSError(9, "Bad file descriptor")
            other = self.other
            if other is None or other._is_gone:
                if other is not None and other._owner.is_dead:
                    # Noticed soon.
                    self._kernel.sleep(_NOTICED_SECONDS * self._kernel.rng.random())
                return 0
            self._changed.wait()
        count = min(len(buffer), len(self._received))
        buffer[:count] = self._received[:count]
        del self._received[:count]
        return count

    def shutdown(self, _how: int) -> None:
        """End both directions."""
        self.close()

    def close(self) -> None:
        """End it."""
        self._end()

    def _end(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._changed.give()
            if self.other is not None:
                self.other._changed.give()

    @property
    def _is_gone(self) -> bool:
        return self._is_closed or self._owner.is_dead


class SimulatedServer:
    """A listening socket."""

    def __init__(self, port: int | None = None) -> None:
        process = _kernel().here()
        assert process is not None
        self.owner = process
        self.port = next(_kernel().ports) if port is None else port
        self.waiting: list[SimulatedSocket] = []
        self.changed = Signal(_kernel())
        self._is_closed = False
        _listening[self.port] = self

    def getsockname(self) -> tuple[str, int]:
        """Where it listens."""
        return "127.0.0.1", self.port

    def accept(self) -> tuple[SimulatedSocket, Any]:
        """The next connection."""
        while not self.waiting:
            if self._is_closed:
                raise OSError(9, "Bad file descriptor")
            self.changed.wait()
        _require_a_descriptor()
        return self.waiting.pop(0), None

    def shutdown(self, _how: int) -> None:
        """Listen no more."""
        self.close()

    def close(self) -> None:
        """Listen no more."""
        self._is_closed = True
        if _listening.get(self.port) is self:
            del _listening[self.port]
        self.changed.give()


def forget_servers() -> None:
    """Let go of what processes that died were listening on."""
    _listening.clear()


def _require_a_descriptor() -> None:
    if _kernel().no_files_until > _kernel().now:
        raise OSError(errno.EMFILE, "Too many open files")


def create_server(_address: object, **_options: object) -> SimulatedServer:
    """See `socket.create_server`."""
    _require_a_descriptor()
    return SimulatedServer()


def listening(port: int) -> SimulatedServer:
    """Who listens there; ConnectionRefusedError where nobody does."""
    server = _listening.get(port)
    if server is None or server.owner.is_dead:
        raise ConnectionRefusedError(111, "Connection refused")
    return server


def create_connection(
    address: tuple[str, int],
    timeout: float | None = None,  # noqa: ARG001  # as socket's
) -> SimulatedSocket:
    """See `socket.create_connection`."""
    now = _kernel()
    now.require_alive()
    _require_a_descriptor()
    server = listening(address[1])
    here = now.here()
    assert here is not None
    ours, theirs = SimulatedSocket(here), SimulatedSocket(server.owner)
    ours.other, theirs.other = theirs, ours
    server.waiting.append(theirs)
    server.changed.give()
    now.turn()
    return ours
