"""The record that the broker refuses, found by sending less and less after each refusal."""

from collections.abc import Callable, Collection

from headrace.model.positions import Position
from spark.source.split_progress import SplitProgress

DeadLetterOf = tuple[SplitProgress, Position]


class RefusedRecords:
    """What was sent last, and which records and dead letters were refused when they were sent alone.

    The sender says so before; after a refusal `narrow` knows the one that was sent alone. Rows are
    known by their split's number within the batch and the position they begin at.
    """

    def __init__(self) -> None:
        # At most one of these two: the record last sent, or whose copy the dead letter last sent is.
        self._last_row: tuple[int, Position] | None = None
        self._last_dead_letter: DeadLetterOf | None = None
        self._rows: set[tuple[int, Position]] = set()
        self._dead_letters: set[DeadLetterOf] = set()

    def sends_row(self, index: int, position: Position) -> None:
        """A row of split `index` is about to be sent."""
        self._last_row = (index, position)

    def sends_dead_letter(self, progress: SplitProgress, position: Position) -> None:
        """The dead letter of the row at `position` is about to be sent."""
        self._last_row, self._last_dead_letter = None, (progress, position)

    def holds_row(self, index: int, position: Callable[[], Position]) -> bool:
        """True for a row that was refused alone: a bad one. `position` is asked only where any was."""
        return bool(self._rows) and (index, position()) in self._rows

    def holds_dead_letter(self, progress: SplitProgress, position: Position) -> bool:
        """True for a dead letter that was refused alone: it goes once more, without its value."""
        return (progress, position) in self._dead_letters

    def narrow(self, *, sent: int, touched: Collection[SplitProgress]) -> Collection[SplitProgress]:
        """Remember what was refused alone, the transaction having held `sent` <= 1 records.

        Returns the splits that fail: nothing of theirs is left to try.
        """
        if self._last_row is not None and self._last_row not in self._rows:
            self._rows.add(self._last_row)
            return ()
        copy = self._last_dead_letter
        if not sent or copy is None or copy[0] not in touched:
            return touched  # nothing but checkpoints: there is no smaller step
        if copy in self._dead_letters:
            return (copy[0],)
        # Its topic's limit may be lower now than when it was asked for.
        self._dead_letters.add(copy)
        return ()
