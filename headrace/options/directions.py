"""Whether a configuration is one of a source or of a sink, and the options that it cannot have."""

from typing import Any, Final

from headrace.options.declarations import (
    OPTIONS,
    connection_options,
    format_options,
    reading_options,
    record_options,
    sink_options,
)
from headrace.options.declarations.option import Group, Option
from headrace.options.direction_forms import Direction
from headrace.options.values import Values

_SINK_GROUPS: Final = frozenset({Group.SINK, Group.OUTPUT, Group.ROTATION, Group.UPLOADS})
# The Aiven connector's sources carry these without a meaning.
WITHOUT_MEANING_FOR_SOURCES: Final = (
    sink_options.HEADER_CONVERTER_CLASS,
    sink_options.NAME_TIME_SOURCE,
    sink_options.TIMEZONE_NAME,
)
_OF_SINKS: Final = tuple(
    option for option in OPTIONS if option.group in _SINK_GROUPS and option not in WITHOUT_MEANING_FOR_SOURCES
)
_REMOVE: Final = "has no meaning for a sink; remove it"
_TOPICS: Final = "is a source's; use topics or topics.regex for the topics that a sink archives"
_VALUES: Final = "is a source's; use value.converter, output.format and output.fields"
_SCHEMAS: Final = "is a source's; a sink reads each record by the schema that it names, and registers none"
_ENDLESS: Final = (
    "is a source's; a sink repeats calls as aws.s3.backoff.* says, and keeps trying while S3 is away"
)
_OF_SOURCES: Final[dict[Option[Any], str]] = {
    **{
        option: _REMOVE
        for option in OPTIONS
        if option.group in {Group.SQS, Group.DISCOVERY, Group.RESTORE}
        or option.name.startswith(("text.", "input.archive"))
    },
    record_options.TOPIC_NAME: _TOPICS,
    record_options.FILE_NAME_MATCH: _REMOVE,
    record_options.DISTRIBUTION: _REMOVE,
    record_options.ORDERING: _REMOVE,
    record_options.INPUT_FORMAT: "is a source's; use output.format",
    record_options.CHUNK_SIZE: _REMOVE,
    record_options.DECODE_UNIT_MAX_BYTES: _REMOVE,
    record_options.KEY_FROM: "is a source's; use key.converter and output.fields",
    record_options.VALUE_FROM: _VALUES,
    record_options.VALUE_FORMAT: _VALUES,
    record_options.HEADERS_FROM: "is a source's; use output.fields",
    record_options.RECORD_FIELDS: "is a source's; use output.fields",
    record_options.TIMESTAMP_FROM: "is a source's; use file.name.timestamp.source for names",
    record_options.ENVELOPE: "is a source's; use output.envelope",
    record_options.ENVELOPE_BASE64: _REMOVE,
    reading_options.POST_ACTION: _REMOVE,
    reading_options.POST_ACTION_UNCONDITIONAL: _REMOVE,
    record_options.JOB_MAX_OBJECTS: _REMOVE,
    record_options.JOB_MAX_BYTES: _REMOVE,
    record_options.JOB_MAX_SECONDS: _REMOVE,
    format_options.CSV_COLUMNS: "is a source's; output.fields are the columns",
    format_options.CSV_TYPES: _REMOVE,
    format_options.JSON_PATH: _REMOVE,
    connection_options.PARTITIONER: _REMOVE,
    connection_options.TOPIC_PARTITIONS: "is a source's; a sink creates no topics that it reads",
    connection_options.TOPIC_REPLICATION: "is a source's; a sink creates no topics that it reads",
    record_options.BOUNDARY_RECORDS: "is a source's; rotate.records closes objects",
    record_options.BOUNDARY_INTERVAL: "is a source's; rotate.age.ms closes objects",
    record_options.RECORD_MAX_BYTES: (
        "is a source's; a sink reads records as large as the brokers have them, and "
        "producer.override.message.max.bytes bounds its dead letters"
    ),
    record_options.REGISTRY_AUTO_REGISTER: _SCHEMAS,
    record_options.REGISTRY_USE_LATEST: _SCHEMAS,
    record_options.REGISTRY_SUBJECT: _SCHEMAS,
    record_options.GLUE_REGISTRY: _SCHEMAS,
    record_options.GLUE_SCHEMA: _SCHEMAS,
    record_options.GLUE_AUTO_REGISTER: _SCHEMAS,
    record_options.GLUE_COMPATIBILITY: _SCHEMAS,
    record_options.MAX_ATTEMPTS: _ENDLESS,
    record_options.RETRY_DELAY: _ENDLESS,
    record_options.RETRY_DELAY_MAX: _ENDLESS,
    connection_options.LEDGER_RETENTION: _REMOVE,
}


def is_for(option: Option[Any], way: Direction) -> bool:
    """Whether an option means something to sources, or to sinks."""
    if way is Direction.SINK:
        return option not in _OF_SOURCES
    return option.group not in _SINK_GROUPS


def direction(values: Values) -> Direction:
    """Return which way the data goes: by `connector.class`, else by `topics` or `topics.regex`."""
    option = connection_options.CONNECTOR_CLASS
    chosen = values[option] if values.are_good(option) else None
    if chosen is not None:
        return chosen
    has_topics = values.is_given(sink_options.TOPIC_NAMES) or values.is_given(sink_options.TOPICS_REGEX)
    return Direction.SINK if has_topics else Direction.SOURCE


def check_direction(values: Values) -> None:
    """Note the options of the other direction."""
    if direction(values) is Direction.SINK:
        for option, remedy in _OF_SOURCES.items():
            if values.is_given(option):
                values.refuse(option, remedy)
        return
    for option in _OF_SINKS:
        if values.is_given(option):
            remedy = (
                "is a sink's; use topic"
                if option is sink_options.TOPIC_NAMES
                else "is an option of a sink (connector.class=HeadraceSink); remove it"
            )
            values.refuse(option, remedy)


def options_without_meaning(values: Values) -> list[str]:
    """Return the names of the given options that are accepted though they decide nothing."""
    if direction(values) is Direction.SINK:
        return []
    return [option.name for option in WITHOUT_MEANING_FOR_SOURCES if values.is_given(option)]
