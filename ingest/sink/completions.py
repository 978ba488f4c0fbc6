"""Which sealed objects the leader completes, in what order: a name's objects one after the other."""

from collections.abc import Iterable

from headrace.model.sink_entries import SealedObject, TopicPartition

_Names = frozenset[tuple[str, str]]


class LeaderCompletions:
    """Objects of partitions that no slot holds. Each is released once, when no earlier one has its name."""

    def __init__(self) -> None:
        self._waiting: dict[str, SealedObject] = {}
        self._released: dict[str, SealedObject] = {}

    def __len__(self) -> int:
        return len(self._waiting) + len(self._released)

    def __contains__(self, object_id: str) -> bool:
        return object_id in self._waiting or object_id in self._released

    def add(self, pending: Iterable[SealedObject]) -> None:
        """Have these completed; one that waits or is released already is so once."""
        for one in pending:
            if one.id not in self:
                self._waiting[one.id] = one

    def remove(self, object_id: str) -> None:
        """The object has its end, or is no longer the leader's."""
        self._waiting.pop(object_id, None)
        self._released.pop(object_id, None)

    def release(self) -> tuple[SealedObject, ...]:
        """What can be completed now and was not given out before."""
        taken = {name for one in self._released.values() for name in _names(one)}
        released: list[SealedObject] = []
        for one in sorted(self._waiting.values(), key=_order):
            names = _names(one)
            if taken.isdisjoint(names):
                released.append(one)
            # Also the names of one that has to wait: nothing of a later one goes before it.
            taken |= names
        for one in released:
            self._released[one.id] = self._waiting.pop(one.id)
        return tuple(released)


def _names(sealed: SealedObject) -> _Names:
    """Everything that its completion puts into buckets."""
    return frozenset((sealed.bucket, upload.key) for upload in sealed.uploads)


def _order(sealed: SealedObject) -> tuple[TopicPartition, int, int, str]:
    return sealed.partition_of, sealed.first_offset, sealed.last_offset, sealed.id
