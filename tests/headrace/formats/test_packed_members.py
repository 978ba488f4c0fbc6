"""Rows of zips and tars: those of their members one after another, from any position on."""

import gzip
import io
import tarfile
import zipfile
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats import DecodeOptions
from headrace.formats.packed.members import cuts, decoder_of, packing_of
from headrace.formats.records.key_headers_timestamp import MEMBER_HEADER, POSITION_HEADER
from headrace.model.errors import InvalidObject, ObjectCorrupt
from headrace.model.positions import (
    BytePosition,
    MemberPosition,
    Position,
    position_as_dict,
    position_from_dict,
    position_text,
)
from headrace.options.choices import Compression, InputFormat, ObjectHeaders, Packing
from tests.headrace.formats.archives import COMPRESSIONS, packed, tarred, zipped
from tests.headrace.formats.avro_files import file_of
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.measured import measure
from tests.headrace.formats.memory_source import Decoded, MemorySource, decode_all

JSONL = packed()
TWO = [("a.jsonl", b'{"a":1}\n{"a":2}\n'), ("b.jsonl", b'{"b":1}\n{"b":2}\n{"b":3}')]
TWO_ROWS = [b'{"a":1}', b'{"a":2}', b'{"b":1}', b'{"b":2}', b'{"b":3}']

_NAMES = st.text(
    st.characters(categories=("L", "N"), include_characters="._- "), min_size=1, max_size=12
).map("m{}".format)
_ROW = st.sampled_from([b"1", b'{"a":[1,2]}', b'"x"', b"", b"  ", b"{bad", b'"' + b"y" * 700 + b'"'])
_CONTENT = st.lists(_ROW, max_size=6).flatmap(
    lambda rows: st.sampled_from([b"\n".join(rows), b"".join(row + b"\n" for row in rows)])
)
_MEMBERS = st.lists(st.tuples(_NAMES, _CONTENT), max_size=5)
_ARCHIVES = st.one_of(
    st.tuples(st.just("zip"), st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]), st.just("")),
    st.tuples(
        st.just("tar"),
        st.sampled_from([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT]),
        st.sampled_from(sorted(COMPRESSIONS)),
    ),
)


def _archive(members: list[tuple[str, bytes]], how: tuple[str, int, str]) -> bytes:
    kind, form, compression = how
    if kind == "zip":
        return zipped(members, form)
    return COMPRESSIONS[compression](tarred(members, form))


def _member(position: Position | None) -> MemberPosition:
    assert isinstance(position, MemberPosition)
    return position


def _rest(whole: Decoded, start: Position) -> list[tuple[Position, bytes | None]]:
    return [(position, value) for position, value in whole.rows if position >= start]  # type: ignore[operator]


@given(
    members=_MEMBERS,
    how=_ARCHIVES,
    inner=st.sampled_from(["", "gz", "zst"]),
    chunk=st.sampled_from([300, 1 << 20]),
)
def test_rows_of_an_archive_are_those_of_its_members(
    members: list[tuple[str, bytes]], how: tuple[str, int, str], inner: str, chunk: int
) -> None:
    """Good rows and bad ones, with their positions in the member; and the rest from each position on."""
    name = f"s3://bucket/key.{how[0]}"
    stored = [(text, COMPRESSIONS[inner](content)) for text, content in members]
    source = MemorySource(_archive(stored, how), chunk=chunk, name=name)
    whole = decode_all(source, JSONL)
    alone = [decode_all(MemorySource(content), decode_options(InputFormat.JSONL)) for _, content in members]
    assert whole.values == [value for one in alone for value in one.values]
    assert [_member(position).within for position in whole.order] == [
        position for one in alone for position in one.order
    ]
    assert [row.raw for row in whole.bad] == [row.raw for one in alone for row in one.bad]
    named = [text for (text, _), one in zip(members, alone, strict=True) for _ in one.order]
    assert [_member(position).member for position in whole.order] == named
    for start in {*whole.order, *(batch.after for batch in whole.batches)}:
        again = position_from_dict(position_as_dict(start))
        assert again == start
        rest = decode_all(MemorySource(source.content, chunk=chunk, name=name), JSONL, start=again)
        assert rest.rows == _rest(whole, start)
        assert rest.order == [position for position in whole.order if position >= start]  # type: ignore[operator]


