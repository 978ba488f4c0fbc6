"""The driver's server socket: each task that connects has a thread, and proves itself before it is heard."""

import contextlib
import socket
import threading
from collections.abc import Callable

import structlog

from spark.socket_protocol import AuthenticatedSocket, Disconnected, accept

log = structlog.get_logger(__name__)

Address = tuple[str, int]


class TaskListener:
    """Accepts tasks from when it is made until `close`.

    `token_of` gives the token of a start that is expected; `converse` runs in the connection's own thread,
    and the connection is closed when it returns or raises Disconnected.
    """

    def __init__(
        self,
        *,
        bind: str,
        advertise: str,
        token_of: Callable[[bytes], bytes | None],
        converse: Callable[[bytes, AuthenticatedSocket], None],
    ) -> None:
        self._token_of = token_of
        self._converse = converse
        family = socket.AF_INET6 if ":" in bind else socket.AF_INET
        self._server = socket.create_server((bind, 0), family=family, backlog=128)
        self.address: Address = (advertise, self._server.getsockname()[1])
        threading.Thread(target=self._accept, name="lanes-accept", daemon=True).start()

    def close(self) -> None:
        """Accept no more tasks; connections that stand are left to their owner."""
        # Wakes the accepting thread, which a close alone does not (and where it is refused, a close does).
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), name="lanes-task", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        wire: AuthenticatedSocket | None = None
        try:
            start_id, wire = accept(connection, self._token_of)
            self._converse(start_id, wire)
        except Disconnected as error:
            log.debug("task_disconnected", error=str(error))
        finally:
            if wire is not None:
                wire.close()
            connection.close()
