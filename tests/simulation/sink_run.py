"""Runs a scenario of the sink, and gives back what came of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tests.simulation.archive_rows import Row, rows_of
from tests.simulation.broker import Record, is_visible
from tests.simulation.course import Course, Ended, run_course
from tests.simulation.environment import Environment, environment
from tests.simulation.scenario import Given, Scenario
from tests.simulation.sink_generator import BUCKET, LETTERS

Place = tuple[str, int, int]
_HELD_SECONDS: Final = 5.0


@dataclass
class Outcome(Ended):
    """What a run has come to."""

    rows: list[Row] = field(default_factory=list)
    letters: list[Record] = field(default_factory=list)
    expected: dict[Place, Given] = field(default_factory=dict)
    """What a reader of the topics gets, by its place."""


def run_sink(scenario: Scenario, *, calm: bool = False, seed: int | None = None) -> Outcome:
    """Run it; `calm`: the same records with nothing that goes wrong, cut elsewhere."""
    outcome = Outcome()
    with environment(scenario.seed if seed is None else seed) as made:
        run_course(made, _SinkCourse(made, scenario, outcome, calm=calm))
    return outcome


class _SinkCourse(Course):
    """Records come, and are archived."""

    data = ("produce",)

    def __init__(self, made: Environment, scenario: Scenario, outcome: Outcome, *, calm: bool) -> None:
        super().__init__(made, scenario, outcome, calm=calm)
        self._outcome = outcome
        self.options["buffer.dir"] = str(made.folder / "buffer")
        self.last_options = {"rotate.on.stop": "true"}

    def prepare(self) -> None:
        """See Course."""
        self.made.bucket.make(BUCKET)
        for name, partitions in self.scenario.topics.items():
            self.made.broker.create(name, partitions)
        self.made.broker.create(LETTERS, 1)

    def acts(self) -> dict[str, Callable[..., None]]:
        """See Course."""
        return {**super().acts(), "produce": self._produce}

    def _produce(self, begin: int, end: int, how: str) -> None:
        broker, kernel = self.made.broker, self.made.kernel
        running = None
        if how != "plain":
            epoch = broker.initialise("load")
            running = broker.transaction("load", epoch)
        for one in self.scenario.records[begin:end]:
            record = Record(0, one.key, one.value, one.headers, one.timestamp_ms)
            broker.produce(one.topic, one.partition, record, running)
        if running is None:
            return
        if how == "held" and not self.calm:
            kernel.sleep(_HELD_SECONDS)
        if how == "aborted":
            broker.abort("load", epoch)
        else:
            broker.commit("load", epoch)

    def collect(self) -> None:
        """See Course."""
        super().collect()
        made, outcome, options = self.made, self._outcome, self.scenario.options
        reads_all = options.get("consumer.override.isolation.level") == "read_uncommitted"
        for name, partitions in self.scenario.topics.items():
            for partition in range(partitions):
                place = (name, partition)
                given = iter([one for one in self.scenario.records if (one.topic, one.partition) == place])
                for record in made.broker.log(name, partition).records:
                    if not record.is_marker:
                        one = next(given)
                        if reads_all or is_visible(record):
                            outcome.expected[name, partition, record.offset] = one
        outcome.letters = made.broker.visible(LETTERS, 0)
        outcome.rows = rows_of(made.bucket, BUCKET, options["output.format"])
