"""Bytes in are the bytes of the parts, in order, wherever they have waited."""

import tempfile
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from isal import isal_zlib

from spark.sink.spill import MAX_PART_BYTES, MIB, MIN_PART_BYTES, Part, PartBuffer, SpillDirectory, part_size

_LARGEST_OBJECT: Final = 5 * 1024 * 1024 * MIB
# An ETag, a space, a checksum, quotes and what JSON puts around them.
_PART_TEXT: Final = 34 + 1 + 8 + 5


@given(st.integers(0, MAX_PART_BYTES))
def test_the_largest_object_has_few_parts(part_bytes: int) -> None:
    """S3's limits are kept, and the ledger's entry stays below 512 KiB."""
    total = number = 0
    while total < _LARGEST_OBJECT:
        number += 1
        size = part_size(part_bytes, number)
        assert max(part_bytes, MIN_PART_BYTES) <= size <= MAX_PART_BYTES
        total += size
    assert number <= 10_000
    assert number * _PART_TEXT < 500 * 1024


def content(part: Part) -> bytes:
    """All bytes, read in small pieces, and a second time after going back."""
    with part.open() as reader:
        pieces = b"".join(iter(lambda: reader.read(3), b""))
        assert reader.tell() == part.size
        reader.seek(0)
        assert reader.read(part.size) == pieces[: part.size]
    assert part.crc32 == isal_zlib.crc32(pieces)
    assert part.body() in (pieces, part)
    return pieces


_STEPS: Final = st.lists(
    st.one_of(st.binary(max_size=25), st.sampled_from(["spill", "spill part"])), max_size=20
)


@given(_STEPS, st.lists(st.integers(1, 12), min_size=1, max_size=3))
def test_parts_hold_what_was_put_in(steps: list[bytes | str], sizes: list[int]) -> None:
    """Each has its size but the last, whatever is spilled between; in the end the folder is empty."""

    def size_of(number: int) -> int:
        return sizes[min(number, len(sizes)) - 1]

    with tempfile.TemporaryDirectory() as folder:
        directory = SpillDirectory(Path(folder))
        buffer = PartBuffer(directory, size_of)
        parts: list[Part] = []
        for step in steps:
            if step == "spill":
                buffer.spill()
                assert buffer.memory_bytes == 0
            elif step == "spill part" and parts:
                parts[-1].spill(directory)
                assert parts[-1].memory_bytes == 0
            elif isinstance(step, bytes):
                buffer.append(step)
                parts += buffer.full_parts()
        given_bytes = b"".join(step for step in steps if isinstance(step, bytes))
        assert buffer.total_bytes == len(given_bytes)
        last = buffer.last_part()
        assert [part.size for part in parts] == [size_of(number + 1) for number in range(len(parts))]
        everything = [*parts, *([last] if last is not None else [])]
        assert [part.number for part in everything] == list(range(1, len(everything) + 1))
        assert everything, "S3 completes no upload without a part"
        assert b"".join(map(content, everything)) == given_bytes
        for part in everything:
            part.release()
        assert directory.bytes == 0
        directory.close()
        assert list(Path(folder).iterdir()) == []


def test_a_part_whose_spilling_failed_is_sent_from_memory(tmp_path: Path) -> None:
    """Though its file could not even be made: it is not asked for."""
    parent = tmp_path / "buffer"
    directory = SpillDirectory(parent)
    kept = directory.new_file()
    buffer = PartBuffer(directory, lambda _: 100)
    buffer.append(b"content")
    part = buffer.last_part()
    assert part is not None
    (folder,) = parent.iterdir()
    # Its name, where a file is to be, is a folder's.
    (folder / "2.part").mkdir()
    with pytest.raises(IsADirectoryError):
        part.spill(directory)
    assert (part.body(), part.memory_bytes) == (b"content", 7)
    assert content(part) == b"content"
    kept.remove()
    directory.close()
