import json
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.options import Settings, SettingsError, describe
from headrace.options.choices import (
    Compression,
    CredentialsProvider,
    EnvelopeField,
    FieldHeaders,
    FieldSource,
    InputFormat,
    JsonFormat,
    ObjectHeaders,
    Ordering,
    Packing,
    TemplateHeaders,
    TemplateSource,
    TemplateTime,
    Tolerance,
    ValueFormat,
)
from headrace.options.row_settings import PackingSettings
from headrace.options.secret import Secret
from headrace.options.settings import (
    DeadLetterSettings,
    DefaultCredentials,
    ProviderCredentials,
    RoleCredentials,
    StaticCredentials,
    TopicCreation,
)
from headrace.options.value_types import HostPort
from headrace.vendors.load import load
from tests.headrace.options.loading import COMPLETE, load_with, no_file

PUBLISHED = """\
{"name": "aiven-s3-source-connector",
 "connector.class": "io.aiven.kafka.connect.s3.source.S3SourceConnector",
 "aws.access.key.id": "AKIAIOSFODNN7EXAMPLE", "aws.secret.access.key": "wJalrXUtnFEMI/K7MDENG",
 "aws.s3.bucket.name": "uploads", "aws.s3.region": "eu-west-1", "aws.s3.prefix": "optional/prefix/",
 "aws.credentials.provider": "software.amazon.awssdk.auth.credentials.AwsCredentialsProviderChain",
 "topic": "events", "file.name.template": "{{topic}}-{{partition}}-{{start_offset}}",
 "tasks.max": 1, "poll.interval.ms": 10000, "error.tolerance": "all", "input.format": "jsonl"}
"""


def load_json(text: str) -> Settings:
    """Load a JSON text with nothing beside it."""
    return load(text, kind="json", environment={}, read_file=no_file)


def test_published_example_of_the_aiven_connector_loads_with_a_broker_set_beside_it() -> None:
    """Published example of the aiven connector loads with a broker set beside it."""
    settings = load(
        PUBLISHED,
        kind="json",
        environment={},
        read_file=no_file,
        overrides={"bootstrap.servers": "broker:9092"},
    )

    assert settings.name == "aiven-s3-source-connector"
    assert settings.identity.tasks_max == 1
    assert settings.kafka.bootstrap_servers == "broker:9092"
    assert settings.kafka.ledger_topic == "aiven-s3-source-connector-offsets"
    assert settings.s3.bucket == "uploads"
    assert settings.s3.prefix == "optional/prefix/"
    assert settings.s3.region == "eu-west-1"
    assert settings.s3.credentials == StaticCredentials(
        access_key_id="AKIAIOSFODNN7EXAMPLE",
        secret_access_key=Secret("wJalrXUtnFEMI/K7MDENG"),
        session_token=None,
    )
    assert settings.sqs is None
    assert settings.discovery.poll_interval_ms == 10_000
    assert settings.errors.tolerance is Tolerance.ALL
    assert settings.format.input_format is InputFormat.JSONL
    assert settings.routing.topic == "events"
    assert settings.warnings == ()


def test_bootstrap_servers_and_log_in_may_come_from_a_connect_worker_file() -> None:
    """Bootstrap servers and log in may come from a connect worker file."""
    worker = """\
bootstrap.servers=one:9092,two:9092
group.id=connect-cluster
key.converter=org.apache.kafka.connect.json.JsonConverter
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
    username="worker" password="w0rker";
producer.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
    username="producer" password="pr0ducer";
producer.acks=1
"""
    settings = load(PUBLISHED, kind="json", environment={}, read_file=no_file, worker_config=worker)

    assert settings.kafka.bootstrap_servers == "one:9092,two:9092"
    assert settings.kafka.client("consumer")["sasl.username"] == "worker"
    assert settings.kafka.client("producer")["sasl.username"] == "producer"
    assert settings.kafka.client("producer")["sasl.password"] == "pr0ducer"
    assert "acks" not in settings.kafka.client("producer")
    assert settings.format.key_format is ValueFormat.AUTO


