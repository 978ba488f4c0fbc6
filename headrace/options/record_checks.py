"""What a record is made of: formats, sources, envelope, converters and registry, held against one another."""

from typing import Any, Final

from headrace.options.choices import (
    Compression,
    Envelope,
    FieldHeaders,
    FieldSource,
    InputFormat,
    JsonFormat,
    ValueFormat,
)
from headrace.options.declarations import format_options, record_options
from headrace.options.declarations.option import Option
from headrace.options.given import Values
from headrace.options.record_forms import SINKS_ONLY, is_of_glue
from headrace.options.restore_forms import input_format
from headrace.options.schema_settings import BearerSource

# The matrix of value.format and input.format: what each input format cannot be written as.
IMPOSSIBLE_VALUES: Final[dict[tuple[InputFormat, ValueFormat], str]] = {
    (InputFormat.PARQUET, ValueFormat.RAW): "a Parquet row has no bytes of its own; use auto, json or avro",
    (InputFormat.BYTES, ValueFormat.JSON): "a chunk of bytes is no JSON; use auto or raw",
    (InputFormat.BYTES, ValueFormat.AVRO): "a chunk of bytes has no schema; use auto or raw",
    (InputFormat.JSONL, ValueFormat.AVRO): "a line of JSON has no schema; use auto, raw or json",
    (InputFormat.JSON, ValueFormat.AVRO): "an element of JSON has no schema; use auto, raw or json",
    (InputFormat.CSV, ValueFormat.AVRO): "a CSV row has no schema; use auto, raw or json",
    (InputFormat.TEXT, ValueFormat.AVRO): "a line of text has no schema; use auto, raw or json",
    **{
        (form, kind): f"{what} is no JSON; use auto or raw"
        for form, what in ((InputFormat.BYTES, "a chunk of bytes"), (InputFormat.TEXT, "a line of text"))
        for kind in (ValueFormat.JSON_SCHEMA, ValueFormat.PROTOBUF)
    },
}
_DESCRIBED: Final = frozenset({ValueFormat.JSON_SCHEMA, ValueFormat.PROTOBUF})
# Formats whose rows bring a schema.
_WITH_SCHEMAS: Final = frozenset({InputFormat.AVRO, InputFormat.PARQUET})
_OF_GLUE: Final[tuple[Option[Any], ...]] = (
    format_options.GLUE_REGISTRY,
    format_options.GLUE_SCHEMA,
    format_options.GLUE_AUTO_REGISTER,
    format_options.GLUE_COMPATIBILITY,
)
# Formats whose rows are no JSON, by what a row is called.
_WITHOUT_FIELDS: Final = {InputFormat.BYTES: "a chunk of bytes", InputFormat.TEXT: "a line of text"}


def check_records(values: Values) -> None:
    """Note what records cannot be made of."""
    _check_formats(values)
    _check_chunks(values)
    _check_compression(values)
    _check_fields(values)
    _check_value_field(values)
    _check_added_fields(values)
    _check_envelope(values)
    _check_converters(values)
    _check_registry(values)
    _check_described(values)
    _check_glue(values)
    check_registry_login(values)


def value_format(values: Values) -> ValueFormat:
    """Return the value format that `value.format`, or else `value.converter`, asks for."""
    if not values.is_given(record_options.VALUE_FORMAT):
        converter = values[record_options.VALUE_CONVERTER_CLASS]
        if converter is not None:
            return converter
    return values[record_options.VALUE_FORMAT]


def _asked_by(values: Values) -> Option[Any]:
    """Return the option that decides the value format, for the problem to name."""
    by_converter = values.is_given(record_options.VALUE_CONVERTER_CLASS) and not values.is_given(
        record_options.VALUE_FORMAT
    )
    return record_options.VALUE_CONVERTER_CLASS if by_converter else record_options.VALUE_FORMAT


def _check_formats(values: Values) -> None:
    if not values.are_good(record_options.VALUE_FORMAT, record_options.VALUE_CONVERTER_CLASS):
        return
    converter, chosen = values[record_options.VALUE_CONVERTER_CLASS], value_format(values)
    if converter is not None and chosen is not converter:
        values.refuse(
            record_options.VALUE_FORMAT,
            f"says otherwise than value.converter ({converter}); keep one of them",
        )
    if values.are_good(record_options.INPUT_FORMAT):
        found = input_format(values)
        reason = IMPOSSIBLE_VALUES.get((found, chosen))
        if reason is not None:
            values.refuse(_asked_by(values), f"{chosen} cannot be made from input.format={found}: {reason}")


