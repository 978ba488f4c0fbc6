"""The batches that slots hold: which partitions, and what was asked of them."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from headrace.model.sink_entries import TopicPartition


@dataclass(slots=True, kw_only=True)
class SlotBatch:
    """Partitions that one slot holds until its batch ends; it may give one of them up before.

    `group_request` is the number of the last description of topics that was asked for before the slot wanted
    the group's metadata; None: it wants none. A batch that `is_lost` is not over: its slot is being fenced.
    """

    number: int
    slot: int
    partitions: frozenset[TopicPartition]
    is_ending: bool = False
    is_lost: bool = False
    group_request: int | None = None


class SlotBatches:
    """Every batch that is not over."""

    def __init__(self) -> None:
        self._batches: dict[int, SlotBatch] = {}

    def __iter__(self) -> Iterator[SlotBatch]:
        return iter(tuple(self._batches.values()))

    def __len__(self) -> int:
        return len(self._batches)

    def add(self, number: int, slot: int, partitions: Collection[TopicPartition]) -> None:
        """A batch was granted; its slot has no other, its number was never used."""
        assert number not in self._batches, f"batch {number} exists"
        assert self.of_slot(slot) is None, f"slot {slot} has a batch"
        self._batches[number] = SlotBatch(number=number, slot=slot, partitions=frozenset(partitions))

    def live(self, number: int) -> SlotBatch | None:
        """The batch, unless it is over or its slot was lost: what such a one says late means nothing."""
        batch = self._batches.get(number)
        return None if batch is None or batch.is_lost else batch

    def of_slot(self, slot: int) -> SlotBatch | None:
        """The batch that the slot holds, or held when it was lost."""
        return next((batch for batch in self if batch.slot == slot), None)

    def remove(self, number: int) -> None:
        """The batch is over."""
        self._batches.pop(number, None)
