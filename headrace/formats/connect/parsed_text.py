"""Texts as Connect's SimpleHeaderConverter reads them: numbers, booleans, lists, maps where they look so.

A number is of the least type that holds it exactly, else a float, as Kafka has it. Like Kafka, a text that
begins with a whole token of digits is that number whatever follows a comma or colon. Unlike Kafka, a date
that no calendar has (February 30th) is text, time zones other than UTC are not applied, and a text of blanks
and a bracket that begins no list and no map is whole (Kafka keeps the blanks alone).
"""

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import numpy as np

from headrace.formats.connect.schema import DATE, DECIMAL, SCALE, TIME, TIMESTAMP, ConnectSchema, Type, plain
from headrace.formats.connect.values import NULL, ConnectValue
from headrace.model.clock import ms_since_1970

_DAY_MS: Final = 86_400_000

_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,9})?")
# Delimiters are tokens of their own, unless they are escaped; what is between them is one.
_TOKEN: Final = re.compile(r'[:,{}\[\]"]|(?:\\.|[^:,{}\[\]"\\]|\\\Z)+', re.DOTALL)
_WHOLE: Final = ((Type.INT8, 8), (Type.INT16, 16), (Type.INT32, 32), (Type.INT64, 64))
_ORDER: Final = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64)
_TIME_TOKENS: Final = 4
_TEXT: Final = plain(Type.STRING)
# How whitespace is cut: Java's `trim`.
_BLANKS: Final = "".join(map(chr, range(33)))
_LONGEST: Final = 10**19
_DEPTH: Final = 200


class _NotParsed(Exception):
    """The text is no list and no map after all."""


def parsed(text: str) -> ConnectValue:
    """What a text is; a text that is nothing else is a string."""
    if not text:
        return ConnectValue(_TEXT, text)
    return _Parser(text).top()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _TOKEN.findall(text)
        self._at = 0

    def top(self) -> ConnectValue:
        only = self._tokens[0].strip(_BLANKS) if len(self._tokens) == 1 else ""
        literal = _literal(only)
        if literal is not None:
            return literal
        found = self._nested_or_none()
        if found is not None:
            return found
        self._at = 0
        word = self._next().strip(_BLANKS)
        return (self._scalar(word) if word else None) or ConnectValue(_TEXT, self._text)

    def _nested_or_none(self) -> ConnectValue | None:
        try:
            if self._takes("["):
                return self._array(0)
            if self._takes("{"):
                return self._map(0)
        except _NotParsed:
            pass
        return None

    def _next(self) -> str:
        if self._at >= len(self._tokens):
            raise _NotParsed
        self._at += 1
        return str(self._tokens[self._at - 1])

    def _has_next(self) -> bool:
        return self._at < len(self._tokens)

    def _skip_blanks(self) -> None:
        """Goes on to the next token that is not blank, or to the last."""
        while self._at < len(self._tokens) - 1 and not self._tokens[self._at].strip(_BLANKS):
            self._at += 1

    def _takes(self, wanted: str) -> bool:
        """Whether the next token that is not blank is this one, which is taken then."""
        self._skip_blanks()
        if self._has_next() and self._tokens[self._at].strip(_BLANKS) == wanted:
            self._at += 1
            return True
        return False

    def _inner(self, depth: int) -> ConnectValue:
        """A value inside of a list or a map."""
        if depth > _DEPTH:
            raise _NotParsed
        if self._takes('"'):
            return self._quoted()
        if self._takes("["):
            return self._array(depth + 1)
        if self._takes("{"):
            return self._map(depth + 1)
        token = self._next()
        word = token.strip(_BLANKS)
        found = (_literal(word) or self._scalar(word)) if word else ConnectValue(_TEXT, token)
        if found is None:
            raise _NotParsed
        return found

    def _quoted(self) -> ConnectValue:
        """What is up to the next quote. Blanks between delimiters are lost, as Kafka loses them."""
        content: list[str] = []
        while self._has_next() and not self._takes('"'):
            content.append(self._next())
        text = "".join(content)
        return _moment(text) or ConnectValue(_TEXT, text)

    def _array(self, depth: int) -> ConnectValue:
        items: list[ConnectValue] = []
        while self._has_next():
            if self._takes("]"):
                common = _common(items)
                return ConnectValue(
                    ConnectSchema(type=Type.ARRAY, items=common), [_fitted(each, common) for each in items]
                )
            if self._takes(","):
                raise _NotParsed
            items.append(self._inner(depth))
            at = self._at
            if self._takes("]"):
                self._at = at
            elif not self._takes(","):
                raise _NotParsed
        raise _NotParsed

    def _map(self, depth: int) -> ConnectValue:
        pairs: list[tuple[ConnectValue, ConnectValue]] = []
        while self._has_next():
            if self._takes("}"):
                return _map_of(pairs)
            if self._takes(","):
                raise _NotParsed
            key = self._inner(depth)
            if key.value is None or not self._takes(":"):
                raise _NotParsed
            pairs.append((key, self._inner(depth)))
            self._takes(",")
        raise _NotParsed

    def _scalar(self, word: str) -> ConnectValue | None:
        """A time of several tokens, a date or a number; None for anything else."""
        if word[0].isdecimal():
            behind = self._tokens[self._at : self._at + _TIME_TOKENS]
            if len(behind) == _TIME_TOKENS:
                found = _moment(word + "".join(behind))
                if found is not None:
                    self._at += _TIME_TOKENS
                    return found
            found = _moment(word)
            if found is not None:
                return found
        return _number(word) if word[0].isdecimal() or word[0] in "+-" else None


