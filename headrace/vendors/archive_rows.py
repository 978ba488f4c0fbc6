"""What the vendors' readers of rows share: members of JSON lines as columns, headers, the rows' place.

Each line is parsed once. Headers are lists of key and value, or objects. Rows of another place than the name
of their object says are not its records.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Annotated, Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.record_columns import NO_OFFSET, Faults, RowUnfit
from headrace.formats.row_members import (
    ABSENT,
    NULL,
    bytes_of,
    decoded_rows,
    is_text,
    placed_members,
    refused,
    with_nulls,
)
from headrace.model.columns import NULL_LENGTH, Column, Headers, Numbers, null_column, picked
from headrace.names.archive_names import ArchiveName, NameElement
from headrace.options.choices import Form

# Structures of more rows leave the processor's cache before they are looked at, and take twice the time.
_ROWS_AT_ONCE: Final = 256


# What fits into a column of numbers; a row with another one is none of its layout.
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which members of a structure are wanted, and as what.

    `texts` and `raws` are members of Raw, the one as columns and the other one by one; `numbers` say of a
    structure what its number is. With `in_place` no structures are made where all rows have the same members
    in the same order: the structure names its members as the JSON does then, and has ABSENT for what a row
    lacks; there are no `numbers`, and `raws` are members.
    """

    texts: Sequence[str]
    in_place: bool = False
    numbers: Mapping[str, Callable[[Any], int]] = field(default_factory=dict)
    raws: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Members:
    """The members of rows: JSON texts as columns, in which `null` is a null, numbers, and Raw one by one.

    `absent` says of texts that some row has not (ABSENT in its structure) which ones these are.
    """

    texts: Mapping[str, Column]
    numbers: Mapping[str, Numbers]
    raws: Mapping[str, Sequence[Any]]
    absent: Mapping[str, npt.NDArray[np.bool_]]

    def span(self, begin: int, end: int) -> "Members":
        """Those of the rows [begin, end)."""
        rows = np.arange(begin, end)
        return Members(
            {name: picked(column, rows) for name, column in self.texts.items()},
            {name: column[begin:end] for name, column in self.numbers.items()},
            {name: each[begin:end] for name, each in self.raws.items()},
            {name: each[begin:end] for name, each in self.absent.items()},
        )


class RowLines:
    """Reads rows as structures of `decoder`, and lines that it was asked to check not once more.

    `empty` and `what` are as `decoded_rows` has them; an `empty` structure has all that is wanted.
    """

    def __init__(self, decoder: msgspec.json.Decoder[Any], empty: Any, what: str, wanted: Wanted) -> None:
        self._decoder = decoder
        self._empty = empty
        self._what = what
        self._wanted = wanted
        self._kept: tuple[Column, Members] | None = None
        # The members of all rows in their order; None until it is known, empty where rows differ.
        self._order: Sequence[str] | None = None if wanted.in_place else ()

    def fit(self, lines: Column) -> bool:
        """True when each line is a row, where nothing but white space is between them; they are kept.

        The lines have to be UTF-8, and that no value continues in the next line has to be known. False may
        still mean that all of them fit.
        """
        self._kept = None
        members = self._placed(lines) or self._fitting(lines)
        if members is None:
            return False
        self._kept = lines, members
        return True

    def _placed(self, lines: Column) -> Members | None:
        """The members of lines that are alike, where they are; None where lines differ, from there on."""
        if self._order is None and len(lines):
            self._order = self._order_of(lines.get(0) or b"")
        if not self._order or not len(lines):
            return None
        found = placed_members(lines, self._order, tuple(self._wanted.raws))
        if found is None:
            # Members are taken out of structures from here on.
            self._order = ()
            return None
        columns, raws = found
        texts = {name: columns.get(name) or null_column(len(lines)) for name in self._wanted.texts}
        absent = [ABSENT] * len(lines)
        lacking = {name: np.ones(len(lines), bool) for name in self._wanted.texts if name not in columns}
        return Members(texts, {}, {name: raws.get(name, absent) for name in self._wanted.raws}, lacking)

    def _order_of(self, line: bytes) -> Sequence[str]:
        """The members of the line, empty where one is not wanted."""
        names = tuple(members_of(line))
        return names if {*names} <= {*self._wanted.texts, *self._wanted.raws} else ()

    def _fitting(self, lines: Column) -> Members | None:
        """The members of the lines; None where one is no row."""
        gathered = _Gathered(self._wanted)
        ends, view = lines.starts + lines.lengths, memoryview(lines.buffer)
        for begin in range(0, len(lines), _ROWS_AT_ONCE):
            end = min(begin + _ROWS_AT_ONCE, len(lines))
            try:
                found = self._decoder.decode_lines(view[int(lines.starts[begin]) : int(ends[end - 1])])
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                return None
            if len(found) != end - begin:
                return None
            gathered.add(found)
        return gathered.members()

    def read(self, rows: Column, faults: Faults) -> Members:
        """The members of the rows; those of a row that does not fit are null, and it is a fault."""
        return self._known(rows) or self._parsed(rows, faults)

    def _known(self, rows: Column) -> Members | None:
        """What was kept of these rows, if they are side by side among the lines that were kept."""
        if self._kept is None or not len(rows) or rows.buffer is not self._kept[0].buffer:
            return None
        lines, members = self._kept
        begin = int(np.searchsorted(lines.starts, rows.starts[0]))
        span = slice(begin, begin + len(rows))
        is_there = np.array_equal(lines.starts[span], rows.starts)
        if not is_there or not np.array_equal(lines.lengths[span], rows.lengths):
            return None
        return members if len(rows) == len(lines) else members.span(begin, begin + len(rows))

    def _parsed(self, rows: Column, faults: Faults) -> Members:
        gathered = _Gathered(self._wanted)
        for begin in range(0, len(rows), _ROWS_AT_ONCE):
            span, own = slice(begin, begin + _ROWS_AT_ONCE), Faults()
            some = Column(buffer=rows.buffer, starts=rows.starts[span], lengths=rows.lengths[span])
            gathered.add(decoded_rows(some, self._decoder, self._empty, self._what, own))
            for row in range(len(some) if own else 0):
                own.move(range(row, row + 1), begin + row, faults)
        return gathered.members()


