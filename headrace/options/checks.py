"""What options mean next to one another: combinations that cannot do what they say are problems at start."""

import re
from collections.abc import Mapping
from typing import Any, Final

from headrace.model.objects import PostActionKind
from headrace.options.aws_forms import is_access_point
from headrace.options.choices import (
    CredentialsProvider,
    InputFormat,
    KnownLog,
    Packing,
    PollListing,
    Tolerance,
    TracesExporter,
    ValueFormat,
)
from headrace.options.declarations import (
    connection_options,
    format_options,
    reading_options,
    record_options,
    restore_options,
)
from headrace.options.declarations import sink_options as sink
from headrace.options.declarations.option import TRANSFORM_ALIASES, Option
from headrace.options.given import Values, check_direction, direction
from headrace.options.name_checks import converter_kind
from headrace.options.record_checks import check_records
from headrace.options.restore_forms import check_restore, input_format, is_restore
from headrace.options.routing_checks import check_routing
from headrace.options.sink_checks import check_names_apart, check_sink
from headrace.options.sink_settings import ConverterKind
from headrace.options.transforms.chain import (
    Cast,
    ConvertTime,
    FieldTime,
    HoistField,
    KeyOrValue,
    TransformChain,
    TransformStep,
    ValueToKey,
)
from headrace.options.vendor import Direction

# -- What transforms need of the options beside them: values whose fields can be read, names that stay apart -

_FRAMED: Final = frozenset({ValueFormat.AVRO, ValueFormat.JSON_SCHEMA, ValueFormat.PROTOBUF})
_CONVERTERS: Final[dict[KeyOrValue, Option[Any]]] = {
    KeyOrValue.KEY: record_options.KEY_CONVERTER_CLASS,
    KeyOrValue.VALUE: record_options.VALUE_CONVERTER_CLASS,
}


def check_transforms(values: Values, chain: TransformChain, *, routes: Mapping[str, Values]) -> None:
    """Note what transforms cannot do next to the other options; `routes` has those of topics of a route."""
    is_sink = direction(values) is Direction.SINK
    if is_sink and (chain.routes or routes):
        check_names_apart(values, chain, routes)
    if not chain or not values.are_good(*_CONVERTERS.values(), sink.FORMAT, record_options.INPUT_FORMAT):
        return
    if is_sink:
        _check_sink_fields(values, chain)
    else:
        _check_source_fields(values, chain)


def _check_sink_fields(values: Values, chain: TransformChain) -> None:
    """Refuse to look for fields where none can be: until a step has made an object, bytes have none."""
    made: set[KeyOrValue] = set()
    for step in chain.steps:
        for which in _opened(step) - made:
            kind = converter_kind(values, _CONVERTERS[which])
            if kind in {ConverterKind.BYTES, ConverterKind.STRING}:
                values.refuse(
                    TRANSFORM_ALIASES,
                    f"{step.alias} needs fields of the {which}, which is read as "
                    f"{'text' if kind is ConverterKind.STRING else 'bytes'}: set {_CONVERTERS[which].name} "
                    "to JsonConverter's or AvroConverter's class",
                )
                made.add(which)
        if isinstance(step.transform, ValueToKey):
            made.add(KeyOrValue.KEY)
        elif isinstance(step.transform, HoistField):
            made.add(step.transform.which)


def transform_warnings(values: Values, chain: TransformChain) -> tuple[str, ...]:
    """What cannot be judged before the topics are known."""
    is_open = values.is_given(sink.TOPICS_REGEX) or chain.routes_by_field
    if not chain.routes or direction(values) is not Direction.SINK or not is_open:
        return ()
    sentence = (
        "transforms give records other topics: where two topics become one, objects with one name are kept "
        "out of the bucket and quarantined (name_taken)"
    )
    return (sentence,)


def _opened(step: TransformStep) -> set[KeyOrValue]:
    """Of which of key and value a step reads fields."""
    match step.transform:
        case HoistField():
            return set()
        case Cast(whole=whole) if whole is not None:
            return set()
        case ValueToKey():
            return {KeyOrValue.VALUE}
        case FieldTime(which=which, path=path) if which is not None and not path:
            return set()
        case ConvertTime(field=None):
            return set()
        case _:
            return set(step.looks_into)


