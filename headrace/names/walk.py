"""Literal templates matched without backtracking, in time of key length times number of tokens.

A regular expression with several placeholders that may give characters back, such as
`{{any}}-{{any}}-{{topic}}`, can cost a power of the key's length. These go through a table instead: for each
token, the places of the key from which the rest of the template can still match. It picks what a greedy
expression picks.
"""

from collections.abc import Sequence
from itertools import pairwise

from headrace.names.pattern import accepts
from headrace.names.template_source import Placeholder, Text, Token

Captures = list[tuple[Placeholder, str | None]]


def match_exactly(tokens: Sequence[Token], key: str, start: int) -> Captures | None:
    """What each placeholder takes when all tokens take `key[start:]`, each the most it can; else None."""
    tables = _possible_starts(tokens, key)
    if not tables[0][start]:
        return None
    captures: Captures = []
    position = start
    for token, (_, after) in zip(tokens, pairwise(tables), strict=True):
        end = max(place for place in _ends(token, key, position) if after[place])
        if isinstance(token, Placeholder):
            captures.append((token, key[position:end]))
        position = end
    return captures


def reach(tokens: Sequence[Token], key: str, start: int) -> tuple[int, int]:
    """How far an exact match gets, for a person: tokens taken, and the farthest place after them."""
    places = {start}
    for taken, token in enumerate(tokens):
        following = {end for place in places for end in _ends(token, key, place)}
        if not following:
            return taken, max(places)
        places = following
    return len(tokens), max(places)


def _possible_starts(tokens: Sequence[Token], key: str) -> list[bytearray]:
    """For each token, and for the end, the places from which it and all after it can take the key's rest."""
    after = bytearray(len(key) + 1)
    after[len(key)] = 1
    tables = [after]
    for token in reversed(tokens):
        here = bytearray(len(key) + 1)
        if isinstance(token, Text):
            width = len(token.text)
            for place in range(len(key) - width, -1, -1):
                here[place] = after[place + width] and key.startswith(token.text, place)
        elif token.width is not None:
            for place in range(len(key) - token.width, -1, -1):
                here[place] = (
                    after[place + token.width] and _run(token, key, place, token.width) == token.width
                )
        else:
            _fill_run(token, key, here, after)
        tables.append(here)
        after = here
    tables.reverse()
    return tables


def _fill_run(token: Placeholder, key: str, here: bytearray, after: bytearray) -> None:
    may_be_empty = token.name == "any"
    here[len(key)] = may_be_empty and after[len(key)]
    for place in range(len(key) - 1, -1, -1):
        longer = accepts(token, key[place]) and (here[place + 1] or after[place + 1])
        here[place] = longer or (may_be_empty and after[place])


def _ends(token: Token, key: str, place: int) -> range:
    """Places at which a token that begins at `place` can end."""
    if isinstance(token, Text):
        end = place + len(token.text)
        return range(end, end + key.startswith(token.text, place))
    if token.width is not None:
        end = place + token.width
        return range(end, end + (_run(token, key, place, token.width) == token.width))
    longest = _run(token, key, place, len(key))
    return range(place + (token.name != "any"), place + longest + 1)


def _run(token: Placeholder, key: str, place: int, limit: int) -> int:
    """How many characters from `place` on a placeholder accepts, at most `limit`."""
    end = min(len(key), place + limit)
    length = 0
    while place + length < end and accepts(token, key[place + length]):
        length += 1
    return length
