"""Parsed options to the settings object. Called only when there is no problem left."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from ingest.settings import model
from ingest.settings.choices import (
    CredentialsProvider,
    EnvelopeField,
    ExactlyOnce,
    JsonFormat,
    Tolerance,
    ValueFormat,
)
from ingest.settings.forms import HostPort
from ingest.settings.given import Entry
from ingest.settings.options import connection, reading, records
from ingest.settings.record_checks import value_format
from ingest.settings.routing_checks import ordering
from ingest.settings.secret import Secret, properties
from ingest.settings.values import Values

_SPARK_OWN = ("spark.master", "spark.remote")


def build(
    values: Values,
    *,
    clients: Mapping[model.Role, dict[str, str]],
    entries: Mapping[str, Entry],
    environment: Mapping[str, str],
    warnings: tuple[str, ...],
    shown: tuple[tuple[str, str], ...],
) -> model.Settings:
    """Return the settings, defaults that depend on other options or on the surroundings filled in."""
    return model.Settings(
        identity=_identity(values, clients),
        kafka=_kafka(values, clients),
        s3=_s3(values),
        sqs=_sqs(values),
        discovery=_discovery(values),
        routing=_routing(values),
        format=_format(values),
        jobs=_jobs(values),
        errors=_errors(values),
        spark=_spark(values, entries),
        http=_http(values),
        ledger=model.LedgerSettings(
            retention_ms=values[connection.LEDGER_RETENTION],
            state_dir=state_dir(values[connection.STATE_DIR], environment),
        ),
        warnings=warnings,
        shown=shown,
        given=frozenset(entries),
        texts=tuple((name, Secret(entry.raw), Secret(entry.text)) for name, entry in entries.items()),
    )


def state_dir(given: str | None, environment: Mapping[str, str]) -> Path:
    """Return the folder for state: as given, or by the XDG rules (a relative variable does not count)."""
    home = Path(environment.get("HOME") or ".")
    if given is not None:
        return home / given[2:] if given.startswith("~/") else Path(given)
    state = environment.get("XDG_STATE_HOME", "")
    return (Path(state) if state.startswith("/") else home / ".local" / "state") / "headrace"


def _identity(values: Values, clients: Mapping[model.Role, dict[str, str]]) -> model.IdentitySettings:
    return model.IdentitySettings(
        name=values[connection.NAME],
        instance_id=values[connection.INSTANCE_ID],
        lead_session_timeout_ms=int(clients["consumer"]["session.timeout.ms"]),
        tasks_max=values[connection.TASKS_MAX],
    )


def _kafka(values: Values, clients: Mapping[model.Role, dict[str, str]]) -> model.KafkaSettings:
    partitions, replication = values[connection.TOPIC_PARTITIONS], values[connection.TOPIC_REPLICATION]
    creation = None
    if partitions is not None and replication is not None:
        creation = model.TopicCreation(partitions=partitions, replication_factor=replication)
    producer = dict(clients["producer"])
    timeout = int(producer["transaction.timeout.ms"])
    exactly_once = values[connection.EXACTLY_ONCE] is ExactlyOnce.REQUIRED
    if not exactly_once:
        del producer["transaction.timeout.ms"]
    return model.KafkaSettings(
        bootstrap_servers=values[connection.BOOTSTRAP_SERVERS],
        producer=properties(producer),
        consumer=properties(clients["consumer"]),
        admin=properties(clients["admin"]),
        exactly_once=exactly_once,
        ledger_topic=values[connection.OFFSETS_TOPIC] or f"{values[connection.NAME]}-offsets",
        transaction_interval_ms=values[records.BOUNDARY_INTERVAL],
        transaction_records=values[records.BOUNDARY_RECORDS],
        transaction_timeout_ms=timeout,
        message_max_bytes=int(producer["message.max.bytes"]),
        topic_creation=creation,
    )


def _s3(values: Values) -> model.S3Settings:
    return model.S3Settings(
        bucket=values[reading.BUCKET],
        prefix=values[reading.PREFIX],
        region=values[reading.REGION],
        endpoint=values[reading.ENDPOINT_URL],
        credentials=_credentials(values),
        backoff=model.BackoffSettings(
            delay_ms=values[reading.BACKOFF_DELAY],
            max_delay_ms=values[reading.BACKOFF_MAX_DELAY],
            max_retries=values[reading.BACKOFF_MAX_RETRIES],
        ),
        requester_pays=values[reading.REQUESTER_PAYS],
        ca_bundle=values[reading.CA_BUNDLE],
    )


def _credentials(values: Values) -> model.Credentials:
    """Return the credentials in the order role, static keys, provider, default chain."""
    source = _own_credentials(values)
    arn = values[reading.ROLE_ARN]
    if arn is None:
        return source
    return model.RoleCredentials(
        arn=arn,
        session_name=values[reading.ROLE_SESSION_NAME],
        external_id=values[reading.ROLE_EXTERNAL_ID],
        duration_seconds=values[reading.ROLE_DURATION],
        endpoint=values[reading.STS_ENDPOINT],
        source=source,
    )


def _own_credentials(
    values: Values,
) -> model.StaticCredentials | model.ProviderCredentials | model.DefaultCredentials:
    key, secret = values[reading.ACCESS_KEY_ID], values[reading.SECRET_ACCESS_KEY]
    if key is not None and secret is not None:
        return model.StaticCredentials(
            access_key_id=key, secret_access_key=secret, session_token=values[reading.SESSION_TOKEN]
        )
    provider = values[reading.PROVIDER_CLASS]
    if provider is None or provider is CredentialsProvider.DEFAULT:
        return model.DefaultCredentials()
    return model.ProviderCredentials(provider=provider)


def _sqs(values: Values) -> model.SqsSettings | None:
    queue_url = values[reading.QUEUE]
    if queue_url is None:
        return None
    return model.SqsSettings(
        queue_url=queue_url,
        endpoint=values[reading.SQS_ENDPOINT] or _own_endpoint(queue_url),
        region=values[reading.SQS_REGION] or values[reading.REGION],
        wait_time_seconds=values[reading.SQS_WAIT],
        visibility_timeout_seconds=values[reading.SQS_VISIBILITY],
        receivers=values[reading.SQS_RECEIVERS],
        max_held=values[reading.SQS_MAX_HELD],
        fallback_after_ms=values[reading.FALLBACK_AFTER],
    )


def _own_endpoint(queue_url: str) -> str | None:
    """Where a queue of another SQS than Amazon's answers: its URL names the place. None for Amazon's."""
    url = urlsplit(queue_url)
    host = url.hostname or ""
    if host.endswith((".amazonaws.com", ".amazonaws.com.cn")):
        return None
    return f"{url.scheme}://{url.netloc}"


def _discovery(values: Values) -> model.DiscoverySettings:
    return model.DiscoverySettings(
        poll_interval_ms=values[reading.POLL_INTERVAL],
        poll_listing=values[reading.POLL_LISTING],
        reconcile_interval_ms=values[reading.RECONCILE_INTERVAL],
        include_existing=values[reading.INCLUDE_EXISTING],
        native_start_key=values[reading.NATIVE_START_KEY],
        include=values[reading.OBJECT_INCLUDE],
        exclude=values[reading.OBJECT_EXCLUDE],
        min_age_ms=values[reading.MIN_AGE],
        max_pending_objects=values[reading.MAX_PENDING],
        max_bytes_per_second=values[reading.MAX_BYTES_PER_SECOND],
    )


def _routing(values: Values) -> model.RoutingSettings:
    return model.RoutingSettings(
        file_name_template=values[records.FILE_NAME_TEMPLATE],
        file_name_match=values[records.FILE_NAME_MATCH],
        topic=values[records.TOPIC_NAME],
        ordering=ordering(values),
        partitioner=values[connection.PARTITIONER].value,
    )


def _format(values: Values) -> model.FormatSettings:
    by_converter = values[records.VALUE_CONVERTER_CLASS] is ValueFormat.JSON
    json_format = values[records.JSON_FORMAT]
    fields: tuple[EnvelopeField, ...] | None = values[records.ENVELOPE_BASE64]
    if by_converter and not values.is_given(records.JSON_FORMAT):
        json_format = JsonFormat.CONNECT
    return model.FormatSettings(
        input_format=values[records.INPUT_FORMAT],
        compression=values[records.COMPRESSION],
        chunk_bytes=values[records.CHUNK_SIZE],
        record_max_bytes=values[records.RECORD_MAX_BYTES],
        decode_unit_max_bytes=values[records.DECODE_UNIT_MAX_BYTES],
        key_source=values[records.KEY_FROM],
        key_format=values[records.KEY_CONVERTER_CLASS] or ValueFormat.AUTO,
        value_source=values[records.VALUE_FROM],
        value_format=value_format(values),
        json_format=json_format,
        headers=values[records.HEADERS_FROM],
        timestamp=values[records.TIMESTAMP_FROM],
        envelope=values[records.ENVELOPE],
        envelope_base64=() if fields is None else fields,
        registry=_registry(values),
    )


def _registry(values: Values) -> model.RegistrySettings | None:
    where = values[records.REGISTRY_URL]
    if where is None:
        return None
    files = {
        "ssl.ca.location": values[records.REGISTRY_CA],
        "ssl.certificate.location": values[records.REGISTRY_CERTIFICATE],
        "ssl.key.location": values[records.REGISTRY_KEY],
    }
    user_info = values[records.REGISTRY_USER_INFO] or where.user_info
    given = {name: text for name, text in files.items() if text is not None}
    if user_info is not None:
        given["basic.auth.user.info"] = user_info.reveal()
    return model.RegistrySettings(
        urls=where.urls,
        properties=properties(given),
        auto_register=values[records.REGISTRY_AUTO_REGISTER],
        subject_name_strategy=values[records.REGISTRY_SUBJECT],
    )


def _jobs(values: Values) -> model.JobSettings:
    return model.JobSettings(
        max_objects=values[records.JOB_MAX_OBJECTS],
        max_bytes=values[records.JOB_MAX_BYTES],
        max_seconds=values[records.JOB_MAX_SECONDS],
        linger_ms=values[records.JOB_LINGER],
    )


def _errors(values: Values) -> model.ErrorSettings:
    topic, tolerance = values[records.DLQ_TOPIC], values[records.TOLERANCE]
    dead_letter = None
    if topic is not None and tolerance is Tolerance.ALL:
        dead_letter = model.DeadLetterSettings(
            topic=topic, replication_factor=values[records.DLQ_REPLICATION]
        )
    return model.ErrorSettings(
        tolerance=tolerance,
        dead_letter=dead_letter,
        max_attempts=values[records.MAX_ATTEMPTS],
        retry_delay_ms=values[records.RETRY_DELAY],
        retry_delay_max_ms=values[records.RETRY_DELAY_MAX],
        log_enable=values[records.LOG_ENABLE],
    )


def _spark(values: Values, entries: Mapping[str, Entry]) -> model.SparkSettings:
    remote = values[connection.SPARK_REMOTE]
    given = [entry for name, entry in entries.items() if name.startswith("spark.") and name not in _SPARK_OWN]
    return model.SparkSettings(
        master=values[connection.SPARK_MASTER],
        remote=None if remote is None else Secret(remote),
        properties=tuple(
            (entry.option, Secret(entry.text) if entry.is_hidden else entry.text)
            for entry in sorted(given, key=lambda entry: entry.option)
        ),
    )


def _http(values: Values) -> model.HttpSettings:
    listen: HostPort | None = values[connection.HTTP_LISTEN]
    return model.HttpSettings(
        listen=listen,
        rest_listen=values[connection.REST_LISTEN],
        rest_auth_file=values[connection.REST_AUTH_FILE],
    )
