"""Scenarios of a group of workers: requests to any of them, data meanwhile, and what goes wrong."""

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from tests.simulation.apart import with_cuts, with_disks
from tests.simulation.pairs import all_pairs, drawn_count
from tests.simulation.scenario import Given, Scenario, Step
from tests.simulation.sink_records import JSON

_Request = tuple[str, str, Any]
INCOMING: Final = "incoming"
SECOND: Final = "second"
ARCHIVE: Final = "archive"
SECOND_ARCHIVE: Final = "second-archive"
BUCKETS: Final = (INCOMING, SECOND, ARCHIVE, SECOND_ARCHIVE)
EVENTS: Final = "events"
GROUP: Final = "workers"
CONFIGS: Final = f"{GROUP}-configs"
SECRET: Final = "aws.secret.access.key"
FIXED: Final[Mapping[str, str]] = {}
_SOURCE: Final = "io.aiven.kafka.connect.s3.source.S3SourceConnector"
_SINK: Final = "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector"
_REST: Final = ("RUNNING", "PAUSED", "STOPPED")


def _source(name: str) -> dict[str, str]:
    return {
        "connector.class": _SOURCE,
        "aws.s3.bucket.name": INCOMING,
        "aws.s3.prefix": f"{name}/",
        "aws.s3.region": "us-east-1",
        "topic": f"rows-{name}",
        "file.name.template": ".*",
        "input.format": "jsonl",
        "poll.interval.ms": "2000",
    }


NAMES: Final = ("one", "two", "out")
SOURCES: Final = ("one", "two")
CONFIGURATIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "one": _source("one"),
    "two": _source("two"),
    "out": {
        "connector.class": _SINK,
        "aws.s3.bucket.name": ARCHIVE,
        "aws.s3.region": "us-east-1",
        "topics": EVENTS,
        "file.name.template": "all/{{topic}}/{{partition}}-{{start_offset}}",
        "output.format": "jsonl",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        "rotate.age.ms": "2000",
    },
}
OTHER_BUCKET: Final[Mapping[str, str]] = {"one": SECOND, "two": SECOND, "out": SECOND_ARCHIVE}

DIMENSIONS: Final[Mapping[str, Sequence[str | None]]] = {
    "workers": ("2", "1", "3"),
    "cores": ("2", "1"),
    "connectors": ("one,out", "one", "one,two,out"),
    "session.timeout.ms": (None, "6000", "30000"),
    "one.tasks.max": (None, "1"),
    "one.post.action": (None, "delete"),
    "one.transaction.boundary.records": (None, "1"),
    "one.lead.session.timeout.ms": (None, "6000"),
    f"one.{SECRET}": (None, "literal"),
    "out.rotate.records": (None, "1", "3"),
    "out.rotate.on.stop": (None, "false"),
    "out.tasks.max": (None, "1"),
}
CHANGES: Final[Mapping[str, Mapping[str, Sequence[str | None]]]] = {
    "one": {
        "tasks.max": (None, "1", "2"),
        "transaction.boundary.records": (None, "1", "3"),
        "poll.interval.ms": ("1000", "2000"),
        "topic": ("rows-one", "more-one"),
        "post.action": (None, "delete"),
    },
    "two": {
        "tasks.max": (None, "1", "2"),
        "poll.interval.ms": ("1000", "2000"),
        "topic": ("rows-two", "more-two"),
    },
    "out": {
        "rotate.records": (None, "1", "3"),
        "rotate.on.stop": (None, "false"),
        "tasks.max": (None, "1"),
        "file.compression.type": (None, "gzip"),
    },
}
"""What requests change, by connector."""
INVALID: Final[Sequence[tuple[str, str]]] = (
    ("tasks.max", "none"),
    ("http.listen", "0.0.0.0:1"),
    ("connector.class", "no.such.Class"),
    ("aws.s3.bucket.name", ""),
    (SECRET, "[hidden]"),
)
GARBAGE: Final[Mapping[str, tuple[str, str | None]]] = {
    "a key of another program": ("connector-x", '{"properties":{}}'),
    "broken JSON": ('{"control":"connector:one"}', "{"),
    "another connector": ('{"control":"connector:one"}', '{"v":1,"name":"two","config":{},"at_ms":0}'),
    "broken workers": ('{"control":"workers"}', "{"),
    "a newer version": ('{"control":"connector:one"}', '{"v":99,"name":"one"}'),
    "an unknown control": ('{"control":"later"}', '{"v":99}'),
    "a tombstone of nothing": ('{"control":"connector:never"}', None),
    "an empty key": ("", "x"),
    "a control of another form": ('{"control": "connector:one"}', '{"v":99}'),
    "an object": ('{"bucket":"b","key":"k","etag":"e"}', "{"),
}
DAMAGING: Final = ("broken JSON", "another connector")
"""What the configuration of connector `one` is lost to."""
HEALED: Final = ("broken workers",)
"""What the worker that leads writes again."""
PASSED_OVER: Final = (
    "a key of another program",
    "a tombstone of nothing",
    "an empty key",
    "a control of another form",
    "an object",
)
"""What no worker stops for."""
FAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "kill": {},
    "stop": {},
    "pause": {"seconds": 4.0},
    "pause long": {"seconds": 16.0},
    "java ends": {},
    "kill worker": {},
    "broker away": {"seconds": 8.0},
    "commit unanswered": {"count": 1},
    "s3": {"kind": "503", "count": 3},
    "s3 away": {"seconds": 10.0},
    "clock": {"ms": 3_600_000},
    "clock back": {"ms": -3_600_000},
    "starts late": {"count": 2},
    **{f"garbage: {what}": {"what": what} for what in GARBAGE},
    "compact": {},
}
_RESTARTS: Final = ("restart", "restart?includeTasks=true", "tasks/0/restart")
_READS: Final = (
    "/connectors",
    "/connectors?expand=status",
    "{}",
    "{}/status",
    "{}/config",
    "{}/tasks",
    "{}/topics",
    "{}/offsets",
)
OPERATIONS: Final = (
    "put same",
    "put",
    "put invalid",
    "patch",
    "delete",
    "create",
    "create again",
    "pause",
    "resume",
    "stop",
    "restart",
    "reset",
    "alter",
    "read",
    "validate",
)