def _check_source_fields(values: Values, chain: TransformChain) -> None:
    """Records are transformed as they would be produced, when Avro is in the registry's framing already."""
    formats = {
        KeyOrValue.KEY: values[record_options.KEY_CONVERTER_CLASS],
        KeyOrValue.VALUE: values[record_options.VALUE_CONVERTER_CLASS] or values[record_options.VALUE_FORMAT],
    }
    for which, form in formats.items():
        touching = [step.alias for step in chain.steps if which in step.looks_into]
        if touching and form in _FRAMED:
            values.refuse(
                _CONVERTERS[which],
                f"{form} makes bytes of the {which} that {touching[0]} cannot look into: leave the "
                f"transforms of the {which} out, or produce JSON (JsonConverter)",
            )
    opening = [step.alias for step in chain.steps if KeyOrValue.VALUE in _opened(step)]
    content = input_format(values)
    has_fields = content not in {InputFormat.BYTES, InputFormat.TEXT} or values.is_given(
        format_options.TEXT_PATTERN
    )
    if opening and not has_fields and not _hoists_first(chain):
        values.refuse(
            TRANSFORM_ALIASES,
            f"{opening[0]} needs fields of the value, which input.format={content} does not have",
        )


def _hoists_first(chain: TransformChain) -> bool:
    first = next(step for step in chain.steps if KeyOrValue.VALUE in step.looks_into)
    return isinstance(first.transform, HoistField)


# -- The options of CSV, text and JSON, held against the format and against one another ----------------------

_OPTIONS: Final[dict[InputFormat, tuple[Option[Any], ...]]] = {
    InputFormat.CSV: (
        format_options.CSV_DELIMITER,
        format_options.CSV_QUOTE,
        format_options.CSV_HEADER,
        format_options.CSV_COLUMNS,
        format_options.CSV_TYPES,
    ),
    InputFormat.TEXT: (
        format_options.TEXT_START,
        format_options.TEXT_END,
        format_options.TEXT_PATTERN,
        format_options.TEXT_TYPES,
        format_options.TEXT_NULL,
        format_options.TEXT_EXACT,
    ),
    InputFormat.JSON: (format_options.JSON_PATH,),
}


def check_rows(values: Values) -> None:
    """Note options that mean nothing here, or that contradict one another."""
    if not values.are_good(record_options.INPUT_FORMAT):
        return
    for wanted, options in _OPTIONS.items():
        # An object that is looked at may be CSV or text; that an array is inside one cannot be seen.
        fitting = {wanted} if wanted is InputFormat.JSON else {wanted, InputFormat.AUTO}
        if input_format(values) not in fitting:
            for each in options:
                if values.is_given(each):
                    values.refuse(each, f"means nothing without input.format={wanted}")
    _check_csv(values)
    _check_pattern(values)
    _check_archives(values)


def _check_archives(values: Values) -> None:
    if not values.are_good(format_options.ARCHIVE) or values[format_options.ARCHIVE] is not Packing.NONE:
        return
    for option in (
        format_options.ARCHIVE_MEMBERS,
        format_options.ARCHIVE_MAX_MEMBERS,
        format_options.ARCHIVE_MAX_BYTES,
        format_options.ARCHIVE_MAX_RATIO,
    ):
        if values.is_given(option):
            values.refuse(option, "means nothing without input.archive=zip, tar or auto")


def _check_pattern(values: Values) -> None:
    pattern, types = format_options.TEXT_PATTERN, format_options.TEXT_TYPES
    if not values.are_good(pattern, types):
        return
    chosen = values[pattern]
    if chosen is None or isinstance(chosen, KnownLog):
        for option in (types, format_options.TEXT_NULL):
            if values.is_given(option):
                values.refuse(option, "means nothing without a regular expression in text.pattern")
        return
    groups = set(re.findall(r"\(\?P?<([^>]+)>", chosen))
    unknown = sorted({name for name, _ in values[types] or ()} - groups)
    if unknown:
        values.refuse(types, f"has {unknown[0]!r}, which is no group of text.pattern; name the group so")


def _check_csv(values: Values) -> None:
    if not values.are_good(*_OPTIONS[InputFormat.CSV]):
        return
    if values[format_options.CSV_DELIMITER] == values[format_options.CSV_QUOTE]:
        values.refuse(format_options.CSV_QUOTE, "is csv.delimiter as well; choose another")
    columns, types = values[format_options.CSV_COLUMNS], values[format_options.CSV_TYPES]
    if columns is not None and values[format_options.CSV_HEADER]:
        values.refuse(
            format_options.CSV_COLUMNS, "says otherwise than csv.header=true; set csv.header to false"
        )
    if types is None or values[format_options.CSV_HEADER]:
        return
    unknown = sorted({name for name, _ in types} - set(columns or ()))
    if unknown:
        values.refuse(
            format_options.CSV_TYPES,
            f"has {unknown[0]!r}, which is not in csv.columns; name the column there",
        )


