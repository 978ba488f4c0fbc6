"""A source's records through its transforms: batches of rows, some dropped, cut where topics change."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import msgspec
import numpy as np

from headrace.formats.converted_records import ConvertedColumn, ConvertedRecords, Form
from headrace.formats.converters.typed_columns import PlainColumn
from headrace.formats.encoding.json_members import JsonKind, json_kinds, utf8_rows
from headrace.formats.records.record_builder import without_rows
from headrace.formats.transforms.header_topic_steps import header_texts
from headrace.formats.transforms.record_chain import RecordChain
from headrace.model.clock import wall_ms
from headrace.model.columns import (
    NULL_LENGTH,
    TIMESTAMP_CREATED,
    Column,
    Headers,
    KafkaRecords,
    Numbers,
    RecordTarget,
    RowBatch,
    column_of,
    null_column,
    picked,
)
from headrace.options.choices import Form as StoredForm
from headrace.options.choices import InputFormat, ValueFormat
from headrace.options.settings import FormatSettings
from headrace.options.transforms import TransformChain
from headrace.options.transforms.chain import KeyOrValue, ValueToKey


def selected(batch: RowBatch, kept: Numbers) -> RowBatch:
    """The batch with these rows alone, which rise; nothing of the others is left. Bad rows stay."""
    positions, after = batch.positions, batch.after

    def kept_positions(index: int, /) -> Any:
        return positions(int(kept[index])) if index < len(kept) else after

    return replace(
        batch,
        values=picked(batch.values, kept),
        positions=kept_positions,
        keys=None if batch.keys is None else picked(batch.keys, kept),
        headers=None if batch.headers is None else tuple(batch.headers[row] for row in kept.tolist()),
        timestamps_ms=None if batch.timestamps_ms is None else batch.timestamps_ms[kept],
        offsets=None if batch.offsets is None else batch.offsets[kept],
        bad=tuple(replace(bad, index=int(np.searchsorted(kept, bad.index))) for bad in batch.bad),
    )


def by_topic(batch: RowBatch, topics: Sequence[str], *, topic: str) -> Iterator[RowBatch]:
    """The batch in parts whose records have one topic; `topic` where there is no record."""
    if len(set(topics)) < 2:  # noqa: PLR2004  # nothing to cut
        yield replace(batch, topic=topics[0] if topics else topic)
        return
    borders = [0, *(row for row in range(1, len(topics)) if topics[row] != topics[row - 1]), len(topics)]
    for first, behind in pairwise(borders):
        yield replace(_cut(batch, first, behind), topic=topics[first])


def _cut(batch: RowBatch, first: int, behind: int) -> RowBatch:
    """The rows from `first` to before `behind`, with the bad ones before each of them, or after the last."""
    is_last = behind == len(batch)
    following = [bad for bad in batch.bad if bad.index == behind]
    after = batch.after
    if not is_last:
        after = following[0].position if following else batch.positions(behind)
    positions = batch.positions

    def cut_positions(index: int, /) -> Any:
        return positions(first + index) if index < behind - first else after

    rows = slice(first, behind)
    return replace(
        batch,
        values=picked(batch.values, np.arange(first, behind)),
        after=after,
        positions=cut_positions,
        keys=None if batch.keys is None else picked(batch.keys, np.arange(first, behind)),
        headers=None if batch.headers is None else batch.headers[rows],
        timestamps_ms=None if batch.timestamps_ms is None else batch.timestamps_ms[rows],
        offsets=None if batch.offsets is None else batch.offsets[rows],
        bad=tuple(
            replace(bad, index=bad.index - first)
            for bad in batch.bad
            if first <= bad.index < behind or (is_last and bad.index == behind)
        ),
        inexact=batch.inexact if first == 0 else {},
    )


_NO_PARTITION: Final = -1
_OBJECT: Final = b"{"


@dataclass(slots=True)
class _Records:
    """What became of each row of a batch, by its number; a topic of None: it was dropped."""

    values: list[bytes | None]
    keys: list[bytes | None]
    headers: list[Headers]
    topics: list[str | None]


class SourceRecords:
    """Applies the chain of a source; make one for each task."""

    def __init__(
        self, chain: TransformChain, settings: FormatSettings, clock: Callable[[], int] = wall_ms
    ) -> None:
        self._looks_into = chain.looks_into
        self._settings = settings
        rows = None if settings.restore is None else settings.restore.rows
        # Vendors' sources say by their converters what a restore writes.
        self._json_keys = settings.key_format is ValueFormat.JSON or (
            rows is not None and rows.key is StoredForm.JSON
        )
        self._json_values = settings.value_format is ValueFormat.JSON or (
            rows is not None and rows.value is StoredForm.JSON
        )
        # What it makes has one form, whatever was stored in its place.
        self._makes_keys = any(
            step.condition is None and isinstance(step.transform, ValueToKey) for step in chain.steps
        )
        self._chain = RecordChain(chain, clock)

    def apply(self, rows: RowBatch, target: RecordTarget) -> Iterator[RowBatch]:
        """The batch in parts of one topic each, complete with what all records of its object share.

        A row that a transform refuses is a bad one.
        """
        found = _Records([], [], [], [None] * len(rows))
        found.values, found.keys = [None] * len(rows), [None] * len(rows)
        found.headers = [()] * len(rows)
        faults: dict[int, tuple[str, str, int]] = {}
        sizes = np.maximum(rows.values.lengths, 0)
        for stored in self._pieces(rows, target):
            # Each row has its place already, in whatever runs the records come.
            transformed = self._chain.apply(stored, puts_together=False)
            for run in transformed.runs:
                self._fill(found, run, stored)
            for fault in transformed.faults:
                faults[fault.offset] = (fault.reason, fault.message, int(sizes[fault.offset]))
        yield from by_topic(*self._batch(rows, found, faults), topic=target.topic)

    def _batch(
        self, rows: RowBatch, found: _Records, faults: dict[int, tuple[str, str, int]]
    ) -> tuple[RowBatch, list[str]]:
        """The rows that are left, and the topic of each."""
        good = [row for row in range(len(rows)) if row not in faults]
        rows = without_rows(rows, faults, keep_raw=True, are_records=True)
        places = [place for place, row in enumerate(good) if found.topics[row] is not None]
        kept = [good[place] for place in places]
        if len(kept) < len(good):
            rows = selected(rows, np.array(places, np.int64))
        headers = tuple(found.headers[row] for row in kept)
        changed = replace(
            rows,
            values=column_of([found.values[row] for row in kept]),
            keys=column_of([found.keys[row] for row in kept]),
            headers=headers if any(headers) else None,
        )
        return changed, [topic for row in kept if (topic := found.topics[row]) is not None]

    # -- into the chain --------------------------------------------------------------------------------------

    def _pieces(self, rows: RowBatch, target: RecordTarget) -> Iterator[ConvertedRecords]:
        """The records by what their keys and values are."""
        count = len(rows)
        times = rows.timestamps_ms
        if times is None:
            times = np.full(count, -1 if target.timestamp_ms is None else target.timestamp_ms, np.int64)
        keys = _constant(target.key, count) if rows.keys is None else rows.keys
        own = [()] * count if rows.headers is None else rows.headers
        headers = [target.headers + each for each in own]
        whole = KafkaRecords(
            topic=target.topic,
            partition=_NO_PARTITION if target.partition is None else target.partition,
            offsets=np.arange(count, dtype=np.int64),
            timestamps_ms=times,
            timestamp_types=np.full(count, TIMESTAMP_CREATED, np.int64),
            keys=keys,
            values=rows.values,
            headers=headers if any(headers) else None,
        )
        key_forms, value_forms = self._key_forms(keys), self._value_forms(rows.values)
        pairs = key_forms * len(_FORMS) + value_forms
        for pair in np.unique(pairs).tolist():
            places = np.flatnonzero(pairs == pair)
            records = whole if len(places) == count else whole.take(places)
            yield ConvertedRecords(
                records=records,
                key=PlainColumn(records.keys, _FORMS[pair // len(_FORMS)]),
                value=PlainColumn(records.values, _FORMS[pair % len(_FORMS)]),
            )

    def _key_forms(self, keys: Column) -> Numbers:
        """A key is JSON where the converter says so, or where it is an object; else text."""
        if KeyOrValue.KEY not in self._looks_into:
            return np.zeros(len(keys), np.int64)
        forms = _json_or_text(keys)
        if not self._json_keys:
            texts = keys.each(0, len(keys))
            scalar = np.array([each is not None and each[:1] != _OBJECT for each in texts], np.bool_)
            forms[scalar & (forms == _JSON)] = _TEXT
        return forms

    def _value_forms(self, values: Column) -> Numbers:
        """What a format's rows are: the lines of text are no JSON, whatever is in them.

        Where their converter asks for JSON, they are its strings already.
        """
        if KeyOrValue.VALUE not in self._looks_into:
            return np.zeros(len(values), np.int64)
        forms = _json_or_text(values)
        is_line = self._settings.text.pattern is None or self._settings.value_format is ValueFormat.RAW
        is_quoted = self._settings.value_format is ValueFormat.JSON
        is_text = self._settings.input_format is InputFormat.TEXT and is_line and not is_quoted
        if self._settings.restore is None and is_text:
            forms[forms == _JSON] = _TEXT
        if self._settings.restore is None and self._settings.input_format is InputFormat.BYTES:
            forms[:] = _BYTES
        return forms

    # -- out of the chain ------------------------------------------------------------------------------------

    def _fill(self, found: _Records, run: ConvertedRecords, stored: ConvertedRecords) -> None:
        values = _produced(run.value, is_key=False, as_json=self._json_values and self._is_json(stored.value))
        is_json = self._makes_keys or self._is_json(stored.key)
        keys = _produced(run.key, is_key=True, as_json=self._json_keys and is_json)
        headers = run.records.headers
        for place, row in enumerate(run.records.offsets.tolist()):
            found.values[row] = values[place]
            found.keys[row] = keys[place]
            found.topics[row] = run.records.topic
            if headers is not None:
                found.headers[row] = _written(headers[place])

    def _is_json(self, stored: ConvertedColumn) -> bool:
        """Whether there was JSON: csv and bytes of an archive are restored as they are, whatever is asked."""
        return self._settings.restore is None or stored.form is Form.JSON


_FORMS: Final = (Form.BYTES, Form.TEXT, Form.JSON)
_BYTES, _TEXT, _JSON = range(3)


def _json_or_text(column: Column) -> Numbers:
    """The form of each value: JSON, else text in UTF-8, else bytes. A null is JSON."""
    kinds = json_kinds(column)
    is_json = (kinds != JsonKind.NONE) | (column.lengths == NULL_LENGTH)
    return np.where(is_json, _JSON, np.where(utf8_rows(column), _TEXT, _BYTES))


def _written(headers: Headers) -> Headers:
    """The bytes of each header, also of those that a transform made."""
    return tuple((name, None if value is None else bytes(value)) for name, value in headers)


def _constant(key: bytes | None, count: int) -> Column:
    if key is None:
        return null_column(count)
    return Column(buffer=key, starts=np.zeros(count, np.int64), lengths=np.full(count, len(key), np.int64))


def _produced(column: ConvertedColumn, *, is_key: bool, as_json: bool) -> list[bytes | None]:
    """The bytes of each key or value as its converter writes them."""
    texts = column.texts()
    found = list(texts.each(0, len(texts)))
    if column.form is Form.TEXT and as_json:
        return [None if text is None else msgspec.json.encode(text.decode()) for text in found]
    is_json = column.form in {Form.JSON, Form.TYPED}
    is_scalar = is_key or column.form is Form.TYPED
    # A text stands without its quotes where no converter asks for JSON, as a key of a field does.
    return header_texts(found) if is_json and is_scalar and not as_json else found
