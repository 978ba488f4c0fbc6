"""What queries of Spark's source are drawn apart: turns of listed objects, and listings that fail.

Uploads that continue go first, and leave every fifth place to what listings alone have found, from batch to
batch and from process to process. A query that ends by itself has read all that was there, or says why not.
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.simulation.apart import OWN_FROM
from tests.simulation.environment import Environment
from tests.simulation.frames_generator import (
    EVENTS,
    INCOMING,
    NARROWING,
    QUEUE,
    SCHEMA,
    TRIGGER,
    VERSIONS,
    frames_scenario,
)
from tests.simulation.kernel import Process
from tests.simulation.s3 import refused
from tests.simulation.scenario import Given, Scenario, Step

TURNS: Final = "turns looked at"
SLOW: Final = "listings take longer"
FAILS: Final = "listings fail"
ENDS: Final = "query that ends"
_TURNS_SHARE: Final = 0.06
_FAILS_SHARE: Final = 0.08
_KILL_SHARE: Final = 0.3
_QUEUE_SHARE: Final = 0.6
_LIMITS: Final = (("maxFilesPerTrigger", "1"), ("maxFilesPerTrigger", "2"), ("maxBytesPerTrigger", "150"))
_NEVER_SECONDS: Final = 100_000.0
"""So late come messages of what listings alone find."""
_FOR_GOOD: Final = 5_000.0
_MOST_FRESH: Final = 4
_LISTED: Final = "!"
"""Names begin with it of what listings alone show, and show first."""
_KNOWN_SECONDS: Final = 0.25
"""After a page of a listing, until the batches begin that its objects are in turn for."""
_PAGES: Final = "ListObjectsV2"
_CODES: Final = {"SlowDown": 503, "InternalError": 500, "AccessDenied": 403}
_LASTING: Final = "AccessDenied"
PATIENCE_SECONDS: Final = 570.0
"""For less than that no query that ends by itself gives up."""


def turned_scenario(seed: int) -> Scenario:
    """The scenario of a seed, to some of which this adds what is to happen first."""
    return _with_turns(seed, _with_failing_listings(seed, frames_scenario(seed)))


def _with_turns(seed: int, scenario: Scenario) -> Scenario:
    """The scenario; some begin with a backlog that only listings show, and uploads meanwhile."""
    rng = random.Random(f"turns-{seed}")
    is_other = any(step.act == FAILS for step in scenario.steps)
    if seed < OWN_FROM or rng.random() >= _TURNS_SHARE or is_other:
        return scenario
    changed: dict[str, str | None] = {
        **dict.fromkeys((*NARROWING, EVENTS, VERSIONS, TRIGGER, "object.min.age.ms", "sqs.max.held")),
        "sqs.queue.url": QUEUE,
        **dict.fromkeys(("maxFilesPerTrigger", "maxBytesPerTrigger", "max.pending.objects")),
    }
    limit, value = rng.choice(_LIMITS)
    changed[limit] = value
    begin = len(scenario.records)
    listed, fresh = rng.choice((3, 5)), rng.choice((20, 30))
    records = [*_rows_of(rng, begin, listed, _LISTED), *_rows_of(rng, begin + listed, fresh, "9")]
    steps = [Step(0.0, "put", {"begin": begin, "end": begin + listed, "late": _NEVER_SECONDS})]
    # Else what they show is read before the first upload is announced.
    steps += [Step(0.0, SLOW, {"seconds": rng.choice((0.3, 0.6))}), Step(0.1, "start", {})]
    place, end = begin + listed, begin + len(records)
    while place < end:
        count = min(end - place, rng.choice((4, 7, 10)))
        put = {"begin": place, "end": place + count, "late": 0.0}
        steps.append(Step(rng.choice((0.0, 0.1, 0.3)), "put", put))
        place += count
        if rng.random() < _KILL_SHARE:
            steps.append(Step(rng.choice((0.3, 1.0, 2.0)), rng.choice(("kill", "stop")), {}))
            steps.append(Step(0.1, "start", {}))
    steps += [Step(2.0, TURNS, {}), Step(0.0, SLOW, {"seconds": 0.0})]
    return _with(scenario, changed, records, steps)


def _with_failing_listings(seed: int, scenario: Scenario) -> Scenario:
    """The scenario; some begin with queries that end by themselves, while listings fail."""
    rng = random.Random(f"failing-{seed}")
    if seed < OWN_FROM or rng.random() >= _FAILS_SHARE:
        return scenario
    begin = len(scenario.records)
    records = _rows_of(rng, begin, rng.choice((3, 6)), "5")
    steps: list[Step] = []
    for place in range(begin, begin + len(records), 3):
        end, middle = place + 3, place + rng.choice((0, 1, 1, 3))
        given: dict[str, Any] = {
            "code": rng.choice(("SlowDown", "SlowDown", "InternalError", _LASTING)),
            "seconds": rng.choice((2.0, 30.0, 300.0, 480.0, _FOR_GOOD)),
            "is_later": rng.random() < 0.4,
        }
        # Of some there is an event, and of others not.
        steps.append(Step(0.5, "put", {"begin": place, "end": middle, "late": 0.0}))
        steps.append(Step(0.0, "put", {"begin": middle, "end": end, "late": _NEVER_SECONDS}))
        steps.append(Step(rng.choice((0.0, 8.0)), FAILS, given))
        trigger, again = rng.choice(("once", "availableNow", "availableNow")), rng.choice((0, 1))
        steps += [Step(0.0, ENDS, {"trigger": trigger})] * (1 + again)
    steps.append(Step(0.0, FAILS, {"code": "SlowDown", "seconds": 0.0, "is_later": False}))
    changed: dict[str, str | None] = dict.fromkeys((*NARROWING, VERSIONS, TRIGGER))
    if rng.random() < _QUEUE_SHARE:
        changed["sqs.queue.url"] = QUEUE
    return _with(scenario, changed, records, steps)


def _rows_of(rng: random.Random, begin: int, count: int, first: str) -> list[Given]:
    rows = [
        {"n": f"{number}-0", "x": "y" * rng.choice((0, 50, 200))} for number in range(begin, begin + count)
    ]
    names = (f"in/{first}{number:03}.jsonl" for number in range(begin, begin + count))
    return [Given(name, 0, None, json.dumps(row).encode(), 0) for name, row in zip(names, rows, strict=True)]


def _with(
    scenario: Scenario, changed: Mapping[str, str | None], records: Sequence[Given], steps: Sequence[Step]
) -> Scenario:
    options = {name: value for name, value in {**scenario.options, **changed}.items() if value is not None}
    if "rows" in options:
        # From what comes at once a schema would have to be inferred.
        options[SCHEMA] = "given"
    return scenario.without(
        options=options, records=(*scenario.records, *records), steps=(*steps, *scenario.steps)
    )


@dataclass(slots=True)
class _Life:
    """One process of a query: since when it knows what listings show, and when it read which keys."""

    known: dict[str, float] = field(default_factory=dict)
    batches: list[tuple[float, list[str]]] = field(default_factory=list)


class Turns:
    """Looks at listings and batches of a run; `broken` says which objects had not their turn."""

    def __init__(self, made: Environment) -> None:
        self._made = made
        self._lives: dict[Process, _Life] = {}
        self._code = ""
        self._until = 0.0
        self._is_later = False
        self._slow = 0.0
        self.broken: list[str] = []
        made.bucket.on_asked, made.bucket.on_answered = self._asked, self._answered

    def fail(self, code: str, seconds: float, *, is_later: bool) -> None:
        """Listings of objects are refused for so long, or all but their first pages."""
        self._code, self._until, self._is_later = code, self._made.kernel.now + seconds, is_later
        self._made.bucket.page_keys = 2

    def slow(self, seconds: float) -> None:
        """So long each call of a listing takes, besides."""
        self._slow = seconds

    def end(self) -> None:
        """Listings are answered."""
        self._until = 0.0

    @property
    def has_lasting(self) -> bool:
        """Whether what listings are refused with now will last."""
        return self._code == _LASTING and self._made.kernel.now < self._until

    @property
    def seconds_left(self) -> float:
        """How long listings fail from now on."""
        return max(0.0, self._until - self._made.kernel.now)

    @property
    def code(self) -> str:
        """What listings were refused with last."""
        return self._code

    def took(self, keys: Sequence[str]) -> None:
        """The process that runs is about to read a batch."""
        process = self._made.kernel.here()
        if process is not None:
            self._life(process).batches.append((self._made.kernel.now, list(keys)))

    def look(self) -> None:
        """Which objects, that listings alone show, have waited while more than four others were taken."""
        there = self._made.bucket.objects[INCOMING]
        left = {key for key in there if key.startswith(f"in/{_LISTED}")}
        for life in self._lives.values():
            fresh = 0
            for at, keys in life.batches:
                waiting = {key for key in left if life.known.get(key, at) + _KNOWN_SECONDS < at}
                fresh = 0 if left & set(keys) or not waiting else fresh + len(keys)
                left -= set(keys)
                if fresh > _MOST_FRESH:
                    what = f"was listed, and {fresh} others were read one after the other"
                    self.broken.append(f"{min(waiting)} {what}")
                    return

    def _life(self, process: Process) -> _Life:
        return self._lives.setdefault(process, _Life())

    def _asked(self, operation: str, given: Mapping[str, Any]) -> float:
        """A call of a listener."""
        is_first = "StartAfter" not in given and "ContinuationToken" not in given
        is_meant = operation == "list_objects_v2" and not (self._is_later and is_first)
        if is_meant and self._made.kernel.now < self._until:
            raise refused(_PAGES, self._code, _CODES[self._code])
        return self._slow if operation == "list_objects_v2" else 0.0

    def _answered(self, operation: str, _given: Mapping[str, Any], answer: Any) -> None:
        process = self._made.kernel.here()
        if operation == "list_objects_v2" and isinstance(answer, dict) and process is not None:
            for one in answer["Contents"]:
                self._life(process).known.setdefault(one["Key"], self._made.kernel.now)
