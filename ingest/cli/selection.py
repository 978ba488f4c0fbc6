"""Which objects a command is for: from the ledger for `replay`, from a listing for `mark`."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any, Final

from headrace.kafka.ledger_cache import CachedEntry, LedgerCache
from headrace.model.errors import InvalidConfiguration
from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.objects import S3Object
from headrace.options import Settings
from ingest.checks.probes.bucket_keys import list_pages
from ingest.source.catalogue import ExclusionReason, Selection
from ingest.source.object_selection import baseline_of, object_filter_of

# What goes on from its position without repeating anything, and waits for a person or for the next attempt.
WAITING: Final = frozenset({State.QUARANTINED, State.FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedObject:
    """An object with what the ledger says of it (None: nothing); `records` of it are in Kafka already."""

    object: S3Object
    entry: LedgerEntry | None
    records: int

    @property
    def state(self) -> State | None:
        """The state in the ledger."""
        return None if self.entry is None else self.entry.state


def objects_to_replay(
    cache: LedgerCache, buckets: Sequence[str], selection: Selection, *, from_start: bool
) -> Iterator[SelectedObject]:
    """The ledger's objects that a replay is for; none in `new`, which are asked for already.

    Without `states`: what is quarantined or failed, or, from its start, in any state.
    """
    states = selection.states or (frozenset(State) if from_start else WAITING)
    states -= {State.NEW}
    for known in _known(cache, buckets, selection, states):
        if known.id.bucket not in buckets or known.state not in states:
            continue
        # Decoded only now: most of a large ledger is passed over above.
        entry = known.entry
        if not selection.matches(known.id, entry.last_modified_ms, entry.state):
            continue
        if not from_start and entry.state in {State.DONE, State.PARTIAL}:
            continue
        seen = S3Object(
            id=known.id,
            size=entry.size,
            last_modified_ms=entry.last_modified_ms,
            version_id=entry.version_id,
        )
        yield SelectedObject(object=seen, entry=entry, records=_records(cache, known, entry))


def objects_to_mark(
    client: Any, cache: LedgerCache | None, settings: Settings, selection: Selection
) -> Iterator[SelectedObject]:
    """The objects of one bucket that are not done, as a listing shows them, without what `run` leaves out.

    AccessDenied, SourceUnavailable; InvalidConfiguration when the selection lies outside `aws.s3.prefix`.
    """
    object_filter = object_filter_of(settings, baseline_of(settings, cache, 0))
    wanted = selection.prefix if selection.key is None else selection.key
    if not wanted.startswith(settings.s3.prefix) and not settings.s3.prefix.startswith(wanted):
        raise InvalidConfiguration(
            f"{wanted!r} does not begin with aws.s3.prefix {settings.s3.prefix!r}: no object there is ever "
            "ingested."
        )
    prefix = max(wanted, settings.s3.prefix, key=len)
    for page in list_pages(client, settings.s3, prefix=prefix):
        for seen in page.objects:
            entry = None if cache is None else cache.get(seen.id)
            state = None if entry is None else entry.state
            if (
                state is not State.DONE
                and selection.matches(seen.id, seen.last_modified_ms, state)
                and not isinstance(object_filter.route_or_reason(seen.id.key), ExclusionReason)
            ):
                yield SelectedObject(object=seen, entry=entry, records=0 if entry is None else entry.records)


def chosen_buckets(settings: Settings, bucket: str | None) -> tuple[Settings, ...]:
    """The settings of each bucket that a command is for: all, or the one of `--bucket`.

    InvalidConfiguration for one that the configuration does not name.
    """
    places = [place for place in settings.by_place() if bucket in {None, place.s3.bucket}]
    if not places:
        raise InvalidConfiguration(
            f"--bucket {bucket}: aws.s3.bucket.name has {', '.join(settings.buckets)}, and not this one."
        )
    return tuple(places)


def moment_ms(text: str, option: str, *, is_end: bool = False) -> int:
    """A date or time in ISO 8601 as ms since 1970, in UTC unless it says otherwise.

    A date alone is its first millisecond, or its last when `is_end`. InvalidConfiguration names the option.
    """
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidConfiguration(
            f"{option} {text!r}: expected a date or time such as 2025-01-31 or 2025-01-31T08:30:00Z."
        ) from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    if is_end and found.time() == time() and len(text.strip()) <= len("2025-01-31"):
        found += timedelta(days=1, milliseconds=-1)
    return int(found.timestamp() * 1000)


def states_of(names: Iterable[str]) -> frozenset[State]:
    """The states that these names mean; InvalidConfiguration lists those that there are."""
    found = set()
    for name in names:
        try:
            found.add(State(name.strip().lower()))
        except ValueError:
            raise InvalidConfiguration(
                f"--state {name!r}: expected one of {', '.join(state.value for state in State)}."
            ) from None
    return frozenset(found)


def _known(
    cache: LedgerCache, buckets: Sequence[str], selection: Selection, states: frozenset[State]
) -> Iterator[CachedEntry]:
    if selection.key is not None:
        for bucket in buckets:
            yield from cache.of_key(bucket, selection.key)
    elif State.DONE not in states:
        # Kept by state in the cache: a million objects that are done are not walked for three that are not.
        for state in sorted(states):
            yield from sorted(cache.by_state(state, -1), key=lambda known: known.id)
    else:
        for bucket in buckets:
            yield from _below(cache, bucket, selection.prefix)


def _below(cache: LedgerCache, bucket: str, prefix: str) -> Iterator[CachedEntry]:
    for known in cache.scan(bucket):
        if known.id.key.startswith(prefix):
            yield known
        elif known.id.key > prefix:
            return


def _records(cache: LedgerCache, known: CachedEntry, entry: LedgerEntry) -> int:
    """How many records of the object were committed; of a split one they are its splits'."""
    if entry.cuts is None:
        return entry.records
    return max(entry.records, sum(part.records for part in cache.splits(known.id).values()))
