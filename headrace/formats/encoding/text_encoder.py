"""Objects of text: JSON Lines, one JSON array, CSV, and values with a separator."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from headrace.formats.arrow import arrow_binary
from headrace.formats.compression.plain import XerialBlocks, compressed_block
from headrace.formats.content_digest import TextDigest
from headrace.formats.converted_records import ConvertedRecords
from headrace.formats.encoding.json_rows import bare_pieces
from headrace.formats.encoding.row_texts import gathered, joined, text_of
from headrace.names.archive_names import LayoutName
from headrace.options.choices import Compression
from headrace.options.sink_settings import OutputField, OutputSettings

# -- Records in parts of a bounded size ----------------------------------------------------------------------

# Arrow counts the bytes of a column in 32 bits, and base64 and escapes add to them.
_STEP_BYTES: Final = 128 * 1024 * 1024


def steps(records: ConvertedRecords) -> Iterator[ConvertedRecords]:
    """The records in parts that are not too large for one column; a large record is a part of its own."""
    if len(records) <= 1 or records.records.payload_bytes() <= _STEP_BYTES:
        if len(records):
            yield records
        return
    middle = len(records) // 2
    yield from steps(records.slice(0, middle))
    yield from steps(records.slice(middle, len(records)))


# -- Objects of text: JSON Lines, one JSON array, CSV, and values with a separator ---------------------------

# -- Text of an object, compressed block by block ------------------------------------------------------------

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


# -- Objects of text: JSON Lines, one JSON array, CSV, and values with a separator ---------------------------

# -- One field of each record as it is, with a separator behind it: `output.format` bytes and text -----------


class SeparatedRows:
    """Writes keys or values byte for byte, other fields as their text."""

    def __init__(self, output: OutputSettings) -> None:
        self._field = output.fields[0]
        self._separator = output.separator

    def text(self, records: ConvertedRecords) -> bytes:
        """The rows of these records, one after the other."""
        return text_of(self.rows(records))

    def rows(self, records: ConvertedRecords) -> Any:
        """A binary array of the rows."""
        match self._field:
            case OutputField.KEY:
                pieces = [arrow_binary(records.key.texts())]
            case OutputField.VALUE:
                pieces = [arrow_binary(records.value.texts())]
            case OutputField.TOPIC:
                pieces = [records.records.topic.encode()]
            case field:
                pieces = bare_pieces(records, field)
        return joined([*pieces, self._separator], len(records))


# -- Objects of text: JSON Lines, one JSON array, CSV, and values with a separator ---------------------------

RowsText = Callable[[ConvertedRecords], bytes]


class LineEncoder:
    """Rows, each with what ends it, after an optional first line."""

    def __init__(
        self, output: OutputSettings, rows: RowsText, *, head: bytes = b"", takes_texts: bool = False
    ) -> None:
        """With `takes_texts` the rows are those of objects of values, and may be written already."""
        self._rows = rows
        self._takes_texts = takes_texts
        self._head = head
        self._blocks = TextBlocks(output)

    @property
    def buffered(self) -> int:
        """Bytes held in memory."""
        return self._blocks.buffered

    def add(self, records: ConvertedRecords) -> None:
        """Appends the rows of records."""
        if self._takes_texts and records.texts is not None:
            self._blocks.append(gathered(records.texts))
            return
        for part in steps(records):
            self._blocks.append(self._take_head() + self._rows(part))

    def drain(self, *, end_block: bool = False) -> bytes:
        """The compressed blocks that are closed."""
        return self._blocks.drain(end_block=end_block)

    @property
    def content(self) -> str:
        """The digest of what the object says."""
        return self._blocks.content

    def finish(self) -> bytes:
        """The rest of the object."""
        if self._head:
            self._blocks.append(self._take_head())
        return self._blocks.drain(end_block=True)

    def _take_head(self) -> bytes:
        head, self._head = self._head, b""
        return head


class ArrayEncoder:
    """One JSON array, an element a line. `rows` puts `ENDING` after each."""

    ENDING: Final = b",\n"

    def __init__(self, output: OutputSettings, rows: RowsText) -> None:
        self._rows = rows
        self._before = b"[\n"
        self._blocks = TextBlocks(output)

    @property
    def buffered(self) -> int:
        """Bytes held in memory."""
        return self._blocks.buffered

    def add(self, records: ConvertedRecords) -> None:
        """Appends the elements of records."""
        for part in steps(records):
            self._blocks.append(self._before + self._rows(part).removesuffix(self.ENDING))
            self._before = self.ENDING

    def drain(self, *, end_block: bool = False) -> bytes:
        """The compressed blocks that are closed."""
        return self._blocks.drain(end_block=end_block)

    @property
    def content(self) -> str:
        """The digest of what the object says."""
        return self._blocks.content

    def finish(self) -> bytes:
        """The rest of the object, with the array's end."""
        self._blocks.append(b"\n]\n" if self._before == self.ENDING else b"[]\n")
        return self._blocks.drain(end_block=True)


# -- Objects of text whose rows are joined: nothing stands behind the last one -------------------------------

LINE_FEED: Final = b"\n"


class JoinedEncoder:
    """Rows between `head` and `tail`; `rows` puts `between` after each."""

    def __init__(
        self, output: OutputSettings, rows: RowsText, *, head: bytes = b"", between: bytes, tail: bytes = b""
    ) -> None:
        self._rows = rows
        self._before = head
        self._between = between
        self._tail = tail
        self._blocks = TextBlocks(output)
        self._is_empty = True

    @property
    def buffered(self) -> int:
        """Bytes held in memory."""
        return self._blocks.buffered

    def add(self, records: ConvertedRecords) -> None:
        """Appends the rows of records."""
        for part in steps(records):
            text = self._before + self._rows(part).removesuffix(self._between)
            self._before = self._between
            self._append(text)

    def drain(self, *, end_block: bool = False) -> bytes:
        """The compressed blocks that are closed."""
        return self._blocks.drain(end_block=end_block)

    @property
    def content(self) -> str:
        """The digest of what the object says."""
        return self._blocks.content

    def finish(self) -> bytes:
        """The rest of the object, with its end."""
        self._append(self._tail)
        if self._is_empty:
            self._blocks.end_empty()
        return self._blocks.drain(end_block=True)

    def _append(self, text: bytes) -> None:
        self._is_empty = self._is_empty and not text
        self._blocks.append(text)
