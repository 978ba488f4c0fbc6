"""What makes a configuration a sink's, what it becomes, and what is refused, each with its remedy."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.options import Problem, Settings, SettingsError
from headrace.options.choices import Compression
from headrace.options.sink_forms import topic_pattern
from headrace.options.sink_settings import (
    ConverterKind,
    Encryption,
    NameTimeSource,
    NullValues,
    OutputField,
    OutputFormat,
    SideFormat,
    SideRole,
    SinkSettings,
)
from headrace.options.value_types import FormError
from headrace.vendors.load import load
from tests.headrace.options.loading import load_with, no_file, problems_with

COMPLETE: Mapping[str, str] = {
    "name": "archive",
    "bootstrap.servers": "127.0.0.1:9092",
    "aws.s3.bucket.name": "bucket",
    "topics": "orders,payments",
}
_FLAT = "{{topic}}/{{partition}}-{{start_offset}}"
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_STRING = "org.apache.kafka.connect.storage.StringConverter"
_AVRO = "io.confluent.connect.avro.AvroConverter"


def _load(changes: Mapping[str, str | None]) -> Settings:
    options = {**COMPLETE, **changes}
    given = {name: value for name, value in options.items() if value is not None}
    return load(json.dumps(given), kind="json", environment={"HOME": "/home/me"}, read_file=no_file)


def _sink(changes: Mapping[str, str | None] | None = None) -> SinkSettings:
    sink = _load(changes or {}).sink
    assert sink is not None
    return sink


def _problems(changes: Mapping[str, str | None]) -> tuple[Problem, ...]:
    try:
        _load(changes)
    except SettingsError as error:
        return error.problems
    return ()


def test_a_source_has_no_sink() -> None:
    """Without topics or the sink's class a configuration is a source's."""
    assert load_with().sink is None
    assert load_with({"connector.class": "HeadraceSource"}).sink is None


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="topics"),
        pytest.param({"topics": None, "topics.regex": "or.*"}, id="regex"),
        pytest.param({"connector.class": "HeadraceSink"}, id="class"),
    ],
)
def test_topics_or_the_class_make_a_sink(changes: dict[str, str | None]) -> None:
    """Either says so."""
    assert _load(changes).sink is not None


def test_the_defaults_are_those_of_the_docs() -> None:
    """Own layout, gzip lines of all fields, a minute or 64 MiB."""
    sink = _sink()

    assert (sink.group_id, sink.topics.names, sink.topics.pattern) == (
        "archive",
        ("orders", "payments"),
        None,
    )
    assert (sink.output.format, sink.output.compression) == (OutputFormat.JSONL, Compression.GZIP)
    assert sink.output.fields == tuple(OutputField)
    assert sink.output.envelope
    assert (
        sink.names.template == "{{topic}}/{{partition}}/{{start_offset:padding=true}}.headrace{{extension}}"
    )
    assert (sink.names.time_source, sink.names.timezone) == (NameTimeSource.EVENT, "UTC")
    rotation = sink.rotation
    assert (rotation.records, rotation.bytes, rotation.age_ms) == (0, 67_108_864, 60_000)
    assert (rotation.span_ms, rotation.schedule_ms, rotation.max_age_ms) == (0, 0, 3_600_000)
    assert sink.buffer.directory == Path("/home/me/.local/state/headrace/buffer")
    assert (sink.buffer.max_bytes, sink.buffer.max_open_objects) == (134_217_728, 10_000)
    assert (sink.upload.part_bytes, sink.upload.encryption) == (16_777_216, None)
    assert {sink.converters.key.kind, sink.converters.value.kind} == {ConverterKind.BYTES}


@pytest.mark.parametrize("topic", ["__debezium-heartbeat", "__consumer_offsets"])
def test_a_pattern_of_our_own_class_means_no_internal_topic(topic: str) -> None:
    """As docs/options.md says."""
    assert not _sink({"topics": None, "topics.regex": ".*"}).topics.has(topic)


def test_every_option_of_a_sink_arrives() -> None:
    """No option is read and ignored."""
    sink = _sink(
        {
            "topics": None,
            "topics.regex": "or.*|pay",
            "aws.s3.prefix": "backup/",
            "file.name.template": "{{topic}}/{{date:yyyy/MM}}/{{partition}}-{{start_offset}}{{extension}}",
            "file.name.timestamp.source": "value:at.ms",
            "timezone": "Europe/Berlin",
            "output.format": "parquet",
            "output.fields": "value",
            "output.envelope": "false",
            "file.compression.level": "3",
            "key.converter": _STRING,
            "value.converter": _JSON,
            "value.converter.schemas.enable": "false",
            "header.converter": _STRING,
            "rotate.records": "10",
            "rotate.bytes": "11",
            "rotate.age.ms": "12",
            "rotate.span.ms": "13",
            "rotate.schedule.ms": "14",
            "open.object.max.age.ms": "15",
            "buffer.max.bytes": "20000000",
            "buffer.dir": "/buffer",
            "max.open.files": "16",
            "behavior.on.null.values": "ignore",
            "aws.s3.part.size": "5242880",
            "aws.s3.object.tags": "offsets, team=data",
            "aws.s3.storage.class": "standard_ia",
            "aws.s3.acl": "bucket-owner-full-control",
            "aws.s3.sse": "aws:kms",
            "aws.s3.sse.kms.key.id": "alias/key",
            "schema.compatibility": "FULL",
        }
    )

    assert (sink.topics.names, sink.topics.pattern) == ((), "or.*|pay")
    assert (sink.names.prefix, sink.names.value_path) == ("backup/", ("at", "ms"))
    assert (sink.names.time_source, sink.names.timezone) == (NameTimeSource.VALUE, "Europe/Berlin")
    assert sink.names.template.startswith("{{topic}}/{{date:")
    output = sink.output
    assert (output.format, output.fields, output.envelope) == (
        OutputFormat.PARQUET,
        (OutputField.VALUE,),
        False,
    )
    assert (output.compression, output.compression_level) == (Compression.ZSTD, 3)
    assert (output.schema_compatibility, output.null_values) == ("full", NullValues.IGNORE)
    converters = sink.converters
    assert [converters.key.kind, converters.value.kind, converters.header.kind] == [
        "string",
        "json",
        "string",
    ]
    assert (converters.value.schemas_enable, converters.key.schemas_enable) == (False, None)
    rotation = sink.rotation
    assert [rotation.records, rotation.bytes, rotation.age_ms] == [10, 11, 12]
    assert [rotation.span_ms, rotation.schedule_ms, rotation.max_age_ms] == [13, 14, 15]
    assert rotation.timezone == "Europe/Berlin"
    assert (sink.buffer.max_bytes, sink.buffer.directory) == (20_000_000, Path("/buffer"))
    assert sink.buffer.max_open_objects == 16
    upload = sink.upload
    assert (upload.part_bytes, upload.offset_tags, upload.tags) == (5_242_880, True, (("team", "data"),))
    assert (upload.storage_class, upload.acl) == ("STANDARD_IA", "bucket-owner-full-control")
    assert (upload.encryption, upload.kms_key_id) == (Encryption.KMS, "alias/key")


def test_a_customer_key_is_a_secret() -> None:
    """It arrives, and shows nowhere."""
    key = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
    settings = _load({"aws.s3.sse.customer.key": key, "aws.s3.sse.customer.algorithm": "AES256"})

    assert settings.sink is not None
    assert settings.sink.upload.customer_key is not None
    assert settings.sink.upload.customer_key.reveal() == key
    assert key not in repr(settings)
    assert key not in str(settings.shown)


@pytest.mark.parametrize(
    ("given", "style"),
    [
        pytest.param({}, False, id="amazon"),
        pytest.param({"aws.s3.endpoint": "http://127.0.0.1:1"}, True, id="endpoint"),
        pytest.param(
            {"aws.s3.endpoint": "http://127.0.0.1:1", "aws.s3.path.style.access": "false"}, False, id="given"
        ),
        pytest.param({"aws.s3.path.style.access": "true"}, True, id="asked for"),
    ],
)
def test_path_style_is_as_given_or_by_the_endpoint(given: dict[str, str | None], *, style: bool) -> None:
    """For both directions."""
    assert _load(given).s3.path_style is style
    assert load_with(given).s3.path_style is style


def test_bytes_hold_the_value_unless_another_field_is_named() -> None:
    """The default of all fields is not what one column holds."""
    assert _sink({"output.format": "bytes"}).output.fields == (OutputField.VALUE,)
    output = _sink({"output.format": "text", "output.fields": "key", "output.separator": "\\x00\\n"}).output
    assert (output.fields, output.envelope, output.separator) == ((OutputField.KEY,), False, b"\x00\n")


def test_a_source_of_aivens_keeps_its_options_without_a_meaning() -> None:
    """They are options of sinks, and were accepted before."""
    settings = load_with({"header.converter": _STRING, "file.name.timestamp.source": "wallclock"})

    assert settings.warnings == (
        "accepted without a meaning here: file.name.timestamp.source, header.converter",
    )


@pytest.mark.parametrize(
    ("option", "changes", "remedy"),
    [
        ("topics", {"connector.class": "HeadraceSink", "topics": None}, "topics.regex"),
        ("topics", {"topics.regex": "a"}, "keep one of them"),
        ("topics", {"topics": "archive-offsets"}, "leave it out"),
        ("topics", {"connector.class": "HeadraceSource"}, "use topic"),
        ("topics.regex", {"topics": None, "topics.regex": "("}, "regular expression"),
        ("topics.regex", {"topics": None, "topics.regex": "orders[a[0-9]]"}, "a class within a class"),
        ("topics.regex", {"topics": None, "topics.regex": "[]a]x[[a-z]_]+"}, "a class within a class"),
        (
            "key.converter",
            {"connector.class": "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector"},
            "--worker-config",
        ),
        ("topic", {"topic": "x"}, "use topics"),
        ("input.format", {"input.format": "jsonl"}, "use output.format"),
        ("sqs.queue.url", {"sqs.queue.url": "http://sqs:1/0/queue"}, "remove it"),
        ("poll.listing", {"poll.listing": "full"}, "remove it"),
        ("restore.value", {"restore.value": "json"}, "remove it"),
        ("errors.retry.delay.ms", {"errors.retry.delay.ms": "5"}, "aws.s3.backoff"),
        ("transaction.boundary.records", {"transaction.boundary.records": "5"}, "rotate.records"),
        ("ledger.retention.ms", {"ledger.retention.ms": "5"}, "remove it"),
        ("key.source", {"key.source": "none"}, "use key.converter"),
        ("value.format", {"value.format": "json"}, "use value.converter"),
        ("file.max.records", {"file.max.records": "3"}, "use rotate.records"),
        ("file.prefix.template", {"file.prefix.template": "a"}, "file.name.template"),
        ("output.layout", {"output.layout": "other"}, "expected one of aiven"),
        ("sidecars", {"sidecars": "keys", "output.layout": "quix"}, "output.layout=quix"),
        ("sidecars", {"sidecars": "values"}, "keys and headers"),
        ("output.fields", {"sidecars": "keys", "output.fields": "key,value"}, "has the key"),
        (
            "output.fields",
            {"sidecars": "keys", "output.fields": "key", "output.format": "bytes"},
            "has the key",
        ),
        ("sidecars.keys.format", {"sidecars": "headers", "sidecars.keys.format": "avro"}, "without keys"),
        ("sidecars.keys.format", {"sidecars": "keys", "sidecars.keys.format": "csv"}, "one of avro"),
        (
            "sidecars.keys.compression.type",
            {"sidecars": "keys", "sidecars.keys.compression.type": "lzo"},
            "expected",
        ),
        (
            "sidecars.headers.compression.type",
            {
                "sidecars": "headers",
                "sidecars.headers.format": "parquet",
                "sidecars.headers.compression.type": "xz",
            },
            "sidecars.headers.format=parquet",
        ),
        (
            "sidecars.tombstones.directory",
            {"file.name.template": _FLAT, "sidecars.tombstones.directory": "gone"},
            "without keys",
        ),
        (
            "sidecars.tombstones.directory",
            {"sidecars": "keys", "sidecars.tombstones.directory": "gone"},
            "makes the template {{topic}}/gone/",
        ),
        (
            "sidecars.tombstones.directory",
            {
                "sidecars": "keys",
                "sidecars.tombstones.directory": "gone",
                "file.name.template": "{{topic}}-{{joda:YYYY/MM}}-{{partition}}+{{start_offset}}",
            },
            "{{topic}}-{{joda:YYYY/gone/MM}}-{{partition}}+{{start_offset}}, which is none",
        ),
        (
            "sidecars.tombstones.template",
            {"sidecars": "keys", "sidecars.tombstones.template": "{{topic}}-gone"},
            "makes the template {{topic}}-gone, which needs",
        ),
        (
            "sidecars.tombstones.template",
            {"sidecars.tombstones.template": "{{topic}}-gone-{{partition}}-{{start_offset}}"},
            "without keys",
        ),
        (
            "sidecars.tombstones.directory",
            {
                "sidecars": "keys",
                "sidecars.tombstones.directory": "gone",
                "sidecars.tombstones.template": "{{topic}}-gone-{{partition}}-{{start_offset}}",
                "file.name.template": _FLAT,
            },
            "exclude each other",
        ),
        (
            "sidecars.tombstones.directory",
            {
                "sidecars": "keys",
                "sidecars.tombstones.directory": "gone",
                "behavior.on.null.values": "ignore",
                "file.name.template": _FLAT,
            },
            "behavior.on.null.values=ignore",
        ),
        ("record.max.bytes", {"record.max.bytes": "1000"}, "producer.override.message.max.bytes"),
        ("transaction.boundary.interval.ms", {"transaction.boundary.interval.ms": "500"}, "rotate.age.ms"),
        (
            "schema.registry.auto.register.schemas",
            {"schema.registry.auto.register.schemas": "false"},
            "registers none",
        ),
        (
            "schema.registry.subject.name.strategy",
            {"schema.registry.subject.name.strategy": "record"},
            "by the schema that it names",
        ),
        ("file.name.template", {"file.name.template": "{{topic}}-{{partition}}"}, "{{start_offset}}"),
        ("file.name.template", {"file.name.template": "{{partition}}-{{start_offset}}"}, "{{topic}}"),
        ("file.name.template", {"file.name.template": "{{topic}}-{{start_offset}}"}, "{{partition}}"),
        (
            "file.name.template",
            {"file.name.template": "{{topic}}/{{partition}}{{start_offset}}"},
            "put a sign between",
        ),
        (
            "file.name.template",
            {"file.name.template": "{{value:a}}-{{value:b}}/{{topic}}/{{partition}}/{{start_offset}}"},
            "put a sign between",
        ),
        ("file.name.template", {"topics": "a", "file.name.template": "{{key}}/{{value:b}}"}, "{{value}}"),
        (
            "file.name.template",
            {
                "value.converter": _STRING,
                "file.name.template": "{{value:a}}/{{topic}}/{{partition}}/{{start_offset}}",
            },
            "JsonConverter",
        ),
        ("file.name.template", {"file.name.template": "{{topic}}/{{date:YYYY}}"}, "write yyyy"),
        ("file.name.template", {"file.name.template": "{{tpoic}}"}, "{{topic}}"),
        ("file.name.template", {"file.name.template": "../{{topic}}/{{partition}}/{{start_offset}}"}, ".."),
        (
            "file.name.template",
            {"file.name.template": "topic_id=/{{topic}}/{{partition}}/{{start_offset}}"},
            "topic_id=",
        ),
        (
            "file.name.template",
            {"file.name.template": "{{topic}}/{{partition}}/{{end_offset:padding=9,side=right}}"},
            "cannot be told from it",
        ),
        ("file.name.template", {"file.name.template": "{{start_offset:padding=x}}"}, "padding=N"),
        ("file.name.template", {"file.name.template": "{{start_offset:padding=99}}"}, "at most 64"),
        ("file.name.template", {"file.name.template": "{{value:a..b}}"}, "part of the path is empty"),
        (
            "file.name.template",
            {"file.name.template": "{{topic:hyphens=_}}/{{partition}}/{{start_offset}}", "topics": "a-b,a_b"},
            "two of its topics one name",
        ),
        (
            "file.name.template",
            {"file.name.template": "{{schema_name}}/{{topic}}/{{partition}}/{{start_offset}}"},
            "AvroConverter",
        ),
        (
            "file.name.template",
            {
                "file.name.template": "{{date:yyyy z}}/{{topic}}/{{partition}}/{{start_offset}}",
                "timezone": "America/Sao_Paulo",
            },
            "XXX",
        ),
        (
            "file.name.locale",
            {
                "file.name.template": "{{date:yyyy MMM}}/{{topic}}/{{partition}}/{{start_offset}}",
                "file.name.locale": "de_de",
            },
            "de-DE, whose words",
        ),
        ("file.name.locale", {"file.name.locale": "english"}, "en-US"),
        ("file.name.missing", {"file.name.missing": "none"}, "file.name.values=plain"),
        (
            "file.name.template",
            {
                "file.name.values": "plain",
                "file.name.template": "{{value:a}}{{start_offset}}/{{topic}}/{{partition}}",
            },
            "put a sign between",
        ),
        ("file.name.timestamp.source", {"file.name.timestamp.source": "value"}, "value:PATH"),
        ("file.name.timestamp.timezone", {"timezone": "Mars/Olympus"}, "Europe/Berlin or +02:00"),
        ("output.fields", {"output.envelope": "false"}, "name it alone"),
        ("output.fields", {"output.format": "text", "output.fields": "key,value"}, "name it alone"),
        ("output.fields", {"output.format": "bytes", "output.fields": "offset"}, "a key or a value"),
        ("output.envelope", {"output.format": "bytes", "output.envelope": "true"}, "no members"),
        ("csv.quote", {"output.format": "csv", "csv.quote": ""}, "is empty"),
        ("csv.quote", {"output.format": "csv", "csv.quote": ";", "csv.delimiter": ";"}, "is csv.delimiter"),
        ("csv.quote", {"output.format": "csv", "csv.delimiter": '"'}, "is csv.delimiter"),
        ("file.compression.type", {"file.compression.type": "xz"}, "gzip"),
        ("file.compression.level", {"file.compression.level": "10"}, "1 to 9"),
        ("file.compression.level", {"file.compression.type": "none", "file.compression.level": "1"}, "none"),
        ("value.converter", {"value.converter": _AVRO}, "schema.registry.url"),
        (
            "value.converter",
            {"value.converter": "io.confluent.connect.protobuf.ProtobufConverter"},
            "schema.registry.url",
        ),
        ("header.converter", {"header.converter": _AVRO}, "StringConverter"),
        ("key.converter.schemas.enable", {"key.converter.schemas.enable": "true"}, "JsonConverter"),
        (
            "open.object.max.age.ms",
            {"open.object.max.age.ms": "0", "rotate.age.ms": "0", "rotate.bytes": "0"},
            "set one of them",
        ),
        ("aws.s3.part.size", {"aws.s3.part.size": "20000000", "buffer.max.bytes": "16777216"}, "exceed"),
        ("aws.s3.sse.kms.key.id", {"aws.s3.sse.kms.key.id": "k"}, "aws:kms"),
        ("aws.s3.sse.customer.algorithm", {"aws.s3.sse.customer.algorithm": "AES256"}, "customer.key"),
        ("aws.s3.prefix", {"aws.s3.prefix": "./data/"}, "has a directory '.' or '..'"),
        ("aws.s3.prefix", {"aws.s3.prefix": "data/../"}, "has a directory '.' or '..'"),
        ("aws.s3.object.tags", {"aws.s3.object.tags": "team"}, "name=value"),
        ("aws.s3.object.tags", {"aws.s3.object.tags": "a=b, AWS:team=c"}, "aws: are AWS's own"),
        ("errors.deadletterqueue.topic.name", {"errors.deadletterqueue.topic.name": "orders"}, "another one"),
    ],
)
def test_what_cannot_be_is_refused_with_the_remedy(
    option: str, changes: dict[str, str | None], remedy: str
) -> None:
    """One problem of the option that is wrong, and the remedy in it."""
    found = [problem for problem in _problems(changes) if problem.option.strip() in {option, "timezone"}]

    assert len(found) == 1, _problems(changes)
    assert remedy in found[0].message


@pytest.mark.parametrize("option", ["rotate.records", "output.format", "buffer.dir", "aws.s3.acl"])
def test_a_sinks_options_are_refused_in_a_source(option: str) -> None:
    """They would be read and ignored there."""
    value = {"output.format": "jsonl", "aws.s3.acl": "private"}.get(option, "1")

    assert [str(each.option) for each in problems_with({option: value})] == [option]


def test_a_template_of_keys_alone_goes_without_offsets() -> None:
    """It overwrites by design."""
    assert _sink({"topics": "orders", "file.name.template": "{{key}}{{extension}}"}).names.template
    assert _sink({"file.name.template": "{{topic}}/{{key}}"}).names.template


def test_what_is_shown_is_of_the_direction() -> None:
    """Defaults of the other one would say what nobody does."""
    sink, source = dict(_load({}).shown), dict(load_with().shown)

    assert sink["rotate.age.ms"] == "60000"
    assert sink["file.name.template"].endswith(".headrace{{extension}}")
    assert sink["buffer.dir"] == "/home/me/.local/state/headrace/buffer"
    assert "input.format" not in sink
    assert source["input.format"] == "bytes"
    assert not [name for name in source if name.startswith(("rotate.", "output.", "file.name.timestamp"))]


def test_a_dead_letter_topic_that_gets_nothing_is_a_warning_in_the_sinks_words() -> None:
    """A sink's bad record stops its partition."""
    (warning,) = _load({"errors.deadletterqueue.topic.name": "dead"}).warnings

    assert warning.endswith("stops its partition instead")


