"""A sink's options, held against the layout of another vendor's sink."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace.names.archive_names import LayoutName
from headrace.options.choices import Compression
from headrace.options.declarations import layout_options, record_options
from headrace.options.declarations import sink_options as sink
from headrace.options.given import Values
from headrace.options.record_forms import KINDS
from headrace.options.sink_settings import WITH_MEMBERS, ConverterKind, OutputField, OutputFormat

# -- What the layouts of other sinks can hold, and what they have where nothing is said ----------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutForm:
    """The `formats` of a layout with the codecs of each, its default first, and the `fields` that it has.

    `default_fields` are written where none are named. `template` names objects where none is given. Without
    `has_choice` the fields are always these. `is_bare`: its one field has no envelope.
    `age_ms` closes objects, and their size does not, where nothing else is said.
    """

    formats: Mapping[OutputFormat, tuple[Compression, ...]]
    fields: tuple[OutputField, ...]
    default_fields: tuple[OutputField, ...]
    template: str
    has_choice: bool = True
    age_ms: int | None = None
    is_bare: bool = False

    def compression(self, form: OutputFormat) -> Compression:
        """The codec where none is named."""
        return self.formats.get(form, (Compression.NONE,))[0]


_AIVEN_TEXT: Final = (Compression.GZIP, Compression.NONE, Compression.SNAPPY, Compression.ZSTD)
_CONFLUENT_TEXT: Final = (Compression.NONE, Compression.GZIP)
_AIVEN_FIELDS: Final = (
    OutputField.KEY,
    OutputField.VALUE,
    OutputField.OFFSET,
    OutputField.TIMESTAMP,
    OutputField.HEADERS,
)
_QUIX_FIELDS: Final = (OutputField.TIMESTAMP, OutputField.KEY, OutputField.VALUE)

FORMS: Final[Mapping[LayoutName, LayoutForm]] = {
    LayoutName.AIVEN: LayoutForm(
        formats={
            OutputFormat.CSV: _AIVEN_TEXT,
            OutputFormat.JSONL: _AIVEN_TEXT,
            OutputFormat.JSON: _AIVEN_TEXT,
            OutputFormat.AVRO: _AIVEN_TEXT,
            OutputFormat.PARQUET: (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.ZSTD),
        },
        fields=_AIVEN_FIELDS,
        default_fields=_AIVEN_FIELDS,
        template="{{topic}}-{{partition}}-{{start_offset}}{{extension}}",
    ),
    LayoutName.CONFLUENT: LayoutForm(
        formats={
            OutputFormat.JSONL: _CONFLUENT_TEXT,
            OutputFormat.BYTES: _CONFLUENT_TEXT,
            OutputFormat.AVRO: (
                Compression.NONE,
                Compression.GZIP,
                Compression.SNAPPY,
                Compression.BZIP2,
                Compression.ZSTD,
                Compression.XZ,
            ),
            OutputFormat.PARQUET: (
                Compression.SNAPPY,
                Compression.NONE,
                Compression.GZIP,
                Compression.ZSTD,
                Compression.LZ4,
            ),
        },
        fields=(OutputField.VALUE,),
        default_fields=(OutputField.VALUE,),
        template="{{topic}}/partition={{partition}}/{{topic}}+{{partition}}+{{start_offset:padding=true}}"
        "{{extension}}",
        has_choice=False,
        is_bare=True,
    ),
    LayoutName.QUIX: LayoutForm(
        formats={
            OutputFormat.JSONL: (Compression.NONE, Compression.GZIP),
            OutputFormat.PARQUET: (
                Compression.SNAPPY,
                Compression.NONE,
                Compression.GZIP,
                Compression.LZ4,
                Compression.ZSTD,
                Compression.BROTLI,
            ),
        },
        fields=_QUIX_FIELDS,
        default_fields=_QUIX_FIELDS,
        template="{{topic:hyphens=_}}/{{partition}}/{{start_offset:padding=19}}{{extension}}",
        has_choice=False,
        age_ms=5000,
    ),
    LayoutName.LENSES: LayoutForm(
        formats={
            OutputFormat.JSONL: (Compression.NONE, Compression.GZIP),
            OutputFormat.CSV: (Compression.NONE,),
            OutputFormat.AVRO: (
                Compression.NONE,
                Compression.SNAPPY,
                Compression.BZIP2,
                Compression.GZIP,
                Compression.XZ,
                Compression.ZSTD,
            ),
            OutputFormat.PARQUET: (
                Compression.NONE,
                Compression.SNAPPY,
                Compression.GZIP,
                Compression.LZ4,
                Compression.ZSTD,
                Compression.BROTLI,
            ),
            OutputFormat.TEXT: (Compression.NONE,),
            OutputFormat.BYTES: (Compression.NONE,),
        },
        fields=tuple(OutputField),
        default_fields=tuple(OutputField),
        template="{{topic}}/{{partition}}/{{end_offset:padding=12}}_{{first_timestamp}}_{{last_timestamp}}"
        "{{extension}}",
    ),
}


# -- A sink's options, held against the layout of another maker's sink ------------------------------------

# Quix calls its lines of JSON so.
QUIX_JSON: Final = OutputFormat.JSON


def layout_form(values: Values) -> LayoutForm | None:
    """Return what the layout can hold; None for Headrace's own, which holds everything."""
    return FORMS.get(values[sink.LAYOUT]) if values.are_good(sink.LAYOUT) else None


