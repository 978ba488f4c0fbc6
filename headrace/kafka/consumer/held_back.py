"""Partitions that an open transaction holds back: read to where the broker gives no more, though there is."""

from collections.abc import Callable, Mapping

from headrace.model.clock import wall_ms
from headrace.model.sink_entries import TopicPartition
from headrace.model.sink_protocol import HeldBack


class HeldPartitions:
    """For the reader's thread. What is known outlives what is read at the moment, and the reader itself.

    As long as a partition ends for readers at the same offset it is the same transaction that holds it back,
    however often it was read to there from further below.
    """

    def __init__(self, seconds: float, now_ms: Callable[[], int] = wall_ms) -> None:
        self._seconds = seconds
        self._now_ms = now_ms
        self._at_end: dict[TopicPartition, int] = {}
        self._known: dict[TopicPartition, HeldBack] = {}

    def know(self, held: Mapping[TopicPartition, HeldBack]) -> None:
        """Pick up what an earlier reader has found."""
        self._known.update(held)

    def known(self) -> dict[TopicPartition, HeldBack]:
        """What was found, for a later reader."""
        return dict(self._known)

    def at_end(self, partition: TopicPartition, stable_end: int) -> None:
        """It is read to where the broker gives no more, which is there."""
        self._at_end[partition] = stable_end

    def not_at_end(self, partition: TopicPartition) -> None:
        """There is more of it, or it is not read at the moment."""
        self._at_end.pop(partition, None)

    def read_again(self) -> None:
        """All are read from other offsets."""
        self._at_end.clear()

    def sentences(
        self,
        positions: Mapping[TopicPartition, int],
        ends: Callable[[], Mapping[TopicPartition, int]],
    ) -> dict[str, str]:
        """Those that were held back for long, a sentence each. `ends` is called where any is at its own."""
        found = {}
        logs = ends() if self._at_end else {}
        now = self._now_ms()
        for partition, stable_end in self._at_end.items():
            position, end = positions[partition], logs.get(partition, 0)
            if end <= position:
                self._known.pop(partition, None)
                continue
            known = self._known.get(partition)
            if known is None or known.offset != position:
                known = HeldBack(position, now)
            known = self._known[partition] = known._replace(stable_end=stable_end)
            seconds = (now - known.since_ms) / 1000
            if seconds >= self._seconds:
                found[str(partition)] = known.sentence(partition, end, seconds)
        return found
