"""What catalogue and planner decide, carried out: ledger writes, settled messages, HEADs, post actions.

`post.action` has threads next to the service's: it is done after the commit, and repeated until it succeeds.
"""

import heapq
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Final

import structlog

from headrace.model.clock import Clock
from headrace.model.errors import HeadraceError, ObjectError
from headrace.model.objects import ObjectId, OwedAction, PostAction, PostActionKind
from headrace.options.settings import S3Settings
from headrace.process.log_levels import is_debug
from headrace.process.threads import start_thread
from headrace.s3.client import BOTOCORES
from headrace.s3.post_action_calls import PostActionCalls, new_post_action_calls
from ingest.service.ledger_writes import LedgerWrites
from ingest.service.service_events import ActionsDone, ComponentProblem, OwnEvent
from ingest.service.statistics import Statistics
from ingest.source.catalogue import Effects
from ingest.source.planner.retry_policy import Backoff
from listeners.listeners import Listeners

_log = structlog.get_logger(__name__)

# Why a key is none of ours, in the words of whoever can change it.
_DETAILS: Final[Mapping[str, str]] = {
    "outside_prefix": "it lies outside aws.s3.prefix",
    "folder": "a key that ends in / is a folder",
    "internal": "other tools keep their own files under such keys",
    "excluded": "object.include or object.exclude leaves it out",
    "unmatched": "file.name.template does not match; `headrace explain CONFIG KEY` says why",
    "start_key": "it is not above native.start.key",
    "moved": "it lies under the prefix that post.action moves objects to",
    "existing": "it was there before the first start, and include.existing is false",
    "known": "the ledger has its end, by this ETag; see `headrace status CONFIG --key KEY`",
    "missing": "it was deleted since",
    "outdated": "other content has taken its place since",
    "forbidden": "a HEAD of it is refused: grant s3:GetObject",
    "removed": "the event tells of a deletion",
    "other": "the event tells of no content",
    "restored": "nothing waited for this restore",
    "other_bucket": "the event is about another bucket than aws.s3.bucket.name",
}


class EffectsApplier:
    """Carries effects out, in the service's thread; nothing here blocks."""

    def __init__(
        self,
        *,
        writes: LedgerWrites,
        listeners: Listeners,
        statistics: Statistics,
        clock: Clock,
        search: Callable[[str], None],
        act: Callable[[OwedAction], None],
        withdraw: Callable[[ObjectId], None],
    ) -> None:
        self._writes = writes
        self._listeners = listeners
        self._statistics = statistics
        self._clock = clock
        self._search = search
        self._act = act
        self._withdraw = withdraw

    def apply(self, effects: Effects) -> None:
        """Hand everything in `effects` to the component that does it."""
        if effects.writes:
            self._writes.submit(effects.writes)
        if effects.settled:
            self._listeners.settle(effects.settled)
        for message_id in effects.abandoned:
            self._listeners.abandon(message_id)
        for head in effects.heads:
            self._listeners.request_head(
                head.token,
                bucket=head.bucket,
                key=head.key,
                version_id=head.version_id,
                reads=head.reads,
            )
        for folder in effects.searches:
            self._search(folder)
        self._apply_actions(effects)
        self._count(effects)
        for warning in effects.warnings:
            _log.warning("listing_warned", warning=warning)
        if effects.decisions and is_debug(__name__):
            _explain(effects.decisions)
        if effects.finished:
            self._statistics.ended(effects.finished, self._clock())

    def _apply_actions(self, effects: Effects) -> None:
        for object_id in effects.withdrawn:
            self._withdraw(object_id)
        for owed in effects.actions:
            self._act(owed)

    def _count(self, effects: Effects) -> None:
        for reason, count in effects.ignored.items():
            self._statistics.ignored(reason, count)
        for what, count in effects.inexact.items():
            self._statistics.inexact(what, count)
        self._statistics.unreported(effects.unreported)


def _explain(decisions: Iterable[tuple[str, str, str | None]]) -> None:
    """A line for each object that was decided on: why it does not arrive begins here."""
    for bucket, key, reason in decisions:
        if reason is None:
            _log.debug("object_pending", bucket=bucket, key=key)
        else:
            _log.debug("object_ignored", bucket=bucket, key=key, reason=reason, detail=_DETAILS.get(reason))


PROBLEM: Final = "post_action"
"""Its name among the problems of `/status`."""

# Each is one to three requests of a few milliseconds.
_THREADS: Final = 4
# What does not fit stays owed in the ledger, and a listing names it again.
_MAX_OWED: Final = 100_000
# What fails is tried again after so long; of many that fail, no more than ten a second are.
_AGAIN: Final = Backoff(first_ms=10_000, longest_ms=300_000)
_APART_SECONDS: Final = 0.1
# Where one that had failed is done, so many of its bucket have their turn: whoever granted what was missing
# does not wait for all their pauses, and of objects that are refused for themselves no more are tried.
_TURNS: Final = 2


