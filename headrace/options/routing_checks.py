"""Where records go: template, topic, ordering and the topics next to the output, held against one another."""

from typing import Any

from headrace.model.objects import is_directory_bucket
from headrace.names import KeyTemplate, TemplateError
from headrace.names.template_source import Placeholder, read_template
from headrace.options.choices import (
    Distribution,
    FileNameMatch,
    Ordering,
    PollListing,
    TemplateHeaders,
    TemplateSource,
    TemplateTime,
)
from headrace.options.declarations import connection_options, reading_options, record_options
from headrace.options.declarations.option import Option
from headrace.options.given import Values
from headrace.options.restore_forms import is_restore, names_have_partition, template_variables
from headrace.options.topic_expressions import OF_KAFKA


def check_routing(values: Values) -> None:
    """Note what cannot be routed as it says."""
    _check_distribution(values)
    variables = _variables(values)
    if variables is not None:
        _check_variables(values, variables)
        _check_record_templates(values, variables)
    _check_topics(values)
    _check_creation(values)
    _check_inventory(values)
    _check_buckets(values)


def ordering(values: Values) -> Ordering:
    """Return the ordering that `ordering`, or else `distribution.type`, asks for; else a restore's own."""
    if values[record_options.DISTRIBUTION] is Distribution.PARTITION:
        return Ordering.PARTITION
    is_said = values.is_given(record_options.ORDERING) or values.is_given(record_options.DISTRIBUTION)
    if not is_said and is_restore(values) and names_have_partition(values):
        return Ordering.PARTITION
    return values[record_options.ORDERING]


def _check_buckets(values: Values) -> None:
    """Note what another kind of bucket than an ordinary one does not have."""
    if not values.are_good(reading_options.BUCKET):
        return
    buckets = values[reading_options.BUCKET]
    alias = next((name for name in buckets if name.endswith("-s3alias")), None)
    if alias is not None and values.is_given(reading_options.QUEUE):
        values.refuse(
            reading_options.BUCKET,
            f"{alias} is the alias of an access point, and events name the bucket itself, so that none would "
            "be for it; name the bucket, or leave sqs.queue.url out",
        )
    if not any(map(is_directory_bucket, buckets)):
        return
    if (
        values.are_good(reading_options.POLL_LISTING)
        and values[reading_options.POLL_LISTING] is PollListing.INCREMENTAL
    ):
        values.refuse(
            reading_options.POLL_LISTING, "listings of a directory bucket have no order of keys; set full"
        )
    if values.is_given(reading_options.NATIVE_START_KEY):
        values.refuse(
            reading_options.NATIVE_START_KEY,
            "listings of a directory bucket have no order of keys; remove it",
        )
    if values.are_good(reading_options.PREFIX) and values[reading_options.PREFIX][-1:] not in {"", "/"}:
        values.refuse(
            reading_options.PREFIX,
            "listings of a directory bucket take no prefix within a name; end it with a slash, and choose "
            "names by object.include",
        )


def _check_distribution(values: Values) -> None:
    if (
        values.are_good(record_options.DISTRIBUTION, record_options.ORDERING)
        and values[record_options.DISTRIBUTION] is Distribution.PARTITION
        and values.is_given(record_options.ORDERING)
        and values[record_options.ORDERING] is not Ordering.PARTITION
    ):
        values.refuse(
            record_options.ORDERING, "says otherwise than distribution.type=partition; keep one of them"
        )


def _variables(values: Values) -> frozenset[str] | None:
    """Return the variables of `file.name.template`; None, its problem noted, when it does not compile."""
    if not values.are_good(
        record_options.FILE_NAME_TEMPLATE, record_options.FILE_NAME_MATCH, reading_options.PREFIX
    ):
        return None
    if is_restore(values):
        return template_variables(values)
    template = values[record_options.FILE_NAME_TEMPLATE]
    if template is None:
        form = record_options.FILE_NAME_TEMPLATE.form
        values.refuse(record_options.FILE_NAME_TEMPLATE, f"is missing; expected {form.expected}")
        return None
    match: FileNameMatch = values[record_options.FILE_NAME_MATCH]
    try:
        return KeyTemplate.compile(
            template,
            match=match.value,
            prefix=values[reading_options.PREFIX],
        ).names
    except TemplateError as error:
        values.refuse(record_options.FILE_NAME_TEMPLATE, str(error))
        return None


