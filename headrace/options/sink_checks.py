"""A sink's options, held against one another: topics, names, formats, fields, compression, uploads."""

from collections.abc import Hashable, Iterator, Mapping
from typing import Final

from headrace.names import TemplateError
from headrace.names.name_template import NameField, NameTemplate, NameToken, NameVariable, read_name_template
from headrace.options.choices import Compression
from headrace.options.declarations import connection_options, format_options, reading_options, record_options
from headrace.options.declarations import sink_options as sink
from headrace.options.declarations.option import TRANSFORM_ALIASES
from headrace.options.given import Values
from headrace.options.layout_checks import check_layout, layout_form, output_format
from headrace.options.name_checks import check_names, check_sidecars, converter_kind, side_fields, template_of
from headrace.options.record_checks import check_registry_login
from headrace.options.record_forms import is_of_glue
from headrace.options.routing_checks import refuse_topics_of_kafka
from headrace.options.sink_settings import (
    OF_REGISTRIES,
    AgeFrom,
    ConverterKind,
    OutputField,
    OutputFormat,
    RotateTogether,
)
from headrace.options.transforms.chain import TransformChain
from headrace.options.transforms.read_chain import reachable_topics

# -- When a sink's objects close, held against itself and its names ------------------------------------------


def check_rotation(values: Values, template: NameTemplate | None) -> None:
    """Note what closes no object, or closes them together where that means nothing."""
    triggers = (
        sink.ROTATE_RECORDS,
        sink.ROTATE_BYTES,
        sink.ROTATE_AGE,
        sink.ROTATE_SPAN,
        sink.ROTATE_SCHEDULE,
        sink.MAX_AGE,
    )
    if values.are_good(*triggers) and not any(values[trigger] for trigger in triggers):
        named = next((each for each in (sink.MAX_AGE, *triggers) if values.is_written(each)), sink.MAX_AGE)
        others = (
            "every rotate.*" if named is sink.MAX_AGE else f"every other rotate.*, and {sink.MAX_AGE.name}"
        )
        values.refuse(named, f"is 0, and so is {others}: no object would ever close; set one of them")
    if values.are_good(sink.ROTATE_TOGETHER):
        _check_together(values, template)


def _check_together(values: Values, template: NameTemplate | None) -> None:
    if values[sink.ROTATE_TOGETHER] is not RotateTogether.NONE:
        if template is not None and template.is_of_keys:
            values.refuse_idle(
                sink.ROTATE_TOGETHER,
                "means nothing with names of keys alone, whose objects have one record",
            )
        return
    needs = "means nothing without rotate.together, by which objects close together; set it to first or total"
    age, change = sink.ROTATE_AGE_FROM, sink.ROTATE_ON_GROUP_CHANGE
    if values.are_good(age) and values[age] is AgeFrom.CLOSED:
        values.refuse_idle(age, needs)
    if values.are_good(change) and values[change]:
        values.refuse_idle(change, needs)
    if template is not None and NameField.BATCH_OFFSET in template.fields:
        values.refuse(record_options.FILE_NAME_TEMPLATE, f"shows {{{{batch_offset}}}}, which {needs}")


# -- A sink's options, held against one another: topics, names, formats, fields, compression, uploads --------

_CODECS: Final = (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.ZSTD)
CODECS: Final[dict[OutputFormat, tuple[Compression, ...]]] = {
    **dict.fromkeys(OutputFormat, (*_CODECS, Compression.LZ4)),
    OutputFormat.AVRO: (*_CODECS, Compression.BZIP2, Compression.XZ),
    OutputFormat.PARQUET: (*_CODECS, Compression.LZ4, Compression.BROTLI),
}
_LEVELS: Final = {
    Compression.GZIP: (1, 9),
    Compression.BZIP2: (1, 9),
    Compression.XZ: (0, 9),
    Compression.ZSTD: (1, 22),
    Compression.BROTLI: (0, 11),
}
BARE_FORMATS: Final = frozenset({OutputFormat.BYTES, OutputFormat.TEXT})


def check_sink(values: Values) -> None:
    """Note what a sink cannot do as it is configured."""
    _check_bucket(values)
    _check_topics(values)
    template = check_names(values)
    check_sidecars(values, CODECS, template, compression)
    _check_fields(values)
    check_layout(values)
    _check_compression(values)
    _check_converters(values)
    check_rotation(values, template)
    _check_uploads(values)
    _check_takeover(values)


def _check_takeover(values: Values) -> None:
    indexes, connector = sink.TAKEOVER_INDEXES, sink.TAKEOVER_CONNECTOR
    if values.are_good(indexes) and values[indexes] is None and values.is_given(connector):
        values.refuse(connector, f"means nothing without {indexes.name}, the directory of its locks")


def _check_bucket(values: Values) -> None:
    option = reading_options.BUCKET
    if values.are_good(option) and len(values[option]) > 1:
        values.refuse(option, "names several buckets, and a sink writes to one; a route.NAME.* has another")


