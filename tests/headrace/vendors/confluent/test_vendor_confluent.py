"""Configurations of Confluent's S3 sink: published ones as they stand, and what is said of bad ones."""

import json
from collections.abc import Mapping
from typing import Any, Final

import pytest

from headrace.names.archive_names import LayoutName
from headrace.options import Settings, SettingsError
from headrace.options.choices import Compression
from headrace.options.given import Problems
from headrace.options.settings import DefaultCredentials, RoleCredentials
from headrace.options.sink_settings import (
    NameTimeSource,
    NullValues,
    OutputFormat,
    RotateTogether,
    SinkSettings,
)
from headrace.options.vendor import Fate
from headrace.options.vendor_translation import Translation
from headrace.vendors.confluent.translation import CONFLUENT
from headrace.vendors.load import load
from tests.headrace.options.loading import no_file, own_options
from tests.support import published_configurations as published

_S3: Final = "io.confluent.connect.s3."
_PARTITIONER: Final = "io.confluent.connect.storage.partitioner."
_STRING: Final = "org.apache.kafka.connect.storage.StringConverter"

BASIC: Final = {
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "tasks.max": "3",
    "topics": "events",
    "s3.bucket.name": "data-lake-bucket",
    "s3.region": "us-east-1",
    "format.class": f"{_S3}format.parquet.ParquetFormat",
    "flush.size": "10000",
    "storage.class": f"{_S3}storage.S3Storage",
    "partitioner.class": f"{_PARTITIONER}TimeBasedPartitioner",
}
COMPLETE: Final[dict[str, Any]] = {
    **published.CONFLUENT,
    "topics": "events,transactions",
    "s3.bucket.name": "analytics-data-lake",
    "s3.credentials.provider.class": "com.amazonaws.auth.DefaultAWSCredentialsProviderChain",
    "key.converter.schema.registry.url": "http://schema-registry:8081",
    "value.converter.schema.registry.url": "http://schema-registry:8081",
    "errors.deadletterqueue.topic.name": "dlq-s3-sink",
    "errors.deadletterqueue.topic.replication.factor": 3,
}
SMALL: Final[dict[str, Any]] = {
    **BASIC,
    "format.class": f"{_S3}format.json.JsonFormat",
    "partitioner.class": f"{_PARTITIONER}DefaultPartitioner",
    "key.converter": _STRING,
    "value.converter": _STRING,
}


def _load(config: Mapping[str, Any], changes: Mapping[str, str | None] | None = None) -> Settings:
    given = {name: value for name, value in {**config, **(changes or {})}.items() if value is not None}
    return load(
        json.dumps({"name": "events-to-s3", "config": given}),
        kind="json",
        environment={"HOME": "/home/me", "SECRET": "hunter2"},
        read_file=no_file,
        overrides={"bootstrap.servers": "127.0.0.1:9092"},
    )


def _sink(config: Mapping[str, Any], changes: Mapping[str, str | None] | None = None) -> SinkSettings:
    sink = _load(config, changes).sink
    assert sink is not None
    return sink


def _problems(config: Mapping[str, Any], changes: Mapping[str, str | None] | None = None) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        _load(config, changes)
    return [str(problem) for problem in caught.value.problems]


def test_the_published_complete_example_runs_unchanged() -> None:
    """With its own meaning in each option."""
    settings = _load(COMPLETE)
    sink = settings.sink

    assert sink is not None
    assert sink.group_id == "connect-events-to-s3"
    assert sink.topics.names == ("events", "transactions")
    assert sink.output.layout is LayoutName.CONFLUENT
    assert (sink.output.format, sink.output.compression) == (OutputFormat.PARQUET, Compression.SNAPPY)
    assert sink.output.null_values is NullValues.FAIL
    assert sink.names.prefix == "topics/"
    assert sink.names.time_source is NameTimeSource.WALLCLOCK
    rotation = sink.rotation
    assert (rotation.records, rotation.span_ms, rotation.together) == (50_000, 600_000, RotateTogether.TOTAL)
    assert (rotation.bytes, rotation.age_ms, rotation.schedule_ms, rotation.max_age_ms) == (0, 0, 0, 0)
    assert sink.upload.part_bytes == 52_428_800
    assert settings.s3.path_style
    assert settings.errors.dead_letter is not None
    assert settings.errors.dead_letter.topic == "dlq-s3-sink"