def test_side_objects_take_the_compression_that_their_format_can_have() -> None:
    """Fields that stand beside are no fields of the rows."""
    sink = _sink({"sidecars": "keys,headers", "sidecars.headers.format": "jsonl"})
    assert OutputField.KEY not in sink.output.fields
    assert OutputField.HEADERS not in sink.output.fields
    formats = sink.output.sidecars.formats
    assert formats[SideRole.KEYS] == SideFormat(format=OutputFormat.AVRO, compression=Compression.GZIP)
    assert formats[SideRole.HEADERS] == SideFormat(format=OutputFormat.JSONL, compression=Compression.GZIP)


def test_the_directory_of_tombstones_replaces_those_of_the_partition() -> None:
    """What stands before the topic's stays."""
    sink = _sink(
        {
            "file.name.template": "a/{{topic}}/y={{date:yyyy}}/{{partition}}/"
            "{{topic}}+{{partition}}+{{start_offset}}",
            "sidecars": "keys",
            "sidecars.tombstones.directory": "tombstone",
        }
    )
    assert sink.output.sidecars.tombstone_template == (
        "a/{{topic}}/tombstone/{{topic}}+{{partition}}+{{start_offset}}"
    )


def test_java_takes_flags_after_the_beginning_of_an_expression() -> None:
    """Python does not; intersections and unions of classes, which Python reads otherwise, are refused."""
    assert topic_pattern(" ^(?i)a.* ") == "(?i)^a.*"
    with pytest.raises(FormError, match=r"has && within"):
        topic_pattern("[a-z&&[^b]]+")
    assert topic_pattern(r"a&&b") == "a&&b"
    assert topic_pattern(r"[]a](\[|[\[b])") == r"[]a](\[|[\[b])"
