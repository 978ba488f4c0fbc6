"""Every compression against its own writers, in every cut of the stream, torn, damaged and enormous."""

import gzip
import random
import struct
import zlib
from collections.abc import Callable, Iterator

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.formats.compression import Codec, plain_stream, regrouped, sniff, stored_codec
from headrace.formats.compression.block_ends import WALKS, proven
from headrace.formats.compression.codecs import CODECS
from headrace.model.errors import InvalidObject, ObjectCorrupt, SourceUnavailable
from tests.headrace.formats.memory_source import MemorySource
from tests.headrace.formats.packers import PACKERS
from tests.support.examples import examples

every_writer = pytest.mark.parametrize("writer", PACKERS)


def _plain(stored: bytes, *, chunk: int = 1 << 20, begin: int = 0) -> bytes:
    # Opaque: content that is made up may begin like anything.
    return b"".join(plain_stream(MemorySource(stored, chunk=chunk), begin, opaque=True))


@every_writer
@given(data=st.lists(st.binary(max_size=50), max_size=4), chunk=st.integers(1, 64))
@settings(max_examples=examples(75), deadline=None)
def test_members_and_frames_follow_one_another(writer: str, data: list[bytes], chunk: int) -> None:
    """Several members are one stream, however the stored bytes arrive, from any byte on."""
    codec, compress = PACKERS[writer]
    stored = b"".join(compress(part) for part in data)
    plain = b"".join(data)

    if stored:
        assert stored_codec(MemorySource(stored)) is codec
    assert _plain(stored, chunk=chunk) == plain
    for begin in range(0, len(plain) + 1, 17):
        assert _plain(stored, chunk=chunk, begin=begin) == plain[begin:]


