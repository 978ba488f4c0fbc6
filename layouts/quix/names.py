"""Keys of Quix Streams' file sink: `<directory>/<topic>/<partition>/<start offset, 19 digits><extension>`."""

import re
from typing import Final

from layouts.names import (
    ArchiveName,
    Inexact,
    LayoutName,
    NamePart,
    read_offset,
    read_partition,
    without_prefix,
)
from layouts.options import NameOptions

_FILE: Final = re.compile(r"(?P<offset>[0-9]{19})(?P<extension>\.[A-Za-z0-9.]+)")
_TOPIC: Final = re.compile(r"[A-Za-z0-9 ._]+")
_PARTITION: Final = re.compile(r"0|[1-9][0-9]*")


def read_name(key: str, options: NameOptions) -> ArchiveName | None:
    """What the key says, or None for a key that this sink does not write."""
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
    partition, offset = read_partition(directories[-1]), read_offset(found["offset"])
    if partition is None or offset is None:
        return None
    return ArchiveName(
        key=key,
        layout=LayoutName.QUIX,
        rule="default",
        topic=topic,
        partition=partition,
        start_offset=offset,
        stem=key,
        extension=found["extension"],
        inexact=_altered(topic),
    )


def _altered(topic: str) -> tuple[Inexact, ...]:
    if "_" not in topic:
        return ()
    why = (
        f"the sink writes _ for any other sign, so the topic {topic} may have had another name; "
        f"restore.topic.map={topic}:<name> says which"
    )
    return (Inexact(NamePart.TOPIC, why),)
