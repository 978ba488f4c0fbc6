"""Parsed options to the sink's settings and its routes. Called only when there is no problem left.

A route, `route.NAME.*`, has topics whose objects are other ones, in another bucket or under other names.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from headrace.names.archive_names import LayoutName
from headrace.options.declarations import (
    BY_NAME,
    format_options,
    layout_options,
    reading_options,
    record_options,
    sink_options,
)
from headrace.options.declarations import sink_options as sink
from headrace.options.declarations.option import ROUTE, Option, is_routable
from headrace.options.given import Entry, Problems, Values, canonical
from headrace.options.layout_checks import layout_form, output_format
from headrace.options.name_checks import converter_kind, sidecars, template_of
from headrace.options.record_forms import is_of_glue
from headrace.options.row_settings import CsvSettings
from headrace.options.schema_settings import AvroOptions, GlueSettings, JsonStyle, RegistrySettings
from headrace.options.sink_checks import CODECS, check_sink, compression, has_envelope, output_fields
from headrace.options.sink_forms import TOPICS
from headrace.options.sink_settings import (
    OF_REGISTRIES,
    BufferSettings,
    ConverterKind,
    Converters,
    ConverterSettings,
    Encryption,
    LayoutRows,
    NameSettings,
    NameValues,
    OutputSettings,
    ReadSettings,
    RotationSettings,
    SinkRoute,
    SinkSettings,
    UploadSettings,
)
from headrace.options.topic_expressions import TopicSelection
from headrace.options.transforms import TransformChain
from headrace.options.value_types import FormError

# Each takes some 15 to 30 KB of a slot, besides what it holds: 3 GB at most.
_MOST_OPEN_FILES: Final = 100_000
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenRoute:
    """A route as it is given: `values` are the sink's own where the route has none.

    `unfit` are options of which the sink has another vendor's default that cannot be next to the route's own:
    our default is in force.
    """

    name: str
    topics: tuple[str, ...]
    values: Values
    unfit: frozenset[str]


def read_routes(
    entries: Mapping[str, Entry], values: Values, broken: frozenset[str]
) -> tuple[GivenRoute, ...]:
    """The routes of a sink in their order; what is wrong with them is noted as problems of `values`."""
    by_name: dict[str, dict[str, Entry]] = {}
    for option, entry in entries.items():
        if option.startswith(ROUTE):
            name, _, rest = option.removeprefix(ROUTE).partition(".")
            if _is_option(name, canonical(rest), entry, values.problems):
                by_name.setdefault(name, {})[canonical(rest)] = replace(entry, option=canonical(rest))
    of_sink = {option: entry for option, entry in entries.items() if not option.startswith(ROUTE)}
    found = [
        _route(name, topics, (of_sink, own), values.problems, broken)
        for name, own in by_name.items()
        if (topics := _topics(name, own.pop("topics", None), values)) is not None
    ]
    _check_once(found, values.problems)
    return tuple(found)


def refuse_routes(entries: Mapping[str, Entry], problems: Problems) -> None:
    """Note the routes of a source."""
    for option, entry in entries.items():
        if option.startswith(ROUTE):
            problems.add(entry.spelled, "is an option of a sink (connector.class=HeadraceSink); remove it")


def _is_option(name: str, option: str, entry: Entry, problems: Problems) -> bool:
    if _NAME.fullmatch(name) is None:
        problems.add(
            entry.spelled, "names no route: write route.NAME.topics, NAME of letters, digits, - and _"
        )
        return False
    known = BY_NAME.get(option)
    if option == "topics" or (known is not None and is_routable(known)):
        return True
    what = "is for the whole sink" if known is not None else "is not an option of Headrace"
    problems.add(
        entry.spelled,
        f"{option} {what}; a route has topics, and options of where and how objects are written",
    )
    return False


def _topics(name: str, entry: Entry | None, values: Values) -> tuple[str, ...] | None:
    """The topics of a route; None, and a problem, where it cannot have them."""
    option = f"{ROUTE}{name}.topics"
    if entry is None:
        values.problems.add(option, "is missing; a route is for topics that are named")
        return None
    try:
        topics: tuple[str, ...] = TOPICS.parse(entry.text)
    except FormError as error:
        reason = f"; {error}" if str(error) else ""
        values.problems.add(entry.spelled, f"expected {TOPICS.expected}{reason}", entry.shown)
        return None
    for topic in topics:
        if not _is_archived(topic, values):
            values.problems.add(
                entry.spelled, f"{topic} is not one of the sink's topics (topics, topics.regex)"
            )
    return topics


def _is_archived(topic: str, values: Values) -> bool:
    names, pattern = sink_options.TOPIC_NAMES, sink_options.TOPICS_REGEX
    if not values.are_good(names, pattern):
        return True
    chosen, regex = values[names], values[pattern]
    if chosen is not None:
        return topic in chosen
    return regex is None or re.fullmatch(regex, topic, re.ASCII) is not None


def _route(
    name: str,
    topics: tuple[str, ...],
    layers: tuple[Mapping[str, Entry], Mapping[str, Entry]],
    problems: Problems,
    broken: frozenset[str],
) -> GivenRoute:
    """The sink's options with a route's own in their place, checked; no problem is noted twice."""
    of_sink, own = layers
    given, unfit = {**of_sink, **own}, set[str]()
    while True:
        found = Problems()
        values = Values(given, found, broken, inherited=of_sink.keys() - own.keys())
        check_sink(values)
        if not values.idle:
            break
        unfit |= values.unfit
        given = {option: entry for option, entry in given.items() if option not in values.idle}
    told = {(problem.option, problem.message) for problem in problems}
    for problem in found:
        if (problem.option, problem.message) not in told:
            problems.add(problem.option, problem.message, problem.value)
    return GivenRoute(name=name, topics=topics, values=values, unfit=frozenset(unfit))


def _check_once(routes: list[GivenRoute], problems: Problems) -> None:
    first: dict[str, str] = {}
    for route in routes:
        for topic in route.topics:
            other = first.setdefault(topic, route.name)
            if other != route.name:
                problems.add(f"{ROUTE}{route.name}.topics", f"{topic} is in {ROUTE}{other}.topics as well")


def sink_settings(
    values: Values,
    *,
    group_id: str,
    state_dir: Path,
    registry: RegistrySettings | None,
    glue: GlueSettings,
    transforms: TransformChain,
    reading: ReadSettings,
    own_topics: frozenset[str],
    routes: tuple[GivenRoute, ...] = (),
) -> SinkSettings:
    """Return the settings of a sink whose offsets are in this group; `own_topics` it writes itself."""
    names = values[sink.TOPIC_NAMES]
    topics = TopicSelection(
        names=names or (),
        pattern=values[sink.TOPICS_REGEX],
        own=own_topics,
        with_internal=values[sink.TOPICS_INTERNAL],
    )
    return SinkSettings(
        group_id=group_id,
        topics=topics,
        converters=_converters(values, registry, glue),
        output=_output(values),
        names=_names(values),
        rotation=_rotation(values),
        buffer=_buffer(values, state_dir),
        upload=_upload(values),
        transforms=transforms,
        takeover_indexes=values[sink.TAKEOVER_INDEXES],
        takeover_connector=values[sink.TAKEOVER_CONNECTOR],
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
                    own_topics=own_topics,
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
        header=ConverterSettings(kind=_header_kind(values)),
    )


def _header_kind(values: Values) -> ConverterKind:
    kind = converter_kind(values, sink.HEADER_CONVERTER_CLASS)
    if kind is not ConverterKind.JSON or not values.is_given(sink.HEADER_SCHEMAS):
        return kind
    return ConverterKind.JSON_ENVELOPE if values[sink.HEADER_SCHEMAS] else ConverterKind.JSON_PLAIN


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
            headers=_header_kind(values),
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
    is_of_lenses = values[sink.NAME_VALUES] is NameValues.LENSES
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
        headers=_header_kind(values) if is_of_lenses else None,
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
    # Objects of another sink's layout close by its triggers: only what a slot can bear bounds them.
    is_unlimited = values[sink.LAYOUT] is not LayoutName.HEADRACE and not values.is_given(sink.MAX_OPEN_FILES)
    return BufferSettings(
        max_bytes=values[sink.BUFFER_BYTES],
        directory=state_dir / "buffer" if given is None else Path(given),
        max_open_objects=_MOST_OPEN_FILES if is_unlimited else values[sink.MAX_OPEN_FILES],
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
