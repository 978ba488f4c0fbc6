"""A proxy that misbehaves on request, between a client under test and a real part.

    with Proxy("127.0.0.1:4566") as proxy:
        client = aws.s3(proxy.url)
        proxy.on(Answer(status=503), when=lambda request: request.method == "GET", times=2)
        ..
        proxy.off()

It runs in a thread of its own; all methods may be called from any other. With `is_http=False` bytes are
passed as they are, and Answer has no meaning.
"""

import asyncio
import contextlib
import functools
import socket
import struct
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from localstack.ports import free_port
from tests.support.http_wire import Head, read_body, read_head

_CHUNK: Final = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request as it came: `path` with its query, header names in lower case, `peer` the client's port."""

    method: str
    path: str
    headers: Mapping[str, str]
    peer: int = 0


@dataclass(frozen=True, slots=True)
class Refuse:
    """No connection is accepted (the port is closed), and those that exist are cut."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection is reset after so many bytes of the answer's body (0: instead of an answer)."""

    after_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Slow:
    """The answer begins late by `seconds`, and flows at `bytes_per_second` if given; requests likewise."""

    seconds: float = 0.0
    bytes_per_second: int | None = None
    request_bytes_per_second: int | None = None


@dataclass(frozen=True, slots=True)
class Silent:
    """The request is swallowed: no answer ever, the connection stays open."""


@dataclass(frozen=True, slots=True)
class Answer:
    """This answer instead of the real part's, which does not see the request."""

    status: int = 500
    body: bytes = b"<Error><Code>InternalError</Code><Message>as told by the test</Message></Error>"
    content_type: str = "application/xml"
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Truncate:
    """The body ends after so many bytes, and the connection with it, whatever Content-Length said."""

    after_bytes: int


@dataclass(frozen=True, slots=True)
class Without:
    """The real part gets the request without this header, as if it did not know it; `name` in lower case."""

    name: str


Fault = Refuse | Cut | Slow | Silent | Answer | Truncate | Without


def _any(_request: Request) -> bool:
    return True


@dataclass(slots=True)
class _Rule:
    fault: Fault
    when: Callable[[Request], bool]
    times: int | None


