"""What a sight of an object means, given what the ledger says of it."""

from enum import Enum, auto
from typing import Final

from headrace.model.ledger_entry import REVIVABLE_REASONS, LedgerEntry, State
from headrace.model.objects import S3Object

# INTELLIGENT_TIERING lists alike whether its archive tiers hold the object or not: looked at, but seldom.
_ARCHIVED_AGAIN_MS: Final = 3_600_000


class Source(Enum):
    """Who told of an object."""

    EVENT = auto()
    RESTORE = auto()
    LISTING = auto()


class LedgerVerdict(Enum):
    """What the ledger makes of it."""

    UNKNOWN = auto()
    UNFINISHED = auto()
    REVIVED = auto()  # `skipped`, but not for good: it is worth another look
    SETTLED = auto()


def has_other_version(seen: S3Object, known: S3Object | LedgerEntry) -> bool:
    """True when a version is named that was not the one known: it may be there where the other is not."""
    return seen.version_id is not None and seen.version_id != known.version_id


def verdict_of(entry: LedgerEntry | None, seen: S3Object, source: Source, now_ms: int) -> LedgerVerdict:
    """Where an object is that `source` has just shown (docs/ledger.md).

    An event is newer when its time is above the one known, both being S3's clock, or when it names another
    version: a repeated event is neither.
    """
    if entry is None:
        return LedgerVerdict.UNKNOWN
    if not entry.is_settled:
        return LedgerVerdict.UNFINISHED
    if entry.state is not State.SKIPPED or entry.reason not in REVIVABLE_REASONS:
        return LedgerVerdict.SETTLED
    is_newer = seen.last_modified_ms > entry.last_modified_ms or has_other_version(seen, entry)
    if entry.reason == "archived":
        match source:
            case Source.RESTORE:
                revived = True
            case Source.EVENT:
                revived = is_newer
            case Source.LISTING:
                is_readable = not seen.is_archived
                revived = is_readable and (is_newer or now_ms - entry.updated_ms >= _ARCHIVED_AGAIN_MS)
    else:
        revived = source is Source.LISTING or (source is Source.EVENT and is_newer)
    return LedgerVerdict.REVIVED if revived else LedgerVerdict.SETTLED