_CHANGING: Final = ("put same", "put", "patch", "delete", "create", "create again", "put invalid")
_STEERING: Final = ("pause", "resume", "stop", "reset", "restart", "put", "create again")
_STORIES: Final = ("changes at once", "made again", "who leads ends", "garbage", "workers come and go")
"""What half of the scenarios are about."""
LEADING: Final = -1
"""The number of the worker that leads."""


def config_of(name: str, options: Mapping[str, str]) -> dict[str, str]:
    """The configuration with which a connector is created first."""
    own = {one.partition(".")[2]: text for one, text in options.items() if one.startswith(f"{name}.")}
    keys = {"aws.access.key.id": "id"} if SECRET in own else {}
    return {**CONFIGURATIONS[name], **keys, **own}


@cache
def _rows() -> list[dict[str, str | None]]:
    return all_pairs(DIMENSIONS)


def worker_scenario(seed: int) -> Scenario:
    """The scenario of a seed: pairs of options in their order first, then at random."""
    rng = random.Random(f"worker-{seed}")
    rows = _rows()
    drawn = {name: rng.choice(each) for name, each in DIMENSIONS.items()}
    place = seed // 2
    if seed % 2 == 0 and place < len(rows):
        drawn = rows[place]
    options = {name: value for name, value in drawn.items() if value is not None}
    names = options["connectors"].split(",")
    options = {
        name: value
        for name, value in options.items()
        if "." not in name or name.startswith("session") or name.partition(".")[0] in names
    }
    records = tuple(_records(rng, names))
    topics = {EVENTS: rng.choice((1, 2))}
    steps = _Steps(rng, options, len(records), _STORIES[place % len(_STORIES)] if seed % 2 else "")
    return Scenario(
        seed=seed,
        direction="worker",
        options=options,
        topics=topics,
        records=records,
        steps=with_disks(
            "worker", seed, with_cuts("worker", seed, steps.all(), (LEADING, *range(int(options["workers"]))))
        ),
    )


def _records(rng: random.Random, names: Sequence[str]) -> Iterator[Given]:
    """Objects of sources, by their keys, and records of a sink's topic.

    The partition of an object is the number of its bucket.
    """
    for number in range(drawn_count(rng, small=(2, 3, 5), big=(8, 12))):
        name = rng.choice(names)
        if name == "out":
            value = json.dumps({"a": number}).encode()
            yield Given(EVENTS, rng.choice((0, 1)), None, value, 1_700_000_000_000)
            continue
        lines = [
            json.dumps({"n": f"{number}-{row}", "x": "y" * rng.choice((0, 0, 50))})
            for row in range(rng.choice((1, 2, 5, 9)))
        ]
        yield Given(f"{name}/{number:03}.jsonl", rng.choice((0, 0, 0, 1)), None, "\n".join(lines).encode(), 0)


