"""What a discovery log says of its query, and what the query's next batch would have: for commands."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from headrace.model.clock import wall_ms
from headrace.model.errors import InvalidConfiguration
from headrace.model.objects import S3Object
from ingest.source.catalogue import Baseline
from ingest.source.catalogue.object_filter import ExclusionReason
from ingest.source.object_selection import object_filter_of
from spark.frames.discovery_log import DiscoveryLog, read_about, read_committed
from spark.frames.log_entries import KnownObjects, identity
from spark.frames.log_store import log_store
from spark.frames.options import STATE_PATH, FramesSettings, reading_settings

Shape = dict[str, Any]

_MOST_OPEN: Final = 1000


def settings_of(options: Mapping[str, str]) -> FramesSettings:
    """The settings of a query of frames; InvalidConfiguration where they name no log."""
    settings = reading_settings(options)
    if settings.state_path is None:
        raise InvalidConfiguration(f"{STATE_PATH.name} is missing: it names the discovery log.")
    return settings


def log_status(settings: FramesSettings) -> Shape:
    """What the log knows, the last batch, and what of it Spark has not committed. Reads the log alone."""
    assert settings.state_path is not None, "settings_of has seen to it"
    store = log_store(settings.state_path, settings.shared.s3)
    about = read_about(store)
    shape: Shape = {"source": "discovery log", "url": settings.url, "state_path": store.where}
    if about is None:
        nothing = {"known": 0, "last_batch": 0, "committed_batch": 0, "committed_ms": None, "made_ms": None}
        return shape | nothing | _pending([])
    log = DiscoveryLog(store, about)
    committed = read_committed(store)
    done = 0 if committed is None else committed.batch
    # A query commits each batch after the next one was made: there are more only where it cannot go on.
    open_batches = range(max(done + 1, log.last - _MOST_OPEN + 1), log.last + 1)
    pending = [one for batch in open_batches for one in log.objects(batch)]
    return {
        **shape,
        "known": len(log.known),
        "last_batch": log.last,
        "committed_batch": done,
        "committed_ms": None if committed is None else committed.at_ms,
        "made_ms": about.made_ms,
        **_pending(one.size for one in pending),
    }


def log_plan(settings: FramesSettings, listed: Iterable[S3Object]) -> Shape:
    """What of the bucket is in no batch yet, and what is left out and why."""
    assert settings.state_path is not None, "settings_of has seen to it"
    store = log_store(settings.state_path, settings.shared.s3)
    about = read_about(store)
    known = KnownObjects() if about is None else DiscoveryLog(store, about).known
    baseline = (
        Baseline(start_key=settings.shared.discovery.native_start_key) if about is None else about.baseline
    )
    if about is None and not settings.shared.discovery.include_existing:
        baseline = Baseline(existing_before_ms=wall_ms(), start_key=baseline.start_key)
    chosen = object_filter_of(settings.shared, baseline)
    left_out: Counter[str] = Counter()
    new: list[int] = []
    in_log = 0
    for found in listed:
        reason = chosen.listed_route_or_reason(found)
        if isinstance(reason, ExclusionReason):
            left_out[reason.value] += 1
        elif settings.is_state(found.id.key):
            left_out["state"] += 1
        elif identity(found.id) in known:
            in_log += 1
        elif not settings.is_in_time(found):
            left_out["modified"] += 1
        elif found.is_archived:
            left_out["archived"] += 1
        else:
            new.append(found.size)
    return {
        "url": settings.url,
        "state_path": store.where,
        "made_ms": None if about is None else about.made_ms,
        "in_log": in_log,
        "left_out": dict(sorted(left_out.items())),
        **_pending(new),
    }


def _pending(sizes: Iterable[int]) -> Shape:
    found = list(sizes)
    return {"pending_objects": len(found), "pending_bytes": sum(found)}
