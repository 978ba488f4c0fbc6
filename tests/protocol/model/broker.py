"""Kafka's side: transactional ids, the ledger with its last stable offset, the rows of the topics.

Only what the protocol leans on. Transactions behave as in transaction version 1: the epoch rises at init;
a commit is decided when the coordinator has it, and seen by readers when its markers are written, later.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

# Transactional ids are numbers here: the driver's, and those of the slots, from 1.
DRIVER_ID = 0

Row = tuple[str, int]
# What became of a record's transaction; `open` also while a decided commit lacks its markers.
Status = Literal["open", "committed", "aborted"]


class Entry(NamedTuple):
    """A ledger record's value. `position` is the next row; for the slot count, the count."""

    state: str
    position: int
    cuts: tuple[int, ...] = ()


class Record(NamedTuple):
    """A record of the ledger topic; `entry` None is a tombstone, `key` "" what compaction has removed."""

    key: str
    entry: Entry | None
    owner: int
    status: Status


class Known(NamedTuple):
    """What somebody knows of one ledger key, and the offset from which he knows it."""

    key: str
    offset: int
    entry: Entry | None


class ProducerState(NamedTuple):
    """One transactional id: the epoch of its newest producer and the transaction that producer has open."""

    epoch: int = 0
    phase: Literal["none", "open", "decided"] = "none"
    rows: tuple[Row, ...] = ()


class Broker(NamedTuple):
    """The whole broker. `visible` is every committed row, sorted; one listed twice was produced twice."""

    producers: tuple[ProducerState, ...]
    log: tuple[Record, ...] = ()
    visible: tuple[Row, ...] = ()

    def is_current(self, slot: int, epoch: int) -> bool:
        """False: the producer of this epoch is fenced, whatever it sends is refused."""
        return self.producers[slot].epoch == epoch

    def initialised(self, slot: int) -> "Broker":
        """After `init_transactions`: the open aborted, the decided complete, older producers fenced."""
        return self.closed(slot)._with(slot, ProducerState(self.producers[slot].epoch + 1))

    def closed(self, slot: int) -> "Broker":
        """The id without a transaction: completed when it was decided, else aborted."""
        was = self.producers[slot]
        if was.phase == "none":
            return self
        status: Status = "committed" if was.phase == "decided" else "aborted"
        log = tuple(
            record._replace(status=status) if record.owner == slot and record.status == "open" else record
            for record in self.log
        )
        return self._replace(log=log)._with(slot, ProducerState(was.epoch))

    def begun(self, slot: int) -> "Broker":
        """With a transaction open for the id (it holds nothing that readers would wait for yet)."""
        return self._with(slot, self.producers[slot]._replace(phase="open"))

    def produced(
        self, slot: int, rows: Iterable[Row], entries: Iterable[tuple[str, Entry | None]]
    ) -> "Broker":
        """With rows and ledger records in the id's open transaction."""
        was = self.producers[slot]
        log = (*self.log, *(Record(key, entry, slot, "open") for key, entry in entries))
        return self._replace(log=log)._with(slot, was._replace(rows=(*was.rows, *rows)))

    def produced_plainly(self, entries: Iterable[tuple[str, Entry | None]]) -> "Broker":
        """With ledger records of a producer without transactions: nothing can refuse them."""
        return self._replace(log=(*self.log, *(Record(key, entry, 0, "committed") for key, entry in entries)))

    def decided(self, slot: int) -> "Broker":
        """With the id's transaction committed, for good; its markers are written by `closed`."""
        was = self.producers[slot]
        visible = tuple(sorted((*self.visible, *was.rows)))
        return self._replace(visible=visible)._with(slot, ProducerState(was.epoch, "decided"))

    def expired(self, slot: int) -> "Broker":
        """With the id's transaction aborted by the coordinator's timer, which fences its producer."""
        return self.initialised(slot)

    def compacted(self) -> "Broker":
        """With superseded and aborted records removed below the last stable offset; offsets stay."""
        stable = self.last_stable_offset()
        newest = {known.key: known.offset for known in self.read()}
        gone = Record("", None, 0, "aborted")
        log = tuple(
            gone if offset < stable and newest.get(record.key) != offset else record
            for offset, record in enumerate(self.log)
        )
        return self._replace(log=log)

    def end(self) -> int:
        """The uncommitted end of the ledger."""
        return len(self.log)

    def last_stable_offset(self) -> int:
        """Where a read-committed reader stops: the first record of any open transaction."""
        for offset, record in enumerate(self.log):
            if record.status == "open":
                return offset
        return len(self.log)

    def read(self, start: int = 0) -> tuple[Known, ...]:
        """The newest committed record of each key from `start` to the last stable offset, sorted by key."""
        return self._newest(start, self.last_stable_offset(), {"committed"})

    def read_uncommitted(self) -> tuple[Known, ...]:
        """The newest record of each key up to the end, open and aborted ones included."""
        return self._newest(0, len(self.log), {"committed", "open", "aborted"})

    def decided_entries(self) -> tuple[Known, ...]:
        """What the ledger will say when all markers are written: the truth, which no actor can see."""
        decided = {slot for slot, state in enumerate(self.producers) if state.phase == "decided"}
        newest = {
            record.key: Known(record.key, offset, record.entry)
            for offset, record in enumerate(self.log)
            if record.status == "committed" or (record.status == "open" and record.owner in decided)
        }
        return tuple(newest[key] for key in sorted(newest) if key)

    def _newest(self, start: int, stop: int, statuses: set[Status]) -> tuple[Known, ...]:
        newest = {
            record.key: Known(record.key, offset, record.entry)
            for offset, record in enumerate(self.log[:stop])
            if offset >= start and record.status in statuses and record.key
        }
        return tuple(newest[key] for key in sorted(newest))

    def _with(self, slot: int, state: ProducerState) -> "Broker":
        return self._replace(producers=(*self.producers[:slot], state, *self.producers[slot + 1 :]))


def merged(view: tuple[Known, ...], news: Iterable[Known], *, newest_wins: bool) -> tuple[Known, ...]:
    """The view with the news; with `newest_wins`, only where they are newer than what is known."""
    known = {one.key: one for one in view}
    for one in news:
        if one.key not in known or one.offset >= known[one.key].offset or not newest_wins:
            known[one.key] = one
    return tuple(known[key] for key in sorted(known))


def entry_of(view: tuple[Known, ...], key: str) -> Entry | None:
    """The entry of a key in a view; None when there is none."""
    return next((known.entry for known in view if known.key == key), None)