class Proxy:
    """One listening port on loopback in front of `upstream` (`host:port`)."""

    def __init__(self, upstream: str, *, is_http: bool = True) -> None:
        host, _, port = upstream.removeprefix("http://").rpartition(":")
        self._upstream = (host, int(port))
        self._is_http = is_http
        self._lock = threading.Lock()
        self._rules: list[_Rule] = []
        self._requests: list[Request] = []
        self._answers: list[tuple[Request, int]] = []
        self._open: set[asyncio.StreamWriter] = set()
        # The loop holds no task that waits for nothing (Silent): it would be collected, sockets and all.
        self._serving: set[asyncio.Task[Any] | None] = set()
        self._server: asyncio.Server | None = None
        # Not one that a client could get while connections are refused.
        self._port = free_port()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._listen())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def address(self) -> str:
        """`127.0.0.1:port`."""
        return f"127.0.0.1:{self._port}"

    @property
    def url(self) -> str:
        """`http://127.0.0.1:port`."""
        return f"http://{self.address}"

    @property
    def requests(self) -> tuple[Request, ...]:
        """Every request that came, in order, those with a fault too (none without HTTP)."""
        with self._lock:
            return tuple(self._requests)

    @property
    def answers(self) -> tuple[tuple[Request, int], ...]:
        """What the real part answered, in order, with the request: also where the client did not get it."""
        with self._lock:
            return tuple(self._answers)

    def on(self, fault: Fault, *, when: Callable[[Request], bool] = _any, times: int | None = None) -> None:
        """Do this to requests for which `when` is true, so many `times` (None: until `off`).

        The first rule that fits counts. Without HTTP a rule is for connections, and `when` has no part in it.
        Refuse is for everything and at once.
        """
        with self._lock:
            self._rules.append(_Rule(fault, when, times))
        if isinstance(fault, Refuse):
            self._do(self._close())

    def off(self) -> None:
        """Behave again. Connections that are silent or slow stay so."""
        with self._lock:
            self._rules.clear()
        self._do(self._listen())

    def cut(self) -> None:
        """Reset all connections that are open now."""
        self._do(self._reset_all())

    # The proxy's own thread

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _listen(self) -> None:
        if self._server is None:
            serve = self._serve_http if self._is_http else self._serve_bytes
            self._server = await asyncio.start_server(serve, "127.0.0.1", self._port, limit=1 << 20)

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        await self._reset_all()

    async def _reset_all(self) -> None:
        for writer in tuple(self._open):
            _reset(writer)

    async def _end(self) -> None:
        await self._close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.01)  # transports close in the loop's next turns

    def _fault(self, request: Request) -> Fault | None:
        with self._lock:
            self._requests.append(request)
            for rule in self._rules:
                if rule.times != 0 and rule.when(request):
                    if rule.times is not None:
                        rule.times -= 1
                    return rule.fault
        return None

    async def _serve_bytes(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with self._pair(writer) as (up_reader, up_writer):
            fault = self._fault(Request(method="", path="", headers={}))
            there = asyncio.create_task(_pump(reader, up_writer))
            try:
                await _deliver(_pieces(up_reader), writer, fault)
            finally:
                there.cancel()

    async def _serve_http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with self._pair(writer) as (up_reader, up_writer):
            while (head := await _next_head(reader, up_reader)) is not None:
                peer: int = writer.get_extra_info("peername")[1]
                request = Request(method=head.first[0], path=head.first[1], headers=head.headers, peer=peer)
                fault = self._fault(request)
                if head.headers.get("expect", "").lower() == "100-continue":
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                body = read_body(head, reader, until_close=False)
                if isinstance(fault, Answer | Silent):
                    async for _ in body:
                        pass
                    await _answer(writer, fault, method=head.first[0])
                    continue
                dropped = [fault.name] if isinstance(fault, Without) else []
                up_writer.write(head.without("expect", *dropped))
                async for piece in body:
                    up_writer.write(piece)
                    await up_writer.drain()
                    if isinstance(fault, Slow) and fault.request_bytes_per_second is not None:
                        await asyncio.sleep(len(piece) / fault.request_bytes_per_second)
                answered = functools.partial(self._answered, request)
                if not await _relay(head, up_reader, reader, writer, fault, answered):
                    return

    def _answered(self, request: Request, status: int) -> None:
        with self._lock:
            self._answers.append((request, status))

    @contextlib.asynccontextmanager
    async def _pair(
        self, writer: asyncio.StreamWriter
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection of our own to the real part, for one that came; both are closed in the end."""
        self._open.add(writer)
        self._serving.add(asyncio.current_task())
        up_writer: asyncio.StreamWriter | None = None
        try:
            up_reader, up_writer = await asyncio.open_connection(*self._upstream, limit=1 << 20)
            yield up_reader, up_writer
        except (OSError, asyncio.IncompleteReadError):
            _reset(writer)  # either side is gone: so is the other
        except asyncio.CancelledError:
            _reset(writer)  # the proxy ends; asyncio's streams would log a cancelled task as an error
        finally:
            self._open.discard(writer)
            self._serving.discard(asyncio.current_task())
            writer.close()
            if up_writer is not None:
                up_writer.close()


async def _next_head(client: asyncio.StreamReader, upstream: asyncio.StreamReader) -> Head | None:
    """The client's next request; None once either side has closed the idle connection.

    Whoever closed it when a request is under way already resets it; one that is closed in silence would
    swallow the client's next request, which counts as a try of its own then.
    """
    asked = asyncio.create_task(read_head(client))
    closed = asyncio.create_task(upstream.read(1))  # between answers nothing comes but the end
    try:
        await asyncio.wait({asked, closed}, return_when=asyncio.FIRST_COMPLETED)
        return await asked if asked.done() else None
    finally:
        for waiting in (asked, closed):
            waiting.cancel()
        await asyncio.gather(asked, closed, return_exceptions=True)


async def _answer(writer: asyncio.StreamWriter, fault: Answer | Silent, *, method: str) -> None:
    if isinstance(fault, Silent):
        await asyncio.Event().wait()  # until the proxy ends
        return
    head = f"HTTP/1.1 {fault.status} As told\r\nContent-Type: {fault.content_type}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in fault.headers)
    body = b"" if method == "HEAD" else fault.body
    writer.write(f"{head}Content-Length: {len(fault.body)}\r\n\r\n".encode() + body)
    await writer.drain()


async def _relay(
    request: Head,
    reader: asyncio.StreamReader,
    client: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    fault: Fault | None,
    answered: Callable[[int], None],
) -> bool:
    """Hand the real part's answer on, damaged as wanted; whether the connections can be used again."""
    answer = asyncio.create_task(_final_head(reader))
    while not answer.done():
        await asyncio.wait({answer}, timeout=0.02)
        if client.at_eof() or writer.is_closing():
            # A client that gives up is seen to do so by the real part: an abandoned long poll takes messages.
            answer.cancel()
            return False
    head = answer.result()
    if head is None:
        _reset(writer)
        return False
    answered(int(head.first[1]))
    if isinstance(fault, Slow):
        await asyncio.sleep(fault.seconds)
    if not (isinstance(fault, Cut) and fault.after_bytes == 0):
        writer.write(head.raw)
    if request.first[0] == "HEAD" or head.first[1] in {"204", "304"}:
        pieces = _nothing()
    else:
        pieces = read_body(head, reader, until_close=True)
    await _deliver(pieces, writer, fault)
    is_open_ended = "content-length" not in head.headers and "transfer-encoding" not in head.headers
    has_ended = isinstance(fault, Cut | Truncate) or head.headers.get("connection", "").lower() == "close"
    return not has_ended and (
        not is_open_ended or request.first[0] == "HEAD" or head.first[1] in {"204", "304"}
    )


async def _final_head(reader: asyncio.StreamReader) -> Head | None:
    head = await read_head(reader)
    while head is not None and head.first[1] == "100":
        head = await read_head(reader)
    return head


async def _deliver(pieces: AsyncIterator[bytes], writer: asyncio.StreamWriter, fault: Fault | None) -> None:
    """Write the pieces with the fault's damage: a cut ends in a reset, a truncated body in a proper close."""
    match fault:
        case Silent():
            await asyncio.Event().wait()
        case Cut(after_bytes=limit) | Truncate(after_bytes=limit):
            async for piece in pieces:
                writer.write(piece[:limit])
                limit -= len(piece)
                if limit <= 0:
                    break
            await writer.drain()
            if isinstance(fault, Cut):
                _reset(writer)
        case Slow(bytes_per_second=int(rate)):
            async for piece in pieces:
                step = max(1, rate // 20)
                for index in range(0, len(piece), step):
                    writer.write(piece[index : index + step])
                    await writer.drain()
                    await asyncio.sleep(step / rate)
        case _:
            async for piece in pieces:
                writer.write(piece)
                await writer.drain()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        async for piece in _pieces(reader):
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


async def _pieces(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while piece := await reader.read(_CHUNK):
        yield piece


async def _nothing() -> AsyncIterator[bytes]:
    nothing: tuple[bytes, ...] = ()
    for piece in nothing:
        yield piece


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection with RST, as a machine that died or a firewall would."""
    found = writer.get_extra_info("socket")
    if found is not None and found.fileno() >= 0:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
