"""Options that another vendor's connector does not have: what was meant, by the names that it has itself."""

import json
from typing import Final

import pytest

from headrace.options.given import SettingsError
from headrace.vendors.load import load
from tests.headrace.options.loading import no_file

_TEXT: Final = "org.apache.kafka.connect.storage.StringConverter"
_CONFLUENT: Final = {
    "name": "n",
    "bootstrap.servers": "127.0.0.1:9092",
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "topics": "t",
    "s3.bucket.name": "bucket",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    "flush.size": "100",
    "key.converter": _TEXT,
    "value.converter": "io.confluent.connect.avro.AvroConverter",
    "value.converter.schema.registry.url": "http://registry:8081",
}
_CONFLUENT_SOURCE: Final = {
    "name": "n",
    "bootstrap.servers": "127.0.0.1:9092",
    "connector.class": "io.confluent.connect.s3.source.S3SourceConnector",
    "s3.bucket.name": "bucket",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    "value.converter": _TEXT,
}
_AIVEN: Final = {
    "name": "n",
    "bootstrap.servers": "127.0.0.1:9092",
    "connector.class": "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
    "topics": "t",
    "aws.s3.bucket.name": "bucket",
    "key.converter": _TEXT,
    "value.converter": _TEXT,
}


def _problem(configuration: dict[str, str], option: str, without: str = "") -> str:
    given = {name: text for name, text in configuration.items() if name != without}
    with pytest.raises(SettingsError) as caught:
        load(json.dumps({**given, option: "x"}), kind="json", environment={}, read_file=no_file)
    (found,) = [each for each in caught.value.problems if each.option == option]
    return found.message.partition("; ")[2]


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("s3.endpoint", "store.url"),
        ("s3.prefix", "topics.dir"),
        ("s3.path.style.access", "s3.path.style.access.enabled"),
        ("s3.force.path.style", "s3.path.style.access.enabled"),
        ("s3.encryption.algorithm", "s3.ssea.name"),
        ("s3.bucket", "remove it"),
    ],
)
def test_names_of_other_tools(option: str, meant: str) -> None:
    """`s3.endpoint` was ours, `s3.prefix` none; one that is given is not what another line was meant as."""
    assert _problem(_CONFLUENT, option) == (meant if meant == "remove it" else f"did you mean {meant}?")


@pytest.mark.parametrize(
    ("option", "meant"),
    [("input.data.format", "value.converter"), ("output.data.format", "format.class")],
)
def test_names_of_confluents_cloud(option: str, meant: str) -> None:
    """`input.format` and `output.format` of ours are not what a connector of Connect's has."""
    assert _problem(_CONFLUENT, option, without=meant) == f"did you mean {meant}?"


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("input.data.format", "did you mean format.class?"),
        ("output.data.format", "did you mean value.converter?"),
        ("s3.endpoint", "did you mean store.url?"),
        ("s3.kms.key.id", "remove it"),
        ("s3.compression.codec", "remove it"),
    ],
)
def test_names_of_a_source(option: str, meant: str) -> None:
    """Its input is S3's objects; and it has no option for what only who writes them decides."""
    without = "value.converter" if option == "output.data.format" else "format.class"

    assert _problem(_CONFLUENT_SOURCE, option, without=without) == meant


def test_one_that_is_given_was_not_meant() -> None:
    """As the connector passes over it, it only has to go."""
    given = {**_CONFLUENT, "store.url": "http://minio:9000"}

    assert _problem(given, "s3.endpoint") == "remove it"


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("value.converter.schema.registry.ulr", "value.converter.schema.registry.url"),
        ("value.converter.basic.auth.credential.source", "value.converter.basic.auth.credentials.source"),
        ("value.converter.schema.enable", "value.converter.schemas.enable"),
    ],
)
def test_members_of_converters(option: str, meant: str) -> None:
    """The member and not what Headrace calls it: the converter's other options are there as well."""
    found = _problem(_CONFLUENT, option, without="value.converter.schema.registry.url")

    assert found == f"did you mean {meant}?"


def test_a_member_like_no_other() -> None:
    """The converter itself was what was meant, which it has."""
    assert _problem(_CONFLUENT, "value.converter.enhanced.avro.schema.suport") == "remove it"


def test_aivens_bucket() -> None:
    """By its name of today, and not by the one with underscores."""
    assert (
        _problem(_AIVEN, "aws.s3.bucket", without="aws.s3.bucket.name") == "did you mean aws.s3.bucket.name?"
    )
