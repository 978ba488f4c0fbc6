"""What is shown in place of a secret is none: who saves an answer as a file would log in with asterisks."""

import json
from collections.abc import Mapping

import pytest

from headrace.options import Problem, SettingsError
from headrace.options.given import as_written
from headrace.options.secret import NO_VALUE, NOT_FOR_CLIENTS
from headrace.vendors.load import load
from spark.frames.frame_options import load_settings
from tests.headrace.options.loading import COMPLETE, load_with, no_file, problems_with

KEYS: Mapping[str, str] = {"aws.access.key.id": "AKIA"}
LOGIN: Mapping[str, str] = {
    "sasl.mechanism": "PLAIN",
    "sasl.username": "me",
    "sasl.password": "s3cret",
}
_STRING = "org.apache.kafka.connect.storage.StringConverter"
_AVRO = "io.confluent.connect.avro.AvroConverter"
SINK: Mapping[str, str] = {
    "name": "archive",
    "bootstrap.servers": "127.0.0.1:9092",
    "topics": "events",
    "tasks.max": "1",
}
CONFLUENT: Mapping[str, str] = {
    **SINK,
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "s3.bucket.name": "bucket",
    "flush.size": "3",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "aws.access.key.id": "AKIA",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "io.confluent.connect.avro.AvroConverter",
    "value.converter.schema.registry.url": "http://registry:8081",
    "value.converter.basic.auth.credentials.source": "USER_INFO",
    "value.converter.basic.auth.user.info": "me:s3cret",
}
LENSES: Mapping[str, str] = {
    **SINK,
    "connector.class": "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector",
    "connect.s3.kcql": "INSERT INTO bucket:prefix SELECT * FROM events",
    "connect.s3.aws.auth.mode": "Credentials",
    "connect.s3.aws.access.key": "AKIA",
}


def refused(
    config: Mapping[str, str], *, overrides: Mapping[str, str] | None = None, worker_config: str | None = None
) -> list[Problem]:
    """The problems of a configuration as it is."""
    try:
        load(
            json.dumps(dict(config)),
            kind="json",
            environment={},
            read_file=no_file,
            overrides=overrides or {},
            worker_config=worker_config,
        )
    except SettingsError as error:
        return list(error.problems)
    return []


def masked(problems: list[Problem] | tuple[Problem, ...]) -> dict[str, str | None]:
    """The options that hold a mask, with what is shown; nothing else may be wrong."""
    assert {one.message for one in problems} <= {NO_VALUE}
    return {one.option: one.value for one in problems}


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("aws.secret.access.key", "[hidden]"),
        ("aws.secret.access.key", "***"),
        ("aws.secret.access.key", " [hidden]\n"),
        # Confluent Cloud's, and Spark's.
        ("aws.secret.access.key", "****************"),
        ("spark.hadoop.fs.s3a.secret.key", "*********(redacted)"),
        ("spark.executor.extraJavaOptions", "***"),
        ("schema.registry.basic.auth.user.info", "[hidden]"),
        ("aws.s3.proxy.url", "http://***@proxy:3128"),
        ("aws.s3.proxy.url", "http://me:***@proxy:3128"),
        ("spark.remote", "sc://spark:15002/;use_ssl=true;token=***"),
        ("producer.override.sasl.jaas.config", "[hidden]"),
        ("producer.override.sasl.password", "[hidden]"),
        ("sasl.password", "***"),
        ("ssl.key.password", "***"),
        ("aws_secret_access_key", "[hidden]"),
    ],
)
def test_a_mask_is_no_value(option: str, text: str) -> None:
    """Each form is a problem of its option, and the only one of it."""
    given = {**KEYS, "security.protocol": "SASL_SSL", **LOGIN, "key.converter": _AVRO, option: text}
    found = [one for one in problems_with(given) if one.option == option]
    assert [one.message for one in found] == [NO_VALUE]
    assert found[0].value in {"[hidden]", as_written(option, text).shown_whole}


