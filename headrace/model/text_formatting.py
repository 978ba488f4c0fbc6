"""Texts for people: numbers, and the name that was meant."""

from collections.abc import Iterable
from difflib import get_close_matches

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_STEP = 1000


def bytes_text(count: float) -> str:
    """A number of bytes with a decimal unit, three digits or so.

    >>> bytes_text(999), bytes_text(1500), bytes_text(268435456)
    ('999 B', '1.5 kB', '268 MB')
    """
    for unit in _UNITS:
        if count < _STEP or unit == _UNITS[-1]:
            break
        count /= _STEP
    return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"  # noqa: PLR2004 - as said


def counted(number: int, noun: str) -> str:
    """A number of things: the noun with an s unless there is one.

    >>> counted(1, "object"), counted(2000, "record")
    ('1 object', '2,000 records')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def similar(name: str, known: Iterable[str], *, least: float = 0.6) -> str | None:
    """The known name that this one resembles most; None where none does at least so much.

    >>> similar("topc", ["topic", "timestamp"]), similar("offset", ["topic"])
    ('topic', None)
    """
    found = get_close_matches(name, list(known), n=1, cutoff=least)
    return found[0] if found else None


def did_you_mean(found: str | None, *, otherwise: str) -> str:
    """The second half of a sentence about an unknown name: the one that was meant, else what else to do.

    >>> did_you_mean("topic", otherwise="remove it"), did_you_mean(None, otherwise="remove it")
    ('did you mean topic?', 'remove it')
    """
    return otherwise if found is None else f"did you mean {found}?"
