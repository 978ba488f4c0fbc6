"""What is taken in, and to which topic and partition: for `run`, and for commands that foretell it.

A key is routed by the file name template or the archive's layout, and by `topic`.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import structlog

from headrace.model.objects import ArchivePlace, Route, moved_below
from headrace.model.text_formatting import counted, printable
from headrace.names import KeyTemplate
from headrace.names.archive_names import (
    ArchiveName,
    Directories,
    Inexact,
    LayoutName,
    NameElement,
    ObjectKind,
)
from headrace.options import Settings
from headrace.options.settings import JoiningSettings
from headrace.options.transforms.chain import TransformChain
from headrace.options.transforms.read_chain import known_topics
from headrace.vendors.key_names import ArchiveNames, Detection, left_out_because, name_in
from ingest.source.catalogue import Baseline, ExclusionReason, ObjectFilter, Unread
from ingest.source.first_starts import baseline_of

if TYPE_CHECKING:
    from headrace.kafka.ledger_cache import LedgerCache


_log = structlog.get_logger(__name__)

# Keys with a value out of range tend to come in series; a person needs to see the first few.
_MAX_WARNINGS: Final = 20
# Patterns of keys whose layout is logged; a bucket of more kinds of keys is no archive.
_MAX_PATTERNS: Final = 1000
# Parts of a name whose doubt is told once for each kind of name.
_TOLD: Final = frozenset({NameElement.TOPIC, NameElement.PARTITION, NameElement.ORDER})


class KeyRoutes:
    """`route(key)` for the catalogue; None for a key that the template does not take, or gives no topic."""

    def __init__(self, template: KeyTemplate, *, topic: str | None, transforms: TransformChain) -> None:
        self._template = template
        self._topic = topic
        self._routed = _routing(transforms)
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
            routed=self._routed(topic),
        )

    def _warn(self, key: str, warning: str) -> None:
        if self._warned < _MAX_WARNINGS:
            self._warned += 1
            _log.warning("key_value_ignored", key=printable(key), warning=warning)


class ArchiveRoutes:
    """`route(key)` by the names of an archive; `is_internal(key)` for what of it is no data of its own.

    `shown` are the kinds of side objects by folder that tombstones show which are left out: only here these
    are seen.
    """

    def __init__(
        self,
        names: ArchiveNames,
        *,
        topic: str | None,
        topic_map: Mapping[str, str],
        joining: JoiningSettings,
        transforms: TransformChain,
    ) -> None:
        self._names = names
        self._joining = joining
        self._topic = topic
        self._topic_map = topic_map
        self._routed = _routing(transforms)
        self._seen: set[tuple[str, str]] = set()
        self._directories = Directories()
        self.shown: dict[str, set[str]] = {}

    def is_internal(self, key: str) -> bool:
        """True for index objects, and for side objects and tombstones that the options leave out."""
        found = self._names.read(key)
        if found.is_index:
            return True
        name = name_in(found)
        why = None if name is None else left_out_because(name, self._joining)
        if name is None or why is None:
            return False
        if name.kind is ObjectKind.VALUES:
            return True
        if name.tombstones:
            self.shown.setdefault(name.folder, set()).update({"keys", name.kind.value})
        if self._is_first("archive_objects_not_restored", found.pattern):
            _log.warning("archive_objects_not_restored", key=printable(key), warning=why)
        return True

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
        for doubt in (*name.inexact, *self._directories.doubts(name)):
            self._warn(key, name, doubt)
        return Route(
            topic=topic,
            partition=name.partition,
            start_offset=name.offset,
            timestamp_ms=name.first_timestamp_ms,
            may_be_empty=name.layout is LayoutName.AIVEN,
            archive=_archive_place(name),
            routed=self._routed(topic),
            archived=None if name.topic == topic else name.topic,
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
        is_named = doubt.element is NameElement.TOPIC and (
            self._topic is not None or name.topic in self._topic_map
        )
        if (
            doubt.element in _TOLD
            and not is_named
            and self._is_first(name.rule, f"{doubt.element}{name.topic}")
        ):
            _log.warning(
                "archive_name_inexact", key=printable(key), part=doubt.element.value, warning=doubt.why
            )


def _archive_place(name: ArchiveName) -> ArchivePlace | None:
    """What the object is among those it belongs with; the keys of tombstones are rows of their own."""
    if not name.folder:
        return None
    side = None if name.kind is ObjectKind.VALUES else name.kind.value
    if name.tombstones and name.kind is ObjectKind.KEYS:
        side = None
    return ArchivePlace(name.stem, name.folder, side, name.tombstones)


def object_filter_of(settings: Settings, baseline: Baseline = Baseline()) -> ObjectFilter:  # noqa: B008 - it is frozen
    """The object filter of these settings, of one bucket."""
    return _object_filter(settings, baseline, key_readers(settings))


def object_filters_of(settings: Settings, baselines: Mapping[str, Baseline]) -> dict[str, ObjectFilter]:
    """The object filters of all buckets, each with its baseline; one reader reads all keys."""
    readers = key_readers(settings)
    return {
        bucket: _object_filter(settings, baselines.get(bucket, Baseline()), readers)
        for bucket in settings.buckets
    }


def _object_filter(
    settings: Settings, baseline: Baseline, readers: ArchiveRoutes | KeyRoutes
) -> ObjectFilter:
    archive = readers if isinstance(readers, ArchiveRoutes) else None
    return ObjectFilter(
        route=readers.route,
        is_internal=None if archive is None else archive.is_internal,
        shown={} if archive is None else archive.shown,
        prefix=settings.s3.prefix,
        include=settings.discovery.include,
        exclude=settings.discovery.exclude,
        baseline=baseline,
        min_age_ms=settings.discovery.min_age_ms,
        moved_to=moved_below(settings.post_action),
    )


def key_readers(settings: Settings) -> ArchiveRoutes | KeyRoutes:
    """Where a key's records go, and (of an archive) whether it is no data at all."""
    restore, routing = settings.format.restore, settings.routing
    if restore is not None:
        names = ArchiveNames(restore.layout, restore.names, restore.template)
        return ArchiveRoutes(
            names,
            topic=routing.topic,
            topic_map=dict(restore.topic_map),
            joining=settings.joining,
            transforms=settings.transforms,
        )
    return KeyRoutes(settings.key_template(), topic=routing.topic, transforms=settings.transforms)


