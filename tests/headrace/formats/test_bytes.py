import gzip
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.formats import DECODERS, SPLITTERS
from headrace.formats.compression import sniff
from headrace.model.errors import ObjectCorrupt
from headrace.model.positions import BlockPosition, BytePosition
from headrace.options.choices import Compression, InputFormat
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.memory_source import MemorySource, decode_all
from tests.support.examples import examples

FOUR = decode_options(InputFormat.BYTES, chunk_bytes=4)


@given(
    st.binary(max_size=40).filter(lambda data: sniff(data) is None),
    st.integers(1, 20),
    st.integers(1, 9),
    st.booleans(),
)
@settings(max_examples=examples(200))
def test_chunks_have_one_size_and_resume_anywhere(data: bytes, size: int, chunk: int, packed: bool) -> None:
    """The chunks are those of the plain bytes, from any position on."""
    options = decode_options(InputFormat.BYTES, chunk_bytes=size)
    stored = gzip.compress(data) if packed else data
    expected = [(BytePosition(at), data[at : at + size]) for at in range(0, len(data), size)]

    assert decode_all(MemorySource(stored, chunk=chunk), options).rows == expected
    for index, (position, _) in enumerate(expected):
        rest = decode_all(MemorySource(stored, chunk=chunk), options, start=position)
        assert rest.rows == expected[index:]


@given(
    st.binary(max_size=40).filter(lambda data: sniff(data) is None),
    st.integers(1, 9),
    st.lists(st.integers(0, 40), max_size=4),
)
@settings(max_examples=examples(100))
def test_any_split_gives_exactly_the_chunks(data: bytes, size: int, marks: list[int]) -> None:
    """A slice owns the chunks that begin in it."""
    options = decode_options(InputFormat.BYTES, chunk_bytes=size)
    ends = sorted({0, len(data), *(mark for mark in marks if mark < len(data))})
    rows = []
    for begin, end in pairwise(ends):
        rows += decode_all(MemorySource(data, chunk=3), options, begin=begin, end=end).rows

    assert rows == decode_all(MemorySource(data), options).rows


def test_cuts_fall_between_chunks() -> None:
    """Marks are whole chunks; a compressed object has none, unless it is wanted as it is stored."""
    cutter = SPLITTERS[InputFormat.BYTES]
    packed = MemorySource(gzip.compress(bytes(100), mtime=0))

    assert cutter(MemorySource(b"x" * 22), 3, options=FOUR) == (0, 4, 12, 22)
    assert cutter(MemorySource(b"x" * 4), 3, options=FOUR) is None
    assert cutter(packed, 2, options=FOUR) is None
    as_stored = decode_options(InputFormat.BYTES, chunk_bytes=4, compression=Compression.NONE)
    assert cutter(packed, 2, options=as_stored) is not None


def test_compression_none_gives_the_stored_bytes() -> None:
    """Whoever ships gzip files as they are says so."""
    stored = gzip.compress(b"hello", mtime=0)
    options = decode_options(InputFormat.BYTES, compression=Compression.NONE)

    assert decode_all(MemorySource(stored), options).values == [stored]
    assert decode_all(MemorySource(stored), FOUR).values == [b"hell", b"o"]


def test_a_torn_stream_gives_no_torn_chunk() -> None:
    """Before the damage there are only whole chunks."""
    stored = gzip.compress(bytes(range(256)) * 4096)
    options = decode_options(InputFormat.BYTES, chunk_bytes=1000)

    decoded = decode_all(MemorySource(stored[:-200]), options)

    assert decoded.error is not None
    assert {len(value or b"") for value in decoded.values} == {1000}


def test_a_foreign_position_is_refused() -> None:
    """A position of another format has no meaning here."""
    with pytest.raises(ObjectCorrupt, match="not one of a bytes object"):
        list(DECODERS[InputFormat.BYTES](MemorySource(b"1\n"), BlockPosition(0, 0), options=FOUR))
