"""`ArchiveNames`: the keys of one archive, by layout, template or form; `input.layout=auto` finds it.

A key's form says of which layout it is, and its content where that is not enough.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from headrace.formats import content_kind as content
from headrace.formats.content_kind import RowShape
from headrace.names.archive_names import (
    KEY_VARIABLE,
    ArchiveName,
    Inexact,
    LayoutName,
    NameElement,
    ObjectKind,
    is_index,
)
from headrace.options.choices import Compression, InputFormat, NameOptions, RestoreSidecars, RestoreTombstones
from headrace.options.declarations import record_options
from headrace.options.object_endings import is_named_bytes
from headrace.options.settings import FormatSettings, JoiningSettings, RestoreSettings
from headrace.vendors.aiven.names import FIELDS as AIVEN_MEMBERS
from headrace.vendors.aiven.names import TemplateNames
from headrace.vendors.aiven.names import read_name as aiven
from headrace.vendors.confluent.names import read_name as confluent
from headrace.vendors.headrace.names import MEMBERS as HEADRACE_MEMBERS
from headrace.vendors.headrace.names import read_name as headrace
from headrace.vendors.lenses.names import is_envelope as is_lenses
from headrace.vendors.lenses.names import read_name as lenses
from headrace.vendors.quix.names import read_name as quix

ReadName = Callable[[str, NameOptions], ArchiveName | None]

READ_NAME: Final[dict[LayoutName, ReadName]] = {
    LayoutName.HEADRACE: headrace,
    LayoutName.CONFLUENT: confluent,
    LayoutName.LENSES: lenses,
    LayoutName.QUIX: quix,
    LayoutName.AIVEN: aiven,
}
_QUIX_MEMBERS: Final = frozenset({"_timestamp", "_key", "_value"})
# Where our sink puts objects of a topic that was made again, whatever the layout below.
_LIFE: Final = re.compile(r"(?:^|/)topic_id=[^/]+/")
_LIVES: Final = Inexact(
    NameElement.ORDER,
    "the topic was deleted and made again, and objects of its lives are mixed by their offsets; restore each "
    "by its own aws.s3.prefix (../topic_id=<id>/), and the first with object.exclude=*topic_id=*",
)
_DIGITS: Final = re.compile(r"[0-9]+")
_WITH_SIDES: Final = frozenset({LayoutName.HEADRACE, LayoutName.CONFLUENT})
_SIDE_ENDING: Final = re.compile(r"\.(?:keys|headers)(?:\.[A-Za-z0-9]+)+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """What was found of a key: its name, or why there is none.

    `reason` is a sentence. `pattern` is the same for keys that differ in numbers only: a decision is logged
    once for each. `needs_content` says that the object's first bytes would decide between the `candidates`;
    `is_index` that it is no data.
    """

    name: ArchiveName | None
    reason: str
    pattern: str
    needs_content: bool = False
    is_index: bool = False
    candidates: tuple[ArchiveName, ...] = ()


def read_as(layout: LayoutName, key: str, options: NameOptions) -> ArchiveName | None:
    """What the key says if it is of this layout; None for a key that its sink does not write.

    `aws.s3.prefix` is the sink's own, or names a part of the archive: then the topic is in it.
    """
    read = READ_NAME[layout]
    name = _after_prefix(read, key, options)
    if name is None and options.prefix:
        name = read(key, _whole(key, options))
    return None if name is None else _of_life(name, options)


def _after_prefix(read: ReadName, key: str, options: NameOptions) -> ArchiveName | None:
    """What the key says after the prefix; None also where that ends within the name of the topic.

    The sink's own ends with a sign (`legacy-`), or its slash was forgotten: then a topic begins there, and no
    topic begins with `-` or `.`.
    """
    name = read(key, options)
    if name is None or name.topic is None or not options.prefix[-1:].isalnum():
        return name
    is_cut = name.topic.startswith(("-", ".")) and key.startswith(name.topic, len(options.prefix))
    return None if is_cut else name


def _of_life(name: ArchiveName, options: NameOptions) -> ArchiveName:
    """The name, its order in doubt where it is of one life of its topic and others are read with it."""
    if _LIFE.search(name.key.removeprefix(options.prefix)) is None:
        return name
    return replace(name, inexact=(_LIVES, *name.inexact))


def _names(key: str, options: NameOptions) -> list[ArchiveName]:
    found = (_after_prefix(read, key, options) for read in READ_NAME.values())
    return [name for name in found if name is not None]


def _whole(key: str, options: NameOptions) -> NameOptions:
    """The same for a key that is read from its beginning; as they are for a key of another prefix."""
    return replace(options, prefix="") if key.startswith(options.prefix) else options


def pattern_of(key: str) -> str:
    """The key with a sign for each number: the same for keys that differ in numbers only."""
    return _DIGITS.sub("#", key)


def detect(key: str, options: NameOptions, head: bytes | None = None) -> Detection:
    """The layout of the object, the same for the same key and head; `head` is decompressed, None if unread.

    Where two layouts would write the key the content decides; where that does not tell, or speaks of another
    layout than the name, there is no name but a sentence with the fix. Keys that one layout alone writes
    need no content.
    """
    pattern = pattern_of(key)
    if is_index(key, options.indexes):
        return Detection(
            name=None, reason="the key is below layout.indexes: no data", pattern=pattern, is_index=True
        )
    names = _names(key, options) or _names(key, _whole(key, options))
    names = [_of_life(name, options) for name in names]
    if not names:
        reason = "the key is of no known layout; file.name.template can say how it is read"
        return Detection(name=None, reason=reason, pattern=pattern)
    shown = None if head is None else layout_of_content(head)
    for name in names:
        if shown in {None, name.layout} and (len(names) == 1 or shown is not None):
            how = "" if shown is None else " and so has its content"
            reason = f"the key has the form of {name.layout.value} ({name.rule}){how}"
            return Detection(name=name, reason=reason, pattern=pattern)
    return Detection(
        name=None,
        reason=_undecided(names, shown),
        pattern=pattern,
        needs_content=head is None,
        candidates=tuple(names),
    )


def _undecided(names: list[ArchiveName], shown: LayoutName | None) -> str:
    forms = " and of ".join(name.layout.value for name in names)
    content_says = f", but its content is {shown.value}'s" if shown is not None else ""
    meant = "input.layout says which is meant"
    if shown is not None and shown not in {name.layout for name in names}:
        meant = f"input.layout={shown.value} reads it, with the sink's own names as file.name.template"
    return f"the key has the form of {forms}{content_says}; {meant}"


def layout_of_content(head: bytes) -> LayoutName | None:
    """The layout whose envelope the decompressed content begins with, None where it has none of them.

    Values alone look alike in every layout.
    """
    if (record := content.avro_name(head)) is not None:
        return _by_shape(content.avro_shape(head) or RowShape(), record)
    first = content.first_row(content.inked(head).removeprefix(b"[\n"))
    shape = None if first is None else content.json_shape(first.removesuffix(b","))
    return None if shape is None else _by_shape(shape, "")


def _by_shape(shape: RowShape, record: str) -> LayoutName | None:
    members = shape.members
    if record == "io.aiven.avro.output.schema.connector_records":
        return LayoutName.AIVEN
    if members == _QUIX_MEMBERS:
        return LayoutName.QUIX
    if is_lenses(shape):
        return LayoutName.LENSES
    # Fewer members may well be those of a value.
    if members <= HEADRACE_MEMBERS and {"partition", "offset"} <= members:
        return LayoutName.HEADRACE
    if not record and members <= AIVEN_MEMBERS and {"key", "value", "offset"} <= members:
        return LayoutName.AIVEN
    return None


class ArchiveNames:
    """Reads keys; TemplateError for a template that does not parse.

    `layout` None finds out for each key; `template` is the archive's own, where it has one.
    """

    def __init__(self, layout: LayoutName | None, options: NameOptions, template: str | None = None) -> None:
        self._layout = layout
        self._options = options
        self._source = template
        self._template = None if template is None else TemplateNames(template)

    @property
    def needs_content(self) -> bool:
        """True when the beginning of an object may say more than its key."""
        return self._layout is None

    def read(self, key: str, head: bytes | None = None) -> Detection:
        """What the key says, or why nothing; `head` is the object's plain beginning, None if unread."""
        if self._layout is None:
            return detect(key, self._options, head)
        pattern = pattern_of(key)
        if is_index(key, self._options.indexes):
            reason = "the key is below layout.indexes: no data"
            return Detection(name=None, reason=reason, pattern=pattern, is_index=True)
        name = self._told(self._layout, key)
        if self._is_side_of_template(key, name):
            reason = (
                "objects of keys and headers are joined where names are the layout's own, and not those of "
                "file.name.template: records come without them"
            )
            return Detection(name=None, reason=reason, pattern=pattern)
        if name is None:
            how = "file.name.template" if self._template else f"input.layout={self._layout.value}"
            return Detection(name=None, reason=f"the key is not one of {how}", pattern=pattern)
        return Detection(
            name=name, reason=f"the key is of {name.layout.value} ({name.rule})", pattern=pattern
        )

    def _is_side_of_template(self, key: str, name: ArchiveName | None) -> bool:
        """Whether a template that takes any ending would take keys or headers for records of their own."""
        if self._source is None or self._layout not in _WITH_SIDES or _SIDE_ENDING.search(self._source):
            return False
        # What follows a record key cannot be told from it.
        is_certain = name is not None and KEY_VARIABLE.search(self._source) is None
        return _SIDE_ENDING.search(name.extension if name and is_certain else key) is not None

    def _told(self, layout: LayoutName, key: str) -> ArchiveName | None:
        if self._template is None:
            return read_as(layout, key, self._options)
        options = self._options
        name = _after_prefix(self._template, key, options)
        if name is None and options.prefix[-1:].isalnum():
            # A template gives all that follows the directory in which such a prefix ends.
            directory = options.prefix[: options.prefix.rfind("/") + 1]
            name = self._template(key, replace(options, prefix=directory))
        if name is None:
            return None
        name = replace(_of_life(name, options), layout=layout)
        if layout is LayoutName.LENSES:
            # The offset in its names is the last one.
            return replace(name, start_offset=None, last_offset=name.start_offset)
        return name


