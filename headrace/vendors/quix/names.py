"""Keys of Quix Streams' file sink: `<directory>/<topic>/<partition>/<start offset, 19 digits><extension>`."""

import re
from typing import Final

from headrace.names.archive_names import (
    ArchiveName,
    Inexact,
    LayoutName,
    NamePart,
    read_offset,
    read_topic_directories,
    without_prefix,
)
from headrace.options.restoring import NameOptions

_FILE: Final = re.compile(r"(?P<offset>[0-9]{19})(?P<extension>\.[A-Za-z0-9.]+)")
_TOPIC: Final = re.compile(r"[A-Za-z0-9 ._]+")


def read_name(key: str, options: NameOptions) -> ArchiveName | None:
    """What the key says, or None for a key that this sink does not write."""
    rest = without_prefix(key, options.prefix)
    if rest is None:
        return None
    *directories, file = rest.split("/")
    found = _FILE.fullmatch(file)
    place = read_topic_directories(directories, _TOPIC)
    if found is None or place is None:
        return None
    topic, partition = place
    offset = read_offset(found["offset"])
    if offset is None:
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
