"""What a process does while it waits: seldom anything, which is CPU in a run and in production."""

import pytest
from confluent_kafka import KafkaException

from tests.simulation.apart import IDS_EXPIRED
from tests.simulation.broker import Broker
from tests.simulation.kafka_admin import SimulatedAdmin
from tests.simulation.kafka_consumer import SimulatedConsumer
from tests.simulation.kernel import Kernel
from tests.simulation.network import Network, SimulatedMessage
from tests.simulation.scenario import Given, Scenario, Step
from tests.simulation.sink_generator import FIXED, LETTERS
from tests.simulation.sink_run import run_sink

_AWAY_SECONDS = 60.0


def test_a_slot_that_waits_for_an_answer_of_s3_looks_seldom(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It looked 200 times, for as long as its upload was not completed."""
    looks: list[float] = []
    consume = SimulatedConsumer.consume

    def counted(
        self: SimulatedConsumer, num_messages: int = 1, timeout: float = -1
    ) -> list[SimulatedMessage]:
        looks.append(timeout)
        return consume(self, num_messages, timeout)

    monkeypatch.setattr(SimulatedConsumer, "consume", counted)
    denied = {"operation": "CompleteMultipartUpload", "seconds": _AWAY_SECONDS}
    scenario = Scenario(
        seed=1,
        direction="sink",
        options={**FIXED, "topics": "events0", "output.format": "jsonl", "rotate.records": "1"},
        topics={"events0": 1},
        records=(Given("events0", 0, b"k", b"v", 0),),
        steps=(
            Step(0.0, "start"),
            Step(0.0, "forbidden", denied),
            Step(0.0, "produce", {"begin": 0, "end": 1, "how": "plain"}),
            Step(_AWAY_SECONDS, "wait"),
        ),
    )
    outcome = run_sink(scenario)
    assert (outcome.ending, len(outcome.rows)) == ("exit 0", 1)
    assert sum(timeout < 0.2 for timeout in looks) < 20 * _AWAY_SECONDS


def test_a_slot_whose_id_was_forgotten_while_it_was_idle_archives_at_once() -> None:
    """It repeated its transaction ten times a second for a minute, before another producer did it.

    Mutation tried: without `_FORGOTTEN` the second object is there 60 s after its record.
    """
    scenario = Scenario(
        seed=1,
        direction="sink",
        options={**FIXED, "topics": "events0", "output.format": "jsonl", "rotate.records": "1"},
        topics={"events0": 1},
        records=tuple(Given("events0", 0, b"k", b"v", 0) for _ in range(2)),
        steps=(
            Step(0.0, "start"),
            Step(1.0, "produce", {"begin": 0, "end": 1, "how": "plain"}),
            Step(30.0, IDS_EXPIRED),
            Step(0.0, "produce", {"begin": 1, "end": 2, "how": "plain"}),
            Step(90.0, "wait"),
        ),
    )
    outcome = run_sink(scenario)
    first, second = (at for at, what, _, _ in outcome.history if what == "completed")
    assert 30 <= second - first < 35
    (ended,) = (line for _, _, event, line in outcome.log if event == "batch_ended")
    assert "idle for longer than transactional.id.expiration.ms" in ended["error"]
    assert not any(event == "transaction_repeated" for _, _, event, _ in outcome.log)


def test_a_dead_letter_topic_without_a_leader_holds_back_its_partition_until_it_has_one() -> None:
    """The partition stopped until an operator restarted the connector; the other one continues meanwhile."""
    away, later = 300.0, 150.0
    scenario = Scenario(
        seed=1,
        direction="sink",
        options={
            **FIXED,
            "topics": "events0,events1",
            "output.format": "jsonl",
            "rotate.records": "1",
            "tasks.max": "1",
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": LETTERS,
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
        },
        topics={"events0": 1, "events1": 1},
        records=(
            Given("events0", 0, b"k", b"no json", 0),
            Given("events0", 0, b"k", b"{}", 0),
            Given("events1", 0, b"k", b"{}", 0),
        ),
        steps=(
            Step(0.0, "start"),
            Step(10.0, "topic without a leader", {"topic": LETTERS, "seconds": away}),
            Step(0.0, "produce", {"begin": 0, "end": 2, "how": "plain"}),
            Step(later, "produce", {"begin": 2, "end": 3, "how": "plain"}),
            Step(away, "wait"),
        ),
    )
    outcome = run_sink(scenario)
    completed = {key: at for at, what, key, _ in outcome.history if what == "completed"}
    (other,) = (at for key, at in completed.items() if "events1" in key)
    (held,) = (at for key, at in completed.items() if "events0" in key)
    assert away - later < held - other < away - later + 40
    assert (outcome.ending, len(outcome.rows)) == ("exit 0", 2)
    (line,) = (line for _, _, event, line in outcome.log if event == "partitions_held_back")
    assert f"The dead letter topic {LETTERS!r} takes nothing at the moment" in line["error"]


def test_an_admin_client_waits_for_brokers_as_long_as_it_is_told() -> None:
    """It waited for 10 s: a worker at its end, which asks for 3 s, moved its connectors 7 s late."""
    now = Kernel(1)
    network = Network(now, Broker(now), down_until=now.now + _AWAY_SECONDS)
    failures: list[BaseException | None] = []
    began = now.now

    def body() -> None:
        failures.append(SimulatedAdmin(network, {}).describe_cluster(request_timeout=3.0).exception())

    now.spawn(now.process("one"), body, "main")
    now.run(until=float("inf"))

    assert [type(one) for one in failures] == [KafkaException]
    assert now.now - began == pytest.approx(3.0, abs=0.1)
