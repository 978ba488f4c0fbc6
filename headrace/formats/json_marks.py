"""The marks of a JSON text that bound its values: brackets and commas outside of strings, and their depth."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np

from headrace.model.rows import Numbers

QUOTE, BACKSLASH, OPEN, CLOSE, COMMA = range(1, 6)
BLANKS: Final = b" \t\r\n"
_KINDS: Final = np.zeros(256, np.uint8)
for _octets, _kind in ((b'"', QUOTE), (b"\\", BACKSLASH), (b"[{", OPEN), (b"]}", CLOSE), (b",", COMMA)):
    _KINDS[list(_octets)] = _kind
_DELTAS: Final = np.array([0, 0, 0, 1, -1, 0], np.int64)
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(slots=True)
class Marks:
    """Where a scan is in a stream: how deep, and whether in a string, or right after a backslash there."""

    depth: int = 0
    in_string: bool = False
    is_escaped: bool = False

    def scan(self, chunk: bytes) -> tuple[Numbers, np.ndarray, Numbers]:
        """Places of the chunk's brackets and commas, the kind of each, and the depth after it."""
        octets = np.frombuffer(chunk, np.uint8)
        kinds = _KINDS[octets]
        at = np.flatnonzero(kinds)
        at, kinds = self._unescaped(at, kinds[at], len(chunk))
        quotes = kinds == QUOTE
        inside = (np.cumsum(quotes) + self.in_string) % 2 == 1
        self.in_string = bool(inside[-1]) if len(inside) else self.in_string
        outside = ~inside & ~quotes
        at, kinds = at[outside], kinds[outside]
        depths = self.depth + np.cumsum(_DELTAS[kinds])
        self.depth = int(depths[-1]) if len(depths) else self.depth
        return at, kinds, depths

    def _unescaped(self, at: Numbers, kinds: np.ndarray, length: int) -> tuple[Numbers, np.ndarray]:
        """What is neither a backslash nor after an odd number of them."""
        was_escaped, self.is_escaped = self.is_escaped, False
        slashes = kinds == BACKSLASH
        if was_escaped and len(at) and at[0] == 0:
            slashes[0] = False  # a backslash there is escaped itself, and so is a quote
        if not slashes.any():
            keep = (kinds != BACKSLASH) & ~((at == 0) & was_escaped)
            return at[keep], kinds[keep]
        places = at[slashes]
        begins = np.concatenate([[True], np.diff(places) != 1])
        runs = np.flatnonzero(begins)
        lengths = np.diff(np.append(runs, len(places)))
        behind = places[runs] + lengths
        escaped = behind[lengths % 2 == 1]
        self.is_escaped = bool(len(escaped)) and int(escaped[-1]) == length
        keep = (kinds != BACKSLASH) & ~np.isin(at, escaped, assume_unique=True) & ~((at == 0) & was_escaped)
        return at[keep], kinds[keep]


@dataclass(frozen=True, slots=True)
class Opening:
    """The first byte of a text after blanks and a byte order mark, where it is, and the text from it on."""

    first: bytes
    offset: int
    chunks: Iterator[bytes]


def opened(chunks: Iterator[bytes]) -> Opening:
    """The beginning of the text; blocks on its chunks. `first` is empty where nothing but blanks is in it."""
    offset, head = 0, b""
    for chunk in chunks:
        head += chunk
        if offset == 0 and len(head) < len(_BOM) and _BOM.startswith(head):
            continue
        text = (head.removeprefix(_BOM) if offset == 0 else head).lstrip(BLANKS)
        offset += len(head) - len(text)
        head = b""
        if text:
            return Opening(text[:1], offset, chain([text], chunks))
    return Opening(head[:1], offset, iter([head] if head else []))