def compression(values: Values) -> Compression:
    """Return the compression: as given, else the format's default."""
    chosen: Compression = values[record_options.COMPRESSION]
    if chosen is not Compression.AUTO:
        return chosen
    form = layout_form(values)
    if form is not None:
        return form.compression(output_format(values))
    columnar = values[sink.FORMAT] in {OutputFormat.AVRO, OutputFormat.PARQUET}
    return Compression.ZSTD if columnar else Compression.GZIP


def has_envelope(values: Values) -> bool:
    """Return whether a row has a member for each field."""
    layout = layout_form(values)
    if layout is not None and layout.is_bare:
        return False
    return bool(values[sink.ENVELOPE]) and output_format(values) not in BARE_FORMATS


def output_fields(values: Values) -> tuple[OutputField, ...]:
    """Return the fields in their own order; of `bytes` and `text` the value, unless another is named.

    Without what is in side objects. Other sinks' layouts have them in the order of the option.
    """
    form = layout_form(values)
    if form is not None:
        named: tuple[OutputField, ...] = values[sink.FIELDS]
        if form.has_choice and values.is_given(sink.FIELDS):
            return named
        # A row without an envelope is one field.
        return form.default_fields if has_envelope(values) or not form.has_choice else (OutputField.VALUE,)
    if values[sink.FORMAT] in BARE_FORMATS and not values.is_given(sink.FIELDS):
        return (OutputField.VALUE,)
    beside = side_fields(values)
    return tuple(field for field in OutputField if field in values[sink.FIELDS] and field not in beside)


def _check_topics(values: Values) -> None:
    names, pattern = sink.TOPIC_NAMES, sink.TOPICS_REGEX
    if values.is_given(names) == values.is_given(pattern):
        values.refuse(
            names,
            "is missing; set it or topics.regex"
            if not values.is_given(names)
            else "and topics.regex exclude each other; keep one of them",
        )
        return
    if not values.are_good(names, connection_options.OFFSETS_TOPIC, connection_options.NAME):
        return
    ledger = values[connection_options.OFFSETS_TOPIC] or f"{values[connection_options.NAME]}-offsets"
    chosen = values[names] or ()
    if ledger in chosen:
        values.refuse(names, f"holds the ledger ({ledger}), which is no data; leave it out")
    refuse_topics_of_kafka(values, record_options.DLQ_TOPIC)
    if values.are_good(record_options.DLQ_TOPIC) and values[record_options.DLQ_TOPIC] in chosen:
        values.refuse(record_options.DLQ_TOPIC, "is a topic of the sink itself; bad records need another one")


def _check_fields(values: Values) -> None:
    if not values.are_good(sink.FORMAT, sink.FIELDS, sink.ENVELOPE):
        return
    fields, form = output_fields(values), values[sink.FORMAT]
    is_bare = form in BARE_FORMATS
    if (is_bare or not values[sink.ENVELOPE]) and len(fields) > 1:
        why = f"output.format={form} holds" if is_bare else "output.envelope=false takes"
        values.refuse(sink.FIELDS, f"{why} one field; name it alone, such as value")
    if is_bare and values.is_given(sink.ENVELOPE) and values[sink.ENVELOPE]:
        values.refuse(sink.ENVELOPE, f"cannot be true with output.format={form}, which has no members")
    # Where a side object takes the only one, the check of that option says so.
    if is_bare and not {*fields[:1]} <= {OutputField.KEY, OutputField.VALUE}:
        values.refuse(sink.FIELDS, f"output.format={form} holds a key or a value")


def _check_compression(values: Values) -> None:
    if not values.are_good(record_options.COMPRESSION, sink.FORMAT, sink.COMPRESSION_LEVEL):
        return
    chosen, form = compression(values), values[sink.FORMAT]
    if chosen not in CODECS[form]:
        values.refuse(
            record_options.COMPRESSION,
            f"cannot be written in output.format={form}; it takes {', '.join(CODECS[form])}",
        )
    level = values[sink.COMPRESSION_LEVEL]
    if level is None:
        return
    low, high = _LEVELS.get(chosen, (0, -1))
    if high < 0:
        values.refuse_idle(sink.COMPRESSION_LEVEL, f"means nothing with file.compression.type={chosen}")
    elif not low <= level <= high:
        values.refuse(sink.COMPRESSION_LEVEL, f"must be {low} to {high} with {chosen}")


def _check_converters(values: Values) -> None:
    check_registry_login(values)
    for converter, schemas in (
        (record_options.KEY_CONVERTER_CLASS, record_options.KEY_SCHEMAS),
        (record_options.VALUE_CONVERTER_CLASS, record_options.VALUE_SCHEMAS),
        (sink.HEADER_CONVERTER_CLASS, sink.HEADER_SCHEMAS),
    ):
        if not values.are_good(converter, schemas):
            continue
        kind = converter_kind(values, converter)
        if values.is_given(schemas) and kind is not ConverterKind.JSON:
            values.refuse(schemas, f"means nothing without JsonConverter as {converter.name}")
        is_elsewhere = is_of_glue(values.text(converter))
        if kind in OF_REGISTRIES and not is_elsewhere and not values.is_given(format_options.REGISTRY_URL):
            values.refuse(converter, "needs schema.registry.url")


