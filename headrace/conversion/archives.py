"""Objects of archives: which layout and format one has, and its rows as the records that were in Kafka.

The reader of the rows is chosen by the object's name, its format and what the restore was told.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from headrace.conversion.archive_heads import ObjectHead, Undecided, deciding_row, row_members
from headrace.formats import avro, csv_objects, cut_rows, json_array, jsonl, parquet
from headrace.formats.compression import stored_codec
from headrace.formats.content_kind import (
    RowFormat,
    RowShape,
    avro_shape,
    is_sniffed,
    json_shape,
    named_format,
    recognise,
    row_format,
)
from headrace.formats.cut_rows import BareArrowRows, BareRows, PlainRows
from headrace.formats.record_columns import ArrowReader, TextReader, ToJson
from headrace.formats.records.decode_options import DecodeOptions, ObjectRestore
from headrace.model.columns import RowBatch
from headrace.model.errors import InvalidObject, ObjectCorrupt
from headrace.model.objects import ByteSource
from headrace.model.positions import Position
from headrace.names.archive_names import ArchiveName, LayoutName, ObjectKind
from headrace.options.choices import Enveloped, InputFormat, KeysFormat, RestoreOptions, ValueFormat
from headrace.options.settings import RestoreSettings
from headrace.vendors.aiven import rows as aiven_rows
from headrace.vendors.aiven.rows import CsvRows
from headrace.vendors.archive_rows import OwnPlace
from headrace.vendors.confluent.join import ArrowHeaders, ArrowKeys, JsonHeaders, JsonKeys, PlainKeys
from headrace.vendors.exactness import ContentFacts
from headrace.vendors.headrace import rows as headrace_rows
from headrace.vendors.headrace.names import PLACE, is_placed, is_written
from headrace.vendors.headrace.names import is_undecided as is_undecided_own
from headrace.vendors.key_names import ArchiveNames, layout_of_content
from headrace.vendors.lenses import rows as lenses_rows
from headrace.vendors.lenses.rows import is_undecided as is_undecided_lenses
from headrace.vendors.quix.rows import JsonRows, ParquetRows

_DECODERS: Final = {
    RowFormat.JSONL: jsonl.decode,
    RowFormat.AVRO: avro.decode,
    RowFormat.PARQUET: parquet.decode,
    RowFormat.JSON: json_array.decode,
    RowFormat.CSV: csv_objects.decode,
    RowFormat.LINES: cut_rows.decode,
    RowFormat.TEXT: cut_rows.decode,
    RowFormat.SEPARATED: cut_rows.decode,
    RowFormat.WHOLE: cut_rows.decode,
}
_ARROW: Final = frozenset({RowFormat.AVRO, RowFormat.PARQUET})
# Layouts that end each row of text, also the last; and formats whose rows may look whole without their end.
_ENDING: Final = frozenset({LayoutName.CONFLUENT, LayoutName.LENSES, LayoutName.QUIX})
_MAY_LOOK_WHOLE: Final = frozenset({RowFormat.JSONL, RowFormat.CSV})


_OF_KEYS: Final = {
    KeysFormat.AUTO: None,
    KeysFormat.AVRO: RowFormat.AVRO,
    KeysFormat.PARQUET: RowFormat.PARQUET,
    KeysFormat.JSONL: RowFormat.JSONL,
    KeysFormat.BYTES: RowFormat.SEPARATED,
}
_LENSES_UNDECIDED: Final = (
    "no metadata of topic, partition and offset: they may be Lenses' envelopes as well as values with such "
    "fields. Set store.envelope to true or false, as the sink had it, and replay the object."
)
_OWN_UNDECIDED: Final = (
    "not topic, partition and offset: they may be envelopes of some output.fields as well as values with "
    "such fields. Set restore.envelope to yes (the sink's output.envelope was true) or to no (false), and "
    "replay the object."
)
# Whether rows of a shape may be envelopes as well as values, and what is said of those that may.
_UNDECIDED: Final[dict[LayoutName, tuple[Callable[[RowShape], bool], str]]] = {
    LayoutName.LENSES: (is_undecided_lenses, _LENSES_UNDECIDED),
    LayoutName.HEADRACE: (is_undecided_own, _OWN_UNDECIDED),
}
# What says whether rows are envelopes. Quix's are nothing else.
_SAYS_SO: Final = {
    LayoutName.AIVEN: "format.output.envelope to true or false, as the sink had it",
    LayoutName.HEADRACE: "restore.envelope to yes (the sink's output.envelope was true) or to no (false)",
    LayoutName.LENSES: "store.envelope to true or false, as the sink had it",
}
# By the ending of a name of our own sink, the format that reads such objects as rows.
_BARE: Final = {"csv": "csv", "txt": "text", "bin": "text"}


class ArchiveDecoder:
    """Decodes objects of one archive; `key` is that of the object, whose name says how."""

    def __init__(self, restore: RestoreSettings) -> None:
        self._restore = restore
        self._names = ArchiveNames(restore.layout, restore.names, restore.template)

    def name(self, key: str) -> ArchiveName | None:
        """What the key says; None where the content decides, or nothing does."""
        return self._names.read(key).name

    def decode(
        self,
        source: ByteSource,
        start: Position | None,
        *,
        key: str,
        options: DecodeOptions,
        begin: int | None,
        end: int | None,
    ) -> Iterator[RowBatch]:
        """The records of the object's rows, as a format's `decode` gives rows.

        InvalidObject with the reason `layout_undecided` or `format_undecided` where neither name nor content
        nor options tell what the rows are; ObjectCorrupt where the last row is cut short. Blocks on reads.
        """
        archive = self.read_as(source, key, options)
        if archive.row_format is RowFormat.CSV:
            options = _as_csv(options)
        options = replace(options, archive=archive)
        decoder = _DECODERS[archive.row_format]
        return decoder(source, start, options=options, begin=begin, end=end)

    def facts(
        self, source: ByteSource, *, key: str, options: DecodeOptions
    ) -> tuple[ArchiveName, ContentFacts]:
        """What the object's name and its beginning (of Parquet its end) say of its rows, side objects apart.

        Raises as `decode` does before the first row. Blocks on reads.
        """
        archive = self.read_as(source, key, options)
        found, shape, first = archive.row_format, None, None
        if found is RowFormat.PARQUET:
            shape = parquet.row_shape(source, options=options)
        head = self._head(source, key, options)
        with contextlib.suppress(Undecided):
            first = _first(archive.name, found, head)
        members = row_members(archive, head.text, first, shape)
        return archive.name, ContentFacts(row_format=found, members=members)

    def read_as(self, source: ByteSource, key: str, options: DecodeOptions) -> ObjectRestore:
        """How the rows of the object are cut out, and what they become. Raises and blocks as `decode`."""
        head = self._head(source, key, options)
        name = self._name(source, key, head)
        restore = self._restore
        rows = replace(restore.rows.of(name.layout), sent_to=options.topic)
        found = self._row_format(source, name, head, rows, options)
        self._refuse_unended(source, name, found)
        first = _shown(source, name, found, head, rows)
        if rows.envelope is Enveloped.AUTO:
            self._refuse_undecided(source, name, found, head.text, first, options)
        text = None if found in _ARROW else text_reader(name, found, rows, first)
        return ObjectRestore(
            name=name,
            row_format=found,
            options=rows,
            text=text,
            arrow=partial(_arrow_reader, source, options, name, found, rows),
            separator=restore.separator,
        )

    def told(self, name: ArchiveName, options: DecodeOptions) -> RowFormat | None:
        """How the rows of an object with this name are cut where options say it; None where it does itself.

        Objects of keys and headers have formats of their own.
        """
        if name.kind is ObjectKind.VALUES and self._restore.is_format_given:
            return _told(options.format.input_format, name)
        if name.kind is ObjectKind.KEYS:
            return _OF_KEYS[self._restore.rows.keys_format]
        return None

    def layout(self, source: ByteSource, key: str, options: DecodeOptions) -> LayoutName | None:
        """The layout that the object's beginning shows, if any. Raises and blocks as `decode`."""
        return layout_of_content(self._head(source, key, options).shown())

    def _head(self, source: ByteSource, key: str, options: DecodeOptions) -> ObjectHead:
        """The plain beginning, or the stored one where rows are bytes as they are stored."""
        name, sniffed = self.name(key), True
        if name is not None:
            found = self.told(name, options) or named_format(name)
            sniffed = is_sniffed(name, found, options.format.compression)
        return ObjectHead(source, row_max_bytes=options.row_max_bytes, sniffed=sniffed)

    def _name(self, source: ByteSource, key: str, head: ObjectHead) -> ArchiveName:
        found = self._names.read(key, head.shown() if self._names.needs_content else None)
        if found.name is None:
            raise InvalidObject(f"{source.name}: {found.reason}.", reason="layout_undecided")
        return found.name

    def _row_format(
        self,
        source: ByteSource,
        name: ArchiveName,
        head: ObjectHead,
        rows: RestoreOptions,
        options: DecodeOptions,
    ) -> RowFormat:
        told = self.told(name, options)
        found = told or _guessed(source, name, head, rows)
        if name.layout is LayoutName.HEADRACE and name.kind is ObjectKind.VALUES:
            _refuse_bare(source, name, is_given=told is not None and found is not RowFormat.CSV)
        if found is None:
            raise InvalidObject(
                f"{source.name}: its first row may be a line of JSON as well as one of csv, or is neither "
                "with JSON after it. Set input.format to jsonl or to csv, whichever the sink's "
                "format.output.type was, and replay it.",
                reason="format_undecided",
            )
        if found is RowFormat.CSV and not self._restore.is_header_given:
            raise InvalidObject(
                f"{source.name}: nothing in it says whether its first row names the columns. Set csv.header "
                "to true (the sink's CSV_WITHHEADERS) or to false (CSV; csv.columns may name the columns), "
                "and replay it.",
                reason="format_undecided",
            )
        return found

    def _refuse_undecided(
        self,
        source: ByteSource,
        name: ArchiveName,
        found: RowFormat,
        head: bytes,
        first: bytes | None,
        options: DecodeOptions,
    ) -> None:
        """An envelope of key and value alone looks like a value: only the sink's options show it."""
        if name.layout not in _UNDECIDED or name.kind is not ObjectKind.VALUES:
            return
        shape: RowShape | None = None
        if found is RowFormat.AVRO:
            shape = avro_shape(head)
        elif found is RowFormat.PARQUET:
            shape = parquet.row_shape(source, options=options)
        elif found in {RowFormat.JSON, RowFormat.JSONL} and first is not None:
            shape = json_shape(first)
        is_undecided, why = _UNDECIDED[name.layout]
        if shape is not None and is_undecided(shape):
            raise InvalidObject(
                f"{source.name}: its rows have {' and '.join(sorted(shape.members))}, and {why}",
                reason="envelope_undecided",
            )

    @staticmethod
    def _refuse_unended(source: ByteSource, name: ArchiveName, found: RowFormat) -> None:
        """A value that is cut short may look whole, so that its end has to be there."""
        is_ended = name.layout in _ENDING or name.kind is not ObjectKind.VALUES
        if not is_ended or found not in _MAY_LOOK_WHOLE or not source.size:
            return
        # A codec notices itself where its stream is cut short.
        if stored_codec(source) is None and source.read_at(source.size - 1, 1) != b"\n":
            raise ObjectCorrupt(
                f"{source.name}: its last row is cut short: {name.layout.value} ends each row with a line "
                "feed, and there is none after the last one. Upload the object again."
            )


