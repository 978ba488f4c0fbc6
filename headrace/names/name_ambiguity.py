"""Whether two different sets of values can give one name: exact, by an automaton that reads names twice.

A name is read token by token; each token's language is regular. The automaton goes through all pairs of ways
to read one text. A pair in which one reading is inside a token that matters where the other is not, and which
ends together, is two readings of one name, so two objects could meet there.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Final

from headrace.names.date_fields import DateField
from headrace.names.name_template import OFFSETS, NameField, NameTemplate, NameVariable, Padding, is_plain

# A token's reader, and the state in it.
_Place = tuple[int, int]
# One of each kind of character; those of the template's own text come beside them.
_KINDS: Final = "01aZ%_-.:+/ \N{LATIN SMALL LETTER E WITH ACUTE}"
_IDENTITY: Final = frozenset({NameField.TOPIC, NameField.PARTITION, *OFFSETS})


@dataclass(frozen=True, slots=True)
class _Reader:
    """One token: `step` gives the state after a character (None: not taken), from state 0.

    `token` is the number of the token that it is a part of.
    """

    token: int
    step: Callable[[int, str], int | None]
    is_end: Callable[[int], bool]


@lru_cache(maxsize=64)
def is_ambiguous(template: NameTemplate, extension: str, *, plain: bool = False) -> bool:
    """Whether two objects can have one name of this template.

    Escaped values have to be distinguished as well. With `plain` ones, which hold any character, it is enough
    that topic, partition and offsets can be read: no two objects of a partition have one first offset.
    Answers are kept: it takes milliseconds, and a worker checks a configuration again and again.
    """
    if not plain:
        return _is_ambiguous(template, extension, range(len(template.tokens)), plain=False)
    # The last place of a field, or else the first: one that can be read is enough.
    found = [_identity(template, last=True), _identity(template, last=False)]
    return all(
        _is_ambiguous(template, extension, tokens, plain=True)
        for tokens in (*found, *_without_topics(template, found[0]))
    )


def _without_topics(template: NameTemplate, identity: Collection[int]) -> Iterator[Collection[int]]:
    """The identity without the topic, where that is known by its length; else nothing.

    It is where a name begins with the topic and fixed texts alone, each time written in one way: where that
    beginning ends, its length gives the topic's. So `a-b-tombstone-a-b+0+7` is one of `a-b` and of no other.
    """
    variables = [
        (place, token) for place, token in enumerate(template.tokens) if isinstance(token, NameVariable)
    ]
    others = [
        place for place in identity if place not in {each for each, token in variables if _is_topic(token)}
    ]
    first = min(others, default=0)
    before = [token for place, token in variables if place < first]
    topics = [token for _, token in variables if _is_topic(token)]
    if before and before == topics and len({token.hyphens for token in topics}) == 1:
        yield others


def _is_topic(token: NameVariable) -> bool:
    return token.field is NameField.TOPIC


def _identity(template: NameTemplate, *, last: bool) -> Collection[int]:
    """The tokens that distinguish objects, of each field one."""
    found: dict[NameField, int] = {}
    for place, token in enumerate(template.tokens):
        if isinstance(token, NameVariable) and token.field in _IDENTITY and token.padding.is_readable:
            found[token.field] = place if last else found.get(token.field, place)
    return found.values()


def _is_ambiguous(template: NameTemplate, extension: str, matters: Collection[int], *, plain: bool) -> bool:
    readers = tuple(_readers(template, extension, plain=plain))
    marked = [reader.token if reader.token in matters else -1 for reader in readers]
    alphabet = _alphabet(template, extension)
    begin = (-1, 0)
    # A place is met in many pairs, and which of the two readings is the first is all the same.
    after: dict[_Place, tuple[tuple[_Place, ...], ...]] = {}
    ends: dict[_Place, bool] = {}
    waiting = [(begin, begin, False)]
    seen = set(waiting)
    while waiting:
        one, other, parted = waiting.pop()
        for place in (one, other):
            if place not in after:
                after[place] = tuple(tuple(_behind(readers, place, char)) for char in alphabet)
                ends[place] = _is_end(readers, place)
        if parted and ends[one] and ends[other]:
            return True
        # Most characters are read like another one: a set has each such step once.
        for firsts, seconds in set(zip(after[one], after[other], strict=True)):
            for first, second in product(firsts, seconds):
                is_parted = parted or marked[first[0]] != marked[second[0]]
                pair = (first, second, is_parted) if first <= second else (second, first, is_parted)
                if pair not in seen:
                    seen.add(pair)
                    waiting.append(pair)
    return False


def _alphabet(template: NameTemplate, extension: str) -> list[str]:
    """Each character that the template's own texts have, and one of each kind that values have."""
    texts = [token for token in template.tokens if isinstance(token, str)]
    for each in template.variables:
        texts += [one for one in (each.date.elements if each.date else ()) if isinstance(one, str)]
        texts += [each.padding.char, each.hyphens]
    return sorted(set(_KINDS + extension + "".join(texts)))


