"""What a process does while it waits: seldom anything, which is CPU in a run and in production."""

import pytest

from tests.simulation.kafka_consumer import SimulatedConsumer
from tests.simulation.network import SimulatedMessage
from tests.simulation.scenario import Given, Scenario, Step
from tests.simulation.sink_generator import FIXED
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
