"""`check` and `explain` of a sink against LocalStack and a broker; nothing is left behind in the bucket."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from confluent_kafka import Producer
from typer.testing import CliRunner

from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.ledger_topic import prepare_ledger_topic
from headrace.model.errors import InvalidConfiguration, TopicMissing
from headrace.model.ledger_entry import encode_key
from headrace.model.sink_entries import PartitionCheckpoint, encode_sink_entry, key_of
from ingest.cli.check import check
from ingest.cli.explain import explain
from ingest.cli.plan import plan
from tests.support import aws, kafka

pytestmark = pytest.mark.parts


def _config(folder: Path, bucket: str, **options: str) -> Path:
    given = {
        "name": aws.unique("sink"),
        "bootstrap.servers": kafka.address(),
        "aws.s3.bucket.name": bucket,
        "aws.s3.endpoint": aws.address(),
        "aws.access.key.id": "test",
        "aws.secret.access.key": "test",
        "http.listen": "",
        "state.dir": str(folder),
        **{name.replace("_", "."): text for name, text in options.items()},
    }
    file = folder / "sink.json"
    file.write_text(json.dumps(given))
    return file


def _run(command: Any, file: Path, *arguments: str, code: int = 0) -> list[Any]:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(command)
    result = CliRunner().invoke(app, [str(file), *arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def _topic(records: int) -> str:
    topic = kafka.new_topic(partitions=2)
    producer = Producer({"bootstrap.servers": kafka.address()})
    for number in range(records):
        producer.produce(topic, key=b"k", value=b'{"n":%d}' % number, partition=0)
    assert producer.flush(60) == 0
    return topic


def test_check_tries_an_upload_and_leaves_nothing(tmp_path: Path) -> None:
    """Bucket, lifecycle, topics, ledger and transactions, one line each."""
    bucket, topic = aws.new_bucket(), _topic(3)

    found = {each["name"]: each for each in _run(check, _config(tmp_path, bucket, topics=topic))}

    assert found["bucket"]["verdict"] == "ok"
    assert "takes uploads" in found["bucket"]["sentence"]
    assert found["lifecycle"]["verdict"] == "warn"
    assert found["topic"]["sentence"] == f"1 topic with 2 partitions to read: {topic}"
    assert found["transactions"]["verdict"] == "ok"
    assert "Uploads" not in aws.s3().list_multipart_uploads(Bucket=bucket)
    assert aws.s3().list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_check_warns_of_a_topic_that_deletes_what_an_open_object_has(tmp_path: Path) -> None:
    """By the topic's own retention, once no time closes an object."""
    bucket = aws.new_bucket()
    kept, deleted = (kafka.new_topic(config={"retention.ms": each}) for each in ("-1", "172800000"))
    file = _config(
        tmp_path, bucket, topics=f"{kept},{deleted}", rotate_age_ms="0", open_object_max_age_ms="0"
    )

    found = {each["name"]: each for each in _run(check, file)}

    assert found["record retention"]["verdict"] == "warn"
    assert f"{deleted!r} (2 days)" in found["record retention"]["sentence"]
    assert kept not in found["record retention"]["sentence"]


def test_check_of_a_bucket_that_is_not_there_ends_with_2(tmp_path: Path) -> None:
    """With the option to correct."""
    found = _run(check, _config(tmp_path, aws.unique("nobody"), topics=_topic(1)), code=2)

    (bucket,) = [each for each in found if each["name"] == "bucket"]
    assert bucket["verdict"] == "fail"
    assert "aws.s3.bucket.name" in bucket["remedy"]


def test_explain_reads_a_record(tmp_path: Path) -> None:
    """By topic, partition and offset, with the sink's own converters."""
    topic = _topic(3)
    file = _config(
        tmp_path,
        "bucket",
        topics=topic,
        file_name_template="{{value:n}}/{{key}}/{{topic}}-{{partition}}-{{start_offset}}{{extension}}",
    )

    (found,) = _run(explain, file, "--topic", topic, "--partition", "0", "--offset", "2")

    assert found["key"] == f"2/k/{topic}-0-2.jsonl.gz"


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (("--partition", "2"), "--partition 2: topic '{}' has 2 partitions, from 0 on."),
        (("--partition", "1"), "--offset 0: {}-1 is empty."),
        (("--offset", "3"), "--offset 3: {}-0 has offsets 0 to 2."),
    ],
)
def test_explain_of_a_place_that_the_topic_lacks(tmp_path: Path, place: tuple[str, ...], said: str) -> None:
    """At once, and with what it has: it waited for twenty seconds, or suspected the brokers."""
    topic = _topic(3)
    with pytest.raises(InvalidConfiguration) as raised:
        _run(explain, _config(tmp_path, "bucket", topics=topic), "--topic", topic, *place)
    assert str(raised.value) == said.format(topic)


