"""A port before a broker of a test that holds requests of one kind, or everything, until it is opened.

    with gated_broker(own_broker) as gate:
        .. a client of gate.address, next to others of gate.broker.bootstrap
        gate.hold(END_TXN)
        until_sync(lambda: gate.held)
        gate.open()

A request that is held is on its way: its connection stays open, and what follows in it waits, too.
"""

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

from localstack.broker import Broker
from localstack.ports import HOST, free_port
from tests.support.kafka import BrokerFactory

TXN_OFFSET_COMMIT: Final = 28
"""The request that a transaction of Headrace begins with: the leader's group commit."""
END_TXN: Final = 26
"""The request that commits or aborts a transaction."""

_CHUNK: Final = 65536
_API_BYTES: Final = 2


class KafkaGate:
    """See the module. It runs in a thread of its own; all methods may be called from any other."""

    def __init__(self) -> None:
        self.address = f"{HOST}:{free_port()}"
        """What the broker tells clients of its gated listener, and where they start."""
        self.broker: Broker
        """The broker; its own `bootstrap` leads past the gate."""
        self._upstream = 0
        self._held_api: int | None = None
        self._counts: Counter[int] = Counter()
        self._loop = asyncio.new_event_loop()
        self._requests = asyncio.Event()
        self._all = asyncio.Event()
        self._tasks: set[asyncio.Task[Any] | None] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kafka-gate", daemon=True)

    def hold(self, api: int) -> None:
        """Requests of this kind wait from now on, until `open`."""
        self._counts.clear()
        self._held_api = api
        self._do(self._set(self._requests, is_open=False))

    def close(self) -> None:
        """Nothing passes from now on, in either direction; no connection is cut, and new ones begin."""
        self._do(self._set(self._all, is_open=False))

    def open(self) -> None:
        """Let everything pass, what was held first."""
        self._held_api = None
        self._do(self._set(self._requests, is_open=True))
        self._do(self._set(self._all, is_open=True))

    @property
    def held(self) -> int:
        """How many requests have been held since `hold`."""
        return self._counts.total()

    # The gate's own thread

    def start(self, upstream: int) -> None:
        """Listen, for a broker at this port."""
        self._upstream = upstream
        self._thread.start()
        self._do(self._listen())

    def stop(self) -> None:
        """Cut everything."""
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _set(self, event: asyncio.Event, *, is_open: bool) -> None:
        if is_open:
            event.set()
        else:
            event.clear()

    async def _listen(self) -> None:
        self._requests.set()
        self._all.set()
        self._server = await asyncio.start_server(self._serve, HOST, int(self.address.partition(":")[2]))

    async def _end(self) -> None:
        self._server.close()
        tasks = [task for task in self._tasks if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.current_task())
        ends = [writer]
        # The other side may be gone at any time: so is this one, then.
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await self._all.wait()
            up_reader, up_writer = await asyncio.open_connection(HOST, self._upstream)
            ends.append(up_writer)
            pumps = [
                asyncio.create_task(self._ask(reader, up_writer)),
                asyncio.create_task(self._answer(up_reader, writer)),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        for end in ends:
            end.close()
        self._tasks.discard(asyncio.current_task())

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            size = await reader.readexactly(4)
            request = await reader.readexactly(int.from_bytes(size))
            api = int.from_bytes(request[:_API_BYTES])
            if api == self._held_api:
                self._counts[api] += 1
                await self._requests.wait()
            await self._all.wait()
            writer.write(size + request)
            await writer.drain()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(_CHUNK):
            await self._all.wait()
            writer.write(chunk)
            await writer.drain()


@contextmanager
def gated_broker(own_broker: BrokerFactory) -> Iterator[KafkaGate]:
    """A new broker and the gate before its second listener."""
    gate, behind, port = KafkaGate(), free_port(), free_port()
    gate.start(behind)
    try:
        gate.broker = own_broker(
            port=port,
            listeners={f"GATED://{HOST}:{behind}": "PLAINTEXT"},
            properties={"advertised.listeners": f"PLAINTEXT://{HOST}:{port},GATED://{gate.address}"},
        )
        yield gate
    finally:
        gate.stop()
