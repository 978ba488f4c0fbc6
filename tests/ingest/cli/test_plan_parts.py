"""What `plan` and `check` say of what `run` would not do, against a broker and a bucket."""

import json

import pytest
from confluent_kafka import Producer

from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.control_records import PAUSE, Pause, TargetState, encode_control
from headrace.kafka.ledger_topic import prepare_ledger_topic
from headrace.model.ledger_entry import encode_key
from tests.ingest.cli.cli_environment import Scene
from tests.support import kafka

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
