"""Zips as tools write them and as they do not: names, methods, 64 bits, torn, forged and overlapping ones."""

import io
import random
import stat
import struct
import zipfile
import zlib
from typing import Any

import cramjam
import pytest

from headrace.model.errors import InvalidObject
from headrace.model.positions import MemberPosition
from tests.headrace.formats.archives import packed, zipped
from tests.headrace.formats.memory_source import Decoded, MemorySource, decode_all

ZIP = packed()
TWO = [("a.json", b"1\n2\n"), ("b.json", b"3\n")]


def _read(content: bytes, **changes: Any) -> Decoded:
    return decode_all(MemorySource(content), packed(**changes))


def _names(out: Decoded) -> list[str]:
    return [position.member for position, _ in out.rows if isinstance(position, MemberPosition)]


def _one(info: zipfile.ZipInfo, content: bytes = b"1") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(info, content)
    return out.getvalue()


def _changed(content: bytes, signature: bytes, at: int, value: bytes) -> bytes:
    """The zip with other bytes `at` so far behind the last such signature."""
    place = content.rindex(signature) + at
    return content[:place] + value + content[place + len(value) :]


LOCAL, ENTRY, END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"


@pytest.mark.parametrize(
    "method",
    [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2],
    ids=["stored", "deflate", "bzip2"],
)
def test_methods(method: int) -> None:
    """Each that is read by a compression that is there anyway."""
    assert _read(zipped(TWO, method)).values == [b"1", b"2", b"3"]


def test_zstd() -> None:
    """What newer tools write."""
    plain = b"1\n" * 1000
    stored = bytes(cramjam.zstd.compress(plain))
    content = _one(zipfile.ZipInfo("a"), stored)
    for signature, method_at, crc_at in ((LOCAL, 8, 14), (ENTRY, 10, 16)):
        content = _changed(content, signature, method_at, struct.pack("<H", 93))
        content = _changed(content, signature, crc_at, struct.pack("<L", zlib.crc32(plain)))
        content = _changed(content, signature, crc_at + 8, struct.pack("<L", len(plain)))
    assert _read(content).values == [b"1"] * 1000


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, 1, 9])
def test_other_methods_are_refused(method: int) -> None:
    """Before the first row."""
    content = zipped(TWO)
    content = _changed(content, ENTRY, 10, struct.pack("<H", method))
    with pytest.raises(InvalidObject, match=f"b.json: the member is compressed by zip's method {method}"):
        _read(content)


@pytest.mark.parametrize(
    ("raw", "flags", "name"),
    [
        ("é.json".encode(), 0x800, "é.json"),
        ("é.json".encode(), 0, "é.json"),
        (b"caf\x82.json", 0, "café.json"),
        (b"caf\xe9.json", 0x800, "caf\\xe9.json"),
    ],
    ids=["utf-8", "utf-8 that is not said", "cp437", "not what is said"],
)
def test_names(raw: bytes, flags: int, name: str) -> None:
    """In UTF-8 or the characters of the first PCs."""
    placeholder = "x" * len(raw)
    content = _one(zipfile.ZipInfo(placeholder)).replace(placeholder.encode(), raw)
    content = _changed(content, ENTRY, 8, struct.pack("<H", flags))
    assert _names(_read(content)) == [name]


def test_a_name_in_unicode_beside() -> None:
    """As Info-ZIP writes it; one that belongs to another name is not taken."""
    for raw, name in ((b"caf_.json", "café.json"), (b"other", "caf_.json")):
        info = zipfile.ZipInfo("caf_.json")
        value = b"\x01" + struct.pack("<L", zlib.crc32(raw)) + "café.json".encode()
        info.extra = struct.pack("<2H", 0x7075, len(value)) + value
        assert _names(_read(_one(info))) == [name]


def test_the_same_name_twice() -> None:
    """Both are read, each at its own place."""
    out = _read(zipped([("a", b"1"), ("a", b"2")]))
    assert out.values == [b"1", b"2"]
    assert out.rows[0][0] != out.rows[1][0]