@pytest.mark.parametrize(
    "changes",
    [
        {"aws.access.key.id": "AKIA", "aws.secret.access.key": "s3cret***"},
        {"aws.access.key.id": "AKIA", "aws.secret.access.key": "**"},
        {"aws.s3.proxy.url": "http://me:secret***@proxy:3128"},
        {
            "input.format": "jsonl",
            "value.format": "json",
            "transforms": "m",
            "transforms.m.type": "org.apache.kafka.connect.transforms.MaskField$Value",
            "transforms.m.fields": "card",
            "transforms.m.replacement": "[hidden]",
        },
        {"aws.s3.prefix": "***"},
        {"security.protocol": "PLAINTEXT", "sasl.password": "***"},
        {"sasl.mechanism": "PLAIN", "sasl.jaas.config": "[hidden]"},
        {"security.protocol": "SSL", "sasl.jaas.config": "[hidden]"},
        {"ssl.key.password": "****", "consumer.override.ssl.key.password": "****"},
        {"security.protocol": "SASL_PLAINTEXT", **LOGIN, "ssl.key.password": "****"},
        # Of one kind of client alone.
        {"producer.override.security.protocol": "SSL", "consumer.override.ssl.key.password": "****"},
    ],
)
def test_what_looks_like_a_mask_and_is_a_value_is_taken(changes: Mapping[str, str]) -> None:
    """A password may end in asterisks, and a transform may write what masks look like."""
    assert problems_with(changes) == ()


@pytest.mark.parametrize("alias", ["maskPassword", "hideToken", "jaas"])
@pytest.mark.parametrize("text", ["***", "*****", "[hidden]"])
def test_what_a_transform_writes_is_a_value_whatever_the_transform_is_called(alias: str, text: str) -> None:
    """Its own name is not what it writes."""
    mask = {
        "transforms": alias,
        f"transforms.{alias}.type": "org.apache.kafka.connect.transforms.MaskField$Value",
        f"transforms.{alias}.fields": "card",
        f"transforms.{alias}.replacement": text,
    }
    assert problems_with({"input.format": "jsonl", "value.format": "json", **mask}) == ()
    assert refused({**CONFLUENT, "aws.secret.access.key": "s3cret", **mask}) == []


@pytest.mark.parametrize("text", ["[hidden]", "*****"])
def test_a_password_that_looks_like_a_mask_is_given_by_a_reference(text: str) -> None:
    """Nobody shows what references lead to, so it was meant; a warning says what it looks like."""
    found = load_with({**KEYS, "aws.secret.access.key": "${env:SECRET}"}, SECRET=text)
    assert [one for one in found.warnings if "mask" in one] == [
        "aws.secret.access.key = '${env:SECRET}': leads to what looks like a mask, and is taken as it is"
    ]
    theirs = load(
        json.dumps({**CONFLUENT, "aws.secret.access.key": "${env:SECRET}"}),
        kind="json",
        environment={"SECRET": text},
        read_file=no_file,
    )
    assert any("leads to what looks like a mask" in one for one in theirs.warnings)


def test_where_no_client_is_made_a_mask_is_a_warning() -> None:
    """Of our own options, of a vendor's and of a log-in, which cannot be read then."""
    exported = {**CONFLUENT, "aws.secret.access.key": "****************"}
    login = {"consumer.override.security.protocol": "SASL_SSL", "consumer.override.sasl.mechanism": "PLAIN"}
    jaas = "consumer.override.sasl.jaas.config"
    for config, option in (
        (exported, "aws.secret.access.key"),
        ({**COMPLETE, **login, jaas: "[hidden]"}, jaas),
    ):
        found = load(json.dumps(config), kind="json", environment={}, read_file=no_file, is_for_clients=False)
        warned = [one for one in found.warnings if NOT_FOR_CLIENTS in one]
        assert len(warned) == 1
        assert warned[0].startswith(f"{option} = ")
        assert [one.option for one in refused(config)] == [option]


def test_a_set_and_a_workers_file_are_held_to_it_too() -> None:
    """What another line wins over is not read."""
    secret = {"aws.secret.access.key": "[hidden]"}
    assert masked(refused(COMPLETE, overrides={**KEYS, **secret})) == secret
    assert refused({**COMPLETE, **secret}, overrides={**KEYS, "aws.secret.access.key": "s3cret"}) == []
    login = "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=[hidden]\n"
    assert masked(refused(COMPLETE, worker_config=login)) == {"sasl.jaas.config": "[hidden]"}


@pytest.mark.parametrize(
    ("config", "option"),
    [
        (CONFLUENT, "aws.secret.access.key"),
        (CONFLUENT, "value.converter.basic.auth.user.info"),
        (LENSES, "connect.s3.aws.secret.key"),
    ],
)
def test_a_vendors_option_is_refused_by_its_own_name(config: Mapping[str, str], option: str) -> None:
    """Once, though an option of ours has the text too."""
    found = refused({**config, option: "[hidden]"})
    assert [(one.option, one.value) for one in found if one.message == NO_VALUE] == [(option, "[hidden]")]


