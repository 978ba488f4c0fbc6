"""Blanks at the ends of values, as mounted secrets have them, are trimmed where Java's classes do."""

import json
from collections.abc import Callable, Mapping
from typing import Final

import pytest

from headrace.options.given import SettingsError
from headrace.options.settings import Settings, StaticCredentials
from headrace.vendors.load import load
from tests.headrace.options.loading import COMPLETE

_FILES: Final = {"/run/s/one": "s3cret\n", "/run/s.properties": "a\\:b = of a colon\n"}
_ONE: Final = "${dir:/run/s:one}"
_SASL: Final = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}


def _load(changes: Mapping[str, str | None], overrides: Mapping[str, str] | None = None) -> Settings:
    options = {name: text for name, text in {**COMPLETE, **changes}.items() if text is not None}
    return load(
        json.dumps(options),
        kind="json",
        environment={},
        read_file=_FILES.__getitem__,
        overrides=overrides or {},
    )


def _property(name: str) -> Callable[[Settings], str]:
    return lambda settings: settings.kafka.client("consumer")[name]


def _key_id(settings: Settings) -> str:
    assert isinstance(settings.s3.credentials, StaticCredentials)
    return settings.s3.credentials.access_key_id


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        pytest.param(
            {
                "security.protocol": "SSL",
                "ssl.keystore.type": "PKCS12 ",
                "ssl.keystore.location": "/x.p12",
                "ssl.keystore.password": _ONE,
            },
            _property("ssl.keystore.password"),
            id="of a key store",
        ),
        pytest.param(
            {"security.protocol": "SSL", "ssl.key.password": _ONE}, _property("ssl.key.password"), id="key"
        ),
        pytest.param({"ssl.ca.location": _ONE}, _property("ssl.ca.location"), id="a file"),
        pytest.param({"ssl.ca.location": "\t s3cret \r\n"}, _property("ssl.ca.location"), id="of any kind"),
        pytest.param(
            {**_SASL, "sasl.username": _ONE, "sasl.password": "x"}, _property("sasl.username"), id="user"
        ),
        pytest.param(
            {**_SASL, "sasl.username": "x", "sasl.password": _ONE}, _property("sasl.password"), id="login"
        ),
        pytest.param(
            {"consumer.override.ssl.key.password": _ONE},
            _property("ssl.key.password"),
            id="of one kind of client",
        ),
        pytest.param({"aws.access.key.id": _ONE, "aws.secret.access.key": _ONE}, _key_id, id="of AWS"),
        pytest.param({"aws.ca.bundle": _ONE}, lambda settings: settings.s3.ca_bundle, id="a bundle"),
    ],
)
def test_a_mounted_secret_has_no_line_end(
    changes: Mapping[str, str], found: Callable[[Settings], str | None]
) -> None:
    """Wherever Kafka's classes or AWS's take it."""
    assert found(_load(changes)) == "s3cret"


def test_a_key_may_have_a_colon() -> None:
    """The path of a reference ends at the first one, as in Kafka Connect."""
    settings = _load({"aws.ca.bundle": "${file:/run/s.properties:a:b}"})

    assert settings.s3.ca_bundle == "of a colon"


@pytest.mark.parametrize("given", ["io.aiven.kafka.connect.s3.source.S3SourceConnector", None])
def test_names_are_trimmed_as_their_class_does(given: str | None) -> None:
    """Aiven's; in ours a blank is a character of keys like others."""
    ending = "" if given else " "
    template = "{{topic}}-{{partition}}-{{start_offset}}"

    settings = _load(
        {"connector.class": given, "aws.s3.prefix": "data/ ", "file.name.template": f"{template} "}
    )

    assert settings.s3.prefix == f"data/{ending}"
    assert settings.routing.file_name_template == f"{template}{ending}"


@pytest.mark.parametrize("option", ["errors.deadletterqueue.topic.name", "key.converter", "value.converter"])
def test_what_is_empty_in_aivens_source_is_left_out(option: str) -> None:
    """As tools that fill in defaults write it; of our own class it is a mistake."""
    aiven = {"connector.class": "io.aiven.kafka.connect.s3.source.S3SourceConnector"}

    for empty in ("", " "):
        settings = _load({**aiven, option: empty})
        assert option not in settings.given
        assert (settings.errors, settings.format) == (_load(aiven).errors, _load(aiven).format)
    with pytest.raises(SettingsError, match="is empty; expected"):
        _load({option: ""})


@pytest.mark.parametrize("option", ["errors.deadletterqueue.topic.name", "key.converter", "value.converter"])
def test_an_empty_override_takes_away_what_the_file_gives(option: str) -> None:
    """The file's value stayed, without a word."""
    converter = "org.apache.kafka.connect.json.JsonConverter"
    given = {
        "connector.class": "io.aiven.kafka.connect.s3.source.S3SourceConnector",
        "input.format": "jsonl",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "dead",
        "key.converter": converter,
        "value.converter": converter,
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
    }

    without = _load({**given, option: None})
    for empty in ("", " "):
        settings = _load(given, {option: empty})
        assert settings.given == without.given
        assert (settings.errors, settings.format) == (without.errors, without.format)
    assert option in _load({**given, option: ""}, {option: given[option]}).given


def test_the_prefix_of_a_sink_is_trimmed() -> None:
    """Of Aiven's class."""
    settings = _load(
        {
            **dict.fromkeys(COMPLETE),
            "name": "n",
            "connector.class": "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
            "bootstrap.servers": "127.0.0.1:9092",
            "topics": "t",
            "aws.s3.bucket.name": "bucket",
            "aws.s3.region": "eu-west-1",
            "aws.s3.prefix": " data/ ",
            "format.output.type": "jsonl",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        }
    )

    assert settings.s3.prefix == "data/"
