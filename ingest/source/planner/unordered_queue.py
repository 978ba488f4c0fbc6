"""Waiting objects in the order in which slots get them, when topic-partitions do not matter."""

import heapq
from collections import deque
from itertools import count

from ingest.source.catalogue.pending import PendingObject, PendingTable, Phase, Suspicion
from ingest.source.planner.batch_limits import BatchBudget, BatchLimits, SplitKind
from ingest.source.planner.holds import Holds


class LazyQueue:
    """A queue in which places go stale: only the last place that an object was given counts."""

    def __init__(self) -> None:
        self._places: deque[tuple[PendingObject, int]] = deque()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._places)

    def put(self, pending: PendingObject) -> None:
        """Queue it at the end."""
        self._places.append((pending, pending.ticket))
        self.bytes += pending.size

    def put_back(self, pending: PendingObject) -> None:
        """Queue it in front."""
        self._places.appendleft((pending, pending.ticket))
        self.bytes += pending.size

    def pop(self, table: PendingTable) -> PendingObject | None:
        """The first that can be worked on now. The others lose their places: the table wakes them in time."""
        while self._places:
            pending, ticket = self._places.popleft()
            self.bytes = max(0, self.bytes - pending.size) if self._places else 0
            if ticket == pending.ticket and pending.phase is Phase.WAITING and table.is_clear(pending):
                return pending
        return None


class UnorderedQueue:
    """`ordering=object` and `none`: fresh events first, the backlog of listings after them with its share.

    What travels alone alternates with batches of light objects when both wait.
    """

    def __init__(self, limits: BatchLimits, table: PendingTable, holds: Holds) -> None:
        self._limits = limits
        self._table = table
        self._holds = holds
        self._held: dict[str, list[tuple[PendingObject, int]]] = {}
        self._fresh = LazyQueue()
        self._backlog = LazyQueue()
        self._fresh_big = LazyQueue()
        self._backlog_big = LazyQueue()
        self._alone = LazyQueue()
        self._delayed: list[tuple[int, int, PendingObject, int]] = []
        self._order = count()
        self._was_light = False
        self.warnings: list[str] = []

    def put(self, pending: PendingObject, now_ms: int) -> None:
        """Queue a waiting object: now, or when its delay is over. An unarmed suspect is not queued."""
        if pending.phase is not Phase.WAITING or pending.suspicion is Suspicion.SUSPECT:
            return
        pending.ticket += 1
        if pending.due_ms > now_ms:
            heapq.heappush(self._delayed, (pending.due_ms, next(self._order), pending, pending.ticket))
            return
        match self._limits.kind_of(pending):
            case SplitKind.ALONE:
                queue = self._alone
            case SplitKind.BIG:
                queue = self._fresh_big if pending.is_fresh else self._backlog_big
            case SplitKind.LIGHT:
                queue = self._fresh if pending.is_fresh else self._backlog
        queue.put(pending)

    def take(self, now_ms: int, *, idle_slots: int, may_take_big: bool) -> list[PendingObject]:
        """Pending objects for one batch; none when nothing may be worked on now."""
        self.wake(now_ms)
        has_light = bool(self._fresh or self._backlog)
        if self._was_light or not has_light:
            self._was_light = False
            lonely = self._pop_lonely(now_ms, may_take_big=may_take_big)
            if lonely is not None:
                return [lonely]
        light = self._take_light(now_ms, idle_slots)
        self._was_light = True
        if light:
            return light
        lonely = self._pop_lonely(now_ms, may_take_big=may_take_big)
        return [] if lonely is None else [lonely]

    def over(self, units: list[PendingObject]) -> None:
        """A plan is over; here nothing waits for that by itself."""

    def ready(self, now_ms: int, *, big: int) -> int:
        """How many wait for a slot, at most `big` of the big ones; stale places count until met."""
        self.wake(now_ms)
        big_ones = len(self._fresh_big) + len(self._backlog_big)
        return len(self._fresh) + len(self._backlog) + len(self._alone) + min(big, big_ones)

    def is_next(self, pending: PendingObject) -> bool:
        """True when the object may be taken out of turn."""
        return self._table.is_clear(pending)

    def goes_before(self, pending: PendingObject) -> None:
        """Nothing: here objects of different keys do not wait for each other."""

    def next_due_ms(self) -> int | None:
        """When the next delay is over, or a bucket is held no more."""
        held_until_ms = self._holds.first_end_ms(self._held)
        if not self._delayed:
            return held_until_ms
        due_ms = self._delayed[0][0]
        return due_ms if held_until_ms is None else min(due_ms, held_until_ms)

    def wake(self, now_ms: int) -> None:
        """Queue what has waited long enough."""
        while self._delayed and self._delayed[0][0] <= now_ms:
            _, _, pending, ticket = heapq.heappop(self._delayed)
            self._requeue(pending, ticket, now_ms)
        for bucket in [each for each in self._held if not self._holds.is_held(each, now_ms)]:
            for pending, ticket in self._held.pop(bucket):
                self._requeue(pending, ticket, now_ms)

    def _requeue(self, pending: PendingObject, ticket: int, now_ms: int) -> None:
        if ticket == pending.ticket and pending.phase is Phase.WAITING:
            self.put(pending, now_ms)

    def _pop(self, queue: LazyQueue, now_ms: int) -> PendingObject | None:
        """The first whose bucket is not held; the others wait for theirs."""
        while (pending := queue.pop(self._table)) is not None:
            bucket = pending.object.id.bucket
            if not self._holds.is_held(bucket, now_ms):
                return pending
            self._held.setdefault(bucket, []).append((pending, pending.ticket))
        return None

    def _pop_lonely(self, now_ms: int, *, may_take_big: bool) -> PendingObject | None:
        queues = [self._alone]
        if may_take_big:
            queues += [self._fresh_big, self._backlog_big]
        return next((pending for queue in queues if (pending := self._pop(queue, now_ms)) is not None), None)

    def _take_light(self, now_ms: int, idle_slots: int) -> list[PendingObject]:
        limits = self._limits
        kept_objects = limits.backlog_objects if self._backlog else 0
        kept_bytes = limits.backlog_bytes if self._backlog else 0
        fresh = BatchBudget.of(
            len(self._fresh),
            self._fresh.bytes,
            idle_slots=idle_slots,
            objects=max(1, limits.max_objects - kept_objects),
            cap_bytes=limits.max_bytes - kept_bytes,
        ).reserve_for(limits.slots, self._fresh.bytes, least=limits.least_share_bytes)
        taken = self._fill(self._fresh, fresh, now_ms)
        backlog = BatchBudget.of(
            len(self._backlog),
            self._backlog.bytes,
            idle_slots=idle_slots,
            objects=min(limits.backlog_objects, limits.max_objects - len(taken)),
            cap_bytes=limits.backlog_bytes,
        ).reserve_for(limits.slots, self._backlog.bytes, least=limits.least_share_bytes)
        return taken + self._fill(self._backlog, backlog, now_ms)

    def _fill(self, queue: LazyQueue, budget: BatchBudget, now_ms: int) -> list[PendingObject]:
        taken: list[PendingObject] = []
        while budget.objects > budget.taken and (pending := self._pop(queue, now_ms)) is not None:
            if not budget.fits(pending.size):
                queue.put_back(pending)
                break
            budget.add(pending.size)
            taken.append(pending)
        return taken
