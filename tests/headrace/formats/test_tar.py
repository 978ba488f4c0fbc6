"""Tars by tar's own tools and by hand: long names, other types, sizes, torn and joined ones."""

import gzip
import io
import random
import tarfile
from typing import Any

import pytest

from headrace.model.errors import InvalidObject
from headrace.model.positions import MemberPosition, Position
from headrace.options.choices import InputFormat, Packing
from tests.headrace.formats.archives import COMPRESSIONS, packed, tar_of, tarred
from tests.headrace.formats.memory_source import Decoded, MemorySource, decode_all

TAR = packed()
BLOCK = 512


def _read(content: bytes, **changes: Any) -> Decoded:
    return decode_all(MemorySource(content), packed(**changes))


def _names(positions: list[Position]) -> list[str]:
    assert all(isinstance(position, MemberPosition) for position in positions)
    return [position.member for position in positions if isinstance(position, MemberPosition)]


def _header(name: bytes, kind: bytes = b"0", size: bytes = b"2", *, magic: bytes = b"ustar\x0000") -> bytes:
    block = bytearray(BLOCK)
    block[: len(name)] = name
    block[124 : 124 + len(size)] = size
    block[148:156] = b" " * 8
    block[156:157] = kind
    block[257 : 257 + len(magic)] = magic
    block[148:156] = b"%06o\x00 " % sum(block)
    return bytes(block)


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % BLOCK)


END = bytes(2 * BLOCK)
ONE = _padded(b"1\n")


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
@pytest.mark.parametrize("name", ["a/" * 120 + "b.json", "é" * 90, "x" * 99, "x" * 100, "x" * 101])
def test_long_names(name: str, form: int) -> None:
    """In an extended header of pax or GNU; the position begins at that header."""
    content = tarred([("first", b"0\n"), (name, b"1\n2\n")], form)
    out = _read(content)
    assert _names([position for position, _ in out.rows]) == ["first", name, name]
    start = out.rows[2][0]
    rest = decode_all(MemorySource(content), TAR, start=start)
    assert rest.rows == out.rows[2:]


def test_a_name_over_two_fields() -> None:
    """Of ustar."""
    name = "d" * 120 + "/" + "f" * 90
    assert _names([position for position, _ in _read(tarred([(name, b"1")], tarfile.USTAR_FORMAT)).rows]) == [
        name
    ]


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_a_name_that_is_not_utf_8(form: int) -> None:
    """Its bytes are shown; the row is read."""
    content = tarred([("caf\xe9.json", b"1")], form, encoding="latin-1")
    assert _names([position for position, _ in _read(content).rows]) == ["caf\\xe9.json"]


def test_the_same_name_twice() -> None:
    """Both are read: `tar -r` adds, and which of them is meant is not for us to say."""
    out = _read(tarred([("a", b"1"), ("b", b"2"), ("a", b"3")]))
    assert out.values == [b"1", b"2", b"3"]
    assert _names([position for position, _ in out.rows]) == ["a", "b", "a"]


OTHERS = [
    (tarfile.SYMTYPE, "is a symbolic link"),
    (tarfile.LNKTYPE, "is a hard link"),
    (tarfile.CHRTYPE, "is a device"),
    (tarfile.BLKTYPE, "is a device"),
    (tarfile.FIFOTYPE, "is a named pipe"),
    (tarfile.CONTTYPE + b"", None),
    (tarfile.DIRTYPE, None),
]


@pytest.mark.parametrize(("kind", "words"), OTHERS)
def test_other_types(kind: bytes, words: str | None) -> None:
    """A sentence, or nothing where they have no rows; left out by name they are passed over."""
    info = tarfile.TarInfo("other")
    info.type, info.linkname = kind, "../../etc/passwd"
    content = tarred([("a.json", b"1")])[: 2 * BLOCK] + tar_of(info)[:BLOCK] + tarred([("b.json", b"2")])
    assert _read(content, members=("*.json",)).values == [b"1", b"2"]
    if words is None:
        assert _read(content).values == [b"1", b"2"]
        return
    with pytest.raises(InvalidObject, match=f"key!/other: the member {words}") as caught:
        _read(content)
    assert caught.value.reason == "member_refused"


def test_sparse_files() -> None:
    """GNU's and pax's are refused; left out by name their maps are passed over."""
    sparse = bytearray(_header(b"s", b"S"))
    sparse[482] = 1
    sparse[148:156] = b" " * 8
    sparse[148:156] = b"%06o\x00 " % sum(sparse)
    more = bytes(504) + b"\x01" + bytes(7)
    gnu = bytes(sparse) + more + bytes(BLOCK) + ONE
    records = b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n21 GNU.sparse.name=s\n"
    pax = _header(b"x", b"x", b"%o" % len(records)) + _padded(records) + _header(b"GNUSparseFile/s") + ONE
    for content in (gnu, pax):
        whole = content + _header(b"a.json") + ONE + END
        assert _read(whole, members=("*.json",)).values == [b"1"]
        with pytest.raises(InvalidObject, match="key!/s: the member is a sparse file"):
            _read(whole)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(_header(b"a", b"\x00", magic=b"") + ONE + END, id="v7"),
        pytest.param(_header(b"d/", b"\x00", b"0", magic=b"") + _header(b"a") + ONE + END, id="v7 folder"),
        pytest.param(_header(b"a", size=b"\x80" + bytes(10) + b"\x02") + ONE + END, id="base 256"),
        pytest.param(_header(b"label", b"V", b"0") + _header(b"a") + ONE + END, id="label"),
        pytest.param(_header(b"a") + ONE + bytes(BLOCK), id="one block of zeros"),
        pytest.param(_header(b"a") + ONE + bytes(10240), id="many blocks of zeros"),
        pytest.param(
            _header(b"g", b"g", b"%o" % 15) + _padded(b"15 comment=abc\n") + _header(b"a") + ONE + END,
            id="a comment for all, as git archive writes",
        ),
        pytest.param(
            _header(b"x", b"x", b"%o" % 9) + _padded(b"9 size=2\n") + _header(b"a", size=b"7") + ONE + END,
            id="a size in pax",
        ),
    ],
)
def test_what_tars_are_like(content: bytes) -> None:
    """One member, `a`, with one row; plain or compressed."""
    for compress in COMPRESSIONS.values():
        out = _read(compress(content))
        assert out.values == [b"1"], out.error
        assert _names([out.rows[0][0]]) == ["a"]