@pytest.mark.parametrize("compression", sorted(COMPRESSIONS))
def test_a_kill_within_the_second_member_resumes_there(compression: str) -> None:
    """The position says the member and the byte of it; what was before is not produced again."""
    source = MemorySource(COMPRESSIONS[compression](tarred(TWO)))
    third = decode_all(source, JSONL).rows[3][0]
    assert third == MemberPosition(1, 1024, "b.jsonl", BytePosition(8))
    assert position_as_dict(third) == {"member": "b.jsonl", "entry": 1, "header": 1024, "byte": 8}
    assert position_text(third) == "byte 8 of the member b.jsonl"
    assert decode_all(MemorySource(source.content), JSONL, start=third).values == TWO_ROWS[3:]


def test_a_plain_tar_is_not_read_again_before_the_position() -> None:
    """The header's byte is where a tar that is not compressed continues."""
    content = tarred([("a", b'"' + b"x" * 3_000_000 + b'"'), ("b", b"1\n2\n")])
    start = decode_all(MemorySource(content), packed(record_max_bytes=1 << 22)).rows[-1][0]
    source = MemorySource(content)
    assert decode_all(source, JSONL, start=start).values == [b"2"]
    assert source.fetched_bytes < 100_000


@pytest.mark.parametrize("shape", [{"entry": 1}, {"entry": -1, "header": 0, "member": "a", "byte": 0}])
def test_what_is_no_position_of_a_member(shape: dict[str, Any]) -> None:
    """A ledger entry of another shape is not taken for one."""
    with pytest.raises(ValueError, match="not a position"):
        position_from_dict(shape)


@pytest.mark.parametrize("content", [zipped(TWO), tarred(TWO)])
def test_a_position_of_another_kind_is_refused(content: bytes) -> None:
    """A byte of an object says nothing of an archive; a place where no member is, neither."""
    for start in (BytePosition(4), MemberPosition(1, 7, "b.jsonl", BytePosition(0))):
        out = decode_all(MemorySource(content), JSONL, start=start)
        assert out.error is not None
        assert not out.rows


def test_headers_name_the_member() -> None:
    """`record.headers=source` has the member's name and the position in it."""
    options = packed(headers=ObjectHeaders())
    batch = decode_all(MemorySource(zipped(TWO)), options).batches[-1]
    assert batch.headers is not None
    assert batch.headers[-1] == (
        (POSITION_HEADER, b'{"member":"b.jsonl","entry":1,"header":52,"byte":16}'),
        (MEMBER_HEADER, b"b.jsonl"),
    )


def _parquet(count: int) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"a": list(range(count))}), out)
    return out.getvalue()


def _avro(count: int) -> bytes:
    schema: Any = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}
    return file_of(schema, [{"a": number} for number in range(count)], per_block=1)


EACH_FORMAT = [
    pytest.param(InputFormat.JSON, b"[1, 2]", [b"1", b"2"], id="json"),
    pytest.param(InputFormat.CSV, b"a,b\n1,2\n3,4\n", [b'{"a":"1","b":"2"}', b'{"a":"3","b":"4"}'], id="csv"),
    pytest.param(InputFormat.TEXT, b"x\ny", [b"x", b"y"], id="text"),
    pytest.param(InputFormat.BYTES, b"\x00" * 5000, [b"\x00" * 4096, b"\x00" * 904], id="bytes"),
    pytest.param(InputFormat.AVRO, _avro(2), [b'{"a":0}', b'{"a":1}'], id="avro"),
    pytest.param(InputFormat.PARQUET, _parquet(2), [b'{"a":0}', b'{"a":1}'], id="parquet"),
]


@pytest.mark.parametrize("how", ["zip", "tar", "tar.gz", "gz in zip", "gz in tar.gz"])
@pytest.mark.parametrize(("input_format", "content", "rows"), EACH_FORMAT)
def test_members_of_each_format(
    input_format: InputFormat, content: bytes, rows: list[bytes], how: str
) -> None:
    """Twice the same member: its rows twice, resumable at each. A Parquet file is never compressed."""
    if how.startswith("gz"):
        if input_format is InputFormat.PARQUET:
            return
        content = gzip.compress(content)
    members = [("x/a", content), ("x/b", content)]
    archive = zipped(members) if how.endswith("zip") else tarred(members)
    stored = gzip.compress(archive) if how.endswith(".gz") else archive
    whole = decode_all(MemorySource(stored), packed(input_format))
    assert whole.values == rows * 2
    for start, _ in whole.rows:
        assert decode_all(MemorySource(stored), packed(input_format), start=start).rows == _rest(whole, start)


