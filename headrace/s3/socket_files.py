"""A socket as a file: after bytes that were received before, and no longer than a reader may wait."""

import io
import socket
import time
from typing import Any


class BegunFile(io.RawIOBase):
    """A socket for the library, which reads what was received of it before."""

    def __init__(self, first: bytes, sock: socket.socket) -> None:
        self._first = first
        self._rest = sock.makefile("rb", buffering=0)

    def makefile(self, _mode: str) -> io.BufferedReader:
        """What the library reads."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        """Fill as much of the buffer as one read gives; blocks."""
        if self._first:
            chunk = self._first[: len(buffer)]
            self._first = self._first[len(chunk) :]
            buffer[: len(chunk)] = chunk
            return len(chunk)
        found = self._rest.readinto(buffer)
        if found is None:
            raise TimeoutError("timed out")
        return found

    def close(self) -> None:
        """The connection's own is left open."""
        self._rest.close()
        super().close()


class TimelyFile(io.RawIOBase):
    """A socket, of which a read of many bytes ends early: with some of them once the time is over.

    A server that sends a byte now and then would keep a read from its end for ever. One that sends nothing is
    the socket's own limit to end.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._raw = sock.makefile("rb", buffering=0)
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
        found = self._raw.readinto(buffer)
        self._has_some = self._has_some or bool(found)
        return found

    def close(self) -> None:
        """The connection's own is left open."""
        self._raw.close()
        super().close()
