"""Objects of archives through the formats and the restore, held against the libraries' own readers."""

import json
import re
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import pytest

from headrace.conversion.archives import ArchiveDecoder
from headrace.formats import DecodeOptions
from headrace.model.columns import RowBatch
from headrace.model.errors import ObjectError
from headrace.model.positions import position_as_dict
from headrace.names.archive_names import ArchiveName, ObjectKind
from ingest.http.rest.rest_offsets import OffsetsReader
from tests.headrace.formats.memory_source import MemorySource
from tests.headrace.options.loading import load_with
from tests.headrace.vendors.archive import NAMES, Archive, archive
from tests.headrace.vendors.decoding import records
from tests.headrace.vendors.restoring import read_object
from tests.headrace.vendors.test_archive_names import name_of
from tests.restore.archive_options import restore_config

_MOMENT: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z")
_DECIMAL: Final = re.compile(r"-?[0-9]+\.[0-9]{2}")


def _decoded(bucket: Archive, key: str) -> list[RowBatch]:
    settings = load_with(restore_config(bucket)).format
    assert settings.restore is not None
    source = MemorySource(bucket.objects[key], name=f"s3://archive/{key}")
    options = DecodeOptions(format=settings, topic="restored")
    decoder = ArchiveDecoder(settings.restore)
    return list(decoder.decode(source, None, key=key, options=options, begin=None, end=None))


def _record(batch: RowBatch, row: int) -> tuple[Any, ...]:
    return (
        None if batch.keys is None else batch.keys.get(row),
        batch.values.get(row),
        () if batch.headers is None else batch.headers[row],
        -1 if batch.timestamps_ms is None else int(batch.timestamps_ms[row]),
    )


@pytest.mark.parametrize("name", NAMES)
def test_an_object_gives_the_records_that_its_layout_reads(name: str) -> None:
    """Key, value, headers and timestamp of each row, and the number of rows that gave no record."""
    bucket = archive(name)
    for key in filter(lambda key: _is_value(name_of(bucket, key)), bucket.objects):
        batches = _decoded(bucket, key)
        expected = read_object(bucket, key)

        found = [_record(batch, row) for batch in batches for row in range(len(batch))]
        for one, each in zip(found, records(expected), strict=True):
            stamp = -1 if each.timestamp is None else each.timestamp
            assert one == (each.key, _like(one[1], each.value), each.headers, stamp)
        assert sum(len(batch.bad) for batch in batches) == len(expected.faults)


def _like(found: bytes | None, expected: bytes | None) -> bytes | None:
    """What was found, where it is the same JSON as expected: the libraries write it in ways of their own."""
    if found is None or expected is None or found == expected:
        return expected
    return found if _plain(json.loads(found)) == _plain(json.loads(expected)) else expected


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, str) and _MOMENT.fullmatch(value):
        return int(datetime.fromisoformat(value).timestamp() * 1000)
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        return float(value)
    return value


def _is_value(name: ArchiveName | None) -> bool:
    return name is not None and name.kind is ObjectKind.VALUES and not name.tombstones


@pytest.mark.parametrize("name", NAMES)
def test_a_position_of_an_archive_can_be_given_over_rest(name: str) -> None:
    """Whatever a task writes into the ledger, a PATCH of offsets takes: the object decides its kind."""
    bucket = archive(name)
    settings = load_with(restore_config(bucket))
    reader = OffsetsReader(
        buckets=("archive",), input_format=settings.format.input_format, options="0123456789abcdef"
    )
    for key in filter(lambda key: _is_value(name_of(bucket, key)), bucket.objects):
        for batch in _decoded(bucket, key):
            place = {"bucket": "archive", "key": key, "etag": "e"}
            offset = {"state": "partial", "size": 1, **position_as_dict(batch.after)}

            (change,) = reader.read([{"partition": place, "offset": offset}])

            assert change.offset is not None
            assert change.offset.position == batch.after


@pytest.mark.parametrize("first", range(3))
def test_no_damaged_footer_ends_the_process(first: int) -> None:
    """Quix's Parquet is asked for its null counts, and pyarrow ends the process at damaged statistics."""
    bucket = archive("quix-new_parquet_flat")
    key, content = max(bucket.objects.items(), key=lambda each: each[0])
    length = int.from_bytes(content[-8:-4], "little")
    ends: set[str] = set()
    for at in range(len(content) - 8 - length + first, len(content) - 8, 3):
        changed = bytearray(content)
        changed[at] ^= 0x01 if at % 2 else 0xFF
        damaged = replace(bucket, objects={key: bytes(changed)})
        try:
            _decoded(damaged, key)
            ends.add("read")
        except ObjectError as error:
            ends.add(type(error).__name__)

    assert "ObjectCorrupt" in ends


_UNDECIDED: Final = "lenses/t/0/000000000007_0_0.json"


def _of_lenses(row: dict[str, object], **options: str) -> list[RowBatch]:
    bare: dict[str, str | None] = {"topic": None, "file.name.template": None, "aws.s3.prefix": "lenses/"}
    settings = load_with({**bare, "input.layout": "lenses", **options}).format
    assert settings.restore is not None
    source = MemorySource(json.dumps(row).encode() + b"\n", name="s3://archive/key")
    decode = ArchiveDecoder(settings.restore).decode
    return list(
        decode(
            source,
            None,
            key=_UNDECIDED,
            options=DecodeOptions(format=settings, topic="t"),
            begin=None,
            end=None,
        )
    )


@pytest.mark.parametrize("row", [{"key": "k", "value": {"a": 1}}, {"value": 1}, {"key": "k"}])
def test_an_envelope_of_key_and_value_alone_is_not_guessed(row: dict[str, object]) -> None:
    """It came back as a value that is the whole envelope, its key null."""
    with pytest.raises(ObjectError, match=r"Set store\.envelope to true or false"):
        _of_lenses(row)


def test_store_envelope_says_what_rows_are() -> None:
    """As the sink had it."""
    row: dict[str, object] = {"key": "k", "value": {"a": 1}}

    (batch,) = _of_lenses(row, **{"store.envelope": "true"})
    assert _record(batch, 0)[:2] == (b"k", b'{"a": 1}')
    (batch,) = _of_lenses(row, **{"store.envelope": "false"})
    assert _record(batch, 0)[:2] == (None, json.dumps(row).encode())
