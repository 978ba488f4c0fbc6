"""First starts, as the ledger remembers them: which objects existed before, and are left to the past.

Each bucket has one, and each prefix that it is given later.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
import structlog
from msgspec.structs import replace

from headrace.kafka import control_records
from headrace.model.ledger_entry import ControlKey, State
from headrace.options import Settings
from ingest.source.catalogue import Baseline
from ingest.source.catalogue.ledger_view import UNFINISHED

if TYPE_CHECKING:
    from headrace.kafka.ledger_cache import LedgerCache

_log = structlog.get_logger(__name__)

# Of more changes of the prefix than anybody makes the oldest are forgotten: the record has to stay small.
_MAX_EARLIER: Final = 100
# A record of the ledger stays well below the broker's usual message.max.bytes of 1 MB.
_UPLOADS_BYTES: Final = 500_000
_TIME_BYTES: Final = 16
_ETAG_BYTES: Final = 4


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
    gone = dict.fromkeys(("earlier", "inventory", "is_inventory_over", "absent", "listed_ms"), msgspec.UNSET)
    earlier = [replace(one, moved_to=(), **gone) for one in before.all[:_MAX_EARLIER]]
    begun = replace(now, prefix=prefix, moved_to=before.moved_to, earlier=tuple(earlier))
    kept = newest_uploads(
        [{} if one.uploads is msgspec.UNSET else one.uploads for one in begun.all],
        [{} if one.there is msgspec.UNSET else one.there for one in begun.all],
    )
    begun, *earlier = (_with_uploads(one, left) for one, left in zip(begun.all, kept, strict=True))
    return replace(begun, earlier=tuple(earlier))


def _with_uploads(first: control_records.FirstStart, uploads: dict[str, int]) -> control_records.FirstStart:
    """The first start with these of its uploads, and with what was there under their keys."""
    if first.uploads is msgspec.UNSET or first.there is msgspec.UNSET:
        return first if first.uploads is msgspec.UNSET else replace(first, uploads=uploads)
    there = {key: etag for key, etag in first.there.items() if key in uploads}
    return replace(first, uploads=uploads, there=there)


def newest_uploads(
    begun_ms: Sequence[Mapping[str, int]], there: Sequence[Mapping[str, str]] = ()
) -> list[dict[str, int]]:
    """As many uploads of these starts as one record of the ledger can hold; old ones are mostly forgotten.

    `there` are ETags that are kept with them. A WARN says how many are left out.
    """
    room, is_full = _UPLOADS_BYTES, False
    kept: list[dict[str, int]] = [{} for _ in begun_ms]
    every = [(at_ms, start, key) for start, uploads in enumerate(begun_ms) for key, at_ms in uploads.items()]
    for at_ms, start, key in sorted(every, key=lambda one: (-one[0], one[1])):
        size = len(msgspec.json.encode(key))
        room -= size + _TIME_BYTES
        if there and key in there[start]:
            room -= size + len(there[start][key]) + _ETAG_BYTES
        if room < 0:
            is_full = True
            break
        kept[start][key] = at_ms
    if is_full:
        _log.warning(
            "uploads_left_out",
            uploads=len(every) - sum(map(len, kept)),
            detail="there are more multipart uploads under way than the ledger remembers; with "
            "include.existing=false the oldest ones are not ingested unless an event announces them",
            remedy="abort those that will not be completed before the first start",
        )
    return kept


def first_start_of(cache: "LedgerCache", bucket: str) -> control_records.FirstStart | None:
    """What the ledger remembers of the first start with this bucket; None where there was none yet.

    A record of an older version names no bucket: see `unnamed_first_start`.
    """
    found = _first_start_at(cache, control_records.first_start_key(bucket))
    return unnamed_first_start(cache, bucket) if found is None else found


def unnamed_first_start(cache: "LedgerCache", bucket: str) -> control_records.FirstStart | None:
    """The first start that an older version wrote without its bucket, if it is of this one.

    It is where the ledger has objects of it; in a ledger without objects, until a record names any bucket.
    """
    has_objects = next(cache.scan(bucket), None) is not None
    is_named = any(map(control_records.first_start_bucket, cache.controls()))
    if _knows_others_only(cache, bucket) or (is_named and not has_objects):
        return None
    found = _first_start_at(cache, control_records.FIRST_START)
    # What 1.0.0 has listed since would not be in them.
    return None if found is None else replace(found, absent=msgspec.UNSET, listed_ms=msgspec.UNSET)


def _first_start_at(cache: "LedgerCache", key: ControlKey) -> control_records.FirstStart | None:
    raw = cache.controls().get(key)
    found = None if raw is None else control_records.decode_control(key, raw)
    return found if isinstance(found, control_records.FirstStart) else None


def first_start_records(
    cache: "LedgerCache", firsts: Mapping[str, control_records.FirstStart]
) -> list[tuple[ControlKey, bytes]]:
    """What the ledger does not have yet of the first starts with these buckets.

    Nothing, where there is one bucket and a record of 1.0.0 says the same, which 1.0.0 can read; the objects
    tell then which bucket it is of. With the first other record that one gets its bucket, too.
    """
    controls = cache.controls()
    unnamed = {
        bucket: first
        for bucket in (*firsts, *other_buckets(cache, *firsts))
        if control_records.first_start_key(bucket) not in controls
        and next(cache.scan(bucket), None) is not None
        and (first := unnamed_first_start(cache, bucket)) is not None
    }
    if len(firsts) == 1 and unnamed == firsts:
        return []
    records = [
        (control_records.first_start_key(bucket), control_records.encode_control(first))
        for bucket, first in {**unnamed, **firsts}.items()
    ]
    return [(key, raw) for key, raw in records if controls.get(key) != raw]


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
        there={} if first.there is msgspec.UNSET else first.there,
        moved_to=tuple(each for each in first.moved_to if not settings.s3.prefix.startswith(each)),
        prefix=first.below,
        earlier=tuple(baseline_from(settings, each) for each in first.all[1:]),
    )


def skipped_keys(baselines: Mapping[str, Baseline]) -> dict[str, str]:
    """The key of a bucket up to which listings do not look, where there is one."""
    return {bucket: one.skip_through for bucket, one in baselines.items() if one.skip_through is not None}