def _check_chunks(values: Values) -> None:
    if not values.are_good(
        record_options.INPUT_FORMAT, record_options.CHUNK_SIZE, record_options.RECORD_MAX_BYTES
    ):
        return
    chunk, limit = values[record_options.CHUNK_SIZE], values[record_options.RECORD_MAX_BYTES]
    if input_format(values) is InputFormat.BYTES and chunk > limit:
        values.refuse(
            record_options.CHUNK_SIZE
            if values.is_given(record_options.CHUNK_SIZE)
            else record_options.RECORD_MAX_BYTES,
            f"chunks of {chunk} bytes exceed record.max.bytes ({limit}); lower "
            "transformer.max.buffer.size or raise record.max.bytes",
        )


def _check_compression(values: Values) -> None:
    """A stream of Brotli begins like anything else, so objects cannot be seen to be one."""
    if not values.are_good(record_options.INPUT_FORMAT, record_options.COMPRESSION):
        return
    is_brotli = values[record_options.COMPRESSION] is Compression.BROTLI
    if is_brotli and input_format(values) is not InputFormat.PARQUET:
        values.refuse(
            record_options.COMPRESSION,
            "is for Parquet alone, whose pages it compresses; compress other objects by gzip, zstd, snappy, "
            "lz4, bzip2 or xz",
        )


def _check_fields(values: Values) -> None:
    without = _without_fields(values)
    if without is None:
        return
    for option in (
        record_options.KEY_FROM,
        record_options.VALUE_FROM,
        record_options.HEADERS_FROM,
        record_options.TIMESTAMP_FROM,
    ):
        if values.are_good(option) and isinstance(values[option], (FieldSource, FieldHeaders)):
            values.refuse(option, without)


def _check_value_field(values: Values) -> None:
    """A field of a row has no datum: the schema that would be registered is that of whole rows."""
    asked, source = _asked_by(values), record_options.VALUE_FROM
    if not values.are_good(asked, source):
        return
    if value_format(values) is ValueFormat.AVRO and isinstance(values[source], FieldSource):
        values.refuse(
            asked,
            "avro is the whole row, of which value.source takes one field; use auto, json or json-schema",
        )


def _check_added_fields(values: Values) -> None:
    """Only what is written as a JSON object has a place for them."""
    option = record_options.RECORD_FIELDS
    if not values.are_good(option) or values[option] is None:
        return
    without = _without_fields(values)
    if without is not None:
        values.refuse(option, without)
    if values.are_good(record_options.VALUE_FORMAT, record_options.VALUE_CONVERTER_CLASS):
        chosen = value_format(values)
        if chosen not in {ValueFormat.AUTO, ValueFormat.JSON}:
            values.refuse(option, f"needs values of JSON, which value.format={chosen} does not write")
    if not values.are_good(record_options.VALUE_FROM, record_options.ENVELOPE):
        return
    is_field = isinstance(values[record_options.VALUE_FROM], FieldSource)
    if is_field or values[record_options.ENVELOPE] is not Envelope.NONE:
        values.refuse(option, "needs whole rows; leave value.source and input.envelope out")


def _without_fields(values: Values) -> str | None:
    """Why rows of the format have no fields; None where they have."""
    if not values.are_good(record_options.INPUT_FORMAT):
        return None
    row = _WITHOUT_FIELDS.get(values[record_options.INPUT_FORMAT])
    if values.is_given(format_options.TEXT_PATTERN):
        row = None
    return (
        None if row is None else f"{row} has no fields; set input.format to jsonl, json, csv, avro or parquet"
    )


def _check_envelope(values: Values) -> None:
    if not values.are_good(record_options.ENVELOPE):
        return
    if values[record_options.ENVELOPE] is Envelope.NONE:
        if values.is_given(record_options.ENVELOPE_BASE64):
            values.refuse(record_options.ENVELOPE_BASE64, "means nothing without input.envelope=aiven")
        return
    without = _without_fields(values)
    if without is not None:
        values.refuse(record_options.ENVELOPE, without)
    if values.are_good(record_options.VALUE_FROM) and isinstance(
        values[record_options.VALUE_FROM], FieldSource
    ):
        values.refuse(
            record_options.VALUE_FROM, "says otherwise than input.envelope=aiven, which takes the field value"
        )
    if values.are_good(record_options.VALUE_FORMAT, record_options.VALUE_CONVERTER_CLASS):
        chosen = value_format(values)
        if chosen in {ValueFormat.RAW, ValueFormat.AVRO}:
            values.refuse(
                _asked_by(values),
                f"{chosen} is the whole row, of which input.envelope=aiven takes one field; use auto",
            )