def _check_uploads(values: Values) -> None:
    if (
        values.are_good(sink.PART_SIZE, sink.BUFFER_BYTES)
        and values[sink.PART_SIZE] > values[sink.BUFFER_BYTES]
    ):
        values.refuse(sink.PART_SIZE, f"must not exceed buffer.max.bytes ({values[sink.BUFFER_BYTES]})")
    if not values.are_good(sink.SSE_TYPE):
        return
    encryption = values[sink.SSE_TYPE]
    if values.is_given(sink.SSE_KMS_KEY) and not str(encryption).startswith("aws:kms"):
        values.refuse(sink.SSE_KMS_KEY, "means nothing without aws.s3.sse=aws:kms")
    if values.is_given(sink.SSE_CUSTOMER_KEY) and encryption is not None:
        values.refuse(sink.SSE_CUSTOMER_KEY, "and aws.s3.sse exclude each other; keep one of them")
    if values.is_given(sink.SSE_CUSTOMER_ALGORITHM) and not values.is_given(sink.SSE_CUSTOMER_KEY):
        values.refuse(sink.SSE_CUSTOMER_ALGORITHM, "means nothing without aws.s3.sse.customer.key")
    if values.are_good(format_options.CSV_QUOTE, format_options.CSV_DELIMITER, sink.FORMAT):
        _check_quote(values)


def _check_quote(values: Values) -> None:
    if values[sink.FORMAT] is not OutputFormat.CSV:
        return
    quote = values[format_options.CSV_QUOTE]
    if not quote:
        values.refuse(
            format_options.CSV_QUOTE, "is empty: a field with a delimiter or a line end could not be written"
        )
    elif quote == values[format_options.CSV_DELIMITER]:
        values.refuse(format_options.CSV_QUOTE, "is csv.delimiter as well; choose another")


# -- Topics whose objects a router or a route gives one name -------------------------------------------------

_OF_NAMES: Final = (
    reading_options.BUCKET,
    reading_options.PREFIX,
    record_options.FILE_NAME_TEMPLATE,
    record_options.COMPRESSION,
    sink.LAYOUT,
    sink.FORMAT,
    sink.NAME_UNIQUE,
)


def check_names_apart(values: Values, chain: TransformChain, routes: Mapping[str, Values]) -> None:
    """Refuse two topics of the sink whose objects have the same names where their offsets are equal.

    `routes` has the options in force for topics of a route, whose objects may be elsewhere.
    """
    if not values.are_good(sink.TOPIC_NAMES):
        return
    owners: dict[Hashable, tuple[str, str]] = {}
    for topic in dict.fromkeys([*(values[sink.TOPIC_NAMES] or ()), *routes]):
        own = routes.get(topic, values)
        if not own.are_good(*_OF_NAMES):
            continue
        for target in sorted(reachable_topics(chain, topic)):
            for names in _names_of(own, target):
                owner, target_of_owner = owners.setdefault(names, (topic, target))
                if owner != topic:
                    is_routed = (owner, topic) != (target_of_owner, target)
                    _refuse_meeting(values, owner, topic, target if is_routed else None)
                    return


def _refuse_meeting(values: Values, owner: str, topic: str, target: str | None) -> None:
    """Note that objects of two topics meet; `target` is what transforms call both, None where they do not."""
    if target is not None:
        values.refuse(
            TRANSFORM_ALIASES,
            f"send {owner} and {topic} to one name, {target}, under which their objects could not be "
            "told apart: keep them apart, or give one a route (route.NAME.topics) with an "
            "aws.s3.prefix of its own",
        )
        return
    values.refuse(
        sink.TOPIC_NAMES if values.is_given(sink.TOPIC_NAMES) else sink.TOPICS_REGEX,
        f"has {owner} and {topic}, whose objects would have the same names: give one a route "
        "(route.NAME.topics) with an aws.s3.prefix that keeps them apart",
    )


def _names_of(values: Values, topic: str) -> Iterator[Hashable]:
    """What names are made of in addition to the record: topics with any of these in common meet.

    Those of other endings are other ones. Where names are assumed to be unique, only one topic meets itself.
    """
    try:
        template = read_name_template(template_of(values))
    except TemplateError:
        # Said already.
        return
    tokens: list[NameToken] = [values[reading_options.PREFIX]]
    for token in template.tokens:
        shown = token
        if isinstance(token, NameVariable) and token.field is NameField.TOPIC:
            shown = topic.replace("-", token.hyphens)
        if isinstance(last := tokens[-1], str) and isinstance(shown, str):
            tokens[-1] = last + shown
        else:
            tokens.append(shown)
    ending = None
    if NameField.EXTENSION in template.fields:
        ending = (values[sink.LAYOUT], output_format(values), compression(values))
    names = values[reading_options.BUCKET], tuple(tokens), ending
    yield names, topic
    if values[sink.NAME_UNIQUE] == "required":
        yield names
