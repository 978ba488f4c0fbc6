"""What a source's leadership begins with: its catalogue and planner, and the first inventory.

`initial.inventory` is read at the first start, until the full listing after it was complete. The ledger's
record of the first start remembers which inventories it read, and whether that is over. A process that ends
in the middle leaves it open, and the next one reads them again: the ledger knows what is done.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec
import structlog
from msgspec.structs import replace

from headrace.formats import SPLITTERS
from headrace.formats.inventory_manifest import Manifest
from headrace.kafka import control_records
from headrace.kafka.control_records import AbsentRange, FirstStart
from headrace.kafka.ledger_cache import CacheLedgerView, LedgerCache
from headrace.kafka.ledger_writer import Write
from headrace.model.errors import InvalidConfiguration
from headrace.options import Settings
from headrace.options.choices import Ordering
from ingest.service.service_events import Written
from ingest.source.catalogue import Baseline, Catalogue
from ingest.source.catalogue.expiry import Notes
from ingest.source.catalogue.ledger_view import Absence
from ingest.source.first_starts import first_start_records, is_first_start, skipped_keys
from ingest.source.object_selection import object_filters_of
from ingest.source.planner import Backoff, BatchLimits, Planner


def deciders(
    settings: Settings,
    view: CacheLedgerView,
    firsts: Mapping[str, FirstStart],
    baselines: Mapping[str, Baseline],
    *,
    slots: int,
) -> tuple[Catalogue, Planner]:
    """The catalogue over what the ledger knows, and the planner for so many slots; a baseline a bucket."""
    catalogue = Catalogue(
        view=view,
        filters=object_filters_of(settings, baselines),
        max_pending_objects=settings.discovery.max_pending_objects,
        retention_ms=settings.ledger.retention_ms,
        joining=settings.joining,
        post_action=None if settings.post_action is None else settings.post_action.text,
        is_ordered=settings.routing.ordering is Ordering.PARTITION,
        noted={bucket: _noted_in(first) for bucket, first in firsts.items()},
        skip_through=skipped_keys(baselines),
    )
    limits = BatchLimits(
        slots=slots,
        max_objects=settings.jobs.max_objects,
        max_bytes=settings.jobs.max_bytes,
        ordering=settings.routing.ordering,
        can_cut=settings.format.input_format in SPLITTERS,
        is_archive=settings.format.restore is not None,
        max_attempts=settings.errors.max_attempts,
    )
    backoff = Backoff(first_ms=settings.errors.retry_delay_ms, longest_ms=settings.errors.retry_delay_max_ms)
    return catalogue, Planner(catalogue, limits=limits, backoff=backoff)


def _noted_in(first: FirstStart) -> Notes:
    absent = () if first.absent is msgspec.UNSET else first.absent
    return Notes(
        [
            Absence((one.begin_key, one.begin_etag), (one.end_key, one.end_etag), one.since_ms)
            for one in absent
        ],
        () if first.listed_ms is msgspec.UNSET else first.listed_ms,
    )


_log = structlog.get_logger(__name__)

InventoriesFound = tuple[Manifest, ...] | InvalidConfiguration
"""The manifests of the option, or why they cannot be read."""


def require_inventories(found: InventoriesFound, settings: Settings, cache: LedgerCache) -> None:
    """InvalidConfiguration where this would be the first start and its inventories cannot be read.

    Nothing has begun then; a later start has begun, and goes without.
    """
    if isinstance(found, InvalidConfiguration) and is_first_start(settings, cache):
        raise found


def with_inventories(first: FirstStart, settings: Settings, *, is_new: bool) -> FirstStart:
    """The record of the first start with the inventories that it reads; they may be corrected until then."""
    wanted = settings.discovery.initial_inventory
    if is_new or first.owes_inventory:
        return replace(first, inventory=wanted or msgspec.UNSET)
    if wanted and wanted != first.inventories:
        _log.warning(
            "inventory_not_taken",
            initial_inventory=wanted,
            detail="initial.inventory counts at the first start with a bucket and a prefix, which was "
            "before; listings find what it names",
        )
    return first


def inventories_to_read(found: InventoriesFound, first: FirstStart, bucket: str) -> tuple[Manifest, ...]:
    """What of a bucket is to be read before its first listing of this leadership."""
    if not first.owes_inventory:
        return ()
    if isinstance(found, InvalidConfiguration):
        _log.warning("inventory_not_read", error=str(found), detail="the bucket is listed instead")
        return ()
    return tuple(manifest for manifest in found if manifest.source == bucket)


class ListingNotes:
    """Notes in the records of first starts what full listings have shown; on the thread that decides.

    A record that 1.0.0 wrote without a bucket stays where it is, so that 1.0.0 can be returned to; what
    listings do not show is not noted there: 1.0.0 would keep that as it is, whatever its own listings show.
    """

    def __init__(
        self,
        firsts: Mapping[str, FirstStart],
        cache: LedgerCache,
        catalogue: Catalogue,
        submit: Callable[[Sequence[Write], Written], None],
    ) -> None:
        self._firsts = dict(firsts)
        controls = cache.controls()
        is_written = not first_start_records(cache, firsts)
        self._keys = {
            bucket: control_records.FIRST_START if is_written and key not in controls else key
            for bucket, key in ((one, control_records.first_start_key(one)) for one in firsts)
        }
        self._catalogue = catalogue
        self._submit = submit

    def listed(self, bucket: str, *, is_first: bool) -> None:
        """A full listing of the bucket is complete, with the first one its inventory of no more use."""
        first = noted = self._firsts[bucket]
        if is_first and first.owes_inventory:
            noted = replace(noted, is_inventory_over=True)
        notes = None if self._keys[bucket] == control_records.FIRST_START else self._catalogue.notes(bucket)
        if notes is not None:
            absent = tuple(AbsentRange(*one.begin, *one.end, one.since_ms) for one in notes.absences)
            listed_ms = tuple(notes.listed_ms)
            noted = replace(noted, absent=absent or msgspec.UNSET, listed_ms=listed_ms or msgspec.UNSET)
        if noted != first:
            self._firsts[bucket] = noted
            record = (self._keys[bucket], control_records.encode_control(noted))
            self._submit([record], Written((), is_command=False))