def name_in(found: Detection) -> ArchiveName | None:
    """The name, or what all candidates agree on: which of them it is decides the content, when it is read."""
    if found.name is not None or not found.needs_content:
        return found.name
    places = {(name.topic, name.partition, name.offset, name.kind) for name in found.candidates}
    return found.candidates[0] if len(places) == 1 else None


def left_out_because(name: ArchiveName, joining: JoiningSettings) -> str | None:
    """Why these side objects or tombstones are no part of a restore; None where they are, and for values."""
    if name.tombstones and name.kind is ObjectKind.VALUES:
        return "the sink keeps keys and headers of tombstones in such folders, and no values"
    if name.tombstones and joining.tombstones is RestoreTombstones.IGNORE:
        return "objects such as this hold tombstones, which restore.tombstones=ignore leaves out"
    is_left_out = joining.sidecars is RestoreSidecars.IGNORE and not name.tombstones
    if name.kind is not ObjectKind.VALUES and is_left_out:
        return f"objects such as this hold {name.kind.value}, which restore.sidecars=ignore leaves out"
    return None


# -- The hash that the ledger keeps next to a position, of each object of an archive -------------------------

_AS_STORED: Final = "-bytes"
_CHUNK_BYTES: Final = int(record_options.CHUNK_SIZE.default or 0)


