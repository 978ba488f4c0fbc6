"""Findings about a sink's topics: whether they are there, and who reads them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.model.text_formatting import counted
from headrace.options import Settings
from ingest.checks.findings.finding import Finding, Refused, misconfigured, ok, unusable, warn

_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFacts:
    """One partition of a topic that the sink reads; `archived` is where reading would begin, if anywhere.

    `mark` is what its group's offset says of who committed it: `headrace`, the ledger, the topic's id.
    """

    topic: str
    partition: int
    begin: int
    end: int
    archived: int | None
    mark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsFacts:
    """The topics of the sink: those that are named and not there, the partitions of the others, and members.

    `members` are those of the connector's own group.
    """

    missing: Sequence[str]
    partitions: Sequence[ReadFacts]
    members: Sequence[str]


def topics_findings(settings: Settings, facts: TopicsFacts | Refused) -> Iterator[Finding]:
    """Whether there is something to read, and nobody else reads it as this sink."""
    if isinstance(facts, Refused):
        yield unusable(
            "topics",
            f"the topics cannot be described: {facts.words}",
            "Allow Describe and Read on them, and Read on the group (docs/security.md).",
        )
        return
    yield from _found_topics(settings, facts)
    sink = settings.sink
    if facts.members and sink is not None:
        yield misconfigured(
            "group",
            f"group {sink.group_id!r} has {counted(len(facts.members), 'active member')}: another consumer "
            "reads as this sink.",
            "Stop it, or give this sink another name; its offsets are kept.",
        )
    yield from _marks(settings, facts)
    yield from _positions(facts)


def _found_topics(settings: Settings, facts: TopicsFacts) -> Iterator[Finding]:
    for topic in facts.missing:
        yield warn(
            "topic",
            f"topic {topic!r} does not exist; it is read from its beginning once it does.",
            "Create it, or correct topics.",
        )
    found = dict.fromkeys(part.topic for part in facts.partitions)
    if not found:
        pattern = "" if settings.sink is None else settings.sink.topics.pattern
        if pattern:
            yield warn("topic", f"no topic matches {pattern!r} yet.", "Create one, or correct topics.regex.")
        return
    shown = ", ".join(list(found)[:_SHOWN]) + (", .." if len(found) > _SHOWN else "")
    partitions = counted(len(facts.partitions), "partition")
    yield ok("topic", f"{counted(len(found), 'topic')} with {partitions} to read: {shown}")


def _marks(settings: Settings, facts: TopicsFacts) -> Iterator[Finding]:
    """Offsets of another Headrace: `run` stops at them."""
    for part in facts.partitions:
        maker, _, rest = part.mark.partition(" ")
        ledger = rest.partition(" ")[0]
        if maker == "headrace" and ledger != settings.kafka.ledger_topic:
            yield misconfigured(
                "offsets",
                f"the offset of {part.topic}-{part.partition} was committed by a Headrace with the ledger "
                f"{ledger!r}; this one has {settings.kafka.ledger_topic!r}.",
                "Give one of the two another name, or delete the group's offsets once the other is gone.",
            )


def _positions(facts: TopicsFacts) -> Iterator[Finding]:
    for part in facts.partitions:
        if part.archived is None:
            continue
        place = f"{part.topic}-{part.partition}"
        if part.archived > part.end:
            yield misconfigured(
                "offsets",
                f"{place} ends at offset {part.end}, and was archived to {part.archived}: it was cut, or "
                "it is another cluster's.",
                "Correct bootstrap.servers, or give the sink another name to archive it from the beginning.",
            )
        elif part.archived < part.begin:
            yield warn(
                "offsets",
                f"{place} begins at offset {part.begin}, and was archived to {part.archived}: Kafka has "
                f"deleted {counted(part.begin - part.archived, 'offset')} in between.",
                "Give the topic a longer retention.ms (or retention.bytes).",
            )
