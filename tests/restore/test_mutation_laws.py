"""Any archive, cut, damaged, renamed or mixed with any other: its records or a sentence, and no others."""

from functools import cache
from typing import Any, Final

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headrace.model.columns import RowBatch
from headrace.model.errors import ObjectError
from headrace.model.objects import Route
from headrace.names.archive_names import ArchiveName, LayoutName
from ingest.source.object_selection import object_filter_of
from tests.headrace.vendors.archive import NAMES, archive
from tests.restore.archive_bucket import settings_of
from tests.restore.archive_options import restore_config
from tests.restore.mutated_objects import ENVELOPED, ends_are_told, values_in
from tests.restore.one_object import batches_of
from tests.support.batch_records import records_of
from tests.support.examples import examples

_GZIP: Final = b"\x1f\x8b"
_EXAMPLES: Final = settings(max_examples=examples(75), deadline=None)


@cache
def _objects() -> tuple[tuple[str, ArchiveName], ...]:
    return tuple((name, each) for name in NAMES for each in values_in(archive(name)))


_any_object = st.deferred(lambda: st.sampled_from(_objects()))


def _read(name: str, key: str, content: bytes, **changes: str | None) -> tuple[list[Any], bool]:
    """The records, and whether anything was said of the object or of a row. Nothing else may be raised."""
    found: list[RowBatch] = []
    config = restore_config(archive(name)) | {each.replace("__", "."): to for each, to in changes.items()}
    try:
        found.extend(batches_of(config, key, content))
    except ObjectError as error:
        return records_of(found), bool(str(error).strip())
    return records_of(found), any(batch.bad for batch in found)


@cache
def _whole(name: str, key: str) -> list[Any]:
    return _read(name, key, archive(name).objects[key])[0]


@_EXAMPLES
@given(chosen=_any_object, data=st.data())
def test_cut_anywhere(chosen: tuple[str, ArchiveName], data: st.DataObject) -> None:
    """The first records, and a sentence where something is missing that can be missed."""
    name, each = chosen
    content = archive(name).objects[each.key]
    cut = data.draw(st.integers(0, len(content)), "cut")
    assume(cut or ends_are_told(archive(name), each))
    whole = _whole(name, each.key)
    records, is_said = _read(name, each.key, content[:cut])

    if ends_are_told(archive(name), each):
        assert records == whole[: len(records)]
        assert is_said or len(records) < len(whole) or not content[cut:].strip()
    else:
        assert records[:-1] == whole[: max(0, len(records) - 1)]


@_EXAMPLES
@given(chosen=_any_object, data=st.data())
def test_damaged_anywhere(chosen: tuple[str, ArchiveName], data: st.DataObject) -> None:
    """Nothing but a sentence of the object is raised; where there is a checksum, damage is never passed over.

    That of gzip stands behind all rows, which may have been produced by then (docs/formats.md).
    """
    name, each = chosen
    content = bytearray(archive(name).objects[each.key])
    assume(content)
    for _ in range(data.draw(st.integers(1, 3), "changes")):
        at = data.draw(st.integers(0, len(content) - 1), "at")
        content[at] ^= data.draw(st.integers(1, 255), "bits")
    records, is_said = _read(name, each.key, bytes(content))

    if bytes(content[:2]) == _GZIP == archive(name).objects[each.key][:2]:
        assert is_said or records == _whole(name, each.key)


@_EXAMPLES
@given(name=st.sampled_from(ENVELOPED), data=st.data())
def test_swapped_with_another_object(name: str, data: st.DataObject) -> None:
    """Under the key of another object of the archive no row gives a record of that one's place."""
    names = list(values_in(archive(name)))
    one, other = (data.draw(st.sampled_from(names), each) for each in ("content", "key"))
    assume(_is_elsewhere(one, other, len(_whole(name, one.key))))
    records, is_said = _read(name, other.key, archive(name).objects[one.key])

    assert records == []
    assert is_said or not _whole(name, one.key)


def _is_elsewhere(one: ArchiveName, other: ArchiveName, rows: int) -> bool:
    """Whether the rows of the one say that they are none of the other: Aiven's say offsets alone."""
    if one.layout is LayoutName.AIVEN:
        return (other.start_offset or 0) > (one.start_offset or 0) + rows
    return (one.topic, one.partition) != (other.topic, other.partition)


@_EXAMPLES
@given(told=st.sampled_from(NAMES), other=st.sampled_from(NAMES))
def test_any_two_archives_in_one_bucket(told: str, other: str) -> None:
    """Each key of this sink's is one still; one of the other's that could be is read, or refused in words."""
    assume(archive(told).vendor != archive(other).vendor)
    chosen = object_filter_of(settings_of(archive(told)))
    for key in archive(other).objects:
        if isinstance(chosen.route_or_reason(key), Route):
            _read(told, key, archive(other).objects[key])
    assert all(isinstance(chosen.route_or_reason(each.key), Route) for each in values_in(archive(told)))


@pytest.mark.parametrize("name", NAMES)
def test_auto_gives_the_records_of_the_layout_or_says_that_it_cannot_tell(name: str) -> None:
    """Object by object, without the template that the operator would write down."""
    source = archive(name)
    chosen = object_filter_of(
        settings_of(source, topic=None, input__layout="auto", file__name__template=None)
    )
    for each in values_in(source):
        if not isinstance(chosen.route_or_reason(each.key), Route):
            continue
        records, is_said = _read(
            name, each.key, source.objects[each.key], input__layout="auto", file__name__template=None
        )
        whole = _whole(name, each.key)
        assert records == whole[: len(records)]
        assert is_said or len(records) == len(whole)