def options_of_object(options: str, settings: FormatSettings, key: str) -> str:
    """The hash of the settings, with a mark where the object may hold bytes.

    Of an archive these are as they are stored: 1.0.0 unpacked such objects, and cut them into rows by their
    content, so that a position of its is another place. Elsewhere see `cut_of_bytes`.
    """
    restore = settings.restore
    if restore is None:
        return f"{options}{cut_of_bytes(settings, key)}"
    if restore.is_format_given:
        holds_bytes = settings.input_format is InputFormat.BYTES
    else:
        name = _names_of(restore).read(key).name
        holds_bytes = name is None or content.holds_bytes(name)
    return f"{options}{_AS_STORED}" if holds_bytes else options


def cut_of_bytes(settings: FormatSettings, key: str | None = None) -> str:
    """What cuts objects of bytes where `input.format=auto` finds them; empty where all is at its default.

    Without a key of any that there may be. It is in no hash of 1.0.0, and so in none for other objects: those
    that were begun before continue.
    """
    may_hold_bytes = key is None or settings.packing is not None or is_named_bytes(key)
    if settings.restore is not None or settings.input_format is not InputFormat.AUTO or not may_hold_bytes:
        return ""
    chunks = "" if settings.chunk_bytes == _CHUNK_BYTES else f"-{settings.chunk_bytes}"
    return f"{chunks}-stored" if settings.compression is Compression.NONE else chunks


@lru_cache(maxsize=16)
def _names_of(restore: RestoreSettings) -> ArchiveNames:
    return ArchiveNames(restore.layout, restore.names, restore.template)
