"""Which of our groups a lock of Lenses' sink is of: that of the records that its statement puts there."""

import pytest

from spark.sink.object_keys import ObjectNames, lenses_group
from tests.support.sink_archives import sink_settings


def _names(partition_by: str) -> ObjectNames:
    kcql = f"INSERT INTO bucket:p SELECT * FROM t {partition_by}"  # noqa: S608  # KCQL of a test
    settings = sink_settings(
        {
            "connector.class": "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector",
            "connect.s3.kcql": kcql,
            "topics": "t",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        }
    )
    assert settings.sink is not None
    return ObjectNames(settings.sink.names, "")


@pytest.mark.parametrize(
    ("partition_by", "values", "texts"),
    [
        pytest.param("PARTITIONBY region", (("region", "eu"),), ("eu",), id="value"),
        pytest.param("PARTITIONBY region", (("region", "[missing]"),), (None,), id="missing"),
        pytest.param("PARTITIONBY region", (("region", "x/y=z"),), ("x/y=z",), id="as-it-is"),
        pytest.param(
            "PARTITIONBY _topic, _key, _partition",
            (("key", "k"), ("partition", "0"), ("topic", "t")),
            ("k",),
            id="key-beside-topic",
        ),
        pytest.param(
            "PARTITIONBY _value.a.b, _header.h",
            (("a.b", "1"), ("h", "2")),
            ("1", "2"),
            id="nested-and-header",
        ),
    ],
)
def test_the_group_of_a_lock(
    partition_by: str, values: tuple[tuple[str, str], ...], texts: tuple[str | None, ...]
) -> None:
    """It is the group that records with these values come into."""
    names = _names(partition_by)
    assert lenses_group(names, values) == names.group(texts)


@pytest.mark.parametrize(
    ("partition_by", "values"),
    [
        ("PARTITIONBY region", (("land", "eu"),)),
        ("PARTITIONBY region", (("region", "eu"), ("region", "us"))),
        ("PARTITIONBY _value.a, _header.a", (("a", "1"),)),
        ("PARTITIONBY region", (("region", "\x01"),)),
    ],
    ids=["another-name", "twice", "one-name-for-two", "control-character"],
)
def test_locks_of_no_group(partition_by: str, values: tuple[tuple[str, str], ...]) -> None:
    """Nothing is guessed."""
    assert lenses_group(_names(partition_by), values) is None
