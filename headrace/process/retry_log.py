"""The log of what is tried again until it succeeds: a line for an outage, not one for each attempt."""

import re
from collections.abc import Hashable
from typing import Any, Final

# The UUID of a schema is a number, too, of which each record may have another.
_NUMBERS: Final = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\d+")
# A key may hold anything, so it ends where a sentence about an object has its verb, or with the sentence.
_KEYS: Final = re.compile(
    r"(s3://[^/\s]+)/.*?(?= (?:is|was|may not|cannot|can be|could|does|did|has|wait)\b|\Z)", re.DOTALL
)
_LISTED: Final = re.compile(r"(?<!\S)(\S+)(?:, \1)+(?![^\s.:])")
# A sentence may name what is another one each time, as a request of S3, and a template any number of topics.
_MOST: Final = 1000


def problem_kind(sentence: str) -> str:
    """What stays of the sentence of a problem while it lasts.

    Seconds and records are counted on, and of many objects with the same problem each is named in turn.

    >>> problem_kind("s3://b/a b.gz is refused (503).") == problem_kind("s3://b/c.gz is refused (503).")
    True
    >>> problem_kind("For 65 s nothing of t-0, t-11 was read.")
    'For 0 s nothing of t-0 was read.'
    >>> problem_kind("It has no schema of the id 6ba7b810-9dad-11d1-80b4-00c04fd430c8.")
    'It has no schema of the id 0.'
    """
    return _LISTED.sub(r"\1", _NUMBERS.sub("0", _KEYS.sub(r"\1", sentence)))


class RetryLog:
    """A WARN for each sentence that is new since the last success, and DEBUG for the same again.

    With `is_error` an ERROR: it does not pass by itself. The oldest of a thousand is forgotten. The end has a
    line of its own: `problem_over`, of the problem that `/status` shows. For one thread.
    """

    def __init__(self, log: Any, event: str, *, is_error: bool = False) -> None:
        self._log: Final = log
        self._first: Final = log.error if is_error else log.warning
        self._event: Final = event
        self._told: dict[tuple[Hashable, str], None] = {}

    def failed(self, of: Hashable, error: Exception, **fields: object) -> None:
        """What is tried again has failed; `of` says which of several it is."""
        told = (of, problem_kind(str(error)))
        tell = self._log.debug if told in self._told else self._first
        self._told.pop(told, None)
        self._told[told] = None
        if len(self._told) > _MOST:
            del self._told[next(iter(self._told))]
        tell(self._event, error=str(error), **fields)

    def over(self, of: Hashable) -> None:
        """It has succeeded: the next failure is another one."""
        for told in [told for told in self._told if told[0] == of]:
            del self._told[told]