def _refuse_bare(source: ByteSource, name: ArchiveName, *, is_given: bool) -> None:
    """Of our own formats those that hold no whole record are read as rows, and not as an archive."""
    part = next((each for each in name.extension.split(".") if each in _BARE), None)
    if part is not None and not is_given:
        raise InvalidObject(
            f"{source.name}: .{part} of Headrace's own sink holds no whole records, so an archive of it is "
            f"not restored. Read it as rows: input.format={_BARE[part]} and file.name.template, without "
            "input.layout; output.format=jsonl, json, avro or parquet can be restored.",
            reason="unsupported",
        )


def _as_csv(options: DecodeOptions) -> DecodeOptions:
    """Rows are JSON of their columns; Lenses quotes every field but a null."""
    settings = options.format
    csv = replace(settings.csv, has_nulls=True)
    return replace(options, format=replace(settings, csv=csv, value_format=ValueFormat.JSON))


def _told(input_format: InputFormat, name: ArchiveName) -> RowFormat:
    """How rows are cut where `input.format` says it."""
    if input_format is InputFormat.CSV and name.layout is LayoutName.AIVEN:
        return RowFormat.LINES  # its csv has neither quotes nor a header
    if input_format is not InputFormat.BYTES:
        return RowFormat(input_format.value)
    return RowFormat.SEPARATED if name.layout is LayoutName.CONFLUENT else RowFormat.WHOLE


