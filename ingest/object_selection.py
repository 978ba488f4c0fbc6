"""What is taken in, and where to: for `run`, and for the commands that say what it would do."""

import msgspec

from ingest.catalogue import Baseline, ObjectFilter
from ingest.kafka import control_records
from ingest.kafka.ledger_cache import LedgerCache
from ingest.key_routes import KeyRoutes
from ingest.settings import Settings
from ingest.template import KeyTemplate


def object_filter_of(settings: Settings, baseline: Baseline = Baseline()) -> ObjectFilter:  # noqa: B008 - it is frozen
    """The intake of these settings."""
    template = KeyTemplate.compile(
        settings.routing.file_name_template,
        match=settings.routing.file_name_match,
        prefix=settings.s3.prefix,
    )
    return ObjectFilter(
        route=KeyRoutes(template, topic=settings.routing.topic).route,
        prefix=settings.s3.prefix,
        include=settings.discovery.include,
        exclude=settings.discovery.exclude,
        baseline=baseline,
        min_age_ms=settings.discovery.min_age_ms,
    )


def baseline_of(settings: Settings, cache: LedgerCache | None, now_ms: int) -> Baseline:
    """What the first start left to the past; where there was none yet, what it would leave if it were now."""
    discovery = settings.discovery
    raw = None if cache is None else cache.controls().get(control_records.FIRST_START)
    found = None if raw is None else control_records.decode_control(control_records.FIRST_START, raw)
    if not isinstance(found, control_records.FirstStart):
        found = control_records.FirstStart(at_ms=now_ms, start_key=discovery.native_start_key)
    return baseline_from(settings, found)


def baseline_from(settings: Settings, first: control_records.FirstStart) -> Baseline:
    """What this first start left to the past."""
    return Baseline(
        existing_before_ms=None if settings.discovery.include_existing else first.at_ms,
        start_key=first.start_key,
        uploads={} if first.uploads is msgspec.UNSET else first.uploads,
    )