def test_an_override_wins_over_the_file_and_the_file_over_the_worker() -> None:
    """An override wins over the file and the file over the worker."""
    settings = load(
        json.dumps({**COMPLETE, "aws_s3_region": "eu-west-1"}),
        kind="json",
        environment={},
        read_file=no_file,
        overrides={"aws.s3.region": "eu-central-1"},
        worker_config="bootstrap.servers=worker:9092\n",
    )

    assert settings.s3.region == "eu-central-1"
    assert settings.kafka.bootstrap_servers == "127.0.0.1:9092"


def test_both_shapes_of_connect_and_properties_say_the_same() -> None:
    """Both shapes of connect and properties say the same."""
    options = {name: value for name, value in COMPLETE.items() if name != "name"}
    nested = load_json(json.dumps({"name": "uploads", "config": options}))
    repeated = load_json(json.dumps({"name": "uploads", "config": COMPLETE}))
    flat = load_json(json.dumps(COMPLETE))
    properties = load(
        "".join(f"{name} = {value}\n" for name, value in COMPLETE.items()),
        kind="properties",
        environment={},
        read_file=no_file,
    )

    assert nested == repeated == flat == properties


def test_numbers_and_booleans_need_no_quotation_marks() -> None:
    """Numbers and booleans need no quotation marks."""
    settings = load_json(
        json.dumps({**COMPLETE, "tasks.max": 3, "include.existing": False, "aws.s3.requester.pays": True})
    )

    assert settings.identity.tasks_max == 3
    assert settings.discovery.include_existing is False
    assert settings.s3.requester_pays is True


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    """A byte order mark is no part of the text."""
    assert load_json("\ufeff" + json.dumps(COMPLETE)) == load_with()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param('{\n  "name" "x"}', "the JSON is broken at line 2, column 10: ", id="no colon"),
        pytest.param("", "the text is empty; what is read is one JSON object, {", id="nothing"),
        pytest.param(" \n", "the text is empty; what is read is one JSON object, {", id="blank"),
        pytest.param(
            "# orders\nname: orders\ntopic: x\n",
            "the text is not JSON but looks like YAML; what is read is one JSON object, ",
            id="YAML",
        ),
        pytest.param("---\nname: x\n", "the text is not JSON but looks like YAML; ", id="YAML, a document"),
        pytest.param(
            "name=orders\ntopic=x\n",
            "the text is not JSON but looks like Java properties; what is read is one JSON object, ",
            id="properties by another name",
        ),
        pytest.param("orders", "the text is not JSON; what is read is one JSON object, ", id="a word"),
        pytest.param("[1, 2]", "the JSON is not an object; expected ", id="a list"),
        pytest.param('{"a": NaN}', "the JSON holds NaN or Infinity, ", id="NaN"),
        pytest.param("[" * 200_000, "the JSON is nested too deeply; ", id="deep"),
    ],
)
def test_a_broken_json_text_is_told_in_one_sentence(text: str, message: str) -> None:
    """A broken JSON text is told in one sentence."""
    with pytest.raises(SettingsError) as caught:
        load_json(text)

    (problem,) = caught.value.problems
    assert str(problem).startswith(message)


def test_a_broken_properties_text_names_the_line() -> None:
    """A broken properties text names the line."""
    with pytest.raises(SettingsError, match=r"line 2: expected four hexadecimal digits after \\u"):
        load("name=x\ntopic=\\u12\n", kind="properties", environment={}, read_file=no_file)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param('{"name": "x", "name": "y"}', "name: given twice; keep one of them", id="duplicate"),
        pytest.param(
            '{"topic": null}', "topic: is null; expected a text, a number or a boolean", id="null value"
        ),
        pytest.param(
            '{"topic": ["a"]}', "topic: is a list; expected a text, a number or a boolean", id="list value"
        ),
        pytest.param(
            '{"name": "x", "config": {}, "tasks": 1}',
            'tasks: is next to "config"; move it inside',
            id="beside config",
        ),
        pytest.param(
            '{"name": "x", "config": {"name": "y"}}', "name: given twice; keep one of them", id="two names"
        ),
    ],
)
def test_what_json_may_not_hold(text: str, problem: str) -> None:
    """What JSON may not hold."""
    with pytest.raises(SettingsError) as caught:
        load_json(text)

    assert problem in map(str, caught.value.problems)


