"""What options mean beside one another: combinations that cannot do what they say are problems at start."""

import re
from typing import Final

from headrace.options.choices import CredentialsProvider, PollListing, Tolerance, TracesExporter
from headrace.options.declarations import connection_options, reading_options, record_options
from headrace.options.direction_forms import Direction
from headrace.options.directions import check_direction, direction
from headrace.options.post_action_checks import check_post_action
from headrace.options.record_checks import check_records
from headrace.options.restore_forms import check_restore
from headrace.options.routing_checks import check_routing
from headrace.options.row_checks import check_rows
from headrace.options.sink_checks import check_sink
from headrace.options.values import Values

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
        values.refuse(missing, f"is missing beside {given[0].name}; give both or none")
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
            values.refuse(low, f"must not exceed {high.name} ({values[high]})")


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
    idle = [option.name for option in _OF_THE_QUEUE if values.is_given(option)]
    if idle and values[reading_options.QUEUE] is None:
        found.append(f"without sqs.queue.url these have nothing to do: {', '.join(idle)}")
    return tuple(found)