# -- `post.action` held against where objects are read from --------------------------------------------------


def check_post_action(values: Values) -> None:
    """Note a target that would be read again."""
    unconditional = reading_options.POST_ACTION_UNCONDITIONAL
    if values.is_given(unconditional) and not values.is_given(reading_options.POST_ACTION):
        values.refuse(unconditional, "means nothing without post.action")
    option, prefix = reading_options.POST_ACTION, reading_options.PREFIX
    if not values.are_good(option, prefix):
        return
    action = values[option]
    if action is None or action.kind is not PostActionKind.MOVE:
        return
    bucket, target = action.moves_to
    if bucket is not None:
        if not values.are_good(reading_options.BUCKET):
            return
        if len(values[reading_options.BUCKET]) > 1:
            values.refuse(
                option,
                "would bring objects of several buckets (aws.s3.bucket.name) to one place, where those of "
                "one key would meet; write move:PREFIX, which moves within each, or a connector for each",
            )
        elif bucket in values[reading_options.BUCKET]:
            values.refuse(
                option, f"names the bucket that objects are read from; write move:PREFIX ({target!r} now)"
            )
        elif any(map(is_access_point, (bucket, *values[reading_options.BUCKET]))) and (
            target.startswith(values[prefix]) or values[prefix].startswith(target)
        ):
            values.refuse(
                option,
                "may name the bucket that objects are read from, as an access point's alias does not show "
                "its bucket: what is moved would be read again; set aws.s3.prefix, and a target outside it",
            )
        return
    if values[prefix].startswith(target):
        values.refuse(
            option,
            f"moves objects to where they are read from (aws.s3.prefix = {values[prefix]!r}); choose a "
            "prefix next to it or below it",
        )


# -- What options mean beside one another: combinations that cannot do what they say are problems at start ---

_OF_THE_QUEUE: Final = (
    reading_options.SQS_ENDPOINT,
    reading_options.SQS_REGION,
    reading_options.SQS_WAIT,
    reading_options.SQS_VISIBILITY,
    reading_options.SQS_RECEIVERS,
    reading_options.SQS_MAX_HELD,
    reading_options.FALLBACK_AFTER,
)
_AMAZON_REGION: Final = re.compile(r"[a-z]{2,4}(-[a-z]+)+-[0-9]+")


def _check_buckets(values: Values) -> None:
    """Refuse a list of buckets for an archive."""
    option = reading_options.BUCKET
    if not values.are_good(option) or len(values[option]) == 1:
        return
    if values.are_good(restore_options.LAYOUT) and is_restore(values):
        values.refuse(
            option,
            "names several buckets, and an archive (input.layout) is in one: what belongs together is found "
            "by its key; write a connector for each",
        )


def check(values: Values) -> None:
    """Note every combination of options that cannot be."""
    _check_credentials(values)
    _check_role(values)
    _check_proxy(values)
    _check_regions(values)
    _check_listing(values)
    check_direction(values)
    if direction(values) is Direction.SINK:
        check_sink(values)
    else:
        check_routing(values)
        check_records(values)
        check_restore(values)
        _check_buckets(values)
        check_rows(values)
        check_post_action(values)
    _check_delays(values)
    _check_endpoints(values)


def _check_proxy(values: Values) -> None:
    needed = {
        reading_options.PROXY_USER: reading_options.PROXY,
        reading_options.PROXY_PASSWORD: reading_options.PROXY_USER,
    }
    for option, other in needed.items():
        if values.is_given(option) and not values.is_given(other):
            values.refuse(option, f"means nothing without {other.name}")


def _check_credentials(values: Values) -> None:
    keys = (reading_options.ACCESS_KEY_ID, reading_options.SECRET_ACCESS_KEY)
    given = [key for key in keys if values.is_given(key)]
    if len(given) == 1:
        missing = next(key for key in keys if key not in given)
        values.refuse(missing, f"is missing next to {given[0].name}; give both or none")
    if values.is_given(reading_options.SESSION_TOKEN) and not given:
        values.refuse(
            reading_options.SESSION_TOKEN,
            "belongs to aws.access.key.id and aws.secret.access.key; give all three",
        )
    if (
        not given
        and values.are_good(reading_options.PROVIDER_CLASS)
        and values[reading_options.PROVIDER_CLASS] is CredentialsProvider.STATIC
    ):
        values.refuse(reading_options.PROVIDER_CLASS, "needs aws.access.key.id and aws.secret.access.key")


