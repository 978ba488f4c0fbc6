"""S3 Inventory: what a manifest may say, and the objects that rows of the three formats name."""

import gzip
import hashlib
import io
import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats.inventory_manifest import InventoryFile, InventoryFormat, parse_manifest
from headrace.model.errors import InvalidConfiguration
from headrace.model.objects import ObjectId, S3Object
from listeners.inventory import inventory_objects
from tests.support.inventory import ALL_VERSIONS, CREATED_MS, KEY, Inventory, InventoryRow, inventory

FORMS = ("CSV", "Parquet", "ORC")


def _objects(made: Inventory, file: int = 0) -> list[S3Object | None]:
    manifest = made.manifest("in")
    data = io.BytesIO(made.objects[made.files[file]])
    return list(inventory_objects(data, manifest, manifest.files[file]))


def test_a_manifest() -> None:
    """What S3 wrote, with the spellings that it has."""
    made = inventory("in", [[InventoryRow(key="a")], [InventoryRow(key="b")]], columns=ALL_VERSIONS)
    manifest = made.manifest("in")
    assert (manifest.source, manifest.bucket, manifest.form) == ("in", "inventories", InventoryFormat.CSV)
    assert manifest.columns[:5] == ("bucket", "key", "versionid", "islatest", "isdeletemarker")
    assert [file.key for file in manifest.files] == made.files
    assert manifest.has_versions
    assert manifest.created == "2026-01-31T12:00:00Z"
    assert manifest.summary.startswith("the inventory of s3://in from 2026-01-31T12:00:00Z: 2 files of CSV (")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sourceBucket": "other"}, "the inventory of s3://other, which is not aws.s3.bucket.name"),
        ({"destinationBucket": "arn:aws:s3:::third"}, "its files are in s3://third, so it is a copy"),
        ({"fileFormat": "Avro"}, "its files are 'Avro'"),
        ({"fileSchema": "Bucket, Key"}, "its rows have no Size, LastModifiedDate, ETag"),
        ({"fileSchema": "Bucket, Key, VersionId, Size, LastModifiedDate, ETag"}, "and not all of them"),
        ({"creationTimestamp": "soon"}, "creationTimestamp 'soon' is no time in milliseconds"),
        ({"files": None}, "it is no manifest of S3 Inventory"),
        ({"files": [{"key": "k", "size": -1, "MD5checksum": "0" * 32}]}, "has no key, size or MD5checksum"),
        ({"files": [{"key": "k", "size": 1, "MD5checksum": "short"}]}, "has no key, size or MD5checksum"),
    ],
)
def test_a_manifest_that_cannot_be_read_is_one_sentence(changes: Mapping[str, Any], sentence: str) -> None:
    """It names the option and the address, and ends in the fix."""
    made = inventory("in", [[InventoryRow(key="a")]], changes=changes)
    with pytest.raises(InvalidConfiguration) as refused:
        made.manifest("in")
    text = str(refused.value)
    assert text.startswith(f"initial.inventory = '{made.url}': ")
    assert sentence in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b"no JSON", "it is not JSON"),
        (b"\xff\xfe", "it is not JSON"),
        (b"[]", "it is no manifest of S3 Inventory"),
        (b'{"sourceBucket": "in"', "it is not JSON"),
        (b" " * (16 * 1024 * 1024 + 1), "which no manifest is"),
    ],
)
def test_other_bytes_are_no_manifest(raw: bytes, sentence: str) -> None:
    """An HTML page, half a file, or a file of gigabytes."""
    digest = hashlib.md5(raw, usedforsecurity=False).hexdigest().encode()
    with pytest.raises(InvalidConfiguration, match=sentence):
        parse_manifest("s3://b/manifest.json", raw, digest, buckets=("in",))


def test_a_checksum_that_differs_is_a_manifest_that_is_not_whole() -> None:
    """S3 writes both; between the two writes they do not fit."""
    made = inventory("in", [[]])
    with pytest.raises(InvalidConfiguration, match=r"and that of manifest\.checksum is 'abc'"):
        parse_manifest(made.url, made.objects[KEY], b"abc", buckets=("in",))


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_objects_as_a_listing_has_them(form: str) -> None:
    """Keys decoded once, ETags without quotes, times in milliseconds; no version."""
    rows = [
        InventoryRow(key="in/a b+c%20é/☃.jsonl", etag="abc-2", size=7, modified_ms=CREATED_MS + 123),
        InventoryRow(key="z", etag='"quoted"', storage_class="GLACIER"),
        InventoryRow(key="no class", storage_class=None),
    ]
    found = _objects(inventory("in", [rows], form=form))
    assert found[0] == S3Object(
        id=ObjectId("in", "in/a b+c%20é/☃.jsonl", "abc-2"),
        size=7,
        last_modified_ms=CREATED_MS + 123,
        storage_class="STANDARD",
    )
    assert found[1] is not None
    assert (found[1].id.etag, found[1].is_archived) == ("quoted", True)
    assert found[2] is not None
    assert found[2].storage_class is None


