"""Text of an object, compressed block by block."""

from typing import Final

from ingest.settings.sink_settings import OutputSettings
from spark.compression.blocks import compressed_block

# Small enough for a thousand open objects to be spilled one by one, large enough to compress well.
BLOCK_BYTES: Final = 1024 * 1024


class TextBlocks:
    """Collects text and gives it compressed; every block stands for itself, so none needs a state."""

    def __init__(self, output: OutputSettings) -> None:
        self._compression = output.compression
        self._level = output.compression_level
        self._plain: list[bytes] = []
        self._plain_bytes = 0
        self._ready: list[bytes] = []
        self._ready_bytes = 0

    @property
    def buffered(self) -> int:
        """Bytes held."""
        return self._plain_bytes + self._ready_bytes

    def append(self, text: bytes) -> None:
        """Adds text at the end; what fills a block is compressed."""
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
        if not self._plain_bytes:
            return
        block = compressed_block(self._compression, self._level, b"".join(self._plain))
        self._plain, self._plain_bytes = [], 0
        self._ready.append(block)
        self._ready_bytes += len(block)