def test_what_runs_otherwise_than_expected_is_said_once() -> None:
    """The open tail, the part's size, and what is accepted without a meaning."""
    warnings = "\n".join(_load(COMPLETE).warnings)

    assert warnings.count("open.object.max.age.ms is off") == 1
    assert warnings.count("s3.part.size is the size of a part") == 1
    assert "errors.deadletterqueue.context.headers.enable" in warnings


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "objects close by flush.size and rotate.interval.ms alone"),
        ({"rotate.interval.ms": None}, "objects close by flush.size alone"),
        ({"partitioner.class": None}, "objects close by flush.size alone"),
    ],
)
def test_what_closes_objects_is_said_of_what_does(options: dict[str, Any], said: str) -> None:
    """An interval without a partitioner by time closes none, and was named among what does."""
    warnings = _load(COMPLETE, options).warnings
    is_vain = options.get("partitioner.class", "") is None

    assert [each for each in warnings if each.startswith(f"{said}, as")]
    assert any("closes no object" in each and "rotate.schedule" in each for each in warnings) is is_vain


def test_a_pattern_of_a_vendors_sink_means_what_connects_consumers_subscribe() -> None:
    """Debezium's heartbeats are topics like others; `.*` left them out, and nothing said so."""
    settings = _load(COMPLETE, {"topics": None, "topics.regex": ".*"})

    assert settings.sink is not None
    has = settings.sink.topics.has
    assert has("__debezium-heartbeat.server1")
    assert not any(map(has, ("__consumer_offsets", "__transaction_state", settings.kafka.ledger_topic)))


def test_the_published_basic_example_is_refused_with_the_lines_to_add() -> None:
    """As Confluent's own sink refuses it."""
    problems = _problems(BASIC, {"key.converter": _STRING, "value.converter": _STRING})

    assert problems == [
        f"path.format: is missing; the partitioner needs it, add path.format={COMPLETE['path.format']}",
        "partition.duration.ms: is missing; the partitioner needs it, add partition.duration.ms=3600000",
        "locale: is missing; the partitioner needs it, add locale=en",
        "timezone: is missing; the partitioner needs it, add timezone=UTC",
    ]


PIECES: Final[list[dict[str, str]]] = [
    {
        "format.class": f"{_S3}format.avro.AvroFormat",
        "avro.codec": "snappy",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    },
    {"format.class": f"{_S3}format.json.JsonFormat"},
    {
        "partitioner.class": f"{_PARTITIONER}FieldPartitioner",
        "partition.field.name": "region,event_type",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    },
    {"partitioner.class": f"{_PARTITIONER}DefaultPartitioner"},
    {"rotate.schedule.interval.ms": "3600000", "timezone": "UTC"},
    {"s3.part.size": "26214400"},
    {
        "key.converter": _STRING,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    },
    {"s3.part.size": "52428800", "schema.compatibility": "FULL"},
    {"s3.retry.backoff.ms": "200", "s3.part.retries": "3"},
]


@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: next(iter(piece)))
def test_published_pieces_run(piece: Mapping[str, str]) -> None:
    """Put into a small configuration."""
    assert _sink(SMALL, piece).output.layout is LayoutName.CONFLUENT


_FILE: Final = "{{topic}}+{{partition}}+{{start_offset:padding=10}}{{extension}}"
_TIMED: Final = {
    "locale": "en",
    "timezone": "Europe/Berlin",
    "partitioner.class": f"{_PARTITIONER}HourlyPartitioner",
}


@pytest.mark.parametrize(
    ("changes", "template"),
    [
        (
            {},
            "{{topic}}/partition={{partition}}/{{topic}}+{{partition}}+{{start_offset:padding=10}}{{extension}}",
        ),
        (
            {"directory.delim": "_", "file.delim": "-", "filename.offset.zero.pad.width": "4"},
            "{{topic}}_partition={{partition}}_{{topic}}-{{partition}}-{{start_offset:padding=4}}{{extension}}",
        ),
        (
            {"s3.schema.partition.affix.type": "SUFFIX"},
            "{{topic}}/partition={{partition}}/schema_name={{schema_name}}/" + _FILE,
        ),
        (
            _TIMED,
            "{{topic}}/{{joda:'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH}}/" + _FILE,
        ),
        (
            {**_TIMED, "partitioner.class": f"{_PARTITIONER}DailyPartitioner"},
            "{{topic}}/{{joda:'year'=YYYY/'month'=MM/'day'=dd}}/" + _FILE,
        ),
    ],
    ids=["default", "delimiters", "affix", "hourly", "daily"],
)
def test_names_are_a_template(changes: Mapping[str, str], template: str) -> None:
    """Each partitioner in Headrace's own words."""
    changes = {"value.converter": "io.confluent.connect.avro.AvroConverter", **changes}
    given = {**changes, "value.converter.schema.registry.url": "http://registry:8081"}

    assert _sink(SMALL, given).names.template == template