class _Gathered:
    """Takes what is wanted out of structures, which need live no longer than that."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._copied = {name: attrgetter(name) for name in wanted.texts}
        self._lengths = _empties(wanted.texts)
        self._texts: dict[str, list[bytes]] = {name: [] for name in wanted.texts}
        self._numbers = _empties(wanted.numbers)
        self._raws: dict[str, list[Any]] = {name: [] for name in wanted.raws}

    def add(self, found: Sequence[Any]) -> None:
        for name, get in self._copied.items():
            texts = list(map(get, found))
            self._lengths[name].append(np.fromiter(map(len, texts), np.int64, len(texts)))
            self._texts[name].append(b"".join(texts))
        for name, number in self._wanted.numbers.items():
            self._numbers[name].append(np.fromiter(map(number, found), np.int64, len(found)))
        for name, raw in self._wanted.raws.items():
            self._raws[name] += map(raw, found)

    def members(self) -> Members:
        """What was taken out."""
        texts, absent = {}, {}
        for name in self._wanted.texts:
            lengths = np.concatenate(self._lengths[name])
            column = Column(
                buffer=b"".join(self._texts[name]), starts=np.cumsum(lengths) - lengths, lengths=lengths
            )
            lacking = column.lengths == len(ABSENT)
            if lacking.any():
                column.lengths[lacking] = NULL_LENGTH
                absent[name] = lacking
            texts[name] = with_nulls(column)
        numbers = {name: np.concatenate(each) for name, each in self._numbers.items()}
        return Members(texts, numbers, self._raws, absent)


def _empties(names: Iterable[str]) -> dict[str, list[Numbers]]:
    return {name: [np.zeros(0, np.int64)] for name in names}


NO_VALUE: Final = "no_value"
_NO_VALUE: Final = (
    "the row has no value, and would be a tombstone, which is a value that is null; if the sink wrote values "
    "alone, set restore.envelope=no (Aiven: format.output.envelope=false); if it left values out, "
    "key.source=field:key without input.layout gives its keys, but not what they were before base64"
)


def refuse_without_value(rows: npt.NDArray[np.bool_] | None, faults: Faults) -> None:
    """Notes as faults (`no_value`) the rows of this mask, whose envelopes leave the value out."""
    for row in () if rows is None else np.flatnonzero(rows).tolist():
        faults.add(row, NO_VALUE, _NO_VALUE)


class _Entry(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    key: str
    value: msgspec.Raw = msgspec.Raw(b"null")


_LIST: Final = msgspec.json.Decoder(list[_Entry])
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def members_of(row: bytes) -> AbstractSet[str]:
    """The names of a row's members; empty for what is no JSON object."""
    try:
        return _OBJECT.decode(row).keys()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return frozenset()


def header_rows(texts: Sequence[msgspec.Raw], form: Form, faults: Faults) -> list[Headers] | None:
    """The headers of each row, None where no row has any."""
    return read_headers(texts, lambda text: _headers(text, form), faults)


def read_headers(
    texts: Sequence[msgspec.Raw], read: Callable[[bytes], Headers], faults: Faults
) -> list[Headers] | None:
    """What `read` makes of the JSON of each row's headers, None where no row has any.

    Equal texts, which are frequent, are read once.
    """
    if any(texts.count(none) == len(texts) for none in (NULL, ABSENT)):
        return None
    found: list[Headers] = [()] * len(texts)
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    known: dict[bytes, Headers] = {b"null": ()}
    # The others have none: [] or {}.
    for row in np.flatnonzero(lengths > len(b"[]")).tolist():
        text = bytes(texts[row])
        headers = known.get(text)
        if headers is None:
            try:
                headers = known[text] = read(text)
            except RowUnfit as error:
                faults.add(row, error.reason, str(error))
                continue
        found[row] = headers
    return found