def _guessed(
    source: ByteSource, name: ArchiveName, head: ObjectHead, rows: RestoreOptions
) -> RowFormat | None:
    try:
        return row_format(name, head.text, rows, head.lines())
    except Undecided:
        raise InvalidObject(
            f"{source.name}: none of its first rows shows whether they are lines of JSON or of csv: they are "
            f"neither, or larger than {head.row_bytes} bytes. Set input.format to jsonl or to csv, whichever "
            "the sink's format.output.type was, and replay it.",
            reason="format_undecided",
        ) from None


def _shown(
    source: ByteSource, name: ArchiveName, found: RowFormat, head: ObjectHead, rows: RestoreOptions
) -> bytes | None:
    """The row that shows whether rows are envelopes; None where options say it, or no row is JSON at all."""
    is_told = rows.envelope is not Enveloped.AUTO
    if is_told and (name.layout is not LayoutName.CONFLUENT or rows.envelope is Enveloped.NO):
        return None
    try:
        return _first(name, found, head)
    except Undecided:
        # Confluent's rows are values, where none shows that it is one of ours.
        if is_told or name.layout is LayoutName.CONFLUENT:
            return None
        raise InvalidObject(
            f"{source.name}: none of its first rows shows whether rows are envelopes: they are no JSON, "
            f"larger than {head.row_bytes} bytes, or {{}}. Set {_SAYS_SO[name.layout]}, and replay it."
            f"{_looks(head) if found is RowFormat.JSONL else ''}",
            reason="envelope_undecided",
        ) from None