def test_references_are_replaced_and_shown_as_references() -> None:
    """References are replaced and shown as references."""
    files = {"/run/secrets/s3.properties": "key = AKIA\nsecret: s3cr=t\n"}
    options = {
        **COMPLETE,
        "aws.s3.bucket.name": "${env:BUCKET}-${env:STAGE}",
        "aws.access.key.id": "${file:/run/secrets/s3.properties:key}",
        "aws.secret.access.key": "${file:/run/secrets/s3.properties:secret}",
        "spark.hadoop.some.path": "${system:user.home}/x",
    }
    settings = load(
        json.dumps(options),
        kind="json",
        environment={"BUCKET": "uploads", "STAGE": "prod"},
        read_file=files.__getitem__,
    )

    assert settings.s3.bucket == "uploads-prod"
    assert isinstance(settings.s3.credentials, StaticCredentials)
    assert settings.s3.credentials.secret_access_key.reveal() == "s3cr=t"
    assert settings.spark.conf()["spark.hadoop.some.path"] == "${system:user.home}/x"
    assert describe(settings)["aws.s3.bucket.name"] == "${env:BUCKET}-${env:STAGE}"


@pytest.mark.parametrize("provider", ["dir", "directory"])
def test_a_file_by_either_name_of_the_provider(provider: str) -> None:
    """Strimzi's page calls it `directory`."""
    reference = f"${{{provider}:/opt/kafka/external-configuration/s3:bucket}}"
    files = {"/opt/kafka/external-configuration/s3/bucket": "uploads"}
    settings = load(
        json.dumps({**COMPLETE, "aws.s3.bucket.name": reference}),
        kind="json",
        environment={},
        read_file=files.__getitem__,
    )

    assert settings.s3.bucket == "uploads"
    assert describe(settings)["aws.s3.bucket.name"] == reference


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        pytest.param("${env:}", "${env:} is no reference; expected ${env:NAME}", id="no variable"),
        pytest.param("${env:a:b}", "${env:a:b} is no reference; expected ${env:NAME}", id="a path too many"),
        pytest.param("${file:/x}", "${file:/x} is no reference; expected ${file:PATH:KEY}", id="no key"),
        pytest.param("${dir::x}", "${dir::x} is no reference; expected ${dir:PATH:FILE}", id="no folder"),
        pytest.param("${env:NOT_THERE}", "the environment variable NOT_THERE is not set", id="variable"),
        pytest.param(
            "${file:/etc/x:key}", "the file /etc/x cannot be read: No such file or directory", id="file"
        ),
        pytest.param("${file:/etc/y:key}", "the file /etc/y has no entry 'key'", id="entry"),
        pytest.param("${file:/etc/z:key}", "the file /etc/z cannot be read as text", id="binary"),
        pytest.param(
            "${vault:a:b}",
            "knows the references ${env:NAME}, ${file:PATH:KEY} and ${dir:PATH:FILE}, not those of 'vault'",
            id="provider",
        ),
        pytest.param(
            "${dir:/run/secrets:z}",
            "the file /run/secrets/z cannot be read: No such file or directory",
            id="dir",
        ),
        pytest.param(
            "${directory:/run/secrets:z}",
            "the file /run/secrets/z cannot be read: No such file or directory",
            id="directory",
        ),
        pytest.param(
            "${directory::x}", "${directory::x} is no reference; expected ${dir:PATH:FILE}", id="no directory"
        ),
    ],
)
def test_a_reference_to_nothing_is_a_problem_of_its_option(reference: str, message: str) -> None:
    """A reference to nothing is a problem of its option."""

    def read(path: str) -> str:
        if path == "/etc/y":
            return "other=1"
        if path == "/etc/z":
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
        return no_file(path)

    with pytest.raises(SettingsError) as caught:
        load(json.dumps({**COMPLETE, "topic": reference}), kind="json", environment={}, read_file=read)

    assert [str(problem) for problem in caught.value.problems] == [f"topic: {message}"]


