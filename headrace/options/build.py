"""Parsed options to the settings object. Called only when there is no problem left."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from headrace.model.objects import PostAction
from headrace.options import settings
from headrace.options.aws_forms import proxy_of, queue_region
from headrace.options.choices import (
    CredentialsProvider,
    CsvType,
    EnvelopeField,
    ExactlyOnce,
    JsonFormat,
    Packing,
    Tolerance,
    ValueFormat,
)
from headrace.options.converter_forms import is_of_glue
from headrace.options.declarations import connection_options, format_options, reading_options, record_options
from headrace.options.direction_forms import Direction
from headrace.options.directions import direction
from headrace.options.given import Entry
from headrace.options.record_checks import value_format
from headrace.options.record_sources import NamedTexts
from headrace.options.registry_settings import BearerSource, GlueSettings, GlueWriting, RegistrySettings
from headrace.options.restore_forms import input_format, joining_settings, restore_settings
from headrace.options.routes import GivenRoute
from headrace.options.routing_checks import ordering
from headrace.options.row_settings import CsvSettings, PackingSettings, TextSettings
from headrace.options.secret import Secret, properties
from headrace.options.sink_build import sink_settings
from headrace.options.sink_settings import ReadSettings
from headrace.options.token_logins import aws_login, with_iam
from headrace.options.trace_settings import trace_settings
from headrace.options.transforms import TransformChain
from headrace.options.value_types import HostPort
from headrace.options.values import Values
from headrace.options.vendor_translation import Translated

_SPARK_OWN = ("spark.master", "spark.remote")


def build(
    values: Values,
    *,
    clients: Mapping[settings.Role, dict[str, str]],
    entries: Mapping[str, Entry],
    routes: tuple[GivenRoute, ...],
    transforms: TransformChain,
    environment: Mapping[str, str],
    warnings: tuple[str, ...],
    shown: tuple[tuple[str, str], ...],
    reading: ReadSettings,
    translated: Translated | None = None,
) -> settings.Settings:
    """Return the settings, defaults that depend on other options or on the surroundings filled in."""
    is_sink = direction(values) is Direction.SINK
    state = state_dir(values[connection_options.STATE_DIR], environment)
    return settings.Settings(
        identity=_identity(values, clients),
        kafka=_kafka(values, _with_logins(values, clients)),
        s3=_s3(values),
        sqs=_sqs(values),
        discovery=_discovery(values),
        routing=_routing(values),
        format=_format(values),
        joining=joining_settings(values),
        jobs=_jobs(values),
        errors=_errors(values),
        spark=_spark(values, entries),
        http=_http(values),
        ledger=settings.LedgerSettings(
            retention_ms=values[connection_options.LEDGER_RETENTION],
            state_dir=state,
        ),
        sink=sink_settings(
            values,
            group_id=_sink_group(values[connection_options.NAME], translated),
            state_dir=state,
            registry=_registry(values),
            glue=_glue(values),
            routes=routes,
            transforms=transforms,
            reading=reading,
        )
        if is_sink
        else None,
        transforms=transforms,
        warnings=warnings,
        shown=shown,
        given=frozenset(entries),
        texts=tuple((name, Secret(entry.raw), Secret(entry.text)) for name, entry in entries.items()),
        post_action=_post_action(values),
        traces=trace_settings(values, environment),
        translated=translated,
        more_buckets=values[reading_options.BUCKET][1:],
    )


def _sink_group(name: str, translated: Translated | None) -> str:
    """The group of a sink's offsets: that of the Connect connector whose configuration this is."""
    return name if translated is None else f"connect-{name}"


def _post_action(values: Values) -> PostAction | None:
    action = values[reading_options.POST_ACTION]
    if action is None:
        return None
    return replace(action, is_unconditional=values[reading_options.POST_ACTION_UNCONDITIONAL])


