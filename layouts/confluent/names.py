"""Keys of Confluent's sink: `topics/<topic>/<encoded partition>/<topic>+<partition>+<start offset>.<ext>`."""

import re
from typing import Final

from layouts.names import (
    ArchiveName,
    Inexact,
    LayoutName,
    NamePart,
    ObjectKind,
    directories_of,
    read_offset,
    read_partition,
    without_prefix,
)
from layouts.options import NameOptions

_SPREAD: Final = Inexact(
    NamePart.ORDER,
    "records are spread over directories by a field or a time, so their order between objects may be lost",
)
_TOPIC: Final = r"(?P<topic>[A-Za-z0-9._-]+)"
_TAIL: Final = r"(?P<offset>[0-9]+)(?:\.(?P<side>keys|headers))?(?P<extension>(?:\.[A-Za-z0-9]+)+)"
# Another delimiter is believed only where the directory says the same topic and partition again.
_ANY_DELIMITER: Final = re.compile(
    rf"{_TOPIC}(?P<delimiter>[^A-Za-z0-9/])(?P<partition>[0-9]+)(?P=delimiter){_TAIL}"
)


def read_name(key: str, options: NameOptions) -> ArchiveName | None:
    """What the key says, or None for a key that this sink does not write."""
    rest = without_prefix(key, options.prefix)
    if rest is None:
        return None
    *directories, file = rest.split("/")
    delimiter = re.escape(options.file_delimiter)
    found = re.fullmatch(rf"{_TOPIC}{delimiter}(?P<partition>[0-9]+){delimiter}{_TAIL}", file)
    if found is None:
        return _own_delimiter(key, directories, file)
    # The encoded partition stands between the topic's directory and the file, and is never empty.
    if found["topic"] not in directories[:-1]:
        return None
    encoded = directories[directories.index(found["topic"]) + 1 :]
    return _name(key, found, encoded, "default", tombstones=encoded == [options.tombstone_directory])


def _own_delimiter(key: str, directories: list[str], file: str) -> ArchiveName | None:
    found = _ANY_DELIMITER.fullmatch(file)
    if found is None or found["topic"] not in directories[:-1]:
        return None
    encoded = directories[directories.index(found["topic"]) + 1 :]
    if encoded[-1] != f"partition={int(found['partition'][:10])}":
        return None
    return _name(key, found, encoded, "own delimiter", tombstones=False)


def _name(
    key: str, found: re.Match[str], encoded: list[str], rule: str, *, tombstones: bool
) -> ArchiveName | None:
    partition, offset = read_partition(found["partition"]), read_offset(found["offset"])
    if partition is None or offset is None:
        return None
    # With the default partitioner one directory has all records of the partition.
    values = [each for each in directories_of(encoded) if each[0] != "schema_name"]
    is_whole = tombstones or values == [("partition", str(partition))]
    cut = key.rindex("/") + 1 + found.start("offset") + len(found["offset"])
    return ArchiveName(
        key=key,
        layout=LayoutName.CONFLUENT,
        rule="tombstones" if tombstones else rule,
        topic=found["topic"],
        partition=partition,
        start_offset=offset,
        kind=ObjectKind(found["side"] or "values"),
        tombstones=tombstones,
        directories=directories_of(encoded),
        stem=key[:cut],
        folder="".join(f"{part}/" for part in key.split("/")[: -len(encoded) - 1]),
        extension=found["extension"],
        inexact=() if is_whole else (_SPREAD,),
    )