class _Withheld(Exception):
    """The action is not to take its object away: it was withdrawn, or waits for a resume."""


class _Removal:
    """Whether a first object of an action is gone already."""

    has_begun = False


class PostActions:
    """Nothing here blocks but `run`'s threads; `count` is called with `done`, `replaced` or `failed`.

    `ActionsDone` is posted for what needs no more action: it was done, or other content (or none) has the
    object's key by now. What fails is tried again while the lead lasts, and named in `/status`; it holds up
    no other. Above `most` that are owed at once, what is asked for is left out: see `wants_listing`.
    """

    def __init__(
        self,
        settings: S3Settings,
        action: PostAction,
        post: Callable[[OwnEvent], None],
        *,
        count: Callable[[str], None],
        calls: Callable[..., PostActionCalls] = new_post_action_calls,
        most: int = _MAX_OWED,
        again: Backoff = _AGAIN,
    ) -> None:
        self._settings = settings
        self._action = action
        # Of another kind than a move it is not looked at.
        self._target_bucket, self._target_prefix = action.moves_to
        self._post = post
        self._count = count
        self._new_calls = calls
        self._most = most
        self._again = again
        self._turn = threading.Condition()
        # What is asked for; another request of the object may wait in the others, or be carried out.
        self._owed: dict[ObjectId, OwedAction] = {}
        self._failing: dict[ObjectId, int] = {}
        self._ready: deque[OwedAction] = deque()
        self._later: dict[str, list[tuple[float, int, OwedAction]]] = {}
        self._order = itertools.count()
        self._has_left_out = False
        self._is_paused = False
        self._is_closed = False
        self._removals: set[_Removal] = set()
        for number in range(_THREADS):
            start_thread(self._run, name=f"post-action-{number}")

    @property
    def is_idle(self) -> bool:
        """Whether nothing is owed that was asked for."""
        with self._turn:
            return not self._owed and not self._has_left_out

    def wants_listing(self) -> bool:
        """True once there is room for what was left out, which a full listing from now on names again."""
        with self._turn:
            wants = self._has_left_out and len(self._owed) <= self._most // 2
            if wants:
                self._has_left_out = False
            return wants

    @property
    def is_removing(self) -> bool:
        """Whether an object is being taken away: by a single request, or those of all it was read with."""
        with self._turn:
            return bool(self._removals)

    def pause(self) -> None:
        """Begin none, and take no object away, until `resume`; all stays owed. Does not block."""
        with self._turn:
            self._is_paused = True

    def resume(self) -> None:
        """Continue after `pause`. Does not block."""
        with self._turn:
            self._is_paused = False
            self._turn.notify_all()

    def request(self, owed: OwedAction) -> None:
        """Have it done, unless it is asked for already. Does not block."""
        with self._turn:
            if owed.id in self._owed:
                return
            is_left_out = len(self._owed) >= self._most
            is_news = is_left_out and not self._has_left_out
            if is_left_out:
                self._has_left_out = True
            else:
                self._owed[owed.id] = owed
                self._ready.append(owed)
                self._turn.notify()
        if is_news:
            _log.warning(
                "post_actions_left_out",
                owed=self._most,
                detail="objects end faster than their actions; a listing will find what is left",
            )

    def withdraw(self, object_id: ObjectId) -> None:
        """The object is to stay: it is read again, or an operator has set its end. Does not block.

        Begun already, it takes nothing more away; only a request that is with S3 is not called back.
        """
        with self._turn:
            self._owed.pop(object_id, None)
            self._is_well(object_id)

    def close(self) -> None:
        """Begin no more, and take nothing more away; what is left stays owed in the ledger."""
        with self._turn:
            self._is_closed = True
            self._turn.notify_all()

    def _run(self) -> None:
        calls: dict[str, PostActionCalls] = {}
        while (owed := self._next()) is not None:
            try:
                is_done = self._carried_out(self._calls_of(owed.id.bucket, calls), owed)
            except _Withheld:
                # Its turn comes after a resume; what was withdrawn has none.
                with self._turn:
                    self._ready.append(owed)
            except HeadraceError as error:
                self._failed(owed, error)
            except BOTOCORES as error:
                # botocore does not send the request, for what is in it: the others are sent all the same.
                unsent = ObjectError(f"no request for {owed.id.url} can be sent ({type(error).__name__}).")
                self._failed(owed, unsent)
            else:
                self._succeeded(owed, is_done=is_done)

    def _next(self) -> OwedAction | None:
        """What has its turn, waited for; None once they are closed."""
        with self._turn:
            while not self._is_closed:
                if self._is_paused:
                    self._turn.wait()
                    continue
                now = time.monotonic()
                for waiting in self._later.values():
                    while waiting and waiting[0][0] <= now:
                        self._ready.append(heapq.heappop(waiting)[2])
                while self._ready:
                    owed = self._ready.popleft()
                    if self._owed.get(owed.id) is owed:
                        return owed
                dues = [waiting[0][0] for waiting in self._later.values() if waiting]
                self._turn.wait(min(dues) - now if dues else None)
        return None

    def _calls_of(self, bucket: str, known: dict[str, PostActionCalls]) -> PostActionCalls:
        """The calls of a bucket, among those that the thread has made, or new ones."""
        if bucket not in known:
            known[bucket] = self._new_calls(
                replace(self._settings, bucket=bucket),
                is_unconditional=self._action.is_unconditional,
                target_bucket=self._target_bucket,
            )
        return known[bucket]

    def _carried_out(self, calls: PostActionCalls, owed: OwedAction) -> bool:
        """Whether the object itself was acted on, the last after those it was read with."""
        kind, contents = self._action.kind, [(key, etag) for key, etag, _ in owed.contents]
        if kind is PostActionKind.TAG:
            name, _, value = self._action.target.partition("=")
            return [calls.tag(key, etag, name, value) for key, etag in contents][-1]
        is_there = [True] * len(contents)
        if kind is PostActionKind.MOVE:
            # All copies first, which may take minutes: nothing is gone before the last one is there.
            is_there = [calls.copy(key, etag, self._target_of(key)) for key, etag in contents]
        removal = _Removal()
        removing = partial(self._removing, owed, removal)
        try:
            gone = [
                has_copy and calls.delete(key, etag, removing)
                for (key, etag), has_copy in zip(contents, is_there, strict=True)
            ]
        finally:
            with self._turn:
                self._removals.discard(removal)
        return gone[-1]

    @contextmanager
    def _removing(self, owed: OwedAction, removal: _Removal) -> Iterator[None]:
        """Around a request that takes an object away, which is still to be: else _Withheld.

        Those after the first are not asked for again: values would stay whose keys are gone.
        """
        with self._turn:
            is_to_stay = self._is_paused or self._is_closed or self._owed.get(owed.id) is not owed
            if is_to_stay and not removal.has_begun:
                raise _Withheld
            self._removals.add(removal)
        try:
            yield
            removal.has_begun = True
        finally:
            if not removal.has_begun:
                with self._turn:
                    self._removals.discard(removal)

    def _target_of(self, key: str) -> str:
        """Where a move puts it: what follows the prefix, or its last name, where the prefix is all of it."""
        return self._target_prefix + (key[len(self._settings.prefix) :] or key.rpartition("/")[2])

    def _succeeded(self, owed: OwedAction, *, is_done: bool) -> None:
        with self._turn:
            # Of an object that was asked for again meanwhile it says nothing: it was read with others.
            is_current = self._owed.get(owed.id) is owed
            if is_current:
                # Before it is idle, so that the ledger hears of it before an end.
                self._post(ActionsDone((owed.id,)))
                del self._owed[owed.id]
            has_failed = is_current and self._is_well(owed.id)
            waiting = self._later.get(owed.id.bucket, [])
            for _ in range(min(_TURNS, len(waiting)) if has_failed else 0):
                self._ready.append(heapq.heappop(waiting)[2])
                self._turn.notify()
        self._count("done" if is_done else "replaced")
        _log.debug(
            "post_action_done",
            bucket=owed.id.bucket,
            key=owed.id.key,
            action=self._action.text,
            replaced=not is_done,
        )

    def _is_well(self, object_id: ObjectId) -> bool:
        """Whether it had failed; of the last one that had, the problem is over. The lock is held."""
        has_failed = self._failing.pop(object_id, None) is not None
        if has_failed and not self._failing:
            self._post(ComponentProblem(PROBLEM, None))
        return has_failed

    def _failed(self, owed: OwedAction, error: HeadraceError) -> None:
        sentence = f"post.action = {self._action.text}: {error}"
        with self._turn:
            if self._owed.get(owed.id) is not owed:
                return
            # Under the lock, so that no thread posts after one that has said that it is over.
            self._post(ComponentProblem(PROBLEM, sentence))
            tries = self._failing[owed.id] = self._failing.get(owed.id, 0) + 1
            pause = max(self._again.delay_ms(tries) / 1000, len(self._failing) * _APART_SECONDS)
            again = (time.monotonic() + pause, next(self._order), owed)
            heapq.heappush(self._later.setdefault(owed.id.bucket, []), again)
            self._turn.notify()
        if tries == 1:
            self._count("failed")
            _log.warning(
                "post_action_failed",
                bucket=owed.id.bucket,
                key=owed.id.key,
                error=sentence,
                detail="it is tried again until it is done",
            )