@pytest.mark.parametrize("form", FORMS)
def test_only_current_versions_that_can_be_read_are_objects(form: str) -> None:
    """Older ones, delete markers and rows without ETag or size are rows without an object."""
    rows = [
        InventoryRow(key="a", version_id="2"),
        InventoryRow(key="a", version_id="1", is_latest=False, etag="old"),
        InventoryRow(key="b", version_id="3", is_marker=True, etag=None, size=None),
        InventoryRow(key="b", version_id="2", is_latest=False),
        InventoryRow(key="c", etag=None),
        InventoryRow(key="d", size=None),
    ]
    found = _objects(inventory("in", [rows], form=form, columns=ALL_VERSIONS))
    assert [seen and (seen.id.key, seen.version_id) for seen in found] == [("a", None), *[None] * 5]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40), max_size=20))
def test_any_key_comes_back_from_csv(keys: list[str]) -> None:
    """Line ends, quotes and NUL are escapes there."""
    found = _objects(inventory("in", [[InventoryRow(key=key) for key in keys]]))
    assert [seen and seen.id.key for seen in found] == keys


@pytest.mark.parametrize("form", FORMS)
def test_a_damaged_file_is_one_sentence(form: str) -> None:
    """Cut anywhere; what its MD5 says is another matter."""
    made = inventory("in", [[InventoryRow(key=f"key {number}") for number in range(50)]], form=form)
    manifest = made.manifest("in")
    whole = made.objects[made.files[0]]
    for end in (1, len(whole) // 2, len(whole) - 9):
        with pytest.raises(InvalidConfiguration) as refused:
            list(inventory_objects(io.BytesIO(whole[:end]), manifest, manifest.files[0]))
        text = str(refused.value)
        assert f"its file '{made.files[0]}' cannot be read as {form} (" in text
        assert "\n" not in text


def _line(text: str) -> Callable[[], bytes]:
    return lambda: gzip.compress(text.encode())


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (_line('"in","a"\n'), "row 1 has 2 columns, and the manifest names 6"),
        (_line('"in","%FF","3","2026-01-31T12:00:00.000Z","e","STANDARD"\n'), "can't decode byte 0xff"),
        (_line('"in","a","many","2026-01-31T12:00:00.000Z","e","STANDARD"\n'), "invalid literal"),
        (_line('"in","a","3","yesterday","e","STANDARD"\n'), "Invalid isoformat string"),
        (_line("x" * 10_000_000), "a row has more than 65,536 characters"),
        (lambda: b'"in","a","3"\n', "Not a gzipped file"),
    ],
)
def test_rows_that_are_none_of_an_inventory(body: Callable[[], bytes], why: str) -> None:
    """Ten megabytes without a line end are not held, though they are some kilobytes of gzip."""
    manifest = inventory("in", [[InventoryRow(key="a")]]).manifest("in")
    with pytest.raises(InvalidConfiguration) as refused:
        list(inventory_objects(io.BytesIO(body()), manifest, InventoryFile("f", 1, "0" * 32)))
    assert why in str(refused.value)


@pytest.mark.parametrize("form", ["Parquet", "ORC"])
def test_a_file_without_the_columns_of_its_manifest(form: str) -> None:
    """The manifest promises versions, the file has none."""
    made = inventory("in", [[InventoryRow(key="a")]], form=form)
    told = inventory("in", [[]], form=form, columns=ALL_VERSIONS).manifest("in")
    with pytest.raises(InvalidConfiguration, match=f"cannot be read as {form}"):
        list(inventory_objects(io.BytesIO(made.objects[made.files[0]]), told, told.files[0]))


@pytest.mark.parametrize("form", ["Parquet", "ORC"])
def test_a_few_thousand_rows_are_held_at_a_time(form: str) -> None:
    """A stripe or row group of a few kilobytes may be hundreds of megabytes: names repeat themselves."""
    made = inventory("in", [[InventoryRow(key="k" * 1000)] * 50_000], form=form)
    manifest = made.manifest("in")
    data = io.BytesIO(made.objects[made.files[0]])
    before = pa.total_allocated_bytes()
    rows = inventory_objects(data, manifest, manifest.files[0])
    assert next(rows) is not None
    assert pa.total_allocated_bytes() - before < 30_000_000
    assert sum(1 for _ in rows) == 49_999


def test_files_of_gzip_in_several_members() -> None:
    """As some writers end them."""
    made = inventory("in", [[InventoryRow(key="a")]])
    manifest = made.manifest("in")
    twice = made.objects[made.files[0]] * 2
    found = list(inventory_objects(io.BytesIO(twice), manifest, manifest.files[0]))
    assert [seen and seen.id.key for seen in found] == ["a", "a"]


def test_an_inventory_without_rows() -> None:
    """Of an empty bucket: no file, or an empty one."""
    assert inventory("in", []).manifest("in").files == ()
    assert _objects(inventory("in", [[]])) == []
    assert json.loads(inventory("in", []).objects[KEY])["files"] == []