def test_options_without_a_meaning_are_one_warning() -> None:
    """Options without a meaning are one warning."""
    given = ("aws.s3.fetch.page.size", "expected.max.message.bytes", "max.poll.records", "ring.buffer.size")
    settings = load_with(dict.fromkeys(given, "5"))

    assert settings.warnings == (f"accepted without a meaning here: {', '.join(given)}",)


def test_a_dead_letter_topic_that_gets_nothing_is_a_warning() -> None:
    """A dead letter topic that gets nothing is a warning."""
    settings = load_with({"errors.deadletterqueue.topic.name": "bad"})

    assert settings.errors.dead_letter is None
    assert settings.warnings == (
        (
            "errors.deadletterqueue.topic.name gets nothing while errors.tolerance is none: a bad record "
            "quarantines its object instead"
        ),
    )


@pytest.mark.parametrize(
    ("variables", "warned"),
    [
        ({}, ()),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, ()),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, ("OTEL_EXPORTER_OTLP_PROTOCOL is grpc",)),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}, ()),
        (
            {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json"},
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL is http/json",),
        ),
    ],
)
def test_traces_by_another_protocol_are_a_warning(variables: dict[str, str], warned: tuple[str, ...]) -> None:
    """The port of that protocol's endpoint is mostly another one; without traces nothing is said."""
    assert load_with({}, **variables).warnings == ()
    found = load_with({"traces.exporter": "otlp"}, **variables).warnings
    assert tuple(one.partition(",")[0] for one in found) == warned


def test_queue_options_without_a_queue_are_a_warning() -> None:
    """Queue options without a queue are a warning."""
    settings = load_with({"sqs.region": "eu-west-1", "sqs.receivers": "4"})

    assert settings.sqs is None
    assert settings.warnings == ("without sqs.queue.url these have nothing to do: sqs.region, sqs.receivers",)


def test_defaults() -> None:
    """Defaults."""
    settings = load_with(HOME="/home/someone")

    assert settings.identity.group_id == "headrace-uploads"
    assert settings.identity.tasks_max is None
    assert settings.kafka.exactly_once
    assert settings.kafka.message_max_bytes == 1_048_576 + 65_536
    assert settings.kafka.topic_creation is None
    assert settings.s3.credentials == DefaultCredentials()
    assert settings.format.compression is Compression.AUTO
    assert settings.errors.dead_letter is None
    assert settings.http.listen == HostPort("127.0.0.1", 8085)
    assert settings.http.rest_listen is None
    assert settings.spark.master == "local[*]"
    assert settings.state_dir == Path("/home/someone/.local/state/headrace")


def test_queue_takes_the_region_of_the_bucket() -> None:
    """Queue takes the region of the bucket."""
    url = "https://sqs.eu-west-1.amazonaws.com/123456789012/uploads"
    queue = load_with({"sqs.queue.url": url, "aws.s3.region": "eu-west-1"}).sqs
    elsewhere = load_with({"sqs.queue.url": url, "sqs.region": "eu-west-3"}).sqs

    assert queue is not None
    assert elsewhere is not None
    assert queue.queue_url == url
    assert (queue.region, elsewhere.region) == ("eu-west-1", "eu-west-3")
    assert (queue.wait_time_seconds, queue.visibility_timeout_seconds, queue.max_held) == (20, None, 2000)


@pytest.mark.parametrize(
    ("given", "environment", "expected"),
    [
        pytest.param(None, {"XDG_STATE_HOME": "/state", "HOME": "/h"}, "/state/headrace", id="xdg"),
        pytest.param(
            None, {"XDG_STATE_HOME": "state", "HOME": "/h"}, "/h/.local/state/headrace", id="relative"
        ),
        pytest.param(None, {}, ".local/state/headrace", id="homeless"),
        pytest.param("~/cache", {"HOME": "/h"}, "/h/cache", id="tilde"),
        pytest.param("/var/lib/headrace", {"HOME": "/h"}, "/var/lib/headrace", id="given"),
    ],
)
def test_state_dir(given: str | None, environment: dict[str, str], expected: str) -> None:
    """State dir."""
    assert load_with({"state.dir": given}, **environment).state_dir == Path(expected)


