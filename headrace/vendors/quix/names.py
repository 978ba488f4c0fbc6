"""Names of Quix Streams' file sink: those of its objects, and those of its options in a configuration.

A key is `<directory>/<topic>/<partition>/<start offset, 19 digits><extension>`.
"""

import re
from collections.abc import Mapping
from typing import Final

from headrace.names.archive_names import (
    ArchiveName,
    Inexact,
    LayoutName,
    NameElement,
    read_offset,
    read_topic_directories,
    without_prefix,
)
from headrace.options.choices import NameOptions
from headrace.options.given import Problems
from headrace.options.references import ReferenceMissing, References, note_missing

_FILE: Final = re.compile(r"(?P<offset>[0-9]{19})(?P<extension>\.[A-Za-z0-9.]+)")
_TOPIC: Final = re.compile(r"[A-Za-z0-9 ._]+")


def read_name(key: str, options: NameOptions) -> ArchiveName | None:
    """What the key says, or None for a key that this sink does not write."""
    rest = without_prefix(key, options.prefix)
    if rest is None:
        return None
    *directories, file = rest.split("/")
    found = _FILE.fullmatch(file)
    place = read_topic_directories(directories, _TOPIC.fullmatch)
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
    return (Inexact(NameElement.TOPIC, why),)


_LAYOUT: Final = "output.layout"
_OURS: Final = {
    "directory": "aws.s3.prefix",
    "commit.interval": "rotate.age.ms",
    "commit.every": "rotate.records",
}
_MOST_SECONDS: Final = 7 * 24 * 3600


def is_quix(configuration: Mapping[str, str]) -> bool:
    """Whether a configuration has the layout of Quix's sink."""
    layouts = (text for name, text in configuration.items() if name.strip() == _LAYOUT)
    return next(layouts, "").strip().lower() == "quix"


def with_our_names(layer: Mapping[str, str], references: References, problems: Problems) -> dict[str, str]:
    """Return a layer of a configuration with our names in the place of Quix's."""
    found = {name.strip(): text for name, text in layer.items()}
    for theirs, ours in _OURS.items():
        if theirs not in found:
            continue
        if ours in found:
            problems.add(theirs, f"says what {ours} says; keep one of them", found[theirs])
        try:
            text = references.replaced(theirs, found.pop(theirs)).strip()
        except ReferenceMissing as error:
            note_missing(problems, theirs, error)
            continue
        value = _value(theirs, text, problems)
        if value:
            found[ours] = value
    return found


def prefix_of(directory: str) -> str:
    """`aws.s3.prefix` for a `directory` of Quix, whose sink makes a path of it: `.` is none."""
    found = "/".join(one for one in directory.strip("/").split("/") if one != ".")
    return f"{found}/" if found else ""


def _value(name: str, text: str, problems: Problems) -> str:
    """What our option is given; empty where it is not."""
    if name == "directory":
        return prefix_of(text)
    if name == "commit.every":
        if not text.isdecimal():
            problems.add(name, "expected a whole number of records, or 0 for any number", text)
            return ""
        return text
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= _MOST_SECONDS:
        problems.add(name, f"expected a number of seconds above 0 and up to {_MOST_SECONDS:,}", text)
        return ""
    return str(max(round(seconds * 1000), 1))