def _check_converters(values: Values) -> None:
    for converter in (record_options.KEY_CONVERTER_CLASS, record_options.VALUE_CONVERTER_CLASS):
        if (values.text(converter) or "").strip() in SINKS_ONLY:
            values.refuse(
                converter,
                "reads in a sink alone; a source writes rows and fields as they are, as JSON, or in the "
                "framing of Confluent's schema registry",
            )
    key = record_options.KEY_CONVERTER_CLASS
    is_of_glues = is_of_glue(values.text(key))
    if values.are_good(key) and (values[key] in _DESCRIBED or is_of_glues):
        values.refuse(key, "reads keys in a sink; a source writes keys as they are, as JSON or as Avro")
    for converter, schemas in (
        (record_options.KEY_CONVERTER_CLASS, record_options.KEY_SCHEMAS),
        (record_options.VALUE_CONVERTER_CLASS, record_options.VALUE_SCHEMAS),
    ):
        is_json = values.are_good(converter, schemas) and values[converter] is ValueFormat.JSON
        if is_json and values[schemas] is not False:
            values.refuse(
                schemas,
                "is true by JsonConverter's default, which writes schemas into records; that is not done "
                "here: set it to false",
            )


def _check_registry(values: Values) -> None:
    if values.is_given(format_options.REGISTRY_URL):
        return
    for option in (
        record_options.VALUE_FORMAT,
        record_options.VALUE_CONVERTER_CLASS,
        record_options.KEY_CONVERTER_CLASS,
    ):
        is_elsewhere = is_of_glue(values.text(record_options.VALUE_CONVERTER_CLASS))
        if option is record_options.KEY_CONVERTER_CLASS:
            is_elsewhere = is_of_glue(values.text(option))
        if values.are_good(option) and values[option] in {ValueFormat.AVRO, *_DESCRIBED} and not is_elsewhere:
            values.refuse(option, "needs schema.registry.url")


def _check_glue(values: Values) -> None:
    """Note how schemas are to be registered where there is no such registry."""
    if is_of_glue(values.text(record_options.VALUE_CONVERTER_CLASS)):
        return
    for option in _OF_GLUE:
        if values.is_given(option):
            values.refuse(option, "means nothing without a converter of AWS Glue's as value.converter")


def check_registry_login(values: Values) -> None:
    """Note what a log-in to the schema registry lacks, by token or certificate, and what excludes another."""
    bearer = format_options.REGISTRY_BEARER
    needs = {
        BearerSource.STATIC_TOKEN: (format_options.REGISTRY_TOKEN,),
        BearerSource.OAUTHBEARER: (
            format_options.REGISTRY_ISSUER,
            format_options.REGISTRY_CLIENT_ID,
            format_options.REGISTRY_CLIENT_SECRET,
        ),
    }
    if values.is_given(format_options.REGISTRY_KEY) and not values.is_given(
        format_options.REGISTRY_CERTIFICATE
    ):
        values.refuse(format_options.REGISTRY_KEY, f"needs {format_options.REGISTRY_CERTIFICATE.name}")
    if not values.are_good(bearer):
        return
    chosen = values[bearer]
    for source, options in needs.items():
        for option in options:
            if source is chosen and not values.is_given(option):
                values.refuse(bearer, f"needs {option.name}")
            elif source is not chosen and values.is_given(option):
                values.refuse(option, f"means nothing without {bearer.name}={source.name}")
    if chosen is not None and values.is_given(format_options.REGISTRY_USER_INFO):
        values.refuse(bearer, f"and {format_options.REGISTRY_USER_INFO.name} exclude each other")


def _check_described(values: Values) -> None:
    """JSON Schema and Protobuf: where the schema comes from, and what the JSON of rows is like."""
    asked, latest = _asked_by(values), format_options.REGISTRY_USE_LATEST
    if not values.are_good(asked, latest, record_options.INPUT_FORMAT, record_options.JSON_FORMAT):
        return
    if values.is_given(latest) and values[latest] and value_format(values) not in _DESCRIBED:
        values.refuse(latest, "is for value.format=json-schema and protobuf; Avro has the schema of its rows")
    if value_format(values) not in _DESCRIBED:
        return
    found, chosen = input_format(values), value_format(values)
    if values.is_given(record_options.JSON_FORMAT) and values[record_options.JSON_FORMAT] is JsonFormat.ISO:
        values.refuse(record_options.JSON_FORMAT, f"must be connect with value.format={chosen}")
    is_whole = values.are_good(record_options.VALUE_FROM, record_options.ENVELOPE) and not (
        isinstance(values[record_options.VALUE_FROM], FieldSource)
        or values[record_options.ENVELOPE] is not Envelope.NONE
    )
    if not values[latest] and (found not in _WITH_SCHEMAS or not is_whole):
        values.refuse(
            asked,
            "needs a schema, which only whole rows of avro and parquet bring: set "
            "schema.registry.use.latest.version=true, and register one for the topic's values",
        )