def test_explain_of_a_topic_that_is_not_there(tmp_path: Path) -> None:
    """It is named."""
    topic = aws.unique("none")
    with pytest.raises(TopicMissing, match=topic):
        _run(explain, _config(tmp_path, "bucket", topics=topic), "--topic", topic)


def test_plan_shows_what_is_behind(tmp_path: Path) -> None:
    """By the ledger where it says something, else from the beginning."""
    topic = _topic(5)
    file = _config(tmp_path, aws.new_bucket(), topics=topic)

    (before,) = _run(plan, file)
    assert (before["ledger"], before["lag"]) == (None, 5)
    assert [(part["partition"], part["archived"], part["end"]) for part in before["partitions"]] == [
        (0, None, 5),
        (1, None, 0),
    ]

    ledger = f"{json.loads(file.read_text())['name']}-offsets"
    admin = KafkaAdmin({"bootstrap.servers": kafka.address()})
    prepare_ledger_topic(admin, ledger)
    entry = PartitionCheckpoint(topic=topic, partition=0, topic_id=admin.topic_id(topic), offset=3)
    producer = Producer({"bootstrap.servers": kafka.address()})
    producer.produce(ledger, key=encode_key(key_of(entry)), value=encode_sink_entry(entry))
    assert producer.flush(60) == 0

    (behind,) = _run(plan, file)
    assert (behind["ledger"], behind["lag"]) == (ledger, 2)
    assert behind["partitions"][0]["archived"] == 3


def test_plan_says_which_topics_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelled name is not the same as nothing to archive."""
    topic, other = _topic(1), aws.unique("nobody-made-it")
    file = _config(tmp_path, aws.new_bucket(), topics=f"{topic},{other}")

    (found,) = _run(plan, file)
    assert (found["missing_topics"], found["lag"]) == ([other], 1)
    plan(file)
    assert f"topics that are not there: {other}; create them, or correct topics" in capsys.readouterr().out
    plan(_config(tmp_path, aws.new_bucket(), topics_regex=f"{other}.*"))
    assert "no topic matches topics.regex; create one, or correct it" in capsys.readouterr().out


def test_plan_finds_topics_by_their_pattern(tmp_path: Path) -> None:
    """The whole name has to match; the sink's own ledger is no data."""
    topic, other = _topic(1), _topic(1)
    file = _config(tmp_path, aws.new_bucket(), topics_regex=f"{topic}|{other[:-1]}|.*-offsets")
    prepare_ledger_topic(
        KafkaAdmin({"bootstrap.servers": kafka.address()}), f"{json.loads(file.read_text())['name']}-offsets"
    )

    (found,) = _run(plan, file)

    topics = {part["topic"] for part in found["partitions"]}
    assert topic in topics
    assert other not in topics
    assert found["ledger"] not in topics


def test_plan_and_check_show_what_lenses_locks_say(tmp_path: Path) -> None:
    """Where partitions would begin, and what would be finished; the bucket stays as it is."""
    bucket, topic = aws.new_bucket(), _topic(30)
    file = _config(tmp_path, bucket, topics=topic, takeover_indexes=".indexes")
    etag = aws.s3().put_object(Bucket=bucket, Key=".temp-upload/a", Body=b"a")["ETag"]
    copy = {"type": "copy", "bucket": bucket, "source": ".temp-upload/a", "destination": "a", "eTag": etag}
    lock = f".indexes/{json.loads(file.read_text())['name']}/.locks/Topic({topic})/0.lock"
    text = {
        "owner": "o",
        "committedOffset": 9,
        "pendingState": {"pendingOffset": 19, "pendingOperations": [copy]},
    }
    aws.s3().put_object(Bucket=bucket, Key=lock, Body=json.dumps(text).encode())
    aws.s3().put_object(Bucket=bucket, Key=lock.replace("0.lock", "1.lock"), Body=b"no lock")

    (found,) = _run(plan, file)
    (stopped, begun) = [each for each in _run(check, file, code=2) if each["name"] == "takeover"]

    assert [(each["partition"], each["begin"], each["lock"]) for each in found["takeover"]] == [
        (0, 20, 20),
        (1, None, None),
    ]
    assert found["takeover"][0]["to_finish"] == [f"s3://{bucket}/{lock}"]
    assert [(part["archived"], part["lag"]) for part in found["partitions"]] == [(20, 10), (None, 0)]
    assert f"{topic}-1 does not begin" in stopped["sentence"]
    assert f"{topic}-0 begins at offset 20, after its lock, 1 pending commit to finish" in begun["sentence"]
    assert {each["Key"] for each in aws.s3().list_objects_v2(Bucket=bucket)["Contents"]} == {
        ".temp-upload/a",
        lock,
        lock.replace("0.lock", "1.lock"),
    }
    assert json.loads(aws.s3().get_object(Bucket=bucket, Key=lock)["Body"].read()) == text
