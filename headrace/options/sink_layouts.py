"""What the layouts of other sinks can hold, and what they have where nothing is said."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace.names.archive_names import LayoutName
from headrace.options.choices import Compression
from headrace.options.sink_settings import OutputField, OutputFormat


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
