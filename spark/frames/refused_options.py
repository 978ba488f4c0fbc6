"""Options that a frame has no place for, and what to use instead; pure.

Those of Spark's file sources, of its source for Kafka and of Auto Loader have other names here;
`rows=columns` takes no formats without columns, and no options that make records of rows.
"""

from collections.abc import Mapping
from typing import Final

from headrace.model.errors import FrameRefused
from headrace.names.template_source import Placeholder, TemplateError, read_template
from headrace.options.choices import (
    FieldSource,
    InputFormat,
    NoSource,
    ProduceTime,
    SubjectNameStrategy,
    TemplateHeaders,
    TemplateSource,
    ValueFormat,
)
from headrace.options.settings import FormatSettings

_OF_REGISTRIES: Final = frozenset({ValueFormat.AVRO, ValueFormat.JSON_SCHEMA, ValueFormat.PROTOBUF})
_NOT_NEEDED: Final = "leave it out: {}"

_LISTED: Final = "nothing is listed for each batch"
_ALWAYS: Final = "it is always so"
_STRICT: Final = "bad rows fail the batch, or are left out with errors.tolerance=all"

_TOPICS: Final = 'objects in S3 have none; topics are read and written by format("kafka")'

# In small letters, as Spark hands them over, and without `cloudFiles.`.
_COUNTERPARTS: Final[dict[str, str]] = {
    # what is read
    "format": "use input.format",
    "pathglobfilter": "use object.include, whose globs are on the whole key",
    "recursivefilelookup": _NOT_NEEDED.format("a prefix has all keys below it"),
    "basepath": _NOT_NEEDED.format("columns come of keys by file.name.template"),
    "partitioncolumns": "use variables in file.name.template",
    "ignoremissingfiles": "use on.superseded=skip",
    "ignorecorruptfiles": "use errors.tolerance=all",
    "includeexistingfiles": "use include.existing",
    "allowoverwrites": _NOT_NEEDED.format("other content is another object"),
    # when
    "maxfilespertrigger": "use maxFilesPerTrigger",
    "maxbytespertrigger": "use maxBytesPerTrigger",
    "latestfirst": _NOT_NEEDED.format(_LISTED),
    "maxfileage": _NOT_NEEDED.format("what was read is known for ever; modifiedAfter leaves old objects out"),
    "maxcachedfiles": _NOT_NEEDED.format(_LISTED),
    "filenameonly": _NOT_NEEDED.format("an object is its key and content"),
    "cleansource": "there is none; headrace run has post-actions",
    "usenotifications": "use sqs.queue.url",
    "useincrementallisting": _NOT_NEEDED.format(_LISTED),
    "queueurl": "use sqs.queue.url",
    "region": "use aws.s3.region",
    "backfillinterval": "use reconcile.interval.ms",
    "validateoptions": _NOT_NEEDED.format(_ALWAYS),
    # of Spark's source and sink for Kafka
    **dict.fromkeys(("subscribe", "subscribepattern", "assign"), _TOPICS),
    "startingoffsets": "use include.existing=false, which leaves out what is there, or modifiedAfter",
    **dict.fromkeys(("startingtimestamp", "startingoffsetsbytimestamp"), "use modifiedAfter"),
    **dict.fromkeys(("endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp"), "use modifiedBefore"),
    "failondataloss": "use on.superseded: fail or skip",
    "maxoffsetspertrigger": "use maxFilesPerTrigger or maxBytesPerTrigger",
    "minpartitions": "use tasks.max, and split.bytes for large objects",
    "includeheaders": _NOT_NEEDED.format("rows=records has them"),
    # columns
    "schemalocation": "use state.path, which holds the discovery log as well",
    "schemaevolutionmode": "use schema.evolution: add, rescue or fail",
    "schemahints": "there are none; give a schema",
    "infercolumntypes": _NOT_NEEDED.format(_ALWAYS),
    "inferschema": _NOT_NEEDED.format("a schema is inferred unless one is given"),
    "mergeschema": _NOT_NEEDED.format("types are widened over schema.samples objects"),
    "samplingratio": "use schema.samples",
    "rescueddatacolumn": _NOT_NEEDED.format("the column is _rescued_data"),
    "columnnameofcorruptrecord": _NOT_NEEDED.format(_STRICT),
    "mode": _NOT_NEEDED.format(_STRICT),
    "readercasesensitive": _NOT_NEEDED.format(
        "names match letter for letter, other spellings are in _rescued_data"
    ),
    # formats
    "header": "use csv.header",
    "sep": "use csv.delimiter",
    "delimiter": "use csv.delimiter",
    "quote": "use csv.quote",
    "multiline": "use input.format=json for values over several lines",
    "encoding": _NOT_NEEDED.format("texts are UTF-8"),
    "charset": _NOT_NEEDED.format("texts are UTF-8"),
    "compression": _NOT_NEEDED.format("it is seen in the content, or use file.compression.type"),
    "timestampformat": _NOT_NEEDED.format("times are ISO 8601, other texts are texts"),
    "dateformat": _NOT_NEEDED.format("dates are ISO 8601, other texts are texts"),
}
_KAFKA: Final = "kafka."
_HADOOP: Final = ("fs.s3", "spark.hadoop.fs.s3")
_AUTO_LOADER: Final = "cloudfiles."


