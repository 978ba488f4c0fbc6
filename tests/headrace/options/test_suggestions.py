"""Suggestions for unknown options, measured: misspelled names find theirs, names of other tools find none."""

import random
import tracemalloc
from typing import Final

import pytest

from headrace.options.declarations import CANONICAL
from headrace.options.merge import SPELLINGS
from headrace.options.suggestions import are_of_one_group, suggested, unknown_class
from tests.headrace.options.loading import problems_with

# Of other connectors, of Connect's worker, of operators' files.
_FOREIGN: Final = """
_comment task.class plugin.discovery table.name.format
internal.value.converter schema.enable schemas.enable aws.auth.mode locale rotate.interval.ms storage.class
prefix.add.prefix topics.file.name.format format max.request.size partition.field confluent.license
confluent.topic.bootstrap.servers key.subject.name.strategy s3.object.tagging.enabled s3.force.path.style
database.hostname database.port database.user slot.name plugin.name table.include.list heartbeat.interval.ms
insert.mode auto.create auto.evolve pk.mode pk.fields connection.url connection.user connection.password
key.ignore schema.ignore type.name write.method hadoop.conf.dir hive.integration hive.metastore.uris
iceberg.tables gcs.bucket.name azblob.container.name batch.size linger.ms client.id auto.offset.reset
value.deserializer config.providers config.storage.topic status.storage.topic rest.port plugin.path
value.converter.connect.meta.data value.converter.flatten.unions topic.creation.groups
data.format
time.interval kafka.api.key kafka.auth.mode mode topic.partitions s3.poll.interval.ms records.per.file
compression.codec retention.ms cleanup.policy restart.policy enabled class spec kind metadata unheard.of
"""


def _misspelled(name: str, dice: random.Random) -> str:
    at, letter = dice.randrange(len(name)), dice.choice("abcdeiorst")
    return dice.choice(
        (
            name[:at] + name[at + 1 :],
            name[:at] + letter + name[at:],
            name[:at] + letter + name[at + 1 :],
            name[:at] + name[at : at + 2][::-1] + name[at + 2 :],
            name.replace(".", "_", 1),
        )
    )


def test_a_name_with_one_letter_wrong_finds_its_own() -> None:
    """Of a hundred, ninety-eight at least: what is left is as near to another one."""
    dice = random.Random(20)
    tried = [(name, _misspelled(name, dice)) for name in SPELLINGS]
    wrong = [pair for pair in tried if pair[1] not in SPELLINGS]
    lost = [
        pair
        for pair in wrong
        if (found := suggested(pair[1], SPELLINGS)) is None
        or CANONICAL.get(found, found) != CANONICAL.get(pair[0], pair[0])
    ]

    assert len(wrong) > len(SPELLINGS) * 0.8
    assert len(lost) <= len(wrong) * 0.02, lost


@pytest.mark.parametrize("name", _FOREIGN.split())
def test_a_name_of_another_tool_finds_none(name: str) -> None:
    """A suggestion that means something else is worse than none."""
    assert suggested(name, SPELLINGS) is None


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("aws.secret.key", "aws.secret.access.key"),
        ("s3.endpoint", "aws.s3.endpoint"),
        ("group.id", "name"),
        ("AWS_S3_Bucket_Name", "aws.s3.bucket.name"),
        ("nane", "name"),
        ("aws.sqs.endpoint", "sqs.endpoint"),
        ("aws.sqs.queue.ulr", "sqs.queue.url"),
        ("AWS_SQS_REGION", "sqs.region"),
    ],
)
def test_names_close_in_meaning_are_written_down(name: str, meant: str) -> None:
    """And the case of letters and the kind of separators are of no weight."""
    assert suggested(name, SPELLINGS) == meant


@pytest.mark.parametrize(
    ("named", "meant"),
    [
        ("S3_SINK", "io.confluent.connect.s3.S3SinkConnector"),
        ("headracesink", "HeadraceSink"),
        (
            "io.aiven.kafka.connect.s3.S3SinkConnector",
            "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
        ),
        (
            "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SourceConnector",
            "io.aiven.kafka.connect.s3.source.S3SourceConnector",
        ),
        (
            "com.redpanda.kafka.connect.s3.S3SinkConnector",
            "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
        ),
        ("io.confluent.connect.gcs.GcsSinkConnector", None),
        ("io.debezium.connector.mysql.MySqlConnector", None),
    ],
)
def test_a_class_that_is_not_known(named: str, meant: str | None) -> None:
    """A sink's is never taken for a source's, nor that of another store for one of S3."""
    message = unknown_class(named)
    assert message is not None
    assert message.partition("? expected ")[0] == (f"did you mean {meant}" if meant else message)


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ("S3_SINK", "input.data.format is value.converter, output.data.format is format.class, time"),
        ("S3_SINK", "time.interval is partitioner.class with path.format"),
        ("S3Source", "input.data.format is format.class, output.data.format is value.converter, kafka.api"),
    ],
)
def test_options_of_the_cloud_have_other_names(named: str, told: str) -> None:
    """The class alone would leave them unknown, and `time.interval` a line that decides nothing."""
    assert told in (unknown_class(named) or "")


@pytest.mark.parametrize("named", ["", "HeadraceSink", "S3SourceConnector"])
def test_a_class_that_is_known(named: str) -> None:
    """Or none at all."""
    assert unknown_class(named) is None


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("producer.overide.linger.ms", "producer.override.linger.ms"),
        ("producer.overrides.linger.ms", "producer.override.linger.ms"),
        ("producer.override_linger.ms", "producer.override.linger.ms"),
        ("producer.overide.lingr.ms", "producer.override.linger.ms"),
        ("consumer.overide.fetch.min.bytes", "consumer.override.fetch.min.bytes"),
        ("consumer.isolation.level", "consumer.override.isolation.level"),
        ("admin.overide.request.timeout.ms", "admin.override.request.timeout.ms"),
        ("producer.buffer.memory", "producer.override.buffer.memory"),
        ("producer.sasl.jaas.config", "producer.override.sasl.jaas.config"),
        ("producer.override", None),
        ("producer.override.", None),
        ("producer.", None),
        ("producer.acks", None),
        ("producer.transactional.id", None),
        ("consumer.linger.ms", None),
        ("producer.partitoner", "producer.partitioner"),
        ("value.converter.encoding", None),
        ("value.converter.endpiont", "aws.glue.endpoint"),
        ("value.converter.schema.registry.ulr", "schema.registry.url"),
        ("eror.tolerance", "errors.tolerance"),
        ("timezon", "file.name.timestamp.timezone"),
    ],
)
def test_what_is_suggested_is_an_option(name: str, meant: str | None) -> None:
    """Of a client what it knows: the first word that was meant as `override` became one of its names."""
    (problem,) = problems_with({name: "x"})

    assert problem.option == name
    end = "remove it" if meant is None else f"did you mean {meant}?"
    assert problem.message == f"is not an option of Headrace; {end}"


def test_long_names_of_users_are_not_kept() -> None:
    """Each wrong configuration would stay in a worker's memory."""
    long = "x" * 1_000_000
    tracemalloc.start()
    try:
        for number in range(20):
            assert suggested(f"{long}{number}", CANONICAL) is None
            assert not are_of_one_group(f"{long}{number}", "topic")
        assert tracemalloc.get_traced_memory()[0] < 4_000_000
    finally:
        tracemalloc.stop()
