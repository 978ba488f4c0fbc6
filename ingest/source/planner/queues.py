"""Waiting objects in the order in which slots get them: in any, or in the order of each topic-partition."""

import heapq
from collections import deque
from itertools import count

from ingest.source.catalogue.pending import PendingObject, PendingTable, Phase, Suspicion
from ingest.source.planner.limits import BatchBudget, BatchLimits, SplitKind
from ingest.source.planner.ordering import ListingOrder, Partition
from ingest.source.planner.retry_policy import Holds


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

    What travels alone alternates with batches of light objects when both wait, and fresh with backlog where a
    batch holds one object.
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
        self._was_fresh_big = False
        self._is_backlog_next = False
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

    def over(self, taken: list[PendingObject]) -> None:
        """A plan is over; here nothing waits for that by itself."""

    def ready(self, now_ms: int, *, big: int) -> int:
        """How many wait for a slot, at most `big` of the big ones; stale places count until met."""
        self.wake(now_ms)
        big_ones = len(self._fresh_big) + len(self._backlog_big)
        return len(self._fresh) + len(self._backlog) + len(self._alone) + min(big, big_ones)

    def is_next(self, pending: PendingObject) -> bool:
        """True when the object may be taken out of turn."""
        return self._table.is_clear(pending)

    def let_go(self) -> tuple[bool, list[str]]:
        """None: here nothing waits for a listing."""
        return False, []

    def waits_for_time(self) -> bool:
        """False: what does is in `next_due_ms` from the beginning."""
        return False

    def goes_before(self, pending: PendingObject) -> None:
        """Nothing: here objects of different keys do not wait for each other."""

    def next_due_ms(self) -> int | None:
        """When the next delay is over, or a bucket is held no more."""
        return self._holds.first_due_ms(self._held, self._delayed[0][0] if self._delayed else None)

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
            big = [self._fresh_big, self._backlog_big]
            queues += reversed(big) if self._was_fresh_big else big
        for queue in queues:
            if (pending := self._pop(queue, now_ms)) is not None:
                self._was_fresh_big = queue is self._fresh_big
                return pending
        return None

    def _take_light(self, now_ms: int, idle_slots: int) -> list[PendingObject]:
        limits = self._limits
        if limits.max_objects == 1 and self._fresh and self._backlog:
            self._is_backlog_next = not self._is_backlog_next
            if not self._is_backlog_next:
                return self._take_backlog(now_ms, idle_slots, limits.max_objects)
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
        return taken + self._take_backlog(now_ms, idle_slots, limits.max_objects - len(taken))

    def _take_backlog(self, now_ms: int, idle_slots: int, most: int) -> list[PendingObject]:
        limits = self._limits
        budget = BatchBudget.of(
            len(self._backlog),
            self._backlog.bytes,
            idle_slots=idle_slots,
            objects=min(limits.backlog_objects, most),
            cap_bytes=limits.backlog_bytes,
        ).reserve_for(limits.slots, self._backlog.bytes, least=limits.least_share_bytes)
        return self._fill(self._backlog, budget, now_ms)

    def _fill(self, queue: LazyQueue, budget: BatchBudget, now_ms: int) -> list[PendingObject]:
        taken: list[PendingObject] = []
        while budget.objects > budget.taken and (pending := self._pop(queue, now_ms)) is not None:
            if not budget.fits(pending.size):
                queue.put_back(pending)
                break
            budget.add(pending.size)
            taken.append(pending)
        return taken


