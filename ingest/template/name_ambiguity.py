"""Whether two different sets of values can give one name: exact, by an automaton that reads names twice.

A name is read token by token; each token's language is regular, and none holds the empty text. The automaton
goes through all pairs of ways to read one text. A pair that parts and ends together is two readings of one
name, so two objects could meet there.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final

from ingest.template.name_escape import is_plain
from ingest.template.name_template import (
    OFFSET_DIGITS,
    PARTITION_DIGITS,
    NameField,
    NameTemplate,
    NameVariable,
)

# A token, and the state in its reader.
_Place = tuple[int, int]
# One of each kind of character; those of the template's own text come beside them.
_KINDS: Final = "01aZ%_-.\N{LATIN SMALL LETTER E WITH ACUTE}"


@dataclass(frozen=True, slots=True)
class _Reader:
    """One token: `step` gives the state behind a character (None: not taken), from state 0."""

    step: Callable[[int, str], int | None]
    is_end: Callable[[int], bool]


def is_ambiguous(template: NameTemplate, extension: str) -> bool:
    """Whether a name of this template can be read in two ways."""
    readers = tuple(_readers(template, extension))
    alphabet = _alphabet(template, extension)
    start = (0, 0)
    waiting = [(start, start, False)]
    seen = set(waiting)
    while waiting:
        one, other, parted = waiting.pop()
        if parted and _is_end(readers, one) and _is_end(readers, other):
            return True
        for char in alphabet:
            for first, second in product(_behind(readers, one, char), _behind(readers, other, char)):
                pair = (first, second, parted or first != second)
                if pair not in seen:
                    seen.add(pair)
                    waiting.append(pair)
    return False


def _alphabet(template: NameTemplate, extension: str) -> list[str]:
    """Each character that the template's own texts have, and one of each kind that values have."""
    texts = [token for token in template.tokens if isinstance(token, str)]
    dates = [part for each in template.variables if each.date for part, unit in each.date.parts if not unit]
    return sorted(set(_KINDS + extension + "".join([*texts, *dates])))


def _behind(readers: tuple[_Reader, ...], place: _Place, char: str) -> Iterator[_Place]:
    """Where a reading at this place can be behind the character: within its token, or in the next one."""
    token, state = place
    behind = readers[token].step(state, char)
    if behind is not None:
        yield token, behind
    if readers[token].is_end(state) and token + 1 < len(readers):
        behind = readers[token + 1].step(0, char)
        if behind is not None:
            yield token + 1, behind


def _is_end(readers: tuple[_Reader, ...], place: _Place) -> bool:
    return place[0] == len(readers) - 1 and readers[place[0]].is_end(place[1])


def _readers(template: NameTemplate, extension: str) -> Iterator[_Reader]:
    for token in template.tokens:
        if isinstance(token, str):
            yield _text(token)
        elif token.date is not None:
            yield from (_text(part) if isinstance(part, str) else _digits(part) for part in token.date.shape)
        else:
            yield _variable(token, extension)


def _variable(variable: NameVariable, extension: str) -> _Reader:
    match variable.field:
        case NameField.TOPIC:
            return _many(lambda char: char.isascii() and (char.isalnum() or char in "._-"))
        case NameField.PARTITION:
            return _digits(PARTITION_DIGITS) if variable.padded else _number()
        case NameField.START_OFFSET | NameField.END_OFFSET:
            return _digits(OFFSET_DIGITS) if variable.padded else _number()
        case NameField.EXTENSION:
            return _text(extension)
        case _:
            return _many(lambda char: char == "%" or is_plain(char))


def _text(text: str) -> _Reader:
    return _Reader(
        lambda state, char: state + 1 if state < len(text) and text[state] == char else None,
        lambda state: state == len(text),
    )


def _digits(width: int) -> _Reader:
    return _Reader(
        lambda state, char: state + 1 if state < width and _is_digit(char) else None,
        lambda state: state == width,
    )


def _number() -> _Reader:
    """Digits without a zero before them: state 1 is a zero, which ends there, 2 is any other number."""

    def step(state: int, char: str) -> int | None:
        if not _is_digit(char) or state == 1:
            return None
        return 1 if state == 0 and char == "0" else 2

    return _Reader(step, lambda state: state > 0)


def _many(takes: Callable[[str], bool]) -> _Reader:
    return _Reader(lambda _, char: 1 if takes(char) else None, lambda state: state == 1)


def _is_digit(char: str) -> bool:
    return char.isascii() and char.isdigit()
