"""Keys of Lenses' sink. The offset in a name is that of the object's last record."""

import re
from typing import Final

from headrace.names.archive_names import (
    ArchiveName,
    Inexact,
    LayoutName,
    NamePart,
    directories_of,
    read_offset,
    read_partition,
    without_prefix,
)
from headrace.options.restoring import NameOptions

# Of a row that is an envelope.
MEMBERS: Final = frozenset({"key", "value", "headers", "metadata", "keyIsArray", "valueIsArray"})
# One of these says that it is an envelope and not a value that happens to have a key.
TELLING: Final = frozenset({"metadata", "keyIsArray", "valueIsArray"})
_EXTENSION: Final = r"\.(?P<extension>json|gz|avro|parquet|csv|text|bytes)"
_TOPIC: Final = re.compile(r"(?:topic=)?(?P<topic>[A-Za-z0-9._-]+)")
_PARTITION: Final = re.compile(r"(?:partition=)?(?P<partition>[0-9]+)")
_DEFAULT: Final = re.compile(
    rf"(?P<last>[0-9]+)_(?P<first_ms>-?[0-9]{{1,19}})_(?P<last_ms>-?[0-9]{{1,19}})(?P<suffix>[^/]*?){_EXTENSION}"
)
_CUSTOM: Final = re.compile(
    rf"(?P<topic>[A-Za-z0-9._-]+)\((?P<partition>[0-9]+)_(?P<last>[0-9]+)\)(?P<suffix>[^/]*?){_EXTENSION}"
)
# Releases before the times came into the name; Quix writes 19 digits there.
_OLD: Final = re.compile(rf"(?P<last>0|[1-9][0-9]{{0,17}}){_EXTENSION}")

# What the sink pads to by default. No topic has come to such an offset: the number was padded on the right.
_OFFSET_DIGITS: Final = 12

_SPREAD: Final = Inexact(
    NamePart.ORDER,
    "records are spread over objects by PARTITIONBY, so their order between objects of a partition is lost",
)


def read_name(key: str, options: NameOptions) -> ArchiveName | None:
    """What the key says, or None for a key that this sink does not write."""
    rest = without_prefix(key, options.prefix)
    if rest is None:
        return None
    *directories, file = rest.split("/")
    if custom := _CUSTOM.fullmatch(file):
        return _custom(key, custom, directories)
    if len(directories) < 2:  # noqa: PLR2004  # a topic and a partition
        return None
    topic, partition = _TOPIC.fullmatch(directories[-2]), _PARTITION.fullmatch(directories[-1])
    if topic is None or partition is None:
        return None
    return _default(key, file, topic["topic"], partition["partition"])


def _default(key: str, file: str, topic: str, partition: str) -> ArchiveName | None:
    if found := _DEFAULT.fullmatch(file):
        times = (int(found["first_ms"]), int(found["last_ms"]))
        return _name(key, "default", topic, partition, found["last"], found["extension"], times=times)
    if found := _OLD.fullmatch(file):
        return _name(key, "old", topic, partition, found["last"], found["extension"])
    return None


def _custom(key: str, found: re.Match[str], directories: list[str]) -> ArchiveName | None:
    values = directories_of(directories)
    # With topic and partition alone nothing is spread.
    spread = {name for name, _ in values} - {"topic", "partition"}
    return _name(
        key,
        "custom",
        found["topic"],
        found["partition"],
        found["last"],
        found["extension"],
        directories=values,
        inexact=(_SPREAD,) if spread else (),
    )


def _name(
    key: str,
    rule: str,
    topic: str,
    partition_text: str,
    last_text: str,
    extension: str,
    *,
    times: tuple[int, int] | None = None,
    directories: tuple[tuple[str, str], ...] = (),
    inexact: tuple[Inexact, ...] = (),
) -> ArchiveName | None:
    partition, last = read_partition(partition_text), read_offset(last_text)
    if partition is None or last is None:
        return None
    first_ms, last_ms = times or (None, None)
    return ArchiveName(
        key=key,
        layout=LayoutName.LENSES,
        rule=rule,
        topic=topic,
        partition=partition,
        last_offset=last,
        first_timestamp_ms=first_ms,
        last_timestamp_ms=last_ms,
        directories=directories,
        stem=key,
        extension=f".{extension}",
        inexact=(*inexact, *_padded_on_the_right(last_text, partition_text)),
    )


def _padded_on_the_right(last: str, partition: str) -> tuple[Inexact, ...]:
    """What `padding.type=RightPad` makes of numbers: 1 and 10 look alike, and order is lost with them."""
    if len(last) < _OFFSET_DIGITS or last[0] == "0" or last[-1] != "0":
        return ()
    why = f"the number {last} looks as if zeros had been put after it (padding.type=RightPad)"
    found = [Inexact(NamePart.OFFSET, why), Inexact(NamePart.ORDER, why)]
    if len(partition) > 1 and partition[0] != "0" and partition[-1] == "0":
        found.append(Inexact(NamePart.PARTITION, why.replace(last, partition)))
    return tuple(found)
