"""Objects of text: JSON Lines, one JSON array, CSV, and values with a separator.

Rows of JSON are put together column by column: Headrace's own envelope, or one field alone.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import arrow_binary
from headrace.formats.compression.plain import XerialBlocks, compressed_block
from headrace.formats.content_digest import TextDigest
from headrace.formats.converted_records import ConvertedColumn, ConvertedRecords, Form
from headrace.formats.encoding.encoder import (
    BlockEncoder,
    Blocks,
    Pieces,
    decimal_texts,
    digest_of,
    gathered,
    joined,
    lines_of,
    steps,
    text_of,
)
from headrace.formats.encoding.json_members import (
    NULL,
    copied,
    header_lists,
    quoted,
    text_member,
    value_member,
)
from headrace.model.columns import NO_TIMESTAMP, TIMESTAMP_APPENDED, KafkaRecords, Numbers
from headrace.names.archive_names import LayoutName
from headrace.options.choices import Compression
from headrace.options.sink_settings import OutputField, OutputSettings

# Which rows have a member: all, or those of a mask.
_Presence = npt.NDArray[np.bool_] | None
Member = tuple[_Presence, Pieces]

_APPENDED: Final = b'"timestamp_type":"append"'


class JsonRows:
    """Writes the rows of one object, each with `ending` after it."""

    def __init__(self, output: OutputSettings, ending: bytes) -> None:
        self._fields = frozenset(output.fields)
        self._bare = None if output.envelope else output.fields[0]
        self._ending = ending

    def text(self, records: ConvertedRecords) -> bytes:
        """The rows of these records, one after the other."""
        if self._bare is OutputField.VALUE and self._ending == b"\n" and records.value.form is Form.JSON:
            lines = lines_of(records.value.texts())
            if lines is not None:
                return lines
        return text_of(self.rows(records))

    def rows(self, records: ConvertedRecords) -> Any:
        """A binary array of the rows."""
        count = len(records)
        if self._bare is not None:
            pieces = [*bare_pieces(records, self._bare), self._ending]
        else:
            pieces = [b"{", *separated(self._members(records), count), b"}" + self._ending]
        return joined(pieces, count)

    def _members(self, records: ConvertedRecords) -> list[Member]:
        """The members in the order of the layout."""
        fields, kafka = self._fields, records.records
        members: list[Member] = []
        if OutputField.TOPIC in fields:
            members.append((None, [b'"topic":' + msgspec.json.encode(kafka.topic)]))
        if OutputField.PARTITION in fields:
            members.append((None, [b'"partition":%d' % kafka.partition]))
        if OutputField.OFFSET in fields:
            members.append((None, [b'"offset":', decimal_texts(kafka.offsets)]))
        if OutputField.TIMESTAMP in fields:
            members += _timestamps(kafka)
        if OutputField.KEY in fields:
            members.append((None, text_member(b"key", records.key)))
        if OutputField.VALUE in fields:
            members.append((None, value_member(b"value", records.value)))
        if OutputField.HEADERS in fields and kafka.headers is not None:
            present = np.fromiter(map(bool, kafka.headers), np.bool_, len(kafka))
            members.append((present, [b'"headers":', header_lists(list(kafka.headers))]))
        return members


def _timestamps(kafka: KafkaRecords) -> list[Member]:
    appended = kafka.timestamp_types == TIMESTAMP_APPENDED
    return [
        (kafka.timestamps_ms != NO_TIMESTAMP, [b'"timestamp":', decimal_texts(kafka.timestamps_ms)]),
        (appended, [_APPENDED]),
    ]


def separated(members: list[Member], count: int) -> Pieces:
    """The members with commas between those that are there in a row."""
    pieces: Pieces = []
    filled: npt.NDArray[np.bool_] = np.zeros(count, np.bool_)
    for presence, member in members:
        present = np.ones(count, np.bool_) if presence is None else presence
        if not present.any():
            continue
        comma = filled & present
        if present.all() and (comma.all() or not comma.any()):
            pieces += [b"," if comma.any() else b"", *member]
        else:
            commas = pc.if_else(pa.array(comma), pa.scalar(b",", pa.binary()), pa.scalar(b"", pa.binary()))
            whole = joined([commas, *member], count)
            pieces.append(pc.if_else(pa.array(present), whole, pa.scalar(b"", pa.binary())))
        filled = filled | present
    return pieces


def bare_pieces(records: ConvertedRecords, field: OutputField) -> Pieces:
    """One field of each record as JSON."""
    if field in {OutputField.KEY, OutputField.VALUE}:
        return bare_json(records.key if field is OutputField.KEY else records.value)
    kafka = records.records
    match field:
        case OutputField.TOPIC:
            return [msgspec.json.encode(kafka.topic)]
        case OutputField.PARTITION:
            return [b"%d" % kafka.partition]
        case OutputField.OFFSET:
            return [decimal_texts(kafka.offsets)]
        case OutputField.TIMESTAMP:
            return [_numbers_or_null(kafka.timestamps_ms)]
        case _:
            return [b"[]"] if kafka.headers is None else [header_lists(list(kafka.headers))]


def bare_json(column: ConvertedColumn) -> Pieces:
    """Each value as JSON: what is JSON is copied, bytes and text, which are UTF-8, are strings."""
    texts = column.texts()
    return [copied(texts)] if column.form in {Form.JSON, Form.TYPED} else quoted(texts)


def _numbers_or_null(numbers: Numbers) -> Any:
    texts = decimal_texts(numbers)
    return pc.if_else(pa.array(numbers != NO_TIMESTAMP), texts, pa.scalar(NULL, pa.binary()))


# -- Text of an object, compressed block by block ------------------------------------------------------------

# Small enough for a thousand open objects to be spilled one by one, large enough to compress well.
BLOCK_BYTES: Final = 1024 * 1024


class TextBlocks(Blocks):
    """Collects text and gives it compressed, block by block."""

    def __init__(self, output: OutputSettings) -> None:
        super().__init__(most=BLOCK_BYTES)
        self._packed = _packer(output)
        self._digest = digest_of(output, TextDigest)

    def append(self, text: bytes) -> None:
        """Adds text at the end; what fills a block is compressed."""
        if self._digest is not None:
            self._digest.add(text)
        self._add(text, len(text))

    def end_empty(self) -> None:
        """Make an object of no text one that decompresses to none."""
        self._end_block(b"")

    def _block(self, plain: bytes, _count: int) -> bytes:
        return self._packed(plain)


def _packer(output: OutputSettings) -> Callable[[bytes], bytes]:
    """What compresses one block after the other. But for xerial's, every block stands for itself."""
    if output.layout is LayoutName.AIVEN and output.compression is Compression.SNAPPY:
        return XerialBlocks()
    return partial(compressed_block, output.compression, output.compression_level)


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