@pytest.mark.parametrize(
    ("pattern", "duration", "rounded"),
    [("YYYY-MM-dd-HH", "86400000", 86_400_000), ("HH/mm", "600000", 600_000), ("YYYY/HH", "600000", 0)],
)
def test_a_duration_cuts_times_where_the_pattern_is_finer(pattern: str, duration: str, rounded: int) -> None:
    """Else it shows nowhere."""
    changes = {
        **_TIMED,
        "partitioner.class": f"{_PARTITIONER}TimeBasedPartitioner",
        "path.format": pattern,
        "partition.duration.ms": duration,
    }
    own = own_options(_load(SMALL, changes))

    assert own.get("file.name.timestamp.round.ms", "0") == str(rounded)


@pytest.mark.parametrize(
    ("given", "zone"), [("+02:00", "+02:00"), ("-0530", "-05:30"), ("+00:00", "UTC"), ("GMT+2", "+02:00")]
)
def test_an_offset_is_a_time_zone(given: str, zone: str) -> None:
    """Which Confluent's page names first."""
    assert _sink(SMALL, {**_TIMED, "timezone": given}).names.timezone == zone


def test_a_role_is_assumed_as_confluents_provider_does() -> None:
    """With keys of its own, which stay hidden."""
    changes = {
        "s3.credentials.provider.class": "io.confluent.connect.s3.auth.AwsAssumeRoleCredentialsProvider",
        "s3.credentials.provider.sts.role.arn": "arn:aws:iam::123456789012:role/archive",
        "s3.credentials.provider.sts.role.external.id": "ext",
        "s3.credentials.provider.sts.aws.access.key.id": "AKIA",
        "s3.credentials.provider.sts.aws.secret.key.id": "${env:SECRET}",
    }
    settings = _load(SMALL, changes)

    assert isinstance(settings.s3.credentials, RoleCredentials)
    assert settings.s3.credentials.external_id == "ext"
    assert "hunter2" not in repr(settings)


_NORDSTROM: Final = "com.nordstrom.kafka.connect.auth.AWSAssumeRoleCredentialsProvider"


def test_a_role_is_assumed_as_nordstroms_provider_does() -> None:
    """Which several plugins bring: with the default credentials whatever keys there are."""
    settings = _load(
        SMALL,
        {
            "aws.access.key.id": "AKIA",
            "aws.secret.access.key": "${env:SECRET}",
            "s3.credentials.provider.class": _NORDSTROM,
            "s3.credentials.provider.role.arn": "arn:aws:iam::123456789012:role/archive",
            "s3.credentials.provider.session.name": "session",
            "s3.credentials.provider.external.id": "ext",
        },
    )

    found = settings.s3.credentials
    assert isinstance(found, RoleCredentials)
    assert (found.session_name, found.external_id) == ("session", "ext")
    assert isinstance(found.source, DefaultCredentials)


def test_another_class_with_such_options_is_refused() -> None:
    """What they mean is that class's own."""
    changes = {
        "s3.credentials.provider.class": "org.example.AssumeRole",
        "s3.credentials.provider.role.arn": "arn:aws:iam::123456789012:role/archive",
    }
    found = _problems(SMALL, changes)

    assert any("role.arn" in each and "is read by a class of Java" in each for each in found), found


def test_a_key_of_kms_without_kms_is_said() -> None:
    """The objects are not encrypted with it, here and there, as their bucket's owner may believe."""
    (said,) = [each for each in _load(SMALL, {"s3.sse.kms.key.id": "k"}).warnings if "encrypts" in each]

    assert said.startswith("s3.sse.kms.key.id encrypts no object without s3.ssea.name=aws:kms")


