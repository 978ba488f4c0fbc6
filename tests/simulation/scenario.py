"""A scenario: a configuration, records, and what happens when. It can be written down and read back."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

VERSION: Final = 1
_CONNECTORS: Final = ("archives", "layouts", "restore", "sink", "source", "turns", "worker")
DIRECTIONS: Final = (*_CONNECTORS, "frames", "writing")


class UnknownScenario(Exception):
    """A text that is no scenario of this version; `str()` says it in a sentence."""


@dataclass(frozen=True, slots=True)
class Given:
    """A record that is produced."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """What happens `after` seconds behind the step before it."""

    after: float
    act: str
    given: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """`seed` picks turns and cuts; everything else is written down here."""

    seed: int
    direction: str
    options: Mapping[str, str]
    topics: Mapping[str, int]
    records: tuple[Given, ...]
    steps: tuple[Step, ...]

    def without(self, **changes: Any) -> "Scenario":
        """The same with these parts in place of its own."""
        return replace(self, **changes)


def dumps(scenario: Scenario) -> str:
    """The text of a scenario."""
    return json.dumps(
        {
            "version": VERSION,
            "seed": scenario.seed,
            "direction": scenario.direction,
            "options": dict(scenario.options),
            "topics": dict(scenario.topics),
            "records": [
                [
                    one.topic,
                    one.partition,
                    _text(one.key),
                    _text(one.value),
                    one.timestamp_ms,
                    [[name, _text(value)] for name, value in one.headers],
                ]
                for one in scenario.records
            ],
            "steps": [[step.after, step.act, dict(step.given)] for step in scenario.steps],
        }
    )


def loads(text: str) -> Scenario:
    """The scenario of a text; UnknownScenario."""
    try:
        found = json.loads(text)
        version = found["version"]
    except (ValueError, KeyError, TypeError):
        raise UnknownScenario(
            "This is not a scenario of the simulation: write one with `--show SEED`."
        ) from None
    if version != VERSION:
        raise UnknownScenario(
            f"The scenario is of version {version}, and this simulation runs version {VERSION}: run it "
            "with the commit that wrote it."
        )
    try:
        return _scenario(found)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnknownScenario(
            f"The scenario cannot be read ({type(error).__name__}: {error}): write it with `--show SEED`."
        ) from None


def _scenario(found: Mapping[str, Any]) -> Scenario:
    if found["direction"] not in DIRECTIONS:
        raise ValueError(f"{found['direction']!r} is no direction")
    return Scenario(
        seed=found["seed"],
        direction=found["direction"],
        options=found["options"],
        topics=found["topics"],
        records=tuple(
            Given(
                topic,
                partition,
                _bytes(key),
                _bytes(value),
                at,
                tuple((name, _bytes(raw)) for name, raw in headers),
            )
            for topic, partition, key, value, at, headers in found["records"]
        ),
        steps=tuple(Step(after, act, given) for after, act, given in found["steps"]),
    )


def _text(raw: bytes | None) -> str | None:
    """Bytes as text where they are one, else marked as base64."""
    if raw is None:
        return None
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return f"base64:{base64.b64encode(raw).decode()}"
    return f"base64:{base64.b64encode(raw).decode()}" if text.startswith("base64:") else text


def _bytes(text: str | None) -> bytes | None:
    if text is None:
        return None
    return base64.b64decode(text.removeprefix("base64:")) if text.startswith("base64:") else text.encode()