def _literal(word: str) -> ConnectValue | None:
    if word == "null":
        return NULL
    return ConnectValue(plain(Type.BOOLEAN), word == "true") if word in {"true", "false"} else None


def _number(word: str) -> ConnectValue | None:
    if _NUMBER.fullmatch(word) is None:
        return None
    decimal = Decimal(word)
    if decimal.copy_abs() <= _LONGEST and decimal == decimal.to_integral_value():
        whole = int(decimal)
        for kind, bits in _WHOLE:
            if -(1 << (bits - 1)) <= whole < 1 << (bits - 1):
                return ConnectValue(plain(kind), whole)
    scale = -int(decimal.as_tuple().exponent)
    double = float(decimal)
    with np.errstate(over="ignore"):
        single = float(np.float32(double))
    for kind, number in ((Type.FLOAT32, single), (Type.FLOAT64, double)):
        if scale != 0 and abs(number) != float("inf"):
            return ConnectValue(plain(kind), number)
    schema = ConnectSchema(type=Type.BYTES, name=DECIMAL, version=1, parameters=((SCALE, str(scale)),))
    return ConnectValue(schema, decimal)


def _moment(text: str) -> ConnectValue | None:
    """A date, a time of day, or a moment, each in the one form that Connect writes."""
    text = text.replace("\\:", ":")
    for length, form, name, kind in _FORMS:
        if len(text) == length and text.isascii():
            try:
                found = datetime.strptime(text, form).replace(tzinfo=UTC)
            except ValueError:
                return None
            if name == TIME:
                found = found.replace(year=1970, month=1, day=1)
            value = ms_since_1970(found)
            schema = ConnectSchema(type=kind, name=name, version=1)
            return ConnectValue(schema, value // _DAY_MS if name == DATE else value)
    return None


_FORMS: Final = (
    (len("1970-01-01"), "%Y-%m-%d", DATE, Type.INT32),
    (len("00:00:00.000Z"), "%H:%M:%S.%fZ", TIME, Type.INT32),
    (len("1970-01-01T00:00:00.000Z"), "%Y-%m-%dT%H:%M:%S.%fZ", TIMESTAMP, Type.INT64),
)


def _common(found: list[ConnectValue]) -> ConnectSchema | None:
    """The schema of all values that are not null, the widest of numbers; None where there is none."""
    schemas = list(dict.fromkeys(each.schema for each in found if each.schema is not None))
    if len(schemas) > 1 and all(each in _NUMBERS for each in schemas):
        return max(schemas, key=lambda each: _ORDER.index(each.type))
    return schemas[0] if len(schemas) == 1 else None


_NUMBERS: Final = frozenset(plain(kind) for kind in _ORDER)


def _fitted(found: ConnectValue, common: ConnectSchema | None) -> Any:
    is_float = common is not None and common.type in {Type.FLOAT32, Type.FLOAT64}
    return float(found.value) if is_float and found.value is not None else found.value


def _map_of(pairs: list[tuple[ConnectValue, ConnectValue]]) -> ConnectValue:
    key, value = _common([each for each, _ in pairs]), _common([each for _, each in pairs])
    fitted = {repr(name.value): (_fitted(name, key), _fitted(each, value)) for name, each in pairs}
    return ConnectValue(ConnectSchema(type=Type.MAP, key=key, value=value), tuple(fitted.values()))