class _Steps:
    """Requests, data and faults."""

    def __init__(self, rng: random.Random, options: Mapping[str, str], records: int, story: str) -> None:
        self._story = story
        self._rng = rng
        self._options = options
        self._records = records
        self._names = options["connectors"].split(",")
        self._workers = int(options["workers"])
        self._known: dict[str, dict[str, str]] = {}

    def all(self) -> Iterator[Step]:
        """The steps in their order."""
        rng = self._rng
        for number in range(self._workers):
            yield Step(rng.choice((0.0, 0.0, 0.5, 3.0)), "worker", {"number": number})
        for name in self._names:
            yield self._ask(rng.choice((0.0, 0.5, 4.0)), "create", [self._creation(name)])
        done = 0
        while done < self._records:
            end = min(self._records, done + rng.choice((1, 2, 5)))
            after = rng.choice((0.0, 0.3, 2.0, 6.0))
            yield Step(after, "put", {"begin": done, "end": end})
            done = end
            if self._story:
                yield from self._about(rng.choice(self._names))
            for _ in range(rng.choice((0, 0, 1) if self._story else (0, 1, 1, 2))):
                yield from self._fault(rng.choice((0.0, 0.02, 0.1, 0.3, 1.0, 5.0)))
            for _ in range(rng.choice((1, 1, 2, 3))):
                yield from self._operation(rng.choice((0.0, 0.0, 0.1, 0.3, 1.0, 4.0)))

    def _about(self, name: str) -> Iterator[Step]:
        """What the scenario is about, once more."""
        rng, soon = self._rng, (0.0, 0.0, 0.01, 0.03, 0.1)
        after = rng.choice((0.3, 2.0, 5.0))
        if self._story == "changes at once":
            operations = [rng.choice(("delete", "create", "create")), *rng.choices(_CHANGING, k=3)]
            if rng.random() < 0.5:
                yield self._ask(after, "delete", self._requests(name, "delete"))
                operations = ["create", "create", rng.choice(_CHANGING)]
            for operation in operations:
                yield self._ask(rng.choice(soon), operation, self._requests(name, operation))
        elif self._story == "made again":
            steered = rng.choice(("stop", "pause", "put", "reset", "delete"))
            requests = [*self._requests(name, "create again"), *self._requests(name, steered)]
            yield self._ask(after, "create again", requests)
        elif self._story == "who leads ends":
            fault = rng.choice(("kill", "stop", "pause", "pause long", "java ends", "broker away"))
            given = dict(FAULTS[fault]) | ({} if fault == "broker away" else {"number": LEADING})
            steps = [Step(rng.choice(soon), act_of(fault), given)]
            steps += [
                self._ask(rng.choice(soon), operation, self._requests(name, operation))
                for operation in rng.choices(_CHANGING, k=2)
            ]
            rng.shuffle(steps)
            yield Step(after, "wait", {})
            yield from steps
            yield Step(rng.choice((0.1, 3.0, 20.0)), "worker", {"number": LEADING})
        elif self._story == "garbage":
            what = rng.choice(list(GARBAGE))
            yield Step(after, "garbage", {"what": what})
            operation = rng.choice(_CHANGING)
            yield self._ask(rng.choice(soon), operation, self._requests(name, operation))
            yield Step(rng.choice((0.5, 1.5, 5.0)), "clean", {})
        else:
            number = self._to()
            yield Step(after, rng.choice(("kill", "stop")), {"number": number})
            for operation in rng.choices(_STEERING, k=2):
                yield self._ask(rng.choice((0.0, 0.3, 2.0)), operation, self._requests(name, operation))
            yield Step(rng.choice((0.1, 1.0, 4.0)), "worker", {"number": number})

    def _to(self) -> int:
        return self._rng.randrange(self._workers)

    def _ask(self, after: float, what: str, requests: Iterable[_Request]) -> Step:
        """Requests of one client, one after the other, each to any of the workers."""
        return Step(after, "ask", {"what": what, "requests": [[self._to(), *one] for one in requests]})

    def _creation(self, name: str, **changes: str) -> _Request:
        rng = self._rng
        config = {**config_of(name, self._options), **changes}
        self._known[name] = config
        if rng.random() < 0.3:
            return "PUT", f"/connectors/{name}/config", config
        body: dict[str, Any] = {"name": name, "config": config}
        if rng.random() < 0.3:
            body["initial_state"] = rng.choice(_REST)
        return "POST", "/connectors", body

    def _operation(self, after: float) -> Iterator[Step]:
        rng = self._rng
        name, operation = rng.choice(self._names), rng.choice(OPERATIONS)
        yield self._ask(after, operation, self._requests(name, operation))
        if rng.random() < 0.2:
            # Two at once, of which each may come first.
            other = rng.choice(OPERATIONS)
            yield self._ask(0.0, other, self._requests(rng.choice(self._names), other))

    def _requests(self, name: str, operation: str) -> Iterator[_Request]:
        """What a client sends for an operation."""
        rng = self._rng
        path, known = f"/connectors/{name}", self._known[name]
        simple: Mapping[str, _Request] = {
            "put same": ("PUT", f"{path}/config", dict(known)),
            "delete": ("DELETE", path, None),
            "pause": ("PUT", f"{path}/pause", None),
            "resume": ("PUT", f"{path}/resume", None),
            "stop": ("PUT", f"{path}/stop", None),
            "restart": ("POST", f"{path}/{rng.choice(_RESTARTS)}", None),
            "read": ("GET", rng.choice(_READS).format(path), None),
            "validate": (
                "PUT",
                f"/connector-plugins/{known['connector.class']}/config/validate",
                dict(known),
            ),
        }
        if operation in simple:
            yield simple[operation]
        elif operation == "put invalid":
            option, text = rng.choice(INVALID)
            yield "PUT", f"{path}/config", {**known, option: text}
        elif operation in ("put", "patch"):
            yield self._changing(name, operation)
        elif operation == "create":
            yield self._creation(name)
        elif operation == "create again":
            yield "DELETE", path, None
            bucket = rng.choice((OTHER_BUCKET[name], CONFIGURATIONS[name]["aws.s3.bucket.name"]))
            yield self._creation(name, **{"aws.s3.bucket.name": bucket})
        else:
            yield from self._offsets(name, path, operation)

    def _changing(self, name: str, operation: str) -> _Request:
        """One option has another value, or is left out."""
        known, option = self._known[name], self._rng.choice(list(CHANGES[name]))
        text = self._rng.choice(CHANGES[name][option])
        known.pop(option, None)
        if text is not None:
            known[option] = text
        path = f"/connectors/{name}/config"
        return ("PUT", path, dict(known)) if operation == "put" else ("PATCH", path, {option: text})

    def _offsets(self, name: str, path: str, operation: str) -> Iterator[_Request]:
        """A connector is stopped, its offsets are reset or altered, and it goes on."""
        partition = {"kafka_topic": EVENTS, "kafka_partition": 0}
        offsets = [{"partition": partition, "offset": {"kafka_offset": 0}}]
        yield "PUT", f"{path}/stop", None
        if operation == "alter" and name == "out":
            yield "PATCH", f"{path}/offsets", {"offsets": offsets}
        else:
            yield "DELETE", f"{path}/offsets", None
        yield "PUT", f"{path}/resume", None

    def _fault(self, after: float) -> Iterator[Step]:
        rng = self._rng
        fault = rng.choice(list(FAULTS))
        given = dict(FAULTS[fault])
        act = act_of(fault)
        if act in ("kill", "stop", "pause", "java ends"):
            given["number"] = self._to()
        yield Step(after, act, given)
        if act in ("kill", "stop", "java ends"):
            yield Step(rng.choice((0.1, 2.0, 12.0)), "worker", {"number": given["number"]})
        if act == "garbage":
            yield Step(rng.choice((0.5, 5.0)), "clean", {})


def act_of(fault: str) -> str:
    """What is done for it."""
    names = {"pause long": "pause", "clock back": "clock"}
    return "garbage" if fault.startswith("garbage") else names.get(fault, fault)


def faults_of(step: Step) -> Iterator[str]:
    """The faults that a step is."""
    given = {name: value for name, value in step.given.items() if name != "number"}
    for name, wanted in FAULTS.items():
        if step.act == act_of(name) and given == dict(wanted):
            yield name


def operations_of(step: Step) -> Iterator[str]:
    """What an operator does in a step."""
    if step.act == "ask":
        yield step.given["what"]
