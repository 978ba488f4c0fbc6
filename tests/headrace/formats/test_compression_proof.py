"""Nothing behind a flipped bit is given out where the format has checksums; what is unsupported is named."""

import bz2
import gzip
import lzma
import random
import struct
import zlib
from collections.abc import Callable, Iterator

import cramjam
import pyarrow as pa
import pytest
import zstandard

from headrace.formats import SPLITTERS
from headrace.formats.compression import Codec, plain_stream, stored_codec
from headrace.formats.compression.block_ends import HOLD_BYTES
from headrace.model.errors import InvalidObject, ObjectCorrupt
from headrace.options.choices import InputFormat
from tests.headrace.formats.avro_files import file_of
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.memory_source import MemorySource, decode_all
from tests.headrace.formats.packers import xz_with

TEXT = b"".join(b'{"n":%d}\n' % (n * 7919 % 1_000_003) for n in range(40))
# By `lz4 -BX -B4 --no-frame-crc`, of which no library here writes the checksums of blocks.
LZ4_BLOCK_CHECKSUMS = bytes.fromhex(
    "04224d187040ad1f000080746865206669727374206c696e650a746865207365636f6e64206c696e650a193c25dc00000000"
)


def _zstd(data: bytes) -> bytes:
    """A frame with a checksum and blocks of a few rows."""
    packer = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    parts = [
        packer.compress(data[at : at + 60]) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        for at in range(0, len(data), 60)
    ]
    return b"".join(parts) + packer.flush()


def _lz4(data: bytes) -> bytes:
    packer = cramjam.lz4.Compressor(level=1, content_checksum=True)
    packer.compress(data)
    return bytes(packer.finish())


def bgzip(data: bytes, member: int = 200) -> bytes:
    """Members that say how long they are, as bgzip writes them (its own are of 64 KiB)."""
    out = b""
    for at in range(0, len(data), member):
        part = data[at : at + member]
        packer = zlib.compressobj(wbits=-15)
        body = packer.compress(part) + packer.flush()
        size = 18 + len(body) + 8
        out += b"\x1f\x8b\x08\x04" + bytes(5) + b"\xff\x06\x00BC\x02\x00" + struct.pack("<H", size - 1)
        out += body + struct.pack("<II", zlib.crc32(part), len(part))
    return out


CHECKED: dict[str, Callable[[bytes], bytes]] = {
    "zstd": _zstd,
    "lz4": _lz4,
    "bgzip": bgzip,
    "bzip2": bz2.compress,
    "xz": lambda data: lzma.compress(data, preset=0),
    "xz, CRC-32, BCJ": lambda data: lzma.compress(
        data, check=lzma.CHECK_CRC32, filters=[{"id": lzma.FILTER_X86}, {"id": lzma.FILTER_LZMA2}]
    ),
    "xz, SHA-256": lambda data: lzma.compress(data, check=lzma.CHECK_SHA256, preset=0),
    "snappy framing": lambda data: bytes(cramjam.snappy.compress(data)),
}


def _given_out(stored: bytes) -> tuple[bytes, bool]:
    """What came, and whether there was an error behind it."""
    out = b""
    try:
        for chunk in plain_stream(MemorySource(stored, chunk=97), opaque=True):
            out += chunk
    except (ObjectCorrupt, InvalidObject):
        return out, True
    return out, False


@pytest.mark.parametrize("writer", CHECKED)
def test_no_flipped_bit_lets_a_wrong_byte_out(writer: str) -> None:
    """Each bit of each byte: what comes is the beginning of the content, whatever error follows."""
    stored = CHECKED[writer](TEXT[:200])
    for at in range(len(stored)):
        for bit in range(8):
            flipped = bytearray(stored)
            flipped[at] ^= 1 << bit
            if stored_codec(MemorySource(bytes(flipped))) is None:
                continue  # its magic is gone: it is other bytes, and no damage
            out, is_damaged = _given_out(bytes(flipped))
            assert TEXT[:200].startswith(out), (at, bit)
            # snappy's framing has chunks that are skipped, and no checksum of what a chunk is.
            assert is_damaged or out == TEXT[:200] or writer == "snappy framing", (at, bit)