def test_auto_reads_each_member_as_what_it_is() -> None:
    """By its first bytes, or its name."""
    members = [
        ("a.csv", b"a\n1\n"),
        ("b.json", b"[2]"),
        ("c", b'{"c":3}\n'),
        ("d.parquet", _parquet(1)),
        ("e.log.gz", gzip.compress(b"[4\n")),
    ]
    rows = [b'{"a":"1"}', b"2", b'{"c":3}', b'{"a":0}', b"[4"]
    for content in (zipped(members), tarred(members)):
        assert decode_all(MemorySource(content), packed(InputFormat.AUTO)).values == rows


@pytest.mark.parametrize("content", [b"1\n2", gzip.compress(b"1\n2"), b""])
@pytest.mark.parametrize("kind", [Packing.ZIP, Packing.TAR, Packing.AUTO])
def test_other_objects_are_read_as_they_are(content: bytes, kind: Packing) -> None:
    """With their own positions, and cut as without the option."""
    options = packed(kind=kind)
    plain = decode_options(InputFormat.JSONL)
    assert decode_all(MemorySource(content), options).rows == decode_all(MemorySource(content), plain).rows


@pytest.mark.parametrize(
    ("kind", "content", "found"),
    [
        (Packing.ZIP, zipped(TWO), Packing.ZIP),
        (Packing.ZIP, tarred(TWO), None),
        (Packing.TAR, zipped(TWO), None),
        (Packing.TAR, gzip.compress(tarred(TWO)), Packing.TAR),
        (Packing.AUTO, zipped([]), Packing.ZIP),
        (Packing.AUTO, b'{"a":1}\n' * 100, None),
        (Packing.AUTO, b"\x00" * 10240, None),
    ],
)
def test_which_archives_are_opened(kind: Packing, content: bytes, found: Packing | None) -> None:
    """Those that the option names; the others are refused as before."""
    options = packed(kind=kind)
    assert packing_of(MemorySource(content), options.format) is found
    if found is not None:
        assert cuts(MemorySource(content), 4, options=options) is None


def test_lines_next_to_archives_are_cut() -> None:
    """The option costs objects that are no archives nothing."""
    source = MemorySource(b"1\n" * 1000)
    assert cuts(source, 2, options=JSONL) == (0, 1000, 2000)
    assert cuts(source, 2, options=packed(InputFormat.JSON)) is None


def test_without_the_option_archives_are_refused() -> None:
    """As they always were."""
    options = decode_options(InputFormat.JSONL)
    assert decoder_of(options.format) is not decoder_of(JSONL.format)
    for content in (zipped(TWO), tarred(TWO), gzip.compress(tarred(TWO))):
        with pytest.raises(InvalidObject, match="archive") as caught:
            decode_all(MemorySource(content), options)
        assert caught.value.reason == "unsupported"
        assert "Set input.archive=auto to read its members" in str(caught.value)


def test_an_empty_tar_is_known_by_its_name() -> None:
    """It has nothing but zeros."""
    assert decode_all(MemorySource(b"\x00" * 10240, name="s3://b/a.tar"), JSONL).rows == []


NOISE = [
    ("__MACOSX/._a.json", b"\x00\x05\x16\x07"),
    ("x/._a.json", b"\x00\x05\x16\x07\x00\x02"),
    ("x/.DS_Store", b"\x00\x00\x00\x01Bud1"),
    ("x/", b""),
    ("empty.json", b""),
    ("._mine.json", b"7\n"),
    ("./y/a.json", b"8\n"),
]


@pytest.mark.parametrize("archive", [zipped(NOISE), tarred(NOISE)])
def test_what_has_no_rows_is_passed_over(archive: bytes) -> None:
    """Folders, empty files, and what macOS adds; a file that only looks like one of these is read."""
    out = decode_all(MemorySource(archive), JSONL)
    assert out.values == [b"7", b"8"]
    assert _member(out.rows[1][0]).member == "y/a.json"