@pytest.mark.parametrize("exactly", ["required", "disabled"])
@pytest.mark.parametrize(("given", "expected"), [(None, "15000"), ("9000", "9000"), ("60000", "15000")])
def test_transactions_time_out_as_given_and_in_15_seconds_at_most(
    exactly: str, given: str | None, expected: str
) -> None:
    """Without transactions of records too: the ledger's remain, and a broker may allow none that long."""
    kafka = load_with(
        {"exactly.once.support": exactly, "producer.override.transaction.timeout.ms": given}
    ).kafka

    assert kafka.exactly_once is (exactly == "required")
    assert kafka.client("producer").get("transaction.timeout.ms") == expected


_LONG = {
    "producer.override.transaction.timeout.ms": "60000",
    "producer.override.delivery.timeout.ms": "0",
    "transaction.boundary.interval.ms": "50000",
    "exactly.once.support": "disabled",
}


@pytest.mark.parametrize(
    ("changes", "told", "warns"),
    [
        pytest.param({"producer.override.transaction.timeout.ms": "15000"}, "15000", False, id="default"),
        pytest.param({"producer.override.transaction.timeout.ms": "6000"}, "6000", False, id="lower"),
        pytest.param({"producer.override.transaction.timeout.ms": "60000"}, "15000", True, id="higher"),
        pytest.param(_LONG, "15000", False, id="without transactions"),
    ],
)
def test_brokers_are_told_a_transaction_timeout_of_15_s_at_most(
    changes: dict[str, str | None], told: str, *, warns: bool
) -> None:
    """More would hold readers back after a crash; without transactions nothing is bounded by it."""
    settings = load_with(changes)

    assert settings.kafka.client("producer").get("transaction.timeout.ms") == told
    warning = (
        "producer.override.transaction.timeout.ms = 60000: counts as 15000; with more, an abandoned "
        "transaction would hold read-committed consumers back for longer"
    )
    assert settings.warnings == ((warning,) if warns else ())


def test_sources_are_tagged() -> None:
    """Sources are tagged."""
    settings = load_with(
        {
            "input.format": "jsonl",
            "file.name.template": "{{topic}}-{{timestamp}}",
            "key.source": "template:{{topic}}/{{ timestamp:unit=yyyy }}",
            "value.source": "field:after.row",
            "record.headers": "fields:meta",
            "record.timestamp": "template",
        }
    )

    assert settings.format.key_source == TemplateSource("{{topic}}/{{ timestamp:unit=yyyy }}")
    assert settings.format.value_source == FieldSource(("after", "row"))
    assert settings.format.headers == FieldHeaders(("meta",))
    assert settings.format.timestamp == TemplateTime()
    assert load_with({"record.headers": "source"}).format.headers == ObjectHeaders()


def test_role_is_assumed_with_the_credentials_below_it() -> None:
    """Role is assumed with the credentials below it."""
    credentials = load_with(
        {
            "aws.sts.role.arn": "arn:aws:iam::123456789012:role/reader",
            "aws.sts.role.external.id": "abc",
            "aws.credentials.provider": "com.amazonaws.auth.InstanceProfileCredentialsProvider",
        }
    ).s3.credentials

    assert credentials == RoleCredentials(
        arn="arn:aws:iam::123456789012:role/reader",
        session_name="headrace",
        external_id="abc",
        duration_seconds=3600,
        endpoint=None,
        source=ProviderCredentials(provider=CredentialsProvider.INSTANCE_PROFILE),
    )


@pytest.mark.parametrize(
    ("java", "expected"),
    [
        (
            "software.amazon.awssdk.auth.credentials.AnonymousCredentialsProvider",
            CredentialsProvider.ANONYMOUS,
        ),
        ("com.amazonaws.auth.EnvironmentVariableCredentialsProvider", CredentialsProvider.ENVIRONMENT),
        ("com.amazonaws.auth.profile.ProfileCredentialsProvider", CredentialsProvider.PROFILE),
        ("com.amazonaws.auth.DefaultAWSCredentialsProviderChain", None),
    ],
)
def test_java_credentials_providers(java: str, expected: CredentialsProvider | None) -> None:
    """Java credentials providers."""
    assert load_with({"aws.credentials.provider": java}).s3.credentials == (
        DefaultCredentials() if expected is None else ProviderCredentials(provider=expected)
    )


