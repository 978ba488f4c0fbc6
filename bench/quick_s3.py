"""Uploads while 1 GiB is read, with S3's own time taken out of it: `python -m bench.quick_s3`.

LocalStack is one Python process: while it serves a large object, small ones wait for it. Here another process
answers GETs of the large object from a file, by the kernel's sendfile, and passes everything else on to
LocalStack, so that what is left of the delay is ours, the broker's, and LocalStack's for one small object.
It is a stand-in for this measurement alone: it looks at no signature, and knows no error.

Prints p50, p99 and worst of uploads while the object is read, through the stand-in and without it in turn.
"""

import argparse
import asyncio
import multiprocessing
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from bench.delays import LARGE_PART_ROWS, LARGE_PARTS, Delays, uploading
from bench.lines import lines
from bench.stage import stage

_LARGE: Final = re.compile(r"GET /[^ ]*/large-\d+[ ?]")
_RANGE: Final = re.compile(r"bytes=(\d+)-(\d*)")
_BODILESS: Final = frozenset({b"204", b"304"})
_PIECE: Final = 65_536


class _Head:
    """The first line and the headers of a request or an answer."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        first, *others = raw.decode("latin-1").split("\r\n")
        self.first = first
        pairs = (line.partition(":") for line in others if line)
        self.fields = {name.lower(): value.strip() for name, _, value in pairs}

    @property
    def length(self) -> int:
        return int(self.fields.get("content-length", "0"))


async def _head(reader: asyncio.StreamReader) -> _Head | None:
    try:
        return _Head(await reader.readuntil(b"\r\n\r\n"))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


async def _passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: int) -> None:
    while count:
        piece = await reader.read(min(count, _PIECE))
        if not piece:
            raise ConnectionError("the other side has ended")
        writer.write(piece)
        await writer.drain()
        count -= len(piece)


async def _passed_chunks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        line = await reader.readuntil(b"\r\n")
        writer.write(line)
        size = int(line.split(b";")[0], 16)
        await _passed(reader, writer, size + len(b"\r\n"))
        if not size:
            return


class _StandIn:
    """Answers from `file`, or by the S3 at `host` and `port`."""

    def __init__(self, file: Path, host: str, port: int) -> None:
        self._file = file
        self._host, self._port = host, port

    async def serve(self, listening: socket.socket) -> None:
        server = await asyncio.start_server(self._connection, sock=listening, limit=1 << 20)
        async with server:
            await server.serve_forever()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection(self._host, self._port, limit=1 << 20)
        try:
            while (asked := await _head(reader)) is not None:
                if _LARGE.match(asked.first):
                    await self._large(asked, writer)
                else:
                    await self._other(asked, reader, writer, *there)
        except ConnectionError:
            return
        finally:
            writer.close()
            there[1].close()

    async def _large(self, asked: _Head, writer: asyncio.StreamWriter) -> None:
        size = self._file.stat().st_size
        span = _RANGE.match(asked.fields.get("range", ""))
        begin = int(span[1]) if span else 0
        end = int(span[2]) + 1 if span and span[2] else size
        answer = [
            "HTTP/1.1 206 Partial Content" if span else "HTTP/1.1 200 OK",
            # What is asked for is what is there: the object never changes.
            f"ETag: {asked.fields.get('if-match', '')}",
            f"Content-Length: {end - begin}",
            "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT",
            "Accept-Ranges: bytes",
            *([f"Content-Range: bytes {begin}-{end - 1}/{size}"] if span else []),
        ]
        writer.write("\r\n".join([*answer, "", ""]).encode())
        await writer.drain()
        with self._file.open("rb") as file:
            await asyncio.get_running_loop().sendfile(writer.transport, file, begin, end - begin)

    async def _other(
        self,
        asked: _Head,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answers: asyncio.StreamReader,
        there: asyncio.StreamWriter,
    ) -> None:
        if "expect" in asked.fields:
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        there.write(re.sub(rb"(?im)^expect:[^\r]*\r\n", b"", asked.raw))
        await _passed(reader, there, asked.length)
        answer = await _head(answers)
        if answer is None:
            raise ConnectionError("S3 has ended")
        writer.write(answer.raw)
        if asked.first.startswith("HEAD ") or answer.first.encode().split()[1] in _BODILESS:
            await writer.drain()
        elif "chunked" in answer.fields.get("transfer-encoding", ""):
            await _passed_chunks(answers, writer)
        else:
            await _passed(answers, writer, answer.length)


def _run(file: Path, listening: socket.socket, host: str, port: int) -> None:
    asyncio.run(_StandIn(file, host, port).serve(listening))


@contextmanager
def stand_in(folder: Path, endpoint: str) -> Iterator[str]:
    """The endpoint of a stand-in before this one; its large object is that of `bench.delays`."""
    file = folder / "large"
    with file.open("wb") as writing:
        for part in range(LARGE_PARTS):
            writing.write(lines(part * LARGE_PART_ROWS, LARGE_PART_ROWS))
    listening = socket.create_server(("127.0.0.1", 0))
    before = urlsplit(endpoint)
    target = (file, listening, before.hostname, before.port)
    process = multiprocessing.get_context("fork").Process(target=_run, args=target, daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        process.kill()
        process.join()
        listening.close()


def main() -> None:
    """Measure in turn, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only-stand-in", action="store_true", help="leave out the same by LocalStack alone")
    asked = parser.parse_args()
    found: dict[str, list[float]] = {"stand-in": [], "LocalStack": []}
    with stage("quick-s3") as on_stage, stand_in(on_stage.folder, on_stage.endpoint) as quick:
        for name, endpoint in (("stand-in", quick), ("LocalStack", on_stage.endpoint)):
            if asked.only_stand_in and name != "stand-in":
                continue
            with uploading(on_stage, endpoint=endpoint) as service:
                for _ in range(asked.rounds):
                    found[name] += service.beside_large().ms
    for name, ms in found.items():
        if ms:
            delays = Delays(ms=sorted(ms))
            worst = ", ".join(f"{each:.0f}" for each in delays.ms[-5:])
            print(f"{name:12} {len(ms)} uploads: p50 {delays.p50:.0f} ms, p99 {delays.p99:.0f} ms")
            print(f"{'longest':>12} {worst}")


if __name__ == "__main__":
    main()
