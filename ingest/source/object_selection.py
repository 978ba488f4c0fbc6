"""What is taken in, and where to: for `run`, and for the commands that say what it would do."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from headrace.kafka import control_records
from headrace.model.ledger_entry import State
from headrace.model.objects import Route
from headrace.model.post_action import PostActionKind
from headrace.model.sanitize import printable
from headrace.model.text_formatting import counted
from headrace.options import Settings
from headrace.vendors.key_names import ArchiveNames
from ingest.source.catalogue import Baseline, ObjectFilter
from ingest.source.catalogue.ledger_view import UNFINISHED
from ingest.source.key_routes import ArchiveRoutes, KeyRoutes

if TYPE_CHECKING:
    from headrace.kafka.ledger_cache import LedgerCache

# Of more changes of the prefix than anybody makes the oldest are forgotten: the record has to stay small.
_MAX_EARLIER: Final = 100

ReadRoute = Callable[[str], Route | None]
IsInternal = Callable[[str], bool]


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
    settings: Settings, baseline: Baseline, readers: tuple[ReadRoute, IsInternal | None]
) -> ObjectFilter:
    route, is_internal = readers
    return ObjectFilter(
        route=route,
        is_internal=is_internal,
        prefix=settings.s3.prefix,
        include=settings.discovery.include,
        exclude=settings.discovery.exclude,
        baseline=baseline,
        min_age_ms=settings.discovery.min_age_ms,
        moved_to=moved_to(settings),
    )


def key_readers(settings: Settings) -> tuple[ReadRoute, IsInternal | None]:
    """Where a key's records go, and (of an archive) whether it is no data at all."""
    restore, routing = settings.format.restore, settings.routing
    if restore is not None:
        names = ArchiveNames(restore.layout, restore.names, restore.template)
        archive = ArchiveRoutes(
            names,
            topic=routing.topic,
            topic_map=dict(restore.topic_map),
            joining=settings.joining,
        )
        return archive.route, archive.is_internal
    return KeyRoutes(settings.key_template(), topic=routing.topic).route, None


def unread_problem(settings: Settings, unread: tuple[int, str] | None) -> str | None:
    """A sentence where a restore reads none of so many keys, such as this one; None where it reads some."""
    restore = settings.format.restore
    if restore is None or unread is None:
        return None
    count, example = unread
    told = "auto" if restore.layout is None else restore.layout.value
    how = f"input.layout={told}" if restore.template is None else "file.name.template"
    return (
        f"{how} reads none of {counted(count, 'key')} below s3://{settings.s3.bucket}/{settings.s3.prefix}, "
        f"such as {printable(example)!r}, so nothing is restored. Set input.layout and aws.s3.prefix, and "
        "file.name.template, file.delim or directory.delim where the sink had its own, as they were; "
        "`headrace check CONFIG` says which layout fits, `headrace explain CONFIG KEY` what a key is read as."
    )


def baseline_of(settings: Settings, cache: "LedgerCache | None", now_ms: int) -> Baseline:
    """What the first start left to the past; where there was none yet, what it would leave if it were now."""
    discovery = settings.discovery
    found = None if cache is None else first_start_of(cache, settings.s3.bucket)
    if found is None or not found.covers(settings.s3.prefix):
        now = control_records.FirstStart(at_ms=now_ms, start_key=discovery.native_start_key)
        found = begun_again(now, found, settings.s3.prefix)
    return baseline_from(settings, found)


def begun_again(
    now: control_records.FirstStart, before: control_records.FirstStart | None, prefix: str
) -> control_records.FirstStart:
    """This first start of a prefix: keys that an earlier one could see keep theirs."""
    if before is None:
        return replace(now, prefix=prefix)
    gone = {"earlier": msgspec.UNSET, "inventory": msgspec.UNSET, "is_inventory_over": msgspec.UNSET}
    earlier = [replace(one, moved_to=(), **gone) for one in before.all[:_MAX_EARLIER]]
    return replace(now, prefix=prefix, moved_to=before.moved_to, earlier=tuple(earlier))


def first_start_of(cache: "LedgerCache", bucket: str) -> control_records.FirstStart | None:
    """What the ledger remembers of the first start with this bucket; None where there was none yet.

    A record of an older version names no bucket: it is this one's unless the ledger knows others only.
    """
    controls = cache.controls()
    for key in (control_records.first_start_key(bucket), control_records.FIRST_START):
        raw = controls.get(key)
        found = None if raw is None else control_records.decode_control(key, raw)
        if isinstance(found, control_records.FirstStart):
            is_ours = key != control_records.FIRST_START or not _knows_others_only(cache, bucket)
            return found if is_ours else None
    return None


def is_first_start(settings: Settings, cache: "LedgerCache") -> bool:
    """Whether one of the buckets, or keys below the prefix, have not had their first start."""
    firsts = (first_start_of(cache, bucket) for bucket in settings.buckets)
    return not all(first is not None and first.covers(settings.s3.prefix) for first in firsts)


def awaited_inventories(settings: Settings, cache: "LedgerCache | None") -> tuple[str, ...]:
    """The addresses of the inventories that the next start reads before it lists."""
    urls = settings.discovery.initial_inventory
    if cache is None or is_first_start(settings, cache):
        return urls
    firsts = (first_start_of(cache, bucket) for bucket in settings.buckets)
    return urls if any(first is not None and first.owes_inventory for first in firsts) else ()


def other_buckets(cache: "LedgerCache", *buckets: str) -> tuple[str, ...]:
    """The buckets, other than these, with which the ingester of this ledger has started before."""
    controls = cache.controls()
    found = {name for key in controls if (name := control_records.first_start_bucket(key)) is not None}
    is_unnamed = not found and control_records.FIRST_START in controls
    if is_unnamed and all(_knows_others_only(cache, bucket) for bucket in buckets):
        found = {known.id.bucket for state in State for known in cache.by_state(state, 1)}
    return tuple(sorted(found - set(buckets)))


def left_out(cache: "LedgerCache", *buckets: str) -> dict[str, int]:
    """How many objects are unfinished in each bucket that is not one of these any more, and has some."""
    found = {}
    for bucket in other_buckets(cache, *buckets):
        counts = cache.counts(bucket)
        found[bucket] = sum(counts[state] for state in UNFINISHED)
    return {bucket: count for bucket, count in found.items() if count}


def _knows_others_only(cache: "LedgerCache", bucket: str) -> bool:
    return any(cache.counts().values()) and next(cache.scan(bucket), None) is None


def baseline_from(settings: Settings, first: control_records.FirstStart) -> Baseline:
    """What this first start, and those before it, left to the past."""
    return Baseline(
        existing_before_ms=None if settings.discovery.include_existing else first.at_ms,
        start_key=first.start_key,
        uploads={} if first.uploads is msgspec.UNSET else first.uploads,
        moved_to=tuple(each for each in first.moved_to if not settings.s3.prefix.startswith(each)),
        prefix=first.below,
        earlier=tuple(baseline_from(settings, each) for each in first.all[1:]),
    )


def moved_to(settings: Settings) -> str | None:
    """The prefix of the bucket that objects are moved to once they were read."""
    action = settings.post_action
    if action is None or action.kind is not PostActionKind.MOVE:
        return None
    bucket, prefix = action.moves_to
    return prefix if bucket is None else None