@pytest.mark.parametrize(
    ("changes", "value_format", "json_format"),
    [
        (
            {"value.converter": "org.apache.kafka.connect.storage.StringConverter"},
            ValueFormat.AUTO,
            JsonFormat.ISO,
        ),
        (
            {"value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter"},
            ValueFormat.RAW,
            JsonFormat.ISO,
        ),
        (
            {
                "value.converter": "org.apache.kafka.connect.json.JsonConverter",
                "value.converter.schemas.enable": "false",
            },
            ValueFormat.JSON,
            JsonFormat.CONNECT,
        ),
        (
            {
                "value.converter": "org.apache.kafka.connect.json.JsonConverter",
                "value.converter.schemas.enable": "false",
                "json.format": "iso",
            },
            ValueFormat.JSON,
            JsonFormat.ISO,
        ),
    ],
    ids=["string", "bytes", "json", "json iso"],
)
def test_converters(
    changes: dict[str, str | None], value_format: ValueFormat, json_format: JsonFormat
) -> None:
    """Converters."""
    settings = load_with({"input.format": "jsonl", **changes})

    assert (settings.format.value_format, settings.format.json_format) == (value_format, json_format)


def test_avro_converter_brings_its_registry() -> None:
    """Avro converter brings its registry."""
    settings = load_with(
        {
            "input.format": "avro",
            "value.converter": "io.confluent.connect.avro.AvroConverter",
            "value.converter.schema.registry.url": "https://me:pa%20ss@registry:8081",
            "value.converter.value.subject.name.strategy": (
                "io.confluent.kafka.serializers.subject.RecordNameStrategy"
            ),
        }
    )

    assert settings.format.registry is not None
    assert settings.format.registry.client() == {
        "url": "https://registry:8081",
        "basic.auth.user.info": "me:pa ss",
    }
    assert settings.format.registry.subject_name_strategy.value == "record"
    assert "pa%20ss" not in repr(settings)


def test_partition_distribution_is_partition_ordering() -> None:
    """Partition distribution is partition ordering."""
    settings = load_with({"distribution.type": "PARTITION", "file.name.template": "{{partition}}"})

    assert settings.routing.ordering is Ordering.PARTITION


@pytest.mark.parametrize(
    ("options", "ordering"),
    [
        ({}, Ordering.PARTITION),
        ({"input.layout": "auto"}, Ordering.PARTITION),
        ({"ordering": "object"}, Ordering.OBJECT),
        ({"distribution.type": "object_hash"}, Ordering.OBJECT),
        ({"input.layout": "none", "file.name.template": "{{topic}}-{{partition}}"}, Ordering.OBJECT),
        ({"file.name.template": "{{topic}}/{{key}}"}, Ordering.OBJECT),
    ],
)
def test_a_restore_keeps_the_order_of_partitions(options: dict[str, str], ordering: Ordering) -> None:
    """Unless something else is asked for, or names do not say the partition."""
    bare: dict[str, str | None] = {"topic": None, "file.name.template": None, "input.layout": "aiven"}
    settings = load_with({**bare, **options})

    assert settings.routing.ordering is ordering


def test_envelope_dead_letters_and_topic_creation() -> None:
    """Envelope dead letters and topic creation."""
    settings = load_with(
        {
            "input.format": "jsonl",
            "input.envelope": "aiven",
            "input.envelope.base64": "key, value",
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": "bad",
            "errors.deadletterqueue.topic.replication.factor": "1",
            "topic.creation.default.partitions": "6",
            "topic.creation.default.replication.factor": "-1",
        }
    )

    assert settings.format.envelope_base64 == (EnvelopeField.KEY, EnvelopeField.VALUE)
    assert settings.errors.dead_letter == DeadLetterSettings(topic="bad", replication_factor=1)
    assert settings.kafka.topic_creation == TopicCreation(partitions=6, replication_factor=-1)


