"""A source in memory that counts what is fetched and cuts its stream at will, and batches as plain lists."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.formats import DecodeOptions
from headrace.formats.packed.members import decoder_of
from headrace.model.columns import BadRow, RowBatch
from headrace.model.errors import ObjectCorrupt
from headrace.model.positions import Position


@dataclass
class MemorySource:
    """`content` as an object; `chunk` is the size of what its stream gives."""

    content: bytes
    chunk: int = 1 << 20
    name: str = "s3://bucket/key"
    fetched_bytes: int = 0
    reads: list[tuple[int, int]] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Length of the content."""
        return len(self.content)

    def stream(self, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes from begin to end, in chunks."""
        stop = self.size if end is None else min(end, self.size)
        self.reads.append((begin, stop))
        for at in range(begin, stop, self.chunk):
            part = self.content[at : min(at + self.chunk, stop)]
            self.fetched_bytes += len(part)
            yield part

    def read_at(self, offset: int, length: int) -> bytes:
        """One ranged read."""
        part = self.content[offset : offset + length]
        self.reads.append((offset, offset + len(part)))
        self.fetched_bytes += len(part)
        return part


@dataclass
class Decoded:
    """Everything a decoder gave: rows as (position, value), the bad ones, the end, and the damage if any."""

    rows: list[tuple[Position, bytes | None]] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)
    order: list[Position] = field(default_factory=list)
    after: Position | None = None
    error: ObjectCorrupt | None = None
    batches: list[RowBatch] = field(default_factory=list)

    @property
    def values(self) -> list[bytes | None]:
        """The rows without their positions."""
        return [value for _, value in self.rows]


def decode_all(
    source: MemorySource,
    options: DecodeOptions,
    *,
    start: Position | None = None,
    begin: int | None = None,
    end: int | None = None,
) -> Decoded:
    """The whole outcome of decoding; ObjectCorrupt ends it and is kept, anything else passes through."""
    out = Decoded()
    decoder = decoder_of(options.format)
    try:
        for batch in decoder(source, start, options=options, begin=begin, end=end):
            out.batches.append(batch)
            out.after = batch.after
            bad = iter(batch.bad)
            pending = next(bad, None)
            for index in range(len(batch) + 1):
                while pending is not None and pending.index == index:
                    out.bad.append(pending)
                    out.order.append(pending.position)
                    pending = next(bad, None)
                if index < len(batch):
                    out.rows.append((batch.positions(index), batch.values.get(index)))
                    out.order.append(batch.positions(index))
            assert pending is None, "a bad row stands outside its batch"
            assert batch.positions(len(batch)) == batch.after
    except ObjectCorrupt as error:
        out.error = error
    return out
