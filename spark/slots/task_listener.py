"""The driver's server socket: each task that connects has a thread, and proves itself before it is heard."""

import contextlib
import errno
import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

import structlog

from headrace.process.threads import start_thread
from spark.socket_protocol import AuthenticatedSocket, Disconnected, accept

log = structlog.get_logger(__name__)

Address = tuple[str, int]

# A client that went away before it was accepted, and shortages that end.
_PASSING: Final = frozenset({errno.ECONNABORTED, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PAUSE_SECONDS: Final = 0.5


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
        self._closed = threading.Event()
        family = socket.AF_INET6 if ":" in bind else socket.AF_INET
        self._server = socket.create_server((bind, 0), family=family, backlog=128)
        self.address: Address = (advertise, self._server.getsockname()[1])
        start_thread(self._accept, name="slots-accept")

    def close(self) -> None:
        """Accept no more tasks; open connections are left to their owner."""
        self._closed.set()
        # Wakes the accepting thread, which a close alone does not (and where it is refused, a close does).
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError as error:
                if self._closed.is_set():
                    return
                if error.errno not in _PASSING:
                    raise
                log.warning("task_not_accepted", error=str(error), detail="it is tried again")
                self._closed.wait(_PAUSE_SECONDS)
                continue
            start_thread(partial(self._serve, connection), name="slots-task")

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
