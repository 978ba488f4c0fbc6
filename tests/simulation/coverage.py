"""What seeds have come by: pairs of option values, of options and faults, of operations and faults."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tests.simulation import (
    archives_generator,
    frames_generator,
    layouts_generator,
    restore_generator,
    sink_generator,
    source_generator,
    turns_generator,
    worker_generator,
    writing_generator,
)
from tests.simulation.apart import (
    AGAIN,
    BY_TIME,
    CUT_OFF,
    DENIED,
    DISKS,
    FOREIGN,
    GROUP_MOVED,
    HELD,
    LACKING,
    LOG_CUT,
    NO_CONDITIONS,
    PAGES,
    RETENTION,
    REWINDS,
)
from tests.simulation.late_topics import TOPIC_MADE
from tests.simulation.scenario import Scenario, Step

_Names = Mapping[str, Mapping[str, Any]]
DIMENSIONS: Final = {
    "archives": archives_generator.DIMENSIONS,
    "frames": frames_generator.DIMENSIONS,
    "layouts": layouts_generator.DIMENSIONS,
    "restore": restore_generator.DIMENSIONS,
    "sink": sink_generator.DIMENSIONS,
    "source": source_generator.DIMENSIONS,
    "turns": turns_generator.DIMENSIONS,
    "worker": worker_generator.DIMENSIONS,
    "writing": writing_generator.DIMENSIONS,
}
_DISKS: Final[_Names] = {name: {} for name in DISKS}
_APART: Final[_Names] = {CUT_OFF: {}, DENIED: {}, **_DISKS}
"""Faults that are drawn apart from the others: whatever they are given."""
_FAULTS: Final[Mapping[str, _Names]] = {
    "archives": {**sink_generator.FAULTS, **_APART},
    "frames": {**frames_generator.FAULTS, **_DISKS},
    "layouts": {**sink_generator.FAULTS, **_APART},
    "restore": {**sink_generator.FAULTS, **_APART},
    "sink": {**sink_generator.FAULTS, **_APART},
    "source": {**source_generator.SOURCE_FAULTS, **_APART},
    "turns": turns_generator.FAULTS,
    "worker": {**worker_generator.FAULTS, CUT_OFF: {}, **_DISKS},
    "writing": {**writing_generator.FAULTS, **_DISKS},
}
_OPERATIONS: Final[Mapping[str, Sequence[str]]] = {
    "frames": (
        *frames_generator.OPERATIONS,
        *(f"change {name}" for name in frames_generator.CHANGING),
        "delete",
    ),
    "archives": (*restore_generator.OPERATIONS, HELD, *BY_TIME, PAGES, LACKING),
    "layouts": (
        *sink_generator.OPERATIONS,
        *(NO_CONDITIONS, FOREIGN, LOG_CUT, RETENTION, *BY_TIME),
        *(f"change {name}" for name in layouts_generator.CHANGED),
    ),
    "restore": (
        *restore_generator.OPERATIONS,
        *(HELD, PAGES, LACKING),
        *BY_TIME,
        *(f"change {name}" for name in restore_generator.CHANGING),
    ),
    "sink": (
        *sink_generator.OPERATIONS,
        *(NO_CONDITIONS, FOREIGN, LOG_CUT, RETENTION, *BY_TIME, REWINDS, GROUP_MOVED, TOPIC_MADE),
        *(f"change {name}" for name in sink_generator.CHANGING),
    ),
    "source": (
        *source_generator.OPERATIONS,
        *(HELD, PAGES, LACKING),
        *BY_TIME,
        *(f"change {name}" for name in dict.fromkeys(source_generator.CHANGING)),
        "delete",
    ),
    "turns": turns_generator.OPERATIONS,
    "worker": worker_generator.OPERATIONS,
    "writing": (
        *writing_generator.OPERATIONS,
        *(NO_CONDITIONS, AGAIN),
        *(f"change {name}" for name in writing_generator.CHANGING),
    ),
}
UNDRAWN: Final[Mapping[str, str]] = {
    "connector.class": "another name of what is drawn",
    "instance.id lead.session.timeout.ms": "the pauses and sessions of stories are made for the defaults",
    "offsets.storage.topic state.dir ledger.retention.ms": "of each run, or of weeks",
    "producer.partitioner topic.creation. errors.deadletterqueue.topic.replication.factor": "librdkafka",
    "spark. rest. traces.": "no service of them is in it",
    "aws.s3. aws.access. aws.secret. aws.session. aws.credentials. aws.sts. aws.ca.": "botocore",
    "sqs.endpoint sqs.region sqs.wait.time.seconds sqs.receivers": "aiobotocore, or only how soon",
    "object.include object.exclude file.name.match": "of a key alone: courses and unit tests",
    "post.action.unconditional": "documented to let go of what a law says",
    "file.compression.type": "by the names of objects",
    "transformer.max.buffer.size record.max.bytes": "limits of topics do the same",
    "value. key.converter json.format input.envelope schema.registry. aws.glue.": "rows are read as JSON",
    "csv. text. input.archive.": "of a format alone: its own tests",
    "errors.retry.delay.max.ms errors.log.enable": "only how late, and how often a line",
    "layout.indexes restore. store.envelope format. file.delim directory.delim tombstone.": "of restores",
    "predicates": "of a row alone: its own tests",
}
"""Why options of a source are not drawn, by their names or how these begin."""
UNWRITTEN: Final[Mapping[str, str]] = {
    "aws.s3. aws.access. aws.secret. aws.session. aws.credentials. aws.sts. aws.ca.": "botocore, or `path`",
    "json.format csv.delimiter csv.quote file.compression.level key.converter.schemas.enable "
    "header.converter.schemas.enable": "of a format",
    "output.avro.optional.map.keys sidecars.headers.compression.type": "of a format alone: its own tests",
    "file.name.timestamp.round.ms file.name.timestamp.timezone file.name.locale": "of a name alone",
    "file.name.missing file.name.null.keys": "of a name alone: its own tests",
    "sidecars.tombstones.template": "where the directory is drawn, in other words",
    "schema.registry. aws.glue.": "its tests: only converters without a registry are drawn",
    "buffer.": "of each run, or of memory",
}
"""The same of Spark's writer."""
HEAD: Final = (
    "| | scenarios | option values x option values | option values x faults | option values x operations "
    "| operations x faults | faults x faults |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
)
"""Above the lines of `Coverage.line`."""


