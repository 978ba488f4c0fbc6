"""What `plan` and `check` say of what `run` would not do, against a broker and a bucket."""

import json

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.control_records import PAUSE, Pause, TargetState, encode_control
from headrace.kafka.ledger_topic import prepare_ledger_topic
from headrace.model.errors import ResourceMissing
from headrace.model.ledger_entry import encode_key
from headrace.model.sink_entries import PartitionCheckpoint, encode_sink_entry, key_of, offset_mark
from tests.ingest.cli.cli_environment import Scene
from tests.support import aws, kafka

pytestmark = pytest.mark.parts


def _as_sink(scene: Scene) -> None:
    scene.options |= {"topic": None, "file.name.template": None, "input.format": None, "topics": scene.topic}


@pytest.mark.parametrize("is_sink", [False, True])
def test_one_that_was_stopped_is_said_to_do_nothing(scene: Scene, is_sink: bool) -> None:
    """`run` reads it in the ledger: so do these, and name what lets it continue."""
    if is_sink:
        _as_sink(scene)
    assert scene.asked("plan")["problem"] is None
    assert '"target"' not in scene.run("check", "--json")
    prepare_ledger_topic(KafkaAdmin({"bootstrap.servers": kafka.address()}), scene.ledger)
    producer = Producer({"bootstrap.servers": kafka.address()})
    pause = Pause(state=TargetState.STOPPED, at_ms=1)
    producer.produce(scene.ledger, key=encode_key(PAUSE), value=encode_control(pause))
    assert producer.flush(60) == 0

    problem = scene.asked("plan")["problem"]

    assert f"'{scene.name}' is stopped" in problem
    assert f"PUT /connectors/{scene.name}/resume" in problem
    assert f"problem   {problem}" in scene.run("plan")
    (found,) = [
        line
        for line in map(json.loads, scene.run("check", "--json").splitlines())
        if line["name"] == "target"
    ]
    assert found["verdict"] == "warn"
    assert found["remedy"] in problem


def _commit(scene: Scene, offset: int, mark: str = "") -> None:
    """What the sink's group has of the topic, of which three records are there."""
    _as_sink(scene)
    producer = Producer({"bootstrap.servers": kafka.address()})
    for _ in range(3):
        producer.produce(scene.topic, value=b"{}", partition=0)
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": kafka.address(), "group.id": scene.name})
    committed = TopicPartition(scene.topic, 0, offset, mark)
    consumer.commit(offsets=[committed], asynchronous=False)
    consumer.close()


def test_a_sink_without_a_ledger_begins_at_its_group(scene: Scene) -> None:
    """So not all that the topics hold is to be archived; where it would be, the option decides."""
    _commit(scene, 2)

    assert (scene.asked("plan")["lag"], scene.asked("plan")["problem"]) == (1, None)
    first = scene.run("plan").splitlines()[0]
    assert f"each partition begins at the offset of group '{scene.name}', and where there is none" in first
    assert first.endswith("at its beginning (auto.offset.reset)")
    scene.options["consumer.override.auto.offset.reset"] = "latest"
    assert scene.run("plan").splitlines()[0].endswith("at its end (auto.offset.reset)")


@pytest.mark.parametrize(
    ("offset", "mark", "said"),
    [
        (9, "", "ends at offset 3, and was archived to 9"),
        (1, "headrace other-offsets id", "was committed by a Headrace with the ledger 'other-offsets'"),
    ],
)
def test_a_sink_that_would_not_begin_is_a_problem(scene: Scene, offset: int, mark: str, said: str) -> None:
    """Where `check` fails, with its fix; the table alone showed no lag, or one that nothing archives."""
    _commit(scene, offset, mark)

    problem = scene.asked("plan")["problem"]

    assert said in problem
    assert f"problem   {problem}" in scene.run("plan")
    found = [json.loads(line) for line in scene.run("check", "--json", code=2).splitlines()]
    (failed,) = [line for line in found if line["name"] == "offsets"]
    assert f"{failed['sentence']} {failed['remedy']}" == problem


@pytest.mark.parametrize(("offset", "is_lost"), [(1, True), (3, False)])
def test_a_sink_whose_ledger_has_lost_its_end_is_a_problem(
    scene: Scene, offset: int, *, is_lost: bool
) -> None:
    """By what it has committed itself in its group; `check` says so, too, and neither of what is archived."""
    admin = KafkaAdmin({"bootstrap.servers": kafka.address()})
    topic_id = admin.topic_id(scene.topic)
    _commit(scene, 3, offset_mark(scene.ledger, topic_id))
    prepare_ledger_topic(admin, scene.ledger)
    producer = Producer({"bootstrap.servers": kafka.address()})
    entry = PartitionCheckpoint(topic=scene.topic, partition=0, topic_id=topic_id, offset=offset, highest=-1)
    producer.produce(scene.ledger, key=encode_key(key_of(entry)), value=encode_sink_entry(entry))
    assert producer.flush(60) == 0

    problem = scene.asked("plan")["problem"]

    found = [json.loads(line) for line in scene.run("check", "--json").splitlines()]
    warned = [line["sentence"] for line in found if (line["name"], line["verdict"]) == ("ledger", "warn")]
    assert warned == ([problem] if is_lost else [])
    if is_lost:
        assert f"has offset {offset} of {scene.topic}-0, and this sink had committed 3" in problem
    else:
        assert problem is None


def test_a_sink_whose_bucket_is_missing_has_no_plan(scene: Scene) -> None:
    """It ends as `run` does; one that does not answer is a problem, as Kafka is what is looked at."""
    _as_sink(scene)
    scene.options["aws.s3.endpoint"] = "http://127.0.0.1:1"
    assert "127.0.0.1:1" in scene.asked("plan")["problem"]
    del scene.options["aws.s3.endpoint"]
    scene.bucket = aws.unique("nowhere")
    assert isinstance(scene.result("plan").exception, ResourceMissing)
