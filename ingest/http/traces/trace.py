"""One object's trace as plain values, before OpenTelemetry's library has seen it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

# What a span says of an object; the words of OpenTelemetry's conventions where they have one.
BUCKET: Final = "aws.s3.bucket"
KEY: Final = "aws.s3.key"
VERSION_ID: Final = "headrace.object.version_id"
BYTES: Final = "headrace.bytes"
ROWS: Final = "headrace.rows"
OUTCOME: Final = "headrace.outcome"
REASON: Final = "headrace.reason"
SLOT: Final = "headrace.slot"
TRANSACTIONS: Final = "headrace.transactions"
TOPIC: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"

Attribute = str | int | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of time, in ns since 1970; `error` is why it did not end well."""

    name: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What became of one object: a span over all of it, and one for each step."""

    root: Span
    steps: tuple[Span, ...]

    def __len__(self) -> int:
        return 1 + len(self.steps)


SendTrace = Callable[[Trace], None]
"""Takes a trace to be exported; never blocks."""


def known(attributes: Mapping[str, Attribute | None]) -> dict[str, Attribute]:
    """Those that have a value."""
    return {name: value for name, value in attributes.items() if value is not None}


def over(name: str, steps: tuple[Span, ...], attributes: Mapping[str, Attribute], error: str | None) -> Trace:
    """The trace of these steps, one at least: it begins and ends with them."""
    root = Span(
        name=name,
        start_ns=min(step.start_ns for step in steps),
        end_ns=max(step.end_ns for step in steps),
        attributes=attributes,
        error=error,
    )
    return Trace(root=root, steps=steps)
