"""Objects of text: JSON Lines, one JSON array, CSV, and values with a separator."""

from collections.abc import Callable
from typing import Final

from headrace.formats.converted_records import ConvertedRecords
from headrace.formats.encoding.row_texts import gathered
from headrace.formats.encoding.steps import steps
from headrace.formats.encoding.text_blocks import TextBlocks
from headrace.options.sink_settings import OutputSettings

RowsText = Callable[[ConvertedRecords], bytes]


class LineEncoder:
    """Rows, each with what ends it, behind an optional first line."""

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
    """One JSON array, an element a line. `rows` puts `ENDING` behind each."""

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