@pytest.mark.parametrize("archive", [zipped, tarred])
def test_globs_choose_members(archive: Any) -> None:
    """Of the others nothing is looked at but their names; positions count them."""
    content = archive([("../no", b"x"), ("a/x.json", b"1"), ("a/x.txt", b"no"), ("b.JSON", b"2")])
    out = decode_all(MemorySource(content), packed(members=("*.json", "*.JSON")))
    assert [_member(position).entry for position, _ in out.rows] == [1, 3]
    assert out.values == [b"1", b"2"]


def _read_into(rows: list[bytes | None], source: MemorySource, options: DecodeOptions) -> None:
    for batch in decoder_of(options.format)(source, None, options=options):
        rows += batch.values.each(0, len(batch))


@pytest.mark.parametrize("archive", [zipped, tarred])
@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("/etc/a.json", b"1", "has an absolute path"),
        ("C:\\a.json", b"1", "has an absolute path"),
        ("\\\\host\\a.json", b"1", "has an absolute path"),
        ("a/../../b.json", b"1", "has a path with .."),
        ("a\\..\\b.json", b"1", "has a path with .."),
        ("x" * 5000, b"1", "has a name of more than 4,096 bytes"),
        ("b.zip", zipped(TWO), "is a zip archive, which is not read within an archive"),
        ("b.tar", tarred(TWO), "is a tar archive, which is not read within an archive"),
        ("b.tgz", gzip.compress(tarred(TWO)), "is a tar archive within gzip"),
        ("b.gz", gzip.compress(gzip.compress(b"1")), "is gzip within gzip"),
        ("b.Z", b"\x1f\x9d\x90", "is compress"),
    ],
)
def test_what_is_not_read_of_an_archive(archive: Any, name: str, content: bytes, words: str) -> None:
    """A sentence with the object, the member, what it is, and what to do."""
    source = MemorySource(archive([("good.json", b"1"), (name, content)]), name="s3://b/k")
    rows: list[bytes | None] = []
    with pytest.raises(InvalidObject) as caught:
        _read_into(rows, source, JSONL)
    assert caught.value.reason == "member_refused"
    assert str(caught.value).startswith("s3://b/k!/")
    assert words in str(caught.value)
    assert "have input.archive.members name the others" in str(caught.value)
    assert rows in ([], [b"1"])


def test_archives_within_are_bytes_as_any_others() -> None:
    """With `input.format=bytes` nothing is looked at."""
    content = zipped(TWO)
    for compression in (Compression.AUTO, Compression.NONE):
        options = packed(InputFormat.BYTES, compression=compression)
        out = decode_all(MemorySource(tarred([("a.zip", content)])), options)
        assert b"".join(value or b"" for value in out.values) == content


def test_compression_none_ships_members_as_they_are_stored() -> None:
    """As it does of objects."""
    content = gzip.compress(b"1")
    options = packed(InputFormat.BYTES, compression=Compression.NONE)
    assert decode_all(MemorySource(zipped([("a", content)])), options).values == [content]
    options = replace(options, format=replace(options.format, compression=Compression.AUTO))
    assert decode_all(MemorySource(zipped([("a", content)])), options).values == [b"1"]


def test_a_bad_row_is_named_with_its_member() -> None:
    """Its position has the member."""
    (bad,) = decode_all(MemorySource(zipped([("a", b"1\n"), ("b", b"2\n{\n3\n")])), JSONL).bad
    assert _member(bad.position).member == "b"
    assert _member(bad.position).within == BytePosition(2)
    assert _member(bad.after).within == BytePosition(4)


def test_a_member_that_its_format_refuses_refuses_the_object() -> None:
    """With what to do about it, after the rows before it."""
    out: list[bytes | None] = []
    options = packed(InputFormat.AUTO)
    source = MemorySource(tarred([("a.json", b"{}"), ("README", b"Hello")]))
    with pytest.raises(
        InvalidObject, match=r"key!/README: neither .* have input\.archive\.members"
    ) as caught:
        _read_into(out, source, options)
    assert caught.value.reason == "unknown_format"
    assert out == [b"{}"]


def test_large_parquet_has_to_be_stored_without_compression() -> None:
    """It is read by ranges; what is small is held."""
    table = pa.table({"a": [str(number) * 900_000 for number in range(10)] * 2})
    out = io.BytesIO()
    pq.write_table(table, out, compression="none", use_dictionary=False)
    content = out.getvalue()
    assert len(content) > 16 << 20
    for input_format in (InputFormat.PARQUET, InputFormat.AUTO):
        options = packed(input_format)
        for archive in (zipped([("a", content)]), gzip.compress(tarred([("a", content)]), 1)):
            with pytest.raises(InvalidObject, match="is Parquet in a compressed archive"):
                decode_all(MemorySource(archive), options)
        for archive in (zipped([("a", content)], zipfile.ZIP_STORED), tarred([("a", content)])):
            assert len(decode_all(MemorySource(archive), options).values) == 20