def state_dir(given: str | None, environment: Mapping[str, str]) -> Path:
    """Return the folder for state: as given, or by the XDG rules (a relative variable does not count)."""
    home = Path(environment.get("HOME") or ".")
    if given is not None:
        return home / given[2:] if given.startswith("~/") else Path(given)
    state = environment.get("XDG_STATE_HOME", "")
    return (Path(state) if state.startswith("/") else home / ".local" / "state") / "headrace"


def _identity(values: Values, clients: Mapping[settings.Role, dict[str, str]]) -> settings.IdentitySettings:
    return settings.IdentitySettings(
        name=values[connection_options.NAME],
        instance_id=values[connection_options.INSTANCE_ID],
        lead_session_timeout_ms=int(clients["consumer"]["session.timeout.ms"]),
        tasks_max=values[connection_options.TASKS_MAX],
    )


def _with_logins(
    values: Values, clients: Mapping[settings.Role, dict[str, str]]
) -> dict[settings.Role, dict[str, str]]:
    """Return the clients' properties, IAM's log-in filled in where it is asked for."""
    return {
        role: with_iam(
            given,
            _s3(values),
            servers=values[connection_options.BOOTSTRAP_SERVERS],
            sts_endpoint=values[reading_options.STS_ENDPOINT],
        )
        for role, given in clients.items()
    }


def _kafka(values: Values, clients: Mapping[settings.Role, dict[str, str]]) -> settings.KafkaSettings:
    partitions, replication = (
        values[connection_options.TOPIC_PARTITIONS],
        values[connection_options.TOPIC_REPLICATION],
    )
    creation = None
    if partitions is not None and replication is not None:
        creation = settings.TopicCreation(partitions=partitions, replication_factor=replication)
    producer = dict(clients["producer"])
    exactly_once = values[connection_options.EXACTLY_ONCE] is ExactlyOnce.REQUIRED
    if not exactly_once:
        del producer["transaction.timeout.ms"]
    return settings.KafkaSettings(
        bootstrap_servers=values[connection_options.BOOTSTRAP_SERVERS],
        producer=properties(producer),
        consumer=properties(clients["consumer"]),
        admin=properties(clients["admin"]),
        exactly_once=exactly_once,
        ledger_topic=values[connection_options.OFFSETS_TOPIC] or f"{values[connection_options.NAME]}-offsets",
        transaction_interval_ms=values[record_options.BOUNDARY_INTERVAL],
        transaction_records=values[record_options.BOUNDARY_RECORDS],
        message_max_bytes=int(producer["message.max.bytes"]),
        topic_creation=creation,
    )


def _s3(values: Values) -> settings.S3Settings:
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


def _sqs(values: Values) -> settings.SqsSettings | None:
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


def _discovery(values: Values) -> settings.DiscoverySettings:
    return settings.DiscoverySettings(
        poll_interval_ms=values[reading_options.POLL_INTERVAL],
        poll_listing=values[reading_options.POLL_LISTING],
        reconcile_interval_ms=values[reading_options.RECONCILE_INTERVAL],
        include_existing=values[reading_options.INCLUDE_EXISTING],
        native_start_key=values[reading_options.NATIVE_START_KEY],
        initial_inventory=values[reading_options.INITIAL_INVENTORY],
        include=values[reading_options.OBJECT_INCLUDE],
        exclude=values[reading_options.OBJECT_EXCLUDE],
        min_age_ms=values[reading_options.MIN_AGE],
        max_pending_objects=values[reading_options.MAX_PENDING],
        max_bytes_per_second=values[reading_options.MAX_BYTES_PER_SECOND],
    )


def _routing(values: Values) -> settings.RoutingSettings:
    return settings.RoutingSettings(
        file_name_template=values[record_options.FILE_NAME_TEMPLATE],
        file_name_match=values[record_options.FILE_NAME_MATCH],
        topic=values[record_options.TOPIC_NAME],
        ordering=ordering(values),
        partitioner=values[connection_options.PARTITIONER].value,
    )