class LineEncoder(BlockEncoder[TextBlocks]):
    """Rows, each with what ends it, after an optional first line."""

    def __init__(
        self, output: OutputSettings, rows: RowsText, *, head: bytes = b"", takes_texts: bool = False
    ) -> None:
        """With `takes_texts` the rows are those of objects of values, and may be written already."""
        super().__init__(TextBlocks(output))
        self._rows = rows
        self._takes_texts = takes_texts
        self._head = head

    def add(self, records: ConvertedRecords) -> None:
        """Appends the rows of records."""
        if self._takes_texts and records.texts is not None:
            self._blocks.append(gathered(records.texts))
            return
        for step in steps(records):
            self._blocks.append(self._take_head() + self._rows(step))

    def finish(self) -> bytes:
        """The rest of the object."""
        self._blocks.append(self._take_head())
        return super().finish()

    def _take_head(self) -> bytes:
        head, self._head = self._head, b""
        return head


# -- Objects of text whose rows are joined: nothing stands behind the last one -------------------------------

LINE_FEED: Final = b"\n"


class JoinedEncoder(BlockEncoder[TextBlocks]):
    """Rows between `head` and `tail`; `rows` puts `between` after each. `empty` is an object without rows."""

    def __init__(
        self,
        output: OutputSettings,
        rows: RowsText,
        *,
        head: bytes = b"",
        between: bytes,
        tail: bytes = b"",
        empty: bytes | None = None,
    ) -> None:
        super().__init__(TextBlocks(output))
        self._rows = rows
        self._before = head
        self._between = between
        self._tail = tail
        self._empty = tail if empty is None else empty
        self._has_rows = self._has_text = False

    def add(self, records: ConvertedRecords) -> None:
        """Appends the rows of records."""
        for step in steps(records):
            text = self._before + self._rows(step).removesuffix(self._between)
            self._before = self._between
            self._has_rows = True
            self._append(text)

    def finish(self) -> bytes:
        """The rest of the object, with its end."""
        self._append(self._tail if self._has_rows else self._empty)
        if not self._has_text:
            self._blocks.end_empty()
        return super().finish()

    def _append(self, text: bytes) -> None:
        self._has_text = self._has_text or bool(text)
        self._blocks.append(text)