@pytest.mark.parametrize("archive", [zipped, tarred])
def test_bounds(archive: Any) -> None:
    """More entries, or more bytes, than an archive may have, and no more than it may."""
    content = archive([("a", b"1\n"), ("b", b"2\n")])
    size = 2 * 2 if archive is zipped else 512 + 512 + 512 + 2
    assert decode_all(MemorySource(content), packed(max_members=2, max_bytes=size)).values == [b"1", b"2"]
    for options, option in ((packed(max_members=1), "members"), (packed(max_bytes=size - 1), "bytes")):
        with pytest.raises(InvalidObject, match=rf"\(input\.archive\.max\.{option}\)") as caught:
            decode_all(MemorySource(content), options)
        assert caught.value.reason == "archive_too_large"


def _bomb() -> bytes:
    return bytes(65 << 20)


@pytest.mark.parametrize(
    "archive",
    [
        pytest.param(lambda: zipped([("a", _bomb())], level=9), id="zip"),
        pytest.param(lambda: gzip.compress(tarred([("a", _bomb())])), id="tar.gz"),
        pytest.param(lambda: zipped([("a.gz", gzip.compress(_bomb()))]), id="gz in zip"),
        pytest.param(lambda: tarred([("a.gz", gzip.compress(_bomb()))]), id="gz in tar"),
    ],
)
def test_bombs_are_refused(archive: Any) -> None:
    """What expands to far more than it is stored as, before it is expanded or soon after."""
    with pytest.raises(InvalidObject, match=r"expands to more than 250 times its .* bytes") as caught:
        decode_all(MemorySource(archive()), packed(InputFormat.BYTES))
    assert caught.value.reason == "archive_too_large"


@pytest.mark.parametrize("archive", [zipped, tarred])
def test_an_archive_cut_anywhere_is_damage(archive: Any) -> None:
    """Its upload may have been torn: what was whole before is produced, once, and nothing after."""
    content = archive(TWO)
    for length in range(600 if archive is tarred else 4, len(content), 37):
        if archive is tarred and length > 3 * 512 + 512:
            break  # from the first zeros on it is whole
        out = decode_all(MemorySource(content[:length]), packed())
        assert out.error is not None, length
        assert out.values == TWO_ROWS[: len(out.values)]


@pytest.mark.parametrize("kind", ["", "gz", "zst"])
def test_damage_in_the_middle_gives_the_rows_before(kind: str) -> None:
    """Of a tar that is torn within its second member."""
    members = [("a", b"1\n"), ("b", b"".join(b"%d\n" % number**9 for number in range(20_000)))]
    content = COMPRESSIONS[kind](tarred(members))
    out = decode_all(MemorySource(content[: len(content) // 2]), packed())
    assert isinstance(out.error, ObjectCorrupt)
    assert out.values[:3] == [b"1", b"0", b"1"]
    assert 2_000 < len(out.values) < 15_000
    rest = decode_all(MemorySource(content), packed(), start=out.after)
    assert len(out.values) + len(rest.values) == 20_001


_LINES = b'"%s"\n' % (b"x" * 4093) * (100 << 8)


def _large(kind: str) -> MemorySource:
    """Two members of 100 MiB each, of which little is stored; made in the process that is measured."""
    members = [("a", _LINES), ("b.gz" if kind == "gz in zip" else "b", _LINES)]
    if kind == "tar.gz":
        return MemorySource(gzip.compress(tarred(members), 1))
    if kind == "gz in zip":
        members = [(name, gzip.compress(content, 1)) for name, content in members]
    return MemorySource(zipped(members))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["zip", "tar.gz", "gz in zip"])
def test_a_member_is_never_held_whole(kind: str) -> None:
    """However large: what is held is bounded."""
    found = measure(partial(_large, kind), packed(max_ratio=1_000_000), enough_mib=60)

    assert (found.rows, found.error) == (2 * (100 << 8), None)
    assert found.grown_mib < 60
