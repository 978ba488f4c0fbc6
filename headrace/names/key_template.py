"""`KeyTemplate`: an object key matched, rendered and explained."""

import re
from dataclasses import dataclass, field
from typing import Any

from headrace.names.key_fields import KeyFields, read_fields, show_time, write_field
from headrace.names.pattern import Mode, Pattern, compile_pattern, is_ambiguous, match_exactly, reach
from headrace.names.template_source import Placeholder, TemplateError, Text, Token, read_template


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What a template makes of one key; `reason` says why there is no match, or which value was left out."""

    key: str
    matched: bool
    topic: str | None = None
    partition: int | None = None
    start_offset: int | None = None
    timestamp: str | None = None
    reason: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The line that `headrace explain --json` prints, in its order."""
        return {
            "key": self.key,
            "matched": self.matched,
            "topic": self.topic,
            "partition": self.partition,
            "start_offset": self.start_offset,
            "timestamp": self.timestamp,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyTemplate:
    """A compiled `file.name.template`; made by `compile`. It can be pickled and shared between threads.

    `names` are the placeholders whose values a key gives: topic, partition, start_offset, timestamp.
    """

    source: str
    mode: Mode
    prefix: str
    names: frozenset[str]
    _tokens: tuple[Token, ...] = field(repr=False)
    _pattern: Pattern = field(repr=False)
    _walks: bool = field(repr=False)

    @classmethod
    def compile(cls, template: str, *, match: str = "search", prefix: str = "") -> "KeyTemplate":
        """The template, ready to match; TemplateError when it is wrong, ValueError for an unknown `match`.

        `prefix` is `aws.s3.prefix`: `exact` matches what comes after it, `search` looks at the whole key.
        """
        if match not in ("search", "exact"):
            raise ValueError(f"file.name.match cannot be {match!r}; it is search or exact.")
        mode: Mode = "exact" if match == "exact" else "search"
        tokens = read_template(template, any_is_known=mode == "exact")
        ambiguous = sum(is_ambiguous(tokens, index, mode) for index in range(len(tokens)))
        placeholders = {token.name for token in tokens if isinstance(token, Placeholder)}
        return cls(
            source=template,
            mode=mode,
            prefix=prefix,
            names=frozenset(placeholders - {"any"}),
            _tokens=tokens,
            _pattern=compile_pattern(template, tokens, mode),
            # With one such placeholder an expression tries each of its ends, with two each pair of ends.
            _walks=mode == "exact" and ambiguous > 1,
        )

    def match(self, key: str) -> KeyFields | None:
        """What the key says, None when the template does not take it."""
        if self.mode == "search":
            found = self._pattern.expression.search(key)
        elif not key.startswith(self.prefix):
            return None
        elif self._walks:
            captures = match_exactly(self._tokens, key, len(self.prefix))
            return None if captures is None else read_fields(captures)
        else:
            found = self._pattern.expression.fullmatch(key, len(self.prefix))
        return None if found is None else read_fields(self._pattern.captures(found))

    def render(self, fields: KeyFields) -> str:
        """The key, prefix included, that says exactly these fields: `match(render(fields)) == fields`.

        `{{any}}` becomes nothing. ValueError when the template is not `exact`, or when no key of it says
        these fields: one is missing or out of range, or the template could not distinguish them from others.
        """
        if self.mode != "exact":
            raise ValueError("Only a template of file.name.match=exact can be rendered.")
        key = self.prefix + "".join(
            token.text if isinstance(token, Text) else write_field(token, fields) for token in self._tokens
        )
        if self.match(key) != fields:
            raise ValueError(
                f"The template {self.source!r} gives no key that says {fields}; {key!r} says otherwise."
            )
        return key

    def explain(self, key: str) -> Explanation:
        """What the key says, and for a person why not: how far the template got, or which value is absent."""
        fields = self.match(key)
        if fields is None:
            return Explanation(key=key, matched=False, reason=self._say_why_not(key))
        return Explanation(
            key=key,
            matched=True,
            topic=fields.topic,
            partition=fields.partition,
            start_offset=fields.start_offset,
            timestamp=None if fields.timestamp_ms is None else show_time(fields.timestamp_ms),
            reason="; ".join(fields.warnings) or None,
        )

    def _say_why_not(self, key: str) -> str:
        if self.mode == "search":
            return self._say_how_far_a_search_got(key)
        if not key.startswith(self.prefix):
            return f"the key does not begin with the prefix {self.prefix!r}"
        taken, place = reach(self._tokens, key, len(self.prefix))
        rest = f"continues with {key[place:]!r}" if place < len(key) else "ends"
        if taken == len(self._tokens):
            return f"the template ends after {key[:place]!r}, but the key {rest}"
        where = f"after {key[:place]!r}" if place else "at its start"
        return f"{where} the template expects {_describe(self._tokens[taken])}, but the key {rest}"

    def _say_how_far_a_search_got(self, key: str) -> str:
        """Names the longest beginning of the template, cut between tokens, that the key has anywhere."""
        for taken in range(len(self._tokens) - 1, 0, -1):
            beginning = self._tokens[:taken]
            text = self.source[: beginning[-1].end]
            try:
                expression = compile_pattern(text, beginning, "search").expression
            except TemplateError:
                continue  # a cut inside a group of the user's expression
            if found := expression.search(key):
                return (
                    f"{text} matches {_quote(found)}, but {_describe(self._tokens[taken])} does not follow"
                    f"{'' if found.end() < len(key) else ', the key ends there'}"
                )
        return f"{_describe(self._tokens[0])} is nowhere in the key"


def _quote(found: re.Match[str]) -> str:
    return repr(found[0]) if found[0] else "nothing"


def _describe(token: Token) -> str:
    if isinstance(token, Text):
        return repr(token.text)
    return f"{{{{{token.name}}}}} ({token.meaning})"