def test_endpoints_can_be_off() -> None:
    """Endpoints can be off."""
    assert load_with({"http.listen": ""}).http.listen is None
    assert load_with({"http.listen": "[::1]:0"}).http.listen == HostPort("::1", 0)
    assert str(HostPort("::1", 80)) == "[::1]:80"


def test_an_endpoint_without_scheme_is_https() -> None:
    """An endpoint without scheme is https."""
    assert load_with({"aws.s3.endpoint": "minio.local:9000"}).s3.endpoint == "https://minio.local:9000"
    assert load_with({"aws.s3.endpoint": "http://localhost:4566"}).s3.endpoint == "http://localhost:4566"


def test_spark_properties_are_handed_on() -> None:
    """Spark properties are handed on."""
    spark = load_with(
        {"spark.master": "spark://m:7077", "spark.cores.max": "4", "spark.ui.enabled": "true"}
    ).spark

    assert spark.master == "spark://m:7077"
    assert spark.conf() == {"spark.cores.max": "4", "spark.ui.enabled": "true"}


@pytest.mark.parametrize(
    "sizes",
    [
        {"spark.driver.memory": "2G"},
        {"spark.driver.memory": "1t"},
        {"spark.driver.memory": "1073741824"},
        {"spark.executor.memory": "2048"},
        {"spark.executor.memory": " 2Gb "},
    ],
)
def test_sizes_of_memory_that_a_jvm_takes(sizes: dict[str, str]) -> None:
    """To Java a bare number is bytes, to Spark MiB."""
    conf = load_with({"spark.master": "spark://m:7077", **sizes}).spark.conf()
    assert {name: text.strip() for name, text in sizes.items()} == {
        name: conf[name].strip() for name in sizes
    }


def test_settings_travel_to_executors_and_stay_small() -> None:
    """Settings travel to executors and stay small."""
    settings = load_with({"aws.access.key.id": "id", "aws.secret.access.key": "secret"})
    pickled = pickle.dumps(settings)

    assert pickle.loads(pickled) == settings  # noqa: S301 - our own bytes
    assert len(pickled) < 8_000


def test_describe_tells_effective_values() -> None:
    """Describe tells effective values."""
    described = describe(load_with({"error.tolerance": "all"}))

    assert described["errors.tolerance"] == "all"
    assert described["offsets.storage.topic"] == "uploads-offsets"
    assert described["poll.interval.ms"] == "10000"
    assert "sqs.queue.url" not in described


def test_the_room_is_pure() -> None:
    """Loading settings brings in no client: neither AWS nor Spark nor Kafka, nor what reads PKCS12 stores."""
    program = "import sys, headrace.options.document; print(*sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[3],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()

    assert "headrace.options" in loaded
    assert not {"boto3", "botocore", "pyspark", "confluent_kafka", "cryptography"} & set(loaded)


@pytest.mark.parametrize(("given", "is_given"), [(None, False), ("auto", False), ("csv", True)])
def test_auto_leaves_the_format_to_the_layout(given: str | None, *, is_given: bool) -> None:
    """A layout looks at each object itself; another format says how rows are cut."""
    found = load_with({"input.layout": "aiven", "input.format": given}).format.restore

    assert found is not None
    assert found.is_format_given is is_given


@pytest.mark.parametrize(
    ("layout", "given", "expected"),
    [("aiven", None, "auto"), ("auto", None, "auto"), ("lenses", "json", "json"), ("none", None, "bytes")],
)
def test_beside_a_layout_objects_say_their_format(layout: str, given: str | None, expected: str) -> None:
    """What asks for the format, positions over REST among it, is told that each object may be another."""
    template = ".*" if layout == "none" else None
    changes = {"input.layout": layout, "input.format": given, "file.name.template": template}

    assert load_with(changes).format.input_format == expected


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("$[*]", ()),
        ("$.Records[*]", ("Records",)),
        ("$.detail.log-events[*]", ("detail", "log-events")),
        ("$['a b'][\"it's\"].c[*]", ("a b", "it's", "c")),
        (r"$['it\'s \\'][*]", ("it's \\",)),
    ],
)
def test_a_path_to_an_array_is_the_names_around_it(given: str, names: tuple[str, ...]) -> None:
    """With points, or in brackets and quotes."""
    assert load_with({"input.format": "json", "json.path": given}).format.json_path == names