@pytest.mark.parametrize("word", ["custard", "ustar", "ustar 00", "ustar  ", "ustar\\t"])
@pytest.mark.parametrize("packing", [Packing.NONE, Packing.AUTO])
def test_a_text_with_a_tars_magic_is_none(word: str, packing: Packing) -> None:
    """The word may be anywhere in a line of JSON, at byte 257, too."""
    line = b"[%s" % (b" " * (255 - word.index("u"))) + b'"%s"]' % word.encode()
    assert line.index(b"ustar") == 257
    content = b"\n".join([line, b"1", b" " * 600 + b"2"])
    options = packed(InputFormat.JSONL, kind=packing)
    for compress in COMPRESSIONS.values():
        out = decode_all(MemorySource(compress(content)), options)
        assert (len(out.values), out.bad, out.error) == (3, [], None)


def test_tars_one_after_another() -> None:
    """`cat a.tar b.tar`: what follows the end of one is not lost."""
    out = _read(tarred([("a", b"1")]) + tarred([("b", b"2")]))
    assert out.values == [b"1", b"2"]


GOOD = _header(b"a") + ONE


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(GOOD, "is cut short", id="no end"),
        pytest.param(GOOD + _header(b"b"), "is cut short", id="no content"),
        pytest.param(GOOD + _header(b"b") + b"2", "is cut short", id="not all of a block"),
        pytest.param(GOOD + END + b"x", "is cut short", id="a byte after the end"),
        pytest.param(
            GOOD + b"x" * BLOCK + END, "at byte 1,024: a header has another checksum", id="no header"
        ),
        pytest.param(
            GOOD + _header(b"b", size=b"x") + END, "a header has a size that is no number", id="no size"
        ),
        pytest.param(
            GOOD + _header(b"x", b"x", b"5") + _padded(b"9 abc") + _header(b"b") + ONE + END,
            "a record without an end",
            id="pax",
        ),
        pytest.param(
            GOOD + _header(b"x", b"x", b"%o" % 9) + _padded(b"9 size=x\n") + _header(b"b") + ONE + END,
            "has a size that is no number",
            id="pax size",
        ),
        pytest.param(
            GOOD + _header(b"L", b"L", b"77777777") + END, "is larger than any", id="an endless name"
        ),
        pytest.param(GOOD + _header(b"x", b"x", b"0"), "is cut short", id="nothing after pax"),
        pytest.param(
            GOOD + _header(b"g", b"g", b"%o" % 9) + _padded(b"9 path=b\n") + ONE + END,
            "a header for all entries has a name",
            id="a name for all",
        ),
    ],
)
def test_damage(content: bytes, words: str) -> None:
    """The rows before are produced; the sentence says what, and where."""
    for compress in COMPRESSIONS.values():
        out = _read(compress(content))
        assert out.values == [b"1"]
        assert out.error is not None
        assert words in str(out.error)
        assert "Upload the object again." in str(out.error)


def test_damage_of_the_compression_after_the_last_member() -> None:
    """A checksum at the end is looked at, though no member needs it."""
    content = bytearray(gzip.compress(tarred([("a", b"1\n" * 50_000)])))
    content[-6] ^= 1
    assert _read(bytes(content)).error is not None


def test_a_compressed_tar_is_fetched_once() -> None:
    """Members that are compressed themselves, or larger than what is held, do not have it read again."""
    rows = [b'"%s"' % random.Random(number).randbytes(450_000).hex().encode() for number in range(6)]
    large = b"\n".join(rows)
    archive = gzip.compress(tarred([("a", large), ("b.gz", gzip.compress(large, 1))]), 1)
    source = MemorySource(archive, chunk=65536)
    assert decode_all(source, TAR).values == rows * 2
    # The head is looked at once more, to see that it is a tar.
    assert source.fetched_bytes < source.size + (1 << 20)


def test_what_is_not_chosen_of_a_plain_tar_is_not_fetched() -> None:
    """It is passed over by another request."""
    source = MemorySource(tarred([("no", bytes(20 << 20)), ("a.json", b"1")]), chunk=65536)
    assert decode_all(source, packed(members=("*.json",))).values == [b"1"]
    assert source.fetched_bytes < 4 << 20


def test_the_tools_tar_is_read(tmp_path: Any) -> None:
    """What Python's own module adds from a folder."""
    folder = tmp_path / "in"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a.json").write_bytes(b"1\n2\n")
    (folder / "b.json").write_bytes(b"3\n")
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        archive.add(folder, ".")
    assert sorted(value or b"" for value in _read(out.getvalue()).values) == [b"1", b"2", b"3"]