def _looks(head: ObjectHead) -> str:
    content = recognise(head.text)
    if content is None or content.is_read_by(InputFormat.JSONL):
        return ""
    return f" It looks like {content.words}: {content.remedy}."


def _first(name: ArchiveName, found: RowFormat, head: ObjectHead) -> bytes | None:
    """The row of JSON that shows what all of them are, None for others. Raises Undecided."""
    if found not in _JSON or name.kind is not ObjectKind.VALUES or name.layout is LayoutName.QUIX:
        return None
    rows = head.elements() if found is RowFormat.JSON else head.lines()
    return deciding_row(rows, is_empty_certain=name.layout not in _UNDECIDED)


_JSON: Final = frozenset({RowFormat.JSON, RowFormat.JSONL})


def text_reader(
    name: ArchiveName, row_format: RowFormat, options: RestoreOptions, first: bytes | None
) -> TextReader:
    """The reader for an object whose rows are texts and whose first row is `first` (None: it has none).

    The first row of the object and not of a batch: what is decided by it holds wherever reading begins.
    """
    if name.kind is ObjectKind.KEYS:
        return PlainKeys(options) if row_format is RowFormat.SEPARATED else JsonKeys(options)
    if name.kind is ObjectKind.HEADERS:
        return JsonHeaders(options)
    if row_format is RowFormat.LINES:
        return CsvRows(options, OwnPlace.of(name))
    if row_format in _JSON:
        return _json_reader(name, options, first)
    # A csv decoder gives rows as JSON.
    return BareRows(options) if row_format is RowFormat.CSV else PlainRows(options)