def _format(values: Values) -> settings.FormatSettings:
    by_converter = values[record_options.VALUE_CONVERTER_CLASS] is ValueFormat.JSON or value_format(
        values
    ) in {
        ValueFormat.JSON_SCHEMA,
        ValueFormat.PROTOBUF,
    }
    json_format = values[record_options.JSON_FORMAT]
    fields: tuple[EnvelopeField, ...] | None = values[record_options.ENVELOPE_BASE64]
    types: tuple[tuple[str, CsvType], ...] | None = values[format_options.CSV_TYPES]
    named: NamedTexts | None = values[record_options.RECORD_FIELDS]
    groups: tuple[tuple[str, CsvType], ...] | None = values[format_options.TEXT_TYPES]
    if by_converter and not values.is_given(record_options.JSON_FORMAT):
        json_format = JsonFormat.CONNECT
    return settings.FormatSettings(
        input_format=input_format(values),
        compression=values[record_options.COMPRESSION],
        chunk_bytes=values[record_options.CHUNK_SIZE],
        record_max_bytes=values[record_options.RECORD_MAX_BYTES],
        decode_unit_max_bytes=values[record_options.DECODE_UNIT_MAX_BYTES],
        key_source=values[record_options.KEY_FROM],
        key_format=values[record_options.KEY_CONVERTER_CLASS] or ValueFormat.AUTO,
        value_source=values[record_options.VALUE_FROM],
        value_format=value_format(values),
        json_format=json_format,
        headers=values[record_options.HEADERS_FROM],
        timestamp=values[record_options.TIMESTAMP_FROM],
        envelope=values[record_options.ENVELOPE],
        envelope_base64=() if fields is None else fields,
        registry=_registry(values),
        glue=_glue_writing(values),
        restore=restore_settings(values),
        csv=CsvSettings(
            delimiter=values[format_options.CSV_DELIMITER],
            quote=values[format_options.CSV_QUOTE],
            header=values[format_options.CSV_HEADER],
            columns=values[format_options.CSV_COLUMNS],
            types=() if types is None else types,
        ),
        text=TextSettings(
            start=values[format_options.TEXT_START],
            end=values[format_options.TEXT_END],
            pattern=values[format_options.TEXT_PATTERN],
            types=() if groups is None else groups,
            null=values[format_options.TEXT_NULL],
        ),
        json_path=values[format_options.JSON_PATH],
        packing=_packing(values),
        fields=() if named is None else named,
    )


def _packing(values: Values) -> PackingSettings | None:
    if values[format_options.ARCHIVE] is Packing.NONE:
        return None
    return PackingSettings(
        kind=values[format_options.ARCHIVE],
        members=values[format_options.ARCHIVE_MEMBERS],
        max_members=values[format_options.ARCHIVE_MAX_MEMBERS],
        max_bytes=values[format_options.ARCHIVE_MAX_BYTES],
        max_ratio=values[format_options.ARCHIVE_MAX_RATIO],
    )


def _registry(values: Values) -> RegistrySettings | None:
    where = values[record_options.REGISTRY_URL]
    if where is None:
        return None
    files = {
        "ssl.ca.location": values[record_options.REGISTRY_CA],
        "ssl.certificate.location": values[record_options.REGISTRY_CERTIFICATE],
        "ssl.key.location": values[record_options.REGISTRY_KEY],
    }
    user_info = values[record_options.REGISTRY_USER_INFO] or where.user_info
    given = {name: text for name, text in files.items() if text is not None}
    if user_info is not None:
        given["basic.auth.user.info"] = user_info.reveal()
    given |= _bearer(values)
    return RegistrySettings(
        urls=where.urls,
        properties=properties(given),
        auto_register=values[record_options.REGISTRY_AUTO_REGISTER],
        use_latest=values[record_options.REGISTRY_USE_LATEST],
        subject_name_strategy=values[record_options.REGISTRY_SUBJECT],
    )


