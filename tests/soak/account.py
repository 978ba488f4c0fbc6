"""The account of a soak: what became of every row, by the topics and by the ledger, which have to agree."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from headrace.model.ledger_entry import LedgerEntry, State, decode_entry, decode_key
from headrace.model.objects import ObjectId
from headrace.model.positions import BytePosition
from tests.soak.load import Damage, Uploaded, number_of
from tests.support import kafka


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Rows in, and where they are. `wrong` are sentences about what must not be."""

    rows: int
    produced: int
    dead: int
    held: int
    """Of quarantined objects, at and after their position."""
    quarantined: int
    wrong: tuple[str, ...]

    @property
    def is_exact(self) -> bool:
        """True when nothing is lost, nothing twice, and the sum is right."""
        return not self.wrong and self.rows == self.produced + self.dead + self.held

    def __str__(self) -> str:
        sums = (
            f"{self.rows} rows in = {self.produced} in the topic + {self.dead} dead letters "
            f"+ {self.held} held by {self.quarantined} quarantined objects"
        )
        return "\n".join((f"{sums}: {'exact' if self.is_exact else 'WRONG'}", *self.wrong[:10]))


def ledger_entries(topic: str) -> dict[str, LedgerEntry]:
    """The last entry of each key."""
    found: dict[str, LedgerEntry] = {}
    for record in kafka.committed(topic, seconds=300):
        key = decode_key(record.key or b"")
        if isinstance(key, ObjectId) and record.value is not None:
            found[key.key] = decode_entry(record.value)
    return found


def account(
    uploaded: Iterable[Uploaded], *, topic: str, letters: str, entries: Mapping[str, LedgerEntry], rows: int
) -> Account:
    """Every row counted in both topics, and held against its object's entry; blocks while they are read."""
    produced, dead = _counts(topic, rows), _counts(letters, rows)
    wrong: list[str] = []
    held = quarantined = 0
    for one in uploaded:
        entry = entries.get(one.key)
        if entry is None or entry.state not in {State.DONE, State.QUARANTINED}:
            wrong.append(f"{one.key} ended as {entry and entry.state}")
            continue
        reached = one.count
        if entry.state is State.QUARANTINED:
            quarantined += 1
            byte = entry.position.byte if isinstance(entry.position, BytePosition) else 0
            reached = one.rows_before(byte)
            held += one.count - reached
            if one.damage is Damage.NONE and not one.bad:
                wrong.append(f"{one.key} is sound, and quarantined: {entry.reason}, {entry.error}")
        wrong += _faults(one, reached, produced, dead)
        if entry.records + entry.bad != reached:
            wrong.append(f"{one.key}: the ledger says {entry.records} + {entry.bad}, it is {reached} rows")
    return Account(
        rows=rows,
        produced=int(produced.sum()),
        dead=int(dead.sum()),
        held=held,
        quarantined=quarantined,
        wrong=tuple(wrong),
    )


def _faults(one: Uploaded, reached: int, produced: "np.ndarray", dead: "np.ndarray") -> list[str]:
    """Rows of the object that are not exactly where its position says."""
    good = np.array([one.first + n not in one.bad for n in range(one.count)], dtype=bool)
    before = np.arange(one.count) < reached
    there = produced[one.first : one.first + one.count]
    set_aside = dead[one.first : one.first + one.count]
    if np.array_equal(there, before & good) and np.array_equal(set_aside, before & ~good):
        return []
    most = int(max(there.max(), set_aside.max()))
    sums = f"{int(there.sum())} in the topic, {int(set_aside.sum())} dead letters, at most {most} times"
    return [f"{one.key} ({one.count} rows, {reached} reached, {one.damage.name}): {sums}"]


def _counts(topic: str, rows: int) -> "np.ndarray":
    counts = np.zeros(rows, dtype=np.uint32)
    for record in kafka.committed(topic, seconds=300):
        counts[number_of(record.value or b"")] += 1
    return counts