def test_tags_encryption_and_retries_are_kept() -> None:
    """As uploads have them."""
    sink = _sink(
        SMALL,
        {
            "s3.object.tagging": "true",
            "s3.object.tagging.key.value.pairs": "team:a, stage:prod",
            "s3.ssea.name": "aws:kms",
            "s3.sse.kms.key.id": "alias/key",
            "s3.acl.canned": "bucket-owner-full-control",
            "s3.part.retries": "200",
            "s3.compression.type": "gzip",
            "s3.compression.level": "9",
        },
    )

    assert (sink.upload.offset_tags, sink.upload.tags) == (True, (("team", "a"), ("stage", "prod")))
    assert (sink.upload.kms_key_id, sink.upload.acl) == ("alias/key", "bucket-owner-full-control")
    assert (sink.output.compression, sink.output.compression_level) == (Compression.GZIP, 9)


_CUSTOMER_KEY: Final = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="


@pytest.mark.parametrize(
    ("algorithm", "used", "needless"),
    [
        (None, {}, {"s3.sse.customer.key", "s3.sse.kms.key.id"}),
        ("AES256", {"aws.s3.sse.customer.key": _CUSTOMER_KEY}, {"s3.sse.kms.key.id"}),
        ("aes256", {"aws.s3.sse.customer.key": _CUSTOMER_KEY}, {"s3.sse.kms.key.id"}),
        (
            "aws:kms",
            {"aws.s3.sse": "aws:kms", "aws.s3.sse.kms.key.id": "alias/mine"},
            {"s3.sse.customer.key"},
        ),
    ],
)
def test_keys_of_encryption_count_with_their_algorithm_alone(
    algorithm: str | None, used: Mapping[str, str], needless: set[str]
) -> None:
    """As in Confluent's sink; the other one decides nothing, and a warning names it."""
    keys = {"s3.sse.customer.key": _CUSTOMER_KEY, "s3.sse.kms.key.id": "alias/mine"}
    settings = _load(SMALL, {**keys, "s3.ssea.name": algorithm})
    translated = settings.translated

    assert translated is not None
    assert {name: text for name, text in own_options(settings).items() if ".sse" in name} == used
    assert {line.option for line in translated if line.fate is Fate.NEEDLESS} == needless
    assert any(
        "accepted though nothing depends" in each and min(needless) in each for each in settings.warnings
    )


_REGISTRY: Final = {
    "value.converter": "io.confluent.connect.avro.AvroConverter",
    "value.converter.schema.registry.url": "http://registry:8081",
}