def _behind(readers: tuple[_Reader, ...], place: _Place, char: str) -> Iterator[_Place]:
    """Where a reading at this place can be after the character: within its token, or in a later one."""
    number, state = place
    if number >= 0 and (behind := readers[number].step(state, char)) is not None:
        yield number, behind
    while number < 0 or readers[number].is_end(state):
        number, state = number + 1, 0
        if number == len(readers):
            return
        if (behind := readers[number].step(0, char)) is not None:
            yield number, behind


def _is_end(readers: tuple[_Reader, ...], place: _Place) -> bool:
    number, state = place
    return (number < 0 or readers[number].is_end(state)) and all(
        reader.is_end(0) for reader in readers[number + 1 :]
    )


def _readers(template: NameTemplate, extension: str, *, plain: bool) -> Iterator[_Reader]:
    for number, token in enumerate(template.tokens):
        if isinstance(token, str):
            yield _text(number, token)
        elif token.date is not None:
            yield from (
                _text(number, element) if isinstance(element, str) else _date(number, element)
                for element in token.date.elements
            )
        else:
            yield _variable(number, token, extension, plain=plain)


def _variable(number: int, variable: NameVariable, extension: str, *, plain: bool) -> _Reader:
    match variable.field:
        case NameField.TOPIC:
            return _many(number, lambda char: char.isascii() and (char.isalnum() or char in "._-"))
        case NameField.PARTITION | NameField.START_OFFSET | NameField.END_OFFSET | NameField.BATCH_OFFSET:
            return _padded(number, variable.padding)
        case NameField.FIRST_TIMESTAMP | NameField.LAST_TIMESTAMP:
            return _many(number, lambda char: _is_digit(char) or char == "-")
        case NameField.EXTENSION:
            return _text(number, extension)
    if plain:
        return _Reader(number, lambda _, __: 0, lambda _: True)
    return _many(number, lambda char: char == "%" or is_plain(char))


def _date(number: int, field: DateField) -> _Reader:
    if field.digits is not None:
        return _digits(number, field.digits)
    return _many(number, lambda char: (char.isascii() and char.isalnum()) or char in "+-:/_ ")


def _padded(number: int, padding: Padding) -> _Reader:
    """A number, and what fills it up: a superset where that is no zero on the left."""
    if padding.char == "0" and not padding.is_right:
        return _number(number, padding.width)
    fill = padding.char
    if fill.isdigit():
        return _many(number, _is_digit)

    def step(state: int, char: str) -> int | None:
        # On the left state 1 is filled, 2 digits; on the right 1 digits, 2 filled.
        is_first = (char == fill) is not padding.is_right
        if char != fill and not _is_digit(char):
            return None
        if is_first:
            return 1 if state in {0, 1} else None
        return 2 if padding.is_right is False or state > 0 else None

    return _Reader(number, step, lambda state: state == 2 or (padding.is_right and state == 1))  # noqa: PLR2004  # states are numbers here


def _text(number: int, text: str) -> _Reader:
    return _Reader(
        number,
        lambda state, char: state + 1 if state < len(text) and text[state] == char else None,
        lambda state: state == len(text),
    )


def _digits(number: int, width: int) -> _Reader:
    return _Reader(
        number,
        lambda state, char: state + 1 if state < width and _is_digit(char) else None,
        lambda state: state == width,
    )


def _number(number: int, width: int) -> _Reader:
    """A number with zeros before it up to the width: a longer one has none.

    After a zero the states are how many digits there are, after another first digit the same above `width`.
    """

    def step(state: int, char: str) -> int | None:
        if not _is_digit(char):
            return None
        if state == 0:
            return 1 if char == "0" else width + 1
        if state <= width:
            return state + 1 if state < width else None
        return min(state + 1, 2 * width)

    return _Reader(number, step, lambda state: state in {width, 2 * width})


def _many(number: int, takes: Callable[[str], bool]) -> _Reader:
    return _Reader(number, lambda _, char: 1 if takes(char) else None, lambda state: state == 1)


def _is_digit(char: str) -> bool:
    return char.isascii() and char.isdigit()
