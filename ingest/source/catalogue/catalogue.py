"""What is known of each object: events and listings in, new work and bookkeeping out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from headrace.model.clock import Instant
from headrace.model.ledger_entry import LedgerEntry, LedgerKey, State
from headrace.model.objects import ListingPage, ObjectId, Route, S3Object
from headrace.options.settings import JoiningSettings
from ingest.source.catalogue.deduplication import (
    HeadRequests,
    LedgerVerdict,
    Source,
    announced_again,
    as_announced,
    in_its_time,
    shown_again,
    source_of,
    verdict_of,
)
from ingest.source.catalogue.effects import Effects, EffectsBuilder, LedgerWrite, Owed
from ingest.source.catalogue.expiry import IN_A_TURN, NOTHING_NOTED, Expiry, Notes
from ingest.source.catalogue.ledger_view import LedgerView
from ingest.source.catalogue.listing_merge import (
    BucketListings,
    ExclusionReason,
    ObjectFilter,
    Unlisted,
    Unread,
    compared_with_ledger,
    unread_of,
)
from ingest.source.catalogue.object_commands import ObjectCommand, Replay
from ingest.source.catalogue.object_state import ObjectStates
from ingest.source.catalogue.pending import PendingObject, Phase
from ingest.source.catalogue.tombstones import FolderPlaces
from ingest.source.notification import EventKind, ObjectEvent

# Below this share of max.pending.objects listing goes on again.
_LISTS_AGAIN_BELOW = 0.9


class Catalogue:
    """Decides which objects are new. One thread owns it and its planner; nothing blocks or reads a clock.

    `filters` are those of the buckets that it is for; objects of other buckets are none of its own.
    `retention_ms` is `ledger.retention.ms`, `post_action` the text of what is done with objects afterwards.
    `is_ordered` says `ordering=partition`; `skip_through` has the keys of buckets up to which listings show
    none. What it stores or compares with S3's times is wall clock.
    """

    def __init__(
        self,
        *,
        view: LedgerView,
        filters: Mapping[str, ObjectFilter],
        max_pending_objects: int = 100_000,
        retention_ms: int = 2_592_000_000,
        joining: JoiningSettings | None = None,
        post_action: str | None = None,
        is_ordered: bool = False,
        noted: Mapping[str, Notes] | None = None,
        skip_through: Mapping[str, str] | None = None,
    ) -> None:
        self.states = ObjectStates(
            view=view,
            filters=filters,
            max_pending_objects=max_pending_objects,
            joining=joining,
            post_action=post_action,
        )
        self._filters = filters
        self._max_pending_objects = max_pending_objects
        skipped = (post_action is not None and skip_through) or {}
        self._listings = {
            bucket: BucketListings(
                Expiry(
                    self.states.ledger,
                    bucket,
                    prefix=one.prefix,
                    retention_ms=retention_ms,
                    needs=self.states.tombstones.needs,
                    noted=(noted or {}).get(bucket, NOTHING_NOTED),
                ),
                Unlisted(self.states.ledger, bucket, one.prefix, skipped.get(bucket)),
            )
            for bucket, one in filters.items()
        }
        self.questions = HeadRequests(retention_ms=retention_ms, is_ordered=is_ordered)
        self._wants_listing = True

    # What the listeners tell

    def on_message(self, message_id: str, events: Iterable[ObjectEvent], now: Instant) -> Effects:
        """What follows from one message; its events settle together, with the end of their last object.

        The same message may be announced again (redelivery); other messages may name the same objects.
        """
        effects = EffectsBuilder()
        owed: set[Owed] = set()
        for event in events:
            if event.bucket not in self._filters:
                effects.ignore("other_bucket", event)
                self.states.messages.abandon(message_id)
            elif event.kind in {EventKind.REMOVED, EventKind.OTHER}:
                effects.ignore(event.kind.value, event)
            elif (item := self._object_of_event(event, now, effects)) is not None:
                owed.add(item)
        self.states.messages.hold(message_id, owed, effects)
        return effects.effects()

    def on_head_answer(
        self, token: str, found: S3Object | None, now: Instant, *, is_forbidden: bool = False
    ) -> Effects:
        """What follows from the answer to a HEAD: the object, None for 404, or `is_forbidden` for 403."""
        effects = EffectsBuilder()
        if (access := self.states.access.asked(token)) is not None:
            access.headed(now, effects, is_found=found is not None, is_forbidden=is_forbidden)
            return effects.effects()
        question = self.questions.pop(token)
        if question is None:
            return effects.effects()
        messages = self.states.messages
        if found is None and question.alternate_key is not None and not is_forbidden:
            effects.heads.append(self.questions.ask_alternate(question).request)
        else:
            item = None
            if is_forbidden and question.is_unanswered_without:
                # Nothing was learned: the queue keeps the message until somebody grants the permission.
                effects.ignore("forbidden", question.event)
                messages.abandon_all(token)
            else:
                s3_object = self.questions.confirmed_object(
                    question, found, now.wall_ms, is_forbidden=is_forbidden
                )
                if isinstance(s3_object, str):
                    effects.ignore(s3_object, question.event)
                else:
                    item = self._pending_after_event(s3_object, question.source, now, effects)
            messages.replace(token, item, effects)
        for held in self.questions.release(question):
            item = self._pending_after_event(held.object, held.source, now, effects)
            messages.replace(held.token, item, effects)
        for shown in self.questions.release_listed(question):
            self._pending_after_listing(shown, self.states.ledger.get(shown.id), now, effects)
        return effects.effects()

    def on_listing_page(self, page: ListingPage, now: Instant) -> Effects:
        """What follows from one page of a listing; the last of a full one may call for `take_stock`."""
        effects = EffectsBuilder()
        states, listings = self.states, self._listings[page.bucket]
        expiry, unread = listings.expiry, listings.unread
        expiry.begin_page(page, now)
        unread.begin_page(page)
        for s3_object, known in compared_with_ledger(page, states.ledger, expiry):
            if s3_object is None:
                assert known is not None
                expiry.absent(known)
                continue
            entry = None
            expiry.listed(s3_object.id, is_known=known is not None)
            states.leaving.met(s3_object.id)  # its tombstone may be read before its commit is answered
            if known is not None:
                unread.read()
                if known.is_done and states.post_action is None:
                    continue  # which nearly all are: nothing more of its entry is looked at
                entry = known.entry
                states.owe_action(s3_object.id, entry, effects)
                if entry.state is State.DONE:
                    continue
                states.side_objects.saw(s3_object.id.key, entry)
            self._pending_after_listing(s3_object, entry, now, effects)
        states.side_objects.listed(page, now)
        states.listed[page.bucket].listed(page)
        if unread.end_page(page) and self._knows_keys(page.bucket):
            unread.read()  # what was read is gone, as `post.action` deletes
        expiry.end_page(page)
        return effects.effects()

    @property
    def is_taking_stock(self) -> bool:
        """Whether `take_stock` has something to do now; it waits while much is to be written."""
        is_free = len(self.states.unwritten) < IN_A_TURN
        return is_free and any(one.is_taking_stock for one in self._listings.values())

    def take_stock(self, now: Instant) -> Effects:
        """Look at some entries that listings do not show: what has expired leaves, what is owed is named.

        Call it once in each turn while `is_taking_stock`: there may be millions of them.
        """
        effects = EffectsBuilder()
        for one in self._listings.values():
            step = one.expiry.step(now)
            effects.warnings += step.warnings
            for known in step.expired:
                self.states.forget(known, effects)
            for known in one.unlisted.step():
                # No listing shows whether the keys that would go first are another object's by now.
                if not known.entry.sides:
                    self.states.owe_action(known.id, known.entry, effects)
        return effects.effects()

    def begin_overdue(self, now: Instant, effects: EffectsBuilder) -> None:
        """What listings showed of keys whose HEAD has had no answer for ten minutes is pending now."""
        for shown in self.questions.overdue_listed(now.steady_ms):
            self._pending_after_listing(shown, self.states.ledger.get(shown.id), now, effects)

    def look_again(self) -> None:
        """What is owed up to `skip_through` is to be named once more, as a listing names the rest."""
        for one in self._listings.values():
            one.unlisted.look_again()

    def notes(self, bucket: str) -> Notes | None:
        """See `Expiry.notes`."""
        return self._listings[bucket].expiry.notes()

    def on_tombstones(self, found: FolderPlaces) -> None:
        """What waits for a search of a topic's folder continues with the next turn of the planner."""
        self.states.tombstones.found(found)

    # What the ledger tells

    def resume(self, now: Instant, *, most: int | None = None) -> Effects:
        """Objects of the ledger that are unfinished become pending, attempts kept, as far as there is room.

        Call it on taking the lead, for all: nothing must be planned before an earlier version of its key, or
        an earlier object of its topic-partition, is known. `Planner.tick` calls it again when there is room
        for more; about `most` are read then (all versions of a key together), so that no turn is long.
        """
        effects = EffectsBuilder()
        states = self.states
        last = None
        for number, (object_id, entry) in enumerate(states.ledger.unfinished(states.unfinished_after)):
            is_enough = (
                most is not None and number >= most and last is not None and object_id.place != last.place
            )
            if is_enough or states.is_full:
                states.unfinished_after = last or states.unfinished_after
                return effects.effects()
            last = object_id
            if object_id.bucket in self._filters and states.table.find(object_id) is None:
                states.add_unfinished(object_id, entry, now, effects)
        states.has_unfinished, states.unfinished_after = False, None
        return effects.effects()

    def on_ledger_record(self, key: LedgerKey, entry: LedgerEntry | None) -> None:
        """The follower has read this record and the view shows it."""
        self.states.ledger.applied(key, entry)

    def on_written(self, writes: Sequence[LedgerWrite], now: Instant) -> Effects:
        """What follows once the driver's transaction with these `Effects.writes` was acknowledged."""
        return self.states.on_written(tuple(writes), now)

    def on_acted(self, done: Iterable[ObjectId]) -> Effects:
        """What follows once `Effects.actions` were carried out for these objects."""
        effects = EffectsBuilder()
        for object_id in done:
            self.states.on_acted(object_id, effects)
        return effects.effects()

    # What people ask

    def apply_command(self, command: ObjectCommand, objects: Iterable[S3Object], now: Instant) -> Effects:
        """Ledger records that a replay or mark asks for; objects that are worked on follow when they rest.

        For `Replay` the objects come from the ledger, for `Mark` from a listing. Call it with some
        thousand objects at a time: one Effects is one transaction.
        """
        effects = EffectsBuilder()
        for s3_object in objects:
            found = self._filters.get(s3_object.id.bucket)
            route = None if found is None else found.route_or_reason(s3_object.id.key)
            if isinstance(command, Replay) and isinstance(route, ExclusionReason):
                effects.ignore(route.value, s3_object.id)  # nothing would read it, or show why it stopped
            elif found is not None:
                self.states.apply_command(command, s3_object, now, effects)
        return effects.effects()

    # How things are

    def reads(self, bucket: str) -> bool:
        """Whether this bucket is one of those that are configured."""
        return bucket in self._filters

    @property
    def wants_listing(self) -> bool:
        """False from `max.pending.objects` on, True below nine tenths of it, or where nothing else helps."""
        share = 1 if self._wants_listing else _LISTS_AGAIN_BELOW
        self._wants_listing = len(self.states.table) < self._max_pending_objects * share
        return self._wants_listing or self.states.is_stuck

    @property
    def is_idle(self) -> bool:
        """True when nothing is pending, active or failed, owed to the ledger, or asked of S3."""
        states = self.states
        is_owed = states.table or states.has_unfinished or states.unwritten or states.deferred
        return not (is_owed or self.questions or self.is_taking_stock)

    @property
    def counts(self) -> dict[str, int]:
        """Objects now by what memory knows of them: pending, active, failed."""
        return {label: self.states.table.labels[label] for label in ("pending", "active", "failed")}

    @property
    def pending_objects(self) -> int:
        """Objects that are known and not yet done."""
        return len(self.states.table)

    @property
    def pending_bytes(self) -> int:
        """Their sizes together."""
        return self.states.table.bytes

    @property
    def access_problems(self) -> Mapping[str, str]:
        """A sentence for each bucket of which objects wait and none can be read.

        Refused credentials, a 403 for all of them, or a minute without an answer from S3 or a registry.
        """
        found = {}
        for bucket in self._filters:
            access = self.states.access.of(bucket)
            sentence = access.denied or access.silent
            if sentence is not None and self.states.table.of_bucket[bucket]:
                found[bucket] = sentence
        return found

    @property
    def missing_topics(self) -> Mapping[str, str]:
        """A sentence for each topic that objects wait for and that is not there."""
        return self.states.access.topics.sentences if self.states.table else {}

    @property
    def unread_keys(self) -> Unread | None:
        """How many keys the last full listing showed, and one of them, where no bucket's could be read."""
        return unread_of(self._listings, self._knows_keys)

    def waiting_reasons(self) -> dict[str, int]:
        """What pending objects failed with last, by reason: what `--until-idle` waits for. Walks them all."""
        found: dict[str, int] = {}
        for pending in self.states.table:
            for each in (pending, *pending.splits):
                if each.trouble is not None and each.phase is not Phase.GONE:
                    found[each.trouble] = found.get(each.trouble, 0) + 1
        return found

    # Inside

    def _object_of_event(self, event: ObjectEvent, now: Instant, effects: EffectsBuilder) -> Owed | None:
        """The object or HEAD that a creation or restore waits for; None when there is nothing to wait for."""
        candidates = [key for key in (event.key, event.alternate_key) if key is not None]
        judged = self._filters[event.bucket].route_or_reason
        keys = [key for key in candidates if not isinstance(judged(key), ExclusionReason)]
        if not keys:
            effects.ignore(str(judged(event.key)), event)
            return None
        source = source_of(event)
        if event.etag is not None:
            # The same content under the decoded key may be another object: a HEAD tells. A restore is of
            # what is known alone.
            raw = [key for key in keys if key == event.key]
            for key in keys if source is Source.RESTORE else raw:
                object_id = ObjectId(event.bucket, key, event.etag)
                if self.states.table.find(object_id) or self.states.ledger.get(object_id):
                    return self._pending_after_event(
                        as_announced(event, object_id, now.wall_ms), source, now, effects
                    )
            if source is Source.RESTORE:
                effects.ignore("restored", event)
                return None
        if event.etag is None or self.questions.is_needed(event, now.wall_ms):
            question = self.questions.open(event, keys, now)
            effects.heads.append(question.request)
            return question.token
        s3_object = as_announced(event, ObjectId(event.bucket, event.key, event.etag), now.wall_ms)
        return self._pending_after_event(s3_object, source, now, effects)

    def _pending_after_event(
        self, s3_object: S3Object, source: Source, now: Instant, effects: EffectsBuilder
    ) -> Owed | None:
        """The announced object if it is pending now, or what it waits for; None when its end is known."""
        pending = self.states.table.find(s3_object.id)
        if pending is not None:
            if announced_again(pending, s3_object, source):
                self.states.table.wake(s3_object.id.place)
            return s3_object.id
        entry = self.states.ledger.get(s3_object.id)
        self.states.leaving.met(s3_object.id)
        is_at = verdict_of(entry, s3_object, source, now.wall_ms)
        if is_at is LedgerVerdict.SETTLED or (is_at is LedgerVerdict.UNKNOWN and source is Source.RESTORE):
            effects.ignore("known" if entry is not None else "restored", s3_object.id)
            return None
        route = self._judge_known(s3_object)
        if isinstance(route, ExclusionReason):
            effects.ignore(route.value, s3_object.id)
            return None
        if entry is not None:
            s3_object = in_its_time(replace(s3_object, size=entry.size), entry, source)
        if self.questions.may_wait(route, entry) and (held := self.questions.hold(s3_object, source)):
            return held
        pending = self._begin(s3_object, route, entry, now, effects, is_fresh=True)
        pending.is_replayed |= source is Source.RESTORE  # its upload is long ago
        return s3_object.id

    def _begin(
        self,
        s3_object: S3Object,
        route: Route,
        entry: LedgerEntry | None,
        now: Instant,
        effects: EffectsBuilder,
        *,
        is_fresh: bool,
    ) -> PendingObject:
        self._listings[s3_object.id.bucket].unread.read()
        return self.states.add_pending(
            s3_object, route=route, entry=entry, is_fresh=is_fresh, now=now, effects=effects
        )

    def _pending_after_listing(
        self, s3_object: S3Object, entry: LedgerEntry | None, now: Instant, effects: EffectsBuilder
    ) -> None:
        pending = self.states.table.find(s3_object.id)
        if pending is not None:
            if pending.phase is not Phase.WAITING:
                pending.relisted = shown_again(pending.object, s3_object)
            return
        if verdict_of(entry, s3_object, Source.LISTING, now.wall_ms) is LedgerVerdict.SETTLED:
            return
        judge = (
            self._filters[s3_object.id.bucket].listed_route_or_reason if entry is None else self._judge_known
        )
        route = judge(s3_object)
        if isinstance(route, ExclusionReason):
            effects.ignore(route.value, s3_object.id)
            self._listings[s3_object.id.bucket].unread.left_out(route, s3_object.id.key)
        elif self.questions.hold_listed(s3_object, route, entry, now):
            self._listings[s3_object.id.bucket].unread.read()
        else:
            s3_object = s3_object if entry is None else in_its_time(s3_object, entry)
            pending = self._begin(s3_object, route, entry, now, effects, is_fresh=False)
            pending.is_replayed |= entry is not None and entry.reason == "archived"  # uploaded long ago

    def _knows_keys(self, bucket: str) -> bool:
        """Whether the ledger has an object of the bucket below the prefix."""
        return any(True for _ in self.states.ledger.below(bucket, self._filters[bucket].prefix))

    def _judge_known(self, s3_object: S3Object) -> Route | ExclusionReason:
        """The baseline is for what was not begun."""
        return self._filters[s3_object.id.bucket].route_or_reason(s3_object.id.key)
