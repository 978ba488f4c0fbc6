"""`--until-idle` of a sink while its topic is written to.

    python -m tests.simulation.until_archived

in a process of its own, as the simulation exchanges clocks, threads and locks.
"""

from typing import Final

from tests.simulation.archive_rows import rows_of
from tests.simulation.broker import Record
from tests.simulation.environment import Environment, Instance, environment
from tests.simulation.sink_generator import BUCKET, FIXED

_TOPIC: Final = "events"
_OPTIONS: Final = {
    **FIXED,
    "topics": _TOPIC,
    "output.format": "jsonl",
    "output.fields": "topic,partition,offset",
    "file.name.unique": "assumed",
    "file.name.template": "{{topic}}/{{partition}}-{{start_offset}}",
    "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
}
_BEFORE: Final = 20
_LONGEST: Final = 600.0


def written_meanwhile() -> None:
    """The leader learns of each record by its commit first: what was there is archived, and that is all."""
    for seed in range(3):
        with environment(seed) as made:
            _prepare(made)
            last = Instance(made, {**_OPTIONS, "rotate.records": "1"}, until_idle=True)

            def body(made: Environment = made, last: Instance = last) -> None:
                deadline = made.kernel.now + _LONGEST
                while not last.is_over and made.kernel.now < deadline:
                    made.broker.produce(_TOPIC, 0, _record(made))
                    made.kernel.sleep(0.3)
                assert last.ending == "exit 0", f"{last.ending} after {_LONGEST} s"

            made.operate(body)
            assert set(range(_BEFORE)) <= {row.offset for row in rows_of(made.bucket, BUCKET)}


def _prepare(made: Environment) -> None:
    made.bucket.make(BUCKET)
    made.broker.create(_TOPIC, 1)
    for _ in range(_BEFORE):
        made.broker.produce(_TOPIC, 0, _record(made))


def _record(made: Environment) -> Record:
    return Record(0, None, b"1", (), round(made.kernel.now * 1000))


if __name__ == "__main__":
    written_meanwhile()
