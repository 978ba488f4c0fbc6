"""Where the records of a key go: the file name template or the archive's layout, and `topic`, applied."""

from collections.abc import Mapping
from typing import Final

import structlog

from headrace.model.objects import ArchivePlace, Route
from headrace.model.sanitize import printable
from headrace.names import KeyTemplate
from headrace.names.archive_names import ArchiveName, Inexact, LayoutName, NamePart, ObjectKind
from headrace.options.choices import RestoreSidecars, RestoreTombstones
from headrace.options.settings import JoiningSettings
from headrace.vendors.detect import Detection
from headrace.vendors.key_names import ArchiveNames, name_in

_log = structlog.get_logger(__name__)

# Keys with a value out of range tend to come in series; a person needs to see the first few.
_MAX_WARNINGS: Final = 20
# Patterns of keys whose layout is logged; a bucket of more kinds of keys is no archive.
_MAX_PATTERNS: Final = 1000
# Parts of a name whose doubt is told once for each kind of name.
_TOLD: Final = frozenset({NamePart.TOPIC, NamePart.PARTITION, NamePart.ORDER})


class KeyRoutes:
    """`route(key)` for the catalogue; None for a key that the template does not take, or gives no topic."""

    def __init__(self, template: KeyTemplate, *, topic: str | None) -> None:
        self._template = template
        self._topic = topic
        self._warned = 0

    def route(self, key: str) -> Route | None:
        """Topic, partition, start offset and time of the key's records."""
        fields = self._template.match(key)
        if fields is None:
            return None
        for warning in fields.warnings:
            self._warn(key, warning)
        topic = self._topic or fields.topic
        if topic is None:
            return None
        return Route(
            topic=topic,
            partition=fields.partition,
            start_offset=fields.start_offset,
            timestamp_ms=fields.timestamp_ms,
        )

    def _warn(self, key: str, warning: str) -> None:
        if self._warned < _MAX_WARNINGS:
            self._warned += 1
            _log.warning("key_value_ignored", key=printable(key), warning=warning)


class ArchiveRoutes:
    """`route(key)` by the names of an archive; `is_internal(key)` for what of it is no data of its own."""

    def __init__(
        self,
        names: ArchiveNames,
        *,
        topic: str | None,
        topic_map: Mapping[str, str],
        joining: JoiningSettings,
    ) -> None:
        self._names = names
        self._joining = joining
        self._topic = topic
        self._topic_map = topic_map
        self._seen: set[tuple[str, str]] = set()

    def is_internal(self, key: str) -> bool:
        """True for index objects, and for side objects and tombstones that the options leave out."""
        found = self._names.read(key)
        if found.is_index:
            return True
        name = name_in(found)
        if name is None or (name.kind is ObjectKind.VALUES and not name.tombstones):
            return False
        if name.tombstones and name.kind is ObjectKind.VALUES:
            return True  # the sink writes no values there
        option = self._left_out_by(name)
        if option is None:
            return False
        if self._is_first("archive_objects_not_restored", found.pattern):
            what = "tombstones" if name.tombstones else name.kind.value
            _log.warning(
                "archive_objects_not_restored",
                key=printable(key),
                warning=f"objects such as this hold {what}, which {option}=ignore leaves out",
            )
        return True

    def _left_out_by(self, name: ArchiveName) -> str | None:
        """The option that leaves these side objects or tombstones out, None where they are restored."""
        if name.tombstones:
            is_left_out = self._joining.tombstones is RestoreTombstones.IGNORE
            return "restore.tombstones" if is_left_out else None
        return "restore.sidecars" if self._joining.sidecars is RestoreSidecars.IGNORE else None

    def route(self, key: str) -> Route | None:
        """Topic, partition and place in the layout's order; None, said once for each pattern, for no name."""
        found = self._names.read(key)
        name = name_in(found)
        if name is None:
            self._note("archive_key_unread", key, found)
            return None
        topic = self._topic_of(name)
        if topic is None:
            self._refuse_topic(key, found)
            return None
        if self._names.needs_content:
            self._note("archive_layout_detected", key, found, name)
        for doubt in name.inexact:
            self._warn(key, name, doubt)
        return Route(
            topic=topic,
            partition=name.partition,
            start_offset=name.offset,
            timestamp_ms=name.first_timestamp_ms,
            may_be_empty=name.layout is LayoutName.AIVEN,
            archive=_archive_place(name),
        )

    def _topic_of(self, name: ArchiveName) -> str | None:
        if self._topic is not None or name.topic is None:
            return self._topic
        return self._topic_map.get(name.topic, name.topic)

    def _is_first(self, event: str, what: str) -> bool:
        if (event, what) in self._seen or len(self._seen) >= _MAX_PATTERNS:
            return False
        self._seen.add((event, what))
        return True

    def _note(self, event: str, key: str, found: Detection, name: ArchiveName | None = None) -> None:
        if not self._is_first(event, found.pattern):
            return
        if name is None:
            _log.warning(event, key=printable(key), warning=found.reason)
        else:
            _log.info(event, key=printable(key), layout=name.layout.value, reason=found.reason)

    def _refuse_topic(self, key: str, found: Detection) -> None:
        if self._is_first("archive_topic_missing", found.pattern):
            warning = "the key names no topic; set topic"
            _log.warning("archive_topic_missing", key=printable(key), warning=warning)

    def _warn(self, key: str, name: ArchiveName, doubt: Inexact) -> None:
        is_named = doubt.part is NamePart.TOPIC and (self._topic is not None or name.topic in self._topic_map)
        if doubt.part in _TOLD and not is_named and self._is_first(name.rule, f"{doubt.part}{name.topic}"):
            _log.warning("archive_name_inexact", key=printable(key), part=doubt.part.value, warning=doubt.why)


def _archive_place(name: ArchiveName) -> ArchivePlace | None:
    """What the object is among those it belongs with; the keys of tombstones are rows of their own."""
    if name.layout is not LayoutName.CONFLUENT or not name.folder:
        return None
    side = None if name.kind is ObjectKind.VALUES else name.kind.value
    if name.tombstones and name.kind is ObjectKind.KEYS:
        side = None
    return ArchivePlace(name.stem, name.folder, side, name.tombstones)
