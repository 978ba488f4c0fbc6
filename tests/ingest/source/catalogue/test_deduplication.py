"""What an event or a listing of an object means, given its ledger entry."""

import re

import pytest

from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.objects import ObjectId, S3Object
from ingest.source import catalogue
from ingest.source.catalogue import Catalogue, Effects
from ingest.source.catalogue.deduplication import LedgerVerdict, Source, verdict_of
from ingest.source.planner import Planner

HOUR = 3_600_000
KNOWN_MS = 10 * HOUR + 123


def entry(state: State, reason: str | None = None) -> LedgerEntry:
    """An entry of version v1, written at ten o'clock."""
    return LedgerEntry(
        state=state, reason=reason, last_modified_ms=KNOWN_MS, updated_ms=KNOWN_MS, version_id="v1"
    )


def seen(*, later_ms: int = 0, version_id: str | None = None, storage_class: str | None = None) -> S3Object:
    """The same content, seen `later_ms` after."""
    return S3Object(
        id=ObjectId("bucket", "key", "etag"),
        size=1,
        last_modified_ms=KNOWN_MS + later_ms,
        version_id=version_id,
        storage_class=storage_class,
    )


@pytest.mark.parametrize(
    ("state", "reason", "expected"),
    [
        (State.DONE, None, LedgerVerdict.SETTLED),
        (State.DONE, "marked", LedgerVerdict.SETTLED),
        (State.QUARANTINED, "corrupt", LedgerVerdict.SETTLED),
        (State.SKIPPED, "empty", LedgerVerdict.SETTLED),
        (State.PARTIAL, None, LedgerVerdict.UNFINISHED),
        (State.FAILED, "corrupt", LedgerVerdict.UNFINISHED),
        (State.NEW, None, LedgerVerdict.UNFINISHED),
    ],
)
@pytest.mark.parametrize("source", list(Source))
def test_final_and_unfinished_states_do_not_depend_on_the_sight(
    state: State, reason: str | None, expected: LedgerVerdict, source: Source
) -> None:
    """Done stays done, however new the event."""
    assert verdict_of(entry(state, reason), seen(later_ms=HOUR), source, KNOWN_MS) is expected


@pytest.mark.parametrize("source", list(Source))
def test_without_an_entry_it_is_unknown(source: Source) -> None:
    """Nobody has begun it."""
    assert verdict_of(None, seen(), source, KNOWN_MS) is LedgerVerdict.UNKNOWN


@pytest.mark.parametrize(
    ("reason", "source", "sight", "now_ms", "is_revived"),
    [
        ("missing", Source.LISTING, seen(), KNOWN_MS, True),
        ("superseded", Source.LISTING, seen(), KNOWN_MS, True),
        ("missing", Source.EVENT, seen(), KNOWN_MS, False),
        ("missing", Source.EVENT, seen(later_ms=-1), KNOWN_MS, False),
        ("missing", Source.EVENT, seen(later_ms=1), KNOWN_MS, True),
        ("missing", Source.EVENT, seen(later_ms=-123), KNOWN_MS, True),
        ("missing", Source.EVENT, seen(later_ms=-1123), KNOWN_MS, False),
        ("superseded", Source.EVENT, seen(version_id="v1"), KNOWN_MS, False),
        ("superseded", Source.EVENT, seen(version_id="v0"), KNOWN_MS, True),
        ("superseded", Source.EVENT, seen(later_ms=-123, version_id="v1"), KNOWN_MS, False),
        ("missing", Source.RESTORE, seen(later_ms=1), KNOWN_MS, False),
        ("archived", Source.RESTORE, seen(), KNOWN_MS, True),
        ("archived", Source.EVENT, seen(), KNOWN_MS, False),
        ("archived", Source.EVENT, seen(later_ms=1), KNOWN_MS, True),
        ("archived", Source.EVENT, seen(later_ms=-123), KNOWN_MS, True),
        ("archived", Source.LISTING, seen(later_ms=-123, storage_class="STANDARD"), KNOWN_MS, False),
        ("archived", Source.LISTING, seen(storage_class="GLACIER"), KNOWN_MS + 9 * HOUR, False),
        ("archived", Source.LISTING, seen(later_ms=1, storage_class="DEEP_ARCHIVE"), KNOWN_MS, False),
        ("archived", Source.LISTING, seen(later_ms=1, storage_class="STANDARD"), KNOWN_MS, True),
        ("archived", Source.LISTING, seen(storage_class="INTELLIGENT_TIERING"), KNOWN_MS + HOUR - 1, False),
        ("archived", Source.LISTING, seen(storage_class="INTELLIGENT_TIERING"), KNOWN_MS + HOUR, True),
        ("archived", Source.LISTING, seen(storage_class="GLACIER_IR"), KNOWN_MS + HOUR, True),
    ],
)
def test_skipped_is_not_always_final(
    reason: str,
    source: Source,
    sight: S3Object,
    now_ms: int,
    is_revived: bool,
) -> None:
    """A listing, a newer event or a restore brings it back; an event repeated in milliseconds does not.

    An event of the whole second (EventBridge's) may be newer; what listings show of it they show again.
    """
    found = verdict_of(entry(State.SKIPPED, reason), sight, source, now_ms)
    assert found is (LedgerVerdict.REVIVED if is_revived else LedgerVerdict.SETTLED)


def test_the_front_door_calls_what_is_there() -> None:
    """What it shows of the catalogue, the planner and effects is what they have."""
    text = catalogue.__doc__ or ""
    for name, owner in (("catalogue", Catalogue), ("planner", Planner), ("effects", Effects)):
        called = set(re.findall(rf"\b{name}\.(\w+)", text)) - {"Planner"}
        assert called
        assert {one for one in called if not hasattr(owner, one)} == set(), name
