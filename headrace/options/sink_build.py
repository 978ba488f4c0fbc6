"""Parsed options to the sink's settings. Called only when there is no problem left."""

from pathlib import Path
from typing import Any

from headrace.options.connect_writing import AvroOptions, JsonStyle
from headrace.options.converter_forms import is_of_glue
from headrace.options.declarations import format_options, layout_options, reading_options, record_options
from headrace.options.declarations import sink_options as sink
from headrace.options.declarations.option import Option
from headrace.options.layout_checks import layout_form, output_format
from headrace.options.name_checks import converter_kind, sidecars, template_of
from headrace.options.registry_settings import GlueSettings, RegistrySettings
from headrace.options.routes import GivenRoute
from headrace.options.row_settings import CsvSettings
from headrace.options.sink_checks import CODECS, compression, has_envelope, output_fields
from headrace.options.sink_settings import (
    OF_REGISTRIES,
    BufferSettings,
    ConverterKind,
    Converters,
    ConverterSettings,
    Encryption,
    LayoutRows,
    NameSettings,
    OutputSettings,
    ReadSettings,
    RotationSettings,
    SinkRoute,
    SinkSettings,
    TopicSelection,
    UploadSettings,
)
from headrace.options.transforms import TransformChain
from headrace.options.values import Values


def sink_settings(
    values: Values,
    *,
    group_id: str,
    state_dir: Path,
    registry: RegistrySettings | None,
    glue: GlueSettings,
    transforms: TransformChain,
    reading: ReadSettings,
    routes: tuple[GivenRoute, ...] = (),
) -> SinkSettings:
    """Return the settings of a sink whose offsets are in this group."""
    topics = values[sink.TOPIC_NAMES]
    return SinkSettings(
        group_id=group_id,
        topics=TopicSelection(names=() if topics is None else topics, pattern=values[sink.TOPICS_REGEX]),
        converters=_converters(values, registry, glue),
        output=_output(values),
        names=_names(values),
        rotation=_rotation(values),
        buffer=_buffer(values, state_dir),
        upload=_upload(values),
        transforms=transforms,
        takeover_indexes=values[sink.TAKEOVER_INDEXES],
        reading=reading,
        routes=tuple(
            SinkRoute(
                name=route.name,
                topics=route.topics,
                bucket=route.values[reading_options.BUCKET][0],
                sink=sink_settings(
                    route.values,
                    group_id=group_id,
                    state_dir=state_dir,
                    registry=registry,
                    glue=glue,
                    transforms=transforms,
                    reading=reading,
                ),
            )
            for route in routes
        ),
    )


def _converters(values: Values, registry: RegistrySettings | None, glue: GlueSettings) -> Converters:
    def part(option: Option[Any], *, schemas: bool | None = None) -> ConverterSettings:
        kind = converter_kind(values, option)
        where = glue if is_of_glue(values.text(option)) else registry
        return ConverterSettings(
            kind=kind,
            schemas_enable=schemas if kind is ConverterKind.JSON else None,
            registry=where if kind in OF_REGISTRIES else None,
        )

    key, value = record_options.KEY_SCHEMAS, record_options.VALUE_SCHEMAS
    return Converters(
        key=part(
            record_options.KEY_CONVERTER_CLASS,
            schemas=values[key] if values.is_given(key) else None,
        ),
        value=part(
            record_options.VALUE_CONVERTER_CLASS,
            schemas=values[value] if values.is_given(value) else None,
        ),
        header=part(sink.HEADER_CONVERTER_CLASS),
    )


def _output(values: Values) -> OutputSettings:
    form = output_format(values)
    return OutputSettings(
        layout=values[sink.LAYOUT],
        format=form,
        fields=output_fields(values),
        envelope=has_envelope(values),
        compression=compression(values),
        compression_level=values[sink.COMPRESSION_LEVEL],
        separator=values[sink.OUTPUT_SEPARATOR],
        csv=CsvSettings(
            delimiter=values[format_options.CSV_DELIMITER],
            quote=values[format_options.CSV_QUOTE],
            header=values[format_options.CSV_HEADER],
        ),
        json_format=values[record_options.JSON_FORMAT],
        schema_compatibility=values[sink.COMPATIBILITY],
        null_values=values[sink.NULL_VALUES],
        rows=LayoutRows(
            csv_value=values[layout_options.VALUE_ENCODING],
            avro_codec=values[layout_options.INNER_CODEC],
            headers=converter_kind(values, sink.HEADER_CONVERTER_CLASS),
            json=JsonStyle(decimals=values[layout_options.JSON_DECIMALS]),
            avro=AvroOptions(
                enhanced=values[layout_options.AVRO_ENHANCED],
                meta_data=values[layout_options.AVRO_METADATA],
                optional_map_keys=values[layout_options.AVRO_MAP_KEYS],
            ),
            bytes_extension=values[layout_options.BYTES_EXTENSION],
            newlines=values[layout_options.NEWLINES],
        ),
        sidecars=sidecars(values, template_of(values), CODECS, compression(values)),
    )


def _names(values: Values) -> NameSettings:
    source, path = values[sink.NAME_TIME_SOURCE]
    return NameSettings(
        prefix=values[reading_options.PREFIX],
        template=template_of(values),
        time_source=source,
        value_path=path,
        timezone=values[sink.TIMEZONE_NAME],
        values=values[sink.NAME_VALUES],
        missing=values[sink.NAME_MISSING],
        null_keys=values[sink.NAME_NULL_KEYS],
        round_ms=values[sink.NAME_TIME_ROUND],
    )


def _rotation(values: Values) -> RotationSettings:
    form = layout_form(values)
    commits = None if form is None else form.age_ms
    return RotationSettings(
        records=values[sink.ROTATE_RECORDS],
        bytes=values[sink.ROTATE_BYTES] if commits is None or values.is_given(sink.ROTATE_BYTES) else 0,
        age_ms=values[sink.ROTATE_AGE] if commits is None or values.is_given(sink.ROTATE_AGE) else commits,
        span_ms=values[sink.ROTATE_SPAN],
        schedule_ms=values[sink.ROTATE_SCHEDULE],
        max_age_ms=values[sink.MAX_AGE],
        timezone=values[sink.TIMEZONE_NAME],
        age_from=values[sink.ROTATE_AGE_FROM],
        together=values[sink.ROTATE_TOGETHER],
        on_group_change=values[sink.ROTATE_ON_GROUP_CHANGE],
        on_stop=values[sink.ROTATE_ON_STOP],
    )


def _buffer(values: Values, state_dir: Path) -> BufferSettings:
    given = values[sink.BUFFER_DIR]
    return BufferSettings(
        max_bytes=values[sink.BUFFER_BYTES],
        directory=state_dir / "buffer" if given is None else Path(given),
        max_open_objects=values[sink.MAX_OPEN_FILES],
    )


def _upload(values: Values) -> UploadSettings:
    offsets, tags = values[sink.OBJECT_TAGS]
    encryption = values[sink.SSE_TYPE]
    return UploadSettings(
        part_bytes=values[sink.PART_SIZE],
        connections=values[sink.MAX_CONNECTIONS],
        offset_tags=offsets,
        tags=tags,
        storage_class=values[sink.STORAGE_CLASS_NAME],
        acl=values[sink.CANNED_ACL],
        encryption=None if encryption is None else Encryption(encryption),
        kms_key_id=values[sink.SSE_KMS_KEY],
        customer_key=values[sink.SSE_CUSTOMER_KEY],
    )