def _routing(transforms: TransformChain) -> Callable[[str], str | None]:
    """What gives the one topic that transforms name from another; None where there is none, or several."""
    if not transforms.routes:
        return lambda _topic: None

    @lru_cache(maxsize=_MAX_PATTERNS)
    def routed(topic: str) -> str | None:
        found = known_topics(transforms, topic)
        return next(iter(found)) if len(found) == 1 else None

    return routed


def is_unread_restore(settings: Settings, unread: Unread | None) -> bool:
    """Whether a restore has failed by that. To a source other keys may come, and these be no concern."""
    is_restore = settings.format.restore is not None
    return is_restore and unread is not None and unread.reason is ExclusionReason.UNMATCHED


def unread_problem(settings: Settings, unread: Unread | None) -> str | None:
    """A sentence where none of so many keys, such as this one, is read; None where some are."""
    if unread is None:
        return None
    restore, example = settings.format.restore, unread.example
    place = f"s3://{unread.bucket}/{settings.s3.prefix}"
    keys = f"{counted(unread.keys, 'key')} below {place}, such as {printable(example)!r}"
    if unread.reason is ExclusionReason.EXCLUDED:
        return (
            f"object.include and object.exclude leave out all of {keys}, so nothing is read. Correct them; "
            "their globs are of whole keys, aws.s3.prefix included."
        )
    if restore is None:
        return (
            f"file.name.template takes none of {keys}, so nothing is read. Correct file.name.template or "
            "aws.s3.prefix, if these are to be read; `headrace explain CONFIG KEY` says how far a key gets."
        )
    told = "auto" if restore.layout is None else restore.layout.value
    how = f"input.layout={told}" if restore.template is None else "file.name.template"
    return (
        f"{how} reads none of {keys}, so nothing is restored. Set input.layout and aws.s3.prefix, and "
        "file.name.template, file.delim or directory.delim where the sink had its own, as they were; "
        "`headrace check CONFIG` says which layout fits, `headrace explain CONFIG KEY` what a key is read as."
    )


def key_problems(settings: Settings, unread: Unread | None) -> tuple[dict[str, str], str | None]:
    """Problems of keys for `/status`, and the sentence where that is a failure: of restores alone."""
    sentence = unread_problem(settings, unread)
    found = {} if sentence is None else {"keys": sentence}
    return found, sentence if is_unread_restore(settings, unread) else None


def has_read_nothing(settings: Settings, unread: Unread | None) -> bool:
    """Whether a run that ends has failed: a restore that reads no key. Log it, and of a source as well."""
    has_failed = is_unread_restore(settings, unread)
    sentence = unread_problem(settings, unread)
    if has_failed:
        _log.error("keys_unread", error=sentence)
    elif sentence is not None:
        _log.warning("keys_not_matched", warning=sentence)
    return has_failed


def unfinished_left_out(settings: Settings, cache: "LedgerCache") -> dict[str, Counter[str]]:
    """How many objects of each bucket are unfinished, and left out by the options of now, by the reason."""
    filters = object_filters_of(
        settings, {place.s3.bucket: baseline_of(place, cache, 0) for place in settings.by_place()}
    )
    found: dict[str, Counter[str]] = {}
    for known in cache.unfinished():
        filter_ = filters.get(known.id.bucket)
        route = None if filter_ is None else filter_.route_or_reason(known.id.key)
        if isinstance(route, ExclusionReason):
            found.setdefault(known.id.bucket, Counter())[route.value] += 1
    return found
