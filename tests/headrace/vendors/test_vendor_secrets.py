"""A vendor's option is a secret where what it is translated to is one: answers show it under its own name."""

import dataclasses
import json
import pickle
from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from headrace.options import describe
from headrace.options.declarations import BY_NAME
from headrace.options.given import Problems, as_written
from headrace.options.references import References
from headrace.options.vendor import Fate, Vendor
from headrace.options.vendor_translation import translate
from headrace.vendors.load import VENDORS, load, vendor_of
from tests.headrace.options.loading import no_file

_PROBE: Final = "hunter2"
# What decides whether a secret is read at all.
_GATES: Final[tuple[Mapping[str, str], ...]] = (
    {},
    {"connect.s3.aws.auth.mode": "Credentials"},
    {"s3.credentials.provider.class": "io.confluent.connect.s3.auth.AwsAssumeRoleCredentialsProvider"},
    {"s3.credentials.provider.class": "io.aiven.kafka.connect.util.AivenAWSCredentialsProvider"},
    {"s3.ssea.name": "AES256"},
)
# Of Confluent's two connectors; what Aiven's and Lenses' have is its own.
_OF_CONFLUENT: Final = {
    "aws.secret.access.key",
    "s3.credentials.provider.secret_access_key",
    "s3.credentials.provider.sts.aws.secret.key.id",
    "s3.proxy.password",
}
_OF_LENSES: Final = {"aws.secret.key", "connect.s3.aws.secret.key"}
_SECRETS: Final = {
    "Aiven's S3 sink": {"aws.secret.access.key", "aws_secret_access_key"},
    "Confluent's S3 sink": {*_OF_CONFLUENT, "s3.sse.customer.key"},
    "Confluent's S3 source": {*_OF_CONFLUENT, "s3.credentials.provider.aws.secret.access.key"},
    "Lenses' S3 sink": _OF_LENSES,
    "Lenses' S3 source": _OF_LENSES,
}


def _becomes(vendor: Vendor, option: str) -> set[str]:
    """The options of ours in which the text of one of a vendor's is."""
    return {own for gates in _GATES for own in _translated(vendor, {**gates, option: _PROBE})}


def _translated(vendor: Vendor, given: Mapping[str, str]) -> Iterator[str]:
    found = translate(
        vendor,
        {name: text for name, text in given.items() if vendor.option(name) is not None},
        worker={},
        references=References(environment={}, read_file=no_file),
        problems=Problems(),
    )
    yield from (own for own, text in found.options.items() if _PROBE in text)


def _single(vendor: Vendor) -> list[str]:
    return [row.name for row in vendor.options if not row.name.endswith("*")]


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)
def test_what_becomes_a_secret_is_one(vendor: Vendor) -> None:
    """And what becomes something else is shown: who compares it with what was given finds it the same."""
    became = {name: _becomes(vendor, name) for name in _single(vendor)}
    secret = {
        name
        for name, owns in became.items()
        if any(own in BY_NAME and BY_NAME[own].is_secret for own in owns)
    }
    hidden = {name for name, owns in became.items() if owns and as_written(name, _PROBE).is_hidden}

    assert secret == _SECRETS[vendor.name]
    assert hidden == secret


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)
def test_what_a_note_calls_a_secret_is_one(vendor: Vendor) -> None:
    """Its first name is the option's counterpart, here or in the vendor's newer versions."""
    names = {*BY_NAME, *(row.name for row in vendor.options)}
    for row in vendor.options:
        _, _, rest = row.note.partition("`")
        counterpart = rest.partition("`")[0]
        if row.fate is not Fate.REFUSED and counterpart in names:
            told = as_written(counterpart, _PROBE).is_hidden
            assert as_written(row.name, _PROBE).is_hidden == told, row


def test_what_one_of_two_connectors_refuses_is_no_less_a_secret() -> None:
    """A configuration that was refused is told of as well."""
    source = vendor_of({"connector.class": "io.confluent.connect.s3.source.S3SourceConnector"})

    assert source is not None
    row = source.option("s3.sse.customer.key")
    assert row is not None
    assert row.fate is Fate.REFUSED
    assert as_written(row.name, _PROBE).shown_whole == "***"


_PLAIN: Final = "org.apache.kafka.connect.storage.StringConverter"
_CLIENTS: Final = {
    "sasl.password": _PROBE,
    "consumer.override.sasl.password": _PROBE,
    "value.converter.basic.auth.user.info": f"me:{_PROBE}",
    "spark.hadoop.fs.s3a.secret.key": _PROBE,
}
_CONFLUENT: Final = {
    "s3.bucket.name": "bucket",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    "aws.access.key.id": "AKIA",
    "aws.secret.access.key": _PROBE,
    "s3.proxy.url": "http://proxy:3128",
    "s3.proxy.user": "me",
    "s3.proxy.password": _PROBE,
}
_LENSES: Final = {
    "connect.s3.aws.auth.mode": "Credentials",
    "connect.s3.aws.access.key": "AKIA",
    "connect.s3.aws.secret.key": _PROBE,
}
_WHOLE: Final[Mapping[str, Mapping[str, str]]] = {
    "Aiven's S3 sink": {
        "aws.s3.bucket.name": "bucket",
        "format.output.type": "jsonl",
        "aws.access.key.id": "AKIA",
        "aws.secret.access.key": _PROBE,
    },
    "Confluent's S3 sink": {
        **_CONFLUENT,
        "storage.class": "io.confluent.connect.s3.storage.S3Storage",
        "flush.size": "10",
    },
    "Lenses' S3 sink": {**_LENSES, "connect.s3.kcql": "INSERT INTO bucket SELECT * FROM orders"},
    "Confluent's S3 source": _CONFLUENT,
    "Lenses' S3 source": {
        **_LENSES,
        "connect.s3.kcql": "insert into t select * from bucket:in STOREAS `JSON`",
    },
}


@pytest.mark.parametrize("by_reference", [False, True], ids=["given", "referred to"])
@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)
def test_no_secret_of_a_vendors_configuration_is_shown(vendor: Vendor, *, by_reference: bool) -> None:
    """Neither as it was given nor as it was translated: the law of our own options holds here too."""
    given = {
        "name": "archive",
        "connector.class": vendor.classes[0],
        "bootstrap.servers": "127.0.0.1:9092",
        "sasl.mechanism": "PLAIN",
        "security.protocol": "SASL_SSL",
        "sasl.username": "me",
        **_WHOLE[vendor.name],
        **_CLIENTS,
        **(
            {"topics": "orders", "key.converter": _PLAIN, "value.converter": _PLAIN} if vendor.is_sink else {}
        ),
    }
    secrets = {f"SECRET_{at}": text for at, text in enumerate(given.values()) if _PROBE in text}
    named = {text: f"${{env:{name}}}" for name, text in secrets.items()}
    if by_reference:
        given = {name: named.get(text, text) for name, text in given.items()}

    settings = load(
        json.dumps(given),
        kind="json",
        environment={**secrets, "AWS_REGION": "eu-west-1"},
        read_file=no_file,
    )

    told = [repr(settings), repr(dataclasses.asdict(settings)), repr(describe(settings)), *settings.warnings]
    assert not [each for each in told if _PROBE in each]
    assert pickle.loads(pickle.dumps(settings)) == settings  # noqa: S301 - our own bytes