def _check_role(values: Values) -> None:
    if values.is_given(reading_options.ROLE_ARN):
        return
    for option in (
        reading_options.ROLE_SESSION_NAME,
        reading_options.ROLE_EXTERNAL_ID,
        reading_options.ROLE_DURATION,
    ):
        if values.is_given(option):
            values.refuse(option, "means nothing without aws.sts.role.arn")


def _check_regions(values: Values) -> None:
    for region, endpoint in (
        (reading_options.REGION, reading_options.ENDPOINT_URL),
        (reading_options.SQS_REGION, reading_options.SQS_ENDPOINT),
    ):
        if not values.are_good(region) or values.is_given(endpoint):
            continue
        text = values[region]
        # Other makers of S3 call their regions as they like; Amazon's have one form.
        if text is not None and not _AMAZON_REGION.fullmatch(text):
            values.refuse(region, f"expected a region such as us-east-1, unless {endpoint.name} is set")


def _check_listing(values: Values) -> None:
    if (
        values.are_good(reading_options.POLL_LISTING, reading_options.RECONCILE_INTERVAL)
        and values[reading_options.POLL_LISTING] is PollListing.INCREMENTAL
        and values[reading_options.RECONCILE_INTERVAL] == 0
        and not values.is_given(reading_options.QUEUE)
    ):
        values.refuse(
            reading_options.RECONCILE_INTERVAL,
            "with poll.listing=incremental and no sqs.queue.url, keys that sort before the last one would "
            "never be found; set it above 0, or poll.listing to auto",
        )


def _check_delays(values: Values) -> None:
    for low, high in (
        (reading_options.BACKOFF_DELAY, reading_options.BACKOFF_MAX_DELAY),
        (record_options.RETRY_DELAY, record_options.RETRY_DELAY_MAX),
    ):
        if values.are_good(low, high) and values[low] > values[high]:
            if low is record_options.RETRY_DELAY and not values.is_written(low):
                # The first pause is no longer than the longest one.
                continue
            if values.is_written(low) or not values.is_written(high):
                values.refuse(low, f"must not exceed {high.name} ({values[high]})")
            else:
                values.refuse(high, f"must not be less than {low.name} ({values[low]})")


def _check_endpoints(values: Values) -> None:
    if not values.are_good(connection_options.REST_LISTEN, connection_options.HTTP_LISTEN):
        return
    rest, http = values[connection_options.REST_LISTEN], values[connection_options.HTTP_LISTEN]
    if rest is None:
        return
    if not rest.is_loopback and not values.is_given(connection_options.REST_AUTH_FILE):
        values.refuse(connection_options.REST_LISTEN, "reaches beyond this machine and needs rest.auth.file")
    if http is not None and rest == http and rest.port != 0:
        values.refuse(connection_options.REST_LISTEN, "is http.listen as well; give each its own port")


def warnings(values: Values) -> tuple[str, ...]:
    """Return what is not wrong, but not what the writer will have meant. Called when all options are good."""
    found = []
    has_traces = values[connection_options.TRACES_EXPORTER] is not TracesExporter.NONE
    if values[connection_options.TRACES_ENDPOINT] is not None and not has_traces:
        found.append("traces.endpoint gets nothing while traces.exporter is none; set it to otlp")
    if values[record_options.DLQ_TOPIC] is not None and values[record_options.TOLERANCE] is Tolerance.NONE:
        found.append(
            "errors.deadletterqueue.topic.name gets nothing while errors.tolerance is none: a bad record "
            + (
                "stops its partition instead"
                if direction(values) is Direction.SINK
                else "quarantines its object instead"
            )
        )
    layout, most = sink.LAYOUT, sink.MAX_OPEN_FILES
    if direction(values) is Direction.SINK and values.is_given(most) and values[layout] != "headrace":
        found.append(
            f"max.open.files={values[most]}: above it objects close before their triggers, which the sink of "
            f"{layout.name}={values[layout]} does not do"
        )
    idle = [option.name for option in _OF_THE_QUEUE if values.is_given(option)]
    if idle and values[reading_options.QUEUE] is None:
        found.append(f"without sqs.queue.url these have nothing to do: {', '.join(idle)}")
    return tuple(found)
