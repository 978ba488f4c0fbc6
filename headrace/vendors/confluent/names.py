"""Keys of Confluent's sink: `topics/<topic>/<encoded partition>/<topic>+<partition>+<start offset>.<ext>`.

Each slash is `directory.delim`, each plus `file.delim` of the sink. The prefix of keys (`topics.dir`) may be
anything: what it gives is the topic, which each key has twice.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from headrace.names.archive_names import (
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
from headrace.options.restoring import NameOptions

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
_SLASH: Final = "/"


def read_name(key: str, options: NameOptions) -> ArchiveName | None:
    """What the key says, or None for a key that this sink does not write."""
    rest = without_prefix(key, options.prefix)
    if rest is None:
        return None
    names = list(_names(key, rest, options))
    # Without a slash between them a topic's end may look like a topic: where all records of a partition are
    # in one directory there is no doubt, else the longest one is it.
    return next((name for name in names if not name.inexact), names[0] if names else None)


def _names(key: str, rest: str, options: NameOptions) -> Iterator[ArchiveName]:
    """The names that the key may have, that of the longest topic first."""
    delimiter = options.directory_delimiter
    told = _file_pattern(options.file_delimiter)
    for path, file in _files(rest, delimiter):
        found = told.fullmatch(file)
        is_told = found is not None
        if found is None:
            found = _ANY_DELIMITER.fullmatch(file)
        # The encoded partition stands between the topic's directory and the file, and is never empty.
        place = None if found is None else _place(path, found["topic"], delimiter)
        if found is None or place is None:
            continue
        start, encoded = place
        is_tombstone = encoded == options.tombstone_directory
        if not is_told and encoded != f"partition={int(found['partition'][:10])}":
            continue
        partition, offset = read_partition(found["partition"]), read_offset(found["offset"])
        if partition is None or offset is None:
            continue
        directories = directories_of(encoded.split(delimiter))
        # With the default partitioner one directory has all records of the partition.
        is_whole = is_tombstone or [each for each in directories if each[0] != "schema_name"] == [
            ("partition", str(partition))
        ]
        rule = "default" if is_told else "own delimiter"
        yield ArchiveName(
            key=key,
            layout=LayoutName.CONFLUENT,
            rule="tombstones" if is_tombstone and is_told else rule,
            topic=found["topic"],
            partition=partition,
            start_offset=offset,
            kind=ObjectKind(found["side"] or "values"),
            tombstones=is_tombstone and is_told,
            directories=directories,
            stem=key[: len(key) - len(file) + found.end("offset")],
            folder=f"{options.prefix}{rest[:start]}",
            extension=found["extension"],
            inexact=() if is_whole else (_SPREAD,),
        )


@cache
def _file_pattern(delimiter: str) -> re.Pattern[str]:
    between = re.escape(delimiter)
    return re.compile(rf"{_TOPIC}{between}(?P<partition>[0-9]+){between}{_TAIL}")


def _files(rest: str, delimiter: str) -> Iterator[tuple[str, str]]:
    """Directories and file name of a key; several where a file name may hold the delimiter."""
    if delimiter == _SLASH:
        path, found, file = rest.rpartition(delimiter)
        if found:
            yield path, file
        return
    at = rest.find(delimiter)
    while at >= 0:
        yield rest[:at], rest[at + len(delimiter) :]
        at = rest.find(delimiter, at + 1)


def _place(path: str, topic: str, delimiter: str) -> tuple[int, str] | None:
    """Where the topic's own directory ends, and the encoded partition in it; None where there is none."""
    inside = f"{topic}{delimiter}"
    if path.startswith(inside):
        start = len(inside)
    else:
        at = path.find(f"{delimiter}{inside}")
        if at < 0:
            return None
        start = at + len(delimiter) + len(inside)
    return (start, path[start:]) if start <= len(path) else None
