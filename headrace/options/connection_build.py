"""Parsed options to the settings of what Headrace talks to: Kafka, S3, SQS, HTTP, and where traces go.

Called only when there is no problem left. Traces follow OpenTelemetry's own environment, too.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from headrace.options import settings
from headrace.options.aws_forms import proxy_of, queue_region
from headrace.options.choices import CredentialsProvider, ExactlyOnce, TracesExporter
from headrace.options.declarations import connection_options, reading_options, record_options
from headrace.options.given import Values
from headrace.options.secret import properties
from headrace.options.settings import TraceSettings
from headrace.options.token_logins import with_iam
from headrace.options.value_types import HostPort

_PROTOCOL: Final = "http/protobuf"
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


def trace_settings(values: Values, environment: Mapping[str, str]) -> TraceSettings | None:
    """None where no traces are asked for."""
    if values[connection_options.TRACES_EXPORTER] is not TracesExporter.OTLP:
        return None
    queue = _number(environment, "OTEL_BSP_MAX_QUEUE_SIZE", 2048)
    return TraceSettings(
        endpoint=values[connection_options.TRACES_ENDPOINT],
        queue_spans=queue,
        request_spans=min(queue, _number(environment, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)),
        delay_seconds=_number(environment, "OTEL_BSP_SCHEDULE_DELAY", 5000) / 1000,
    )


def trace_warnings(values: Values, environment: Mapping[str, str]) -> tuple[str, ...]:
    """What the environment asks of traces and does not get: the exporter speaks one protocol."""
    if values[connection_options.TRACES_EXPORTER] is not TracesExporter.OTLP:
        return ()
    given = next((name for name in _PROTOCOLS if environment.get(name, "").strip()), None)
    if given is None or environment[given].strip() == _PROTOCOL:
        return ()
    sentence = (
        f"{given} is {environment[given].strip()}, and traces go by OTLP over HTTP ({_PROTOCOL}): give the "
        "collector's port for it, mostly 4318, in traces.endpoint"
    )
    return (sentence,)


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    """What the variable says; one that is no number above 0 is passed over, as OpenTelemetry asks."""
    text = environment.get(name, "").strip()
    return int(text) if text.isascii() and text.isdecimal() and int(text) > 0 else default


def identity_settings(
    values: Values, clients: Mapping[settings.Role, dict[str, str]]
) -> settings.IdentitySettings:
    """What this ingester is called, and as which clients."""
    return settings.IdentitySettings(
        name=values[connection_options.NAME],
        instance_id=values[connection_options.INSTANCE_ID],
        lead_session_timeout_ms=int(clients["consumer"]["session.timeout.ms"]),
        tasks_max=values[connection_options.TASKS_MAX],
    )


def with_logins(
    values: Values, clients: Mapping[settings.Role, dict[str, str]]
) -> dict[settings.Role, dict[str, str]]:
    """Return the clients' properties, IAM's log-in filled in where it is asked for."""
    s3 = s3_settings(values)
    return {
        role: with_iam(
            given,
            s3,
            servers=values[connection_options.BOOTSTRAP_SERVERS],
            sts_endpoint=values[reading_options.STS_ENDPOINT],
        )
        for role, given in clients.items()
    }


def kafka_settings(values: Values, clients: Mapping[settings.Role, dict[str, str]]) -> settings.KafkaSettings:
    """The brokers, the ledger's topic, and how topics are created."""
    partitions, replication = (
        values[connection_options.TOPIC_PARTITIONS],
        values[connection_options.TOPIC_REPLICATION],
    )
    creation = None
    if partitions is not None and replication is not None:
        creation = settings.TopicCreation(partitions=partitions, replication_factor=replication)
    return settings.KafkaSettings(
        bootstrap_servers=values[connection_options.BOOTSTRAP_SERVERS],
        producer=properties(clients["producer"]),
        consumer=properties(clients["consumer"]),
        admin=properties(clients["admin"]),
        exactly_once=values[connection_options.EXACTLY_ONCE] is ExactlyOnce.REQUIRED,
        ledger_topic=values[connection_options.OFFSETS_TOPIC] or f"{values[connection_options.NAME]}-offsets",
        transaction_interval_ms=values[record_options.BOUNDARY_INTERVAL],
        transaction_records=values[record_options.BOUNDARY_RECORDS],
        message_max_bytes=int(clients["producer"]["message.max.bytes"]),
        topic_creation=creation,
    )