def test_members_are_read_in_the_order_in_which_they_are_stored() -> None:
    """Whatever the order of the directory."""
    content = zipped(TWO)
    begin, end = content.index(ENTRY), content.index(END)
    second = content.index(ENTRY, begin + 1)
    turned = content[:begin] + content[second:end] + content[begin:second] + content[end:]
    assert _read(turned).rows == _read(content).rows


@pytest.mark.parametrize(
    ("mode", "words"),
    [(stat.S_IFLNK, "is a symbolic link"), (stat.S_IFCHR, "is a device"), (stat.S_IFIFO, "is a device")],
)
def test_what_is_no_file_is_refused(mode: int, words: str) -> None:
    """Before the first row; left out by name it is passed over."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.json", b"1")
        info = zipfile.ZipInfo("other")
        info.create_system, info.external_attr = 3, (mode | 0o777) << 16
        archive.writestr(info, b"/etc/passwd")
    with pytest.raises(InvalidObject, match=f"key!/other: the member {words}") as caught:
        _read(out.getvalue())
    assert caught.value.reason == "member_refused"
    assert _read(out.getvalue(), members=("*.json",)).values == [b"1"]


@pytest.mark.parametrize("flag", [0x1, 0x41, 0x2001])
def test_encrypted_members_are_refused(flag: int) -> None:
    """By a password, strongly, or with their directory."""
    content = _changed(zipped(TWO), ENTRY, 8, struct.pack("<H", flag))
    with pytest.raises(InvalidObject, match=r"b\.json: the member is encrypted"):
        _read(content)


def test_other_kinds_are_refused() -> None:
    """Patches, and volumes."""
    with pytest.raises(InvalidObject, match="is a patch of another file"):
        _read(_changed(zipped(TWO), ENTRY, 8, struct.pack("<H", 0x20)))
    with pytest.raises(InvalidObject, match="is one of several volumes") as caught:
        _read(_changed(zipped(TWO), END, 4, struct.pack("<2H", 1, 0)))
    assert caught.value.reason == "unsupported"


def test_a_comment_that_looks_like_an_end() -> None:
    """The end is where the comment after it ends."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a", b"1")
        archive.comment = b"x" + END + b"y" * 30
    assert _read(out.getvalue()).values == [b"1"]


def test_sizes_and_places_of_64_bits() -> None:
    """With the numbers where a zip of gigabytes has them."""
    content = _zip_64()
    assert _read(content).values == [b"1", b"2", b"3"]
    at = content.index(b"PK\x06\x07")
    torn = content[: at + 8] + struct.pack("<Q", 3) + content[at + 16 :]
    out = _read(torn)
    assert out.error is not None
    assert "its directory's end is not there" in str(out.error)


