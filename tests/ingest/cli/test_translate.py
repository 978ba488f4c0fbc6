"""`headrace translate` names each option whose value it does not print whole."""

import json
from collections.abc import Mapping

import pytest

from headrace.vendors.load import load
from ingest.cli.lint_and_translate import translated_shape
from tests.headrace.options.loading import no_file

_CONFLUENT: Mapping[str, str] = {
    "name": "archive",
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "topics": "orders",
    "s3.bucket.name": "bucket",
    "flush.size": "3",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": "io.confluent.connect.s3.format.avro.AvroFormat",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "io.confluent.connect.avro.AvroConverter",
    "value.converter.schema.registry.url": "http://registry:8081",
    "aws.access.key.id": "AKIA",
    "aws.secret.access.key": "${env:SECRET}",
}


@pytest.mark.parametrize(
    ("changes", "hidden"),
    [
        ({}, []),
        ({"aws.secret.access.key": "hunter2"}, ["aws.secret.access.key"]),
        (
            {
                "s3.ssea.name": "AES256",
                "s3.sse.customer.key": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
            },
            ["aws.s3.sse.customer.key"],
        ),
        ({"value.converter.schema.registry.url": "http://me:hunter2@registry"}, ["schema.registry.url"]),
        ({"s3.proxy.url": "http://me:hunter2@proxy:3128"}, ["aws.s3.proxy.url"]),
        ({"s3.proxy.url": "http://proxy:3128"}, []),
        ({"topics.dir": "***"}, []),
    ],
)
def test_what_is_not_printed_whole_is_named(changes: Mapping[str, str], hidden: list[str]) -> None:
    """Else what is printed would run, and log in as `***`."""
    settings = load(
        json.dumps({**_CONFLUENT, **changes}),
        kind="json",
        environment={"SECRET": "hunter2"},
        read_file=no_file,
        worker_config="bootstrap.servers=127.0.0.1:9092",
    )
    found = translated_shape(settings)

    assert found["hidden"] == hidden
    assert "hunter2" not in json.dumps(found)
    assert found["config"]["aws.secret.access.key"] in {"${env:SECRET}", "***"}
