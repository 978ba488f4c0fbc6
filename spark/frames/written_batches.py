"""Which objects each batch of a writing query has: written down once, before any of them is completed.

A file of a batch is never replaced, and what it names is completed: a batch that Spark repeats has the
objects of its first commit, whatever a later attempt has sent.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import structlog

from headrace.model.errors import FrameRefused
from headrace.model.sink_entries import SealedObject
from spark.frames.log_store import LogStore

_LOG = structlog.get_logger(__name__)

_WRITES: Final = "writes"
_OPEN: Final = "open"
KEPT: Final = 100
"""Of so many batches the objects are remembered: Spark repeats the last one."""
_SHOWN: Final = 3
_ONCE: Final = 'Give each row once, as dropDuplicates(["topic", "partition", "offset"]) does'


class RowsOf(msgspec.Struct, frozen=True, array_like=True, order=True):
    """What a batch has of a topic-partition: its first and last offset, and how many rows."""

    topic: str
    partition: int
    first: int
    last: int
    rows: int

    @property
    def place(self) -> tuple[str, int]:
        """The topic-partition."""
        return self.topic, self.partition

    def with_more(self, other: "RowsOf") -> "RowsOf":
        """These and others of the same topic-partition."""
        return RowsOf(
            self.topic,
            self.partition,
            min(self.first, other.first),
            max(self.last, other.last),
            self.rows + other.rows,
        )


def merged(rows: Iterable[RowsOf]) -> dict[tuple[str, int], RowsOf]:
    """The rows of each topic-partition, as tasks have had them in parts."""
    found: dict[tuple[str, int], RowsOf] = {}
    for one in rows:
        before = found.get(one.place)
        found[one.place] = one if before is None else before.with_more(one)
    return found


class EndOf(msgspec.Struct, frozen=True, array_like=True):
    """The last offset that the batches of a query have of a topic-partition."""

    topic: str
    partition: int
    last: int


class WrittenBatch(msgspec.Struct, frozen=True):
    """The objects of a batch, all parts of which are sent, and the rows that were given to it.

    `rows` are missing (None) in what an older Headrace has written. `ends` are those of this batch and of all
    before it: what another query is to begin after.
    """

    objects: tuple[SealedObject, ...]
    rows: tuple[RowsOf, ...] | None = None
    ends: tuple[EndOf, ...] = ()


def encode_batch(batch: WrittenBatch) -> bytes:
    """The file of a batch."""
    return msgspec.json.encode(batch)


def decode_batch(content: bytes) -> WrittenBatch:
    """What a file says; those of an older Headrace list objects alone."""
    if content.lstrip().startswith(b"["):
        return WrittenBatch(msgspec.json.decode(content, type=tuple[SealedObject, ...]))
    return msgspec.json.decode(content, type=WrittenBatch)


class BatchRefused(FrameRefused):
    """A batch whose rows may be in objects already; `last` is the last batch of its query, and its number."""

    def __init__(self, sentence: str, number: int, last: WrittenBatch | None) -> None:
        super().__init__(sentence)
        self.number = number
        self.last = last


class WrittenBatches:
    """The files of one query, by number, in its `state.path`. All calls block on that."""

    def __init__(self, store: LogStore, query: str) -> None:
        self._store = store
        self._folder = f"{_WRITES}/{query}"
        self._notes = f"{_OPEN}/{query}"
        self._there: list[str] = []
        """Files, as they were when a batch was named."""

    def named(self, number: int) -> WrittenBatch | None:
        """What a commit has named for this batch; None: none has."""
        content = self._store.read(self._name(number))
        return None if content is None else decode_batch(content)

    def name(self, number: int, batch: WrittenBatch) -> WrittenBatch:
        """What the batch has: this, or what an earlier commit of it has named.

        BatchRefused for rows that the earlier one did not have, or where the last that it had is missing,
        for a batch that later ones are written after, and for one that begins where a batch before began:
        none may be told apart from rows that are in objects already. What the last file has is to be
        completed then: another query begins after it. A batch without rows is named as well: of a
        checkpoint that was put back the first batch that is another one is noticed, whatever it has.
        """
        name, before = self._name(number), self._before(number)
        batch = msgspec.structs.replace(batch, ends=_ends(before, batch))
        if self._store.create(name, encode_batch(batch)):
            self._refuse_earlier(number)
            self._refuse_again(number, before, batch)
            if number and before is None:
                _LOG.warning(
                    "batches_before_unknown",
                    batch=number,
                    path=f"{self._store.where}/{self._folder}",
                    detail="there is none here: if batches of this checkpoint were written with another "
                    "state.path, or as another query, the last of them may be there twice",
                )
            return batch
        content = self._store.read(name)
        if content is None:
            raise FrameRefused(
                f"Batch {number} was written by another driver of this query, which has gone on: stop one."
            )
        found = decode_batch(content)
        # A request that was not answered may have come after its file was forgotten.
        self._refuse_earlier(number, by=KEPT)
        self._refuse_others(number, found, batch)
        return found

    def forget_before(self, number: int) -> None:
        """Batches up to `KEPT` before this one are not repeated any more."""
        if number >= KEPT:
            oldest = self._name(number - KEPT)
            # What a driver that died has left is older.
            gone = [oldest, _file(self._notes, number - KEPT)]
            self._store.remove([one for one in self._there if one < oldest] + gone)

    def noted_open(self, number: int) -> frozenset[str]:
        """The ids of objects that no commit of the batch is known to have completed."""
        content = self._store.read(_file(self._notes, number))
        return frozenset() if content is None else msgspec.json.decode(content, type=frozenset[str])

    def note_open(self, number: int, ids: Iterable[str]) -> None:
        """Have `noted_open` give these too: one that is gone when the commit comes again was not complete."""
        file, new = _file(self._notes, number), frozenset(ids)
        if new and not self._store.create(file, _note(new)):
            self._store.replace(file, _note(new | self.noted_open(number)))

    def note_left(self, number: int, left: frozenset[str]) -> None:
        """Have `noted_open` give no others than these; all others are complete."""
        file = _file(self._notes, number)
        still = left & self.noted_open(number) if left else left
        if still:
            self._store.replace(file, _note(still))
        else:
            self._store.remove([file])

    def place_of_open(self, number: int) -> str:
        """Where `noted_open` is, for messages."""
        return f"{self._store.where}/{_file(self._notes, number)}"

    def place(self, number: int) -> str:
        """Where the file of a batch is, for messages."""
        return f"{self._store.where}/{self._name(number)}"

    def _before(self, number: int) -> WrittenBatch | None:
        """What the last batch before this one has that has a file; None for the first."""
        if not number:
            return None
        found = self.named(number - 1)
        if found is not None:
            return found
        earlier = [one for one in self._store.names(self._folder) if one < self._name(number)]
        return self.named(_number(earlier[-1])) if earlier else None

    def _refuse_earlier(self, number: int, *, by: int = 1) -> None:
        """BatchRefused, and no file, where a batch that is named now is not the last one, by so many."""
        name = self._name(number)
        self._there = self._store.names(self._folder)
        later = [one for one in self._there if one > name]
        if later and _number(later[-1]) - number >= by:
            self._store.remove([name])
            raise self._refusal(
                f"Batch {number} comes after batch {_number(later[-1])} of the query: its checkpoint was "
                "put back, or another driver runs it.",
                later[-1],
            )

    def _refuse_again(self, number: int, before: WrittenBatch | None, batch: WrittenBatch) -> None:
        """BatchRefused, and no file, for rows that a batch of another number begins with.

        As far as files are kept. A topic that was made again counts from 0 once more, and its rows would be
        among those of the one before; a checkpoint that was put back is noticed by the numbers.
        """
        ends = {} if before is None else {(one.topic, one.partition): one.last for one in before.ends}
        again = {one.place: one.first for one in batch.rows or () if one.first <= ends.get(one.place, -1)}
        if not again:
            return
        earlier = [one for one in self._there if one < self._name(number)]
        for name in reversed(earlier):
            found = self.named(_number(name))
            for rows in (found.rows if found is not None else None) or ():
                if again.get(rows.place) == rows.first:
                    self._store.remove([self._name(number)])
                    raise self._refusal(
                        f"Batch {number} begins with offset {rows.first} of {rows.topic}-{rows.partition}, "
                        f"as batch {_number(name)} does: the query gives rows twice, or the topic was made "
                        "again.",
                        earlier[-1],
                        made_again="; for a topic that was made again at its first one, with another path",
                    )

    def _refuse_others(self, number: int, found: WrittenBatch, batch: WrittenBatch) -> None:
        if found.rows is None:
            return
        before, now = ({one.place: one for one in rows} for rows in (found.rows, batch.rows or ()))
        others = [
            f"{place[0]}-{place[1]}: {_said(now.get(place), 'offsets ')}, "
            f"and before {_said(before.get(place))}"
            for place in sorted(before.keys() | now.keys())
            if not _is_same(before.get(place), now.get(place))
        ]
        if not others:
            return
        more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        last = [one for one in self._store.names(self._folder) if one >= self._name(number)][-1:]
        name = last[0] if last else self._name(number)
        raise self._refusal(
            f"Batch {number} was written before with other rows ({'; '.join(others[:_SHOWN])}{more}): "
            "the checkpoint was put back, or the query does not give the same rows twice.",
            name,
        )

    def _refusal(self, why: str, last: str, *, made_again: str = "") -> BatchRefused:
        """The error that says why, and after which file another query is to begin."""
        way_on = (
            "Begin a query with a checkpointLocation of its own, at the offsets after the ends in the last "
            f"file ({self._store.where}/{last}){made_again}."
        )
        return BatchRefused(f"{why} {way_on}", _number(last), self.named(_number(last)))

    def _name(self, number: int) -> str:
        return _file(self._folder, number)


def _note(ids: Iterable[str]) -> bytes:
    return msgspec.json.encode(sorted(ids))


def _file(folder: str, number: int) -> str:
    return f"{folder}/{number:012d}.json"


def _ends(before: WrittenBatch | None, batch: WrittenBatch) -> tuple[EndOf, ...]:
    """Those of the batches before and of this one; the later counts: a topic made again begins at 0."""
    found: dict[tuple[str, int], EndOf] = {}
    if before is not None:
        # An older Headrace has written none.
        rows = before.rows or ()
        found = {one.place: EndOf(*one.place, one.last) for one in rows}
        found |= {(one.topic, one.partition): one for one in before.ends}
    found |= {one.place: EndOf(*one.place, one.last) for one in batch.rows or ()}
    return tuple(found[place] for place in sorted(found))


def _is_same(before: RowsOf | None, now: RowsOf | None) -> bool:
    """Whether these are the same rows: what retention has removed, and what is left out between, may be gone.

    The last one may not: it would come in the next batch, where its query gives fewer rows a batch.
    """
    if before is None or now is None:
        return False
    return before.first <= now.first and before.last == now.last


def _said(rows: RowsOf | None, what: str = "") -> str:
    return "none" if rows is None else f"{what}{rows.first} to {rows.last}"


def _number(name: str) -> int:
    return int(name.rpartition("/")[2].removesuffix(".json"))


def refuse_doubled_rows(rows: Iterable[RowsOf]) -> None:
    """FrameRefused where tasks were given more rows of a topic-partition than there are offsets for them."""
    for one in rows:
        if one.rows > one.last - one.first + 1:
            raise FrameRefused(
                f"Rows of {one.topic}-{one.partition} come twice, in several tasks: there are {one.rows} "
                f"with offsets {_said(one)}. {_ONCE}."
            )


def refuse_shared_names(objects: Iterable[SealedObject]) -> None:
    """FrameRefused where two objects that are to stay have one name: one of them would never be there."""
    seen: set[str] = set()
    for one in objects:
        if one.main.key in seen:
            raise FrameRefused(
                f"Two objects are to have the name s3://{one.bucket}/{one.main.key}: rows of "
                f"{one.topic}-{one.partition} come twice, in several tasks, or file.name.template does not "
                f"tell objects apart. {_ONCE}, or have {{{{partition}}}} and {{{{start_offset}}}} in the "
                "template."
            )
        seen.add(one.main.key)


def last_of_each_name(
    objects: Sequence[SealedObject],
) -> tuple[tuple[SealedObject, ...], tuple[SealedObject, ...]]:
    """Those that stay, and those in whose place a later one of the batch comes: names of keys recur."""
    last: dict[str, SealedObject] = {}
    ordered = sorted(objects, key=lambda one: (one.topic, one.partition, one.first_offset))
    for one in ordered:
        if one.overwrites:
            last[one.main.key] = one
    stay = {one.id for one in last.values()}
    return (
        tuple(one for one in objects if not one.overwrites or one.id in stay),
        tuple(one for one in objects if one.overwrites and one.id not in stay),
    )