def _bearer(values: Values) -> dict[str, str]:
    """The properties of the registry's client for a log-in by token."""
    source = values[record_options.REGISTRY_BEARER]
    if source is None:
        return {}
    prefix, texts = "bearer.auth", {"credentials.source": source.name}
    texts["logical.cluster"] = values[record_options.REGISTRY_CLUSTER]
    if (pool := values[record_options.REGISTRY_POOL]) is not None:
        texts["identity.pool.id"] = pool
    given: dict[str, Secret | str | None] = {"token": values[record_options.REGISTRY_TOKEN]}
    if source is BearerSource.OAUTHBEARER:
        given = {
            "issuer.endpoint.url": values[record_options.REGISTRY_ISSUER],
            "client.id": values[record_options.REGISTRY_CLIENT_ID],
            "client.secret": values[record_options.REGISTRY_CLIENT_SECRET],
            "scope": values[record_options.REGISTRY_SCOPE],
        }
    for name, text in given.items():
        assert text is not None, "settings are checked: a log-in by token has all that it needs"
        texts[name] = text.reveal() if isinstance(text, Secret) else text
    return {f"{prefix}.{name}": text for name, text in texts.items()}


def _glue_writing(values: Values) -> GlueWriting | None:
    if not is_of_glue(values.text(record_options.VALUE_CONVERTER_CLASS)):
        return None
    return GlueWriting(
        where=_glue(values),
        registry=values[record_options.GLUE_REGISTRY],
        schema=values[record_options.GLUE_SCHEMA],
        auto_register=values[record_options.GLUE_AUTO_REGISTER],
        use_latest=values[record_options.REGISTRY_USE_LATEST],
        compatibility=values[record_options.GLUE_COMPATIBILITY],
    )


def _glue(values: Values) -> GlueSettings:
    s3 = _s3(values)
    region = values[record_options.GLUE_REGION] or s3.region
    return GlueSettings(
        region=region,
        endpoint=values[record_options.GLUE_ENDPOINT],
        login=Secret(aws_login(s3, region)),
    )


def _jobs(values: Values) -> settings.JobSettings:
    return settings.JobSettings(
        max_objects=values[record_options.JOB_MAX_OBJECTS],
        max_bytes=values[record_options.JOB_MAX_BYTES],
        max_seconds=values[record_options.JOB_MAX_SECONDS],
        linger_ms=values[record_options.JOB_LINGER],
    )


def _errors(values: Values) -> settings.ErrorSettings:
    topic, tolerance = values[record_options.DLQ_TOPIC], values[record_options.TOLERANCE]
    dead_letter = None
    if topic is not None and tolerance is Tolerance.ALL:
        dead_letter = settings.DeadLetterSettings(
            topic=topic, replication_factor=values[record_options.DLQ_REPLICATION]
        )
    return settings.ErrorSettings(
        tolerance=tolerance,
        dead_letter=dead_letter,
        max_attempts=values[record_options.MAX_ATTEMPTS],
        retry_delay_ms=values[record_options.RETRY_DELAY],
        retry_delay_max_ms=values[record_options.RETRY_DELAY_MAX],
        log_enable=values[record_options.LOG_ENABLE],
    )


def _spark(values: Values, entries: Mapping[str, Entry]) -> settings.SparkSettings:
    remote = values[connection_options.SPARK_REMOTE]
    given = [entry for name, entry in entries.items() if name.startswith("spark.") and name not in _SPARK_OWN]
    return settings.SparkSettings(
        master=values[connection_options.SPARK_MASTER],
        remote=None if remote is None else Secret(remote),
        properties=tuple(
            (entry.option, Secret(entry.text) if entry.is_secret else entry.text)
            for entry in sorted(given, key=lambda entry: entry.option)
        ),
    )


def _http(values: Values) -> settings.HttpSettings:
    listen: HostPort | None = values[connection_options.HTTP_LISTEN]
    return settings.HttpSettings(
        listen=listen,
        rest_listen=values[connection_options.REST_LISTEN],
        rest_auth_file=values[connection_options.REST_AUTH_FILE],
    )