class Coverage:
    """What a run of seeds has come by, in one direction."""

    def __init__(self, direction: str) -> None:
        self._direction = direction
        self._dimensions = DIMENSIONS[direction]
        self.count = 0
        self._values: set[tuple[tuple[str, str], tuple[str, str]]] = set()
        self._pairs: dict[str, set[tuple[object, str]]] = {"faults": set(), "operations": set()}
        self._beside: dict[str, set[tuple[str, str]]] = {"faults": set(), "operations": set()}

    def add(self, scenario: Scenario) -> None:
        """Count a scenario."""
        self.count += 1
        # What is drawn apart has values of its own.
        chosen = sorted(
            (name, value if (value := scenario.options.get(name)) in values and value is not None else "-")
            for name, values in self._dimensions.items()
        )
        self._values.update(itertools.combinations(chosen, 2))
        faults: set[str] = set()
        operations: set[str] = set()
        for step in scenario.steps:
            if self._direction == "worker":
                faults.update(worker_generator.faults_of(step), {step.act} & {CUT_OFF, *DISKS})
                operations.update(worker_generator.operations_of(step))
                continue
            faults.update(_faults_of(step, _FAULTS[self._direction]))
            operations.update(_operations_of(step, _OPERATIONS[self._direction]))
        self._pairs["faults"].update(itertools.product(chosen, faults))
        self._pairs["operations"].update(itertools.product(chosen, operations))
        self._beside["operations"].update(itertools.product(operations, faults))
        self._beside["faults"].update(itertools.combinations(sorted(faults), 2))

    def line(self) -> str:
        """A line of a table: covered pairs of all; some values of options exclude each other."""
        sizes = [len({*values, None}) for values in self._dimensions.values()]
        values, faults = sum(sizes), len(_FAULTS[self._direction])
        operations = len(_OPERATIONS[self._direction])
        possible = sum(one * other for one, other in itertools.combinations(sizes, 2))
        cells = (
            self._direction,
            f"{self.count:,}",
            f"{len(self._values):,} of {possible:,}",
            f"{len(self._pairs['faults']):,} of {values * faults:,}",
            f"{len(self._pairs['operations']):,} of {values * operations:,}",
            f"{len(self._beside['operations']):,} of {operations * faults:,}",
            f"{len(self._beside['faults']):,} of {faults * (faults - 1) // 2:,}",
        )
        return f"| {' | '.join(cells)} |"


def _faults_of(step: Step, faults: _Names) -> Iterator[str]:
    """The fault that a step is."""
    for name, given in faults.items():
        is_drawn = step.act == sink_generator.act_of(name, faults) and dict(step.given) == dict(given)
        if is_drawn or (step.act == name and name in _APART):
            yield name


def _operations_of(step: Step, operations: Sequence[str]) -> Iterator[str]:
    """What an operator does in a step."""
    if step.act == "change":
        options = step.given["options"]
        if "aws.s3.bucket.name" in options:
            is_added = options["aws.s3.bucket.name"] == source_generator.BOTH
            yield "bucket added" if is_added else "other bucket"
        elif options == writing_generator.OPERATIONS["other bucket"]["options"]:
            yield "other bucket"
        elif options in [one.get("options") for one in frames_generator.OPERATIONS.values()]:
            yield from (n for n, one in frames_generator.OPERATIONS.items() if one.get("options") == options)
        yield from (name for one in options if (name := f"change {one}") in operations)
    elif step.act == "forbidden":
        named = {"CompleteMultipartUpload": "forbidden to end", "DeleteObject": "forbidden to act"}
        yield named.get(step.given["operation"], "forbidden")
    elif step.act == "batch write":
        yield step.act if step.given["ordered"] else "batch unordered"
    elif step.act == "replay":
        yield "replay whole" if step.given["from_start"] else "replay"
    elif step.act in operations:
        yield step.act
