"""Keys of Headrace's own sink: `<topic>/<partition>/<start offset, 20 digits>.headrace.<extension>`."""

import re
from typing import Final

from layouts.names import ArchiveName, LayoutName, directories_of, read_offset, read_partition, without_prefix
from layouts.options import NameOptions

_FILE: Final = re.compile(
    r"(?P<start>[0-9]{20})(?:-(?P<last>[0-9]{20}))?\.headrace(?P<extension>(?:\.[a-z0-9]+)+)"
)
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_PARTITION: Final = re.compile(r"0|[1-9][0-9]*")


def read_name(key: str, options: NameOptions) -> ArchiveName | None:
    """What the key says, or None for a key that is not of this layout.

    Directories that group records (`region=eu/`) stand before the topic; a last offset may follow the first.
    """
    rest = without_prefix(key, options.prefix)
    if rest is None:
        return None
    *directories, file = rest.split("/")
    found = _FILE.fullmatch(file)
    if found is None or len(directories) < 2:  # noqa: PLR2004  # a topic and a partition
        return None
    topic = directories[-2]
    if not _TOPIC.fullmatch(topic) or not _PARTITION.fullmatch(directories[-1]):
        return None
    partition, start = read_partition(directories[-1]), read_offset(found["start"])
    last = read_offset(found["last"]) if found["last"] else None
    if partition is None or start is None or (found["last"] and (last is None or last < start)):
        return None
    return ArchiveName(
        key=key,
        layout=LayoutName.HEADRACE,
        rule="default",
        topic=topic,
        partition=partition,
        start_offset=start,
        last_offset=last,
        directories=directories_of(directories[:-2]),
        stem=key,
        extension=found["extension"],
    )
