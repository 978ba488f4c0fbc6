"""What is known of the objects of archives that are cut, damaged, renamed or mixed."""

from collections.abc import Iterator
from typing import Final

from headrace.formats.content_kind import RowFormat, row_format
from headrace.names.archive_names import ArchiveName, ObjectKind
from tests.headrace.vendors.archive import NAMES, Archive
from tests.headrace.vendors.decoding import plain
from tests.headrace.vendors.restoring import enveloped, wanted_format
from tests.headrace.vendors.test_archive_names import name_of


def values_in(source: Archive) -> Iterator[ArchiveName]:
    """The names of its objects of values."""
    for key in source.objects:
        name = name_of(source, key)
        if name is not None and name.kind is ObjectKind.VALUES and not name.tombstones:
            yield name


def ends_are_told(source: Archive, name: ArchiveName) -> bool:
    """False where the sink puts nothing behind the last value: what is left of it is a value as well."""
    content = plain(source.objects[name.key])
    found = wanted_format(source) or row_format(name, content)
    if found is RowFormat.WHOLE:
        return False
    if source.vendor != "aiven" or found not in {RowFormat.LINES, RowFormat.JSONL}:
        return True
    # Texts, numbers and base64 without an envelope, and columns whose last one may be shorter.
    return found is RowFormat.JSONL and enveloped(source)


ENVELOPED: Final = [
    name
    for name in NAMES
    if name.startswith("lenses-envelope")
    or name
    in {
        "lenses-multi_topic",
        "aiven-csv_all",
        "aiven-jsonl_all",
        "aiven-json_array",
        "aiven-avro_snappy_none",
    }
]
"""Archives whose rows say their own place."""
