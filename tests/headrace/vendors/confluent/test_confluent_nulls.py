"""Nulls that Confluent's sink ignores: each goes to the dead letter topic, where there is one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from headrace.model.sink_protocol import PartitionGrant
from headrace.vendors.load import load
from spark.sink.partition_work import PartitionWork
from tests.headrace.options.loading import no_file
from tests.headrace.vendors.archive import Record
from tests.support.sink_archives import DrivenTools, kafka_records, sink_settings, written

_S3: Final = "io.confluent.connect.s3."
_IGNORING: Final[Mapping[str, str]] = {
    "connector.class": f"{_S3}S3SinkConnector",
    "topics": "t",
    "s3.bucket.name": "bucket",
    "flush.size": "2",
    "storage.class": f"{_S3}storage.S3Storage",
    "format.class": f"{_S3}format.json.JsonFormat",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "behavior.on.null.values": "ignore",
}
_REPORTED: Final = {
    **_IGNORING,
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": "dead",
}
_EXTRACTED: Final = {
    "transforms": "x",
    "transforms.x.type": "org.apache.kafka.connect.transforms.ExtractField$Value",
    "transforms.x.field": "a",
}
_OPTION: Final = "report.null.values.to.dlq"


def _record(offset: int, value: bytes | None) -> Record:
    return Record(
        topic="t", partition=0, offset=offset, timestamp=0, key=b"k%d" % offset, value=value, headers=()
    )


_RECORDS: Final = [
    _record(0, b'{"a":1}'),
    _record(1, None),
    _record(2, b"null"),
    _record(3, b'{"a":2}'),
]


@pytest.mark.parametrize(
    ("changes", "letters"),
    [
        ({}, [(b"k1", None), (b"k2", b"null")]),
        ({_OPTION: "true"}, [(b"k1", None), (b"k2", b"null")]),
        (_EXTRACTED, [(b"k1", None), (b"k2", b"null")]),
        ({_OPTION: "false"}, []),
        ({"errors.tolerance": "none"}, []),
        ({"errors.deadletterqueue.topic.name": ""}, []),
        ({"behavior.on.null.values": "fail", _OPTION: "false"}, [(b"k1", None), (b"k2", b"null")]),
    ],
)
def test_a_null_that_is_ignored_is_a_dead_letter(
    changes: Mapping[str, str], letters: list[tuple[bytes, bytes | None]]
) -> None:
    """In no object, and not gone: `errors.tolerance=none` would end its task, and is said to send none."""
    found = written({**_REPORTED, **changes}, _RECORDS)

    assert [(each.key, each.value) for each in found.dead_letters] == letters
    assert {each.reason for each in found.dead_letters} <= {"null_value"}
    assert not found.stops
    (one,) = found.objects.values()
    assert len(one.body.splitlines()) == 2
    assert found.committed == {("t", 0): 4}


@pytest.mark.parametrize(
    "config",
    [
        {**_REPORTED, "behavior.on.null.values": "fail"},
        {**_IGNORING, "errors.tolerance": "all"},
        {**_REPORTED, "errors.tolerance": "none"},
    ],
)
def test_the_option_decides_nothing_elsewhere(config: Mapping[str, str]) -> None:
    """Where nothing is ignored, or there is no topic that gets letters: said at start."""
    settings = sink_settings({**config, _OPTION: "false"})
    assert any("nothing depends on them" in each and _OPTION in each for each in settings.warnings)


def test_nulls_that_were_read_before_stop_nothing(tmp_path: Path) -> None:
    """Below what is archived, without a letter: an object may have them (`write`), so none gets one."""
    made = DrivenTools(_REPORTED, tmp_path)
    try:
        grant = PartitionGrant(topic="t", partition=0, topic_id="id", offset=0, highest=3, dead_letters=(2,))
        work = PartitionWork(grant, made.tools.for_topic("t"))
        work.add(kafka_records(_RECORDS), made.now_ms)

        assert work.stop is None
        commit = work.transaction(made.now_ms)
        # That of offset 2 has one, and offset 1 was left out or archived.
        assert commit is None or commit.commit.dead_letters == ()
    finally:
        made.close()


def test_a_reference_says_it_as_well() -> None:
    """What the references lead to decides."""
    settings = load(
        "\n".join(
            f"{name}={text}"
            for name, text in {
                **_REPORTED,
                "name": "n",
                "bootstrap.servers": "127.0.0.1:9092",
                "errors.tolerance": "${env:TOLERANCE}",
            }.items()
        ),
        kind="properties",
        environment={"HOME": "/home/me", "TOLERANCE": "all"},
        read_file=no_file,
    )
    assert settings.sink is not None
    assert settings.sink.output.null_values == "report"
