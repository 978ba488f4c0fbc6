"""Whether an object that is announced or listed is new, by its entry; events that only a HEAD confirms."""

from bisect import bisect_left, insort
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from heapq import heappop, heappush
from itertools import count, takewhile
from typing import Final

from headrace.model.clock import Instant
from headrace.model.ledger_entry import REVIVABLE_REASONS, LedgerEntry, State
from headrace.model.objects import ObjectId, Route, S3Object
from ingest.source.catalogue.effects import HeadRequest
from ingest.source.catalogue.pending import PendingObject, Phase, Place, is_begun, sequencer_rank
from ingest.source.notification import EventKind, ObjectEvent

# INTELLIGENT_TIERING lists alike whether its archive tiers hold the object or not: looked at, but seldom.
_ARCHIVED_AGAIN_MS: Final = 3_600_000
# Those of one key that wait; a tenth of a second of the service's thread when they are let go.
_MOST_OF_A_KEY: Final = 1000
# So long do listings wait for a HEAD: one that fails for ever must not keep its key from being read.
_LISTED_WAITS_MS: Final = 600_000


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


def has_other_version(s3_object: S3Object, known: S3Object | LedgerEntry) -> bool:
    """True when a version is named that was not the one known: it may be there where the other is not."""
    return s3_object.version_id is not None and s3_object.version_id != known.version_id


def is_newer(announced: S3Object, known: S3Object | LedgerEntry) -> bool:
    """True when an event may tell of a later upload of the content that is known, or of another version.

    Sequencers tell where both have one; the ledger keeps none. By time it may be later in the second that
    is known, where it tells whole seconds (EventBridge): a repeated event then costs one vain look.
    """
    if has_other_version(announced, known) or announced.last_modified_ms > known.last_modified_ms:
        return True
    if announced.version_id is not None:
        return False  # the version that is known
    sequencer = known.sequencer if isinstance(known, S3Object) else None
    if sequencer is not None and announced.sequencer is not None:
        return sequencer_rank(announced.sequencer) > sequencer_rank(sequencer)
    return announced.latest_ms > known.last_modified_ms


def verdict_of(entry: LedgerEntry | None, s3_object: S3Object, source: Source, now_ms: int) -> LedgerVerdict:
    """Where an object is that `source` has just shown (docs/ledger.md).

    What is skipped comes back with a newer event; times of events, listings and entries are S3's.
    """
    if entry is None:
        return LedgerVerdict.UNKNOWN
    if not entry.is_settled:
        return LedgerVerdict.UNFINISHED
    if entry.state is not State.SKIPPED or entry.reason not in REVIVABLE_REASONS:
        return LedgerVerdict.SETTLED
    if entry.reason == "archived":
        match source:
            case Source.RESTORE:
                revived = True
            case Source.EVENT:
                revived = is_newer(s3_object, entry)
            case Source.LISTING:
                # A listing repeats itself: in whole seconds, too, it has to be later.
                is_later = s3_object.last_modified_ms > entry.last_modified_ms or has_other_version(
                    s3_object, entry
                )
                # An entry of the future was written by a clock that is put right since.
                is_due = not 0 <= now_ms - entry.updated_ms < _ARCHIVED_AGAIN_MS
                revived = not s3_object.is_archived and (is_later or is_due)
    else:
        revived = source is Source.LISTING or (source is Source.EVENT and is_newer(s3_object, entry))
    return LedgerVerdict.REVIVED if revived else LedgerVerdict.SETTLED


MISSING: Final = "missing"
OUTDATED: Final = "outdated"

