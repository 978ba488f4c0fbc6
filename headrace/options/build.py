"""Parsed options to the settings object. Called only when there is no problem left."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from headrace.model.objects import PostAction
from headrace.options import settings
from headrace.options.choices import (
    CsvType,
    EnvelopeField,
    JsonFormat,
    NamedTexts,
    Packing,
    Tolerance,
    ValueFormat,
)
from headrace.options.connection_build import (
    http_settings,
    identity_settings,
    kafka_settings,
    s3_settings,
    sqs_settings,
    trace_settings,
    with_logins,
)
from headrace.options.declarations import connection_options, format_options, reading_options, record_options
from headrace.options.given import Entry, Values, direction
from headrace.options.record_checks import value_format
from headrace.options.record_forms import is_of_glue
from headrace.options.restore_forms import input_format, joining_settings, restore_settings
from headrace.options.routing_checks import ordering
from headrace.options.row_settings import CsvSettings, PackingSettings, TextSettings
from headrace.options.schema_settings import BearerSource, GlueSettings, GlueWriting, RegistrySettings
from headrace.options.secret import Secret, properties
from headrace.options.sink_build import GivenRoute, sink_settings
from headrace.options.sink_settings import ReadSettings
from headrace.options.token_logins import aws_login
from headrace.options.transforms import TransformChain
from headrace.options.vendor import Direction
from headrace.options.vendor_translation import TranslatedLine

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
    written: tuple[tuple[str, Secret, Secret], ...],
    reading: ReadSettings,
    group: str | None = None,
    translated: tuple[TranslatedLine, ...] | None = None,
    of_worker: Mapping[str, Entry],
) -> settings.Settings:
    """Return the settings, defaults that depend on other options or on the surroundings filled in.

    `group` is where another vendor's sink was told to keep its offsets.
    """
    is_sink = direction(values) is Direction.SINK
    state = state_dir(values[connection_options.STATE_DIR], environment)
    kafka, errors = kafka_settings(values, with_logins(values, clients)), _errors(values)
    dead = errors.dead_letter
    return settings.Settings(
        identity=identity_settings(values, clients),
        kafka=kafka,
        s3=s3_settings(values),
        sqs=sqs_settings(values),
        discovery=_discovery(values),
        routing=_routing(values),
        format=_format(values),
        joining=joining_settings(values),
        jobs=_jobs(values),
        errors=errors,
        spark=_spark(values, entries),
        http=http_settings(values),
        ledger=settings.LedgerSettings(
            retention_ms=values[connection_options.LEDGER_RETENTION],
            state_dir=state,
        ),
        sink=sink_settings(
            values,
            group_id=group or _sink_group(values[connection_options.NAME], translated),
            state_dir=state,
            registry=_registry(values),
            glue=_glue(values),
            routes=routes,
            transforms=transforms,
            reading=reading,
            own_topics=frozenset({kafka.ledger_topic, *(() if dead is None else (dead.topic,))}),
        )
        if is_sink
        else None,
        transforms=transforms,
        warnings=warnings,
        shown=shown,
        given=frozenset(entries),
        texts=tuple((name, Secret(entry.raw), Secret(entry.text)) for name, entry in entries.items()),
        written=written,
        post_action=_post_action(values),
        traces=trace_settings(values, environment),
        translated=translated,
        of_worker=tuple((name, Secret(entry.raw)) for name, entry in of_worker.items()),
        more_buckets=values[reading_options.BUCKET][1:],
    )


def _sink_group(name: str, translated: tuple[TranslatedLine, ...] | None) -> str:
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
            is_exact=values[format_options.TEXT_EXACT],
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
    where = values[format_options.REGISTRY_URL]
    if where is None:
        return None
    files = {
        "ssl.ca.location": values[format_options.REGISTRY_CA],
        "ssl.certificate.location": values[format_options.REGISTRY_CERTIFICATE],
        "ssl.key.location": values[format_options.REGISTRY_KEY],
    }
    user_info = values[format_options.REGISTRY_USER_INFO] or where.user_info
    given = {name: text for name, text in files.items() if text is not None}
    if user_info is not None:
        given["basic.auth.user.info"] = user_info.reveal()
    given |= _bearer(values)
    return RegistrySettings(
        urls=where.urls,
        properties=properties(given),
        auto_register=values[format_options.REGISTRY_AUTO_REGISTER],
        use_latest=values[format_options.REGISTRY_USE_LATEST],
        subject_name_strategy=values[format_options.REGISTRY_SUBJECT],
    )


def _bearer(values: Values) -> dict[str, str]:
    """The properties of the registry's client for a log-in by token."""
    source = values[format_options.REGISTRY_BEARER]
    if source is None:
        return {}
    prefix, texts = "bearer.auth", {"credentials.source": source.name}
    texts["logical.cluster"] = values[format_options.REGISTRY_CLUSTER]
    if (pool := values[format_options.REGISTRY_POOL]) is not None:
        texts["identity.pool.id"] = pool
    given: dict[str, Secret | str | None] = {"token": values[format_options.REGISTRY_TOKEN]}
    if source is BearerSource.OAUTHBEARER:
        given = {
            "issuer.endpoint.url": values[format_options.REGISTRY_ISSUER],
            "client.id": values[format_options.REGISTRY_CLIENT_ID],
            "client.secret": values[format_options.REGISTRY_CLIENT_SECRET],
            "scope": values[format_options.REGISTRY_SCOPE],
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
        registry=values[format_options.GLUE_REGISTRY],
        schema=values[format_options.GLUE_SCHEMA],
        auto_register=values[format_options.GLUE_AUTO_REGISTER],
        use_latest=values[format_options.REGISTRY_USE_LATEST],
        compatibility=values[format_options.GLUE_COMPATIBILITY],
    )


def _glue(values: Values) -> GlueSettings:
    s3 = s3_settings(values)
    region = values[format_options.GLUE_REGION] or s3.region
    return GlueSettings(
        region=region,
        endpoint=values[format_options.GLUE_ENDPOINT],
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
        retry_delay_ms=min(values[record_options.RETRY_DELAY], values[record_options.RETRY_DELAY_MAX]),
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
