"""Locks of Lenses' sink are found by the name that it had, whatever name the sink after it has."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from headrace.kafka.data_topics import SurveyedPartition
from headrace.options import Settings, SettingsError
from headrace.vendors.lenses.names import IndexPlace
from headrace.vendors.load import load
from ingest.cli.configuration_commands import translated_shape
from ingest.service.sink.earlier_archive import EarlierArchives, IndexedOffsets, LensesIndex
from tests.headrace.options.loading import no_file

_STRING = "org.apache.kafka.connect.storage.StringConverter"
_LENSES: Mapping[str, str] = {
    "name": "backup",
    "bootstrap.servers": "127.0.0.1:9092",
    "connector.class": "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector",
    "topics": "t",
    "connect.s3.aws.region": "us-east-1",
    "connect.s3.aws.auth.mode": "Default",
    "key.converter": _STRING,
    "value.converter": _STRING,
    "connect.s3.kcql": "insert into bucket:pre select * from t PARTITIONBY _key STOREAS `JSON` "
    "PROPERTIES('store.envelope'=true,'flush.count'=10)",
}
_OURS: Mapping[str, str] = {
    "name": "backup",
    "bootstrap.servers": "127.0.0.1:9092",
    "connector.class": "HeadraceSink",
    "topics": "t",
    "aws.s3.bucket.name": "bucket",
    "takeover.indexes": ".indexes",
}


def _load(configuration: Mapping[str, Any]) -> Settings:
    return load(json.dumps(configuration), kind="json", environment={"HOME": "/nobody"}, read_file=no_file)


class _Index(LensesIndex):
    """Notes where it is asked; no lock says anything."""

    def __init__(self) -> None:
        super().__init__(None, None, "bucket")  # type: ignore[arg-type]
        self.asked: list[IndexPlace] = []

    def offsets(self, place: IndexPlace) -> IndexedOffsets:
        """Nothing."""
        self.asked.append(place)
        return IndexedOffsets(committed=None)


def _lock_of(settings: Settings) -> str:
    """The key of the lock that is looked for first."""
    index = _Index()
    one = SurveyedPartition(
        topic="t", partition=0, topic_id="id", begin=0, end=1000, group_offset=60, group_mark=""
    )
    EarlierArchives(settings, lambda: (), new_index=lambda _bucket: index).of([one])
    (place,) = index.asked
    return place.locks[0]


@pytest.mark.parametrize(
    ("changes", "lock"),
    [
        ({}, ".indexes/backup/.locks/Topic(t)/0.lock"),
        ({"consumer.override.group.id": "g2"}, ".indexes/backup/.locks/Topic(t)/0.lock"),
        ({"connect.s3.indexes.name": "a/locks"}, "a/locks/backup/.locks/Topic(t)/0.lock"),
        ({"takeover.connector": "my backup"}, ".indexes/my backup/.locks/Topic(t)/0.lock"),
    ],
)
def test_what_translate_prints_finds_the_locks(changes: Mapping[str, str], lock: str) -> None:
    """Its name is that of the group; by that there are no locks, and records would come twice."""
    theirs = _load({**_LENSES, **changes})
    printed = _load(translated_shape(theirs)["config"])

    assert printed.name != "backup"
    assert [_lock_of(theirs), _lock_of(printed)] == [lock, lock]


@pytest.mark.parametrize(("changes", "connector"), [({}, "backup"), ({"takeover.connector": "old"}, "old")])
def test_without_a_connector_its_name_is_the_sinks(changes: Mapping[str, str], connector: str) -> None:
    """As it was before there was an option."""
    assert _lock_of(_load({**_OURS, **changes})) == f".indexes/{connector}/.locks/Topic(t)/0.lock"


def test_a_connector_without_a_directory_is_refused() -> None:
    """It would decide nothing."""
    with pytest.raises(SettingsError, match=r"means nothing without takeover\.indexes"):
        _load({**_OURS, "takeover.indexes": "none", "takeover.connector": "old"})


@pytest.mark.parametrize(
    "changes", [{"connect.s3.exactly.once.enable": "false"}, {"takeover.indexes": "none"}]
)
def test_where_there_are_no_locks_none_is_looked_for(changes: Mapping[str, str]) -> None:
    """What is printed loads there, too."""
    for settings in (theirs := _load({**_LENSES, **changes}), _load(translated_shape(theirs)["config"])):
        assert settings.sink is not None
        assert settings.sink.takeover_indexes is None
