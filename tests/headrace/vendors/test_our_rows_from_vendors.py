"""`output.layout=headrace` next to another vendor's class: whole records that a restore finds."""

import json
import re
from typing import Final

import pytest

from headrace.names.archive_names import LayoutName
from headrace.options import Settings, SettingsError
from headrace.options.choices import NameOptions
from headrace.options.name_checks import DEFAULT_TEMPLATE
from headrace.options.sink_settings import NullValues
from headrace.vendors.key_names import ArchiveNames
from headrace.vendors.load import load
from tests.headrace.options.loading import no_file

_STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
_COMMON: Final = {
    "name": "archive",
    "bootstrap.servers": "127.0.0.1:9092",
    "topics": "t",
    "key.converter": _STRING,
    "value.converter": _STRING,
}
_CONFLUENT: Final = {
    **_COMMON,
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "s3.bucket.name": "bucket",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    "flush.size": "100",
}
_AIVEN: Final = {
    **_COMMON,
    "connector.class": "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
    "aws.s3.bucket.name": "bucket",
    "format.output.type": "jsonl",
}
_OURS: Final = {"output.layout": "headrace"}


def _load(configuration: dict[str, str]) -> Settings:
    return load(json.dumps(configuration), kind="json", environment={}, read_file=no_file)


def test_what_a_full_record_is_refused_for_can_be_written_as_it_says() -> None:
    """Names and tombstones with it: with the layout alone no restore found the objects."""
    with pytest.raises(SettingsError) as caught:
        _load({**_CONFLUENT, "mode": "BACKUP_FULL_RECORD"})
    first = str(caught.value).partition("and set ")[2].partition(", or ")[0]
    said = dict(re.findall(r"([a-z.]+)=([^\s,]+)", first))

    settings = _load({**_CONFLUENT, **said})

    assert said.keys() == {"output.layout", "file.name.template", "behavior.on.null.values"}
    assert settings.sink is not None
    assert settings.sink.output.null_values is NullValues.WRITE
    assert settings.sink.output.sidecars.tombstone_template is None
    assert not any("keep the names" in warning for warning in settings.warnings)
    assert settings.sink.names.template == DEFAULT_TEMPLATE
    key = "topics/t/0/00000000000000000005.headrace.jsonl"
    assert ArchiveNames(LayoutName.HEADRACE, NameOptions(prefix="topics/")).read(key).name is not None


def test_our_rows_under_their_names_have_a_warning() -> None:
    """Those that run so keep their names, and their objects of tombstones."""
    sides = {"store.kafka.keys": "true", "behavior.on.null.values": "write"}
    settings = _load({**_CONFLUENT, **_OURS, **sides})

    assert settings.sink is not None
    assert settings.sink.output.sidecars.tombstone_template is not None
    (warning,) = (each for each in settings.warnings if "keep the names of Confluent's S3 sink" in each)
    assert f"file.name.template={DEFAULT_TEMPLATE}" in warning


def test_where_the_template_is_of_the_vendor_our_class_is_named() -> None:
    """Aiven's sink has an option of that name, which takes Aiven's variables alone."""
    (warning,) = (each for each in _load({**_AIVEN, **_OURS}).warnings if "keep the names" in each)

    assert "set connector.class=HeadraceSink" in warning
    assert not any("keep the names" in each for each in _load(_AIVEN).warnings)
