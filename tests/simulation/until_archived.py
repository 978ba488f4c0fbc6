"""`--until-idle` of a sink while its topic is written to, or one of its workers dies.

    python -m tests.simulation.until_archived

in a process of its own, as the simulation exchanges clocks, threads and locks.
"""

from collections.abc import Mapping
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
            last = _started(made, {"rotate.records": "1"})

            def body(made: Environment = made, last: Instance = last) -> None:
                deadline = made.kernel.now + _LONGEST
                while not last.is_over and made.kernel.now < deadline:
                    made.broker.produce(_TOPIC, 0, _record(made))
                    made.kernel.sleep(0.3)
                assert last.ending == "exit 0", f"{last.ending} after {_LONGEST} s"

            made.operate(body)
            assert set(range(_BEFORE)) <= {row.offset for row in rows_of(made.bucket, BUCKET)}


def killed_with_closed_objects() -> None:
    """`rotate.on.stop=false` is about open objects: what was closed when a worker died is read again."""
    options = {"rotate.records": str(_BEFORE // 4), "rotate.on.stop": "false"}
    for seed, wait in enumerate((1.5, 2.0, 2.5, 3.0, 4.0, 8.0)):
        with environment(seed) as made:
            _prepare(made)
            made.bucket.weather.forbidden.add("CreateMultipartUpload")
            last = _started(made, options)

            def body(made: Environment = made, last: Instance = last, wait: float = wait) -> None:
                made.kernel.sleep(wait)
                for worker in made.workers[last.process]:
                    made.kernel.kill(worker)
                made.bucket.weather.forbidden.clear()
                deadline = made.kernel.now + _LONGEST
                while not last.is_over and made.kernel.now < deadline:
                    made.kernel.sleep(0.3)
                assert last.ending == "exit 0", f"{last.ending} after {_LONGEST} s"

            made.operate(body)
            assert any(event == "slot_lost" for _, _, event, _ in made.log)
            found = sorted(row.offset for row in rows_of(made.bucket, BUCKET))
            assert found == list(range(_BEFORE)), (wait, found)


def _prepare(made: Environment) -> None:
    made.bucket.make(BUCKET)
    made.broker.create(_TOPIC, 1)
    for _ in range(_BEFORE):
        made.broker.produce(_TOPIC, 0, _record(made))


def _started(made: Environment, options: Mapping[str, str]) -> Instance:
    return Instance(made, {**_OPTIONS, "state.dir": str(made.folder / "state"), **options}, until_idle=True)


def _record(made: Environment) -> Record:
    return Record(0, None, b"1", (), round(made.kernel.now * 1000))


COURSES: Final = (written_meanwhile, killed_with_closed_objects)


if __name__ == "__main__":
    for course in COURSES:
        course()
