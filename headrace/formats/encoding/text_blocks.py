"""Text of an object, compressed block by block."""

from collections.abc import Callable
from functools import partial
from typing import Final

from headrace.formats.compression.blocks import XerialBlocks, compressed_block
from headrace.formats.content_digest import TextDigest
from headrace.names.archive_names import LayoutName
from headrace.options.choices import Compression
from headrace.options.sink_settings import OutputSettings

# Small enough for a thousand open objects to be spilled one by one, large enough to compress well.
BLOCK_BYTES: Final = 1024 * 1024


class TextBlocks:
    """Collects text and gives it compressed, block by block."""

    def __init__(self, output: OutputSettings) -> None:
        self._packed = _packer(output)
        self._digest = None if output.layout is LayoutName.HEADRACE else TextDigest()
        self._plain: list[bytes] = []
        self._plain_bytes = 0
        self._ready: list[bytes] = []
        self._ready_bytes = 0

    @property
    def buffered(self) -> int:
        """Bytes held."""
        return self._plain_bytes + self._ready_bytes

    @property
    def content(self) -> str:
        """The digest of the text; empty in our own layout, whose names no other sink gives."""
        return "" if self._digest is None else str(self._digest)

    def append(self, text: bytes) -> None:
        """Adds text at the end; what fills a block is compressed."""
        if self._digest is not None:
            self._digest.add(text)
        self._plain.append(text)
        self._plain_bytes += len(text)
        if self._plain_bytes >= BLOCK_BYTES:
            self._end_block()

    def drain(self, *, end_block: bool) -> bytes:
        """The blocks that are closed; with `end_block` the open one too."""
        if end_block:
            self._end_block()
        done = b"".join(self._ready)
        self._ready, self._ready_bytes = [], 0
        return done

    def _end_block(self) -> None:
        if self._plain_bytes:
            self._pack()

    def end_empty(self) -> None:
        """Make an object of no text one that decompresses to none."""
        self._pack()

    def _pack(self) -> None:
        block = self._packed(b"".join(self._plain))
        self._plain, self._plain_bytes = [], 0
        self._ready.append(block)
        self._ready_bytes += len(block)


def _packer(output: OutputSettings) -> Callable[[bytes], bytes]:
    """What compresses one block after the other. But for xerial's, every block stands for itself."""
    if output.layout is LayoutName.AIVEN and output.compression is Compression.SNAPPY:
        return XerialBlocks()
    return partial(compressed_block, output.compression, output.compression_level)
