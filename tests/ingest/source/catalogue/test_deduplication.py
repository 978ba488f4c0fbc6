"""What an event or a listing of an object means, given its ledger entry."""

import re
from typing import Any

import pytest

from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.objects import ObjectId, S3Object
from ingest.source import catalogue
from ingest.source.catalogue import Catalogue, Effects
from ingest.source.catalogue.deduplication import LedgerVerdict, Source, verdict_of
from ingest.source.catalogue.effects import HeadRequest
from ingest.source.planner import Planner
from tests.ingest.source.catalogue.desk import DAY, NOW, Desk, event, listed

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


class TestEventsOlderThanTheLedgerRemembers:
    """Redriven, or replayed from an archive of events."""

    def ask(self, desk: Desk, **fields: Any) -> HeadRequest:
        """The HEAD that such an event costs."""
        (request,) = desk.announce("m", event("a", event_time_ms=NOW - DAY - 1, **fields)).heads
        return request

    def test_a_head_that_is_refused_leaves_the_message(self) -> None:
        """Nothing was learned, and no listing finds a version that is not current any more."""
        desk = Desk(retention_ms=DAY)
        request = self.ask(desk, version_id="v1")
        answer = desk.catalogue.on_head_answer(request.token, None, desk.now, is_forbidden=True)
        effects = desk.do(answer)
        assert (effects.abandoned, effects.settled, effects.ignored) == (("m",), (), {"forbidden": 1})

    def test_the_current_version_is_asked_about(self) -> None:
        """One that was overwritten is in no listing: its entry may have left, and it would be read again."""
        desk = Desk(retention_ms=DAY)
        request = self.ask(desk, version_id="v1")
        assert (request.key, request.version_id) == ("a", None)
        current = listed("a", "2", version_id="v2")
        effects = desk.do(desk.catalogue.on_head_answer(request.token, current, desk.now))
        assert (effects.settled, effects.ignored, effects.pending) == (("m",), {"outdated": 1}, 0)

    def test_what_is_current_is_read_as_it_is(self) -> None:
        """The same content may be there as a later version."""
        desk = Desk(retention_ms=DAY)
        request = self.ask(desk, version_id="v1")
        current = listed("a", "1", version_id="v3")
        desk.do(desk.catalogue.on_head_answer(request.token, current, desk.now))
        (work,) = desk.works[desk.plan()]
        assert (work.object.id.etag, work.object.version_id) == ("1", "v3")

    def test_a_younger_event_asks_about_its_version(self) -> None:
        """Its entry is in the ledger, if it was read."""
        desk = Desk(retention_ms=DAY)
        (request,) = desk.announce("m", event("a", None, version_id="v1")).heads
        assert request.version_id == "v1"