@pytest.mark.parametrize(
    ("changes", "worker", "is_refused"),
    [
        ({}, "producer.ssl.key.password=[hidden]\n", False),
        ({}, "security.protocol=SSL\nproducer.ssl.key.password=[hidden]\n", True),
        ({"security.protocol": "SSL"}, "ssl.key.password=[hidden]\n", True),
        # What is given nearer wins.
        ({"security.protocol": "SSL", "ssl.key.password": "s3cret"}, "ssl.key.password=[hidden]\n", False),
        ({"security.protocol": "SSL"}, "security.protocol=SASL_SSL\nsasl.jaas.config=[hidden]\n", False),
    ],
)
def test_a_workers_line_that_no_client_uses_is_none(
    changes: Mapping[str, str], worker: str, is_refused: bool
) -> None:
    """By the protocol of each client, wherever it is given."""
    assert [one.message for one in refused({**COMPLETE, **changes}, worker_config=worker)] == (
        [NO_VALUE] if is_refused else []
    )


def test_a_vendors_line_that_decides_nothing_is_none() -> None:
    """A license of Confluent's is masked by whoever shows it, and read by nobody here."""
    own = {"aws.secret.access.key": "s3cret"}
    assert refused({**CONFLUENT, **own, "confluent.license": "****************"}) == []


_GLUE = "com.amazonaws.services.schemaregistry.kafkaconnect.AWSKafkaAvroConverter"
_URL = "http://registry:8081"
_REGISTRY: Mapping[str, str] = {
    name: text for name, text in CONFLUENT.items() if name.startswith("value.converter.")
}
_OWN_SINK: Mapping[str, str] = {**SINK, "connector.class": "HeadraceSink", "aws.s3.bucket.name": "bucket"}
_CONFLUENT: Mapping[str, str] = {
    **{name: text for name, text in CONFLUENT.items() if name not in _REGISTRY},
    "aws.secret.access.key": "s3cret",
}
_MASKED: tuple[Mapping[str, str], ...] = (
    {**_REGISTRY, "value.converter.basic.auth.user.info": "[hidden]"},
    {
        "value.converter.bearer.auth.credentials.source": "STATIC_TOKEN",
        "value.converter.bearer.auth.token": "***",
    },
    {"value.converter.schema.registry.url": "http://me:***@registry:8081"},
)


@pytest.mark.parametrize("masked_login", _MASKED)
@pytest.mark.parametrize(
    "config",
    [
        COMPLETE,
        {**COMPLETE, "value.converter": _STRING},
        {**COMPLETE, "input.format": "avro", "value.converter": _GLUE},
        {**COMPLETE, "input.format": "jsonl", "value.format": "json"},
        _OWN_SINK,
        {**_OWN_SINK, "key.converter": _STRING, "value.converter": _GLUE},
        {**_CONFLUENT, "value.converter": _STRING},
        {**_CONFLUENT, "value.converter": "StringConverter"},
    ],
)
def test_a_log_in_of_a_registry_that_nothing_asks_is_not_read(
    config: Mapping[str, str], masked_login: Mapping[str, str]
) -> None:
    """Files have its lines for all their connectors alike."""
    assert refused({**config, **masked_login}) == []


@pytest.mark.parametrize(
    "asks",
    [
        {"value.converter": _AVRO},
        {"key.converter": _AVRO, "value.converter": _STRING},
        # It may be one of a registry's.
        {"value.converter": "org.example.AvroConverter"},
    ],
)
@pytest.mark.parametrize("config", [_OWN_SINK, _CONFLUENT])
def test_a_log_in_of_a_registry_that_may_be_asked_is_read(
    config: Mapping[str, str], asks: Mapping[str, str]
) -> None:
    """By either converter."""
    found = refused({**config, **_MASKED[0], **asks})
    assert "value.converter.basic.auth.user.info" in {one.option for one in found if one.message == NO_VALUE}


def test_a_log_in_that_is_not_read_is_named() -> None:
    """As all that is taken without a meaning."""
    found = load_with({"value.converter.basic.auth.user.info": "[hidden]", "schema.registry.url": _URL})
    assert found.warnings == ("accepted without a meaning here: value.converter.basic.auth.user.info",)
    assert "user.info" not in str(found.shown)


def test_a_query_of_spark_is_refused_a_mask() -> None:
    """Its options are read by the same reader."""
    with pytest.raises(SettingsError) as raised:
        load_settings({**COMPLETE, **KEYS, "aws.secret.access.key": "[hidden]"})
    assert masked(raised.value.problems) == {"aws.secret.access.key": "[hidden]"}
