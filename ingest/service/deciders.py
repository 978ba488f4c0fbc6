"""Who decides: the catalogue and the planner of one run, made from its settings."""

from collections.abc import Mapping

from headrace.formats import SPLITTERS
from headrace.kafka.cache_view import CacheLedgerView
from headrace.options import Settings
from ingest.source.catalogue import Baseline, Catalogue
from ingest.source.object_selection import object_filters_of
from ingest.source.planner import Backoff, BatchLimits, Planner


def deciders(
    settings: Settings, view: CacheLedgerView, baselines: Mapping[str, Baseline], *, slots: int
) -> tuple[Catalogue, Planner]:
    """The catalogue over what the ledger knows, and the planner for so many slots; a baseline a bucket."""
    catalogue = Catalogue(
        view=view,
        filters=object_filters_of(settings, baselines),
        max_pending_objects=settings.discovery.max_pending_objects,
        retention_ms=settings.ledger.retention_ms,
        joining=settings.joining,
        post_action=None if settings.post_action is None else settings.post_action.text,
    )
    limits = BatchLimits(
        slots=slots,
        max_objects=settings.jobs.max_objects,
        max_bytes=settings.jobs.max_bytes,
        ordering=settings.routing.ordering,
        can_cut=settings.format.input_format in SPLITTERS,
        max_attempts=settings.errors.max_attempts,
    )
    backoff = Backoff(first_ms=settings.errors.retry_delay_ms, longest_ms=settings.errors.retry_delay_max_ms)
    return catalogue, Planner(catalogue, limits=limits, backoff=backoff)