def test_no_flipped_bit_of_a_checked_lz4_block_lets_a_wrong_byte_out() -> None:
    """The same for frames whose blocks have checksums."""
    plain = b"the first line\nthe second line\n"
    assert _given_out(LZ4_BLOCK_CHECKSUMS) == (plain, False)
    for at in range(4, len(LZ4_BLOCK_CHECKSUMS)):
        for bit in range(8):
            flipped = bytearray(LZ4_BLOCK_CHECKSUMS)
            flipped[at] ^= 1 << bit
            out, _ = _given_out(bytes(flipped))
            assert plain.startswith(out), (at, bit)


@pytest.mark.parametrize("writer", CHECKED)
def test_whole_blocks_before_the_damage_are_given_out(writer: str) -> None:
    """Of two streams one behind the other, the second one damaged at its end."""
    rng = random.Random(1)
    first = b"".join(b'{"a":"%x"}\n' % rng.getrandbits(64) for _ in range(20_000))
    stored = bytearray(CHECKED[writer](first) + CHECKED[writer](TEXT))
    stored[-12 if writer != "lz4" else -2] ^= 0x01

    out, is_damaged = _given_out(bytes(stored))

    assert is_damaged
    assert (first + TEXT).startswith(out)
    # Arrow, which reads zstd and lz4, keeps what the failing step of 64 KiB had made.
    assert len(out) > len(first) - (64 << 10 if writer in ("zstd", "lz4") else 1)