def counterpart(name: str) -> str | None:
    """What to do about an option of theirs, as Spark hands it over; None for one that is not theirs."""
    if name.lower().startswith(_HADOOP):
        return "Hadoop's settings are not read: use aws.access.key.id, aws.secret.access.key, aws.s3.endpoint"
    if name.lower().startswith(_KAFKA):
        return _TOPICS
    return _COUNTERPARTS.get(name.lower().removeprefix(_AUTO_LOADER))


def check_columns(settings: FormatSettings, given: Mapping[str, str]) -> None:
    """Refuse what has no columns, or makes something of records alone; `given` are the options by name."""
    if settings.input_format in {InputFormat.BYTES, InputFormat.TEXT} and settings.text.pattern is None:
        raise FrameRefused(
            f"input.format={settings.input_format} has no columns: use rows=records, or another format."
        )
    if settings.packing and settings.input_format is InputFormat.AUTO:
        raise FrameRefused(
            "rows=columns reads archives (input.archive) whose members are of one format: set input.format."
        )
    if settings.restore is not None:
        raise FrameRefused("rows=columns does not read archives (input.layout): use rows=records.")
    if settings.value_format not in {ValueFormat.AUTO, ValueFormat.JSON}:
        raise FrameRefused(
            f"value.format={settings.value_format} (or its value.converter) makes bytes of a row, and "
            "rows=columns gives its columns: leave it out, or use rows=records."
        )
    makes = {
        "key.source": ("keys", isinstance(settings.key_source, FieldSource | TemplateSource)),
        "key.converter": ("keys", True),
        "record.timestamp": ("timestamps", not isinstance(settings.timestamp, ProduceTime)),
        "record.headers": ("headers", not isinstance(settings.headers, NoSource)),
    }
    problems = [
        f"{name} = {given[name]!r}: makes {what} of records, and rows=columns gives columns: leave it out, "
        "or use rows=records. The object's key, time and position are in _metadata (metadata.column=true)."
        for name, (what, is_asked) in makes.items()
        if name in given and is_asked
    ]
    if problems:
        raise FrameRefused("\n".join(problems))


def has_topic(template: str) -> bool:
    """Whether a template has the variable {{topic}}; False for one that is refused."""
    try:
        tokens = read_template(template, any_is_known=True)
    except TemplateError:
        return False
    return any(isinstance(token, Placeholder) and token.name == "topic" for token in tokens)


def check_without_topic(settings: FormatSettings, given: Mapping[str, str]) -> None:
    """Refuse what a topic is written into, where none is named; `given` are the options by name."""
    key, headers = settings.key_source, settings.headers
    in_key = isinstance(key, TemplateSource) and has_topic(key.text)
    in_headers = isinstance(headers, TemplateHeaders) and any(has_topic(text) for _, text in headers.texts)
    values = "value.converter" if "value.converter" in given else "value.format"
    uses = {
        "key.source": ("{{topic}}", in_key),
        "record.headers": ("{{topic}}", in_headers),
        "key.converter": ("a subject that the topic names", _has_subject_of_keys(settings)),
        values: ("a subject or schema that the topic names", _has_subject(settings)),
    }
    problems = [
        f"{name} = {given[name]!r}: uses {what}, and neither topic nor file.name.template names a topic: set "
        "topic."
        for name, (what, is_used) in uses.items()
        if is_used
    ]
    if problems:
        raise FrameRefused("\n".join(problems))


def _has_subject_of_keys(settings: FormatSettings) -> bool:
    return (
        settings.key_format is ValueFormat.AVRO
        and settings.registry is not None
        and not isinstance(settings.key_source, NoSource)
    )


def _has_subject(settings: FormatSettings) -> bool:
    """Whether values are in the framing of a schema that the topic names."""
    registry = settings.registry
    if settings.glue is not None:
        return settings.glue.schema is None
    if settings.value_format not in _OF_REGISTRIES or registry is None:
        return False
    # The newest schema is that of the topic's subject, whatever the strategy.
    is_newest = registry.use_latest and settings.value_format is not ValueFormat.AVRO
    return is_newest or registry.subject_name_strategy is not SubjectNameStrategy.RECORD
