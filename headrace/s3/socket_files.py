"""A socket as a file: after bytes that were received before, and no longer than a reader may wait."""

import io
import socket
import time
from typing import Any


class TimelyFile(io.RawIOBase):
    """A socket, of which a read of many bytes ends early: with some of them once the time is over.

    A server that sends a byte now and then would keep a read from its end for ever. One that sends nothing is
    the socket's own limit to end. Without `makefile`, whose file is one more step for each read.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._receive_into = sock.recv_into
        self._until = float("inf")
        self._has_some = False

    def begin(self, seconds: float) -> None:
        """A read begins that may take so long, once something has come."""
        self._until, self._has_some = time.monotonic() + seconds, False

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        """What one read gives; None once the time is over, as after the socket's own limit. Blocks."""
        if self._has_some and time.monotonic() >= self._until:
            return None
        try:
            found = self._receive_into(buffer)
        except BlockingIOError:
            return None
        self._has_some = True
        return found


class BegunFile(TimelyFile):
    """A socket for the library, which reads what was received of it before."""

    def __init__(self, first: bytes, sock: socket.socket) -> None:
        super().__init__(sock)
        self._first = first

    def makefile(self, _mode: str) -> io.BufferedReader:
        """What the library reads."""
        return io.BufferedReader(self)

    def readinto(self, buffer: Any, /) -> int | None:
        """Fill as much of the buffer as one read gives, as `TimelyFile` does; blocks.

        The library takes None for the end: it is only given where some bytes were read before it.
        """
        if self._first:
            chunk = self._first[: len(buffer)]
            self._first = self._first[len(chunk) :]
            buffer[: len(chunk)] = chunk
            self._has_some = True
            return len(chunk)
        found = super().readinto(buffer)
        if found is None and not (self._has_some and time.monotonic() >= self._until):
            raise TimeoutError("timed out")
        return found
