"""What an object's key says in an archive: topic, partition, offsets, times, and which of them is certain."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import translate
from typing import Final

from headrace.names import MAX_OFFSET, MAX_PARTITION, KeyTemplate

# Prefixes under which the sinks keep what is no data (`layout.indexes`).
DEFAULT_INDEXES: Final = (".indexes/", ".temp-upload/")

# Wherever they are in a key that no layout reads.
_BOOKKEEPING: Final = tuple(f"/{each}" for each in DEFAULT_INDEXES)
_PLAIN_NUMBER: Final = re.compile(r"0|[1-9][0-9]*")
_TOPIC_NAME: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


class LayoutName(StrEnum):
    """The sinks whose archives are read, as `input.layout` spells them."""

    AIVEN = "aiven"
    CONFLUENT = "confluent"
    LENSES = "lenses"
    QUIX = "quix"
    HEADRACE = "headrace"


class ObjectKind(StrEnum):
    """What the rows of an object are parts of: values, or (Confluent) keys or headers next to them."""

    VALUES = "values"
    KEYS = "keys"
    HEADERS = "headers"


class NameElement(StrEnum):
    """An element of a name that may be less than it seems."""

    TOPIC = "topic"
    PARTITION = "partition"
    OFFSET = "offset"
    ORDER = "order"
    DIRECTORIES = "directories"


@dataclass(frozen=True, slots=True)
class Inexact:
    """An element of a name that cannot be trusted, and a sentence that says why."""

    element: NameElement
    why: str


# Offset, then time, then key: objects of one topic and partition in the order of their layout.
OrderKey = tuple[int, int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveName:
    """What one key of an archive says. `rule` is the word for the pattern that it matched.

    `start_offset` is that of the object's first record, `last_offset` that of its last; each layout gives one
    of them (Headrace's own may give both), None where a template has none. Times are milliseconds since 1970.
    `directories` are the `name=value` parts of the path; with `is_by_itself` each object has directories of
    its own. `stem` is what an object and its side objects have in common, `folder` the beginning of all keys
    of its topic. A part listed in `inexact` is shown to people and never used as a fact.
    """

    key: str
    layout: LayoutName
    rule: str
    topic: str | None
    partition: int | None
    start_offset: int | None = None
    last_offset: int | None = None
    kind: ObjectKind = ObjectKind.VALUES
    tombstones: bool = False
    first_timestamp_ms: int | None = None
    last_timestamp_ms: int | None = None
    directories: tuple[tuple[str, str], ...] = ()
    stem: str = ""
    folder: str = ""
    extension: str = ""
    is_by_itself: bool = False
    inexact: tuple[Inexact, ...] = ()

    def is_exact(self, element: NameElement) -> bool:
        """True when the part can be taken as a fact."""
        return all(each.element is not element for each in self.inexact)

    @property
    def offset(self) -> int | None:
        """The offset that orders objects in this layout: the first record's, or with Lenses the last's."""
        return self.last_offset if self.start_offset is None else self.start_offset

    @property
    def order(self) -> OrderKey:
        """Sorts the objects of one topic and partition in the layout's own order; ties by time, then key."""
        return (self.offset or 0, self.first_timestamp_ms or 0, self.key)


# Directories that hold all records of a partition, or those of one schema after those of another.
_NO_GROUP: Final = re.compile(r"(?:topic_id|schema_name)=[^/]*/")
_SPREAD: Final = Inexact(
    NameElement.ORDER,
    "objects of one partition are in several directories, which may group its records, so that their order "
    "between objects may be lost",
)
# Of more partitions nothing is told.
_MAX_PARTITIONS: Final = 100_000


class Directories:
    """Where the objects of each partition are, as one name after the other shows it."""

    def __init__(self) -> None:
        self._first: dict[tuple[LayoutName, str | None, int | None], str] = {}

    def doubts(self, name: ArchiveName) -> tuple[Inexact, ...]:
        """The order is in doubt where an earlier object of the partition is in another directory.

        Nothing of names that say so themselves, and of those whose directories differ by more than groups.
        """
        is_grouped = name.layout is not LayoutName.AIVEN and not name.is_by_itself
        is_plain = name.kind is ObjectKind.VALUES and not name.tombstones
        if not (is_grouped and is_plain and name.is_exact(NameElement.ORDER)):
            return ()
        directory = _NO_GROUP.sub("", name.key[: name.key.rfind("/") + 1])
        place = (name.layout, name.topic, name.partition)
        if len(self._first) < _MAX_PARTITIONS:
            self._first.setdefault(place, directory)
        return () if self._first.get(place, directory) == directory else (_SPREAD,)


def read_partition(text: str) -> int | None:
    """The partition that these digits are, or None where Kafka has no such partition."""
    return _bounded(text, MAX_PARTITION)


def read_offset(text: str) -> int | None:
    """The offset that these digits are, or None where Kafka has no such offset."""
    return _bounded(text, MAX_OFFSET)


def _bounded(text: str, limit: int) -> int | None:
    digits = text.lstrip("0") or "0"
    # By length first: a hostile key should not cost the conversion of thousands of digits.
    if not digits.isascii() or len(digits) > len(str(limit)):
        return None
    value = int(digits)
    return value if value <= limit else None


def directories_of(parts: list[str]) -> tuple[tuple[str, str], ...]:
    """The parts of a path that are `name=value`, split at the first sign."""
    return tuple((name, value) for name, sign, value in (element.partition("=") for element in parts) if sign)


def is_index(key: str, prefixes: tuple[str, ...] = DEFAULT_INDEXES) -> bool:
    """True for keys that are never data: index and temporary objects, and markers of folders."""
    return key.endswith("/") or key.startswith(prefixes)


def is_topic_name(text: str) -> bool:
    """Whether Kafka takes a topic of this name: 1 to 249 of `a-z A-Z 0-9 . _ -`, and neither `.` nor `..`."""
    return _TOPIC_NAME.fullmatch(text) is not None


def read_topic_directories(
    directories: Sequence[str], is_topic: Callable[[str], object]
) -> tuple[str, int] | None:
    """Topic and partition of a key whose last directories are `<topic>/<partition>`, or None."""
    if len(directories) < 2:  # noqa: PLR2004  # a topic and a partition
        return None
    name, number = directories[-2:]
    partition = read_partition(number) if _PLAIN_NUMBER.fullmatch(number) else None
    return (name, partition) if partition is not None and is_topic(name) else None


def is_bookkeeping(key: str) -> bool:
    """Whether other tools keep their own files under such keys, next to the objects that they write."""
    return any(each in f"/{key}" for each in _BOOKKEEPING)


def any_of(globs: Sequence[str]) -> Callable[[str], object] | None:
    """A predicate on keys, None without globs; `*` takes `/` too, as in the AWS tools, and case counts."""
    if not globs:
        return None
    return re.compile("|".join(translate(glob) for glob in globs)).match


def without_prefix(key: str, prefix: str) -> str | None:
    """The key after `aws.s3.prefix`, or None where it has another one."""
    return key[len(prefix) :] if key.startswith(prefix) else None


# A record's key in a template, which may make directories of its own.
KEY_VARIABLE: Final = re.compile(r"\{\{\s*key\s*\}\}")
# Aiven's other way to write the year.
_WEEK_YEAR: Final = re.compile(r"(\{\{\s*timestamp\s*:\s*unit\s*=\s*)YYYY(?=\s*\}\})")


def archive_template(source: str, key_slashes: int = 0) -> KeyTemplate:
    """The template that reads keys which Aiven's sink made of `source`, each record key with so many slashes.

    Raises TemplateError for one that does not parse.
    """
    anything = "/".join(["{{any}}"] * (key_slashes + 1))
    ours = _WEEK_YEAR.sub(r"\1yyyy", source)
    return KeyTemplate.compile(KEY_VARIABLE.sub(anything, ours), match="exact")
