"""Of Parquet's encodings as much as it takes to know how long values are before Arrow decodes them.

What is damaged is not found out here: Arrow reads the same bytes and says so.
https://github.com/apache/parquet-format/blob/master/Encodings.md
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.formats.parquet_chunk import Encoding, FoundPage, Kind
from headrace.formats.parquet_schema import Node
from headrace.formats.parquet_thrift import ThriftIncompleteError, ThriftReader

Lengths = npt.NDArray[np.int64]

_WIDTH_MAX: Final = 32
_BLOCK_MAX: Final = 1 << 20


def decompressed(content: bytes, codec: str, size: int) -> bytes:
    """What `content` holds, `size` bytes. ValueError when it cannot be decompressed here."""
    if codec == "none" or not size:
        return content
    if codec in ("", "lzo"):
        raise ValueError("an unknown codec")
    if codec == "lz4_hadoop":
        return _hadoop_blocks(content, size)
    try:
        return pa.decompress(content, size, codec="lz4_raw" if codec == "lz4" else codec, asbytes=True)  # type: ignore[no-any-return]  # pyarrow publishes no types of it
    except (pa.ArrowException, OSError) as error:
        raise ValueError(str(error)) from None


def _hadoop_blocks(content: bytes, size: int) -> bytes:
    """LZ4 as Hadoop frames it, sizes before each block; or one block without, as Arrow once wrote."""
    out = bytearray()
    at = 0
    try:
        while at < len(content):
            whole, packed = (int.from_bytes(content[at + step : at + step + 4], "big") for step in (0, 4))
            if len(out) + whole > size or at + 8 + packed > len(content):
                return pa.decompress(content, size, codec="lz4_raw", asbytes=True)  # type: ignore[no-any-return]  # pyarrow publishes no types of it
            out += pa.decompress(content[at + 8 : at + 8 + packed], whole, codec="lz4_raw", asbytes=True)
            at += 8 + packed
    except (pa.ArrowException, OSError) as error:
        raise ValueError(str(error)) from None
    return bytes(out)


class Hybrid:
    """Levels or dictionary indices, run-length encoded and bit-packed by turns; zeros after their end."""

    def __init__(self, data: bytes, width: int) -> None:
        self._reader = ThriftReader(data, bytes_max=len(data))
        self._data = data
        self._width = min(width, _WIDTH_MAX)
        self._repeated, self._value = 0, 0
        self._packed = 0  # groups of eight values of a packed run still to be unpacked
        self._rest: npt.NDArray[Any] = np.zeros(0, np.uint32)

    def read(self, count: int) -> npt.NDArray[np.uint32]:
        """The next values."""
        out = np.zeros(count, np.uint32)
        at = 0
        while at < count and self._width and self._filled(count - at):
            if len(self._rest):
                step = min(count - at, len(self._rest))
                out[at : at + step], self._rest = self._rest[:step], self._rest[step:]
            else:
                step = min(count - at, self._repeated)
                out[at : at + step] = self._value
                self._repeated -= step
            at += step
        return out

    def _filled(self, wanted: int) -> bool:
        """True when values are at hand; begins the next runs where one has ended."""
        if len(self._rest) or self._repeated:
            return True
        chunks: list[bytes] = []
        groups = 0
        # Writers end packed runs after some hundred values: as many as are wanted are unpacked together.
        while groups * 8 < wanted and (self._packed or self._begun()) and not self._repeated:
            step = min(self._packed, -(-wanted // 8) - groups)
            chunks.append(self._octets(step * self._width))
            self._packed -= step
            groups += step
        octets = b"".join(chunks)
        self._rest = unpacked(octets[: len(octets) // self._width * self._width], self._width)
        return bool(len(self._rest) or self._repeated)

    def _begun(self) -> bool:
        """Begin the next run that is not empty; False at the end."""
        while not self._repeated and not self._packed:
            try:
                head = self._reader.varint()
            except (ThriftIncompleteError, ValueError):
                return False
            if head & 1:
                self._packed = head >> 1
            else:
                octets = self._octets((self._width + 7) // 8)
                self._repeated, self._value = head >> 1, int.from_bytes(octets, "little") & 0xFFFFFFFF
        return True

    def _octets(self, count: int) -> bytes:
        at = self._reader.at
        self._reader.at = min(at + count, len(self._data))
        return self._data[at : at + count]


def unpacked(octets: bytes, width: int) -> npt.NDArray[Any]:
    """Numbers of `width` bits each, least significant bit first, as many as fill eight at a time."""
    if not width:
        return np.zeros(0, np.uint8)
    if width == 1:
        return np.unpackbits(np.frombuffer(octets, np.uint8), bitorder="little")
    groups = len(octets) // width
    padded = octets[: groups * width] + bytes(8)
    # The eight bytes from each byte on. Numbers at the same place of their groups are as many bytes apart as
    # they have bits.
    windows = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
    out = np.empty((groups, 8), np.uint32)
    for place in range(8):
        begin, shift = divmod(place * width, 8)
        out[:, place] = windows[begin : begin + groups * width : width] >> shift & (1 << width) - 1
    return out.ravel()


def plain_lengths(content: bytes, count: int) -> Lengths:
    """The lengths of texts that are one after another, each after its length."""
    lengths: list[int] = []
    at, end = 0, len(content)
    while at + 4 <= end and len(lengths) < count:
        length = int.from_bytes(content[at : at + 4], "little")
        lengths.append(length)
        at += 4 + length
    # What a damaged page claims goes no further than the page.
    return np.minimum(np.array(lengths, np.int64), end)


def delta_lengths(content: bytes, count: int) -> Lengths:
    """The lengths of DELTA_BYTE_ARRAY texts: of what each shares with the one before, and of what is its own.

    Fewer than `count` where the page is damaged, or more clever than lengths need it to be.
    """
    shared, at = _deltas(content, 0, count)
    own, _ = _deltas(content, at, count)
    whole = min(len(shared), len(own))
    lengths: Lengths = np.clip(shared[:whole] + own[:whole], 0, len(content))
    return lengths


def _deltas(content: bytes, at: int, count: int) -> tuple[Lengths, int]:
    """Numbers of DELTA_BINARY_PACKED at `at`, at most `count`, and where they end."""
    reader = ThriftReader(content, at, bytes_max=len(content))
    try:
        block, minis, total = reader.varint(), reader.varint(), min(reader.varint(), count)
        first = _unzigzagged(reader.varint())
        if not 0 < minis <= block <= _BLOCK_MAX or not total:
            return np.zeros(0, np.int64), reader.at
        chunks = [np.array([first], np.int64), *_blocks(reader, content, block // minis, minis, total - 1)]
    except (ThriftIncompleteError, ValueError, OverflowError):
        return np.zeros(0, np.int64), len(content)
    numbers: Lengths = np.cumsum(np.concatenate(chunks)[:total])
    return numbers, reader.at


def _blocks(reader: ThriftReader, content: bytes, each: int, minis: int, left: int) -> list[Lengths]:
    """The differences in the blocks that follow, `each` to a miniblock."""
    chunks: list[Lengths] = []
    while left > 0:
        least = _unzigzagged(reader.varint())
        widths = content[reader.at : reader.at + minis]
        if len(widths) < minis:
            raise ThriftIncompleteError
        reader.at += minis
        for width in widths:
            if left <= 0:
                break
            size = each * width // 8
            octets = content[reader.at : reader.at + size]
            reader.at += size
            if width > _WIDTH_MAX or len(octets) < size:
                raise ThriftIncompleteError
            steps = unpacked(octets, width).astype(np.int64) if width else np.zeros(each, np.int64)
            chunks.append(steps + least)
            left -= each
    return chunks


def _unzigzagged(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


# -- The elements of a page, block by block: where rows begin, and how long each text is ---------------------

_AT_ONCE: Final = 64 * 1024

# The lengths of the next values that are not null.
ReadLengths = Callable[[int], Lengths]


class PageElements:
    """Levels and values of a data page whose content was kept. ValueError when it cannot be decompressed."""

    def __init__(self, found: FoundPage, leaf: Node, codec: str) -> None:
        self._count = found.page.values
        self._leaf = leaf
        reps, defs, self.values = _sections(found, leaf, codec)
        self._reps = Hybrid(reps, leaf.max_rep.bit_length()) if leaf.max_rep else None
        self._defs = Hybrid(defs, leaf.max_def.bit_length()) if leaf.max_def else None

    def blocks(self, lengths: ReadLengths | None) -> Iterator[tuple[npt.NDArray[Any] | None, Lengths | int]]:
        """Of some elements at a time: repetition levels (None where each is a row), and lengths, 0 for nulls.

        Without `lengths` there is only the number of elements in place of them.
        """
        for at in range(0, self._count, _AT_ONCE):
            count = min(_AT_ONCE, self._count - at)
            reps = None if self._reps is None else self._reps.read(count)
            yield reps, count if lengths is None else self._block_lengths(count, lengths)

    def _block_lengths(self, count: int, lengths: ReadLengths) -> Lengths:
        if self._defs is None:
            return lengths(count)
        present = self._defs.read(count) == self._leaf.max_def
        out = np.zeros(count, np.int64)
        out[present] = lengths(int(present.sum()))
        return out


def index_lengths(values: bytes, entries: Lengths) -> ReadLengths:
    """Lengths of texts that are indices into a dictionary of these lengths."""
    indices = Hybrid(values[1:], values[0] if values else 0)
    return lambda count: entries[np.minimum(indices.read(count), len(entries) - 1)]


def shared_lengths(values: bytes, count: int) -> ReadLengths:
    """Lengths of texts that share their beginnings; where they are not known, as long as all of the page."""
    known = delta_lengths(values, count)
    at = 0

    def read(count: int) -> Lengths:
        nonlocal at
        chunk = known[at : at + count]
        at += count
        return np.pad(chunk, (0, count - len(chunk)), constant_values=len(values))

    return read


def _sections(found: FoundPage, leaf: Node, codec: str) -> tuple[bytes, bytes, bytes]:
    """Repetition levels, definition levels and values, each as they are encoded."""
    page, content = found
    if page.kind == Kind.DATA_V2:
        behind = page.rep_bytes + page.def_bytes
        values = content[behind:]
        if page.is_compressed and len(content) == page.compressed:
            values = decompressed(values, codec, max(0, page.uncompressed - behind))
        return content[: page.rep_bytes], content[page.rep_bytes : behind], values
    content = decompressed(content, codec, page.uncompressed)
    levels, at = [], 0
    for greatest, encoding in ((leaf.max_rep, page.rep_encoding), (leaf.max_def, page.def_encoding)):
        section = b""
        if greatest:
            if encoding != Encoding.RLE:
                raise ValueError("levels of an encoding that writers have given up")
            length = int.from_bytes(content[at : at + 4], "little")
            section = content[at + 4 : at + 4 + length]
            at += 4 + length
        levels.append(section)
    return levels[0], levels[1], content[at:]
