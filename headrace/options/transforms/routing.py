"""Which topics the records of one can come to, as far as a chain says before any record is seen."""

import re
from collections.abc import Iterable
from typing import Final
from zoneinfo import ZoneInfo

from headrace.options.transforms.chain import (
    ByLogicalTableRouter,
    RegexRouter,
    TimestampRouter,
    TopicNameMatches,
    TransformChain,
    TransformStep,
)

_UTC: Final = ZoneInfo("UTC")


def reachable_topics(chain: TransformChain, topic: str) -> frozenset[str]:
    """All of them; for every record's time is the same one."""
    found = frozenset({topic})
    for step in chain.steps:
        found = frozenset(_behind(step, found))
    return found


def known_topics(chain: TransformChain, topic: str) -> frozenset[str]:
    """Those of them whose names are known before any record is: none where a record's time is in the name."""
    if chain.routes_by_field or any(isinstance(step.transform, TimestampRouter) for step in chain.steps):
        return frozenset()
    return reachable_topics(chain, topic)


def _behind(step: TransformStep, topics: Iterable[str]) -> Iterable[str]:
    for topic in topics:
        applies, spares = _who(step, topic)
        if spares:
            yield topic
        if applies:
            yield _routed(step, topic)


def _who(step: TransformStep, topic: str) -> tuple[bool, bool]:
    """Whether the step may apply to records of the topic, and whether it may not."""
    if step.condition is None:
        return True, False
    predicate = step.condition.predicate
    if not isinstance(predicate, TopicNameMatches):
        return True, True
    is_match = re.compile(predicate.pattern, re.ASCII).fullmatch(topic) is not None
    applies = is_match is not step.condition.negate
    return applies, not applies


def _routed(step: TransformStep, topic: str) -> str:
    """The topic to which the step sends a record of this one."""
    match step.transform:
        case (
            RegexRouter(pattern=pattern, replacement=replacement)
            | ByLogicalTableRouter(pattern=pattern, replacement=replacement)
        ):
            # One that became empty leaves the record where it is.
            return replaced(pattern, replacement, topic) or topic
        case TimestampRouter(format=form, dates=dates):
            text = dates.text(0, _UTC) if "${timestamp}" in form else ""
            return form.replace("${topic}", topic).replace("${timestamp}", text)
        case _:
            return topic


def replaced(pattern: str, replacement: str, text: str) -> str | None:
    """The text with the first match replaced, as Java's `replaceFirst` does; None where not all matches.

    What is found first can be less than the whole that matches.
    """
    compiled = re.compile(pattern, re.ASCII)
    found = compiled.search(text)
    if found is None or compiled.fullmatch(text) is None:
        return None
    return text[: found.start()] + found.expand(replacement) + text[found.end() :]
