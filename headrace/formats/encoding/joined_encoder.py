"""Objects of text whose rows are joined: nothing stands behind the last one."""

from typing import Final

from headrace.formats.converted_records import ConvertedRecords
from headrace.formats.encoding.steps import steps
from headrace.formats.encoding.text_blocks import TextBlocks
from headrace.formats.encoding.text_encoder import RowsText
from headrace.options.sink_settings import OutputSettings

LINE_FEED: Final = b"\n"


class JoinedEncoder:
    """Rows between `head` and `tail`; `rows` puts `between` behind each."""

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