def _zip_64() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in TWO:
            with archive.open(name, "w", force_zip64=True) as member:
                member.write(content)
    content = out.getvalue()
    begin, end = content.index(ENTRY), content.index(END)
    # The first entry's sizes and place, and the directory's, in 64 bits.
    wide = struct.pack("<2H3Q", 1, 24, 4, struct.unpack_from("<L", content, begin + 20)[0], 0)
    first = bytearray(content[begin : begin + 46 + 6])
    first[20:28], first[30:32], first[42:46] = b"\xff" * 8, struct.pack("<H", len(wide)), b"\xff" * 4
    directory = bytes(first) + wide + content[begin + 52 : end]
    end_64 = struct.pack(
        "<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 2, 2, len(directory), begin
    ) + struct.pack("<4sLQL", b"PK\x06\x07", 0, begin + len(directory), 1)
    ends = struct.pack("<4s4H2LH", END, 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    return content[:begin] + directory + end_64 + ends


def test_a_member_written_as_a_stream() -> None:
    """Its sizes follow it; those of the directory are taken."""

    class Unseekable(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def seek(self, *_: Any) -> int:
            raise OSError

        def tell(self) -> int:
            raise OSError

    out = Unseekable()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in TWO:
            archive.writestr(name, content)
    assert b"PK\x07\x08" in out.getvalue()
    assert _read(out.getvalue()).values == [b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(zipped(TWO)[:-1], "is cut short", id="torn"),
        pytest.param(zipped(TWO) + b"x", "is cut short", id="more after the end"),
        pytest.param(
            _changed(zipped(TWO), END, 16, struct.pack("<L", 9999)), "is not where its end says", id="place"
        ),
        pytest.param(
            _changed(zipped(TWO), END, 10, struct.pack("<H", 3)), "has fewer entries than it says", id="count"
        ),
        pytest.param(_changed(zipped(TWO), ENTRY, 0, b"PK\x01\x03"), "has fewer entries", id="signature"),
        pytest.param(_changed(zipped(TWO), ENTRY, 30, b"\xff\xff"), "is cut short", id="length"),
        pytest.param(
            _changed(zipped(TWO), ENTRY, 24, b"\xff\xff\xff\xff"),
            "a size of 64 bits is missing",
            id="64 bits",
        ),
        pytest.param(_changed(zipped(TWO), LOCAL, 30, b"x"), "names another member there", id="name"),
        pytest.param(_changed(zipped(TWO), LOCAL, 0, b"x"), "names another member there", id="header"),
        pytest.param(
            _changed(zipped(TWO), ENTRY, 16, b"xxxx"),
            "has another checksum than the directory",
            id="checksum",
        ),
        pytest.param(
            _changed(zipped(TWO), ENTRY, 24, b"\x01"), "is longer than the directory says", id="longer"
        ),
        pytest.param(
            _changed(zipped(TWO), ENTRY, 24, b"\x03"), "is shorter than the directory says", id="shorter"
        ),
        pytest.param(_changed(zipped(TWO), LOCAL, 36, b"\xff"), "the member is damaged", id="deflate"),
    ],
)
def test_damage(content: bytes, words: str) -> None:
    """The members before are produced, the damaged one is not; nothing of a torn directory is believed."""
    out = _read(content)
    assert out.values in ([], [b"1", b"2"])
    assert out.error is not None
    assert words in str(out.error)
    assert "Upload the object again." in str(out.error)


def test_overlapping_members_are_refused() -> None:
    """Each would be small, and all together without end."""
    content = zipped([("a", b"1"), ("b", b"2")])
    begin = content.index(ENTRY)
    first = struct.unpack_from("<L", content, begin + 42)
    forged = _changed(content, ENTRY, 42, struct.pack("<L", *first))
    with pytest.raises(InvalidObject, match="overlaps another one"):
        _read(forged)


def test_a_directory_without_end_is_refused() -> None:
    """It is not held: its length is bounded by how many entries it has."""
    content = zipped([("a", b"1")])
    filler = bytes(10_000)
    end = content.rindex(END)
    forged = content[:end] + filler + content[end:]
    forged = _changed(forged, END, 12, struct.pack("<L", end - content.index(ENTRY) + len(filler)))
    out = _read(forged)
    assert out.error is not None
    assert "is larger than any that a tool writes" in str(out.error)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_large_member_is_streamed(method: int) -> None:
    """It is not held, its checksum is looked at at its end, and it resumes."""
    rows = [b'"%s"' % random.Random(number).randbytes(450_000).hex().encode() for number in range(20)]
    stored = zipped([("a", b"\n".join(rows)), ("b", b"7")], method)
    source = MemorySource(stored, chunk=1 << 17)
    out = decode_all(source, ZIP)
    assert out.values == [*rows, b"7"]
    assert source.fetched_bytes < len(stored) + 400_000
    resumed = MemorySource(stored, chunk=1 << 17)
    assert decode_all(resumed, ZIP, start=out.rows[-3][0]).rows == out.rows[-3:]
    if method == zipfile.ZIP_STORED:
        assert resumed.fetched_bytes < 4 << 20
    crc = stored.index(ENTRY) + 16
    forged = decode_all(MemorySource(stored[:crc] + b"xxxx" + stored[crc + 4 :]), ZIP)
    assert forged.error is not None
    assert forged.values == rows[:-1]


def test_small_members_side_by_side_are_one_request() -> None:
    """A GET for each would cost more than what is in them."""
    source = MemorySource(zipped([(f"{number}.json", b"%d\n" % number) for number in range(90)]))
    assert len(decode_all(source, ZIP).rows) == 90
    assert len(source.reads) < 8
