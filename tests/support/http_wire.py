"""HTTP/1.1 as far as a proxy has to understand it: heads, and where a body ends."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final

_CHUNK: Final = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """First line and headers (names in lower case) of a request or response, and its bytes as they came."""

    first: tuple[str, str, str]
    headers: Mapping[str, str]
    raw: bytes

    def without(self, *names: str) -> bytes:
        """The head's bytes without these headers."""
        lines = self.raw.removesuffix(b"\r\n\r\n").split(b"\r\n")
        kept = [line for line in lines if line.split(b":")[0].strip().lower().decode("latin-1") not in names]
        return b"\r\n".join(kept) + b"\r\n\r\n"


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """The next head, or None when the connection ends before it does."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    lines = raw.decode("latin-1").split("\r\n")
    one, two, three = (*lines[0].split(" ", 2), "", "")[:3]
    headers = {
        name.strip().lower(): value.strip()
        for name, separator, value in (line.partition(":") for line in lines[1:])
        if separator
    }
    return Head(first=(one, two, three), headers=headers, raw=raw)


async def read_body(head: Head, reader: asyncio.StreamReader, *, until_close: bool) -> AsyncIterator[bytes]:
    """The body's bytes as they come, framing included; `until_close` says how one without a length ends."""
    if head.headers.get("transfer-encoding", "").lower() == "chunked":
        async for piece in _chunked(reader):
            yield piece
    elif "content-length" in head.headers:
        left = int(head.headers["content-length"])
        while left and (piece := await reader.read(min(left, _CHUNK))):
            left -= len(piece)
            yield piece
    elif until_close:
        while piece := await reader.read(_CHUNK):
            yield piece


async def _chunked(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size_line := await reader.readline():
        yield size_line
        size = int(size_line.split(b";")[0], 16)
        yield await reader.readexactly(size) if size else b""
        # After the last chunk come trailers, if any, and an empty line.
        line = await reader.readline()
        yield line
        if size == 0:
            while line not in {b"\r\n", b""}:
                line = await reader.readline()
                yield line
            return
