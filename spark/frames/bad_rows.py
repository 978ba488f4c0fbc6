"""What is noted at `state.path` of the bad rows that tasks meet."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from headrace.model.slot_protocol import Split
from spark.frames.log_entries import ABOUT, identity
from spark.frames.log_store import LogStore, refuse_other_directory

BAD: Final = "bad"
"""The folder of what tasks note of bad rows."""


_FEW_BAD: Final = 1000


class BadNotes:
    """The bad rows of a task's splits, in a file for each that has some, by its object and begin.

    So each row is noted once, whichever splits a task has: a frame that is read again has other objects, or
    a filter that leaves some out. A split without bad rows costs no call of its own.
    """

    def __init__(self, state: Callable[[], LogStore], *, batch: int | None) -> None:
        """`state` is asked for where it is first needed; `batch` None is of a frame that is read once."""
        self._state = state
        self._batch = batch
        self._name = ""
        self._rows: list[dict[str, Any]] = []
        self._kept = 0
        self._sound: list[str] = []
        self._has_some = False

    def begin(self, split: Split) -> None:
        """The rows that come are this split's."""
        self._name = f"{self._batch or 0:012d}/{identity(split.object.id).hex()}-{split.begin or 0}"
        self._rows, self._kept = [], 0

    def add(self, row: dict[str, Any]) -> None:
        """A bad row of the split."""
        self._rows.append(row)

    def keep_some(self) -> None:
        """Have those noted that come before rows which are given: a query may take no more, and end the task.

        The file has all of them each time, so that of many not every batch writes it.
        """
        if len(self._rows) <= _FEW_BAD or len(self._rows) >= 2 * self._kept:
            self.keep()

    def keep(self) -> None:
        """Have those noted that have come so far."""
        if len(self._rows) > self._kept:
            self._kept = len(self._rows)
            note_bad_rows(self._store, self._name, self._rows, is_whole=False)

    def end(self, *, is_whole: bool) -> None:
        """The split is over; `is_whole`: it was read to its end."""
        if not is_whole:
            self.keep()
        elif self._rows:
            self._has_some = True
            note_bad_rows(self._store, self._name, self._rows, is_whole=True)
        else:
            self._sound.append(self._name)

    def close(self) -> None:
        """All splits were read. Those without bad rows lose notes that an earlier read by other options has.

        So they do notes of their neighbours: Headrace 1.0.0 had one file for a task, by its first object. A
        task without any bad row makes no call.
        """
        if self._has_some:
            self._store.remove([file for name in self._sound for file in _files(name)])

    @cached_property
    def _store(self) -> LogStore:
        store = self._state()
        if self._batch is not None:
            refuse_other_directory(store, ABOUT)
        return store


def note_bad_rows(store: LogStore, name: str, rows: Sequence[dict[str, Any]], *, is_whole: bool) -> None:
    """Have these rows of a split noted, all of those before them included.

    The whole split's are written again, as a repeated task has them. Reads that took less have a file of
    their own, for what the other one lacks: a frame is read again for each look at it, and no look may take
    away what is noted.
    """
    lines = dict.fromkeys(msgspec.json.encode(row) + b"\n" for row in rows)
    whole, begun = _files(name)
    if is_whole:
        store.replace(whole, b"".join(lines))
        store.remove([begun])
        return
    noted = _lines(store, whole)
    if lines.keys() - noted.keys():
        store.replace(begun, b"".join(line for line in lines | _lines(store, begun) if line not in noted))


def _files(name: str) -> tuple[str, str]:
    """Those of a split: of reads to its end, and of others."""
    return f"{BAD}/{name}.jsonl", f"{BAD}/{name}.part.jsonl"


def _lines(store: LogStore, name: str) -> dict[bytes, None]:
    return dict.fromkeys((store.read(name) or b"").splitlines(keepends=True))