class PartitionQueue:
    """`ordering=partition`: a topic-partition is in one slot at a time, and its first object goes first.

    Whatever is not gone holds its place: an object that waits for its next attempt, for its age, or for the
    acknowledgement of what the driver writes of it, holds back what comes after it. Where a fresh event
    waits, the whole topic-partition goes before those that only listings filled.
    """

    def __init__(self, limits: BatchLimits, table: PendingTable, holds: Holds, listing: ListingOrder) -> None:
        self._limits = limits
        self._table = table
        self._holds = holds
        self._listing = listing
        self._held: dict[str, list[Partition]] = {}
        self._partitions: dict[tuple[str, int | None], Partition] = {}
        self._fresh: deque[Partition] = deque()
        self._backlog: deque[Partition] = deque()
        self._delayed: list[tuple[int, int, Partition]] = []
        self._order = count()
        self._is_backlog_next = False
        self.warnings: list[str] = []

    def put(self, pending: PendingObject, now_ms: int) -> None:  # noqa: ARG002 - the delay counts when it is first
        """Give a pending object its place in its topic-partition, or keep it there, in any phase."""
        place = (pending.route.topic, pending.route.partition)
        partition = self._partitions.get(place)
        if partition is None:
            partition = self._partitions[place] = Partition(topic=place[0], partition=place[1])
        partition.put(pending)
        self._listing.see(pending)
        self._queue(partition, is_fresh=pending.is_fresh)

    def take(self, now_ms: int, *, idle_slots: int, may_take_big: bool) -> list[PendingObject]:
        """Objects for one batch, in order within each topic-partition; none when nothing may be done now."""
        self.wake(now_ms)
        taken: list[PendingObject] = []
        has_backlog = bool(self._backlog)
        rings = (self._backlog, self._fresh) if self._is_backlog_next else (self._fresh, self._backlog)
        for ring in rings:
            budget = self._budget(ring, idle_slots, len(taken))
            before = len(taken)
            for _ in range(len(ring)):
                partition = ring.popleft()
                partition.is_queued = False
                is_fresh = ring is self._fresh
                self._pull(partition, budget, taken, now_ms, is_fresh=is_fresh, may_take_big=may_take_big)
                if taken and self._limits.kind_of(taken[0]) is not SplitKind.LIGHT:
                    self._is_backlog_next = has_backlog and is_fresh
                    return taken
            if ring is self._backlog:
                has_backlog = has_backlog and len(taken) == before
        # A batch may have had no room for it.
        self._is_backlog_next = has_backlog and bool(taken)
        return taken

    def _budget(self, ring: "deque[Partition]", idle_slots: int, taken: int) -> BatchBudget:
        """What still fits in of one ring: fresh ones leave the backlog that waits its share."""
        limits = self._limits
        is_backlog = ring is self._backlog
        kept_objects, kept_bytes = (limits.backlog_objects, limits.backlog_bytes) if self._backlog else (0, 0)
        most = limits.max_objects - taken
        return BatchBudget.of(
            sum(len(partition.heap) for partition in ring),
            limits.max_bytes,
            idle_slots=idle_slots,
            objects=min(kept_objects, most) if is_backlog else max(min(1, most), most - kept_objects),
            cap_bytes=kept_bytes if is_backlog else limits.max_bytes - kept_bytes,
        )

    def over(self, taken: list[PendingObject]) -> None:
        """A plan is over: its topic-partitions are free for any slot."""
        for pending in taken:
            partition = self._partitions[pending.route.topic, pending.route.partition]
            whole = pending.parent or pending
            if whole.phase is Phase.GONE:
                partition.is_over(whole)
            else:
                # Also while its failure is written and not acknowledged: the next one must not pass it.
                partition.put(whole)
            partition.is_held = False
            self._queue(partition, is_fresh=pending.is_fresh)

    def ready(self, now_ms: int, *, big: int) -> int:
        """How many topic-partitions could begin, at most `big` of them with a big object."""
        self.wake(now_ms)
        kinds = [
            self._limits.kind_of(pending)
            for partition in (*self._fresh, *self._backlog)
            if (pending := self._first_of(partition)) is not None
            and pending.due_ms <= now_ms
            and not self._holds.is_held(pending.object.id.bucket, now_ms)
        ]
        big_ones = kinds.count(SplitKind.BIG)
        return len(kinds) - big_ones + min(big, big_ones)

    def is_next(self, pending: PendingObject) -> bool:
        """True when nothing of its topic-partition goes before this waiting object, or may be listed yet."""
        return self.goes_before(pending) is pending and not self._listing.waits(pending)

    def let_go(self) -> tuple[bool, list[str]]:
        """Have begin what waits for a listing only: whether anything does, and which may be out of order.

        These are the names of topic-partitions whose keys, as far as they are known, do not sort by offset.
        """
        is_any, unsorted = False, []
        for partition in (*self._fresh, *self._backlog):
            pending = self._head_of(partition)
            if pending is not None and pending.phase is Phase.WAITING and self._listing.waits(pending):
                is_any = True
                if not self._listing.let_go(pending):
                    unsorted.append(f"{partition.topic}-{partition.partition}")
        return is_any, unsorted

    def waits_for_time(self) -> bool:
        """Where none is ready, whether one waits for a time that is not yet in `next_due_ms`."""
        return any(self._first_of(partition) is not None for partition in (*self._fresh, *self._backlog))

    def goes_before(self, pending: PendingObject) -> PendingObject | None:
        """What is first in the object's topic-partition, itself included; None while that is read."""
        partition = self._partitions.get((pending.route.topic, pending.route.partition))
        return None if partition is None else self._head_of(partition)

    def next_due_ms(self) -> int | None:
        """When the next delay is over, or a bucket is held no more."""
        return self._holds.first_due_ms(self._held, self._delayed[0][0] if self._delayed else None)

    def wake(self, now_ms: int) -> None:
        """Queue what has waited long enough."""
        while self._delayed and self._delayed[0][0] <= now_ms:
            self._queue(heapq.heappop(self._delayed)[2], is_fresh=True)
        for bucket in [each for each in self._held if not self._holds.is_held(each, now_ms)]:
            for partition in self._held.pop(bucket):
                self._queue(partition, is_fresh=True)

    def _first_of(self, partition: Partition) -> PendingObject | None:
        """The object whose turn it is, unless a ledger record, a listing or a suspect's turn comes first."""
        pending = self._head_of(partition)
        is_ready = (
            pending is not None
            and pending.phase is Phase.WAITING
            and pending.suspicion is not Suspicion.SUSPECT
            and not self._listing.waits(pending)
        )
        return pending if is_ready else None

    def _head_of(self, partition: Partition) -> PendingObject | None:
        """The object that holds the first place, whatever phase it is in; None when a plan holds it."""
        while partition.heap:
            versions = self._table.of_place(partition.first)
            if versions:
                pending = next((each for each in versions if self._table.is_clear(each)), None)
                if pending is not None and pending.phase is Phase.SPLIT:
                    # Cut under another ordering: its splits go one after the other now.
                    pending = next((part for part in pending.splits if part.phase is not Phase.GONE), pending)
                return pending
            partition.pop()  # its end was written meanwhile
        return None

    def _queue(self, partition: Partition, *, is_fresh: bool) -> None:
        if not partition.heap or partition.is_held:
            return
        if not partition.is_queued:
            partition.is_queued = True
            (self._fresh if is_fresh else self._backlog).append(partition)
        elif is_fresh and partition in self._backlog:
            self._backlog.remove(partition)
            self._fresh.append(partition)

    def _pull(
        self,
        partition: Partition,
        budget: BatchBudget,
        taken: list[PendingObject],
        now_ms: int,
        *,
        is_fresh: bool,
        may_take_big: bool,
    ) -> None:
        """Move objects from the head of one topic-partition into the batch; what stays is queued again."""
        while (pending := self._first_of(partition)) is not None:
            if pending.due_ms > now_ms:
                heapq.heappush(self._delayed, (pending.due_ms, next(self._order), partition))
                return
            if self._holds.is_held(pending.object.id.bucket, now_ms):
                self._held.setdefault(pending.object.id.bucket, []).append(partition)
                return
            kind = self._limits.kind_of(pending)
            if kind is not SplitKind.LIGHT and (taken or (kind is SplitKind.BIG and not may_take_big)):
                break
            if not budget.fits(pending.size):
                break
            budget.add(pending.size)
            partition.pop()
            partition.is_held = True
            self.warnings += partition.late(pending)
            taken.append(pending)
            if kind is not SplitKind.LIGHT or len(self._table.of_place(pending.object.id.place)) > 1:
                return
        self._queue(partition, is_fresh=is_fresh)