def s3_settings(values: Values) -> settings.S3Settings:
    """The bucket, its endpoint and credentials."""
    return settings.S3Settings(
        bucket=values[reading_options.BUCKET][0],
        prefix=values[reading_options.PREFIX],
        region=values[reading_options.REGION],
        endpoint=values[reading_options.ENDPOINT_URL],
        credentials=_credentials(values),
        backoff=settings.BackoffSettings(
            delay_ms=values[reading_options.BACKOFF_DELAY],
            max_delay_ms=values[reading_options.BACKOFF_MAX_DELAY],
            max_retries=values[reading_options.BACKOFF_MAX_RETRIES],
        ),
        path_style=_path_style(values),
        requester_pays=values[reading_options.REQUESTER_PAYS],
        ca_bundle=values[reading_options.CA_BUNDLE],
        proxy=proxy_of(
            values[reading_options.PROXY],
            values[reading_options.PROXY_USER],
            values[reading_options.PROXY_PASSWORD],
        ),
    )


def _path_style(values: Values) -> bool:
    """Whether the bucket is in the path of addresses: as given, else with an endpoint of another S3."""
    given = values[reading_options.PATH_STYLE]
    return values[reading_options.ENDPOINT_URL] is not None if given is None else given


def _credentials(values: Values) -> settings.Credentials:
    """Return the credentials in the order role, static keys, provider, default chain."""
    source = _own_credentials(values)
    arn = values[reading_options.ROLE_ARN]
    if arn is None:
        return source
    return settings.RoleCredentials(
        arn=arn,
        session_name=values[reading_options.ROLE_SESSION_NAME],
        external_id=values[reading_options.ROLE_EXTERNAL_ID],
        duration_seconds=values[reading_options.ROLE_DURATION],
        endpoint=values[reading_options.STS_ENDPOINT],
        source=source,
    )


def _own_credentials(
    values: Values,
) -> settings.StaticCredentials | settings.ProviderCredentials | settings.DefaultCredentials:
    key, secret = values[reading_options.ACCESS_KEY_ID], values[reading_options.SECRET_ACCESS_KEY]
    if key is not None and secret is not None:
        return settings.StaticCredentials(
            access_key_id=key, secret_access_key=secret, session_token=values[reading_options.SESSION_TOKEN]
        )
    provider = values[reading_options.PROVIDER_CLASS]
    if provider is None or provider is CredentialsProvider.DEFAULT:
        return settings.DefaultCredentials()
    return settings.ProviderCredentials(provider=provider)


def sqs_settings(values: Values) -> settings.SqsSettings | None:
    """The queue; None where there is none."""
    queue_url = values[reading_options.QUEUE]
    if queue_url is None:
        return None
    return settings.SqsSettings(
        queue_url=queue_url,
        endpoint=values[reading_options.SQS_ENDPOINT] or _own_endpoint(queue_url),
        region=values[reading_options.SQS_REGION]
        or queue_region(queue_url)
        or values[reading_options.REGION],
        wait_time_seconds=values[reading_options.SQS_WAIT],
        visibility_timeout_seconds=values[reading_options.SQS_VISIBILITY],
        receivers=values[reading_options.SQS_RECEIVERS],
        max_held=values[reading_options.SQS_MAX_HELD],
        fallback_after_ms=values[reading_options.FALLBACK_AFTER],
    )


def _own_endpoint(queue_url: str) -> str | None:
    """Where a queue of another SQS than Amazon's answers: its URL names the place. None for Amazon's."""
    url = urlsplit(queue_url)
    host = url.hostname or ""
    if host.endswith((".amazonaws.com", ".amazonaws.com.cn")):
        return None
    return f"{url.scheme}://{url.netloc}"


def http_settings(values: Values) -> settings.HttpSettings:
    """Where pages, metrics and the REST interface are listened on."""
    listen: HostPort | None = values[connection_options.HTTP_LISTEN]
    return settings.HttpSettings(
        listen=listen,
        rest_listen=values[connection_options.REST_LISTEN],
        rest_auth_file=values[connection_options.REST_AUTH_FILE],
    )