def test_archives_are_left_alone_unless_they_are_asked_for() -> None:
    """Their bounds are there when they are."""
    assert load_with({"input.format": "jsonl"}).format.packing is None
    found = load_with({"input.format": "jsonl", "input.archive": "zip", "input.archive.members": "a*, b"})
    assert found.format.packing == PackingSettings(
        kind=Packing.ZIP, members=("a*", "b"), max_members=10_000, max_bytes=100 << 30, max_ratio=250
    )


@pytest.mark.parametrize(
    ("layout", "option", "given"),
    [
        ("aiven", "csv.header", "false"),
        ("confluent", "csv.types", "a:long"),
        ("quix", "csv.delimiter", ";"),
        ("lenses", "text.start.pattern", "x"),
    ],
)
def test_what_a_layout_would_not_ask_for_is_refused(layout: str, option: str, given: str) -> None:
    """An option that is read and ignored would promise something."""
    with pytest.raises(SettingsError, match=f"has a problem: {re.escape(option)} = "):
        load_with({"input.layout": layout, option: given})


def test_fields_and_headers_of_the_template() -> None:
    """Commas and colons within braces are the variable's."""
    template = "{{partition}}-{{timestamp:unit=yyyy}}"
    given = {"file.name.template": template, "input.format": "jsonl"}
    texts = "{{timestamp:unit=yyyy}}:year, p-{{partition:padding=true}}:part"
    named = (("year", "{{timestamp:unit=yyyy}}"), ("part", "p-{{partition:padding=true}}"))

    assert load_with({**given, "record.fields": texts}).format.fields == named
    headers = load_with({**given, "record.headers": f"template:{texts}"}).format.headers
    assert headers == TemplateHeaders(named)
    assert str(headers) == f"template:{texts.replace(', ', ',')}"


def test_an_archive_has_no_array_inside() -> None:
    """Also where its objects are arrays of JSON."""
    given = {
        "input.layout": "aiven",
        "input.format": "json",
        "json.path": "$.a[*]",
        "file.name.template": None,
    }
    with pytest.raises(SettingsError, match="has no part in a restore"):
        load_with(given)


def test_objects_of_a_layout_are_no_zips() -> None:
    """No sink writes them."""
    given = {"input.layout": "aiven", "input.archive": "zip", "file.name.template": None}
    with pytest.raises(SettingsError, match=r"input\.archive = 'zip': has no part in a restore"):
        load_with(given)


def test_lenses_csv_is_told_its_columns() -> None:
    """Without input.format: the names of objects say what is csv."""
    changes = {"input.layout": "lenses", "csv.header": "false", "csv.columns": "a,b"}
    found = load_with({**changes, "file.name.template": None}).format

    assert found.csv.columns == ("a", "b")
    assert found.restore is not None
    assert found.restore.is_header_given


def test_what_connect_shows_of_a_connector_is_its_configuration() -> None:
    """`GET /connectors/NAME` of a running Connect is how people come by a file."""
    shown = {"name": "uploads", "config": dict(COMPLETE), "tasks": [{"connector": "uploads", "task": 0}]}
    settings = load(json.dumps(shown | {"type": "source"}), kind="json", environment={}, read_file=no_file)
    assert settings.name == "uploads"

    with pytest.raises(SettingsError, match="initial_state: is for the request that creates a connector"):
        load(json.dumps(shown | {"initial_state": "PAUSED"}), kind="json", environment={}, read_file=no_file)


@pytest.mark.parametrize(("given", "warns"), [("1000", False), ("500", False), ("3000", True)])
def test_heartbeats_are_sent_each_second_at_least(given: str, *, warns: bool) -> None:
    """A standby takes over within the time that is promised, so a longer interval has no effect."""
    settings = load_with({"consumer.override.heartbeat.interval.ms": given})

    warning = (
        f"consumer.override.heartbeat.interval.ms = {given}: counts as 1000; with more, a standby would "
        "notice later that the leader has left"
    )
    assert settings.warnings == ((warning,) if warns else ())
