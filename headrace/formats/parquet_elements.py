"""The elements of a page, block by block: where rows begin, and how long each text is."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from headrace.formats.parquet_chunk import FoundPage
from headrace.formats.parquet_encodings import Hybrid, Lengths, decompressed, delta_lengths
from headrace.formats.parquet_pages import Encoding, Kind
from headrace.formats.parquet_schema import Node

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
        part = known[at : at + count]
        at += count
        return np.pad(part, (0, count - len(part)), constant_values=len(values))

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
