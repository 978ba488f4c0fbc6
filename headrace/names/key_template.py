"""`KeyTemplate`: an object key matched and explained; topic, partition, offset and time of it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from headrace.model.clock import moment_at, ms_since_1970
from headrace.names.template_source import (
    Mode,
    Pattern,
    Placeholder,
    TemplateError,
    Text,
    Token,
    Unit,
    compile_pattern,
    is_ambiguous,
    match_exactly,
    reach,
    read_template,
    search,
)

MAX_PARTITION: Final = 2**31 - 1  # Kafka's protocol: a partition is an INT32
MAX_OFFSET: Final = 2**63 - 1  # and an offset an INT64
T = TypeVar("T")
_UNITS: Final[tuple[Unit, ...]] = ("yyyy", "MM", "dd", "HH")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFields:
    """What a key says. A field is None when the template has no such placeholder or its value is unusable.

    `timestamp_ms` is milliseconds since 1970 in UTC; `warnings` are sentences about values treated as absent.
    """

    topic: str | None = None
    partition: int | None = None
    start_offset: int | None = None
    timestamp_ms: int | None = None
    warnings: tuple[str, ...] = ()


def read_fields(captures: Iterable[tuple[Placeholder, str | None]]) -> KeyFields:
    """Fields of one key from the text that each placeholder took (None: a part of the template not taken)."""
    topic: str | None = None
    partition: int | None = None
    start_offset: int | None = None
    stamps: list[tuple[Unit | None, str]] = []
    warnings: list[str] = []
    for placeholder, text in captures:
        if text is None:
            continue
        match placeholder.name:
            case "topic":
                topic = text
            case "partition":
                partition = _read_number("partition", text, MAX_PARTITION, warnings)
            case "start_offset":
                start_offset = _read_number("start offset", text, MAX_OFFSET, warnings)
            case "timestamp":
                stamps.append((placeholder.unit, text))
            case "any":
                pass
    return KeyFields(
        topic=topic,
        partition=partition,
        start_offset=start_offset,
        timestamp_ms=_read_timestamp(stamps, warnings) if stamps else None,
        warnings=tuple(warnings),
    )


def _read_number(what: str, text: str, limit: int, warnings: list[str]) -> int | None:
    digits = text.lstrip("0") or "0"
    # By length first: int() refuses thousands of digits, and a hostile key should not cost its conversion.
    if len(digits) <= len(str(limit)) and (value := int(digits)) <= limit:
        return value
    warnings.append(f"the {what} {_shorten(digits)} is above {limit} and is treated as absent")
    return None


def _read_timestamp(stamps: list[tuple[Unit | None, str]], warnings: list[str]) -> int | None:
    """Milliseconds from the first whole time (no unit) that can be read, else from the units together."""
    whole = [text for unit, text in stamps if unit is None]
    for text in whole:
        if (read := _read_whole_time(text, warnings)) is not None:
            return read
    return _combine_units([(unit, text) for unit, text in stamps if unit is not None], warnings)


def _read_whole_time(text: str, warnings: list[str]) -> int | None:
    match len(text):
        case 13:
            return int(text)
        case 10:
            return int(text) * 1000
        case 8:
            return _read_date([int(text[:4]), int(text[4:6]), int(text[6:])], warnings)
        case _:
            return None


def _combine_units(stamps: list[tuple[Unit, str]], warnings: list[str]) -> int | None:
    values: dict[Unit, int] = {}
    for unit, text in stamps:
        if values.setdefault(unit, int(text)) != int(text):
            warnings.append(f"the timestamp has two values for {unit}, so it is treated as absent")
            return None
    # yyyy, yyyy MM, yyyy MM dd or all four: a day without its month says nothing.
    given = [values[unit] for unit in _UNITS[: len(values)] if unit in values]
    return _read_date(given, warnings) if given and len(given) == len(values) else None


def _read_date(numbers: list[int], warnings: list[str]) -> int | None:
    year, month, day, hour = (*numbers, *(1, 1, 1, 0)[len(numbers) :])
    try:
        milliseconds = ms_since_1970(datetime(year, month, day, hour, tzinfo=UTC))
    except ValueError:
        milliseconds = -1
    if milliseconds >= 0:
        return milliseconds
    shown = "-".join(f"{number:02d}" for number in numbers)
    # Kafka keeps no time before 1970.
    warnings.append(f"the timestamp {shown} is no date from 1970 on and is treated as absent")
    return None


def write_field(placeholder: Placeholder, fields: KeyFields) -> str:
    """The text of a placeholder in a key with these fields; ValueError when there is none."""
    match placeholder.name:
        case "any":
            return ""
        case "topic":
            return str(_need("topic", fields.topic))
        case "partition":
            # The sinks pad to the digits of the largest value: 10 and 20.
            return f"{_need('partition', fields.partition):0{10 if placeholder.padded else 1}d}"
        case "start_offset":
            return f"{_need('start_offset', fields.start_offset):0{20 if placeholder.padded else 1}d}"
        case "timestamp":
            return _write_timestamp(placeholder.unit, _need("timestamp_ms", fields.timestamp_ms))


def _need(name: str, value: T | None) -> T:
    if value is None:
        raise ValueError(f"The template needs {name}, which these fields lack.")
    return value


def _write_timestamp(unit: Unit | None, milliseconds: int) -> str:
    if unit is None:
        return f"{milliseconds:013d}"
    try:
        moment = moment_at(milliseconds)
    except OverflowError:
        raise ValueError(f"The time {milliseconds} ms is beyond the year 9999.") from None
    number = {"yyyy": moment.year, "MM": moment.month, "dd": moment.day, "HH": moment.hour}[unit]
    return f"{number:0{4 if unit == 'yyyy' else 2}d}"


def show_time(milliseconds: int) -> str:
    """ISO 8601 text in UTC, with milliseconds only when there are any."""
    moment = moment_at(milliseconds)
    precision = "milliseconds" if milliseconds % 1000 else "seconds"
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


def _shorten(text: str, limit: int = 40) -> str:
    return text if len(text) <= limit else f"{text[:limit]}..."


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
            found = search(self._pattern.expression, key)
        elif not key.startswith(self.prefix):
            return None
        elif self._walks:
            captures = match_exactly(self._tokens, key, len(self.prefix))
            return None if captures is None else read_fields(captures)
        else:
            found = self._pattern.expression.fullmatch(key, len(self.prefix))
        return None if found is None else read_fields(self._pattern.captures(found))

    def ending(self, key: str) -> str:
        """What follows the last placeholder but `{{any}}` in a key that the template takes by `exact`.

        The whole key where it has no other placeholder; nothing of a key that it does not take.
        """
        named = [at for at, token in enumerate(self._tokens) if _is_named(token)]
        if not named:
            return key
        tail = self._tokens[named[-1] + 1 :]
        texts = [token.text for token in tail if isinstance(token, Text)]
        if len(texts) == len(tail):
            return "".join(texts)
        if not self._walks:
            found = self._pattern.expression.fullmatch(key, len(self.prefix))
            return "" if found is None else key[found.end(self._pattern.captured[-1][0]) :]
        captures = match_exactly(self._tokens, key, len(self.prefix)) or []
        texts += [text or "" for _, text in captures[len(texts) - len(tail) :]]
        return key[len(key) - sum(map(len, texts)) :]

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
            if found := search(expression, key):
                return (
                    f"{text} matches {_quote(found)}, but {_describe(self._tokens[taken])} does not follow"
                    f"{'' if found.end() < len(key) else ', the key ends there'}"
                )
        return f"{_describe(self._tokens[0])} is nowhere in the key"


def _is_named(token: Token) -> bool:
    return isinstance(token, Placeholder) and token.name != "any"


def _quote(found: re.Match[str]) -> str:
    return repr(found[0]) if found[0] else "nothing"


def _describe(token: Token) -> str:
    if isinstance(token, Text):
        return repr(token.text)
    return f"{{{{{token.name}}}}} ({token.meaning})"
