"""A relay in front of a broker that counts Kafka's requests by their kind.

Every request begins with its length and its API key (https://kafka.apache.org/protocol#protocol_messages), so
that what clients ask for can be counted without understanding it. The broker must advertise the relay's
address, or clients would go past it after their first question.
"""

import asyncio
import contextlib
import struct
import threading
from collections import Counter
from types import TracebackType
from typing import Final, Self

_CHUNK: Final = 65536
_HEAD: Final = struct.Struct(">ih")
_NAMES: Final = {
    0: "Produce",
    1: "Fetch",
    2: "ListOffsets",
    3: "Metadata",
    8: "OffsetCommit",
    9: "OffsetFetch",
    10: "FindCoordinator",
    11: "JoinGroup",
    12: "Heartbeat",
    14: "SyncGroup",
    15: "DescribeGroups",
    18: "ApiVersions",
    22: "InitProducerId",
    24: "AddPartitionsToTxn",
    25: "AddOffsetsToTxn",
    26: "EndTxn",
    28: "TxnOffsetCommit",
    32: "DescribeConfigs",
}


class KafkaRelay:
    """One listening port on loopback in front of `host:port`; counts in a thread of its own."""

    def __init__(self, upstream: str, *, port: int) -> None:
        host, _, number = upstream.rpartition(":")
        self._upstream = (host, int(number))
        self._port = port
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)

    @property
    def address(self) -> str:
        """`host:port` for clients."""
        return f"127.0.0.1:{self._port}"

    def counts(self) -> Counter[str]:
        """Requests so far, by kind."""
        with self._lock:
            return self._counts.copy()

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)

    async def _end(self) -> None:
        """Let go of the port and of every connection."""
        if self._server is not None:
            self._server.close()
        serving = asyncio.all_tasks() - {asyncio.current_task()}
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Cancelled at the end alone; asyncio's streams would report that as an error of this callback.
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            up_reader, up_writer = await asyncio.open_connection(*self._upstream)
            back = asyncio.create_task(_pump(up_reader, writer))
            try:
                await self._requests(reader, up_writer)
            finally:
                back.cancel()
                up_writer.close()
                writer.close()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readexactly(_HEAD.size)
            length, kind = _HEAD.unpack(head)
            with self._lock:
                self._counts[_NAMES.get(kind, f"API key {kind}")] += 1
            writer.write(head)
            left = length - (_HEAD.size - 4)
            while left:
                piece = await reader.read(min(left, _CHUNK))
                if not piece:
                    return
                left -= len(piece)
                writer.write(piece)
            await writer.drain()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(_CHUNK):
            writer.write(piece)
            await writer.drain()
