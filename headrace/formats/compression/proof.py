"""Plain bytes are held until the checksum of their block or frame has been met.

A decoder gives out what it has made before it comes to the checksum behind it. A row behind a flipped bit
would be produced as good. So what a decoder makes of a block is held here, in bounded memory, until the
decoder asks for bytes behind the block: then it has compared the checksum.
"""

from collections.abc import Callable, Iterator
from typing import Final

from headrace.formats.compression.peekable_stream import PeekableStream

# A block of more plain bytes than this goes on without proof, as all blocks without checksums do.
HOLD_BYTES: Final = 16 * 1024 * 1024


class Proof:
    """What of the plain bytes may be given out; the walker of a format says where its blocks end."""

    def __init__(self, stream: PeekableStream) -> None:
        self._stream = stream
        self._held: list[bytes] = []
        self._size = 0
        self._proven = 0  # chunks at the front of those held
        self._before_tear = 0
        self._is_torn = False
        self._holds = True
        self.made = 0

    def read(self, size: int) -> bytes:
        """A chunk of the stream, for the decoder; what it makes of one that is torn does not count."""
        if not self._is_torn:
            self._before_tear = len(self._held)
        data = self._stream.read(size)
        self._is_torn = self._is_torn or len(data) < size
        return data

    def begin(self, *, checked: bool) -> None:
        """A block begins that has a checksum, or none."""
        self._holds = checked

    def proven(self) -> None:
        """Everything made so far has been compared with its checksum."""
        if not self._is_torn:
            self._proven = len(self._held)
            self._holds = True

    def add(self, plain: bytes) -> Iterator[bytes]:
        """Hold what was made, and give out what needs no holding any more."""
        self.made += len(plain)
        yield from self._release(self._proven)
        self._held.append(plain)
        self._size += len(plain)
        if self._size > HOLD_BYTES:
            self._holds = False
        if not self._holds:
            yield from self.rest()

    def rest(self) -> Iterator[bytes]:
        """Give out all that is held."""
        yield from self._release(len(self._held))

    def before_damage(self, *, is_torn: bool) -> Iterator[bytes]:
        """Give out what is proven, and of a torn stream what was made of the chunks before the last one."""
        yield from self._release(max(self._proven, self._before_tear if is_torn else 0))

    def _release(self, count: int) -> Iterator[bytes]:
        if not count:
            return
        ready, self._held = self._held[:count], self._held[count:]
        self._size -= sum(map(len, ready))
        self._proven = 0
        self._before_tear = max(0, self._before_tear - count)
        yield from ready


Decode = Callable[[Iterator[bytes]], Iterator[bytes]]
# The stored bytes as they are, in chunks that end where a block does; `Proof` is called after each.
Walk = Callable[[PeekableStream, Proof], Iterator[bytes]]


def proven(decode: Decode, walk: Walk, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """What `decode` makes of the chunks, each block once it is proven.

    Damage drops the block that it is in. A stream that is torn (EOFError) gives out the last block's
    beginning: nothing speaks against it, and no more will ever be known of it.
    """
    stream = PeekableStream(chunks)
    proof = Proof(stream)
    try:
        for plain in decode(walk(stream, proof)):
            yield from proof.add(plain)
    except Exception as error:  # whatever it is, what is proven comes before it
        yield from proof.before_damage(is_torn=isinstance(error, EOFError))
        raise
    yield from proof.rest()