def test_the_modes_that_write_values_alone_pass() -> None:
    """In the words of the sink's own table."""
    defaults = {"mode": "generic", "format.json.schema.enable": "false"}
    translated = _load(
        SMALL, {**_REGISTRY, **defaults, "value.converter.schema.backup.enabled": "false"}
    ).translated

    assert translated is not None
    notes = {line.option: line.note for line in translated}
    assert all("is what is written" in notes[option] for option in defaults)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"flush.size": None}, "flush.size: is missing; add flush.size=N"),
        ({"format.class": None}, "format.class: is missing; add one of"),
        (
            {"mode": "BACKUP_FULL_RECORD"},
            "mode = 'BACKUP_FULL_RECORD': puts keys, headers and times into rows",
        ),
        ({"mode": "RESTORE_BACKUP"}, "mode = 'RESTORE_BACKUP': expected one of GENERIC, BACKUP_FULL_RECORD"),
        ({"format.json.schema.enable": "true"}, "format.json.schema.enable = 'true': writes a schema into"),
        (
            {**_REGISTRY, "value.converter.schema.backup.enabled": "true"},
            "value.converter.schema.backup.enabled = 'true': has schemas written next to records",
        ),
        ({"storage.class": None}, "storage.class: is missing; add storage.class="),
        (
            {"storage.class": "a.b.Hdfs"},
            "storage.class = 'a.b.Hdfs': is a class that is not known here; the known",
        ),
        (
            {"format.class": "a.B"},
            "format.class = 'a.B': is a class that is not known here; the known ones are",
        ),
        ({"partitioner.class": "a.B"}, "partitioner.class = 'a.B': is a class that is not known here"),
        (
            {**_TIMED, "timestamp.extractor": "a.B"},
            "timestamp.extractor = 'a.B': is an extractor that is not",
        ),
        ({"value.converter": None}, "value.converter: is missing; name the class"),
        (
            {**_TIMED, "timezone": "+2:60"},
            "timezone = '+2:60': expected a time zone such as UTC, Europe/Berlin or +02:00 (here file.",
        ),
        (
            {"s3.object.tagging": "true", "s3.object.tagging.key.value.pairs": "a:b,cost=center:42"},
            "s3.object.tagging.key.value.pairs = 'a:b,cost=center:42': has a name with an equals sign",
        ),
        ({"flush.size": "0"}, "flush.size = '0': expected a whole number from 1"),
        (
            {"rotate.schedule.interval.ms": "60000"},
            "timezone: is missing; rotate.schedule.interval.ms needs it",
        ),
        ({"s3.part.size": "1000"}, "s3.part.size = '1000': expected a whole number from 5242880"),
        (
            {"parquet.codec": "lzo"},
            "parquet.codec = 'lzo': expected one of none, snappy, gzip, zstd, lz4_raw",
        ),
        (
            {"behavior.on.null.values": "write"},
            "store.kafka.keys: is missing; it must be true with behavior.on.null.values=write",
        ),
        (
            {"partitioner.class": f"{_PARTITIONER}FieldPartitioner"},
            "partition.field.name: is missing; FieldPartitioner needs it",
        ),
        (
            {
                "partitioner.class": f"{_PARTITIONER}FieldPartitioner",
                "partition.field.name": "region,a..b",
            },
            "partition.field.name = 'region,a..b': has a..b, which is no name of a field",
        ),
        (
            {
                **_TIMED,
                "partitioner.class": f"{_PARTITIONER}TimeBasedPartitioner",
                "path.format": "YYYY/q",
                "partition.duration.ms": "3600000",
            },
            "path.format = 'YYYY/q': is no pattern that can be written here",
        ),
        (
            {"aws.access.key.id": "${secrets:aws/access-key}", "aws.secret.access.key": "x"},
            "aws.access.key.id:",
        ),
        (
            {"rotate.intervall.ms": "1"},
            "rotate.intervall.ms: is not an option of Confluent's S3 sink or of Headrace; did you mean rot",
        ),
    ],
    ids=lambda value: "" if isinstance(value, dict) else str(value).partition(":")[0],
)
def test_what_is_wrong_is_said_in_its_own_words(changes: Mapping[str, str | None], problem: str) -> None:
    """With the line to add, or the classes that are known."""
    found = _problems(SMALL, changes)

    assert any(each.startswith(problem) for each in found), found
    assert not any("(here sidecars" in each for each in found), "what only follows from a problem is none"


class _Recording(dict[str, str]):
    """Remembers the names that it is asked for."""

    def __init__(self, read: set[str], given: Mapping[str, str]) -> None:
        super().__init__(given)
        self._read = read

    def get(self, name: str, default: Any = None) -> Any:
        """The value, and the name is noted."""
        self._read.add(name)
        return super().get(name, default)


def test_every_option_is_read_or_said_to_decide_nothing() -> None:
    """No row of the table is a promise that the translation does not keep."""
    read: set[str] = set()
    for partitioner in ("Default", "Field", "TimeBased", "Hourly"):
        for provider, algorithm in (
            ("", "aws:kms"),
            (f"{_S3}auth.AwsAssumeRoleCredentialsProvider", "AES256"),
        ):
            given = _Recording(
                read,
                {
                    "partitioner.class": f"{_PARTITIONER}{partitioner}Partitioner",
                    "s3.credentials.provider.class": provider,
                    "store.kafka.keys": "true",
                    "store.kafka.headers": "true",
                    "s3.ssea.name": algorithm,
                },
            )
            CONFLUENT.translate(Translation(given, given, {}, Problems(), {}))
    rows = {row.name: row.fate for row in CONFLUENT.options if not row.name.endswith("*")}
    decided = {name for name, fate in rows.items() if fate in {Fate.KEPT, Fate.CHANGED}}

    assert decided <= read, decided - read
    assert not {name for name, fate in rows.items() if fate is Fate.NEEDLESS} & read
    assert len(rows) == len([row for row in CONFLUENT.options if not row.name.endswith("*")])