# Without a checksum, as zstd's library has it unless it is asked for one.
_STEP = 64 * 1024
_CONTENT = st.builds(
    lambda size, kind, seed: random.Random(seed).randbytes(size) if kind else b'{"a":1}\n' * (size // 8),
    st.one_of(
        st.integers(0, 100), st.builds(lambda n, by: n * _STEP + by, st.integers(1, 4), st.integers(0, 1))
    ),
    st.booleans(),
    st.integers(0, 9),
)


@every_writer
@given(data=st.lists(_CONTENT, max_size=4), chunk=st.sampled_from([1000, _STEP, 1 << 20]))
@settings(max_examples=examples(40), deadline=None)
def test_no_member_or_frame_ends_the_stream(writer: str, data: list[bytes], chunk: int) -> None:
    """Frames of whole steps as well, after which the walker has nothing left to give."""
    compress = PACKERS[writer][1]

    assert _plain(b"".join(map(compress, data)), chunk=chunk) == b"".join(data)


@pytest.mark.parametrize("size", [_STEP, 4 * _STEP, 16 * _STEP, 64 * _STEP])
def test_frames_of_one_plain_size_are_all_read(size: int) -> None:
    """As a writer's buffer or zstd's seekable format makes them; its table of frames is the end."""
    data = random.Random(size).randbytes(3 * size + 10)
    frames = [zstandard.compress(data[at : at + size]) for at in range(0, len(data), size)]
    table = b"\x5e\x2a\x4d\x18" + (9).to_bytes(4, "little") + bytes(9)

    assert _plain(b"".join(frames) + table) == data


@every_writer
def test_a_chunk_without_bytes_is_no_end(writer: str) -> None:
    """Neither one of the source nor one of a walker, wherever it comes."""
    codec, compress = PACKERS[writer]
    stored = compress(b"one" * 50) + compress(b"") + compress(b"two" * 50)
    walk = WALKS.get(codec)

    def with_empty(chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            yield from (b"", chunk, b"")

    chunks = with_empty(stored[at : at + 7] for at in range(0, len(stored), 7))
    if walk is None:
        got = CODECS[codec](chunks)
    else:
        got = proven(CODECS[codec], lambda stream, proof: with_empty(walk(stream, proof)), chunks)

    assert b"".join(got) == b"one" * 50 + b"two" * 50


@pytest.mark.parametrize("codec", WALKS)
def test_stored_bytes_that_no_decoder_asked_for_are_damage(codec: Codec) -> None:
    """Whatever ends a decoder too early, rows are not lost in silence."""

    def too_short(chunks: Iterator[bytes]) -> Iterator[bytes]:
        yield next(chunks)[:1]

    stored = next(compress for of, compress in PACKERS.values() if of is codec)(
        random.Random(0).randbytes(1 << 18)
    )
    got: list[bytes] = []
    with pytest.raises(ValueError, match="the decoder ended before"):
        got.extend(proven(too_short, WALKS[codec], iter([stored])))
    with pytest.raises(ValueError, match="the decoder ended before"):
        got.extend(proven(lambda _: iter(()), lambda *_: iter(()), iter([stored])))


def _gzip_member(
    data: bytes, extra: bytes | None, name: bytes | None, note: bytes | None, crc: bool
) -> bytes:
    """A member with these fields in its header, the checksum of the header last."""
    flags = (extra is not None) * 4 + (name is not None) * 8 + (note is not None) * 16 + crc * 2
    head = b"\x1f\x8b\x08" + bytes([flags, 0, 0, 0, 0, 0, 255])
    head += b"" if extra is None else struct.pack("<H", len(extra)) + extra
    head += b"".join(text + b"\x00" for text in (name, note) if text is not None)
    head += struct.pack("<H", zlib.crc32(head) & 0xFFFF) if crc else b""
    packer = zlib.compressobj(wbits=-15)
    body = packer.compress(data) + packer.flush()
    return head + body + struct.pack("<II", zlib.crc32(data), len(data))


_TEXT = st.none() | st.binary(max_size=40).map(lambda text: text.replace(b"\x00", b""))
_MEMBERS = st.lists(
    st.builds(
        _gzip_member, st.binary(max_size=60), st.none() | st.binary(max_size=40), _TEXT, _TEXT, st.booleans()
    ),
    min_size=1,
    max_size=4,
)


@given(members=_MEMBERS, pad=st.integers(0, 3), chunk=st.integers(1, 64))
@settings(max_examples=examples(400), deadline=None)
def test_any_header_of_gzip_in_any_cut(members: list[bytes], pad: int, chunk: int) -> None:
    """Extra fields, names, comments and checksums of headers, wherever a chunk ends."""
    assert _plain(bytes(pad).join(members), chunk=chunk) == gzip.decompress(b"".join(members))


def test_a_header_of_gzip_has_a_bound() -> None:
    """The largest extra field is read; a name that does not end is damage before it fills the memory."""
    long = _gzip_member(b"text", bytes(2**16 - 1), b"n" * 1000, None, crc=True)
    assert _plain(long, chunk=1000) == b"text"
    with pytest.raises(ObjectCorrupt, match="header is longer than 256 KiB"):
        _plain(_gzip_member(b"text", None, b"n" * 2_000_000, None, crc=False), chunk=100_000)


def test_a_stream_of_gzip_torn_within_a_header() -> None:
    """What was whole is given out, then the damage, wherever the header ends."""
    member = _gzip_member(b"text", b"AB\x02\x00zz", b"name", b"note", crc=True)
    for cut in range(1, member.index(b"note") + 7):
        chunks: list[bytes] = []
        with pytest.raises(ObjectCorrupt, match="ends too early"):
            chunks.extend(plain_stream(MemorySource(member + member[:cut], chunk=7)))
        assert b"".join(chunks) == b"text"


@every_writer
def test_large_content_comes_in_bounded_chunks(writer: str) -> None:
    """Five MiB of compressible content arrive in chunks of about one MiB."""
    data = b"".join(b'{"n":%d,"text":"some text"}\n' % n for n in range(175_000))
    stored = PACKERS[writer][1](data)

    chunks = list(plain_stream(MemorySource(stored)))

    assert b"".join(chunks) == data
    assert max(len(chunk) for chunk in chunks) <= 2 << 20


@every_writer
def test_a_torn_stream_is_damage_behind_what_came_whole(writer: str) -> None:
    """What was whole is given out, then ObjectCorrupt names the object."""
    data = b"".join(b'{"n":%d}\n' % (n * 7919 % 1_000_003) for n in range(200_000))
    stored = PACKERS[writer][1](data)
    chunks: list[bytes] = []
    with pytest.raises(ObjectCorrupt, match=r"s3://bucket/key: the .* stream is damaged"):
        chunks.extend(plain_stream(MemorySource(stored[:-7])))
    got = b"".join(chunks)

    assert data.startswith(got)
    # bzip2 works in blocks of 900 kB, of which the last one is lost as a whole.
    assert len(got) >= len(data) - 900_000 - (128 << 10)


@every_writer
@pytest.mark.parametrize("place", [0.3, 0.6, 0.9])
def test_a_flipped_bit_never_passes_unseen_where_checksums_are(writer: str, place: float) -> None:
    """Either damage is raised, or (no checksum in the format, or in this writer's use of it) bytes came."""
    data = bytes(range(256)) * 400
    stored = bytearray(PACKERS[writer][1](data))
    stored[int(len(stored) * place)] ^= 0x10
    unchecked = {"snappy xerial", "zstd", "zstd by cramjam", "lz4", "lz4 by Arrow"}
    try:
        plain = _plain(bytes(stored))
    except ObjectCorrupt:
        return
    assert plain == data or writer in unchecked


@pytest.mark.parametrize("pad", [1, 512, 100_000])
@pytest.mark.parametrize("writer", ["gzip", "bzip2", "xz"])
def test_zero_padding_behind_a_member_is_skipped(writer: str, pad: int) -> None:
    """Tape and block writers pad with zeros; gzip itself ignores them."""
    stored = PACKERS[writer][1](b"one") + bytes(pad) + PACKERS[writer][1](b"two") + bytes(pad)

    assert _plain(stored) == b"onetwo"


@every_writer
def test_garbage_behind_a_member_is_damage(writer: str) -> None:
    """Content must not be lost silently because somebody appended it uncompressed."""
    with pytest.raises(ObjectCorrupt):
        _plain(PACKERS[writer][1](b"one") + b"garbage that is no member")


def _bomb_gzip(size: int) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    part = bytes(1 << 20)
    return b"".join(packer.compress(part) for _ in range(size >> 20)) + packer.flush()


def _bomb_zstd(size: int) -> bytes:
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    part = bytes(1 << 20)
    return b"".join(packer.compress(part) for _ in range(size >> 20)) + packer.flush()


@pytest.mark.parametrize("bomb", [_bomb_gzip, _bomb_zstd], ids=["gzip", "zstd"])
def test_a_bomb_is_read_in_bounded_steps(bomb: Callable[[int], bytes]) -> None:
    """256 MiB out of a few kB never stand in memory at once."""
    source = MemorySource(bomb(256 << 20))
    total = 0
    for chunk in plain_stream(source):
        assert len(chunk) <= 2 << 20
        total += len(chunk)

    assert total == 256 << 20
    assert source.size < 1 << 20


def test_a_block_that_claims_gigabytes_is_refused() -> None:
    """Neither length in a xerial block is believed before it is measured."""
    head = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    with pytest.raises(ObjectCorrupt, match="claims 2147483647 bytes"):
        _plain(head + struct.pack(">i", 2**31 - 1) + b"x")
    with pytest.raises(ObjectCorrupt, match="more than 32 MiB"):
        _plain(head + struct.pack(">i", 8) + b"\xff\xff\xff\xff\x0f\x00\x00\x00")


@pytest.mark.parametrize(
    ("head", "codec"),
    [
        (b"", None),
        (b"\x1f", None),
        (b"\x1f\x8b", None),
        (b"BZh is how this text begins", None),
        (b"BZh91AY&SY....", Codec.BZIP2),
        (b"BZh9\x17rE8P\x90", Codec.BZIP2),
        (b'{"a":1}\n', None),
        (b"PAR1", None),
        (b"Obj\x01", None),
        (b"\x50\x2a\x4d\x18\x00\x00\x00\x00", Codec.ZSTD),
    ],
)
def test_magic_bytes_decide(head: bytes, codec: Codec | None) -> None:
    """Short and similar beginnings are plain."""
    assert sniff(head) is codec


def test_sources_fail_as_themselves() -> None:
    """S3 being away is not damage of the object, whichever library was reading."""

    class Failing(MemorySource):
        """A source whose stream breaks off."""

        def stream(self, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
            del begin, end
            yield self.content[: self.size // 2]
            raise SourceUnavailable("s3://bucket/key: throttled")

    for _, compress in PACKERS.values():
        with pytest.raises(SourceUnavailable, match="throttled"):
            list(plain_stream(Failing(compress(bytes(range(256)) * 999))))


@given(st.lists(st.binary(max_size=30), max_size=8), st.integers(1, 10))
def test_regrouping_keeps_bytes_and_bounds(chunks: list[bytes], size: int) -> None:
    """All chunks but the last have at least the size asked for, and at most twice that."""
    out = list(regrouped(iter(chunks), size))

    assert b"".join(out) == b"".join(chunks)
    assert all(size <= len(chunk) <= 2 * size for chunk in out[:-1])
    assert all(0 < len(chunk) <= 2 * size for chunk in out[-1:])


@pytest.mark.long
@given(stored=st.sampled_from(sorted(PACKERS)), seed=st.randoms(use_true_random=False))
@settings(max_examples=2000, deadline=None)
def test_mutated_streams_end_in_bytes_or_damage(stored: str, seed: object) -> None:
    """A mutated stream gives content, ObjectCorrupt, or lacks a dictionary; never anything else."""
    import random

    assert isinstance(seed, random.Random)
    content = bytearray(PACKERS[stored][1](b"some text that repeats, some text that repeats\n" * 50))
    for _ in range(seed.randint(1, 8)):
        content[seed.randrange(len(content))] = seed.randrange(256)
    reason = ""
    try:
        _plain(bytes(content[: seed.randint(1, len(content))]))
    except ObjectCorrupt:
        return
    except InvalidObject as error:
        reason = error.reason
    # A bit of a head may say that a dictionary is needed.
    assert reason in {"", "unsupported"}