@pytest.mark.parametrize("writer", ["zstd", "lz4", "bgzip", "bzip2", "xz"])
def test_a_torn_stream_gives_what_it_has(writer: str) -> None:
    """An upload that ended too early has rows that nothing speaks against."""
    rng = random.Random(1)
    data = b"".join(b'{"a":"%x"}\n' % rng.getrandbits(64) for _ in range(100_000))
    stored = CHECKED[writer](data)

    out, is_damaged = _given_out(stored[: len(stored) * 9 // 10])

    assert is_damaged
    assert data.startswith(out)
    assert len(out) > len(data) * 9 // 10 - 1_000_000


def test_a_frame_above_the_bound_is_not_held() -> None:
    """What is held is bounded, and a frame of which more is known only at its end goes on."""
    data = b'{"a":1}\n' * ((HOLD_BYTES + (4 << 20)) // 8)
    stored = bytearray(zstandard.ZstdCompressor(level=1, write_checksum=True).compress(data))
    stored[-1] ^= 1
    out = 0
    with pytest.raises(ObjectCorrupt):  # noqa: PT012  # what comes before is counted
        for chunk in plain_stream(MemorySource(bytes(stored))):
            out += len(chunk)

    assert out > HOLD_BYTES


@pytest.mark.parametrize("bomb", [9, 40])
def test_a_step_of_bzip2_holds_no_more_than_the_bound(bomb: int) -> None:
    """900 kB of one byte are some forty bytes of bzip2: steps become smaller, and holding ends."""
    packer = bz2.BZ2Compressor()
    stored = b"".join([packer.compress(bytes(1 << 20)) for _ in range(bomb)] + [packer.flush()])
    source = MemorySource(stored)

    assert sum(len(chunk) for chunk in plain_stream(source)) == bomb << 20


@pytest.mark.parametrize("magic", [0x50, 0x5F])
@pytest.mark.parametrize(("writer", "codec"), [("zstd", Codec.ZSTD), ("lz4", Codec.LZ4)])
def test_what_is_skippable_belongs_to_the_frame_behind_it(writer: str, codec: Codec, magic: int) -> None:
    """Both zstd and lz4 have skippable frames; which of them it is says the first frame that is none."""
    skipped = bytes((magic,)) + b"\x2a\x4d\x18" + struct.pack("<I", 300) + bytes(300)
    source = MemorySource(
        skipped * 2 + CHECKED[writer](TEXT) + skipped + CHECKED[writer](TEXT) + skipped, chunk=50
    )

    assert stored_codec(source) is codec
    assert b"".join(plain_stream(source)) == TEXT * 2
    source = MemorySource(skipped + CHECKED[writer](TEXT) + skipped[:-1])
    with pytest.raises(ObjectCorrupt, match="within a skippable frame"):
        list(plain_stream(source))


def _with_dictionary() -> bytes:
    words = zstandard.train_dictionary(600, [b"sample %d of some text to learn from" % n for n in range(200)])
    return zstandard.ZstdCompressor(dict_data=words).compress(TEXT)


def _with_window(bits: int) -> bytes:
    how = zstandard.ZstdCompressionParameters(window_log=bits, enable_ldm=True)
    packer = zstandard.ZstdCompressor(compression_params=how).compressobj()
    return packer.compress(TEXT) + packer.flush()


def _tar(data: bytes) -> bytes:
    import io
    import tarfile

    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("orders.jsonl"), io.BytesIO(data))
    return out.getvalue()


BROTLI = bytes(cramjam.brotli.compress(TEXT))
HADOOP_SNAPPY = struct.pack(">II", len(TEXT), 99) + bytes(cramjam.snappy.compress_raw(TEXT))
UNSUPPORTED = [
    pytest.param("a.zst", _with_dictionary(), "dictionary .* not supported", id="zstd dictionary"),
    pytest.param("a.zst", _with_window(28), "window of 256 MiB", id="zstd window"),
    pytest.param(
        "a", b"\x04\x22\x4d\x18\x61\x40\x01\x00\x00\x00" + bytes(9), "dictionary", id="lz4 dictionary"
    ),
    pytest.param("a.xz", xz_with(TEXT, 28), "128 MiB", id="xz dictionary"),
    pytest.param("a", bytes.fromhex("02214c1821000000f006746865206669"), "legacy frame", id="lz4 -l"),
    pytest.param("a", b"\x25\xb5\x2f\xfd" + bytes(9), "zstd of a version before", id="zstd 0.5"),
    pytest.param("a", b"\x1f\x9d\x90" + bytes(9), "compress", id=".Z"),
    pytest.param("a", b"LZIP\x01" + bytes(9), "lzip", id="lzip"),
    pytest.param("a", b"\x89LZO\x00\x0d\x0a\x1a\x0a" + bytes(9), "lzop", id="lzop"),
    pytest.param("a", lzma.compress(TEXT, format=lzma.FORMAT_ALONE), "LZMA alone", id="lzma"),
    pytest.param("a", b"7z\xbc\xaf\x27\x1c" + bytes(9), "7z", id="7z"),
    pytest.param("a", b"PK\x03\x04" + bytes(9), "zip archive", id="zip"),
    pytest.param("a", b"Rar!\x1a\x07\x01\x00", "rar archive", id="rar"),
    pytest.param("a", _tar(TEXT), "tar archive", id="tar"),
    pytest.param("a.tar.gz", gzip.compress(_tar(TEXT)), "tar archive within gzip", id="tar.gz"),
    pytest.param("a.gz", gzip.compress(gzip.compress(TEXT)), "gzip within gzip", id="gzip twice"),
    pytest.param("a.deflate", zlib.compress(TEXT), "zlib", id="deflate"),
    pytest.param("a", zlib.compress(TEXT), "zlib", id="deflate without its name"),
    pytest.param("orders.jsonl.br", BROTLI, "brotli", id="brotli"),
    pytest.param("part-0.snappy", HADOOP_SNAPPY, "snappy in Hadoop's blocks", id="Hadoop snappy"),
    pytest.param("part-0.SNAPPY", HADOOP_SNAPPY, "snappy in Hadoop's blocks", id="case"),
    pytest.param("part-0.lz4", HADOOP_SNAPPY, "lz4 in Hadoop's blocks", id="Hadoop lz4"),
    pytest.param("part-0.lzo_deflate", HADOOP_SNAPPY, "LZO", id="Hadoop lzo"),
]


@pytest.mark.parametrize("input_format", [InputFormat.JSONL, InputFormat.AVRO])
@pytest.mark.parametrize(("key", "stored", "words"), UNSUPPORTED)
def test_what_is_not_supported_is_named(
    input_format: InputFormat, key: str, stored: bytes, words: str
) -> None:
    """Quarantined at once with what it is, whatever was expected; nobody is told to upload it again."""
    source = MemorySource(stored, name=f"s3://bucket/{key}")
    with pytest.raises(InvalidObject, match=words) as caught:
        decode_all(source, decode_options(input_format))

    assert caught.value.reason == "unsupported"
    assert str(caught.value).startswith(f"s3://bucket/{key}: ")
    assert "gain" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("input_format", [InputFormat.JSONL, InputFormat.AVRO])
def test_it_is_named_before_it_is_cut(input_format: InputFormat) -> None:
    """A large object would be cut in slices, whose beginnings are in its middle."""
    with pytest.raises(InvalidObject, match="zip archive"):
        SPLITTERS[input_format](
            MemorySource(b"PK\x03\x04" + TEXT * 50), 4, options=decode_options(input_format)
        )


@pytest.mark.parametrize(("key", "stored", "words"), UNSUPPORTED[4:])
def test_bytes_are_whatever_they_are(key: str, stored: bytes, words: str) -> None:
    """Who ships bytes may ship archives."""
    del words
    decoded = decode_all(MemorySource(stored, name=f"s3://bucket/{key}"), decode_options(InputFormat.BYTES))

    shipped = b"".join(value or b"" for value in decoded.values)
    assert shipped in (stored, gzip.decompress(stored) if stored.startswith(b"\x1f\x8b") else stored)


@pytest.mark.parametrize("key", ["a.br", "a.snappy", "a.deflate", "a.lz4", "a.zip", "b.br/a", "a.tar.gz"])
def test_text_is_read_whatever_it_is_called(key: str) -> None:
    """A name is believed only where the bytes are no text."""
    text = '{"é":1}\n'.encode() * 200
    for chunk in (3, 1 << 20):
        decoded = decode_all(
            MemorySource(text, chunk=chunk, name=f"s3://bucket/{key}"), decode_options(InputFormat.JSONL)
        )
        assert len(decoded.rows) == 200
    avro = MemorySource(file_of("long", list(range(20))), name=f"s3://bucket/{key}")
    assert len(decode_all(avro, decode_options(InputFormat.AVRO)).rows) == 20


def test_windows_up_to_the_limit_are_read() -> None:
    """128 MiB is zstd's own limit for streams."""
    assert b"".join(plain_stream(MemorySource(_with_window(27)))) == TEXT
    assert b"".join(plain_stream(MemorySource(xz_with(TEXT, 26)))) == TEXT


def test_the_head_survives_an_error_right_behind_it() -> None:
    """Looking at what a stream begins with loses none of it."""
    data = b"".join(b'{"n":%d}\n' % n for n in range(20))

    class Torn(MemorySource):
        """Its stream says that it is damaged after some bytes."""

        def stream(self, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
            del begin, end
            yield data[:50]
            raise ObjectCorrupt("s3://bucket/key: damaged")

    got: list[bytes] = []
    with pytest.raises(ObjectCorrupt):
        got.extend(plain_stream(Torn(data)))
    assert b"".join(got) == data[:50]


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_frames_by_arrow_have_no_checksums_and_are_read(codec: str) -> None:
    """Nothing is held where nothing can prove it."""
    stored = pa.Codec(codec).compress(TEXT, asbytes=True)

    assert b"".join(plain_stream(MemorySource(stored + stored))) == TEXT * 2
