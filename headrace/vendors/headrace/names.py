"""Keys of Headrace's own sink: `<topic>/<partition>/<start offset, 20 digits>.headrace.<extension>`.

Objects of keys and headers next to that of the values have `.keys` or `.headers` before the extension.
"""

import re
from typing import Final

from headrace.formats.content_kind import RowShape
from headrace.names.archive_names import (
    ArchiveName,
    Inexact,
    LayoutName,
    NameElement,
    ObjectKind,
    directories_of,
    is_topic_name,
    read_offset,
    read_topic_directories,
    without_prefix,
)
from headrace.options.choices import NameOptions

# Of a row that is an envelope.
MEMBERS: Final = frozenset(
    {
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestamp_type",
        "key",
        "key_base64",
        "value",
        "value_base64",
        "headers",
    }
)
# What a value has no reason to have: each of these by itself, or where the record was.
_MARKS: Final = frozenset({"key_base64", "value_base64", "timestamp_type"})
PLACE: Final = ("topic", "partition", "offset")
"""Members that say together where a record was."""
# The name of rows in Avro; rows that are values have that of their own schema.
_RECORD: Final = "headrace.Record"
# The same where keys or values have types with that very name.
_ROW: Final = re.compile(r"headrace(?:\.row)*\.Record")
_FILE: Final = re.compile(
    r"(?P<start>[0-9]{20})(?:-(?P<last>[0-9]{20}))?\.headrace"
    r"(?P<tail>(?:\.(?P<side>keys|headers))?(?P<extension>(?:\.[a-z0-9]+)+))"
)


_SPREAD: Final = Inexact(
    NameElement.ORDER,
    "records are spread over directories that group them, so their order between objects may be lost",
)
# The directory of a topic that was made again has all of its records.
_LIFE: Final = "topic_id"


def is_envelope(shape: RowShape) -> bool:
    """True where rows of this shape are envelopes and nothing else."""
    if not shape.members <= MEMBERS:
        return False
    return shape.record == _RECORD or shape.members.issuperset(PLACE) or not _MARKS.isdisjoint(shape.members)


def is_placed(shape: RowShape) -> bool:
    """True where rows of this shape are envelopes that say where each record was."""
    return is_envelope(shape) and shape.members.issuperset(PLACE)


def is_written(shape: RowShape) -> bool:
    """True where rows of Avro have the name that our sink gives them; of others nothing is known."""
    return not shape.record or _ROW.fullmatch(shape.record) is not None


def is_undecided(shape: RowShape) -> bool:
    """True where rows may be envelopes of some fields as well as values with such members."""
    return bool(shape.members) and shape.members <= MEMBERS and not is_envelope(shape)


def read_name(key: str, options: NameOptions) -> ArchiveName | None:
    """What the key says, or None for a key that is not of this layout.

    Directories that group records (`region=eu/`) are before the topic; a last offset may follow the first.
    """
    rest = without_prefix(key, options.prefix)
    if rest is None:
        return None
    *directories, file = rest.split("/")
    found = _FILE.fullmatch(file)
    place = read_topic_directories(directories, is_topic_name)
    if found is None or place is None:
        return None
    topic, partition = place
    groups = directories_of(directories[:-2])
    start = read_offset(found["start"])
    last = read_offset(found["last"]) if found["last"] else None
    if start is None or (found["last"] and (last is None or last < start)):
        return None
    return ArchiveName(
        key=key,
        layout=LayoutName.HEADRACE,
        rule="default",
        topic=topic,
        partition=partition,
        start_offset=start,
        last_offset=last,
        kind=ObjectKind(found["side"] or "values"),
        directories=groups,
        stem=key.removesuffix(found["tail"]),
        # The partition's directory and the file are what keys of a topic differ in.
        folder=key.removesuffix(f"{directories[-1]}/{file}"),
        extension=found["extension"],
        inexact=(_SPREAD,) if any(group != _LIFE for group, _ in groups) else (),
    )