def _json_reader(name: ArchiveName, options: RestoreOptions, first: bytes | None) -> TextReader:
    place = OwnPlace.of(name, options.sent_to)
    match name.layout:
        case LayoutName.AIVEN:
            return aiven_rows.reader(options, first, place)
        case LayoutName.LENSES:
            return lenses_rows.reader(options, first, place)
        case LayoutName.HEADRACE:
            return headrace_rows.reader(options, first, place)
        case LayoutName.QUIX:
            return JsonRows(options)
        case LayoutName.CONFLUENT:
            is_told = first is None and options.envelope is Enveloped.YES
            if is_told or headrace_rows.is_of_place(options, first, place):
                return headrace_rows.EnvelopeRows(place, options.value)
            return BareRows(options)


def arrow_reader(
    name: ArchiveName,
    row_format: RowFormat,
    options: RestoreOptions,
    to_json: ToJson,
    shape: RowShape,
) -> ArrowReader:
    """The reader for an object of Avro or Parquet whose rows have this shape."""
    if name.kind is ObjectKind.KEYS:
        return ArrowKeys(options, to_json, is_parquet=row_format is RowFormat.PARQUET)
    if name.kind is ObjectKind.HEADERS:
        return ArrowHeaders(options, to_json)
    return _value_reader(name, options, to_json, shape)


def _arrow_reader(
    source: ByteSource,
    decode: DecodeOptions,
    name: ArchiveName,
    row_format: RowFormat,
    options: RestoreOptions,
    to_json: ToJson,
    shape: RowShape,
) -> ArrowReader:
    """The same, where rows of Parquet under names that are not ours are values unless the first tells."""
    is_doubtful = name.layout is LayoutName.CONFLUENT and options.envelope is not Enveloped.NO
    is_told = name.kind is not ObjectKind.VALUES or row_format is not RowFormat.PARQUET
    if is_doubtful and not is_told and is_placed(shape):
        batches = parquet.ArrowRows(source, options=decode, columns=PLACE).batches(None, None)
        _, rows = next(batches, (None, None))
        if rows is None or not headrace_rows.begins_at_place(rows, OwnPlace.of(name, options.sent_to)):
            options = replace(options, envelope=Enveloped.NO)
    return arrow_reader(name, row_format, options, to_json, shape)


def _value_reader(
    name: ArchiveName, options: RestoreOptions, to_json: ToJson, shape: RowShape
) -> ArrowReader:
    place = OwnPlace.of(name, options.sent_to)
    match name.layout:
        case LayoutName.AIVEN:
            return aiven_rows.arrow_reader(options, to_json, shape, place)
        case LayoutName.LENSES:
            return lenses_rows.arrow_reader(options, to_json, shape, place)
        case LayoutName.HEADRACE:
            return headrace_rows.arrow_reader(options, to_json, shape, place)
        case LayoutName.QUIX:
            return ParquetRows(options, to_json, shape)
        case LayoutName.CONFLUENT:
            if options.envelope is not Enveloped.NO and is_placed(shape) and is_written(shape):
                return headrace_rows.ArrowEnvelopeRows(to_json, place)
            return BareArrowRows(options, to_json)