def _check_variables(values: Values, variables: frozenset[str]) -> None:
    if "topic" not in variables and not values.is_given(record_options.TOPIC_NAME):
        values.refuse(
            record_options.TOPIC_NAME, "is missing; set it, or put {{topic}} into file.name.template"
        )
    if (
        values.are_good(record_options.DISTRIBUTION, record_options.ORDERING)
        and ordering(values) is Ordering.PARTITION
        and "partition" not in variables
    ):
        by = (
            record_options.ORDERING
            if values.is_given(record_options.ORDERING)
            else record_options.DISTRIBUTION
        )
        values.refuse(by, "needs {{partition}} in file.name.template")
    if (
        values.are_good(record_options.TIMESTAMP_FROM)
        and isinstance(values[record_options.TIMESTAMP_FROM], TemplateTime)
        and "timestamp" not in variables
    ):
        values.refuse(record_options.TIMESTAMP_FROM, "needs {{timestamp}} in file.name.template")


def _check_record_templates(values: Values, variables: frozenset[str]) -> None:
    for option in (record_options.KEY_FROM, record_options.HEADERS_FROM, record_options.RECORD_FIELDS):
        match values[option] if values.are_good(option) else None:
            case TemplateSource(text):
                _check_record_template(values, option, text, variables)
            case TemplateHeaders(texts) | tuple(texts):
                for _, text in texts:
                    _check_record_template(values, option, text, variables)


def _check_record_template(values: Values, option: Option[Any], text: str, variables: frozenset[str]) -> None:
    try:
        # As the tasks will read it, so that no object meets a template that cannot be.
        tokens = read_template(text, any_is_known=True)
    except TemplateError as error:
        values.refuse(option, str(error))
        return
    names = dict.fromkeys(token.name for token in tokens if isinstance(token, Placeholder))
    known = variables | ({"topic"} if values.is_given(record_options.TOPIC_NAME) else set())
    for name in names:
        if name == "any":
            values.refuse(option, "uses {{any}}, which stands for nothing that could be written")
        elif name not in known:
            values.refuse(option, f"uses {{{{{name}}}}}, which file.name.template does not have")


def _check_topics(values: Values) -> None:
    if values.is_given(record_options.DLQ_REPLICATION) and not values.is_given(record_options.DLQ_TOPIC):
        values.refuse(
            record_options.DLQ_REPLICATION, "means nothing without errors.deadletterqueue.topic.name"
        )
    if not values.are_good(
        record_options.TOPIC_NAME,
        record_options.DLQ_TOPIC,
        connection_options.OFFSETS_TOPIC,
        connection_options.NAME,
    ):
        return
    topic, dead_letters = values[record_options.TOPIC_NAME], values[record_options.DLQ_TOPIC]
    ledger = values[connection_options.OFFSETS_TOPIC] or f"{values[connection_options.NAME]}-offsets"
    refuse_topics_of_kafka(values, record_options.TOPIC_NAME, record_options.DLQ_TOPIC)
    if topic is not None and dead_letters == topic:
        values.refuse(
            record_options.DLQ_TOPIC, "is the output topic itself; bad records need a topic of their own"
        )
    if topic == ledger:
        values.refuse(
            record_options.TOPIC_NAME, f"is the ledger ({ledger}); records need a topic of their own"
        )
    if dead_letters == ledger:
        values.refuse(
            record_options.DLQ_TOPIC, f"is the ledger ({ledger}); bad records need a topic of their own"
        )


def refuse_topics_of_kafka(values: Values, *options: Option[Any]) -> None:
    """Note the options that name a topic of Kafka's own: brokers refuse it as if a right were missing."""
    for option in options:
        if values.are_good(option) and values[option] in OF_KAFKA:
            values.refuse(option, "is a topic of Kafka's own, which takes no records of clients")


def _check_creation(values: Values) -> None:
    both = (connection_options.TOPIC_PARTITIONS, connection_options.TOPIC_REPLICATION)
    given = [option for option in both if values.is_given(option)]
    if len(given) == 1:
        missing = next(option for option in both if option not in given)
        values.refuse(missing, f"is missing next to {given[0].name}; give both or none")


def _check_inventory(values: Values) -> None:
    """Note what needs the order of a listing, or leaves out all that an inventory can name."""
    option, existing = reading_options.INITIAL_INVENTORY, reading_options.INCLUDE_EXISTING
    if not values.is_given(option) or not values.are_good(option) or not values[option]:
        return
    if values.are_good(existing) and not values[existing]:
        values.refuse(
            option,
            "has nothing to give next to include.existing=false, which leaves out what was there before the "
            "first start; remove one of both",
        )
    if is_restore(values):
        values.refuse(
            option,
            "comes in no order, and an archive's objects are read with those of their keys and tombstones; "
            "remove it, and a listing finds them",
        )
    elif (
        values.are_good(record_options.ORDERING, record_options.DISTRIBUTION)
        and ordering(values) is Ordering.PARTITION
    ):
        values.refuse(
            option,
            "comes in no order, and ordering=partition gives a partition its objects in the order of their "
            "offsets; remove one of both",
        )
