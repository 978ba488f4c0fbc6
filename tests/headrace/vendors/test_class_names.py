"""Classes by the short names that Kafka Connect takes: of connectors and of converters."""

from collections.abc import Mapping
from typing import Final

import pytest

from headrace.names.archive_names import LayoutName
from headrace.options import SettingsError, written_options
from headrace.options.sink_settings import ConverterKind
from headrace.vendors.class_names import sink_class
from tests.headrace.options.loading import own_options
from tests.support.sink_archives import sink_settings

_SHORT: Final = {
    "topics": "t",
    "key.converter": "StringConverter",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "false",
}
_CONFLUENT: Final = {
    **_SHORT,
    "connector.class": "S3SinkConnector",
    "s3.bucket.name": "bucket",
    "flush.size": "3",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
}
_LENSES: Final = {
    **_SHORT,
    "connector.class": "S3SinkConnector",
    "connect.s3.kcql": "INSERT INTO bucket SELECT * FROM t",
}
_AIVEN: Final = {
    **_SHORT,
    "connector.class": "AivenKafkaConnectS3SinkConnector",
    "aws.s3.bucket.name": "bucket",
    "format.output.type": "jsonl",
}


@pytest.mark.parametrize(
    ("config", "layout"),
    [
        (_CONFLUENT, LayoutName.CONFLUENT),
        (_CONFLUENT | {"connector.class": "S3Sink"}, LayoutName.CONFLUENT),
        (_LENSES, LayoutName.LENSES),
        (_AIVEN, LayoutName.AIVEN),
        (_AIVEN | {"connector.class": "AivenKafkaConnectS3Sink"}, LayoutName.AIVEN),
    ],
)
def test_short_names_mean_what_they_mean_in_connect(config: Mapping[str, str], layout: LayoutName) -> None:
    """Which of two sinks of one name it is, its own options say."""
    sink = sink_settings(config).sink
    assert sink is not None
    assert sink.output.layout is layout
    assert (sink.converters.key.kind, sink.converters.value.kind) == (
        ConverterKind.STRING,
        ConverterKind.JSON,
    )


@pytest.mark.parametrize("more", [{}, {"s3.bucket.name": "b", "connect.s3.kcql": "x"}])
def test_a_name_of_two_classes_needs_options_that_decide(more: Mapping[str, str]) -> None:
    """Both are named."""
    with pytest.raises(SettingsError, match=r"write the whole name: io\.confluent.* or io\.lenses"):
        sink_settings({**_SHORT, "connector.class": "S3SinkConnector", **more})


def test_a_workers_file_has_short_names_too() -> None:
    """Converters that a connector leaves out come from there."""
    without = {name: text for name, text in _CONFLUENT.items() if ".converter" not in name}
    worker = "key.converter=ByteArray\nvalue.converter=JsonConverter\n"
    sink = sink_settings(without, worker=worker).sink
    assert sink is not None
    assert (sink.converters.key.kind, sink.converters.value.kind) == (ConverterKind.BYTES, ConverterKind.JSON)


@pytest.mark.parametrize("name", ["HeadraceSink", "", "io.confluent.connect.s3.S3SinkConnector", "S3Source"])
def test_other_names_stay(name: str) -> None:
    """They are whole, or no sink's."""
    assert sink_class(name, {"s3.bucket.name"}) is None


def test_short_names_by_a_reference_are_the_same() -> None:
    """Shown is the reference."""
    config = {**_CONFLUENT, "connector.class": "${env:CLASS}", "value.converter": "${env:JSON}"}
    environment = {"CLASS": "S3Sink", "JSON": " JsonConverter"}
    found = sink_settings(config, environment=environment)

    assert found.sink is not None
    assert found.sink.output.layout is LayoutName.CONFLUENT
    assert found.sink.converters.value.kind is ConverterKind.JSON
    assert written_options(found)["value.converter"] == "${env:JSON}"


def test_a_workers_short_names_by_a_reference_are_the_same() -> None:
    """And decide which of its options mean something."""
    without = {name: text for name, text in _CONFLUENT.items() if ".converter" not in name}
    worker = "key.converter=${env:A}\nvalue.converter=${env:B}\nvalue.converter.schemas.enable=true\n"
    found = sink_settings(without, worker=worker, environment={"A": "StringConverter", "B": "JsonConverter"})

    assert found.sink is not None
    assert (found.sink.converters.key.kind, found.sink.converters.value.kind) == (
        ConverterKind.STRING,
        ConverterKind.JSON,
    )
    assert own_options(found)["value.converter.schemas.enable"] == "true"