def _headers(text: bytes, form: Form) -> Headers:
    try:
        if text[:1] == b"{":
            return tuple((name, bytes_of(raw, form, "header")) for name, raw in _OBJECT.decode(text).items())
        return tuple((entry.key, bytes_of(entry.value, form, "header")) for entry in _LIST.decode(text))
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise RowUnfit("the headers are no list of key and value", reason="not_an_envelope") from None


_REASON: Final = "other_place"
_NULL: Final = b"null"
# What sinks write in names for the hyphens of a topic.
_FOR_HYPHENS: Final = "_."


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPlace:
    """What a name says for certain of its rows; None is anything. An object that was renamed does not fit.

    Sinks may write a topic's hyphens as another sign. Then its rows have the topic itself, and fit where
    `sent_to` says that their records go to another topic than that of the name.
    """

    topic: str | None = None
    partition: int | None = None
    first: int | None = None
    last: int | None = None
    sent_to: str = ""

    @classmethod
    def of(cls, name: ArchiveName, sent_to: str = "") -> "OwnPlace":
        """The place that the name says, as far as it is certain; its records go to the topic `sent_to`."""
        has_offsets = name.is_exact(NameElement.OFFSET)
        return cls(
            topic=name.topic if name.is_exact(NameElement.TOPIC) else None,
            partition=name.partition if name.is_exact(NameElement.PARTITION) else None,
            first=name.start_offset if has_offsets else None,
            last=name.last_offset if has_offsets else None,
            sent_to=sent_to,
        )

    def checked_offsets(self, offsets: Numbers | None, faults: Faults) -> Numbers | None:
        """The offsets; one before the object's first or after its last one is a fault of its row."""
        if offsets is None or (self.first is None and self.last is None) or not len(offsets):
            return offsets
        first = 0 if self.first is None else self.first
        last = np.iinfo(np.int64).max if self.last is None else self.last
        outside = (offsets != NO_OFFSET) & ((offsets < first) | (offsets > last))
        for row in np.flatnonzero(outside).tolist():
            faults.add(row, _REASON, _said("offset", self._range()))
        return offsets

    def check_texts(
        self, topics: Sequence[msgspec.Raw], partitions: Sequence[msgspec.Raw], faults: Faults
    ) -> None:
        """Rows of JSON with another topic or partition are faults; what a row does not say is no fault."""
        if self.topic is not None:
            own = b'"%s"' % self.topic.encode()
            for row in _differing(topics, own):
                self._check_topic(row, bytes(topics[row]).decode(errors="replace").strip('"'), faults)
        if self.partition is not None:
            for row in _differing(partitions, b"%d" % self.partition):
                faults.add(row, _REASON, _said("partition", str(self.partition)))

    def check_arrays(self, topics: Any, partitions: Any, faults: Faults) -> None:
        """The same of Arrow arrays, None where there are none; other types than theirs are faults, too."""
        for what, array, own in (("topic", topics, self.topic), ("partition", partitions, self.partition)):
            if array is None or own is None:
                continue
            fits = pa.types.is_integer if what == "partition" else is_text
            if not fits(array.type):
                refused(array, what, faults)
                continue
            differ = pc.fill_null(pc.not_equal(array, own), fill_value=False)
            for row in np.flatnonzero(differ.to_numpy(zero_copy_only=False)).tolist():
                if what == "topic":
                    self._check_topic(row, array[row].as_py(), faults)
                else:
                    faults.add(row, _REASON, _said(what, str(own)))

    def _check_topic(self, row: int, topic: str, faults: Faults) -> None:
        """A fault where the row's topic, which is not that of the name, is not what it was altered from."""
        if self.topic not in {topic.replace("-", sign) for sign in _FOR_HYPHENS}:
            faults.add(row, _REASON, _said("topic", str(self.topic)))
        elif self.sent_to in {"", self.topic}:
            faults.add(row, _REASON, _untold(str(self.topic)))

    def _range(self) -> str:
        return f"{'' if self.first is None else self.first}..{'' if self.last is None else self.last}"


ANYWHERE: Final = OwnPlace()


def _differing(texts: Sequence[msgspec.Raw], own: bytes) -> list[int]:
    """The rows that say something else."""
    expected = msgspec.Raw(own)
    if texts.count(expected) == len(texts):
        return []
    return [row for row, text in enumerate(texts) if text != expected and bytes(memoryview(text)) != _NULL]


def _said(what: str, name: str) -> str:
    # What the row says is content, and is not shown.
    return f"the row's {what} is not that of the object's name ({name}); was the object renamed?"


def _untold(name: str) -> str:
    return (
        f"the row's topic has hyphens where the object's name ({name}) has another sign; restore.topic.map="
        f"{name}:<topic>, or topic, says where its records go"
    )