# The order of versions: by sequencer, then by time.
_Order = tuple[str, int]
# Bucket, key, and whether sequencers are told: what has none is ordered among its like alone.
_Line = tuple[str, str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenHeadRequest:
    """An event that waits for a HEAD, asked of `key` now and then of `alternate_key`.

    Of an event that `is_old` the current version is asked about: listings have not shown any other since it
    was overwritten, so that its entry may have left the ledger.
    """

    token: str
    event: ObjectEvent
    key: str
    alternate_key: str | None
    is_old: bool
    order: _Order
    asked_ms: int

    @property
    def lines(self) -> list[_Line]:
        """Where its object may turn out to be a version."""
        keys = (self.key,) if self.alternate_key is None else (self.key, self.alternate_key)
        return [(self.event.bucket, key, self.event.sequencer is not None) for key in keys]

    @property
    def request(self) -> HeadRequest:
        """What to ask of S3."""
        version_id = None if self.is_old else self.event.version_id
        return HeadRequest(token=self.token, bucket=self.event.bucket, key=self.key, version_id=version_id)

    @property
    def is_unanswered_without(self) -> bool:
        """Whether nothing may follow from a HEAD that is refused: it is needed for what the event lacks."""
        return self.event.etag is None or self.event.size is None or self.is_old

    @property
    def source(self) -> Source:
        """Who told of the object."""
        return source_of(self.event)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldObject:
    """A version that is known before an earlier one of its key: messages wait for `token`."""

    token: str
    object: S3Object
    source: Source


@dataclass(slots=True)
class _Versions:
    """HEADs that were asked about versions of a key, and versions that wait for their answers, in order."""

    asked: list[tuple[_Order, str]] = field(default_factory=list)
    waiting: list[tuple[_Order, int, HeldObject]] = field(default_factory=list)

    def is_free(self, order: _Order) -> bool:
        """Whether no HEAD about an earlier version is unanswered."""
        return not self.asked or self.asked[0][0] >= order


class HeadRequests:
    """The HEADs that have not been answered. `retention_ms` is how long the ledger remembers at least.

    They are answered in any order, and versions of a key are read in theirs: a later one waits, by `hold`,
    until `release` gives it. It waits for what is unanswered alone, not for others that wait. `is_ordered`
    says that objects of a topic-partition wait for one another (`ordering=partition`).
    """

    def __init__(self, *, retention_ms: int, is_ordered: bool = False) -> None:
        self._retention_ms = retention_ms
        self._is_ordered = is_ordered
        self._open: dict[str, OpenHeadRequest] = {}
        self._numbers = count(1)
        self._versions: dict[_Line, _Versions] = {}
        self._held: set[str] = set()
        self._listed: dict[Place, S3Object] = {}

    def __len__(self) -> int:
        return len(self._open) + len(self._held)

    def is_needed(self, event: ObjectEvent, now_ms: int) -> bool:
        """True when the event alone is not enough: no identity, no size, two keys, or too old."""
        return (
            event.etag is None
            or event.size is None
            or event.alternate_key is not None
            or self._is_old(event, now_ms)
        )

    def open(self, event: ObjectEvent, keys: list[str], now: Instant) -> OpenHeadRequest:
        """A new question, about the first of `keys` and then about the second."""
        question = OpenHeadRequest(
            token=f"head-{next(self._numbers)}",
            event=event,
            key=keys[0],
            alternate_key=keys[1] if len(keys) > 1 else None,
            is_old=self._is_old(event, now.wall_ms),
            order=_order_of(as_announced(event, ObjectId(event.bucket, keys[0], ""), now.wall_ms)),
            asked_ms=now.steady_ms,
        )
        self._ask(question)
        return question

    def pop(self, token: str) -> OpenHeadRequest | None:
        """The question with this token, which is closed by that: `release` what waits for it."""
        question = self._open.pop(token, None)
        if question is not None:
            for line in question.lines:
                asked = self._versions[line].asked
                del asked[bisect_left(asked, (question.order, token))]
                self._forget_empty(line)
        return question

    def ask_alternate(self, question: OpenHeadRequest) -> OpenHeadRequest:
        """The same question about the alternate key."""
        assert question.alternate_key is not None
        again = replace(question, key=question.alternate_key, alternate_key=None)
        self._ask(again)
        return again

    def may_wait(self, route: Route, entry: LedgerEntry | None, *, is_listed: bool = False) -> bool:
        """Whether a version may wait for a HEAD about an earlier one.

        What is begun has its place among the versions; out of the table its entry could expire. What has an
        offset in its name, is of an archive, or is listed for an ordered topic-partition, others wait for in
        the table.
        """
        is_awaited = route.archive is not None or route.start_offset is not None
        is_awaited |= is_listed and self._is_ordered and route.partition is not None
        return not is_awaited and (entry is None or not is_begun(entry))

    def hold(self, s3_object: S3Object, source: Source) -> str | None:
        """The token to wait for where a HEAD about an earlier version of the key is unanswered, else None.

        None as well where very many of the key wait: all are let go in one turn.
        """
        line = (*s3_object.id.place, s3_object.sequencer is not None)
        versions, order = self._versions.get(line), _order_of(s3_object)
        if versions is None or versions.is_free(order) or len(versions.waiting) >= _MOST_OF_A_KEY:
            return None
        number = next(self._numbers)
        held = HeldObject(token=f"held-{number}", object=s3_object, source=source)
        heappush(versions.waiting, (order, number, held))
        self._held.add(held.token)
        return held.token

    @property
    def held(self) -> AbstractSet[str]:
        """The tokens of `hold` of what still waits."""
        return self._held

    def release(self, question: OpenHeadRequest) -> list[HeldObject]:
        """What need not wait any more since this question was closed, the earliest version first."""
        found = []
        for line in question.lines:
            versions = self._versions.get(line, _Versions())
            while versions.waiting and versions.is_free(versions.waiting[0][0]):
                found.append(heappop(versions.waiting)[2])
                self._held.discard(found[-1].token)
            self._forget_empty(line)
        return found

    def hold_listed(self, s3_object: S3Object, route: Route, entry: LedgerEntry | None, now: Instant) -> bool:
        """Whether what a listing shows waits for `release_listed`, as a HEAD about an earlier version does.

        Listings tell whole seconds, and show the newest of its second. Of a key the last one waits: what was
        shown before it is overwritten. Without a version a HEAD answers what a listing shows. None waits
        where a HEAD about the key has had no answer for minutes.
        """
        if not self.may_wait(route, entry, is_listed=True):
            return False
        place, second = s3_object.id.place, s3_object.last_modified_ms // 1000
        lines = (self._versions.get((*place, is_told)) for is_told in (True, False))
        asked = [self._open[token] for line in lines if line is not None for _, token in line.asked]
        is_held = not any(_is_overdue(one, now.steady_ms) for one in asked) and any(
            one.request.version_id is not None and one.order[1] // 1000 <= second for one in asked
        )
        known = self._listed.get(place)
        if is_held:
            self._listed[place] = s3_object
        elif known is not None and known.last_modified_ms <= s3_object.last_modified_ms:
            del self._listed[place]
        return is_held

    def overdue_listed(self, steady_ms: int) -> list[S3Object]:
        """What waits no longer by `hold_listed`, as a HEAD about its key has had no answer for minutes."""
        if not self._listed:
            return []
        late = takewhile(lambda one: _is_overdue(one, steady_ms), self._open.values())
        places = dict.fromkeys(line[:2] for one in late for line in one.lines)
        return [self._listed.pop(place) for place in places if place in self._listed]

    def release_listed(self, question: OpenHeadRequest) -> list[S3Object]:
        """What listings have shown of the keys of this question, which is closed: to be judged again."""
        places = dict.fromkeys(line[:2] for line in question.lines)
        return [self._listed.pop(place) for place in places if place in self._listed]

    def confirmed_object(
        self, question: OpenHeadRequest, found: S3Object | None, now_ms: int, *, is_forbidden: bool
    ) -> S3Object | str:
        """The object that event and HEAD together speak of, or why there is none."""
        event = question.event
        if found is None and not is_forbidden:
            return MISSING
        if found is not None and (event.etag is None or found.id.etag == event.etag):
            return replace(
                as_announced(event, found.id, now_ms),
                size=found.size,
                version_id=found.version_id if question.is_old else event.version_id or found.version_id,
                storage_class=found.storage_class,
            )
        if event.etag is None or event.size is None or question.is_old:
            return OUTDATED
        # The key is proven; its content was overwritten, or may not be read: reading it finds out which.
        return as_announced(event, ObjectId(event.bucket, question.key, event.etag), now_ms)

    def _ask(self, question: OpenHeadRequest) -> None:
        self._open[question.token] = question
        for line in question.lines:
            insort(self._versions.setdefault(line, _Versions()).asked, (question.order, question.token))

    def _forget_empty(self, line: _Line) -> None:
        versions = self._versions.get(line)
        if versions is not None and not versions.asked and not versions.waiting:
            del self._versions[line]

    def _is_old(self, event: ObjectEvent, now_ms: int) -> bool:
        """True when the ledger may have forgotten the object that this event announces."""
        return event.event_time_ms is not None and event.event_time_ms < now_ms - self._retention_ms


def _is_overdue(question: OpenHeadRequest, steady_ms: int) -> bool:
    return steady_ms - question.asked_ms >= _LISTED_WAITS_MS


def _order_of(s3_object: S3Object) -> _Order:
    return sequencer_rank(s3_object.sequencer or ""), s3_object.last_modified_ms


def source_of(event: ObjectEvent) -> Source:
    """A restore is a source of its own: it revives what is archived, and begins nothing."""
    return Source.RESTORE if event.kind is EventKind.RESTORED else Source.EVENT


def as_announced(event: ObjectEvent, object_id: ObjectId, now_ms: int) -> S3Object:
    """The object as the event tells of it; a size that it does not tell is 0."""
    return S3Object(
        id=object_id,
        size=event.size or 0,
        last_modified_ms=now_ms if event.event_time_ms is None else event.event_time_ms,
        version_id=event.version_id,
        sequencer=event.sequencer,
    )


def in_its_time(s3_object: S3Object, entry: LedgerEntry, source: Source | None = None) -> S3Object:
    """The object with the ledger's time where records may have it, or where `source` tells a restore's.

    Else `record.timestamp=object` would give records of one object two times, or one years after its upload.
    """
    is_kept = source is Source.RESTORE or is_begun(entry)
    if not is_kept or not entry.last_modified_ms:  # offsets that were set may tell none
        return s3_object
    return replace(s3_object, last_modified_ms=entry.last_modified_ms)


def announced_again(pending: PendingObject, s3_object: S3Object, source: Source) -> bool:
    """Note what an event tells of an object that is pending; True when its key's versions are to be queued.

    It goes to the front, and may go before another version that was the first one.
    """
    known = pending.object
    shown = shown_again(known, s3_object)
    is_restore = source is Source.RESTORE
    pending.is_replayed |= is_restore
    is_kept = is_restore or (pending.entry is not None and is_begun(pending.entry))
    if is_kept and known.last_modified_ms:
        shown = replace(shown, last_modified_ms=known.last_modified_ms)  # as `in_its_time`
    says_more = known.sequencer is None and (
        s3_object.sequencer is not None or s3_object.last_modified_ms >= known.last_modified_ms
    )
    is_waiting = pending.phase is Phase.WAITING
    is_promoted = not pending.is_fresh
    if is_waiting and says_more:
        pending.object = shown
    elif is_newer(s3_object, known):
        pending.newer = shown
    for each in (pending, *pending.splits):
        each.is_fresh = True
    return is_waiting and (says_more or is_promoted)


def shown_again(known: S3Object, s3_object: S3Object) -> S3Object:
    """Where and when the same content was shown last; its size is known already, an event may lack it."""
    return replace(
        known,
        last_modified_ms=s3_object.last_modified_ms,
        version_id=s3_object.version_id,
        sequencer=s3_object.sequencer,
    )