def output_format(values: Values) -> OutputFormat:
    """Return what objects hold."""
    form: OutputFormat = values[sink.FORMAT]
    if form is QUIX_JSON and values.are_good(sink.LAYOUT) and values[sink.LAYOUT] is LayoutName.QUIX:
        return OutputFormat.JSONL
    return form


def check_layout(values: Values) -> None:
    """Note what the rows of the layout cannot hold."""
    _check_own_options(values)
    form = layout_form(values)
    if form is None or not values.are_good(sink.FORMAT):
        return
    layout, chosen = values[sink.LAYOUT], output_format(values)
    if chosen not in form.formats:
        values.refuse_unfit(
            sink.FORMAT, f"is not one of output.layout={layout}; it has {', '.join(form.formats)}"
        )
        return
    _check_fields(values, form)
    if layout is LayoutName.AIVEN:
        _check_csv(values)
    if layout is LayoutName.LENSES:
        _check_lenses(values, chosen)
    codecs = form.formats[chosen]
    compression = record_options.COMPRESSION
    if values.is_given(compression) and values.are_good(compression):
        named = values[compression]
        if named not in codecs and named != "auto":
            values.refuse_unfit(
                compression,
                f"is not written in {chosen} of output.layout={layout}; it takes {', '.join(codecs)}",
            )


def _check_fields(values: Values, form: LayoutForm) -> None:
    layout = values[sink.LAYOUT]
    if not form.has_choice:
        for option in (sink.FIELDS, sink.ENVELOPE):
            if values.is_given(option):
                values.refuse_idle(
                    option,
                    f"means nothing with output.layout={layout}, whose rows are always "
                    f"{', '.join(form.fields)}; remove it",
                )
        return
    if values.is_given(sink.FIELDS) and values.are_good(sink.FIELDS):
        strange = [field for field in values[sink.FIELDS] if field not in form.fields]
        if strange:
            values.refuse(
                sink.FIELDS,
                f"has {', '.join(strange)}, which rows of output.layout={layout} cannot have; it has "
                f"{', '.join(form.fields)}",
            )


def _check_csv(values: Values) -> None:
    """Aiven's csv holds bytes: its sink writes no value of another converter."""
    if output_format(values) is not OutputFormat.CSV or OutputField.VALUE not in _fields(values):
        return
    option = record_options.VALUE_CONVERTER_CLASS
    named = values.text(option)
    if named is not None and KINDS.get(named.strip()) is not ConverterKind.BYTES:
        values.refuse(
            option,
            "must be org.apache.kafka.connect.converters.ByteArrayConverter with the csv of "
            "output.layout=aiven, whose values are bytes; or set output.format=jsonl",
        )


def _check_lenses(values: Values, chosen: OutputFormat) -> None:
    """Its bare rows of JSON are no bytes, and those of CSV have members."""
    option = record_options.VALUE_CONVERTER_CLASS
    kind = KINDS.get((values.text(option) or "").strip(), ConverterKind.BYTES)
    needs_members = chosen is OutputFormat.CSV
    is_bare = chosen is OutputFormat.JSONL and values.are_good(sink.ENVELOPE) and not values[sink.ENVELOPE]
    if needs_members and kind not in WITH_MEMBERS:
        values.refuse(option, "must be JsonConverter's or AvroConverter's class: rows of csv have members")
    elif is_bare and kind is ConverterKind.BYTES:
        values.refuse(
            option, "gives bytes, which bare JSON cannot hold; set output.envelope=true (store.envelope)"
        )
    if chosen is OutputFormat.CSV and values.are_good(sink.ENVELOPE) and values[sink.ENVELOPE]:
        missing = "" if values.is_given(sink.ENVELOPE) else "is missing, and "
        values.refuse(
            sink.ENVELOPE,
            f"{missing}must be false with output.format=csv and output.layout={LayoutName.LENSES}",
        )
    is_value = values.are_good(sink.FIELDS) and values[sink.FIELDS] == (OutputField.VALUE,)
    if values.is_given(sink.FIELDS) and not is_value and _is_bare(values):
        values.refuse(
            sink.FIELDS,
            f"must be value with output.envelope=false and output.layout={LayoutName.LENSES}, whose rows "
            "are values then; or set output.envelope=true",
        )
    fields = _METADATA & set(values[sink.FIELDS]) if values.are_good(sink.FIELDS) else set()
    if values.is_given(sink.FIELDS) and fields and fields != _METADATA:
        values.refuse(sink.FIELDS, "has topic, partition, offset and timestamp together, or none of them")


def _is_bare(values: Values) -> bool:
    return values.are_good(sink.FIELDS, sink.ENVELOPE) and not values[sink.ENVELOPE]


_METADATA: Final = frozenset(
    {OutputField.TOPIC, OutputField.PARTITION, OutputField.OFFSET, OutputField.TIMESTAMP}
)


def _fields(values: Values) -> tuple[OutputField, ...]:
    if values.is_given(sink.FIELDS) and values.are_good(sink.FIELDS):
        named: tuple[OutputField, ...] = values[sink.FIELDS]
        return named
    return FORMS[LayoutName.AIVEN].default_fields


def _check_own_options(values: Values) -> None:
    if not values.are_good(sink.LAYOUT, sink.FORMAT):
        return
    is_aiven = values[sink.LAYOUT] is LayoutName.AIVEN
    for option, wanted in (
        (layout_options.VALUE_ENCODING, OutputFormat.CSV),
        (layout_options.INNER_CODEC, OutputFormat.AVRO),
    ):
        if values.is_given(option) and not (is_aiven and values[sink.FORMAT] is wanted):
            values.refuse_idle(
                option, f"means nothing without output.layout=aiven and output.format={wanted}"
            )
