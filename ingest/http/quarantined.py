"""The newest quarantined objects as the ledger's cache has them, for `/status` and `headrace status`."""

from collections.abc import Sequence
from typing import Final, Protocol

from headrace.kafka.ledger_cache import CachedEntry
from headrace.model.ledger_entry import State
from headrace.model.positions import position_text
from headrace.model.text_formatting import printable
from ingest.http.snapshot import QuarantinedObject

_SHOWN: Final = 50
# Among so many the newest are looked for; the rest is for `headrace status --state quarantined`.
_READ: Final = 1000


class EntriesByState(Protocol):
    """What is asked of the ledger's cache."""

    def by_state(self, state: State, limit: int, /, *, bucket: str | None) -> list[CachedEntry]:
        """Up to `limit` objects of the bucket in this state."""


def newest_quarantined(ledger: EntriesByState, buckets: Sequence[str]) -> tuple[QuarantinedObject, ...]:
    """Up to fifty of these buckets, the newest first."""
    found = [
        known for bucket in buckets for known in ledger.by_state(State.QUARANTINED, _READ, bucket=bucket)
    ]
    known = sorted(found, key=lambda one: one.entry.updated_ms, reverse=True)
    return tuple(_quarantined(one) for one in known[:_SHOWN])


def _quarantined(known: CachedEntry) -> QuarantinedObject:
    entry = known.entry
    return QuarantinedObject(
        bucket=known.id.bucket,
        key=printable(known.id.key),
        reason=entry.reason,
        position=position_text(entry.position),
        error=None if entry.error is None else printable(entry.error),
        topic=entry.topic,
        records=entry.records,
        bad=entry.bad,
        bytes=entry.size,
        at_ms=entry.updated_ms,
    )
